//! The links of a node whose agent is no server: one to the server that it asks, dialed from here, kept while that server answers and
//! made anew to any server that does (decision 0097).
//!
//! Refuses to know: what frames say, and which server is asked, which the client's brain decides. Invariants: the brain hears of a link
//! before anything that came over it; a link on which nothing answers for some round trips is given up, however often it is spoken on.

use super::super::config::joining::ServerJoin;
use super::super::failure::AgentFailure;
use super::super::inbox;
use super::super::messages::ClientMessage;
use super::node_dialer::{MAX_ATTEMPTS, NodeAttempt, NodeDialer};
use super::relay_host::RelayHost;
use super::{DialAttempt, DialOutcome, dial, may_travel_as};
use ::io::quic::{Endpoint, Link, LinkEnd, LinkEvent, LinkId, LinkTraffic};
use ::io::{clock, executor};
use async_channel::{Receiver, Sender};
use client::effects::Input;
use model::member::ServerAddress;
use model::time::{Mono, Span};
use smol::future::or;
use smol::{Executor, Timer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::credential::LinkRefusal;
use wire::frame::TrafficClass;
use wire::rpc::Peer;

/// How often links are looked at, and how often while one of them has not answered yet.
const LOOK: Span = Span::seconds(30);
const LOOK_FOR_ANSWER: Span = Span::millis(500);
/// A link is dead if nothing has come for so long, and so many round trips on top, though something was sent: 2 s where machines are near
/// each other, 12 s on a line of 1.2 s that loses a fifth. QUIC itself would go on for minutes.
const DEAD_AFTER: Span = Span::seconds(2);
const DEAD_AFTER_ROUND_TRIPS: u32 = 8;
const DEAD_AFTER_AT_MOST: Span = Span::seconds(12);

const TWO_AGENTS: &str = "another agent is linked as this node: its data directory was copied; stop one of the two, and start it with an empty one";

/// What the client's thread sends on, and what it says of servers.
#[derive(Clone)]
pub struct NodeLinkSender {
    shared: Arc<Mutex<NodeLinkState>>,
    wake: Sender<()>,
}

#[derive(Default)]
struct NodeLinkState {
    links: BTreeMap<u64, Link>,
    /// The server that was spoken to last.
    wanted: Option<u64>,
    listed: Vec<ServerAddress>,
}

impl NodeLinkSender {
    pub fn new() -> (NodeLinkSender, Receiver<()>) {
        let (wake, woken) = async_channel::bounded(1);
        (NodeLinkSender { shared: Arc::default(), wake }, woken)
    }

    /// What cannot be sent is lost: the brain asks again. A server without a link is dialed.
    pub fn send(&self, server: u64, class: TrafficClass, bytes: Vec<u8>) {
        let mut shared = self.lock();
        shared.wanted = Some(server);
        let link = shared.links.get(&server).cloned();
        drop(shared);
        if link.is_some_and(|link| !link.send(class, bytes)) {
            tracing::debug!(server, ?class, "a message is lost: too many wait for the line");
        }
        // it is looked whether an answer comes; full: it is to be woken already
        let _ = self.wake.try_send(());
    }

    /// Whether the server that is asked has a link.
    pub fn is_served(&self) -> bool {
        self.link().is_some()
    }

    /// The link to the server that is asked. Before the first server is known, any will do.
    pub fn link(&self) -> Option<Link> {
        let shared = self.lock();
        match shared.wanted {
            Some(server) => shared.links.get(&server).cloned(),
            None => shared.links.values().next().cloned(),
        }
    }

    /// Where the region's servers are, as the node knows.
    pub fn set_listed(&self, servers: &[ServerAddress]) {
        let mut shared = self.lock();
        if shared.listed != servers {
            shared.listed = servers.to_vec();
            drop(shared);
            // as above
            let _ = self.wake.try_send(());
        }
    }

    /// A change is done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, NodeLinkState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the links stand on.
pub struct NodeLinkParts {
    pub executor: Arc<Executor<'static>>,
    pub endpoint: Endpoint,
    pub events: Receiver<LinkEvent>,
    pub join: ServerJoin,
    pub seed: u64,
    pub inbox: Sender<ClientMessage>,
    pub sender: NodeLinkSender,
    pub woken: Receiver<()>,
    /// Answers what servers relay to this node.
    pub relay_host: RelayHost,
}

struct NodeLinks {
    parts: NodeLinkParts,
    dialer: NodeDialer,
    links: BTreeMap<LinkId, KnownLink>,
    /// Since the last look: what was said may be on its way, and its answer, too.
    is_spoken_on: bool,
    report: Sender<DialOutcome>,
    outcomes: Receiver<DialOutcome>,
}

struct KnownLink {
    server: u64,
    link: Link,
    since: Mono,
    answers: Answers,
    /// Given up: its end is still to be heard of.
    is_dead: bool,
}

/// Whether the other end of a link still answers.
struct Answers {
    /// What had passed when it was looked at last.
    seen: LinkTraffic,
    /// Since when something was sent and nothing has come.
    unanswered: Option<Mono>,
}

impl Answers {
    /// Notes what has passed since. `false`: nothing answers any more.
    fn answers(&mut self, traffic: LinkTraffic, round_trip: Duration, now: Mono) -> bool {
        if traffic.received_datagrams != self.seen.received_datagrams {
            self.unanswered = None;
        } else if traffic.sent_frames != self.seen.sent_frames {
            self.unanswered.get_or_insert(now);
        }
        self.seen = traffic;
        self.unanswered.is_none_or(|since| now.since(since) < dead_after(round_trip))
    }
}

/// How long a link may leave unanswered what was sent.
fn dead_after(round_trip: Duration) -> Span {
    let round_trips = (round_trip * DEAD_AFTER_ROUND_TRIPS).as_millis();
    let round_trips = Span::millis(i64::try_from(round_trips).unwrap_or(i64::MAX / 1_000_000));
    Span(DEAD_AFTER.0.saturating_add(round_trips.0)).min(DEAD_AFTER_AT_MOST)
}

enum NodeLinkTurn {
    Link(LinkEvent),
    Dialed(DialOutcome),
    /// The client has said something.
    SpokenOn,
    Look,
    Closed,
}

/// Keeps a link until the endpoint is closed, or until a new node has tried as often as it may.
pub async fn run(parts: NodeLinkParts) -> Result<(), AgentFailure> {
    let (report, outcomes) = async_channel::bounded(MAX_ATTEMPTS);
    let dialer = NodeDialer::new(&parts.join, parts.seed, clock::mono());
    NodeLinks { dialer, links: BTreeMap::new(), is_spoken_on: false, report, outcomes, parts }.run().await
}

impl NodeLinks {
    async fn run(mut self) -> Result<(), AgentFailure> {
        loop {
            self.look(clock::mono())?;
            match self.next().await {
                NodeLinkTurn::Link(LinkEvent::Up(link)) => self.up(link),
                NodeLinkTurn::Link(LinkEvent::Frame { link, class, bytes }) => {
                    self.frame(&link, class, bytes)
                }
                NodeLinkTurn::Link(LinkEvent::Down { link, why }) => self.down(&link, &why),
                // machines join at servers
                NodeLinkTurn::Link(LinkEvent::Enrol(_)) => {}
                NodeLinkTurn::Link(LinkEvent::Relay(asked)) => self.parts.relay_host.serve(asked),
                NodeLinkTurn::Dialed(outcome) => self.dialer.done(&outcome, clock::mono()),
                NodeLinkTurn::SpokenOn => self.is_spoken_on = true,
                NodeLinkTurn::Look => self.is_spoken_on = false,
                NodeLinkTurn::Closed => return Ok(()),
            }
        }
    }

    async fn next(&self) -> NodeLinkTurn {
        let link = async { self.parts.events.recv().await.map_or(NodeLinkTurn::Closed, NodeLinkTurn::Link) };
        let dialed = async { self.outcomes.recv().await.map_or(NodeLinkTurn::Closed, NodeLinkTurn::Dialed) };
        let woken = async {
            match self.parts.woken.recv().await {
                Ok(()) => NodeLinkTurn::SpokenOn,
                // the brain has ended
                Err(_) => std::future::pending().await,
            }
        };
        let now = clock::mono();
        let soon = if self.parts.sender.is_served() { None } else { self.dialer.next_deadline() };
        let waits = self.is_spoken_on || self.links.values().any(|known| known.answers.unanswered.is_some());
        let look = now.after(if waits { LOOK_FOR_ANSWER } else { LOOK });
        let due = soon.unwrap_or(Mono(u64::MAX)).min(look).max(now.after(Span::millis(20)));
        let look = async {
            Timer::after(clock::until(due)).await;
            NodeLinkTurn::Look
        };
        or(link, or(dialed, or(woken, look))).await
    }

    fn look(&mut self, now: Mono) -> Result<(), AgentFailure> {
        self.give_up_dead_links(now);
        let shared = self.parts.sender.lock();
        self.dialer.learn(&shared.listed);
        self.dialer.wants(shared.wanted);
        let linked: BTreeSet<u64> = shared.links.keys().copied().collect();
        let wanted = shared.wanted;
        drop(shared);
        if !linked.is_empty() {
            self.dialer.is_content(now);
        } else if let Some(troubles) = self.dialer.complaint(now) {
            tracing::warn!(target: "nomad", %troubles, "no server is reached");
        }
        if self.parts.sender.is_served() {
            self.close_unused(wanted);
            return Ok(());
        }
        if let Some(why) = self.dialer.gives_up() {
            return Err(AgentFailure::from(why));
        }
        if let Some(NodeAttempt { address, patience }) =
            self.dialer.next(|server| linked.contains(&server), now)
        {
            let (endpoint, report) = (self.parts.endpoint.clone(), self.report.clone());
            let attempt = DialAttempt { target: address, leave_out: BTreeSet::new() };
            let dial = async move {
                // the agent is about to end if nobody wants to know
                let _ = report.send(dial(&endpoint, attempt, clock::duration(patience)).await).await;
            };
            executor::spawn(&self.parts.executor, dial).detach();
        }
        Ok(())
    }

    /// A link to another server than the one that is asked costs both sides for nothing.
    fn close_unused(&self, wanted: Option<u64>) {
        if let Some(wanted) = wanted {
            let unused = self.links.values().filter(|known| known.server != wanted);
            unused.for_each(|known| known.link.close(LinkRefusal::Unused));
        }
    }

    /// The line, or the machine, behind the link is gone, which QUIC finds out after minutes only.
    fn give_up_dead_links(&mut self, now: Mono) {
        for known in self.links.values_mut() {
            if !known.is_dead && !known.answers.answers(known.link.traffic(), known.link.round_trip(), now) {
                known.is_dead = true;
                tracing::info!(target: "nomad", server = known.server, "the server does not answer: another one is looked for");
                known.link.close(LinkRefusal::Unused);
            }
        }
    }

    fn up(&mut self, link: Link) {
        let Peer::Server(server) = link.peer() else {
            return link.close(LinkRefusal::WrongRole);
        };
        tracing::info!(target: "nomad", server, address = %link.address(), "linked to a server");
        let earlier = self.parts.sender.lock().links.insert(server, link.clone());
        if let Some(earlier) = earlier {
            self.links.remove(&earlier.id());
            earlier.close(LinkRefusal::AlreadyLinked);
        }
        let answers = Answers { seen: link.traffic(), unanswered: None };
        self.links
            .insert(link.id(), KnownLink { server, link, since: clock::mono(), answers, is_dead: false });
        self.tell("that a link is up", Input::LinkUp { server });
    }

    fn down(&mut self, link: &Link, why: &LinkEnd) {
        let Some(known) = self.links.remove(&link.id()) else { return };
        let server = known.server;
        self.parts.sender.lock().links.remove(&server);
        let now = clock::mono();
        match why.refusal() {
            Some(LinkRefusal::Unused) => {}
            Some(LinkRefusal::AlreadyLinked) => tracing::warn!(target: "nomad", server, "{TWO_AGENTS}"),
            _ => tracing::info!(target: "nomad", server, %why, "the link to a server has ended"),
        }
        self.dialer.lost(now.since(known.since), now);
        self.tell("that a link is down", Input::LinkDown { server });
    }

    fn frame(&self, link: &Link, class: TrafficClass, bytes: Vec<u8>) {
        let Some(known) = self.links.get(&link.id()) else { return };
        // what a node is told travels as what nodes say
        if !may_travel_as(class, Peer::Node(Default::default()), &bytes) {
            return link.close(LinkRefusal::Malformed);
        }
        let from = Peer::Server(known.server);
        self.tell("a server's frame", Input::Frame { from, bytes });
    }

    fn tell(&self, what: &str, input: Input) {
        inbox::send_or_drop(&self.parts.inbox, what, ClientMessage::Input(input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_link_is_dead_after_some_round_trips() {
        for (millis, seconds) in [(0, 2), (250, 4), (1_200, 11), (5_000, 12), (u64::MAX / 1_000_000_000, 12)]
        {
            let limit = dead_after(Duration::from_millis(millis));
            assert_eq!(limit.0 / 1_000_000_000, seconds, "{millis} ms");
        }
    }

    /// What a node sends last is its acknowledgement, and nobody answers that.
    #[test]
    fn a_link_on_which_nobody_speaks_answers() {
        let second = |n| Mono(1).after(Span::seconds(n));
        let traffic = |sent_frames, received_datagrams| LinkTraffic { sent_frames, received_datagrams };
        let mut state = Answers { seen: traffic(1, 1), unanswered: None };
        let mut answers =
            |sent, received, at| state.answers(traffic(sent, received), Duration::ZERO, second(at));
        assert!(answers(1, 1, 0) && answers(1, 1, 100), "nothing was said");
        assert!(answers(2, 1, 101) && answers(2, 2, 102) && answers(2, 2, 500), "it was answered");
        assert!(answers(3, 2, 501) && answers(3, 2, 502));
        assert!(!answers(4, 2, 503), "however often it is spoken on");
        assert!(answers(5, 3, 504), "late is not never");
    }
}
