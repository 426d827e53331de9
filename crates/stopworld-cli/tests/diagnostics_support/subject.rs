//! Processes to test: this test's own program run again, which executes commands line by line, or the command `stopworld`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use stopworld::{Leaf, World};
use stopworld_diagnostics::Diagnostics;

use super::client::{Client, PATIENCE};

const VARIABLE: &str = "STOPWORLD_TEST_SUBJECT";
const MARK: &str = "@@ ";

/// A process that executes commands.
pub struct Subject {
    pub child: Child,
    told: Option<ChildStdin>,
    said: Receiver<String>,
    pub client: Client,
    pub directory: tempfile::TempDir,
}

impl Subject {
    /// Starts a subject, with its socket in a directory of its own.
    pub fn start() -> Subject {
        Subject::start_with(|_| {})
    }

    pub fn start_with(change: impl FnOnce(&mut Command)) -> Subject {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["subject", "--exact", "--nocapture"]).env(VARIABLE, "1").env("TMPDIR", directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let told = child.stdin.take();
        let (send, said) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            // The test harness's own output precedes the first line.
            let lines = lines.map_while(Result::ok);
            lines.filter_map(|line| Some(line.split_once(MARK)?.1.to_owned())).try_for_each(|line| send.send(line))
        });
        let path = PathBuf::from(said.recv_timeout(PATIENCE).expect("it prints the path of its socket"));
        Subject { child, told, said, client: Client::at(&path), directory }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command, and returns the answer.
    pub fn tell(&mut self, order: &str) -> String {
        self.order(order);
        self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {order}"))
    }

    /// Sends a command without waiting.
    pub fn order(&mut self, order: &str) {
        writeln!(self.told.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Waits for the process to end.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        ended(&mut self.child)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ended(child: &mut Child) -> std::process::ExitStatus {
    let mut status = None;
    until("the process has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The sockets in a directory.
pub fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("dotnet-diagnostic-")).collect()
}

pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

pub fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

pub fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The subject's main loop. Does nothing in the process of the test.
pub fn live() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let say = |line: String| {
        println!("{MARK}{line}");
        std::io::stdout().flush().unwrap();
    };
    let mut diagnostics = match Diagnostics::open() {
        Ok(diagnostics) => Some(diagnostics),
        Err(error) => {
            say(error.to_string());
            None
        }
    };
    let build = |diagnostics: &Option<Diagnostics>| {
        let mut builder = World::builder().heap_limit(64 << 20);
        if let Some(diagnostics) = diagnostics {
            builder = builder.record_to(diagnostics);
        }
        builder.build().unwrap()
    };
    let world = build(&diagnostics);
    // SAFETY: no reference is kept.
    let m = unsafe { world.attach("main") }.unwrap();
    let (mut more, mut kept) = (Vec::new(), Vec::new());
    if let Some(diagnostics) = &diagnostics {
        say(diagnostics.path().display().to_string());
    }
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, count) = line.split_once(' ').unwrap_or((&line, "1"));
        let count: u64 = count.parse().unwrap();
        match order {
            "collect" => {
                for _ in 0..count {
                    m.collect().unwrap();
                }
            }
            "allocate" => {
                for number in 0..count {
                    m.alloc(Leaf(number)).unwrap();
                }
            }
            "keep" => (0..count).for_each(|number| kept.push(m.root(m.alloc(Leaf(number)).unwrap()))),
            "root" => (0..count).for_each(|number| drop(m.root(m.alloc(Leaf(number)).unwrap()))),
            "world" => more.push(build(&diagnostics)),
            "collect-more" => {
                for world in &more {
                    world.collect().unwrap();
                }
            }
            "collections" => {
                say(world.totals().collections.to_string());
                continue;
            }
            "open" => {
                let opened = Diagnostics::open();
                say(opened.as_ref().map_or_else(ToString::to_string, |opened| opened.path().display().to_string()));
                diagnostics = opened.ok();
                continue;
            }
            "close" => diagnostics = None,
            // SAFETY: the child calls only `alarm` and `pause`.
            "fork" => match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: a plain system call.
                    unsafe { libc::alarm(120) };
                    // SAFETY: as above.
                    unsafe { libc::pause() };
                    std::process::exit(0);
                }
                child => {
                    say(child.to_string());
                    continue;
                }
            },
            "fork-and-exit" => {
                // SAFETY: the child opens a socket of its own, and exits, which runs its exit handlers.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let own = Diagnostics::open().unwrap();
                    let is_its_own =
                        own.path().exists() && Some(own.path()) != diagnostics.as_ref().map(Diagnostics::path);
                    std::process::exit(if is_its_own { 0 } else { 1 });
                }
                let mut status = 0;
                // SAFETY: a child of this process.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
            }
            "exit" => std::process::exit(7),
            other => panic!("unknown command {other}"),
        }
        say("done".into());
    }
}
