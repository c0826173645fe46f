//! Reads that see all that was committed before them: the index that the state must have reached. Those that come within one
//! turn are one request, which a leader puts to a majority with its heartbeats and a follower to its leader.
//!
//! Refuses to know what is read. Invariant: an answer belongs to a request of this run of this replica. Whatever was asked
//! under one leader is lost with it.

use super::RaftNode;
use super::election::{ELECTION_TICKS, HEARTBEAT_TICKS};
use raft_engine::StateRole;
use std::collections::BTreeMap;
use std::fmt;

/// Reads of this replica that are not answered.
pub const MAX_READS: usize = 4096;
/// Read index requests of this replica that are not answered.
const MAX_REQUESTS: usize = 8;
/// Read requests of all members that a leader holds at a time.
pub const MAX_READS_AT_LEADER: usize = 128;
/// A read request without an answer for so long is lost.
const READ_TICKS: usize = 2 * ELECTION_TICKS;
const CONTEXT_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAnswer {
    pub context: u64,
    /// The read may be served when this is applied.
    pub index: Result<u64, ReadLost>,
}

/// Leadership changed, or no leader answered: ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLost;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRefused {
    NoLeader,
    TooMany,
}

pub struct ReadIndexes {
    /// Tells this run's requests from those of earlier ones, whose answers may still be under way.
    run: u64,
    asked: u64,
    waiting: Vec<u64>,
    waiting_ticks: usize,
    requests: BTreeMap<u64, ReadIndexRequest>,
    answers: Vec<ReadAnswer>,
    /// Term and leader that everything here was asked under.
    leadership: (u64, u64),
}

struct ReadIndexRequest {
    reads: Vec<u64>,
    ticks: usize,
}

/// Is this the context of a request of that member?
pub fn is_of(member: u64, context: &[u8]) -> bool {
    context.len() == CONTEXT_BYTES && context[..8] == member.to_be_bytes()
}

impl ReadIndexes {
    pub fn new(run: u64) -> ReadIndexes {
        ReadIndexes {
            run,
            asked: 0,
            waiting: vec![],
            waiting_ticks: 0,
            requests: BTreeMap::new(),
            answers: vec![],
            leadership: (0, 0),
        }
    }

    pub fn follow(&mut self, leadership: (u64, u64)) {
        if self.leadership != leadership {
            self.leadership = leadership;
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        self.lose_waiting();
        for (_, request) in std::mem::take(&mut self.requests) {
            self.answer_all(request.reads, Err(ReadLost));
        }
    }

    /// The requests to be repeated.
    fn tick(&mut self) -> Vec<u64> {
        self.waiting_ticks += 1;
        if self.waiting_ticks >= READ_TICKS {
            self.lose_waiting();
        }
        let mut again = vec![];
        let mut lost = vec![];
        for (number, request) in &mut self.requests {
            request.ticks += 1;
            if request.ticks >= READ_TICKS {
                lost.push(*number);
            } else if request.ticks.is_multiple_of(HEARTBEAT_TICKS) {
                again.push(*number);
            }
        }
        for number in lost {
            self.answer(number, Err(ReadLost));
        }
        again
    }

    fn lose_waiting(&mut self) {
        self.waiting_ticks = 0;
        let waiting = std::mem::take(&mut self.waiting);
        self.answer_all(waiting, Err(ReadLost));
    }

    fn answer(&mut self, number: u64, index: Result<u64, ReadLost>) {
        if let Some(request) = self.requests.remove(&number) {
            self.answer_all(request.reads, index);
        }
    }

    fn answer_all(&mut self, reads: Vec<u64>, index: Result<u64, ReadLost>) {
        self.answers.extend(reads.into_iter().map(|context| ReadAnswer { context, index }));
    }

    /// The engine's answers.
    pub fn take_states(&mut self, own: u64, states: Vec<raft_engine::ReadState>) {
        for state in states {
            let Some((head, number)) = state.request_ctx.split_last_chunk::<8>() else { continue };
            if head == [own.to_be_bytes(), self.run.to_be_bytes()].concat() {
                self.answer(u64::from_be_bytes(*number), Ok(state.index));
            }
        }
    }

    pub fn take_answers(&mut self) -> Vec<ReadAnswer> {
        std::mem::take(&mut self.answers)
    }

    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// These reads wait for the answer to this request.
    pub fn expect(&mut self, number: u64, reads: Vec<u64>) {
        self.requests.insert(number, ReadIndexRequest { reads, ticks: 0 });
    }

    pub fn context(&self, own: u64, number: u64) -> Vec<u8> {
        [own.to_be_bytes(), self.run.to_be_bytes(), number.to_be_bytes()].concat()
    }

    fn unanswered(&self) -> usize {
        self.waiting.len() + self.answers.len() + self.requests.values().map(|q| q.reads.len()).sum::<usize>()
    }
}

impl RaftNode {
    /// Asks which index a read has to wait for. The answer is among a later step's, under the caller's `context`.
    pub fn read_index(&mut self, context: u64) -> Result<(), ReadRefused> {
        self.assert_no_pending_step();
        if self.leader().is_none() {
            return Err(ReadRefused::NoLeader);
        }
        if self.reads.unanswered() >= MAX_READS {
            return Err(ReadRefused::TooMany);
        }
        if self.reads.waiting.is_empty() {
            self.reads.waiting_ticks = 0;
        }
        self.reads.waiting.push(context);
        Ok(())
    }

    /// No read is confirmed any more: what waits is lost.
    pub fn lose_reads(&mut self) {
        self.reads.lose_all();
    }

    /// A leader that has not committed in its own term does not know yet what is committed; the engine would drop the request.
    pub(super) fn can_request_read_index(&self) -> bool {
        let ready = !self.is_leader() || self.raw.raft.commit_to_current_term();
        !self.reads.waiting.is_empty() && self.reads.requests.len() < MAX_REQUESTS && ready
    }

    pub(super) fn request_read_index(&mut self) {
        if !self.can_request_read_index() {
            return;
        }
        self.reads.asked += 1;
        let number = self.reads.asked;
        let reads = std::mem::take(&mut self.reads.waiting);
        self.reads.expect(number, reads);
        self.send_read_index(number);
    }

    pub(super) fn tick_reads(&mut self) {
        let again = self.reads.tick();
        // a leader's heartbeats repeat its requests by themselves
        if self.raw.raft.state == StateRole::Follower {
            again.into_iter().for_each(|number| self.send_read_index(number));
        }
    }

    fn send_read_index(&mut self, number: u64) {
        let context = self.reads.context(self.id(), number);
        self.raw.read_index(context);
    }
}

impl fmt::Display for ReadLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("leadership changed while the read waited: ask again")
    }
}

impl std::error::Error for ReadLost {}

impl fmt::Display for ReadRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadRefused::NoLeader => f.write_str("no leader is known: try again"),
            ReadRefused::TooMany => write!(f, "{MAX_READS} reads wait already: try again"),
        }
    }
}

impl std::error::Error for ReadRefused {}
