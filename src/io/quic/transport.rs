//! What links may take: time, memory, streams.
//!
//! Refuses to know: who is at the other end. Invariants: what one class of traffic has under way takes no room from another; an
//! endpoint's receive buffers stay below 64 KiB.

use super::identity::LinkIdentity;
use super::machine_key::MachineKey;
use super::tls;
use quinn::{ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::frame::TrafficClass;
use wire::rpc::Peer;

/// A handshake, credentials included: some eight round trips of 1.2 s, with what is lost of them.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Nothing comes between two servers for so long: the other one is gone. Raft says something five times a second.
const SERVERS_IDLE_MILLIS: u32 = 10_000;
/// Between a node and a server: its heartbeats are all that keeps the link alive, and in a fleet of thousands they are minutes apart. The
/// one that dials says which of the two counts, for the shorter one of both sides does.
const NODES_IDLE_MILLIS: u32 = 300_000;
/// How often a server tries a link to another one on which nobody says anything.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// What may be under way on one stream, and be read by nobody yet: half a minute of a line of 64 kbit/s, and a quarter of a second of
/// one of 8 Mbit/s.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Requests that are relayed over one link at once, as the accepting side says: whoever has more to ask waits. That there is room again is
/// told in eighths of it, so a node has 16 in any case, and a server 220.
const MAX_RELAYS_OF_SERVER: u32 = 256;
const MAX_RELAYS_OF_NODE: u32 = 20;
/// All streams of a link, so that none waits for room that another one has taken. It is what may come, and nothing is set aside for
/// it: only a stream that nobody reads holds its own part.
const LINK_WINDOW_BYTES: u32 =
    (TrafficClass::ALL.len() as u32 + 1 + MAX_RELAYS_OF_SERVER) * STREAM_WINDOW_BYTES;
/// Names are not looked at: whom a machine is, its credential says.
pub const SERVER_NAME: &str = "drover";
/// As large as datagrams become on Ethernet.
const MAX_DATAGRAM_BYTES: u16 = 1472;
/// First packets that wait to be looked at.
const MAX_INCOMING: usize = 256;
const INCOMING_BUFFER_BYTES: u64 = 16 << 10;

/// For both directions: an endpoint accepts links and dials.
pub struct Configs {
    pub endpoint: EndpointConfig,
    pub accepting: ServerConfig,
    pub dialing: ClientConfig,
}

impl Configs {
    pub fn new(identity: &LinkIdentity) -> io::Result<Configs> {
        let mut endpoint = EndpointConfig::new(Arc::new(identity.reset_key()));
        let id_key = identity.connection_id_key();
        endpoint.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(id_key)));
        endpoint.max_udp_payload_size(MAX_DATAGRAM_BYTES).map_err(io::Error::other)?;
        let mut accepting = ServerConfig::with_crypto(Arc::new(tls::accepting(identity.tls())?));
        accepting
            .transport_config(Arc::new(transport(NODES_IDLE_MILLIS, None)))
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_BUFFER_BYTES)
            .incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BUFFER_BYTES);
        let mut dialing = ClientConfig::new(Arc::new(tls::dialing(identity.tls(), tls::LINKS)?));
        dialing.transport_config(Arc::new(match identity.peer() {
            Peer::Server(_) => transport(SERVERS_IDLE_MILLIS, Some(KEEP_ALIVE)),
            Peer::Node(_) => transport(NODES_IDLE_MILLIS, None),
        }));
        Ok(Configs { endpoint, accepting, dialing })
    }
}

/// For a machine that no region knows: it dials alone.
pub fn enrolling(key: &MachineKey) -> io::Result<ClientConfig> {
    let mut dialing = ClientConfig::new(Arc::new(tls::dialing(key.tls(), tls::ENROLMENT)?));
    dialing.transport_config(Arc::new(transport(SERVERS_IDLE_MILLIS, Some(KEEP_ALIVE))));
    Ok(dialing)
}

/// How many requests a machine at the other end may have relayed over its link at once.
pub fn max_relays_of(peer: Peer) -> u32 {
    match peer {
        Peer::Server(_) => MAX_RELAYS_OF_SERVER,
        Peer::Node(_) => MAX_RELAYS_OF_NODE,
    }
}

fn transport(idle_millis: u32, keep_alive: Option<Duration>) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        // the one on which credentials are shown; a link allows more
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(TrafficClass::ALL.len() as u32))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
        .send_window(LINK_WINDOW_BYTES.into())
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_millis))))
        .keep_alive_interval(keep_alive)
        .datagram_receive_buffer_size(None);
    config
}
