//! What a server dials, and when: the addresses of its configuration, and those that the region lists. Each again until the servers that
//! are there are linked; never its own.
//!
//! Refuses to know: sockets and names' resolution. Invariants: an address has one attempt under way; attempts under way are
//! bounded; what fails is tried again later and later, and never at the same moment as all others.

use super::super::config::joining::{JoinAddress, ServerJoin};
use super::link_table::LinkTable;
use ::io::quic::LinkEnd;
use model::member::ServerMember;
use model::random::Stream;
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::credential::LinkRefusal;
use wire::rpc::Peer;

/// Attempts under way at the same time.
pub const MAX_ATTEMPTS: usize = 8;
/// Addresses that are kept in mind: beyond, what is known of all of them is found out again.
const MAX_KNOWN: usize = 256;
const FIRST_RETRY: Span = Span::seconds(1);
/// How long apart attempts to reach a server of the region become.
const LAST_RETRY: Span = Span::seconds(15);
/// A refusal that passes by itself is told when it has come so often in a row: a restarted server's first attempts meet what is left of
/// its last life.
const TOLD_FROM: u32 = 4;
/// A link that ends sooner was none.
const SHORT_LINK: Span = Span::seconds(10);
/// Nobody is reached for so long: the log says so.
const SILENCE: Span = Span::seconds(15);
/// And again after so long.
const REPEATED: Span = Span::minutes(5);

/// What came of dialing one target.
#[derive(Debug)]
pub struct DialOutcome {
    pub target: JoinAddress,
    /// Why the name has no address.
    pub unresolved: Option<String>,
    /// What each address that was dialed has given.
    pub found: Vec<(SocketAddr, Result<Peer, LinkEnd>)>,
}

/// What to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialAttempt {
    pub target: JoinAddress,
    /// Addresses that need no dialing.
    pub leave_out: BTreeSet<SocketAddr>,
}

#[derive(Debug, Default)]
struct Target {
    configured: Option<Configured>,
    /// The region lists the server of this id there.
    member: Option<u64>,
    due: Option<Mono>,
    is_under_way: bool,
    /// In a row, with links that ended soon.
    failures: u32,
    attempts: u32,
    /// The servers that were found there last.
    reached: Vec<u64>,
    last_failure: Option<String>,
    /// The reason that the log has of it.
    told: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Configured {
    Retried,
    Once,
}

impl Target {
    /// Whether somebody may be found there who is not linked.
    fn is_needed(&self, table: &LinkTable) -> bool {
        let all_linked = self.reached.iter().all(|id| table.is_linked(*id));
        let is_settled = self.last_failure.is_none() && !self.reached.is_empty() && all_linked;
        match (self.configured, self.member) {
            (None, Some(id)) => !table.is_linked(id),
            _ => !is_settled,
        }
    }

    fn next_due(&self, table: &LinkTable) -> Option<Mono> {
        self.due.filter(|_| !self.is_under_way && self.is_needed(table))
    }

    /// The reason, if the log is to have it: not again, and not what passes by itself in a moment.
    fn tell(&mut self, passes: bool) -> Option<String> {
        let is_news = self.last_failure.is_some() && self.last_failure != self.told;
        if !is_news || passes && self.failures < TOLD_FROM {
            return None;
        }
        self.told.clone_from(&self.last_failure);
        self.told.clone()
    }
}

pub struct Dialer {
    own: u64,
    retry_max: u32,
    retry_interval: Span,
    targets: BTreeMap<String, (JoinAddress, Target)>,
    /// Who was found at an address.
    at: BTreeMap<SocketAddr, u64>,
    own_addresses: BTreeSet<SocketAddr>,
    draws: Stream,
    /// When the log says next that nobody is reached.
    complains: Mono,
}

impl Dialer {
    pub fn new(own: u64, join: &ServerJoin, seed: u64, now: Mono) -> Dialer {
        let mut dialer = Dialer {
            own,
            retry_max: join.retry_max,
            retry_interval: join.retry_interval,
            targets: BTreeMap::new(),
            at: BTreeMap::new(),
            own_addresses: BTreeSet::new(),
            draws: Stream::new(seed, 151),
            complains: now.after(SILENCE),
        };
        for (addresses, configured) in
            [(&join.retry_join, Configured::Retried), (&join.start_join, Configured::Once)]
        {
            for address in addresses {
                let target = Target { configured: Some(configured), due: Some(now), ..Target::default() };
                dialer.targets.entry(address.to_string()).or_insert_with(|| (address.clone(), target));
            }
        }
        dialer
    }

