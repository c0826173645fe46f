//! A link to another machine: one connection, with a stream of its own for each class of traffic in each direction, and a two-way one
//! for each request that is relayed. A stream of a class begins with the class; each message on it with its length.
//!
//! Refuses to know: what messages say. Invariants: order holds on a stream; a message longer than any may be, a class that
//! nodes do not speak, or a second stream of one class ends the link; of what is announced no more is kept than has come.

use super::enrolment_request::Enrolment;
use super::lanes::Lanes;
use super::relay_stream::{RELAY_OPEN_TIMEOUT, RelayAsked, RelayNotOpened, RelayStream};
use super::transport;
use crate::executor;
use async_channel::Sender;
use quinn::{Connection, ConnectionError, RecvStream, SendStream, TransportErrorCode, VarInt};
use smol::future::or;
use smol::{Executor, Timer};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::credential::LinkRefusal;
use wire::frame::{MAX_SENT_BYTES, TrafficClass};
use wire::relay::RelayHeader;
use wire::rpc::Peer;

/// TLS's alert for two sides without a protocol in common.
const NO_APPLICATION_PROTOCOL: u8 = 120;
/// What is made room for before anything of a message has come.
const FIRST_BYTES: usize = 64 << 10;

/// Numbers a process's links.
pub type LinkId = u64;

#[derive(Clone)]
pub struct Link(Arc<Shared>);

struct Shared {
    id: LinkId,
    /// Who is at the other end.
    peer: Peer,
    process: [u8; 32],
    is_of_nodes: bool,
    is_dialed: bool,
    connection: Connection,
    lanes: Lanes,
    refusal: OnceLock<LinkRefusal>,
}

/// Who has shown that it is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPeer {
    pub peer: Peer,
    /// The key that it has proved.
    pub process: [u8; 32],
    /// This side has begun.
    pub is_dialed: bool,
}

/// What happens on links.
pub enum LinkEvent {
    Up(Link),
    /// From the link's peer, in order within its class.
    Frame {
        link: Link,
        class: TrafficClass,
        bytes: Vec<u8>,
    },
    Down {
        link: Link,
        why: LinkEnd,
    },
    /// A machine has shown a join token, and waits for an answer.
    Enrol(Enrolment),
    /// The link's peer wants a user's request to be answered.
    Relay(RelayAsked),
}

/// Why a link ended, or did not come to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// This side has closed it.
    Closed(LinkRefusal),
    /// The other side has. `None`: for a reason that this build does not know.
    ClosedByPeer(Option<LinkRefusal>),
    TimedOut,
    /// The process at the other end is another one by now.
    Reset,
    Failed(String),
}

impl LinkEnd {
    /// The reason that one side gave.
    pub fn refusal(&self) -> Option<LinkRefusal> {
        match self {
            LinkEnd::Closed(refusal) => Some(*refusal),
            LinkEnd::ClosedByPeer(refusal) => *refusal,
            _ => None,
        }
    }
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkEnd::Closed(refusal) => write!(f, "{refusal}"),
            LinkEnd::ClosedByPeer(Some(refusal)) => write!(f, "the other side says: {refusal}"),
            LinkEnd::ClosedByPeer(None) => {
                f.write_str("the other side closed the link for a reason of a newer build")
            }
            LinkEnd::TimedOut => {
                f.write_str("nothing was heard: check the address, and that UDP passes both ways")
            }
            LinkEnd::Reset => f.write_str("the other side has been started again"),
            LinkEnd::Failed(why) => f.write_str(why),
        }
    }
}

