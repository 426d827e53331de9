//! The threads to be stopped, the same for our collector (`stw`) and for the bare loop (`stwproto`). The C version is
//! `benches/peers/threads.h`.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Failure;

/// The activity of the threads when they are stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Spinning.
    Busy,
    /// In repeated nanosleep calls of 200 ms.
    Sleep,
    /// In `read()` on a pipe without data.
    Read,
    /// In the same `read()` inside a blocking region, where no signal is needed.
    Blocking,
    /// Allocating.
    Alloc,
}

impl Mode {
    pub fn parse(name: &str) -> Result<Mode, Failure> {
        Ok(match name {
            "busy" => Mode::Busy,
            "sleep" => Mode::Sleep,
            "read" => Mode::Read,
            "blocking" => Mode::Blocking,
            "alloc" => Mode::Alloc,
            other => return Err(format!("{other:?}: not one of busy, sleep, read, blocking, alloc").into()),
        })
    }

    fn runs(self) -> bool {
        matches!(self, Mode::Busy | Mode::Alloc)
    }
}

/// The step count of a running thread, on a separate cache line, so that other threads can see that it runs.
#[repr(align(128))]
#[derive(Default)]
struct Steps(AtomicU64);

/// The threads. Spinning and allocating threads run only during a round, and wait at a gate between rounds.
pub struct ThreadGroup {
    mode: Mode,
    steps: Vec<Steps>,
    ready: AtomicUsize,
    resting: AtomicUsize,
    running: AtomicBool,
    gate: (Mutex<()>, Condvar),
    silent_pipe: (PipeReader, PipeWriter),
}

impl ThreadGroup {
    pub fn new(threads: usize, mode: Mode) -> Result<ThreadGroup, Failure> {
        Ok(ThreadGroup {
            mode,
            steps: (0..threads).map(|_| Steps::default()).collect(),
            ready: AtomicUsize::new(0),
            resting: AtomicUsize::new(0),
            running: AtomicBool::new(false),
            gate: Default::default(),
            silent_pipe: std::io::pipe()?,
        })
    }

    pub fn threads(&self) -> usize {
        self.steps.len()
    }

    /// The body of thread `index` in the modes that need no collector.
    pub fn live(&self, index: usize) -> ! {
        match self.mode {
            Mode::Busy | Mode::Alloc => self.run_in_rounds(index, || {}),
            Mode::Sleep => self.sleep_for_ever(),
            Mode::Read | Mode::Blocking => self.wait_in_read(),
        }
    }

    /// Runs `step` repeatedly during a round, and waits at the gate between rounds.
    pub fn run_in_rounds(&self, index: usize, step: impl Fn()) -> ! {
        self.ready.fetch_add(1, Relaxed);
        let steps = &self.steps[index].0;
        loop {
            let mut lock = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.resting.fetch_add(1, Relaxed);
            while !self.running.load(Relaxed) {
                lock = self.gate.1.wait(lock).unwrap_or_else(PoisonError::into_inner);
            }
            self.resting.fetch_sub(1, Relaxed);
            drop(lock);
            while self.running.load(Relaxed) {
                step();
                steps.store(steps.load(Relaxed) + 1, Relaxed);
            }
        }
    }

    pub fn wait_in_read(&self) -> ! {
        self.ready.fetch_add(1, Relaxed);
        loop {
            match (&self.silent_pipe.0).read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // the write end of the pipe stays open, and nothing is written
                _ => std::process::abort(),
            }
        }
    }

    fn sleep_for_ever(&self) -> ! {
        self.ready.fetch_add(1, Relaxed);
        loop {
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until every thread is in the state in which it will be stopped, or at the gate.
    pub fn wait_until_settled(&self) {
        let at_their_place = if self.mode.runs() { &self.resting } else { &self.ready };
        while at_their_place.load(Relaxed) < self.threads() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // time for the last thread to enter its system call
        std::thread::sleep(Duration::from_millis(50));
    }

    pub fn let_them_run(&self) {
        if self.mode.runs() {
            let lock = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.running.store(true, Relaxed);
            self.gate.1.notify_all();
            drop(lock);
            self.wait_until_all_ran();
        }
    }

    /// Waits until every running thread has made another step. A thread that is still returning from the last stop would
    /// make the next stop look cheaper than it is.
    pub fn wait_until_all_ran(&self) {
        if !self.mode.runs() {
            return;
        }
        let before: Vec<u64> = self.steps.iter().map(|steps| steps.0.load(Relaxed)).collect();
        for (steps, before) in self.steps.iter().zip(before) {
            while steps.0.load(Relaxed) == before {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    pub fn make_them_rest(&self) {
        if self.mode.runs() {
            self.running.store(false, Relaxed);
            while self.resting.load(Relaxed) < self.threads() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}
