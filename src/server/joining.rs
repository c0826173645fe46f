//! How a server comes to belong to a region. One with an empty disk says hello to whoever it can reach. If it hears of a region, it
//! asks to be added to it, and never begins another one. If it hears only of servers that are as empty, the lowest of them
//! begins a region with exactly as many as each of them expects, and tells the others, who begin the same (decision 0082).
//!
//! Refuses to know: links and addresses, and what a leader does with whoever asks. Invariants: only a server on whose disk nothing
//! was ever written begins a region, at most once; what is said of a region is said by a server that belongs to it.

use super::context::Context;
use super::effects::Effect;
use super::members::MemberList;
use super::membership::{Membership, notify_removed};
use super::replica::Replica;
use model::id::Uuid;
use model::member::{Founding, MAX_SERVER_ID, ServerInfo};
use model::time::{Mono, Span};
use state::fault::Fault;
use std::collections::{BTreeMap, BTreeSet};
use wire::frame::Body;
use wire::server_rpc::{Hello, ServerRequest};

/// How often a server that is not a member of its region yet says hello, or announces itself.
const HELLO_INTERVAL: Span = Span::seconds(1);
/// A server that has sent no hello for this long counts as absent.
const HELLO_TIMEOUT: Span = Span::seconds(5);
/// Connections to other servers that count.
const MAX_LINKS: usize = 64;

pub struct Joining {
    /// Nothing was ever written on this server's disk.
    may_found: bool,
    /// The region that this server wants to belong to, if its state is of none yet.
    joins: Option<Uuid>,
    /// The servers that told of that region.
    announced_by: Vec<u64>,
    links: BTreeSet<u64>,
    seen: BTreeMap<u64, EmptyServer>,
    rounds: usize,
    next: Option<Mono>,
    /// The region has removed this server, for good.
    pub is_removed: bool,
}

/// An empty server that said hello.
struct EmptyServer {
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

    pub fn link_up(&mut self, peer: u64, members: &MemberList) {
        self.add_link(peer);
        if members.founding.is_none() {
            self.schedule_now();
        }
    }

    fn add_link(&mut self, peer: u64) {
        if self.links.len() < MAX_LINKS {
            self.links.insert(peer);
        }
    }

    pub fn link_down(&mut self, peer: u64) {
        self.links.remove(&peer);
        self.seen.remove(&peer);
        self.announced_by.retain(|server| *server != peer);
    }

    /// The servers that there are links to, ascending.
    pub fn links(&self) -> Vec<u64> {
        self.links.iter().copied().collect()
    }

