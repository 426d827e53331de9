//! Profiles: heap censuses, and the ticks of the time profile.
//!
//! A log has one heap profile, because the sample events of GHC do not name a heap. If two worlds are profiled at the same time, the
//! log has the profile that began first, and a message about the other. Tick events do not state the interval of the ticks either. So a log
//! has ticks of one interval, that of the first world with ticks, and a message for each world whose ticks are left out.
//!
//! A stack of cost centres is written as the numbers of its centres, innermost first, without MAIN, at which every stack begins. It
//! holds at most 255 of them. A sample may have each stack only once, so bands whose stacks are equal in the first 255 centres are
//! merged. Such bands [arrive](stopworld::profile::census::MOST_ORDERED_CENTRES) consecutively, so the last band is held back until another arrives.
//!
//! **Centres** are read from the process-wide store, so that a log that begins late has them all. Where the first profile begins, all
//! known centres are defined in the order that GHC uses: first the seven that every program has, then the others in descending order, down
//! to 1. A centre entered later for the first time is defined then. The numbers of a program's centres begin at 1, so the built-in
//! centres have higher numbers in the file than all others.
//!
//! hs-speedscope ignores the numbers: it skips the first seven definitions of a file and numbers the others backwards from the last
//! one, which it takes for 1. So a log with ticks ends with the definitions of all the program's centres once more, descending to 1.
//! They follow each flush, and the next write overwrites them, so the log of a killed run ends with them too. (hs-speedscope also
//! leaves out the ticks of a stack that has only the centre with the highest number; with all definitions twice there is a higher one.)

use std::io;

use super::blocks::Blocks;
use super::process::Head;
use super::shared_state::RunningProfile;
use super::text;
use ghc_eventlog::events::{self as ghc, CentreFlags, Ended, Filters, Payload, StackBuffer};
use ghc_eventlog::format::{FILTERS, MOST_CENTRES, NO_CAPABILITY, VARIABLE_HEAD};
use stopworld::events::Event;
use stopworld::profile::census::Breakdown;
use stopworld::profile::census::MOST_ORDERED_CENTRES;
use stopworld::profile::{self, CentreId, StackId};

/// The profile id. The format has a number for profiles, but GHC takes only one profile.
const THE_PROFILE: u8 = 0;

/// The filter by biography. The kinds of filters are in the order of the format.
const BY_BIOGRAPHY: usize = 6;

const _: () =
    assert!(MOST_ORDERED_CENTRES == MOST_CENTRES, "bands must be ordered by as many centres as are written here");

/// A number of centres larger than the store of cost centres can hold.
const CENTRES: u32 = 1 << 20;
/// Maximum number of definitions repeated after each flush.
const MOST_AT_A_FLUSH: u32 = 4096;

/// What the objects of a band amount to.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    objects: u64,
}

/// The profiles of a log.
#[derive(Debug)]
pub(super) struct Profile {
    /// The world whose heap is profiled.
    owner: Option<usize>,
    breakdown: u32,
    /// Whether its samples are computed at the end (biography) and contain the times that they describe.
    looks_back: bool,
    /// A band that is held back because its stack was truncated, and its size so far; the next band may have to be merged with it.
    cut: Option<(StackId, Size)>,
    /// The labels of the filters announced for the next profile, indexed by their kind.
    filters: [u64; FILTERS],
    /// A bit for each centre that is defined in the file.
    defined: Box<[u64]>,
    /// Whether the centres known at the beginning of the first profile have been defined.
    begun: bool,
    /// The interval of the ticks in nanoseconds, if the log has ticks.
    interval_ns: Option<u64>,
    /// The stack that is being written.
    stack: StackBuffer,
}

