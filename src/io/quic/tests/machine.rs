//! Machines for tests: an endpoint with a thread that runs its executor, and a QUIC connection without a link's manners.

use super::super::identity::{LinkIdentity, RegionKey};
use super::super::link::{Link, LinkEnd, LinkEvent};
use super::super::runtime::ExecutorRuntime;
use super::super::transport::{Configs, HANDSHAKE_TIMEOUT};
use super::super::{Endpoint, Enrolment, RelayAsked, handshake};
use async_channel::{Receiver, Sender};
use model::id::NodeId;
use smol::future::or;
use smol::{Executor, Timer};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{future, thread};
use wire::frame::TrafficClass;
use wire::rpc::Peer;

/// No test waits so long for what is to happen.
const PATIENCE: Duration = Duration::from_secs(60);

pub const ANY: &str = "127.0.0.1:0";

pub fn region() -> RegionKey {
    RegionKey::from_secret(&[7; 32]).expect("a key")
}

pub fn server(id: u64) -> LinkIdentity {
    region().identity("global", Peer::Server(id)).expect("an identity")
}

pub fn node() -> LinkIdentity {
    region().identity("global", Peer::Node(NodeId::default())).expect("an identity")
}

/// An executor on a thread of its own, until it is dropped.
pub struct Running {
    pub executor: Arc<Executor<'static>>,
    _stop: Sender<()>,
}

impl Running {
    pub fn new() -> Running {
        let executor = Arc::new(Executor::new());
        let (stop, stopped) = async_channel::bounded::<()>(1);
        let runs = executor.clone();
        thread::spawn(move || smol::block_on(runs.run(stopped.recv())));
        Running { executor, _stop: stop }
    }
}

pub struct Machine {
    pub endpoint: Endpoint,
    pub address: SocketAddr,
    events: Receiver<LinkEvent>,
    _running: Running,
}

impl Machine {
    pub fn new(identity: LinkIdentity) -> Machine {
        Machine::at(ANY, identity)
    }

    pub fn at(address: &str, identity: LinkIdentity) -> Machine {
        let running = Running::new();
        let socket = UdpSocket::bind(address).expect("a socket");
        let address = socket.local_addr().expect("it is bound");
        let (endpoint, events) =
            Endpoint::new(running.executor.clone(), vec![socket], identity).expect("an endpoint");
        Machine { endpoint, address, events, _running: running }
    }

    pub fn dial(&self, address: SocketAddr) -> Result<Peer, LinkEnd> {
        awaited(self.endpoint.dial(address, HANDSHAKE_TIMEOUT))
    }

    fn event(&self) -> LinkEvent {
        awaited(self.events.recv()).expect("the endpoint lives")
    }

    pub fn up(&self) -> Link {
        match self.event() {
            LinkEvent::Up(link) => link,
            LinkEvent::Frame { class, .. } => panic!("a message on {class:?}"),
            LinkEvent::Down { why, .. } => panic!("{why}"),
            LinkEvent::Enrol(asked) => panic!("{} wants to join", asked.request.machine),
            LinkEvent::Relay(asked) => panic!("a request to {}", asked.header.to),
        }
    }

    pub fn frame(&self) -> (TrafficClass, Vec<u8>) {
        match self.event() {
            LinkEvent::Frame { class, bytes, .. } => (class, bytes),
            LinkEvent::Up(link) => panic!("a link to {}", link.peer()),
            LinkEvent::Down { why, .. } => panic!("{why}"),
            LinkEvent::Enrol(asked) => panic!("{} wants to join", asked.request.machine),
            LinkEvent::Relay(asked) => panic!("a request to {}", asked.header.to),
        }
    }

    /// A request that the other end wants to have relayed.
    pub async fn relayed(&self) -> RelayAsked {
        match self.events.recv().await.expect("the endpoint lives") {
            LinkEvent::Relay(asked) => asked,
            _ => panic!("something else than a request"),
        }
    }

