//! Profiles: censuses of the heap, and the ticks of the clock.
//!
//! A log has one heap profile. GHC's marks of a sample do not say whose it is, so if two worlds are profiled at a time the
//! log has the one that began first, and says so. Nor does a tick say how long it is: a log has ticks of one length, the first that there
//! was, and says of which worlds it leaves them out.
//!
//! A stack of cost centres is written as the numbers of its centres, the innermost first, without MAIN, at which every
//! stack begins. There is room for 255 of them. Bands whose stacks are the same up to there are one band, since a sample may have
//! each stack once: they [come](crate::profile::census::profiler) one after the other, so the last is kept until another comes.
//!
//! **Centres** are read from the store of the process, so that a log that begins late has them all. Where a profile begins, all that
//! are known are defined as GHC does it: first the seven that every program has, then the others in the order of falling numbers,
//! down to 1. A centre that is first entered later is defined then. So that the numbers of a program's centres begin
//! at 1, those of the built-in ones are above all others in the file.
//!
//! hs-speedscope does not look at the numbers: it leaves out the first seven definitions of a file and takes the others from the
//! last one on, which is 1. So a log with ticks ends with all definitions of the program's centres once more, falling to 1. They are
//! behind each flush, and the next write goes over them, so that they are at the end of a killed run's log too. (It also leaves out
//! the ticks of a stack of the highest number alone; with all definitions twice there is a higher one.)

use std::io;

use super::blocks::Blocks;
use super::board::Begun;
use super::payload::Payload;
use super::process::Head;
use crate::events::record::Recorded;
use crate::events::{EventId, Label, Labels};
use crate::profile::census::Breakdown;
use crate::profile::census::profiler::DEEPEST;
use crate::profile::{self, CentreId, StackId};
use ghc_eventlog::format::{MOST_CENTRES, NO_CAPABILITY, VARIABLE_HEAD, id};
use trace_io::bytes::Bytes;

/// GHC numbers profiles, and has one.
const THE_PROFILE: u8 = 0;

/// The kinds of filters, in the order in which a profile's beginning has them.
const FILTERS: usize = 7;
const BY_BIOGRAPHY: usize = 6;

const _: () = assert!(DEEPEST == MOST_CENTRES, "what is cut here comes in order");

/// The store of cost centres has room for less.
const CENTRES: u32 = 1 << 20;
/// Definitions that are put behind a flush, at most.
const MOST_AT_A_FLUSH: u32 = 4096;

/// The profiles of a log.
#[derive(Debug)]
pub(super) struct Profile {
    /// The world whose heap is profiled.
    owner: Option<usize>,
    breakdown: u32,
    /// Its samples are known at the end, and have times of their own.
    looks_back: bool,
    /// The band of a stack that is cut, and its bytes, as long as more may come to it.
    cut: Option<(StackId, u64)>,
    /// The filters that were said last, by their kind.
    filters: [u64; FILTERS],
    /// A bit for each centre that is defined in the file.
    defined: Box<[u64]>,
    /// All that there were when a profile began are.
    begun: bool,
    /// The nanoseconds of a tick, if there are ticks.
    interval_ns: Option<u64>,
}

/// What a label says.
pub(super) fn text(label: u64) -> &'static str {
    Label::from_raw(label).and_then(|label| Labels::of_the_process().text(label)).unwrap_or_default()
}

impl Profile {
    pub(super) fn new() -> Profile {
        let defined = vec![0; CENTRES as usize / 64].into();
        Profile {
            owner: None,
            breakdown: 0,
            looks_back: false,
            cut: None,
            filters: [0; FILTERS],
            defined,
            begun: false,
            interval_ns: None,
        }
    }

