//! Small valid jobs, nodes, evaluations and allocations for tests, and a region of one store to run commands in.
//! Refuses to know what any test wants of them: each changes what it cares about.

use super::apply::{ApplyResult, Committed};
use super::log_batch::{Installation, LogBatch};
use super::store::{Options, Store, StoreFiles};
use super::view::View;
use model::alloc::{Allocation, ClientStatus, Transition, alloc_name};
use model::claims::NodeOffers;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{Evaluation, Trigger};
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId, NodeSecret, Uuid};
use model::job::{Job, JobSpec, JobType, TaskGroup};
use model::member::{Founding, ServerInfo};
use model::namespace::NamespaceSpec;
use model::node::{DriverInfo, NodeInfo, NodeStatus};
use model::plan::NodePlan;
use model::pool::NodePoolSpec;
use model::resources::Amount;
use model::samples;
use model::scheduling::SchedulerSettings;
use model::submission::Submission;
use model::task::{TaskPhase, TaskState};
use model::time::Wall;
use redb::backends::InMemoryBackend;
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command, MemberChange, RegisterJobCommand};
use wire::record;

pub const AT: Wall = Wall(1_700_000_000_000_000_000);

pub fn eval_id(n: u128) -> EvalId {
    EvalId::from_random(n << 64 | n)
}

pub fn alloc_id(n: u128) -> AllocId {
    AllocId::from_random(n << 64 | n)
}

pub fn node_id(n: u128) -> NodeId {
    NodeId::from_random(n << 64 | n)
}

pub fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

/// A service with one group `g` of one task `t`.
pub fn spec(id: &str, count: i64) -> JobSpec {
    samples::job("default", id, vec![group("g", count)])
}

pub fn group(name: &str, count: i64) -> TaskGroup {
    samples::group(name, count, vec![samples::task("t")])
}

pub fn info(n: u128) -> NodeInfo {
    let attributes = [("kernel.name", "linux"), ("cpu.arch", "arm64"), ("driver.raw_exec", "1")];
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        description: "Healthy".into(),
        attributes: BTreeMap::new(),
        updated: AT,
    };
    NodeInfo {
        id: node_id(n),
        secret: NodeSecret::from_random(n),
        name: format!("node-{n}"),
        datacenter: "dc1".into(),
        pool: "default".into(),
        class: String::new(),
        http_addr: String::new(),
        attributes: attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        meta: BTreeMap::new(),
        capacity: Amount { cpu_mhz: 4000, memory_mb: 1024, disk_mb: 10_000, ..Amount::ZERO },
        reserved: Amount::ZERO,
        cpu_cores: 4,
        networks: vec![],
        drivers: [("raw_exec".to_string(), driver)].into(),
        not_enforced: vec![],
        offers: NodeOffers::default(),
        max_allocs: 0,
    }
}

pub fn eval(n: u128, job: &str) -> Evaluation {
    Evaluation::pending(eval_id(n), key(job), JobType::Service, 50, Trigger::JobRegister, AT)
}

/// A deployment of the job's newest version, of its first group, that is running.
pub fn deployment(n: u128, job: &Job, group: DeploymentGroup) -> Deployment {
    Deployment {
        id: DeploymentId::from_random(n),
        job: job.spec.key(),
        job_create_index: job.create_index,
        job_version: job.version,
        job_modify_index: job.job_modify_index,
        groups: [(job.spec.groups[0].name.clone(), group)].into(),
        status: DeploymentStatus::Running,
        status_description: "Deployment is running".into(),
        priority: 50,
        create_time: AT,
        modify_time: AT,
        create_index: 0,
        modify_index: 0,
    }
}

