//! Writes asked for by users: checked against the region, stamped, given their evaluation, proposed (server.md 8).
//! What can only be told in log order (enforced indexes, conflicts with the stored job) is told by applying.

use super::{Op, Server};
use model::alloc::{Allocation, ClientStatus, DesiredStatus, Transition};
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::family::dispatch::DispatchRequest;
use model::id::{AllocId, JobKey, NodeId};
use model::job::{JobSpec, JobType};
use model::namespace::nonexistent;
use model::time::{Now, Wall};
use state::fault::Fault;
use state::view::View;
use wire::command::ScaleRequest;
use wire::command::{
    Command, DispatchJobCommand, NodeUpdateRequest, RegisterJobCommand, RevertJobCommand, ScaleJobCommand,
    TagVersionCommand,
};
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};

impl Server {
    pub(super) fn request(&mut self, token: u64, action: WriteRequest, now: Now) -> Result<(), Fault> {
        self.measures.asked(token, &action);
        if let Some(refusal) = self.cannot_write() {
            self.reply(token, Err(refusal));
            return Ok(());
        }
        let view = self.log.reader().view()?;
        self.admit(token, action, &view, now)
    }

    fn admit(&mut self, token: u64, action: WriteRequest, view: &View, now: Now) -> Result<(), Fault> {
        let at = self.stamp(now);
        match action {
            WriteRequest::RegisterJob { spec, enforce_index, eval_priority, preserve_counts, submission } => {
                let (submission, tracked_versions) = (submission.map(|s| *s), self.config.tracked_versions);
                let (spec, eval) = (*spec, None);
                let order = RegisterJobCommand {
                    spec,
                    enforce_index,
                    preserve_counts,
                    submission,
                    eval,
                    tracked_versions,
                    at,
                };
                self.register_job(token, order, eval_priority, view)?;
            }
            WriteRequest::RevertJob { job, version, enforce_prior_version } => {
                self.revert_job(token, job, version, enforce_prior_version, view, at)?
            }
            WriteRequest::SetStability { job, version, stable } => {
                self.propose(&Command::SetStability { job, version, stable }, Op::Reply { token });
            }
            WriteRequest::TagVersion { job, name, version, description } => {
                let order = TagVersionCommand { job, name, version, description, at };
                self.propose(&Command::TagVersion(Box::new(order)), Op::Reply { token });
            }
            WriteRequest::DeregisterJob { job, purge, eval_priority, no_shutdown_delay } => {
                self.deregister_job(token, job, (purge, no_shutdown_delay), eval_priority, view, at)?;
            }
            WriteRequest::UpsertNamespace { namespace } => {
                self.propose(&Command::UpsertNamespace { namespace }, Op::Reply { token });
            }
            WriteRequest::DeleteNamespace { name } => {
                self.propose(&Command::DeleteNamespace { name }, Op::Reply { token });
            }
            WriteRequest::UpsertNodePool { pool } => {
                self.propose(&Command::UpsertNodePool { pool }, Op::Reply { token });
            }
            WriteRequest::DeleteNodePool { name } => {
                self.propose(&Command::DeleteNodePool { name }, Op::Reply { token });
            }
            WriteRequest::ConfigureScheduler { settings, cas } => {
                self.propose(&Command::ConfigureScheduler { settings, cas }, Op::Reply { token });
            }
            WriteRequest::DeleteEvals { ids, skip_needed } => {
                self.delete_for_user(token, ids, skip_needed, view)?
            }
            WriteRequest::CollectGarbage => self.collect_for_user(token, view, now.mono),
            WriteRequest::StopAlloc { alloc, transition } => {
                self.stop_alloc(token, alloc, transition, view, at)?
            }
            WriteRequest::ScaleJob(request) => self.scale_job(token, *request, view, at)?,
            WriteRequest::ForceLaunch { job } => self.force_launch(token, job, at),
            WriteRequest::DispatchJob { request } => self.dispatch_job(token, *request, at),
            WriteRequest::EvaluateJob { job, force_reschedule } => {
                self.evaluate_job(token, job, force_reschedule, view, at)?
            }
            WriteRequest::EvaluateNode { node } => self.evaluate_node(token, node, view, at)?,
            WriteRequest::UpdateNode { node, request } => self.change_node(token, node, request, view, at)?,
            WriteRequest::StepDeployment { deployment, step } => {
                self.step_for_user(token, deployment, step, view, at)?;
            }
        }
        Ok(())
    }