    /// Takes an event of the profiler's. `false` if it is of a profile for which there is no place.
    pub(super) fn take(&mut self, record: &Recorded, world: usize, head: &Head, to: &mut Blocks) -> io::Result<bool> {
        let [first, second, fourth] = [record.field::<0>(), record.field::<1>(), record.field::<3>()];
        match record.id {
            EventId::CensusFilter => {
                if let Some(filter) = self.filters.get_mut(first as usize) {
                    *filter = second;
                }
            }
            EventId::CensusProfileBegin => return self.begin(world, first, second as u32, to),
            EventId::CostCentre if self.begun => self.define(CentreId::from_raw(first as u32), to)?,
            _ if self.owner.is_some_and(|owner| owner != world) => {}
            EventId::CensusBegin if self.looks_back => {
                self.put_cut(to)?;
                to.put(NO_CAPABILITY, id::HEAP_BIO_PROF_SAMPLE_BEGIN, |to| {
                    to.word64(first);
                    to.word64(head.since(second));
                })?;
            }
            EventId::CensusBegin => {
                self.put_cut(to)?;
                to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_BEGIN, |to| to.word64(first))?;
            }
            EventId::CensusBand => self.band(first, second, fourth as u32, to)?,
            EventId::CensusEnd => {
                self.put_cut(to)?;
                to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_END, |to| to.word64(first))?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// A world's profile that has begun before the log did.
    pub(super) fn runs(&mut self, world: usize, begun: Begun, to: &mut Blocks) -> io::Result<()> {
        if self.owner.is_some() {
            return Ok(());
        }
        self.filters = begun.filters;
        self.begin(world, begun.period_ns, begun.breakdown, to).map(drop)
    }

    fn begin(&mut self, world: usize, period_ns: u64, breakdown: u32, to: &mut Blocks) -> io::Result<bool> {
        let filters = std::mem::take(&mut self.filters);
        if self.owner.is_some_and(|owner| owner != world) {
            return Ok(false);
        }
        (self.owner, self.breakdown) = (Some(world), breakdown);
        self.looks_back = breakdown == Breakdown::Biography as u32 || filters[BY_BIOGRAPHY] != 0;
        to.put(NO_CAPABILITY, id::HEAP_PROF_BEGIN, |to| {
            to.put(&[THE_PROFILE]);
            to.word64(period_ns);
            to.word32(breakdown);
            filters.into_iter().for_each(|filter| to.ended(text(filter)));
        })?;
        self.define_all(to)?;
        Ok(true)
    }

    fn band(&mut self, label: u64, bytes: u64, stack: u32, to: &mut Blocks) -> io::Result<()> {
        if self.breakdown == Breakdown::CostCentre as u32 || stack != 0 {
            self.define_stack(stack, to)?;
            let stack = StackId::from_raw(stack);
            if !is_cut(stack) {
                return put_band(stack, bytes, to);
            }
            if let Some((before, sum)) = &mut self.cut
                && kept(*before).eq(kept(stack))
            {
                *sum = sum.saturating_add(bytes);
                return Ok(());
            }
            self.put_cut(to)?;
            self.cut = Some((stack, bytes));
            return Ok(());
        }
        to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_STRING, |to| {
            to.put(&[THE_PROFILE]);
            to.word64(bytes);
            to.ended(text(label));
        })
    }

    /// Puts the band to which no more comes.
    fn put_cut(&mut self, to: &mut Blocks) -> io::Result<()> {
        self.cut.take().map_or(Ok(()), |(stack, bytes)| put_band(stack, bytes, to))
    }

    /// The ticks of a world begin, or have begun before the log did. `false` if they are longer or shorter than those that the log has.
    pub(super) fn begin_ticks(&mut self, interval_ns: u64, to: &mut Blocks) -> io::Result<bool> {
        if let Some(first) = self.interval_ns {
            return Ok(first == interval_ns);
        }
        self.interval_ns = Some(interval_ns);
        to.put(NO_CAPABILITY, id::PROF_BEGIN, |to| to.word64(interval_ns))?;
        self.define_all(to)?;
        Ok(true)
    }

    /// Where the thread on a capability was at a tick. What has no capability ticks on that of nobody.
    pub(super) fn tick(&mut self, capability: Option<u16>, tick: u64, stack: u32, to: &mut Blocks) -> io::Result<()> {
        self.define_stack(stack, to)?;
        to.put(NO_CAPABILITY, id::PROF_SAMPLE_COST_CENTRE, |to| {
            to.word32(capability.unwrap_or(NO_CAPABILITY).into());
            to.word64(tick);
            centres(StackId::from_raw(stack), to);
        })
    }

    /// The world has ended: another may be profiled.
    pub(super) fn end(&mut self, world: usize) {
        if self.owner == Some(world) {
            (self.owner, self.cut) = (None, None);
        }
    }

