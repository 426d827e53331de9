//! The event loop: takes the threads' reports and handles them.
//!
//! A report is first *settled*: it becomes a state of its thread ([`Stop`]), and events about created and ended threads. Then a thread that
//! is not held is resumed, or served if it is stopped for a notification. During a stop of the world reports are only settled; they are
//! handled when the world runs again.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::death::{Death, Step};
use super::error::DebuggerError;
use super::event::{Event, PhaseSet, Statistics};
use super::memory::{Address, Memory};
use super::options::{Channel, DebuggerOptions, Phases};
use super::registers::ThreadRegisters;
use super::sys::{self, Alarm, Ends, Patience, Report, WaitInterrupter, Waited};
use super::target::{Library, TargetError};
use super::tracee::{Notification, Stop, Tracee};
use super::{Mode, modules, proc};
use stopworld_platform::os::Tid;
use stopworld_platform::sync::{AtomicBool, AtomicU32, Ordering};

/// A debugger and its one process. See the [module documentation](super).
pub struct Debugger {
    pub(super) pid: i32,
    pub(super) options: DebuggerOptions,
    pub(super) state: TargetState,
    pub(super) memory: Memory,
    pub(super) alarm: Rc<Alarm>,
    /// Size in bytes of a thread's extended state; at first an upper bound.
    pub(super) extended_room: usize,
    /// The writes of the present stop; the memory is kept from stop to stop.
    pub(super) batch: Batch,
    pub(super) tracees: BTreeMap<i32, Tracee>,
    pub(super) libraries: Vec<Library>,
    /// The attach id in our control words. It is different each time the debugger attaches or takes control again. Otherwise a collection
    /// that began under an earlier control could be mistaken for one that the debugger holds now.
    pub(super) who: u32,
    /// The id of the thread that is the tracer.
    pub(super) tracer: i32,
    /// Threads that were answered for in assisted stops, with their worlds: they stay stopped until the start.
    pub(super) answered: Vec<(Address, i32)>,
    /// Libraries whose control word is ours, by the address of the descriptor.
    pub(super) in_control: HashSet<Address>,
    /// The original byte at each of our breakpoints.
    pub(super) breakpoints: BTreeMap<u64, u8>,
    pub(super) stop: Option<FullStop>,
    /// The threads' state when the world had stopped, to be compared with their state when it is started.
    pub(super) originals: Vec<(i32, ThreadRegisters)>,
    pub(super) hold_at: PhaseSet,
    pub(super) held: Option<super::event::HeldPhase>,
    pub(super) events: VecDeque<Event>,
    pub(super) statistics: Statistics,
    pub(super) death: Death,
    /// Threads that did not stop in time: the debugger takes control again when all of them have reported.
    pub(super) silent: HashSet<i32>,
    /// Whether the process is a child of this process for which other code waits.
    pub(super) is_others_child: bool,
    /// Whether the job is stopped, according to its threads' reports.
    pub(super) job_stopped: bool,
    /// When the modules were last searched.
    pub(super) searched: Instant,
    /// Errors in the target's data that were reported: each is reported once.
    pub(super) complaints: HashSet<String>,
    /// Whether the rule of a received signal requires every thread to be stopped.
    pub(super) stop_is_due: bool,
    /// Set by the user to end operations that take long: see [`Debugger::interrupt_flag`].
    pub(super) interrupted: Arc<AtomicBool>,
    /// Whether an unrelated child of this thread has ended: the kernel reports it again and again.
    pub(super) children: Children,
}

/// The state of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// The process is alive, and debugged.
    Alive,
    /// The process exited with this code.
    Exited(i32),
    /// The process was killed by this signal.
    Killed(i32),
    /// The process is no longer debugged.
    Detached,
}

/// A world that this debugger has stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullStop {
    pub(super) world: Address,
    pub(super) collecting: i32,
}

/// Whether this thread has unrelated children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    OursOnly,
    Others,
}