    fn register_job(
        &mut self,
        token: u64,
        mut order: RegisterJobCommand,
        eval_priority: Option<i64>,
        view: &View,
    ) -> Result<(), Fault> {
        if let Some(refusal) = misplaced(&order.spec, view)? {
            self.reply(token, Err(refusal));
            return Ok(());
        }
        let priority = eval_priority.unwrap_or(order.spec.priority);
        let (job, job_type) = (order.spec.key(), order.spec.job_type);
        order.eval = Some(self.eval(job, job_type, priority, Trigger::JobRegister, order.at));
        self.propose(&Command::RegisterJob(Box::new(order)), Op::Reply { token });
        Ok(())
    }

    fn deregister_job(
        &mut self,
        token: u64,
        job: JobKey,
        (purge, no_shutdown_delay): (bool, bool),
        eval_priority: Option<i64>,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let Some(known) = view.job(&job)? else {
            self.reply(token, Ok(WriteReply::Nothing { index: 0 }));
            return Ok(());
        };
        let priority = eval_priority.unwrap_or(known.spec.priority);
        let eval = self.eval(job.clone(), known.spec.job_type, priority, Trigger::JobDeregister, at);
        let eval = Some(Box::new(eval));
        let tracked_versions = self.config.tracked_versions;
        let command = match purge {
            true => Command::PurgeJob { job, eval, at },
            false => Command::StopJob { job, no_shutdown_delay, eval, tracked_versions, at },
        };
        self.propose(&command, Op::Reply { token });
        Ok(())
    }

    /// What is wrong with it, applying tells.
    fn dispatch_job(&mut self, token: u64, request: DispatchRequest, at: Wall) {
        let order = DispatchJobCommand { request, eval: self.ids.eval(), at };
        self.propose(&Command::DispatchJob(Box::new(order)), Op::Reply { token });
    }

    /// Reverts a job; `apply` tells whether job and version exist.
    fn revert_job(
        &mut self,
        token: u64,
        job: JobKey,
        version: u64,
        enforce_prior_version: Option<u64>,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let mut eval = None;
        if let Some(found) = view.job_versions(&job)?.into_iter().find(|v| v.version == version) {
            if let Some(refusal) = misplaced(&found.spec, view)? {
                self.reply(token, Err(refusal));
                return Ok(());
            }
            let (job_type, priority) = (found.spec.job_type, found.spec.priority);
            eval = Some(self.eval(job.clone(), job_type, priority, Trigger::JobRegister, at));
        }
        let tracked_versions = self.config.tracked_versions;
        let order = RevertJobCommand { job, version, enforce_prior_version, eval, tracked_versions, at };
        self.propose(&Command::RevertJob(Box::new(order)), Op::Reply { token });
        Ok(())
    }

    /// Scales a job; `apply` tells whether the request fits it.
    fn scale_job(&mut self, token: u64, request: ScaleRequest, view: &View, at: Wall) -> Result<(), Fault> {
        let known = view.job(&request.job)?.filter(|_| request.count.is_some());
        let eval = known.map(|known| {
            let (job_type, priority) = (known.spec.job_type, known.spec.priority);
            self.eval(request.job.clone(), job_type, priority, Trigger::JobScaling, at)
        });
        let order = ScaleJobCommand { request, eval, tracked_versions: self.config.tracked_versions, at };
        self.propose(&Command::ScaleJob(Box::new(order)), Op::Reply { token });
        Ok(())
    }

