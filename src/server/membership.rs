//! The leader changes the region's members: a server that announces itself becomes a learner, a learner that has caught up becomes
//! a voter, and a server that a user removes goes. One change at a time, which raft and the list of servers learn from the same entry.
//!
//! Refuses to know: how a server finds others. Invariant: an id that was removed is not added again.

use super::joining::say;
use super::pending::OnApply;
use super::{NO_LEADER, Server, UNKNOWN, unavailable};
use model::member::{MAX_SERVER_ID, ServerInfo, Suffrage};
use model::time::{Mono, Span};
use raft::{ChangeRefused, MembershipChange};
use std::collections::BTreeMap;
use wire::command::{Command, MemberChange};
use wire::frame::{self, Body, Frame};
use wire::request::{Refusal, RefusalKind, WriteReply};
use wire::rpc::Peer;
use wire::server_rpc::{ServerReply, ServerRequest};

/// How often a change that has to wait is tried.
const TRY_AGAIN: Span = Span::seconds(1);
/// Announcements that wait at the same time.
const MAX_ANNOUNCED: usize = 32;
/// Raft gives up a transfer after an election timeout, of at most two seconds.
const HANDOVER_TIMEOUT: Span = Span::seconds(5);

/// The leader's part.
pub struct Membership {
    announced: BTreeMap<u64, ServerInfo>,
    /// When the next change is tried, if any is known of.
    next: Option<Mono>,
    /// The entry that raises the region's feature level, if this leader has proposed one.
    pub raised_at: Option<u64>,
}

/// A server is removed, and a user waits for the answer.
pub struct Removal {
    token: u64,
    /// The index of the removal's entry.
    index: u64,
}

/// Leadership is being transferred for a user.
pub struct Handover {
    token: u64,
    to: u64,
    /// The term in which this server led.
    term: u64,
    pub deadline: Mono,
}

impl Membership {
    /// The first look is due at once: there may be learners to promote.
    pub fn new(now: Mono) -> Membership {
        Membership { announced: BTreeMap::new(), next: Some(now), raised_at: None }
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
}

impl Server {
    /// A server announces itself, or another server passes that on.
    pub(super) fn announced(&mut self, from: u64, id: u64, info: ServerInfo, now: Mono) {
        let is_direct = from == id;
        if !(1..=MAX_SERVER_ID).contains(&id) || !info.is_bounded() {
            tracing::warn!(from, "a server announces itself in a way that cannot be");
        } else if self.members.is_removed(id) {
            self.notify_removed(id, 0, now);
        } else if let Some(leader) = &mut self.leader {
            leader.membership.announce(id, info, now);
        } else if let Some(leader) = self.other_leader().filter(|_| is_direct) {
            let (_, mut cx) = self.split(now);
            say(leader, ServerRequest::Announce { id, info: Box::new(info) }, &mut cx);
        }
    }

    /// `number`: of what it asked.
    pub(super) fn notify_removed(&mut self, id: u64, number: u64, now: Mono) {
        let frame = Frame { request: number, body: Body::ServerReply(ServerReply::Removed) };
        let (_, mut cx) = self.split(now);
        cx.send(Peer::Server(id), frame::encode(&frame));
    }

    /// Proposes at most one change of members, if one is due, before other proposals go into the log.
    pub(super) fn change_members(&mut self, now: Mono) {
        let space_free = self.space_free;
        let Some(leader) = self.leader.as_ref().filter(|_| space_free) else { return };
        if leader.membership.next.is_none_or(|next| next > now) {
            return;
        }
        let is_rising = self.raise_feature_level();
        let Some(leader) = &mut self.leader else { return };
        let announced = std::mem::take(&mut leader.membership.announced);
        let mut waiting = BTreeMap::new();
        for (id, info) in announced {
            if is_rising || self.list(id, info.clone(), now) == ListOutcome::Waits {
                waiting.insert(id, info);
            }
        }
        for id in self.replica.raft().members().learners.clone() {
            // one that lags is looked at again
            let _ = self.propose_change(
                MembershipChange::Promote(id),
                MemberChange::Promote { id },
                OnApply::Nothing,
            );
        }
        let is_needed =
            is_rising || !waiting.is_empty() || !self.replica.raft().members().learners.is_empty();
        if let Some(leader) = &mut self.leader {
            leader.membership.announced = waiting;
            leader.membership.next = is_needed.then(|| now.after(TRY_AGAIN));
        }
    }

