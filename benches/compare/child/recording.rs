//! The cost of an event of two words for the thread that fires it, while events are written to a file: a consumer on the
//! writer thread serializes 40 bytes per event and writes blocks of 256 KiB.
//!
//! `recording FILE [MILLIONS]` fires MILLIONS million events per round. The name `file` means a temporary file, truncated after each round.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use stopworld::events::record::{Consumer, Recorded, Recorder};
use stopworld::events::{Events, Selection};

use super::{Failure, Rounds, number, peak_rss_mb, thread_cpu};

const BLOCK: usize = 256 << 10;

static EVENTS: Events = Events::new();

/// Writes a minimal file format: time, event and thread, and two fields.
#[derive(Debug)]
struct Blocks {
    file: File,
    block: Box<[u8; BLOCK]>,
    used: usize,
}

impl Blocks {
    fn write_out(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        self.file.write_all(&self.block[..used])
    }
}

impl Consumer for Blocks {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        let fields = record.fields();
        let length = 24 + 8 * fields.len();
        if self.used + length > BLOCK {
            self.write_out()?;
        }
        let place = &mut self.block[self.used..self.used + length];
        place[..8].copy_from_slice(&record.ticks.to_le_bytes());
        place[8..16].copy_from_slice(&(record.id as u64).to_le_bytes());
        place[16..24].copy_from_slice(&u64::from(record.thread.tid).to_le_bytes());
        for (place, field) in place[24..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.used += length;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

/// Creates the output file. For the name `file`, creates a temporary file, which is deleted when it is closed.
pub(super) fn open(path: &str) -> io::Result<File> {
    if path != "file" {
        return File::create(path);
    }
    let path = std::env::temp_dir().join(format!("stopworld-recording-{}", std::process::id()));
    let file = File::create(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let path = *arguments.first().ok_or("FILE is missing")?;
    let millions: u64 = if arguments.len() > 1 { number(arguments, 1, "MILLIONS")? } else { 10 };
    let before_mb = peak_rss_mb();
    let file = open(path)?;
    let again = file.try_clone()?;
    let blocks = Blocks { file, block: Box::new([0; BLOCK]), used: 0 };
    let consumer = EVENTS.record_to(Box::new(blocks), Selection::everything())?;
    let recorder = Recorder::of_process();
    fire(black_box(&EVENTS), 200_000);
    recorder.flush()?;
    while rounds.next() {
        let waits = recorder.totals().waits;
        let (start, cpu) = (Instant::now(), thread_cpu());
        fire(black_box(&EVENTS), millions * 1_000_000);
        let (wall, cpu) = (start.elapsed(), thread_cpu() - cpu);
        recorder.flush()?;
        let all = start.elapsed();
        // A device cannot be truncated.
        if again.metadata()?.is_file() {
            again.set_len(0)?;
            io::Seek::rewind(&mut &again)?;
        }
        let events = millions as f64 * 1e6;
        println!(
            "program=recording on_ns={:.2} on_cpu_ns={:.2} all_ns={:.2} waits={} rss_mb={:.1} bytes_mb_s={:.0}",
            wall.as_secs_f64() * 1e9 / events,
            cpu.as_secs_f64() * 1e9 / events,
            all.as_secs_f64() * 1e9 / events,
            recorder.totals().waits - waits,
            peak_rss_mb() - before_mb,
            events * 40.0 / 1e6 / all.as_secs_f64(),
        );
    }
    let ended = EVENTS.end_recording(consumer)?;
    if ended.totals.fired != ended.totals.written {
        return Err(format!("events were lost: {:?}", ended.totals).into());
    }
    Ok(())
}

#[inline(never)]
fn fire(events: &Events, steps: u64) {
    for step in 0..steps {
        events.fire_object_allocated(step as usize, 32);
        black_box(step);
    }
}
