//! How something came to be as it is, from what the state still has: the evaluation with what made it, the plan, the deployment, what
//! happened to the node and to the tasks. One screen of it.
//!
//! Refuses to know: what would have been better.

use model::alloc::Allocation;
use model::eval::{EvalStatus, Evaluation};
use model::id::{EvalId, NodeId};
use model::job::Job;
use model::time::Wall;
use state::fault::Fault;
use state::view::View;
use wire::why::HistoryEntry;

/// About as many lines as a terminal shows at once.
const MAX_ENTRIES: usize = 18;
/// How many of the first events stay; then come the newest.
const FIRST_ENTRIES: usize = 2;
/// How many events of one task are shown: its newest.
const MAX_TASK_EVENTS: usize = 6;

fn link(at: Wall, kind: &'static str, id: String, text: String) -> HistoryEntry {
    HistoryEntry { at, kind, id, text }
}

/// The node's name, and the id that commands take: a name may be that of several.
fn node_of(alloc: &Allocation) -> String {
    format!("{} ({})", alloc.node_name, alloc.node_id.0.short())
}

/// Sorted, oldest first; of too many the beginning and the newest.
fn in_order(mut links: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    links.sort_by_key(|l| l.at);
    links.dedup();
    if let Some(surplus) = links.len().checked_sub(MAX_ENTRIES) {
        links.drain(FIRST_ENTRIES..FIRST_ENTRIES + surplus);
    }
    links
}

pub fn of_job(view: &View, job: &Job, evals: &[Evaluation]) -> Result<Vec<HistoryEntry>, Fault> {
    let version = job.version;
    let mut links =
        vec![link(job.submit_time, "job", String::new(), format!("version {version} was submitted"))];
    for eval in evals.iter().rev().take(5) {
        links.extend(eval_entries(view, eval)?);
    }
    if let Some(d) = view.latest_deployment(&job.spec.key())? {
        links.push(link(d.modify_time, "deployment", d.id.to_string(), d.status_description));
    }
    Ok(in_order(links))
}

pub fn of_eval(view: &View, eval: &Evaluation) -> Result<Vec<HistoryEntry>, Fault> {
    let mut links = eval_entries(view, eval)?;
    for (id, what) in [
        (eval.previous_eval, "comes from"),
        (eval.next_eval, "is gone on with by"),
        (eval.blocked_eval, "leaves the rest to"),
    ] {
        if let Some(id) = id {
            links.push(match view.eval(id)? {
                Some(e) => {
                    let text = format!("{what} this one ({}, {})", e.trigger.as_str(), e.status.as_str());
                    link(e.create_time, "evaluation", id.to_string(), text)
                }
                None => forgotten(eval.create_time, id),
            });
        }
    }
    for alloc in view.allocs_of_eval(eval.id)?.into_iter().take(MAX_ENTRIES) {
        let text = format!("{} was placed on {}", alloc.name, node_of(&alloc));
        links.push(link(alloc.create_time, "allocation", alloc.id.to_string(), text));
    }
    Ok(in_order(links))
}

pub fn of_alloc(view: &View, alloc: &Allocation) -> Result<Vec<HistoryEntry>, Fault> {
    let mut links = before(view, alloc)?;
    links.extend(eval_entries_by_id(view, alloc.eval_id, alloc.create_time)?);
    let best = alloc.metrics.scores.iter().find(|s| s.node_id == alloc.node_id);
    let score = best.map_or_else(String::new, |s| format!(", score {:.3}", s.normalized));
    let looked = alloc.metrics.nodes_evaluated;
    let text = format!("was placed on {}{score}, of {looked} nodes looked at", node_of(alloc));
    links.push(link(alloc.create_time, "plan", String::new(), text));
    links.extend(deployed(view, alloc)?);
    for (task, state) in &alloc.task_states {
        let newest = state.events.len().saturating_sub(MAX_TASK_EVENTS);
        for event in &state.events[newest..] {
            let text = format!("{task}: {}: {}", event.kind, event.message);
            links.push(link(event.at, "task", String::new(), text));
        }
    }
    for change in &alloc.states {
        let text = format!("servers found it {}", change.status.as_str());
        links.push(link(change.at, "allocation", String::new(), text));
    }
    links.extend(of_node(view, alloc.node_id, alloc.create_time)?);
    links.extend(stopped(view, alloc)?);
    links.extend(after(view, alloc)?);
    Ok(in_order(links))
}

/// The evaluation, and the change of a node that made it.
fn eval_entries(view: &View, eval: &Evaluation) -> Result<Vec<HistoryEntry>, Fault> {
    let mut links = vec![];
    if let Some(node) = eval.node_id {
        let known = view.node(node)?;
        let events = known.iter().flat_map(|n| n.events.iter().map(|e| (&n.info.name, e)));
        for (name, event) in events.filter(|(_, e)| e.create_index == eval.node_modify_index) {
            links.push(link(event.at, "node", node.to_string(), format!("{name}: {}", event.message)));
        }
    }
    let mut text = format!("{}, {}", eval.trigger.as_str(), eval.status.as_str());
    // a blocked evaluation is reported by another line already
    if !eval.status_description.is_empty() && eval.status != EvalStatus::Blocked {
        text.push_str(&format!(": {}", eval.status_description));
    }
    links.push(link(eval.create_time, "evaluation", eval.id.to_string(), text));
    Ok(links)
}

