//! From a task to the one process that the keeper starts: the drivers, of which there is `raw_exec` (client.md 26). Knows no process; says what is wrong with a task's config before anything starts.

use super::config::Config;
use super::environment::{self, dirs, resources_of};
use super::interpolate::strict_value;
use super::signals;
use model::environment::MAX_TEXT_BYTES;
use model::job::Task;
use model::node::NodeInfo;
use model::value::Value;
use std::collections::BTreeMap;
use wire::keeper::{MAX_MESSAGE_BYTES, RunLogs, RunSpec};
use wire::rpc::Assignment;

/// Why a task cannot be started as it is written. Trying again would not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The task is wrong.
    Invalid(String),
    /// The node cannot run it.
    Driver(String),
}

impl StartError {
    pub fn sentence(&self) -> &str {
        match self {
            StartError::Invalid(why) | StartError::Driver(why) => why,
        }
    }
}

const RAW_EXEC: &str = "raw_exec";
// one message to the keeper holds them, with room to spare
const _: () = assert!(MAX_TEXT_BYTES <= MAX_MESSAGE_BYTES / 2);
const KEYS: [&str; 2] = ["args", "command"];
/// Keys that newer job files use and that are not built yet.
const UNSUPPORTED_KEYS: [&str; 5] =
    ["cgroup_v1_override", "cgroup_v2_override", "denied_envvars", "oom_score_adj", "work_dir"];

pub fn run_spec(
    config: &Config,
    info: &NodeInfo,
    assignment: &Assignment,
    task: &Task,
) -> Result<RunSpec, StartError> {
    usable(info, &task.driver)?;
    if signals::number(&task.kill_signal).is_none() {
        let why = format!(
            "kill_signal {:?} is not a signal; SIGINT or SIGTERM are meant most often",
            task.kill_signal
        );
        return Err(StartError::Invalid(why));
    }
    let environment = environment::build(config, info, assignment, task);
    let mut keys = BTreeMap::new();
    for (key, value) in &task.config {
        known(key)?;
        let value = strict_value(value, environment.names())
            .map_err(|why| StartError::Invalid(format!("config {key}: {why}")))?;
        keys.insert(key.as_str(), value);
    }
    let (command, args) = (command(keys.get("command"))?, arguments(keys.get("args"))?);
    let dirs = dirs(config, assignment.id, &task.name);
    let held = resources_of(assignment, task);
    let spec = RunSpec {
        label: label(assignment, task),
        command,
        args,
        search: vec![dirs.local, dirs.task.clone()],
        env: environment.env.into_iter().collect(),
        cwd: dirs.task,
        user: task.user.clone(),
        logs: (!task.logs.disabled).then(|| logs(task, dirs.logs)),
        cpu_mhz: u64::try_from(held.cpu_mhz).unwrap_or(0),
        memory_bytes: of_mib(match held.held.memory_max_mb {
            0 => held.memory_mb,
            // no limit
            -1 => 0,
            most => most,
        }),
        memory_low_bytes: if held.held.memory_max_mb == 0 { 0 } else { of_mib(held.memory_mb) },
    };
    can_be_handed_on(&spec)?;
    Ok(spec)
}

pub fn can_be_handed_on(spec: &RunSpec) -> Result<(), StartError> {
    let pairs = spec.env.iter().map(|(k, v)| k.len() + v.len());
    let bytes = pairs.chain(spec.args.iter().map(String::len)).sum::<usize>() + spec.command.len();
    if bytes <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(StartError::Invalid(format!(
        "arguments and environment are {bytes} bytes long, at most {MAX_TEXT_BYTES} can be handed on"
    )))
}

fn of_mib(mb: i64) -> u64 {
    u64::try_from(mb).unwrap_or(0).saturating_mul(1 << 20)
}

fn command(value: Option<&Value>) -> Result<String, StartError> {
    match value {
        Some(Value::Text(command)) if !command.is_empty() => Ok(command.clone()),
        Some(Value::Text(_) | Value::Null) | None => {
            Err(StartError::Invalid("config command is missing: name the program to run".into()))
        }
        Some(_) => Err(StartError::Invalid("config command has to be a text: the program to run".into())),
    }
}

fn arguments(value: Option<&Value>) -> Result<Vec<String>, StartError> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(list)) => list.iter().map(argument).collect(),
        Some(_) => Err(StartError::Invalid("config args has to be a list of texts".into())),
    }
}

fn usable(info: &NodeInfo, driver: &str) -> Result<(), StartError> {
    if driver != RAW_EXEC {
        let why = format!("driver {driver:?} is not supported yet: this build runs {RAW_EXEC}");
        return Err(StartError::Driver(why));
    }
    if !info.drivers.get(RAW_EXEC).is_some_and(|d| d.detected && d.healthy) {
        return Err(StartError::Driver("raw_exec is disabled".into()));
    }
    Ok(())
}

fn known(key: &str) -> Result<(), StartError> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    if UNSUPPORTED_KEYS.contains(&key) {
        return Err(StartError::Invalid(format!("config {key} is not supported yet: leave it out")));
    }
    let nearest = KEYS.iter().min_by_key(|k| distance(k, key)).filter(|k| distance(k, key) <= 2);
    let hint = nearest.map_or_else(
        || format!("{RAW_EXEC} knows {}", KEYS.join(" and ")),
        |k| format!("did you mean {k:?}?"),
    );
    Err(StartError::Invalid(format!("config has no key {key:?}: {hint}")))
}

