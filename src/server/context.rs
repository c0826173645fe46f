//! The context that each part of a leader gets in a turn: the time, the state to read, and where its proposals and effects go.
//!
//! Refuses to know: which parts there are.

use super::Config;
use super::clock::WallClock;
use super::effects::Effect;
use super::ids::Ids;
use super::metrics::Metrics;
use super::outbox::Outbox;
use super::pending::{Asker, OnApply};
use model::eval::Evaluation;
use model::time::{Mono, Wall};
use state::fault::Fault;
use state::store::Reader;
use state::view::View;
use wire::command::Command;
use wire::frame::{self, Body, Frame};
use wire::request::{Refusal, RefusalKind, WriteReply};
use wire::rpc::{NodeReply, Peer};
use wire::server_rpc::ServerReply;

/// Evaluations in one entry beside what they follow from. They name jobs, whose names are bounded: so many fit.
pub const MAX_EVALS_PER_ENTRY: usize = 256;

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

    /// Proposes a command with its evaluations. What one entry does not hold of them follows in entries of their own.
    pub fn propose_with_evals(
        &mut self,
        mut evals: Vec<Evaluation>,
        command: impl FnOnce(Vec<Evaluation>) -> Command,
        then: OnApply,
    ) {
        let rest = evals.split_off(evals.len().min(MAX_EVALS_PER_ENTRY));
        self.propose(command(evals), then);
        self.propose_evals(rest);
    }

    /// Proposes evaluations that nobody waits for, in as many entries as they need.
    pub fn propose_evals(&mut self, mut evals: Vec<Evaluation>) {
        while !evals.is_empty() {
            let rest = evals.split_off(evals.len().min(MAX_EVALS_PER_ENTRY));
            self.propose(Command::UpdateEvals { evals, at: self.at }, OnApply::Nothing);
            evals = rest;
        }
    }

    pub fn reply(&mut self, token: u64, result: Result<WriteReply, Refusal>) {
        self.metrics.answered(token, result.is_err());
        self.outbox.effect(Effect::Reply { token, result });
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
