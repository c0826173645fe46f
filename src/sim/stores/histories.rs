//! Whole histories on simulated disks: power cuts, full and failing disks. A twin that never fails says what is right.

use crate::disk::{Operation, SimDisk};
use model::alloc::{Allocation, ClientStatus};
use model::eval::EvalStatus;
use model::id::{JobKey, NodeId};
use model::job::JobSpec;
use model::node::NodeStatus;
use model::plan::{AllocStop, NodePlan};
use model::random::Stream;
use model::time::{Span, Wall};
use state::apply::Committed;
use state::check::consistent;
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::samples::*;
use state::store::{OpenError, Options, Recovered, Store};
use std::collections::BTreeMap;
use wire::command::Command;
use wire::record;

/// Commands as a small region makes them, from a seed. Not all of them can succeed.
struct Workload {
    draws: Stream,
    made: u128,
}

impl Workload {
    fn new(seed: u64) -> Workload {
        Workload { draws: Stream::new(seed, 7), made: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draws.below(n)
    }

    fn next(&mut self, store: &Store) -> Command {
        self.made += 1;
        let n = self.made;
        let job = format!("job-{}", self.below(4));
        let node = node_id(u128::from(self.below(3)));
        let at = AT + Span::seconds(n as i64);
        match self.below(16) {
            0 => Command::Init(Box::new(founding(&[1 + n as u64]))),
            1..=2 => {
                let spec = spec(&job, self.below(4) as i64);
                register(spec, Some(eval(n, &job)))
            }
            3 => {
                let eval = (self.below(2) == 0).then(|| eval(n, &job));
                let (job, eval) = (key(&job), eval.map(Box::new));
                match self.below(3) {
                    0 => Command::PurgeJob { job, eval, at },
                    n => Command::StopJob { job, no_shutdown_delay: n == 1, eval, tracked_versions: 6, at },
                }
            }
            4 => Command::RegisterNode { info: Box::new(info(u128::from(self.below(3)))), evals: vec![], at },
            5 => {
                let status = [NodeStatus::Ready, NodeStatus::Ready, NodeStatus::Down][self.below(3) as usize];
                Command::UpdateNodeStatus { node, status, event: None, evals: vec![eval(n, &job)], at }
            }
            6 => {
                let mut e = eval(1 + u128::from(self.below(n as u64)), &job);
                e.status =
                    [EvalStatus::Blocked, EvalStatus::Complete, EvalStatus::Failed][self.below(3) as usize];
                e.queued = [("g".to_string(), self.below(5))].into();
                Command::UpdateEvals { evals: vec![e], at }
            }
            7..=9 => self.plan(store, &job, node),
            12..=15 => self.user(&job, at),
            _ => self.report(store, node),
        }
    }

    /// Jobs with their texts in namespaces that come and go.
    fn user(&mut self, job: &str, at: Wall) -> Command {
        let name = ["default", "team"][self.below(2) as usize];
        let tracked_versions = 1 + self.below(3) as u32;
        match self.below(5) {
            0 => namespace(name, &format!("since {}", self.made)),
            1 => Command::DeleteNamespace { name: name.into() },
            2 => Command::StopJob {
                job: JobKey::new(name, job),
                no_shutdown_delay: false,
                eval: None,
                tracked_versions,
                at,
            },
            _ => {
                let spec = JobSpec { namespace: name.into(), ..spec(job, self.below(4) as i64) };
                submit(spec, &format!("text {}", self.made), tracked_versions)
            }
        }
    }

    fn plan(&mut self, store: &Store, job: &str, node: NodeId) -> Command {
        let view = store.reader().view().expect("reads");
        let job = view.job(&key(job)).expect("reads");
        let on_node = view.allocs_of_node(node).expect("reads");
        let stops = on_node.iter().filter(|_| self.draws.below(4) == 0).map(|a| AllocStop {
            id: a.id,
            description: "not needed".into(),
            client: (a.create_index % 3 == 0).then_some(ClientStatus::Lost),
        });
        let stops: Vec<_> = stops.collect();
        let mut places = Vec::new();
        if let Some(job) = job {
            let new = alloc(self.made, &job, node, eval_id(self.made));
            places.push(Allocation { previous: stops.first().map(|s| s.id), ..new.clone() });
            let mine = on_node.iter().find(|a| a.job == job.spec.key());
            places.extend(mine.map(|a| Allocation { id: a.id, ..new }));
        }
        let nodes = vec![NodePlan { node_id: node, stops, places }];
        let eval = eval_id(1 + u128::from(self.below(self.made as u64)));
        Command::ApplyPlan { eval, nodes, deployment: None, updates: vec![], evals: vec![], at: AT }
    }

    fn report(&mut self, store: &Store, node: NodeId) -> Command {
        use ClientStatus::{Complete, Failed, Running};
        let view = store.reader().view().expect("reads");
        let mut updates = Vec::new();
        for a in view.allocs_of_node(node).expect("reads") {
            if self.below(2) == 0 {
                let status = [Running, Running, Complete, Failed][self.below(4) as usize];
                updates.push(wire::command::AllocUpdate { id: a.id, ..report(0, status) });
            }
        }
        Command::UpdateAllocs { seen: u64::MAX, node, updates, verdicts: vec![], evals: vec![], at: AT }
    }
}

/// A log as raft would keep it, a twin that never crashes, and what the crashing store promised.
struct Trial {
    disk: SimDisk,
    draws: Stream,
    workload: Workload,
    twin: Region,
    /// By index; the twin has applied all of them.
    commands: BTreeMap<u64, Vec<u8>>,
    /// The twin's digest after each index.
    digests: BTreeMap<u64, u64>,
    /// The last index of which the store gave a receipt.
    promised: u64,
    compacted: u64,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        Trial {
            disk: SimDisk::new(seed),
            draws: Stream::new(seed, 8),
            workload: Workload::new(seed),
            twin: Region::default(),
            commands: BTreeMap::new(),
            digests: [(0, 0)].into(),
            promised: 0,
            compacted: 0,
        }
    }

