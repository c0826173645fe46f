//! Writes asked for by users: checked against the region, stamped, given their evaluation, proposed (server.md 8).
//! What can only be decided in log order (enforced indexes, conflicts with the stored job) is decided when the entry is applied.

use super::context::Context;
use super::leader::Leader;
use super::pending::OnApply;
use super::{deployments, eval_deletion, join_tokens, periodic};
use model::alloc::{Allocation, ClientStatus, DesiredStatus, Transition};
use model::dispatch::DispatchRequest;
use model::environment;
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::{AllocId, JobKey, NodeId};
use model::job::{JobSpec, JobType};
use model::namespace::nonexistent;
use state::fault::Fault;
use state::view::View;
use wire::command::ScaleRequest;
use wire::command::{
    Command, DispatchJobCommand, NodeUpdateRequest, RegisterJobCommand, RevertJobCommand, ScaleJobCommand,
    TagVersionCommand,
};
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};

impl Leader {
    /// Takes a user's write, which is answered here or when its entry is applied.
    /// Writes that concern the servers themselves are `Server`'s own, and never come here.
    pub fn request(&mut self, token: u64, action: WriteRequest, cx: &mut Context<'_>) -> Result<(), Fault> {
        let view = &cx.view()?;
        let (at, reply) = (cx.at, OnApply::Reply { token });
        match action {
            WriteRequest::RegisterJob { spec, enforce_index, eval_priority, preserve_counts, submission } => {
                let (submission, tracked_versions) = (submission.map(|s| *s), cx.config.tracked_versions);
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
                register_job(token, order, eval_priority, view, cx)?;
            }
            WriteRequest::RevertJob { job, version, enforce_prior_version } => {
                revert_job(token, job, version, enforce_prior_version, view, cx)?
            }
            WriteRequest::SetStability { job, version, stable } => {
                cx.propose(Command::SetStability { job, version, stable }, reply);
            }
            WriteRequest::TagVersion { job, name, version, description } => {
                let order = TagVersionCommand { job, name, version, description, at };
                cx.propose(Command::TagVersion(Box::new(order)), reply);
            }
            WriteRequest::DeregisterJob { job, purge, eval_priority, no_shutdown_delay } => {
                deregister_job(token, job, (purge, no_shutdown_delay), eval_priority, view, cx)?;
            }
            WriteRequest::UpsertNamespace { namespace } => {
                cx.propose(Command::UpsertNamespace { namespace }, reply);
            }
            WriteRequest::DeleteNamespace { name } => cx.propose(Command::DeleteNamespace { name }, reply),
            WriteRequest::UpsertNodePool { pool } => {
                cx.propose(Command::UpsertNodePool { pool }, reply);
            }
            WriteRequest::DeleteNodePool { name } => cx.propose(Command::DeleteNodePool { name }, reply),
            WriteRequest::ConfigureScheduler { settings, cas } => {
                cx.propose(Command::ConfigureScheduler { settings, cas }, reply);
            }
            WriteRequest::DeleteEvals { ids, skip_needed } => {
                eval_deletion::delete_for_user(token, ids, skip_needed, view, cx)?
            }
            WriteRequest::CollectGarbage => {
                self.collector.force(cx.now);
                cx.reply(token, Ok(WriteReply::Nothing { index: view.index() }));
            }
            WriteRequest::StopAlloc { alloc, transition } => stop_alloc(token, alloc, transition, view, cx)?,
            WriteRequest::ScaleJob(request) => scale_job(token, *request, view, cx)?,
            WriteRequest::ForceLaunch { job } => periodic::force_launch(token, job, cx),
            WriteRequest::DispatchJob { request } => dispatch_job(token, *request, view, cx)?,
            WriteRequest::EvaluateJob { job, force_reschedule } => {
                evaluate_job(token, job, force_reschedule, view, cx)?
            }
            WriteRequest::RemoveServer { .. } | WriteRequest::TransferLeadership { .. } => unreachable!(),
            WriteRequest::EvaluateNode { node } => self.evaluate_node(token, node, view, cx)?,
            WriteRequest::UpdateNode { node, request } => self.change_node(token, node, request, view, cx)?,
            WriteRequest::CreateJoinToken { .. }
            | WriteRequest::RevokeJoinToken { .. }
            | WriteRequest::RedeemJoinToken { .. } => join_tokens::request(token, action, view, cx)?,
            WriteRequest::StepDeployment { deployment, step } => {
                deployments::step_for_user(token, deployment, step, view, cx)?;
            }
        }
        Ok(())
    }

    fn evaluate_node(
        &mut self,
        token: u64,
        node: NodeId,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let Some(known) = view.node(node)? else {
            cx.refuse(token, RefusalKind::Validation, "node not found");
            return Ok(());
        };
        let evals = self.system_jobs.node_evals(node, view, cx)?;
        if evals.is_empty() {
            let done =
                WriteReply::Evals { evals: vec![], modify_index: known.modify_index, index: view.index() };
            cx.reply(token, Ok(done));
            return Ok(());
        }
        evaluate(token, evals, known.modify_index, cx);
        Ok(())
    }

