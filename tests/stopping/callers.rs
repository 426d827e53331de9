//! Which threads may collect, and which vtables may be set: every caller under every way of stopping, and vtables that are set twice, in
//! two worlds, or that share state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::hazard::patience::patience;
use crate::hazard::{builder, collect, spawn, wait_for};
use crate::numbered_list::{a_list, sum};
use rstest::rstest;
use stopworld::debugger::bridge::DebuggerBridge;
use stopworld::debugger::mock::{MockDebugger, MockEvent};
use stopworld::{
    AtFork, AtSwap, SafepointStopper, SignalStopper, Slot, StopError, StopRequest, Stopper, ThreadVtable, Tid, World,
};

/// The ways of stopping that are implemented in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Signals,
    Safepoints,
    /// A debugger that stops the threads itself.
    Full,
    /// A debugger that acknowledges for the threads that it holds.
    Assisted,
    AssistedAtSafepoints,
}

impl How {
    /// The debugger of this way, if it uses one.
    fn debugger(self) -> Option<Arc<MockDebugger>> {
        match self {
            Self::Signals | Self::Safepoints => None,
            Self::Full => Some(MockDebugger::new().unwrap()),
            Self::Assisted | Self::AssistedAtSafepoints => Some(MockDebugger::assisted().unwrap()),
        }
    }

    fn build(self, debugger: Option<&Arc<MockDebugger>>) -> World {
        let stopper = match self {
            Self::Safepoints | Self::AssistedAtSafepoints => Stopper::Safepoints,
            _ => Stopper::Signals,
        };
        let world = builder().stopper(stopper).build().unwrap();
        if let Some(debugger) = debugger {
            world.set_thread_vtable(Arc::clone(debugger) as Arc<dyn ThreadVtable>).unwrap();
        }
        world
    }
}

/// The thread that collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Mutator,
    /// A mutator, from its own blocking region.
    Blocking,
    /// A mutator of another world, which has a debugger of its own, if any.
    OfAnotherWorld,
    /// A mutator of another world that has the same debugger.
    UnderTheSameDebugger,
    /// A thread of no world.
    Stranger,
}

/// Runs `body` on a thread of its own and fails if that does not end: a collector that has stopped itself never does, and cannot be ended.
fn in_time<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = sender.send(body());
    });
    match receiver.recv_timeout(patience(600, 60)) {
        Ok(result) => {
            thread.join().unwrap();
            result
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the collecting thread hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Collects and verifies three times; returns how many threads were stopped, and the name of the collecting thread.
fn collections(world: &World) -> (u32, String) {
    for _ in 0..2 {
        world.verify().unwrap();
        collect(world);
    }
    world.verify().unwrap();
    let report = collect(world);
    (report.threads_stopped, report.by.as_str().to_owned())
}

/// `.stop.own-stack`: no way of stopping stops the thread that requests the stop, and the objects that this thread references stay alive.
#[rstest]
fn every_thread_can_collect_under_every_way_of_stopping(
    #[values(How::Signals, How::Safepoints, How::Full, How::Assisted, How::AssistedAtSafepoints)] how: How,
    #[values(
        Caller::Mutator,
        Caller::Blocking,
        Caller::OfAnotherWorld,
        Caller::UnderTheSameDebugger,
        Caller::Stranger
    )]
    caller: Caller,
    #[values(0, 2)] others: u32,
) {
    let found = in_time(move || {
        let debugger = how.debugger();
        let world = how.build(debugger.as_ref());
        let over = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..others)
            .map(|_| {
                let over = Arc::clone(&over);
                spawn(&world, "other", move |m| {
                    while !over.load(Ordering::Relaxed) {
                        let list = a_list(m, 100);
                        m.safepoint();
                        assert_eq!(sum(list), 4950);
                    }
                })
            })
            .collect();
        // SAFETY: here and below, every Gc is a local variable.
        let attach = |world: &World| unsafe { world.attach("collector") }.unwrap();
        let found = match caller {
            Caller::Stranger => collections(&world),
            Caller::Mutator | Caller::Blocking => {
                let m = attach(&world);
                let list = a_list(&m, 1000);
                let found =
                    if caller == Caller::Mutator { collections(&world) } else { m.blocking(|| collections(&world)) };
                assert_eq!(sum(list), 499_500);
                found
            }
            Caller::OfAnotherWorld | Caller::UnderTheSameDebugger => {
                let its_own = if caller == Caller::OfAnotherWorld { how.debugger() } else { debugger };
                let other = how.build(its_own.as_ref());
                let m = attach(&other);
                let list = a_list(&m, 1000);
                let found = collections(&world);
                let in_region = m.blocking(|| collections(&world));
                assert_eq!(found, in_region);
                collect(&other);
                assert_eq!(sum(list), 499_500);
                found
            }
        };
        over.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        found
    });
    let is_of_the_world = matches!(caller, Caller::Mutator | Caller::Blocking);
    let name = if is_of_the_world { "collector" } else { "(not attached)" };
    assert_eq!(found, (others, name.to_owned()));
}