    fn command(&mut self, index: u64) -> Vec<u8> {
        while self.twin.store.applied() < index {
            let command = self.workload.next(&self.twin.store);
            let at = self.twin.run(&command).index;
            self.commands.insert(at, record::encode(&command));
            self.digests.insert(at, self.twin.store.digest());
        }
        self.commands[&index].clone()
    }

    /// Turns until the disk fails: some entries durably, then applied.
    fn live(&mut self, store: &mut Store, turns: u64) -> Result<(), Fault> {
        for _ in 0..turns {
            let first = self.promised + 1;
            let last = self.promised + 1 + self.draws.below(5);
            let entries = (first..=last).map(|i| (i, self.command(i))).collect();
            let compact_to =
                (self.draws.below(6) == 0 && store.applied() > self.compacted).then(|| (store.applied(), 1));
            let hard_state = Some(last.to_le_bytes().to_vec());
            store.append(&LogBatch { entries, hard_state, compact_to, ..LogBatch::default() })?;
            self.promised = last;
            self.compacted = compact_to.map_or(self.compacted, |(to, _)| to);
            self.apply_to(store, last)?;
        }
        Ok(())
    }

    fn apply_to(&mut self, store: &mut Store, last: u64) -> Result<(), Fault> {
        let commands: Vec<_> = (store.applied() + 1..=last).map(|i| (i, self.command(i))).collect();
        let entries: Vec<_> = commands
            .iter()
            .map(|(index, c)| Committed { index: *index, command: Some(c), conf_state: None })
            .collect();
        let outcomes = store.apply(&entries)?;
        assert_eq!(outcomes.len(), entries.len());
        assert_eq!(store.digest(), self.digests[&last]);
        Ok(())
    }

    /// Opens what the disk kept and holds it against what was promised.
    fn recover(&mut self) -> Result<Store, OpenError> {
        let (mut store, recovered) = Store::open(
            self.disk.media(),
            Options {
                cache_bytes: 64 << 10,
                segment_bytes: 48 << 10,
                unsaved_rows: 50,
                ..Options::default()
            },
        )?;
        let Recovered { entries, applied, truncated, .. } = recovered;
        let start = truncated.map_or(0, |(index, _)| index);
        let last = entries.last().map_or(start, |(index, _)| *index);
        assert!(last >= self.promised, "entry {} was promised, {last} is the last", self.promised);
        assert!(start <= applied && applied <= last);
        for (index, entry) in &entries {
            assert_eq!(*entry, self.command(*index));
        }
        assert_eq!(store.digest(), self.digests[&applied], "as of {applied}");
        (self.promised, self.compacted) = (last, start);
        self.apply_to(&mut store, last)?;
        match consistent(&store.reader().view()?) {
            Err(e) if !self.disk.is_dead() => panic!("after entry {last}: {e}"),
            _ => Ok(store),
        }
    }
}