/// Returns an attach id that was not used before, neither by this process nor by another living one.
pub(super) fn new_number() -> u32 {
    static TIMES: AtomicU32 = AtomicU32::new(1);
    // Process ids have 22 bits.
    std::process::id() & 0x3f_ffff | TIMES.fetch_add(1, Ordering::Relaxed) << 22
}

/// How long a poll continues past its timeout while reports follow one another without a gap.
const FLOODED: Duration = Duration::from_millis(100);

/// How often the modules are searched while no library is known.
const SEARCH_EVERY: Duration = Duration::from_millis(50);

/// Ends a debugger's wait, from any thread.
#[derive(Clone)]
pub struct Waker(pub(super) Arc<WaitInterrupter>);

impl Waker {
    /// Makes the present or the next [`Debugger::poll`] return soon.
    pub fn wake(&self) {
        self.0.interrupt();
    }
}

impl Debugger {
    /// Serves the target until there is an event, and returns it. Returns `None` if the timeout passes first, if a [`Waker`] or
    /// the [interrupt flag](Self::interrupt_flag) ends the wait, or if the target has ended or is detached.
    ///
    /// # Errors
    /// If the kernel refused a request. Errors in the target's data are events.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Event>, DebuggerError> {
        let until = Instant::now() + timeout;
        // The alarm is kept from the first sleep on, so that later stops of the world are served without setting the timer again.
        let alarm = Rc::clone(&self.alarm);
        let mut ticking = None;
        loop {
            self.stop_if_due();
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.state != TargetState::Alive {
                return Ok(None);
            }
            self.search_again();
            self.serve_waiting()?;
            let taken = self.take()?;
            if self.stop_is_due || !self.events.is_empty() {
                continue;
            }
            // Reports that cause no event may follow one another without a gap.
            let late = if taken { FLOODED } else { Duration::ZERO };
            if self.alarm.was_interrupted() || self.is_interrupted() || Instant::now() >= until + late {
                return Ok(None);
            }
            if taken {
                continue;
            }
            ticking.get_or_insert_with(|| alarm.ticking());
            self.rest();
        }
    }

    /// Sleeps until a thread may have something to report, for a limited time. The caller takes the report.
    pub(super) fn rest(&mut self) {
        if self.children == Children::Others {
            // The kernel would return the unrelated child at once.
            std::thread::sleep(Duration::from_micros(500));
            return;
        }
        let ticking = self.alarm.ticking();
        let peeked = sys::peek(Patience::Sleep);
        drop(ticking);
        if peeked.is_err() {
            self.no_tracees_left();
        }
    }

    /// Returns a flag that ends waits: while it is set, [`poll`](Self::poll) returns within milliseconds, and a call of a function of the
    /// target is aborted. The code that sets it, for example a handler of SIGINT, clears it too.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Returns whether the flag is set. Relaxed: it is only a request, and no other data depends on it.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns a handle that ends this debugger's waits.
    pub fn waker(&self) -> Waker {
        Waker(self.alarm.interrupter())
    }

    /// Takes one report and handles it. Returns whether there was one.
    pub(super) fn take(&mut self) -> Result<bool, DebuggerError> {
        let reporter = match self.children {
            Children::OursOnly => match sys::peek(Patience::Look) {
                Ok(Some((reporter, end))) => self.is_ours(reporter, end).then_some(reporter),
                Ok(None) => return Ok(false),
                Err(_) => {
                    self.no_tracees_left();
                    return Ok(false);
                }
            },
            Children::Others => None,
        };
        let Some(reporter) = reporter else {
            return self.take_from_known();
        };
        match sys::wait(reporter, Patience::Look, self.ends_of(reporter)) {
            Waited::Reported(tid, report) => self.handle(tid, report).map(|()| true),
            Waited::Nothing | Waited::NoThread => Ok(false),
        }
    }

    /// Polls each known thread in turn, because the kernel returns an unrelated child first. Polls stopped threads too, because they may have
    /// been killed.
    fn take_from_known(&mut self) -> Result<bool, DebuggerError> {
        if self.is_others_child
            && let Some(end) = sys::end_of(self.pid)
        {
            self.ended(end);
            return Ok(true);
        }
        let known: Vec<i32> = self.tracees.keys().copied().collect();
        let mut taken = false;
        for tid in known {
            if let Waited::Reported(tid, report) = sys::wait(tid, Patience::Look, self.ends_of(tid)) {
                self.handle(tid, report)?;
                taken = true;
            }
        }
        Ok(taken)
    }

    /// Returns whether to consume the report of the thread's end. The end of a process whose parent is another process is left for that
    /// parent's wait.
    pub(super) fn ends_of(&self, tid: i32) -> Ends {
        if tid == self.pid && self.is_others_child { Ends::Left } else { Ends::Taken }
    }

    /// Returns whether a report is for this debugger. The end of a process for which other code waits is noted, and its report is left for
    /// that code.
    fn is_ours(&mut self, reporter: i32, end: Option<Report>) -> bool {
        if let (Some(end), true) = (end, reporter == self.pid && self.is_others_child) {
            self.ended(end);
            return false;
        }
        if self.tracees.contains_key(&reporter) || proc::has_thread(self.pid, reporter) {
            return true;
        }
        self.children = Children::Others;
        false
    }

    /// Called when the kernel reports that this thread has no tracees.
    fn no_tracees_left(&mut self) {
        if self.state == TargetState::Alive {
            // The leader's end would have been reported to us, unless other code waits for it.
            self.ended(Report::Killed(libc::SIGKILL));
        }
    }

    /// Records the end of the process.
    pub(super) fn ended(&mut self, end: Report) {
        if self.state != TargetState::Alive {
            return;
        }
        self.tracees.clear();
        self.stop = None;
        self.held = None;
        let (state, event) = match end {
            Report::Exited(code) => (TargetState::Exited(code), Event::Exited(code)),
            Report::Killed(signal) => (TargetState::Killed(signal), Event::Killed(signal)),
            _ => (TargetState::Detached, Event::Killed(0)),
        };
        self.state = state;
        self.events.push_back(event);
    }

    /// Settles a report, then resumes the thread or serves it, unless it is held.
    pub(super) fn handle(&mut self, tid: i32, report: Report) -> Result<(), DebuggerError> {
        self.settle(tid, report);
        self.attend(tid)
    }

    /// Turns a report into a state of its thread.
    pub(super) fn settle(&mut self, tid: i32, report: Report) {
        if report.is_end() {
            return self.thread_ended(tid, report);
        }
        if !self.tracees.contains_key(&tid) {
            if !proc::has_thread(self.pid, tid) {
                return drop(sys::detach(tid, 0));
            }
            self.add_thread(tid);
        }
        let stop = match report {
            Report::Signal(signal) => self.signal(tid, signal),
            Report::Group(signal) => self.group(tid, signal),
            Report::Interrupted => {
                self.continued();
                Stop::Plain
            }
            Report::Clone => {
                if let Ok(child) = sys::event_message(tid)
                    && !self.tracees.contains_key(&child)
                {
                    if proc::has_thread(self.pid, child) { self.add_thread(child) } else { Self::decline(child) }
                }
                Stop::Plain
            }
            Report::Exec => {
                self.executed(tid);
                Stop::Plain
            }
            Report::Exit => {
                if let Some(tracee) = self.tracees.get_mut(&tid) {
                    tracee.exiting = true;
                }
                Stop::Plain
            }
            Report::Other | Report::Exited(_) | Report::Killed(_) => Stop::Plain,
        };
        self.no_longer_silent(tid);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        tracee.stop = stop;
        if matches!(report, Report::Interrupted | Report::Group(_)) {
            if tracee.interrupt_pending && !tracee.is_held() {
                self.statistics.late_events += 1;
            }
            tracee.interrupt_pending = false;
            if let Some(noted) = tracee.noted.take() {
                tracee.stop = Stop::Notification(noted);
            }
        }
        // Any stop cancels an interruption that was requested before the stop. An interruption that must not be lost is requested again
        // while the thread is stopped: no stop can cancel that request.
        let was_interrupted = std::mem::take(&mut tracee.interrupt_pending);
        if let (Stop::Notification(notification), true) = (stop, was_interrupted) {
            // The thread was also interrupted, and stops before its next instruction. That is better than the present signal-delivery
            // stop, whose signal could be lost by a call, or delivered if the debugger dies.
            tracee.noted = Some(notification);
            self.interrupt_and_resume(tid);
            return;
        }
        if matches!(report, Report::Clone | Report::Other) && was_interrupted {
            // The thread is in the middle of a system call, whose result is not in rax yet: if the debugger died, a frame pushed here
            // would return without the result. The thread stops at the end of the call.
            self.interrupt_and_resume(tid);
        }
        if report == Report::Exit {
            self.resume(tid);
        }
    }

    /// Called when a thread has reported. When all threads because of which control was given up have reported, takes control again. Between
    /// two stops this is done under a new attach id, since the collector may still be about to clear the old control word.
    fn no_longer_silent(&mut self, tid: i32) {
        if self.silent.remove(&tid) && self.silent.is_empty() {
            if self.stop.is_none() && self.answered.is_empty() {
                self.who = new_number();
            }
            self.take_control();
        }
    }

    /// Resumes a stopped thread, which stops again before its next instruction.
    fn interrupt_and_resume(&mut self, tid: i32) {
        let _ = sys::interrupt(tid);
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.interrupt_pending = true;
        }
        self.resume(tid);
    }

    /// Detaches, as soon as it stops, from a task that is traced because it shares memory with the process, but is a separate process.
    fn decline(tid: i32) {
        loop {
            match sys::wait(tid, Patience::Sleep, Ends::Taken) {
                // A tick interrupted the wait.
                Waited::Nothing => {}
                Waited::Reported(..) => return drop(sys::detach(tid, 0)),
                Waited::NoThread => return,
            }
        }
    }

    /// Adds a new thread.
    fn add_thread(&mut self, tid: i32) {
        let mut tracee = Tracee::new(Stop::Running);
        if self.stop.is_some() {
            tracee.by_world = true;
            self.statistics.newcomers_in_stop += 1;
        }
        self.tracees.insert(tid, tracee);
        self.statistics.created += 1;
        self.events.push_back(Event::ThreadCreated { tid: Tid(tid) });
    }

    fn thread_ended(&mut self, tid: i32, end: Report) {
        if tid == self.pid {
            return self.ended(end);
        }
        self.no_longer_silent(tid);
        if self.tracees.remove(&tid).is_some() {
            self.statistics.exited += 1;
            self.events.push_back(Event::ThreadExited { tid: Tid(tid) });
        }
        if self.memory.live() == tid {
            self.name_by_another();
        }
        if self.stop.as_ref().is_some_and(|stop| stop.collecting == tid) {
            // The collecting thread has ended, and will not start the world.
            self.end_full_stop();
        }
    }

    /// Chooses another living thread by which the process is named.
    fn name_by_another(&mut self) {
        if let Some((&tid, _)) = self.tracees.iter().find(|(_, tracee)| !tracee.exiting) {
            self.memory.set_live(tid);
        }
    }

    /// Returns the state of a thread that is in a signal-delivery stop.
    fn signal(&mut self, tid: i32, signal: i32) -> Stop {
        if signal == libc::SIGTRAP
            && let Some(notification) = self.at_breakpoint(tid)
        {
            return Stop::Notification(notification);
        }
        self.complete_libraries();
        let info = sys::signal_info(tid).ok();
        let queued = info.as_ref().and_then(sys::SignalInfo::queued_value);
        for (library, known) in self.libraries.iter().enumerate() {
            if signal == known.notify_signal
                && let Some(value) = queued
            {
                return Stop::Notification(Notification { library, at: Address(value) });
            }
        }
        if self.libraries.iter().any(|known| known.suspend_signal == signal) {
            self.statistics.suspend_signals += 1;
            return Stop::Signal(signal);
        }
        self.own_signal(tid, signal, info.as_ref())
    }

    /// Returns the notification, if the thread is stopped just past one of our breakpoints.
    pub(super) fn at_breakpoint(&self, tid: i32) -> Option<Notification> {
        if self.options.channel != Channel::Breakpoint {
            return None;
        }
        let registers = sys::general(tid).ok()?;
        let library = self.libraries.iter().position(|known| known.notify.0.wrapping_add(1) == registers.rip)?;
        Some(Notification { library, at: Address(registers.rdi) })
    }

    fn group(&mut self, tid: i32, signal: i32) -> Stop {
        self.statistics.group_stops += 1;
        if !self.job_stopped && self.tracees.contains_key(&tid) {
            self.job_stopped = true;
            self.events.push_back(Event::GroupStopped { signal });
        }
        Stop::Group(signal)
    }

    fn continued(&mut self) {
        if self.job_stopped && !self.tracees.values().any(|t| matches!(t.stop, Stop::Group(_))) {
            self.job_stopped = false;
            self.events.push_back(Event::Continued);
        }
    }

    /// Handles an exec: the process has one thread, which runs another program.
    fn executed(&mut self, tid: i32) {
        self.tracees.retain(|other, _| *other == tid);
        self.stop = None;
        self.originals.clear();
        self.held = None;
        self.libraries.clear();
        self.in_control.clear();
        self.breakpoints.clear();
        self.silent.clear();
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            let by_user = tracee.by_user;
            *tracee = Tracee::new(Stop::Plain);
            tracee.by_user = by_user;
        }
        match Memory::open(self.pid, tid) {
            Ok(memory) => self.memory = memory,
            Err(_) => self.memory.set_live(tid),
        }
        self.events.push_back(Event::Executed);
        self.search();
    }

    /// Handles a stopped thread according to the reason of its stop, unless it is held.
    pub(super) fn attend(&mut self, tid: i32) -> Result<(), DebuggerError> {
        let Some(tracee) = self.tracees.get(&tid) else { return Ok(()) };
        if tracee.is_held() || tracee.stop == Stop::Running {
            return Ok(());
        }
        match tracee.stop {
            // During another world's stop, this notification has to wait.
            Stop::Notification(_) if self.stop.as_ref().is_some_and(|stop| stop.collecting != tid) => Ok(()),
            Stop::Notification(notification) => self.serve(tid, notification),
            _ => {
                self.resume(tid);
                Ok(())
            }
        }
    }

    /// Serves the threads whose notifications had to wait.
    pub(super) fn serve_waiting(&mut self) -> Result<(), DebuggerError> {
        if self.stop.is_some() {
            return Ok(());
        }
        let is_waiting = |t: &Tracee| matches!(t.stop, Stop::Notification(_)) && !t.is_held();
        while self.stop.is_none()
            && let Some((&tid, _)) = self.tracees.iter().find(|(_, t)| is_waiting(t))
        {
            self.attend(tid)?;
        }
        Ok(())
    }

    /// Resumes a thread, in the way that its stop requires. If the thread has ended already, its end will be reported.
    pub(super) fn resume(&mut self, tid: i32) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let signal = match tracee.stop {
            Stop::Running | Stop::Listening(_) => return,
            Stop::Group(signal) => {
                let listens = sys::listen(tid).is_ok();
                tracee.stop = if listens { Stop::Listening(signal) } else { Stop::Running };
                return;
            }
            Stop::Signal(signal) => signal,
            Stop::Plain | Stop::Notification(_) => 0,
        };
        tracee.stop = Stop::Running;
        let _ = sys::resume(tid, signal);
    }

    /// Reports an error in the target's data, once.
    pub(super) fn refuse(&mut self, error: TargetError) {
        self.statistics.refused += 1;
        if self.complaints.len() < 1000 && self.complaints.insert(error.to_string()) {
            self.events.push_back(Event::Refused(error));
        }
    }

    /// Searches for libraries, at intervals, while none is known.
    fn search_again(&mut self) {
        if self.libraries.is_empty() && self.searched.elapsed() >= SEARCH_EVERY {
            self.search();
        } else if self.options.channel == Channel::Breakpoint && self.searched.elapsed() >= SEARCH_EVERY {
            self.searched = Instant::now();
            self.complete_libraries();
        }
    }

    /// Searches for libraries now, and takes control of new ones. Returns the number of new ones.
    pub(super) fn search(&mut self) -> usize {
        self.searched = Instant::now();
        let Ok(text) = modules::read_maps(self.pid, self.memory.live()) else { return 0 };
        let maps = modules::parse_maps(&text);
        let mut new = 0;
        for candidate in modules::find(self.pid, &self.memory, &maps) {
            if self.libraries.iter().any(|known| known.descriptor == candidate.descriptor) {
                continue;
            }
            match Library::read(&self.memory, &maps, &candidate) {
                Ok(library) => {
                    let (descriptor, version) = (library.descriptor, library.version);
                    self.libraries.push(library);
                    self.events.push_back(Event::LibraryFound { descriptor, version });
                    new += 1;
                }
                Err(error) => self.refuse(error),
            }
        }
        self.take_control();
        new
    }

    /// Reads the descriptors that were not complete yet again.
    fn complete_libraries(&mut self) {
        if self.libraries.iter().all(|known| known.notify_signal != 0) {
            return;
        }
        let Ok(text) = modules::read_maps(self.pid, self.memory.live()) else { return };
        let maps = modules::parse_maps(&text);
        for i in 0..self.libraries.len() {
            let known = &self.libraries[i];
            if known.notify_signal != 0 {
                continue;
            }
            let candidate = modules::Candidate { descriptor: known.descriptor, module: known.module.clone() };
            match Library::read(&self.memory, &maps, &candidate) {
                Ok(library) => self.libraries[i] = library,
                Err(error) => self.refuse(error),
            }
        }
        self.take_control();
    }

    /// Returns the word that is written into each descriptor.
    pub(super) fn control_word(&self) -> u64 {
        use stopworld::debugger::contract::Control;
        let mut word = match self.options.mode {
            Mode::Full => Control::FULL,
            Mode::Assisted => Control::ASSISTED,
        };
        if self.options.channel == Channel::Breakpoint {
            word |= Control::BREAKPOINT;
        }
        if self.options.phases == Phases::Reported || !self.hold_at.is_empty() {
            word |= Control::PHASES;
        }
        word | u64::from(self.who) << 32
    }

    /// Writes the control word of each library, unless the library cannot notify yet.
    pub(super) fn take_control(&mut self) {
        let word = self.control_word();
        for i in 0..self.libraries.len() {
            let library = &self.libraries[i];
            let (descriptor, control) = (library.descriptor, library.control());
            if self.options.channel == Channel::Breakpoint && !self.plant(i) {
                continue;
            }
            if self.memory.word(control).is_ok_and(|now| now == word)
                || self.memory.write(control, &word.to_le_bytes()).is_ok()
            {
                self.in_control.insert(descriptor);
            }
        }
        self.death.reached(Step::ControlWritten);
    }

    /// Writes the breakpoint into the notification function. Returns whether it is there.
    fn plant(&mut self, library: usize) -> bool {
        const BREAKPOINT: u8 = 0xcc;
        let library = &self.libraries[library];
        if library.is_ready != super::target::Ready::Yes {
            return false;
        }
        let at = library.notify;
        if self.breakpoints.contains_key(&at.0) {
            return true;
        }
        // The breakpoint is also written over one that a dead debugger has left: the original byte is the same.
        const NOP: u8 = 0x90;
        let planted = self.memory.write(at, &[BREAKPOINT]).is_ok();
        if planted {
            self.breakpoints.insert(at.0, NOP);
        }
        planted
    }
}
