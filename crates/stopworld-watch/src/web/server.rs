//! The server: routes and answers.
//!
//! It has one thread, and memory for a fixed number of connections and streams. Everything is in bounded memory: requests have no body that would be
//! read, heads are limited by the HTTP library, a stream is made batch by batch when its connection has room, and files are read as they are sent.
//! A client that leaves an answer unread is disconnected; the page then connects again when it can.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::io::ReaderStream;

use super::access::{Access, random_hex};
use super::actions::{Action, ActionError, ActionStates, Actions, Running};
use super::batch::{self, Cursor};
use super::connections::{Connection, Connections, Deadline};
use super::document;
use crate::feed::Feed;

/// The number of streams at a time. Each open page has one.
const STREAMS: usize = 16;
/// The time in which a client must send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time in which a client must read a part of an answer.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// The shortest time between two batches for a page that is up to date.
const BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of comments in a stream without batches, by which a broken connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The pause after a connection that could not be accepted, for example because the process has too many files open.
const RETRY: Duration = Duration::from_millis(100);
/// The time that the end of the server waits for an action.
const CLOSING_TIME: Duration = Duration::from_secs(1);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The port is in use or cannot be used.
    #[error("can't listen at 127.0.0.1:{port}: {error}; name another port, or leave --port out for a free one")]
    Bind {
        /// The port that was requested.
        port: u16,
        /// The system's error.
        error: io::Error,
    },
    /// The system refused a thread, random numbers or a signal handler.
    #[error("can't start the server of the page")]
    Start(#[from] io::Error),
}

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all requests share.
struct Shared {
    feed: Feed,
    access: Access,
    actions: Arc<dyn Actions>,
    states: ActionStates,
    streams: Arc<Semaphore>,
    /// Notifies the streams of a change of the actions.
    changed: watch::Sender<()>,
}

impl Server {
    /// Begins to listen at this port of 127.0.0.1; 0 is any free one.
    ///
    /// # Errors
    /// The port is in use, or the system refuses.
    pub fn bind(feed: Feed, actions: Arc<dyn Actions>, port: u16) -> Result<Server, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).map_err(|error| ServeError::Bind { port, error })?;
        listener.set_nonblocking(true)?;
        let access = Access::new(listener.local_addr()?.port())?;
        let shared = Shared {
            feed,
            access,
            actions,
            states: ActionStates::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            changed: watch::Sender::new(()),
        };
        Ok(Server { listener, shared: Arc::new(shared) })
    }

    /// Returns the URL of the page, with the token.
    pub fn url(&self) -> String {
        self.shared.access.url()
    }

    /// Answers requests until SIGINT, SIGTERM or SIGHUP. Calls `ended` when the session has ended; the server then still has its data.
    ///
    /// # Errors
    /// The system refuses.
    pub fn run(self, ended: impl FnOnce(&str) + Send + 'static) -> Result<(), ServeError> {
        let stop = Arc::new(Notify::new());
        let stopping = Arc::clone(&stop);
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let watching = thread::Builder::new().name("signals".into()).spawn(move || {
            if signals.forever().next().is_some() {
                stopping.notify_one();
            }
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Server { listener, shared } = self;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(announce_end(shared.feed.clone(), ended));
            tokio::select! {
                () = accept(listener, router(shared)) => {}
                () = stop.notified() => {}
            }
            Ok(())
        });
        runtime.shutdown_timeout(CLOSING_TIME);
        handle.close();
        // The thread ends by itself; a panic in it has already been printed.
        let _ = watching.join();
        served
    }
}

