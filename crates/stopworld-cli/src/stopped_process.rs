//! The memory of a process that ptrace has stopped, for reading its heap from outside: the process executes no code for it.

use stopworld_postmortem::{LibraryError, Memory, Process, StoppedThread};
use stopworld_ptrace::{Address, Debugger, DebuggerError};

/// The memory of a stopped process.
pub(super) struct StoppedMemory<'a>(pub(super) &'a Debugger);

impl Memory for StoppedMemory<'_> {
    fn read_some(&self, at: u64, into: &mut [u8]) -> usize {
        match self.0.read(Address(at), into) {
            Ok(()) => into.len(),
            Err(_) => self.0.read_some(Address(at), into),
        }
    }
}

/// Returns the threads that are stopped, with their registers.
pub(super) fn stopped_threads(debugger: &Debugger) -> Result<Vec<StoppedThread>, DebuggerError> {
    let thread = |tid| {
        let (registers, extended) = (debugger.registers(tid)?, debugger.extended_state(tid)?);
        Ok(StoppedThread {
            tid: tid.0,
            signal: 0,
            rsp: registers.rsp().0,
            rip: registers.rip().0,
            general: registers.iter().map(|(_, value)| value).collect(),
            extended: extended.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect(),
        })
    };
    debugger.frozen().into_iter().map(thread).collect()
}

/// Returns the process. All of its threads must be stopped while it is read.
pub(super) fn process<'m>(
    debugger: &Debugger,
    memory: &'m StoppedMemory<'_>,
    threads: Vec<StoppedThread>,
) -> Result<Process<'m>, LibraryError> {
    let descriptors: Vec<u64> = debugger.libraries().iter().map(|library| library.descriptor.0).collect();
    Process::with(memory, threads, &descriptors)
}