    /// Adds the server to the list, or updates what the list says of it.
    fn list(&mut self, id: u64, info: ServerInfo, now: Mono) -> ListOutcome {
        match self.members.get(id) {
            Some(member) if member.suffrage == Suffrage::Removed => {
                self.notify_removed(id, 0, now);
                ListOutcome::Done
            }
            Some(member) if member.info == info => ListOutcome::Done,
            _ if self.is_too_old(info.feature_level) => {
                self.reject_too_old(id, now);
                ListOutcome::Done
            }
            Some(_) => {
                let command = Command::ChangeMember(Box::new(MemberChange::Update { id, info }));
                self.outbox.propose(command, OnApply::Nothing);
                ListOutcome::Done
            }
            None => match self.propose_change(
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

    /// Raft's members change with the entry that changes the list.
    fn propose_change(
        &mut self,
        change: MembershipChange,
        listed: MemberChange,
        then: OnApply,
    ) -> Result<(), ChangeRefused> {
        let command = Command::ChangeMember(Box::new(listed));
        let (index, term) = self.replica.propose_change(change, &command)?;
        self.metrics.proposed(index, &command);
        self.pending.insert((index, term), then);
        Ok(())
    }

    /// Removes a server for a user. This server leads.
    pub(super) fn remove_server(&mut self, token: u64, id: u64, now: Mono) {
        let result = match self.members.get(id) {
            None => Err(Refusal::new(RefusalKind::NotFound, format!("no server of the region has ID {id}"))),
            Some(member) if member.suffrage == Suffrage::Removed => {
                return self.removals.push(Removal { token, index: member.modify_index });
            }
            Some(_) if id == self.id() => Err(self.hand_over_before_removal()),
            Some(_) => {
                let (change, listed) = (MembershipChange::Remove(id), MemberChange::Remove { id });
                match self.propose_change(change, listed, OnApply::ServerRemoved { token }) {
                    Ok(()) => return,
                    Err(refused) => Err(not_changed(&refused)),
                }
            }
        };
        let (_, mut cx) = self.split(now);
        cx.reply(token, result);
    }

    /// The removal is applied. The user is told only when a majority has that on disk: until then servers that lose their power, and one of
    /// them its disk, would wait for the vote of the removed server.
    pub(super) fn server_removed(&mut self, token: u64, result: Result<WriteReply, Refusal>, now: Mono) {
        match result {
            Ok(done) => self.removals.push(Removal { token, index: done.index() }),
            Err(_) => {
                let (_, mut cx) = self.split(now);
                cx.reply(token, result);
            }
        }
    }

    /// Answers a removal once a majority knows it durably; a server that leads no more cannot tell whether it does.
    pub(super) fn finish_removals(&mut self, now: Mono) {
        let raft = self.replica.raft();
        let leads = raft.is_leader();
        let is_settled = |removal: &Removal| !leads || raft.is_known_by_majority(removal.index);
        let (settled, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.removals).into_iter().partition(is_settled);
        self.removals = open;
        let (_, mut cx) = self.split(now);
        for Removal { token, index } in settled {
            let result = if leads { Ok(WriteReply::Written { index }) } else { Err(unavailable(UNKNOWN)) };
            cx.reply(token, result);
        }
    }

    /// A leader does not remove itself: the next one may.
    fn hand_over_before_removal(&mut self) -> Refusal {
        let Some(to) = self.replica.raft().successor() else {
            return Refusal::new(RefusalKind::Conflict, ChangeRefused::LastVoter.to_string());
        };
        match self.replica.transfer_leader(to) {
            Ok(()) => unavailable(&format!(
                "this server leads, and hands leadership to server {to} first: try again"
            )),
            Err(refused) => unavailable(&refused.to_string()),
        }
    }

    /// Transfers leadership for a user. This server leads.
    pub(super) fn transfer_leadership(&mut self, token: u64, to: Option<u64>, now: Mono) {
        if self.handover.is_some() {
            let (_, mut cx) = self.split(now);
            return cx.refuse(
                token,
                RefusalKind::Busy,
                "leadership is being transferred already: try again shortly",
            );
        }
        let none =
            || Refusal::new(RefusalKind::Conflict, "no other server of the region votes: add one first");
        let term = self.replica.raft().term();
        let begun = to.or_else(|| self.replica.raft().successor()).ok_or_else(none).and_then(|to| {
            self.replica.transfer_leader(to).map_err(|refused| {
                let kind = match refused {
                    raft::TransferRefused::NotVoter(_) => RefusalKind::NotFound,
                    raft::TransferRefused::ToItself => RefusalKind::Invalid,
                    _ => RefusalKind::Unavailable,
                };
                Refusal::new(kind, refused.to_string())
            })?;
            Ok(to)
        });
        match begun {
            Ok(to) => {
                let deadline = now.after(HANDOVER_TIMEOUT);
                self.handover = Some(Handover { token, to, term, deadline });
            }
            Err(refusal) => {
                let (_, mut cx) = self.split(now);
                cx.reply(token, Err(refusal));
            }
        }
    }

    /// Answers the user who asked for a transfer, once it has succeeded or failed.
    pub(super) fn finish_handover(&mut self, now: Mono) {
        let Some(Handover { token, to, term, deadline }) = &self.handover else { return };
        let (token, to, raft) = (*token, *to, self.replica.raft());
        let result = match raft.leader().filter(|_| raft.term() > *term) {
            Some(leader) if leader == to => Ok(WriteReply::Transferred { to, index: self.replica.applied() }),
            Some(leader) => {
                let why = format!(
                    "server {leader} leads now, and not server {to}: ask again if that is not as well"
                );
                Err(Refusal::new(RefusalKind::Conflict, why))
            }
            None if now < *deadline => return,
            None if self.leader.is_some() => Err(unavailable(&format!(
                "server {to} has not taken over, and this server goes on: try again"
            ))),
            None => Err(unavailable(NO_LEADER)),
        };
        self.handover = None;
        let (_, mut cx) = self.split(now);
        cx.reply(token, result);
    }
}

#[derive(PartialEq, Eq)]
enum ListOutcome {
    Done,
    Waits,
}

fn not_changed(refused: &ChangeRefused) -> Refusal {
    let kind = match refused {
        ChangeRefused::NotLeader
        | ChangeRefused::Pending
        | ChangeRefused::Transferring
        | ChangeRefused::TooMuchUncommitted => RefusalKind::Unavailable,
        ChangeRefused::NotMember(_) => RefusalKind::NotFound,
        _ => RefusalKind::Conflict,
    };
    Refusal::new(kind, refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::effects::Input;
    use super::super::joining::tests::Meeting;
    use super::*;
    use wire::request::WriteRequest;

    fn removal(id: u64) -> Vec<Input> {
        vec![Input::Request { token: 9, action: WriteRequest::RemoveServer { id } }]
    }

    /// A leader of three that has just applied the removal of another one: their index and id.
    fn removing() -> (Meeting, usize, u64) {
        let mut meeting = Meeting::of(&[(5, 3), (6, 3), (7, 3)]);
        meeting.run(Span::seconds(10));
        let leader = meeting.servers.iter().position(|server| server.leader.is_some()).expect("one leads");
        let gone = meeting.servers[(leader + 1) % 3].id();
        meeting.turn(leader, removal(gone));
        while meeting.suffrage(leader, gone) != Some(Suffrage::Removed) {
            assert!(meeting.now < Mono(0).after(Span::seconds(20)), "it is not removed");
            meeting.run(Span::millis(1));
        }
        (meeting, leader, gone)
    }

    #[test]
    fn a_removal_is_answered_when_most_disks_know_it() {
        let (mut meeting, leader, gone) = removing();
        assert_eq!(meeting.replies, [], "the third server has not heard that it is committed");
        meeting.run(Span::seconds(1));
        let index = meeting.servers[leader].members.get(gone).expect("it is listed").modify_index;
        let done = Ok(WriteReply::Written { index });
        assert_eq!(meeting.replies, std::slice::from_ref(&done));
        meeting.turn(leader, removal(gone));
        assert_eq!(meeting.replies, [done.clone(), done], "who asks again is told the same");
    }

    #[test]
    fn a_deposed_leader_does_not_say_that_a_removal_is_safe() {
        let (mut meeting, leader, _) = removing();
        meeting.servers[leader].replica.step_down();
        meeting.turn(leader, vec![]);
        assert_eq!(meeting.replies, [Err(unavailable(UNKNOWN))]);
    }
}
