//! The links between machines: those of a server (`server_links`), and those of a node whose agent is no server (`node_links`).
//!
//! Refuses to know: what frames say.

mod dialer;
mod enrolment;
mod link_sender;
mod link_table;
mod node_dialer;
pub mod node_links;
mod node_table;
mod relay_host;
mod relay_paths;
pub mod server_links;

pub use enrolment::Enroller;
pub use link_sender::LinkSender;
pub use relay_host::RelayHost;
pub use relay_paths::RelayPaths;

use super::config::joining::JoinAddress;
use ::io::executor;
use ::io::quic::Endpoint;
use dialer::{DialAttempt, DialOutcome};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use wire::frame::{self, TrafficClass};
use wire::rpc::Peer;

/// Addresses of one name that are dialed.
const MAX_ADDRESSES_OF_NAME: usize = 16;

/// Whether what came on the stream of this class belongs there, as its own first bytes say.
fn may_travel_as(class: TrafficClass, peer: Peer, bytes: &[u8]) -> bool {
    class
        == match peer {
            Peer::Server(_) => frame::traffic_class(bytes),
            Peer::Node(_) => frame::traffic_class_of_node(bytes),
        }
}

/// The addresses of a host's name, as many as are dialed. `Err`: why it has none now.
pub async fn addresses_of(target: &JoinAddress) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = (target.host.clone(), target.port);
    let look = move || {
        (host.as_str(), port).to_socket_addrs().map(|found| found.take(MAX_ADDRESSES_OF_NAME).collect())
    };
    executor::unblock(look).await.map_err(|error| format!("the name has no address: {error}"))
}

/// Every address of a name, but those that need no dialing.
async fn dial(endpoint: &Endpoint, attempt: DialAttempt, patience: Duration) -> DialOutcome {
    let DialAttempt { target, leave_out } = attempt;
    let (addresses, unresolved) = match addresses_of(&target).await {
        Ok(addresses) => (addresses, None),
        Err(why) => (vec![], Some(why)),
    };
    let mut found = vec![];
    for address in addresses {
        if !leave_out.contains(&address) {
            found.push((address, endpoint.dial(address, patience).await));
        }
    }
    DialOutcome { target, unresolved, found }
}