    /// A purge leads to the same evaluations as the node's death; a node that may be used again, to those of system jobs.
    fn change_node(
        &mut self,
        token: u64,
        node: NodeId,
        request: NodeUpdateRequest,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let tells_jobs = request.opens() || request == NodeUpdateRequest::Purge;
        let evals = if tells_jobs { self.system_jobs.node_evals(node, view, cx)? } else { vec![] };
        let closed = request.closes().then_some(node);
        closed.into_iter().for_each(|node| self.plans.close(node));
        let then = OnApply::NodeChanged { token, evals: evals.iter().map(|e| e.id).collect(), closed };
        let at = cx.at;
        cx.propose_with_evals(evals, |evals| Command::UpdateNode { node, request, evals, at }, then);
        Ok(())
    }
}

fn register_job(
    token: u64,
    mut order: RegisterJobCommand,
    eval_priority: Option<i64>,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    if let Some(refusal) = check_namespace_and_pool(&order.spec, view)? {
        cx.reply(token, Err(refusal));
        return Ok(());
    }
    let priority = eval_priority.unwrap_or(order.spec.priority);
    let (job, job_type) = (order.spec.key(), order.spec.job_type);
    order.eval = Some(new_eval(job, job_type, priority, Trigger::JobRegister, cx));
    cx.propose(Command::RegisterJob(Box::new(order)), OnApply::Reply { token });
    Ok(())
}

fn deregister_job(
    token: u64,
    job: JobKey,
    (purge, no_shutdown_delay): (bool, bool),
    eval_priority: Option<i64>,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let Some(known) = view.job(&job)? else {
        cx.reply(token, Ok(WriteReply::Nothing { index: 0 }));
        return Ok(());
    };
    let priority = eval_priority.unwrap_or(known.spec.priority);
    let eval = new_eval(job.clone(), known.spec.job_type, priority, Trigger::JobDeregister, cx);
    let eval = Some(Box::new(eval));
    let tracked_versions = cx.config.tracked_versions;
    let command = match purge {
        true => Command::PurgeJob { job, eval, at: cx.at },
        false => Command::StopJob { job, no_shutdown_delay, eval, tracked_versions, at: cx.at },
    };
    cx.propose(command, OnApply::Reply { token });
    Ok(())
}

/// Dispatches a job; `apply` tells whether the request fits it. What the job has of meta, only the servers know.
fn dispatch_job(
    token: u64,
    request: DispatchRequest,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let mut meta = view.job(&request.job)?.map(|known| known.spec.meta.clone()).unwrap_or_default();
    meta.extend(request.meta.clone());
    if let Some(why) = environment::refuses_size(&meta) {
        cx.refuse(token, RefusalKind::Invalid, why);
        return Ok(());
    }
    let order = DispatchJobCommand { request, eval: cx.ids.eval(), at: cx.at };
    cx.propose(Command::DispatchJob(Box::new(order)), OnApply::Reply { token });
    Ok(())
}

/// Reverts a job; `apply` tells whether job and version exist.
fn revert_job(
    token: u64,
    job: JobKey,
    version: u64,
    enforce_prior_version: Option<u64>,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let mut eval = None;
    if let Some(found) = view.job_versions(&job)?.into_iter().find(|v| v.version == version) {
        if let Some(refusal) = check_namespace_and_pool(&found.spec, view)? {
            cx.reply(token, Err(refusal));
            return Ok(());
        }
        let (job_type, priority) = (found.spec.job_type, found.spec.priority);
        eval = Some(new_eval(job.clone(), job_type, priority, Trigger::JobRegister, cx));
    }
    let tracked_versions = cx.config.tracked_versions;
    let order = RevertJobCommand { job, version, enforce_prior_version, eval, tracked_versions, at: cx.at };
    cx.propose(Command::RevertJob(Box::new(order)), OnApply::Reply { token });
    Ok(())
}

/// Scales a job; `apply` tells whether the request fits it.
fn scale_job(token: u64, request: ScaleRequest, view: &View, cx: &mut Context<'_>) -> Result<(), Fault> {
    let known = view.job(&request.job)?.filter(|_| request.count.is_some());
    let eval = known.map(|known| {
        let (job_type, priority) = (known.spec.job_type, known.spec.priority);
        new_eval(request.job.clone(), job_type, priority, Trigger::JobScaling, cx)
    });
    let order = ScaleJobCommand { request, eval, tracked_versions: cx.config.tracked_versions, at: cx.at };
    cx.propose(Command::ScaleJob(Box::new(order)), OnApply::Reply { token });
    Ok(())
}

