//! Which server a node dials, when, and for how long: first the one that it asks now, then every other address that it knows.
//!
//! Refuses to know: sockets and names' resolution. Invariants: an address has one attempt under way, and attempts under way are bounded;
//! what fails is tried again later and later, and never at the same moment as all other nodes.

use super::super::config::joining::{JoinAddress, ServerJoin};
use super::DialOutcome;
use model::member::ServerAddress;
use model::random::Stream;
use model::time::{Mono, Span};
use std::collections::BTreeMap;

/// Attempts under way at the same time.
pub const MAX_ATTEMPTS: usize = 3;
/// Between the attempts of the first round.
const NEXT_ADDRESS: Span = Span::millis(200);
/// An attempt that has no end after so long does not keep the next address waiting.
const NEXT_MEANWHILE: Span = Span::seconds(1);
/// How long an attempt may take, in turn: a server that has just come up is met by a new attempt, for packets are repeated more and
/// more seldom; and a line of 1.2 s that loses a fifth gets its time, too.
const PATIENCE: [Span; 3] = [Span::seconds(4), Span::seconds(8), Span::seconds(20)];
const FIRST_RETRY: Span = Span::seconds(1);
const LAST_RETRY: Span = Span::seconds(15);
/// After a lost link, all nodes of the server that is gone dial within this time.
const SPREAD: Span = Span::seconds(1);
/// A link that ends sooner was none.
const SHORT_LINK: Span = Span::seconds(10);
/// No server is reached for so long: the log says so, and again after `REPEATED`.
const SILENCE: Span = Span::seconds(15);
const REPEATED: Span = Span::minutes(5);

/// What to dial, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAttempt {
    pub address: JoinAddress,
    pub patience: Span,
}

pub struct NodeDialer {
    configured: Vec<JoinAddress>,
    listed: Vec<(u64, JoinAddress)>,
    retry_max: u32,
    last_retry: Span,
    /// The server that the node asks now.
    wanted: Option<u64>,
    under_way: Vec<JoinAddress>,
    due: Mono,
    /// The next of the candidates.
    at: usize,
    /// In a row.
    failures: u32,
    /// In a row.
    short_links: u32,
    was_linked: bool,
    troubles: BTreeMap<String, String>,
    complains: Mono,
    draws: Stream,
}

impl NodeDialer {
    pub fn new(join: &ServerJoin, seed: u64, now: Mono) -> NodeDialer {
        let mut draws = Stream::new(seed, 152);
        let mut configured: Vec<JoinAddress> = vec![];
        for address in join.addresses() {
            if !configured.contains(address) {
                configured.push(address.clone());
            }
        }
        // so that not all nodes of a fleet begin with the same server
        for last in (1..configured.len()).rev() {
            configured.swap(last, draws.below(last as u64 + 1) as usize);
        }
        NodeDialer {
            configured,
            listed: vec![],
            retry_max: join.retry_max,
            last_retry: LAST_RETRY.min(join.retry_interval.max(FIRST_RETRY)),
            wanted: None,
            under_way: vec![],
            due: now,
            at: 0,
            failures: 0,
            short_links: 0,
            was_linked: false,
            troubles: BTreeMap::new(),
            complains: now.after(SILENCE),
            draws,
        }
    }

    /// The servers that the region lists, as the node knows them.
    pub fn learn(&mut self, servers: &[ServerAddress]) {
        let known = servers.iter();
        self.listed = known
            .filter_map(|server| Some((server.id, JoinAddress::parse(&server.rpc_addr).ok()?)))
            .collect();
    }

    /// The server that the node asks from now on.
    pub fn wants(&mut self, server: Option<u64>) {
        if self.wanted != server {
            (self.wanted, self.at) = (server, 0);
        }
    }

