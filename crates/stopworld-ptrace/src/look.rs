//! What the user can inspect of the target.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::core::{Debugger, TargetState};
use super::error::{DebuggerError, system};
use super::event::{Event, Statistics};
use super::memory::{Address, MemoryError};
use super::modules::Mapping;
use super::options::{DebuggerOptions, Restored};
use super::registers::{Registers, ThreadRegisters};
use super::sys;
use super::target::{Library, Record, WorldState};
use super::tracee::{Stop, Tracee};
use super::{modules, proc};
use stopworld_platform::os::Tid;

/// The state of a thread at the time of the query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadState {
    /// Its id.
    pub tid: Tid,
    /// Its name in the kernel.
    pub comm: String,
    /// Whether it runs, and if not, why.
    pub run: RunState,
    /// Whether the user holds it; it may be stopped for other reasons, too.
    pub frozen: bool,
    /// Its entry in the collector's lists, if it is a mutator.
    pub managed: Option<Enrolment>,
    /// A signal for the program that it receives when it is resumed.
    pub pending: Option<i32>,
}

/// A mutator's entry in the collector's lists.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enrolment {
    /// The world's number.
    pub world: u64,
    /// Its record.
    pub record: Record,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It runs, or sleeps in a system call.
    Running,
    /// It is stopped by the user.
    Frozen,
    /// It is stopped for a collection.
    StoppedForCollection,
    /// It collects, and is held at a phase.
    HeldAtPhase,
    /// It belongs to a stopped job.
    GroupStopped,
    /// It is stopped for a notification that is not served yet.
    Notifying,
    /// It is about to end.
    Exiting,
}

impl RunState {
    fn of(tracee: &Tracee) -> Self {
        match tracee {
            t if t.exiting => Self::Exiting,
            t if t.at_phase => Self::HeldAtPhase,
            t if t.by_user => Self::Frozen,
            t if t.by_world => Self::StoppedForCollection,
            t => match t.stop {
                Stop::Group(_) | Stop::Listening(_) => Self::GroupStopped,
                Stop::Notification(_) => Self::Notifying,
                _ => Self::Running,
            },
        }
    }
}

/// Whether each thread runs, and all registers of stopped threads. Two equal snapshots are the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// By thread.
    pub threads: BTreeMap<Tid, ThreadSnapshot>,
}

/// One thread's part of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// Whether the user holds it.
    pub frozen: bool,
    /// Whether it runs, and if not, why.
    pub run: RunState,
    /// The state that a stop must not change, if the thread is stopped.
    pub registers: Option<ThreadRegisters>,
}

impl Debugger {
    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the state of the process.
    pub fn state(&self) -> TargetState {
        self.state
    }

    /// Returns the options of this debugger.
    pub fn options(&self) -> DebuggerOptions {
        self.options
    }

    /// Returns the copies of the collector that were found.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }

    /// Counts and durations of what was done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Searches for copies of the collector now, even if one is known already. Returns the number of new ones.
    ///
    /// # Errors
    /// If the process has ended or is detached.
    pub fn rescan(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        Ok(self.search())
    }

    /// Returns the worlds of all copies, newest first.
    ///
    /// # Errors
    /// If a list is damaged.
    pub fn worlds(&mut self) -> Result<Vec<WorldState>, DebuggerError> {
        self.must_be_alive()?;
        let mut worlds = Vec::new();
        for library in &self.libraries {
            worlds.extend(library.worlds(&self.memory)?);
        }
        Ok(worlds)
    }

    /// Returns all threads of the process.
    ///
    /// # Errors
    /// If a list is damaged.
    pub fn threads(&mut self) -> Result<Vec<ThreadState>, DebuggerError> {
        self.must_be_alive()?;
        let mut managed = self.managed()?;
        let threads = self.tracees.iter().map(|(tid, tracee)| {
            let pending = match tracee.stop {
                Stop::Signal(signal) => Some(signal),
                _ => None,
            };
            ThreadState {
                tid: Tid(*tid),
                comm: proc::comm(self.pid, *tid),
                run: RunState::of(tracee),
                frozen: tracee.by_user,
                managed: managed.remove(tid),
                pending,
            }
        });
        Ok(threads.collect())
    }

    /// Returns the threads that the user holds. Reads none of the target's lists.
    pub fn frozen(&self) -> Vec<Tid> {
        let frozen = self.tracees.iter().filter(|(_, tracee)| tracee.by_user);
        frozen.map(|(tid, _)| Tid(*tid)).collect()
    }

    /// Returns one thread of the process.
    ///
    /// # Errors
    /// If there is no such thread, or a list is damaged.
    pub fn thread(&mut self, tid: Tid) -> Result<ThreadState, DebuggerError> {
        let found = self.threads()?.into_iter().find(|thread| thread.tid == tid);
        found.ok_or(DebuggerError::NoThread(tid))
    }

    fn managed(&self) -> Result<HashMap<i32, Enrolment>, DebuggerError> {
        let mut managed = HashMap::new();
        for (index, library) in self.libraries.iter().enumerate() {
            for world in library.worlds(&self.memory)? {
                for record in self.records_of(index, &world)? {
                    managed.insert(record.tid.0, Enrolment { world: world.number, record });
                }
            }
        }
        Ok(managed)
    }

