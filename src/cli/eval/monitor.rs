//! Follows an evaluation to its end and tells what changes: line by line (cli.md 3.4.1), on a terminal in place.
//!
//! `EvalProgress` is pure: what was seen last and what is seen now become lines. Exit codes: 0 done, 1 failed, 2 not everything placed.

use crate::error::{CommandError, CommandResult};
use crate::eval::watch::{EvalUpdate, EvalWatch, is_terminal};
use crate::render::layout;
use crate::render::lists::alloc_table;
use crate::render::screen::{Screen, ScreenText, Size};
use crate::session::Session;
use crate::shapes::{Alloc, AllocMetric, Eval};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long tasks are watched while they start or end.
const MAX_WATCHED: Duration = Duration::from_secs(600);
/// The longest chain of follow-up evaluations that is monitored.
const MAX_FOLLOWED: usize = 32;
/// The longest `wait_until` of a follow-up evaluation that is waited for.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Follows `eval_id` and the evaluations after it. The value is the exit code.
pub fn follow(session: &Session, eval_id: &str, verbose: bool) -> CommandResult<u8> {
    let mut code = 0;
    let mut next = eval_id.to_string();
    for _ in 0..MAX_FOLLOWED {
        let eval = follow_one(session, &next, verbose)?;
        code = code.max(exit_code(&eval));
        if eval.next_eval.is_empty() {
            return Ok(code);
        }
        let wait = Duration::from_nanos(u64::try_from(eval.wait).unwrap_or(0)).min(MAX_WAIT);
        let id = layout::id(&eval.next_eval, verbose);
        let text = if wait.is_zero() {
            format!("Monitoring next evaluation {id:?}")
        } else {
            format!("Monitoring next evaluation {id:?} in {}", layout::units(wait.as_secs()))
        };
        say(session, &MonitorLine::Info(text))?;
        std::thread::sleep(wait);
        next = eval.next_eval;
    }
    Err(CommandError::new(format!("Stopped monitoring after {MAX_FOLLOWED} evaluations in a row")))
}

fn follow_one(session: &Session, id: &str, verbose: bool) -> CommandResult<Eval> {
    if session.out.is_terminal() {
        return watch_one(session, id, verbose);
    }
    say(session, &MonitorLine::Info(format!("Monitoring evaluation {:?}", layout::id(id, verbose))))?;
    let (mut progress, mut watch) =
        (EvalProgress { verbose, ..EvalProgress::default() }, EvalWatch::default());
    loop {
        let EvalUpdate { eval, mut allocs } = watch.next(session, id)?;
        allocs.retain(|a| a.eval_id == eval.id);
        for line in progress.update(&eval, &allocs) {
            say(session, &line)?;
        }
        if is_terminal(&eval.status) {
            end(session, &eval, verbose)?;
            return Ok(eval);
        }
    }
}

/// The same on a terminal, in place, and a little longer: until the tasks have started, or ended.
fn watch_one(session: &Session, id: &str, verbose: bool) -> CommandResult<Eval> {
    let (mut screen, mut watch) = (Screen::default(), EvalWatch::default());
    let until = Instant::now() + MAX_WATCHED;
    loop {
        let EvalUpdate { eval, allocs } = watch.next(session, id)?;
        screen.draw(&session.out, &page(&eval, &allocs, session.now(), verbose), Size::now())?;
        let settled = allocs.iter().all(is_settled) || Instant::now() >= until;
        if is_terminal(&eval.status) && settled {
            end(session, &eval, verbose)?;
            return Ok(eval);
        }
    }
}

fn page(eval: &Eval, allocs: &[Alloc], now: i64, verbose: bool) -> ScreenText {
    let mut page = ScreenText::default();
    let id = layout::id(&eval.id, verbose);
    page.title(format!("Evaluation {id:?} is {}, of job {:?}", eval.status, eval.job_id));
    if !allocs.is_empty() {
        page.line("");
        page.text(&alloc_table(allocs, now, verbose));
    }
    page
}

