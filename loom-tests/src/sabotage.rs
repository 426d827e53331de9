//! What the shipped files know as `crate::sabotage`: here the guards can really be taken out.
//!
//! The guards of a process are named by the environment variable that [`crate::known_bad`] sets for a variant.

use std::sync::OnceLock;

/// The variable that names the guards to take out, separated by commas.
pub(crate) const VARIABLE: &str = "LOOM_TESTS_REMOVED";

macro_rules! guards {
    ($($guard:ident)*) => {
        /// The guards of the pure protocol files, by the names that they have in `src/sabotage.rs`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Guard { $($guard),* }

        const ALL: &[Guard] = &[$(Guard::$guard),*];
    };
}

guards! {
    StopLate StopExitRace StopCreateRace StopTwoCollectors StopPublish StopBlocking StopStalePermit StopInterrupted
    SyncLostWake SyncTimedOut EventGate EventExact EventRecheck EventBarrier EventPublish EventBell EventBehind EventPlace LiveRing
    ProfileTree
    MarkTermination MarkGlance
    VtableNested VtableSwap VtableCreatedUnderLock DebugFrozenWaiter DebugAcknowledged DebugCountedTwice DebugDies
    DebugControl DebugLost DebugStart DebugLies
    DebugLatched DebugTracerFirst DebugAskedLate DebugAgain DebugThawLater DebugNumber DebugSignalledBefore DebugParks
}

/// Whether this process runs without the guard.
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
