//! The HTTP server: `GET /metrics`.
//!
//! A scraper that accepts OpenMetrics gets it, as Prometheus does; others get the older text format.
//!
//! One thread accepts connections, and each connection has a thread of its own, which answers one request and closes. So a client that
//! sends its request slowly, or that does not read, delays no other scrape. Its connection ends after [`TIME_LIMIT`]; there are at most
//! [`CONNECTIONS`] at a time, and further ones wait in the queue of the system. Bodies of requests are not read.
//!
//! A page in a browser of this machine must not read the metrics. The same-origin policy prevents it, unless the page's own name was made
//! to resolve to 127.0.0.1 (DNS rebinding). The browser then sends this name as `Host`, so a server at a loopback address answers only
//! requests to an IP address or to `localhost`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prometheus_client::encoding::prometheus_text;

use crate::Metrics;

/// The path of the metrics.
const PATH: &str = "/metrics";
/// The type of a text in the format of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The largest head of a request, in bytes.
const HEAD: usize = 8 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;
/// The number of connections that are served at a time.
const CONNECTIONS: usize = 16;
/// The time limit of a connection.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection is kept after the answer, so that the client can read it, and how many bytes are read in that time.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 10;
/// The pause after a connection that could not be accepted, for example because the process has too many files open.
const RETRY: Duration = Duration::from_millis(100);
/// The time that a dropped server waits for its threads.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is in use or cannot be used.
    #[error("can't listen at {address}: {error}{}", remedy(.error))]
    Bind {
        /// The address that was requested.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The system refused a thread.
    #[error("can't start the server of the metrics: {0}")]
    Start(io::Error),
}

/// Returns what to do about an address that cannot be used, if that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for any free one",
        _ => "",
    }
}

/// A server of metrics, until dropped. Its port is free shortly after that.
///
/// Its threads are not attached to any world. It has no authentication: every process that can connect to the address can read the
/// metrics, so bind it to a loopback address (`127.0.0.1`), or put a server with access control before it. At a loopback address, requests
/// whose `Host` is neither an IP address nor `localhost` are refused with status 421.
///
/// Its drop ends the open connections, and takes at most a second or two.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    connections: Arc<Connections>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server at this address. Port 0 selects any free port.
    ///
    /// # Errors
    /// The address is in use or cannot be used, or the system refused a thread.
    pub fn bind(metrics: &Metrics, address: impl ToSocketAddrs + std::fmt::Debug) -> Result<Server, ServeError> {
        let bind = |error| ServeError::Bind { address: format!("{address:?}"), error };
        let listener = TcpListener::bind(&address).map_err(bind)?;
        let bound = listener.local_addr().map_err(bind)?;
        let (metrics, connections) = (metrics.clone(), Arc::new(Connections::default()));
        let accepting = Accepting(Arc::clone(&connections));
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || accepting.run(&metrics, &listener)).map_err(ServeError::Start)?;
        Ok(Server { address: bound, connections, thread: Some(thread) })
    }

    /// Returns the address, with the port that was selected.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + CLOSING_TIME;
        self.connections.close();
        // A connection wakes the thread that accepts them.
        let _ = TcpStream::connect_timeout(&reachable(self.address), CLOSING_TIME / 2);
        if self.connections.wait_until_closed(deadline) {
            // A panic of the thread was printed when it happened.
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

/// Returns an address of this machine at which a listener with this address can be reached.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Connections {
    state: Mutex<State>,
    /// Notified of each change of the state.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Arc<TcpStream>>,
    /// The number of connections so far.
    count: u64,
    closing: bool,
    /// Whether the thread that accepts connections has ended.
    ended: bool,
}

