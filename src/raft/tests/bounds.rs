//! Bounds: of proposals, of messages, of what is under way; and what may leave before it is durable.

use super::cluster::Cluster;
use crate::log::MAX_ENTRIES_PER_READ;
use crate::outgoing::{MAX_ENTRIES_PER_MESSAGE, MAX_INFLIGHT_BYTES};
use crate::record::decode_message;
use crate::{LogSpace, MAX_ENTRY_BYTES, MAX_MESSAGE_BYTES, Outbound, ProposalRefused as R};
use raft_engine::eraftpb::{Message, MessageType};

const MIB: usize = 1 << 20;

fn read(outbound: &[Outbound]) -> Vec<Message> {
    outbound.iter().map(|o| decode_message(&o.message).unwrap()).collect()
}

fn settled(seed: u64) -> (Cluster, u64) {
    let mut cluster = Cluster::new(seed, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    (cluster, leader)
}

#[test]
fn proposals_are_refused_with_a_reason() {
    let (mut cluster, leader) = settled(1);
    let bytes = MAX_ENTRY_BYTES + 1;
    assert_eq!(cluster.node(leader).propose(vec![0; bytes]), Err(R::TooLarge { bytes }));
    assert_eq!(cluster.node(leader % 3 + 1).propose(vec![0]), Err(R::NotLeader));
    for _ in 0..MAX_ENTRIES_PER_READ {
        cluster.node(leader).propose(vec![0]).unwrap();
    }
    assert_eq!(cluster.node(leader).propose(vec![0]), Err(R::TooMuchUncommitted));
    cluster.settle();
    for refused in [R::NotLeader, R::Transferring, R::TooLarge { bytes }, R::TooMuchUncommitted] {
        assert!(refused.to_string().contains(": "), "{refused} says what to do");
    }
}

#[test]
fn what_is_not_committed_is_bounded_in_bytes() {
    let (mut cluster, leader) = settled(2);
    cluster.isolate(leader);
    let mut taken = 0;
    while cluster.node(leader).propose(vec![0; MIB]).is_ok() {
        cluster.turns(leader);
        taken += 1;
    }
    assert_eq!(taken, 8);
}

#[test]
fn a_lone_voter_has_no_bound_on_what_is_not_committed() {
    let mut cluster = Cluster::new(3, &[1]);
    cluster.turns(1);
    cluster.node(1).propose(vec![0; MAX_ENTRY_BYTES + 1]).unwrap();
    for _ in 0..3 * MAX_ENTRIES_PER_READ {
        cluster.node(1).propose(vec![0]).unwrap();
    }
    cluster.turns(1);
    assert_eq!(cluster.replicas[&1].state.rows.len(), 2 + 3 * MAX_ENTRIES_PER_READ);
}

#[test]
fn the_largest_entry_fits_into_a_message() {
    let (mut cluster, leader) = settled(4);
    cluster.node(leader).propose(vec![255; MAX_ENTRY_BYTES]).unwrap();
    let step = cluster.node(leader).step().unwrap();
    let longest = step.early.iter().map(|o| o.message.len()).max().unwrap();
    assert!(longest > MAX_ENTRY_BYTES && longest <= MAX_MESSAGE_BYTES, "{longest}");
    let messages = step.early.clone();
    drop(cluster.node(leader).persisted(step));
    cluster.node(leader).applied();
    let to = messages[0].to;
    assert_eq!(cluster.node(to).receive(leader, &messages[0].message, LogSpace::Enough), Ok(()));
}

#[test]
fn messages_and_bytes_under_way_are_bounded() {
    let (mut cluster, leader) = settled(5);
    let silent = leader % 3 + 1;
    let mut bytes = 0;
    cluster.cut.insert((silent, leader));
    for _ in 0..8 {
        cluster.node(leader).propose(vec![0; MIB - 100]).unwrap();
        let step = cluster.node(leader).step().unwrap();
        bytes += step.early.iter().filter(|o| o.to == silent).map(|o| o.message.len()).sum::<usize>();
        drop(cluster.node(leader).persisted(step));
        cluster.node(leader).applied();
    }
    assert!(bytes > MAX_INFLIGHT_BYTES / 2 && bytes <= MAX_INFLIGHT_BYTES + MIB, "{bytes}");
}

#[test]
fn dropped_appends_are_sent_again() {
    let (mut cluster, leader) = settled(6);
    for _ in 0..7 {
        cluster.node(leader).propose(vec![1; MIB]).unwrap();
    }
    cluster.settle();
    assert_eq!(cluster.committed.len(), 8);
}

#[test]
fn entries_of_one_message_are_bounded() {
    let (mut cluster, leader) = settled(7);
    let late = leader % 3 + 1;
    cluster.isolate(late);
    for _ in 0..3 {
        for _ in 0..MAX_ENTRIES_PER_READ {
            cluster.node(leader).propose(vec![0]).unwrap();
        }
        cluster.step();
    }
    cluster.heal();
    let mut most = 0;
    for _ in 0..20 {
        cluster.node(leader).tick();
        while let Some(step) = cluster.node(leader).step() {
            let early = read(&step.early);
            most = early.iter().map(|m| m.entries.len()).chain([most]).max().unwrap();
            drop(cluster.node(leader).persisted(step));
            cluster.node(leader).applied();
        }
    }
    cluster.settle();
    assert!(most <= MAX_ENTRIES_PER_MESSAGE, "{most}");
    assert_eq!(cluster.refused, 0);
}

#[test]
fn a_leaders_appends_leave_early_and_acknowledgements_late() {
    let (mut cluster, leader) = settled(8);
    cluster.node(leader).propose(b"a".to_vec()).unwrap();
    let step = cluster.node(leader).step().unwrap();
    assert!(read(&step.early).iter().all(|m| m.msg_type == MessageType::MsgAppend));
    let (to, append) = (step.early[0].to, step.early[0].message.clone());
    assert!(cluster.node(leader).persisted(step).committed.is_empty(), "one of three is no majority");

    cluster.node(to).receive(leader, &append, LogSpace::Enough).unwrap();
    let step = cluster.node(to).step().unwrap();
    assert!(step.early.is_empty() && step.batch.must_sync());
    let late = read(&cluster.node(to).persisted(step).messages);
    assert_eq!(late[0].msg_type, MessageType::MsgAppendResponse);
}

#[test]
fn a_commit_index_alone_is_not_synced() {
    let (mut cluster, leader) = settled(9);
    cluster.node(leader).propose(b"a".to_vec()).unwrap();
    let follower = leader % 3 + 1;
    let before = cluster.replicas[&follower].disk.hard_state.clone();
    cluster.settle();
    assert_eq!(cluster.replicas[&follower].disk.hard_state, before);
    assert_eq!(cluster.node(follower).position().commit, 3);
}

#[test]
#[should_panic(expected = "a step is persisted before anything else")]
fn a_node_with_a_pending_step_takes_no_other_call() {
    let (mut cluster, leader) = settled(10);
    cluster.node(leader).propose(b"a".to_vec()).unwrap();
    let _step = cluster.node(leader).step();
    cluster.node(leader).tick();
}

/// It votes and is not deposed meanwhile, and takes what it lacks once there is room.
#[test]
fn a_replica_on_a_full_disk_appends_nothing_and_lags() {
    let (mut cluster, leader) = settled(6);
    let full = leader % 3 + 1;
    cluster.replicas.get_mut(&full).unwrap().room = LogSpace::None;
    let (end, term) = (cluster.node(full).position().last_index, cluster.node(full).term());
    for _ in 0..100 {
        cluster.node(leader).propose(vec![7; 100]).unwrap();
        cluster.step();
    }
    assert_eq!(cluster.node(full).position().last_index, end);
    assert_eq!((cluster.leader(), cluster.node(full).term()), (Some(leader), term));
    assert!(cluster.node(leader).position().commit >= end + 99, "the others go on");
    cluster.replicas.get_mut(&full).unwrap().room = LogSpace::Enough;
    cluster.until("it has all", 100, |c| c.node(full).position().commit == c.node(leader).position().commit);
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn a_replica_low_on_disk_appends_and_does_not_take_over() {
    let (mut cluster, leader) = settled(7);
    let full = leader % 3 + 1;
    cluster.replicas.get_mut(&full).unwrap().room = LogSpace::Little;
    cluster.node(leader).propose(vec![7]).unwrap();
    cluster.settle();
    assert_eq!(cluster.node(full).position().commit, cluster.node(leader).position().last_index);
    cluster.node(leader).transfer_leader(full).unwrap();
    (0..40).for_each(|_| cluster.step());
    assert_eq!(cluster.leader(), Some(leader), "it goes on");
    cluster.replicas.get_mut(&full).unwrap().room = LogSpace::Enough;
    cluster.node(leader).transfer_leader(full).unwrap();
    cluster.until("it leads", 40, |c| c.leader() == Some(full));
}
