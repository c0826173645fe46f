//! Which links lead to the agent that a relayed request is for: its own, or that of another server, which then passes the request on.
//!
//! Refuses to know: what is asked. Invariant: a node is asked over its own link, here or at a server that has it, so nothing goes in a
//! circle.

use super::link_sender::LinkSender;
use super::node_links::NodeLinkSender;
use ::io::quic::{RelayNotOpened, RelayStream};
use api::RelayTarget;
use smol::Timer;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use wire::relay::{RelayHeader, RelayRefusal};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

/// Other servers that are asked for a node's link.
const MAX_ASKED: usize = 16;
/// How long a request of a node's user waits for a link to a server, and how often it looks.
const LINK_WAIT: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(50);

const NO_PATH: &str = "No path to node";

/// An agent's ways to others. Empty where it has no network.
#[derive(Default)]
pub struct RelayPaths {
    pub links: LinkSender,
    /// The node's own, where its agent is no server.
    node_links: OnceLock<NodeLinkSender>,
}

impl RelayPaths {
    /// The agent is no server: its ways are its node's.
    pub fn set_node_links(&self, links: NodeLinkSender) {
        // an agent starts its node once
        let _ = self.node_links.set(links);
    }

    pub async fn open(&self, to: RelayTarget) -> Result<RelayStream, Refusal> {
        match to {
            RelayTarget::OwnServer => self.to_own_server().await,
            RelayTarget::Server(id) => self.to_server(id).await,
            RelayTarget::Node(node) => self.to_node(Peer::Node(node)).await,
        }
    }

    async fn to_own_server(&self) -> Result<RelayStream, Refusal> {
        let until = Instant::now() + LINK_WAIT;
        let link = loop {
            match self.node_links.get().and_then(NodeLinkSender::link) {
                Some(link) => break link,
                None if Instant::now() < until => {
                    Timer::after(LINK_POLL).await;
                }
                None => return Err(unavailable("this agent's node has no link to a server now")),
            }
        };
        // its server, and the one that has the other node's link
        let header = RelayHeader { to: link.peer(), hops: 2 };
        link.relay(header).await.map_err(|why| match why {
            RelayNotOpened::Refused(refusal) => refused(refusal),
            RelayNotOpened::Silent => unavailable("this agent's server does not answer"),
        })
    }

    async fn to_server(&self, id: u64) -> Result<RelayStream, Refusal> {
        let to = Peer::Server(id);
        let Some(link) = self.links.get(to) else { return Err(unavailable("No path to server")) };
        link.relay(RelayHeader { to, hops: 0 }).await.map_err(|why| match why {
            RelayNotOpened::Refused(refusal) => refused(refusal),
            RelayNotOpened::Silent => unavailable("No path to server: it does not answer"),
        })
    }

    /// Over the node's own link, and without one over that of a server which has it.
    async fn to_node(&self, to: Peer) -> Result<RelayStream, Refusal> {
        let own = self.links.get(to).map(|link| (link, 0));
        let others = self.links.servers(MAX_ASKED).into_iter().map(|link| (link, 1));
        let mut why = None;
        for (link, hops) in own.into_iter().chain(others) {
            match link.relay(RelayHeader { to, hops }).await {
                Ok(stream) => return Ok(stream),
                // another one may have a link that lives
                Err(RelayNotOpened::Silent | RelayNotOpened::Refused(RelayRefusal::NotHere)) => {}
                Err(RelayNotOpened::Refused(refusal)) => why = Some(refusal),
            }
        }
        Err(why.map_or_else(|| Refusal::new(RefusalKind::NotFound, NO_PATH), refused))
    }
}

fn unavailable(why: &str) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, format!("{why}: try again in a moment, or ask another agent"))
}

fn refused(refusal: RelayRefusal) -> Refusal {
    let kind = match refusal {
        RelayRefusal::NotHere => return Refusal::new(RefusalKind::NotFound, NO_PATH),
        RelayRefusal::Busy => RefusalKind::Busy,
        RelayRefusal::WrongRole | RelayRefusal::Malformed => RefusalKind::Unavailable,
    };
    Refusal::new(kind, format!("the request is not relayed: {refusal}"))
}