/// Returns the text of a label, as a field.
fn ended(label: u64) -> Ended<'static> {
    text::of_label(label).into()
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
            stack: StackBuffer::default(),
        }
    }

    /// Writes an event of the profiler. Returns false if the event begins a profile that the log cannot contain.
    pub(super) fn take(&mut self, event: &Event, world: usize, head: &Head, to: &mut Blocks) -> io::Result<bool> {
        match event {
            Event::CensusFilter(filter) => {
                if let Some(kept) = self.filters.get_mut(filter.kind as usize) {
                    *kept = filter.text;
                }
            }
            Event::CensusProfileBegin(begin) => return self.begin(world, begin.period_ns, begin.breakdown, to),
            Event::CostCentre(centre) if self.begun => self.define(CentreId::from_raw(centre.id), to)?,
            _ if self.owner.is_some_and(|owner| owner != world) => {}
            Event::CensusBegin(census) if self.looks_back => {
                self.put_cut(to)?;
                let (era, time) = (census.era, head.since(census.taken_ns));
                to.write(NO_CAPABILITY, &ghc::HeapBioProfSampleBegin { era, time })?;
            }
            Event::CensusBegin(census) => {
                self.put_cut(to)?;
                to.write(NO_CAPABILITY, &ghc::HeapProfSampleBegin { era: census.era })?;
            }
            Event::CensusBand(band) => {
                let size = Size { bytes: band.bytes, objects: band.objects };
                self.band(band.label, size, band.stack, to)?;
            }
            Event::CensusEnd(census) => {
                self.put_cut(to)?;
                to.write(NO_CAPABILITY, &ghc::HeapProfSampleEnd { era: census.era })?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// Begins a world's profile that was running before the log joined the world.
    pub(super) fn runs(&mut self, world: usize, begun: RunningProfile, to: &mut Blocks) -> io::Result<()> {
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
        let begin = ghc::HeapProfBegin {
            profile: THE_PROFILE,
            period: period_ns,
            breakdown: ghc::Breakdown(breakdown),
            filters: Filters(filters.map(ended)),
        };
        to.write(NO_CAPABILITY, &begin)?;
        self.define_all(to)?;
        Ok(true)
    }

    fn band(&mut self, label: u64, size: Size, stack: u32, to: &mut Blocks) -> io::Result<()> {
        if self.breakdown == Breakdown::CostCentre as u32 || stack != 0 {
            self.define_stack(stack, to)?;
            let stack = StackId::from_raw(stack);
            if !is_cut(stack) {
                return self.put_band(stack, size, to);
            }
            if let Some((before, sum)) = &mut self.cut
                && kept(*before).eq(kept(stack))
            {
                sum.bytes = sum.bytes.saturating_add(size.bytes);
                sum.objects = sum.objects.saturating_add(size.objects);
                return Ok(());
            }
            self.put_cut(to)?;
            self.cut = Some((stack, size));
            return Ok(());
        }
        let band = ghc::HeapProfSampleString { profile: THE_PROFILE, residency: size.bytes, label: ended(label) };
        to.write(NO_CAPABILITY, &band)?;
        put_objects(size, to)
    }

    fn put_band(&mut self, stack: StackId, size: Size, to: &mut Blocks) -> io::Result<()> {
        let stack = self.stack.fill(numbers(stack));
        let band = ghc::HeapProfSampleCostCentre { profile: THE_PROFILE, residency: size.bytes, stack };
        to.write(NO_CAPABILITY, &band)?;
        put_objects(size, to)
    }

    /// Writes the band that was held back. Called when no other band can be merged with it.
    fn put_cut(&mut self, to: &mut Blocks) -> io::Result<()> {
        self.cut.take().map_or(Ok(()), |(stack, size)| self.put_band(stack, size, to))
    }

    /// Begins the ticks of a world. Returns false if the log already has ticks with another interval.
    pub(super) fn begin_ticks(&mut self, interval_ns: u64, to: &mut Blocks) -> io::Result<bool> {
        if let Some(first) = self.interval_ns {
            return Ok(first == interval_ns);
        }
        self.interval_ns = Some(interval_ns);
        to.write(NO_CAPABILITY, &ghc::ProfBegin { interval: interval_ns })?;
        self.define_all(to)?;
        Ok(true)
    }

    /// Writes the stack of a thread at a tick. If the thread has no capability, the tick is written on [`NO_CAPABILITY`].
    pub(super) fn tick(&mut self, capability: Option<u16>, tick: u64, stack: u32, to: &mut Blocks) -> io::Result<()> {
        self.define_stack(stack, to)?;
        let cap = capability.unwrap_or(NO_CAPABILITY).into();
        let stack = self.stack.fill(numbers(StackId::from_raw(stack)));
        to.write(NO_CAPABILITY, &ghc::ProfSampleCostCentre { cap, tick, stack })
    }

    /// Ends the profile of a closed world. After that, another world may be profiled.
    pub(super) fn end(&mut self, world: usize) {
        if self.owner == Some(world) {
            (self.owner, self.cut) = (None, None);
        }
    }

    // ---- Centres -------------------------------------------------------------------------------------------------------

    /// Defines all known centres in the order of GHC, once per log.
    fn define_all(&mut self, to: &mut Blocks) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        // This comes first, because the call initialises the store if no centre has been defined yet.
        let last = last_of_the_program();
        for centre in CentreId::BUILT_IN.into_iter().rev() {
            self.define(Some(centre), to)?;
        }
        for centre in falling_from(last) {
            self.define(Some(centre), to)?;
        }
        Ok(())
    }

    /// Returns the definitions that belong at the end of the log, if it has ticks.
    pub(super) fn last_definitions(&self) -> Option<LastDefinitions> {
        self.interval_ns.map(|_| LastDefinitions(last_of_the_program()))
    }

    fn define_stack(&mut self, stack: u32, to: &mut Blocks) -> io::Result<()> {
        StackId::from_raw(stack).centres().try_for_each(|centre| self.define(Some(centre), to))
    }

    /// Defines a centre, unless the file has it already or the centre is not complete yet.
    fn define(&mut self, centre: Option<CentreId>, to: &mut Blocks) -> io::Result<()> {
        let Some(centre) = centre else { return Ok(()) };
        let [label, ..] = centre.labels();
        let (word, bit) = (centre.get() as usize / 64, 1 << (centre.get() % 64));
        match self.defined.get_mut(word) {
            Some(word) if *word & bit == 0 && label != 0 => *word |= bit,
            _ => return Ok(()),
        }
        to.write(NO_CAPABILITY, &definition(centre))
    }
}

/// Returns the definition of a centre. The texts of a centre that is not complete yet are empty.
fn definition(centre: CentreId) -> ghc::HeapProfCostCentre<'static> {
    let [label, module, place] = centre.labels().map(ended);
    let flags = if centre.is_caf() { CentreFlags::CAF } else { CentreFlags::default() };
    ghc::HeapProfCostCentre { id: number_of(centre), label, module, place, flags }
}

