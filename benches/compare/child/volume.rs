//! A telemetry stream of the Memory Pool System with all events on, compared with `dd` writing the same number of bytes in blocks of the
//! same size.
//!
//! `volume FILE MILLIONS ROUNDS [cached]`: each round writes MILLIONS million events from two threads to a new file, and runs `dd` from
//! `/dev/zero` to another file; the two take turns being first. Before each, `sync` writes out all dirty pages. The time is measured until
//! the bytes are on the device; with `cached` only until they are in the page cache, which shows the CPU cost but is faster than a
//! long stream can be. The file is removed before the next run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use stopworld::World;
use stopworld::events::Categories;
use stopworld_trace::mps::Options;

use super::{Failure, Rounds, cpu_s, number, peak_rss_mb};

/// The block size of the stream's writer.
const BLOCK: &str = "1M";
const BLOCK_BYTES: u64 = 1 << 20;
const THREADS: u64 = 2;

/// The point at which the time measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    OnTheDevice,
    Cached,
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let file = PathBuf::from(arguments.first().ok_or("FILE is missing")?);
    let millions: u64 = number(arguments, 1, "MILLIONS")?;
    let count: usize = number(arguments, 2, "ROUNDS")?;
    let until = if arguments.get(3) == Some(&"cached") { Until::Cached } else { Until::OnTheDevice };
    let mut ratios = Vec::new();
    while rounds.next() {
        for round in 0..count {
            // Approximately the size of the stream.
            let bytes = millions * 40_000_000;
            let (ours, theirs) = if round % 2 == 0 {
                let ours = stream(&file, millions, until)?;
                (ours, copy(&file, bytes, until)?)
            } else {
                let theirs = copy(&file, bytes, until)?;
                (stream(&file, millions, until)?, theirs)
            };
            println!("program=volume ours_mb_s={ours:.0} dd_mb_s={theirs:.0} ratio={:.3}", ours / theirs);
            ratios.push(ours / theirs);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).ok_or("ROUNDS is 0")?;
    println!("program=volume median_ratio={middle:.3} of {} rounds", ratios.len());
    Ok(())
}

/// Writes a stream and returns its MB/s.
fn stream(file: &Path, millions: u64, until: Until) -> Result<f64, Failure> {
    write_what_is_left();
    let before_mb = peak_rss_mb();
    let cpu = cpu_s();
    let trace = Options::new(file, Categories::ALL).start()?;
    let world = World::builder().record_to(&trace).build()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let events = world.events();
                for step in 0..millions * 1_000_000 / THREADS {
                    events.fire_object_allocated(step as usize * 8, 32);
                }
            });
        }
    });
    trace.flush()?;
    let written = start.elapsed().as_secs_f64();
    if until == Until::OnTheDevice {
        File::open(file)?.sync_data()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(world);
    let finished = trace.finish()?;
    std::fs::remove_file(file)?;
    if !finished.is_complete() {
        return Err(format!("the file is incomplete: {finished:?}").into());
    }
    println!(
        "program=volume events={} bytes={} lossless=true written_s={written:.2} seconds={seconds:.2} cpu_s={:.2} rss_mb={:.1}",
        finished.totals.written,
        finished.bytes,
        cpu_s() - cpu,
        peak_rss_mb() - before_mb
    );
    Ok(finished.bytes as f64 / 1e6 / seconds)
}

/// Runs `dd` and returns its MB/s.
fn copy(file: &Path, bytes: u64, until: Until) -> Result<f64, Failure> {
    write_what_is_left();
    let mut dd = Command::new("dd");
    dd.arg("if=/dev/zero").arg(format!("of={}", file.display())).arg(format!("bs={BLOCK}"));
    dd.arg(format!("count={}", bytes / BLOCK_BYTES)).stderr(Stdio::null());
    if until == Until::OnTheDevice {
        dd.arg("conv=fdatasync");
    }
    let start = Instant::now();
    let status = dd.status()?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(file)?;
    if status.success() { Ok(bytes as f64 / 1e6 / seconds) } else { Err("dd failed".into()) }
}

/// Writes out dirty pages left by other processes, so that they do not slow down this measurement.
fn write_what_is_left() {
    // SAFETY: sync has no arguments and can't fail.
    unsafe { libc::sync() };
}
