//! One debugging session: the target, the events that the user watches, and the execution of each command.
//!
//! Everything in this module runs on one thread, the tracer. While a command waits, the session serves the target and reports
//! its events as they happen.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use super::backtrace::Modules;
use super::command::{At, Command, Handling, Rule, Signals, Switch, ThreadSelection, Until, Watched, explained, find};
use super::render;
use stopworld::Tid;
use stopworld::debugger::Phase;
use stopworld_platform::os::signals;
use stopworld_platform::sync::{AtomicBool, Ordering};
use stopworld_ptrace::{
    Debugger, DebuggerError, Event, Held, HeldPhase, Inspect, Mode, Passed, PhaseSet, Phases, SignalRule, Stopped,
    TargetState, ThreadState, WorldState,
};

/// The longest time for which a waiting command handles events of the target before it checks again whether its wait is over.
const LOOK: Duration = Duration::from_millis(200);
/// The time limit for a requested collection.
const COLLECT_WITHIN: Duration = Duration::from_secs(60);
/// The time limit for a requested collection while the user has stopped mutators: short, because one of them may block the collection.
const COLLECT_BESIDE_STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// The time limit for the next phase of a collection.
const STEP_WITHIN: Duration = Duration::from_secs(60);

/// The origin of the target, which decides whether the end of the session kills or detaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Launched,
    Attached,
}

/// Whether the session continues after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Quit,
}

/// The function that prints lines for the user.
pub(super) type Say = Box<dyn FnMut(&dyn Display)>;

/// A debugging session; see the module documentation.
pub(super) struct Session {
    pub(super) debugger: Debugger,
    pub(super) modules: Modules,
    origin: Origin,
    /// The phases at which collections are held.
    holds: PhaseSet,
    watches: Watches,
    say: Say,
    /// Set by Ctrl-C: the current command ends, and the program is stopped.
    interrupted: Arc<AtomicBool>,
    /// The signal that has stopped every thread, until the user continues one.
    stopped_by: Option<i32>,
}

#[derive(Clone, Copy)]
struct Watches {
    threads: Switch,
    collections: Switch,
    phases: Switch,
}

impl Session {
    pub(super) fn new(debugger: Debugger, origin: Origin, say: Say) -> Self {
        let off = Switch::Off;
        let watches = Watches { threads: off, collections: off, phases: off };
        let interrupted = debugger.interrupt_flag();
        let modules = Modules::default();
        Self { debugger, modules, origin, holds: PhaseSet::NONE, watches, say, interrupted, stopped_by: None }
    }

    /// Replaces the function that prints lines.
    pub(super) fn set_output(&mut self, say: Say) {
        self.say = say;
    }

    pub(super) fn say(&mut self, text: impl Display) {
        (self.say)(&text);
    }

    /// Handles events of the target for at most this time, until there is one for the user, and reports that. Returns whether there was one.
    pub(super) fn serve(&mut self, within: Duration) -> Result<bool, DebuggerError> {
        let Some(event) = self.debugger.poll(within)? else { return Ok(false) };
        self.report(&event);
        Ok(true)
    }

    fn report(&mut self, event: &Event) {
        let watches = self.watches;
        if let Event::Signal { signal, stopped: Stopped::All, .. } = event {
            self.stopped_by = Some(*signal);
        }
        let wanted = match event {
            Event::ThreadCreated { .. }
            | Event::ThreadExited { .. }
            | Event::MutatorCreated { .. }
            | Event::MutatorExited { .. } => watches.threads,
            Event::WorldStopped { .. } | Event::WorldStarted { .. } => watches.collections,
            Event::Phase { held: Held::No, .. } => watches.phases,
            _ => Switch::On,
        };
        if wanted == Switch::On {
            self.say(line_of(event));
        }
    }

    fn must_be_alive(&self) -> anyhow::Result<()> {
        match self.debugger.state() {
            TargetState::Alive => Ok(()),
            TargetState::Exited(code) => bail!("the process has ended with {code}; `quit`"),
            TargetState::Killed(signal) => bail!("{} has killed the process; `quit`", signals::name(signal)),
            TargetState::Detached => bail!("the process is no longer debugged; `quit`"),
        }
    }

