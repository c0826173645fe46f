//! Debug log lines of applied entries: a line for each object that moved, and one for a whole plan.
//!
//! Refuses to know: who reads it. Says nothing that is not in the state, and no more lines of an entry than `MAX_LINES`.

use model::alloc::Allocation;
use model::eval::{EvalStatus, Evaluation};
use model::node::Node;
use tracing::{Level, debug, enabled};
use wire::event::{Events, Object};

const MAX_LINES: usize = 64;

pub fn log_events(events: &Events) {
    if !enabled!(target: "nomad", Level::DEBUG) {
        return;
    }
    let of_plan = events.kind == "PlanResult";
    if of_plan {
        log_plan(events);
    }
    let objects = || events.objects.iter().filter(|o| !(of_plan && matches!(o, Object::Alloc(_))));
    objects().take(MAX_LINES).for_each(|object| log_object(object, events));
    let more = objects().count().saturating_sub(MAX_LINES);
    if more > 0 {
        debug!(target: "nomad", index = events.index, more, "and others");
    }
}

fn log_plan(events: &Events) {
    let allocs = || {
        events.objects.iter().filter_map(|o| match o {
            Object::Alloc(alloc) => Some(alloc),
            _ => None,
        })
    };
    let placed = allocs().filter(|a| a.create_index == events.index).count();
    let stopped = allocs().filter(|a| a.server_terminal()).count();
    let updated = allocs().count().saturating_sub(placed + stopped);
    debug!(target: "nomad", index = events.index, placed, updated, stopped, "plan applied");
}

fn log_object(object: &Object, events: &Events) {
    match object {
        Object::Job { job, deleted } => {
            let (spec, status) = (&job.spec, job.status.as_str());
            let (job_id, namespace, version) = (&spec.id, &spec.namespace, job.version);
            match events.kind {
                "JobRegistered" => {
                    debug!(target: "nomad.job", job_id, namespace, version, status, "job registered");
                }
                "JobDeregistered" | "JobBatchDeregistered" => {
                    debug!(target: "nomad.job", job_id, namespace, purged = deleted, "job deregistered");
                }
                _ => debug!(target: "nomad.job", job_id, namespace, status, "job status updated"),
            }
        }
        Object::Eval(eval) => log_eval(eval, events.index),
        Object::Alloc(alloc) => log_alloc(alloc),
        Object::Node(node) => log_node(node, events.kind),
        Object::Deployment(d) => {
            let (job_id, namespace, status) = (&d.job.id, &d.job.namespace, d.status.as_str());
            debug!(
                target: "nomad.deployments_watcher",
                deployment_id = %d.id, job_id, namespace, status, description = d.status_description,
                "deployment updated"
            );
        }
        Object::NodePool(pool) => {
            debug!(target: "nomad.node_pool", node_pool = pool.spec.name, "node pool updated")
        }
    }
}

fn log_eval(eval: &Evaluation, index: u64) {
    let (job_id, namespace, triggered_by) = (&eval.job.id, &eval.job.namespace, eval.trigger.as_str());
    let (status, description) = (eval.status.as_str(), eval.status_description.as_str());
    if eval.create_index == index && eval.status == EvalStatus::Pending {
        debug!(
            target: "nomad.eval",
            eval_id = %eval.id, r#type = %eval.job_type, namespace, job_id, triggered_by, priority = eval.priority,
            "evaluation created"
        );
    } else {
        debug!(
            target: "nomad.eval",
            eval_id = %eval.id, namespace, job_id, triggered_by, status, description, "evaluation updated"
        );
    }
}

fn log_alloc(alloc: &Allocation) {
    let (job_id, namespace, task_group) = (&alloc.job.id, &alloc.job.namespace, &alloc.group);
    let (desired, status) = (alloc.desired.as_str(), alloc.client.as_str());
    debug!(
        target: "nomad.alloc",
        alloc_id = %alloc.id, node_id = %alloc.node_id, namespace, job_id, task_group, desired, status,
        "allocation updated"
    );
}

fn log_node(node: &Node, kind: &str) {
    let (name, status) = (&node.info.name, node.status.as_str());
    let (eligible, draining) = (node.eligible, node.drain.is_some());
    match kind {
        "NodeRegistration" => {
            debug!(target: "nomad.client", node_id = %node.info.id, name, status, "node registered");
        }
        "NodeDeregistration" => {
            debug!(target: "nomad.client", node_id = %node.info.id, name, "node deregistered")
        }
        "NodeDrain" => {
            debug!(target: "nomad.drain", node_id = %node.info.id, name, draining, eligible, "node drain updated")
        }
        _ => debug!(target: "nomad.client", node_id = %node.info.id, name, status, eligible, "node updated"),
    }
}
