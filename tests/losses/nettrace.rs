//! A trace whose writer is blocked while threads continue to fire: the gaps in the sequence numbers equal the lost events.

use crate::nettrace_rules;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use nettrace_rules::{OWN, Trace as Parsed};
use rstest::rstest;
use stopworld::World;
use stopworld::events::record::Policy;
use stopworld_trace::nettrace::{Container, Destination, Options, Providers};

/// An output that accepts nothing until its gate is opened.
#[derive(Debug, Clone)]
struct Gated {
    bytes: Arc<Mutex<Vec<u8>>>,
    gate: Arc<(Barrier, Barrier)>,
    calls: Arc<AtomicUsize>,
}

impl Destination for Gated {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            self.gate.0.wait();
            self.gate.1.wait();
        }
        self.bytes.lock().unwrap().extend(bytes);
        Ok(())
    }
}

/// Sequence numbers: a reader finds exactly the losses that the recorder counted.
#[rstest]
fn losses_are_gaps_of_the_same_size(
    #[values(Container::V4, Container::V6)] container: Container,
    #[values(0, 5)] after: usize,
) {
    const FIRED: usize = 200_000;
    let _alone = crate::alone();
    let gated =
        Gated { bytes: Arc::default(), gate: Arc::new((Barrier::new(2), Barrier::new(2))), calls: Arc::default() };
    // The keyword of the object events.
    let trace = Options::to(Box::new(gated.clone()))
        .providers(Providers::parse("stopworld:8:5").unwrap())
        .policy(Policy::Dropping)
        .container(container)
        .start()
        .unwrap();
    let world = World::builder().record_to(&trace).build().unwrap();
    let events = world.events();
    events.fire_object_freed(8, 8);
    // The writer writes this event within a tenth of a second, and then blocks.
    gated.gate.0.wait();
    (0..FIRED).for_each(|number| events.fire_object_allocated(number, 16));
    gated.gate.1.wait();
    (0..after).for_each(|number| events.fire_object_freed(number, 16));
    trace.flush().unwrap();
    drop(world);
    let finished = trace.finish().unwrap();
    let parsed = Parsed::parse(&gated.bytes.lock().unwrap());
    assert!(finished.totals.dropped > FIRED as u64 / 4, "{finished:?}");
    assert_eq!(parsed.lost, finished.totals.dropped);
    let own = parsed.events.iter().filter(|event| event.kind.provider == OWN).count() as u64;
    // The recorder takes the world's end, which is not an event of this trace.
    assert_eq!(own + 1, finished.totals.written);
    assert_eq!(own + finished.totals.dropped, FIRED as u64 + 1 + after as u64);
}
