//! Changes of membership: how they come about, what is refused, and what a crash or an inherited removal leaves.

use super::cluster::{Cluster, Disk};
use crate::election::ELECTION_TICKS;
use crate::members::{MAX_MEMBERS, PROMOTION_LAG_ENTRIES};
use crate::{ChangeRefused as R, Members, MembershipChange};

/// The leader adds a replica; both rest when it has caught up.
fn add_learner(cluster: &mut Cluster, id: u64) {
    let leader = cluster.elect();
    cluster.settle();
    cluster.node(leader).propose_change(MembershipChange::AddLearner(id), b"add".to_vec()).unwrap();
    cluster.add(id, Disk::default());
    cluster.settle();
}

fn change(cluster: &mut Cluster, change: MembershipChange) -> Result<u64, R> {
    let leader = cluster.leader().unwrap();
    cluster.node(leader).propose_change(change, vec![])
}

#[test]
fn a_learner_catches_up_is_promoted_and_removed() {
    let mut cluster = Cluster::new(1, &[1]);
    add_learner(&mut cluster, 2);
    assert_eq!(*cluster.node(2).members(), Members { voters: vec![1], learners: vec![2] });
    assert_eq!(cluster.snapshots_taken, 1, "an empty replica begins with a snapshot");
    let index = change(&mut cluster, MembershipChange::Promote(2)).unwrap();
    cluster.settle();
    assert_eq!(cluster.node(2).voters(), [1, 2]);
    assert_eq!(cluster.committed[&index].1, None, "no bytes are no command");

    change(&mut cluster, MembershipChange::Remove(2)).unwrap();
    cluster.settle();
    assert_eq!(*cluster.node(1).members(), Members::of_voters([1]));
    let rows = cluster.replicas[&1].state.rows.iter();
    assert_eq!(rows.filter(|row| row.2.as_deref() == Some(&b"add"[..])).count(), 1, "carried as given");
}

#[test]
fn changes_are_refused_with_a_reason() {
    let mut cluster = Cluster::new(2, &[1, 2, 3]);
    let leader = cluster.elect();
    let other = leader % 3 + 1;
    assert_eq!(cluster.node(other).propose_change(MembershipChange::Remove(1), vec![]), Err(R::NotLeader));
    cluster.settle();
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(0)), Err(R::InvalidId));
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(other)), Err(R::AlreadyMember(other)));
    assert_eq!(change(&mut cluster, MembershipChange::Promote(other)), Err(R::NotLearner(other)));
    assert_eq!(change(&mut cluster, MembershipChange::Promote(9)), Err(R::NotLearner(9)));
    assert_eq!(change(&mut cluster, MembershipChange::Remove(9)), Err(R::NotMember(9)));
    assert_eq!(change(&mut cluster, MembershipChange::Remove(leader)), Err(R::OwnRemoval));
    let large = vec![0; crate::MAX_ENTRY_BYTES + 1];
    let refused = cluster.node(leader).propose_change(MembershipChange::AddLearner(4), large);
    assert_eq!(refused, Err(R::TooLarge { bytes: crate::MAX_ENTRY_BYTES + 1 }));

    cluster.node(leader).transfer_leader(other).unwrap();
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(4)), Err(R::Transferring));
}

#[test]
fn every_refusal_says_what_is_wrong() {
    let all = [
        R::NotLeader,
        R::Pending,
        R::Transferring,
        R::InvalidId,
        R::AlreadyMember(1),
        R::NotMember(1),
        R::NotLearner(1),
        R::Behind { id: 1, entries: 70 },
        R::Behind { id: 1, entries: u64::MAX },
        R::OwnRemoval,
        R::LastVoter,
        R::TooManyMembers,
        R::NothingCompacted,
        R::TooLarge { bytes: 1 },
        R::TooMuchUncommitted,
    ];
    let texts: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
}

