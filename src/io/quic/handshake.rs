//! How two machines that have a connection show each other who they are: the one that dialed first, so that a listener says nothing of
//! itself to strangers.
//!
//! Refuses to know: what follows on the connection. Invariant: each side hears why the other one refuses it.

use super::identity::Identity;
use super::link::{self, LinkEnd};
use super::tls;
use super::transport::HANDSHAKE_TIMEOUT;
use quinn::{Connecting, Connection, RecvStream, SendStream};
use smol::Timer;
use smol::future::or;
use wire::credential::{LinkRefusal, MAX_SIGNED_BYTES};
use wire::rpc::Peer;

/// Who is at the other end of a connection that was dialed: a server.
pub async fn dial(connecting: Connecting, own: &Identity) -> Result<(Connection, Peer), LinkEnd> {
    let established = async {
        let connection = connecting.await?;
        let peer = refuse_unless(&connection, show_and_look(&connection, own).await)?;
        match peer {
            Peer::Server(_) => Ok((connection, peer)),
            Peer::Node(_) => Err(refuse(&connection, LinkRefusal::WrongRole)),
        }
    };
    or(established, too_slow()).await
}

/// Who has dialed.
pub async fn accept(connecting: Connecting, own: &Identity) -> Result<(Connection, Peer), LinkEnd> {
    let established = async {
        let connection = connecting.await?;
        let peer = refuse_unless(&connection, look_and_show(&connection, own).await)?;
        Ok((connection, peer))
    };
    or(established, too_slow()).await
}

async fn too_slow<T>() -> Result<T, LinkEnd> {
    Timer::after(HANDSHAKE_TIMEOUT).await;
    Err(LinkEnd::TimedOut)
}

async fn show_and_look(connection: &Connection, own: &Identity) -> Result<Peer, Option<LinkRefusal>> {
    let (mut to, mut from) = connection.open_bi().await.map_err(|_| None)?;
    show(&mut to, own).await?;
    look(&mut from, connection, own).await
}

async fn look_and_show(connection: &Connection, own: &Identity) -> Result<Peer, Option<LinkRefusal>> {
    let (mut to, mut from) = connection.accept_bi().await.map_err(|_| None)?;
    let peer = look(&mut from, connection, own).await?;
    show(&mut to, own).await?;
    Ok(peer)
}

async fn show(to: &mut SendStream, own: &Identity) -> Result<(), Option<LinkRefusal>> {
    to.write_all(own.shown()).await.map_err(|_| None)?;
    to.finish().map_err(|_| None)
}

/// `Err(None)`: the connection has ended.
async fn look(
    from: &mut RecvStream,
    connection: &Connection,
    own: &Identity,
) -> Result<Peer, Option<LinkRefusal>> {
    let shown = from.read_to_end(MAX_SIGNED_BYTES).await.map_err(|error| match error {
        quinn::ReadToEndError::TooLong => Some(LinkRefusal::Malformed),
        quinn::ReadToEndError::Read(_) => None,
    })?;
    let proved = tls::proved_key(connection).ok_or(LinkRefusal::Malformed)?;
    Ok(own.verify(&shown, &proved)?)
}

/// Tells the other side why it is refused. Where the connection has ended, its own reason counts.
fn refuse_unless(connection: &Connection, found: Result<Peer, Option<LinkRefusal>>) -> Result<Peer, LinkEnd> {
    found.map_err(|refusal| match (refusal, connection.close_reason()) {
        (_, Some(error)) => LinkEnd::from(error),
        (refusal, None) => refuse(connection, refusal.unwrap_or(LinkRefusal::Malformed)),
    })
}

fn refuse(connection: &Connection, refusal: LinkRefusal) -> LinkEnd {
    link::close(connection, refusal);
    LinkEnd::Closed(refusal)
}
