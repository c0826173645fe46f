//! Requests to the servers: register, heartbeat, watch, fetch, report (client.md 2, client.md 3). One request of each kind is
//! in flight at a time, each has a deadline, and any answer may be lost, late or doubled.
//!
//! Refuses to know: what an allocation is made of.

mod address_book;
mod connections;
mod description;
mod reports;
mod retry;
mod server_state;

use super::config::Config;
use super::effects::{Effect, PendingEffects};
use address_book::AddressBook;
use model::deployment::Verdict;
use model::id::AllocId;
use model::member::Generation;
use model::node::NodeInfo;
use model::random::Stream;
use model::time::{Mono, Span};
use server_state::{ObservedState, ServerStateTracker};
use state::client_store::{ClientStore, ShownState};
use std::collections::BTreeMap;
use wire::command::AllocUpdate;
use wire::frame::{self, Body, Frame};
use wire::rpc::{AllocSet, Assignment, MAX_ASSIGNMENTS, NodeReply, NodeRequest, Peer, WATCH_HOLD};

/// The timeout of a request.
const REQUEST_TIMEOUT: Span = Span::seconds(5);
const WATCH_TIMEOUT: Span = Span(WATCH_HOLD.0 + REQUEST_TIMEOUT.0);
/// For this long after a first failure a request is repeated quickly: an election takes about that time.
const FAST_RETRY_WINDOW: Span = Span::seconds(5);
/// The grace that servers give a node beyond its TTL (server.md 6).
const HEARTBEAT_GRACE: Span = Span::seconds(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// Register or heartbeat.
    Presence,
    Watch,
    Fetch,
    Report,
}

const REQUEST_KINDS: [RequestKind; 4] =
    [RequestKind::Presence, RequestKind::Watch, RequestKind::Fetch, RequestKind::Report];

#[derive(Clone, Copy, Debug)]
struct RequestInFlight {
    request: u64,
    to: u64,
    deadline: Mono,
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestState {
    in_flight: Option<RequestInFlight>,
    /// The next request of this kind is sent at this time.
    due: Mono,
    /// When the first of the present failures was.
    failing: Option<Mono>,
}

/// What an answer means for the client.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerUpdate {
    Wanted {
        set: AllocSet,
        is_other_generation: bool,
    },
    Fetched(Vec<Assignment>),
    /// The list of servers, or an address in it, has changed.
    Listed,
    /// Whether the servers have acknowledged the report in flight.
    Reported(bool),
    /// The servers may have marked this node as down: everything is reported again.
    Reconnected,
}

#[derive(Debug)]
pub struct Servers {
    address_book: AddressBook,
    next_request: u64,
    requests: [RequestState; 4],
    info: Option<Box<NodeInfo>>,
    /// A newer description and when it is to be sent.
    pending_description: Option<(Mono, Box<NodeInfo>)>,
    /// The request under way is a registration.
    registering: bool,
    registered: bool,
    /// The servers know the node, but not its newest description.
    outdated: bool,
    /// The digest of what the servers had when they acknowledged the last registration.
    registered_info: u64,
    ttl: Span,
    last_ok: Option<Mono>,
    server_state: ServerStateTracker,
    need: BTreeMap<AllocId, u64>,
    trouble: Option<String>,
}

impl Servers {
    /// `store`: what this node has stored of servers.
    pub fn new(config: &Config, store: &ClientStore, random: &mut Stream) -> Servers {
        let (configured, asks_listed) = (config.servers.clone(), config.asks_listed);
        Servers {
            address_book: AddressBook::new(configured, asks_listed, store.servers().clone()),
            next_request: random.next_u64(),
            requests: [RequestState::default(); 4],
            info: None,
            pending_description: None,
            registering: false,
            registered: false,
            outdated: false,
            registered_info: 0,
            ttl: Span::ZERO,
            last_ok: None,
            server_state: ServerStateTracker::new(store.shown()),
            need: BTreeMap::new(),
            trouble: None,
        }
    }

    pub fn registered(&self) -> bool {
        self.registered
    }

    pub fn last_ok(&self) -> Option<Mono> {
        self.last_ok
    }

    pub fn known(&self) -> &AddressBook {
        &self.address_book
    }

    pub fn ttl(&self) -> Span {
        self.ttl
    }

    pub fn troubles(&self) -> impl Iterator<Item = String> {
        self.trouble.clone().into_iter().chain(self.server_state.trouble())
    }

