//! Connections: how many there are, and how long a client may leave an answer unread.
//!
//! Every user of the machine can connect, and only the page has the token. A connection is a *stranger* until a request on it has had the token.
//! There are few places for strangers, and a further one replaces the oldest, so connections without the token cannot keep the page out, however
//! long they stay. A connection that is *admitted* has one of the other places until it ends.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// The number of admitted connections at a time.
const ADMITTED: usize = 64;
/// The number of strangers at a time.
const STRANGERS: usize = 16;

/// All connections.
pub(super) struct Connections {
    admitted: Arc<Semaphore>,
    /// The oldest is the first.
    strangers: Mutex<VecDeque<Arc<Connection>>>,
}

/// A connection, as its requests see it.
pub(super) struct Connection {
    all: Arc<Connections>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    replaced: Notify,
}

/// A connection that is open until this is dropped.
pub(super) struct Open(Arc<Connection>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock leaves what it protects as it was.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(super) fn new() -> Arc<Connections> {
        Arc::new(Connections { admitted: Arc::new(Semaphore::new(ADMITTED)), strangers: Mutex::default() })
    }

    /// Adds a stranger. If there are too many, the oldest is replaced.
    pub(super) fn open(self: &Arc<Self>) -> Open {
        let connection = Connection { all: Arc::clone(self), permit: Mutex::default(), replaced: Notify::new() };
        let connection = Arc::new(connection);
        let mut strangers = lock(&self.strangers);
        if strangers.len() >= STRANGERS
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.replaced.notify_one();
        }
        strangers.push_back(Arc::clone(&connection));
        Open(connection)
    }
}

impl Connection {
    /// Admits the connection, if it is not admitted. Returns false if too many are.
    pub(super) fn admit(&self) -> bool {
        let mut permit = lock(&self.permit);
        if permit.is_none() {
            *permit = Arc::clone(&self.all.admitted).try_acquire_owned().ok();
            if permit.is_some() {
                self.is_no_stranger();
            }
        }
        permit.is_some()
    }

    /// Waits until another stranger needs the place of this one.
    pub(super) async fn replaced(&self) {
        loop {
            self.replaced.notified().await;
            // It may have been admitted in the meantime.
            if lock(&self.permit).is_none() {
                return;
            }
        }
    }

    fn is_no_stranger(&self) {
        lock(&self.all.strangers).retain(|stranger| !std::ptr::eq(&raw const **stranger, self));
    }
}

impl Open {
    /// Returns the connection for its requests.
    pub(super) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.0)
    }
}

impl Deref for Open {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.is_no_stranger();
    }
}

/// A stream on which a write that makes no progress fails after a time.
pub(super) struct Deadline<S> {
    stream: S,
    limit: Duration,
    /// The end of the time, while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Deadline<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Deadline<S> {
        Deadline { stream, limit, waiting: None }
    }

    fn limited<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Deadline<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Deadline<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write(context, bytes);
        own.limited(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write_vectored(context, pieces);
        own.limited(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn is_replaced(connection: &Connection) -> bool {
        connection.replaced().now_or_never().is_some()
    }

    #[test]
    fn a_further_stranger_replaces_the_oldest() {
        let connections = Connections::new();
        let mut open: Vec<Open> = (0..STRANGERS).map(|_| connections.open()).collect();
        assert!(open[0].admit() && open[0].admit(), "once admitted, it stays so");
        drop(open.remove(1));
        let more = [connections.open(), connections.open()];
        assert!(!open.iter().chain(&more).any(|open| is_replaced(open)), "there was room for both");
        let _further = connections.open();
        let replaced: Vec<bool> = open.iter().map(|open| is_replaced(open)).collect();
        assert_eq!(replaced.iter().position(|is_replaced| *is_replaced), Some(1), "the oldest that is not admitted");
        assert_eq!(replaced.iter().filter(|is_replaced| **is_replaced).count(), 1);
    }

    #[test]
    fn a_connection_that_was_admitted_is_not_replaced() {
        let connections = Connections::new();
        let open = connections.open();
        let _others: Vec<Open> = (0..STRANGERS).map(|_| connections.open()).collect();
        // It shows the token before it learns that it was replaced.
        assert!(open.admit());
        assert!(!is_replaced(&open));
    }

    #[test]
    fn a_connection_is_admitted_when_another_has_ended() {
        let connections = Connections::new();
        let mut open: Vec<Open> = (0..ADMITTED).map(|_| connections.open()).collect();
        assert!(open.iter().all(|open| open.admit()));
        let last = connections.open();
        assert!(!last.admit());
        open.pop();
        assert!(last.admit());
    }

    const LIMIT: Duration = Duration::from_secs(30);

    /// Runs a client against a write of 1000 bytes, with a clock that only waiting advances.
    fn write(client: impl AsyncFnOnce(tokio::io::DuplexStream) + 'static) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (ours, theirs) = duplex(10);
            let mut ours = Deadline::new(ours, LIMIT);
            let bytes = [7; 1000];
            tokio::select! {
                written = ours.write_all(&bytes) => written,
                () = async { client(theirs).await; std::future::pending().await } => Ok(()),
            }
        })
    }

    #[test]
    fn a_write_that_nobody_reads_fails() {
        let stalled = write(async |theirs| {
            sleep(2 * LIMIT).await;
            drop(theirs);
        });
        assert_eq!(stalled.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    }

    #[test]
    fn a_slow_reader_gets_everything() {
        let slow = write(async |mut theirs| {
            let mut piece = [0; 10];
            for _ in 0..100 {
                sleep(LIMIT / 2).await;
                theirs.read_exact(&mut piece).await.expect("a piece");
            }
        });
        assert!(slow.is_ok(), "{slow:?}");
    }
}
