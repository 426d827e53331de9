//! Signals that control a run: SIGINT and SIGTERM end it, SIGUSR1 collects, SIGUSR2 writes its trace.
//!
//! signal-hook's handlers only write a byte to a pipe. A thread of the command, which is not a mutator and is never
//! stopped, reads the byte and acts on the signal. The first SIGINT or SIGTERM ends the run plan and then waits a few
//! seconds for the workload to notice. If the workload does not end by then, the figures are printed and the process
//! exits without it. A second SIGINT or SIGTERM exits at once.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use super::session::Session;
use super::tracing::Tracing;
use stopworld_platform::sync::{AtomicI32, Ordering};

/// The time that a workload has to notice the request to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The signal thread. Dropping this stops the thread; the handlers stay installed and do nothing more.
pub(super) struct Control {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
    ended_by: Arc<AtomicI32>,
}

impl Control {
    /// Installs the signal handlers and starts the thread that controls the session.
    pub(super) fn take(session: &Arc<Session>) -> anyhow::Result<Control> {
        let of_traces = session.tracing.as_ref().map(|_| SIGUSR2);
        let signals = [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(of_traces);
        let mut signals =
            Signals::new(signals).context("can't install the handlers for SIGINT, SIGTERM, SIGUSR1 and SIGUSR2")?;
        let handle = signals.handle();
        let ended_by = Arc::new(AtomicI32::new(0));
        let (session, seen) = (Arc::clone(session), Arc::clone(&ended_by));
        let thread = thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| handle_signal(&session, &seen, signal)))?;
        Ok(Control { handle, thread: Some(thread), ended_by })
    }

    /// Stops the thread. Returns the exit code if a signal ended the run.
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

fn handle_signal(session: &Arc<Session>, ended_by: &AtomicI32, signal: i32) {
    if signal == SIGUSR1 {
        if let Err(error) = session.world().collect() {
            eprintln!("error: the collection requested by SIGUSR1 failed: {error}");
        }
        return;
    }
    if signal == SIGUSR2 {
        session.tracing.iter().for_each(Tracing::write_now);
        return;
    }
    session.run_control.end();
    if ended_by.swap(signal, Ordering::Relaxed) != 0 {
        std::process::exit(i32::from(code(signal)));
    }
    let session = Arc::clone(session);
    let impatient = thread::Builder::new().name("patience".to_owned()).spawn(move || leave_behind(&session, signal));
    if let Err(error) = impatient {
        eprintln!(
            "error: can't start a thread to wait for the workload's end: {error}; send the signal again to exit at once"
        );
    }
}

/// Waits [`PATIENCE`] for the run to end, then prints the figures and exits the process.
fn leave_behind(session: &Session, signal: i32) {
    thread::sleep(PATIENCE);
    // The exit code is the signal's.
    let _ = session.finish_now();
    std::process::exit(i32::from(code(signal)));
}

/// Returns the exit code that a shell reports for a process killed by this signal.
fn code(signal: i32) -> u8 {
    // Signals have numbers up to 64.
    128 + signal as u8
}