    /// Where the agent itself listens.
    pub fn is_own(&mut self, address: SocketAddr) {
        self.own_addresses.insert(address);
    }

    /// The servers that the region lists now.
    pub fn learn(&mut self, members: &[ServerMember], now: Mono) {
        let others = members.iter().filter(|member| member.id != self.own);
        let listed: BTreeMap<String, (JoinAddress, u64)> = others
            .filter_map(|member| JoinAddress::parse(&member.info.rpc_addr).ok().map(|at| (at, member.id)))
            .map(|(at, id)| (at.to_string(), (at, id)))
            .collect();
        for (name, (_, target)) in &mut self.targets {
            target.member = listed.get(name).map(|(_, id)| *id);
        }
        self.targets.retain(|_, (_, target)| target.configured.is_some() || target.member.is_some());
        for (name, (address, id)) in listed {
            let (_, target) = self.targets.entry(name).or_insert_with(|| (address, Target::default()));
            target.member = Some(id);
            target.due = target.due.or(Some(now).filter(|_| !target.is_under_way));
        }
    }

    /// What is to be dialed now.
    pub fn due(&mut self, table: &LinkTable, now: Mono) -> Vec<DialAttempt> {
        let mut room =
            MAX_ATTEMPTS.saturating_sub(self.targets.values().filter(|t| t.1.is_under_way).count());
        let linked = self.at.iter().filter(|(_, id)| table.is_linked(**id)).map(|(address, _)| *address);
        let leave_out: BTreeSet<SocketAddr> = linked.chain(self.own_addresses.iter().copied()).collect();
        let mut attempts = vec![];
        for (address, target) in self.targets.values_mut() {
            if room > 0 && target.next_due(table).is_some_and(|due| due <= now) {
                room -= 1;
                target.is_under_way = true;
                attempts.push(DialAttempt { target: address.clone(), leave_out: leave_out.clone() });
            }
        }
        attempts
    }

    /// When something is due next.
    pub fn next_deadline(&self, table: &LinkTable) -> Option<Mono> {
        self.targets.values().filter_map(|(_, target)| target.next_due(table)).min()
    }

    /// Notes what came of an attempt. Returns the reason why it failed, if the log is to have it.
    pub fn done(&mut self, outcome: &DialOutcome, now: Mono) -> Option<String> {
        for (address, found) in &outcome.found {
            self.note(*address, found);
        }
        let failure = outcome.unresolved.clone().or_else(|| failure(&outcome.found));
        let refusals = outcome.found.iter().filter_map(|(_, found)| found.as_ref().err());
        let passes = refusals.filter_map(LinkEnd::refusal).any(passes);
        let jitter = self.draws.below(1000);
        let retry_interval = self.retry_interval.max(FIRST_RETRY);
        let (_, target) = self.targets.get_mut(&outcome.target.to_string())?;
        (target.is_under_way, target.attempts) = (false, target.attempts.saturating_add(1));
        target.failures = target.failures.saturating_add(u32::from(failure.is_some()));
        let soon = passes || target.member.is_some();
        let wait = if soon { backoff(target.failures) } else { retry_interval };
        let is_over = target.configured == Some(Configured::Once) && !soon;
        target.due = (!is_over).then(|| now.after(jittered(wait, jitter)));
        let server = |(_, found): &(SocketAddr, Result<Peer, LinkEnd>)| match found {
            Ok(Peer::Server(id)) => Some(*id),
            _ => None,
        };
        if outcome.found.iter().any(|(_, found)| found.is_ok()) {
            target.reached = outcome.found.iter().filter_map(server).collect();
        }
        target.last_failure = failure;
        target.tell(passes)
    }

