//! A small world for the tests of this room: nodes, jobs and allocations in maps, with the plan carried out as the
//! servers would.

use super::fleet::Fleet;
use super::{Attempt, SchedulerState, schedule};
use model::alloc::{AllocMetric, Allocation, ClientStatus, DesiredStatus, Transition, alloc_name};
use model::claims::NodeOffers;
use model::constraint::Constraint;
use model::deployment::Deployment;
use model::eval::{Evaluation, Trigger};
use model::id::{AllocId, EvalId, JobKey, NodeId, NodeSecret};
use model::job::{Job, JobSpec, JobStatus, Task};
use model::node::{DriverInfo, Node, NodeInfo, NodeStatus, computed_class};
use model::plan::{Decision, Plan};
use model::resources::{Amount, Resources};
use model::samples;
use model::scheduling::Scheduling;
use model::time::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const NOW: Wall = Wall(1_700_000_000_000_000_000);

pub fn amount(cpu_mhz: i64, memory_mb: i64, disk_mb: i64) -> Amount {
    Amount { cpu_mhz, memory_mb, disk_mb, allocs: 0 }
}

pub fn node_id(n: u128) -> NodeId {
    NodeId::from_random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834))
}

pub fn alloc_id(n: u128) -> AllocId {
    AllocId::from_random(n)
}

/// 4000 MHz, 8192 MiB, 100000 MiB; dc1, pool default, no class, with the driver `exec`.
pub fn node(n: u128) -> Node {
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        description: String::new(),
        attributes: BTreeMap::new(),
        updated: Wall::NEVER,
    };
    let info = NodeInfo {
        id: node_id(n),
        secret: NodeSecret::default(),
        name: format!("node-{n}"),
        datacenter: "dc1".into(),
        pool: "default".into(),
        class: String::new(),
        http_addr: String::new(),
        attributes: [("kernel.name".to_string(), "linux".to_string())].into(),
        meta: BTreeMap::new(),
        capacity: amount(4_000, 8_192, 100_000),
        reserved: Amount::ZERO,
        cpu_cores: 4,
        networks: vec![],
        drivers: [("exec".to_string(), driver)].into(),
        not_enforced: vec![],
        offers: NodeOffers::default(),
        max_allocs: 0,
    };
    Node {
        computed_class: computed_class(&info),
        info,
        status: NodeStatus::Ready,
        status_description: String::new(),
        status_updated: Wall::NEVER,
        eligible: true,
        events: vec![],
        last_missed_heartbeat_index: 0,
        last_alloc_update_index: 0,
        create_index: 1,
        modify_index: 1,
        drain: None,
        last_drain: None,
    }
}

pub fn node_with(n: u128, change: impl FnOnce(&mut NodeInfo)) -> Node {
    let mut node = node(n);
    change(&mut node.info);
    node.computed_class = computed_class(&node.info);
    node
}

pub fn constraint(left: &str, operand: &str, right: &str) -> Constraint {
    Constraint { left: left.into(), operand: operand.into(), right: right.into() }
}

/// A service with one group `g` of `count`, one task `t` of 500 MHz and 256 MiB.
pub fn spec(id: &str, count: i64) -> JobSpec {
    let resources = Resources { cpu_mhz: 500, memory_mb: 256, ..Resources::default() };
    let task = Task { driver: "exec".into(), resources, ..samples::task("t") };
    samples::job("default", id, vec![samples::group("g", count, vec![task])])
}

pub fn job_of(spec: JobSpec) -> Job {
    Job {
        spec,
        version: 0,
        stable: false,
        status: JobStatus::Pending,
        status_description: String::new(),
        submit_time: NOW,
        create_index: 10,
        modify_index: 10,
        job_modify_index: 10,
        tag: None,
    }
}

pub fn job(id: &str, count: i64) -> Job {
    job_of(spec(id, count))
}

/// A running allocation of the job's first group, with index `index`, on node `node`.
pub fn alloc(job: &Job, index: u64, node: u128) -> Allocation {
    let group = &job.spec.groups[0];
    Allocation {
        id: alloc_id(u128::from(index) << 8 | node | 1 << 100),
        job: job.spec.key(),
        job_create_index: job.create_index,
        job_version: job.version,
        job_modify_index: job.job_modify_index,
        group: group.name.clone(),
        name: alloc_name(&job.spec.id, &group.name, index),
        eval_id: EvalId::default(),
        node_id: node_id(node),
        node_name: format!("node-{node}"),
        resources: group.resources(),
        desired: DesiredStatus::Run,
        desired_description: String::new(),
        client: ClientStatus::Running,
        client_description: String::new(),
        task_states: BTreeMap::new(),
        previous: None,
        next: None,
        metrics: AllocMetric::default(),
        create_time: NOW,
        modify_time: NOW,
        create_index: 20,
        modify_index: 20,
        alloc_modify_index: 20,
        reschedules: vec![],
        followup_eval: None,
        transition: Transition::default(),
        deployment: None,
        health: None,
        states: vec![],
        preempted: vec![],
        preempted_by: None,
    }
}

pub fn eval_of(job: &JobSpec) -> Evaluation {
    let id = EvalId::from_random(77);
    let mut eval = Evaluation::pending(id, job.key(), job.job_type, job.priority, Trigger::JobRegister, NOW);
    eval.create_index = 12;
    eval
}

/// State as maps.
#[derive(Default)]
pub struct Harness {
    pub index: u64,
    pub jobs: BTreeMap<JobKey, Arc<Job>>,
    versions: BTreeMap<(JobKey, u64, u64), Arc<JobSpec>>,
    pub allocs: BTreeMap<AllocId, Allocation>,
    pub nodes: BTreeMap<NodeId, Node>,
    /// The allocations of the one job that there is.
    pub deployment: Option<Deployment>,
    pub pending: BTreeSet<EvalId>,
    pub scheduling: Scheduling,
    pub seeds: u64,
}

