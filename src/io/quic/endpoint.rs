//! A machine's place on the network: one UDP port, on one or more of its addresses, on which it accepts links and from which it dials.
//!
//! Refuses to know: which links there should be. Invariants: handshakes under way are bounded and each has an end; a link is told of
//! once it is known who is at its other end.

use super::admission::{HandshakeAdmission, HandshakeLimiter};
use super::enrolment;
use super::handshake;
use super::identity::LinkIdentity;
use super::link::{Link, LinkEnd, LinkEvent, LinkPeer};
use super::refusal_log::RefusalLog;
use super::runtime::ExecutorRuntime;
use super::transport::{Configs, HANDSHAKE_TIMEOUT, SERVER_NAME};
use super::wrong_tokens::WrongTokens;
use crate::executor;
use async_channel::{Receiver, Sender};
use quinn::{ClientConfig, Connecting, Incoming, VarInt};
use smol::future::or;
use smol::{Executor, Timer};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::credential::LinkRefusal;
use wire::rpc::Peer;

/// Events that nobody has taken yet; streams wait meanwhile.
const EVENT_CAPACITY: usize = 16;
/// How long the other ends may take to hear that this one stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    /// One for each socket; at least one.
    quic: Vec<quinn::Endpoint>,
    dialing: ClientConfig,
    identity: LinkIdentity,
    executor: Arc<Executor<'static>>,
    events: Sender<LinkEvent>,
    handshakes: HandshakeLimiter,
    refusals: RefusalLog,
    wrong_tokens: WrongTokens,
    last_link: AtomicU64,
}

impl Endpoint {
    /// `sockets`: at least one. What happens on links comes out of the receiver, which has to be read all the time.
    pub fn new(
        executor: Arc<Executor<'static>>,
        sockets: Vec<UdpSocket>,
        identity: LinkIdentity,
    ) -> io::Result<(Endpoint, Receiver<LinkEvent>)> {
        Endpoint::open(executor, sockets, identity, true)
    }

    /// The same for a machine that nobody dials: it accepts nothing.
    pub fn dialing_only(
        executor: Arc<Executor<'static>>,
        sockets: Vec<UdpSocket>,
        identity: LinkIdentity,
    ) -> io::Result<(Endpoint, Receiver<LinkEvent>)> {
        Endpoint::open(executor, sockets, identity, false)
    }

    fn open(
        executor: Arc<Executor<'static>>,
        sockets: Vec<UdpSocket>,
        identity: LinkIdentity,
        accepts: bool,
    ) -> io::Result<(Endpoint, Receiver<LinkEvent>)> {
        let mut quic = vec![];
        for socket in sockets {
            let Configs { endpoint, accepting, .. } = Configs::new(&identity)?;
            let runtime = Arc::new(ExecutorRuntime(executor.clone()));
            let accepting = Some(accepting).filter(|_| accepts);
            quic.push(quinn::Endpoint::new(endpoint, accepting, socket, runtime)?);
        }
        let Configs { dialing, .. } = Configs::new(&identity)?;
        let (events, taken) = async_channel::bounded(EVENT_CAPACITY);
        let inner = Inner {
            quic: quic.clone(),
            dialing,
            identity,
            executor,
            events,
            handshakes: HandshakeLimiter::default(),
            refusals: RefusalLog::default(),
            wrong_tokens: WrongTokens::default(),
            last_link: AtomicU64::new(0),
        };
        let endpoint = Endpoint(Arc::new(inner));
        for listening in quic {
            executor::spawn(&endpoint.0.executor, endpoint.clone().accept(listening)).detach();
        }
        Ok((endpoint, taken))
    }

    /// The socket from which an address is dialed: of its family, and on the loopback interface if the address is.
    fn towards(&self, address: SocketAddr) -> Option<&quinn::Endpoint> {
        let fits = |own: SocketAddr| {
            own.is_ipv4() == address.is_ipv4() || own.ip().is_unspecified() && own.is_ipv6()
        };
        let differs = |own: SocketAddr| own.ip().is_loopback() != address.ip().is_loopback();
        let bound = self.0.quic.iter().filter_map(|quic| quic.local_addr().ok().map(|own| (own, quic)));
        bound.filter(|(own, _)| fits(*own)).min_by_key(|(own, _)| differs(*own)).map(|(_, quic)| quic)
    }

    /// Makes a link to the server at an address within a time, which is told of as all links are.
    pub async fn dial(&self, address: SocketAddr, patience: Duration) -> Result<Peer, LinkEnd> {
        let quic = self.towards(address).ok_or_else(|| {
            LinkEnd::Failed(format!("no address of addresses.rpc is of the kind of {address}"))
        })?;
        let connecting = quic
            .connect_with(self.0.dialing.clone(), address, SERVER_NAME)
            .map_err(|error| LinkEnd::Failed(error.to_string()))?;
        let (connection, at) =
            handshake::dial(connecting, &self.0.identity, patience.min(HANDSHAKE_TIMEOUT)).await?;
        self.start(connection, at);
        Ok(at.peer)
    }

    fn start(&self, connection: quinn::Connection, at: LinkPeer) {
        let id = self.0.last_link.fetch_add(1, Ordering::Relaxed) + 1;
        let link = Link::new(id, self.0.identity.peer(), at, connection);
        executor::spawn(&self.0.executor, link.run(self.0.executor.clone(), self.0.events.clone())).detach();
    }

    /// Until the endpoint is closed.
    async fn accept(self, listening: quinn::Endpoint) {
        while let Some(incoming) = listening.accept().await {
            self.admit(incoming);
        }
    }

    fn admit(&self, incoming: Incoming) {
        let source = incoming.remote_address();
        match self.0.handshakes.admit(source.ip(), incoming.remote_address_validated()) {
            HandshakeAdmission::Accepted(half_open) => {
                let endpoint = self.clone();
                let shake_hands = async move {
                    let Ok(connecting) = incoming.accept() else { return };
                    if let Err(why) = endpoint.greet(connecting).await {
                        endpoint.0.refusals.note(source, &why);
                    }
                    drop(half_open);
                };
                executor::spawn(&self.0.executor, shake_hands).detach();
            }
            HandshakeAdmission::AfterRetry => {
                if let Err(error) = incoming.retry() {
                    // it has answered one already
                    error.into_incoming().refuse();
                }
            }
            HandshakeAdmission::Refused => incoming.refuse(),
        }
    }

    /// Finds out who has dialed: another machine of the region, which gets a link, or one that wants to become one.
    async fn greet(&self, connecting: Connecting) -> Result<(), LinkEnd> {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let connection = handshake::established(connecting, deadline).await?;
        let Inner { identity, wrong_tokens, events, .. } = &*self.0;
        if enrolment::is_asked_for(&connection) {
            return enrolment::serve(&connection, identity, wrong_tokens, events, deadline).await;
        }
        let at = handshake::accept(&connection, identity, deadline).await?;
        self.start(connection, at);
        Ok(())
    }

    /// Ends all links, and waits a moment until the others have heard of it.
    pub async fn close(&self) {
        let refusal = LinkRefusal::Stopping;
        for quic in &self.0.quic {
            quic.close(VarInt::from_u32(refusal.code()), refusal.to_string().as_bytes());
        }
        let all_idle = async {
            for quic in &self.0.quic {
                quic.wait_idle().await;
            }
        };
        or(all_idle, async {
            Timer::after(CLOSE_TIMEOUT).await;
        })
        .await;
    }
}
