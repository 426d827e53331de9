//! Calling a function of the target in one of its threads.
//!
//! The collector knows its heap better than any debugger, and provides functions for queries: which object contains this address, which
//! objects reference it. They are called in a stopped thread, as debuggers call functions of their programs: the registers are saved, the
//! stack pointer is set below everything in use, rip to the function's address, the arguments into registers, and the return address to a
//! breakpoint instruction. Only this thread is resumed. At the breakpoint it stops again, and its saved state is restored.
//!
//! Problems that a debugger must avoid, and how:
//!
//! * A thread in a system call that the kernel would restart: `orig_rax` is set to −1, which means that the thread is in no system call.
//!   Otherwise the kernel would move the instruction pointer back by two. After the call `orig_rax` is restored with the other registers,
//!   and the system call is restarted.
//! * Vector registers: the extended state is saved too.
//! * A thread that is in a signal-delivery stop: the signal is saved with its siginfo, and restored at the breakpoint, which is a
//!   signal-delivery stop as well. Other signals are blocked during the call, except those that the function itself could raise.
//! * A function that does not return: after a time limit the thread is stopped and sent to the breakpoint.

use std::time::{Duration, Instant};

use super::core::Debugger;
use super::error::{CallError, DebuggerError, system};
use super::frame::{RED_ZONE, TRAP_AND_DIRECTION};
use super::memory::Address;
use super::sys::{self, General, Report, SignalInfo, Ticking, Waited};
use super::tracee::Stop;
use stopworld_platform::os::Tid;

/// The queries to the collector, in the order of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Inspect {
    /// The object that contains an address.
    Describe = 0,
    /// The objects that an object's fields reference.
    Fields = 1,
    /// The objects that reference an object.
    Referrers = 2,
    /// A path from a root.
    Path = 3,
    /// Requests a collection.
    RequestCollection = 4,
    /// The types in the heap, with counts and bytes.
    Census = 5,
}

/// Signals that a function may raise itself. They must not be blocked: the kernel would reset their handlers.
const OWN_FAULTS: [i32; 6] = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// How often a wait for a function checks for an interruption by the user.
const LOOK: Duration = Duration::from_millis(50);

/// The state of a thread that a call changes.
struct SavedState {
    general: General,
    extended: Vec<u8>,
    blocked: u64,
    stop: Stop,
    signal: Option<SignalInfo>,
}

/// How a call ended.
enum Ended {
    Returned(i64),
    Faulted(i32, Address),
    TooLong,
    Interrupted,
}

impl Debugger {
    /// Calls a function in a stopped thread, with up to six arguments, and returns the value of rax. Afterwards the thread's state is
    /// exactly as before.
    ///
    /// # Errors
    /// If the thread runs or cannot execute the function, the function faulted, or it did not return in time.
    pub fn call(&mut self, tid: Tid, function: Address, arguments: &[u64]) -> Result<i64, CallError> {
        self.must_be_alive()?;
        if arguments.len() > 6 {
            return Err(CallError::Arguments(arguments.len()));
        }
        let return_to = self.libraries.iter().map(|known| known.call_return).find(|at| !at.is_null());
        let return_to = return_to.ok_or(CallError::NoFunction)?;
        let state = self.save_state(tid)?;
        let lowest = self.tracees.get(&tid.0).and_then(|t| t.saved.as_ref()).map_or(u64::MAX, |saved| saved.lowest);
        let called = self.run_call(tid.0, &state, lowest, function, arguments, return_to);
        let restored = self.restore_state(tid.0, state);
        match called? {
            Ended::Returned(value) => restored.map(|()| value).map_err(CallError::from),
            Ended::Faulted(signal, at) => Err(CallError::Faulted { signal, at }),
            Ended::TooLong => Err(CallError::TooLong(self.options.call_within)),
            Ended::Interrupted => Err(CallError::Interrupted),
        }
    }

