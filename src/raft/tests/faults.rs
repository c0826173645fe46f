//! Seeds: every fault at once, then none, and everybody agrees and goes on.

use super::cluster::{Cluster, Disk, Faults};
use crate::MembershipChange;

const SEEDS: u64 = 60;
const FAULTY_ROUNDS: u64 = 150;

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("DROVER_RAFT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn three_and_five_members_agree_through_every_fault() {
    let (mut snapshots, mut crashes, mut reads) = (0, 0, 0);
    for seed in seeds() {
        let voters: &[u64] = if seed % 2 == 0 { &[1, 2, 3] } else { &[1, 2, 3, 4, 5] };
        let cluster = run(seed, voters, false);
        snapshots += cluster.snapshots_taken;
        crashes += cluster.crashes;
        reads += cluster.reads_answered;
    }
    assert!(snapshots > 0 && crashes > 0 && reads > 0, "{snapshots} {crashes} {reads}");
}

#[test]
fn members_come_and_go_through_every_fault() {
    let (mut changes, mut snapshots) = (0, 0);
    for seed in seeds() {
        let cluster = run(1_000_000 + seed, &[1, 2, 3], true);
        let leader = cluster.leader().expect("somebody leads");
        changes += usize::from(cluster.replicas[&leader].state.members.voters != [1, 2, 3]);
        snapshots += cluster.snapshots_taken;
    }
    assert!(changes > 0 && snapshots > 0, "{changes} {snapshots}");
}

#[test]
fn the_same_seed_sends_the_same_bytes() {
    for seed in 0..4 {
        let (one, two) = (run(seed, &[1, 2, 3], true), run(seed, &[1, 2, 3], true));
        assert_eq!((one.trace, one.round), (two.trace, two.round));
    }
}

fn run(seed: u64, voters: &[u64], changes: bool) -> Cluster {
    let mut cluster = Cluster::new(seed, voters);
    cluster.budget_bytes = 600;
    for round in 0..FAULTY_ROUNDS {
        if round % 30 == 0 {
            weather(&mut cluster);
        }
        trouble(&mut cluster);
        work(&mut cluster, round);
        if changes {
            change(&mut cluster);
        }
        cluster.step();
    }
    calm(&mut cluster);
    cluster
}

/// Each stretch of time has its own faults.
fn weather(cluster: &mut Cluster) {
    let random = &mut cluster.random;
    cluster.faults = Faults {
        loss: random.below(25),
        doubling: random.below(20),
        delay: random.below(4),
        crash: random.below(12),
    };
}

fn trouble(cluster: &mut Cluster) {
    let ids: Vec<u64> = cluster.replicas.keys().copied().collect();
    let id = ids[cluster.random.below(ids.len() as u64) as usize];
    let other = ids[cluster.random.below(ids.len() as u64) as usize];
    match cluster.random.below(60) {
        0 => cluster.isolate(id),
        1 => drop(cluster.cut.insert((id, other))),
        2..=5 => cluster.cut.clear(),
        6 => cluster.replicas.get_mut(&id).expect("a replica").paused = true,
        7..=12 => cluster.replicas.values_mut().for_each(|r| r.paused = false),
        13 if cluster.replicas[&id].node.is_some() => cluster.crash(id),
        14..=30 if cluster.replicas[&id].node.is_none() => cluster.start(id),
        31 if cluster.leader().is_some() => {
            let leader = cluster.leader().expect("somebody leads");
            cluster.node(leader).transfer_leader(other).unwrap_or(());
        }
        _ => {}
    }
}

fn work(cluster: &mut Cluster, round: u64) {
    let leading: Vec<u64> = cluster
        .replicas
        .iter()
        .filter(|(_, r)| r.node.as_ref().is_some_and(crate::RaftNode::is_leader))
        .map(|(id, _)| *id)
        .collect();
    for id in leading {
        for n in 0..cluster.random.below(3) {
            let taken = cluster.node(id).propose(format!("{round} {id} {n}").into_bytes());
            cluster.proposed += usize::from(taken.is_ok());
        }
    }
    let ids: Vec<u64> = cluster.replicas.keys().copied().collect();
    let id = ids[cluster.random.below(ids.len() as u64) as usize];
    if cluster.replicas[&id].node.is_some() {
        cluster.read(id, round);
    }
}

/// Learners come, are promoted, and members go, as long as three voters stay.
fn change(cluster: &mut Cluster) {
    let Some(leader) = cluster.leader() else { return };
    if !cluster.random.percent(20) {
        return;
    }
    let members = cluster.node(leader).members().clone();
    let next = cluster.replicas.keys().last().expect("a replica") + 1;
    let change = match cluster.random.below(4) {
        0 if members.voters.len() + members.learners.len() < 6 && next < 12 => {
            MembershipChange::AddLearner(next)
        }
        1 if members.voters.len() > 3 => MembershipChange::Remove(members.voters[0]),
        _ => match members.learners.first() {
            Some(learner) => MembershipChange::Promote(*learner),
            None => return,
        },
    };
    let context = format!("{change:?}").into_bytes();
    if cluster.node(leader).propose_change(change, context).is_ok()
        && let MembershipChange::AddLearner(id) = change
    {
        cluster.add(id, Disk::default());
    }
}

/// Without faults, a leader is found, what it proposes is applied by all of its members, and all have applied the same.
fn calm(cluster: &mut Cluster) {
    cluster.heal();
    let mut proposed = None;
    cluster.until("a new entry is applied by all", 400, |c| {
        let Some(leader) = c.leader() else { return false };
        let known = proposed.is_some_and(|(by, _)| by == leader);
        if !known {
            proposed = c.node(leader).propose(b"calm".to_vec()).ok().map(|index| (leader, index));
        }
        let Some((_, index)) = proposed else { return false };
        let members = c.node(leader).members().clone();
        let mut all = members.voters.iter().chain(&members.learners);
        all.all(|id| c.replicas.get(id).is_some_and(|r| r.state.applied >= index))
    });
    cluster.settle();
    let leader = cluster.leader().expect("somebody leads");
    let rows = cluster.replicas[&leader].state.rows.clone();
    for id in cluster.node(leader).voters() {
        assert_eq!(cluster.replicas[&id].state.rows, rows, "replica {id} has applied the same");
    }
    assert_eq!(rows.len() as u64 + 1, cluster.replicas[&leader].state.applied, "nothing is left out");
}