    /// Executes a command.
    pub(super) fn execute(&mut self, command: Command) -> anyhow::Result<Flow> {
        let needs_nothing =
            matches!(command, Command::Help { .. } | Command::Status | Command::Quit | Command::Wait { .. });
        if !needs_nothing {
            self.must_be_alive()?;
        }
        match command {
            Command::Help { about } => self.help(about.as_deref())?,
            Command::Status => self.status()?,
            Command::Threads => {
                let table = render::threads(&self.debugger.threads()?);
                self.say(table);
            }
            Command::Stop { threads } => self.stop(threads)?,
            Command::Cont { threads } => self.cont(threads)?,
            Command::Collect => self.collect()?,
            Command::Phases { switch } => {
                self.watches.phases = switch;
                self.debugger.set_phases(if switch == Switch::On { Phases::Reported } else { Phases::Unreported })?;
            }
            Command::Hold { at } => {
                self.holds = at.into_iter().flat_map(|At(phases)| phases).collect();
                self.debugger.hold_at(self.holds)?;
            }
            Command::Step => self.step()?,
            Command::Object { address } => self.object(address)?,
            Command::Fields { address } => self.fields(address)?,
            Command::Referrers { address } => self.referrers(address)?,
            Command::Path { address } => self.path(address)?,
            Command::Heap { world } => self.heap(world)?,
            Command::Registers { tid } => {
                let registers = self.with_stopped(tid, |session| Ok(session.debugger.registers(tid)?))?;
                self.say(render::registers(&registers));
            }
            Command::Backtrace { tid } => {
                let frames = self.with_stopped(tid, |session| {
                    let registers = session.debugger.registers(tid)?;
                    Ok(session.modules.backtrace(&session.debugger, &registers)?)
                })?;
                self.say(render::frames(&frames));
            }
            Command::Watch { what, switch } => match what {
                Watched::Threads => self.watches.threads = switch,
                Watched::Collections => self.watches.collections = switch,
            },
            Command::Handle { rules } => self.handle(&rules)?,
            Command::Memory { address, words } => self.memory(address, words)?,
            Command::Wait { until } => self.wait(until)?,
            Command::Mode { mode: None } => {
                let mode = render::mode(self.debugger.options().mode);
                self.say(mode);
            }
            Command::Mode { mode: Some(mode) } => self.set_mode(mode_of(mode))?,
            Command::Detach => {
                self.debugger.detach()?;
                let pid = self.debugger.pid();
                self.say(format_args!("process {pid} is detached and continues to run"));
            }
            Command::Kill => {
                self.debugger.kill()?;
                self.drain();
            }
            Command::Quit => return Ok(Flow::Quit),
        }
        Ok(Flow::Next)
    }

    /// Returns whether Ctrl-C was pressed since the last call.
    pub(super) fn take_interrupt(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }

    /// Performs the action of Ctrl-C: stops every thread, unless the rule for SIGINT does not stop the program.
    pub(super) fn interrupt(&mut self) -> anyhow::Result<()> {
        let is_alive = self.debugger.state() == TargetState::Alive;
        if is_alive && self.debugger.signal_rule(libc::SIGINT).stop {
            self.stop(ThreadSelection::All)?;
        }
        Ok(())
    }

