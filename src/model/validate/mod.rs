//! Whether a complete job makes sense: every problem at once, in the words and nesting that Nomad's tools look for
//! (jobspec.md 8).
//!
//! Refuses to know: what exists in the region (namespaces, node pools, an earlier version of the job).

mod actions;
mod child_jobs;
mod claims;
mod constraint;
pub mod names;
mod policies;
mod preference;
pub mod scaling;
mod system;

use super::cron::Zones;
use super::job::{JobSpec, JobType, LogConfig, Task, TaskGroup};
use super::time::Span;
use constraint::constraint;
use policies::restart;
use preference::{affinities, spreads};
use std::collections::BTreeSet;

/// What a region allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_priority: i64,
    /// Allocations of one job, all groups together.
    pub max_count: i64,
    /// Whether `memory_max` has an effect.
    pub memory_oversubscription: bool,
    pub zones: Zones,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_priority: 100, max_count: 50_000, memory_oversubscription: false, zones: |_| None }
    }
}

/// A job is taken when there are no errors; warnings are handed to its user either way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl Validation {
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors in one text; empty when there are none.
    pub fn error_text(&self) -> String {
        multi_error(&self.errors)
    }

    /// All warnings in one text; empty when there are none.
    pub fn warning_text(&self) -> String {
        multi_warning(&self.warnings)
    }
}

/// `N warnings:`, an empty line, then one bullet each. Empty for no warnings.
pub fn multi_warning(warnings: &[String]) -> String {
    let lines: Vec<String> = warnings.iter().map(|w| format!("* {w}")).collect();
    match lines.len() {
        0 => String::new(),
        1 => format!("1 warning:\n\n{}", lines[0]),
        n => format!("{n} warnings:\n\n{}", lines.join("\n")),
    }
}

/// `N errors occurred:`, then one bullet each, then an empty line. Empty for no errors.
pub fn multi_error(errors: &[String]) -> String {
    let head = match errors.len() {
        0 => return String::new(),
        1 => "1 error occurred:".to_string(),
        n => format!("{n} errors occurred:"),
    };
    let bullets: String = errors.iter().map(|e| format!("\n\t* {e}")).collect();
    format!("{head}{bullets}\n\n")
}

/// Errors of a part, as one error of the whole: its bullets stand one level deeper.
fn nest(errors: &mut Vec<String>, prefix: &str, inner: Vec<String>) {
    if !inner.is_empty() {
        let text = multi_error(&inner);
        errors.push(format!("{prefix}: {}", text.trim_end().replace('\n', "\n\t")));
    }
}

const MIN_MEMORY_MB: i64 = 10;
const MIN_DISK_MB: i64 = 10;

pub fn validate(spec: &JobSpec, limits: &Limits) -> Validation {
    let mut errors = Vec::new();
    head(spec, limits, &mut errors);
    child_jobs::periodic(spec, limits.zones, &mut errors);
    child_jobs::parameterized(spec, &mut errors);
    for (i, c) in spec.constraints.iter().enumerate() {
        nest(&mut errors, &format!("Constraint {} validation failed", i + 1), constraint(c));
    }
    affinities(&spec.affinities, &mut errors);
    spreads(&spec.spreads, &mut errors);
    let mut names = BTreeSet::new();
    for (i, g) in spec.groups.iter().enumerate() {
        if g.name.is_empty() {
            errors.push(format!("Job task group {} missing name", i + 1));
        } else if !names.insert(&g.name) {
            let name = names::shown(&g.name);
            errors.push(format!("Job task group {} redefines '{name}' from an earlier group", i + 1));
        }
        system::count(spec.job_type, g, &mut errors);
        let place = format!("Task group {} validation failed", names::shown(&g.name));
        nest(&mut errors, &place, group(spec, g));
    }
    Validation { errors, warnings: warnings(spec, limits) }
}

