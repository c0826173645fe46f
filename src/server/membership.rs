//! The leader changes the region's members: a server that announces itself becomes a learner, a learner that has caught up becomes
//! a voter, and a server that an operator removes goes. One change at a time, which raft and the list of servers learn from the same entry.
//!
//! Refuses to know: how a server finds others. Invariant: an id that was removed is not added again.

use super::context::GroupContext;
use super::effects::Effect;
use super::feature_level::{LevelRise, reject_too_old};
use super::outbox::Outbox;
use super::pending::OnApply;
use model::member::{ServerInfo, Suffrage};
use model::time::{Mono, Span};
use raft::{ChangeRefused, MembershipChange};
use std::collections::BTreeMap;
use wire::command::{Command, MemberChange};
use wire::frame::Body;
use wire::server_rpc::ServerReply;

/// How often a change that has to wait is tried.
const RETRY_INTERVAL: Span = Span::seconds(1);
/// Announcements that wait at the same time.
const MAX_ANNOUNCED: usize = 32;

/// The leader's part.
pub struct Membership {
    announced: BTreeMap<u64, ServerInfo>,
    /// When the next change is tried, if any is known of.
    next: Option<Mono>,
    level: LevelRise,
}

impl Membership {
    /// The first look is due at once: there may be learners to promote.
    pub fn new(now: Mono) -> Membership {
        Membership { announced: BTreeMap::new(), next: Some(now), level: LevelRise::default() }
    }

    /// A server says who it is. It says so again if nothing comes of it.
    pub fn announce(&mut self, id: u64, info: ServerInfo, now: Mono) {
        if self.announced.len() < MAX_ANNOUNCED || self.announced.contains_key(&id) {
            self.announced.insert(id, info);
            self.next.get_or_insert(now);
        }
    }

    /// The list has changed.
    pub fn apply_change(&mut self, now: Mono) {
        self.next = Some(now);
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.next
    }

    /// Proposes at most one change of members, if one is due, before other proposals go into the log.
    pub fn change_members(&mut self, cx: &mut GroupContext<'_>) {
        if !cx.space_free || self.next.is_none_or(|next| next > cx.now) {
            return;
        }
        let is_rising = self.level.propose(cx);
        let mut waiting = BTreeMap::new();
        for (id, info) in std::mem::take(&mut self.announced) {
            if is_rising || list(id, info.clone(), cx) == ListOutcome::Waits {
                waiting.insert(id, info);
            }
        }
        for id in cx.replica.raft().members().learners.clone() {
            // one that lags is looked at again
            let _ = cx.propose_change(
                MembershipChange::Promote(id),
                MemberChange::Promote { id },
                OnApply::Nothing,
            );
        }
        let is_needed = is_rising || !waiting.is_empty() || !cx.replica.raft().members().learners.is_empty();
        self.announced = waiting;
        self.next = is_needed.then(|| cx.now.after(RETRY_INTERVAL));
    }
}

/// Adds the server to the list, or updates what the list says of it.
fn list(id: u64, info: ServerInfo, cx: &mut GroupContext<'_>) -> ListOutcome {
    let members = cx.replica.members();
    match members.get(id) {
        Some(member) if member.suffrage == Suffrage::Removed => {
            notify_removed(id, 0, cx.outbox);
            ListOutcome::Done
        }
        Some(member) if member.info == info => ListOutcome::Done,
        _ if members.is_too_old(info.feature_level) => {
            reject_too_old(id, members.feature_level, cx.outbox);
            ListOutcome::Done
        }
        Some(_) => {
            let command = Command::ChangeMember(Box::new(MemberChange::Update { id, info }));
            cx.outbox.propose(command, OnApply::Nothing);
            ListOutcome::Done
        }
        None => match cx.propose_change(
            MembershipChange::AddLearner(id),
            MemberChange::Add { id, info },
            OnApply::Nothing,
        ) {
            Ok(()) => ListOutcome::Done,
            Err(ChangeRefused::Pending | ChangeRefused::Transferring) => ListOutcome::Waits,
            Err(refused) => {
                tracing::warn!(target: "nomad", id, %refused, "a server is not added");
                ListOutcome::Done
            }
        },
    }
}

/// Tells a server that the region does without it. `number`: of what it asked.
pub fn notify_removed(id: u64, number: u64, outbox: &mut Outbox) {
    outbox.effect(Effect::server_frame(id, number, Body::ServerReply(ServerReply::Removed)));
}

#[derive(PartialEq, Eq)]
enum ListOutcome {
    Done,
    Waits,
}
