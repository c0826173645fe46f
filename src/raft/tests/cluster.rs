//! A deterministic cluster: replicas with disks that lose what was not synced, and links that lose, double, delay and reorder.
//! What raft promises is checked after every turn of a replica.

use crate::snapshot::Installed;
use crate::{
    Batch, CommittedEntry, Config, LogSpace, Members, Outbound, RaftNode, ReadAnswer, Saved, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};

/// SplitMix64, as a source of the scheduler's choices.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the entries made: here, the entries.
#[derive(Clone, Default)]
pub struct State {
    pub applied: u64,
    pub members: Members,
    pub rows: Vec<(u64, u64, Option<Vec<u8>>)>,
}

#[derive(Clone, Default)]
pub struct Disk {
    pub entries: BTreeMap<u64, Vec<u8>>,
    pub hard_state: Option<Vec<u8>>,
    pub truncated: Option<(u64, u64)>,
    pub state: State,
}

impl Disk {
    pub fn founded(voters: &[u64]) -> Disk {
        let snapshot = Snapshot::founding(voters.iter().copied());
        let state = State { applied: snapshot.index, members: snapshot.members, rows: vec![] };
        Disk { truncated: Some((snapshot.index, snapshot.term)), state, ..Disk::default() }
    }

    pub fn saved(&self) -> Saved {
        let members = &self.state.members;
        Saved {
            entries: self.entries.clone().into_iter().collect(),
            hard_state: self.hard_state.clone(),
            conf_state: (!members.is_empty()).then(|| members.encode()),
            truncated: self.truncated,
            applied: self.state.applied,
        }
    }

    fn write(&mut self, batch: &Batch, rows: &mut Option<State>) {
        if let Some(snapshot) = &batch.install {
            let rows = rows.take().expect("what is installed has arrived");
            assert_eq!((rows.applied, &rows.members), (snapshot.index, &snapshot.members));
            *self = Disk { hard_state: self.hard_state.take(), state: rows, ..Disk::default() };
            self.truncated = Some((snapshot.index, snapshot.term));
        }
        if let Some(from) = batch.truncate_from {
            self.entries.split_off(&from);
        }
        self.entries.extend(batch.entries.iter().cloned());
        if batch.hard_state.is_some() {
            self.hard_state.clone_from(&batch.hard_state);
        }
    }
}

pub struct Replica {
    pub node: Option<RaftNode>,
    pub disk: Disk,
    pub state: State,
    pub paused: bool,
    pub room: LogSpace,
    starts: u64,
    arrived: Option<State>,
    pub answers: Vec<ReadAnswer>,
}

/// What travels: a message, or a snapshot's rows.
#[derive(Clone)]
enum Packet {
    Message(Vec<u8>),
    Rows(Snapshot, State),
}

struct Travelling {
    from: u64,
    to: u64,
    due: u64,
    packet: Packet,
}

#[derive(Default)]
pub struct Faults {
    pub loss: u64,
    pub doubling: u64,
    pub delay: u64,
    /// Per turn, in thousandths: between the early messages and the disk, and between the disk and the late ones.
    pub crash: u64,
}

pub struct Cluster {
    pub random: Random,
    pub replicas: BTreeMap<u64, Replica>,
    pub cut: BTreeSet<(u64, u64)>,
    pub faults: Faults,
    pub budget_bytes: usize,
    pub round: u64,
    travelling: Vec<Travelling>,
    streaming: BTreeSet<(u64, u64)>,
    /// By term.
    pub leaders: BTreeMap<u64, u64>,
    pub committed: BTreeMap<u64, (u64, Option<Vec<u8>>)>,
    written: BTreeMap<(u64, u64), Vec<u8>>,
    /// By context: what was committed when it was asked.
    pub reads: BTreeMap<u64, u64>,
    pub reads_answered: usize,
    pub snapshots_taken: usize,
    pub crashes: usize,
    pub refused: usize,
    pub proposed: usize,
    /// A hash of everything that was sent.
    pub trace: u64,
}