/// `.stop.lost`: a stop has a timeout even if its caller is in a blocking region.
#[rstest]
fn a_stop_from_a_region_that_a_frozen_thread_blocks_times_out(#[values(How::Signals, How::Full)] how: How) {
    let error = in_time(move || {
        let world = builder().stop_timeout(Duration::from_millis(200)).build().unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let receiver = Arc::clone(&end);
        let (sender, masked) = mpsc::channel();
        let deaf = spawn(&world, "deaf", move |_| {
            // SAFETY: the mask of this thread, which ends with it.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
            }
            sender.send(()).unwrap();
            while !receiver.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        masked.recv().unwrap();
        if let Some(debugger) = how.debugger() {
            world.set_thread_vtable(debugger).unwrap();
        }
        // SAFETY: no Gc at all.
        let m = unsafe { world.attach("collector") }.unwrap();
        let error = m.blocking(|| world.collect()).unwrap_err();
        end.store(true, Ordering::Relaxed);
        m.blocking(|| deaf.join()).unwrap();
        m.blocking(|| wait_for("a collection", || world.collect().is_ok()));
        error.to_string()
    });
    assert!(error.contains("thread \"deaf\"") && error.contains("1 of 1"), "{error}");
}

/// `.vtable.attach`: setting the vtable that is already in force changes nothing, and collections continue.
#[rstest]
fn the_vtable_that_is_in_force_can_be_set_again(
    #[values(How::Signals, How::Safepoints, How::Full, How::Assisted)] how: How,
) {
    let world = how.build(None);
    let vtable: Arc<dyn ThreadVtable> = match how {
        How::Signals => Arc::new(SignalStopper::new(libc::SIGURG).unwrap()),
        How::Safepoints => Arc::new(SafepointStopper),
        _ => how.debugger().unwrap(),
    };
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let receiver = Arc::clone(&end);
    let worker = spawn(&world, "worker", move |m| {
        while !receiver.load(Ordering::Relaxed) {
            m.safepoint();
        }
    });
    let list = a_list(&m, 100);
    let built_in = world.set_thread_vtable(Arc::clone(&vtable)).unwrap();
    for round in 0..6 {
        let outgoing = world.set_thread_vtable(Arc::clone(&vtable)).unwrap();
        assert!(Arc::ptr_eq(&outgoing, &vtable), "round {round}");
        assert_eq!(collect(&world).threads_stopped, 1);
        // The vtable is replaced by another one, and set again.
        assert!(Arc::ptr_eq(&world.set_thread_vtable(Arc::clone(&built_in)).unwrap(), &vtable));
        assert!(Arc::ptr_eq(&world.set_thread_vtable(Arc::clone(&built_in)).unwrap(), &built_in));
        assert_eq!(collect(&world).threads_stopped, 1);
        assert!(Arc::ptr_eq(&world.set_thread_vtable(Arc::clone(&vtable)).unwrap(), &built_in));
        assert_eq!(collect(&world).threads_stopped, 1);
    }
    end.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    assert_eq!(sum(list), 4950);
}

/// A thread that the user froze stays frozen when the debugger in force is set once more.
#[test]
fn what_the_user_froze_stays_frozen_when_the_same_debugger_is_set_again() {
    let world = builder().build().unwrap();
    let mock = MockDebugger::new().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let receiver = Arc::clone(&end);
    let worker = spawn(&world, "worker", move |m| {
        while !receiver.load(Ordering::Relaxed) {
            m.safepoint();
        }
    });
    world.set_thread_vtable(mock.clone()).unwrap();
    let tid = world.threads()[0].tid;
    mock.freeze(tid).unwrap();
    world.set_thread_vtable(mock.clone()).unwrap();
    collect(&world);
    assert!(mock.log().0.contains(&MockEvent::StaysFrozen { tid }));
    assert!(mock.thaw(tid));
    end.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

/// A vtable that shares its state with others of its type.
struct Sharing(Arc<MockDebugger>);

// SAFETY: the debugger's guarantees.
unsafe impl ThreadVtable for Sharing {
    fn name(&self) -> &'static str {
        "sharing"
    }
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.0.stop_world(stop)
    }
    fn start_world(&self, stop: &StopRequest<'_>) {
        self.0.start_world(stop);
    }
    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.0.thread_created(tid, slot);
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.0.thread_exited(tid, slot);
    }
    fn at_swap(&self) -> Option<&dyn AtSwap> {
        self.0.at_swap()
    }
    fn at_fork(&self) -> Option<&dyn AtFork> {
        self.0.at_fork()
    }
}

