//! `drover job why`, `alloc why`, `eval why`: why something finds no place, is where it is, or became what it is.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::output::objects;
use crate::render::layout;
use crate::session::{Session, argument, namespace_query, path};
use argh::{ArgsInfo, FromArgs};
use model::resources::TOO_MANY;
use serde_json::Value;
use std::process::ExitCode;

/// explain a job: which nodes its groups may use, what excludes the others, what would help
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job why cache")]
pub struct JobWhyCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// the job's id or the beginning of it
    #[argh(positional)]
    job: Option<String>,
}

/// explain an allocation: how it came to its node, and why it was restarted, moved or stopped
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc why 1a2b3c4d")]
pub struct AllocWhyCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    alloc: Option<String>,
}

/// explain an evaluation: what triggered it, its outcome, and what blocks the rest
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover eval why 1a2b3c4d")]
pub struct EvalWhyCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    eval: Option<String>,
}

impl CliCommand for JobWhyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job")?)?;
        let target = format!("{}/why", path("job", &stub.id));
        show(session, &target, &namespace_query(&stub), (self.json, self.template.as_deref(), self.verbose))
    }
}

impl CliCommand for AllocWhyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let target =
            format!("{}/why", path("allocation", &session.alloc_id(argument(&self.alloc, "alloc-id")?)?));
        show(session, &target, &[], (self.json, self.template.as_deref(), self.verbose))
    }
}

impl CliCommand for EvalWhyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let target =
            format!("{}/why", path("evaluation", &session.eval_id(argument(&self.eval, "evaluation")?)?));
        show(session, &target, &[], (self.json, self.template.as_deref(), self.verbose))
    }
}