    /// The newest state that a watch has brought.
    pub fn shown(&self) -> ShownState {
        self.server_state.shown
    }

    /// Takes an answer; one that was not waited for is dropped.
    pub fn receive(
        &mut self,
        from: Peer,
        request: u64,
        reply: NodeReply,
        now: Mono,
        config: &Config,
        random: &mut Stream,
    ) -> Vec<ServerUpdate> {
        let awaited = |f: RequestInFlight| f.request == request && from == Peer::Server(f.to);
        let Some(kind) =
            REQUEST_KINDS.into_iter().find(|a| self.requests[*a as usize].in_flight.is_some_and(awaited))
        else {
            return Vec::new();
        };
        self.requests[kind as usize].in_flight = None;
        let mut server_updates = Vec::new();
        match reply {
            NodeReply::NoLeader => self.await_leader(kind, now, random),
            NodeReply::Refused { message } => {
                self.trouble = Some(message);
                self.fail(kind, false, now, config, random);
            }
            NodeReply::UnknownNode => {
                self.registered = false;
                self.requests[RequestKind::Presence as usize].due = now;
                self.requests[kind as usize].due = now;
            }
            NodeReply::HeartbeatFirst => {
                self.requests[RequestKind::Presence as usize].due = now;
                self.requests[kind as usize].due = later(now, random);
            }
            // turning to another server would end what users wait for through this one
            NodeReply::TryLater => self.requests[kind as usize].due = later(now, random),
            NodeReply::StaleReport { index } if kind == RequestKind::Report => {
                self.server_state.newest = self.server_state.newest.max(index);
                self.retry_report(now, random);
            }
            reply => {
                self.requests[kind as usize].failing = None;
                self.succeed(kind, reply, now, config, random, &mut server_updates);
            }
        }
        if kind == RequestKind::Report && server_updates.is_empty() {
            server_updates.push(ServerUpdate::Reported(false));
        }
        server_updates
    }

    /// Repeats a report at once, with what is the case now; later if that was stale, too.
    fn retry_report(&mut self, now: Mono, random: &mut Stream) {
        let state = &mut self.requests[RequestKind::Report as usize];
        let again = random.span_between(Span::millis(250), Span::millis(500));
        state.due = if state.failing.is_none() { now } else { now.after(again) };
        state.failing.get_or_insert(now);
    }

    fn succeed(
        &mut self,
        kind: RequestKind,
        reply: NodeReply,
        now: Mono,
        config: &Config,
        random: &mut Stream,
        server_updates: &mut Vec<ServerUpdate>,
    ) {
        match (kind, reply) {
            (RequestKind::Presence, NodeReply::Alive { ttl, info }) => {
                let is_new = self.heartbeat_acknowledged(ttl, now);
                self.verify_registration(info, now);
                server_updates.extend(is_new.then_some(ServerUpdate::Reconnected));
            }
            (RequestKind::Presence, NodeReply::Missed { ttl, info }) => {
                self.heartbeat_acknowledged(ttl, now);
                self.verify_registration(info, now);
                server_updates.push(ServerUpdate::Reconnected);
            }
            (RequestKind::Watch, NodeReply::Watched { generation, set, servers }) => {
                let seen = self.observe_state(generation, set.index, now, random);
                if seen == ObservedState::Older {
                    return;
                }
                let is_other_generation = seen == ObservedState::OtherGeneration;
                if servers.is_some_and(|list| self.address_book.update(list, is_other_generation)) {
                    server_updates.push(ServerUpdate::Listed);
                }
                server_updates.push(ServerUpdate::Wanted { set, is_other_generation });
            }
            (RequestKind::Fetch, NodeReply::Fetched { assignments }) => {
                // a server that is behind answers with what was wanted before
                let needed = self.need.len();
                for a in &assignments {
                    if self.need.get(&a.id).is_some_and(|index| a.alloc_modify_index >= *index) {
                        self.need.remove(&a.id);
                    }
                }
                let due = now.after(random.span_between(Span::seconds(2), Span::seconds(4)));
                self.requests[RequestKind::Fetch as usize].due =
                    if self.need.len() == needed { due } else { now };
                server_updates.push(ServerUpdate::Fetched(assignments));
            }
            (RequestKind::Report, NodeReply::Reported { index }) => {
                self.server_state.newest = self.server_state.newest.max(index);
                self.requests[RequestKind::Report as usize].due = now;
                server_updates.push(ServerUpdate::Reported(true));
            }
            (kind, _) => {
                self.trouble = Some("a server answered something else than it was asked".into());
                self.fail(kind, true, now, config, random);
            }
        }
    }

