//! Serving notifications: the stop and the start of a world in both modes, births and ends of mutators, phases.
//!
//! # Full
//!
//! ```text
//!   interrupt all that run ─> walk the world's list ─> wait for each, by its id, and read its registers
//!     ─> again, until nobody runs (threads are born meanwhile)
//!     ─> a frame with its registers below each one's red zone, `stack_ptr` to the frame, all that in one batch of writes
//!     ─> [send each to `park`, for the case that we die]
//!     ─> acknowledge
//! ```
//!
//! At the start every register of each thread that was sent anywhere is written back, `orig_rax` included, so that the kernel
//! restarts an interrupted call as if the thread had never stood elsewhere (`.vtable.exact-restore`). Who was stopped by the
//! user before stays stopped.
//!
//! The list of mutators is the collector's own, read while the collecting thread holds its lock; what the notifications of births and ends said is only used to
//! read the records in one go. So nobody is missed who came into the list before we were in control.
//!
//! Each thread is waited for by its id: to wait for any of hundreds, the kernel walks all of them each time.
//!
//! # Assisted
//!
//! The collector stops its threads itself. Only for those that the user holds the registers are written, into the record's save area and not on the
//! stack: the thread may be let go in mid-collection, and then the kernel puts the suspend signal's frame where they would lie.
//!
//! # When a thread does not stand
//!
//! A thread in uninterruptible sleep (the parent of a vfork, a hung file system) can't be stopped by anybody. Then all others are
//! let go, the request stays unacknowledged, and the collector goes on by its own signals, whose error names the thread; control is
//! taken again when the thread has come back.

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
use super::target::{Record, Request, Stack, Standing, TargetError, WorldState};
use super::tracee::{Enrolled, Notification, Place, Saved, Stop};
use stopworld::debugger::Phase;
use stopworld::debugger::notify::Notice;
use stopworld_platform::os::Tid;

/// The answer of a full stop: each thread waits in `park` if we die.
const PARKED_ON_DEATH: u64 = 1;

/// What a full stop writes, gathered while its threads come to stand: who stands is read while the others are still on their way.
///
/// The list of mutators is read as soon as all have been asked: from the notification to that of the start the collecting thread holds the
/// lock of the list.
struct Gathering {
    library: usize,
    world: Address,
    collecting: i32,
    /// The world's number, when the list has been read.
    begun: Option<Result<u64, TargetError>>,
    /// Who is still to be gathered, by thread id.
    stacks: Vec<Stack>,
    parking: Vec<Parking>,
    /// Whether each of them has room to wait in `park`.
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

    /// Reads the registers of a thread that stands, if it is a mutator that has not been read yet.
    fn add(&mut self, debugger: &mut Debugger, tid: i32) {
        let stands = debugger.tracees.get(&tid).is_some_and(|t| t.stands() && tid != self.collecting);
        if !stands || self.failed.is_some() {
            return;
        }
        // Two with one id are the target's mistake: one of them counts.
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
        self.all_park &= pushed.parks == Parks::Yes && debugger.dies_quietly(stop);
        debugger.batch.add(stack.slot, &pushed.lowest.to_le_bytes());
        debugger.statistics.slots_written += 1;
        let Pushed { general, lowest, .. } = pushed;
        self.parking.push(Parking { tid, saved: Saved { general, lowest, place: Place::Park } });
        Ok(())
    }

    /// Those that stood already, and what has come of it: the world's number, who is to be sent to `park`, and whether all can be.
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

/// A thread whose registers were gathered.
struct Pushed {
    general: sys::General,
    /// The lowest address of what is written for it, or of its own.
    lowest: u64,
    parks: Parks,
}

/// Whether there is room on a thread's stack to wait in `park`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parks {
    Yes,
    No,
}

/// A thread that is to be sent to `park`.
struct Parking {
    tid: i32,
    saved: Saved,
}

impl Debugger {
    /// Serves the notification before which a thread stands, and lets it go on. If the thread is killed meanwhile, with the process or by
    /// another program in it, then nobody waits for an answer, and what could not be done for it is no error.
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
            // One that later versions know: acknowledged, and otherwise left alone.
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