impl Connections {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and notifies the threads that wait.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until one more connection may be open. Returns `false` if the server closes.
    fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| !state.closing && state.open.len() >= CONNECTIONS;
        let state = self.changed.wait_while(self.state(), full);
        !state.unwrap_or_else(PoisonError::into_inner).closing
    }

    /// Adds a connection, unless the server closes.
    fn open(self: &Arc<Self>, stream: TcpStream) -> Option<Connection> {
        let stream = Arc::new(stream);
        let number = self.change(|state| {
            state.count += 1;
            (!state.closing).then(|| state.open.insert(state.count, Arc::clone(&stream)));
            (!state.closing).then_some(state.count)
        })?;
        Some(Connection { stream, number, connections: Arc::clone(self), deadline: Instant::now() + TIME_LIMIT })
    }

    /// Ends all connections, and lets no new one begin.
    fn close(&self) {
        self.change(|state| {
            state.closing = true;
            // It may have ended already.
            state.open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        });
    }

    /// Waits until all threads have ended, but not longer than until the deadline. Returns whether they have.
    fn wait_until_closed(&self, deadline: Instant) -> bool {
        let wait = deadline.saturating_duration_since(Instant::now());
        let is_busy = |state: &mut State| !state.ended || !state.open.is_empty();
        let waited = self.changed.wait_timeout_while(self.state(), wait, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// The thread that accepts connections.
struct Accepting(Arc<Connections>);

impl Accepting {
    fn run(self, metrics: &Metrics, listener: &TcpListener) {
        // A socket that listens has an address.
        let names = match listener.local_addr() {
            Ok(address) if !address.ip().to_canonical().is_loopback() => Names::Any,
            _ => Names::Local,
        };
        while self.0.wait_for_room() {
            let connection = match listener.accept() {
                Ok((stream, _)) => self.0.open(stream),
                Err(_) => {
                    thread::sleep(RETRY);
                    continue;
                }
            };
            let Some(connection) = connection else { break };
            let metrics = metrics.clone();
            let thread = thread::Builder::new().name("metrics".to_owned());
            // Without a thread, the connection is closed.
            let _ = thread.spawn(move || connection.serve(&metrics, names));
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.change(|state| state.ended = true);
    }
}

/// A connection of a client, until dropped.
struct Connection {
    stream: Arc<TcpStream>,
    number: u64,
    connections: Arc<Connections>,
    deadline: Instant,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.change(|state| state.open.remove(&self.number));
    }
}

impl Connection {
    /// Answers one request. A client that disappears or is too slow gets no answer.
    fn serve(mut self, metrics: &Metrics, names: Names) {
        let Ok(Some(answer)) = self.answer(metrics, names) else { return };
        if self.write(&answer).is_ok() && self.stream.shutdown(Shutdown::Write).is_ok() {
            self.linger();
        }
    }

    /// Reads the head of a request. Returns the answer; `None` if the client has closed the connection.
    fn answer(&self, metrics: &Metrics, names: Names) -> io::Result<Option<Vec<u8>>> {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(None),
                read => head.extend_from_slice(&buffer[..read]),
            }
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            let answer = match request.parse(&head) {
                Ok(httparse::Status::Complete(_)) if !names.admit(&request) => {
                    let why = "the server listens at a loopback address: request it by its IP address or as localhost";
                    Answer::refusal("421 Misdirected Request", why)
                }
                Ok(httparse::Status::Complete(_)) => answer(metrics, &request),
                Ok(httparse::Status::Partial) if head.len() < HEAD => continue,
                Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                    Answer::refusal("431 Request Header Fields Too Large", "the head of the request is too large")
                }
                Err(error) => Answer::refusal("400 Bad Request", &format!("not a request of HTTP/1: {error}")),
            };
            return Ok(Some(answer.encode()));
        }
    }

    /// Reads and drops what the client still sends. If it were not read, the system would reset the connection, and the client might
    /// not get the answer.
    fn linger(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + LINGER);
        let mut buffer = [0; 1024];
        let mut rest = LINGER_BYTES;
        while let Ok(read @ 1..) = self.read(&mut buffer)
            && rest > 0
        {
            rest = rest.saturating_sub(read);
        }
    }

    /// Returns the time until the deadline.
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.deadline.checked_duration_since(Instant::now()).filter(|time| !time.is_zero());
        remaining.map(Some).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(self.remaining()?)?;
            match (&*self.stream).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.remaining()?)?;
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The names by which a server can be requested.
#[derive(Clone, Copy, Debug)]
enum Names {
    Any,
    /// IP addresses, and `localhost`.
    Local,
}

impl Names {
    /// Returns whether the server may answer the request. One without `Host` is not from a browser.
    fn admit(self, request: &httparse::Request<'_, '_>) -> bool {
        let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Host"));
        matches!(self, Names::Any) || hosts.all(|host| std::str::from_utf8(host.value).is_ok_and(is_local))
    }
}

/// Returns whether the value of a `Host`, which may end with a port, is an IP address or `localhost`.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let in_brackets = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// An answer to a request.
struct Answer {
    status: &'static str,
    content_type: &'static str,
    text: String,
    with_body: bool,
}

impl Answer {
    fn refusal(status: &'static str, text: &str) -> Answer {
        Answer { status, content_type: PLAIN, text: format!("{text}\n"), with_body: true }
    }

    fn encode(&self) -> Vec<u8> {
        let Answer { status, content_type, text, with_body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = text.len();
        let body = if *with_body { text.as_str() } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

fn answer(metrics: &Metrics, request: &httparse::Request<'_, '_>) -> Answer {
    let path = request.path.unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
    let is_head = request.method == Some("HEAD");
    let answer = match (request.method, path) {
        (Some("GET" | "HEAD"), PATH) => {
            let (content_type, text) = if accepts_open_metrics(request) {
                (OPEN_METRICS, metrics.open_metrics())
            } else {
                (prometheus_text::CONTENT_TYPE, metrics.text())
            };
            Answer { status: "200 OK", content_type, text, with_body: true }
        }
        (Some("GET" | "HEAD"), _) => Answer::refusal("404 Not Found", &format!("not found: the metrics are at {PATH}")),
        _ => Answer::refusal("405 Method Not Allowed", "only GET is allowed"),
    };
    Answer { with_body: !is_head, ..answer }
}

fn accepts_open_metrics(request: &httparse::Request<'_, '_>) -> bool {
    let mut accept = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Accept"));
    accept.any(|header| String::from_utf8_lossy(header.value).contains("application/openmetrics-text"))
}