    /// Does not follow a watch's answer of a server that knows less than this node has seen: allocations placed since would be
    /// stopped.
    fn observe_state(
        &mut self,
        generation: Generation,
        index: u64,
        now: Mono,
        random: &mut Stream,
    ) -> ObservedState {
        let seen = self.server_state.observe(generation, index);
        if seen == ObservedState::Older {
            self.switch_server();
        }
        self.requests[RequestKind::Watch as usize].due = match seen {
            ObservedState::Older => now.after(random.span_between(Span::seconds(2), Span::seconds(4))),
            ObservedState::Followed { nothing_new: true } => now.after(Span::seconds(1)),
            ObservedState::Followed { nothing_new: false } | ObservedState::OtherGeneration => now,
        };
        if seen == ObservedState::OtherGeneration {
            // what was asked of the other state is no answer any more
            self.requests[RequestKind::Fetch as usize].in_flight = None;
        }
        seen
    }

    /// True if the servers have not heard from this node for so long that they may have marked it as down.
    fn heartbeat_acknowledged(&mut self, ttl: Span, now: Mono) -> bool {
        let silent = self.last_ok.is_some_and(|at| now.since(at) > self.ttl + HEARTBEAT_GRACE);
        let fresh = !self.registered;
        if fresh {
            // the servers may have been restored since: everything is asked for, and nobody holds an earlier watch
            self.server_state.since = 0;
            self.requests[RequestKind::Watch as usize].in_flight = None;
        }
        self.ttl = ttl.max(Span::seconds(1));
        self.last_ok = Some(now);
        self.registered = true;
        self.trouble = None;
        // a registered node is ready with its first heartbeat; the random part of each TTL spreads a fleet that starts
        // together
        let next = if self.registering { Span::ZERO } else { self.ttl };
        self.outdated &= !self.registering;
        for state in &mut self.requests {
            state.due = state.due.min(now);
        }
        self.requests[RequestKind::Presence as usize].due = now.after(next);
        silent || fresh
    }

    /// The allocations still to be fetched, as the newest answer has them.
    pub fn set_need(&mut self, need: BTreeMap<AllocId, u64>) {
        self.need = need;
    }

    pub fn can_report(&self, now: Mono) -> bool {
        !self.address_book.ids().is_empty() && self.report_due().is_some_and(|due| due <= now)
    }

    /// When a report may be tried again, if none is under way.
    pub fn report_due(&self) -> Option<Mono> {
        let state = &self.requests[RequestKind::Report as usize];
        (self.registered && state.in_flight.is_none()).then_some(state.due)
    }

    /// Sends a report of some updates, of at most as many as fit; says how many.
    pub fn report(
        &mut self,
        updates: Vec<(AllocUpdate, Option<Verdict>)>,
        now: Mono,
        config: &Config,
        effects: &mut PendingEffects,
    ) -> usize {
        let (request, count) = reports::fitting(config, self.server_state.newest, updates);
        self.send(RequestKind::Report, request, now, effects);
        count
    }

    /// Times out what is overdue and asks what is due.
    pub fn advance(
        &mut self,
        now: Mono,
        config: &Config,
        random: &mut Stream,
        effects: &mut PendingEffects,
    ) -> Vec<ServerUpdate> {
        let mut server_updates = vec![];
        for kind in REQUEST_KINDS {
            let state = self.requests[kind as usize];
            if state.in_flight.is_some_and(|f| f.deadline <= now) {
                self.requests[kind as usize].in_flight = None;
                self.fail(kind, true, now, config, random);
                // The stream may be lost, and the watch with it.
                self.requests[RequestKind::Watch as usize].in_flight = None;
                if kind == RequestKind::Report {
                    server_updates.push(ServerUpdate::Reported(false));
                }
            }
        }
        self.take_newer_description(now);
        if self.address_book.ids().is_empty() {
            self.trouble = Some("no server is known: name one in the configuration".into());
            return server_updates;
        }
        let (node, secret) = (config.node, config.secret);
        if self.may_send(RequestKind::Presence, now)
            && let Some(info) = &self.info
        {
            self.registering = !self.registered || self.outdated;
            let request = match self.registering {
                true => NodeRequest::Register { info: info.clone() },
                false => NodeRequest::Heartbeat { node, secret },
            };
            self.send(RequestKind::Presence, request, now, effects);
        }
        if !self.registered {
            return server_updates;
        }
        if self.may_send(RequestKind::Watch, now) {
            let (generation, since) = (self.server_state.shown.generation, self.server_state.since);
            let servers = self.address_book.listed().index;
            let request = NodeRequest::Watch { node, secret, generation, since, servers };
            self.send(RequestKind::Watch, request, now, effects);
        }
        if self.may_send(RequestKind::Fetch, now) && !self.need.is_empty() {
            let allocs = self.need.keys().copied().take(MAX_ASSIGNMENTS).collect();
            self.send(RequestKind::Fetch, NodeRequest::Fetch { node, secret, allocs }, now, effects);
        }
        server_updates
    }