/// Whether the allocation has reached its desired status, or never will.
pub fn is_settled(alloc: &Alloc) -> bool {
    match alloc.desired_status.as_str() {
        "run" => alloc.client_status != "pending",
        _ => matches!(alloc.client_status.as_str(), "complete" | "failed" | "lost"),
    }
}

fn end(session: &Session, eval: &Eval, verbose: bool) -> CommandResult<()> {
    ending(eval, verbose).iter().try_for_each(|line| say(session, line))
}

fn say(session: &Session, line: &MonitorLine) -> CommandResult<()> {
    let now = session.time(session.now());
    match line {
        MonitorLine::Info(text) => session.out.line(&session.out.bold(&format!("==> {now}: {text}"))),
        MonitorLine::Plain(text) => session.out.line(&format!("    {now}: {text}")),
        MonitorLine::Detail(text) => session.out.line(&format!("    {text}")),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MonitorLine {
    /// Begins with an arrow and the time.
    Info(String),
    /// Indented, with the time.
    Plain(String),
    /// Indented, without.
    Detail(String),
}

fn exit_code(eval: &Eval) -> u8 {
    match eval.status.as_str() {
        _ if !eval.failed_tg_allocs.is_empty() => 2,
        // canceled: a newer evaluation of the job replaces this one
        "complete" | "canceled" => 0,
        _ => 1,
    }
}

/// What was told already.
#[derive(Default)]
struct EvalProgress {
    verbose: bool,
    status: String,
    deployment: String,
    triggered: bool,
    /// Client status by allocation.
    allocs: BTreeMap<String, String>,
}

impl EvalProgress {
    fn update(&mut self, eval: &Eval, allocs: &[Alloc]) -> Vec<MonitorLine> {
        let mut lines = Vec::new();
        let id = |full: &str| layout::id(full, self.verbose);
        if !self.triggered {
            let trigger = if eval.node_id.is_empty() {
                format!("Evaluation triggered by job {:?}", eval.job_id)
            } else {
                format!("Evaluation triggered by node {:?}", id(&eval.node_id))
            };
            lines.push(MonitorLine::Plain(trigger));
            self.triggered = true;
            self.status = "pending".to_string();
        }
        if eval.deployment_id != self.deployment {
            lines.push(MonitorLine::Plain(format!(
                "Evaluation within deployment: {:?}",
                id(&eval.deployment_id)
            )));
            self.deployment = eval.deployment_id.clone();
        }
        for alloc in allocs {
            if let Some(text) = alloc_line(self.allocs.get(&alloc.id), eval, alloc, self.verbose) {
                lines.push(MonitorLine::Plain(text));
            }
            self.allocs.insert(alloc.id.clone(), alloc.client_status.clone());
        }
        if eval.status != self.status {
            lines.push(MonitorLine::Plain(format!(
                "Evaluation status changed: {:?} -> {:?}",
                self.status, eval.status
            )));
            self.status = eval.status.clone();
        }
        lines
    }
}

fn alloc_line(before: Option<&String>, eval: &Eval, alloc: &Alloc, verbose: bool) -> Option<String> {
    let id = layout::id(&alloc.id, verbose);
    let Some(before) = before else {
        let verb = if alloc.create_index < eval.create_index { "modified" } else { "created" };
        let node = layout::id(&alloc.node_id, verbose);
        return Some(format!("Allocation {id:?} {verb}: node {node:?}, group {:?}", alloc.task_group));
    };
    let changed = *before != alloc.client_status;
    let description = &alloc.client_description;
    changed.then(|| {
        format!("Allocation {id:?} status changed: {before:?} -> {:?} ({description})", alloc.client_status)
    })
}

fn ending(eval: &Eval, verbose: bool) -> Vec<MonitorLine> {
    let id = layout::id(&eval.id, verbose);
    let finished = format!("Evaluation {id:?} finished with status {:?}", eval.status);
    if eval.failed_tg_allocs.is_empty() {
        let mut lines = vec![MonitorLine::Info(finished)];
        if eval.status != "complete" && !eval.status_description.is_empty() {
            lines.push(MonitorLine::Detail(eval.status_description.clone()));
        }
        return lines;
    }
    let mut lines = vec![MonitorLine::Info(format!("{finished} but failed to place all allocations:"))];
    lines.extend(failed_groups(&eval.failed_tg_allocs).into_iter().map(MonitorLine::Detail));
    if !eval.blocked_eval.is_empty() {
        let blocked = layout::id(&eval.blocked_eval, verbose);
        let text = format!("Evaluation {blocked:?} waiting for additional capacity to place remainder");
        lines.push(MonitorLine::Detail(text));
    }
    lines
}

/// Each group that was not placed as a whole, and why.
pub fn failed_groups(failed: &BTreeMap<String, AllocMetric>) -> Vec<String> {
    let mut lines = Vec::new();
    for (group, metric) in failed {
        let unplaced = layout::count(metric.coalesced_failures + 1, "allocation");
        lines.push(format!("Task Group {group:?} (failed to place {unplaced}):"));
        lines.extend(placement_failures(metric).into_iter().map(|text| format!("  * {text}")));
    }
    lines
}

/// Why allocations of a group found no node, one reason a line.
pub fn placement_failures(metric: &AllocMetric) -> Vec<String> {
    let mut out = Vec::new();
    if metric.nodes_evaluated == 0 {
        out.push("No nodes were eligible for evaluation".to_string());
    }
    for (datacenter, available) in &metric.nodes_available {
        if *available == 0 {
            out.push(format!("No nodes are available in datacenter {datacenter:?}"));
        }
    }
    // never singular: scripts look for these lines (cli.md 3.4.4)
    let nodes = |n: &u64| format!("{n} nodes");
    for (class, n) in &metric.class_filtered {
        out.push(format!("Class {class:?}: {} excluded by filter", nodes(n)));
    }
    for (constraint, n) in &metric.constraint_filtered {
        out.push(format!("Constraint {constraint:?}: {} excluded by filter", nodes(n)));
    }
    if metric.nodes_exhausted > 0 {
        out.push(format!("Resources exhausted on {}", nodes(&metric.nodes_exhausted)));
    }
    for (class, n) in &metric.class_exhausted {
        out.push(format!("Class {class:?} exhausted on {}", nodes(n)));
    }
    for (dimension, n) in &metric.dimension_exhausted {
        out.push(format!("Dimension {dimension:?} exhausted on {}", nodes(n)));
    }
    out.extend(metric.quota_exhausted.iter().map(|q| format!("Quota limit hit {q:?}")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superseded_evaluation_is_no_failure() {
        for (status, unplaced, code) in [
            ("complete", false, 0),
            ("canceled", false, 0),
            ("failed", false, 1),
            ("complete", true, 2),
            ("canceled", true, 2),
        ] {
            let groups = unplaced.then(|| ("g".to_string(), AllocMetric::default()));
            let failed_tg_allocs = groups.into_iter().collect();
            let eval = Eval { status: status.to_string(), failed_tg_allocs, ..Eval::default() };
            assert_eq!(exit_code(&eval), code, "{status} {unplaced}");
        }
    }

    #[test]
    fn an_allocation_is_settled_when_it_is_as_wanted() {
        for (desired, client, settled) in [
            ("run", "pending", false),
            ("run", "running", true),
            ("run", "failed", true),
            ("stop", "running", false),
            ("stop", "pending", false),
            ("stop", "complete", true),
            ("evict", "lost", true),
        ] {
            let (desired_status, client_status) = (desired.to_string(), client.to_string());
            let alloc = Alloc { desired_status, client_status, ..Alloc::default() };
            assert_eq!(is_settled(&alloc), settled, "{desired} {client}");
        }
    }
}