    /// Fails if Ctrl-C or a signal has ended a wait for an event that only a running program can cause.
    fn must_not_be_interrupted(&self, what: &str) -> anyhow::Result<()> {
        if let Some(signal) = self.stopped_by {
            bail!("{} has stopped every thread, so {what}: `cont` first", signals::name(signal));
        }
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Reports the events that have already happened.
    pub(super) fn drain(&mut self) {
        while self.serve(Duration::ZERO).is_ok_and(|something| something) {}
    }

    /// Ends the session: kills a target that it started, detaches from others.
    pub(super) fn end(&mut self) {
        if self.debugger.state() != TargetState::Alive {
            return;
        }
        // The session ends in any case: an error is ignored.
        let _ = match self.origin {
            Origin::Launched => self.debugger.kill(),
            Origin::Attached => self.debugger.detach(),
        };
    }

    fn help(&mut self, about: Option<&str>) -> anyhow::Result<()> {
        match about {
            None => self.say(render::help()),
            Some(name) => {
                let command = find(name).ok_or_else(|| anyhow!("there is no command '{name}': `help` lists them"))?;
                self.say(explained(&command));
            }
        }
        Ok(())
    }

    fn status(&mut self) -> anyhow::Result<()> {
        let alive = self.debugger.state() == TargetState::Alive;
        let worlds = if alive { self.debugger.worlds()? } else { Vec::new() };
        let text = render::status(&self.debugger, &worlds);
        self.say(text);
        Ok(())
    }

    fn stop(&mut self, threads: ThreadSelection) -> anyhow::Result<()> {
        match threads {
            ThreadSelection::One(tid) => {
                self.debugger.freeze(tid)?;
                self.say(format_args!("thread {tid} is stopped"));
            }
            ThreadSelection::All => {
                let new = self.debugger.stop_all()?;
                self.say(format_args!("{new} threads are stopped"));
            }
        }
        Ok(())
    }

    fn cont(&mut self, threads: ThreadSelection) -> anyhow::Result<()> {
        self.stopped_by = None;
        match threads {
            ThreadSelection::One(tid) if self.debugger.thaw(tid)? => {}
            ThreadSelection::One(tid) => {
                bail!("thread {tid} was not stopped; `threads` shows the state of each thread")
            }
            ThreadSelection::All => {
                // A `step` holds collections at every phase; this restores the phases that the user has named.
                self.debugger.hold_at(self.holds)?;
                self.debugger.cont_all()?;
            }
        }
        Ok(())
    }

    /// Stops one thread for the duration of a request, unless it is already stopped.
    fn with_stopped<R>(
        &mut self,
        tid: Tid,
        question: impl FnOnce(&mut Self) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        if self.debugger.registers(tid).is_ok() {
            return question(self);
        }
        self.debugger.freeze(tid)?;
        let answer = question(self);
        let thawed = self.thaw([tid]);
        let answer = answer?;
        thawed?;
        Ok(answer)
    }

    /// Stops all threads for the duration of a request: a reply about the heap is valid only while no thread changes it.
    pub(super) fn with_all_stopped<R>(
        &mut self,
        question: impl FnOnce(&mut Self) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let before = BTreeSet::from_iter(self.debugger.frozen());
        let answer = match self.debugger.stop_all() {
            Ok(_) => question(self),
            Err(error) => Err(error.into()),
        };
        let thawed = self.thaw(self.debugger.frozen().into_iter().filter(|tid| !before.contains(tid)));
        let answer = answer?;
        thawed?;
        Ok(answer)
    }

    /// Resumes all threads that were stopped for a request, even if resuming one of them fails.
    ///
    /// # Errors
    /// The first failure.
    fn thaw(&mut self, threads: impl IntoIterator<Item = Tid>) -> Result<(), DebuggerError> {
        let mut outcome = Ok(());
        for tid in threads {
            let thawed = self.debugger.thaw(tid);
            outcome = outcome.and(thawed.map(drop));
        }
        outcome
    }

    /// Returns the number of each world, its number of collections, and whether a collection is under way.
    fn collections(&mut self) -> anyhow::Result<Vec<(u64, u64, bool)>> {
        let is_under_way = |world: &WorldState| world.collecting.is_some() || world.phase != Ok(Phase::Running);
        let worlds = self.debugger.worlds()?;
        Ok(worlds.iter().map(|world| (world.number, world.collections, is_under_way(world))).collect())
    }

    fn collect(&mut self) -> anyhow::Result<()> {
        let before = self.collections()?;
        if before.is_empty() {
            bail!("the process has no world yet; `wait 0.1` lets it run until it has one");
        }
        // A collection that has already begun is not the requested one.
        let wanted = |world| {
            let known = before.iter().find(|(number, ..)| *number == world);
            known.map_or(u64::MAX, |(_, collections, is_under_way)| collections + 1 + u64::from(*is_under_way))
        };
        super::answer::refused(self.debugger.library_call(None, Inspect::RequestCollection, &[0])?)?;
        if self.debugger.threads()?.iter().all(|thread| thread.frozen) {
            self.say("requested; the collection starts when threads run: `cont`");
            return Ok(());
        }
        let within = self.collect_within()?;
        let until = Instant::now() + within;
        loop {
            self.serve(Duration::from_millis(20))?;
            self.must_be_alive()?;
            if self.debugger.held().is_some() {
                self.drain();
                return Ok(());
            }
            let now = self.collections()?;
            let done: Vec<_> = now
                .iter()
                .filter(|(world, collections, under_way)| *collections >= wanted(*world) && !under_way)
                .collect();
            if !done.is_empty() {
                for (world, collections, _) in done {
                    self.say(format_args!("world {world}: collection {collections} is over"));
                }
                return Ok(());
            }
            self.must_not_be_interrupted("the requested collection waits")?;
            if Instant::now() >= until {
                return Err(self.no_collection_error(within));
            }
        }
    }

    /// Sets the mode between two collections, because a world must be restarted in the mode in which it was stopped.
    fn set_mode(&mut self, mode: Mode) -> anyhow::Result<()> {
        let within = self.collect_within()?;
        let until = Instant::now() + within;
        while self.collections()?.iter().any(|(.., is_under_way)| *is_under_way) {
            if self.debugger.held().is_some() {
                bail!("a collection is held: `cont` first");
            }
            if Instant::now() >= until {
                bail!("a collection is under way, and has not ended within {} s", within.as_secs());
            }
            self.serve(Duration::from_millis(1))?;
            self.must_be_alive()?;
            self.must_not_be_interrupted("the collection that is under way does not end")?;
        }
        Ok(self.debugger.set_mode(mode)?)
    }

    fn collect_within(&mut self) -> anyhow::Result<Duration> {
        let is_stopped = self.debugger.threads()?.iter().any(is_in_the_way);
        Ok(if is_stopped { COLLECT_BESIDE_STOPPED_WITHIN } else { COLLECT_WITHIN })
    }

    /// Returns the error for a missing collection, with its likely reason.
    fn no_collection_error(&mut self, within: Duration) -> anyhow::Error {
        let threads = self.debugger.threads().unwrap_or_default();
        let frozen: Vec<_> =
            threads.iter().filter(|thread| is_in_the_way(thread)).map(|thread| thread.tid.to_string()).collect();
        let worlds = self.debugger.worlds().unwrap_or_default();
        let collecting = worlds.iter().find_map(|world| world.collecting).map(|tid| tid.to_string());
        if let Some(tid) = collecting.filter(|tid| frozen.contains(tid)) {
            return anyhow!("requested, but you have stopped thread {tid}, which collects: `cont {tid}` resumes it");
        }
        let why = match frozen.is_empty() {
            true => "no thread of the world has allocated since; the next allocation starts it".to_owned(),
            false => {
                format!("thread {} may hold a lock that it needs; `cont` resumes all threads", frozen.join(" or "))
            }
        };
        anyhow!("requested, but no collection took place within {} s: {why}", within.as_secs())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        if self.debugger.held().is_none() && self.debugger.threads()?.iter().all(|thread| thread.frozen) {
            bail!("every thread is stopped, so no collection can start: `cont` first");
        }
        self.debugger.hold_at(PhaseSet::ALL)?;
        self.debugger.go_on()?;
        let until = Instant::now() + STEP_WITHIN;
        while self.debugger.held().is_none() {
            self.serve(LOOK)?;
            self.must_be_alive()?;
            if let Err(interrupted) = self.must_not_be_interrupted("no collection can start") {
                self.debugger.hold_at(self.holds)?;
                return Err(interrupted);
            }
            if Instant::now() >= until {
                self.debugger.hold_at(self.holds)?;
                bail!("no collection has started within {} s: `collect` requests one", STEP_WITHIN.as_secs());
            }
        }
        // Report the events that came with the phase.
        self.drain();
        Ok(())
    }

    fn wait(&mut self, until: Until) -> anyhow::Result<()> {
        let begin = Instant::now();
        let is_over = |session: &Self| session.stopped_by.is_some() || session.interrupted.load(Ordering::Relaxed);
        while self.debugger.state() == TargetState::Alive && !is_over(self) {
            let look = match until {
                Until::Time(time) => match time.checked_sub(begin.elapsed()) {
                    Some(left) => left.min(LOOK),
                    None => break,
                },
                _ => LOOK,
            };
            if self.serve(look)? && until == Until::Event {
                break;
            }
        }
        self.drain();
        Ok(())
    }

    /// Sets or shows how signals are handled. As in gdb, `stop` implies `print`, and `noprint` implies `nostop`.
    fn handle(&mut self, rules: &[Rule]) -> anyhow::Result<()> {
        let (mut wanted, mut handlings) = (Vec::new(), Vec::new());
        for rule in rules {
            match rule {
                Rule::Of(signals) => wanted.push(*signals),
                Rule::Change(handling) => handlings.push(*handling),
            }
        }
        if wanted.is_empty() {
            wanted.push(Signals::All);
        }
        let mut handled = Vec::new();
        for signals in wanted {
            match signals {
                Signals::One(signal) => {
                    if let (Some(what), false) = (self.of_the_collector(signal), handlings.is_empty()) {
                        bail!("{} is reserved for the collector: {what}", signals::name(signal));
                    }
                    handled.push(signal);
                }
                // As in gdb, `all` excludes the signals that the debugger uses: they are changed by name.
                Signals::All => handled.extend((1..=libc::SIGRTMAX()).filter(|signal| {
                    let is_needed = [libc::SIGINT, libc::SIGTRAP].contains(signal) && !handlings.is_empty();
                    *signal != libc::SIGKILL && !is_needed && self.of_the_collector(*signal).is_none()
                })),
            }
        }
        for signal in &handled {
            let rule =
                handlings.iter().fold(self.debugger.signal_rule(*signal), |rule, handling| changed(rule, *handling));
            self.debugger.set_signal_rule(*signal, rule);
        }
        let rows = handled.into_iter().map(|signal| (signal, self.debugger.signal_rule(signal)));
        let table = render::signals(rows);
        self.say(table);
        Ok(())
    }

    /// Returns the collector's use of a signal, if it has one. The user can't change the handling of such a signal.
    fn of_the_collector(&self, signal: i32) -> Option<&'static str> {
        self.debugger.libraries().iter().find_map(|library| match signal {
            _ if signal == library.notify_signal => {
                Some("it notifies this debugger, and the program never receives it")
            }
            _ if signal == library.suspend_signal => Some("it suspends threads, and the program always receives it"),
            _ => None,
        })
    }