/// An allocation of the job's newest version, the first of group `g`.
pub fn alloc(n: u128, job: &Job, node: NodeId, eval: EvalId) -> Allocation {
    let group = &job.spec.groups[0];
    Allocation {
        id: alloc_id(n),
        job: job.spec.key(),
        job_create_index: job.create_index,
        job_version: job.version,
        job_modify_index: job.job_modify_index,
        group: group.name.clone(),
        name: alloc_name(&job.spec.id, &group.name, 0),
        eval_id: eval,
        node_id: node,
        node_name: "node".into(),
        resources: group.resources(),
        desired: Default::default(),
        desired_description: String::new(),
        client: ClientStatus::Pending,
        client_description: String::new(),
        task_states: BTreeMap::new(),
        previous: None,
        next: None,
        metrics: Default::default(),
        create_time: AT,
        modify_time: AT,
        create_index: 0,
        modify_index: 0,
        alloc_modify_index: 0,
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

pub fn register(spec: JobSpec, eval: Option<Evaluation>) -> Command {
    Command::RegisterJob(Box::new(registration(spec, eval)))
}

/// Whatever the job's index, without a text, of a server that keeps six versions.
pub fn registration(spec: JobSpec, eval: Option<Evaluation>) -> RegisterJobCommand {
    let (submission, tracked_versions) = (None, 6);
    let (enforce_index, preserve_counts) = (None, false);
    RegisterJobCommand { spec, enforce_index, preserve_counts, submission, eval, tracked_versions, at: AT }
}

/// As `register`, with a text, of a server that keeps so many versions.
pub fn submit(spec: JobSpec, source: &str, tracked_versions: u32) -> Command {
    let submission = Submission { source: source.into(), format: "hcl2".into(), ..Submission::default() };
    let plain = registration(spec, None);
    Command::RegisterJob(Box::new(RegisterJobCommand {
        submission: Some(submission),
        tracked_versions,
        ..plain
    }))
}

/// A namespace with that description.
pub fn namespace(name: &str, description: &str) -> Command {
    let spec =
        NamespaceSpec { name: name.into(), description: description.into(), ..NamespaceSpec::default() };
    Command::UpsertNamespace { namespace: Box::new(spec) }
}

/// A node pool of which nothing more is said.
pub fn node_pool(name: &str) -> Command {
    let spec = NodePoolSpec { name: name.into(), ..NodePoolSpec::default() };
    Command::UpsertNodePool { pool: Box::new(spec) }
}

pub fn place(allocs: Vec<Allocation>) -> Vec<NodePlan> {
    let one = |a: Allocation| NodePlan { node_id: a.node_id, stops: vec![], places: vec![a] };
    allocs.into_iter().map(one).collect()
}

pub fn report(n: u128, client: ClientStatus) -> AllocUpdate {
    let phase = match client {
        ClientStatus::Running => TaskPhase::Running,
        ClientStatus::Pending => TaskPhase::Pending,
        _ => TaskPhase::Dead,
    };
    let state = TaskState { phase, failed: client == ClientStatus::Failed, ..TaskState::default() };
    AllocUpdate {
        id: alloc_id(n),
        client,
        client_description: client.as_str().into(),
        task_states: [("t".to_string(), state)].into(),
    }
}

#[cfg(any(test, feature = "testing"))]
pub fn log_batch() -> LogBatch {
    LogBatch {
        truncate_from: Some(7),
        entries: vec![(7, vec![1, 2, 3]), (8, vec![])],
        hard_state: Some(vec![4]),
        conf_state: Some(vec![5, 6]),
        compact_to: Some((6, 1)),
        install: Some(Installation { index: 6, term: 1, digest: 9 }),
        slot: Some(1),
        server_id: Some(300),
    }
}

pub fn server_info(name: &str) -> ServerInfo {
    ServerInfo {
        name: name.into(),
        region: "global".into(),
        datacenter: "dc1".into(),
        http_addr: "10.0.0.1:4646".into(),
        rpc_addr: "10.0.0.1:4647".into(),
        version: "0.1.0".into(),
        feature_level: 1,
    }
}

/// A region of these servers.
pub fn founding(ids: &[u64]) -> Founding {
    let servers = ids.iter().map(|id| (*id, server_info(&format!("server-{id}")))).collect();
    Founding { region_id: Uuid::from_random(5), at: AT, servers, scheduler: SchedulerSettings::default() }
}

/// Empty media for a store.
pub fn in_memory() -> StoreFiles<InMemoryBackend> {
    let memory = InMemoryBackend::new;
    StoreFiles {
        state: [memory(), memory()],
        log: [Box::new(memory()), Box::new(memory())],
        free_bytes: Box::new(|| Ok(u64::MAX)),
    }
}

/// One store that commits and applies each command at once.
pub struct Region {
    pub store: Store,
}

impl Default for Region {
    fn default() -> Region {
        let (store, _) = Store::open(in_memory(), Options::default()).expect("an empty backend opens");
        Region { store }
    }
}

impl Region {
    pub fn run(&mut self, command: &Command) -> ApplyResult {
        let index = self.store.applied() + 1;
        let bytes = record::encode(command);
        let batch = LogBatch { entries: vec![(index, bytes.clone())], ..LogBatch::default() };
        self.store.append(&batch).expect("appends");
        let committed = Committed { index, command: Some(&bytes), conf_state: None };
        let mut outcomes = self.store.apply(&[committed]).expect("applies");
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }

    /// An entry that changes raft's members, too.
    pub fn change_member(&mut self, change: MemberChange) -> ApplyResult {
        let index = self.store.applied() + 1;
        let bytes = record::encode(&Command::ChangeMember(Box::new(change)));
        let batch = LogBatch { entries: vec![(index, bytes.clone())], ..LogBatch::default() };
        self.store.append(&batch).expect("appends");
        let committed = Committed { index, command: Some(&bytes), conf_state: Some(&[1]) };
        self.store.apply(&[committed]).expect("applies").remove(0)
    }

    pub fn view(&self) -> View {
        self.store.reader().view().expect("reads")
    }

    /// A node that is ready for tasks.
    pub fn ready_node(&mut self, n: u128) -> NodeId {
        self.run(&Command::RegisterNode { info: Box::new(info(n)), evals: vec![], at: AT });
        let (node, status) = (node_id(n), NodeStatus::Ready);
        self.run(&Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT });
        node
    }

    pub fn job(&self, id: &str) -> Job {
        Job::clone(&self.view().job(&key(id)).expect("reads").expect("is registered"))
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn alloc(&self, n: u128) -> Allocation {
        self.view().alloc(alloc_id(n)).expect("reads").expect("exists")
    }
}