/// Returns the highest number of the program's centres.
fn last_of_the_program() -> u32 {
    profile::centres().last().map_or(0, CentreId::get)
}

/// Iterates over the program's centres from `last` down to the first.
fn falling_from(last: u32) -> impl Iterator<Item = CentreId> {
    (CentreId::BUILT_IN.len() as u32 + 1..=last).rev().filter_map(CentreId::from_raw)
}

/// The definitions of all the program's centres up to this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastDefinitions(u32);

impl LastDefinitions {
    /// Writes the definitions. A centre that is not complete yet is written without texts, so that the others keep their positions.
    pub(super) fn put(self, to: &mut Blocks) -> io::Result<()> {
        falling_from(self.0).try_for_each(|centre| to.write(NO_CAPABILITY, &definition(centre)))
    }

    /// Returns their size in bytes, or `None` if a centre is not complete or there are too many to repeat at each flush.
    pub(super) fn bytes_for_a_flush(self) -> Option<usize> {
        let of_centre = |centre: CentreId| {
            let [label, ..] = centre.labels();
            (label != 0).then(|| VARIABLE_HEAD + definition(centre).size())
        };
        if self.0 > MOST_AT_A_FLUSH { None } else { falling_from(self.0).map(of_centre).sum() }
    }
}

/// Writes the number of objects of the band that was just written.
fn put_objects(size: Size, to: &mut Blocks) -> io::Result<()> {
    to.write(NO_CAPABILITY, &ghc::HeapProfSampleObjects { profile: THE_PROFILE, objects: size.objects })
}

/// Returns a centre's number in the file.
fn number_of(centre: CentreId) -> u32 {
    if centre.is_built_in() { CENTRES + centre.get() } else { centre.get() - CentreId::BUILT_IN.len() as u32 }
}

/// Iterates over the centres of a stack that are written, innermost first. If there are too many, the outermost are left out.
fn kept(stack: StackId) -> impl Iterator<Item = CentreId> {
    stack.centres().take(MOST_CENTRES)
}

fn is_cut(stack: StackId) -> bool {
    stack.centres().nth(MOST_CENTRES).is_some()
}

/// Iterates over the numbers of a stack's centres in the file, innermost first.
fn numbers(stack: StackId) -> impl Iterator<Item = u32> {
    kept(stack).map(number_of)
}
