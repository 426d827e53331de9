//! Serving notifications: the stop and the start of a world in both modes, creation and exit of mutators, phases.
//!
//! # Full
//!
//! ```text
//!   interrupt all running threads ─> read the world's list ─> wait for each, by its id, and read its registers
//!     ─> again, until none runs (threads may be created meanwhile)
//!     ─> a frame with its registers below each one's red zone, `stack_ptr` to the frame, all that in one batch of writes
//!     ─> [send each to `park`, in case the debugger dies]
//!     ─> acknowledge
//! ```
//!
//! When the world is started again, every register of each thread that was sent to `park` is written back, `orig_rax` included, so that
//! the kernel restarts an interrupted call as if the thread had not been sent to `park` (`.vtable.exact-restore`). A thread that the
//! user had stopped before stays stopped.
//!
//! The debugger reads the collector's own list of mutators, while the collecting thread holds the list's lock. So mutators that were created
//! before the debugger took control are not missed. The notifications of created and exited mutators only make this faster: they give the
//! probable addresses of the records, with which all records are read in one call.
//!
//! The debugger waits for each thread by its id: if it waited for any of hundreds of threads, the kernel would visit all of them each time.
//!
//! # Assisted
//!
//! The collector stops its threads itself. The debugger writes registers only for threads that the user holds, into the record's save area and not
//! on the stack: the thread may be resumed during the collection, and then the kernel's frame of the suspend signal would overwrite them.
//!
//! # When a thread does not stop
//!
//! A thread in uninterruptible sleep (the parent of a vfork, a hung file system) cannot be stopped. Then all others are
//! resumed, the request is not acknowledged, and the collector continues by its own signals, whose error names the thread. Control is
//! taken again when the thread has reported.

use std::collections::HashMap;
use std::time::Instant;

use super::Mode;
use super::batch::Batch;
use super::core::{Debugger, FullStop};
use super::death::Step;
use super::error::{DebuggerError, system};
use super::event::{Event, Held, HeldPhase, Statistics};
use super::frame;
use super::memory::Address;
use super::options::{Channel, OnDeath};
use super::proc::Silence;
use super::sys::{self, Ticking, Waited};
use super::target::{HandshakeState, Record, Request, Stack, TargetError, WorldState};
use super::tracee::{Enrolled, Location, Notification, Saved, Stop};
use stopworld::debugger::Phase;
use stopworld::debugger::notify::Notice;
use stopworld_platform::os::Tid;

/// The answer to a full stop that means: each thread waits in `park` if the debugger dies.
const PARKED_ON_DEATH: u64 = 1;

/// The data that a full stop writes, collected while its threads stop: stopped threads are read while the others have not stopped yet.
///
/// The list of mutators is read as soon as all threads have been interrupted: from the stop's notification to the start's the collecting
/// thread holds the list's lock.
struct Gathering {
    library: usize,
    world: Address,
    collecting: i32,
    /// The world's number, once the list has been read.
    begun: Option<Result<u64, TargetError>>,
    /// The stacks of the world's mutators, by thread id.
    stacks: Vec<Stack>,
    parking: Vec<Parking>,
    /// Whether each mutator has room on its stack to park.
    all_park: bool,
    failed: Option<DebuggerError>,
}

impl Gathering {
    fn of(library: usize, world: Address, collecting: i32) -> Self {
        let (stacks, parking) = (Vec::new(), Vec::new());
        Self { library, world, collecting, begun: None, stacks, parking, all_park: true, failed: None }
    }

    /// Reads the world and its list, once.
    fn begin(&mut self, debugger: &mut Debugger) {
        if self.begun.is_some() {
            return;
        }
        debugger.batch.clear();
        let world = debugger.libraries[self.library].world(&debugger.memory, self.world);
        self.begun = Some(world.and_then(|world| {
            self.stacks = debugger.stacks_of(self.library, &world)?;
            self.stacks.sort_unstable_by_key(|stack| stack.tid);
            self.parking.reserve(self.stacks.len());
            Ok(world.number)
        }));
    }

