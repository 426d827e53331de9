//! The view on a terminal: keys, signals, resizing, and the terminal's state, which is restored whatever ends the view.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::feed::Feed;
use super::screen::draw;

/// The longest delay between a change and its picture.
const TICK: Duration = Duration::from_millis(100);
/// The picture is drawn anew after this time also if nothing has changed: rates fall.
const REPAINT: Duration = Duration::from_secs(1);

/// Why the view has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A key or a signal requested it.
    Requested,
    /// The session has ended, for this reason.
    Session(String),
    /// The session has failed, for this reason.
    Broken(String),
}

/// Shows the history until a key or a signal ends the view, or the session ends.
///
/// # Errors
/// The terminal cannot be set up, drawn to, or read.
pub fn show(feed: &Feed) -> io::Result<Ended> {
    let signals = Flagged::new()?;
    // It also restores the terminal when a thread panics, before the panic's message is printed.
    let mut terminal = ratatui::try_init()?;
    let _restored = Restored;
    run(&mut terminal, feed, &signals.flag)
}

fn run(terminal: &mut DefaultTerminal, feed: &Feed, signalled: &AtomicBool) -> io::Result<Ended> {
    let mut shown = None;
    let mut painted = Instant::now();
    loop {
        let (version, ended, is_broken) = {
            let history = feed.history();
            (history.version, history.ended.clone(), history.is_broken)
        };
        if let Some(reason) = ended {
            return Ok(if is_broken { Ended::Broken(reason) } else { Ended::Session(reason) });
        }
        if signalled.load(Ordering::Relaxed) {
            return Ok(Ended::Requested);
        }
        if shown != Some(version) || painted.elapsed() >= REPAINT {
            // The lock is released before the picture is written: a terminal may be slow.
            terminal.draw(|frame| draw(frame, feed.target(), &feed.history()))?;
            (shown, painted) = (Some(version), Instant::now());
        }
        match event::poll(TICK) {
            Ok(false) => continue,
            Ok(true) => {}
            // A signal, which the flag shows.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match event::read()? {
            Event::Key(key) if ends(&key) => return Ok(Ended::Requested),
            Event::Resize(..) => shown = None,
            _ => {}
        }
    }
}

/// Returns whether a key ends the view.
fn ends(key: &KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release && (is_ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// Restores the terminal when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// A flag that signals set which ask the view to end.
struct Flagged {
    flag: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Flagged {
    fn new() -> io::Result<Flagged> {
        let mut flagged = Flagged { flag: Arc::default(), handlers: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            flagged.handlers.push(signal_hook::flag::register(signal, Arc::clone(&flagged.flag))?);
        }
        Ok(flagged)
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| _ = signal_hook::low_level::unregister(handler));
    }
}