    /// The last link to a server has ended, `lived` after it came up: the server is dialed again soon. Returns the reason, if the log is to
    /// have it as one that does not pass.
    pub fn lost(&mut self, server: u64, lived: Span, why: &LinkEnd, now: Mono) -> Option<String> {
        let jitter = self.draws.below(1000);
        let passes = why.refusal().is_some_and(passes);
        let mut told = None;
        for (_, target) in self.targets.values_mut() {
            let was_there = target.reached.contains(&server) || target.member == Some(server);
            if !was_there || target.is_under_way {
                continue;
            }
            if lived >= SHORT_LINK {
                (target.failures, target.told) = (0, None);
            }
            target.failures = target.failures.saturating_add(1);
            target.due = Some(now.after(jittered(backoff(target.failures), jitter)));
            target.last_failure = Some(why.to_string());
            told = target.tell(passes).or(told);
        }
        told
    }

    fn note(&mut self, address: SocketAddr, found: &Result<Peer, LinkEnd>) {
        if self.at.len() + self.own_addresses.len() >= MAX_KNOWN {
            self.at.clear();
            self.own_addresses.clear();
        }
        match found {
            Ok(Peer::Server(id)) => {
                self.at.insert(address, *id);
            }
            Err(end) if end.refusal() == Some(LinkRefusal::SameProcess) => self.is_own(address),
            Ok(Peer::Node(_)) | Err(_) => {
                self.at.remove(&address);
            }
        }
    }

    /// Why a server that is of no region yet gives up: it has tried as often as it may.
    pub fn gives_up(&self) -> Option<String> {
        let mut retried =
            self.targets.values().filter(|t| t.1.configured == Some(Configured::Retried)).peekable();
        retried.peek()?;
        let is_over = self.retry_max > 0 && retried.all(|t| t.1.attempts >= self.retry_max);
        is_over.then(|| {
            format!(
                "no server was reached in {} attempts (server_join.retry_max), and this one is of no region yet: {}. Check the \
                 addresses in server_join.retry_join, or allow more attempts",
                self.retry_max,
                self.troubles()
            )
        })
    }

    /// What the log is to say of a server that reaches nobody.
    pub fn complaint(&mut self, table: &LinkTable, now: Mono) -> Option<String> {
        if !table.is_empty() {
            self.complains = now.after(SILENCE);
            return None;
        }
        if self.targets.is_empty() || now < self.complains {
            return None;
        }
        self.complains = now.after(REPEATED);
        Some(self.troubles())
    }

    fn troubles(&self) -> String {
        let trouble = |(address, target): &(JoinAddress, Target)| {
            format!("{address} ({})", target.last_failure.as_deref().unwrap_or("no answer yet"))
        };
        self.targets.values().map(trouble).collect::<Vec<_>>().join(", ")
    }
}

/// The server is there, and is expected to let this one in soon.
fn passes(refusal: LinkRefusal) -> bool {
    use LinkRefusal::{AlreadyLinked, Busy, SameId, Stopping};
    matches!(refusal, AlreadyLinked | Busy | SameId | Stopping)
}

/// Why none, or not all, of a name's addresses gave a link. An address of the agent's own is no failure.
fn failure(found: &[(SocketAddr, Result<Peer, LinkEnd>)]) -> Option<String> {
    let is_fine =
        |end: &LinkEnd| matches!(end.refusal(), Some(LinkRefusal::SameProcess | LinkRefusal::AlreadyLinked));
    let failed = |(address, found): &(SocketAddr, Result<Peer, LinkEnd>)| {
        found.as_ref().err().filter(|end| !is_fine(end)).map(|end| format!("{address}: {end}"))
    };
    found.iter().find_map(failed)
}

fn backoff(failures: u32) -> Span {
    Span(FIRST_RETRY.0 << failures.saturating_sub(1).min(4)).min(LAST_RETRY)
}

/// Up to a quarter longer. `thousandths`: how much of that quarter.
fn jittered(wait: Span, thousandths: u64) -> Span {
    Span(wait.0 + wait.0 / 4000 * i64::try_from(thousandths).unwrap_or(0))
}

#[cfg(test)]
#[path = "dialer_tests.rs"]
mod tests;