    /// Reads the registers of a stopped thread, if it is a mutator that has not been read yet.
    fn add(&mut self, debugger: &mut Debugger, tid: i32) {
        let is_stopped = debugger.tracees.get(&tid).is_some_and(|t| t.is_stopped() && tid != self.collecting);
        if !is_stopped || self.failed.is_some() {
            return;
        }
        // Two records with one thread id are an error of the target: only one is used.
        let Ok(index) = self.stacks.binary_search_by_key(&tid, |stack| stack.tid) else { return };
        if std::mem::replace(&mut self.stacks[index].is_done, true) {
            return;
        }
        if let Err(error) = self.try_to_add(debugger, self.stacks[index]) {
            self.failed = Some(error);
        }
    }

    fn try_to_add(&mut self, debugger: &mut Debugger, stack: Stack) -> Result<(), DebuggerError> {
        let tid = stack.tid;
        let Some(pushed) = debugger.push(&stack)? else { return Ok(()) };
        let Some(tracee) = debugger.tracees.get_mut(&tid) else { return Ok(()) };
        tracee.enrolled = Some(Enrolled { library: self.library, world: self.world, record: stack.record });
        let stop = tracee.stop;
        self.all_park &= pushed.parks == Parks::Yes && debugger.runs_no_code_before_park(stop);
        debugger.batch.add(stack.slot, &pushed.lowest.to_le_bytes());
        debugger.statistics.slots_written += 1;
        let Pushed { general, lowest, .. } = pushed;
        self.parking.push(Parking { tid, saved: Saved { general, lowest, location: Location::Park } });
        Ok(())
    }

    /// Adds the threads that were stopped already. Returns the world's number, the threads to send to `park`, and whether all of them can
    /// park.
    fn finish(mut self, debugger: &mut Debugger) -> Result<(u64, Vec<Parking>, bool), DebuggerError> {
        self.begin(debugger);
        for index in 0..self.stacks.len() {
            self.add(debugger, self.stacks[index].tid);
        }
        match (self.begun, self.failed) {
            (Some(Ok(number)), None) => Ok((number, self.parking, self.all_park)),
            (Some(Err(error)), _) => Err(error.into()),
            (_, Some(error)) => Err(error),
            (None, None) => Err(TargetError::World { at: self.world }.into()),
        }
    }
}

/// A thread whose registers were added to the batch.
struct Pushed {
    general: sys::General,
    /// The lowest address of the frame that is written below the thread's stack pointer, or of the thread's red zone if there is no frame.
    lowest: u64,
    parks: Parks,
}

/// Whether there is room on a thread's stack to wait in `park`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parks {
    Yes,
    No,
}

/// A thread to send to `park`.
struct Parking {
    tid: i32,
    saved: Saved,
}

impl Debugger {
    /// Serves the notification for which a thread is stopped, and resumes the thread. If the thread is killed meanwhile, with the process or by
    /// an exec, no thread waits for an answer, and a failure is not an error.
    pub(super) fn serve(&mut self, tid: i32, notification: Notification) -> Result<(), DebuggerError> {
        let served = self.try_to_serve(tid, notification);
        let was_killed = served.is_err() && sys::unless_killed(sys::blocked(tid)).is_ok_and(|mask| mask.is_none());
        self.done(tid);
        match served {
            Ok(Some(Step::StopAcknowledged)) => self.death.reached(Step::Collecting),
            Err(DebuggerError::Target(error)) => self.refuse(error),
            Err(error) if !was_killed => return Err(error),
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }

    fn try_to_serve(&mut self, tid: i32, notification: Notification) -> Result<Option<Step>, DebuggerError> {
        let arrived = Instant::now();
        let library = notification.library;
        let request = self.libraries[library].request(&self.memory, Tid(tid), notification.at)?;
        let served = match request.event {
            event if event == Notice::StopWorld as u32 => self.stop_requested(tid, library, &request, arrived)?,
            event if event == Notice::StartWorld as u32 => self.start_requested(tid, library, &request, arrived)?,
            event if event == Notice::ThreadCreated as u32 => self.mutator_created(library, &request)?,
            event if event == Notice::ThreadExited as u32 => self.mutator_exited(library, &request)?,
            event if event == Notice::Phase as u32 => self.phase(tid, library, &request)?,
            event if event == Notice::Again as u32 => self.again(library, &request)?,
            // This is an event of a later version of the contract: it is acknowledged, and otherwise ignored.
            _ => Served::Acknowledge,
        };
        if let Served::Acknowledge = served {
            self.acknowledge(&request, 0)?;
        }
        let step = match request.event {
            event if event == Notice::StopWorld as u32 => Step::StopAcknowledged,
            event if event == Notice::StartWorld as u32 => Step::StartAcknowledged,
            _ => return Ok(None),
        };
        self.death.reached(step);
        Ok(Some(step))
    }

    /// Called when a thread's notification has been served: resumes the thread, unless it is held.
    fn done(&mut self, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stop = Stop::Plain;
            if !tracee.is_held() {
                self.resume(tid);
            }
        }
    }