fn eval_entries_by_id(view: &View, id: EvalId, at: Wall) -> Result<Vec<HistoryEntry>, Fault> {
    match view.eval(id)? {
        Some(eval) => eval_entries(view, &eval),
        None => Ok(vec![forgotten(at, id)]),
    }
}

fn forgotten(at: Wall, id: EvalId) -> HistoryEntry {
    link(at, "evaluation", id.to_string(), "is forgotten by now".into())
}

/// Which allocation it replaced, and why that one was replaced.
fn before(view: &View, alloc: &Allocation) -> Result<Vec<HistoryEntry>, Fault> {
    let Some(id) = alloc.previous else { return Ok(vec![]) };
    let again = alloc.reschedules.last().filter(|r| r.previous_alloc == id);
    let waited =
        again.map_or_else(String::new, |r| format!(", after {} s", r.delay.as_nanos() / 1_000_000_000));
    let text = match view.alloc(id)? {
        None => format!("replaces this one, which is forgotten by now{waited}"),
        Some(old) => {
            let why = match old.desired_description.as_str() {
                "" => old.client_description.as_str(),
                said => said,
            };
            format!("replaces this one on {}, {}: {why}{waited}", node_of(&old), old.client.as_str())
        }
    };
    Ok(vec![link(alloc.create_time, "allocation", id.to_string(), text)])
}

fn deployed(view: &View, alloc: &Allocation) -> Result<Vec<HistoryEntry>, Fault> {
    let mut links = vec![];
    if let Some(health) = alloc.health
        && let Some(healthy) = health.healthy
    {
        let canary = if health.canary { "the canary " } else { "" };
        let text = format!("{canary}was found {}", if healthy { "healthy" } else { "unhealthy" });
        links.push(link(health.at, "deployment", String::new(), text));
    }
    if let Some(id) = alloc.deployment
        && let Some(d) = view.deployment(id)?
    {
        links.push(link(d.modify_time, "deployment", id.to_string(), d.status_description));
    }
    Ok(links)
}

/// The events of a node since then.
fn of_node(view: &View, node: NodeId, since: Wall) -> Result<Vec<HistoryEntry>, Fault> {
    let Some(known) = view.node(node)? else {
        return Ok(vec![link(since, "node", node.to_string(), "is gone by now".into())]);
    };
    let name = &known.info.name;
    let told =
        |e: &model::node::NodeEvent| link(e.at, "node", node.to_string(), format!("{name}: {}", e.message));
    Ok(known.events.iter().filter(|e| e.at >= since).map(told).collect())
}

/// The plan that stopped the allocation, and the evaluation that was being processed when it was applied.
fn stopped(view: &View, alloc: &Allocation) -> Result<Vec<HistoryEntry>, Fault> {
    if !alloc.server_terminal() {
        return Ok(vec![]);
    }
    let at_work = |e: &&Evaluation| {
        e.snapshot_index < alloc.alloc_modify_index && e.modify_index >= alloc.alloc_modify_index
    };
    let evals = view.evals_of_job(&alloc.job)?;
    let by = evals.iter().filter(at_work).min_by_key(|e| (e.modify_index, e.create_index));
    let at = by.map_or(alloc.modify_time, |e| e.modify_time);
    let mut links = match by {
        Some(eval) => eval_entries(view, eval)?,
        None => vec![],
    };
    let text = format!("was told to {}: {}", alloc.desired.as_str(), alloc.desired_description);
    links.push(link(at, "plan", String::new(), text));
    Ok(links)
}

fn after(view: &View, alloc: &Allocation) -> Result<Vec<HistoryEntry>, Fault> {
    let mut links = vec![];
    if let Some(next) = alloc.next {
        let (at, text) = match view.alloc(next)? {
            Some(new) => {
                (new.create_time, format!("takes its place on {}, {}", node_of(&new), new.client.as_str()))
            }
            None => (alloc.modify_time, "took its place, and is forgotten by now".into()),
        };
        links.push(link(at, "allocation", next.to_string(), text));
    }
    if let Some(id) = alloc.followup_eval
        && let Some(eval) = view.eval(id)?.filter(|e| e.status == EvalStatus::Pending)
    {
        let text = format!("will look at it again ({})", eval.trigger.as_str());
        links.push(link(eval.wait_until.unwrap_or(eval.create_time), "evaluation", id.to_string(), text));
    }
    if alloc.transition.leaves() && !alloc.server_terminal() {
        let text = "is to leave its node as soon as there is another".into();
        links.push(link(alloc.modify_time, "allocation", String::new(), text));
    }
    Ok(links)
}