    /// Sends a query to the collector, in the given stopped thread. Without a thread, uses any suitable one: a frozen thread, or a thread that
    /// is stopped for the duration of the call.
    ///
    /// # Errors
    /// As for [`call`](Self::call); or if this target has no such function.
    pub fn library_call(&mut self, tid: Option<Tid>, which: Inspect, arguments: &[u64]) -> Result<i64, CallError> {
        let function = self.libraries.iter().find_map(|known| known.calls.get(which as usize).copied());
        let function = function.filter(|at| !at.is_null()).ok_or(CallError::NoFunction)?;
        if let Some(tid) = tid {
            return self.call(tid, function, arguments);
        }
        let can = |t: &super::tracee::Tracee| t.is_stopped() && !t.exiting && matches!(t.stop, Stop::Plain);
        if let Some((&tid, _)) = self.tracees.iter().find(|(_, t)| can(t)) {
            return self.call(Tid(tid), function, arguments);
        }
        let candidates: Vec<i32> = self.tracees.iter().filter(|(_, t)| !t.exiting).map(|(tid, _)| *tid).collect();
        for tid in candidates.into_iter().map(Tid) {
            if self.freeze(tid).is_err() {
                continue;
            }
            let able = !matches!(self.tracees.get(&tid.0).map(|t| t.stop), Some(Stop::Group(_)) | None);
            let called = if able { Some(self.call(tid, function, arguments)) } else { None };
            self.thaw(tid)?;
            if let Some(called) = called {
                return called;
            }
        }
        Err(CallError::NoThread)
    }

    fn save_state(&self, tid: Tid) -> Result<SavedState, CallError> {
        let tracee = self.tracees.get(&tid.0).ok_or(DebuggerError::NoThread(tid))?;
        if !tracee.is_stopped() || tracee.exiting {
            return Err(DebuggerError::NotStopped(tid).into());
        }
        let stop = tracee.stop;
        if matches!(stop, Stop::Group(_)) {
            return Err(CallError::GroupStopped(tid));
        }
        let signal = match stop {
            Stop::Signal(_) | Stop::Notification(_) => {
                Some(sys::signal_info(tid.0).map_err(system("reading a signal's information"))?)
            }
            _ => None,
        };
        let mut extended = Vec::new();
        sys::extended(tid.0, self.extended_room, &mut extended).map_err(system("reading the extended state"))?;
        Ok(SavedState {
            general: sys::general(tid.0).map_err(system("reading registers"))?,
            extended,
            blocked: sys::blocked(tid.0).map_err(system("reading a signal mask"))?,
            stop,
            signal,
        })
    }

    fn run_call(
        &mut self,
        tid: i32,
        state: &SavedState,
        lowest: u64,
        function: Address,
        arguments: &[u64],
        return_to: Address,
    ) -> Result<Ended, CallError> {
        let mut registers = state.general;
        let mut argument = arguments.iter().copied();
        for register in [
            &mut registers.rdi,
            &mut registers.rsi,
            &mut registers.rdx,
            &mut registers.rcx,
            &mut registers.r8,
            &mut registers.r9,
        ] {
            *register = argument.next().unwrap_or(0);
        }
        // The function's frame is below the red zone, and below the registers that were pushed there for a collection. At a function's
        // entry rsp is 8 above a multiple of 16.
        let top = state.general.rsp.wrapping_sub(RED_ZONE).min(lowest);
        registers.rsp = (top & !15).wrapping_sub(8);
        registers.rip = function.0;
        registers.rax = 0;
        registers.orig_rax = u64::MAX;
        registers.eflags &= !TRAP_AND_DIRECTION;
        self.memory.write(Address(registers.rsp), &return_to.0.to_le_bytes()).map_err(DebuggerError::from)?;
        let blocked = OWN_FAULTS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
        sys::set_blocked(tid, blocked).map_err(system("writing a signal mask"))?;
        sys::set_general(tid, &registers).map_err(system("writing registers"))?;
        sys::resume(tid, 0).map_err(system("resuming a thread"))?;
        let alarm = std::rc::Rc::clone(&self.alarm);
        let ticking = alarm.ticking();
        let until = Instant::now() + self.options.call_within;
        let ended = self.wait_for_return(tid, return_to, &ticking, until)?;
        if matches!(ended, Ended::TooLong | Ended::Interrupted) {
            self.force_to_return(tid, return_to, &ticking)?;
        }
        Ok(ended)
    }

