//! Elections: who may ask for votes and when, and that chance comes from the seed alone.

use super::cluster::{Cluster, Disk};
use crate::election::ELECTION_TICKS;
use crate::{Config, LogSpace, RaftNode, Saved, Snapshot};

#[test]
fn an_empty_replica_never_campaigns() {
    let mut node = RaftNode::open(Config { id: 4, seed: 1 }, Saved::default()).unwrap();
    for _ in 0..10 * ELECTION_TICKS {
        node.tick();
        assert!(node.step().is_none());
    }
    assert_eq!((node.term(), node.leader()), (0, None));
}

#[test]
fn timeouts_come_from_the_seed_and_differ() {
    let founded = || Saved::from_snapshot(&Snapshot::founding([1, 2, 3]));
    let ticks_until_campaign = |id, seed| {
        let mut node = RaftNode::open(Config { id, seed }, founded()).unwrap();
        (1..100).find(|_| {
            node.tick();
            node.has_work()
        })
    };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let ticks = ticks_until_campaign(1, seed);
        for _ in 0..5 {
            assert_eq!(ticks_until_campaign(1, seed), ticks, "equal inputs, equal outputs");
        }
        assert!(ticks.is_some_and(|t| (ELECTION_TICKS..2 * ELECTION_TICKS).contains(&t)), "{ticks:?}");
        seen.insert(ticks);
    }
    assert!(seen.len() > 5, "{seen:?}");
    assert!((0..20).any(|seed| ticks_until_campaign(1, seed) != ticks_until_campaign(2, seed)));
}

#[test]
fn timeouts_are_drawn_again_with_each_term_and_campaign() {
    let saved = Saved::from_snapshot(&Snapshot::founding([1, 2, 3]));
    let mut node = RaftNode::open(Config { id: 1, seed: 3 }, saved).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..400 {
        node.tick();
        seen.insert(node.raw.raft.randomized_election_timeout());
        while let Some(step) = node.step() {
            node.persisted(step);
            node.applied();
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
    assert_eq!(node.term(), 1, "nobody answers a pre-vote, so the term stays");
}

#[test]
fn a_replica_that_was_cut_off_does_not_disturb() {
    let mut cluster = Cluster::new(5, &[1, 2, 3]);
    let leader = cluster.elect();
    let term = cluster.node(leader).term();
    let other = (1..=3).find(|id| *id != leader).unwrap();
    cluster.isolate(other);
    for _ in 0..100 {
        cluster.step();
    }
    cluster.heal();
    cluster.settle();
    assert_eq!((cluster.leader(), cluster.node(leader).term()), (Some(leader), term));
}

#[test]
fn a_leader_without_majority_steps_down() {
    let mut cluster = Cluster::new(6, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.isolate(leader);
    cluster.until("another leads", 200, |c| c.leader().is_some_and(|id| id != leader));
    cluster.until("the old one knows", 50, |c| !c.node(leader).is_leader());
}

#[test]
fn leadership_is_transferred_and_proposals_wait() {
    let mut cluster = Cluster::new(7, &[1, 2, 3]);
    let leader = cluster.elect();
    let to = leader % 3 + 1;
    cluster.node(leader).propose(b"a".to_vec()).unwrap();
    cluster.node(leader).transfer_leader(to).unwrap();
    assert_eq!(cluster.node(leader).propose(b"b".to_vec()), Err(crate::ProposalRefused::Transferring));
    cluster.until("it leads", 30, |c| c.node(to).is_leader());
    cluster.settle();
}

#[test]
fn transfers_are_refused_with_a_reason() {
    use crate::TransferRefused as R;
    let mut cluster = Cluster::new(8, &[1, 2, 3]);
    let leader = cluster.elect();
    let (one, two) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    assert_eq!(cluster.node(one).transfer_leader(two), Err(R::NotLeader));
    assert_eq!(cluster.node(leader).transfer_leader(leader), Err(R::ToItself));
    assert_eq!(cluster.node(leader).transfer_leader(9), Err(R::NotVoter(9)));
    cluster.isolate(one);
    cluster.node(leader).propose(b"a".to_vec()).unwrap();
    cluster.node(leader).transfer_leader(one).unwrap();
    assert_eq!(cluster.node(leader).transfer_leader(two), Err(R::Transferring { to: one }));
    for refused in [R::NotLeader, R::ToItself, R::NotVoter(9), R::Transferring { to: one }] {
        assert!(refused.to_string().contains(": "), "{refused} says what to do");
    }
    cluster.until("it is given up", 30, |c| c.node(leader).propose(b"b".to_vec()).is_ok());
}

#[test]
fn an_empty_replica_does_not_vote() {
    let mut cluster = Cluster::new(9, &[1, 2]);
    cluster.add(3, Disk::default());
    let vote = |to| {
        let mut m = raft_engine::eraftpb::Message { to, from: 1, term: 5, ..Default::default() };
        m.msg_type = raft_engine::eraftpb::MessageType::MsgRequestVote;
        (m.index, m.log_term) = (1, 1);
        crate::record::encode_message(&m)
    };
    assert_eq!(cluster.node(3).receive(1, &vote(3), LogSpace::Enough), Err(crate::Refused::Empty));
    assert_eq!(cluster.node(2).receive(1, &vote(2), LogSpace::Enough), Ok(()));
    let step = cluster.node(2).step().unwrap();
    assert!(step.early.is_empty() && step.batch.must_sync(), "a vote leaves when it is durable");
    assert_eq!(cluster.node(2).persisted(step).messages.len(), 1);
}
