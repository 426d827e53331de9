//! The thread on which finalizers run.
//!
//! It is a mutator named `finalizer`, started when the first finalizer is registered. It sleeps in a blocking
//! region, so a stop does not wait for it. It runs one finalizer after the other. The reference to the object of the running
//! finalizer is on this thread's stack. A panic is caught, and the next finalizer runs.
//!
//! It also collects when a debugger requests a collection ([`Heap::request_collection`](crate::heap::Heap::request_collection)).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::finalizer_end::EndOfThread;
use super::inner::Inner;
use super::{Mutator, World};
use crate::collector::finalize::{Action, Entry};
use crate::heap::trace::TypeInfo;
use crate::os::futex;
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;
use crate::world::AttachError;

/// Runs the finalizer thread: the `finalizer_thread` of every [`Inner`].
pub(super) fn run(inner: Arc<Inner>, attached: SyncSender<Result<(), AttachError>>) {
    let of_world = Arc::clone(&inner);
    let _ended = EndOfThread(&of_world.collector.finalizers);
    // SAFETY: every `Gc` of this thread is a local variable of `run_one` or of the finalizer that it calls.
    match unsafe { World::of(inner, false).attach("finalizer") } {
        Ok(mutator) => {
            let _ = attached.send(Ok(()));
            work(&mutator);
            discard_calls(&mutator);
        }
        Err(error) => {
            let _ = attached.send(Err(error));
        }
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
            // A debugger has requested a collection. An error is reported only to the failure listener. A collection clears the
            // request when it begins; a request that is made after that causes another collection.
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

/// Drops the closures of finalizers that will never run. Otherwise one that captures a `Root` would keep the closed world's memory.
fn discard_calls(mutator: &Mutator) {
    let finalizers = &mutator.world().collector().finalizers;
    for Entry { action, .. } in finalizers.take_calls(|| mutator.lock(&finalizers.lock)) {
        // The panic hook has printed the panic of a captured value's drop already.
        // SAFETY: the entry was taken out of the table.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe { action.discard() }));
    }
}

/// Overwrites the stack below the present frame. The frames in which this thread sleeps leave some of their words unwritten.
/// Words that finalizers left there, such as the last object's address, would keep that object alive until the next batch.
#[inline(never)]
fn wipe_stack() {
    const WORDS: usize = 512;
    std::hint::black_box(&mut [0_usize; WORDS]);
}

/// Returns the address of an object's type.
fn header_of(mutator: &Mutator, object: usize) -> usize {
    // SAFETY: an entry of the queue is a live object.
    unsafe { mutator.world().collector().heap.blocks.map().header_word(object, true) }
}

/// Runs the next finalizer. Returns `false` if none is due.
#[inline(never)]
fn run_one(mutator: &Mutator) -> bool {
    let collector = mutator.world().collector();
    let Some(Entry { object, action }) = collector.finalizers.next(|| mutator.lock(&collector.finalizers.lock)) else {
        return false;
    };
    let info = header_of(mutator, object);
    // SAFETY: the header word of a live object; descriptions of types are never freed.
    let running = collector.finalizers.begin(unsafe { &*(info as *const TypeInfo) });
    let result = catch_unwind(AssertUnwindSafe(|| {
        let kept = std::hint::black_box(object);
        collector.events.fire_finalize_object(object, info);
        match action {
            // SAFETY: the drop was registered with the object's own type; no other code can reach the object any more.
            Action::Drop(drop_in_place) => unsafe { drop_in_place(kept as *mut u8) },
            // SAFETY: the trampoline was made for the types of this closure and this object, and the entry was taken out of the queue. The object is live:
            // it was in the queue until now, and is on this stack from now on.
            Action::Call { trampoline, closure } => unsafe {
                trampoline(closure, Some((std::ptr::from_ref(mutator).cast(), kept)));
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
        // The panic hook has printed the panic already.
        collector.finalizers.panicked.fetch_add(1, Ordering::Relaxed);
    }
    true
}
