//! The context that each part gets in a turn: the time, the state to read, and where its proposals and effects go.
//!
//! Refuses to know: which parts there are.

use super::Config;
use super::clock::WallClock;
use super::effects::Effect;
use super::ids::Ids;
use super::members::MemberList;
use super::metrics::Metrics;
use super::outbox::Outbox;
use super::pending::{Asker, OnApply, PendingEntries};
use super::replica::Replica;
use model::eval::Evaluation;
use model::time::{Mono, Wall};
use raft::{ChangeRefused, MembershipChange};
use state::fault::Fault;
use state::store::Reader;
use state::view::View;
use wire::command::{Command, MemberChange};
use wire::frame::{self, Body, Frame};
use wire::record;
use wire::request::{Refusal, RefusalKind, WriteReply};
use wire::rpc::{NodeReply, Peer};
use wire::server_rpc::ServerReply;

/// The most evaluations that one entry carries beside its command.
pub const MAX_EVALS_PER_ENTRY: usize = 256;
/// Together. Those that were blocked say what nodes and dimensions they lacked.
const MAX_EVAL_BYTES_PER_ENTRY: usize = raft::MAX_ENTRY_BYTES / 2;

pub struct Context<'a> {
    pub config: &'a Config,
    pub now: Mono,
    /// The time that goes into commands.
    pub at: Wall,
    pub clock: WallClock,
    /// The disk has room for a full turn's writes.
    pub space_free: bool,
    /// The index of the state that `view` shows.
    pub applied: u64,
    /// Where the log ends.
    pub log_end: u64,
    /// Entries have to fit into messages to other servers.
    pub has_peers: bool,
    pub reader: &'a Reader,
    pub raft: &'a raft::RaftNode,
    /// The region's servers.
    pub members: &'a MemberList,
    pub ids: &'a mut Ids,
    pub metrics: &'a mut Metrics,
    pub outbox: &'a mut Outbox,
}

impl Context<'_> {
    pub fn view(&self) -> Result<View, Fault> {
        self.reader.view()
    }

    /// `then` follows when the entry is applied.
    pub fn propose(&mut self, command: Command, then: OnApply) {
        self.outbox.propose(command, then);
    }

    /// Proposes a command with its evaluations. Those that do not fit into its entry follow in further entries.
    pub fn propose_with_evals(
        &mut self,
        mut evals: Vec<Evaluation>,
        command: impl FnOnce(Vec<Evaluation>) -> Command,
        then: OnApply,
    ) {
        let rest = evals.split_off(fitting(&evals));
        self.propose(command(evals), then);
        self.propose_evals(rest);
    }

    /// Proposes evaluations that nobody waits for, in as many entries as they need.
    pub fn propose_evals(&mut self, mut evals: Vec<Evaluation>) {
        while !evals.is_empty() {
            let rest = evals.split_off(fitting(&evals).max(1));
            self.propose(Command::UpdateEvals { evals, at: self.at }, OnApply::Nothing);
            evals = rest;
        }
    }

    pub fn reply(&mut self, token: u64, result: Result<WriteReply, Refusal>) {
        reply(token, result, self.metrics, self.outbox);
    }

    pub fn refuse(&mut self, token: u64, kind: RefusalKind, message: impl Into<String>) {
        self.reply(token, Err(Refusal::new(kind, message)));
    }

    pub fn answer(&mut self, asker: Asker, reply: NodeReply) {
        let Asker { node, request, via } = asker;
        let (to, body) = match via {
            None => (Peer::Node(node), Body::Reply(reply)),
            Some(server) => (Peer::Server(server), Body::ServerReply(ServerReply::Node { node, reply })),
        };
        self.send(to, frame::encode(&Frame { request, body }));
    }

    pub fn send(&mut self, to: Peer, bytes: Vec<u8>) {
        self.outbox.effect(Effect::Send { to, bytes });
    }

    /// Gives the draft an id and a time of its own.
    pub fn new_eval(&mut self, draft: Evaluation) -> Evaluation {
        Evaluation { id: self.ids.eval(), create_time: self.at, modify_time: self.at, ..draft }
    }
}

/// How many of the evaluations go into one entry.
fn fitting(evals: &[Evaluation]) -> usize {
    let mut bytes = 0;
    let fits = |eval: &&Evaluation| {
        bytes += record::encoded_bytes("evaluation", eval);
        bytes <= MAX_EVAL_BYTES_PER_ENTRY
    };
    evals.iter().take(MAX_EVALS_PER_ENTRY).take_while(fits).count()
}

/// The context of the parts that change the raft group: its members, or who leads it.
pub struct GroupContext<'a> {
    pub now: Mono,
    /// The disk has room for a full turn's writes.
    pub space_free: bool,
    pub replica: &'a mut Replica,
    pub pending: &'a mut PendingEntries,
    pub metrics: &'a mut Metrics,
    pub outbox: &'a mut Outbox,
}

impl GroupContext<'_> {
    /// Raft's members change with the entry that changes the list.
    pub fn propose_change(
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

    pub fn reply(&mut self, token: u64, result: Result<WriteReply, Refusal>) {
        reply(token, result, self.metrics, self.outbox);
    }
}

fn reply(token: u64, result: Result<WriteReply, Refusal>, metrics: &mut Metrics, outbox: &mut Outbox) {
    metrics.answered(token, result.is_err());
    outbox.effect(Effect::Reply { token, result });
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::eval::{DEFAULT_PRIORITY, Trigger};
    use model::id::JobKey;
    use model::job::JobType;
    use state::samples::{AT, eval_id};

    #[test]
    fn evaluations_of_an_entry_are_bounded_in_number_and_bytes() {
        let eval = |description: usize| {
            let job = JobKey::new("default", "a");
            let trigger = Trigger::NodeUpdate;
            let eval = Evaluation::pending(eval_id(1), job, JobType::Service, DEFAULT_PRIORITY, trigger, AT);
            Evaluation { status_description: "d".repeat(description), ..eval }
        };
        assert_eq!(fitting(&vec![eval(0); 1_000]), MAX_EVALS_PER_ENTRY);
        assert_eq!(fitting(&vec![eval(100 << 10); 100]), 10, "of 100 KiB and a little each");
        assert_eq!(fitting(&[eval(2 << 20)]), 0);
    }
}
