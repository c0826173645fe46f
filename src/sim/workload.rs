//! The users: jobs registered, changed, stopped and purged, at random but from the seed. A task's command says what the
//! simulated process does: `run <milliseconds> <exit code> [stubborn] [places=...]`; zero milliseconds is forever.

use super::api_requests::may_be_done;
use super::faults::Kind;
use super::job_groups::{JobShapes, task_args};
use super::job_specs::{batch_job, service_job, system_job};
use super::launches::CLOCK_JOB;
use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::rollouts;
use super::users::{HOME_REGION, User};
use super::world::{Event, World};
use super::worlds::place_somewhere;
use client::effects as client;
use model::claims::{DEFAULT_HOST_NETWORK, Network, Port};
use model::id::{AllocId, JobKey};
use model::job::{DisconnectPolicy, HealthCheck, JobSpec, MigratePolicy, Reconcile, TaskGroup};
use model::random::Stream;
use model::submission::Submission;
use model::time::Span;
use model::value::Value;
use server::effects::Input;
use wire::client_rpc::{ClientRequest, RestartScope};
use wire::request::{Refusal, WriteReply, WriteRequest};

const JOBS: u64 = 8;
const STORM_JOBS: u64 = 16;
/// Runs on every node.
pub const SYSTEM_JOB: &str = "job-7";

pub struct Workload {
    draws: Stream,
    shapes: JobShapes,
    next_token: u64,
    /// What users asked for, and do not know what became of it.
    unsure: Vec<(JobKey, WrittenJob)>,
    stopped: bool,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        let (draws, shapes) = (Stream::new(seed, 102), JobShapes::new(seed));
        Workload { draws, shapes, next_token: 0, unsure: vec![], stopped: false }
    }

    pub fn draw_all_shapes(&mut self) {
        self.shapes.draw_all();
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }

    pub fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0
    }

    fn wish(&mut self, job: &JobKey) -> WrittenJob {
        match self.draws.below(10) {
            0 => WrittenJob::Absent,
            1 | 2 => WrittenJob::Stopped,
            _ => WrittenJob::Spec(Box::new(self.spec(job))),
        }
    }

    fn spec(&mut self, job: &JobKey) -> JobSpec {
        // a job keeps its type: changing it is refused
        let clock = job.id == CLOCK_JOB;
        let batch = clock || job.id.as_bytes().last().is_some_and(|b| b % 3 == 0);
        let system = job.id == SYSTEM_JOB;
        let count = self.draws.below(4) as i64;
        let mut spec = match (system, batch) {
            (true, _) => system_job(job),
            (false, true) => batch_job(job, count),
            (false, false) => service_job(job, count),
        };
        let forever = !batch && !self.one_in(4);
        let milliseconds = match self.draws.below(8) {
            _ if forever => 0,
            // ends again and again, as fast as it is started
            0 => 1 + self.draws.below(50),
            _ => 1 + self.draws.below(20_000),
        };
        let code = if self.one_in(3) { 1 } else { 0 };
        let args = task_args(milliseconds, code, self.one_in(5));
        if let Some(task) = spec.groups.first_mut().and_then(|g| g.tasks.first_mut()) {
            task.config.insert("command".into(), Value::Text("sim".into()));
            task.config.insert("args".into(), args);
            task.resources.cpu_mhz = 50 + self.draws.below(400) as i64;
            task.resources.memory_mb = 16 + self.draws.below(200) as i64;
            task.kill_timeout = Span::seconds(1 + self.draws.below(8) as i64);
        }
        spec.periodic = clock.then(|| self.times());
        spec.priority = 1 + self.draws.below(100) as i64;
        if let Some(group) = spec.groups.first_mut().filter(|_| !batch && !system) {
            group.update = Some(rollouts::update(&mut self.draws));
            group.migrate =
                group.migrate.map(|m| MigratePolicy { health_check: HealthCheck::TaskStates, ..m });
            group.networks = network(&mut self.draws).into_iter().collect();
            group.disconnect = disconnect(&mut self.draws);
        }
        if let Some(group) = spec.groups.first_mut().filter(|_| !system) {
            place_somewhere(group, &mut self.draws);
        }
        self.shapes.shape(&mut spec);
        if system {
            let update = rollouts::update_of_system_job(spec.priority);
            spec.groups.iter_mut().for_each(|g| g.update = Some(update));
        }
        spec
    }
}

/// Mostly none; else so many ports, one of them by number.
fn network(draws: &mut Stream) -> Option<Network> {
    let port = |label: &str, value| Port {
        label: label.into(),
        value,
        to: 0,
        host_network: DEFAULT_HOST_NETWORK.into(),
    };
    let (fixed, free) = [(0, 1), (0, 2), (1, 0), (1, 1)].get(draws.below(8) as usize)?;
    let reserved = (0..*fixed).map(|_| port("web", 8_080)).collect();
    let dynamic = ["a", "b"].into_iter().take(*free).map(|label| port(label, 0)).collect();
    Some(Network { reserved, dynamic, ..Network::default() })
}

