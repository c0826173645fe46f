//! The HTTP server: sockets in, `api` requests out, and their answers back.
//!
//! Refuses to know: routes and shapes. Invariants: connections are bounded, in all and per address; a head has to come
//! within `HEAD_TIMEOUT`, a body within `BODY_TIMEOUT` and `MAX_BODY_BYTES`; a stream holds a few chunks; readers of
//! events and of the agent's log are bounded; after a stop every connection ends within `GRACE`.

mod answer;
mod connection;
mod encoding;
mod events;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod gate;
mod head;
mod incoming;
mod limits;
mod line;
mod monitor;
mod patience;
mod reply;
#[cfg(test)]
mod tests;
mod waiting;
mod websocket;

pub use answer::AnswerHead;
pub use gate::{Ask, Gate, Parts, Published, Reply};
pub use head::{Framing, MAX_HEAD_BYTES, end as end_of_head};
pub use incoming::Incoming;
pub use limits::Limits;
pub use websocket::accept_key;

use crate::aside;
use async_channel::{Receiver, Sender};
use connection::Host;
use limits::{Admission, Turnstile};
use smol::Timer;
use smol::future::or;
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a request's head may take, and a connection to begin its first one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection that was used is kept for its next request, unless there are many.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may go on after a stop.
const GRACE: Duration = Duration::from_secs(2);
/// How long is waited after a failed accept: a process without free descriptors gets some back by waiting.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A piece of an answer that several readers may share.
type Bytes = Arc<Vec<u8>>;

/// So many may knock at once. The kernel lets those beyond wait for a second, or for three.
const KNOCKING: i32 = 1024;

/// Serves until `stop` is closed, then until every connection has ended, at most `GRACE`.
pub async fn serve(
    executor: Arc<smol::Executor<'static>>,
    listener: TcpListener,
    gate: Arc<Gate>,
    stop: Receiver<()>,
) {
    let turnstile = Arc::<Turnstile>::default();
    if let Err(error) = rustix::net::listen(&listener, KNOCKING) {
        tracing::warn!(%error, "only a few connections can be opened at the same moment");
    }
    let host = Arc::new(Host { executor, gate, stop });
    // Never used to send: it is closed once every connection has dropped its end.
    let (alive, all_ended) = async_channel::bounded::<()>(1);
    loop {
        let accepted = or(async { Some(listener.accept().await) }, async {
            let _ = host.stop.recv().await;
            None
        });
        match accepted.await {
            None => break,
            Some(Ok((socket, _))) => admit(&host, &turnstile, socket, &alive),
            Some(Err(error)) => pause_after(&error).await,
        }
    }
    drop((listener, alive));
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

fn admit(host: &Arc<Host>, turnstile: &Arc<Turnstile>, socket: TcpStream, alive: &Sender<()>) {
    let Ok(peer) = socket.peer_addr() else { return };
    let alive = alive.clone();
    match turnstile.enter(peer.ip(), *host.gate.limits.get()) {
        Admission::In(pass) => {
            let serving = connection::serve(host.clone(), socket, pass);
            let serve = async move {
                serving.await;
                drop(alive);
            };
            aside::spawn(&host.executor, serve).detach();
        }
        Admission::Refused(pass) => {
            let refuse = async move {
                connection::refuse(socket).await;
                drop((pass, alive));
            };
            aside::spawn(&host.executor, refuse).detach();
        }
        Admission::Dropped => {}
    }
}