    fn memory(&mut self, at: stopworld_ptrace::Address, words: usize) -> anyhow::Result<()> {
        let mut bytes = vec![0; words * 8];
        let known = self.debugger.read_some(at, &mut bytes) / 8 * 8;
        if known == 0 {
            bail!("there is no memory at {at}");
        }
        self.say(render::memory(at, &bytes[..known]));
        if known < bytes.len() {
            bail!("there is no memory at {}", at.offset(known));
        }
        Ok(())
    }

    /// Returns the held collection, if any, for the prompt.
    pub(super) fn held(&self) -> Option<HeldPhase> {
        self.debugger.held()
    }
}

/// Returns whether the user has stopped this mutator, which may block a collection.
fn is_in_the_way(thread: &ThreadState) -> bool {
    thread.frozen && thread.managed.is_some()
}

fn changed(rule: SignalRule, handling: Handling) -> SignalRule {
    match handling {
        Handling::Stop => SignalRule { stop: true, print: true, ..rule },
        Handling::NoStop => SignalRule { stop: false, ..rule },
        Handling::Print => SignalRule { print: true, ..rule },
        Handling::NoPrint => SignalRule { stop: false, print: false, ..rule },
        Handling::Pass => SignalRule { pass: true, ..rule },
        Handling::NoPass => SignalRule { pass: false, ..rule },
    }
}