impl SchedulerState for Harness {
    fn index(&self) -> u64 {
        self.index
    }

    fn job(&self, key: &JobKey) -> Option<Arc<Job>> {
        self.jobs.get(key).cloned()
    }

    fn job_version(&self, key: &JobKey, create_index: u64, version: u64) -> Option<Arc<JobSpec>> {
        self.versions.get(&(key.clone(), create_index, version)).cloned()
    }

    fn allocs_by_job(&self, key: &JobKey) -> Vec<Allocation> {
        self.allocs.values().filter(|a| a.job == *key).cloned().collect()
    }

    fn allocs_by_node(&self, node: NodeId) -> Vec<Allocation> {
        self.allocs.values().filter(|a| a.node_id == node).cloned().collect()
    }

    fn allocs_up_to_priority(&self, priority: i64, each: &mut dyn FnMut(Allocation)) {
        let of = |a: &&Allocation| self.jobs.get(&a.job).is_some_and(|j| j.spec.priority <= priority);
        self.allocs.values().filter(of).for_each(|a| each(a.clone()));
    }

    fn latest_deployment(&self, _: &JobKey) -> Option<Deployment> {
        self.deployment.clone()
    }

    fn is_pending(&self, eval: EvalId) -> bool {
        self.pending.contains(&eval)
    }

    fn scheduling(&self, _: &str) -> Scheduling {
        self.scheduling
    }
}

impl Harness {
    pub fn of_nodes(nodes: impl IntoIterator<Item = Node>) -> Self {
        let nodes = nodes.into_iter().map(|n| (n.info.id, n)).collect();
        Harness { index: 100, nodes, ..Harness::default() }
    }

    pub fn fleet(&self) -> Fleet {
        let mut fleet = Fleet::default();
        self.nodes.values().for_each(|n| fleet.upsert_node(n));
        for alloc in self.allocs.values().filter(|a| !a.client_terminal()) {
            fleet.hold(alloc.node_id, &alloc.resources.holding());
        }
        fleet
    }

    /// Registers the spec: as version 0, or as the next version.
    pub fn register(&mut self, spec: JobSpec) -> Arc<Job> {
        self.index += 1;
        let mut job = job_of(spec);
        if let Some(before) = self.jobs.get(&job.spec.key()) {
            job.version = before.version + 1;
            job.create_index = before.create_index;
            job.job_modify_index = self.index;
        }
        let key = (job.spec.key(), job.create_index, job.version);
        self.versions.insert(key, Arc::new(job.spec.clone()));
        let job = Arc::new(job);
        self.jobs.insert(job.spec.key(), job.clone());
        job
    }

    pub fn add(&mut self, alloc: Allocation) -> AllocId {
        let id = alloc.id;
        self.allocs.insert(id, alloc);
        id
    }

    pub fn decide(&mut self, eval: &Evaluation) -> Decision {
        self.seeds += 1;
        let fleet = self.fleet().snapshot();
        schedule(self, &fleet, eval, Attempt::first(self.index), NOW, self.seeds)
    }

    /// Decides a fresh evaluation of the job, and carries the plan out.
    pub fn run(&mut self, spec: &JobSpec) -> Decision {
        let decision = self.decide(&eval_of(spec));
        self.commit(&decision.plan);
        self.pending.extend(decision.created.iter().map(|eval| eval.id));
        decision
    }

    pub fn commit(&mut self, plan: &Plan) {
        self.index += 1;
        if let Some(deployment) = &plan.deployment {
            self.deployment = Some(deployment.clone());
        }
        for update in &plan.deployment_updates {
            if let Some(known) = self.deployment.as_mut().filter(|d| d.id == update.id) {
                known.status = update.status;
            }
        }
        for node in &plan.nodes {
            for stop in &node.stops {
                if let Some(alloc) = self.allocs.get_mut(&stop.id) {
                    alloc.desired = DesiredStatus::Stop;
                    alloc.desired_description = stop.description.clone();
                    alloc.client = stop.client.unwrap_or(alloc.client);
                }
            }
            for place in &node.places {
                if let Some(previous) = place.previous.and_then(|id| self.allocs.get_mut(&id)) {
                    previous.next = Some(place.id);
                }
                let new = !self.allocs.contains_key(&place.id);
                for id in place.preempted.iter().filter(|_| new) {
                    if let Some(alloc) = self.allocs.get_mut(id) {
                        (alloc.desired, alloc.preempted_by) = (DesiredStatus::Evict, Some(place.id));
                    }
                }
                let mut placed = place.clone();
                if new {
                    placed.create_index = self.index;
                }
                self.allocs.insert(placed.id, placed);
            }
        }
    }
}

pub fn stops(decision: &Decision) -> Vec<(AllocId, String, Option<ClientStatus>)> {
    let all = decision.plan.nodes.iter().flat_map(|n| &n.stops);
    let mut out: Vec<_> = all.map(|s| (s.id, s.description.clone(), s.client)).collect();
    out.sort();
    out
}

/// The names of all placements, ordered.
pub fn placed_names(decision: &Decision) -> Vec<String> {
    let mut names: Vec<String> = places(decision).iter().map(|a| a.name.clone()).collect();
    names.sort();
    names
}

pub fn places(decision: &Decision) -> Vec<&Allocation> {
    decision.plan.nodes.iter().flat_map(|n| &n.places).collect()
}