#[test]
fn the_last_voter_stays_and_members_are_bounded() {
    let mut cluster = Cluster::new(3, &[1]);
    cluster.turns(1);
    assert_eq!(change(&mut cluster, MembershipChange::Remove(1)), Err(R::LastVoter));
    for id in 2..=MAX_MEMBERS as u64 {
        change(&mut cluster, MembershipChange::AddLearner(id)).unwrap();
        cluster.turns(1);
    }
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(99)), Err(R::TooManyMembers));
}

#[test]
fn one_change_at_a_time() {
    let mut cluster = Cluster::new(4, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    change(&mut cluster, MembershipChange::AddLearner(4)).unwrap();
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(5)), Err(R::Pending));
    cluster.until("the first is applied", 20, |c| c.node(leader).members().contains(4));
    change(&mut cluster, MembershipChange::AddLearner(5)).unwrap();
}

#[test]
fn a_new_leader_first_commits_in_its_term() {
    let mut cluster = Cluster::new(5, &[1, 2, 3]);
    cluster.until("somebody leads", 100, |c| c.leader().is_some());
    let leader = cluster.leader().unwrap();
    if !cluster.node(leader).raw.raft.commit_to_current_term() {
        assert_eq!(change(&mut cluster, MembershipChange::AddLearner(4)), Err(R::Pending));
    }
    cluster.isolate(leader);
    cluster.until("another leads", 200, |c| c.leader().is_some_and(|id| id != leader));
    let other = cluster.leader().unwrap();
    cluster.isolate(other);
    if !cluster.node(other).raw.raft.commit_to_current_term() {
        assert_eq!(change(&mut cluster, MembershipChange::AddLearner(4)), Err(R::Pending));
    }
}

#[test]
fn a_learner_that_lags_is_not_promoted() {
    let mut cluster = Cluster::new(6, &[1]);
    cluster.turns(1);
    change(&mut cluster, MembershipChange::AddLearner(2)).unwrap();
    cluster.turns(1);
    assert_eq!(
        change(&mut cluster, MembershipChange::Promote(2)),
        Err(R::Behind { id: 2, entries: u64::MAX })
    );
    cluster.add(2, Disk::default());
    cluster.settle();
    cluster.isolate(2);
    for _ in 0..=PROMOTION_LAG_ENTRIES {
        cluster.node(1).propose(b"a".to_vec()).unwrap();
    }
    cluster.turns(1);
    let entries = PROMOTION_LAG_ENTRIES + 1;
    assert_eq!(change(&mut cluster, MembershipChange::Promote(2)), Err(R::Behind { id: 2, entries }));
    cluster.heal();
    cluster.settle();
    change(&mut cluster, MembershipChange::Promote(2)).unwrap();
}

#[test]
fn a_learner_of_an_idle_region_is_promoted() {
    let mut cluster = Cluster::new(9, &[1]);
    cluster.turns(1);
    change(&mut cluster, MembershipChange::AddLearner(2)).unwrap();
    cluster.turns(1);
    cluster.add(2, Disk::default());
    let caught_up = |c: &mut Cluster| c.node(1).lag(2) == 0;
    cluster.until("it has caught up without a write", 50, caught_up);
    cluster.node(1).link_lost(2);
    assert_eq!(cluster.node(1).lag(2), u64::MAX, "what it has is not known");
    cluster.until("it is heard of again", 50, caught_up);
    change(&mut cluster, MembershipChange::Promote(2)).unwrap();
}

#[test]
fn a_log_without_compaction_takes_no_new_members() {
    let mut cluster = Cluster::new(7, &[]);
    let state = super::cluster::State { members: Members::of_voters([1]), ..Default::default() };
    cluster.budget_bytes = 0;
    cluster.add(1, Disk { state, ..Disk::default() });
    cluster.turns(1);
    assert_eq!(change(&mut cluster, MembershipChange::AddLearner(2)), Err(R::NothingCompacted));
    cluster.until("it is compacted", 50, |c| c.node(1).position().compacted > 0);
    change(&mut cluster, MembershipChange::AddLearner(2)).unwrap();
}

