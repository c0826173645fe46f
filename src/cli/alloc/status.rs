//! `drover alloc status` (cli.md 3.5), and the table of allocations that other commands show.

use crate::CliCommand;
use crate::alloc::addresses::Allocated;
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor::placement_failures;
use crate::http::decode;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::render::template::with_omitted;
use crate::session::{Session, path};
use crate::shapes::{
    Alloc, AllocGroup, AllocMetric, AllocResourceUsage, Eval, Task, TaskEvent, TaskState, Usage,
};
use api::shape::alloc::OMIT_EMPTY;
use argh::{ArgsInfo, FromArgs};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// show an allocation: its tasks, what they use and what happened to them
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc status 1a2b3c4d")]
pub struct AllocStatusCommand {
    /// one line a task
    #[argh(switch)]
    short: bool,
    /// show ids in full, and how the node was chosen
    #[argh(switch)]
    verbose: bool,
    /// print the API's object as JSON; without an id: all of them
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show in detail what the tasks use at present
    #[argh(switch)]
    stats: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    alloc: Option<String>,
}

impl AllocStatusCommand {
    pub fn one(id: &str, verbose: bool) -> AllocStatusCommand {
        AllocStatusCommand {
            short: false,
            verbose,
            json: false,
            template: None,
            stats: false,
            alloc: Some(id.to_string()),
        }
    }
}

