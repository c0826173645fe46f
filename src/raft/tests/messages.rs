//! What peers may say: each refusal, and that what is refused changes nothing.

use super::cluster::Cluster;
use crate::record::{encode_change, encode_message};
use crate::{LogSpace, MAX_MESSAGE_BYTES, Refused as R};
use raft_engine::eraftpb::{ConfChangeType, Entry, EntryType, Message, MessageType as M};

/// A follower 2 that knows leader 1 and has entry 2 committed.
struct Scene {
    cluster: Cluster,
    leader: u64,
    follower: u64,
    term: u64,
}

fn scene() -> Scene {
    let mut cluster = Cluster::new(1, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let term = cluster.node(leader).term();
    Scene { cluster, leader, follower: leader % 3 + 1, term }
}

impl Scene {
    fn leader_message(&self, msg_type: M) -> Message {
        let (to, from, term) = (self.follower, self.leader, self.term);
        Message { msg_type, to, from, term, ..Message::default() }
    }

    fn to_leader(&self, msg_type: M) -> Message {
        let (to, from, term) = (self.leader, self.follower, self.term);
        Message { msg_type, to, from, term, ..Message::default() }
    }

    /// An append after entry 2, which everybody has.
    fn append(&self, entries: Vec<Entry>) -> Message {
        Message { index: 2, log_term: self.term, entries, ..self.leader_message(M::MsgAppend) }
    }

    /// What the receiver says; when it refuses, it is as it was.
    fn say(&mut self, message: &Message) -> Result<(), R> {
        self.say_bytes(message.from, message.to, &encode_message(message))
    }

    fn say_bytes(&mut self, peer: u64, to: u64, bytes: &[u8]) -> Result<(), R> {
        let node = self.cluster.node(to);
        let before = (node.term(), node.leader(), node.position());
        let said = node.receive(peer, bytes, LogSpace::Enough);
        if let Err(refused) = &said {
            assert_eq!((node.term(), node.leader(), node.position()), before, "{refused}");
            assert!(!node.has_work(), "{refused}");
        }
        said
    }
}

fn entry(index: u64, term: u64) -> Entry {
    Entry { index, term, data: vec![1].into(), ..Entry::default() }
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let mut s = scene();
    let (leader, follower) = (s.leader, s.follower);
    let good = encode_message(&s.leader_message(M::MsgHeartbeat));
    assert!(matches!(s.say_bytes(leader, follower, &[]), Err(R::Malformed(_))));
    assert!(matches!(s.say_bytes(leader, follower, &good[..good.len() - 1]), Err(R::Malformed(_))));
    assert!(matches!(s.say_bytes(leader, follower, &[good.clone(), vec![0]].concat()), Err(R::Malformed(_))));
    let newer = [vec![2], good[1..].to_vec()].concat();
    assert_eq!(s.say_bytes(leader, follower, &newer), Err(R::Version { found: 2, known: 1 }));
    let bytes = MAX_MESSAGE_BYTES + 1;
    assert_eq!(s.say_bytes(leader, follower, &vec![1; bytes]), Err(R::TooLong { bytes }));
    assert_eq!(s.say_bytes(leader, follower, &good), Ok(()));
}

#[test]
fn the_encoding_of_messages_has_not_changed() {
    let message =
        Message { msg_type: M::MsgHeartbeat, to: 2, from: 1, term: 3, commit: 4, ..Message::default() };
    let bytes = [1, 8, 2, 1, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(encode_message(&message), bytes);
}

#[test]
fn a_message_with_a_wrong_sender_or_receiver_is_refused() {
    let mut s = scene();
    let third = 6 - s.leader - s.follower;
    let message = s.leader_message(M::MsgHeartbeat);
    let bytes = encode_message(&message);
    let (leader, follower) = (s.leader, s.follower);
    assert_eq!(s.say_bytes(third, follower, &bytes), Err(R::NotFromPeer { said: leader, peer: third }));
    assert_eq!(s.say_bytes(leader, third, &bytes), Err(R::NotForUs { to: follower }));
    let own = encode_message(&Message { from: follower, ..message.clone() });
    assert_eq!(s.say_bytes(follower, follower, &own), Err(R::NotFromPeer { said: follower, peer: follower }));
}

#[test]
fn only_members_answer_and_ask() {
    let mut s = scene();
    for kind in [
        M::MsgAppendResponse,
        M::MsgHeartbeatResponse,
        M::MsgRequestVoteResponse,
        M::MsgRequestPreVoteResponse,
        M::MsgReadIndex,
    ] {
        let message = Message { from: 9, ..s.to_leader(kind) };
        assert_eq!(s.say(&message), Err(R::NotMember { from: 9 }));
    }
    // it may be a member that this replica has not heard of
    let vote = Message { from: 9, index: 9, log_term: s.term, ..s.leader_message(M::MsgRequestPreVote) };
    assert_eq!(s.say(&Message { term: s.term + 1, ..vote }), Ok(()));
}

#[test]
fn messages_that_no_peer_sends_are_refused() {
    let mut s = scene();
    for kind in [
        M::MsgHup,
        M::MsgBeat,
        M::MsgUnreachable,
        M::MsgSnapStatus,
        M::MsgCheckQuorum,
        M::MsgPropose,
        M::MsgTransferLeader,
        M::MsgSnapshot,
    ] {
        let message = s.leader_message(kind);
        assert!(matches!(s.say(&message), Err(R::Kind(_))), "{kind:?}");
    }
    let asking = Message { request_snapshot: 1, ..s.to_leader(M::MsgAppendResponse) };
    assert!(matches!(s.say(&asking), Err(R::Kind(_))));
    let long = Message { context: vec![0; 65].into(), ..s.leader_message(M::MsgHeartbeat) };
    assert!(matches!(s.say(&long), Err(R::Malformed(_))));
}

#[test]
fn a_message_with_an_impossible_term_is_refused() {
    let mut s = scene();
    let beat = s.leader_message(M::MsgHeartbeat);
    assert_eq!(s.say(&Message { term: 0, ..beat.clone() }), Err(R::NoTerm));
    let (far, own) = (u64::MAX, s.term);
    assert_eq!(s.say(&Message { term: far, ..beat.clone() }), Err(R::Term { found: far, own }));
    let ahead = Message { log_term: own + 1, ..s.append(vec![]) };
    assert_eq!(s.say(&ahead), Err(R::Term { found: own + 1, own }));
}

/// The engine ends the process over the first of these.
#[test]
fn a_message_with_an_index_beyond_the_log_is_refused() {
    let mut s = scene();
    let beat = Message { commit: 99, ..s.leader_message(M::MsgHeartbeat) };
    assert_eq!(s.say(&beat), Err(R::CommitBeyondLog { commit: 99, last: 2 }));
    let vote =
        Message { commit: 9, index: 3, log_term: 1, term: s.term + 1, ..s.leader_message(M::MsgRequestVote) };
    assert_eq!(s.say(&vote), Err(R::CommitBeyondLog { commit: 9, last: 3 }));
    let vote = Message { index: u64::MAX, ..vote };
    assert_eq!(s.say(&vote), Err(R::IndexBeyondLog { index: u64::MAX, last: 2 }));
    let ack = Message { index: 99, ..s.to_leader(M::MsgAppendResponse) };
    assert_eq!(s.say(&ack), Err(R::IndexBeyondLog { index: 99, last: 2 }));
    let hint = Message { index: 2, reject: true, reject_hint: u64::MAX, ..s.to_leader(M::MsgAppendResponse) };
    assert_eq!(s.say(&hint), Err(R::IndexBeyondLog { index: u64::MAX, last: 2 }));
    let append = Message { commit: 99, ..s.append(vec![]) };
    assert_eq!(s.say(&append), Ok(()), "it commits what the message covers, and no more");
    let follower = s.follower;
    assert_eq!(s.cluster.node(follower).position().commit, 2);
}

#[test]
fn an_append_whose_entries_have_holes_is_refused() {
    let mut s = scene();
    let term = s.term;
    let mut joint = encode_change(4, ConfChangeType::AddNode, vec![]);
    joint.changes.push(joint.changes[0].clone());
    let changes = |kind, data: Vec<u8>| Entry { entry_type: kind, data: data.into(), ..entry(3, term) };
    let bad = [
        vec![entry(4, term)],
        vec![entry(3, term), entry(5, term)],
        vec![entry(3, term - 1)],
        vec![entry(3, term + 1)],
        vec![entry(3, 0)],
        (3..3000).map(|index| entry(index, term)).collect(),
        vec![Entry { context: vec![1].into(), ..entry(3, term) }],
        vec![Entry { data: vec![0; crate::MAX_ENTRY_BYTES + 65].into(), ..entry(3, term) }],
        vec![changes(EntryType::EntryConfChange, vec![])],
        vec![changes(EntryType::EntryConfChangeV2, vec![9, 9])],
        vec![changes(EntryType::EntryConfChangeV2, crate::record::encoded(&joint))],
    ];
    for entries in bad {
        let count = entries.len();
        let message = s.append(entries);
        assert!(matches!(s.say(&message), Err(R::Entries(_))), "{count} entries");
    }
    let message = Message { entries: vec![entry(3, term)], ..s.leader_message(M::MsgHeartbeat) };
    assert!(matches!(s.say(&message), Err(R::Entries(_))));
    let message = s.append(vec![entry(3, term), entry(4, term)]);
    assert_eq!(s.say(&message), Ok(()));
}

#[test]
fn an_append_from_index_1_to_an_empty_replica_is_refused() {
    let mut s = scene();
    s.cluster.add(4, super::cluster::Disk::default());
    let from_start = Message { to: 4, entries: vec![entry(1, 1)], index: 0, log_term: 0, ..s.append(vec![]) };
    assert_eq!(s.say(&from_start), Err(R::Empty));
}

#[test]
fn only_the_leader_transfers_leadership_and_answers_reads() {
    let mut s = scene();
    let third = 6 - s.leader - s.follower;
    for kind in [M::MsgTimeoutNow, M::MsgReadIndexResp] {
        let entries = if kind == M::MsgTimeoutNow { vec![] } else { vec![entry(0, 0)] };
        let message = Message { from: third, entries, ..s.leader_message(kind) };
        assert_eq!(s.say(&message), Err(R::NotFromLeader { from: third }));
        let stale = Message { from: s.leader, term: s.term - 1, ..message };
        assert_eq!(s.say(&stale), Err(R::NotFromLeader { from: s.leader }));
    }
}

/// The engine would pass the question on in the asker's name.
#[test]
fn a_read_index_request_carries_its_senders_context() {
    let mut s = scene();
    let third = 6 - s.leader - s.follower;
    let context = [third.to_be_bytes(), [0; 8], [0; 8]].concat();
    let ask = |to, data: Vec<u8>| Message {
        msg_type: M::MsgReadIndex,
        to,
        from: third,
        entries: vec![Entry { data: data.into(), ..Entry::default() }],
        ..Message::default()
    };
    assert_eq!(s.say(&ask(s.follower, context.clone())), Err(R::NotLeader));
    let forged = [s.leader.to_be_bytes(), [0; 8], [0; 8]].concat();
    assert!(matches!(s.say(&ask(s.leader, forged)), Err(R::Entries(_))));
    assert!(matches!(s.say(&ask(s.leader, vec![])), Err(R::Entries(_))));
    let of_term = Message { term: s.term, ..ask(s.leader, context.clone()) };
    assert_eq!(s.say(&of_term), Err(R::Term { found: s.term, own: s.term }));
    assert_eq!(s.say(&ask(s.leader, context)), Ok(()));
}

#[test]
fn reads_that_wait_for_a_leader_are_bounded() {
    let mut s = scene();
    let (leader, follower) = (s.leader, s.follower);
    let mut refused = None;
    for number in 0..200_u64 {
        let data = [follower.to_be_bytes(), [0; 8], number.to_be_bytes()].concat();
        let entries = vec![Entry { data: data.into(), ..Entry::default() }];
        let message = Message { term: 0, entries, ..s.to_leader(M::MsgReadIndex) };
        refused = s.cluster.node(leader).receive(follower, &encode_message(&message), LogSpace::Enough).err();
    }
    assert_eq!(refused, Some(R::TooManyReads));
}

#[test]
fn a_lone_voter_writes_before_it_campaigns() {
    let mut s = scene();
    let mut alone = Cluster::new(2, &[1]);
    alone.turns(1);
    // another leader that this replica has not heard of as a member
    let term = alone.node(1).term() + 1;
    let say = |m: Message| encode_message(&Message { to: 1, from: 2, term, ..m });
    let append =
        say(Message { index: 2, log_term: term - 1, entries: vec![entry(3, term)], ..s.append(vec![]) });
    alone.node(1).receive(2, &append, LogSpace::Enough).unwrap();
    for _ in 0..50 {
        alone.node(1).tick();
    }
    let now = say(s.leader_message(M::MsgTimeoutNow));
    assert_eq!(alone.node(1).receive(2, &now, LogSpace::Enough), Err(R::Busy));
    assert!(!alone.node(1).is_leader());
    s.cluster.step();
}

#[test]
fn every_refusal_says_what_is_wrong() {
    let all = [
        R::TooLong { bytes: 1 },
        R::Version { found: 2, known: 1 },
        R::Malformed("it".into()),
        R::NotForUs { to: 1 },
        R::NotFromPeer { said: 1, peer: 2 },
        R::Empty,
        R::NotMember { from: 1 },
        R::Kind("it"),
        R::NoTerm,
        R::Term { found: 1, own: 2 },
        R::CommitBeyondLog { commit: 2, last: 1 },
        R::IndexBeyondLog { index: 2, last: 1 },
        R::Entries("it"),
        R::NotFromLeader { from: 1 },
        R::NotLeader,
        R::TooManyReads,
        R::Busy,
        R::NoRoom,
    ];
    let texts: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
}