impl Cluster {
    pub fn new(seed: u64, voters: &[u64]) -> Cluster {
        let mut cluster = Cluster {
            random: Random(seed),
            replicas: BTreeMap::new(),
            cut: BTreeSet::new(),
            faults: Faults::default(),
            budget_bytes: 1 << 20,
            round: 0,
            travelling: vec![],
            streaming: BTreeSet::new(),
            leaders: BTreeMap::new(),
            committed: BTreeMap::new(),
            written: BTreeMap::new(),
            reads: BTreeMap::new(),
            reads_answered: 0,
            snapshots_taken: 0,
            crashes: 0,
            refused: 0,
            proposed: 0,
            trace: 0,
        };
        for &id in voters {
            cluster.add(id, Disk::founded(voters));
        }
        cluster
    }

    pub fn add(&mut self, id: u64, disk: Disk) {
        let state = disk.state.clone();
        let replica = Replica {
            node: None,
            disk,
            state,
            paused: false,
            room: LogSpace::Enough,
            starts: 0,
            arrived: None,
            answers: vec![],
        };
        self.replicas.insert(id, replica);
        self.start(id);
    }

    pub fn start(&mut self, id: u64) {
        let seed = self.random.below(u64::MAX);
        let replica = self.replicas.get_mut(&id).expect("a replica");
        replica.starts += 1;
        replica.state = replica.disk.state.clone();
        let node = RaftNode::open(Config { id, seed }, replica.disk.saved());
        replica.node = Some(node.expect("what was saved opens"));
    }

    pub fn crash(&mut self, id: u64) {
        self.crashes += 1;
        let replica = self.replicas.get_mut(&id).expect("a replica");
        replica.node = None;
        replica.arrived = None;
        self.streaming.retain(|(from, _)| *from != id);
    }

    pub fn node(&mut self, id: u64) -> &mut RaftNode {
        self.replicas.get_mut(&id).and_then(|r| r.node.as_mut()).expect("it runs")
    }

    /// Whoever leads in the newest term.
    pub fn leader(&self) -> Option<u64> {
        let leading = self.replicas.iter().filter_map(|(id, r)| {
            let node = r.node.as_ref().filter(|n| n.is_leader())?;
            Some((node.term(), *id))
        });
        leading.max().map(|(_, id)| id)
    }