/// Formats a signal of the program as a line.
fn line_of_signal(tid: Tid, signal: i32, passed: Passed, stopped: Stopped) -> String {
    let name = signals::name(signal);
    match (stopped, passed) {
        (Stopped::All, Passed::Withheld) => {
            format!("{name} for thread {tid}: every thread is stopped; `cont` continues without the signal")
        }
        (Stopped::All, _) => format!("{name} for thread {tid}: every thread is stopped; `cont` delivers the signal"),
        (Stopped::No, Passed::On) => format!("{name} for thread {tid}"),
        (Stopped::No, Passed::Later) => format!("{name} for thread {tid}, which receives it when it continues"),
        (Stopped::No, Passed::Withheld) => format!("{name} for thread {tid}, which does not receive it"),
    }
}

/// Formats an event as a line.
fn line_of(event: &Event) -> String {
    let phase_name = |phase: &Result<Phase, u32>| match phase {
        Ok(phase) => phase.name().to_owned(),
        Err(number) => format!("phase {number}"),
    };
    match event {
        Event::LibraryFound { descriptor, version } => {
            format!("a collector was found: descriptor at {descriptor}, contract version {version}")
        }
        Event::WorldStopped { world, epoch, by, stopped, frozen } => {
            format!(
                "world {world} is stopped (stop {epoch}, by thread {by}): {stopped} threads for it, {frozen} by you"
            )
        }
        Event::WorldStarted { world, epoch, by } => format!("world {world} runs again (stop {epoch}, by thread {by})"),
        Event::Phase { world, phase, by, held } => {
            let held = if *held == Held::Yes { ": held; `step` or `cont` resumes it" } else { "" };
            format!("world {world}: {} (thread {by}){held}", phase_name(phase))
        }
        Event::ThreadCreated { tid } => format!("thread {tid} has begun"),
        Event::ThreadExited { tid } => format!("thread {tid} has ended"),
        Event::MutatorCreated { tid, world, name } => format!("thread {tid} is mutator \"{name}\" of world {world}"),
        Event::MutatorExited { tid, world } => format!("thread {tid} is no longer a mutator of world {world}"),
        Event::Signal { tid, signal, passed, stopped } => line_of_signal(*tid, *signal, *passed, *stopped),
        Event::GroupStopped { signal } => format!("{} has stopped the job", signals::name(*signal)),
        Event::Continued => "the job is continued".to_owned(),
        Event::Executed => "the process has executed another program".to_owned(),
        Event::Silent { threads } => {
            let threads: Vec<_> = threads.iter().map(|(tid, why)| format!("thread {tid} {why}")).collect();
            format!("the debugger left a stop to the collector's own signals: {}", threads.join(", "))
        }
        Event::Changed { tid, difference } => format!("the stop has changed thread {tid}: {difference}"),
        Event::Refused(error) => format!("invalid data from the process was rejected: {error}"),
        Event::Exited(code) => format!("the process has ended with {code}"),
        Event::Killed(signal) => format!("{} has killed the process", signals::name(*signal)),
        other => format!("{other:?}"),
    }
}

