//! The bridge to debuggers outside of the process: what happens when one is there, when there is none, and when it dies.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use rstest::rstest;
use stopworld::debugger::contract::{Control, Mode, stopworld_debugger};
use stopworld::events::{Event, EventId, MemorySink, Selection};
use stopworld::{Gc, GcCell, Mutator, Paranoid, Stopper, World, traced};

traced! {
    struct Link { next: GcCell<Option<Gc<Link>>>, value: u64 }
}

/// The control word is one for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn word(mode: Mode, flags: u64) -> u64 {
    let mode = match mode {
        Mode::Full => Control::FULL,
        Mode::Assisted => Control::ASSISTED,
    };
    mode | flags | 4711 << 32
}

fn a_list(m: &Mutator, length: u64) -> Gc<Link> {
    let mut list = m.alloc(Link { next: GcCell::new(None), value: 0 }).unwrap();
    for value in 1..length {
        list = m.alloc(Link { next: GcCell::new(Some(list)), value }).unwrap();
    }
    list
}

fn sum(list: Gc<Link>) -> u64 {
    let mut sum = 0;
    let mut next = Some(list);
    while let Some(link) = next {
        sum += link.value;
        next = link.next.get();
    }
    sum
}

/// `.debug.acknowledged`, `.debug.dies`: somebody has written the control word, and nobody is there.
#[rstest]
fn a_word_without_a_debugger_is_taken_away_and_signals_go_on(
    #[values(Mode::Full, Mode::Assisted)] mode: Mode,
    #[values(0, Control::BREAKPOINT, Control::PHASES)] flags: u64,
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let _alone = alone();
    let world = World::builder().stopper(stopper).paranoid(Paranoid::On).build().unwrap();
    let sink = Arc::new(MemorySink::with_capacity(64).unwrap());
    let wanted = [EventId::DebuggerAttached, EventId::DebuggerDetached, EventId::DebuggerLost];
    world.events().listen(sink.clone(), Selection::of(wanted.into_iter().collect())).unwrap();
    // SAFETY: every reference is in a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let work = |m: &Mutator| {
        let list = a_list(m, 1000);
        for _ in 0..50 {
            m.safepoint();
            assert_eq!(sum(list), 499_500);
            a_list(m, 100);
        }
    };
    // SAFETY: as above.
    let workers: Vec<_> = (0..3).map(|_| unsafe { world.spawn("worker", work) }.unwrap()).collect();
    let list = a_list(&m, 1000);
    m.collect().unwrap();
    let asked = word(mode, flags);
    stopworld_debugger.control.store(asked, Ordering::Relaxed);
    m.collect().unwrap();
    assert_eq!(stopworld_debugger.control.load(Ordering::Relaxed), 0);
    m.collect().unwrap();
    assert_eq!(sum(list), 499_500);
    for worker in workers {
        worker.join().unwrap();
    }
    let told: Vec<_> = sink.drain().map(|record| record.event()).collect();
    // A thread that ended in time was the first to find out.
    let lost = told.iter().filter(|event| matches!(event, Event::DebuggerLost(lost) if lost.control == asked));
    assert_eq!(lost.count(), 1, "{told:?}");
}
