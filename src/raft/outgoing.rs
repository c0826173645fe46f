//! What leaves: which messages may go before the step is durable, and how much may be under way to one member.
//!
//! Refuses to know links. What does not fit is dropped, as if it had been lost: the engine then probes the member and sends
//! again what it lacks.

use super::log::{Log, MAX_ENTRIES_PER_READ};
use super::record;
use raft_engine::eraftpb::{Message, MessageType};
use raft_engine::{ProgressState, RawNode};
use std::collections::{BTreeMap, BTreeSet};

/// Appends under way to one member.
pub const MAX_INFLIGHT_MESSAGES: usize = 64;
/// Bytes of entries under way to one member, but for one entry that is larger.
pub const MAX_INFLIGHT_BYTES: usize = 4 << 20;
/// Bytes of entries in one message, but for one entry that is larger.
pub const MAX_BYTES_PER_MESSAGE: u64 = 256 << 10;
/// What comes from storage, and what is proposed in one turn on top of it.
pub const MAX_ENTRIES_PER_MESSAGE: usize = 2 * MAX_ENTRIES_PER_READ;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub to: u64,
    pub message: Vec<u8>,
}

/// What one step wants to send.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// May leave before the step is durable: a leader's appends and heartbeats promise nothing of its own disk.
    pub early: Vec<Outbound>,
    /// Votes and acknowledgements: they say that something is on the disk.
    pub late: Vec<Outbound>,
}

/// Bytes under way by member, and by the last index of the message.
#[derive(Default)]
pub struct Windows(BTreeMap<u64, BTreeMap<u64, usize>>);

impl Windows {
    pub fn sort(&mut self, raw: &mut RawNode<Log>, leads: bool, messages: Vec<Message>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        let mut dropped = BTreeSet::new();
        for message in messages {
            if message.msg_type == MessageType::MsgSnapshot {
                continue; // told by `wants_snapshot`: rows travel outside of messages
            }
            if message.msg_type == MessageType::MsgAppend
                && (dropped.contains(&message.to) || !self.admits(raw, &message))
            {
                dropped.insert(message.to);
                continue;
            }
            let queue =
                if leads && is_early(message.msg_type) { &mut outgoing.early } else { &mut outgoing.late };
            queue.push(Outbound { to: message.to, message: record::encode_message(&message) });
        }
        for member in dropped {
            self.0.remove(&member);
            raw.report_unreachable(member);
        }
        outgoing
    }

    fn admits(&mut self, raw: &RawNode<Log>, message: &Message) -> bool {
        let Some(last) = message.entries.last() else { return true };
        let Some(progress) = raw.raft.prs().get(message.to) else { return true };
        let window = self.0.entry(message.to).or_default();
        if progress.state == ProgressState::Replicate {
            window.retain(|index, _| *index > progress.matched);
        } else {
            window.clear();
        }
        let under_way: usize = window.values().sum();
        let bytes: usize = message.entries.iter().map(|e| e.data.len()).sum();
        if under_way > 0 && under_way + bytes > MAX_INFLIGHT_BYTES {
            return false;
        }
        window.insert(last.index, bytes);
        true
    }

    /// Who does not lead has nothing under way.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn is_early(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::MsgAppend
            | MessageType::MsgHeartbeat
            | MessageType::MsgTimeoutNow
            | MessageType::MsgReadIndexResp
    )
}