fn show(
    session: &Session,
    target: &str,
    query: &[(&str, &str)],
    (json, template, verbose): (bool, Option<&str>, bool),
) -> CommandResult<ExitCode> {
    let objects = objects(json, template)?;
    let why = session.client.get_value(target, query).map_err(CommandError::from)?;
    match objects {
        Some(objects) => session.out.objects(objects, &why)?,
        None => session.out.text(&explanation(&why, session.now(), verbose))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A screen of 80 columns, where names allow it.
fn explanation(why: &Value, now: i64, verbose: bool) -> String {
    let mut out = format!("{}: {}\n", text(&why["JobID"]), text(&why["Summary"]));
    each(&why["Groups"]).for_each(|g| group(&mut out, g, verbose));
    scores(&mut out, "The best nodes when it was placed", &why["PlacedBy"], verbose);
    let rows: Vec<Vec<String>> = each(&why["History"]).map(|l| link(l, now, verbose)).collect();
    if !rows.is_empty() {
        out.push('\n');
        out.push_str(&layout::table(&["When", "What", "ID", "Why"], &rows));
    }
    out
}

fn link(l: &Value, now: i64, verbose: bool) -> Vec<String> {
    let id = layout::id(text(&l["ID"]), verbose);
    let id = if id.is_empty() { "-".to_string() } else { id };
    vec![layout::relative(number(&l["Time"]), now), text(&l["Kind"]).into(), id, text(&l["Text"]).into()]
}

fn group(out: &mut String, g: &Value, verbose: bool) {
    let feasible = number(&g["Feasible"]);
    let (name, live, count, nodes) =
        (text(&g["Name"]), number(&g["Live"]), number(&g["Count"]), number(&g["Nodes"]));
    out.push_str(&match g["EachNode"] == true {
        true => format!(
            "\nGroup {name:?}: {live} live, {count} wanted on each node; {feasible} of {nodes} nodes without it have a place\n"
        ),
        false => format!(
            "\nGroup {name:?}: {live} of {count} live; {feasible} of {nodes} nodes have a place for one more\n"
        ),
    });
    let rows: Vec<Vec<String>> = each(&g["Reasons"]).map(reason).collect();
    if !rows.is_empty() {
        out.push_str(&layout::table(&["Excluded", "Alone", "By"], &rows));
    }
    if let Some(nearest) = g["Nearest"].as_object().filter(|_| feasible == 0) {
        let short: Vec<String> = each(&nearest["Missing"]).map(short).collect();
        out.push_str(&format!("Nearest: {} on node {}\n", short.join(", "), text(&nearest["NodeName"])));
    }
    out.push_str(&others(&g["Preemption"]));
    let help: Vec<String> = each(&g["Reasons"]).filter_map(help).collect();
    if feasible == 0 && !help.is_empty() {
        out.push_str(&format!("By itself would help:\n{}", help.concat()));
    }
    scores(out, "The best nodes for one more", &g["Best"], verbose);
}

/// Whether preemption would help.
fn others(preemption: &Value) -> String {
    let Some(nodes) = preemption["Nodes"].as_u64().filter(|n| *n > 0) else { return String::new() };
    let nodes = format!("{nodes} of {}", layout::count(number(&preemption["LookedAt"]) as u64, "full node"));
    match preemption["Allowed"] == true {
        true => format!("Less urgent work can make way on {nodes} that were looked at\n"),
        false => format!(
            "Less urgent work could make way on {nodes} that were looked at.\n\
             Such jobs may not send it away (operator scheduler set-config says which may)\n"
        ),
    }
}

fn reason(r: &Value) -> Vec<String> {
    let asked = match r["Asked"].as_i64() {
        Some(asked) => format!("{}: {asked} {} asked for", text(&r["Reason"]), unit(text(&r["Reason"]))),
        None => text(&r["Reason"]).to_string(),
    };
    vec![number(&r["Nodes"]).to_string(), number(&r["Alone"]).to_string(), asked]
}

/// Changes that would make some node feasible.
fn help(r: &Value) -> Option<String> {
    let nodes = u64::try_from(number(&r["Alone"])).ok().filter(|n| *n > 0)?;
    let (by, nodes) = (text(&r["Reason"]), layout::count(nodes, "node"));
    Some(match r["WouldDo"].as_i64() {
        Some(most) => format!("  {by} of at most {most} {}\n", unit(by)),
        None if by == TOO_MANY => format!("  one allocation fewer there: {nodes}\n"),
        None => format!("  not for \"{by}\": {nodes}\n"),
    })
}

fn short(m: &Value) -> String {
    let what = text(&m["Dimension"]);
    if what == TOO_MANY {
        return what.to_string();
    }
    format!("{} {} of {what} short", number(&m["Missing"]), unit(what))
}

fn unit(dimension: &str) -> &'static str {
    if dimension == "cpu" { "MHz" } else { "MiB" }
}

/// Every score term that differs between nodes.
fn scores(out: &mut String, title: &str, scores: &Value, verbose: bool) {
    let terms = || each(scores).filter_map(|s| s["Scores"].as_object()).flatten();
    let mut names: Vec<&str> =
        terms().filter(|(_, v)| v.as_f64() != Some(0.0)).map(|(n, _)| n.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |v: &Value| format!("{:.3}", v.as_f64().unwrap_or(0.0));
    let row = |s: &Value| {
        let terms = names.iter().map(|n| value(&s["Scores"][*n]));
        let name = Some(text(&s["NodeName"])).filter(|n| !n.is_empty()).unwrap_or("(gone)");
        let id = layout::id(text(&s["NodeID"]), verbose);
        [name.to_string(), id, value(&s["NormScore"])].into_iter().chain(terms).collect()
    };
    let rows: Vec<Vec<String>> = each(scores).map(row).collect();
    if !rows.is_empty() {
        let header = [&["Node", "ID", "Score"], names.as_slice()].concat();
        out.push_str(&format!("\n{title}\n{}", layout::table(&header, &rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_without_a_place_is_explained_in_one_screen() {
        let group = json!({
            "Name": "g", "Count": 3, "Live": 1, "Nodes": 12, "Feasible": 0,
            "Reasons": [
                {"Reason": "${meta.rack} = r1", "Nodes": 9, "Alone": 3, "Asked": null, "WouldDo": null},
                {"Reason": "memory", "Nodes": 6, "Alone": 2, "Asked": 256, "WouldDo": 244},
                {"Reason": "missing drivers", "Nodes": 1, "Alone": 0, "Asked": null, "WouldDo": null},
                {"Reason": TOO_MANY, "Nodes": 1, "Alone": 1, "Asked": null, "WouldDo": null},
            ],
            "Nearest": {"NodeName": "board-3", "Missing": [{"Dimension": "memory", "Missing": 12, "Asked": 256}]},
            "Preemption": {"Nodes": 2, "LookedAt": 9, "Allowed": false},
            "Best": [],
        });
        let history = [
            json!({"Time": 60_000_000_000_i64, "Kind": "evaluation", "ID": "12345678-9", "Text": "job-register"}),
        ];
        let why = json!({"JobID": "cache", "Summary": "service job", "Groups": [group], "History": history});
        let expected = "\
cache: service job

Group \"g\": 1 of 3 live; 0 of 12 nodes have a place for one more
Excluded  Alone  By
9         3      ${meta.rack} = r1
6         2      memory: 256 MiB asked for
1         0      missing drivers
1         1      max allocation exceeded
Nearest: 12 MiB of memory short on node board-3
Less urgent work could make way on 2 of 9 full nodes that were looked at.
Such jobs may not send it away (operator scheduler set-config says which may)
By itself would help:
  not for \"${meta.rack} = r1\": 3 nodes
  memory of at most 244 MiB
  one allocation fewer there: 1 node

When     What        ID        Why
30s ago  evaluation  12345678  job-register
";
        let shown = explanation(&why, 90_000_000_000, false);
        assert_eq!(shown, expected);
        assert!(shown.lines().all(|l| l.len() <= 80));
    }

    #[test]
    fn a_group_on_each_node_is_counted_by_nodes() {
        let mut out = String::new();
        super::group(
            &mut out,
            &json!({"Name": "g", "Count": 1, "EachNode": true, "Live": 3, "Nodes": 2, "Feasible": 1}),
            false,
        );
        assert_eq!(
            out,
            "\nGroup \"g\": 3 live, 1 wanted on each node; 1 of 2 nodes without it have a place\n"
        );
    }

    #[test]
    fn scores_show_every_term_that_makes_a_difference() {
        let scores = json!([
            {"NodeName": "a", "NodeID": "1a2b3c4d-5", "NormScore": 0.5, "Scores": {"binpack": 1.0, "job-anti-affinity": 0.0, "node-affinity": 0.25}},
            {"NodeName": "", "NodeID": "2a2b3c4d-5", "NormScore": 0.25, "Scores": {"binpack": 0.25, "job-anti-affinity": 0.0, "node-affinity": 0.0}},
        ]);
        let mut out = String::new();
        super::scores(&mut out, "Best", &scores, false);
        let expected = "\nBest\nNode    ID        Score  binpack  node-affinity\na       1a2b3c4d  0.500  1.000    0.250\n(gone)  2a2b3c4d  0.250  0.250    0.000\n";
        assert_eq!(out, expected);
    }
}
