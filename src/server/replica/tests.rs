//! Two replicas of one group, whose messages a test carries.

use super::*;
use model::time::Span;
use state::samples::{founding, in_memory};
use state::store::Options;

struct Pair {
    replicas: Vec<Replica>,
    now: Mono,
}

impl Pair {
    /// The first of them leads, and nothing is under way.
    fn new() -> Pair {
        let open = |id| {
            let (store, recovered) = Store::open(in_memory(), Options::default()).unwrap();
            let mut replica = Replica::open(raft::Config { id, seed: id }, store, recovered).unwrap();
            replica.found(&founding(&[1, 2])).unwrap();
            replica
        };
        let mut pair = Pair { replicas: vec![open(1), open(2)], now: Mono(1) };
        for _ in 0..200 {
            assert!(!pair.replicas[1].raft().is_leader(), "the seeds let the first one lead");
            pair.now = pair.now.after(Span::millis(100));
            let now = pair.now;
            pair.replicas[0].tick(now);
            pair.settle();
        }
        assert!(pair.replicas[0].leads_its_term(), "it is elected, and its first entry is committed");
        pair
    }

    fn settle(&mut self) {
        while self.replicas.iter().any(Replica::has_work) {
            for at in 0..2 {
                if let Some(mut step) = self.replicas[at].prepare(self.now, true).unwrap() {
                    self.deliver(at, std::mem::take(&mut step.early));
                    let outcome = self.replicas[at].commit(step).unwrap();
                    self.deliver(at, outcome.messages);
                }
            }
        }
    }

    fn deliver(&mut self, from: usize, messages: Vec<raft::Outbound>) {
        let now = self.now;
        for message in messages {
            let to = &mut self.replicas[message.to as usize - 1];
            to.receive(Peer::Server(from as u64 + 1), &message.message, now, true);
        }
    }
}

#[test]
fn a_leader_sends_entries_before_it_writes_them() {
    let mut pair = Pair::new();
    let command = Command::DeleteNodePool { name: "gpu".into() };
    let (index, _) = pair.replicas[0].propose(&command).unwrap();
    let mut prepared = pair.replicas[0].prepare(pair.now, true).unwrap().expect("an entry to write");
    pair.deliver(0, std::mem::take(&mut prepared.early));
    let written = pair.replicas[1].prepare(pair.now, true).unwrap().expect("the entry has arrived");
    assert!(written.early.is_empty(), "what a follower acknowledges is on its disk");
    assert_eq!(written.batch.entries.last().map(|(index, _)| *index), Some(index));
    let acknowledged = pair.replicas[1].commit(written).unwrap();
    let outcome = pair.replicas[0].commit(prepared).unwrap();
    assert!(outcome.applied.is_empty(), "it is on one disk");
    pair.deliver(1, acknowledged.messages);
    let committed = pair.replicas[0].prepare(pair.now, true).unwrap().expect("it is on both");
    let applied = pair.replicas[0].commit(committed).unwrap().applied;
    assert_eq!(applied.last().map(|applied| applied.outcome.index), Some(index));
}

/// Whoever was paused has heard from nobody meanwhile, and is to hear from others before it campaigns.
#[test]
fn missed_ticks_are_not_made_up() {
    let mut pair = Pair::new();
    pair.replicas[1].tick(pair.now);
    pair.now = pair.now.after(Span::minutes(1));
    let (now, term) = (pair.now, pair.replicas[1].raft().term());
    for _ in 0..1_000 {
        pair.replicas[1].tick(now);
    }
    assert!(!pair.replicas[1].has_work(), "one tick is no election timeout");
    assert_eq!(pair.replicas[1].next_tick(), Some(now.after(TICK)));
    for _ in 0..20 {
        pair.now = pair.now.after(TICK);
        let now = pair.now;
        pair.replicas[1].tick(now);
    }
    assert!(pair.replicas[1].has_work() && pair.replicas[1].raft().term() == term, "it asks for votes first");
}

/// Nobody else led meanwhile: what it shows is as new as its last turn as leader.
#[test]
fn a_deposed_leaders_last_contact_is_its_last_turn_as_leader() {
    let mut pair = Pair::new();
    assert_eq!(pair.replicas[0].last_contact(), None, "it leads");
    let led = pair.now.after(Span::hours(1));
    pair.replicas[0].tick(led);
    pair.replicas[0].step_down();
    pair.replicas[0].tick(led.after(Span::seconds(1)));
    assert_eq!(pair.replicas[0].last_contact(), Some(led));
    assert_eq!(pair.replicas[0].listens_since(), Some(Mono(1).after(Span::millis(100))), "its first turn");
}
