//! Checks of received messages. Each is checked here before the engine sees it, because the engine trusts its peers: a commit
//! index beyond the log, for one, ends the process.
//!
//! Refuses to know links: the caller says which peer a message came from. A message is refused as a whole and
//! changes nothing; the peer's reply stays out, as if the message had been lost.

use super::log::Log;
use super::members::Members;
use super::outgoing::MAX_ENTRIES_PER_MESSAGE;
use super::reads;
use super::record::Unreadable;
use super::snapshot::MAX_TERMS_AHEAD;
use super::{MAX_ENTRY_BYTES, record};
use raft_engine::eraftpb::{Entry, Message, MessageType, Snapshot};
use raft_engine::{Raft, StateRole};
use std::fmt;

/// The most that one message may hold: one entry of the largest size, or many small ones, with room for the rest.
pub const MAX_MESSAGE_BYTES: usize = MAX_ENTRY_BYTES + (512 << 10);
const MAX_CONTEXT_BYTES: usize = 64;

/// What a replica's disk has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSpace {
    /// Everything.
    Enough,
    /// Others' entries: a leader writes its own beside them, so this replica does not take over leadership.
    Little,
    /// Votes. An append is taken as if it ended before its first entry: its leader learns where this replica stands, and tells the rest again.
    None,
}

