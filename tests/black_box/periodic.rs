//! Jobs that are launched at times: on one machine, by the command line and the API.

use crate::node::{Node, path, text};
use crate::wait;
use serde_json::Value;

fn file(node: &Node, id: &str, periodic: &str) -> String {
    let job = format!(
        "job \"{id}\" {{\n  type = \"batch\"\n  periodic {{\n{periodic}\n  }}\n  group \"g\" {{\n    task \"t\" {{\n      \
         driver = \"raw_exec\"\n      config {{\n        command = \"/bin/sh\"\n        args = [\"-c\", \
         \"echo $NOMAD_JOB_PARENT_ID\"]\n      }}\n      resources {{\n        cpu = 20\n        memory = 16\n      }}\n    \
         }}\n  }}\n}}\n"
    );
    path(&node.write(&format!("{id}.hcl"), &job)).to_string()
}

fn children(node: &Node, id: &str) -> Vec<Value> {
    let all = node.get(&format!("/v1/jobs?prefix={id}%2Fperiodic-")).json();
    all.as_array().cloned().unwrap_or_default()
}

#[test]
fn a_periodic_job_is_launched_at_its_times() {
    let node = Node::dev();
    let job =
        file(&node, "tick", "crons = [\"*/2 * * * * * *\"]\n prohibit_overlap = true\n time_zone = \"UTC\"");
    let run = node.drover(&["job", "run", &job]);
    let said = run.exits(0);
    assert!(
        said.contains("Job registration successful") && said.contains("Approximate next launch time: "),
        "{said}"
    );
    let stored = node.get("/v1/job/tick").json();
    assert_eq!(stored["Status"], "running");
    assert_eq!(
        stored["Periodic"],
        serde_json::json!({"Enabled": true, "Spec": "", "Specs": ["*/2 * * * * * *"], "SpecType": "cron",
            "ProhibitOverlap": true, "TimeZone": "UTC"})
    );
    let child = wait::until("two have come and one has ended", || {
        let all = children(&node, "tick");
        all.iter().find(|c| all.len() > 1 && c["Status"] == "dead").cloned()
    });
    assert_eq!((&child["ParentID"], &child["Periodic"]), (&"tick".into(), &false.into()));
    let id = text(&child["ID"]).to_string();
    let moment: u64 = id.strip_prefix("tick/periodic-").and_then(|n| n.parse().ok()).expect("a moment");
    assert!(moment.is_multiple_of(2), "{id}");
    let whole = node.get(&format!("/v1/job/{}", id.replace('/', "%2F"))).json();
    assert_eq!(
        (&whole["Name"], &whole["Periodic"], &whole["Version"]),
        (&id.clone().into(), &Value::Null, &0.into())
    );
    let logs = node.drover(&["alloc", "logs", "-job", &id]);
    assert_eq!(logs.exits(0).trim(), "tick", "its task knows who made it");
    let summary = node.get("/v1/job/tick/summary").json();
    assert!(summary["Children"]["Dead"].as_u64() >= Some(1), "{summary}");
    let states = node.get("/v1/jobs/statuses").json();
    assert_eq!(states.as_array().map(Vec::len), Some(1), "children are left out: {states}");
    assert!(
        states[0]["ChildStatuses"].as_array().is_some_and(|all| all.contains(&"dead".into())),
        "{states}"
    );
    let states = node.get("/v1/jobs/statuses?include_children=true").json();
    assert!(states.as_array().is_some_and(|all| all.iter().any(|j| j["ParentID"] == "tick")), "{states}");
    let shown = node.drover(&["job", "status", "tick"]);
    let shown = shown.exits(0);
    for part in ["Next Periodic Launch", "Children Job Summary", "Previously Launched Jobs", id.as_str()] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    node.drover(&["job", "stop", "tick"]).exits(0);
    let stopped = node.drover(&["job", "status", "tick"]);
    assert!(stopped.exits(0).contains("none (job stopped)"), "{stopped:?}");
    assert_eq!(node.get("/v1/job/tick").json()["Status"], "dead");
    node.drover(&["job", "stop", "-purge", "tick"]).exits(0);
    assert!(!children(&node, "tick").is_empty(), "they outlive it");
}

#[test]
fn it_is_launched_by_hand_and_refused_with_a_sentence() {
    let node = Node::dev();
    let yearly = file(&node, "backup", "crons = [\"@yearly\"]\n time_zone = \"Europe/Berlin\"");
    let planned = node.drover(&["job", "plan", "-verbose", &yearly]);
    let told = planned.exits(1);
    assert!(told.contains("Periodic") && told.contains("next periodic launch would be at "), "{told}");
    node.drover(&["job", "run", &yearly]).exits(0);
    assert_eq!(children(&node, "backup"), Vec::<Value>::new());
    node.drover(&["job", "periodic", "force", "backup"]).exits(0);
    let child = children(&node, "backup").remove(0);
    node.await_alloc(text(&child["ID"]), "complete");
    let forced = node.put("/v1/job/backup/periodic/force", &Value::Null).json();
    assert!(forced["EvalCreateIndex"].as_u64() > Some(0) && !text(&forced["EvalID"]).is_empty(), "{forced}");
    node.drover(&["job", "eval", "backup"]).fails(1, "can't evaluate periodic job");
    for (periodic, sentence) in [
        ("crons = [\"* * *\"]", "Invalid cron spec \"* * *\""),
        ("crons = [\"@daily\"]\n time_zone = \"Mars/Olympus\"", "Invalid time zone \"Mars/Olympus\""),
        ("enabled = true", "Must specify a spec"),
        (
            "crons = [for n in range(0, 65): \"0 0 * * *\"]",
            "crons has 65 expressions; at most 64 are allowed",
        ),
    ] {
        node.drover(&["job", "run", &file(&node, "worse", periodic)]).fails(1, sentence);
    }
    let off = file(&node, "off", "crons = [\"@daily\"]\n enabled = false");
    node.drover(&["job", "run", &off]).exits(0);
    node.drover(&["job", "periodic", "force", "off"]).fails(1, "can't force run non-tracked job");
}

#[test]
fn times_that_never_come_hold_nobody_up_and_are_told() {
    let node = Node::dev();
    let crons = ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 * 2000"].map(|cron| format!("\"{cron}\""));
    let never = file(&node, "never", &format!("crons = [{}]", crons.join(", ")));
    let run = node.drover(&["job", "run", &never]);
    assert!(run.exits(0).contains("Approximate next launch time: none"), "{run:?}");
    let shown = node.drover(&["job", "status", "never"]);
    assert!(shown.exits(0).contains("Next Periodic Launch = none"), "{shown:?}");
    let why = node.drover(&["job", "why", "never"]);
    assert!(why.exits(0).contains("it runs nothing itself, it launches jobs at its times"), "{why:?}");
    node.drover(&["job", "periodic", "force", "never"]).exits(0);
    assert_eq!(children(&node, "never").len(), 1);
}