impl From<ConnectionError> for LinkEnd {
    fn from(error: ConnectionError) -> LinkEnd {
        let no_protocol = TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL);
        match error {
            ConnectionError::VersionMismatch => LinkEnd::Closed(LinkRefusal::Version),
            ConnectionError::TransportError(e) if e.code == no_protocol => {
                LinkEnd::Closed(LinkRefusal::Version)
            }
            ConnectionError::ConnectionClosed(e) if e.error_code == no_protocol => {
                LinkEnd::ClosedByPeer(Some(LinkRefusal::Version))
            }
            ConnectionError::ConnectionClosed(e)
                if e.error_code == TransportErrorCode::CONNECTION_REFUSED =>
            {
                LinkEnd::ClosedByPeer(Some(LinkRefusal::Busy))
            }
            ConnectionError::ApplicationClosed(e) => {
                LinkEnd::ClosedByPeer(LinkRefusal::from_code(e.error_code.into_inner()))
            }
            ConnectionError::TimedOut => LinkEnd::TimedOut,
            ConnectionError::Reset => LinkEnd::Reset,
            error => LinkEnd::Failed(error.to_string()),
        }
    }
}

/// What has passed on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraffic {
    pub sent_frames: u64,
    pub received_datagrams: u64,
}

impl Link {
    /// Between `own` and `peer`, who has shown who it is.
    pub fn new(id: LinkId, own: Peer, at: LinkPeer, connection: Connection) -> Link {
        let LinkPeer { peer, process, is_dialed } = at;
        let is_of_nodes = [own, peer].iter().any(|end| matches!(end, Peer::Node(_)));
        connection.set_max_concurrent_bi_streams(VarInt::from_u32(transport::max_relays_of(peer)));
        let (lanes, refusal) = (Lanes::new(), OnceLock::new());
        Link(Arc::new(Shared { id, peer, process, is_of_nodes, is_dialed, connection, lanes, refusal }))
    }

    pub fn id(&self) -> LinkId {
        self.0.id
    }

    pub fn peer(&self) -> Peer {
        self.0.peer
    }

    /// Which process is at the other end: its public key.
    pub fn process(&self) -> [u8; 32] {
        self.0.process
    }

    /// Where the other end is now.
    pub fn address(&self) -> SocketAddr {
        self.0.connection.remote_address()
    }

    /// How long the other end has taken to answer, smoothed.
    pub fn round_trip(&self) -> Duration {
        self.0.connection.rtt()
    }

    /// What was sent that the other end acknowledges, and what has come, so far. An acknowledgement is acknowledged by nobody.
    pub fn traffic(&self) -> LinkTraffic {
        let stats = self.0.connection.stats();
        LinkTraffic { sent_frames: stats.frame_tx.stream, received_datagrams: stats.udp_rx.datagrams }
    }

    /// This side has begun it.
    pub fn is_dialed(&self) -> bool {
        self.0.is_dialed
    }

    /// False: it is lost, because too much waits already or the link is closed.
    pub fn send(&self, class: TrafficClass, bytes: Vec<u8>) -> bool {
        self.0.lanes.push(class, bytes)
    }

    /// How many messages were lost here because too much waited.
    pub fn dropped(&self) -> u64 {
        self.0.lanes.dropped()
    }

    /// Ends the link. The other side is told why.
    pub fn close(&self, refusal: LinkRefusal) {
        // the first reason counts
        let _ = self.0.refusal.set(refusal);
        close(&self.0.connection, refusal);
    }

    /// A stream to another agent that takes it. Nothing is asked before.
    pub async fn relay(&self, header: RelayHeader) -> Result<RelayStream, RelayNotOpened> {
        let opened = async {
            let opened = self.0.connection.open_bi().await.map_err(|_| RelayNotOpened::Silent)?;
            let mut stream = RelayStream::new(opened);
            stream.welcomed(header).await?;
            Ok(stream)
        };
        or(opened, async {
            Timer::after(RELAY_OPEN_TIMEOUT).await;
            Err(RelayNotOpened::Silent)
        })
        .await
    }

    fn may_carry(&self, class: TrafficClass) -> bool {
        !self.0.is_of_nodes || matches!(class, TrafficClass::Requests | TrafficClass::Forwarded)
    }

