//! The HTTP server: sockets in, `api` requests out, and their answers back.
//!
//! Refuses to know: routes and shapes. Invariants: connections are bounded, in all and per address; a head has to come
//! within `HEAD_TIMEOUT`, a body within `BODY_TIMEOUT` and `MAX_BODY_BYTES`; a stream holds a few chunks; readers of
//! events and of the agent's log are bounded; after a stop every connection ends within `GRACE`.

mod body;
mod connection;
mod encoding;
mod events;
mod frugal;
mod gate;
mod limits;
mod monitor;
mod patience;
#[cfg(test)]
mod tests;
mod waiting;
mod websocket;

pub use gate::{Ask, Gate, Parts, Published, Reply};
pub use limits::Limits;

use async_channel::{Receiver, Sender};
use limits::{Admission, Turnstile};
use smol::Timer;
use smol::future::or;
use smol::net::{TcpListener, TcpStream};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a request's head may take; also how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may go on after a stop.
const GRACE: Duration = Duration::from_secs(2);
/// How long is waited after a failed accept: a process without free descriptors gets some back by waiting.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is closed, then until every connection has ended, at most `GRACE`.
pub async fn serve(
    executor: Arc<smol::Executor<'static>>,
    listener: TcpListener,
    gate: Arc<Gate>,
    stop: Receiver<()>,
) {
    let turnstile = Arc::<Turnstile>::default();
    // Never used to send: it is closed once every connection has dropped its end.
    let (alive, all_ended) = async_channel::bounded::<()>(1);
    loop {
        let accepted = or(async { Some(listener.accept().await) }, async {
            let _ = stop.recv().await;
            None
        });
        match accepted.await {
            None => break,
            Some(Ok((socket, _))) => admit(&executor, &turnstile, &gate, socket, &stop, &alive),
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

fn admit(
    executor: &Arc<smol::Executor<'static>>,
    turnstile: &Arc<Turnstile>,
    gate: &Arc<Gate>,
    socket: TcpStream,
    stop: &Receiver<()>,
    alive: &Sender<()>,
) {
    let Ok(peer) = socket.peer_addr() else { return };
    let (stop, alive) = (stop.clone(), alive.clone());
    match turnstile.enter(peer.ip(), *gate.limits.get()) {
        Admission::In(pass) => {
            let (gate, executor_of_streams) = (gate.clone(), executor.clone());
            let serve = async move {
                connection::serve(executor_of_streams, gate, socket, stop).await;
                drop((pass, alive));
            };
            executor.spawn(serve).detach();
        }
        Admission::Refused(pass) => {
            let refuse = async move {
                connection::refuse(socket).await;
                drop((pass, alive));
            };
            executor.spawn(refuse).detach();
        }
        Admission::Dropped => {}
    }
}
