//! The debugger of the model: what it does to the process, step by step, and where it may be killed.

use super::*;

/// A debugger, whose next action is chosen by the model.
pub(crate) struct Debugger {
    target: Target,
    process: u32,
    control: Control,
    /// The threads that the debugger's user has stopped.
    pub(crate) user_stopped: Vec<usize>,
    /// The threads that the debugger has stopped for a collection.
    stopped: Vec<usize>,
    answer: u64,
    steps_to_live: u32,
    /// Whether the debugger claims to hold threads that it does not hold.
    pub(crate) lies: bool,
    /// The thread that the kernel resumes last when the debugger dies; `None` if it resumes all threads at once.
    pub(crate) resumed_last: Option<u32>,
}

/// The debugger was killed.
#[derive(Debug)]
pub(crate) struct Killed;

/// A number of steps that a debugger never reaches, so that it does not die.
pub(crate) const IMMORTAL: u32 = u32::MAX;

impl Debugger {
    /// Creates a debugger with this number, which is its process id and its attach id in the control word. The debugger dies before its step
    /// number `steps`.
    pub(crate) fn new(target: &Target, mode: u64, number: u32, answer: u64, steps: u32) -> Self {
        Self {
            target: target.clone(),
            process: number,
            control: Control(mode | u64::from(number) << 32),
            user_stopped: Vec::new(),
            stopped: Vec::new(),
            answer,
            steps_to_live: steps,
            lies: false,
            resumed_last: None,
        }
    }

    /// Marks a step of the debugger's protocol, at which it may die.
    fn step(&mut self) -> Result<(), Killed> {
        if self.steps_to_live == 0 {
            if let Some(last) = self.resumed_last {
                self.target.kernel.tracer_begins_to_exit(last);
            }
            self.target.kernel.tracer_dies();
            return Err(Killed);
        }
        self.steps_to_live -= 1;
        Ok(())
    }

    /// Seizes the process, and writes the control word.
    pub(crate) fn attach(&mut self) -> Result<(), Killed> {
        self.step()?;
        while !self.target.kernel.attach_tracer(self.process) {
            thread::yield_now();
        }
        self.step()?;
        // This is a swap, because in loom a compare-exchange may overwrite a plain store that precedes it in time.
        self.target.control.swap(self.control.0, Ordering::AcqRel);
        self.step()
    }

    /// Returns whether the control word is still that of this debugger.
    pub(crate) fn is_in_control(&self) -> bool {
        in_control(&self.target.control) == self.control
    }

    /// Returns the number of steps that a thread has made.
    pub(crate) fn steps_of(&self, i: usize) -> u32 {
        self.target.steps(i)
    }

    /// Stops a thread for the user.
    pub(crate) fn freeze(&mut self, i: usize) -> Result<(), Killed> {
        if self.target.kernel.stop_thread(self.target.threads[i].tid) {
            self.user_stopped.push(i);
        }
        self.step()
    }

    /// Resumes a thread for the user: at once or, if the debugger has stopped the world, at the end of the stop.
    pub(crate) fn thaw(&mut self, i: usize) -> Result<(), Killed> {
        self.user_stopped.retain(|stopped| *stopped != i);
        if !self.stopped.contains(&i) || removed(Guard::DebugThawLater) {
            self.target.kernel.continue_thread(self.target.threads[i].tid);
        }
        self.step()
    }

    /// Resumes a thread, which stops for its pending signal; the debugger is killed before it passes the signal on.
    pub(crate) fn thaw_and_die_with_its_signal(&mut self, i: usize) -> Killed {
        self.target.kernel.swallow_signal(self.target.threads[i].tid);
        self.target.kernel.tracer_dies();
        Killed
    }

    /// Answers for the threads that the user has stopped, and is killed before it acknowledges, when their signals were reported to it: the
    /// kernel drops them. Another debugger with this number takes control.
    pub(crate) fn answers_and_is_replaced_by(&mut self, number: u32) -> Result<(), Killed> {
        if let Some((_, address)) = self.target.kernel.next_notification() {
            // SAFETY: the notifying thread stays stopped until the debugger dies.
            let epoch = unsafe { &*(address as *const Request) }.epoch;
            self.answer_for_the_frozen(epoch)?;
        }
        for i in &self.user_stopped {
            self.target.kernel.swallow_signal(self.target.threads[*i].tid);
        }
        self.is_replaced_by(number);
        self.target.control.swap(self.control.0, Ordering::AcqRel);
        Ok(())
    }

    /// Returns whether a thread waits in a notification.
    pub(crate) fn is_notified(&self) -> bool {
        self.target.kernel.has_notification()
    }

