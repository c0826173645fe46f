//! A follower that is offered a snapshot, and whatever may come instead of the next chunk.

use super::*;
use state::samples::{Region, eval, in_memory, register, spec};
use state::store::Options;

const NOW: Mono = Mono(1);
const LEADER: u64 = 1;
const SELF: u64 = 3;

/// A replica that is empty.
struct Follower {
    raft: raft::RaftNode,
    store: Store,
    snapshots: Snapshots,
    now: Mono,
}

impl Follower {
    fn new() -> Follower {
        let raft = raft::RaftNode::open(raft::Config { id: SELF, seed: 1 }, raft::Saved::default()).unwrap();
        let (store, _) = Store::open(in_memory(), Options::default()).unwrap();
        Follower { raft, store, snapshots: Snapshots::new(1), now: NOW }
    }

    fn receive(&mut self, from: u64, message: SnapshotMessage) -> Vec<(u64, SnapshotMessage)> {
        self.receive_with(from, message, true)
    }

    fn receive_with(
        &mut self,
        from: u64,
        message: SnapshotMessage,
        space_free: bool,
    ) -> Vec<(u64, SnapshotMessage)> {
        let mut parts = Parts { raft: &mut self.raft, store: &mut self.store, now: self.now };
        self.snapshots.receive(from, message, &mut parts, space_free).unwrap();
        self.snapshots.take_messages()
    }

    fn wait(&mut self, span: Span, space_free: bool) -> Vec<(u64, SnapshotMessage)> {
        self.now = self.now.after(span);
        let mut parts = Parts { raft: &mut self.raft, store: &mut self.store, now: self.now };
        self.snapshots.advance(&mut parts, space_free).unwrap();
        self.snapshots.take_messages()
    }

    /// As the replica does.
    fn step(&mut self) -> Vec<(u64, SnapshotMessage)> {
        let step = self.raft.step().unwrap();
        assert!(step.batch.install.is_some());
        let hard_state = step.batch.hard_state.clone();
        let batch = state::log_batch::LogBatch { hard_state, ..Default::default() };
        self.store.install_snapshot(&batch).unwrap();
        self.snapshots.installed();
        self.raft.persisted(step);
        self.raft.applied();
        self.snapshots.take_messages()
    }

    /// Pulls until nothing is to be pulled any more.
    fn take_all(&mut self, sender: &mut Sender) -> Vec<(u64, SnapshotMessage)> {
        let mut sent = self.receive(LEADER, sender.offer());
        while let [(LEADER, SnapshotMessage::Pull { chunk, .. })] = sent[..] {
            let chunk = sender.pull(chunk, self.now).unwrap().expect("it is there");
            sent = self.receive(LEADER, chunk);
        }
        sent
    }
}

fn leader() -> Region {
    let mut region = Region::default();
    region.ready_node(1);
    for n in 0..500 {
        let id = format!("job-{n}");
        region.run(&register(spec(&id, 2), Some(eval(n, &id))));
    }
    region
}

fn offer(region: &Region, transfer: u64) -> SnapshotOffer {
    let view = region.view();
    let members = Members::of_voters([1, 2, 3]).encode();
    let bytes = region.store.state_bytes().unwrap();
    SnapshotOffer {
        transfer,
        index: view.index(),
        term: 1,
        members,
        applied_state: view.applied_state(),
        bytes,
        region_id: Default::default(),
    }
}

fn sender(region: &Region, transfer: u64) -> Sender {
    Sender::new(offer(region, transfer), SnapshotRows::new(region.view()), NOW)
}

fn stopped(transfer: u64, why: StopReason) -> Vec<(u64, SnapshotMessage)> {
    vec![(LEADER, SnapshotMessage::Stopped { transfer, why })]
}

fn pull(transfer: u64, chunk: u64) -> Vec<(u64, SnapshotMessage)> {
    vec![(LEADER, SnapshotMessage::Pull { transfer, chunk })]
}

