//! `drover node drain`: begins or ends a drain, and tells how it goes (cli.md 2.3.3, 3.7).
//!
//! `DrainProgress` is pure: what was seen last and what is seen now become lines.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::eval::watch::{changed, is_terminal};
use crate::http::decode;
use crate::job::stop::confirmed;
use crate::node::eligibility::node;
use crate::render::layout;
use crate::session::{Session, meta_pair, path};
use argh::{ArgsInfo, FromArgs};
use jobspec::duration;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

const HOUR: i64 = 3_600_000_000_000;

/// drain a node: services migrate within their limits, batch jobs when they are done, all of it at the deadline
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node drain -enable -deadline 10m 1a2b3c4d")]
pub struct NodeDrainCommand {
    /// begin a drain, or change the one under way
    #[argh(switch)]
    enable: bool,
    /// end the drain: remaining allocations stay
    #[argh(switch)]
    disable: bool,
    /// deadline after which remaining allocations are stopped (1h)
    #[argh(option, arg_name = "duration")]
    deadline: Option<String>,
    /// stop all allocations at once
    #[argh(switch)]
    force: bool,
    /// no deadline
    #[argh(switch)]
    no_deadline: bool,
    /// allocations of system jobs stay
    #[argh(switch)]
    ignore_system: bool,
    /// with -disable: the node takes no new work
    #[argh(switch)]
    keep_ineligible: bool,
    /// do not wait for the end of the drain
    #[argh(switch)]
    detach: bool,
    /// watch the drain that is under way
    #[argh(switch)]
    monitor: bool,
    /// the node of the agent that is asked
    #[argh(switch, long = "self")]
    this: bool,
    /// message that is kept with the drain
    #[argh(option, long = "m", arg_name = "text")]
    message: Option<String>,
    /// metadata kept with the drain, as key=value; repeatable
    #[argh(option, arg_name = "key=value")]
    meta: Vec<String>,
    /// do not ask when only the beginning of an id is given
    #[argh(switch)]
    yes: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    node: Option<String>,
}