    fn acknowledge(&self, request: &Request, answer: u64) -> Result<(), DebuggerError> {
        let mut batch = Batch::default();
        batch.add(request.answer, &answer.to_le_bytes());
        batch.add(request.acknowledged, &request.sequence.to_le_bytes());
        batch.write(&self.memory)
    }

    /// Returns the mode of this stop: the collector has latched it, and the control word may have changed since.
    fn mode_of(&self, request: &Request) -> Mode {
        match request.detail {
            1 => Mode::Full,
            2 => Mode::Assisted,
            _ => self.options.mode,
        }
    }

    fn stop_requested(
        &mut self,
        tid: i32,
        library: usize,
        request: &Request,
        arrived: Instant,
    ) -> Result<Served, DebuggerError> {
        self.death.reached(Step::StopNotified);
        // This stop is left from an earlier collection, of whose start the debugger was not notified. It cannot be a stop of another
        // world, because notifications of other worlds wait for their turn.
        if self.stop.is_some() {
            self.end_full_stop();
        }
        self.release_answered(request.world);
        let (number, stopped, frozen) = match self.mode_of(request) {
            Mode::Full => match self.stop_all_others(tid, library, request, arrived) {
                Ok(Some((number, stopped))) => {
                    (number, stopped, self.tracees.values().filter(|t| t.by_user && t.saved.is_some()).count())
                }
                Ok(None) => return Ok(Served::LeftAlone),
                Err(error) => {
                    self.end_full_stop();
                    self.resume_unheld();
                    return Err(error);
                }
            },
            Mode::Assisted => {
                let world = self.libraries[library].world(&self.memory, request.world)?;
                let frozen = self.serve_frozen(library, &world, request.epoch)?;
                self.acknowledge(request, 0)?;
                (world.number, 0, frozen)
            }
        };
        self.statistics.stops += 1;
        Statistics::sample(&mut self.statistics.stop_ns, arrived.elapsed());
        let (world, epoch, by) = (number, request.epoch, Tid(tid));
        self.events.push_back(Event::WorldStopped { world, epoch, by, stopped, frozen });
        Ok(Served::Acknowledged)
    }

    /// Stops all other threads and writes the data that the collector scans. Returns the world's number, and the number of stopped threads.
    /// `None` if a thread did not stop; then no thread stays stopped.
    fn stop_all_others(
        &mut self,
        collecting: i32,
        library: usize,
        request: &Request,
        arrived: Instant,
    ) -> Result<Option<(u64, usize)>, DebuggerError> {
        self.stop = Some(FullStop { world: request.world, collecting });
        let mut gathering = Gathering::of(library, request.world, collecting);
        let silent = self.halt_and(|tid, _| tid != collecting, Some(&mut gathering));
        if !silent.is_empty() {
            self.end_full_stop();
            // Threads that have stopped are not marked as held by this stop yet.
            self.resume_unheld();
            self.give_up(silent);
            return Ok(None);
        }
        let mut stopped = 0;
        for (tid, tracee) in &mut self.tracees {
            if *tid != collecting {
                tracee.by_world = true;
                stopped += 1;
            }
        }
        Statistics::sample(&mut self.statistics.all_stopped_ns, arrived.elapsed());
        self.death.reached(Step::AllStopped);
        let (number, parking, all_park) = gathering.finish(self)?;
        self.note_originals(collecting);
        self.batch.write(&self.memory)?;
        self.death.reached(Step::RegistersWritten);
        let answer = if all_park && self.options.on_death == OnDeath::Park { PARKED_ON_DEATH } else { 0 };
        self.park(library, parking, answer)?;
        self.statistics.parked_stops += answer & PARKED_ON_DEATH;
        self.acknowledge(request, answer)?;
        Ok(Some((number, stopped)))
    }

    /// Stops all wanted threads, and waits until they have stopped. Returns those that did not stop in time.
    pub(super) fn halt(&mut self, wanted: impl Fn(i32, &super::tracee::Tracee) -> bool) -> Vec<(Tid, Silence)> {
        self.halt_and(wanted, None)
    }

