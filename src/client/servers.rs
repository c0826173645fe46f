//! The conversation with the servers: register, keep alive, watch, fetch, report (client.md 2, client.md 3). One request
//! of each kind is under way at a time, each has a deadline, and any answer may be lost, late or doubled.
//!
//! Refuses to know: what an allocation is made of.

use super::config::Config;
use super::effects::{Effect, Held};
use model::deployment::Verdict;
use model::id::AllocId;
use model::node::NodeInfo;
use model::random::Stream;
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::command::AllocUpdate;
use wire::frame::{self, Body, Frame};
use wire::rpc::{AllocSet, Assignment, MAX_ASSIGNMENTS, NodeReply, NodeRequest, Peer, WATCH_HOLD};

/// How long an answer may take.
const PATIENCE: Span = Span::seconds(5);
const WATCH_PATIENCE: Span = Span(WATCH_HOLD.0 + PATIENCE.0);
/// For this long after a first failure a request is repeated quickly: an election takes about that time.
const HOLD: Span = Span::seconds(5);
/// More servers than any region has.
const MAX_SERVERS: usize = 64;
/// How long servers that know less than they did before are asked again.
const REWIND_DOUBT: Span = Span::minutes(1);
/// What the servers give a node beyond its TTL (server.md 6).
const GRACE: Span = Span::seconds(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Register or heartbeat.
    Presence,
    Watch,
    Fetch,
    Report,
}

const ASKS: [Ask; 4] = [Ask::Presence, Ask::Watch, Ask::Fetch, Ask::Report];

#[derive(Clone, Copy, Debug)]
struct Flight {
    request: u64,
    to: u64,
    deadline: Mono,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    flight: Option<Flight>,
    /// Not to be asked before this.
    due: Mono,
    /// Since when it fails.
    failing: Option<Mono>,
}

/// What an answer means for the client.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Wanted(AllocSet),
    Fetched(Vec<Assignment>),
    /// The report that was under way is durable, or it is not known to be.
    Reported(bool),
    /// The servers have given this node up, or may have: they are to be told everything again.
    Reconnected,
}

#[derive(Debug)]
pub struct Servers {
    list: Vec<u64>,
    at: usize,
    next_request: u64,
    slots: [Slot; 4],
    info: Option<Box<NodeInfo>>,
    /// A newer description and when it is to be sent.
    newer: Option<(Mono, Box<NodeInfo>)>,
    /// The request under way is a registration.
    registering: bool,
    registered: bool,
    /// The servers know the node, but not its newest description.
    outdated: bool,
    ttl: Span,
    last_ok: Option<Mono>,
    /// The watch asks for what is newer.
    since: u64,
    /// The newest index that the servers have shown.
    seen: u64,
    /// Since when they show older ones.
    doubted: Option<Mono>,
    need: BTreeMap<AllocId, u64>,
    trouble: Option<String>,
}

