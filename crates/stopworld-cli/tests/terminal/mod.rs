//! A program on a terminal of its own: the keys typed, including those that send signals, and the output.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A time limit: no program takes longer to answer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A shell that runs a program, prints how it ended, and keeps the terminal until a line is typed. A shell that exits resets its terminal.
const SHELL: &str = "trap '' HUP; \"$@\"; code=$?; echo \"ended with $code\"; read line; exit $code";

/// What happens to the output of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// It is read.
    Read,
    /// It stays where it is, until no more fits.
    Stalled,
    /// The terminal is being closed.
    Closed,
}

/// A program and its terminal. The program leads the terminal's session, as a shell's foreground job does.
pub struct Terminal {
    child: Child,
    keys: File,
    output: Arc<Mutex<Output>>,
    reader: Option<JoinHandle<()>>,
    shown: Receiver<u8>,
    /// The output so far.
    seen: String,
    /// The end of the output that was already returned.
    read: usize,
}

/// A new terminal. No other program may inherit the first end: it would keep the terminal open.
fn pty() -> (OwnedFd, OwnedFd) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let own = |fd: libc::c_int| {
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: a new descriptor, owned by no other value.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    // SAFETY: a plain system call.
    let ours = own(unsafe { libc::posix_openpt(flags) });
    // SAFETY: plain system calls on a descriptor of this test.
    let its = own(unsafe {
        assert_eq!(libc::unlockpt(ours.as_raw_fd()), 0);
        libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags)
    });
    set_size(&ours, 50, 200);
    (ours, its)
}

fn set_size(terminal: &impl AsRawFd, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: a size that lives through the call.
    assert_eq!(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
}

/// Waits for output for a short time. The end of the terminal counts as output.
fn has_output(terminal: &File) -> bool {
    let mut waiting = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&mut waiting, 1, 10) > 0 }
}

impl Terminal {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let (ours, its) = pty();
        let stdio = || Stdio::from(its.try_clone().unwrap());
        let mut command = Command::new(program);
        command.args(arguments).env("TERM", "xterm").stdin(stdio()).stdout(stdio()).stderr(stdio());
        let leads = || {
            // SAFETY: system calls of the new process on itself.
            unsafe {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: two system calls, which are async-signal-safe.
        unsafe { command.pre_exec(leads) };
        let child = command.spawn().unwrap();
        drop((command, its));
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let (send, shown) = channel();
        let output = Arc::new(Mutex::new(Output::Read));
        let state = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let state = *state.lock().unwrap();
                match state {
                    Output::Closed => return,
                    Output::Stalled => std::thread::sleep(Duration::from_millis(1)),
                    Output::Read if !has_output(&screen) => {}
                    Output::Read => match screen.read(&mut bytes) {
                        // Reading a terminal whose other end is closed is an error.
                        Ok(0) | Err(_) => return,
                        Ok(count) if bytes[..count].iter().any(|byte| send.send(*byte).is_err()) => return,
                        Ok(_) => {}
                    },
                }
            }
        });
        Self { child, keys, output, reader: Some(reader), shown, seen: String::new(), read: 0 }
    }

    /// Starts a program under a shell, which leads the session instead.
    pub fn start_under_shell(program: &str, arguments: &[&str]) -> Self {
        Self::start("/bin/sh", &[&["-c", SHELL, "sh", program], arguments].concat())
    }

    /// Reads no more output.
    pub fn stall(&self) {
        *self.output.lock().unwrap() = Output::Stalled;
    }

    /// Reads the output again.
    pub fn resume(&self) {
        *self.output.lock().unwrap() = Output::Read;
    }

    /// Closes the terminal, as when its window is closed.
    pub fn hang_up(&mut self) {
        *self.output.lock().unwrap() = Output::Closed;
        self.reader.take().expect("it is open").join().unwrap();
        self.keys = File::open("/dev/null").unwrap();
    }

    /// The process id of the shell's program.
    pub fn job(&self) -> u32 {
        let shell = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.trim().parse().expect("the shell runs one program")
    }

    pub fn type_line(&mut self, line: &str) {
        write!(self.keys, "{line}\r").unwrap();
    }

    pub fn press_ctrl_c(&mut self) {
        self.press("\x03");
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal to the shell's program.
    pub fn signal_job(&self, signal: libc::c_int) {
        // SAFETY: a plain system call on a process for which its shell waits.
        assert_eq!(unsafe { libc::kill(self.job() as libc::pid_t, signal) }, 0);
    }

    /// Changes the size of the terminal, which notifies the program.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.keys, rows, columns);
    }

    /// Returns whether the terminal edits lines and echoes keys, as for a shell.
    pub fn is_for_lines(&self) -> bool {
        let wanted = libc::ICANON | libc::ECHO | libc::ISIG;
        self.settings().c_lflag & wanted == wanted
    }

    fn settings(&self) -> libc::termios {
        // SAFETY: plain integers; all zeroes is a valid value, and the call fills it.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: a valid place for the settings.
        assert_eq!(unsafe { libc::tcgetattr(self.keys.as_raw_fd(), &mut settings) }, 0);
        settings
    }

    /// Waits until a command runs. While it runs, the terminal sends signals for its keys.
    pub fn begins_to_wait(&self) {
        self.wait_for_mode(libc::ISIG);
    }

    /// Waits until no command runs. The line editor then reads every key itself.
    fn is_at_the_prompt(&self) {
        self.wait_for_mode(0);
    }

    /// Waits until the terminal has been in a mode for longer than a line editor takes to change it between two lines.
    fn wait_for_mode(&self, signals: libc::tcflag_t) {
        const LONG_ENOUGH: Duration = Duration::from_millis(500);
        let begin = Instant::now();
        let mut since = begin;
        while since.elapsed() < LONG_ENOUGH {
            if self.settings().c_lflag & libc::ISIG != signals {
                since = Instant::now();
            }
            assert!(begin.elapsed() < PATIENCE, "{}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the output after the last answer, up to and including `what`.
    pub fn until(&mut self, what: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.read..].find(what) {
                let from = std::mem::replace(&mut self.read, 0);
                self.read = from + at + what.len();
                return self.seen[from..self.read].to_owned();
            }
            match self.shown.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(byte) => self.seen.push(char::from(byte)),
                Err(_) => panic!("no `{what}` on the terminal:\n{}", self.seen),
            }
        }
    }

    /// Returns the debugger's answer to a command that ends by itself.
    pub fn ask(&mut self, line: &str) -> String {
        self.type_line(line);
        // Not every line editor reads keys that were typed while a command ran.
        self.is_at_the_prompt();
        self.type_line("help quit");
        self.until("quit: end")
    }

    /// The program's exit code; `None` if a signal has ended it.
    pub fn end(mut self) -> Option<i32> {
        self.wait()
    }

    /// Waits for the program's end. Returns the exit code; `None` if a signal has ended it.
    pub fn wait(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None => assert!(Instant::now() < end, "the program does not end:\n{}", self.seen),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
