//! How a server comes to belong to a region. One with an empty disk says hello to whoever it can reach. If it hears of a region, it
//! asks to be added to it, and never begins another one. If it hears only of servers that are as empty, the lowest of them
//! begins a region with exactly as many as each of them expects, and tells the others, who begin the same (decision 0082).
//!
//! Refuses to know: links and addresses, and what a leader does with whoever asks. Invariants: only a server on whose disk nothing
//! was ever written begins a region, at most once; what is said of a region is said by a server that belongs to it.

use super::Server;
use super::context::Context;
use model::id::Uuid;
use model::member::{Founding, ServerInfo};
use model::time::{Mono, Span};
use state::fault::Fault;
use std::collections::{BTreeMap, BTreeSet};
use wire::change::Change;
use wire::frame::{self, Body, Frame};
use wire::rpc::Peer;
use wire::server_rpc::{Hello, ServerRequest};

/// How often a server that does not belong to a region as it should says so.
const ROUND: Span = Span::seconds(1);
/// A server that has not said hello for so long is absent.
const SEEN_FOR: Span = Span::seconds(5);
/// Connections to other servers that count.
const MAX_LINKS: usize = 64;

pub struct Joining {
    /// Nothing was ever written on this server's disk.
    pub may_found: bool,
    /// The region that this server wants to belong to, if its state is of none yet.
    joins: Option<Uuid>,
    /// The servers that told of that region.
    announced_by: Vec<u64>,
    links: BTreeSet<u64>,
    seen: BTreeMap<u64, Seen>,
    rounds: usize,
    next: Option<Mono>,
    /// The region has removed this server, for good.
    pub is_removed: bool,
}

/// An empty server that said hello.
struct Seen {
    info: ServerInfo,
    expect: u32,
    sees: Vec<u64>,
    at: Mono,
}

impl Joining {
    pub fn new(may_found: bool) -> Joining {
        Joining {
            may_found,
            joins: None,
            announced_by: vec![],
            links: BTreeSet::new(),
            seen: BTreeMap::new(),
            rounds: 0,
            next: Some(Mono::default()),
            is_removed: false,
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.next
    }

    /// Makes the next round due at once.
    fn schedule_now(&mut self) {
        self.next = Some(Mono::default());
    }

    fn link_up(&mut self, peer: u64) {
        if self.links.len() < MAX_LINKS {
            self.links.insert(peer);
        }
    }

    pub fn link_down(&mut self, peer: u64) {
        self.links.remove(&peer);
        self.seen.remove(&peer);
        self.announced_by.retain(|server| *server != peer);
    }

    /// Empty servers that expect as many, with this one, ascending.
    fn empty(&self, own: u64, expect: u32) -> Vec<u64> {
        let others = self.seen.iter().filter(|(_, seen)| seen.expect == expect).map(|(id, _)| *id);
        let all: BTreeSet<u64> = others.chain([own]).collect();
        all.into_iter().collect()
    }

    /// Whether a server that expects no others may begin a region: not while one that it is connected to has not said that it is
    /// empty, too. One that is to know others, and reaches none, may have lost the disk of a region's first server.
    fn may_begin_alone(&self, knows_others: bool) -> bool {
        let all_are_empty = self.links.iter().all(|link| self.seen.contains_key(link));
        all_are_empty && !(knows_others && self.links.is_empty())
    }

    /// The servers that begin the region, if this one is to start it: it has the lowest id of all that are there, and the lowest `expect`
    /// of them see each other.
    fn founders(&self, own: u64, expect: u32) -> Option<Vec<u64>> {
        let mut all = self.empty(own, expect);
        let wanted = expect as usize;
        if all.len() < wanted || all.first() != Some(&own) {
            return None;
        }
        all.truncate(wanted);
        let sees_all = |id: &u64| {
            *id == own || self.seen.get(id).is_some_and(|seen| all.iter().all(|a| seen.sees.contains(a)))
        };
        all.iter().all(sees_all).then_some(all)
    }
}

impl Server {
    /// The region that this server belongs to, or wants to; all zero: none.
    pub(super) fn region(&self) -> Uuid {
        self.members.region_id().or(self.joining.joins).unwrap_or_default()
    }

    pub(super) fn link_up(&mut self, peer: u64) {
        self.joining.link_up(peer);
        if self.members.founding.is_none() {
            self.joining.schedule_now();
        }
    }

    /// What is due until this server belongs to its region as it should.
    pub(super) fn join(&mut self, now: Mono) -> Result<(), Fault> {
        if self.joining.next.is_none_or(|next| next > now) {
            return Ok(());
        }
        self.joining.next = (!self.is_settled()).then(|| now.after(ROUND));
        self.joining.rounds = self.joining.rounds.wrapping_add(1);
        if self.joining.next.is_none() {
            return Ok(());
        }
        if self.region() != Uuid::default() {
            self.announce(now);
            // the servers that told of the region are gone: others may know it, too
            if self.members.founding.is_none() && self.joining.announced_by.is_empty() {
                self.say_hello(now);
            }
            return Ok(());
        }
        self.joining.seen.retain(|_, seen| now.since(seen.at) < SEEN_FOR);
        if let Some(founding) = self.may_begin(now) {
            self.found(&founding, now)?;
        }
        self.say_hello(now);
        Ok(())
    }

    /// The region lists this server as it is, or has removed it.
    fn is_settled(&self) -> bool {
        let listed = self.members.get(self.id()).is_some_and(|member| member.info == self.config.info);
        self.joining.is_removed || (listed && self.members.founding.is_some())
    }