/// Converts the mode of the command line.
pub(super) fn mode_of(how: super::super::arguments::DebugMode) -> Mode {
    match how {
        super::super::arguments::DebugMode::Full => Mode::Full,
        super::super::arguments::DebugMode::Assisted => Mode::Assisted,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::*;
    use stopworld_ptrace::DebuggerOptions;

    /// The environment variable that marks the debugged process.
    const DEBUGGED: &str = "STOPWORLD_DEBUGGED_BY_A_SESSION";

    /// Not a test by itself: the debugged program, which has a world.
    #[test]
    fn the_program_of_a_session() {
        if std::env::var_os(DEBUGGED).is_none() {
            return;
        }
        let world = stopworld::World::builder().heap_limit(8 << 20).build().unwrap();
        // SAFETY: this thread keeps no reference.
        let m = unsafe { world.attach("main") }.unwrap();
        m.blocking(|| std::thread::sleep(Duration::from_secs(120)));
    }

    fn session() -> Session {
        let this = module_path!().split_once("::").unwrap().1;
        let environment: OsString = format!("{DEBUGGED}=1").into();
        let test = format!("{this}::the_program_of_a_session");
        let arguments = [environment, std::env::current_exe().unwrap().into(), "--exact".into(), test.into()];
        let debugger = Debugger::launch(OsStr::new("/usr/bin/env"), &arguments, DebuggerOptions::default()).unwrap();
        let mut session = Session::new(debugger, Origin::Launched, Box::new(|_| {}));
        session.debugger.cont_all().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while session.debugger.worlds().unwrap().is_empty() {
            session.serve(LOOK).unwrap();
            assert!(Instant::now() < deadline, "{:?}", session.debugger.state());
        }
        session
    }

    /// Threads that were stopped for a request are resumed even if the request finds the target's lists damaged.
    #[test]
    fn all_threads_resume_after_a_request_even_if_it_fails() {
        let mut session = session();
        let mut undo = None;
        let answer: anyhow::Result<()> = session.with_all_stopped(|session| {
            assert!(!session.debugger.frozen().is_empty());
            let world = session.debugger.worlds()?[0].address;
            let mut link = [0; 8];
            session.debugger.read(world, &mut link)?;
            session.debugger.write(world, &[0x55; 8])?;
            undo = Some((world, link));
            Err(session.debugger.threads().expect_err("a damaged list").into())
        });
        answer.expect_err("a damaged list");
        assert_eq!(session.debugger.frozen(), []);
        let (world, link) = undo.expect("the question was asked");
        session.debugger.write(world, &link).unwrap();
        assert!(session.debugger.threads().unwrap().iter().all(|thread| !thread.frozen));
        session.end();
    }
}