/// A group that sits a disconnection out for a while, that its nodes give up by themselves, or neither.
fn disconnect(draws: &mut Stream) -> Option<DisconnectPolicy> {
    let span = Span::seconds(30 + draws.below(240) as i64);
    let reconciles = [Reconcile::BestScore, Reconcile::KeepOriginal, Reconcile::KeepReplacement];
    let reconcile = reconciles[draws.below(3) as usize];
    let replace = draws.below(2) == 0;
    let (lost_after, stop_on_client_after) = match draws.below(6) {
        0..3 => (Some(span), None),
        3 => (None, Some(span)),
        _ => return None,
    };
    Some(DisconnectPolicy { lost_after, stop_on_client_after, replace, reconcile })
}

impl World {
    /// One user's step; then, after a while, the next. Now and then everybody comes at once.
    pub fn work(&mut self) -> Result<(), String> {
        if self.workload.stopped {
            return Ok(());
        }
        if self.workload.one_in(60) {
            self.faults.fired(Kind::RegisterStorm);
            for n in 0..STORM_JOBS {
                self.ask_for(JobKey::new("default", format!("storm-{n}")));
            }
        }
        let n = self.workload.draws.below(JOBS);
        let job = JobKey::new("default", format!("job-{n}"));
        if self.workload.one_in(8) {
            self.ask_for(JobKey::new("default", CLOCK_JOB));
        }
        if self.workload.one_in(12) {
            self.force_launch();
        }
        match self.workload.one_in(12) {
            true => self.revert_a_job(job),
            false => self.ask_for(job),
        }
        self.ask_a_node();
        if self.workload.one_in(2) {
            self.change_a_deployment();
        }
        if let Some((job, wish)) = self.workload.unsure.pop().filter(|_| self.workload.one_in(2)) {
            self.faults.fired(Kind::UnknownWriteRepeated);
            self.ask_for_wish(job, wish);
        }
        let which = self.workload.draws.next_u64();
        self.ask_for_a_list(which);
        let wait = Span(self.workload.draws.below(6_000_000_000) as i64);
        self.after(wait, Event::Work);
        Ok(())
    }

    /// A user asks a node about one of its allocations: to restart it, or to make room.
    fn ask_a_node(&mut self) {
        let draws = &mut self.workload.draws;
        let nodes = self.regions.nodes_of(HOME_REGION);
        let n = nodes[draws.below(nodes.len() as u64) as usize];
        let allocs: Vec<AllocId> = self.regions[n].dirs.iter().copied().collect();
        let Some(alloc) = allocs.get(draws.below(allocs.len().max(1) as u64) as usize).copied() else {
            return;
        };
        let ask = match draws.below(6) {
            0 => ClientRequest::Restart { alloc, scope: RestartScope::Running },
            1 => ClientRequest::Restart { alloc, scope: RestartScope::All },
            2 => ClientRequest::GarbageCollect { alloc: Some(alloc) },
            3 => ClientRequest::GarbageCollect { alloc: None },
            _ => return,
        };
        if matches!(ask, ClientRequest::Restart { .. }) {
            self.regions[n.region].restarted.insert(alloc);
        }
        self.note(|_| format!("user    asks {n}: {ask:?}"));
        self.node_input(n, client::Input::Ask { token: 0, ask });
    }

    /// A user wants a job to be different.
    fn ask_for(&mut self, job: JobKey) {
        let mut wish = self.workload.wish(&job);
        if let WrittenJob::Spec(spec) = &mut wish {
            self.scalers.limit(spec);
        }
        self.ask_for_wish(job, wish);
    }

    fn ask_for_wish(&mut self, job: JobKey, wish: WrittenJob) {
        let Some(at) = self.server_of(User::Workload).filter(|_| self.ledger.is_free(&job)) else { return };
        self.workload.next_token += 1;
        let token = self.workload.next_token;
        let action = self.ask(User::Workload, at, token, action(&job, &wish));
        // what HTTP leaves out gets its default on the way
        let left = match &action {
            WriteRequest::RegisterJob { spec, .. } => WrittenJob::Spec(spec.clone()),
            _ => wish,
        };
        self.note(|_| format!("user    {token} {}", describe(&action)));
        self.ledger.asked(token, job, left);
    }

    /// A server's answer to a write that it was given directly, or by a call.
    pub fn server_answers(&mut self, token: u64, result: Result<WriteReply, Refusal>) -> Result<(), String> {
        if self.call_written(token, &result)? {
            return Ok(());
        }
        self.answered(token, result)
    }