/// `.vtable.attach`: the outgoing vtable forgets the threads before the incoming one is notified of them.
#[test]
fn vtables_that_share_their_state_can_follow_each_other() {
    let world = builder().build().unwrap();
    let mock = MockDebugger::new().unwrap();
    // SAFETY: no Gc at all.
    let _m = unsafe { world.attach("main") }.unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let receiver = Arc::clone(&end);
    let worker = spawn(&world, "worker", move |m| {
        while !receiver.load(Ordering::Relaxed) {
            m.safepoint();
        }
    });
    for _ in 0..4 {
        world.set_thread_vtable(Arc::new(Sharing(Arc::clone(&mock)))).unwrap();
        assert_eq!(collect(&world).threads_stopped, 1);
        assert_eq!(mock.threads().len(), 2);
    }
    end.store(true, Ordering::Relaxed);
    worker.join().unwrap();
}

/// One debugger for two worlds: it serves the collections of both, and when it is replaced in one of them it keeps the threads of the
/// other.
#[rstest]
fn one_debugger_serves_two_worlds(#[values(How::Full, How::Assisted)] how: How) {
    in_time(move || {
        let mock = how.debugger();
        let worlds = [how.build(mock.as_ref()), how.build(mock.as_ref())];
        let end = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = worlds
            .iter()
            .map(|world| {
                let receiver = Arc::clone(&end);
                spawn(world, "worker", move |m| {
                    while !receiver.load(Ordering::Relaxed) {
                        let list = a_list(m, 50);
                        assert_eq!(sum(list), 1225);
                    }
                })
            })
            .collect();
        std::thread::scope(|scope| {
            for world in &worlds {
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(collect(world).threads_stopped, 1)));
            }
        });
        // A fork takes the debugger's lock once, although both worlds request it.
        let child = std::process::Command::new("true").status().unwrap();
        assert!(child.success());
        // SAFETY: the child only exits.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::_exit(0);
            }
            assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
        }
        worlds[0].set_thread_vtable(Arc::new(SignalStopper::new(libc::SIGURG).unwrap())).unwrap();
        for world in &worlds {
            assert_eq!(collect(world).threads_stopped, 1);
        }
        end.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// A bridge keeps the state of a stop for one world only.
#[test]
fn a_bridge_serves_one_world_and_is_refused_to_others_until_that_is_dropped() {
    let (one, two) = (builder().build().unwrap(), builder().build().unwrap());
    let signals = || Arc::new(SignalStopper::new(libc::SIGURG).unwrap()) as Arc<dyn ThreadVtable>;
    let built_in = one.set_thread_vtable(signals()).unwrap();
    // The bridge is not installed, but it is still the fallback of its world.
    let refused = |world: &World, bridge: &Arc<dyn ThreadVtable>| {
        let error = world.set_thread_vtable(Arc::clone(bridge)).err().expect("the vtable belongs to another world");
        assert!(matches!(error, StopError::Vtable { .. }), "{error}");
        assert!(error.to_string().contains("one of its own (DebuggerBridge::over)"), "{error}");
        collect(world);
    };
    refused(&two, &built_in);
    one.set_thread_vtable(Arc::clone(&built_in)).unwrap();
    refused(&two, &built_in);
    drop(one);
    two.set_thread_vtable(built_in).unwrap();
    collect(&two);
    // A bridge that the program created can be moved from world to world.
    let third = builder().build().unwrap();
    let own: Arc<dyn ThreadVtable> = DebuggerBridge::over(signals());
    two.set_thread_vtable(Arc::clone(&own)).unwrap();
    refused(&third, &own);
    two.set_thread_vtable(signals()).unwrap();
    third.set_thread_vtable(own).unwrap();
    collect(&third);
}
