//! Firing: one function per event of the table.
//!
//! **What firing costs.** `fire_…` is inlined: one relaxed load of its group's word, one test of a constant bit, a
//! predicted branch. The enabled half is out of line, cold, and has a name that a debugger can break at
//! (`stopworld_fire_gc_start`); it is an `extern "C"` function, so a sink that panics aborts the process with a message
//! and does not unwind through the stopped world.
//!
//! **What a probe costs.** The place at which gdb, perf and bpftrace look (`usdt`) is a nop in that cold half, where the
//! fields are in registers anyway and of which there is one. The way there is open while somebody listens or somebody looks:
//! the check takes both in one, the event's bit and the probe's semaphore. So an event with a probe costs two loads and an
//! `or` more than one without, and no jump of its own (`.event.probes`).

use super::Events;
use super::table::{EventId, FieldType};
use crate::os;

/// Whether somebody looks at the probe, if there is one: not 0 then.
macro_rules! probe_lookers {
    ([]) => {
        0
    };
    ([$probe:ident]) => {
        probes::$probe.lookers()
    };
}

/// The place of the probe, if there is one.
macro_rules! probe_site {
    ([] $($field:ident: $type:ident),*) => {};
    ([$probe:ident] $($field:ident: $type:ident),*) => {
        // SAFETY: a plain name, and a semaphore of `probes`, which are all in their section.
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
        /// Who looks at the probes.
        #[allow(non_upper_case_globals, reason = "they are called as their probes")]
        mod probes {
            use crate::os::probe::Semaphore;
            $($(
                #[unsafe(link_section = ".probes")]
                pub(super) static $probe: Semaphore = Semaphore::new();
            )?)+
        }

        /// One function per event of the table. Each costs a load, a test and a branch while nobody listens.
        impl Events {$(
            $(#[doc = $doc])+
            #[inline(always)]
            pub fn $fire(&self $(, $field: $type)*) {
                // SAFETY: the symbol is named after this crate and this event, and the table has each event once.
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
