//! Attaching to a process, launching one, and detaching from it.
//!
//! # Attaching
//!
//! Threads are seized one by one, while new ones are created. Threads created by a seized thread are seized too, except one: a thread whose
//! creation was in progress when its creator was seized. It appears in the list of threads at the end of the call, which may take longer
//! than any number of passes over the list. So after each pass that has seized a thread all seized threads are stopped, which ends their
//! calls, and the list is read again until it has no new thread. The list also ends early if a thread ends at the moment at which it is
//! listed: it is complete only if its length is the number of threads that the kernel counts. A debugger that has missed a thread would
//! not be notified when that thread collects (`.debug.missed`).
//!
//! Then the descriptor, the control word and the lists are read and written in the stopped process, and all threads are resumed.
//!
//! # Launching
//!
//! The child is forked by the debugger and waits on a pipe. It is seized there, so neither PTRACE_TRACEME nor a stop signal is needed, and
//! it reports its exec. At that moment the program is mapped and none of it has run. Its descriptor is at its final address, and the
//! control word in it is not a pointer that the dynamic linker would overwrite. So the control word is written then, and the debugger
//! serves even the first stop of the first world. Data that is not relocated yet is read when the first notification arrives.
//!
//! # Detaching
//!
//! The debugger can detach at any moment. A stop of the world in progress is completed first. If the stop does not end in time, the
//! threads are left where a dead debugger would leave them, in `park`, where they wait for the end of the collection; but each is
//! detached by a request, and without a signal. A notification that was not served is not acknowledged, and the collector continues
//! without the debugger.
//!
//! The kernel detaches a thread by request only while it is stopped. A thread that is not stopped (it is about to end, is in
//! uninterruptible sleep, or was created at the last moment) is detached as soon as it stops. If that takes too long, the
//! error names the thread. It is still traced, and a later attempt can detach it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::core::{Children, Debugger, new_number};
use super::death::{Death, Step};
use super::error::{DebuggerError, system};
use super::event::{PhaseSet, Statistics};
use super::memory::Memory;
use super::sys::{self, Alarm, Ends, Patience, Report, Waited};
use super::tracee::{Stop, Tracee};
use super::{DebuggerOptions, Silence, TargetState, proc};
use stopworld_platform::os::Tid;

/// The maximum number of passes over the list of threads; attaching fails if the list changes more often.
const MOST_PASSES: usize = 1000;

/// The time limit for completing a stop, and for detaching.
const END_WITHIN: Duration = Duration::from_secs(2);
/// The time limit for the end of a killed process.
const KILL_WITHIN: Duration = Duration::from_secs(10);

/// The result of a pass over the list of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// At least one thread was seized.
    Seized,
    /// No thread was seized, but the list may lack threads.
    Incomplete,
    /// The list is complete, and all of its threads were seized before.
    NothingNew,
}

impl Debugger {
    /// Attaches to a running process. Its threads continue to run.
    ///
    /// # Errors
    /// If there is no such process, or it may not be traced.
    pub fn attach(pid: i32, options: DebuggerOptions) -> Result<Self, DebuggerError> {
        let alarm = Alarm::new().map_err(system("setting a timer"))?;
        let leader = proc::threads(pid).map_err(|_| DebuggerError::NoProcess(pid))?;
        // The memory is opened before any thread is seized, by the first thread that is alive.
        let live = leader.iter().copied().find(|tid| !proc::is_zombie(pid, *tid));
        let live = live.ok_or(DebuggerError::NoProcess(pid))?;
        let refused = |_: io::Error| DebuggerError::NotAllowed { pid, tracer: proc::tracer(pid, live) };
        if pid == std::process::id() as i32 {
            return Err(DebuggerError::NotAllowed { pid, tracer: 0 });
        }
        let memory = Memory::open(pid, live).map_err(refused)?;
        let mut debugger = Self::new(pid, options, memory, alarm);
        debugger.is_others_child = proc::parent(pid) == std::process::id() as i32;
        let silent = match debugger.seize_and_halt_all() {
            Ok(silent) => silent,
            Err(error) => {
                // Threads that cannot be detached now are detached when the debugger is dropped or exits.
                let _ = debugger.leave();
                return Err(error);
            }
        };
        debugger.death.reached(Step::Attached);
        debugger.silent.extend(silent.into_iter().map(|(tid, _)| tid.0));
        debugger.search();
        debugger.enroll();
        debugger.resume_unheld();
        // Threads that exist at attach are not reported as created.
        debugger.events.retain(|event| !matches!(event, super::Event::ThreadCreated { .. }));
        debugger.statistics.created = 0;
        Ok(debugger)
    }