    fn may_send(&self, kind: RequestKind, now: Mono) -> bool {
        let state = &self.requests[kind as usize];
        state.in_flight.is_none() && state.due <= now
    }

    fn send(&mut self, kind: RequestKind, request: NodeRequest, now: Mono, effects: &mut PendingEffects) {
        let bytes = frame::encode(&Frame { request: self.next_request, body: Body::Request(request) });
        let Some(to) = self.address_book.current() else { return };
        let patience = if kind == RequestKind::Watch { WATCH_TIMEOUT } else { REQUEST_TIMEOUT };
        let in_flight = RequestInFlight { request: self.take_number(), to, deadline: now.after(patience) };
        let before = self.requests[kind as usize].in_flight.replace(in_flight);
        assert!(before.is_none(), "one request of each kind is in flight");
        effects.push(Effect::Send { to: Peer::Server(to), bytes });
    }

    /// A number that no other frame of this node has. The first is random: an answer to an earlier run is not taken for one to this.
    pub fn take_number(&mut self) -> u64 {
        let number = self.next_request;
        self.next_request = number.wrapping_add(1);
        number
    }

    /// The server that this node is connected to has no leader to relay to. An election is short, and other servers would say the same
    /// meanwhile: they are asked only when this one has no leader for longer.
    fn await_leader(&mut self, kind: RequestKind, now: Mono, random: &mut Stream) {
        let since = *self.requests[kind as usize].failing.get_or_insert(now);
        let is_election = now.since(since) < FAST_RETRY_WINDOW;
        let (least, most) = if is_election { (250, 500) } else { (1_000, 3_000) };
        if !is_election {
            self.switch_server();
        }
        self.requests[kind as usize].due =
            now.after(random.span_between(Span::millis(least), Span::millis(most)));
    }

    /// Turns to another server and decides when to try again. `is_transient`: the failure may pass soon, as an election does.
    fn fail(
        &mut self,
        kind: RequestKind,
        is_transient: bool,
        now: Mono,
        config: &Config,
        random: &mut Stream,
    ) {
        self.switch_server();
        let failing = self.requests[kind as usize].failing;
        let (since, due) = match failing {
            _ if !is_transient => (None, now.after(self.backoff(kind, now, config, random))),
            Some(since) if now.since(since) >= FAST_RETRY_WINDOW => {
                (None, now.after(self.backoff(kind, now, config, random)))
            }
            since => {
                (since.or(Some(now)), now.after(random.span_between(Span::millis(250), Span::millis(500))))
            }
        };
        let state = &mut self.requests[kind as usize];
        (state.failing, state.due) = (since, due);
    }

    fn switch_server(&mut self) {
        self.address_book.rotate();
        // A watch is held for minutes: none is left with a server that may be gone.
        let current = self.address_book.current();
        self.requests[RequestKind::Watch as usize].in_flight.take_if(|f| Some(f.to) != current);
    }

    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let due = |kind: RequestKind| {
            let wanted = match kind {
                RequestKind::Presence => self.info.is_some(),
                RequestKind::Watch => self.registered,
                RequestKind::Fetch => self.registered && !self.need.is_empty(),
                // the client asks `report_due` when it has something to report
                RequestKind::Report => false,
            };
            let state = &self.requests[kind as usize];
            state
                .in_flight
                .map(|f| f.deadline)
                .or((wanted && !self.address_book.ids().is_empty()).then_some(state.due))
        };
        let newer = self.pending_description.as_ref().map(|(at, _)| *at);
        REQUEST_KINDS.into_iter().filter_map(due).chain(newer).filter(|at| *at > now).min()
    }
}

/// When what a server does not do yet is asked of it again.
fn later(now: Mono, random: &mut Stream) -> Mono {
    now.after(random.span_between(Span::seconds(1), Span::seconds(2)))
}
