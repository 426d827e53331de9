//! The URL and the HTTP client of exports.
//!
//! The exporter of OpenTelemetry reports each failure in the same words, and its HTTP client obeys `HTTP_PROXY`, also for a collector on
//! the same machine. So exports have a client of their own, without a proxy, which keeps the result of the latest request.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::{StatusCode, Url};

/// The path that the protocol prescribes for metrics.
const PATH: &str = "v1/metrics";
/// The time limit of a request. The end of an export waits for the last one for 5 seconds.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// Returns the URL for metrics of the collector with this base URL. The error says what is wrong with it.
pub(crate) fn endpoint(url: &str) -> Result<String, String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        _ if url.is_empty() => return Err("the URL is empty".to_owned()),
        None => return Err("the URL does not begin with http://".to_owned()),
        Some("https") => return Err("https:// is not supported".to_owned()),
        Some("http") => {}
        Some(scheme) => return Err(format!("the URL begins with {scheme}:// instead of http://")),
    }
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err("the URL has a query or a fragment".to_owned());
    }
    let base = parsed.as_str().trim_end_matches('/');
    Ok(if base.ends_with(&format!("/{PATH}")) { base.to_owned() } else { format!("{base}/{PATH}") })
}

/// The client. Clones share the result.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::blocking::Client,
    failure: Arc<Mutex<Option<String>>>,
}

impl Client {
    /// Makes a client.
    ///
    /// # Errors
    /// The system refused the client's thread or its resources.
    pub(crate) fn new() -> Result<Client, String> {
        let build = || reqwest::blocking::Client::builder().no_proxy().timeout(TIMEOUT).build();
        // The client has a runtime of its own, which must not begin in a thread of another one.
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(build).map_err(|error| error.to_string())?;
        let http = thread.join().map_err(|_| "the HTTP client panicked".to_owned())?;
        let http = http.map_err(|error| root(&error).to_string())?;
        Ok(Client { http, failure: Arc::default() })
    }

    /// Returns why the latest request failed; `None` if it succeeded.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Answer<'f> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>;

impl HttpClient for Client {
    fn send_bytes<'s: 'f, 'f>(&'s self, request: Request<Bytes>) -> Answer<'f>
    where
        Self: 'f,
    {
        Box::pin(async move {
            let answer = self.http.send_bytes(request).await;
            let failure = match &answer {
                Ok(answer) => refused(answer.status()),
                Err(error) => Some(failed(&**error)),
            };
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            answer
        })
    }
}

/// Returns what an answer with this status means, unless it is success.
fn refused(status: StatusCode) -> Option<String> {
    let remedy = match status {
        _ if status.is_success() => return None,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            "; is this the base URL of a receiver for OTLP over HTTP? Its usual port is 4318"
        }
        _ => "",
    };
    Some(format!("the collector answered {status}{remedy}"))
}

/// Returns why a request has no answer.
fn failed(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_timeout() => format!("the collector did not answer within {} s", TIMEOUT.as_secs()),
        Some(error) if error.is_connect() => format!("{}; is the collector running there?", root(error)),
        _ => root(error).to_string(),
    }
}

/// Returns the first cause: the errors around it repeat the URL.
fn root<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, root)
}
