//! Outgoing messages: which may be sent before the step is durable, and how much may be in flight to one member.
//!
//! Refuses to know links. They keep the order of what they carry, and may be slow: what is in flight is not sent again before a link of
//! 64 kbit/s, half of it for other things, would have carried it; unless the member's answer asks for it, or its link was lost.

use super::log::{Log, MAX_ENTRIES_PER_READ};
use super::record;
use raft_engine::eraftpb::{Message, MessageType};
use raft_engine::{ProgressState, RawNode};
use std::collections::BTreeMap;

/// Appends under way to one member.
pub const MAX_INFLIGHT_MESSAGES: usize = 64;
/// Bytes of entries under way to one member, but for one entry that is larger.
pub const MAX_INFLIGHT_BYTES: usize = 4 << 20;
/// Bytes of entries in one message, but for one entry that is larger.
pub const MAX_BYTES_PER_MESSAGE: u64 = 256 << 10;
/// The slowest link that a member may hang on carries so much of entries in a tick of 100 ms, half of its 8,000 bytes a second.
const MIN_BYTES_PER_TICK: u64 = 400;
/// What comes from storage, and what is proposed in one turn on top of it.
pub const MAX_ENTRIES_PER_MESSAGE: usize = 2 * MAX_ENTRIES_PER_READ;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub to: u64,
    pub message: Vec<u8>,
    /// Whether the message is an append, which may be large: it travels apart from all that must not wait behind it.
    pub is_append: bool,
}

/// What one step wants to send.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// May leave before the step is durable: a leader's appends and heartbeats promise nothing of its own disk.
    pub early: Vec<Outbound>,
    /// Votes and acknowledgements: they say that something is on the disk.
    pub late: Vec<Outbound>,
}

/// What is under way to each member.
#[derive(Default)]
pub struct Windows {
    members: BTreeMap<u64, Window>,
    ticks: u64,
}

#[derive(Default)]
struct Window {
    /// The engine's state when this was sent: replicating, or probing from an index. A message from another state is no duplicate.
    place: Option<(u64, u64)>,
    /// Bytes by the last index of the message.
    in_flight: BTreeMap<u64, usize>,
    /// The tick by which the bytes in flight have arrived at the latest; until then duplicates are not sent.
    arrives_by: u64,
}

/// What becomes of an append.
enum AppendAction {
    Send,
    /// The same is in flight already: it is dropped.
    Duplicate,
    /// Too many bytes are in flight: the engine sends it again later.
    Wait,
}

impl Windows {
    pub fn tick(&mut self) {
        self.ticks += 1;
    }

    pub fn sort(&mut self, raw: &mut RawNode<Log>, leads: bool, messages: Vec<Message>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        for message in messages {
            if message.msg_type == MessageType::MsgSnapshot {
                continue; // told by `wants_snapshot`: rows travel outside of messages
            }
            let is_append = message.msg_type == MessageType::MsgAppend;
            if is_append {
                let is_held = held.contains_key(&message.to);
                let action = if is_held { AppendAction::Wait } else { self.classify(raw, &message) };
                match action {
                    AppendAction::Send => {}
                    AppendAction::Duplicate => continue,
                    AppendAction::Wait => {
                        held.entry(message.to).or_insert(message.index + 1);
                        continue;
                    }
                }
            }
            let queue =
                if leads && is_early(message.msg_type) { &mut outgoing.early } else { &mut outgoing.late };
            let outbound = Outbound { to: message.to, message: record::encode_message(&message), is_append };
            queue.push(outbound);
        }
        for (member, next) in held {
            unsend(raw, member, next);
        }
        outgoing
    }

    fn classify(&mut self, raw: &RawNode<Log>, message: &Message) -> AppendAction {
        let Some(progress) = raw.raft.prs().get(message.to) else { return AppendAction::Send };
        let window = self.members.entry(message.to).or_default();
        let replicates = progress.state == ProgressState::Replicate;
        let place = (!replicates).then_some((progress.matched, progress.next_idx));
        if window.place != place {
            *window = Window { place, ..Window::default() };
        }
        if replicates {
            window.in_flight.retain(|index, _| *index > progress.matched);
        }
        if window.in_flight.is_empty() {
            window.arrives_by = 0;
        }
        let tells_again = message.entries.is_empty() || !replicates;
        if tells_again && self.ticks < window.arrives_by {
            return AppendAction::Duplicate;
        }
        let Some(last) = message.entries.last() else { return AppendAction::Send };
        let in_flight: usize = window.in_flight.values().sum();
        let bytes: usize = message.entries.iter().map(|e| e.data.len()).sum();
        if replicates && in_flight > 0 && in_flight + bytes > MAX_INFLIGHT_BYTES {
            return AppendAction::Wait;
        }
        window.in_flight.insert(last.index, bytes);
        window.arrives_by = window.arrives_by.max(self.ticks) + bytes as u64 / MIN_BYTES_PER_TICK;
        AppendAction::Send
    }

    /// Whatever is under way to the member is lost.
    pub fn forget(&mut self, member: u64) {
        self.members.remove(&member);
    }

    /// Who does not lead has nothing under way.
    pub fn clear(&mut self) {
        self.members.clear();
    }
}

/// Entries from `next` on were not sent to a member, whatever the engine believes: it sends them when what is under way has arrived.
fn unsend(raw: &mut RawNode<Log>, member: u64, next: u64) {
    if let Some(progress) = raw.raft.mut_prs().get_mut(member)
        && progress.state == ProgressState::Replicate
    {
        progress.next_idx = progress.next_idx.min(next).max(progress.matched + 1);
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