impl CliCommand for NodeDrainCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        self.check()?;
        let body = self.body()?;
        let id = node(session, self.this, &self.node)?;
        let verb = if self.enable { "enable" } else { "disable" };
        if let Some(mut body) = body {
            let certain = self.yes || self.this || self.node.as_ref() == Some(&id);
            if !certain && !confirmed(session, &format!("{verb} drain mode for node {id:?}"))? {
                session.out.line("Cancelled drain update")?;
                return Ok(ExitCode::SUCCESS);
            }
            body["NodeID"] = json!(id);
            session.client.put::<Value>(&format!("{}/drain", path("node", &id)), &[], &body)?;
            let how = if self.enable { "set" } else { "unset" };
            say(session, &format!("Node {id:?} drain strategy {how}"))?;
        }
        if self.monitor || (self.enable && !self.detach) {
            watch(session, &id, self.verbose)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl NodeDrainCommand {
    fn check(&self) -> CommandResult<()> {
        let ways = [self.deadline.is_some(), self.force, self.no_deadline];
        let many = ways.iter().filter(|given| **given).count();
        let of_drains = many > 0 || self.ignore_system;
        let wrong = [
            (self.enable && self.disable, "-enable and -disable exclude each other"),
            (
                !self.enable && !self.disable && !self.monitor,
                "Either -enable or -disable must be given, unless -monitor is",
            ),
            (many > 1, "-deadline, -force and -no-deadline exclude each other"),
            (of_drains && !self.enable, "-deadline, -force, -no-deadline and -ignore-system need -enable"),
            (
                self.keep_ineligible && !self.disable,
                "-keep-ineligible needs -disable: a drain always leaves the node ineligible",
            ),
            (self.monitor && self.detach, "-monitor and -detach exclude each other"),
        ];
        match wrong.iter().find(|(is, _)| *is) {
            Some((_, why)) => Err(CommandError::usage(*why)),
            None => Ok(()),
        }
    }

    /// What is asked for, if anything is.
    fn body(&self) -> CommandResult<Option<Value>> {
        let mut meta = BTreeMap::new();
        for pair in &self.meta {
            let (key, value) = meta_pair(pair)?;
            meta.insert(key, value);
        }
        meta.extend(self.message.as_deref().map(|text| ("message", text)));
        if self.disable {
            return Ok(Some(
                json!({ "DrainSpec": null, "MarkEligible": !self.keep_ineligible, "Meta": meta }),
            ));
        }
        if !self.enable {
            return Ok(None);
        }
        let deadline = match &self.deadline {
            _ if self.force => -1_000_000_000,
            _ if self.no_deadline => 0,
            None => HOUR,
            Some(text) => {
                duration::parse(text).map(|span| span.as_nanos()).ok().filter(|nanos| *nanos > 0).ok_or_else(
                    || CommandError::usage(format!("-deadline wants a duration such as 10m, not {text:?}")),
                )?
            }
        };
        let spec = json!({ "Deadline": deadline, "IgnoreSystemJobs": self.ignore_system });
        Ok(Some(json!({ "DrainSpec": spec, "Meta": meta })))
    }
}

fn say(session: &Session, text: &str) -> CommandResult<()> {
    session.out.line(&format!("{}: {text}", session.time(session.now())))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Node {
    drain_strategy: Option<Strategy>,
    last_drain: Option<LastDrain>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Strategy {
    force_deadline: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct LastDrain {
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Alloc {
    #[serde(rename = "ID")]
    id: String,
    desired_status: String,
    client_status: String,
    desired_transition: Transition,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Transition {
    migrate: bool,
}

/// Until the drain is over.
fn watch(session: &Session, id: &str, verbose: bool) -> CommandResult<()> {
    say(session, "Ctrl-C to stop monitoring: will not cancel the node drain")?;
    let target = path("node", id);
    let (mut progress, mut seen) = (DrainProgress { verbose, ..DrainProgress::default() }, 0);
    loop {
        let (value, _) = session.client.get_indexed(&target, &[])?;
        let now: Node = decode(&value)?;
        let (value, index) = changed(session, &format!("{target}/allocations"), &[], seen)?;
        seen = index;
        let allocs: Vec<Alloc> = decode(&value)?;
        for line in progress.update(&now, &allocs, session.now()) {
            say(session, &line)?;
        }
        if now.drain_strategy.is_none() {
            return say(session, &ending(&now, id));
        }
    }
}

fn ending(node: &Node, id: &str) -> String {
    match node.last_drain.as_ref().map(|last| last.status.as_str()) {
        Some("complete") => format!("Drain complete for node {id}"),
        Some("canceled") => format!("Drain of node {id} was canceled"),
        _ => format!("No drain strategy set for node {id}"),
    }
}

/// What has been printed so far.
#[derive(Default)]
struct DrainProgress {
    verbose: bool,
    allocs: BTreeMap<String, PrintedAlloc>,
}

#[derive(Default)]
struct PrintedAlloc {
    status: String,
    marked: bool,
    draining: bool,
    waits: bool,
}

impl DrainProgress {
    fn update(&mut self, node: &Node, allocs: &[Alloc], now: i64) -> Vec<String> {
        let mut lines = Vec::new();
        for alloc in allocs {
            // an allocation that had ended before the watch began is not printed
            if !self.allocs.contains_key(&alloc.id) && is_terminal_client(&alloc.client_status) {
                continue;
            }
            let id = layout::id(&alloc.id, self.verbose);
            let told = self.allocs.entry(alloc.id.clone()).or_default();
            let stops = alloc.desired_status != "run";
            if alloc.desired_transition.migrate && !told.marked {
                told.marked = true;
                lines.push(format!("Alloc {id:?} marked for migration"));
            } else if told.marked && !stops && !told.waits && !is_terminal_client(&alloc.client_status) {
                told.waits = true;
                lines.push(format!(
                    "Alloc {id:?} runs on: it waits for room on another node; {}",
                    until(node, now)
                ));
            }
            if stops && !told.draining {
                told.draining = true;
                lines.push(format!("Alloc {id:?} draining"));
            }
            if !told.status.is_empty() && told.status != alloc.client_status {
                lines.push(format!("Alloc {id:?} status {} -> {}", told.status, alloc.client_status));
            }
            told.status.clone_from(&alloc.client_status);
        }
        lines
    }
}

fn is_terminal_client(status: &str) -> bool {
    status == "lost" || is_terminal(status)
}

/// What happens to allocations that cannot be placed elsewhere.
fn until(node: &Node, now: i64) -> String {
    let deadline = node.drain_strategy.as_ref().map_or("", |s| s.force_deadline.as_str());
    if deadline.is_empty() {
        return "there is no deadline, so end the drain with -disable or make room".to_string();
    }
    let left = (layout::unix_nanos(deadline) - now).max(0) / 1_000_000_000;
    format!("the deadline stops it in {}", layout::units(u64::try_from(left).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(desired: &str, client: &str, migrate: bool) -> Alloc {
        Alloc {
            id: "aabbccdd-0000-0000-0000-000000000000".to_string(),
            desired_status: desired.to_string(),
            client_status: client.to_string(),
            desired_transition: Transition { migrate },
        }
    }

    #[test]
    fn each_step_of_a_drain_is_told_once() {
        let node = Node {
            drain_strategy: Some(Strategy { force_deadline: "1970-01-01T01:00:00Z".into() }),
            last_drain: None,
        };
        let mut progress = DrainProgress::default();
        for (seen, lines) in [
            (alloc("run", "running", false), vec![]),
            (alloc("run", "running", true), vec!["Alloc \"aabbccdd\" marked for migration"]),
            (
                alloc("run", "running", true),
                vec![
                    "Alloc \"aabbccdd\" runs on: it waits for room on another node; the deadline stops it in 1h",
                ],
            ),
            (alloc("run", "running", true), vec![]),
            (alloc("stop", "running", true), vec!["Alloc \"aabbccdd\" draining"]),
            (alloc("stop", "complete", true), vec!["Alloc \"aabbccdd\" status running -> complete"]),
            (alloc("stop", "complete", true), vec![]),
        ] {
            assert_eq!(progress.update(&node, &[seen], 0), lines);
        }
        let over = DrainProgress::default().update(&node, &[alloc("stop", "complete", true)], 0);
        assert_eq!(over, Vec::<String>::new(), "what ended before the drain is no news");
    }

    #[test]
    fn how_a_drain_ends_is_told() {
        let of = |status: &str| Node {
            drain_strategy: None,
            last_drain: Some(LastDrain { status: status.to_string() }),
        };
        assert_eq!(ending(&of("complete"), "x"), "Drain complete for node x");
        assert_eq!(ending(&of("canceled"), "x"), "Drain of node x was canceled");
        assert_eq!(ending(&Node::default(), "x"), "No drain strategy set for node x");
        assert!(until(&Node::default(), 0).contains("no deadline"));
    }
}