impl LogSpace {
    /// What of a message is taken.
    pub fn limit(self, message: &mut Message) -> Result<(), Refused> {
        match message.msg_type {
            MessageType::MsgTimeoutNow if self != LogSpace::Enough => return Err(Refused::NoRoom),
            MessageType::MsgAppend if self == LogSpace::None => message.entries.clear(),
            _ => {}
        }
        Ok(())
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    TooLong {
        bytes: usize,
    },
    Version {
        found: u8,
        known: u8,
    },
    Malformed(String),
    NotForUs {
        to: u64,
    },
    NotFromPeer {
        said: u64,
        peer: u64,
    },
    /// This replica has no members yet: it waits for a snapshot, and says nothing that counts.
    Empty,
    NotMember {
        from: u64,
    },
    /// Peers do not say this to each other.
    Kind(&'static str),
    NoTerm,
    Term {
        found: u64,
        own: u64,
    },
    CommitBeyondLog {
        commit: u64,
        last: u64,
    },
    IndexBeyondLog {
        index: u64,
        last: u64,
    },
    Entries(&'static str),
    NotFromLeader {
        from: u64,
    },
    NotLeader,
    TooManyReads,
    /// A vote of this replica, the only voter, has to wait for what it is about to write.
    Busy,
    /// The replica is asked to lead.
    NoRoom,
}

impl From<Unreadable> for Refused {
    fn from(unreadable: Unreadable) -> Refused {
        match unreadable {
            Unreadable::Version { found, known } => Refused::Version { found, known },
            Unreadable::Malformed(why) => Refused::Malformed(why),
        }
    }
}

/// A message in the light of what the replica knows.
pub struct Check<'a> {
    pub raft: &'a Raft<Log>,
    pub members: &'a Members,
    /// The server at the link's other end.
    pub peer: u64,
}

impl Check<'_> {
    pub fn decode(&self, bytes: &[u8]) -> Result<Message, Refused> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(Refused::TooLong { bytes: bytes.len() });
        }
        let message = record::decode_message(bytes).map_err(Refused::from)?;
        self.addresses(&message)?;
        self.sender(&message)?;
        self.shape(&message)?;
        self.term(&message)?;
        self.content(&message)?;
        Ok(message)
    }

    fn addresses(&self, m: &Message) -> Result<(), Refused> {
        if m.to != self.raft.id {
            return Err(Refused::NotForUs { to: m.to });
        }
        if m.from != self.peer || m.from == self.raft.id || m.from == 0 {
            return Err(Refused::NotFromPeer { said: m.from, peer: self.peer });
        }
        Ok(())
    }

    /// Candidates and leaders need not be members as far as this replica knows: it may not have heard yet of the change that
    /// made them so, and would never hear of it. Answers and questions go to those who know their members.
    fn sender(&self, m: &Message) -> Result<(), Refused> {
        use MessageType as M;
        match m.msg_type {
            M::MsgRequestVote | M::MsgRequestPreVote if self.members.is_empty() => Err(Refused::Empty),
            // an empty replica begins with a snapshot, and never with a log that somebody tells from its start
            M::MsgAppend if self.members.is_empty() && m.index == 0 => Err(Refused::Empty),
            M::MsgRequestVote | M::MsgRequestPreVote | M::MsgAppend | M::MsgHeartbeat => Ok(()),
            M::MsgAppendResponse
            | M::MsgHeartbeatResponse
            | M::MsgRequestVoteResponse
            | M::MsgRequestPreVoteResponse
            | M::MsgReadIndex
                if !self.members.contains(m.from) =>
            {
                Err(Refused::NotMember { from: m.from })
            }
            M::MsgAppendResponse
            | M::MsgHeartbeatResponse
            | M::MsgRequestVoteResponse
            | M::MsgRequestPreVoteResponse
            | M::MsgReadIndex
            | M::MsgReadIndexResp
            | M::MsgTimeoutNow => Ok(()),
            M::MsgSnapshot => Err(Refused::Kind("a snapshot within a message")),
            M::MsgPropose => Err(Refused::Kind("a proposal")),
            M::MsgTransferLeader => Err(Refused::Kind("a wish for another leader")),
            M::MsgHup | M::MsgBeat | M::MsgUnreachable | M::MsgSnapStatus | M::MsgCheckQuorum => {
                Err(Refused::Kind("what a replica says to itself"))
            }
        }
    }

    /// What no kind of message holds, or not this one.
    fn shape(&self, m: &Message) -> Result<(), Refused> {
        use MessageType as M;
        if m.snapshot != Snapshot::default() || m.request_snapshot != 0 {
            return Err(Refused::Kind("a snapshot within a message"));
        }
        if m.context.len() > MAX_CONTEXT_BYTES {
            return Err(Refused::Malformed("its context is too long".into()));
        }
        match (m.msg_type, m.entries.as_slice()) {
            (M::MsgAppend, entries) => append_entries(m, entries),
            (M::MsgReadIndex | M::MsgReadIndexResp, [one]) if !one.data.is_empty() => Ok(()),
            (M::MsgReadIndex | M::MsgReadIndexResp, _) => Err(Refused::Entries("a read has one context")),
            (_, []) => Ok(()),
            _ => Err(Refused::Entries("only appends have entries")),
        }
    }

    fn term(&self, m: &Message) -> Result<(), Refused> {
        let own = self.raft.term;
        if m.msg_type == MessageType::MsgReadIndex {
            return if m.term == 0 { Ok(()) } else { Err(Refused::Term { found: m.term, own }) };
        }
        if m.term == 0 {
            return Err(Refused::NoTerm);
        }
        let most = own.saturating_add(MAX_TERMS_AHEAD);
        if m.term > most || m.log_term > m.term || m.commit_term > m.term {
            return Err(Refused::Term { found: m.term.max(m.log_term).max(m.commit_term), own });
        }
        Ok(())
    }

    fn content(&self, m: &Message) -> Result<(), Refused> {
        use MessageType as M;
        let last = self.raft.raft_log.last_index();
        let stale = m.term < self.raft.term;
        match m.msg_type {
            // of a leader that knows what this replica had: it has lost a part of its log
            M::MsgHeartbeat if !stale && m.commit > last => {
                Err(Refused::CommitBeyondLog { commit: m.commit, last })
            }
            M::MsgRequestVote | M::MsgRequestPreVote if m.commit > m.index => {
                Err(Refused::CommitBeyondLog { commit: m.commit, last: m.index })
            }
            M::MsgRequestVote | M::MsgRequestPreVote if m.index == u64::MAX => {
                Err(Refused::IndexBeyondLog { index: m.index, last })
            }
            M::MsgAppendResponse
                if self.raft.state == StateRole::Leader
                    && m.term == self.raft.term
                    && m.index.max(m.reject_hint) > last =>
            {
                Err(Refused::IndexBeyondLog { index: m.index.max(m.reject_hint), last })
            }
            M::MsgTimeoutNow => self.check_leader_message(m).and_then(|()| self.may_campaign()),
            M::MsgReadIndexResp => self.check_leader_message(m),
            M::MsgReadIndex => self.read_request(m),
            _ => Ok(()),
        }
    }

    fn check_leader_message(&self, m: &Message) -> Result<(), Refused> {
        if m.term == self.raft.term && m.from == self.raft.leader_id {
            Ok(())
        } else {
            Err(Refused::NotFromLeader { from: m.from })
        }
    }

    fn may_campaign(&self) -> Result<(), Refused> {
        let alone = self.members.voters == [self.raft.id];
        if alone && !self.raft.raft_log.unstable_entries().is_empty() { Err(Refused::Busy) } else { Ok(()) }
    }

    /// A follower's engine would forward it to the leader with the asker as its sender, which the leader's link refuses.
    fn read_request(&self, m: &Message) -> Result<(), Refused> {
        if self.raft.state != StateRole::Leader {
            return Err(Refused::NotLeader);
        }
        if !m.entries.iter().all(|e| reads::is_of(m.from, &e.data)) {
            return Err(Refused::Entries("a read carries its asker's context"));
        }
        if self.raft.pending_read_count() >= reads::MAX_READS_AT_LEADER {
            return Err(Refused::TooManyReads);
        }
        Ok(())
    }
}

