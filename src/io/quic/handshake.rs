//! How two machines that have a connection show each other who they are: the one that dialed first, so that a listener says nothing of
//! itself to strangers.
//!
//! Refuses to know: what follows on the connection. Invariant: each side hears why the other one refuses it.

use super::identity::LinkIdentity;
use super::link::{self, LinkEnd, LinkPeer};
use super::tls;
use quinn::{Connecting, Connection, RecvStream, SendStream};
use smol::Timer;
use smol::future::or;
use std::future::Future;
use std::time::{Duration, Instant};
use wire::credential::{LinkRefusal, MAX_SIGNED_BYTES};
use wire::rpc::Peer;

/// Who is at the other end of a connection that was dialed: a server.
pub async fn dial(
    connecting: Connecting,
    own: &LinkIdentity,
    limit: Duration,
) -> Result<(Connection, LinkPeer), LinkEnd> {
    let deadline = Instant::now() + limit;
    let connection = established(connecting, deadline).await?;
    let found = within(deadline, show_and_look(&connection, own), Some(LinkRefusal::TooSlow)).await;
    let at = refuse_unless(&connection, found)?;
    match at.peer {
        Peer::Server(_) => Ok((connection, at)),
        Peer::Node(_) => Err(refuse(&connection, LinkRefusal::WrongRole)),
    }
}

/// Who has dialed.
pub async fn accept(
    connection: &Connection,
    own: &LinkIdentity,
    deadline: Instant,
) -> Result<LinkPeer, LinkEnd> {
    let found = within(deadline, look_and_show(connection, own), Some(LinkRefusal::TooSlow)).await;
    refuse_unless(connection, found)
}

/// Both sides have proved the keys that they name.
pub async fn established(connecting: Connecting, deadline: Instant) -> Result<Connection, LinkEnd> {
    or(async { Ok(connecting.await?) }, async {
        Timer::at(deadline).await;
        Err(LinkEnd::TimedOut)
    })
    .await
}

/// `late`: what is said if it takes longer.
pub async fn within<T, E>(
    deadline: Instant,
    exchange: impl Future<Output = Result<T, E>>,
    late: E,
) -> Result<T, E> {
    or(exchange, async {
        Timer::at(deadline).await;
        Err(late)
    })
    .await
}

async fn show_and_look(connection: &Connection, own: &LinkIdentity) -> Result<LinkPeer, Option<LinkRefusal>> {
    let (mut to, mut from) = connection.open_bi().await.map_err(|_| None)?;
    show(&mut to, own).await?;
    look(&mut from, connection, own, true).await
}

async fn look_and_show(connection: &Connection, own: &LinkIdentity) -> Result<LinkPeer, Option<LinkRefusal>> {
    let (mut to, mut from) = connection.accept_bi().await.map_err(|_| None)?;
    let at = look(&mut from, connection, own, false).await?;
    show(&mut to, own).await?;
    Ok(at)
}

async fn show(to: &mut SendStream, own: &LinkIdentity) -> Result<(), Option<LinkRefusal>> {
    to.write_all(own.shown()).await.map_err(|_| None)?;
    to.finish().map_err(|_| None)
}

/// `Err(None)`: the connection has ended.
async fn look(
    from: &mut RecvStream,
    connection: &Connection,
    own: &LinkIdentity,
    is_dialed: bool,
) -> Result<LinkPeer, Option<LinkRefusal>> {
    let shown = from.read_to_end(MAX_SIGNED_BYTES).await.map_err(|error| match error {
        quinn::ReadToEndError::TooLong => Some(LinkRefusal::Malformed),
        quinn::ReadToEndError::Read(_) => None,
    })?;
    let proved = tls::proved_key(connection).ok_or(LinkRefusal::Malformed)?;
    let peer = own.verify(&shown, &proved)?;
    Ok(LinkPeer { peer, process: proved, is_dialed })
}

/// Tells the other side why it is refused. Where the connection has ended, its own reason counts.
fn refuse_unless(
    connection: &Connection,
    found: Result<LinkPeer, Option<LinkRefusal>>,
) -> Result<LinkPeer, LinkEnd> {
    found.map_err(|refusal| match (refusal, connection.close_reason()) {
        (_, Some(error)) => LinkEnd::from(error),
        (refusal, None) => refuse(connection, refusal.unwrap_or(LinkRefusal::Malformed)),
    })
}

pub fn refuse(connection: &Connection, refusal: LinkRefusal) -> LinkEnd {
    link::close(connection, refusal);
    LinkEnd::Closed(refusal)
}