impl CliCommand for AllocStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let Some(prefix) = &self.alloc else {
            if let Some(objects) = objects {
                session.out.objects(objects, &session.client.get_value("/v1/allocations", &[])?)?;
                return Ok(ExitCode::SUCCESS);
            }
            return Err(CommandError::usage(
                "This command takes one argument: <alloc-id> (only with -json or -t it may be left out)",
            ));
        };
        let id = session.alloc_id(prefix)?;
        let value =
            session.client.get_value(&path("allocation", &id), &[]).map_err(|e| match e.is_not_found() {
                true => CommandError::new(format!("No allocation(s) with prefix or id {prefix:?} found")),
                false => e.into(),
            })?;
        if let Some(objects) = objects {
            let value = match objects {
                Objects::Json => value,
                Objects::Template(_) => with_omitted(value, &OMIT_EMPTY),
            };
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let alloc: Alloc = decode(&value)?;
        let now = session.now();
        session.out.text(&basics(&alloc, now, due(session, &alloc)?, &self))?;
        if self.short {
            session.out.section("Tasks")?;
            session.out.text(&short_tasks(&alloc, session))?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some((title, table)) = alloc.allocated_resources.as_ref().and_then(Allocated::shown) {
            session.out.line("")?;
            session.out.line(&title)?;
            session.out.text(&table)?;
        }
        let used = used(session, &alloc);
        for task in ordered_tasks(&alloc) {
            show_task(session, &alloc, &task, &used, self.stats)?;
        }
        if self.verbose {
            session.out.section("Placement Metrics")?;
            session.out.text(&placement(&alloc.metrics))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// When the allocation may be placed again, if an evaluation waits for that.
fn due(session: &Session, alloc: &Alloc) -> CommandResult<Option<i64>> {
    if alloc.followup_eval_id.is_empty() {
        return Ok(None);
    }
    let eval: Result<Eval, _> = session.client.get(&path("evaluation", &alloc.followup_eval_id), &[]);
    match eval {
        Ok(eval) => {
            Ok(Some(eval).filter(|e| e.status == "pending").map(|e| layout::unix_nanos(&e.wait_until)))
        }
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// `due`: when it may be placed again.
fn basics(alloc: &Alloc, now: i64, due: Option<i64>, command: &AllocStatusCommand) -> String {
    let short = |full: &str| layout::id(full, command.verbose);
    let created = layout::relative(alloc.create_time, now);
    let modified = layout::relative(alloc.modify_time, now);
    if command.short {
        let rows = [
            ("ID", alloc.id.clone()),
            ("Name", alloc.name.clone()),
            ("Created", created),
            ("Modified", modified),
        ];
        return layout::key_values(&rows);
    }
    let version = alloc.version();
    let mut rows = vec![
        ("ID", alloc.id.clone()),
        ("Eval ID", short(&alloc.eval_id)),
        ("Name", alloc.name.clone()),
        ("Node ID", short(&alloc.node_id)),
        ("Node Name", alloc.node_name.clone()),
        ("Job ID", alloc.job_id.clone()),
        ("Job Version", version.to_string()),
        ("Client Status", alloc.client_status.clone()),
        ("Client Description", alloc.client_description.clone()),
        ("Desired Status", alloc.desired_status.clone()),
        ("Desired Description", alloc.desired_description.clone()),
        ("Created", created),
        ("Modified", modified),
    ];
    rows.extend(deployment(alloc, command.verbose));
    rows.extend(reschedule(alloc));
    if let Some(due) = due {
        rows.push(("Reschedule Eligibility", layout::relative(due, now)));
    }
    if !alloc.next_allocation.is_empty() {
        rows.push(("Replacement Alloc ID", short(&alloc.next_allocation)));
    }
    if !alloc.preempted_by_allocation.is_empty() {
        rows.push(("Preempted By Alloc ID", short(&alloc.preempted_by_allocation)));
    }
    if !alloc.preempted_allocations.is_empty() {
        let ids: Vec<String> = alloc.preempted_allocations.iter().map(|id| short(id)).collect();
        rows.push(("Preempted Alloc IDs", ids.join(",")));
    }
    if command.verbose {
        let m = &alloc.metrics;
        rows.push(("Evaluated Nodes", m.nodes_evaluated.to_string()));
        rows.push(("Filtered Nodes", m.nodes_filtered.to_string()));
        rows.push(("Exhausted Nodes", m.nodes_exhausted.to_string()));
        rows.push(("Allocation Time", model::time::Span::nanos(m.allocation_time).to_string()));
        rows.push(("Failures", m.coalesced_failures.to_string()));
    }
    layout::key_values(&rows)
}

fn deployment(alloc: &Alloc, verbose: bool) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if !alloc.deployment_id.is_empty() {
        rows.push(("Deployment ID", layout::id(&alloc.deployment_id, verbose)));
        let health = match alloc.deployment_status.as_ref().and_then(|d| d.healthy) {
            Some(true) => "healthy",
            Some(false) => "unhealthy",
            None => "unset",
        };
        rows.push(("Deployment Health", health.to_string()));
        if alloc.deployment_status.as_ref().is_some_and(|d| d.canary) {
            rows.push(("Canary", "true".to_string()));
        }
    }
    rows
}

fn reschedule(alloc: &Alloc) -> Option<(&'static str, String)> {
    let policy = group(alloc)?.reschedule_policy.as_ref()?;
    let attempted = alloc.reschedule_tracker.as_ref().map_or(0, |t| t.events.len());
    if attempted == 0 || policy.unlimited {
        return None;
    }
    Some(("Reschedule Attempts", format!("{attempted}/{}", policy.attempts)))
}

fn group(alloc: &Alloc) -> Option<&AllocGroup> {
    alloc.job.as_ref()?.task_groups.iter().find(|g| g.name == alloc.task_group)
}

/// In the order they run: prestart, main, poststart, poststop. Tasks that only have a state come last.
fn ordered_tasks(alloc: &Alloc) -> Vec<Task> {
    let mut tasks: Vec<Task> = group(alloc).map(|g| g.tasks.clone()).unwrap_or_default();
    tasks.sort_by(|a, b| (phase(a), &a.name).cmp(&(phase(b), &b.name)));
    let unknown = alloc.task_states.keys().filter(|name| !tasks.iter().any(|t| t.name == **name));
    let unknown: Vec<Task> = unknown.map(|name| Task { name: name.clone(), lifecycle: None }).collect();
    tasks.extend(unknown);
    tasks
}

fn phase(task: &Task) -> u8 {
    match task.lifecycle.as_ref().map(|l| l.hook.as_str()) {
        Some("prestart") => 0,
        None | Some("") => 1,
        Some("poststart") => 2,
        Some(_) => 3,
    }
}

fn lifecycle(task: &Task) -> String {
    match &task.lifecycle {
        Some(l) if l.hook.is_empty() => String::new(),
        Some(l) if l.sidecar => format!("{} sidecar", l.hook),
        Some(l) => l.hook.clone(),
        None => String::new(),
    }
}

/// What the tasks use at present: nothing is known of one that does not run, or whose node does not answer.
fn used(session: &Session, alloc: &Alloc) -> BTreeMap<String, Usage> {
    if alloc.client_status != "running" {
        return BTreeMap::new();
    }
    let stats = format!("{}/stats", path("client/allocation", &alloc.id));
    let answer: Result<AllocResourceUsage, _> = session.client.get(&stats, &[]);
    match answer {
        Ok(figures) => figures.tasks.into_iter().map(|(name, t)| (name, t.resource_usage)).collect(),
        Err(e) => {
            session.out.warning(&format!("What the tasks use is not known: {}", CommandError::from(e)));
            BTreeMap::new()
        }
    }
}

/// One of a task's figures with what it holds: `3/100 MHz`.
fn with_use(used: Option<String>, held: &str) -> String {
    used.map_or(held.to_string(), |used| format!("{used}/{held}"))
}

/// The measured figures, one table for memory and one for the processor (cli.md 3.5.3).
fn usage_tables(usage: &Usage) -> String {
    let (memory, cpu) = (&usage.memory_stats, &usage.cpu_stats);
    let sizes = [
        ("RSS", memory.rss),
        ("Cache", memory.cache),
        ("Swap", memory.swap),
        ("Mapped File", memory.mapped_file),
        ("Usage", memory.usage),
        ("Max Usage", memory.max_usage),
        ("Kernel Usage", memory.kernel_usage),
        ("Kernel Max Usage", memory.kernel_max_usage),
    ];
    let percent = |value: f64| format!("{value:.2}%");
    let shares = [
        ("User Mode", percent(cpu.user_mode)),
        ("System Mode", percent(cpu.system_mode)),
        ("Percent", percent(cpu.percent)),
        ("Throttled Periods", cpu.throttled_periods.to_string()),
        ("Throttled Time", format!("{}ms", cpu.throttled_time / 1_000_000)),
    ];
    format!(
        "Memory Stats\n{}\nCPU Stats\n{}\n",
        measured_table(&memory.measured, sizes.map(|(name, size)| (name, layout::size(size)))),
        measured_table(&cpu.measured, shares)
    )
}

/// One row, with a column for each figure that was measured.
fn measured_table<const N: usize>(measured: &[String], figures: [(&str, String); N]) -> String {
    let known = figures.into_iter().filter(|(name, _)| measured.iter().any(|m| m == name));
    let (names, row): (Vec<&str>, Vec<String>) = known.unzip();
    layout::table(&names, &[row])
}

fn show_task(
    session: &Session,
    alloc: &Alloc,
    task: &Task,
    used: &BTreeMap<String, Usage>,
    detailed: bool,
) -> CommandResult<()> {
    let state = alloc.task_states.get(&task.name).cloned().unwrap_or_default();
    session.out.section(&task_title(task, &state))?;
    if let Some(r) = alloc.task_resources.get(&task.name) {
        session.out.line("Task Resources:")?;
        let memory = if r.memory_max_mb > r.memory_mb {
            format!("{} Max: {}", layout::mib(r.memory_mb), layout::mib(r.memory_max_mb))
        } else {
            layout::mib(r.memory_mb)
        };
        let now = used.get(&task.name);
        let cpu = with_use(now.map(|u| format!("{:.0}", u.cpu_stats.total_ticks)), &format!("{} MHz", r.cpu));
        let memory = with_use(now.map(|u| layout::size(u.memory_stats.rss)), &memory);
        let mut addresses =
            alloc.allocated_resources.as_ref().map(|a| a.of_task(&task.name)).unwrap_or_default();
        let further = addresses.split_off(addresses.len().min(1));
        let mut row = vec![cpu, memory, layout::mib(alloc.resources.disk_mb)];
        row.extend(addresses);
        let more = |address| vec![String::new(), String::new(), String::new(), address];
        let rows: Vec<_> = std::iter::once(row).chain(further.into_iter().map(more)).collect();
        session.out.text(&layout::table(&["CPU", "Memory", "Disk", "Addresses"], &rows))?;
        session.out.line("")?;
    }
    if let Some(usage) = used.get(&task.name).filter(|_| detailed) {
        session.out.text(&usage_tables(usage))?;
    }
    session.out.text(&task_events(&state))?;
    session.out.line("")?;
    session.out.line("Recent Events:")?;
    session.out.text(&event_table(&state.events, session))
}

fn task_title(task: &Task, state: &TaskState) -> String {
    let state = if state.state.is_empty() { "pending" } else { &state.state };
    match lifecycle(task).as_str() {
        "" => format!("Task {:?} is {state:?}", task.name),
        hook => format!("Task {:?} ({hook}) is {state:?}", task.name),
    }
}

fn task_events(state: &TaskState) -> String {
    let rows = [
        ("Started At", layout::utc(&state.started_at)),
        ("Finished At", layout::utc(&state.finished_at)),
        ("Total Restarts", state.restarts.to_string()),
        ("Last Restart", layout::utc(&state.last_restart)),
    ];
    format!("Task Events:\n{}", layout::key_values(&rows))
}

/// Newest first.
fn event_table(events: &[TaskEvent], session: &Session) -> String {
    let row = |e: &TaskEvent| vec![session.time(e.time), e.kind.clone(), e.display_message.clone()];
    layout::table(&["Time", "Type", "Description"], &events.iter().rev().map(row).collect::<Vec<_>>())
}

fn short_tasks(alloc: &Alloc, session: &Session) -> String {
    let row = |task: &Task| {
        let state = alloc.task_states.get(&task.name).cloned().unwrap_or_default();
        let last = state.events.last().cloned().unwrap_or_default();
        let hook = if task.lifecycle.is_some() { lifecycle(task) } else { "main".to_string() };
        vec![task.name.clone(), state.state, last.kind, session.time(last.time), hook]
    };
    let rows: Vec<_> = ordered_tasks(alloc).iter().map(row).collect();
    layout::table(&["Name", "State", "Last Event", "Time", "Lifecycle"], &rows)
}

/// A row a node: its scores and the final one.
fn placement(metric: &AllocMetric) -> String {
    let names: std::collections::BTreeSet<&String> =
        metric.score_meta_data.iter().flat_map(|n| n.scores.keys()).collect();
    let mut out: String = placement_failures(metric).iter().map(|r| format!("* {r}\n")).collect();
    if metric.score_meta_data.is_empty() {
        return out;
    }
    let mut header = vec!["Node"];
    header.extend(names.iter().map(|n| n.as_str()));
    header.push("final score");
    let row = |n: &crate::shapes::NodeScore| {
        let mut row = vec![n.node_id.clone()];
        row.extend(names.iter().map(|name| short_float(n.scores.get(*name).copied().unwrap_or(0.0))));
        row.push(short_float(n.norm_score));
        row
    };
    out.push_str(&layout::table(&header, &metric.score_meta_data.iter().map(row).collect::<Vec<_>>()));
    out
}

/// Three significant digits and no more zeros than needed.
fn short_float(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::lists::alloc_table;
    use crate::shapes::{AllocJob, Lifecycle};

    fn seconds(n: i64) -> i64 {
        n * 1_000_000_000
    }

    fn alloc() -> Alloc {
        Alloc {
            id: "11223344-0000-0000-0000-000000000000".to_string(),
            eval_id: "deadbeef-0000-0000-0000-000000000000".to_string(),
            name: "cache.g[0]".to_string(),
            node_id: "aabbccdd-0000-0000-0000-000000000000".to_string(),
            node_name: "edge-1".to_string(),
            job_id: "cache".to_string(),
            task_group: "g".to_string(),
            desired_status: "run".to_string(),
            client_status: "running".to_string(),
            client_description: "Tasks are running".to_string(),
            create_time: seconds(1_000),
            modify_time: seconds(1_013),
            ..Alloc::default()
        }
    }

    #[test]
    fn a_table_tells_the_version_wherever_it_stands() {
        let in_list = Alloc { job_version: 3, ..alloc() };
        let whole = Alloc { job: Some(AllocJob { version: 4, ..AllocJob::default() }), ..alloc() };
        let table = alloc_table(&[in_list, whole], seconds(2_000), false);
        let versions: Vec<_> =
            table.lines().skip(1).map(|line| line.split_whitespace().nth(3).unwrap_or("")).collect();
        assert_eq!(versions, ["3", "4"]);
    }

    #[test]
    fn an_allocation_is_laid_out_as_its_reference() {
        let command = AllocStatusCommand::one("x", false);
        let expected = "\
ID                  = 11223344-0000-0000-0000-000000000000
Eval ID             = deadbeef
Name                = cache.g[0]
Node ID             = aabbccdd
Node Name           = edge-1
Job ID              = cache
Job Version         = 0
Client Status       = running
Client Description  = Tasks are running
Desired Status      = run
Desired Description = <none>
Created             = 1m3s ago
Modified            = 50s ago
";
        assert_eq!(basics(&alloc(), seconds(1_063), None, &command), expected);
    }

    #[test]
    fn allocations_are_listed_newest_first() {
        let newer = Alloc { id: "99".to_string(), create_index: 7, ..alloc() };
        let expected = "\
ID        Node ID   Task Group  Version  Desired  Status   Created   Modified
99        aabbccdd  g           0        run      running  1m3s ago  50s ago
11223344  aabbccdd  g           0        run      running  1m3s ago  50s ago
";
        assert_eq!(alloc_table(&[alloc(), newer], seconds(1_063), false), expected);
    }

    #[test]
    fn tasks_come_in_the_order_they_run() {
        let task = |name: &str, hook: Option<(&str, bool)>| Task {
            name: name.to_string(),
            lifecycle: hook.map(|(hook, sidecar)| Lifecycle { hook: hook.to_string(), sidecar }),
        };
        let tasks = vec![
            task("clean", Some(("poststop", false))),
            task("main", None),
            task("proxy", Some(("prestart", true))),
            task("after", Some(("poststart", false))),
        ];
        let group = AllocGroup { name: "g".to_string(), tasks, reschedule_policy: None };
        let job = crate::shapes::AllocJob { version: 0, task_groups: vec![group] };
        let alloc = Alloc { job: Some(job), ..alloc() };
        let names: Vec<String> = ordered_tasks(&alloc).iter().map(|t| t.name.clone()).collect();
        assert_eq!(names, ["proxy", "main", "after", "clean"]);
        let running = TaskState { state: "running".to_string(), ..TaskState::default() };
        let title = task_title(&task("proxy", Some(("prestart", true))), &running);
        assert_eq!(title, "Task \"proxy\" (prestart sidecar) is \"running\"");
    }
}
