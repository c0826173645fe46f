//! Snapshots: who needs one, what is installed, and what the log keeps so that few are needed.

use super::cluster::{Cluster, Disk};
use crate::record::{decode_message, encode_message};
use crate::snapshot::MAX_TERMS_AHEAD;
use crate::{InstallRefused, Installed, LogSpace, Members, MembershipChange, Saved, Snapshot};
use raft_engine::Storage;
use raft_engine::eraftpb::MessageType;

/// The leader has proposed `entries` of 100 bytes while one follower was away: that follower.
fn leave_behind(cluster: &mut Cluster, entries: usize) -> u64 {
    let leader = cluster.elect();
    cluster.settle();
    let away = leader % 3 + 1;
    cluster.isolate(away);
    for _ in 0..entries {
        cluster.node(leader).propose(vec![7; 100]).unwrap();
        cluster.step();
    }
    // what is applied may still be unsaved
    cluster.replicas.values_mut().for_each(|r| r.disk.state = r.state.clone());
    cluster.step();
    away
}

#[test]
fn a_follower_within_the_log_budget_gets_entries_alone() {
    let mut cluster = Cluster::new(1, &[1, 2, 3]);
    cluster.budget_bytes = 4000;
    leave_behind(&mut cluster, 20);
    cluster.heal();
    cluster.settle();
    assert_eq!(cluster.snapshots_taken, 0);
}

#[test]
fn a_follower_beyond_the_log_budget_gets_a_snapshot() {
    let mut cluster = Cluster::new(2, &[1, 2, 3]);
    cluster.budget_bytes = 4000;
    let away = leave_behind(&mut cluster, 60);
    cluster.heal();
    cluster.settle();
    assert_eq!(cluster.snapshots_taken, 1);
    let leader = cluster.leader().unwrap();
    assert_eq!(cluster.replicas[&away].state.rows, cluster.replicas[&leader].state.rows);
    assert_eq!(cluster.node(leader).wants_snapshot(), []);
}

#[test]
fn a_failed_snapshot_is_wanted_again() {
    let mut cluster = Cluster::new(3, &[1]);
    cluster.turns(1);
    cluster.node(1).propose_change(MembershipChange::AddLearner(2), vec![]).unwrap();
    cluster.turns(1);
    cluster.add(2, Disk::default());
    cluster.cut.insert((1, 2));
    for _ in 0..20 {
        cluster.step();
    }
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(cluster.snapshots_taken, 1);
}

#[test]
fn the_log_is_kept_for_slow_followers_up_to_its_budget() {
    let mut cluster = Cluster::new(4, &[1, 2, 3]);
    cluster.budget_bytes = usize::MAX;
    let leader = cluster.elect();
    cluster.settle();
    let all = cluster.node(leader).snapshot().index;
    assert_eq!(cluster.node(leader).compactable(usize::MAX), Some(all), "everybody has it");
    let follower = leader % 3 + 1;
    assert_eq!(cluster.node(follower).compactable(usize::MAX), None, "it may come to lead");
    leave_behind(&mut cluster, 30);
    let node = cluster.node(leader);
    assert!(node.compactable(usize::MAX).is_none_or(|index| index <= all));
    let cut = node.compactable(1700).unwrap();
    assert_eq!(node.snapshot().index - cut, 10, "164 bytes each");
    assert_eq!(node.compactable(0), Some(node.snapshot().index), "never what is not applied");
}

#[test]
fn installing_is_refused_with_a_reason() {
    let mut cluster = Cluster::new(5, &[1, 2, 3]);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let snapshot =
        |index, term, voters: &[u64]| Snapshot { index, term, members: Members::of_voters(voters.to_vec()) };
    let good = snapshot(50, 1, &[1, 2, 3]);
    assert_eq!(cluster.node(leader).install(&good), Err(InstallRefused::Leading));
    let follower = cluster.node(follower);
    assert_eq!(follower.install(&snapshot(50, 1, &[8, 9])), Err(InstallRefused::NotMember));
    let term = follower.term();
    let too_far = term + MAX_TERMS_AHEAD + 1;
    for (index, term) in [(0, 1), (1, 0), (u64::MAX, 1), (50, too_far), (1, u64::MAX)] {
        assert_eq!(follower.install(&snapshot(index, term, &[1, 2, 3])), Err(InstallRefused::Invalid));
    }
    assert_eq!(follower.term(), term, "the next election has a term, too");
    for refused in [InstallRefused::Leading, InstallRefused::NotMember, InstallRefused::Invalid] {
        assert!(refused.to_string().contains(": "), "{refused} says what to do");
    }
}

