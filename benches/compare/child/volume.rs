//! A telemetry stream of the Memory Pool System, everything on, against `dd` writing as many bytes in the same blocks.
//!
//! `volume FILE MILLIONS ROUNDS [cached]`: in each round so many million events from two threads into a new file, and `dd` from
//! `/dev/zero` into another, in turns which comes first. Each begins with nothing left to be written by anybody, and is timed
//! until its bytes are on the device; with `cached` until the page cache has them, which says what the processor does, and more
//! than a stream of any length ever sees. The file is removed before the next begins.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use stopworld::World;
use stopworld::events::Categories;
use stopworld::formats::mps::Options;

use super::{Failure, Rounds, cpu_s, number, peak_rss_mb};

/// What the stream's writer writes at once.
const BLOCK: &str = "1M";
const BLOCK_BYTES: u64 = 1 << 20;
const THREADS: u64 = 2;

/// What is waited for.
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
            // The bytes of a stream of so many allocations, nearly.
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

/// MB/s of a stream.
fn stream(file: &Path, millions: u64, until: Until) -> Result<f64, Failure> {
    write_what_is_left();
    let before_mb = peak_rss_mb();
    let cpu = cpu_s();
    let trace = Options::new(file, Categories::ALL).start()?;
    let world = World::builder().traced_by(&trace).build()?;
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
        return Err(format!("not everything is in the file: {finished:?}").into());
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

/// MB/s of `dd`.
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

/// What others have left in the page cache is not ours to pay for.
fn write_what_is_left() {
    // SAFETY: it takes nothing and can't fail.
    unsafe { libc::sync() };
}
