//! The view on a terminal: keys, signals, resizing, and the terminal's state, which is restored whatever ends the view.
//!
//! Two things can fail that a view should survive in good order. **The terminal is gone** (its window was closed): reads return nothing, and
//! writes fail, also those to standard error, so nothing here panics if it cannot print. **The terminal takes no output** (nothing reads it): the
//! view is blocked in a write. A signal then finds it deaf, so the thread that waits for signals ends the process itself after a second.

use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::cursor::Show;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use super::feed::Feed;
use super::screen::draw;

/// The longest delay between a change and its picture.
const TICK: Duration = Duration::from_millis(100);
/// The picture is drawn anew after this time also if nothing has changed: rates fall.
const REPAINT: Duration = Duration::from_secs(1);
/// The time that the view has to end after a signal.
const ENDING_TIME: Duration = Duration::from_secs(1);
/// The time for restoring a terminal that may take no output.
const RESTORING_TIME: Duration = Duration::from_millis(200);

/// Why the view has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A key or a signal requested it, or the terminal was closed.
    Requested,
    /// The session has ended, for this reason.
    Session(String),
    /// The session has failed, for this reason.
    Broken(String),
}

/// Shows the history until a key or a signal ends the view, the terminal is closed, or the session ends.
///
/// If the view is still blocked in a write a second after SIGHUP, SIGINT or SIGTERM, that signal ends the process.
///
/// # Errors
/// The terminal cannot be set up, drawn to, or read.
pub fn show(feed: &Feed) -> io::Result<Ended> {
    let screen = Screen::default();
    let watched = Watched::start(screen.clone())?;
    let _restored = screen.enter()?;
    // Its destructor would print to standard error if the terminal is gone, which panics. The screen shows the cursor again.
    let mut terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?);
    match run(&mut terminal, feed, &watched.flag) {
        Err(_) if is_closed() => Ok(Ended::Requested),
        ended => ended,
    }
}

fn run(terminal: &mut Terminal<CrosstermBackend<Stdout>>, feed: &Feed, signalled: &AtomicBool) -> io::Result<Ended> {
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
        if signalled.load(Ordering::Relaxed) || is_closed() {
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

/// Returns whether the terminal is gone. Not every process of a terminal gets a signal then.
fn is_closed() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && fds[0].revents().intersects(gone)
}

/// The terminal's modes and its second screen: whether the view has changed them. Clones refer to the same state.
#[derive(Clone, Default)]
struct Screen(Arc<AtomicBool>);

impl Screen {
    /// Sets the terminal up. It is restored when the result is dropped, or when a thread panics, before the panic's message is printed.
    fn enter(&self) -> io::Result<Restored> {
        let (screen, print) = (self.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            screen.leave();
            print(info);
        }));
        // From here on, a failure restores what was done before it.
        let restored = Restored(self.clone());
        self.0.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        Ok(restored)
    }

    /// Restores the terminal, the first time. A terminal that is gone needs nothing.
    fn leave(&self) {
        if self.0.swap(false, Ordering::Relaxed) {
            let _ = disable_raw_mode();
            let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        }
    }
}

/// Restores the terminal when it is dropped.
struct Restored(Screen);

impl Drop for Restored {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A thread that waits for the signals that ask the view to end, until this is dropped.
struct Watched {
    /// Set by a signal.
    flag: Arc<AtomicBool>,
    handle: Handle,
    /// Dropped when the view has ended.
    _view: Sender<()>,
}

impl Watched {
    fn start(screen: Screen) -> io::Result<Watched> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let (flag, handle) = (Arc::<AtomicBool>::default(), signals.handle());
        let signalled = Arc::clone(&flag);
        let (view, ended) = mpsc::channel::<()>();
        let wait = move || {
            let Some(signal) = signals.forever().next() else { return };
            signalled.store(true, Ordering::Relaxed);
            if ended.recv_timeout(ENDING_TIME) == Err(RecvTimeoutError::Timeout) {
                end_by(signal, screen);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(Watched { flag, handle, _view: view })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Ends the process by a signal, after an attempt to restore the terminal. Its modes can be set although it takes no output.
fn end_by(signal: i32, screen: Screen) {
    // This does not wait for the output.
    let _ = disable_raw_mode();
    let (send, restored) = mpsc::channel();
    let leave = move || {
        screen.leave();
        // If this fails, the other thread no longer waits.
        let _ = send.send(());
    };
    if thread::Builder::new().name("restore".into()).spawn(leave).is_ok() {
        let _ = restored.recv_timeout(RESTORING_TIME);
    }
    // These signals end a process, so this does not return.
    let _ = emulate_default_handler(signal);
}