    /// The next address to dial, if it is time. Only to be asked while the wanted server is not linked.
    pub fn next(&mut self, is_linked: impl Fn(u64) -> bool, now: Mono) -> Option<NodeAttempt> {
        if self.under_way.len() >= MAX_ATTEMPTS || now < self.due {
            return None;
        }
        let candidates = self.candidates(is_linked);
        let known = candidates.len();
        let mut in_turn = (0..known).map(|n| &candidates[(self.at + n) % known]);
        let address = in_turn.find(|address| !self.under_way.contains(address))?.clone();
        self.at += 1;
        self.under_way.push(address.clone());
        self.due = now.after(NEXT_MEANWHILE);
        let patience = PATIENCE[self.rounds() as usize % PATIENCE.len()];
        Some(NodeAttempt { address, patience })
    }

    /// When the next attempt is due. `None`: as many as there may be are under way.
    pub fn next_deadline(&self) -> Option<Mono> {
        let known = self.candidates(|_| false).len();
        (self.under_way.len() < MAX_ATTEMPTS.min(known)).then_some(self.due)
    }

    /// How often all addresses have failed in a row.
    fn rounds(&self) -> u32 {
        self.failures / u32::try_from(self.candidates(|_| false).len()).unwrap_or(u32::MAX).max(1)
    }

    /// The wanted server's address first; those of servers that are linked already lead nowhere new.
    fn candidates(&self, is_linked: impl Fn(u64) -> bool) -> Vec<JoinAddress> {
        let (first, others): (Vec<_>, Vec<_>) = self
            .listed
            .iter()
            .filter(|(id, _)| !is_linked(*id))
            .partition(|(id, _)| Some(*id) == self.wanted);
        let listed = first.into_iter().chain(others).map(|(_, address)| address);
        let mut candidates: Vec<JoinAddress> = vec![];
        for address in listed.chain(&self.configured) {
            if !candidates.contains(address) {
                candidates.push(address.clone());
            }
        }
        candidates
    }

    pub fn done(&mut self, outcome: &DialOutcome, now: Mono) {
        self.under_way.retain(|address| *address != outcome.target);
        let address = outcome.target.to_string();
        if outcome.found.iter().any(|(_, found)| found.is_ok()) {
            (self.failures, self.at, self.was_linked) = (0, 0, true);
            self.troubles.clear();
            // if it turns out to be none that the node asks
            self.due = now.after(FIRST_RETRY);
            return;
        }
        let ends =
            outcome.found.iter().filter_map(|(at, found)| Some(format!("{at}: {}", found.as_ref().err()?)));
        let why = outcome.unresolved.clone().into_iter().chain(ends).collect::<Vec<_>>().join("; ");
        if self.troubles.len() >= self.configured.len() + self.listed.len() {
            self.troubles.clear();
        }
        self.troubles.insert(address, why);
        self.failures = self.failures.saturating_add(1);
        let wait = match self.rounds() {
            0 => NEXT_ADDRESS,
            rounds => Span(FIRST_RETRY.0 << (rounds - 1).min(4)).min(self.last_retry),
        };
        let due = now.after(wait + self.draws.span_below(Span(wait.0 / 4)));
        // while others are under way, the next one waits for them or for its time
        self.due = if self.under_way.is_empty() { due } else { due.max(self.due) };
    }

    /// A link has ended, `lived` after it came up: the node looks for a server soon, and later and later if links end as soon as they are there.
    pub fn lost(&mut self, lived: Span, now: Mono) {
        self.short_links = if lived < SHORT_LINK { self.short_links.saturating_add(1) } else { 0 };
        let pause = match self.short_links {
            0 => Span::ZERO,
            links => Span(FIRST_RETRY.0 << (links - 1).min(4)).min(self.last_retry),
        };
        self.due = now.after(pause + self.draws.span_below(SPREAD));
    }

