//! The user's operations on threads: freezing, thawing, holding collections.

use super::core::Debugger;
use super::error::DebuggerError;
use super::event::{HeldPhase, PhaseSet};
use super::proc::Silence;
use super::tracee::Stop;
use super::{Mode, Phases};
use stopworld_platform::os::Tid;

impl Debugger {
    /// Stops a thread for the user; it is stopped when this returns. If it is stopped for a collection already, it stays stopped when that
    /// is over.
    ///
    /// # Errors
    /// If there is no such thread, or it does not stop in time; then it continues to run.
    pub fn freeze(&mut self, tid: Tid) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        match self.tracees.get(&tid.0) {
            Some(tracee) if !tracee.exiting => {}
            _ => return Err(DebuggerError::NoThread(tid)),
        }
        let silent = self.halt(|t, _| t == tid.0);
        if let Some((tid, why)) = silent.into_iter().next() {
            return Err(DebuggerError::Silent { tid, within: self.options.stop_within, why });
        }
        match self.tracees.get_mut(&tid.0) {
            Some(tracee) if !tracee.exiting => {
                tracee.by_user = true;
                Ok(())
            }
            _ => Err(DebuggerError::NoThread(tid)),
        }
    }

    /// Ends the user's stop of a thread. It is resumed, unless a collection holds it. Returns whether it was frozen.
    ///
    /// # Errors
    /// If there is no such thread, or the notification for which it was stopped could not be served.
    pub fn thaw(&mut self, tid: Tid) -> Result<bool, DebuggerError> {
        self.must_be_alive()?;
        let tracee = self.tracees.get_mut(&tid.0).ok_or(DebuggerError::NoThread(tid))?;
        if !std::mem::take(&mut tracee.by_user) {
            return Ok(false);
        }
        self.attend(tid.0)?;
        Ok(true)
    }

    /// Stops every thread for the user. Returns the number of threads that the user did not hold before.
    ///
    /// # Errors
    /// If a thread does not stop in time; the others are stopped.
    pub fn stop_all(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        let silent = self.halt(|_, _| true);
        let mut new = 0;
        for tracee in self.tracees.values_mut().filter(|t| t.is_stopped() && !t.exiting) {
            new += usize::from(!std::mem::replace(&mut tracee.by_user, true));
        }
        match silent.into_iter().find(|(_, why)| *why != Silence::Zombie) {
            None => Ok(new),
            Some((tid, why)) => Err(DebuggerError::Silent { tid, within: self.options.stop_within, why }),
        }
    }

    /// Ends the user's stop of every thread, and resumes a held collection. Returns the number of threads that were frozen.
    ///
    /// # Errors
    /// If a notification could not be served.
    pub fn cont_all(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        let frozen: Vec<i32> = self.tracees.iter().filter(|(_, t)| t.by_user).map(|(tid, _)| *tid).collect();
        for tid in &frozen {
            self.thaw(Tid(*tid))?;
        }
        self.go_on()?;
        Ok(frozen.len())
    }

    /// Changes the mode, from the next stop on.
    ///
    /// # Errors
    /// If the process has ended or is detached.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.options.mode = mode;
        self.take_control();
        Ok(())
    }

    /// Sets whether phases are notified, from the next one on.
    ///
    /// # Errors
    /// If the process has ended or is detached.
    pub fn set_phases(&mut self, phases: Phases) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.options.phases = phases;
        self.take_control();
        Ok(())
    }

    /// Sets the phases at which a collection is held until [`go_on`](Self::go_on). This enables notification of phases.
    ///
    /// # Errors
    /// If the process has ended or is detached.
    pub fn hold_at(&mut self, phases: PhaseSet) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.hold_at = phases;
        self.take_control();
        Ok(())
    }

    /// Returns the collection that is held for the user.
    pub fn held(&self) -> Option<HeldPhase> {
        self.held
    }

    /// Resumes the held collection. Returns whether there was one.
    ///
    /// # Errors
    /// If the process has ended or is detached.
    pub fn go_on(&mut self) -> Result<bool, DebuggerError> {
        self.must_be_alive()?;
        let Some(held) = self.held.take() else { return Ok(false) };
        if let Some(tracee) = self.tracees.get_mut(&held.tid.0) {
            tracee.at_phase = false;
            let is_stopped = tracee.stop == Stop::Plain;
            if is_stopped && !tracee.is_held() {
                self.resume(held.tid.0);
            }
        }
        Ok(true)
    }
}