    /// A machine that wants to join.
    pub fn enrolment(&self) -> Enrolment {
        match self.event() {
            LinkEvent::Enrol(asked) => asked,
            _ => panic!("something else than a machine that wants to join"),
        }
    }

    /// What comes before is passed over.
    pub fn down(&self) -> LinkEnd {
        loop {
            if let LinkEvent::Down { why, .. } = self.event() {
                return why;
            }
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.events.is_empty()
    }
}

/// What comes of it, within a test's patience.
pub fn awaited<T>(what: impl Future<Output = T>) -> T {
    let patience = async {
        Timer::at(Instant::now() + PATIENCE).await;
        panic!("nothing came of it");
    };
    smol::block_on(or(what, patience))
}

/// Two servers with a link: each machine, and its end of it.
pub fn linked() -> [(Machine, Link); 2] {
    let (a, b) = (Machine::new(server(1)), Machine::new(server(2)));
    assert_eq!(a.dial(b.address), Ok(Peer::Server(2)));
    let (to_b, to_a) = (a.up(), b.up());
    [(a, to_b), (b, to_a)]
}

/// Connections as somebody makes them who does not do what a link does.
pub struct Stranger {
    quic: quinn::Endpoint,
    dialing: quinn::ClientConfig,
    identity: LinkIdentity,
    _running: Running,
}

impl Stranger {
    pub fn new(identity: LinkIdentity) -> Stranger {
        let running = Running::new();
        let Configs { endpoint, accepting, dialing } = Configs::new(&identity).expect("configurations");
        let socket = UdpSocket::bind(ANY).expect("a socket");
        let runtime = Arc::new(ExecutorRuntime(running.executor.clone()));
        let quic = quinn::Endpoint::new(endpoint, Some(accepting), socket, runtime).expect("an endpoint");
        Stranger { quic, dialing, identity, _running: running }
    }

    pub fn address(&self) -> SocketAddr {
        self.quic.local_addr().expect("it is bound")
    }

    /// Without a credential.
    pub fn connecting(&self, to: SocketAddr) -> quinn::Connecting {
        self.quic.connect_with(self.dialing.clone(), to, "drover").expect("it begins")
    }

    /// Without a credential, and with this instead of what links are dialed with.
    pub fn connecting_with(&self, config: quinn::ClientConfig, to: SocketAddr) -> quinn::Connecting {
        self.quic.connect_with(config, to, "drover").expect("it begins")
    }

    /// The next connection, once the keys were proved.
    pub async fn take(&self) -> quinn::Connection {
        let incoming = self.quic.accept().await.expect("the endpoint lives");
        incoming.accept().expect("it begins").await.expect("keys are proved")
    }

    /// With its credential.
    pub fn connect(&self, to: SocketAddr) -> quinn::Connection {
        let dialed = handshake::dial(self.connecting(to), &self.identity, PATIENCE);
        awaited(dialed).expect("it is let in").0
    }

    /// Takes a connection, and gives its handshake so much time.
    pub fn accept(&self, limit: Duration) -> Result<Peer, LinkEnd> {
        awaited(async {
            let incoming = self.quic.accept().await.expect("the endpoint lives");
            let deadline = Instant::now() + limit;
            let connection = handshake::established(incoming.accept()?, deadline).await?;
            handshake::accept(&connection, &self.identity, deadline).await.map(|at| at.peer)
        })
    }

    /// Keeps the connection until the other side ends it.
    pub fn closed(connection: &quinn::Connection) -> LinkEnd {
        LinkEnd::from(awaited(connection.closed()))
    }
}

/// Opens a stream that begins with these bytes, and keeps it open.
pub fn say(connection: &quinn::Connection, bytes: &[u8]) -> quinn::SendStream {
    awaited(async {
        let mut stream = connection.open_uni().await.expect("there is room for a stream");
        stream.write_all(bytes).await.expect("it is sent");
        stream
    })
}

/// Never.
pub async fn never<T>() -> T {
    future::pending().await
}