    /// Runs a program under the debugger. The program is stopped before its first instruction, held by the user.
    ///
    /// # Errors
    /// If the program cannot be run, or may not be traced.
    pub fn launch(program: &OsStr, arguments: &[OsString], options: DebuggerOptions) -> Result<Self, DebuggerError> {
        let shown = program.to_string_lossy().into_owned();
        let refused = |error: io::Error| DebuggerError::Launch { program: shown.clone(), error };
        let alarm = Alarm::new().map_err(system("setting a timer"))?;
        let string = |text: &OsStr| CString::new(text.as_bytes()).map_err(|error| refused(error.into()));
        let program = string(program)?;
        let mut argv = vec![program.clone()];
        for argument in arguments {
            argv.push(string(argument)?);
        }
        let mut child = sys::launch(&program, &argv).map_err(refused)?;
        let pid = child.pid;
        let memory = Memory::open(pid, pid).map_err(refused)?;
        let mut debugger = Self::new(pid, options, memory, alarm);
        sys::seize(pid).map_err(|_| DebuggerError::NotAllowed { pid, tracer: 0 })?;
        debugger.tracees.insert(pid, Tracee::new(Stop::Running));
        child.go().map_err(refused)?;
        loop {
            match sys::wait(pid, Patience::Sleep, Ends::Taken) {
                Waited::Reported(_, Report::Exec) => break,
                Waited::Reported(_, report) if report.is_end() => {
                    debugger.state = TargetState::Exited(127);
                    let error = child
                        .error()
                        .unwrap_or_else(|| io::Error::other("the process ended before it executed the program"));
                    return Err(DebuggerError::Launch { program: shown, error });
                }
                Waited::Reported(tid, report) => debugger.handle(tid, report)?,
                Waited::Nothing => {}
                Waited::NoThread => return Err(DebuggerError::NoProcess(pid)),
            }
        }
        debugger.death.reached(Step::Attached);
        if let Some(tracee) = debugger.tracees.get_mut(&pid) {
            tracee.by_user = true;
        }
        debugger.settle(pid, Report::Exec);
        debugger.events.retain(|event| !matches!(event, super::Event::Executed));
        Ok(debugger)
    }

    fn new(pid: i32, options: DebuggerOptions, memory: Memory, alarm: Alarm) -> Self {
        Self {
            pid,
            options,
            state: TargetState::Alive,
            memory,
            alarm: Rc::new(alarm),
            extended_room: sys::extended_room(),
            batch: Batch::default(),
            tracees: BTreeMap::new(),
            libraries: Vec::new(),
            who: new_number(),
            tracer: sys::this_thread(),
            answered: Vec::new(),
            in_control: HashSet::new(),
            breakpoints: BTreeMap::new(),
            stop: None,
            originals: Vec::new(),
            hold_at: PhaseSet::NONE,
            held: None,
            events: VecDeque::new(),
            statistics: Statistics::default(),
            death: Death::from_environment(),
            silent: HashSet::new(),
            is_others_child: false,
            job_stopped: false,
            searched: Instant::now(),
            complaints: HashSet::new(),
            stop_is_due: false,
            interrupted: Arc::default(),
            children: Children::OursOnly,
        }
    }

    /// Seizes and stops every thread: see the module's text. Returns the threads that did not stop in time.
    fn seize_and_halt_all(&mut self) -> Result<Vec<(Tid, Silence)>, DebuggerError> {
        let mut silent = Vec::new();
        for _ in 0..MOST_PASSES {
            match self.seize_new()? {
                Pass::NothingNew => break,
                Pass::Incomplete => {}
                Pass::Seized => silent = self.halt(|_, _| true),
            }
        }
        // A leader that has ended is not among the tracees: its end is reported with the last thread's.
        if self.tracees.is_empty() { Err(DebuggerError::NoProcess(self.pid)) } else { Ok(silent) }
    }

