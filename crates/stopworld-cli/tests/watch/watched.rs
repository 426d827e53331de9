//! The command as a server, and a client of it that is no browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::diagnostics_support::client::PATIENCE;
use crate::diagnostics_support::subject::ended;

pub fn stopworld() -> Command {
    Command::new(env!("CARGO_BIN_EXE_stopworld"))
}

/// `stopworld watch PID --web`.
pub struct Watched {
    child: Child,
    said: Mutex<Receiver<String>>,
    /// The URL of the page.
    pub url: String,
    pub port: u16,
    pub token: String,
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Watched {
    pub fn start(pid: u32) -> Watched {
        let mut command = stopworld();
        command.args(["watch", &pid.to_string(), "--web"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (send, said) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let line = said.recv_timeout(PATIENCE).expect("it prints the URL");
        let url = line.split(' ').find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no URL: {line}")).to_owned();
        let mut parts = url.split('/').skip(2);
        let port = parts.next().and_then(|host| host.strip_prefix("127.0.0.1:")).expect("it listens at 127.0.0.1");
        let port = port.parse().unwrap();
        let token = parts.next().unwrap().to_owned();
        Watched { child, said: Mutex::new(said), url, port, token }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line on standard error.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().recv_timeout(PATIENCE).expect("it prints a line")
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends a request with these headers, and returns the connection.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        stream
    }

    /// Sends a request with these headers, and returns the whole answer.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut bytes = Vec::new();
        self.open(method, path, headers).read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes.split_off(end) }
    }

    /// Requests what belongs to the page, as the page does.
    pub fn own(&self, method: &str, path: &str) -> Answer {
        let (host, origin) = (self.host(), format!("http://{}", self.host()));
        let headers = [("Host", host.as_str()), ("Origin", origin.as_str())];
        self.request(method, &format!("/{}/{path}", self.token), &headers)
    }

    /// Opens the stream of the page after the batch with this id.
    pub fn events(&self, last: &str) -> Events {
        self.events_at("events", last)
    }

    /// As above, at this address.
    pub fn events_at(&self, name: &str, last: &str) -> Events {
        let (host, path) = (self.host(), format!("/{}/{name}", self.token));
        let mut headers = vec![("Host", host.as_str())];
        if !last.is_empty() {
            headers.push(("Last-Event-ID", last));
        }
        let stream = self.open("GET", &path, &headers);
        let mut events = Events { lines: BufReader::new(stream) };
        while !events.line().trim().is_empty() {}
        events
    }

    /// Sends a signal, and returns the exit code.
    pub fn end(mut self, signal: libc::c_int) -> Option<i32> {
        // SAFETY: a plain system call on a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
        ended(&mut self.child).code()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The stream of a page.
pub struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Returns the id and the contents of the next batch.
    pub fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream ended");
            if let Some(found) = line.strip_prefix("id: ") {
                id = found.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Reads batches until one fulfils a condition. Returns the id of that one, and the pauses of all.
    pub fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> (String, Vec<Value>) {
        let mut pauses = Vec::new();
        loop {
            let (id, batch) = self.next();
            pauses.extend(batch["pauses"].as_array().unwrap().iter().cloned());
            if is_so(&batch) {
                return (id, pauses);
            }
        }
    }
}

/// A run of the command with a socket and a trace.
pub struct Run {
    child: Child,
    directory: tempfile::TempDir,
}

impl Run {
    pub fn start() -> Run {
        let directory = tempfile::tempdir().unwrap();
        let mut command = stopworld();
        command.args(["run", "churn", "--threads", "2", "--seconds", "600", "--initial-heap", "1m", "--diagnostics"]);
        command.arg("--trace").arg(directory.path().join("run.nettrace"));
        command.env("TMPDIR", directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let run = Run { child, directory };
        crate::diagnostics_support::subject::until("it has a socket", || {
            let sockets = crate::diagnostics_support::subject::sockets(run.directory.path());
            sockets.first().is_some_and(|path| std::os::unix::net::UnixStream::connect(path).is_ok())
        });
        run
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the run as a user does, and returns its trace.
    pub fn end(&mut self) -> std::fs::File {
        thread::sleep(Duration::from_millis(50));
        // SAFETY: a plain system call on a process that this test started and has not waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        ended(&mut self.child);
        std::fs::File::open(self.directory.path().join("run.nettrace")).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