fn evaluate_job(
    token: u64,
    job: JobKey,
    force_reschedule: bool,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let Some(known) = view.job(&job)? else {
        cx.refuse(token, RefusalKind::Validation, "job not found");
        return Ok(());
    };
    let kind = match &known.spec {
        spec if spec.is_parameterized() => Some("parameterized"),
        spec => spec.periodic.as_ref().map(|_| "periodic"),
    };
    if let Some(kind) = kind {
        let why = format!("can't evaluate {kind} job");
        cx.refuse(token, RefusalKind::Validation, why);
        return Ok(());
    }
    let (job_type, priority) = (known.spec.job_type, known.spec.priority);
    let mut eval = new_eval(job.clone(), job_type, priority, Trigger::JobRegister, cx);
    eval.job_modify_index = known.modify_index;
    if !force_reschedule {
        evaluate(token, vec![eval], known.modify_index, cx);
        return Ok(());
    }
    let allocs = to_be_replaced(&known.spec, &view.allocs_of_job(&job)?);
    let then = OnApply::Evaluated { token, evals: vec![eval.id], modify_index: known.modify_index };
    cx.propose(Command::UpdateTransitions { allocs, evals: vec![eval], at: cx.at }, then);
    Ok(())
}

/// Asks an allocation to migrate: the scheduler stops it and places it anew.
fn stop_alloc(
    token: u64,
    id: AllocId,
    transition: Transition,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let Some(alloc) = view.alloc(id)? else {
        cx.refuse(token, RefusalKind::NotFound, "allocation not found");
        return Ok(());
    };
    let Some(job) = view.job(&alloc.job)? else {
        cx.refuse(token, RefusalKind::NotFound, "job not found");
        return Ok(());
    };
    let (job_type, priority) = (job.spec.job_type, job.spec.priority);
    let mut eval = new_eval(alloc.job, job_type, priority, Trigger::AllocStop, cx);
    eval.job_modify_index = job.modify_index;
    let then = OnApply::Evaluated { token, evals: vec![eval.id], modify_index: job.modify_index };
    let allocs = vec![(id, transition)];
    cx.propose(Command::UpdateTransitions { allocs, evals: vec![eval], at: cx.at }, then);
    Ok(())
}

fn evaluate(token: u64, evals: Vec<Evaluation>, modify_index: u64, cx: &mut Context<'_>) {
    let ids = evals.iter().map(|e| e.id).collect();
    let then = OnApply::Evaluated { token, evals: ids, modify_index };
    let at = cx.at;
    cx.propose_with_evals(evals, |evals| Command::UpdateEvals { evals, at }, then);
}

fn new_eval(
    job: JobKey,
    job_type: JobType,
    priority: i64,
    trigger: Trigger,
    cx: &mut Context<'_>,
) -> Evaluation {
    let priority = if priority == 0 { DEFAULT_PRIORITY } else { priority };
    Evaluation::pending(cx.ids.eval(), job, job_type, priority, trigger, cx.at)
}

/// Names that must exist in this region, and what its namespace allows.
pub fn check_namespace_and_pool(spec: &JobSpec, view: &View) -> Result<Option<Refusal>, Fault> {
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

/// Allocations that have failed and were not replaced, of groups whose failures are replaced at all.
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
    use super::super::testing::Alone;
    use super::*;
    use model::dispatch::{Parameterized, PayloadRule};
    use model::job::ReschedulePolicy;
    use model::scheduling::SchedulerSettings;
    use state::samples::{Region, alloc, alloc_id, eval_id, key, node_id, register, spec};

    #[test]
    fn a_dispatchs_meta_is_counted_with_that_of_its_job() {
        let meta = |key: &str, bytes: usize| [(key.to_string(), "v".repeat(bytes))].into();
        let rules = Parameterized {
            payload: PayloadRule::Optional,
            meta_required: vec![],
            meta_optional: vec!["own".into(), "who".into()],
        };
        let (job_type, parameterized) = (JobType::Batch, Some(rules));
        let mut alone = Alone::new(SchedulerSettings::default());
        alone.submit(JobSpec { job_type, parameterized, meta: meta("own", 130_000), ..spec("form", 1) });
        let mut dispatch = |meta| {
            let request = DispatchRequest {
                job: key("form"),
                payload: vec![],
                meta,
                prefix: String::new(),
                token: String::new(),
                priority: 0,
            };
            alone.ask(WriteRequest::DispatchJob { request: Box::new(request) }).0
        };
        let refusal = dispatch(meta("who", 130_000)).expect_err("each would fit alone");
        assert_eq!(refusal.kind, RefusalKind::Invalid);
        assert!(refusal.message.contains("send large values as the payload"), "{refusal}");
        for fits in [meta("who", 100_000), meta("own", 130_000)] {
            assert!(matches!(dispatch(fits), Ok(WriteReply::Dispatched { .. })));
        }
    }

    #[test]
    fn a_forced_reschedule_is_for_failed_allocations_alone() {
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
