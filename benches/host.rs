//! The cost of firing an event with a host, compared with a file: `cargo bench --bench host`.
//!
//! Measures the cost of an event of two words for the thread that fires it, while a consumer writes a file, and while a host receives
//! events. Both use the same path, so the cost should be the same. Bursts alternate, so that both run under the same machine
//! conditions. Each burst is followed by a flush outside of the measured time, so that only firing is measured, and not the consumer.
//! The last column shows the total throughput: the time per event without pauses, including the file or the host's call.
//!
//! Exits with a failure if the limit is exceeded or an event is lost. `-- --quick` fires a tenth of the events, as a smoke test: times
//! are printed but not checked; losses still are.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stopworld::events::host::{Host, HostOptions};
use stopworld::events::record::{Consumer, Recorded, Recorder};
use stopworld::events::{Events, Selection};

/// The number of events per burst: fewer than fit into a thread's ring.
const BURST: u64 = 5_000;
/// The maximum cost with a host, relative to a file.
const LIMIT: f64 = 1.10;

static TO_FILE: Events = Events::new();
static TO_HOST: Events = Events::new();
static UNRECORDED: Events = Events::new();

/// A consumer that writes time, event and fields of each record to a file, in blocks.
#[derive(Debug)]
struct Blocks {
    file: File,
    block: Vec<u8>,
}

impl Consumer for Blocks {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        if self.block.len() + 64 > self.block.capacity() {
            self.flush()?;
        }
        self.block.extend_from_slice(&record.ticks.to_le_bytes());
        self.block.extend_from_slice(&(record.id as u64).to_le_bytes());
        record.fields().iter().for_each(|field| self.block.extend_from_slice(&field.to_le_bytes()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

/// A host that does almost nothing.
#[derive(Debug, Default)]
struct Sum(AtomicU64);

impl Host for Sum {
    fn fire_event(&self, event_id: u32, payload: &[u8]) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(u64::from(event_id)).wrapping_add(payload.len() as u64);
        self.0.store(sum, Ordering::Relaxed);
    }
}

/// Fires `count` events. Returns the nanoseconds per event.
#[inline(never)]
fn fire(events: &Events, count: u64) -> f64 {
    let begin = Instant::now();
    for step in 0..count {
        events.fire_object_allocated(step as usize, 32);
        black_box(step);
    }
    begin.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let bursts = if quick { 200 } else { 2_000 };
    let file = tempfile::tempfile().expect("a temporary file");
    let blocks = Blocks { file, block: Vec::with_capacity(256 << 10) };
    TO_FILE.record_to(Box::new(blocks), Selection::everything()).expect("recording");
    let host =
        TO_HOST.serve(Arc::new(Sum::default()), Selection::everything(), HostOptions::default()).expect("a host");
    let long = Duration::from_secs(60);
    let settle = || {
        Recorder::of_process().flush().expect("flushed");
        host.flush(long).expect("delivered");
    };
    let worlds = [&UNRECORDED, &TO_FILE, &TO_HOST];
    let mut times = [const { Vec::new() }; 3];
    for burst in 0..bursts + 20 {
        for (events, times) in worlds.iter().zip(&mut times) {
            let time = fire(black_box(events), BURST);
            settle();
            // The first bursts allocate rings and touch pages.
            if burst >= 20 {
                times.push(time);
            }
        }
    }
    let [unrecorded, to_file, to_host] = times.map(median);
    let flood = |events: &Events| {
        let (begin, count) = (Instant::now(), bursts * BURST / 4);
        fire(black_box(events), count);
        settle();
        begin.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    let [_, file_flood, host_flood] = worlds.map(flood);
    let ratio = to_host / to_file;
    println!("one event of two words, median of {bursts} bursts of {BURST}");
    println!("                       in the firing thread    continuous, total");
    println!("  not recorded              {unrecorded:6.2} ns");
    println!("  a consumer's file         {to_file:6.2} ns              {file_flood:6.2} ns");
    println!("  a host                    {to_host:6.2} ns              {host_flood:6.2} ns");
    println!("  host / file               {ratio:6.2}   (limit {LIMIT:.2})");
    let totals = host.end(&TO_HOST, long).expect("ended");
    let nothing_lost = totals.delivered == totals.taken && totals.lost == 0;
    if (quick || ratio <= LIMIT) && nothing_lost {
        ExitCode::SUCCESS
    } else {
        println!("FAILED: {totals:?}");
        ExitCode::FAILURE
    }
}