    fn evaluate_job(
        &mut self,
        token: u64,
        job: JobKey,
        force_reschedule: bool,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let Some(known) = view.job(&job)? else {
            self.reply(token, Err(Refusal::new(RefusalKind::Validation, "job not found")));
            return Ok(());
        };
        let kind = match &known.spec {
            spec if spec.is_parameterized() => Some("parameterized"),
            spec => spec.periodic.as_ref().map(|_| "periodic"),
        };
        if let Some(kind) = kind {
            let why = format!("can't evaluate {kind} job");
            self.reply(token, Err(Refusal::new(RefusalKind::Validation, why)));
            return Ok(());
        }
        let (job_type, priority) = (known.spec.job_type, known.spec.priority);
        let mut eval = self.eval(job.clone(), job_type, priority, Trigger::JobRegister, at);
        eval.job_modify_index = known.modify_index;
        if !force_reschedule {
            self.evaluate(token, vec![eval], known.modify_index, at);
            return Ok(());
        }
        let allocs = to_be_replaced(&known.spec, &view.allocs_of_job(&job)?);
        let op = Op::Evaluate { token, evals: vec![eval.id], modify_index: known.modify_index };
        self.propose(&Command::UpdateTransitions { allocs, evals: vec![eval], at }, op);
        Ok(())
    }

    /// The scheduler stops what is to migrate and places it anew.
    fn stop_alloc(
        &mut self,
        token: u64,
        id: AllocId,
        transition: Transition,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let Some(alloc) = view.alloc(id)? else {
            self.reply(token, Err(Refusal::new(RefusalKind::NotFound, "allocation not found")));
            return Ok(());
        };
        let Some(job) = view.job(&alloc.job)? else {
            self.reply(token, Err(Refusal::new(RefusalKind::NotFound, "job not found")));
            return Ok(());
        };
        let (job_type, priority) = (job.spec.job_type, job.spec.priority);
        let mut eval = self.eval(alloc.job, job_type, priority, Trigger::AllocStop, at);
        eval.job_modify_index = job.modify_index;
        let op = Op::Evaluate { token, evals: vec![eval.id], modify_index: job.modify_index };
        let allocs = vec![(id, transition)];
        self.propose(&Command::UpdateTransitions { allocs, evals: vec![eval], at }, op);
        Ok(())
    }

    fn evaluate_node(&mut self, token: u64, node: NodeId, view: &View, at: Wall) -> Result<(), Fault> {
        let Some(known) = view.node(node)? else {
            self.reply(token, Err(Refusal::new(RefusalKind::Validation, "node not found")));
            return Ok(());
        };
        let evals = self.node_evals(node, view, at)?;
        if evals.is_empty() {
            let done =
                WriteReply::Evals { evals: vec![], modify_index: known.modify_index, index: view.index() };
            self.reply(token, Ok(done));
            return Ok(());
        }
        self.evaluate(token, evals, known.modify_index, at);
        Ok(())
    }

    /// A purge is to the node's jobs what its death would be; what may be used again is news to system jobs.
    fn change_node(
        &mut self,
        token: u64,
        node: NodeId,
        request: NodeUpdateRequest,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let tells_jobs = request.opens() || request == NodeUpdateRequest::Purge;
        let evals = if tells_jobs { self.node_evals(node, view, at)? } else { vec![] };
        let op = Op::Node { token, evals: evals.iter().map(|e| e.id).collect() };
        let closes = request.closes();
        let proposed = self.propose(&Command::UpdateNode { node, request, evals, at }, op);
        self.closing.extend(proposed.filter(|_| closes).map(|index| (index, node)));
        Ok(())
    }

    fn evaluate(&mut self, token: u64, evals: Vec<Evaluation>, modify_index: u64, at: Wall) {
        let ids = evals.iter().map(|e| e.id).collect();
        let op = Op::Evaluate { token, evals: ids, modify_index };
        self.propose(&Command::UpdateEvals { evals, at }, op);
    }