#[test]
fn a_snapshot_is_acknowledged_when_it_is_installed() {
    let region = leader();
    let mut follower = Follower::new();
    assert_eq!(follower.take_all(&mut sender(&region, 7)), [], "it is not durable yet");
    assert_eq!(follower.store.applied(), 0);
    assert_eq!(follower.step(), [(LEADER, SnapshotMessage::Installed { transfer: 7 })]);
    assert_eq!(follower.store.digest(), region.store.digest());
    assert_eq!(follower.store.applied(), region.store.applied());
    assert_eq!(follower.raft.members().voters, [1, 2, 3]);
    let again = follower.receive(LEADER, sender(&region, 8).offer());
    assert_eq!(again, [(LEADER, SnapshotMessage::Installed { transfer: 8 })], "it has it already");
}

/// Any server may offer any index: what is applied is neither replaced nor a reason to learn a term.
#[test]
fn an_offer_of_what_is_applied_changes_nothing() {
    let region = leader();
    let mut follower = Follower::new();
    follower.take_all(&mut sender(&region, 7));
    follower.step();
    let (term, members) = (follower.raft.term(), follower.raft.members().clone());
    let mut says = |index, term| {
        let offer = SnapshotOffer { index, term, ..offer(&region, 8) };
        follower.receive(LEADER, SnapshotMessage::Offer(Box::new(offer)))
    };
    let applied = region.store.applied();
    let has_it = [(LEADER, SnapshotMessage::Installed { transfer: 8 })];
    assert_eq!(says(1, u64::MAX), has_it);
    assert_eq!(says(applied, 1), has_it);
    for other in [2, u64::MAX] {
        assert_eq!(says(applied, other), stopped(8, StopReason::Refused), "no leader has that");
    }
    assert_eq!((follower.raft.term(), follower.raft.members()), (term, &members));
    assert!(!follower.raft.has_work(), "nothing is to be installed");
    (0..30).for_each(|_| follower.raft.tick());
}

#[test]
fn chunks_that_are_doubled_late_or_foreign_change_nothing() {
    let region = leader();
    let mut follower = Follower::new();
    let mut sender = sender(&region, 7);
    assert_eq!(follower.receive(LEADER, sender.offer()), pull(7, 0));
    let first = sender.pull(0, NOW).unwrap().unwrap();
    assert_eq!(follower.receive(LEADER, first.clone()), pull(7, 1));
    assert_eq!(follower.receive(LEADER, first.clone()), [], "twice");
    let second = sender.pull(1, NOW).unwrap().unwrap();
    assert_eq!(follower.receive(2, second.clone()), [], "of somebody else");
    let SnapshotMessage::Chunk { chunk, bytes, last, .. } = second.clone() else { panic!("a chunk") };
    assert_eq!(follower.receive(LEADER, SnapshotMessage::Chunk { transfer: 9, chunk, bytes, last }), []);
    assert_eq!(follower.receive(LEADER, sender.offer()), pull(7, 1), "an offer that was repeated");
    assert_eq!(follower.receive(LEADER, second), pull(7, 2));
    assert_eq!(follower.receive(LEADER, first), [], "late");
}

#[test]
fn another_snapshot_of_the_leader_begins_anew() {
    let (mut region, mut follower) = (leader(), Follower::new());
    let mut old = sender(&region, 7);
    follower.receive(LEADER, old.offer());
    follower.receive(LEADER, old.pull(0, NOW).unwrap().unwrap());
    region.ready_node(2);
    let mut new = sender(&region, 8);
    assert_eq!(follower.take_all(&mut new), []);
    follower.step();
    assert_eq!(follower.store.digest(), region.store.digest(), "nothing of the old one is in it");
}

#[test]
fn a_follower_takes_one_snapshot_at_a_time() {
    let region = leader();
    let mut follower = Follower::new();
    follower.receive(LEADER, sender(&region, 7).offer());
    let busy = SnapshotMessage::Stopped { transfer: 8, why: StopReason::Busy };
    assert_eq!(follower.receive(2, sender(&region, 8).offer()), [(2, busy)]);
    assert_eq!(follower.wait(Span::seconds(20), true), pull(7, 0), "the first one goes on");
}

