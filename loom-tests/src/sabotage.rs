//! The module that the shipped files use as `crate::sabotage`. In this crate the guards can be removed.
//!
//! An environment variable, set by [`crate::known_bad`] for a variant, names the guards that are removed in this process.

use std::sync::OnceLock;

/// The variable with the names of the guards to remove, separated by commas.
pub(crate) const VARIABLE: &str = "LOOM_TESTS_REMOVED";

macro_rules! guards {
    ($($guard:ident)*) => {
        /// The guards of the pure protocol files, with their names from `stopworld-platform/src/sabotage.rs`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Guard { $($guard),* }

        const ALL: &[Guard] = &[$(Guard::$guard),*];
    };
}

guards! {
    StopLate StopExitRace StopCreateRace StopTwoCollectors StopPublish StopBlocking StopStalePermit StopInterrupted
    SyncLostWake SyncTimedOut EventGate EventExact EventRecheck EventBarrier EventPublish EventNotify EventAsyncFile EventSlot LiveRing
    ProfileTree PromiseWhole PromiseSlot PromiseTrace
    ArenaScopes MarkFree MarkHelpers MarkRanges MarkStart MarkTermination MarkSnapshot
    VtableNested VtableSwap VtableCreatedUnderLock DebugFrozenWaiter DebugAcknowledged DebugCountedTwice DebugDies
    DebugControl DebugMissed DebugLost DebugStart DebugLies DebugExits DebugAnswers
    DebugLatched DebugTracerFirst DebugAskedLate DebugAgain DebugThawLater DebugNumber DebugSignalledBefore DebugParks
}

/// Returns whether the guard is removed in this process.
pub(crate) fn removed(guard: Guard) -> bool {
    static CHOSEN: OnceLock<Vec<Guard>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let names = std::env::var(VARIABLE).unwrap_or_default();
        let named = |name: &str| {
            let guard = ALL.iter().find(|guard| format!("{guard:?}") == name);
            *guard.unwrap_or_else(|| panic!("{VARIABLE}={names}: there is no guard {name}"))
        };
        names.split(',').filter(|name| !name.is_empty()).map(named).collect()
    });
    chosen.contains(&guard)
}
