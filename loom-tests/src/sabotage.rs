//! What the shipped files know as `crate::sabotage`: here the guards can really be taken out.
//!
//! One guard per process, named by the environment variable that [`crate::check`] sets for a known-bad variant.

use std::sync::OnceLock;

/// The variable that names the guard to take out.
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
    static CHOSEN: OnceLock<Option<Guard>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok()?;
        let guard = ALL.iter().find(|guard| format!("{guard:?}") == name);
        Some(*guard.unwrap_or_else(|| panic!("{VARIABLE}={name}: no guard of that name")))
    });
    *chosen == Some(guard)
}
