//! What the user does to threads: freezing, thawing, holding collections.

use super::core::Debugger;
use super::error::DebuggerError;
use super::event::{HeldPhase, PhaseSet};
use super::proc::Silence;
use super::tracee::Stop;
use super::{Mode, Phases};
use stopworld_platform::os::Tid;

impl Debugger {
    /// Stops a thread for the user; it stands when this returns. One that stands already for a collection stays when that is over.
    ///
    /// # Errors
    /// There is no such thread, or it does not stand in time; then it runs on.
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

    /// Ends the user's stop of a thread. It goes on, unless a collection holds it. Says whether it was frozen.
    ///
    /// # Errors
    /// There is no such thread, or the notification that it stood before could not be served.
    pub fn thaw(&mut self, tid: Tid) -> Result<bool, DebuggerError> {
        self.must_be_alive()?;
        let tracee = self.tracees.get_mut(&tid.0).ok_or(DebuggerError::NoThread(tid))?;
        if !std::mem::take(&mut tracee.by_user) {
            return Ok(false);
        }
        self.attend(tid.0)?;
        Ok(true)
    }

    /// Stops every thread for the user. Says how many were not stopped for him before.
    ///
    /// # Errors
    /// A thread does not stand in time; the others are stopped.
    pub fn stop_all(&mut self) -> Result<usize, DebuggerError> {
        self.must_be_alive()?;
        let silent = self.halt(|_, _| true);
        let mut new = 0;
        for tracee in self.tracees.values_mut().filter(|t| t.stands() && !t.exiting) {
            new += usize::from(!std::mem::replace(&mut tracee.by_user, true));
        }
        match silent.into_iter().find(|(_, why)| *why != Silence::Zombie) {
            None => Ok(new),
            Some((tid, why)) => Err(DebuggerError::Silent { tid, within: self.options.stop_within, why }),
        }
    }

    /// Ends the user's stop of every thread, and lets a held collection go on. Says how many threads were frozen.
    ///
    /// # Errors
    /// A notification could not be served.
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
    /// There is no process any more.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.options.mode = mode;
        self.take_control();
        Ok(())
    }

    /// Whether phases are told, from the next one on.
    ///
    /// # Errors
    /// There is no process any more.
    pub fn set_phases(&mut self, phases: Phases) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.options.phases = phases;
        self.take_control();
        Ok(())
    }

    /// At which phases a collection is held until [`go_on`](Self::go_on). Phases are told for it.
    ///
    /// # Errors
    /// There is no process any more.
    pub fn hold_at(&mut self, phases: PhaseSet) -> Result<(), DebuggerError> {
        self.must_be_alive()?;
        self.hold_at = phases;
        self.take_control();
        Ok(())
    }

    /// The collection that waits for the user.
    pub fn held(&self) -> Option<HeldPhase> {
        self.held
    }

    /// Lets the held collection go on. Says whether there was one.
    ///
    /// # Errors
    /// There is no process any more.
    pub fn go_on(&mut self) -> Result<bool, DebuggerError> {
        self.must_be_alive()?;
        let Some(held) = self.held.take() else { return Ok(false) };
        if let Some(tracee) = self.tracees.get_mut(&held.tid.0) {
            tracee.at_phase = false;
            let stands = tracee.stop == Stop::Plain;
            if stands && !tracee.is_held() {
                self.let_go(held.tid.0);
            }
        }
        Ok(true)
    }
}