/// Waits for the end of the session.
async fn announce_end(feed: Feed, ended: impl FnOnce(&str)) {
    let mut changes = feed.changes();
    loop {
        let reason = feed.history().ended.clone();
        if let Some(reason) = reason {
            return ended(&reason);
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let connections = Connections::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let open = connections.open();
        let (connection, routes) = (open.connection(), TowerToHyperService::new(router.clone()));
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(&connection));
            routes.call(request)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        tokio::spawn(async move {
            let stream = TokioIo::new(Deadline::new(stream, WRITE_TIME));
            tokio::select! {
                // A client that disconnects, stalls, or sends no HTTP is no error of the server.
                _ = http.serve_connection(stream, service) => {}
                () = open.replaced() => {}
            }
        });
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/{token}/", get(page))
        .route("/{token}/events", get(events))
        .route("/{token}/{action}", post(action).fallback(other_method))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// Refuses requests that are not the page's, and adds to each answer the headers that keep it on this page. A refusal ends the connection.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&shared, &request) {
        None => next.run(request).await,
        Some(mut refusal) => {
            refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            refusal
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    }
    response
}

/// Returns the answer to a request that is refused.
fn refusal(shared: &Shared, request: &Request) -> Option<Response> {
    if let Err(refusal) = shared.access.check(request.method(), request.uri(), request.headers()) {
        return Some(refusal.answer().into_response());
    }
    let is_admitted = request.extensions().get::<Arc<Connection>>().is_some_and(|connection| connection.admit());
    (!is_admitted).then(|| unavailable("too many connections are open: close a page\n"))
}

fn unavailable(text: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn page(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(nonce) = random_hex() else { return unavailable("the system has no random numbers\n") };
    let policy = document::policy(&nonce);
    let Ok(policy) = HeaderValue::from_str(&policy) else { return unavailable("no policy\n") };
    let html = document::render(shared.feed.target(), &nonce);
    ([(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")), (CONTENT_SECURITY_POLICY, policy)], html)
        .into_response()
}

/// A page's stream: where it is, and what wakes it.
struct Follower {
    shared: Arc<Shared>,
    cursor: Cursor,
    changes: watch::Receiver<u64>,
    actions: watch::Receiver<()>,
    /// Whether there is more than the last batch had.
    is_behind: bool,
    _permit: OwnedSemaphorePermit,
}

async fn events(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Response {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return unavailable("too many pages are open: close one\n");
    };
    // A browser that connects again sends the header; a page that was hidden opens a new stream.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = uri.query().and_then(|query| query.strip_prefix("after="));
    let last = last.or(after).unwrap_or_default();
    let follower = Follower {
        cursor: Cursor::parse(last),
        changes: shared.feed.changes(),
        actions: shared.changed.subscribe(),
        is_behind: true,
        shared,
        _permit: permit,
    };
    let batches = stream::unfold(follower, |mut follower| async {
        follower.wait().await;
        let event = follower.batch();
        Some((Ok::<_, Infallible>(event), follower))
    });
    Sse::new(batches).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

impl Follower {
    /// Waits until there is something new.
    async fn wait(&mut self) {
        if self.is_behind {
            return;
        }
        tokio::time::sleep(BATCH_INTERVAL).await;
        tokio::select! {
            // An error means that the sender is gone, which lives as long as `shared`.
            _ = self.changes.changed() => {}
            _ = self.actions.changed() => {}
        }
    }

    fn batch(&mut self) -> Event {
        let history = self.shared.feed.history();
        let actions = self.shared.states.availability(history.ended.as_deref());
        let (json, cursor, is_more) = batch::next(&history, self.cursor, &actions);
        drop(history);
        (self.cursor, self.is_behind) = (cursor, is_more);
        Event::default().id(cursor.id()).data(json)
    }
}

/// Answers a request that is not POST: 404 if there is no such action, 405 if there is.
async fn other_method(Path((_, name)): Path<(String, String)>) -> Response {
    match Action::named(&name) {
        Some(_) => (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")]).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn action(State(shared): State<Arc<Shared>>, Path((_, name)): Path<(String, String)>, uri: Uri) -> Response {
    let Some(action) = Action::named(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let selected = uri.query().map(|query| query.strip_prefix("world=").and_then(|number| number.parse().ok()));
    if selected == Some(None) {
        return (StatusCode::BAD_REQUEST, "a world is selected by its number, as by ?world=1\n").into_response();
    }
    let world = selected.flatten();
    let ended = shared.feed.history().ended.clone();
    if let Some(reason) = ended {
        return (StatusCode::CONFLICT, reason + "\n").into_response();
    }
    let Some(running) = shared.states.begin(action) else {
        return (StatusCode::CONFLICT, "this is in progress already\n").into_response();
    };
    shared.changed.send_replace(());
    let progress = InProgress { running: Some(running), shared: Arc::clone(&shared) };
    let performed = tokio::task::spawn_blocking(move || {
        let performed = action.perform(&*progress.shared.actions, world);
        if let (Err(ActionError::Unsupported(reason)), Some(running)) = (&performed, &progress.running) {
            running.is_unsupported(reason);
        }
        performed.map(|file| file.map(|file| (file, progress)))
    });
    match performed.await {
        Ok(Ok(None)) => StatusCode::NO_CONTENT.into_response(),
        Ok(Ok(Some((file, progress)))) => download(file, action, shared.feed.target().pid, progress),
        Ok(Err(ActionError::Failed(reason) | ActionError::Unsupported(reason))) => {
            (StatusCode::BAD_GATEWAY, reason + "\n").into_response()
        }
        Ok(Err(ActionError::SeveralWorlds(worlds))) => {
            (StatusCode::MULTIPLE_CHOICES, format!("{worlds:?}")).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the action panicked\n").into_response(),
    }
}

/// An action that is in progress until this is dropped: until its file has been sent, if it makes one.
struct InProgress {
    running: Option<Running>,
    shared: Arc<Shared>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        // The streams are notified of what is so then.
        self.running = None;
        self.shared.changed.send_replace(());
    }
}

/// Sends a file, piece by piece.
fn download(file: File, action: Action, pid: u32, progress: InProgress) -> Response {
    let extension = if action == Action::Snapshot { "heapsnapshot" } else { "nettrace" };
    let length = file.metadata().map(|found| found.len()).unwrap_or_default();
    let pieces = ReaderStream::new(tokio::fs::File::from_std(file)).map(move |piece| {
        // The stream has it until the connection drops the stream.
        let _ = &progress;
        piece
    });
    let body = Body::from_stream(pieces);
    let name = format!("attachment; filename=\"process-{pid}.{extension}\"");
    let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_DISPOSITION, name)];
    let mut response = (headers, body).into_response();
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}