#[test]
fn an_offered_snapshot_is_refused_with_its_reason() {
    let region = leader();
    let mut follower = Follower::new();
    let offer = offer(&region, 7);
    let mut says = |change: &dyn Fn(&mut SnapshotOffer), space_free| {
        let mut offer = offer.clone();
        change(&mut offer);
        follower.receive_with(LEADER, SnapshotMessage::Offer(Box::new(offer)), space_free)
    };
    assert_eq!(says(&|_| {}, false), stopped(7, StopReason::NoRoom));
    assert_eq!(says(&|o| o.members = vec![9, 9], true), stopped(7, StopReason::Malformed));
    assert_eq!(says(&|o| o.applied_state = vec![9], true), stopped(7, StopReason::Malformed));
    let others = Members::of_voters([1, 2]).encode();
    assert_eq!(says(&|o| o.members.clone_from(&others), true), stopped(7, StopReason::Refused));
    assert_eq!(says(&|_| {}, true), pull(7, 0));
}

#[test]
fn a_chunk_that_is_not_what_was_announced_stops_the_transfer() {
    let region = leader();
    let mut follower = Follower::new();
    let mut sender = sender(&region, 7);
    follower.receive(LEADER, sender.offer());
    let long = vec![0; CHUNK_BYTES + 1];
    let chunk = SnapshotMessage::Chunk { transfer: 7, chunk: 0, bytes: long, last: false };
    assert_eq!(follower.receive(LEADER, chunk), stopped(7, StopReason::Malformed));
    follower.receive(LEADER, sender.offer());
    let Some(SnapshotMessage::Chunk { mut bytes, .. }) = sender.pull(0, NOW).unwrap() else {
        panic!("a chunk")
    };
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let mut sent =
        follower.receive(LEADER, SnapshotMessage::Chunk { transfer: 7, chunk: 0, bytes, last: false });
    while let [(LEADER, SnapshotMessage::Pull { chunk, .. })] = sent[..] {
        sent = follower.receive(LEADER, sender.pull(chunk, NOW).unwrap().unwrap());
    }
    assert_eq!(sent, stopped(7, StopReason::Malformed));
    assert!(follower.raft.step().is_none() && follower.store.applied() == 0);
    assert_eq!(
        follower.take_all(&mut Sender::new(offer(&region, 8), SnapshotRows::new(region.view()), NOW)),
        []
    );
    follower.step();
}

#[test]
fn a_disk_that_runs_full_stops_the_transfer() {
    let region = leader();
    let mut follower = Follower::new();
    follower.receive(LEADER, sender(&region, 7).offer());
    assert_eq!(follower.wait(Span(1), false), stopped(7, StopReason::NoRoom));
    assert_eq!(follower.wait(Span::seconds(100), true), []);
    assert_eq!(follower.receive(LEADER, sender(&region, 8).offer()), pull(8, 0));
}

#[test]
fn a_silent_sender_is_given_up() {
    let region = leader();
    let mut follower = Follower::new();
    follower.receive(LEADER, sender(&region, 7).offer());
    for _ in 0..4 {
        assert_eq!(follower.wait(Span::seconds(20), true), pull(7, 0));
    }
    assert_eq!(follower.snapshots.next_deadline(), Some(NOW.after(receiver::IDLE_TIMEOUT)));
    assert_eq!(follower.wait(Span::seconds(10), true), stopped(7, StopReason::TimedOut));
    assert_eq!(follower.snapshots.next_deadline(), None);
}

#[test]
fn a_pull_of_an_unknown_transfer_is_answered_as_gone() {
    let region = leader();
    let mut follower = Follower::new();
    let pull = SnapshotMessage::Pull { transfer: 5, chunk: 0 };
    assert_eq!(follower.receive(LEADER, pull), stopped(5, StopReason::Gone));
    follower.receive(LEADER, sender(&region, 7).offer());
    let gone = |transfer| SnapshotMessage::Stopped { transfer, why: StopReason::Gone };
    follower.receive(LEADER, gone(6));
    assert!(follower.snapshots.receiving.is_some(), "that was another one");
    follower.receive(LEADER, gone(7));
    assert!(follower.snapshots.receiving.is_none());
    assert_eq!(follower.receive(LEADER, SnapshotMessage::Installed { transfer: 7 }), []);
}