    /// As [`halt`](Self::halt), and collects the stop's data while the threads stop.
    fn halt_and(
        &mut self,
        wanted: impl Fn(i32, &super::tracee::Tracee) -> bool,
        mut gathering: Option<&mut Gathering>,
    ) -> Vec<(Tid, Silence)> {
        // This is a second reference to the alarm, so that `self` can be modified while the alarm exists.
        let alarm = std::rc::Rc::clone(&self.alarm);
        let ticking = alarm.ticking();
        let until = Instant::now() + self.options.stop_within;
        loop {
            // Threads may be created while the others are stopped: repeat until a pass finds no running thread.
            let is_running = |tid: i32, t: &super::tracee::Tracee| !t.is_stopped() && !t.exiting && wanted(tid, t);
            let running: Vec<i32> =
                self.tracees.iter().filter(|(tid, t)| is_running(**tid, t)).map(|(tid, _)| *tid).collect();
            if running.is_empty() {
                return Vec::new();
            }
            for tid in &running {
                self.request_interrupt(*tid);
            }
            if let Some(gathering) = &mut gathering {
                gathering.begin(self);
            }
            let mut silent = Vec::new();
            for tid in running {
                if self.wait_until_stopped(tid, &ticking, until) == Answered::No {
                    silent.push((Tid(tid), Silence::of(self.pid, tid)));
                } else if let Some(gathering) = &mut gathering {
                    gathering.add(self, tid);
                }
                self.death.reached(Step::SomeStopped);
            }
            // A thread that has ended, and is still listed, will never report.
            for (tid, _) in silent.extract_if(.., |(_, why)| *why == Silence::Zombie) {
                if let Some(tracee) = self.tracees.get_mut(&tid.0) {
                    tracee.exiting = true;
                }
            }
            if !silent.is_empty() {
                return silent;
            }
        }
    }