    /// Returns whether this debugger has stopped the world.
    pub(crate) fn is_in_a_stop(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Waits for a notification and returns its kind. The notifying thread stays stopped until it is served.
    pub(crate) fn wait(&mut self) -> Result<Option<Notice>, Killed> {
        let Some((_, address)) = self.target.kernel.next_notification() else { return Ok(None) };
        // SAFETY: the notifying thread stays stopped until `end_notification`.
        let request = unsafe { &*(address as *const Request) };
        Ok(Some(request.notice))
    }

    /// Serves one notification and returns its kind; `None` if there will be no more.
    pub(crate) fn serve(&mut self) -> Result<Option<Notice>, Killed> {
        let Some((tid, address)) = self.target.kernel.next_notification() else { return Ok(None) };
        // SAFETY: the notifying thread stays stopped until `end_notification`.
        let request = unsafe { &*(address as *const Request) };
        self.step()?;
        match (request.notice, request.mode) {
            (Notice::StopWorld, _) if self.lies => self.claim_all(request.epoch)?,
            (Notice::StopWorld, Some(Mode::Full)) => self.stop_all()?,
            (Notice::StopWorld | Notice::Again, _) => self.answer_for_the_frozen(request.epoch)?,
            (Notice::StartWorld, Some(Mode::Full)) => self.restore_all()?,
            _ => {}
        }
        request.acknowledgement.acknowledge(self.answer);
        self.step()?;
        let notice = request.notice;
        self.target.kernel.end_notification(tid);
        self.step()?;
        Ok(Some(notice))
    }

    fn write_registers(&self, i: usize) {
        let thread = &self.target.threads[i];
        // SAFETY: the checker reports every concurrent access.
        thread.registers.with_mut(|registers| unsafe { *registers += 1 });
        thread.registers_of.store(self.target.steps(i), Ordering::Relaxed);
        thread.stack_ptr.store(BY_DEBUGGER, Ordering::Relaxed);
    }

    /// Claims to hold threads that run.
    fn claim_all(&mut self, epoch: u64) -> Result<(), Killed> {
        for i in self.target.clone().listed() {
            self.target.threads[i].stack_ptr.store(BY_ITSELF, Ordering::Relaxed);
            self.target.member(i).freeze(epoch);
        }
        self.step()
    }

    /// Resumes all threads that the debugger has stopped for a collection, which may not have ended.
    pub(crate) fn restore_early(&mut self) -> Result<(), Killed> {
        self.restore_all()
    }

    fn stop_all(&mut self) -> Result<(), Killed> {
        for i in self.target.clone().listed() {
            let tid = self.target.threads[i].tid;
            if self.user_stopped.contains(&i) || self.target.kernel.stop_thread(tid) {
                self.stopped.push(i);
            }
            self.step()?;
        }
        // Threads that are parked or in a blocking region already need nothing.
        let runs = |i: &usize| self.target.threads[*i].state.handshake_state() == HandshakeState::Running;
        for i in self.stopped.clone().into_iter().filter(runs) {
            self.write_registers(i);
            if self.answer & Answer::PARKED_ON_DEATH != 0 && !removed(Guard::DebugParks) {
                self.target.kernel.point_at_park(self.target.threads[i].tid);
            }
        }
        self.step()
    }

    fn restore_all(&mut self) -> Result<(), Killed> {
        for i in std::mem::take(&mut self.stopped) {
            let tid = self.target.threads[i].tid;
            self.target.kernel.point_back(tid);
            if !self.user_stopped.contains(&i) {
                self.target.kernel.continue_thread(tid);
            }
            self.step()?;
        }
        Ok(())
    }

    fn answer_for_the_frozen(&mut self, epoch: u64) -> Result<(), Killed> {
        for i in self.user_stopped.clone() {
            let member = self.target.member(i);
            if member.state.handshake_state() == HandshakeState::Running {
                self.write_registers(i);
                member.freeze(epoch);
            }
        }
        self.step()
    }

    /// Kills the debugger. Another one with this number has seized the process at once, but has not written the control word yet.
    pub(crate) fn is_replaced_by(&mut self, number: u32) {
        self.target.kernel.tracer_dies();
        assert!(self.target.kernel.attach_tracer(number), "there is no other tracer");
        self.process = number;
        self.control = Control(self.control.0 & 0xffff_ffff | u64::from(number) << 32);
        self.stopped.clear();
        self.user_stopped.clear();
    }

    /// Attaches again, under another contract and with another attach id, as the same process as before.
    pub(crate) fn comes_again_as(&mut self, mode: u64, number: u32) -> Result<(), Killed> {
        self.stopped.clear();
        self.user_stopped.clear();
        self.control = Control(mode | u64::from(number) << 32);
        self.attach()
    }

    /// Detaches: gives up control and resumes all threads.
    pub(crate) fn detach(&mut self) {
        vacate(&self.target.control, self.control);
        self.target.kernel.tracer_dies();
    }
}
