//! The links of this server: to the others of its region, and to nodes. Who is dialed, which links stay, and what comes over them into
//! the brain's inbox (decisions 0094 and 0097).
//!
//! Refuses to know: what frames say. Invariants: the brain hears of a server's link before anything that came over it, and of a
//! link's end once; nothing here waits for the brain; a machine speaks as who it has shown to be, and as nobody else.

use super::super::config::joining::ServerJoin;
use super::super::failure::AgentFailure;
use super::super::server_inbox::ServerInboxSender;
use super::dialer::{DialOutcome, Dialer, MAX_ATTEMPTS};
use super::enrolment::Enroller;
use super::link_sender::LinkSender;
use super::link_table::{Admitted, Ended, LinkTable};
use super::node_table::{NodeAdmitted, NodeTable};
use super::relay_host::RelayHost;
use super::{dial, may_travel_as};
use ::io::http::Published;
use ::io::quic::{Endpoint, HANDSHAKE_TIMEOUT, Link, LinkEnd, LinkEvent, LinkId};
use ::io::{clock, executor};
use async_channel::{Receiver, Sender};
use model::id::{NodeId, Uuid};
use model::time::{Mono, Span};
use server::effects::Input;
use smol::future::or;
use smol::{Executor, Timer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::credential::LinkRefusal;
use wire::frame::TrafficClass;
use wire::record;
use wire::rpc::Peer;
use wire::snapshot::SnapshotMessage;
use wire::status::ServerStatus;

/// How often the region's list of servers is looked at.
const LOOK: Span = Span::seconds(1);

/// A node that is linked anew after less has lost its line, or is two.
const SHORT_LINK: Span = Span::seconds(10);
const TWO_AGENTS: &str = "a node is linked by another process within seconds: if this goes on, its data directory was copied; stop one of its two agents, and \
     start it with an empty data directory";

/// What the links stand on.
pub struct LinkParts {
    pub executor: Arc<Executor<'static>>,
    pub endpoint: Endpoint,
    pub events: Receiver<LinkEvent>,
    /// Where this server listens.
    pub own_addresses: Vec<SocketAddr>,
    pub own: u64,
    /// The node of the same agent, which needs no link.
    pub own_node: Option<NodeId>,
    pub join: ServerJoin,
    pub seed: u64,
    pub inbox: ServerInboxSender,
    pub sender: LinkSender,
    pub status: Arc<Published<ServerStatus>>,
    /// For machines that show a join token.
    pub enroller: Enroller,
    /// Answers what others relay to this agent.
    pub relay_host: RelayHost,
}

struct ServerLinks {
    parts: LinkParts,
    dialer: Dialer,
    table: LinkTable,
    nodes: NodeTable,
    /// All links that are kept, and since when.
    links: BTreeMap<LinkId, (Link, Mono)>,
    report: Sender<DialOutcome>,
    outcomes: Receiver<DialOutcome>,
}

enum Next {
    Link(LinkEvent),
    Dialed(DialOutcome),
    Look,
    Closed,
}

/// Keeps the links until the endpoint is closed, or until a server without a region has tried as often as it may.
pub async fn run(parts: LinkParts) -> Result<(), AgentFailure> {
    let mut dialer = Dialer::new(parts.own, &parts.join, parts.seed, clock::mono());
    parts.own_addresses.iter().for_each(|address| dialer.is_own(*address));
    let (report, outcomes) = async_channel::bounded(MAX_ATTEMPTS);
    let (table, nodes) = (LinkTable::new(parts.own), NodeTable::new(parts.own_node));
    let links = ServerLinks { dialer, table, nodes, links: BTreeMap::new(), report, outcomes, parts };
    links.run().await
}

impl ServerLinks {
    async fn run(mut self) -> Result<(), AgentFailure> {
        loop {
            self.look(clock::mono())?;
            match self.next().await {
                Next::Link(LinkEvent::Up(link)) => self.up(link),
                Next::Link(LinkEvent::Frame { link, class, bytes }) => self.frame(&link, class, bytes),
                Next::Link(LinkEvent::Down { link, why }) => self.down(&link, &why),
                Next::Link(LinkEvent::Enrol(asked)) => self.parts.enroller.take(asked),
                Next::Link(LinkEvent::Relay(asked)) => self.parts.relay_host.serve(asked),
                Next::Dialed(outcome) => self.dialed(&outcome),
                Next::Look => {}
                Next::Closed => return Ok(()),
            }
        }
    }

    async fn next(&self) -> Next {
        let link = async { self.parts.events.recv().await.map_or(Next::Closed, Next::Link) };
        let dialed = async { self.outcomes.recv().await.map_or(Next::Closed, Next::Dialed) };
        let now = clock::mono();
        let due = self
            .dialer
            .next_deadline(&self.table)
            .unwrap_or(Mono(u64::MAX))
            .min(now.after(LOOK))
            .max(now.after(Span::millis(50)));
        let look = async {
            Timer::after(clock::until(due)).await;
            Next::Look
        };
        or(link, or(dialed, look)).await
    }

    /// What the region's list and the time ask for.
    fn look(&mut self, now: Mono) -> Result<(), AgentFailure> {
        let status = self.parts.status.get();
        self.dialer.learn(&status.members, now);
        for attempt in self.dialer.due(&self.table, now) {
            let (endpoint, report) = (self.parts.endpoint.clone(), self.report.clone());
            let dial = async move {
                // the agent is about to end if nobody wants to know
                let _ = report.send(dial(&endpoint, attempt, HANDSHAKE_TIMEOUT).await).await;
            };
            executor::spawn(&self.parts.executor, dial).detach();
        }
        if let Some(troubles) = self.dialer.complaint(&self.table, now) {
            tracing::warn!(target: "nomad", %troubles, "no other server is reached");
        }
        let is_new = status.region_id == Uuid::default() && self.table.is_empty();
        match self.dialer.gives_up().filter(|_| is_new) {
            Some(why) => Err(AgentFailure::from(why)),
            None => Ok(()),
        }
    }

    fn dialed(&mut self, outcome: &DialOutcome) {
        if let Some(why) = self.dialer.done(outcome, clock::mono()) {
            let address = outcome.target.to_string();
            tracing::warn!(target: "nomad", %address, why, "a server is not reached");
        }
    }

    fn up(&mut self, link: Link) {
        let server = match link.peer() {
            Peer::Server(server) => server,
            Peer::Node(node) => return self.node_up(node, link),
        };
        match self.table.up(server, link.id(), link.process()) {
            Admitted::Refused(refusal) => {
                tracing::debug!(server, address = %link.address(), why = %refusal, "a link is not kept");
                link.close(refusal);
            }
            Admitted::Further => {
                self.links.insert(link.id(), (link, clock::mono()));
            }
            Admitted::First => {
                tracing::info!(target: "nomad", server, address = %link.address(), "linked to a server");
                self.parts.sender.set(link.peer(), link.clone());
                self.links.insert(link.id(), (link, clock::mono()));
                self.tell("that a link is up", Input::LinkUp { peer: server });
            }
        }
    }

    /// A node's newest link counts: a node that dials again has lost the last one, whatever this side still believes.
    fn node_up(&mut self, node: NodeId, link: Link) {
        let earlier = match self.nodes.up(node, link.id()) {
            NodeAdmitted::Refused(refusal) => return link.close(refusal),
            NodeAdmitted::First => None,
            NodeAdmitted::InPlaceOf(earlier) => Some(earlier),
        };
        let process = link.process();
        tracing::debug!(target: "nomad", node_id = %node, address = %link.address(), "linked to a node");
        self.parts.sender.set(link.peer(), link.clone());
        self.links.insert(link.id(), (link, clock::mono()));
        if let Some(earlier) = earlier {
            if let Some((earlier, since)) = self.links.remove(&earlier) {
                let is_other = earlier.process() != process;
                if is_other && clock::mono().since(since) < SHORT_LINK {
                    tracing::warn!(target: "nomad", node_id = %node, address = %earlier.address(), "{TWO_AGENTS}");
                }
                earlier.close(LinkRefusal::AlreadyLinked);
            }
            self.tell("that a node's link is down", Input::NodeLinkDown { node });
        }
    }

    fn node_down(&mut self, node: NodeId, link: &Link, why: &LinkEnd) {
        self.links.remove(&link.id());
        if self.nodes.down(node, link.id()) {
            tracing::debug!(target: "nomad", node_id = %node, %why, "the link to a node has ended");
            self.parts.sender.remove(link.peer());
            self.tell("that a node's link is down", Input::NodeLinkDown { node });
        }
    }

    fn down(&mut self, link: &Link, why: &LinkEnd) {
        let server = match link.peer() {
            Peer::Server(server) => server,
            Peer::Node(node) => return self.node_down(node, link, why),
        };
        let now = clock::mono();
        let lived = self.links.remove(&link.id()).map_or(Span::ZERO, |(_, since)| now.since(since));
        match self.table.down(server, link.id()) {
            Ended::Nothing => {}
            Ended::Unlinked => {
                match self.dialer.lost(server, lived, why, now) {
                    Some(why) => {
                        tracing::warn!(target: "nomad", server, why, "the link to a server has ended")
                    }
                    None if why.refusal().is_some() => {
                        tracing::debug!(target: "nomad", server, %why, "the link to a server has ended");
                    }
                    None => tracing::info!(target: "nomad", server, %why, "the link to a server has ended"),
                }
                self.parts.sender.remove(link.peer());
                self.tell("that a link is down", Input::LinkDown { peer: server });
            }
            Ended::Replaced(by) => {
                if let Some((by, _)) = self.links.get(&by) {
                    self.parts.sender.set(link.peer(), by.clone());
                }
                self.tell("that a link is down", Input::LinkDown { peer: server });
                self.tell("that a link is up", Input::LinkUp { peer: server });
            }
        }
    }

    fn frame(&self, link: &Link, class: TrafficClass, bytes: Vec<u8>) {
        if !self.links.contains_key(&link.id()) {
            return;
        }
        let server = match link.peer() {
            Peer::Server(server) if class == TrafficClass::Snapshots => server,
            peer if may_travel_as(class, peer, &bytes) => {
                return self.tell("a frame", Input::Frame { from: peer, bytes });
            }
            // raft's lane is for what travels as raft's
            _ => return link.close(LinkRefusal::Malformed),
        };
        match record::decode::<SnapshotMessage>(&bytes) {
            Ok(message) => self.tell("a message about a snapshot", Input::Snapshot { from: server, message }),
            Err(error) => tracing::warn!(server, %error, "dropped a message about a snapshot"),
        }
    }

    fn tell(&self, what: &str, input: Input) {
        self.parts.inbox.send_or_drop(what, input);
    }
}