    /// Seizes every thread of the list that is not seized yet.
    fn seize_new(&mut self) -> Result<Pass, DebuggerError> {
        let threads = proc::threads(self.pid).map_err(|_| DebuggerError::NoProcess(self.pid))?;
        let is_complete = proc::thread_count(self.pid) == Some(threads.len());
        let mut pass = if is_complete { Pass::NothingNew } else { Pass::Incomplete };
        for tid in threads {
            if self.tracees.contains_key(&tid) {
                continue;
            }
            match sys::seize(tid) {
                Ok(()) => {}
                // The thread was seized at its creation, and will report that; or it has ended, or is about to end.
                Err(_) if proc::tracer(self.pid, tid) == self.tracer => {}
                Err(_) if proc::is_zombie(self.pid, tid) => continue,
                Err(_) => {
                    let tracer = proc::tracer(self.pid, tid);
                    return Err(DebuggerError::NotAllowed { pid: self.pid, tracer });
                }
            }
            self.tracees.insert(tid, Tracee::new(Stop::Running));
            pass = Pass::Seized;
        }
        Ok(pass)
    }

    /// Resumes all threads that are not held.
    pub(super) fn resume_unheld(&mut self) {
        let stopped: Vec<i32> = self.tracees.keys().copied().collect();
        for tid in stopped {
            let Some(tracee) = self.tracees.get(&tid) else { continue };
            if !tracee.is_held() && !matches!(tracee.stop, Stop::Notification(_)) {
                self.resume(tid);
            }
        }
    }