    // ---- Centres -------------------------------------------------------------------------------------------------------

    /// All that there are, in GHC's order.
    fn define_all(&mut self, to: &mut Blocks) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        // Asked first: it is what makes the store readable, if nobody has defined anything yet.
        let last = last_of_the_program();
        for centre in CentreId::BUILT_IN.into_iter().rev() {
            self.define(Some(centre), to)?;
        }
        for centre in falling_from(last) {
            self.define(Some(centre), to)?;
        }
        Ok(())
    }

    /// The definitions that belong at a log's end, if it has ticks.
    pub(super) fn last_definitions(&self) -> Option<LastDefinitions> {
        self.interval_ns.map(|_| LastDefinitions(last_of_the_program()))
    }

    fn define_stack(&mut self, stack: u32, to: &mut Blocks) -> io::Result<()> {
        StackId::from_raw(stack).centres().try_for_each(|centre| self.define(Some(centre), to))
    }

    /// Defines a centre, if the file does not have it and it is complete.
    fn define(&mut self, centre: Option<CentreId>, to: &mut Blocks) -> io::Result<()> {
        let Some(centre) = centre else { return Ok(()) };
        let [label, ..] = centre.labels();
        let (word, bit) = (centre.get() as usize / 64, 1 << (centre.get() % 64));
        match self.defined.get_mut(word) {
            Some(word) if *word & bit == 0 && label != 0 => *word |= bit,
            _ => return Ok(()),
        }
        put_definition(centre, to)
    }
}

fn put_definition(centre: CentreId, to: &mut Blocks) -> io::Result<()> {
    to.put(NO_CAPABILITY, id::HEAP_PROF_COST_CENTRE, |to| {
        to.word32(number_of(centre));
        centre.labels().into_iter().for_each(|part| to.ended(text(part)));
        to.put(&[centre.is_caf().into()]);
    })
}

/// The highest number of the program's centres.
fn last_of_the_program() -> u32 {
    profile::centres().last().map_or(0, CentreId::get)
}

/// The centres of the program up to this one, in falling order.
fn falling_from(last: u32) -> impl Iterator<Item = CentreId> {
    (CentreId::BUILT_IN.len() as u32 + 1..=last).rev().filter_map(CentreId::from_raw)
}

/// The definitions of all centres of the program, of which there are some up to this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastDefinitions(u32);

impl LastDefinitions {
    /// Puts them. One that is not complete yet is put without texts, so that the others have their places.
    pub(super) fn put(self, to: &mut Blocks) -> io::Result<()> {
        falling_from(self.0).try_for_each(|centre| put_definition(centre, to))
    }

    /// How many bytes that are; `None` if they are not complete, or too many for each flush.
    pub(super) fn bytes_for_a_flush(self) -> Option<usize> {
        let of_centre = |centre: CentreId| {
            let labels = Some(centre.labels()).filter(|labels| labels[0] != 0)?;
            let texts = labels.into_iter().map(|label| text(label).len() + 1);
            Some(VARIABLE_HEAD + size_of::<u32>() + texts.sum::<usize>() + 1)
        };
        if self.0 > MOST_AT_A_FLUSH { None } else { falling_from(self.0).map(of_centre).sum() }
    }
}

/// A centre's number in the file.
fn number_of(centre: CentreId) -> u32 {
    if centre.is_built_in() { CENTRES + centre.get() } else { centre.get() - CentreId::BUILT_IN.len() as u32 }
}

fn put_band(stack: StackId, bytes: u64, to: &mut Blocks) -> io::Result<()> {
    to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_COST_CENTRE, |to| {
        to.put(&[THE_PROFILE]);
        to.word64(bytes);
        centres(stack, to);
    })
}

/// The centres of a stack that are written, the innermost first: those furthest out are left out if there are too many.
fn kept(stack: StackId) -> impl Iterator<Item = CentreId> {
    stack.centres().take(MOST_CENTRES)
}

fn is_cut(stack: StackId) -> bool {
    stack.centres().nth(MOST_CENTRES).is_some()
}

/// How many centres of a stack are written, and which.
fn centres(stack: StackId, to: &mut Bytes) {
    to.put(&[kept(stack).count() as u8]);
    kept(stack).for_each(|centre| to.word32(number_of(centre)));
}