    pub fn isolate(&mut self, id: u64) {
        for other in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.cut.insert((id, other));
            self.cut.insert((other, id));
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        self.faults = Faults::default();
        for id in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.replicas.get_mut(&id).expect("a replica").paused = false;
            if self.replicas[&id].node.is_none() {
                self.start(id);
            }
        }
    }

    /// One tick for all, then what is due arrives, and everybody takes the turns that follow.
    pub fn step(&mut self) {
        self.round += 1;
        for id in self.running() {
            self.node(id).tick();
            self.turns(id);
        }
        self.deliver();
        for id in self.running() {
            self.turns(id);
            self.compact(id);
            self.stream_snapshots(id);
        }
    }

    pub fn until(&mut self, what: &str, limit: u64, mut done: impl FnMut(&mut Cluster) -> bool) {
        for _ in 0..limit {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("not within {limit} rounds: {what}");
    }

    pub fn elect(&mut self) -> u64 {
        self.until("somebody leads its term", 200, |c| {
            c.leader().is_some_and(|id| c.node(id).raw.raft.commit_to_current_term())
        });
        self.leader().expect("somebody leads")
    }

    /// Until what the leader has proposed so far is applied by all of its members.
    pub fn settle(&mut self) {
        self.until("all have applied all", 400, |c| {
            let Some(leader) = c.leader() else { return false };
            let last = c.node(leader).position().last_index;
            let members = c.node(leader).members().clone();
            let all = members.voters.iter().chain(&members.learners);
            all.into_iter().all(|id| c.replicas.get(id).is_some_and(|r| r.state.applied == last))
        });
    }

    fn running(&self) -> Vec<u64> {
        let runs = |r: &Replica| r.node.is_some() && !r.paused;
        self.replicas.iter().filter(|(_, r)| runs(r)).map(|(id, _)| *id).collect()
    }

    /// Until the replica rests, or crashes.
    pub fn turns(&mut self, id: u64) {
        for _ in 0..100 {
            let replica = self.replicas.get_mut(&id).expect("a replica");
            let Some(node) = replica.node.as_mut() else { return };
            let Some(step) = node.step() else { return };
            self.send(id, step.early.clone());
            if self.random.below(1000) < self.faults.crash {
                return self.crash(id);
            }
            self.write(id, &step.batch);
            let replica = self.replicas.get_mut(&id).expect("a replica");
            let released = replica.node.as_mut().expect("it runs").persisted(step);
            if self.random.below(1000) < self.faults.crash {
                return self.crash(id);
            }
            self.send(id, released.messages);
            self.apply(id, released.committed);
            self.check_reads(id, released.reads);
            self.check_leader(id);
        }
        panic!("replica {id} does not rest");
    }

    fn write(&mut self, id: u64, batch: &Batch) {
        for (index, bytes) in &batch.entries {
            let term = crate::record::decode_entry(*index, bytes).expect("readable").term;
            let first = self.written.entry((*index, term)).or_insert_with(|| bytes.clone());
            assert_eq!(first, bytes, "log matching: entry {index} of term {term} at {id}");
        }
        let replica = self.replicas.get_mut(&id).expect("a replica");
        replica.disk.write(batch, &mut replica.arrived);
        if batch.install.is_some() {
            replica.state = replica.disk.state.clone();
            self.snapshots_taken += 1;
        }
    }

    fn apply(&mut self, id: u64, committed: Vec<CommittedEntry>) {
        let saves = self.random.percent(50);
        let replica = self.replicas.get_mut(&id).expect("a replica");
        for entry in committed {
            let CommittedEntry { index, term, data, conf_state } = entry;
            assert_eq!(index, replica.state.applied + 1, "consecutive");
            let first = self.committed.entry(index).or_insert_with(|| (term, data.clone()));
            assert_eq!(*first, (term, data.clone()), "state machine safety: entry {index} at {id}");
            replica.state.applied = index;
            replica.state.rows.push((index, term, data));
            if let Some(members) = conf_state {
                replica.state.members = members;
            }
        }
        if saves {
            replica.disk.state = replica.state.clone();
        }
        let node = replica.node.as_mut().expect("it runs");
        node.applied();
        assert_eq!(*node.members(), replica.state.members);
    }

    fn check_leader(&mut self, id: u64) {
        let node = self.replicas[&id].node.as_ref().expect("it runs");
        if !node.is_leader() {
            return;
        }
        let is_new = !self.leaders.contains_key(&node.term());
        let first = *self.leaders.entry(node.term()).or_insert(id);
        assert_eq!(first, id, "election safety: term {}", node.term());
        if is_new {
            let log = &node.raw.raft.raft_log;
            let known = self.committed.iter().rev().take_while(|(i, _)| **i >= log.first_index());
            for (index, (term, _)) in known {
                assert_eq!(log.term(*index), Ok(*term), "leader completeness: entry {index} at {id}");
            }
        }
    }

    fn check_reads(&mut self, id: u64, answers: Vec<ReadAnswer>) {
        for answer in &answers {
            let least = self.reads.remove(&answer.context).expect("answered once");
            if let Ok(index) = answer.index {
                assert!(index >= least, "a read at {id} misses what was committed: {index} < {least}");
                self.reads_answered += 1;
            }
        }
        self.replicas.get_mut(&id).expect("a replica").answers.extend(answers);
    }

    /// `false`: it was refused.
    pub fn read(&mut self, id: u64, context: u64) -> bool {
        let committed = self.committed.last_key_value().map_or(0, |(index, _)| *index);
        let asked = self.node(id).read_index(context).is_ok();
        if asked {
            self.reads.insert(context, committed);
        }
        asked
    }

    fn send(&mut self, from: u64, messages: Vec<Outbound>) {
        for Outbound { to, message, .. } in messages {
            for byte in &message {
                self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            self.put(from, to, Packet::Message(message));
        }
    }

    fn put(&mut self, from: u64, to: u64, packet: Packet) {
        let copies = if self.random.percent(self.faults.doubling) { 2 } else { 1 };
        for _ in 0..copies {
            let due = self.round + self.random.below(self.faults.delay + 1);
            self.travelling.push(Travelling { from, to, due, packet: packet.clone() });
        }
    }

    fn deliver(&mut self) {
        let mut limit = 2000;
        while let Some(at) = self.next_due() {
            limit -= 1;
            assert!(limit > 0, "messages without end");
            let Travelling { from, to, packet, .. } = self.travelling.remove(at);
            let lost = self.cut.contains(&(from, to)) || self.random.percent(self.faults.loss);
            let replica = self.replicas.get_mut(&to);
            let there = !lost && replica.is_some_and(|r| r.node.is_some() && !r.paused);
            match packet {
                Packet::Message(bytes) if there => {
                    let room = self.replicas[&to].room;
                    let taken = self.node(to).receive(from, &bytes, room);
                    self.refused += usize::from(taken.is_err());
                    self.turns(to);
                }
                Packet::Rows(snapshot, state) => self.rows(from, to, there.then_some((snapshot, state))),
                Packet::Message(_) => {}
            }
        }
    }

    /// In order where nothing delays, otherwise any that is due.
    fn next_due(&mut self) -> Option<usize> {
        let round = self.round;
        let due: Vec<_> =
            self.travelling.iter().enumerate().filter(|(_, t)| t.due <= round).map(|(at, _)| at).collect();
        if due.is_empty() {
            return None;
        }
        let pick = if self.faults.delay > 0 { self.random.below(due.len() as u64) as usize } else { 0 };
        Some(due[pick])
    }

    fn rows(&mut self, from: u64, to: u64, arrived: Option<(Snapshot, State)>) {
        let mut fine = false;
        if let Some((snapshot, state)) = arrived {
            let installed = self.node(to).install(&snapshot);
            fine = installed.is_ok();
            if installed == Ok(Installed::Taken) {
                self.replicas.get_mut(&to).expect("a replica").arrived = Some(state);
            }
            self.turns(to);
        }
        if self.streaming.remove(&(from, to)) && self.replicas[&from].node.is_some() {
            self.node(from).report_snapshot(to, fine);
            self.turns(from);
        }
    }

    fn stream_snapshots(&mut self, id: u64) {
        let Some(node) = self.replicas[&id].node.as_ref() else { return };
        for wanted in node.wants_snapshot() {
            if self.streaming.insert((id, wanted.member)) {
                let replica = &self.replicas[&id];
                let snapshot = replica.node.as_ref().expect("it runs").snapshot().clone();
                assert!(snapshot.index >= wanted.at_least && snapshot.members.contains(wanted.member));
                let rows = Packet::Rows(snapshot, replica.state.clone());
                self.put(id, wanted.member, rows);
            }
        }
    }

    /// What the durable state holds may leave the log. Without a budget, all stays.
    fn compact(&mut self, id: u64) {
        let replica = self.replicas.get_mut(&id).expect("a replica");
        let Some(node) = replica.node.as_mut() else { return };
        if self.budget_bytes == usize::MAX {
            return;
        }
        let Some(to) = node.compactable(self.budget_bytes) else { return };
        let to = to.min(replica.disk.state.applied);
        if to <= replica.disk.truncated.map_or(0, |t| t.0) {
            return;
        }
        let term = node.compact(to).expect("it is in the log");
        replica.disk.entries = replica.disk.entries.split_off(&(to + 1));
        replica.disk.truncated = Some((to, term));
    }
}
