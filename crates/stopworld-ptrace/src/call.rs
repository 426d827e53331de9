//! Calling a function of the target in one of its threads.
//!
//! The collector knows its heap better than any debugger, and has functions to ask it: who holds this address, who leads
//! to it. They are called in a thread that stands, as debuggers call functions of their programs: the registers are put aside, the
//! stack pointer is set below everything that is in use, the function's address into rip, its arguments into registers, and as its return
//! address a breakpoint instruction. The thread alone goes on; at the breakpoint it stands again and gets everything back.
//!
//! What a careless debugger breaks, and how it is avoided:
//!
//! * A thread in a system call that the kernel would restart: `orig_rax` = −1 says that it is in none, or the kernel would set the instruction
//!   pointer back by two. It comes back with the other registers, and the call is restarted in the end.
//! * Vector registers: the extended state is put aside too.
//! * A signal that the thread stands before: it is put aside with all that belongs to it, and given back at the breakpoint, which is a place before
//!   a signal as well. Others are blocked for the time of the call, but for those that the function itself would raise.
//! * A function that does not come back: after a time the thread is stopped and sent to the breakpoint.

use std::time::{Duration, Instant};

use super::core::Debugger;
use super::error::{CallError, DebuggerError, system};
use super::frame::{RED_ZONE, TRAP_AND_DIRECTION};
use super::memory::Address;
use super::sys::{self, General, Report, SignalInfo, Ticking, Waited};
use super::tracee::Stop;
use stopworld_platform::os::Tid;

/// What can be asked of the collector, in the order of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Inspect {
    /// The object that holds an address.
    Describe = 0,
    /// What its fields lead to.
    Fields = 1,
    /// Who leads to it.
    Referrers = 2,
    /// A way from a root.
    Path = 3,
    /// Asks for a collection.
    RequestCollection = 4,
    /// Types, counts and bytes.
    Census = 5,
}

/// Signals that a function may raise itself, and that must not be blocked: the kernel would take away their handlers.
const OWN_FAULTS: [i32; 6] = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// How often a wait for a function looks whether the user still wants its answer.
const LOOK: Duration = Duration::from_millis(50);

/// Everything of a thread that a call changes.
struct Aside {
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
    /// Calls a function in a thread that stands, with up to six arguments, and gives back what it returned in rax. The thread is afterwards as
    /// it was, to the last bit.
    ///
    /// # Errors
    /// The thread runs or can't do it, the function faulted, or did not come back in time.
    pub fn call(&mut self, tid: Tid, function: Address, arguments: &[u64]) -> Result<i64, CallError> {
        self.must_be_alive()?;
        if arguments.len() > 6 {
            return Err(CallError::Arguments(arguments.len()));
        }
        let return_to = self.libraries.iter().map(|known| known.call_return).find(|at| !at.is_null());
        let return_to = return_to.ok_or(CallError::NoFunction)?;
        let aside = self.put_aside(tid)?;
        let lowest = self.tracees.get(&tid.0).and_then(|t| t.saved.as_ref()).map_or(u64::MAX, |saved| saved.lowest);
        let called = self.run_call(tid.0, &aside, lowest, function, arguments, return_to);
        let restored = self.put_back(tid.0, aside);
        match called? {
            Ended::Returned(value) => restored.map(|()| value).map_err(CallError::from),
            Ended::Faulted(signal, at) => Err(CallError::Faulted { signal, at }),
            Ended::TooLong => Err(CallError::TooLong(self.options.call_within)),
            Ended::Interrupted => Err(CallError::Interrupted),
        }
    }