    fn cannot_write(&self) -> Option<Refusal> {
        let message = if !self.ready {
            "No cluster leader"
        } else if !self.space_free {
            "the servers' disk is full: nothing is written until there is room again; reads go on"
        } else if self.ops.len() >= MAX_OPS_IN_FLIGHT {
            return Some(Refusal::new(RefusalKind::Busy, "too many writes are under way: try again shortly"));
        } else {
            return None;
        };
        Some(Refusal::new(RefusalKind::Unavailable, message))
    }

    fn eval(
        &mut self,
        job: JobKey,
        job_type: JobType,
        priority: i64,
        trigger: Trigger,
        at: Wall,
    ) -> Evaluation {
        let priority = if priority == 0 { DEFAULT_PRIORITY } else { priority };
        Evaluation::pending(self.ids.eval(), job, job_type, priority, trigger, at)
    }
}

/// Replies that wait for their entry at the same time.
pub(super) const MAX_OPS_IN_FLIGHT: usize = 4096;

/// Names that must exist in this region, and what its namespace allows.
pub(super) fn misplaced(spec: &JobSpec, view: &View) -> Result<Option<Refusal>, Fault> {
    let refuse = |text: String| Ok(Some(Refusal::new(RefusalKind::Validation, text)));
    let Some(namespace) = view.namespace(&spec.namespace)? else {
        return refuse(nonexistent(&spec.id, "namespace", &spec.namespace));
    };
    if let Some(text) = namespace.spec.refuses(spec) {
        return refuse(text);
    }
    let pool = spec.node_pool.as_str();
    if view.node_pool(pool)?.is_none() {
        return refuse(nonexistent(&spec.id, "node pool", pool));
    }
    Ok(None)
}

/// What has failed and was not replaced, of groups whose failures are replaced at all.
fn to_be_replaced(spec: &JobSpec, allocs: &[Allocation]) -> Vec<(AllocId, Transition)> {
    let force = Transition { force_reschedule: Some(true), ..Transition::default() };
    let is_meant = |a: &&Allocation| {
        let policy = spec.group(&a.group).and_then(|g| g.reschedule);
        let failed = a.client == ClientStatus::Failed && a.desired == DesiredStatus::Run && a.next.is_none();
        failed && policy.is_some_and(|p| p.enabled()) && a.transition.force_reschedule != Some(true)
    };
    allocs.iter().filter(is_meant).map(|a| (a.id, force)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::job::ReschedulePolicy;
    use state::samples::{Region, alloc, alloc_id, eval_id, node_id, register, spec};

    #[test]
    fn what_failed_is_placed_again_where_failures_are_replaced() {
        let mut region = Region::default();
        let mut wanted = spec("web", 1);
        wanted.groups[0].reschedule = ReschedulePolicy::default_for(JobType::Batch);
        region.run(&register(wanted, None));
        let job = region.job("web");
        let failed =
            |n| Allocation { client: ClientStatus::Failed, ..alloc(n, &job, node_id(1), eval_id(1)) };
        let forced = Transition { force_reschedule: Some(true), ..Transition::default() };
        let allocs = [
            failed(1),
            Allocation { next: Some(alloc_id(1)), ..failed(2) },
            Allocation { client: ClientStatus::Complete, ..failed(3) },
            Allocation { desired: DesiredStatus::Stop, ..failed(4) },
            Allocation { transition: forced, ..failed(5) },
            Allocation { group: "gone".into(), ..failed(6) },
            Allocation { transition: Transition { reschedule: Some(true), ..forced }, ..failed(7) },
            failed(8),
        ];
        assert_eq!(to_be_replaced(&job.spec, &allocs), [(alloc_id(1), forced), (alloc_id(8), forced)]);
        let mut never = job.spec.clone();
        for policy in [None, Some(ReschedulePolicy { attempts: 0, ..never.groups[0].reschedule.unwrap() })] {
            never.groups[0].reschedule = policy;
            assert_eq!(to_be_replaced(&never, &allocs), []);
        }
    }
}
