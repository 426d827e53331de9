//! The progress bar of a run: shown on a terminal, and only if nothing else writes to it.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::session::Session;
use stopworld_analysis::report::{Bytes, Micros};
use stopworld_workloads::Until;

/// The interval between two redraws of the bar.
const PERIOD: Duration = Duration::from_millis(100);

/// Whether a program prints while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramOutput {
    /// The program prints nothing until its end.
    Silent,
    /// The program prints while it runs: a bar on the same terminal would disturb its output.
    Prints,
}

/// A bar and the thread that draws it. Dropping it clears the bar.
pub(super) struct Progress {
    done: Arc<(Mutex<bool>, Condvar)>,
    painter: Option<thread::JoinHandle<()>>,
}

impl Progress {
    /// Shows a bar if standard error is a terminal and the program does not print to the same terminal.
    pub(super) fn show(session: &Arc<Session>, name: &str, program_output: ProgramOutput) -> Option<Progress> {
        let in_the_way = program_output == ProgramOutput::Prints && io::stdout().is_terminal();
        if !io::stderr().is_terminal() || in_the_way {
            return None;
        }
        let bar = bar(session.run_control.plan().until, name)?;
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        let (session, finished) = (Arc::clone(session), Arc::clone(&done));
        let paint = move || paint(&session, &bar, &finished);
        // If the thread can't be started, the run continues without a bar.
        let painter = thread::Builder::new().name("progress".to_owned()).spawn(paint).ok()?;
        Some(Progress { done, painter: Some(painter) })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.1.notify_all();
        if let Some(painter) = self.painter.take() {
            // A panic of the drawing thread does not fail the run.
            let _ = painter.join();
        }
    }
}

fn bar(until: Until, name: &str) -> Option<ProgressBar> {
    let (length, template) = match until {
        Until::OnePass => (None, "{spinner} {prefix} {elapsed}  {wide_msg}"),
        Until::Time(time) => (Some(time.as_millis() as u64), "{prefix} [{bar:30}] {elapsed}  {wide_msg}"),
        Until::Collections(n) => (Some(u64::from(n.get())), "{prefix} [{bar:30}] {pos}/{len}  {wide_msg}"),
    };
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).ok()?.progress_chars("=> "));
    bar.set_prefix(name.to_owned());
    Some(bar)
}

fn paint(session: &Session, bar: &ProgressBar, (finished, wake): &(Mutex<bool>, Condvar)) {
    let mut done = finished.lock().unwrap_or_else(PoisonError::into_inner);
    while !*done {
        match session.run_control.plan().until {
            Until::OnePass => bar.tick(),
            Until::Time(_) => bar.set_position(session.elapsed().as_millis() as u64),
            Until::Collections(_) => bar.set_position(u64::from(session.run_control.collections())),
        }
        bar.set_message(message(session));
        done = wake.wait_timeout(done, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
    }
    bar.finish_and_clear();
}

fn message(session: &Session) -> String {
    let summary = session.summary();
    match &summary.last {
        None => "no collection yet".to_owned(),
        Some(last) => {
            let live = last.live.total();
            let (count, pause) = (summary.collections, Micros(last.pause_ns));
            format!("{count} collections, the last {pause} µs, {} live", Bytes(live))
        }
    }
}