    /// Asks the collector something, in a thread that stands or, if none is given, in any that can: one that is frozen, or one that is
    /// stopped for the time of the call.
    ///
    /// # Errors
    /// As [`call`](Self::call); or this target has no such function.
    pub fn library_call(&mut self, tid: Option<Tid>, which: Inspect, arguments: &[u64]) -> Result<i64, CallError> {
        let function = self.libraries.iter().find_map(|known| known.calls.get(which as usize).copied());
        let function = function.filter(|at| !at.is_null()).ok_or(CallError::NoFunction)?;
        if let Some(tid) = tid {
            return self.call(tid, function, arguments);
        }
        let can = |t: &super::tracee::Tracee| t.stands() && !t.exiting && matches!(t.stop, Stop::Plain);
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

    fn put_aside(&self, tid: Tid) -> Result<Aside, CallError> {
        let tracee = self.tracees.get(&tid.0).ok_or(DebuggerError::NoThread(tid))?;
        if !tracee.stands() || tracee.exiting {
            return Err(DebuggerError::NotStanding(tid).into());
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
        Ok(Aside {
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
        aside: &Aside,
        lowest: u64,
        function: Address,
        arguments: &[u64],
        return_to: Address,
    ) -> Result<Ended, CallError> {
        let mut registers = aside.general;
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
        // Below the red zone, and below what was pushed there for a collection; at a function's entry 8 above a multiple of 16.
        let top = aside.general.rsp.wrapping_sub(RED_ZONE).min(lowest);
        registers.rsp = (top & !15).wrapping_sub(8);
        registers.rip = function.0;
        registers.rax = 0;
        registers.orig_rax = u64::MAX;
        registers.eflags &= !TRAP_AND_DIRECTION;
        self.memory.write(Address(registers.rsp), &return_to.0.to_le_bytes()).map_err(DebuggerError::from)?;
        let blocked = OWN_FAULTS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
        sys::set_blocked(tid, blocked).map_err(system("writing a signal mask"))?;
        sys::set_general(tid, &registers).map_err(system("writing registers"))?;
        sys::go_on(tid, 0).map_err(system("letting a thread go on"))?;
        let alarm = std::rc::Rc::clone(&self.alarm);
        let ticking = alarm.ticking();
        let until = Instant::now() + self.options.call_within;
        let ended = self.wait_for_return(tid, return_to, &ticking, until)?;
        if matches!(ended, Ended::TooLong | Ended::Interrupted) {
            self.force_to_return(tid, return_to, &ticking)?;
        }
        Ok(ended)
    }

    /// Waits until the thread stands at the breakpoint or at a fault. Stops of other kinds are late ones: it goes on.
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
                    sys::go_on(tid, 0).map_err(system("letting a thread go on"))?;
                }
                Waited::Nothing if Instant::now() >= until => return Ok(Ended::TooLong),
                Waited::Nothing if self.is_interrupted() => return Ok(Ended::Interrupted),
                Waited::Nothing => {}
                Waited::Nobody => return Err(DebuggerError::NoThread(Tid(tid))),
            }
        }
    }

    /// Stops a thread whose function does not come back, and has it run into the breakpoint.
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
                    sys::go_on(tid, 0).map_err(system("letting a thread go on"))?;
                    // No thread is left between here and there, whatever the user wants.
                    while let Ended::Interrupted = self.wait_for_return(tid, return_to, ticking, until)? {}
                    return Ok(());
                }
                // It came back, or faulted, in the last moment.
                Waited::Reported(_, Report::Signal(_)) => {
                    if let Some(tracee) = self.tracees.get_mut(&tid) {
                        tracee.asked = true;
                    }
                    return Ok(());
                }
                Waited::Reported(tid, report) if report.is_end() => {
                    self.settle(tid, report);
                    return Err(DebuggerError::NoThread(Tid(tid)));
                }
                Waited::Reported(tid, _) => sys::go_on(tid, 0).map_err(system("letting a thread go on"))?,
                Waited::Nothing | Waited::Nobody => {
                    let (why, within) = (super::Silence::of(self.pid, tid), self.options.stop_within);
                    return Err(DebuggerError::Silent { tid: Tid(tid), within, why });
                }
            }
        }
    }

    fn put_back(&mut self, tid: i32, aside: Aside) -> Result<(), DebuggerError> {
        sys::set_extended(tid, &aside.extended).map_err(system("writing the extended state"))?;
        sys::set_general(tid, &aside.general).map_err(system("writing registers"))?;
        sys::set_blocked(tid, aside.blocked).map_err(system("writing a signal mask"))?;
        if let Some(signal) = &aside.signal {
            sys::set_signal_info(tid, signal).map_err(system("writing a signal's information"))?;
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stop = aside.stop;
        }
        Ok(())
    }
}
