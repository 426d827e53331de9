//! A host in Rust: it receives the events of its collector, and changes its selection of events while the program runs.
//!
//! `cargo run --example host`
//!
//! What to look at: the first part shows each collection's beginning, end and numbers, read from the payload's bytes by
//! templates. The second part shows the allocation samples of level Verbose, and no Informational events, because levels are
//! a set. In the third part the keyword is off, and no event arrives. (`examples/host/` is a host in C, which loads the
//! collector at run time.)

use std::sync::Arc;
use std::time::Duration;

use stopworld::events::host::{Host, HostOptions, Stamp};
use stopworld::events::{EventId, Keywords, Level, Provider, Selection, templates};
use stopworld::{Mutator, World};

struct Printer;

impl Host for Printer {
    fn fire_event(&self, event_id: u32, payload: &[u8]) {
        println!("event {event_id}: {} bytes", payload.len());
    }

    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        // This call may allocate and print, even if a thread has been stopped while it holds the lock of malloc or stdout.
        let version = stamp.version;
        let text = match EventId::try_from(event_id) {
            Ok(EventId::GcStart) => {
                templates::GcStart::at(payload, version).number().map(|number| format!("collection {number} begins"))
            }
            Ok(EventId::HeapStats) => {
                let stats = templates::HeapStats::at(payload, version);
                stats.live_objects().map(|objects| format!("  {objects} objects live"))
            }
            Ok(EventId::GcEnd) => {
                templates::GcEnd::at(payload, version).number().map(|number| format!("collection {number} is over"))
            }
            Ok(EventId::AllocationTick) => {
                templates::AllocationTick::at(payload, version).bytes().map(|bytes| format!("{bytes} bytes allocated"))
            }
            _ => return,
        };
        // A payload that is too short gives an error, which is printed.
        println!("  [{}] {}", stamp.thread.tid, text.unwrap_or_else(|error| error.to_string()));
    }

    fn events_lost(&self, count: u64) {
        println!("  {count} events lost");
    }
}

fn work(m: &Mutator) -> Result<(), Box<dyn std::error::Error>> {
    for value in 0..30_000_u64 {
        m.alloc(value)?;
    }
    m.collect()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let long = Duration::from_secs(10);
    let world = World::builder().build()?;
    let events = world.events();
    let host = events.serve(Arc::new(Printer), Selection::nothing(), HostOptions::default())?;
    // SAFETY: this thread keeps no reference.
    let m = unsafe { world.attach("main") }?;

    println!("keyword GC, level Informational:");
    host.set_event_keyword_state(events, Provider::Default, Keywords::GC, true)?;
    host.set_event_level_state(events, Provider::Default, Level::Informational, true)?;
    work(&m)?;
    host.flush(long)?;

    println!("level Verbose instead:");
    host.set_event_level_state(events, Provider::Default, Level::Informational, false)?;
    host.set_event_level_state(events, Provider::Default, Level::Verbose, true)?;
    work(&m)?;
    host.flush(long)?;

    println!("keyword GC off:");
    host.set_event_keyword_state(events, Provider::Default, Keywords::GC, false)?;
    work(&m)?;
    host.flush(long)?;

    let totals = host.end(events, long)?;
    println!("{} events, {} lost", totals.delivered, totals.lost);
    Ok(())
}
