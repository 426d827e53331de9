//! Firing: one function per event of the table.
//!
//! **What firing costs.** `fire_…` is inlined: one relaxed load of its group's word, one test of a constant bit, a
//! predicted branch. The rest, for an enabled event, is an out-of-line, cold function with a symbol for breakpoints
//! (`stopworld_fire_gc_start`). It is an `extern "C"` function, so a sink that panics aborts the process with a message
//! and does not unwind through the stopped world.
//!
//! **What a probe costs.** The probe for gdb, perf and bpftrace (`usdt`) is a nop in that cold function. The function has only one
//! copy, and the fields are in registers there anyway. It is called while there is a listener or a tracer:
//! a single check combines the event's bit and the probe's semaphore. So firing an event with a probe costs two loads and an
//! `or` more than firing an event without a probe, and no additional jump (`.event.probes`).

use super::listeners::now_ns;
use super::record;
use super::sink::Record;
use super::source::Events;
use super::table::{EventId, FieldType, Group, PAYLOAD_WORDS};
use crate::os;

/// The number of tracers attached to the event's probe; 0 without a probe.
macro_rules! probe_lookers {
    ([]) => {
        0
    };
    ([$probe:ident]) => {
        probes::$probe.lookers()
    };
}

/// The probe's nop and note, if the event has a probe.
macro_rules! probe_site {
    ([] $($field:ident: $type:ident),*) => {};
    ([$probe:ident] $($field:ident: $type:ident),*) => {
        // SAFETY: the name is an identifier, and the semaphores in `probes` are all in the required section.
        unsafe { os::probe::site!("stopworld", $probe, probes::$probe, $($field: $type),*) }
    };
}

macro_rules! fire_functions {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident {
            net $net:tt
            mps $mps:tt
            ghc $ghc:tt
            $(usdt [$probe:ident])?
            fields {$($field:ident: $type:ident [$unit:ident] $fdoc:literal $(since $since:literal)?),* $(,)?}
        }
    )+}) => {
        /// The semaphores of the probes: each counts the attached tracers.
        #[allow(non_upper_case_globals, reason = "they are named after their probes")]
        mod probes {
            use crate::os::probe::Semaphore;
            $($(
                #[unsafe(link_section = ".probes")]
                pub(super) static $probe: Semaphore = Semaphore::new();
            )?)+
        }

        /// One function per event of the table. Each costs a load, a test and a branch while there is no listener.
        impl Events {$(
            $(#[doc = $doc])+
            #[inline(always)]
            pub fn $fire(&self $(, $field: $type)*) {
                // SAFETY: the symbol consists of the names of this crate and this event, and each event is in the table once.
                #[unsafe(export_name = concat!("stopworld_", stringify!($fire)))]
                #[cold]
                #[inline(never)]
                extern "C" fn enabled(events: &Events $(, $field: $type)*) {
                    probe_site!([$($probe)?] $($field: $type),*);
                    events.deliver(EventId::$name, || [$($field.into_word()),*]);
                }

                const GROUP: usize = EventId::$name.group() as usize;
                const MASK: u32 = EventId::$name.mask();
                if self.enabled.word(GROUP) & MASK | probe_lookers!([$($probe)?]) != 0 {
                    enabled(self $(, $field)*);
                }
            }
        )+}
    };
}

for_each_event!(fire_functions);

impl Events {
    /// Records an enabled event, and notifies the listeners: the part that all fire functions have in common.
    #[inline(always)]
    fn deliver<const N: usize>(&self, id: EventId, fields: impl Fn() -> [u64; N]) {
        if let Some(world) = self.recorded_world()
            && world.seems_wanted(id)
        {
            record::fire::fire(world, id, &fields);
        }
        if self.heard.word(id.group() as usize) & id.mask() != 0 {
            self.report(id, &fields());
        }
    }

    /// Makes the record and passes it to the listeners.
    #[inline(never)]
    fn report(&self, id: EventId, fields: &[u64]) {
        let mut words = [0; PAYLOAD_WORDS];
        words.iter_mut().zip(fields).for_each(|(word, field)| *word = *field);
        // The id takes a system call of 50 ns and more: acceptable for an event that is fired a few times per collection, but not for
        // one that is fired once per object.
        let tid = if matches!(id.group(), Group::Object) { 0 } else { os::thread::gettid().0 as u32 };
        self.listeners.record(Record { timestamp: now_ns(), tid, id, words });
    }

    /// Returns the time of this event's record, in ticks of the recorder's clock, if it is the calling thread's latest record.
    pub(crate) fn recorded_at(&self, id: EventId) -> Option<u64> {
        record::fire::time_of_last(self.recorded_world()?, id)
    }
}
