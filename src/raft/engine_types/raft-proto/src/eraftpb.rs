//! The messages of raft 0.7.0 as plain structs. Names, fields and numbers are those of its own protobuf file, because the
//! engine reaches for them by name; the encoding is postcard's, so fields are told apart by their order: append only.

use crate::accessors::{Access, enums, messages};
use bytes::Bytes;

enums! {
    /// What an entry of the log carries.
    EntryType {
        EntryNormal = 0,
        EntryConfChange = 1,
        EntryConfChangeV2 = 2,
    }

    /// What a message asks or answers.
    MessageType {
        MsgHup = 0,
        MsgBeat = 1,
        MsgPropose = 2,
        MsgAppend = 3,
        MsgAppendResponse = 4,
        MsgRequestVote = 5,
        MsgRequestVoteResponse = 6,
        MsgSnapshot = 7,
        MsgHeartbeat = 8,
        MsgHeartbeatResponse = 9,
        MsgUnreachable = 10,
        MsgSnapStatus = 11,
        MsgCheckQuorum = 12,
        MsgTransferLeader = 13,
        MsgTimeoutNow = 14,
        MsgReadIndex = 15,
        MsgReadIndexResp = 16,
        MsgRequestPreVote = 17,
        MsgRequestPreVoteResponse = 18,
    }

    /// How a change of membership passes through its joint phase.
    ConfChangeTransition {
        Auto = 0,
        Implicit = 1,
        Explicit = 2,
    }

    /// What happens to one member.
    ConfChangeType {
        AddNode = 0,
        RemoveNode = 1,
        AddLearnerNode = 2,
    }
}

// field: type => getter setter borrower taker
messages! {
    /// One entry of the log.
    Entry {
        entry_type: EntryType => get_entry_type set_entry_type mut_entry_type take_entry_type;
        term: u64 => get_term set_term mut_term take_term;
        index: u64 => get_index set_index mut_index take_index;
        data: Bytes => get_data set_data mut_data take_data;
        context: Bytes => get_context set_context mut_context take_context;
        sync_log: bool => get_sync_log set_sync_log mut_sync_log take_sync_log;
    }

    /// What a snapshot stands for: everything up to and including `index`.
    SnapshotMetadata {
        conf_state: ConfState => get_conf_state set_conf_state mut_conf_state take_conf_state;
        index: u64 => get_index set_index mut_index take_index;
        term: u64 => get_term set_term mut_term take_term;
    }

    /// A snapshot on its way to a follower.
    Snapshot {
        data: Bytes => get_data set_data mut_data take_data;
        metadata: SnapshotMetadata => get_metadata set_metadata mut_metadata take_metadata;
    }

    /// What one peer says to another, or to itself.
    Message {
        msg_type: MessageType => get_msg_type set_msg_type mut_msg_type take_msg_type;
        to: u64 => get_to set_to mut_to take_to;
        from: u64 => get_from set_from mut_from take_from;
        term: u64 => get_term set_term mut_term take_term;
        log_term: u64 => get_log_term set_log_term mut_log_term take_log_term;
        index: u64 => get_index set_index mut_index take_index;
        entries: Vec<Entry> => get_entries set_entries mut_entries take_entries;
        commit: u64 => get_commit set_commit mut_commit take_commit;
        commit_term: u64 => get_commit_term set_commit_term mut_commit_term take_commit_term;
        snapshot: Snapshot => get_snapshot set_snapshot mut_snapshot take_snapshot;
        request_snapshot: u64 => get_request_snapshot set_request_snapshot mut_request_snapshot take_request_snapshot;
        reject: bool => get_reject set_reject mut_reject take_reject;
        reject_hint: u64 => get_reject_hint set_reject_hint mut_reject_hint take_reject_hint;
        context: Bytes => get_context set_context mut_context take_context;
        deprecated_priority: u64 => get_deprecated_priority set_deprecated_priority mut_deprecated_priority take_deprecated_priority;
        priority: i64 => get_priority set_priority mut_priority take_priority;
    }

    /// What must be durable before a promise is made.
    HardState {
        term: u64 => get_term set_term mut_term take_term;
        vote: u64 => get_vote set_vote mut_vote take_vote;
        commit: u64 => get_commit set_commit mut_commit take_commit;
    }

    /// Who votes and who learns, during a joint change both the incoming and the outgoing voters.
    ConfState {
        voters: Vec<u64> => get_voters set_voters mut_voters take_voters;
        learners: Vec<u64> => get_learners set_learners mut_learners take_learners;
        voters_outgoing: Vec<u64> => get_voters_outgoing set_voters_outgoing mut_voters_outgoing take_voters_outgoing;
        learners_next: Vec<u64> => get_learners_next set_learners_next mut_learners_next take_learners_next;
        auto_leave: bool => get_auto_leave set_auto_leave mut_auto_leave take_auto_leave;
    }

    /// A change of one member (the older form).
    ConfChange {
        change_type: ConfChangeType => get_change_type set_change_type mut_change_type take_change_type;
        node_id: u64 => get_node_id set_node_id mut_node_id take_node_id;
        context: Bytes => get_context set_context mut_context take_context;
        id: u64 => get_id set_id mut_id take_id;
    }

    /// One step of a change of membership.
    ConfChangeSingle {
        change_type: ConfChangeType => get_change_type set_change_type mut_change_type take_change_type;
        node_id: u64 => get_node_id set_node_id mut_node_id take_node_id;
    }

    /// A change of membership in one or more steps.
    ConfChangeV2 {
        transition: ConfChangeTransition => get_transition set_transition mut_transition take_transition;
        changes: Vec<ConfChangeSingle> => get_changes set_changes mut_changes take_changes;
        context: Bytes => get_context set_context mut_context take_context;
    }
}

impl Snapshot {
    pub fn is_empty(&self) -> bool {
        self.metadata.index == 0
    }
}

impl<V, L> From<(V, L)> for ConfState
where
    V: IntoIterator<Item = u64>,
    L: IntoIterator<Item = u64>,
{
    fn from((voters, learners): (V, L)) -> Self {
        ConfState {
            voters: voters.into_iter().collect(),
            learners: learners.into_iter().collect(),
            ..ConfState::default()
        }
    }
}