    fn request_interrupt(&mut self, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            // The thread is interrupted even if it was interrupted already: two interruptions count as one, and a stop that it has reported
            // since may have cancelled the first. A thread that cannot be interrupted has ended, which the wait will report.
            let _ = sys::interrupt(tid);
            tracee.interrupt_pending = true;
        }
    }

    fn wait_until_stopped(&mut self, tid: i32, ticking: &Ticking<'_>, until: Instant) -> Answered {
        loop {
            match ticking.wait(tid, self.ends_of(tid), until) {
                Waited::Reported(tid, report) => self.settle(tid, report),
                Waited::Nothing => return Answered::No,
                Waited::NoThread => {
                    self.tracees.remove(&tid);
                }
            }
            match self.tracees.get(&tid) {
                Some(tracee) if !tracee.is_stopped() && !tracee.exiting => {}
                _ => return Answered::Yes,
            }
        }
    }

    /// Leaves the stop to the collector's own signals.
    fn give_up(&mut self, silent: Vec<(Tid, Silence)>) {
        self.statistics.given_up += 1;
        self.silent.extend(silent.iter().map(|(tid, _)| tid.0));
        self.events.push_back(Event::Silent { threads: silent });
    }

    /// Returns the records of the world's threads.
    pub(super) fn records_of(&self, library: usize, world: &WorldState) -> Result<Vec<Record>, TargetError> {
        let guesses = self.guesses(library, world);
        self.libraries[library].records(&self.memory, world.threads, &guesses, self.tracees.len())
    }

    fn stacks_of(&self, library: usize, world: &WorldState) -> Result<Vec<Stack>, TargetError> {
        let guesses = self.guesses(library, world);
        self.libraries[library].stacks(&self.memory, world.threads, &guesses, self.tracees.len())
    }

    /// Returns the probable addresses of the world's records.
    fn guesses(&self, library: usize, world: &WorldState) -> Vec<Address> {
        let is_in = |e: &&Enrolled| e.library == library && e.world == world.address;
        let enrolled = self.tracees.values().filter_map(|t| t.enrolled.as_ref());
        enrolled.filter(is_in).map(|e| e.record).collect()
    }

    /// Adds the registers of one mutator to the batch, in a frame on its stack if there is room, else in its save area. Returns `None` if the
    /// mutator was killed.
    fn push(&mut self, stack: &Stack) -> Result<Option<Pushed>, DebuggerError> {
        let tid = stack.tid;
        let general = sys::unless_killed(sys::general(tid)).map_err(system("reading registers"))?;
        let Some(general) = general else { return Ok(None) };
        loop {
            let size = self.extended_room;
            let places = frame::Places::below(general.rsp, size);
            let Some(places) = places.filter(|places| stack.low <= places.frame && general.rsp <= stack.high) else {
                break;
            };
            // The kernel writes the image directly to its address in the frame.
            let start = self.batch.bytes.len();
            let image = frame::build(&general, places, size, &mut self.batch.bytes);
            let read = sys::unless_killed(sys::extended_into(tid, &mut self.batch.bytes[image.clone()]));
            let read = read.map_err(system("reading the extended state"))?;
            if read == Some(size) {
                frame::sign(&mut self.batch.bytes, image);
                self.batch.pieces.push((places.frame, start..self.batch.bytes.len()));
                let has_room = stack.low.saturating_add(frame::PARKING_ROOM) <= places.frame;
                let parks = if has_room { Parks::Yes } else { Parks::No };
                return Ok(Some(Pushed { general, lowest: places.frame, parks }));
            }
            self.batch.bytes.truncate(start);
            match read {
                // The first read gives the image's size, which is the same for all threads.
                Some(read) => self.extended_room = read,
                None => return Ok(None),
            }
        }
        let mut image = Vec::new();
        let read = sys::unless_killed(sys::extended(tid, self.extended_room, &mut image));
        if read.map_err(system("reading the extended state"))?.is_none() {
            return Ok(None);
        }
        self.batch.add_to_save_area(stack.save_area, &general, &image)?;
        Ok(Some(Pushed { general, lowest: general.rsp.wrapping_sub(frame::RED_ZONE), parks: Parks::No }))
    }

    /// Returns whether a thread in this stop would execute no code of the program between the debugger's death and `park`. In a
    /// signal-delivery stop the signal would be delivered then, and its handler would run during the scan. This is harmless only if the
    /// handler does nothing, or is the collector's.
    fn runs_no_code_before_park(&self, stop: Stop) -> bool {
        match stop {
            Stop::Signal(signal) => self.libraries.iter().any(|known| known.suspend_signal == signal),
            Stop::Notification(_) => self.options.channel == Channel::Signal,
            _ => true,
        }
    }

    /// Sends the threads to `park`. They stay stopped there, and execute it only if the debugger dies.
    fn park(&mut self, library: usize, parking: Vec<Parking>, answer: u64) -> Result<(), DebuggerError> {
        let park = self.libraries[library].park;
        for Parking { tid, mut saved } in parking {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            if answer & PARKED_ON_DEATH == 0 {
                saved.location = Location::Original;
                tracee.saved = Some(Box::new(saved));
                continue;
            }
            // The registers are stored first: if a later step fails, these are the registers to restore.
            tracee.saved = Some(Box::new(saved));
            let parked = frame::at_park(&saved.general, park.0, saved.lowest);
            sys::unless_killed(sys::redirect(tid, &parked)).map_err(system("writing registers"))?;
        }
        Ok(())
    }

    fn start_requested(
        &mut self,
        tid: i32,
        library: usize,
        request: &Request,
        arrived: Instant,
    ) -> Result<Served, DebuggerError> {
        self.death.reached(Step::StartNotified);
        let world = self.libraries[library].world(&self.memory, request.world)?;
        if self.stop.is_some_and(|stop| stop.collecting == tid && stop.world == request.world) {
            self.end_full_stop();
        }
        self.release_answered(request.world);
        self.statistics.starts += 1;
        Statistics::sample(&mut self.statistics.start_ns, arrived.elapsed());
        let (world, epoch) = (world.number, request.epoch);
        self.events.push_back(Event::WorldStarted { world, epoch, by: Tid(tid) });
        Ok(Served::Acknowledge)
    }

    /// Restores every register, then resumes the threads that are not held otherwise.
    pub(super) fn end_full_stop(&mut self) {
        self.stop = None;
        let mut going = Vec::with_capacity(self.tracees.len());
        for (&tid, tracee) in &mut self.tracees {
            if let Some(saved) = tracee.saved.take()
                && saved.location == Location::Park
            {
                // A thread that has been killed meanwhile has no registers any more, and needs none.
                let _ = sys::redirect(tid, &saved.general);
            }
            if std::mem::take(&mut tracee.by_world) {
                if tracee.by_user {
                    self.statistics.kept_frozen += 1;
                } else {
                    going.push(tid);
                }
            }
            self.death.reached(Step::SomeRestored);
        }
        self.compare_with_originals();
        for tid in going {
            // A thread with a notification waits: the event loop serves one after the other.
            let waits = self.tracees.get(&tid).is_some_and(|t| matches!(t.stop, Stop::Notification(_)) || t.is_held());
            if !waits {
                self.resume(tid);
            }
        }
    }

    /// Writes the registers of the mutators that the user holds. Returns their number.
    fn serve_frozen(&mut self, library: usize, world: &WorldState, epoch: u64) -> Result<usize, DebuggerError> {
        if !self.tracees.values().any(|t| t.by_user && t.is_stopped()) {
            self.death.reached(Step::FrozenServed);
            return Ok(0);
        }
        let records = self.records_of(library, world)?;
        let frozen = self.libraries[library].thread.frozen;
        let mut batch = Batch::default();
        let mut served = 0;
        let unanswered =
            |record: &&Record| record.handshake_state() == HandshakeState::Running && record.frozen != epoch;
        for record in records.iter().filter(unanswered) {
            let tid = record.tid.0;
            if !self.tracees.get(&tid).is_some_and(|t| t.by_user && t.is_stopped()) {
                continue;
            }
            if !self.add_frozen(record, &mut batch)? {
                continue;
            }
            batch.add(record.address.offset(frozen), &epoch.to_le_bytes());
            if let Some(tracee) = self.tracees.get_mut(&tid) {
                tracee.enrolled = Some(Enrolled { library, world: world.address, record: record.address });
                tracee.by_world = true;
            }
            self.answered.push((world.address, tid));
            served += 1;
        }
        batch.write(&self.memory)?;
        self.statistics.frozen_served += served as u64;
        self.statistics.slots_written += served as u64;
        self.death.reached(Step::FrozenServed);
        Ok(served)
    }

    /// Adds the data of a thread that the user holds: its registers for its save area, and its `stack_ptr`. Returns `false` if the thread
    /// was killed.
    fn add_frozen(&self, record: &Record, batch: &mut Batch) -> Result<bool, DebuggerError> {
        let mut image = Vec::new();
        let Some(general) = self.all_registers(record.tid.0, &mut image)? else { return Ok(false) };
        batch.add_to_save_area(record.save_area, &general, &image)?;
        batch.add(record.slot, &general.rsp.wrapping_sub(frame::RED_ZONE).to_le_bytes());
        Ok(true)
    }

    /// Returns the general registers of a stopped thread, and writes the extended ones into `image`. `None` if the thread was killed, so
    /// that its registers are not needed any more.
    fn all_registers(&self, tid: i32, image: &mut Vec<u8>) -> Result<Option<sys::General>, DebuggerError> {
        image.clear();
        let general = sys::unless_killed(sys::general(tid)).map_err(system("reading registers"))?;
        let extended = sys::unless_killed(sys::extended(tid, self.extended_room, image));
        let extended = extended.map_err(system("reading the extended state"))?;
        Ok(general.filter(|_| extended.is_some()))
    }

    /// Called when the world runs again: resumes threads that were answered for, if the user does not hold them any more.
    fn release_answered(&mut self, world: Address) {
        let mut going = Vec::new();
        let all = std::mem::take(&mut self.answered);
        let (answered, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(of, _)| *of == world);
        self.answered = others;
        for (_, tid) in answered {
            // A thread is a mutator of one world only, but the record may have been damaged.
            let elsewhere = self.answered.iter().any(|(_, other)| *other == tid);
            if let Some(tracee) = self.tracees.get_mut(&tid).filter(|_| !elsewhere)
                && std::mem::take(&mut tracee.by_world)
            {
                self.statistics.kept_frozen += u64::from(tracee.by_user);
                going.push(tid);
            }
        }
        for tid in going {
            let goes = self.tracees.get(&tid).is_some_and(|t| !t.is_held() && !matches!(t.stop, Stop::Notification(_)));
            if goes {
                self.resume(tid);
            }
        }
    }

    /// Publishes the stacks and registers of the mutators that the user holds in their own code, as for a stop, so that the collector can
    /// scan them when a path from a root is requested. Worlds that are stopped need nothing. The next stop of a world discards the data.
    /// Returns the number of these mutators.
    ///
    /// # Errors
    /// If a list is damaged, or the kernel refused a request.
    pub fn show_stacks(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        let mut batch = Batch::default();
        let mut shown = 0;
        for library in 0..self.libraries.len() {
            for world in self.libraries[library].worlds(&self.memory)?.iter().filter(|w| w.collecting.is_none()) {
                for record in
                    self.records_of(library, world)?.iter().filter(|r| r.handshake_state() == HandshakeState::Running)
                {
                    if self.tracees.get(&record.tid.0).is_some_and(|t| t.by_user && t.is_stopped()) {
                        shown += usize::from(self.add_frozen(record, &mut batch)?);
                    }
                }
            }
        }
        batch.write(&self.memory)?;
        Ok(shown)
    }

    fn again(&mut self, library: usize, request: &Request) -> Result<Served, DebuggerError> {
        self.death.reached(Step::AgainNotified);
        self.statistics.again += 1;
        let world = self.libraries[library].world(&self.memory, request.world)?;
        self.serve_frozen(library, &world, request.epoch)?;
        Ok(Served::Acknowledge)
    }

    fn mutator_created(&mut self, library: usize, request: &Request) -> Result<Served, DebuggerError> {
        let world = self.libraries[library].world(&self.memory, request.world)?;
        let record = self.libraries[library].record(&self.memory, request.thread)?;
        self.statistics.mutators_created += 1;
        if let Some(tracee) = self.tracees.get_mut(&request.tid.0) {
            tracee.enrolled = Some(Enrolled { library, world: request.world, record: request.thread });
        }
        let (tid, world) = (request.tid, world.number);
        self.events.push_back(Event::MutatorCreated { tid, world, name: record.name });
        Ok(Served::Acknowledge)
    }

    fn mutator_exited(&mut self, library: usize, request: &Request) -> Result<Served, DebuggerError> {
        let world = self.libraries[library].world(&self.memory, request.world)?;
        self.statistics.mutators_exited += 1;
        if let Some(tracee) = self.tracees.get_mut(&request.tid.0) {
            tracee.enrolled = None;
        }
        self.events.push_back(Event::MutatorExited { tid: request.tid, world: world.number });
        Ok(Served::Acknowledge)
    }

    fn phase(&mut self, tid: i32, library: usize, request: &Request) -> Result<Served, DebuggerError> {
        self.death.reached(Step::Phase);
        let world = self.libraries[library].world(&self.memory, request.world)?.number;
        let phase = Phase::of(request.detail).ok_or(request.detail);
        let mut held = Held::No;
        if let Ok(phase) = phase
            && self.hold_at.has(phase)
            && self.held.is_none()
            && let Some(tracee) = self.tracees.get_mut(&tid)
        {
            tracee.at_phase = true;
            held = Held::Yes;
            self.held = Some(HeldPhase { world, phase, tid: Tid(tid) });
        }
        self.events.push_back(Event::Phase { world, phase, by: Tid(tid), held });
        Ok(Served::Acknowledge)
    }

    /// Finds out from the lists which threads are mutators. All threads should be stopped.
    pub(super) fn enroll(&mut self) {
        let mut found = HashMap::new();
        for library in 0..self.libraries.len() {
            match self.enrolled_in(library) {
                Ok(enrolled) => found.extend(enrolled),
                Err(error) => self.refuse(error),
            }
        }
        for (tid, tracee) in &mut self.tracees {
            tracee.enrolled = found.get(tid).copied();
        }
    }

    fn enrolled_in(&self, library: usize) -> Result<Vec<(i32, Enrolled)>, TargetError> {
        let mut enrolled = Vec::new();
        for world in self.libraries[library].worlds(&self.memory)? {
            for record in self.records_of(library, &world)? {
                let place = Enrolled { library, world: world.address, record: record.address };
                enrolled.push((record.tid.0, place));
            }
        }
        Ok(enrolled)
    }
}

/// How a request was handled.
enum Served {
    /// The request still has to be acknowledged.
    Acknowledge,
    /// The request was acknowledged.
    Acknowledged,
    /// The request must not be acknowledged: the collector is to continue without the debugger.
    LeftAlone,
}

/// Whether a thread has stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}
