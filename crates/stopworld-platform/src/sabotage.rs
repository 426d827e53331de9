//! Guards that a test build can remove, to show that their tests then fail.
//!
//! Every hazard that the design names has a guard in the code and a test. A test that still passes without its guard proves
//! nothing. A build with `--cfg stopworld_sabotage` therefore compiles a switch into each guard, and the environment variable
//! `STOPWORLD_SABOTAGE` names the one to remove. The ordinary build has no switch: [`removed`] is a constant there, and the
//! branch is compiled away.

macro_rules! guards {
    ($($variant:ident = $tag:literal),* $(,)?) => {
        /// A guard that the sabotage build can remove, named by the requirement that it upholds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(dead_code, reason = "the ordinary build never reads the value")]
        pub enum Guard { $(#[doc = $tag] $variant),* }

        #[cfg(stopworld_sabotage)]
        const TAGS: &[(Guard, &str)] = &[$((Guard::$variant, $tag)),*];
    };
}

guards! {
    StopNoMalloc = "stop.no-malloc",
    StopNoMutator = "stop.no-mutator",
    StopMidAlloc = "stop.mid-alloc",
    StopRegisters = "stop.registers",
    StopRedZone = "stop.red-zone",
    StopInterior = "stop.interior",
    StopOnePastEnd = "stop.one-past-end",
    StopLate = "stop.late",
    StopLost = "stop.lost",
    StopEintr = "stop.eintr",
    StopErrno = "stop.errno",
    StopExitRace = "stop.exit-race",
    StopSilentDeath = "stop.silent-death",
    StopCreateRace = "stop.create-race",
    StopTwoCollectors = "stop.two-collectors",
    StopFork = "stop.fork",
    StopAltstack = "stop.altstack",
    StopOwnStack = "stop.own-stack",
    StopLocks = "stop.locks",
    StopJobControl = "stop.jobcontrol",
    StopCoroutine = "stop.coroutine",
    StopPublish = "stop.publish-first",
    StopBlocking = "stop.blocking",
    StopProgress = "stop.progress",
    StopStalePermit = "stop.stale-permit",
    StopInterrupted = "stop.interrupted",
    SyncLostWake = "sync.lost-wake",
    SyncTimedOut = "sync.timed-out",
    ForkServices = "fork.services",
    ForkThaw = "fork.thaw",
    ForkThreads = "fork.threads",
    FinalThread = "final.thread",
    FinalOrder = "final.order",
    WeakClear = "weak.clear",
    WeakEphemeron = "weak.ephemeron",
    MarkOverflow = "mark.overflow",
    MarkUntyped = "mark.untyped",
    MarkFree = "mark.free",
    MarkHelpers = "mark.helpers",
    MarkRanges = "mark.ranges",
    MarkStart = "mark.start",
    MarkTermination = "mark.termination",
    MarkSnapshot = "mark.snapshot",
    ArenaScopes = "arena.scopes",
    HeapLimit = "heap.limit",
    HeapReserve = "heap.reserve",
    HeapFreed = "heap.freed",
    VtableExactRestore = "vtable.exact-restore",
    VtableNested = "vtable.nested",
    VtableSwap = "vtable.swap",
    VtableCreatedUnderLock = "vtable.created-under-lock",
    VtableExitedBeforeFree = "vtable.exited-before-free",
    VtableAttach = "vtable.attach",
    DebugFrozenOwner = "debug.frozen-owner",
    DebugFrozenWaiter = "debug.frozen-waiter",
    DebugDies = "debug.dies",
    DebugAcknowledged = "debug.acknowledged",
    DebugCountedTwice = "debug.counted-twice",
    DebugControl = "debug.control",
    DebugMissed = "debug.missed",
    DebugLost = "debug.lost",
    DebugStart = "debug.start",
    DebugLies = "debug.lies",
    DebugExits = "debug.exits",
    DebugAnswers = "debug.answers",
    EventGate = "event.gate",
    EventExact = "event.exact",
    EventObjects = "event.objects",
    EventRecheck = "event.recheck",
    EventBarrier = "event.barrier",
    EventPublish = "event.publish",
    EventNotify = "event.notify",
    EventAsyncFile = "event.async-file",
    EventSlot = "event.slot",
    EventNoBlock = "event.no-block-in-handler",
    EventNested = "event.nested",
    EventNoWait = "event.no-wait",
    LiveRing = "live.ring",
    ProfileCharge = "profile.charge",
    ProfileSamples = "profile.samples",
    ProfileTree = "profile.tree",
    CensusExact = "census.exact",
    RetainerBound = "retainer.bound",
    BiographyExact = "biography.exact",
    HostBounded = "host.bounded",
    HostOwnThread = "host.own-thread",
    PromiseWhole = "promise.whole",
    PromiseSlot = "promise.slot",
    PromiseTrace = "promise.trace",
    PromiseKeep = "promise.keep",
}

/// Whether this guard is removed. Constant `false` in the ordinary build.
#[cfg(not(stopworld_sabotage))]
#[inline(always)]
pub const fn removed(_: Guard) -> bool {
    false
}

#[cfg(stopworld_sabotage)]
static CHOSEN: crate::sync::AtomicUsize = crate::sync::AtomicUsize::new(0);

/// Whether this guard is removed by `STOPWORLD_SABOTAGE`.
#[cfg(stopworld_sabotage)]
#[inline]
pub fn removed(guard: Guard) -> bool {
    CHOSEN.load(crate::sync::Ordering::Relaxed) == guard as usize + 1
}

/// Reads `STOPWORLD_SABOTAGE` once, when a world is built (never inside a stop: it allocates).
#[cfg(stopworld_sabotage)]
pub fn choose() {
    if let Ok(tag) = std::env::var("STOPWORLD_SABOTAGE") {
        let index = TAGS.iter().find(|(_, t)| *t == tag).map(|(g, _)| *g as usize + 1);
        CHOSEN.store(
            index.unwrap_or_else(|| panic!("STOPWORLD_SABOTAGE={tag}: no guard of that name")),
            crate::sync::Ordering::Relaxed,
        );
    }
}

/// Does nothing in the ordinary build.
#[cfg(not(stopworld_sabotage))]
pub const fn choose() {}