/// Whether the entries follow what the message says is before them, their terms never fall, and each is one that a leader could write.
fn append_entries(m: &Message, entries: &[Entry]) -> Result<(), Refused> {
    if entries.len() > MAX_ENTRIES_PER_MESSAGE {
        return Err(Refused::Entries("too many in one message"));
    }
    let (mut index, mut term) = (m.index, m.log_term);
    for entry in entries {
        let next = index.checked_add(1).filter(|next| *next == entry.index && *next < u64::MAX);
        index = next.ok_or(Refused::Entries("their indexes have a gap"))?;
        if entry.term < term.max(1) || entry.term > m.term {
            return Err(Refused::Entries("their terms are out of order"));
        }
        term = entry.term;
        if entry.data.len() > record::MAX_STORED_ENTRY_BYTES || !entry.context.is_empty() {
            return Err(Refused::Entries("one is too large"));
        }
        record::decode_change(entry).map_err(Refused::Entries)?;
    }
    Ok(())
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::TooLong { bytes } => {
                write!(f, "the message has {bytes} bytes, at most {MAX_MESSAGE_BYTES} are allowed")
            }
            Refused::Version { found, known } => write!(
                f,
                "the message is of version {found}, this build knows {known}: run one build on all servers"
            ),
            Refused::Malformed(why) => write!(f, "the message is malformed: {why}"),
            Refused::NotForUs { to } => write!(f, "the message is for server {to}: check the addresses"),
            Refused::NotFromPeer { said, peer } => {
                write!(f, "peer {peer} sent a message in the name of server {said}")
            }
            Refused::Empty => {
                f.write_str("this server has no members yet: it votes after its first snapshot")
            }
            Refused::NotMember { from } => write!(f, "server {from} is no member: add it first"),
            Refused::Kind(what) => write!(f, "no peer sends {what}"),
            Refused::NoTerm => f.write_str("the message has no term"),
            Refused::Term { found, own } => write!(f, "term {found} makes no sense in term {own}"),
            Refused::CommitBeyondLog { commit, last } => write!(
                f,
                "entry {commit} is said to be committed, but the log ends with {last}: \
                 if this server lost its disk, remove it and add it under a new number"
            ),
            Refused::IndexBeyondLog { index, last } => {
                write!(f, "entry {index} is said to be there, but the log ends with {last}")
            }
            Refused::Entries(why) => write!(f, "the message's entries are refused: {why}"),
            Refused::NotFromLeader { from } => write!(f, "server {from} does not lead in this term"),
            Refused::NotLeader => f.write_str("this server does not lead: ask the leader"),
            Refused::TooManyReads => f.write_str("too many reads wait for the leader: try again"),
            Refused::Busy => f.write_str("this server writes its log first: try again"),
            Refused::NoRoom => f.write_str("this server's disk is full: another one has to lead"),
        }
    }
}

impl std::error::Error for Refused {}
