//! A group of one: it leads at once, without time, and restarts from what it saved.

use super::cluster::{Cluster, Disk};
use crate::{Config, RaftNode, Saved, Snapshot};

const CONFIG: Config = Config { id: 1, seed: 7 };

fn settled() -> Cluster {
    let mut cluster = Cluster::new(7, &[1]);
    cluster.turns(1);
    cluster
}

#[test]
fn a_lone_voter_leads_at_once_and_commits_what_is_durable() {
    let mut cluster = settled();
    assert!(cluster.node(1).is_leader());
    assert_eq!(cluster.replicas[&1].state.rows, [(2, 2, None)], "the entry that opens its term");

    let index = cluster.node(1).propose(b"a".to_vec()).unwrap();
    let step = cluster.node(1).step().unwrap();
    assert!(step.batch.must_sync() && step.early.is_empty());
    assert_eq!(step.batch.entries.len(), 1);
    let released = cluster.node(1).persisted(step);
    assert_eq!(
        (released.committed[0].index, released.committed[0].data.as_deref()),
        (index, Some(&b"a"[..]))
    );
}

#[test]
fn a_restart_replays_what_was_durable_but_not_applied() {
    let mut cluster = settled();
    cluster.replicas.get_mut(&1).unwrap().disk.state = Disk::founded(&[1]).state;
    let disk = cluster.replicas[&1].disk.clone();
    for data in [b"a", b"b"] {
        cluster.node(1).propose(data.to_vec()).unwrap();
    }
    cluster.turns(1);
    cluster.replicas.get_mut(&1).unwrap().disk.state = disk.state;
    cluster.crash(1);
    cluster.start(1);
    cluster.turns(1);
    let rows: Vec<_> = cluster.replicas[&1].state.rows.iter().map(|r| r.2.clone()).collect();
    assert_eq!(rows, [None, Some(b"a".to_vec()), Some(b"b".to_vec()), None]);
}

#[test]
fn a_log_without_founding_snapshot_goes_on() {
    let saved = Saved { conf_state: Some(vec![1, 1, 0, 0, 0, 0]), ..Saved::default() };
    let mut node = RaftNode::open(CONFIG, saved).unwrap();
    let step = node.step().unwrap();
    assert_eq!(step.batch.entries[0].0, 1);
    assert!(node.persisted(step).committed.len() == 1 && node.is_leader());
}

#[test]
fn compaction_forgets_the_prefix_and_survives_a_restart() {
    let mut cluster = settled();
    for _ in 0..10 {
        cluster.node(1).propose(vec![7; 100]).unwrap();
    }
    cluster.turns(1);
    let before = cluster.node(1).log_bytes();
    let to = cluster.node(1).compactable(usize::MAX).unwrap() - 2;
    let term = cluster.node(1).compact(to).unwrap();
    assert!(cluster.node(1).log_bytes() < before / 2);

    let replica = cluster.replicas.get_mut(&1).unwrap();
    replica.disk.entries = replica.disk.entries.split_off(&(to + 1));
    replica.disk.truncated = Some((to, term));
    replica.disk.state = replica.state.clone();
    cluster.crash(1);
    cluster.start(1);
    cluster.turns(1);
    assert!(cluster.node(1).is_leader());
    assert_eq!(cluster.node(1).position().compacted, to);
}

#[test]
fn a_damaged_log_is_not_opened() {
    let mut cluster = settled();
    cluster.node(1).propose(b"a".to_vec()).unwrap();
    cluster.turns(1);
    let disk = cluster.replicas[&1].disk.saved();
    let opens = |change: &dyn Fn(&mut Saved)| {
        let mut saved = disk.clone();
        change(&mut saved);
        RaftNode::open(CONFIG, saved).is_ok()
    };
    assert!(opens(&|_| {}));
    assert!(!opens(&|s| drop(s.entries.remove(0))));
    assert!(!opens(&|s| s.entries[1].1.clear()));
    assert!(!opens(&|s| s.entries[1].1.push(0)));
    assert!(!opens(&|s| s.entries[1].1[0] = 1), "a change of membership in the older form");
    assert!(!opens(&|s| s.entries[1].1[0] = 2), "no change of membership");
    assert!(!opens(&|s| s.applied = 99));
    assert!(!opens(&|s| s.conf_state = None));
    assert!(!opens(&|s| s.conf_state = Some(vec![1, 0, 0, 0, 0, 0])), "0 is no member");
    assert!(!opens(&|s| s.conf_state = Some(vec![1, 1, 1, 1, 0, 0, 0])), "listed twice");
    assert!(!opens(&|s| s.hard_state = Some(vec![1])));
}

#[test]
fn a_founding_snapshot_is_where_everybody_begins() {
    let founded = Saved::from_snapshot(&Snapshot::founding([3, 1, 2]));
    assert_eq!((founded.truncated, founded.applied), (Some((1, 1)), 1));
    let node = RaftNode::open(CONFIG, founded).unwrap();
    assert_eq!(node.voters(), [1, 2, 3]);
    assert_eq!((node.term(), node.is_leader()), (1, false));
}