    fn may_begin(&mut self, now: Mono) -> Option<Founding> {
        let (own, expect) = (self.id(), self.config.bootstrap_expect);
        if !self.joining.may_found || expect == 0 {
            return None;
        }
        if expect == 1 && !self.joining.may_begin_alone(self.config.knows_others) {
            return None;
        }
        let ids = self.joining.founders(own, expect)?;
        let info = |id: u64| match self.joining.seen.get(&id) {
            Some(seen) => seen.info.clone(),
            None => self.config.info.clone(),
        };
        let servers = ids.into_iter().map(|id| (id, info(id))).collect();
        let (region_id, scheduler) = (self.ids.uuid(), self.config.scheduler);
        Some(Founding { region_id, at: self.clock.at(now), servers, scheduler })
    }

    /// Begins the region, durably before anybody is told.
    fn found(&mut self, founding: &Founding, now: Mono) -> Result<(), Fault> {
        self.replica.found(founding)?;
        let servers: Vec<u64> = founding.ids().collect();
        tracing::info!(target: "nomad", region_id = %founding.region_id, ?servers, "a region begins");
        self.joining.may_found = false;
        self.changes.extend(servers.into_iter().map(|id| Change::Member { id }));
        self.members_changed(now)
    }

    /// Reads the list of servers from the state again.
    pub(super) fn members_changed(&mut self, now: Mono) -> Result<(), Fault> {
        self.members = super::members::MemberList::read(&self.replica.reader().view()?)?;
        if self.members.is_removed(self.id()) {
            self.removed();
        }
        if !self.is_settled() {
            self.joining.next = Some(now);
        }
        Ok(())
    }

    /// The region does without this server from now on.
    pub(super) fn removed(&mut self) {
        if !self.joining.is_removed {
            tracing::error!(
                target: "nomad",
                "this server was removed from its region and takes no part in it any more: to let this machine join \
                 again, start it with an empty data directory"
            );
        }
        self.joining.is_removed = true;
        self.replica.retire();
    }

    /// Announces this server to the leader, or to a server that may know it.
    fn announce(&mut self, now: Mono) {
        let (id, info) = (self.id(), self.config.info.clone());
        if let Some(leader) = &mut self.leader {
            return leader.membership.announce(id, info, now);
        }
        let rounds = self.joining.rounds;
        let announced_by = &self.joining.announced_by;
        let any = (!announced_by.is_empty()).then(|| announced_by[rounds % announced_by.len()]);
        // a leader that is gone is not the only one to be asked
        let to = self.other_leader().filter(|_| any.is_none() || rounds.is_multiple_of(2)).or(any);
        if let Some(to) = to {
            let (_, mut cx) = self.split(now);
            say(to, ServerRequest::Announce { id, info: Box::new(info) }, &mut cx);
        }
    }

    fn say_hello(&mut self, now: Mono) {
        let hello = self.own_hello();
        let links = self.joining.links.clone();
        let (_, mut cx) = self.split(now);
        for peer in links {
            say(peer, ServerRequest::Hello(Box::new(hello.clone())), &mut cx);
        }
    }

    fn own_hello(&self) -> Hello {
        let expect = if self.joining.may_found { self.config.bootstrap_expect } else { 0 };
        Hello {
            info: self.config.info.clone(),
            expect,
            sees: self.joining.empty(self.id(), expect),
            founding: self.members.founding.clone(),
        }
    }

    pub(super) fn hello(&mut self, from: u64, said: Hello, now: Mono) -> Result<(), Fault> {
        match (self.members.founding.is_some(), said.founding) {
            (true, Some(_)) => {}
            (true, None) => {
                let hello = self.own_hello();
                let (_, mut cx) = self.split(now);
                say(from, ServerRequest::Hello(Box::new(hello)), &mut cx);
            }
            (false, Some(founding)) if founding.is_sound() => {
                return self.told_of_region(from, founding, now);
            }
            (false, Some(_)) => tracing::warn!(from, "a server tells of a region that cannot be"),
            (false, None) => {
                self.joining.link_up(from);
                let seen = Seen { info: said.info, expect: said.expect, sees: said.sees, at: now };
                let is_known = self.joining.seen.contains_key(&from);
                if seen.info.is_bounded()
                    && seen.sees.len() <= MAX_LINKS
                    && self.joining.links.contains(&from)
                {
                    self.joining.seen.insert(from, seen);
                }
                if !is_known {
                    self.joining.schedule_now();
                }
            }
        }
        Ok(())
    }

    /// The first region that is heard of is this server's.
    fn told_of_region(&mut self, from: u64, founding: Founding, now: Mono) -> Result<(), Fault> {
        let region = *self.joining.joins.get_or_insert(founding.region_id);
        if region != founding.region_id {
            tracing::warn!(
                from,
                "there are two regions, {region} and {}: this server joins the first; stop the servers of one of them, and \
                 start them with empty data directories",
                founding.region_id
            );
            return Ok(());
        }
        if !self.joining.announced_by.contains(&from) && self.joining.announced_by.len() < MAX_LINKS {
            self.joining.announced_by.push(from);
        }
        if self.joining.may_found && founding.ids().any(|id| id == self.id()) {
            return self.found(&founding, now);
        }
        self.joining.schedule_now();
        Ok(())
    }
}

pub fn say(to: u64, what: ServerRequest, cx: &mut Context<'_>) {
    let bytes = frame::encode(&Frame { request: 0, body: Body::ServerRequest(what) });
    cx.send(Peer::Server(to), bytes);
}

#[cfg(test)]
pub mod tests;
