//! `drover job scale`, `drover job scaling-events` and `drover scaling policy`: counts, how far they may go, and what became of
//! them (cli.md 2.1.1, 2.5.1, 3.7).

use crate::CliCommand;
use crate::deployment::change::follow_change;
use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::numbers;
use crate::output::objects;
use crate::render::json::pretty;
use crate::render::layout;
use crate::session::{Session, argument, namespace_query, path};
use crate::shapes::RegisterAnswer;
use argh::{ArgsInfo, FromArgs};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// change the count of a group of a job
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job scale cache 5", example = "drover job scale shop web 3")]
pub struct JobScaleCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// only if the job's modify index is this one
    #[argh(option, from_str_fn(numbers::index))]
    check_index: Option<u64>,
    /// an id or the beginning of one, the group unless there is only one, and the count
    #[argh(positional)]
    job_group_and_count: Vec<String>,
}

/// list how the groups of a job were scaled, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job scaling-events cache")]
pub struct JobScalingEventsCommand {
    /// show messages, errors and evaluations, too
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

/// list scaling policies
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover scaling policy list -job cache")]
pub struct ScalingPolicyListCommand {
    /// only those of this job
    #[argh(option)]
    job: Option<String>,
    /// only those of this type
    #[argh(option, long = "type", arg_name = "type")]
    kind: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// show a scaling policy
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover scaling policy info 1a2b3c4d")]
pub struct ScalingPolicyInfoCommand {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ScaleStatus {
    task_groups: BTreeMap<String, GroupScale>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct GroupScale {
    events: Vec<ScaleEvent>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ScaleEvent {
    count: Option<i64>,
    previous_count: i64,
    error: bool,
    message: String,
    #[serde(rename = "EvalID")]
    eval_id: String,
    time: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Policy {
    #[serde(rename = "ID")]
    id: String,
    enabled: bool,
    #[serde(rename = "Type")]
    kind: String,
    target: Target,
    policy: Value,
    min: i64,
    max: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Target {
    namespace: String,
    job: String,
    group: String,
    task: String,
}

impl CliCommand for JobScaleCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (job, group, count) = match &self.job_group_and_count[..] {
            [job, count] => (job, None, count),
            [job, group, count] => (job, Some(group.clone()), count),
            _ => {
                return Err(CommandError::usage(
                    "This command takes two or three arguments: <job> [group] <count>",
                ));
            }
        };
        let Ok(count) = count.parse::<i64>() else {
            return Err(CommandError::usage(format!("{count:?} is no count: a whole number is expected")));
        };
        let stub = session.job(job)?;
        let (target, home) = (format!("{}/scale", path("job", &stub.id)), namespace_query(&stub));
        let group = match group {
            Some(group) => group,
            None => only_group(&session.client.get(&target, &home)?)?,
        };
        let body = json!({
            "Count": count, "Target": {"Group": group}, "JobModifyIndex": self.check_index,
            "Message": "submitted on the command line",
        });
        let answer: RegisterAnswer = session.client.put(&target, &home, &body)?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

fn only_group(status: &ScaleStatus) -> CommandResult<String> {
    let names: Vec<&str> = status.task_groups.keys().map(String::as_str).collect();
    match names[..] {
        [only] => Ok(only.to_string()),
        _ => Err(CommandError::usage(format!("The job has several groups, name one: {}", names.join(", ")))),
    }
}

impl CliCommand for JobScalingEventsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job")?)?;
        let target = format!("{}/scale", path("job", &stub.id));
        let status: ScaleStatus = session.client.get(&target, &namespace_query(&stub))?;
        let groups = status.task_groups.iter();
        let mut events: Vec<_> =
            groups.flat_map(|(name, g)| g.events.iter().map(move |e| (name, e))).collect();
        if events.is_empty() {
            session.out.line("No events found")?;
            return Ok(ExitCode::SUCCESS);
        }
        events.sort_by_key(|(_, e)| std::cmp::Reverse(e.time));
        let rows: Vec<_> = events.iter().map(|(name, e)| e.row(name, self.verbose, session)).collect();
        let more: &[&str] = if self.verbose { &["Error", "Message", "Eval ID"] } else { &[] };
        let header = [&["Task Group", "Count", "PrevCount"], more, &["Date"]].concat();
        session.out.text(&layout::table(&header, &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ScaleEvent {
    fn row(&self, group: &str, verbose: bool, session: &Session) -> Vec<String> {
        let count = self.count.map(|n| n.to_string()).unwrap_or_default();
        let mut row = vec![group.to_string(), count, self.previous_count.to_string()];
        if verbose {
            row.extend([self.error.to_string(), self.message.clone(), self.eval_id.clone()]);
        }
        row.push(session.time(self.time));
        row
    }
}

impl CliCommand for ScalingPolicyListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let mut query = Vec::new();
        query.extend(self.job.as_deref().map(|job| ("job", job)));
        query.extend(self.kind.as_deref().map(|kind| ("type", kind)));
        let value = session.client.get_value("/v1/scaling/policies", &query)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let policies: Vec<Policy> = decode(&value)?;
        match policies.is_empty() {
            true => session.out.line("No policies found")?,
            false => session.out.text(&table(&policies, self.verbose))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(policies: &[Policy], verbose: bool) -> String {
    let row = |p: &Policy| {
        vec![layout::id(&p.id, verbose), p.enabled.to_string(), p.kind.clone(), p.target.shown()]
    };
    let rows: Vec<_> = policies.iter().map(row).collect();
    layout::table(&["ID", "Enabled", "Type", "Target"], &rows)
}

impl Target {
    fn shown(&self) -> String {
        let task = if self.task.is_empty() { String::new() } else { format!(",Task:{}", self.task) };
        format!("Namespace:{},Job:{},Group:{}{task}", self.namespace, self.job, self.group)
    }
}

impl CliCommand for ScalingPolicyInfoCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let list = |many: &[Policy]| table(many, false);
        let given = argument(&self.policy, "policy id")?;
        let id = session.only(given, "/v1/scaling/policies", "policy", |p: &Policy| &p.id, list)?;
        let value = session.client.get_value(&path("scaling/policy", &id), &[])?;
        if let Some(objects) = objects(self.json, self.template.as_deref())? {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let policy: Policy = decode(&value)?;
        session.out.text(&policy.page(self.verbose))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ScalingPolicyInfoCommand {
    pub fn one(id: &str, verbose: bool) -> Self {
        ScalingPolicyInfoCommand { verbose, json: false, template: None, policy: Some(id.to_string()) }
    }
}

impl Policy {
    fn page(&self, verbose: bool) -> String {
        let head = layout::key_values(&[
            ("ID", layout::id(&self.id, verbose)),
            ("Enabled", self.enabled.to_string()),
            ("Type", self.kind.clone()),
            ("Target", self.target.shown()),
            ("Min", self.min.to_string()),
            ("Max", self.max.to_string()),
        ]);
        match self.policy.is_null() {
            true => head,
            false => format!("{head}\nPolicy:\n{}\n", pretty(&self.policy)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            id: "0123456789".into(),
            enabled: true,
            kind: "horizontal".into(),
            target: Target {
                namespace: "default".into(),
                job: "web".into(),
                group: "g".into(),
                task: String::new(),
            },
            policy: json!({"cooldown": "1m"}),
            min: 1,
            max: 3,
        }
    }

    #[test]
    fn policies_are_laid_out() {
        let expected = "\
ID        Enabled  Type        Target
01234567  true     horizontal  Namespace:default,Job:web,Group:g
";
        assert_eq!(table(&[policy()], false), expected);
        let expected = "\
ID      = 0123456789
Enabled = true
Type    = horizontal
Target  = Namespace:default,Job:web,Group:g
Min     = 1
Max     = 3

Policy:
{
    \"cooldown\": \"1m\"
}
";
        assert_eq!(policy().page(true), expected);
        assert!(!Policy { policy: Value::Null, ..policy() }.page(true).contains("Policy"));
    }

    #[test]
    fn a_group_is_named_unless_there_is_only_one() {
        let status = |names: &[&str]| ScaleStatus {
            task_groups: names.iter().map(|n| (n.to_string(), GroupScale::default())).collect(),
        };
        assert_eq!(only_group(&status(&["g"])).ok().as_deref(), Some("g"));
        let many = only_group(&status(&["a", "b"])).map_err(|e| e.to_string());
        assert_eq!(many, Err("The job has several groups, name one: a, b".to_string()));
    }
}