    /// Waits until the thread stops at the breakpoint or at a fault. Stops of other kinds were requested earlier: the thread is resumed.
    fn wait_for_return(
        &mut self,
        tid: i32,
        return_to: Address,
        ticking: &Ticking<'_>,
        until: Instant,
    ) -> Result<Ended, DebuggerError> {
        loop {
            match ticking.wait(tid, self.ends_of(tid), until.min(Instant::now() + LOOK)) {
                Waited::Reported(_, Report::Signal(signal)) => {
                    let registers = sys::general(tid).map_err(system("reading registers"))?;
                    if signal == libc::SIGTRAP && registers.rip == return_to.0.wrapping_add(1) {
                        return Ok(Ended::Returned(registers.rax as i64));
                    }
                    return Ok(Ended::Faulted(signal, Address(registers.rip)));
                }
                Waited::Reported(tid, report) if report.is_end() => {
                    self.settle(tid, report);
                    return Err(DebuggerError::NoThread(Tid(tid)));
                }
                Waited::Reported(tid, report) => {
                    self.settle(tid, report);
                    sys::resume(tid, 0).map_err(system("resuming a thread"))?;
                }
                Waited::Nothing if Instant::now() >= until => return Ok(Ended::TooLong),
                Waited::Nothing if self.is_interrupted() => return Ok(Ended::Interrupted),
                Waited::Nothing => {}
                Waited::NoThread => return Err(DebuggerError::NoThread(Tid(tid))),
            }
        }
    }

    /// Stops a thread whose function does not return, and sends it to the breakpoint.
    fn force_to_return(&mut self, tid: i32, return_to: Address, ticking: &Ticking<'_>) -> Result<(), DebuggerError> {
        sys::interrupt(tid).map_err(system("interrupting a thread"))?;
        let until = Instant::now() + self.options.stop_within;
        loop {
            match ticking.wait(tid, self.ends_of(tid), until) {
                Waited::Reported(_, Report::Interrupted) => {
                    let mut registers = sys::general(tid).map_err(system("reading registers"))?;
                    registers.rip = return_to.0;
                    registers.orig_rax = u64::MAX;
                    sys::set_general(tid, &registers).map_err(system("writing registers"))?;
                    sys::resume(tid, 0).map_err(system("resuming a thread"))?;
                    // The thread must reach the breakpoint, even if the user interrupts.
                    while let Ended::Interrupted = self.wait_for_return(tid, return_to, ticking, until)? {}
                    return Ok(());
                }
                // The function returned, or faulted, at the last moment.
                Waited::Reported(_, Report::Signal(_)) => {
                    if let Some(tracee) = self.tracees.get_mut(&tid) {
                        tracee.interrupt_pending = true;
                    }
                    return Ok(());
                }
                Waited::Reported(tid, report) if report.is_end() => {
                    self.settle(tid, report);
                    return Err(DebuggerError::NoThread(Tid(tid)));
                }
                Waited::Reported(tid, _) => sys::resume(tid, 0).map_err(system("resuming a thread"))?,
                Waited::Nothing | Waited::NoThread => {
                    let (why, within) = (super::Silence::of(self.pid, tid), self.options.stop_within);
                    return Err(DebuggerError::Silent { tid: Tid(tid), within, why });
                }
            }
        }
    }

    fn restore_state(&mut self, tid: i32, state: SavedState) -> Result<(), DebuggerError> {
        sys::set_extended(tid, &state.extended).map_err(system("writing the extended state"))?;
        sys::set_general(tid, &state.general).map_err(system("writing registers"))?;
        sys::set_blocked(tid, state.blocked).map_err(system("writing a signal mask"))?;
        if let Some(signal) = &state.signal {
            sys::set_signal_info(tid, signal).map_err(system("writing a signal's information"))?;
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stop = state.stop;
        }
        Ok(())
    }
}