    /// Detaches from the process, at any moment. No thread stays stopped; threads that the user held are resumed.
    ///
    /// # Errors
    /// If the process has ended or is detached; or if a thread does not stop in time. Such a thread cannot be detached now: it is still
    /// debugged, and can be detached later. Other refusals of the kernel are not errors: they concern threads that are gone.
    pub fn detach(&mut self) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.death.reached(Step::Detaching);
        self.hold_at = PhaseSet::NONE;
        self.release_user_holds();
        // A request that cannot be served is not acknowledged: the collector continues without a debugger, as it does from now on anyway.
        let _ = self.finish_stops();
        self.must_be_alive()?;
        self.leave()
    }

    fn finish_stops(&mut self) -> Result<(), DebuggerError> {
        let until = Instant::now() + END_WITHIN;
        let is_busy = |d: &Self| d.stop.is_some() || !d.answered.is_empty();
        while is_busy(self) && self.state == TargetState::Alive && Instant::now() < until {
            self.go_on()?;
            if !self.take()? {
                self.rest();
            }
        }
        Ok(())
    }

    fn release_user_holds(&mut self) {
        self.held = None;
        for tracee in self.tracees.values_mut() {
            tracee.by_user = false;
            tracee.at_phase = false;
        }
        // Threads that only the user held are resumed; notifications are served as usual.
        let waiting: Vec<i32> = self.tracees.keys().copied().collect();
        for tid in waiting {
            // A request that cannot be served is not acknowledged; nothing else is needed.
            let _ = self.attend(tid);
        }
    }

    /// Stops all threads, undoes the debugger's changes to the target's memory, and detaches all threads. The error names a thread that is
    /// still traced.
    fn leave(&mut self) -> Result<(), DebuggerError> {
        // This waits again for a thread that did not stop when the others are detached; nothing was changed in that thread.
        let _ = self.halt(|_, _| true);
        for library in &self.libraries {
            if self.in_control.contains(&library.descriptor)
                && self.memory.word(library.control()).is_ok_and(|word| word >> 32 == u64::from(self.who))
            {
                let _ = self.memory.write(library.control(), &0u64.to_le_bytes());
            }
        }
        for (at, byte) in std::mem::take(&mut self.breakpoints) {
            let _ = self.memory.write(super::Address(at), &[byte]);
        }
        // The debugger must not take control again when these threads report.
        self.silent.clear();
        self.detach_all()
    }

    fn detach_all(&mut self) -> Result<(), DebuggerError> {
        let collecting = self.stop.take().map(|stop| stop.collecting);
        self.answered.clear();
        self.originals.clear();
        let mut tracees = std::mem::take(&mut self.tracees);
        // The collecting thread checks whether it is still traced: it is detached last.
        let last = collecting.and_then(|tid| Some((tid, tracees.remove(&tid)?)));
        let mut left = Vec::new();
        for (tid, tracee) in tracees.into_iter().chain(last) {
            let signal = match tracee.stop {
                Stop::Signal(signal) => signal,
                _ => 0,
            };
            // Only a stopped thread can be detached by request.
            if sys::detach(tid, signal).is_err() {
                left.push(tid);
            }
        }
        let left = self.detach_remaining(left);
        if self.state != TargetState::Alive {
            return Ok(());
        }
        if let Some(&tid) = left.first() {
            self.tracees.extend(left.into_iter().map(|tid| (tid, Tracee::new(Stop::Running))));
            return Err(DebuggerError::Silent { tid: Tid(tid), within: END_WITHIN, why: Silence::of(self.pid, tid) });
        }
        self.state = TargetState::Detached;
        Ok(())
    }

    /// Waits for threads that could not be detached. A thread that is about to end, or was created at the last moment, is still traced. If
    /// the debugger did not take the report of its end, the process could not end as long as the debugger lives. And a thread that runs would
    /// stop at some time when no debugger waits to resume it. Returns the threads that neither ended nor were detached in time.
    fn detach_remaining(&mut self, mut left: Vec<i32>) -> Vec<i32> {
        let born = proc::threads(self.pid).unwrap_or_default();
        left.extend(born.into_iter().filter(|tid| proc::tracer(self.pid, *tid) == self.tracer));
        left.sort_unstable();
        left.dedup();
        for tid in &left {
            let _ = sys::interrupt(*tid);
        }
        let until = Instant::now() + END_WITHIN;
        while !left.is_empty() && Instant::now() < until {
            let mut born = Vec::new();
            left.retain(|&tid| match sys::wait(tid, Patience::Look, self.ends_of(tid)) {
                Waited::Reported(_, report) if report.is_end() => {
                    if tid == self.pid {
                        self.ended(report);
                    }
                    false
                }
                Waited::Reported(_, report) => {
                    if report == Report::Clone {
                        born.extend(sys::event_message(tid));
                    }
                    sys::detach(tid, self.signal_at_detach(tid, report)).is_err()
                }
                Waited::Nothing => true,
                Waited::NoThread => false,
            });
            left.append(&mut born);
            std::thread::sleep(Duration::from_micros(200));
        }
        left
    }

    /// Returns the signal to deliver when a thread that has reported this is detached: the reported signal, if it is a signal of the program
    /// and its rule passes it on. 0 for anything else, such as notifications and our breakpoints.
    fn signal_at_detach(&self, tid: i32, report: Report) -> i32 {
        match report {
            Report::Signal(libc::SIGTRAP) if self.at_breakpoint(tid).is_some() => 0,
            Report::Signal(signal) if self.libraries.iter().any(|known| known.notify_signal == signal) => 0,
            Report::Signal(signal) if self.signal_rule(signal).pass => signal,
            _ => 0,
        }
    }

    /// Kills the process and waits for its end.
    ///
    /// # Errors
    /// If the process has ended or is detached, or does not end when killed.
    pub fn kill(&mut self) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        sys::kill(self.pid).map_err(system("killing the process"))?;
        for tracee in self.tracees.values_mut() {
            (tracee.by_user, tracee.by_world, tracee.at_phase) = (false, false, false);
        }
        self.stop = None;
        let until = Instant::now() + KILL_WITHIN;
        while self.state == TargetState::Alive {
            if Instant::now() >= until {
                return Err(DebuggerError::NotKilled(self.pid));
            }
            if !self.take()? {
                self.rest();
            }
        }
        Ok(())
    }

    pub(super) fn must_be_alive(&self) -> Result<(), DebuggerError> {
        if self.state == TargetState::Alive { Ok(()) } else { Err(DebuggerError::Ended) }
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        if self.state == TargetState::Alive {
            // Threads that cannot be detached now are detached when the debugger exits.
            let _ = self.detach();
        }
    }
}