/// How many characters have to be put in, taken out or exchanged (Levenshtein), over texts of a config key's length.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn argument(value: &Value) -> Result<String, StartError> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Int(n) => Ok(n.to_string()),
        Value::Float(n) => Ok(n.to_string()),
        Value::Bool(b) => Ok(b.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => {
            Err(StartError::Invalid("config args has to be a list of texts".into()))
        }
    }
}

pub fn label(assignment: &Assignment, task: &Task) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    format!("{}.{}", assignment.id, task.name.chars().map(clean).collect::<String>())
}

fn logs(task: &Task, dir: String) -> RunLogs {
    RunLogs {
        dir,
        name: task.name.clone(),
        max_files: u32::try_from(task.logs.max_files.max(1)).unwrap_or(u32::MAX),
        max_file_bytes: u64::try_from(task.logs.max_file_size_mb.max(1)).unwrap_or(1).saturating_mul(1 << 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixtures;
    use super::*;

    fn spec(change: impl Fn(&mut Task, &mut NodeInfo)) -> Result<RunSpec, StartError> {
        let mut assignment = fixtures::assignment(1, &[fixtures::task("web")]);
        let mut info = fixtures::info();
        change(&mut assignment.group.tasks[0], &mut info);
        let task = assignment.group.tasks[0].clone();
        run_spec(&fixtures::config(), &info, &assignment, &task)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn a_process_is_described_in_full() {
        let made = spec(|task, _| {
            task.user = "web".into();
            let args = vec![text("-p"), Value::Int(80), Value::Bool(true), text("${NOMAD_TASK_NAME}")];
            task.config.insert("args".into(), Value::List(args));
        });
        let root = format!("/allocs/{}", fixtures::alloc_id(1));
        let made = made.expect("the task is sound");
        assert_eq!(made.label, format!("{}.web", fixtures::alloc_id(1)));
        assert_eq!((made.command.as_str(), made.user.as_str()), ("/bin/serve", "web"));
        assert_eq!(made.args, ["-p", "80", "true", "web"]);
        assert_eq!(made.search, [format!("{root}/web/local"), format!("{root}/web")]);
        assert_eq!(made.cwd, format!("{root}/web"));
        assert_eq!((made.cpu_mhz, made.memory_bytes), (100, 64 << 20));
        assert_eq!(made.memory_low_bytes, 0);
        let logs = made.logs.expect("logs are on");
        assert_eq!((logs.dir, logs.name.as_str()), (format!("{root}/alloc/logs"), "web"));
        assert_eq!((logs.max_files, logs.max_file_bytes), (10, 10 << 20));
        assert_eq!(spec(|task, _| task.logs.disabled = true).expect("sound").logs, None);
    }

    #[test]
    fn the_memory_limit_is_that_of_the_allocation() {
        for (memory_max_mb, hard, low) in [(0, 64, 0), (200, 200, 64), (-1, 0, 64)] {
            let mut assignment = fixtures::assignment(1, &[fixtures::task("web")]);
            let task = assignment.group.tasks[0].clone();
            let mut held = task.task_resources();
            held.held.memory_max_mb = memory_max_mb;
            assignment.resources.tasks.insert("web".into(), held);
            let made = run_spec(&fixtures::config(), &fixtures::info(), &assignment, &task).expect("sound");
            let limits = (made.memory_bytes >> 20, made.memory_low_bytes >> 20);
            assert_eq!(limits, (hard, low), "{memory_max_mb}");
        }
    }

    #[test]
    fn tasks_that_cannot_run_are_refused_with_the_reason() {
        type Change = fn(&mut Task, &mut NodeInfo);
        let cases: [(Change, &str); 10] = [
            (|t, _| t.driver = "docker".into(), "driver \"docker\" is not supported yet"),
            (|_, i| i.drivers.clear(), "raw_exec is disabled"),
            (|t, _| t.config.clear(), "config command is missing"),
            (
                |t, _| drop(t.config.insert("command".into(), Value::Int(1))),
                "config command has to be a text",
            ),
            (|t, _| drop(t.config.insert("args".into(), text("x"))), "config args has to be a list"),
            (|t, _| drop(t.config.insert("comand".into(), text("x"))), "did you mean \"command\"?"),
            (|t, _| drop(t.config.insert("image".into(), text("x"))), "raw_exec knows args and command"),
            (
                |t, _| drop(t.config.insert("command".into(), text("${nosuch}"))),
                "no variable named \"nosuch\"",
            ),
            (|t, _| drop(t.env.insert("X".into(), "x".repeat(1 << 20))), "bytes long, at most 524288"),
            (|t, _| t.kill_signal = "SIGNAL".into(), "\"SIGNAL\" is not a signal"),
        ];
        for (change, part) in cases {
            match spec(change) {
                Err(StartError::Invalid(why) | StartError::Driver(why)) => {
                    assert!(why.contains(part), "{why}")
                }
                Ok(_) => panic!("accepted: {part}"),
            }
        }
    }
}
