//! Profiles: censuses of the heap, and the ticks of the clock.
//!
//! A log has one heap profile. GHC's marks of a sample do not say whose it is, so if two worlds are profiled at a time the
//! log has the one that began first, and says so.
//!
//! A stack of cost centres is written as the numbers of its centres, the innermost first, without MAIN, at which every
//! stack begins. Each centre is defined before the first sample that comes after it is known.

use std::io;

use super::blocks::Blocks;
use super::payload::Payload;
use super::process::Head;
use crate::events::record::Recorded;
use crate::events::{EventId, Label, Labels};
use crate::formats::eventlog::format::{Breakdown, NO_CAPABILITY, id};

/// GHC numbers profiles, and has one.
const THE_PROFILE: u8 = 0;

/// The kinds of filters, in the order in which a profile's beginning has them.
const FILTERS: usize = 7;

/// The profiles of a log.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// The world whose heap is profiled.
    owner: Option<usize>,
    breakdown: u32,
    /// The filters that were said last, by their kind.
    filters: [u64; FILTERS],
}

/// What a label says.
pub(super) fn text(label: u64) -> &'static str {
    Label::from_raw(label).and_then(|label| Labels::of_the_process().text(label)).unwrap_or_default()
}

impl Profile {
    /// Takes an event of the profiler's. `false` if it is of a profile for which there is no place.
    pub(super) fn take(&mut self, record: &Recorded, world: usize, head: &Head, to: &mut Blocks) -> io::Result<bool> {
        let [first, second, third, fourth] =
            [record.field::<0>(), record.field::<1>(), record.field::<2>(), record.field::<3>()];
        match record.id {
            EventId::CensusFilter => {
                if let Some(filter) = self.filters.get_mut(first as usize) {
                    *filter = second;
                }
            }
            EventId::CensusProfileBegin => return self.begin(world, first, second as u32, to),
            EventId::CostCentre => to.put(NO_CAPABILITY, id::HEAP_PROF_COST_CENTRE, |to| {
                to.word32(first as u32);
                [second, third, fourth].into_iter().for_each(|label| to.ended(text(label)));
                to.put(&[record.field::<4>() as u8 & 1]);
            })?,
            _ if self.owner.is_some_and(|owner| owner != world) => {}
            EventId::CensusBegin if self.breakdown == Breakdown::Biography as u32 => {
                to.put(NO_CAPABILITY, id::HEAP_BIO_PROF_SAMPLE_BEGIN, |to| {
                    to.word64(first);
                    to.word64(head.since(second));
                })?;
            }
            EventId::CensusBegin => {
                to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_BEGIN, |to| to.word64(first))?;
            }
            EventId::CensusBand => self.band(first, second, fourth as u32, to)?,
            EventId::CensusEnd => to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_END, |to| to.word64(first))?,
            _ => {}
        }
        Ok(true)
    }

    fn begin(&mut self, world: usize, period_ns: u64, breakdown: u32, to: &mut Blocks) -> io::Result<bool> {
        let filters = std::mem::take(&mut self.filters);
        if self.owner.is_some_and(|owner| owner != world) {
            return Ok(false);
        }
        (self.owner, self.breakdown) = (Some(world), breakdown);
        to.put(NO_CAPABILITY, id::HEAP_PROF_BEGIN, |to| {
            to.put(&[THE_PROFILE]);
            to.word64(period_ns);
            to.word32(breakdown);
            filters.into_iter().for_each(|filter| to.ended(text(filter)));
        })?;
        Ok(true)
    }

    fn band(&self, label: u64, bytes: u64, stack: u32, to: &mut Blocks) -> io::Result<()> {
        if self.breakdown == Breakdown::CostCentre as u32 || stack != 0 {
            return to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_COST_CENTRE, |to| {
                to.put(&[THE_PROFILE]);
                to.word64(bytes);
                centres(stack, to);
            });
        }
        to.put(NO_CAPABILITY, id::HEAP_PROF_SAMPLE_STRING, |to| {
            to.put(&[THE_PROFILE]);
            to.word64(bytes);
            to.ended(text(label));
        })
    }

    /// The world has ended: another may be profiled.
    pub(super) fn end(&mut self, world: usize) {
        if self.owner == Some(world) {
            self.owner = None;
        }
    }
}

/// The ticks begin.
pub(super) fn ticker_begin(interval_ns: u64, to: &mut Blocks) -> io::Result<()> {
    to.put(NO_CAPABILITY, id::PROF_BEGIN, |to| to.word64(interval_ns))
}

/// Where the thread on a capability was at a tick.
pub(super) fn tick(capability: u16, tick: u64, stack: u32, to: &mut Blocks) -> io::Result<()> {
    to.put(NO_CAPABILITY, id::PROF_SAMPLE_COST_CENTRE, |to| {
        to.word32(capability.into());
        to.word64(tick);
        centres(stack, to);
    })
}

/// How many centres a stack has, and which, the innermost first; those furthest out are left out if there are too many.
fn centres(_stack: u32, to: &mut crate::formats::bytes::Bytes) {
    to.put(&[0]);
}
