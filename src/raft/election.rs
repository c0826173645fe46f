//! Election timeouts. The engine draws its own from the machine's entropy each time it resets itself; here they are replaced by
//! draws from a seed, before a tick can look at them, so that equal inputs have equal outputs.

use super::RaftNode;
use super::log::Log;
use raft_engine::{Raft, StateRole};

/// Election timeout in ticks, at least; less than twice as many at most. A tick's length is the driver's choice.
pub const ELECTION_TICKS: usize = 10;
pub const HEARTBEAT_TICKS: usize = 2;

pub struct Timeouts {
    random: u64,
    /// Term, role and leader that the present timeout was drawn for. What the engine drew is no sign of a reset: it may by
    /// chance be what was set.
    drawn_for: (u64, StateRole, u64),
    ticks: usize,
}

impl Timeouts {
    pub fn new(seed: u64, id: u64) -> Timeouts {
        let random = seed ^ id.wrapping_mul(0xa076_1d64_78bd_642f);
        let mut timeouts = Timeouts { random, drawn_for: (0, StateRole::Follower, 0), ticks: 0 };
        timeouts.draw();
        timeouts
    }

    /// To be called after whatever may have reset the engine, and before its next tick.
    pub fn follow(&mut self, raft: &mut Raft<Log>) {
        let now = (raft.term, raft.state, raft.leader_id);
        if self.drawn_for != now {
            self.drawn_for = now;
            self.draw();
        }
        raft.set_randomized_election_timeout(self.ticks);
    }

    /// Draws a new timeout, also after a campaign without a result: two candidates that began together are not to do so again.
    pub fn draw(&mut self) {
        self.ticks = ELECTION_TICKS + (self.number() % ELECTION_TICKS as u64) as usize;
    }

    /// SplitMix64.
    pub fn number(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl RaftNode {
    /// A voter forgets a silent leader by campaigning. The engine lets a replica without a vote keep the leader that it heard of last, however long
    /// ago: its status would name a leader that is gone, and its reads would be sent to one that never answers.
    pub(super) fn forget_silent_leader(&mut self) {
        let raft = &mut self.raw.raft;
        let campaigns = raft.state != StateRole::Follower || raft.promotable();
        if !campaigns && raft.leader_id != 0 && raft.pass_election_timeout() {
            raft.become_follower(raft.term, 0);
        }
    }
}