impl Servers {
    /// `seen`: the newest index that this node has seen of the servers.
    pub fn new(list: Vec<u64>, seen: u64, random: &mut Stream) -> Servers {
        Servers {
            list,
            at: 0,
            next_request: random.next_u64(),
            slots: [Slot::default(); 4],
            info: None,
            newer: None,
            registering: false,
            registered: false,
            outdated: false,
            ttl: Span::ZERO,
            last_ok: None,
            since: 0,
            seen,
            doubted: None,
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

    pub fn known(&self) -> &[u64] {
        &self.list
    }

    pub fn ttl(&self) -> Span {
        self.ttl
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The first description registers the node; a different one later does so again after a while.
    pub fn describe(&mut self, info: Box<NodeInfo>, now: Mono, random: &mut Stream) {
        if self.info.is_none() {
            self.info = Some(info);
        } else if self.info.as_ref().is_some_and(|held| says_the_same(held, &info)) {
            self.newer = None;
        } else {
            let at = self.newer.take().map(|(at, _)| at);
            let later = || now.after(random.span_between(Span::seconds(5), Span::seconds(10)));
            self.newer = Some((at.unwrap_or_else(later), info));
        }
    }

    /// What the answer means; nothing if nobody waits for it.
    pub fn hear(
        &mut self,
        from: Peer,
        bytes: &[u8],
        now: Mono,
        config: &Config,
        random: &mut Stream,
    ) -> Vec<News> {
        let Ok(Frame { request, body: Body::Reply(reply) }) = frame::decode(bytes) else { return Vec::new() };
        let awaited = |f: Flight| f.request == request && from == Peer::Server(f.to);
        let Some(ask) = ASKS.into_iter().find(|a| self.slots[*a as usize].flight.is_some_and(awaited)) else {
            return Vec::new();
        };
        self.slots[ask as usize].flight = None;
        let mut news = Vec::new();
        match reply {
            NodeReply::NotLeader { leader } => self.fail(ask, true, leader, now, config, random),
            NodeReply::Refused { message } => {
                self.trouble = Some(message);
                self.fail(ask, false, None, now, config, random);
            }
            NodeReply::UnknownNode => {
                self.registered = false;
                self.slots[Ask::Presence as usize].due = now;
                self.slots[ask as usize].due = now;
            }
            NodeReply::HeartbeatFirst => {
                self.slots[Ask::Presence as usize].due = now;
                let due = now.after(random.span_between(Span::seconds(1), Span::seconds(2)));
                self.slots[ask as usize].due = due;
            }
            reply => {
                self.slots[ask as usize].failing = None;
                self.succeed(ask, reply, now, config, random, &mut news);
            }
        }
        if ask == Ask::Report && news.is_empty() {
            news.push(News::Reported(false));
        }
        news
    }

    fn succeed(
        &mut self,
        ask: Ask,
        reply: NodeReply,
        now: Mono,
        config: &Config,
        random: &mut Stream,
        news: &mut Vec<News>,
    ) {
        match (ask, reply) {
            (Ask::Presence, NodeReply::Alive { ttl }) => {
                news.extend(self.alive(ttl, now).then_some(News::Reconnected));
            }
            (Ask::Presence, NodeReply::Missed { ttl }) => {
                self.alive(ttl, now);
                news.push(News::Reconnected);
            }
            (Ask::Watch, NodeReply::Allocs(set)) => news.extend(self.watched(set, now, random)),
            (Ask::Fetch, NodeReply::Fetched { assignments }) => {
                for a in &assignments {
                    self.need.remove(&a.id);
                }
                let due = now.after(random.span_between(Span::seconds(2), Span::seconds(4)));
                self.slots[Ask::Fetch as usize].due = if assignments.is_empty() { due } else { now };
                news.push(News::Fetched(assignments));
            }
            (Ask::Report, NodeReply::Reported) => {
                self.slots[Ask::Report as usize].due = now;
                news.push(News::Reported(true));
            }
            (ask, _) => {
                self.trouble = Some("a server answered something else than it was asked".into());
                self.fail(ask, true, None, now, config, random);
            }
        }
    }

    /// What a watch brought, unless it comes from servers that know less than this node has seen: a deposed leader may
    /// still answer, and following it would stop what was placed since. Only after `REWIND_DOUBT` are they believed.
    fn watched(&mut self, set: AllocSet, now: Mono, random: &mut Stream) -> Option<News> {
        let slot = &mut self.slots[Ask::Watch as usize];
        if set.index < self.seen {
            let doubted = *self.doubted.get_or_insert(now);
            self.since = 0;
            if now.since(doubted) < REWIND_DOUBT {
                slot.due = now.after(random.span_between(Span::seconds(2), Span::seconds(4)));
                return None;
            }
        }
        let nothing_new = set.index == self.since;
        slot.due = if nothing_new { now.after(Span::seconds(1)) } else { now };
        self.doubted = None;
        (self.since, self.seen) = (set.index, set.index);
        Some(News::Wanted(set))
    }

    /// True if the servers have not heard of this node for so long that they may have given it up.
    fn alive(&mut self, ttl: Span, now: Mono) -> bool {
        let silent = self.last_ok.is_some_and(|at| now.since(at) > self.ttl + GRACE);
        let fresh = !self.registered;
        if fresh {
            // They may have been restored since: everything is asked for.
            self.since = 0;
        }
        self.ttl = ttl.max(Span::seconds(1));
        self.last_ok = Some(now);
        self.registered = true;
        self.trouble = None;
        // a registered node is ready with its first heartbeat: what spreads a fleet that starts together is each ttl's share
        // of chance
        let next = if self.registering { Span::ZERO } else { self.ttl };
        self.outdated &= !self.registering;
        for slot in &mut self.slots {
            slot.due = slot.due.min(now);
        }
        self.slots[Ask::Presence as usize].due = now.after(next);
        silent || fresh
    }

    /// What is still to be fetched, as the newest answer has it.
    pub fn set_need(&mut self, need: BTreeMap<AllocId, u64>) {
        self.need = need;
    }

    pub fn report_can_go(&self, now: Mono) -> bool {
        !self.list.is_empty() && self.report_due().is_some_and(|due| due <= now)
    }

    /// When the next report may be tried, if none is under way.
    pub fn report_due(&self) -> Option<Mono> {
        let slot = &self.slots[Ask::Report as usize];
        (self.registered && slot.flight.is_none()).then_some(slot.due)
    }

    /// Sends a report of some updates, of at most as many as fit into one frame; says how many.
    pub fn report(
        &mut self,
        mut updates: Vec<(AllocUpdate, Option<Verdict>)>,
        now: Mono,
        config: &Config,
        held: &mut Held,
    ) -> usize {
        loop {
            let count = updates.len();
            let request = NodeRequest::report(config.node, config.secret, &updates);
            let bytes = frame::encode(&Frame { request: self.next_request, body: Body::Request(request) });
            if bytes.len() <= frame::MAX_FRAME_BYTES || count <= 1 {
                self.launch(Ask::Report, bytes, now, held);
                return count;
            }
            updates.truncate(count / 2);
        }
    }

    /// Times out what is overdue and asks what is due.
    pub fn advance(&mut self, now: Mono, config: &Config, random: &mut Stream, held: &mut Held) -> Vec<News> {
        let mut news = vec![];
        for ask in ASKS {
            let slot = self.slots[ask as usize];
            if slot.flight.is_some_and(|f| f.deadline <= now) {
                self.slots[ask as usize].flight = None;
                self.fail(ask, true, None, now, config, random);
                // The stream may be lost, and the watch with it.
                self.slots[Ask::Watch as usize].flight = None;
                if ask == Ask::Report {
                    news.push(News::Reported(false));
                }
            }
        }
        self.take_newer(now);
        if self.list.is_empty() {
            self.trouble = Some("no server is known: name one in the configuration".into());
            return news;
        }
        let (node, secret) = (config.node, config.secret);
        if self.can(Ask::Presence, now)
            && let Some(info) = &self.info
        {
            self.registering = !self.registered || self.outdated;
            let request = match self.registering {
                true => NodeRequest::Register { info: info.clone() },
                false => NodeRequest::Heartbeat { node, secret },
            };
            self.send(Ask::Presence, request, now, held);
        }
        if !self.registered {
            return news;
        }
        if self.can(Ask::Watch, now) {
            self.send(Ask::Watch, NodeRequest::Watch { node, secret, since: self.since }, now, held);
        }
        if self.can(Ask::Fetch, now) && !self.need.is_empty() {
            let allocs = self.need.keys().copied().take(MAX_ASSIGNMENTS).collect();
            self.send(Ask::Fetch, NodeRequest::Fetch { node, secret, allocs }, now, held);
        }
        news
    }

    fn take_newer(&mut self, now: Mono) {
        if self.slots[Ask::Presence as usize].flight.is_some() {
            return;
        }
        if let Some((_, info)) = self.newer.take_if(|(at, _)| *at <= now) {
            self.info = Some(info);
            self.outdated = true;
            self.slots[Ask::Presence as usize].due = now;
        }
    }

    fn can(&self, ask: Ask, now: Mono) -> bool {
        let slot = &self.slots[ask as usize];
        slot.flight.is_none() && slot.due <= now
    }

    fn send(&mut self, ask: Ask, request: NodeRequest, now: Mono, held: &mut Held) {
        let bytes = frame::encode(&Frame { request: self.next_request, body: Body::Request(request) });
        self.launch(ask, bytes, now, held);
    }

    fn launch(&mut self, ask: Ask, bytes: Vec<u8>, now: Mono, held: &mut Held) {
        let Some(&to) = self.list.get(self.at) else { return };
        let patience = if ask == Ask::Watch { WATCH_PATIENCE } else { PATIENCE };
        let flight = Flight { request: self.next_request, to, deadline: now.after(patience) };
        self.slots[ask as usize].flight = Some(flight);
        self.next_request = self.next_request.wrapping_add(1);
        held.push(Effect::Send { to: Peer::Server(to), bytes });
    }

    /// Goes to another server and decides when to ask again. `hold`: it may be over in a moment.
    fn fail(
        &mut self,
        ask: Ask,
        hold: bool,
        leader: Option<u64>,
        now: Mono,
        config: &Config,
        random: &mut Stream,
    ) {
        self.turn_to(leader);
        let failing = self.slots[ask as usize].failing;
        let (since, due) = match failing {
            _ if !hold => (None, now.after(self.backoff(ask, now, config, random))),
            None if leader.is_some() => (Some(now), now),
            Some(since) if now.since(since) >= HOLD => {
                (None, now.after(self.backoff(ask, now, config, random)))
            }
            since => {
                (since.or(Some(now)), now.after(random.span_between(Span::millis(250), Span::millis(500))))
            }
        };
        let slot = &mut self.slots[ask as usize];
        (slot.failing, slot.due) = (since, due);
    }

    fn turn_to(&mut self, leader: Option<u64>) {
        match leader.map(|id| (id, self.list.iter().position(|s| *s == id))) {
            Some((_, Some(at))) => self.at = at,
            Some((id, None)) if self.list.len() < MAX_SERVERS => {
                self.list.push(id);
                self.at = self.list.len() - 1;
            }
            _ => self.at = (self.at + 1).checked_rem(self.list.len()).unwrap_or(0),
        }
        // A watch is held for minutes: none is left with a server that may be gone.
        let current = self.list.get(self.at).copied();
        self.slots[Ask::Watch as usize].flight.take_if(|f| Some(f.to) != current);
    }

    fn backoff(&self, ask: Ask, now: Mono, config: &Config, random: &mut Stream) -> Span {
        let s = Span::seconds;
        match ask {
            _ if config.dev => s(1),
            Ask::Presence if self.registered => {
                let left = self.last_ok.map(|at| self.ttl.0.saturating_sub(now.since(at).0));
                heartbeat_retry(left.map(Span), random)
            }
            Ask::Presence => random.span_between(s(15), s(30)),
            Ask::Watch | Ask::Fetch => random.span_between(s(30), s(60)),
            Ask::Report => random.span_between(s(5), s(10)),
        }
    }

    pub fn next_deadline(&self, now: Mono) -> Option<Mono> {
        let due = |ask: Ask| {
            let wanted = match ask {
                Ask::Presence => self.info.is_some(),
                Ask::Watch => self.registered,
                Ask::Fetch => self.registered && !self.need.is_empty(),
                // Whoever has something to report asks `report_due`.
                Ask::Report => false,
            };
            let slot = &self.slots[ask as usize];
            slot.flight.map(|f| f.deadline).or((wanted && !self.list.is_empty()).then_some(slot.due))
        };
        let newer = self.newer.as_ref().map(|(at, _)| *at);
        ASKS.into_iter().filter_map(due).chain(newer).filter(|at| *at > now).min()
    }
}

/// Apart from when drivers were looked at.
fn says_the_same(held: &NodeInfo, info: &NodeInfo) -> bool {
    let mut info = info.clone();
    for (name, driver) in &mut info.drivers {
        driver.updated = held.drivers.get(name).map_or(driver.updated, |d| d.updated);
    }
    *held == info
}

/// How long after a failed heartbeat the next one comes. `left`: until the TTL runs out, below zero if it has; `None`
/// if none ever succeeded (client.md 2.5).
fn heartbeat_retry(left: Option<Span>, random: &mut Stream) -> Span {
    let s = Span::seconds;
    let range = match left {
        None => return random.span_between(s(15), s(30)),
        Some(left) if left < s(-30) => Span(left.0.saturating_neg()),
        Some(left) if left < Span::ZERO => return random.span_between(s(1), s(2)),
        Some(left) => left,
    };
    match random.span_below(range) {
        wait if wait < s(1) => random.span_between(s(1), s(2)),
        wait if wait > s(30) => random.span_between(s(25), s(30)),
        wait => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_heartbeat_is_retried_within_what_is_left() {
        let s = Span::seconds;
        for (left, low, high) in [
            (None, s(15), s(30)),
            (Some(s(9)), s(1), s(9)),
            (Some(Span::millis(1)), s(1), s(2)),
            (Some(s(-1)), s(1), s(2)),
            (Some(s(-30)), s(1), s(2)),
            (Some(s(-40)), s(1), s(30)),
            (Some(s(3000)), s(1), s(30)),
        ] {
            for seed in 0..200 {
                let wait = heartbeat_retry(left, &mut Stream::new(seed, 0));
                assert!(wait >= low && wait < high + s(1), "{left:?}: {wait}");
            }
        }
    }
}