fn head(spec: &JobSpec, limits: &Limits, errors: &mut Vec<String>) {
    let mut check = |bad: bool, text: &str| {
        if bad {
            errors.push(text.to_string());
        }
    };
    check(spec.region.is_empty(), "Missing job region");
    check(spec.id.is_empty(), "Missing job ID");
    check(spec.name.is_empty(), "Missing job name");
    check(spec.name.contains('\0'), "Job Name contains a null character");
    check(spec.namespace.is_empty(), "Job must be in a namespace");
    check(spec.datacenters.is_empty(), "Missing job datacenters");
    check(spec.datacenters.iter().any(String::is_empty), "Job datacenter must be non-empty string");
    check(spec.groups.is_empty(), "Missing job task groups");
    names::job_id(&spec.id, errors);
    names::job("Job Name", &spec.name, errors);
    if !(1..=limits.max_priority).contains(&spec.priority) {
        errors.push(format!("Job priority must be between [1, {}]", limits.max_priority));
    }
    let total = spec.groups.iter().fold(0_i64, |sum, g| sum.saturating_add(g.count.max(0)));
    if total > limits.max_count {
        errors.push(format!("total count was {total}, which exceeds the maximum of {}", limits.max_count));
    }
    system::preferences(spec.job_type, &spec.affinities, &spec.spreads, errors);
    if scaling::of_system_job(spec) {
        errors.push(scaling::OF_SYSTEM_JOB.to_string());
    }
}

fn group(spec: &JobSpec, g: &TaskGroup) -> Vec<String> {
    let mut errors = Vec::new();
    names::group(&g.name, &mut errors);
    if g.count < 0 {
        errors.push("Task group count can't be negative".to_string());
    }
    if g.tasks.is_empty() {
        errors.push("Missing tasks for task group".to_string());
    }
    if g.shutdown_delay.is_some_and(|d| d < Span::ZERO) {
        errors.push("ShutdownDelay must be a positive value".to_string());
    }
    for (i, c) in g.constraints.iter().enumerate() {
        nest(&mut errors, &format!("Constraint {} validation failed", i + 1), constraint(c));
    }
    affinities(&g.affinities, &mut errors);
    spreads(&g.spreads, &mut errors);
    system::preferences(spec.job_type, &g.affinities, &g.spreads, &mut errors);
    restart(&g.restart, &mut errors);
    policies::of_group(spec.job_type, g, &mut errors);
    disk(g, &mut errors);
    claims::group(spec, g, &mut errors);
    nest(&mut errors, "Task group scaling policy validation failed", scaling::group(g));
    tasks(spec, g, &mut errors);
    errors
}

fn disk(g: &TaskGroup, errors: &mut Vec<String>) {
    if g.ephemeral_disk.size_mb < MIN_DISK_MB {
        let got = g.ephemeral_disk.size_mb;
        errors.push(format!("Minimum DiskMB value is {MIN_DISK_MB}; got {got}"));
    }
}

fn tasks(spec: &JobSpec, g: &TaskGroup, errors: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    let mut leaders = 0;
    for (i, t) in g.tasks.iter().enumerate() {
        if t.name.is_empty() {
            errors.push(format!("Task {} missing name", i + 1));
        } else if !names.insert(&t.name) {
            let name = names::shown(&t.name);
            errors.push(format!("Task {} redefines '{name}' from an earlier task", i + 1));
        }
        leaders += usize::from(t.leader);
        let place = format!("Task {} validation failed", names::shown(&t.name));
        nest(errors, &place, task(spec.job_type, g, t));
    }
    if leaders > 1 {
        errors.push("Only one task may be marked as leader".to_string());
    }
}

fn task(job_type: JobType, g: &TaskGroup, t: &Task) -> Vec<String> {
    let mut errors = Vec::new();
    names::task(&t.name, &mut errors);
    let mut check = |bad: bool, text: &str| {
        if bad {
            errors.push(text.to_string());
        }
    };
    check(t.driver.is_empty(), "Missing task driver");
    check(t.kill_timeout < Span::ZERO, "KillTimeout must be a positive value");
    check(t.shutdown_delay < Span::ZERO, "ShutdownDelay must be a positive value");
    if t.resources.memory_mb < MIN_MEMORY_MB {
        errors.push(format!("minimum MemoryMB value is {MIN_MEMORY_MB}; got {}", t.resources.memory_mb));
    }
    if let Some(u) = &g.update
        && job_type == JobType::Service
        && u.progress_deadline > Span::ZERO
        && t.kill_timeout > u.progress_deadline
    {
        errors.push(format!(
            "KillTimeout ({}) longer than the group's ProgressDeadline ({})",
            t.kill_timeout, u.progress_deadline
        ));
    }
    claims::task(g, t, &mut errors);
    child_jobs::payload_file(t, &mut errors);
    actions::actions(&t.actions, &mut errors);
    nest(&mut errors, "Task scaling policy validation failed", scaling::task(t));
    logs(&t.logs, g.ephemeral_disk.size_mb, &mut errors);
    for (i, c) in t.constraints.iter().enumerate() {
        nest(&mut errors, &format!("Constraint {} validation failed", i + 1), constraint(c));
        if matches!(c.operand.as_str(), "distinct_hosts" | "distinct_property") {
            errors.push(format!("Constraint {} has disallowed Operand at task level: {}", i + 1, c.operand));
        }
    }
    affinities(&t.affinities, &mut errors);
    system::preferences(job_type, &t.affinities, &[], &mut errors);
    restart(&t.restart, &mut errors);
    errors
}

