//! A debugger takes over stopping the world, as Mono's debugger did with Boehm's collector.
//!
//!     cargo run --example mock_debugger
//!
//! What to look at:
//! - `freeze`: worker-1 no longer counts, the others do.
//! - `collect`: for each thread the debugger writes a `stack_ptr`. It is lower than the thread's stack pointer at the time of the stop: by
//!   the 128 bytes of the red zone, and by the size of the registers, which the debugger has pushed below the red zone. So the collector
//!   finds a reference that is only in a register. Each worker's tree is referenced from its stack, and is intact afterwards.
//! - After the collection worker-1 *stays frozen*: the user's stop and the collector's stop are counted separately.
//! - After `detach` the same world stops its threads by signals again.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use stopworld::debugger::mock::{MockDebugger, MockEvent};
use stopworld::{JoinHandle, OutOfMemory, Tid, World};
use stopworld_trace::mps;
use stopworld_workloads::binary_trees::{build, count, full};

const WORKERS: usize = 3;
const DEPTH: u32 = 8;

/// The data that the workers and the main thread share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    counted: [AtomicU64; WORKERS],
}

fn main() -> Result<(), Box<dyn Error>> {
    let world = World::builder().record_to(&mps::Trace::from_environment()?).build()?;
    let shared = Arc::new(Shared::default());
    let workers = (0..WORKERS).map(|i| start(&world, i, &shared)).collect::<Result<Vec<_>, _>>()?;

    println!("(debug) attach");
    let debugger = MockDebugger::new()?;
    let outgoing = world.set_thread_vtable(debugger.clone())?;
    println!("  the debugger takes over from \"{}\"", outgoing.name());
    tell(&debugger, &world);
    progress(&shared);

    let victim = debugger.threads().iter().find(|t| t.name.as_str() == "worker-1").map(|t| t.tid);
    let victim = victim.ok_or("the debugger was not notified of worker-1")?;
    println!("(debug) freeze {}", name(&world, victim));
    debugger.freeze(victim)?;
    tell(&debugger, &world);
    progress(&shared);

    println!("(debug) collect");
    let report = world.collect()?;
    tell(&debugger, &world);
    let (stopped, live) = (report.threads_stopped, report.live_objects);
    println!("  {stopped} threads were stopped for {} µs, {live} objects are live", report.pause_ns / 1000);
    for thread in debugger.threads() {
        let (at, sp) = thread.at;
        let frozen = if thread.frozen { "frozen" } else { "running" };
        print!("  {:<9} {frozen:<8} stopped at {at:#x}, rsp {sp:#x}, stack_ptr {:#x}", thread.name, thread.stack_ptr);
        println!(": {} bytes below", sp.saturating_sub(thread.stack_ptr));
    }
    progress(&shared);

    println!("(debug) thaw {}", name(&world, victim));
    debugger.thaw(victim);
    tell(&debugger, &world);
    progress(&shared);

    println!("(debug) detach");
    world.set_thread_vtable(outgoing)?;
    tell(&debugger, &world);
    println!("  the world's own stopper is back: it stopped the world in {} µs", world.collect()?.stop_ns / 1000);

    shared.over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    Ok(())
}

/// Starts a thread that builds a tree and counts its nodes repeatedly until `over` is set.
fn start(
    world: &World,
    index: usize,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<Result<(), OutOfMemory>>, Box<dyn Error>> {
    let shared = Arc::clone(shared);
    // SAFETY: the tree is referenced only from the thread's stack.
    let handle = unsafe {
        world.spawn(&format!("worker-{index}"), move |m| {
            let tree = build(m, DEPTH)?;
            while !shared.over.load(Ordering::Relaxed) {
                assert_eq!(count(tree), full(DEPTH), "the collector has freed a part of the tree");
                shared.counted[index].fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    };
    Ok(handle?)
}

/// Prints how many times each worker has counted in 200 ms.
fn progress(shared: &Shared) {
    let counted = || shared.counted.each_ref().map(|counted| counted.load(Ordering::Relaxed));
    let before = counted();
    sleep(Duration::from_millis(200));
    let after = counted();
    let made = |i: usize| format!("worker-{i} {}", after[i] - before[i]);
    println!("  counts in 200 ms: {}", (0..WORKERS).map(made).collect::<Vec<_>>().join(", "));
}

/// Prints the debugger's log since the last call.
fn tell(debugger: &MockDebugger, world: &World) {
    for event in debugger.log().0 {
        let about = |tid: Tid, what: &str| println!("  {:<9} {what}", name(world, tid));
        match event {
            MockEvent::Attached { threads } => println!("  {threads} threads are attached:"),
            MockEvent::Announced { tid } => about(tid, "exists"),
            MockEvent::StopBegins { .. } => println!("  the collector requests a stop"),
            MockEvent::Stopped { tid, stack_ptr } => about(tid, &format!("is stopped, stack_ptr {stack_ptr:#x}")),
            MockEvent::WorldStopped { .. } => println!("  the world is stopped; the collector scans it"),
            MockEvent::LetGo { tid } => about(tid, "is resumed"),
            MockEvent::StaysFrozen { tid } => about(tid, "stays frozen"),
            MockEvent::Frozen { tid, stack_ptr } => about(tid, &format!("is frozen, stack_ptr {stack_ptr:#x}")),
            MockEvent::Thawed { tid } => about(tid, "is thawed"),
            MockEvent::WorldStarted { .. } => println!("  the world runs again"),
            other => println!("  {other:?}"),
        }
    }
    debugger.clear_log();
}

fn name(world: &World, tid: Tid) -> String {
    let thread = world.threads().into_iter().find(|thread| thread.tid == tid);
    thread.map_or(format!("thread {tid}"), |thread| thread.name.to_string())
}