/// The removal was proposed by another leader, which died before it could commit it.
#[test]
fn a_leader_that_applies_its_own_removal_steps_down() {
    let mut cluster = Cluster::new(8, &[1, 2, 3]);
    let leader = cluster.elect();
    cluster.settle();
    let (next, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    change(&mut cluster, MembershipChange::Remove(next)).unwrap();
    cluster.cut.extend([(leader, third), (next, leader)]);
    cluster.step();
    cluster.crash(leader);
    cluster.until("the removed one is no member", 300, |c| !c.node(next).members().contains(next));
    assert_eq!(cluster.leaders.last_key_value().map(|(_, id)| *id), Some(next), "by its own commit");
    assert!(!cluster.node(next).is_leader());
    cluster.heal();
    let now = cluster.elect();
    assert_ne!(now, next);
    cluster.settle();
    cluster.node(now).propose(b"on".to_vec()).unwrap();
    cluster.settle();
}

#[test]
fn an_applied_change_is_not_reported_again_after_a_crash() {
    let mut cluster = Cluster::new(9, &[1]);
    cluster.turns(1);
    let before = cluster.replicas[&1].state.clone();
    let index = change(&mut cluster, MembershipChange::AddLearner(2)).unwrap();
    cluster.turns(1);
    let after = cluster.replicas[&1].state.clone();
    for state in [before, after] {
        cluster.replicas.get_mut(&1).unwrap().disk.state = state.clone();
        cluster.crash(1);
        cluster.start(1);
        assert_eq!(*cluster.node(1).members(), state.members);
        cluster.turns(1);
        assert!(cluster.node(1).is_leader(), "a lone voter leads once the change is applied");
        assert_eq!(*cluster.node(1).members(), Members { voters: vec![1], learners: vec![2] });
        let rows = &cluster.replicas[&1].state.rows;
        assert_eq!(rows.iter().filter(|row| row.0 == index).count(), 1, "{rows:?}");
    }
}

/// Or a replica that restarts with members two changes old could win an election that another wins, too.
#[test]
fn a_change_is_written_with_the_commit_of_the_one_before() {
    let mut cluster = Cluster::new(10, &[1, 2, 3, 4, 5]);
    let leader = cluster.elect();
    cluster.settle();
    let others: Vec<u64> = (1..=5).filter(|id| *id != leader).collect();
    let (late, dead) = (others[0], others[1]);
    cluster.isolate(late);
    cluster.crash(dead);
    let first = change(&mut cluster, MembershipChange::AddLearner(6)).unwrap();
    cluster.until("the change is applied by three", 20, |c| {
        others[2..].iter().chain([&leader]).all(|id| c.replicas[id].state.applied >= first)
    });
    others[2..].iter().for_each(|id| cluster.isolate(*id));
    let second = change(&mut cluster, MembershipChange::AddLearner(7)).unwrap();
    cluster.cut.retain(|(from, to)| ![*from, *to].contains(&late));
    cluster.until("the late one has both", 20, |c| c.replicas[&late].disk.entries.contains_key(&second));
    let known = stored_commit(&cluster, late);
    assert!((first..second).contains(&known), "{first} {known} {second}");
}

fn stored_commit(cluster: &Cluster, id: u64) -> u64 {
    let bytes = cluster.replicas[&id].disk.hard_state.clone().unwrap();
    crate::record::decode_hard_state(&bytes).unwrap().commit
}

/// Or two of three that lose their power, and the third its disk, would wait for the vote of the one that was removed.
#[test]
fn a_removal_is_reported_once_a_majority_stored_its_commit() {
    for (seed, restarts) in [(11, false), (12, true)] {
        let mut cluster = Cluster::new(seed, &[1, 2, 3, 4]);
        let leader = cluster.elect();
        cluster.settle();
        let dead = leader % 4 + 1;
        let left: Vec<u64> = (1..=4).filter(|id| *id != dead).collect();
        cluster.crash(dead);
        let before = cluster.replicas[&leader].state.clone();
        let removal = change(&mut cluster, MembershipChange::Remove(dead)).unwrap();
        assert!(!cluster.node(leader).is_stored_by_majority(removal));
        if restarts {
            cluster.cut.extend(left.iter().map(|id| (*id, leader)));
            cluster.until("all have the entry", 20, |c| {
                left.iter().all(|id| c.replicas[id].disk.entries.contains_key(&removal))
            });
            left.iter().for_each(|id| cluster.crash(*id));
            cluster.cut.clear();
            left.iter().for_each(|id| cluster.start(*id));
        }
        cluster.until("a majority knows it", 300, |c| {
            let leader = c.leader();
            leader.is_some_and(|id| c.node(id).is_stored_by_majority(removal))
        });
        let lost = cluster.leader().unwrap();
        let left: Vec<u64> = left.into_iter().filter(|id| *id != lost).collect();
        let knowing = left.iter().filter(|id| stored_commit(&cluster, **id) >= removal).count();
        assert!(stored_commit(&cluster, lost) >= removal && knowing >= 1, "two of three disks");
        cluster.crash(lost);
        for id in &left {
            // what it applied was not written
            cluster.crash(*id);
            cluster.replicas.get_mut(id).unwrap().disk.state = before.clone();
            cluster.start(*id);
        }
        cluster.until("one of the two leads", 300, |c| c.leader().is_some());
    }
}

#[test]
fn a_lone_voter_writes_that_a_member_is_removed() {
    let mut cluster = Cluster::new(13, &[1]);
    cluster.turns(1);
    change(&mut cluster, MembershipChange::AddLearner(2)).unwrap();
    cluster.turns(1);
    let removal = change(&mut cluster, MembershipChange::Remove(2)).unwrap();
    let node = cluster.node(1);
    let appends = node.step().expect("an entry");
    assert!(node.persisted(appends).committed.iter().any(|entry| entry.index == removal));
    node.applied();
    assert!(!node.is_stored_by_majority(removal), "no disk says so");
    let tells = node.step().expect("its commit is news");
    let written = crate::record::decode_hard_state(tells.batch.hard_state.as_ref().unwrap()).unwrap();
    assert!(written.commit >= removal);
    node.persisted(tells);
    assert!(node.is_stored_by_majority(removal) && !node.has_work());
}

#[test]
fn the_encoding_of_members_has_not_changed() {
    let members = Members { voters: vec![1, 3], learners: vec![200] };
    assert_eq!(members.encode(), [2, 1, 3, 1, 200, 1, 0, 0, 0]);
    assert_eq!(Members::decode(&members.encode()), Ok(members));
    assert_eq!(Members::of_voters([1]).encode(), [1, 1, 0, 0, 0, 0]);
    assert!(Members::decode(&[1, 1, 0, 1, 1, 0, 0]).is_err(), "a joint change is under way");
}

#[test]
fn a_learner_forgets_a_leader_that_it_does_not_hear() {
    let mut cluster = Cluster::new(11, &[1, 2, 3]);
    add_learner(&mut cluster, 4);
    let leader = cluster.leader();
    let term = cluster.node(4).term();
    for n in 0..4 * ELECTION_TICKS {
        cluster.step();
        assert_eq!(cluster.node(4).leader(), leader, "{n}: it hears of it");
    }
    cluster.isolate(4);
    assert!(cluster.read(4, 7));
    (0..2 * ELECTION_TICKS).for_each(|_| cluster.step());
    assert_eq!((cluster.node(4).leader(), cluster.node(4).term()), (None, term));
    assert!(cluster.replicas[&4].answers.iter().any(|a| a.context == 7 && a.index.is_err()));
    cluster.heal();
    cluster.until("it hears again", 10, |c| c.node(4).leader() == leader);
}
