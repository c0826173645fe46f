//! Whom a server dials, and when: the addresses of its configuration, and those that the region lists. Each again until the servers that
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
/// Nobody is reached for so long: the log says so.
const SILENCE: Span = Span::seconds(15);
/// And again after so long.
const REPEATED: Span = Span::minutes(5);

/// What came of dialing one target.
#[derive(Debug)]
pub struct Outcome {
    pub target: JoinAddress,
    /// Why the name has no address.
    pub unresolved: Option<String>,
    /// Of each address that was dialed.
    pub found: Vec<(SocketAddr, Result<Peer, LinkEnd>)>,
}

/// What to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub target: JoinAddress,
    /// Addresses that need no dialing.
    pub leave_out: BTreeSet<SocketAddr>,
}

#[derive(Debug)]
struct Target {
    source: Source,
    due: Option<Mono>,
    is_under_way: bool,
    /// In a row.
    failures: u32,
    attempts: u32,
    last_failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Retried,
    Once,
    /// The region lists the server of this id there.
    Member(u64),
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
        for (addresses, source) in [(&join.retry_join, Source::Retried), (&join.start_join, Source::Once)] {
            addresses.iter().for_each(|address| dialer.add(address, source, now));
        }
        dialer
    }

    /// Where the agent itself listens.
    pub fn is_own(&mut self, address: SocketAddr) {
        self.own_addresses.insert(address);
    }

    fn add(&mut self, address: &JoinAddress, source: Source, now: Mono) {
        let target = Target {
            source,
            due: Some(now),
            is_under_way: false,
            failures: 0,
            attempts: 0,
            last_failure: None,
        };
        self.targets.entry(address.to_string()).or_insert_with(|| (address.clone(), target));
    }

    /// The servers that the region lists now.
    pub fn learn(&mut self, members: &[ServerMember], now: Mono) {
        let others = members.iter().filter(|member| member.id != self.own);
        let listed: BTreeMap<String, (JoinAddress, u64)> = others
            .filter_map(|member| JoinAddress::parse(&member.info.rpc_addr).ok().map(|at| (at, member.id)))
            .map(|(at, id)| (at.to_string(), (at, id)))
            .collect();
        self.targets.retain(|name, (_, target)| match target.source {
            Source::Member(id) => listed.get(name).is_some_and(|(_, now)| *now == id),
            Source::Retried | Source::Once => true,
        });
        for (address, id) in listed.values() {
            self.add(address, Source::Member(*id), now);
        }
    }

    /// What is to be dialed now.
    pub fn due(&mut self, table: &LinkTable, now: Mono) -> Vec<Attempt> {
        let mut room =
            MAX_ATTEMPTS.saturating_sub(self.targets.values().filter(|t| t.1.is_under_way).count());
        let linked = self.at.iter().filter(|(_, id)| table.is_linked(**id)).map(|(address, _)| *address);
        let leave_out: BTreeSet<SocketAddr> = linked.chain(self.own_addresses.iter().copied()).collect();
        let mut attempts = vec![];
        for (address, target) in self.targets.values_mut() {
            let is_needed = match target.source {
                Source::Member(id) => !table.is_linked(id),
                Source::Retried | Source::Once => true,
            };
            if room > 0 && is_needed && !target.is_under_way && target.due.is_some_and(|due| due <= now) {
                room -= 1;
                target.is_under_way = true;
                attempts.push(Attempt { target: address.clone(), leave_out: leave_out.clone() });
            }
        }
        attempts
    }

    /// When something is due next, at the latest.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.targets.values().filter(|t| !t.1.is_under_way).filter_map(|t| t.1.due).min()
    }

    /// Notes what came of an attempt. Returns the reason why it failed, if that is another one than the last time.
    pub fn done(&mut self, outcome: &Outcome, now: Mono) -> Option<String> {
        for (address, found) in &outcome.found {
            self.note(*address, found);
        }
        let failure = outcome.unresolved.clone().or_else(|| failure(&outcome.found));
        let passes = outcome.found.iter().filter_map(|(_, found)| found.as_ref().err()).any(passes);
        let jitter = self.draws.below(1000);
        let retry_interval = self.retry_interval;
        let (_, target) = self.targets.get_mut(&outcome.target.to_string())?;
        (target.is_under_way, target.attempts) = (false, target.attempts.saturating_add(1));
        target.failures = if failure.is_some() { target.failures.saturating_add(1) } else { 0 };
        let wait = match target.source {
            Source::Member(_) => backoff(target.failures),
            _ if passes => backoff(target.failures),
            Source::Retried | Source::Once => retry_interval.max(FIRST_RETRY),
        };
        let is_over = target.source == Source::Once && !passes;
        target.due = (!is_over).then(|| now.after(jittered(wait, jitter)));
        let is_news = failure.is_some() && failure != target.last_failure;
        target.last_failure.clone_from(&failure);
        failure.filter(|_| is_news)
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
        let mut retried = self.targets.values().filter(|t| t.1.source == Source::Retried).peekable();
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
fn passes(end: &LinkEnd) -> bool {
    let passing = [LinkRefusal::SameId, LinkRefusal::Busy, LinkRefusal::Stopping, LinkRefusal::AlreadyLinked];
    end.refusal().is_some_and(|refusal| passing.contains(&refusal))
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