fn logs(l: &LogConfig, disk_mb: i64, errors: &mut Vec<String>) {
    if l.disabled {
        return;
    }
    if l.max_files < 1 {
        errors.push(format!("minimum number of files is 1; got {}", l.max_files));
    }
    if l.max_file_size_mb < 1 {
        errors.push(format!("minimum file size is 1MB; got {}", l.max_file_size_mb));
    }
    let usage = l.max_files.saturating_mul(l.max_file_size_mb);
    if usage >= disk_mb {
        errors.push(format!(
            "log storage ({usage} MB) must be less than requested disk capacity ({disk_mb} MB)"
        ));
    }
}

fn warnings(spec: &JobSpec, limits: &Limits) -> Vec<String> {
    let mut out: Vec<String> = child_jobs::warnings(spec).into_iter().collect();
    for g in &spec.groups {
        out.extend(claims::warnings(g, limits.memory_oversubscription));
    }
    if spec.job_type != JobType::Service {
        return out;
    }
    for g in &spec.groups {
        if let Some(u) = &g.update
            && g.count > 1
            && u.max_parallel > g.count
        {
            out.push(format!(
                "Group {:?} has warnings: update max parallel count is greater than task group count ({} > {}); \
                 a destructive change would replace all of them at once",
                g.name, u.max_parallel, g.count
            ));
        }
    }
    let promotes = |g: &TaskGroup| g.update.as_ref().is_some_and(|u| u.auto_promote);
    let canaries = |g: &&TaskGroup| g.update.as_ref().is_some_and(|u| u.canary > 0);
    if spec.groups.iter().any(promotes) && !spec.groups.iter().filter(canaries).all(promotes) {
        out.push("auto_promote must be true for all groups to enable automatic promotion".to_string());
    }
    out
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::job::{
        HealthCheck, JobUpdate, MigratePolicy, ReschedulePolicy, RestartMode, RestartPolicy, UpdatePolicy,
    };
    use crate::resources::Resources;
    use crate::samples;

    /// A small complete job.
    pub fn job(job_type: JobType) -> JobSpec {
        let service = job_type == JobType::Service;
        let restart = RestartPolicy::default_for(job_type);
        let task = Task { restart, resources: Resources::default(), ..samples::task("t") };
        let group = TaskGroup {
            restart,
            reschedule: ReschedulePolicy::default_for(job_type),
            update: service.then(UpdatePolicy::default),
            migrate: service.then(MigratePolicy::default),
            ..samples::group("g", TaskGroup::default().count, vec![task])
        };
        let update = service.then(JobUpdate::default);
        JobSpec { job_type, update, ..samples::job("default", "a", vec![group]) }
    }

    #[test]
    fn the_defaults_are_valid() {
        for job_type in JobType::ALL {
            let v = validate(&job(job_type), &Limits::default());
            assert_eq!(v.errors, Vec::<String>::new());
            assert_eq!(v.warnings, Vec::<String>::new());
        }
    }

    #[test]
    fn every_rule_has_its_sentence() {
        type Change = fn(&mut JobSpec);
        let cases: &[(Change, &str)] = &[
            (|j| j.priority = 101, "between [1, 100]"),
            (|j| j.priority = -1, "between [1, 100]"),
            (|j| j.datacenters.clear(), "Missing job datacenters"),
            (|j| j.datacenters.push(String::new()), "non-empty"),
            (|j| j.groups.clear(), "Missing job task groups"),
            (|j| j.groups.push(j.groups[0].clone()), "redefines 'g'"),
            (|j| j.groups[0].count = -1, "can't be negative"),
            (|j| j.groups[0].count = 50_001, "exceeds the maximum of 50000"),
            (|j| j.groups[0].tasks.clear(), "Missing tasks"),
            (|j| j.groups[0].shutdown_delay = Some(Span::seconds(-1)), "ShutdownDelay"),
            (|j| j.groups[0].ephemeral_disk.size_mb = 9, "Minimum DiskMB"),
            (|j| j.groups[0].ephemeral_disk.size_mb = 100, "log storage (100 MB)"),
            (|j| j.groups[0].tasks[0].driver.clear(), "Missing task driver"),
            (|j| j.groups[0].tasks[0].resources.cpu_mhz = 0, "minimum CPU"),
            (|j| j.groups[0].tasks[0].resources.memory_mb = 9, "minimum MemoryMB value is 10; got 9"),
            (|j| j.groups[0].tasks[0].kill_timeout = Span::seconds(-1), "KillTimeout must"),
            (
                |j| j.groups[0].tasks[0].kill_timeout = Span::hours(1),
                "longer than the group's ProgressDeadline",
            ),
            (|j| j.groups[0].tasks[0].logs.max_files = 0, "minimum number of files"),
            (|j| j.groups[0].tasks[0].logs.max_file_size_mb = 0, "minimum file size"),
            (|j| j.groups[0].restart.interval = Span::seconds(4), "less than 5s"),
            (|j| j.groups[0].restart.attempts = 1000, "can't restart the task 1000 times"),
            (
                |j| (j.groups[0].restart.attempts, j.groups[0].restart.mode) = (0, RestartMode::Delay),
                "ambiguous",
            ),
            (|j| j.groups[0].reschedule = None, "should have a reschedule policy"),
            (|j| j.groups[0].reschedule.as_mut().unwrap().attempts = 1, "ambiguous"),
            (|j| j.groups[0].reschedule.as_mut().unwrap().delay = Span::seconds(1), "Delay cannot be less"),
            (
                |j| j.groups[0].reschedule.as_mut().unwrap().max_delay = Span::seconds(10),
                "less than Delay 30s",
            ),
            (|j| j.groups[0].update.as_mut().unwrap().max_parallel = -1, "Max parallel"),
            (|j| j.groups[0].update.as_mut().unwrap().auto_promote = true, "Auto Promote requires"),
            (
                |j| j.groups[0].update.as_mut().unwrap().healthy_deadline = Span::seconds(1),
                "Minimum healthy time must",
            ),
            (
                |j| j.groups[0].update.as_mut().unwrap().progress_deadline = Span::seconds(60),
                "less than progress deadline",
            ),
            (|j| j.groups[0].update.as_mut().unwrap().stagger = Span::ZERO, "Stagger"),
            (
                |j| j.groups[0].migrate.as_mut().unwrap().health_check = HealthCheck::Manual,
                "Invalid HealthCheck",
            ),
        ];
        for (change, part) in cases {
            let mut spec = job(JobType::Service);
            change(&mut spec);
            let text = validate(&spec, &Limits::default()).error_text();
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_batch_job_has_neither_update_nor_migrate() {
        let mut spec = job(JobType::Batch);
        spec.groups[0].update = Some(UpdatePolicy::default());
        spec.groups[0].migrate = Some(MigratePolicy::default());
        let text = validate(&spec, &Limits::default()).error_text();
        assert!(
            text.contains("does not allow update block") && text.contains("does not allow migrate block"),
            "{text}"
        );
    }

    #[test]
    fn errors_and_warnings_have_their_layout() {
        assert_eq!(multi_error(&["a".into()]), "1 error occurred:\n\t* a\n\n");
        assert_eq!(multi_error(&["a".into(), "b".into()]), "2 errors occurred:\n\t* a\n\t* b\n\n");
        let mut spec = job(JobType::Batch);
        spec.groups[0].tasks[0].driver.clear();
        let v = validate(&spec, &Limits::default());
        assert_eq!(
            v.error_text(),
            "1 error occurred:\n\t* Task group g validation failed: 1 error occurred:\n\t\t* Task t validation failed: \
             1 error occurred:\n\t\t\t* Missing task driver\n\n"
        );
        let two = Validation { errors: vec![], warnings: vec!["a".into(), "b".into()] };
        assert_eq!(two.warning_text(), "2 warnings:\n\n* a\n* b");
        assert_eq!(v.warning_text(), "");
    }
}