    /// Carries messages until the link ends, and tells of everything.
    pub async fn run(self, executor: Arc<Executor<'static>>, events: Sender<LinkEvent>) {
        // an agent that takes no events any more is about to end
        let _ = events.send(LinkEvent::Up(self.clone())).await;
        for class in TrafficClass::ALL.into_iter().filter(|class| self.may_carry(*class)) {
            executor::spawn(&executor, write(self.clone(), class)).detach();
        }
        executor::spawn(&executor, self.clone().accept_relays(executor.clone(), events.clone())).detach();
        self.accept_streams(&executor, &events).await;
        let ended = LinkEnd::from(self.0.connection.closed().await);
        self.0.lanes.close();
        let why = self.0.refusal.get().map_or(ended, |refusal| LinkEnd::Closed(*refusal));
        // and so here
        let _ = events.send(LinkEvent::Down { link: self, why }).await;
    }

    /// Until the connection ends. How many there are at once, the connection itself bounds.
    async fn accept_relays(self, executor: Arc<Executor<'static>>, events: Sender<LinkEvent>) {
        while let Ok(opened) = self.0.connection.accept_bi().await {
            let (from, events) = (self.0.peer, events.clone());
            let hear = async move {
                if let Some(asked) = RelayStream::new(opened).asked(from).await {
                    // an agent that takes no events any more is about to end
                    let _ = events.send(LinkEvent::Relay(asked)).await;
                }
            };
            executor::spawn(&executor, hear).detach();
        }
    }

    /// Until the connection ends.
    async fn accept_streams(&self, executor: &Executor<'static>, events: &Sender<LinkEvent>) {
        let mut open = [false; TrafficClass::ALL.len()];
        while let Ok(mut stream) = self.0.connection.accept_uni().await {
            let mut class = [0];
            if stream.read_exact(&mut class).await.is_err() {
                continue;
            }
            let class = TrafficClass::ALL.get(usize::from(class[0])).copied();
            let Some(class) = class.filter(|class| !open[*class as usize]) else {
                self.close(LinkRefusal::Malformed);
                return;
            };
            if !self.may_carry(class) {
                self.close(LinkRefusal::WrongRole);
                return;
            }
            open[class as usize] = true;
            executor::spawn(executor, read(self.clone(), class, stream, events.clone())).detach();
        }
    }
}

pub fn close(connection: &Connection, refusal: LinkRefusal) {
    connection.close(VarInt::from_u32(refusal.code()), refusal.to_string().as_bytes());
}

/// Sends what comes into a lane, until the link ends.
async fn write(link: Link, class: TrafficClass) {
    let mut stream: Option<SendStream> = None;
    while let Some(message) = link.0.lanes.next(class).await {
        let opened = match stream.take() {
            Some(opened) => opened,
            None => match open(&link.0.connection, class).await {
                Some(opened) => opened,
                None => return,
            },
        };
        let opened = stream.insert(opened);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes();
        if opened.write_all(&length).await.is_err() || opened.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn open(connection: &Connection, class: TrafficClass) -> Option<SendStream> {
    let mut stream = connection.open_uni().await.ok()?;
    stream.set_priority(-(class as i32)).ok()?;
    stream.write_all(&[class as u8]).await.ok()?;
    Some(stream)
}

async fn read(link: Link, class: TrafficClass, mut stream: RecvStream, events: Sender<LinkEvent>) {
    loop {
        match read_message(&mut stream).await {
            Ok(Some(bytes)) => {
                if events.send(LinkEvent::Frame { link: link.clone(), class, bytes }).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(refusal) => return link.close(refusal),
        }
    }
}

/// `None`: the stream, or the link, has ended.
async fn read_message(stream: &mut RecvStream) -> Result<Option<Vec<u8>>, LinkRefusal> {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).await.is_err() {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_SENT_BYTES {
        return Err(LinkRefusal::TooLong);
    }
    let mut bytes = Vec::with_capacity(length.min(FIRST_BYTES));
    while bytes.len() < length {
        match stream.read_chunk(length - bytes.len(), true).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            Ok(None) | Err(_) => return Ok(None),
        }
    }
    Ok(Some(bytes))
}
