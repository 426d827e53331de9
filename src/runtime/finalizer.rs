//! The thread on which finalizers run.
//!
//! It is a mutator named `finalizer`, started when the first finalizer is registered. It sleeps in a blocking
//! region, so that a stop costs it nothing, and runs one finalizer after the other, each with its object on its own
//! stack. A panic is caught; the next finalizer runs.
//!
//! Being there, it also collects when a debugger asks for that ([`Heap::request_collection`](crate::heap::Heap::request_collection)).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::{Inner, Mutator, World};
use crate::collector::Collector;
use crate::collector::finalize::{Action, Entry, Finalizers};
use crate::heap::layout::HEADER_BYTES;
use crate::heap::trace::TypeInfo;
use crate::os::clock::now_ns;
use crate::os::spawn::spawn;
use crate::os::{self, futex};
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

/// Starts the thread unless it runs, and waits until it is attached: whoever closes the world later finds it there,
/// with what it has to do. Never called inside a stop.
pub(crate) fn ensure_started(inner: &Arc<Inner>) -> std::io::Result<()> {
    let finalizers = &inner.collector.finalizers;
    if finalizers.started.swap(true, Ordering::Relaxed) || finalizers.closing.load(Ordering::Relaxed) {
        return Ok(());
    }
    finalizers.ended.store(0, Ordering::Relaxed);
    let (attached, attachment) = mpsc::sync_channel(1);
    let its_inner = Arc::clone(inner);
    let spawned = spawn("finalizer", move || {
        let _ended = EndOfThread(Arc::clone(&its_inner));
        // SAFETY: every `Gc` of this thread is a local variable of `run_one` or of the finalizer that it calls.
        match unsafe { World::of(its_inner, false).attach("finalizer") } {
            Ok(mutator) => {
                let _ = attached.send(Ok(()));
                work(&mutator);
            }
            Err(error) => {
                let _ = attached.send(Err(error));
            }
        }
    });
    let outcome = spawned.and_then(|_| {
        // The new thread may have to wait for a collection, which may have to stop us.
        let attached = inner.collector.threads.as_blocking(|| attachment.recv());
        attached.map_err(std::io::Error::other)?.map_err(std::io::Error::other)
    });
    if outcome.is_err() {
        finalizers.started.store(false, Ordering::Relaxed);
        finalizers.ended.store(1, Ordering::Relaxed);
    }
    outcome
}

/// After a collection: starts the thread if it is needed and does not run, as in a forked child (`.fork.services`).
pub(crate) fn ensure_started_if_due(inner: &Arc<Inner>) {
    let Collector { finalizers, threads, .. } = &inner.collector;
    if !finalizers.started.load(Ordering::Relaxed) && finalizers.due(|| threads.lock(&finalizers.lock)) > 0 {
        // Without a thread the finalizers wait for the next collection.
        let _ = ensure_started(inner);
    }
}

/// Lets the finalizer thread work off its queue, for a while. True if it has got anything done since it had run
/// `seen` finalizers, which is counted on: room may have come free.
pub(crate) fn give_time(mutator: &Mutator, seen: &mut u64) -> bool {
    let finalizers = &mutator.world().collector().finalizers;
    if finalizers.thread.load(Ordering::Relaxed) == mutator.tid().0 as u32 {
        return false;
    }
    let deadline = now_ns() + PATIENCE_NS;
    while finalizers.due(|| mutator.lock(&finalizers.lock)) > 0 && now_ns() < deadline {
        mutator.blocking(|| std::thread::sleep(POLL));
    }
    let run = finalizers.run.load(Ordering::Relaxed);
    std::mem::replace(seen, run) != run
}

/// How long an allocation that found no room waits for finalizers, and how often it looks.
const PATIENCE_NS: u64 = 1_000_000_000;
const POLL: Duration = Duration::from_micros(500);

/// Tells who waits for the thread's end, also when it ends by a panic.
struct EndOfThread(Arc<Inner>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let Finalizers { ended, thread, .. } = &self.0.collector.finalizers;
        thread.store(0, Ordering::Relaxed);
        // Release pairs with the Acquire in `wait_for_end`: all that the finalizers did is seen.
        ended.store(1, Ordering::Release);
        futex::wake(ended, u32::MAX);
    }
}

