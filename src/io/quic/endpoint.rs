//! A machine's place on the network: one UDP port, on which it accepts links and from which it dials.
//!
//! Refuses to know: which links there should be. Invariants: handshakes under way are bounded and each has an end; a link is told of
//! once it is known who is at its other end.

use super::admission::{Admission, HandshakeLimiter};
use super::handshake;
use super::identity::Identity;
use super::link::{Link, LinkEnd, LinkEvent};
use super::runtime::ExecutorRuntime;
use super::transport::Configs;
use crate::executor;
use async_channel::{Receiver, Sender};
use quinn::{ClientConfig, Incoming, VarInt};
use smol::future::or;
use smol::{Executor, Timer};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::credential::LinkRefusal;
use wire::rpc::Peer;

/// Events that nobody has taken yet; streams wait meanwhile.
const EVENT_CAPACITY: usize = 16;
/// How long the other ends may take to hear that this one stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Names are not looked at: whom a machine is, its credential says.
const SERVER_NAME: &str = "drover";

#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    quic: quinn::Endpoint,
    dialing: ClientConfig,
    identity: Identity,
    executor: Arc<Executor<'static>>,
    events: Sender<LinkEvent>,
    handshakes: HandshakeLimiter,
    last_link: AtomicU64,
}

impl Endpoint {
    /// `address`: port 0 for any. What happens on links comes out of the receiver, which has to be read all the time.
    pub fn bind(
        executor: Arc<Executor<'static>>,
        address: SocketAddr,
        identity: Identity,
    ) -> io::Result<(Endpoint, Receiver<LinkEvent>)> {
        let Configs { endpoint, accepting, dialing } = Configs::new(&identity)?;
        let socket = UdpSocket::bind(address)?;
        let runtime = Arc::new(ExecutorRuntime(executor.clone()));
        let quic = quinn::Endpoint::new(endpoint, Some(accepting), socket, runtime)?;
        let (events, taken) = async_channel::bounded(EVENT_CAPACITY);
        let (handshakes, last_link) = (HandshakeLimiter::default(), AtomicU64::new(0));
        let endpoint =
            Endpoint(Arc::new(Inner { quic, dialing, identity, executor, events, handshakes, last_link }));
        executor::spawn(&endpoint.0.executor, endpoint.clone().accept()).detach();
        Ok((endpoint, taken))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.quic.local_addr()
    }

    /// Makes a link to the server at an address, which is told of as all links are.
    pub async fn dial(&self, address: SocketAddr) -> Result<Peer, LinkEnd> {
        let connecting = self
            .0
            .quic
            .connect_with(self.0.dialing.clone(), address, SERVER_NAME)
            .map_err(|error| LinkEnd::Failed(error.to_string()))?;
        let (connection, peer) = handshake::dial(connecting, &self.0.identity).await?;
        self.start(connection, peer, true);
        Ok(peer)
    }

    fn start(&self, connection: quinn::Connection, peer: Peer, is_dialed: bool) {
        let id = self.0.last_link.fetch_add(1, Ordering::Relaxed) + 1;
        let link = Link::new(id, self.0.identity.peer(), peer, is_dialed, connection);
        executor::spawn(&self.0.executor, link.run(self.0.executor.clone(), self.0.events.clone())).detach();
    }

    /// Until the endpoint is closed.
    async fn accept(self) {
        while let Some(incoming) = self.0.quic.accept().await {
            self.admit(incoming);
        }
    }

    fn admit(&self, incoming: Incoming) {
        let source = incoming.remote_address();
        match self.0.handshakes.admit(source.ip(), incoming.remote_address_validated()) {
            Admission::Accepted(half_open) => {
                let endpoint = self.clone();
                let shake_hands = async move {
                    let Ok(connecting) = incoming.accept() else { return };
                    match handshake::accept(connecting, &endpoint.0.identity).await {
                        Ok((connection, peer)) => endpoint.start(connection, peer, false),
                        Err(why) => log_refused(source, &why),
                    }
                    drop(half_open);
                };
                executor::spawn(&self.0.executor, shake_hands).detach();
            }
            Admission::AfterRetry => {
                if let Err(error) = incoming.retry() {
                    // it has answered one already
                    error.into_incoming().refuse();
                }
            }
            Admission::Refused => incoming.refuse(),
        }
    }

    /// Ends all links, and waits a moment until the others have heard of it.
    pub async fn close(&self) {
        let refusal = LinkRefusal::Stopping;
        self.0.quic.close(VarInt::from_u32(refusal.code()), refusal.to_string().as_bytes());
        or(self.0.quic.wait_idle(), async {
            Timer::after(CLOSE_TIMEOUT).await;
        })
        .await;
    }
}

fn log_refused(source: SocketAddr, why: &LinkEnd) {
    match why.refusal() {
        Some(LinkRefusal::SameProcess | LinkRefusal::Stopping) | None => {
            tracing::debug!(%source, %why, "a link did not come to be");
        }
        Some(_) => tracing::warn!(%source, %why, "a link was refused"),
    }
}
