//! What an operator asks a leader to do with the region's servers: to remove one, and to transfer leadership. Each is answered some turns
//! later, by a server that may not lead any more.
//!
//! Refuses to know: how a server comes into the list. Invariants: each request is answered once; a removal is answered when no restart
//! takes it back.

use super::context::{Context, GroupContext};
use super::pending::OnApply;
use super::replica::Replica;
use super::{NO_LEADER, UNKNOWN, unavailable};
use model::member::Suffrage;
use model::time::{Mono, Span};
use raft::{ChangeRefused, MembershipChange};
use wire::command::MemberChange;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// Raft gives up a transfer after an election timeout, of at most two seconds.
const TRANSFER_TIMEOUT: Span = Span::seconds(5);

#[derive(Default)]
pub struct OperatorRequests {
    handover: Option<Handover>,
    /// Removals of servers whose answers wait.
    removals: Vec<Removal>,
}

/// A server is removed, and a user waits for the answer.
struct Removal {
    token: u64,
    /// The index of the removal's entry.
    index: u64,
}

/// Leadership is being transferred for a user.
struct Handover {
    token: u64,
    to: u64,
    /// The term in which this server led.
    term: u64,
    deadline: Mono,
}

impl OperatorRequests {
    /// Removals whose answers wait.
    pub fn removals(&self) -> usize {
        self.removals.len()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.handover.as_ref().map(|handover| handover.deadline)
    }

    /// Removes a server for a user. This server leads.
    pub fn remove_server(&mut self, token: u64, id: u64, cx: &mut GroupContext<'_>) {
        let result = match cx.replica.members().get(id) {
            None => Err(Refusal::new(RefusalKind::NotFound, format!("no server of the region has ID {id}"))),
            Some(member) if member.suffrage == Suffrage::Removed => {
                return self.removals.push(Removal { token, index: member.modify_index });
            }
            Some(_) if id == cx.replica.raft().id() => Err(transfer_before_removal(cx.replica)),
            Some(_) => {
                let (change, listed) = (MembershipChange::Remove(id), MemberChange::Remove { id });
                match cx.propose_change(change, listed, OnApply::ServerRemoved { token }) {
                    Ok(()) => return,
                    Err(refused) => Err(not_changed(&refused)),
                }
            }
        };
        cx.reply(token, result);
    }

    /// The removal is applied. The user is told only when a majority has that on disk: until then servers that lose their power, and one of
    /// them its disk, would wait for the vote of the removed server.
    pub fn server_removed(&mut self, token: u64, result: Result<WriteReply, Refusal>, cx: &mut Context<'_>) {
        match result {
            Ok(done) => self.removals.push(Removal { token, index: done.index() }),
            Err(_) => cx.reply(token, result),
        }
    }

    /// Transfers leadership for a user. This server leads.
    pub fn transfer_leadership(&mut self, token: u64, to: Option<u64>, cx: &mut GroupContext<'_>) {
        if self.handover.is_some() {
            let why = "leadership is being transferred already: try again shortly";
            return cx.reply(token, Err(Refusal::new(RefusalKind::Busy, why)));
        }
        let none =
            || Refusal::new(RefusalKind::Conflict, "no other server of the region votes: add one first");
        let raft = cx.replica.raft();
        let term = raft.term();
        let begun = to.or_else(|| raft.successor()).ok_or_else(none).and_then(|to| {
            cx.replica.transfer_leader(to).map_err(|refused| {
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
                let deadline = cx.now.after(TRANSFER_TIMEOUT);
                self.handover = Some(Handover { token, to, term, deadline });
            }
            Err(refusal) => cx.reply(token, Err(refusal)),
        }
    }

    /// Answers what is decided by now. `leads`: this server does, and has applied everything from before.
    pub fn finish(&mut self, leads: bool, cx: &mut Context<'_>) {
        if let Some(handover) = self.handover.take_if(|handover| handover.is_over(cx)) {
            cx.reply(handover.token, handover.result(leads, cx));
        }
        self.finish_removals(cx);
    }

    /// Answers a removal once a majority knows it durably; a server that leads no more cannot tell whether it does.
    fn finish_removals(&mut self, cx: &mut Context<'_>) {
        let leads = cx.raft.is_leader();
        let is_settled = |removal: &mut Removal| !leads || cx.raft.is_stored_by_majority(removal.index);
        let settled: Vec<Removal> = self.removals.extract_if(.., is_settled).collect();
        for Removal { token, index } in settled {
            let result = if leads { Ok(WriteReply::Written { index }) } else { Err(unavailable(UNKNOWN)) };
            cx.reply(token, result);
        }
    }
}

impl Handover {
    /// The one that leads in a later term.
    fn next_leader(&self, cx: &Context<'_>) -> Option<u64> {
        cx.raft.leader().filter(|_| cx.raft.term() > self.term)
    }

    fn is_over(&self, cx: &Context<'_>) -> bool {
        self.next_leader(cx).is_some() || cx.now >= self.deadline
    }

    /// What the user is told: whether it has succeeded or failed.
    fn result(&self, leads: bool, cx: &Context<'_>) -> Result<WriteReply, Refusal> {
        let to = self.to;
        match self.next_leader(cx) {
            Some(leader) if leader == to => Ok(WriteReply::Transferred { to, index: cx.applied }),
            Some(leader) => {
                let why = format!(
                    "server {leader} leads now, and not server {to}: ask again if that is not as well"
                );
                Err(Refusal::new(RefusalKind::Conflict, why))
            }
            None if leads => Err(unavailable(&format!(
                "server {to} has not taken over, and this server goes on: try again"
            ))),
            None => Err(unavailable(NO_LEADER)),
        }
    }
}

/// A leader does not remove itself: the next one may.
fn transfer_before_removal(replica: &mut Replica) -> Refusal {
    let Some(to) = replica.raft().successor() else {
        return Refusal::new(RefusalKind::Conflict, ChangeRefused::LastVoter.to_string());
    };
    match replica.transfer_leader(to) {
        Ok(()) => {
            unavailable(&format!("this server leads, and hands leadership to server {to} first: try again"))
        }
        Err(refused) => unavailable(&refused.to_string()),
    }
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
        let leader = meeting
            .servers
            .iter()
            .position(|server| server.leadership.leader().is_some())
            .expect("one leads");
        let gone = meeting.servers[(leader + 1) % 3].id();
        meeting.turn(leader, removal(gone));
        while meeting.suffrage(leader, gone) != Some(Suffrage::Removed) {
            assert!(meeting.now < Mono(0).after(Span::seconds(20)), "it is not removed");
            meeting.run(Span::millis(1));
        }
        (meeting, leader, gone)
    }

    #[test]
    fn a_removal_is_answered_once_a_majority_stored_it() {
        let (mut meeting, leader, gone) = removing();
        assert_eq!(meeting.replies, [], "the third server has not heard that it is committed");
        meeting.run(Span::seconds(1));
        let index = meeting.servers[leader].replica.members().get(gone).expect("it is listed").modify_index;
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