#[test]
fn a_snapshot_that_is_applied_already_is_acknowledged_alone() {
    let mut cluster = Cluster::new(6, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let follower = leader % 3 + 1;
    let snapshot = cluster.node(leader).snapshot().clone();
    assert_eq!(cluster.node(follower).install(&snapshot), Ok(Installed::NotNeeded));
    assert_eq!(cluster.node(follower).install(&Snapshot::founding([1, 2, 3])), Ok(Installed::NotNeeded));
    let step = cluster.node(follower).step().unwrap();
    assert!(step.batch.install.is_none());
    assert_eq!(cluster.node(follower).persisted(step).messages.len(), 2);
}

#[test]
fn an_installed_snapshot_is_acknowledged_when_it_is_durable() {
    let mut cluster = Cluster::new(7, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let follower = leader % 3 + 1;
    let node = cluster.node(follower);
    let term = node.term();
    let snapshot = Snapshot { index: 50, term, members: Members::of_voters([1, 2, 3]) };
    assert_eq!(node.install(&snapshot), Ok(Installed::Taken));
    let step = node.step().unwrap();
    assert!(step.batch.must_sync() && step.early.is_empty());
    assert_eq!(step.batch.install.as_ref(), Some(&snapshot));
    let released = node.persisted(step);
    assert!(released.committed.is_empty());
    let ack = decode_message(&released.messages[0].message).unwrap();
    assert_eq!((ack.msg_type, ack.index), (MessageType::MsgAppendResponse, 50));
    node.applied();
    assert_eq!((node.position().compacted, node.position().commit, node.snapshot()), (50, 50, &snapshot));
}

#[test]
fn a_candidate_installs_without_a_term_of_its_own() {
    let founded = Saved::from_snapshot(&Snapshot::founding([1, 2, 3]));
    let mut node = crate::RaftNode::open(crate::Config { id: 1, seed: 1 }, founded).unwrap();
    (0..30).for_each(|_| node.tick());
    let term = node.term();
    let snapshot = Snapshot { index: 9, term: 1, members: Members::of_voters([1, 2, 3]) };
    assert_eq!(node.install(&snapshot), Ok(Installed::Taken));
    assert_eq!(node.term(), term);
    let later = Snapshot { index: 10, term: 5, ..snapshot };
    assert_eq!(node.install(&later), Ok(Installed::Taken));
    assert_eq!((node.term(), node.step().unwrap().batch.install), (5, Some(later)));
}

/// It would refuse rows that do not know it, and the engine would go on offering them.
#[test]
fn a_snapshot_is_offered_to_its_members_only() {
    let mut cluster = Cluster::new(8, &[1]);
    cluster.turns(1);
    let store = cluster.node(1).raw.store();
    assert!(store.snapshot(0, 1).is_ok());
    assert!(store.snapshot(0, 2).is_err());
    assert!(store.snapshot(99, 1).is_err(), "nor one that is too old");
}

#[test]
fn no_message_holds_a_snapshot() {
    let mut cluster = Cluster::new(9, &[1]);
    cluster.turns(1);
    let index = cluster.node(1).propose_change(MembershipChange::AddLearner(2), vec![]).unwrap();
    cluster.turns(1);
    let ack = raft_engine::eraftpb::Message {
        msg_type: MessageType::MsgAppendResponse,
        to: 1,
        from: 2,
        term: cluster.node(1).term(),
        index: index - 1,
        reject: true,
        ..Default::default()
    };
    cluster.node(1).receive(2, &encode_message(&ack), LogSpace::Enough).unwrap();
    let node = cluster.node(1);
    let wanted = node.wants_snapshot();
    assert_eq!((wanted.len(), wanted[0].member, wanted[0].at_least), (1, 2, index));
    let step = node.step().unwrap();
    assert!(step.early.is_empty(), "the engine's message stays here");
    node.persisted(step);
    node.applied();
    node.report_snapshot(2, false);
    assert_eq!(node.wants_snapshot(), []);
}