#[test]
fn a_seed_decides_every_byte() {
    let run = |seed| {
        let mut trial = Trial::new(seed);
        let mut store = trial.recover().expect("an empty disk opens");
        trial.disk.cut_power_after(500);
        trial.live(&mut store, 1000).expect_err("the power fails");
        drop(store);
        (trial.disk.image(), trial.disk.counts())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn no_power_cut_loses_a_promise() {
    let (mut cuts, mut torn, mut applied, mut unborn) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut trial = Trial::new(seed);
        let mut born = false;
        for _life in 0..6 {
            trial.disk.power_on();
            let operations = if trial.draws.below(3) == 0 { 40 } else { 800 };
            let cut = 1 + trial.draws.below(operations);
            trial.disk.cut_power_after(cut);
            match trial.recover() {
                Ok(mut store) => {
                    born = true;
                    let _ = trial.live(&mut store, 60);
                    trial.disk.cut_power();
                }
                Err(_) if trial.disk.is_dead() => {}
                Err(e) if born => panic!("seed {seed}: {e}"),
                Err(_) => {
                    // Cut off while it was created: nothing was promised, the file is made anew.
                    unborn += 1;
                    trial.disk = SimDisk::new(seed + 1000);
                }
            }
        }
        trial.disk.power_on();
        if let Ok(store) = trial.recover() {
            applied += store.applied();
            drop(store);
            trial.recover().expect("opens after a clean end, too");
        } else {
            assert!(!born, "seed {seed} does not open at last");
        }
        consistent(&trial.twin.view()).expect("the twin is consistent");
        cuts += trial.disk.counts().power_cuts;
        torn += trial.disk.counts().writes_torn;
    }
    println!("{cuts} power cuts, {torn} writes torn, {applied} entries applied, {unborn} never created");
    assert!(cuts > 200 && torn > 200 && applied > 1000);
}

/// A kernel may show what its failed sync forgot: whoever opens that and builds on it must have it on the disk, or a power cut
/// takes it from under what was promised.
#[test]
fn a_sync_that_forgets_takes_no_promise_back() {
    let mut forgotten = 0;
    for seed in 0..40 {
        let mut trial = Trial::new(seed);
        let mut store = trial.recover().expect("an empty disk opens");
        for _ in 0..5 {
            let syncs = 1 + trial.draws.below(30);
            trial.disk.forget_at_sync(syncs);
            trial.live(&mut store, 200).expect_err("a sync fails");
            trial.disk.detach();
            drop(store);
            store = trial.recover().expect("opens again");
            let turns = trial.draws.below(4);
            trial.live(&mut store, turns).expect("nothing fails");
            trial.disk.cut_power();
            drop(store);
            trial.disk.power_on();
            store = trial.recover().expect("opens after a power cut");
        }
        forgotten += trial.disk.counts().syncs_forgotten;
    }
    assert_eq!(forgotten, 200);
}

#[test]
fn full_and_failing_disks_are_faults_that_a_new_store_survives() {
    let (mut full, mut failed) = (0, 0);
    for seed in 0..30 {
        let mut trial = Trial::new(seed);
        let mut store = trial.recover().expect("an empty disk opens");
        for round in 0..6 {
            match round % 3 {
                0 => trial.disk.set_room(Some(seed * 1024)),
                1 => trial.disk.fail_next_of(Operation::Sync),
                _ => trial.disk.fail_next_of(Operation::Write),
            }
            if let Err(fault) = trial.live(&mut store, 200) {
                full += u32::from(matches!(fault, Fault::Full(_)));
                failed += u32::from(matches!(fault, Fault::Storage(_)));
                assert!(!matches!(fault, Fault::Corrupt(_)), "{fault}");
            }
            trial.disk.detach();
            drop(store);
            trial.disk.heal();
            store = trial.recover().expect("opens again");
        }
    }
    assert!(full > 20 && failed > 50, "{full} full, {failed} failed");
}