/// Waits until the thread has ended, or until the time. True if it has; also on that thread itself, in a finalizer or in
/// a drop: it can't wait for its own end, and works off its queue when it comes back.
pub(crate) fn wait_for_end(finalizers: &Finalizers, deadline: u64) -> bool {
    if finalizers.thread.load(Ordering::Relaxed) == os::thread::gettid().0 as u32 {
        return true;
    }
    loop {
        // Acquire pairs with the Release in `EndOfThread`.
        if finalizers.ended.load(Ordering::Acquire) == 1 {
            return true;
        }
        let now = now_ns();
        if now >= deadline {
            return false;
        }
        futex::wait(&finalizers.ended, 0, Some(deadline - now));
    }
}

fn work(mutator: &Mutator) {
    let collector = mutator.world().collector();
    let finalizers = &collector.finalizers;
    finalizers.thread.store(mutator.tid().0 as u32, Ordering::Relaxed);
    loop {
        // Acquire pairs with the Release of `announce`.
        let news = finalizers.news.load(Ordering::Acquire);
        let mut run = 0;
        if collector.heap.is_collection_requested() {
            // A debugger's, which has nobody to tell of an error: the failure listener hears of it. A collection takes the
            // request at its beginning; one that comes after that is another.
            if mutator.collect().is_err() {
                collector.heap.forget_request();
            }
        }
        let due = finalizers.due(|| mutator.lock(&finalizers.lock)) as u32;
        if due > 0 {
            collector.events.fire_finalizer_begin(due);
            while run_one(mutator) {
                run += 1;
            }
        }
        if due > 0 {
            collector.events.fire_finalizer_end(run);
        }
        if finalizers.closing.load(Ordering::Relaxed) {
            return;
        }
        wipe_stack();
        mutator.blocking(|| futex::wait(&finalizers.news, news, None));
    }
}

/// The frames in which this thread sleeps do not fill every word of theirs, and what the finalizers' frames left there,
/// the last object's address among it, would keep that object alive until the next batch.
#[inline(never)]
fn wipe_stack() {
    const WORDS: usize = 512;
    std::hint::black_box(&mut [0_usize; WORDS]);
}

/// The address of an object's type.
fn header_of(object: usize) -> usize {
    // SAFETY: an entry of the queue is a live object, whose header lies before it.
    unsafe { *((object - HEADER_BYTES) as *const usize) }
}

/// Runs the next finalizer. False if there is none.
#[inline(never)]
fn run_one(mutator: &Mutator) -> bool {
    let collector = mutator.world().collector();
    let Some(Entry { object, action }) = collector.finalizers.next(|| mutator.lock(&collector.finalizers.lock)) else {
        return false;
    };
    let info = header_of(object);
    // SAFETY: the header word of a live object; descriptions of types are never freed.
    let running = collector.finalizers.begin(unsafe { &*(info as *const TypeInfo) });
    let result = catch_unwind(AssertUnwindSafe(|| {
        let kept = std::hint::black_box(object);
        collector.events.fire_finalize_object(object, info);
        match action {
            // SAFETY: registered with the object's own type; nobody else can reach the object any more.
            Action::Drop(drop_in_place) => unsafe { drop_in_place(kept as *mut u8) },
            // SAFETY: the trampoline was made for this function's and this object's type; the object is alive,
            // because it was in the queue until now and is on this stack from now on.
            Action::Call { trampoline, function } => unsafe {
                trampoline(function, std::ptr::from_ref(mutator).cast(), kept);
            },
        }
        std::hint::black_box(kept);
    }));
    drop(running);
    collector.finalizers.run.fetch_add(1, Ordering::Relaxed);
    if let Err(panic) = result {
        if removed(Guard::FinalThread) {
            std::panic::resume_unwind(panic);
        }
        // The panic hook has told the user already.
        collector.finalizers.panicked.fetch_add(1, Ordering::Relaxed);
    }
    true
}
