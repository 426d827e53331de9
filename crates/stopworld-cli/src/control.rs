//! Signals that control a run: SIGINT and SIGTERM end it, SIGUSR1 collects, SIGUSR2 writes its trace.
//!
//! signal-hook's handlers only write a byte to a pipe; a thread of ours, which is no mutator and never stopped, reads
//! it and does what is asked. The first SIGINT or SIGTERM ends the shift and then waits a little for the workload to
//! notice; a workload that does not is left behind, and the figures are printed without it. A second one does not wait.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use super::session::Session;
use super::tracing::Tracing;
use stopworld_platform::sync::{AtomicI32, Ordering};

/// How long a workload may take to notice that it is to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The signals' thread. Dropping it gives up control; the handlers stay, and do nothing more.
pub(super) struct Control {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
    ended_by: Arc<AtomicI32>,
}

impl Control {
    /// Takes control of a session.
    pub(super) fn take(session: &Arc<Session>) -> anyhow::Result<Control> {
        let of_traces = session.tracing.as_ref().map(|_| SIGUSR2);
        let signals = [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(of_traces);
        let mut signals = Signals::new(signals).context("the handlers for SIGINT, SIGTERM, SIGUSR1 and SIGUSR2")?;
        let handle = signals.handle();
        let ended_by = Arc::new(AtomicI32::new(0));
        let (session, seen) = (Arc::clone(session), Arc::clone(&ended_by));
        let thread = thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| obey(&session, &seen, signal)))?;
        Ok(Control { handle, thread: Some(thread), ended_by })
    }

    /// Gives up control. The exit code of a run that a signal ended.
    pub(super) fn end(self) -> Option<u8> {
        let ended_by = Arc::clone(&self.ended_by);
        drop(self);
        match ended_by.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(code(signal)),
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread ends by itself or ends the process; a panic in it has already been printed.
            let _ = thread.join();
        }
    }
}

fn obey(session: &Arc<Session>, ended_by: &AtomicI32, signal: i32) {
    if signal == SIGUSR1 {
        if let Err(error) = session.world().collect() {
            eprintln!("error: the collection that SIGUSR1 asked for: {error}");
        }
        return;
    }
    if signal == SIGUSR2 {
        session.tracing.iter().for_each(Tracing::write_now);
        return;
    }
    session.shift.end();
    if ended_by.swap(signal, Ordering::Relaxed) != 0 {
        std::process::exit(i32::from(code(signal)));
    }
    let session = Arc::clone(session);
    let impatient = thread::Builder::new().name("patience".to_owned()).spawn(move || leave_behind(&session, signal));
    if let Err(error) = impatient {
        eprintln!("error: no thread to wait for the workload's end: {error}; a second signal ends at once");
    }
}

/// Gives the workload its time, then ends the process without it.
fn leave_behind(session: &Session, signal: i32) {
    thread::sleep(PATIENCE);
    // The exit code is the signal's.
    let _ = session.finish_in_haste();
    std::process::exit(i32::from(code(signal)));
}

/// What a shell reports of a process that died of this signal.
fn code(signal: i32) -> u8 {
    // Signals have numbers up to 64.
    128 + signal as u8
}