    /// Why a node that has never been part of a region gives up: it has tried as often as it may.
    pub fn gives_up(&self) -> Option<String> {
        let all = self.retry_max.saturating_mul(u32::try_from(self.configured.len()).unwrap_or(u32::MAX));
        let is_over = self.listed.is_empty() && !self.was_linked && self.failures >= all;
        (is_over && all > 0).then(|| {
            format!(
                "no server was reached in {} attempts (server_join.retry_max): {}. Check the addresses in client.server_join.retry_join, \
                 or allow more attempts",
                self.retry_max,
                self.troubles()
            )
        })
    }

    /// What the log is to say of a node that reaches no server. Only to be asked while none is linked.
    pub fn complaint(&mut self, now: Mono) -> Option<String> {
        if now < self.complains {
            return None;
        }
        self.complains = now.after(REPEATED);
        Some(self.troubles())
    }

    /// A server is linked: the next silence begins anew.
    pub fn is_content(&mut self, now: Mono) {
        self.complains = now.after(SILENCE);
    }

    fn troubles(&self) -> String {
        if self.configured.is_empty() && self.listed.is_empty() {
            return "no server is named: say client { server_join { retry_join = [\"...\"] } }".to_string();
        }
        let told: Vec<String> =
            self.troubles.iter().map(|(address, why)| format!("{address} ({why})")).collect();
        if told.is_empty() { "no answer yet".to_string() } else { told.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::io::quic::LinkEnd;
    use wire::rpc::Peer;

    const T0: Mono = Mono(1_000_000_000);

    fn dialer(addresses: &[&str], retry_max: u32) -> NodeDialer {
        let mut join = ServerJoin { retry_max, retry_interval: Span::seconds(30), ..ServerJoin::default() };
        addresses.iter().for_each(|at| join.add_retry_join(at).expect("an address"));
        NodeDialer::new(&join, 7, T0)
    }

    fn listed(ids: &[u64]) -> Vec<ServerAddress> {
        ids.iter().map(|id| ServerAddress { id: *id, rpc_addr: format!("10.0.0.{id}:4647") }).collect()
    }

    fn outcome(target: JoinAddress, found: Result<Peer, LinkEnd>) -> DialOutcome {
        let at = format!("{target}").parse().expect("an address");
        DialOutcome { target, unresolved: None, found: vec![(at, found)] }
    }

    fn fails(dialer: &mut NodeDialer, now: &mut Mono) -> String {
        let due = dialer.next_deadline().expect("none is under way");
        *now = due.max(*now);
        let NodeAttempt { address, .. } = dialer.next(|_| false, *now).expect("it is due");
        assert_eq!(dialer.next(|_| false, *now), None, "the next one has its time");
        let name = address.to_string();
        dialer.done(&outcome(address, Err(LinkEnd::TimedOut)), *now);
        name
    }

    #[test]
    fn every_address_is_tried_and_then_later_and_later() {
        let mut dialer = dialer(&["10.0.0.1", "10.0.0.2"], 0);
        dialer.learn(&listed(&[2, 3]));
        let (mut now, mut tried) = (T0, vec![]);
        (0..3).for_each(|_| tried.push(fails(&mut dialer, &mut now)));
        tried.sort();
        assert_eq!(tried, ["10.0.0.1:4647", "10.0.0.2:4647", "10.0.0.3:4647"]);
        assert!(now.since(T0) < Span::seconds(1));
        let mut pauses = vec![];
        for _ in 0..30 {
            let before = now;
            fails(&mut dialer, &mut now);
            pauses.push(now.since(before));
        }
        assert!(pauses.iter().all(|pause| *pause <= Span::seconds(19)), "{pauses:?}");
        assert!(pauses.last().is_some_and(|pause| *pause >= Span::seconds(15)));
    }

    #[test]
    fn the_server_that_the_node_asks_is_dialed_first() {
        let mut dialer = dialer(&["10.0.0.1"], 0);
        dialer.learn(&listed(&[2, 3]));
        dialer.wants(Some(3));
        let mut now = T0;
        assert_eq!(fails(&mut dialer, &mut now), "10.0.0.3:4647");
        dialer.wants(Some(2));
        assert_eq!(fails(&mut dialer, &mut now), "10.0.0.2:4647");
        dialer.wants(Some(3));
        now = dialer.next_deadline().expect("none is under way");
        let target = dialer.next(|id| id == 3, now).expect("it is due").address;
        assert_ne!(target.to_string(), "10.0.0.3:4647", "it is linked");
        dialer.done(&outcome(target, Ok(Peer::Server(2))), now);
        dialer.lost(SHORT_LINK, now);
        assert!(dialer.next_deadline().is_some_and(|due| due.since(now) <= SPREAD));
    }

    /// Two agents with one identity take the link from each other, but seldom.
    #[test]
    fn links_that_end_at_once_are_made_less_and_less_often() {
        let mut dialer = dialer(&["10.0.0.1"], 0);
        let mut pauses = vec![];
        for _ in 0..6 {
            dialer.lost(Span::millis(300), T0);
            pauses.push(dialer.next_deadline().expect("none is under way").since(T0).0 / 1_000_000_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15]);
        dialer.lost(Span::minutes(1), T0);
        assert!(dialer.next_deadline().is_some_and(|due| due.since(T0) <= SPREAD), "it was a real one");
    }

    /// One of three machines may be gone without a word: dialing it takes its time.
    #[test]
    fn addresses_without_a_word_keep_no_other_waiting() {
        let mut dialer = dialer(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], 0);
        let mut begun = vec![];
        for second in 0..3 {
            let now = T0.after(Span::seconds(second));
            assert!(dialer.next_deadline().is_some_and(|due| due <= now));
            begun.push(dialer.next(|_| false, now).expect("it is due"));
        }
        let later = T0.after(Span::seconds(9));
        assert_eq!((dialer.next_deadline(), dialer.next(|_| false, later)), (None, None), "a few at a time");
        let names: BTreeMap<String, Span> =
            begun.iter().map(|attempt| (attempt.address.to_string(), attempt.patience)).collect();
        assert_eq!(names.len(), 3, "an address has one attempt");
        assert!(names.values().all(|patience| *patience == PATIENCE[0]));
        let found = outcome(begun[0].address.clone(), Err(LinkEnd::TimedOut));
        dialer.done(&found, later);
        assert!(dialer.next_deadline().is_some());
    }

    #[test]
    fn a_new_node_gives_up_after_retry_max_and_an_old_one_never() {
        let mut new = dialer(&["10.0.0.1", "10.0.0.2"], 2);
        let mut now = T0;
        (0..3).for_each(|_| drop(fails(&mut new, &mut now)));
        assert_eq!(new.gives_up(), None);
        fails(&mut new, &mut now);
        assert!(new.gives_up().is_some_and(|why| why.contains("10.0.0.2:4647")));
        new.learn(&listed(&[3]));
        assert_eq!(new.gives_up(), None, "the region lists servers");
        let mut forever = dialer(&["10.0.0.1"], 0);
        (0..50).for_each(|_| drop(fails(&mut forever, &mut now)));
        assert_eq!(forever.gives_up(), None);
    }

    #[test]
    fn silence_is_told_once_in_a_while() {
        let mut dialer = dialer(&["10.0.0.1"], 0);
        let mut now = T0;
        fails(&mut dialer, &mut now);
        assert_eq!(dialer.complaint(T0.after(Span::seconds(14))), None);
        let told = dialer.complaint(T0.after(SILENCE));
        assert!(told.is_some_and(|told| told.contains("nothing was heard")));
        assert_eq!(dialer.complaint(T0.after(Span::minutes(4))), None);
        assert!(dialer.complaint(T0.after(Span::minutes(6))).is_some());
        dialer.is_content(T0.after(Span::minutes(20)));
        assert_eq!(dialer.complaint(T0.after(Span::minutes(20))), None);
        assert!(super::NodeDialer::new(&ServerJoin::default(), 1, T0).troubles().contains("retry_join"));
    }
}
