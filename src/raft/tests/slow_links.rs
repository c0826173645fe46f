//! A member on a slow link: heartbeats pass, entries take their time, and are not sent again meanwhile.

use super::cluster::Cluster;
use crate::outgoing::MAX_INFLIGHT_BYTES;
use crate::{LogSpace, Outbound, RaftNode};
use std::collections::VecDeque;

const MIB: usize = 1 << 20;

/// The leader, and one member whose appends wait. The third member hears nothing.
struct SlowLink {
    cluster: Cluster,
    leader: u64,
    slow: u64,
    appends: VecDeque<Vec<u8>>,
    sent_bytes: usize,
}

fn turn(node: &mut RaftNode) -> Vec<Outbound> {
    let Some(step) = node.step() else { return vec![] };
    let early = step.early.clone();
    let released = node.persisted(step);
    node.applied();
    [early, released.messages].concat()
}

impl SlowLink {
    fn new(seed: u64) -> SlowLink {
        let mut cluster = Cluster::new(seed, &[1, 2, 3]);
        let leader = cluster.elect();
        cluster.settle();
        SlowLink { cluster, leader, slow: leader % 3 + 1, appends: VecDeque::new(), sent_bytes: 0 }
    }

    fn exchange(&mut self) {
        let (leader, slow) = (self.leader, self.slow);
        while self.cluster.node(leader).has_work() || self.cluster.node(slow).has_work() {
            for out in turn(self.cluster.node(leader)).into_iter().filter(|out| out.to == slow) {
                if out.is_append {
                    self.sent_bytes += out.message.len();
                    self.appends.push_back(out.message);
                } else {
                    self.cluster
                        .node(slow)
                        .receive(leader, &out.message, LogSpace::Enough)
                        .expect("a heartbeat");
                }
            }
            self.slow_answers();
        }
    }

    fn slow_answers(&mut self) {
        for out in turn(self.cluster.node(self.slow)).into_iter().filter(|out| out.to == self.leader) {
            self.cluster
                .node(self.leader)
                .receive(self.slow, &out.message, LogSpace::Enough)
                .expect("an answer");
        }
    }

    fn ticks(&mut self, n: u64) {
        for _ in 0..n {
            self.cluster.node(self.leader).tick();
            self.exchange();
            assert!(self.cluster.node(self.leader).is_leader(), "the slow one answers heartbeats");
        }
    }

    /// The oldest append arrives.
    fn arrives(&mut self) {
        let message = self.appends.pop_front().expect("something is under way");
        self.cluster.node(self.slow).receive(self.leader, &message, LogSpace::Enough).expect("an append");
        self.slow_answers();
        self.exchange();
    }

    fn propose(&mut self, bytes: usize) {
        self.cluster.node(self.leader).propose(vec![7; bytes]).expect("it leads");
        self.exchange();
    }

    fn lags(&mut self) -> bool {
        let last = self.cluster.node(self.leader).position().last_index;
        self.cluster.node(self.slow).position().last_index < last
    }
}

#[test]
fn a_large_entry_under_way_is_not_sent_again() {
    for is_probed in [false, true] {
        let mut link = SlowLink::new(1);
        if is_probed {
            link.cluster.node(link.leader).link_lost(link.slow);
        }
        link.propose(MIB);
        link.ticks(1_000);
        assert!((MIB..MIB + 2_000).contains(&link.sent_bytes), "{} bytes", link.sent_bytes);
        link.ticks(2_000);
        let again = link.sent_bytes - MIB;
        assert_eq!(again >= MIB, is_probed, "after so long it was lost: {again}");
        while link.lags() {
            link.arrives();
        }
        let before = link.sent_bytes;
        link.propose(10);
        assert!(link.sent_bytes - before < 300, "it follows again");
    }
}

#[test]
fn a_lost_connection_sends_again_at_once() {
    for is_probed in [false, true] {
        let mut link = SlowLink::new(2);
        if is_probed {
            link.cluster.node(link.leader).link_lost(link.slow);
        }
        link.propose(MIB);
        link.ticks(4);
        link.appends.clear();
        link.cluster.node(link.leader).link_lost(link.slow);
        link.ticks(4);
        assert!((2 * MIB..2 * MIB + 2_000).contains(&link.sent_bytes), "{} bytes", link.sent_bytes);
        while link.lags() {
            link.arrives();
        }
    }
}

#[test]
fn appends_beyond_the_inflight_limit_are_sent_once_in_order() {
    let mut link = SlowLink::new(3);
    for _ in 0..8 {
        link.propose(MIB - 1_000);
    }
    link.ticks(100);
    let under_way = link.sent_bytes;
    assert!((MAX_INFLIGHT_BYTES - MIB..=MAX_INFLIGHT_BYTES + MIB).contains(&under_way), "{under_way} bytes");
    while link.lags() {
        link.arrives();
    }
    assert!(link.sent_bytes < 8 * MIB + 20_000, "{} bytes", link.sent_bytes);
}

#[test]
fn a_member_is_behind_that_lacks_what_was_there_a_second_ago() {
    let mut link = SlowLink::new(4);
    link.ticks(12);
    let is_behind = |link: &mut SlowLink| {
        let (leader, slow) = (link.leader, link.slow);
        link.cluster.node(leader).is_behind(slow)
    };
    assert!(!is_behind(&mut link));
    link.propose(10);
    link.ticks(9);
    assert!(!is_behind(&mut link), "it may be on its way");
    link.ticks(1);
    assert!(is_behind(&mut link));
    link.arrives();
    assert!(!is_behind(&mut link));
    let (leader, slow) = (link.leader, link.slow);
    link.cluster.node(leader).link_lost(slow);
    assert!(is_behind(&mut link), "nobody knows what it has");
    assert!(!link.cluster.node(leader).is_behind(leader) && !link.cluster.node(leader).is_behind(9));
}
