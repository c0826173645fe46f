//! The HTTP server: sockets in, `api` requests out, and their answers back.
//!
//! Refuses to know: routes and shapes. Invariants: connections are bounded, in all and per address; a head has to come
//! within `HEAD_TIMEOUT`, and before it a TLS handshake within its own time; a body within `BODY_TIMEOUT` and `MAX_BODY_BYTES`; a stream holds a few chunks; after a stop every connection ends within `GRACE`.

mod body;
mod connection;
mod encoding;
mod https;
mod limits;
mod published;
mod service;
mod socket;
mod stream;
mod websocket;

pub use https::Https;
pub use hyper::HeaderMap;
pub use hyper::body::Bytes;
pub use limits::HttpLimits;
pub use published::Published;
pub use service::{Answer, AnswerFuture, Service};

use crate::executor;
use async_channel::{Receiver, Sender};
use connection::Host;
use encoding::ActiveCompressions;
use limits::{Admission, ConnectionLimiter};
use smol::Timer;
use smol::future::or;
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a request's head may take, and a connection to begin its first one.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection that was used is kept for its next request, unless there are many.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may finish after a stop.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long is waited after a failed accept: a process without free descriptors gets some back by waiting.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The backlog of listen(2). The kernel retries connections beyond it after one second, then three.
const ACCEPT_BACKLOG: i32 = 1024;

/// What may change while the server runs.
pub struct HttpSettings {
    /// Added to every answer.
    pub response_headers: Published<Vec<(String, String)>>,
    pub limits: Published<HttpLimits>,
    /// `None`: plain HTTP is spoken.
    pub https: Option<Published<Https>>,
}

/// Serves until `stop` is closed, then until every connection has ended, at most `GRACE`.
pub async fn serve(
    executor: Arc<smol::Executor<'static>>,
    listener: TcpListener,
    service: Arc<dyn Service>,
    settings: Arc<HttpSettings>,
    stop: Receiver<()>,
) {
    let limiter = Arc::<ConnectionLimiter>::default();
    if let Err(error) = rustix::net::listen(&listener, ACCEPT_BACKLOG) {
        tracing::warn!(%error, "only a few connections can be opened at the same moment");
    }
    let host =
        Arc::new(Host { executor, service, settings, compressions: ActiveCompressions::default(), stop });
    // Never used to send: it is closed once every connection has dropped its end.
    let (alive, all_ended) = async_channel::bounded::<()>(1);
    loop {
        let accepted = or(async { Some(listener.accept().await) }, async {
            // nothing is sent: it is closed to stop
            let _ = host.stop.recv().await;
            None
        });
        match accepted.await {
            None => break,
            Some(Ok((socket, _))) => admit(&host, &limiter, socket, &alive),
            Some(Err(error)) => pause_after(&error).await,
        }
    }
    drop((listener, alive));
    // which of the two it was changes nothing
    let _ = or(async { all_ended.recv().await.is_ok() }, async {
        Timer::after(GRACE + GRACE).await;
        false
    })
    .await;
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "an HTTP connection could not be accepted");
    Timer::after(ACCEPT_PAUSE).await;
}

fn admit(host: &Arc<Host>, limiter: &Arc<ConnectionLimiter>, socket: TcpStream, alive: &Sender<()>) {
    let Ok(peer) = socket.peer_addr() else { return };
    let alive = alive.clone();
    match limiter.acquire(peer.ip(), *host.settings.limits.get()) {
        Admission::Accepted(permit) => {
            let serving = connection::serve(host.clone(), socket, permit);
            let serve = async move {
                serving.await;
                drop(alive);
            };
            executor::spawn(&host.executor, serve).detach();
        }
        Admission::Refused(permit) => {
            let settings = host.settings.clone();
            let refuse = async move {
                connection::refuse(&settings, socket).await;
                drop((permit, alive));
            };
            executor::spawn(&host.executor, refuse).detach();
        }
        Admission::Dropped => {}
    }
}