    /// Whether there is a link to that server, or may be one: beyond `MAX_LINKS` nobody counts.
    pub fn is_connected(&self, peer: u64) -> bool {
        self.links.contains(&peer) || self.links.len() >= MAX_LINKS
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

    /// The region that this server belongs to, or wants to; all zero: none.
    pub fn region(&self, members: &MemberList) -> Uuid {
        members.region_id().or(self.joins).unwrap_or_default()
    }

    /// Another server that leads, as far as this one knows.
    pub fn other_leader(&self, raft: &raft::RaftNode) -> Option<u64> {
        raft.leader().filter(|&id| id != raft.id() && !self.is_removed)
    }

    /// Says hello or announces this server until its region lists it. Returns the region that it is to begin, if any.
    pub fn advance(&mut self, leader: Option<&mut Membership>, cx: &mut Context<'_>) -> Option<Founding> {
        if self.next.is_none_or(|next| next > cx.now) {
            return None;
        }
        let is_settled = self.is_settled(cx.raft.id(), &cx.config.info, cx.members);
        self.next = (!is_settled).then(|| cx.now.after(HELLO_INTERVAL));
        self.rounds = self.rounds.wrapping_add(1);
        if is_settled {
            return None;
        }
        if self.region(cx.members) != Uuid::default() {
            self.announce(leader, cx);
            // the servers that told of the region are gone: others may know it, too
            if cx.members.founding.is_none() && self.announced_by.is_empty() {
                self.say_hello(cx);
            }
            return None;
        }
        self.seen.retain(|_, seen| cx.now.since(seen.at) < HELLO_TIMEOUT);
        let founding = self.may_begin(cx);
        if founding.is_none() {
            self.say_hello(cx);
        }
        founding
    }

    /// The region lists this server as it is, or has removed it.
    fn is_settled(&self, own: u64, info: &ServerInfo, members: &MemberList) -> bool {
        let listed = members.get(own).is_some_and(|member| member.info == *info);
        self.is_removed || (listed && members.founding.is_some())
    }

    fn may_begin(&self, cx: &mut Context<'_>) -> Option<Founding> {
        let (own, expect) = (cx.raft.id(), cx.config.bootstrap_expect);
        if !self.may_found || expect == 0 {
            return None;
        }
        if expect == 1 && !self.may_begin_alone(cx.config.knows_others) {
            return None;
        }
        let ids = self.founders(own, expect)?;
        let info = |id: u64| match self.seen.get(&id) {
            Some(seen) => seen.info.clone(),
            None => cx.config.info.clone(),
        };
        let servers = ids.into_iter().map(|id| (id, info(id))).collect();
        let (region_id, scheduler) = (cx.ids.uuid(), cx.config.scheduler);
        Some(Founding { region_id, at: cx.clock.at(cx.now), servers, scheduler })
    }

    /// Begins the region, durably before anybody is told. `info`: what the others are to know of this server.
    pub fn found(
        &mut self,
        founding: &Founding,
        info: &ServerInfo,
        replica: &mut Replica,
        now: Mono,
    ) -> Result<(), Fault> {
        replica.found(founding)?;
        let servers: Vec<u64> = founding.ids().collect();
        tracing::info!(target: "nomad", region_id = %founding.region_id, ?servers, "a region begins");
        self.may_found = false;
        self.members_changed(info, replica, now)
    }

    /// Reads the list of servers from the state again.
    pub fn members_changed(
        &mut self,
        info: &ServerInfo,
        replica: &mut Replica,
        now: Mono,
    ) -> Result<(), Fault> {
        replica.read_members()?;
        let own = replica.raft().id();
        if replica.members().is_removed(own) {
            self.removed(replica);
        }
        if !self.is_settled(own, info, replica.members()) {
            self.next = Some(now);
        }
        Ok(())
    }

    /// The region does without this server from now on.
    pub fn removed(&mut self, replica: &mut Replica) {
        if !self.is_removed {
            tracing::error!(
                target: "nomad",
                "this server was removed from its region and takes no part in it any more: to let this machine join \
                 again, start it with an empty data directory"
            );
        }
        self.is_removed = true;
        replica.retire();
    }

    /// Announces this server to the leader, or to a server that may know it.
    fn announce(&self, leader: Option<&mut Membership>, cx: &mut Context<'_>) {
        let (id, info) = (cx.raft.id(), cx.config.info.clone());
        if let Some(leader) = leader {
            return leader.announce(id, info, cx.now);
        }
        let any =
            (!self.announced_by.is_empty()).then(|| self.announced_by[self.rounds % self.announced_by.len()]);
        // a leader that is gone is not the only one to be asked
        let leader = self.other_leader(cx.raft).filter(|_| any.is_none() || self.rounds.is_multiple_of(2));
        if let Some(to) = leader.or(any) {
            send(to, ServerRequest::Announce { id, info: Box::new(info) }, cx);
        }
    }

    /// A server announces itself, or another server passes that on.
    pub fn announced(
        &self,
        from: u64,
        id: u64,
        info: ServerInfo,
        leader: Option<&mut Membership>,
        cx: &mut Context<'_>,
    ) {
        let is_direct = from == id;
        if !(1..=MAX_SERVER_ID).contains(&id) || !info.is_bounded() {
            tracing::warn!(from, "a server announces itself in a way that cannot be");
        } else if cx.members.is_removed(id) {
            notify_removed(id, 0, cx.outbox);
        } else if let Some(leader) = leader {
            leader.announce(id, info, cx.now);
        } else if let Some(leader) = self.other_leader(cx.raft).filter(|_| is_direct) {
            send(leader, ServerRequest::Announce { id, info: Box::new(info) }, cx);
        }
    }

    pub fn say_hello(&self, cx: &mut Context<'_>) {
        let hello = self.own_hello(cx);
        for peer in &self.links {
            send(*peer, ServerRequest::Hello(Box::new(hello.clone())), cx);
        }
    }

    fn own_hello(&self, cx: &Context<'_>) -> Hello {
        let expect = if self.may_found { cx.config.bootstrap_expect } else { 0 };
        Hello {
            info: cx.config.info.clone(),
            expect,
            sees: self.empty(cx.raft.id(), expect),
            founding: cx.members.founding.clone(),
        }
    }

    /// Another server's hello, and the region that this one is to begin with it.
    pub fn hello(&mut self, from: u64, hello: Hello, cx: &mut Context<'_>) -> Option<Founding> {
        match (cx.members.founding.is_some(), hello.founding) {
            (true, Some(_)) => {}
            (true, None) => send(from, ServerRequest::Hello(Box::new(self.own_hello(cx))), cx),
            (false, Some(founding)) if founding.is_sound() => {
                return self.join_region(from, founding, cx.raft.id());
            }
            (false, Some(_)) => tracing::warn!(from, "a server tells of a region that cannot be"),
            (false, None) => {
                self.add_link(from);
                let seen =
                    EmptyServer { info: hello.info, expect: hello.expect, sees: hello.sees, at: cx.now };
                let is_known = self.seen.contains_key(&from);
                if seen.info.is_bounded() && seen.sees.len() <= MAX_LINKS && self.links.contains(&from) {
                    self.seen.insert(from, seen);
                }
                if !is_known {
                    self.schedule_now();
                }
            }
        }
        None
    }

    /// The first region that is heard of is this server's: it begins it if it is one of the founders.
    fn join_region(&mut self, from: u64, founding: Founding, own: u64) -> Option<Founding> {
        let region = *self.joins.get_or_insert(founding.region_id);
        if region != founding.region_id {
            tracing::warn!(
                from,
                "there are two regions, {region} and {}: this server joins the first; stop the servers of one of them, and \
                 start them with empty data directories",
                founding.region_id
            );
            return None;
        }
        if !self.announced_by.contains(&from) && self.announced_by.len() < MAX_LINKS {
            self.announced_by.push(from);
        }
        if self.may_found && founding.ids().any(|id| id == own) {
            return Some(founding);
        }
        self.schedule_now();
        None
    }
}

fn send(to: u64, request: ServerRequest, cx: &mut Context<'_>) {
    cx.outbox.effect(Effect::server_frame(to, 0, Body::ServerRequest(request)));
}

#[cfg(test)]
pub mod tests;
