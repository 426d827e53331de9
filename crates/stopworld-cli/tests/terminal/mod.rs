//! A program on a terminal of its own: the keys typed, including those that send signals, and the output.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A time limit: no program takes longer to answer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program and its terminal. The program leads the terminal's session, as a shell's foreground job does.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<u8>,
    /// The output so far.
    seen: String,
    /// The end of the output that was already returned.
    read: usize,
}

fn pty() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut its) = (0, 0);
    let size = libc::winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: two places for descriptors, and a size that lives through the call.
    let made = unsafe { libc::openpty(&mut ours, &mut its, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0);
    // SAFETY: two new descriptors, owned by no other value.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(its)) }
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
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading a terminal whose other end is closed is an error.
            while let Ok(count) = screen.read(&mut bytes) {
                if count == 0 || bytes[..count].iter().any(|byte| send.send(*byte).is_err()) {
                    return;
                }
            }
        });
        Self { child, keys, shown, seen: String::new(), read: 0 }
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

    /// Sends a signal to the program.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain system call on a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Changes the size of the terminal, which notifies the program.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: a size that lives through the call.
        assert_eq!(unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
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