    /// Reads memory. The process may run.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn read(&self, at: Address, into: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(at, into)
    }

    /// Reads the available memory at an address, at most the buffer's length. Returns the number of bytes.
    pub fn read_some(&self, at: Address, into: &mut [u8]) -> usize {
        self.memory.read_some(at, into)
    }

    /// Reads a word.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn read_word(&self, at: Address) -> Result<u64, MemoryError> {
        self.memory.word(at)
    }

    /// Writes memory, read-only text too. The process may run.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn write(&self, at: Address, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory.write(at, bytes)
    }

    /// Returns the mappings, as text of /proc/PID/maps.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn maps(&self) -> Result<String, DebuggerError> {
        modules::read_maps(self.pid, self.memory.live()).map_err(system("reading the mappings"))
    }

    /// Returns the mappings, in the order of their addresses; lines that cannot be parsed are left out.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn mappings(&self) -> Result<Vec<Mapping>, DebuggerError> {
        Ok(modules::parse_maps(&self.maps()?))
    }

    /// Returns a path by which this process can open the file of a mapping.
    pub fn module_path(&self, mapped: &str) -> PathBuf {
        modules::file_of(self.pid, self.memory.live(), mapped)
    }

    /// Returns the address and size of the memory for results of called functions.
    pub fn scratch(&self) -> Option<(Address, usize)> {
        self.libraries.first().map(|library| (library.scratch, library.scratch_size))
    }

    fn stopped_tracee(&self, tid: Tid) -> Result<&Tracee, DebuggerError> {
        let tracee = self.tracees.get(&tid.0).ok_or(DebuggerError::NoThread(tid))?;
        if tracee.is_stopped() { Ok(tracee) } else { Err(DebuggerError::NotStopped(tid)) }
    }

    /// Returns the registers of a stopped thread, as the program has them, even while it is sent to `park` for a collection.
    ///
    /// # Errors
    /// If the thread runs, or does not exist.
    pub fn registers(&self, tid: Tid) -> Result<Registers, DebuggerError> {
        match &self.stopped_tracee(tid)?.saved {
            Some(saved) => Ok(Registers(saved.general)),
            None => sys::general(tid.0).map(Registers).map_err(system("reading registers")),
        }
    }

    /// Returns the extended state of a stopped thread: an XSAVE image in the standard format.
    ///
    /// # Errors
    /// If the thread runs, or does not exist.
    pub fn extended_state(&self, tid: Tid) -> Result<Vec<u8>, DebuggerError> {
        self.stopped_tracee(tid)?;
        let mut image = Vec::new();
        sys::extended(tid.0, self.extended_room, &mut image).map_err(system("reading the extended state"))?;
        Ok(image)
    }

    /// Returns the state of each thread, for a comparison with a later one.
    ///
    /// # Errors
    /// If the kernel refused a request.
    pub fn snapshot(&mut self) -> Result<Snapshot, DebuggerError> {
        self.must_be_alive()?;
        let mut threads = BTreeMap::new();
        for (&tid, tracee) in &self.tracees {
            let registers = if tracee.is_stopped() && !tracee.exiting { Some(self.all_of(Tid(tid))?) } else { None };
            let one = ThreadSnapshot { frozen: tracee.by_user, run: RunState::of(tracee), registers };
            threads.insert(Tid(tid), one);
        }
        Ok(Snapshot { threads })
    }

    fn all_of(&self, tid: Tid) -> Result<ThreadRegisters, DebuggerError> {
        let general = self.registers(tid)?;
        let blocked = sys::blocked(tid.0).map_err(system("reading a signal mask"))?;
        let mut red_zone = vec![0; super::frame::RED_ZONE as usize];
        let zone = general.0.rsp.wrapping_sub(super::frame::RED_ZONE);
        // A thread with an invalid stack pointer has no red zone.
        let known = self.memory.read_some(Address(zone), &mut red_zone);
        red_zone.truncate(known);
        Ok(ThreadRegisters { general, extended: self.extended_state(tid)?, blocked, red_zone })
    }

    /// Stores the state of all stopped threads except the collecting one, for the comparison.
    pub(super) fn note_originals(&mut self, collecting: i32) {
        self.originals.clear();
        if self.options.restored == Restored::Trusted {
            return;
        }
        for (&tid, tracee) in &self.tracees {
            if tid != collecting
                && tracee.is_stopped()
                && !tracee.exiting
                && let Ok(all) = self.all_of(Tid(tid))
            {
                self.originals.push((tid, all));
            }
        }
    }

    /// Compares the state of threads that still exist with the stored one, and reports each that differs.
    pub(super) fn compare_with_originals(&mut self) {
        for (tid, original) in std::mem::take(&mut self.originals) {
            let is_there = self.tracees.get(&tid).is_some_and(|t| t.is_stopped() && !t.exiting);
            // The registers of a killed thread cannot be read.
            let Some(now) = is_there.then(|| self.all_of(Tid(tid)).ok()).flatten() else { continue };
            self.statistics.compared += 1;
            if let Some(difference) = original.difference(&now) {
                self.statistics.changed += 1;
                self.events.push_back(Event::Changed { tid: Tid(tid), difference });
            }
        }
    }
}
