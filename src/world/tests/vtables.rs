//! The notifications of a vtable, and the checks of its results.

use rstest::rstest;

use super::*;

/// `.vtable.swap`
#[test]
fn the_vtable_can_be_swapped_while_collections_run() {
    let threads = threads(By::Signals);
    let workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                stop(&threads).start();
            }
        });
        for i in 0..60 {
            let by = if i % 2 == 0 { By::Safepoints } else { By::Signals };
            let outgoing = threads.set_vtable(vtable(by), budget(20_000)).unwrap();
            assert_ne!(outgoing.name(), vtable(by).name());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(workers.iter().all(Worker::runs));
}

/// A vtable that stops no thread and writes a given value to every slot.
struct Liar(usize);

// SAFETY: not safe on purpose: the collector must detect that the result is wrong.
unsafe impl ThreadVtable for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        for thread in stop.threads() {
            // SAFETY: the stop does not succeed with this value.
            unsafe { thread.slot().store(self.0) };
        }
        Ok(())
    }
    fn start_world(&self, _: &StopRequest<'_>) {}
    fn thread_created(&self, _: Tid, _: Slot) {}
    fn thread_exited(&self, _: Tid, _: Slot) {}
}

#[rstest]
#[case::empty(0)]
#[case::elsewhere(0x1000)]
fn a_slot_that_is_zero_or_outside_every_stack_is_an_error_and_the_world_runs_on(#[case] slot: usize) {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "slotted", spin);
    let real = threads.set_vtable(Arc::new(Liar(slot)), budget(1000)).unwrap();
    let error = stop_within(&threads, 1000).err().expect("the slot is wrong");
    match (slot, &error) {
        (0, StopError::NoStackPointer { name, .. }) => assert_eq!(name.as_str(), "slotted"),
        (0x1000, StopError::UnknownStack { stack_ptr, .. }) => assert_eq!(*stack_ptr, 0x1000),
        _ => panic!("{error}"),
    }
    assert!(worker.runs());
    threads.set_vtable(real, budget(1000)).unwrap();
    stop(&threads).start();
}

/// A vtable that records its notifications.
#[derive(Default)]
struct Listener {
    told: std::sync::Mutex<Vec<(&'static str, Tid, usize)>>,
}

// SAFETY: never stops anything in these tests.
unsafe impl ThreadVtable for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }
    fn stop_world(&self, _: &StopRequest<'_>) -> Result<(), StopError> {
        Err(StopError::Vtable { stopper: "listener", what: "it only listens".into() })
    }
    fn start_world(&self, _: &StopRequest<'_>) {}
    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.told.lock().unwrap().push(("created", tid, slot.as_ptr() as usize));
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        // The record must still belong to this thread.
        let info = slot.record();
        let whole = info.tid() == tid;
        let owned = std::ptr::eq(crate::world::handler::TABLE.find(tid), info);
        let what = if whole && owned { "exited" } else { "exited after its record was freed" };
        self.told.lock().unwrap().push((what, tid, slot.as_ptr() as usize));
    }
}

/// `.vtable.attach`, `.vtable.exited-before-free`
#[test]
fn a_vtable_is_notified_of_all_threads_at_a_swap_at_attach_and_at_detach() {
    let threads = threads(By::Signals);
    let early = Worker::new(&threads, "early", spin);
    let listener = Arc::new(Listener::default());
    let signals = threads.set_vtable(listener.clone(), budget(1000)).unwrap();
    let late = Worker::new(&threads, "late", spin);
    let (early_tid, early_slot) = (early.info.tid(), early.info.slot().as_ptr() as usize);
    let (late_tid, late_slot) = (late.info.tid(), late.info.slot().as_ptr() as usize);
    drop(late);
    threads.set_vtable(signals, budget(1000)).unwrap();
    let told = listener.told.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            ("created", early_tid, early_slot),
            ("created", late_tid, late_slot),
            ("exited", late_tid, late_slot),
            ("exited", early_tid, early_slot),
        ]
    );
    assert!(early.runs());
}