    pub fn answered(&mut self, token: u64, result: Result<WriteReply, Refusal>) -> Result<(), String> {
        self.note(|_| format!("answer  {token} {result:?}"));
        if let Some(kind) = self.ledger.take_kind(token).filter(|_| result.is_ok()) {
            self.faults.fired(kind);
        }
        self.note_launch(token, &result);
        self.note_scaled(token, &result)?;
        if self.dispatch_answered(token, &result)? {
            return Ok(());
        }
        if self.ledger.answered_aside(token) || self.operators.answered(token, &result)? {
            return Ok(());
        }
        if !self.ledger.is_due(token) {
            return Err(format!("question {token} was answered twice, or never asked"));
        }
        // what a node has sent may arrive when its user has given up
        let is_alone = self.regions[HOME_REGION].servers.len() == 1 && !self.users.some_ask_nodes();
        match result {
            Ok(WriteReply::Job { job_modify_index, index, .. }) => {
                if let Some((job, written)) = self.ledger.acknowledge(token, self.now) {
                    self.check_witness(&job, (index, job_modify_index), &written)?;
                    self.check_told(&job, job_modify_index, &written)?;
                }
            }
            Err(refusal) if may_be_done(&refusal) => {
                let wish = self.ledger.lose(token, self.now, is_alone);
                self.workload.unsure.extend(wish);
            }
            // refused, or there was nothing to stop
            _ => self.ledger.refuse(token),
        }
        Ok(())
    }

    /// A job from outside the workload: for tests that want to know what one job costs.
    pub fn register_quietly(&mut self, id: &str, count: i64) {
        if let Some(at) = self.server_of(User::Workload) {
            self.register_with_meta(at, id, count, 0);
        }
    }

    /// The same with so much that is of no consequence, asked of a server that leads.
    pub fn register_with_meta(&mut self, at: ServerAt, id: &str, count: i64, bytes: usize) {
        let key = JobKey::new("default", id);
        let mut spec = service_job(&key, count);
        if let Some(task) = spec.groups.first_mut().and_then(|g| g.tasks.first_mut()) {
            let args = ["run", "0", "0"].map(|a| Value::Text(a.into())).to_vec();
            task.config.insert("command".into(), Value::Text("sim".into()));
            task.config.insert("args".into(), Value::List(args));
        }
        if bytes > 0 {
            spec.meta.insert("ballast".into(), "x".repeat(bytes));
        }
        self.workload.next_token += 1;
        let (token, left) = (self.workload.next_token, WrittenJob::Spec(Box::new(spec)));
        let mut action = action(&key, &left);
        // what a source costs depends on how long it is
        if let WriteRequest::RegisterJob { submission, .. } = &mut action {
            *submission = None;
        }
        self.ledger.asked(token, key, left);
        self.server_input(at, Input::Request { token, action });
    }
}

fn action(job: &JobKey, wish: &WrittenJob) -> WriteRequest {
    let stop = |purge| WriteRequest::DeregisterJob {
        job: job.clone(),
        purge,
        eval_priority: None,
        no_shutdown_delay: false,
    };
    match wish {
        WrittenJob::Absent => stop(true),
        WrittenJob::Stopped => stop(false),
        WrittenJob::Spec(spec) => WriteRequest::RegisterJob {
            spec: spec.clone(),
            enforce_index: None,
            eval_priority: None,
            preserve_counts: false,
            submission: Some(Box::new(source_of(spec))),
        },
    }
}

/// A text that differs wherever the jobs do.
fn source_of(spec: &JobSpec) -> Submission {
    Submission { source: format!("{spec:?}"), format: "hcl2".into(), ..Submission::default() }
}

fn describe(action: &WriteRequest) -> String {
    match action {
        WriteRequest::RegisterJob { spec, .. } => {
            let args = |g: &TaskGroup| g.tasks.first().and_then(|t| t.config.get("args")).cloned();
            let groups: Vec<_> = spec.groups.iter().map(|g| (&g.name, g.count, args(g))).collect();
            format!("registers {} {groups:?}", spec.id)
        }
        WriteRequest::DeregisterJob { job, purge: true, .. } => format!("purges {}", job.id),
        WriteRequest::DeregisterJob { job, .. } => format!("stops {}", job.id),
        WriteRequest::UpsertNamespace { namespace } => format!("writes namespace {}", namespace.name),
        WriteRequest::DeleteNamespace { name } => format!("deletes namespace {name}"),
        WriteRequest::EvaluateJob { .. }
        | WriteRequest::ForceLaunch { .. }
        | WriteRequest::DispatchJob { .. }
        | WriteRequest::UpsertNodePool { .. }
        | WriteRequest::DeleteNodePool { .. }
        | WriteRequest::ConfigureScheduler { .. }
        | WriteRequest::DeleteEvals { .. }
        | WriteRequest::RevertJob { .. }
        | WriteRequest::SetStability { .. }
        | WriteRequest::EvaluateNode { .. }
        | WriteRequest::RemoveServer { .. }
        | WriteRequest::TransferLeadership { .. }
        | WriteRequest::UpdateNode { .. }
        | WriteRequest::CollectGarbage
        | WriteRequest::ScaleJob(_)
        | WriteRequest::TagVersion { .. }
        | WriteRequest::CreateJoinToken { .. }
        | WriteRequest::RevokeJoinToken { .. }
        | WriteRequest::RedeemJoinToken { .. }
        | WriteRequest::StopAlloc { .. }
        | WriteRequest::StepDeployment { .. } => format!("{action:?}"),
    }
}