    /// There is nothing more to do for the thread's notification. It goes on, unless it is held.
    fn done(&mut self, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stop = Stop::Plain;
            if !tracee.is_held() {
                self.let_go(tid);
            }
        }
    }

    fn acknowledge(&self, request: &Request, answer: u64) -> Result<(), DebuggerError> {
        let mut batch = Batch::default();
        batch.add(request.answer, &answer.to_le_bytes());
        batch.add(request.acknowledged, &request.sequence.to_le_bytes());
        batch.write(&self.memory)
    }

    /// The mode of this very stop: the collector has latched it, and the control word may have been changed since.
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
        // What is left of an earlier stop whose start was not told. Nobody else's: others wait for their turn.
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

    /// Stops everybody else and writes what the collector scans. Says the world's number, and how many are stopped. `None`: somebody does not
    /// stand, and nobody is stopped.
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
            // Who stands already was not noted as one of the stop's yet.
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
        Statistics::sample(&mut self.statistics.standing_ns, arrived.elapsed());
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

    /// Makes all threads stand that are wanted, and waits until they do. Who does not in time is the result.
    pub(super) fn halt(&mut self, wanted: impl Fn(i32, &super::tracee::Tracee) -> bool) -> Vec<(Tid, Silence)> {
        self.halt_and(wanted, None)
    }

    /// As [`halt`](Self::halt), and gathers what is to be known while the threads come to stand.
    fn halt_and(
        &mut self,
        wanted: impl Fn(i32, &super::tracee::Tracee) -> bool,
        mut gathering: Option<&mut Gathering>,
    ) -> Vec<(Tid, Silence)> {
        // A second owner of the alarm, so that `self` can be changed while it ticks.
        let alarm = std::rc::Rc::clone(&self.alarm);
        let ticking = alarm.ticking();
        let until = Instant::now() + self.options.stop_within;
        loop {
            // Threads may be born while we stop the others: again, until a pass finds nobody running.
            let is_running = |tid: i32, t: &super::tracee::Tracee| !t.stands() && !t.exiting && wanted(tid, t);
            let running: Vec<i32> =
                self.tracees.iter().filter(|(tid, t)| is_running(**tid, t)).map(|(tid, _)| *tid).collect();
            if running.is_empty() {
                return Vec::new();
            }
            for tid in &running {
                self.ask(*tid);
            }
            if let Some(gathering) = &mut gathering {
                gathering.begin(self);
            }
            let mut silent = Vec::new();
            for tid in running {
                if self.wait_until_it_stands(tid, &ticking, until) == Answered::No {
                    silent.push((Tid(tid), Silence::of(self.pid, tid)));
                } else if let Some(gathering) = &mut gathering {
                    gathering.add(self, tid);
                }
                self.death.reached(Step::SomeStopped);
            }
            // One that has ended, and is still listed, will never answer.
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

    fn ask(&mut self, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            // Also one that was asked already: to be asked twice is to be asked once, and a stop that it has reported since may have
            // cleared the first time. A thread that can't be asked has ended, which the wait will tell.
            let _ = sys::interrupt(tid);
            tracee.asked = true;
        }
    }

    fn wait_until_it_stands(&mut self, tid: i32, ticking: &Ticking<'_>, until: Instant) -> Answered {
        loop {
            match ticking.wait(tid, self.ends_of(tid), until) {
                Waited::Reported(tid, report) => self.settle(tid, report),
                Waited::Nothing => return Answered::No,
                Waited::Nobody => {
                    self.tracees.remove(&tid);
                }
            }
            match self.tracees.get(&tid) {
                Some(tracee) if !tracee.stands() && !tracee.exiting => {}
                _ => return Answered::Yes,
            }
        }
    }

    /// The stop is the collector's own affair now.
    fn give_up(&mut self, silent: Vec<(Tid, Silence)>) {
        self.statistics.given_up += 1;
        self.silent.extend(silent.iter().map(|(tid, _)| tid.0));
        self.events.push_back(Event::Silent { threads: silent });
    }

    /// The records of the world's threads.
    pub(super) fn records_of(&self, library: usize, world: &WorldState) -> Result<Vec<Record>, TargetError> {
        let guesses = self.guesses(library, world);
        self.libraries[library].records(&self.memory, world.threads, &guesses, self.tracees.len())
    }

    fn stacks_of(&self, library: usize, world: &WorldState) -> Result<Vec<Stack>, TargetError> {
        let guesses = self.guesses(library, world);
        self.libraries[library].stacks(&self.memory, world.threads, &guesses, self.tracees.len())
    }

    /// Where the world's records probably are.
    fn guesses(&self, library: usize, world: &WorldState) -> Vec<Address> {
        let is_in = |e: &&Enrolled| e.library == library && e.world == world.address;
        let enrolled = self.tracees.values().filter_map(|t| t.enrolled.as_ref());
        enrolled.filter(is_in).map(|e| e.record).collect()
    }

    /// Gathers the registers of one mutator, in a frame on its stack if there is room, else in its save area. `None`: it has been killed.
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
            // The kernel writes the image to where it belongs in the frame.
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
                // The first one tells how large it is, which is the same for all.
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

    /// Whether a thread that stands so does nothing of the program's when we die, before it comes to `park`. A signal that is half
    /// delivered is delivered then, and its handler would run in mid-scan; unless that does nothing, or is the collector's.
    fn dies_quietly(&self, stop: Stop) -> bool {
        match stop {
            Stop::Signal(signal) => self.libraries.iter().any(|known| known.suspend_signal == signal),
            Stop::Notification(_) => self.options.channel == Channel::Signal,
            _ => true,
        }
    }

    /// Sends the threads to `park`, where they stay while they stand, and which they only see if we die.
    fn park(&mut self, library: usize, parking: Vec<Parking>, answer: u64) -> Result<(), DebuggerError> {
        let park = self.libraries[library].park;
        for Parking { tid, mut saved } in parking {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            if answer & PARKED_ON_DEATH == 0 {
                saved.place = Place::Its;
                tracee.saved = Some(Box::new(saved));
                continue;
            }
            // Kept first: whatever fails below, these are the registers to go back to.
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

    /// Restores every register, then lets those go on that nobody else holds.
    pub(super) fn end_full_stop(&mut self) {
        self.stop = None;
        let mut going = Vec::with_capacity(self.tracees.len());
        for (&tid, tracee) in &mut self.tracees {
            if let Some(saved) = tracee.saved.take()
                && saved.place == Place::Park
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
            // A notification waits: it is served by the loop, one after the other.
            let waits = self.tracees.get(&tid).is_some_and(|t| matches!(t.stop, Stop::Notification(_)) || t.is_held());
            if !waits {
                self.let_go(tid);
            }
        }
    }

    /// Writes the registers of those whom the user holds. Says how many they are.
    fn serve_frozen(&mut self, library: usize, world: &WorldState, epoch: u64) -> Result<usize, DebuggerError> {
        if !self.tracees.values().any(|t| t.by_user && t.stands()) {
            self.death.reached(Step::FrozenServed);
            return Ok(0);
        }
        let records = self.records_of(library, world)?;
        let frozen = self.libraries[library].thread.frozen;
        let mut batch = Batch::default();
        let mut served = 0;
        let unanswered = |record: &&Record| record.standing() == Standing::Running && record.frozen != epoch;
        for record in records.iter().filter(unanswered) {
            let tid = record.tid.0;
            if !self.tracees.get(&tid).is_some_and(|t| t.by_user && t.stands()) {
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

    /// Gathers what the collector needs of a thread that the user holds: its registers in its save area, and its `stack_ptr`. `false`: it has
    /// been killed.
    fn add_frozen(&self, record: &Record, batch: &mut Batch) -> Result<bool, DebuggerError> {
        let mut image = Vec::new();
        let Some(general) = self.all_registers(record.tid.0, &mut image)? else { return Ok(false) };
        batch.add_to_save_area(record.save_area, &general, &image)?;
        batch.add(record.slot, &general.rsp.wrapping_sub(frame::RED_ZONE).to_le_bytes());
        Ok(true)
    }

    /// The general registers of a thread that stands, and into `image` the extended ones. `None`: it has been killed, and needs nothing
    /// any more.
    fn all_registers(&self, tid: i32, image: &mut Vec<u8>) -> Result<Option<sys::General>, DebuggerError> {
        image.clear();
        let general = sys::unless_killed(sys::general(tid)).map_err(system("reading registers"))?;
        let extended = sys::unless_killed(sys::extended(tid, self.extended_room, image));
        let extended = extended.map_err(system("reading the extended state"))?;
        Ok(general.filter(|_| extended.is_some()))
    }

    /// The world runs: who was answered for goes on if the user has let it go meanwhile.
    fn release_answered(&mut self, world: Address) {
        let mut going = Vec::new();
        let all = std::mem::take(&mut self.answered);
        let (answered, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(of, _)| *of == world);
        self.answered = others;
        for (_, tid) in answered {
            // A thread is a mutator of one world, but the record that said so may have been damaged.
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
                self.let_go(tid);
            }
        }
    }

    /// Shows the collector the stacks and registers of the mutators that the user holds in their own code, as for a stop, so that it can look
    /// at them when it is asked for a way from a root. Worlds that stand need nothing. The next stop of a world begins by forgetting it.
    /// Says for how many.
    ///
    /// # Errors
    /// A list is damaged, or the kernel refused something.
    pub fn show_stacks(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        let mut batch = Batch::default();
        let mut shown = 0;
        for library in 0..self.libraries.len() {
            for world in self.libraries[library].worlds(&self.memory)?.iter().filter(|w| w.collecting.is_none()) {
                for record in self.records_of(library, world)?.iter().filter(|r| r.standing() == Standing::Running) {
                    if self.tracees.get(&record.tid.0).is_some_and(|t| t.by_user && t.stands()) {
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

    /// What is known of who is a mutator, from the lists themselves. All should stand.
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

/// What has become of a request.
enum Served {
    /// It is to be acknowledged.
    Acknowledge,
    /// It is.
    Acknowledged,
    /// It must not be: the collector is to go on without us.
    LeftAlone,
}

/// Whether a thread has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}
