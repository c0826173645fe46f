//! Reads by index: answered by leader and followers, batched, and lost with the leader that was asked.

use super::cluster::Cluster;
use crate::reads::{MAX_READS, ReadIndexes};
use crate::{ReadLost, ReadRefused};

fn answers(cluster: &Cluster, id: u64) -> Vec<Result<u64, ReadLost>> {
    cluster.replicas[&id].answers.iter().map(|a| a.index).collect()
}

#[test]
fn leader_and_followers_answer_with_what_is_committed() {
    let mut cluster = Cluster::new(1, &[1, 2, 3]);
    let leader = cluster.elect();
    let index = cluster.node(leader).propose(b"a".to_vec()).unwrap();
    cluster.settle();
    for id in 1..=3 {
        assert!(cluster.read(id, id));
        cluster.until("an answer", 10, |c| !answers(c, id).is_empty());
        assert_eq!(answers(&cluster, id), [Ok(index)]);
    }
}

#[test]
fn reads_of_one_turn_share_a_read_index_and_its_heartbeats() {
    let mut cluster = Cluster::new(2, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    for context in 0..100 {
        assert!(cluster.read(leader, context));
    }
    let step = cluster.node(leader).step().unwrap();
    assert_eq!(cluster.node(leader).raw.raft.pending_read_count(), 1);
    assert_eq!(step.early.len(), 2, "one heartbeat to each follower");
}

#[test]
fn a_lone_voter_answers_at_once() {
    let mut cluster = Cluster::new(3, &[1]);
    cluster.turns(1);
    assert!(cluster.read(1, 5));
    cluster.turns(1);
    assert_eq!(answers(&cluster, 1), [Ok(2)]);
}

#[test]
fn reads_without_leader_and_too_many_are_refused() {
    let mut cluster = Cluster::new(4, &[1, 2, 3]);
    assert_eq!(cluster.node(1).read_index(1), Err(ReadRefused::NoLeader));
    let leader = cluster.elect();
    for context in 0..MAX_READS as u64 {
        cluster.node(leader).read_index(context).unwrap();
    }
    assert_eq!(cluster.node(leader).read_index(0), Err(ReadRefused::TooMany));
    for text in [ReadRefused::NoLeader.to_string(), ReadRefused::TooMany.to_string(), ReadLost.to_string()] {
        assert!(text.contains(": "), "{text} says what to do");
    }
}

#[test]
fn reads_are_lost_with_their_leader() {
    let mut cluster = Cluster::new(5, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let follower = leader % 3 + 1;
    cluster.isolate(leader);
    assert!(cluster.read(leader, 1));
    assert!(cluster.read(follower, 2));
    cluster.until("both are told", 100, |c| [leader, follower].iter().all(|id| !answers(c, *id).is_empty()));
    assert_eq!(
        (answers(&cluster, leader), answers(&cluster, follower)),
        (vec![Err(ReadLost)], vec![Err(ReadLost)])
    );
}

#[test]
fn a_follower_repeats_a_lost_read_index_request() {
    let mut cluster = Cluster::new(6, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let follower = leader % 3 + 1;
    assert!(cluster.read(follower, 1));
    cluster.cut.insert((follower, leader));
    cluster.step();
    cluster.cut.clear();
    cluster.until("an answer", 10, |c| !answers(c, follower).is_empty());
    assert!(answers(&cluster, follower)[0].is_ok());
}

/// The engine drops such a question without a word.
#[test]
fn a_new_leader_answers_when_it_has_committed_in_its_term() {
    let mut cluster = Cluster::new(7, &[1, 2, 3]);
    cluster.faults.delay = 3;
    cluster.until("somebody leads", 300, |c| c.leader().is_some());
    let leader = cluster.leader().unwrap();
    assert!(!cluster.node(leader).raw.raft.commit_to_current_term());
    assert!(cluster.read(leader, 1));
    assert!(cluster.node(leader).step().is_none(), "it waits");
    cluster.until("an answer", 30, |c| !answers(c, leader).is_empty());
    assert_eq!(answers(&cluster, leader), [Ok(2)]);
}

#[test]
fn read_indexes_of_an_earlier_run_are_dropped() {
    let (mut old, mut new) = (ReadIndexes::new(1), ReadIndexes::new(2));
    old.expect(7, vec![70]);
    new.expect(7, vec![71]);
    let request_ctx = old.context(1, 7);
    let state = raft_engine::ReadState { index: 5, request_ctx };
    new.take_states(1, vec![state.clone()]);
    assert!(!new.has_answers());
    old.take_states(2, vec![state.clone()]);
    assert!(!old.has_answers(), "nor those of another replica");
    old.take_states(1, vec![state]);
    assert_eq!(old.take_answers()[0].index, Ok(5));
}
