//! The HTTP server: `GET /metrics`.
//!
//! A scraper that accepts OpenMetrics gets it, as Prometheus does; others get the older text format.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use prometheus_client::encoding::prometheus_text;
use tiny_http::{Header, Method, Request, Response};

use crate::Metrics;

/// The path of the metrics.
const PATH: &str = "/metrics";
/// The type of a text in the format of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used.
    #[error("can't listen at {address}: {error}; choose another port, or 0 for any free one")]
    Bind {
        /// The address that was requested.
        address: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The system refused a thread.
    #[error("can't start the server of the metrics: {0}")]
    Start(#[source] io::Error),
}

/// A server of metrics, until dropped. Its port is free shortly after that.
///
/// Its threads are not attached to any world. It has no authentication: every process that can connect to the address can read the
/// metrics, so bind it to a loopback address (`127.0.0.1`), or put a server with access control before it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    http: Http,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Http(Arc<tiny_http::Server>);

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
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
        let http = tiny_http::Server::from_listener(listener, None);
        let http = Http(Arc::new(http.map_err(|error| ServeError::Start(io::Error::other(error)))?));
        let (metrics, serving) = (metrics.clone(), http.clone());
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || serve(&metrics, &serving.0)).map_err(ServeError::Start)?;
        Ok(Server { address: bound, http, thread: Some(thread) })
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
        self.http.0.unblock();
        // A panic of the thread was printed when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(metrics: &Metrics, http: &tiny_http::Server) {
    // `incoming_requests` ends when the server is unblocked.
    for request in http.incoming_requests() {
        let response = response(metrics, &request);
        // The client may have closed the connection.
        let _ = request.respond(response);
    }
}

fn response(metrics: &Metrics, request: &Request) -> Response<io::Cursor<Vec<u8>>> {
    let path = request.url().split(['?', '#']).next().unwrap_or_default();
    let (status, content_type, text) = match (request.method(), path) {
        (Method::Get | Method::Head, PATH) if accepts_open_metrics(request) => {
            (200, OPEN_METRICS, metrics.open_metrics())
        }
        (Method::Get | Method::Head, PATH) => (200, prometheus_text::CONTENT_TYPE, metrics.text()),
        (Method::Get | Method::Head, _) => (404, PLAIN, format!("not found: the metrics are at {PATH}\n")),
        _ => (405, PLAIN, "only GET is allowed\n".to_owned()),
    };
    // Cannot fail: both are constants without control characters.
    let header = Header::from_bytes("Content-Type", content_type).expect("a header of the server is valid");
    Response::from_string(text).with_status_code(status).with_header(header)
}

fn accepts_open_metrics(request: &Request) -> bool {
    let accept = request.headers().iter().filter(|header| header.field.equiv("Accept"));
    accept.into_iter().any(|header| header.value.as_str().contains("application/openmetrics-text"))
}
