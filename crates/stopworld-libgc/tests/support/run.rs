//! Runs a program to its end, within a time limit, and measures it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a run ended, with its output and its cost.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    stdout: File,
    pub stderr: String,
    pub cost: Cost,
}

impl Finished {
    /// Reads what the program printed to its standard output.
    pub fn stdout(&mut self) -> Vec<u8> {
        contents(&mut self.stdout).expect("a file that was just written")
    }
}

/// What a run cost, with the processes that it waited for.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub wall: Duration,
    /// Processor time in the program itself.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The largest resident set in KiB; at least the private memory of the calling process when it started the program.
    pub peak_kib: u64,
}

/// Runs the command with empty input. Its output goes to unnamed files, so a program that prints much does not wait for a reader.
///
/// # Errors
/// The program cannot be started, or still ran after `limit`: then it is killed with its process group, and the error has the end of its
/// standard error.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Finished> {
    let (stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
    // With such a function the process is made by fork. By vfork, it would inherit the largest resident set of this process.
    // SAFETY: the function does nothing.
    unsafe { command.pre_exec(|| Ok(())) };
    let begin = Instant::now();
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some((status, cost)) = ended(pid, begin)? {
            let stderr = String::from_utf8_lossy(&contents(&mut stderr)?).into_owned();
            return Ok(Finished { status, stdout, stderr, cost });
        }
        if begin.elapsed() > limit {
            // SAFETY: no memory is involved. The group is the child's own, and the child has not been waited for.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
            while ended(pid, begin)?.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let stderr = String::from_utf8_lossy(&contents(&mut stderr)?).into_owned();
            let message = format!("still running after {limit:?}; its standard error ends with:\n{}", tail(&stderr));
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(16));
    }
}

/// Returns the last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    Ok(all)
}

/// Returns the status and the cost of a child that has ended, and lets the kernel forget the child.
fn ended(pid: i32, begin: Instant) -> io::Result<Option<(ExitStatus, Cost)>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writes.
    let waited = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    match waited {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => {
            // SAFETY: a structure of integers, for which zeros are valid, and which wait4 has filled.
            let usage = unsafe { usage.assume_init() };
            let duration = |time: libc::timeval| {
                Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_usec).unwrap_or(0) * 1000)
            };
            let cost = Cost {
                wall: begin.elapsed(),
                user: duration(usage.ru_utime),
                system: duration(usage.ru_stime),
                peak_kib: usage.ru_maxrss.unsigned_abs(),
            };
            Ok(Some((ExitStatus::from_raw(status), cost)))
        }
    }
}
