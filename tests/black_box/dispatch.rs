//! Jobs that are dispatched: on one machine, by the command line and the API.

use crate::job_file::JobFile;
use crate::node::{Node, path, shell_job, signal_process, text};
use crate::{wait, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;

/// Its task says what it was given, and stays as long as it is told.
fn file(node: &Node, id: &str, parameterized: &str, script: &str) -> String {
    let in_job = format!("type = \"batch\"\n  parameterized {{\n{parameterized}\n  }}");
    let in_task = "dispatch_payload {\n        file = \"in/put.txt\"\n      }";
    let job = JobFile { in_job: &in_job, in_task, ..JobFile::new(id, script) }.text();
    path(&node.write(&format!("{id}.hcl"), &job)).to_string()
}

const TELL: &str =
    "cat local/in/put.txt; echo :$NOMAD_META_WHO:$NOMAD_JOB_PARENT_ID; env | grep -x NOMAD_META_WHY=";
const RULES: &str = "payload = \"required\"\n meta_required = [\"who\"]\n meta_optional = [\"why\"]";

fn dispatched(node: &Node, id: &str) -> Vec<Value> {
    let all = node.get(&format!("/v1/jobs?prefix={id}%2Fdispatch-")).json();
    all.as_array().cloned().unwrap_or_default()
}

#[test]
fn a_payload_and_its_metadata_reach_the_task() {
    let node = Node::dev();
    let run = node.drover(&["job", "run", &file(&node, "form", RULES, TELL)]);
    assert_eq!(run.exits(0).trim(), "Job registration successful", "it runs nothing itself");
    assert_eq!(node.get("/v1/job/form/evaluations").json(), json!([]));
    let stub = &node.get("/v1/jobs").json()[0];
    assert_eq!((&stub["ParameterizedJob"], &stub["Status"]), (&true.into(), &"running".into()));
    let input = path(&node.write("input", "hello")).to_string();
    let said = node.drover(&["job", "dispatch", "-meta", "who=me", "-priority", "70", "form", &input]);
    let said = said.exits(0);
    assert!(said.contains("Dispatched Job ID = form/dispatch-") && said.contains("Evaluation ID"), "{said}");
    let child = dispatched(&node, "form").remove(0);
    assert_eq!(
        (&child["ParentID"], &child["ParameterizedJob"], &child["Priority"]),
        (&"form".into(), &false.into(), &70.into())
    );
    let id = text(&child["ID"]).to_string();
    node.await_alloc(&id, "complete");
    assert_eq!(
        node.drover(&["alloc", "logs", "-job", &id]).exits(0).trim(),
        "hello:me:form\nNOMAD_META_WHY="
    );
    let whole = node.get(&format!("/v1/job/{}", id.replace('/', "%2F"))).json();
    assert_eq!(
        (&whole["Name"], &whole["Dispatched"], &whole["Payload"], &whole["Meta"]),
        (&id.clone().into(), &true.into(), &STANDARD.encode("hello").into(), &json!({"who": "me"}))
    );
    let rules = json!({"Payload": "required", "MetaRequired": ["who"], "MetaOptional": ["why"]});
    assert_eq!((&whole["ParameterizedJob"], &whole["Periodic"]), (&rules, &Value::Null));
    wait::until("it is counted", || {
        let summary = node.get("/v1/job/form/summary").json();
        (summary["Children"] == json!({"Pending": 0, "Running": 0, "Dead": 1})).then_some(())
    });
    let shown = node.drover(&["job", "status", "form"]);
    let shown = shown.exits(0);
    for part in [
        "Parameterized = true",
        "Parameterized Job\n",
        "Payload           = required",
        "Required Metadata = who",
        "Parameterized Job Summary",
        "Dispatched Jobs",
        id.as_str(),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = node.drover(&["job", "status", &id]);
    assert!(shown.exits(0).contains("Parameterized = false"), "{shown:?}");
    let list = node.drover(&["job", "status"]);
    assert!(list.exits(0).contains("batch/parameterized"), "{list:?}");
    let states = node.get("/v1/jobs/statuses").json();
    assert_eq!(states[0]["ChildStatuses"], json!(["dead"]), "{states}");
    node.drover(&["job", "eval", "form"]).fails(1, "can't evaluate parameterized job");
    node.put("/v1/system/gc", &Value::Null);
    wait::until("what has ended is forgotten", || dispatched(&node, "form").is_empty().then_some(()));
    assert_eq!(node.get("/v1/job/form/summary").json()["Children"]["Dead"], 1);
}

#[test]
fn a_token_is_worth_one_job_and_children_outlive_their_parent() {
    let node = Node::dev();
    node.drover(&["job", "run", &file(&node, "slow", "", "sleep 60")]).exits(0);
    let twice =
        ["job", "dispatch", "-detach", "-idempotency-token", "a b&c", "-id-prefix-template", "night", "slow"];
    let first = node.drover(&twice);
    assert!(first.exits(0).contains("Dispatched Job ID = slow/dispatch-night-"), "{first:?}");
    let again = node.drover(&twice);
    let (first, again) = (first.exits(0), again.exits(0));
    assert_eq!(first.lines().next(), again.lines().next());
    assert!(first.contains("Evaluation ID") && !again.contains("Evaluation ID"), "{again}");
    let child = dispatched(&node, "slow").remove(0);
    let id = text(&child["ID"]).to_string();
    node.await_alloc(&id, "running");
    let shown = node.drover(&["job", "status", &id]);
    assert!(shown.exits(0).contains("Idempotency Token") && shown.exits(0).contains("= a b&c"), "{shown:?}");
    let answer = node.put("/v1/job/slow/dispatch?idempotency_token=a%20b%26c", &json!({})).json();
    assert_eq!((&answer["DispatchedJobID"], &answer["EvalID"]), (&id.clone().into(), &"".into()));
    assert_eq!(answer["JobCreateIndex"], child["CreateIndex"]);
    node.drover(&["job", "stop", "-purge", "slow"]).exits(0);
    assert_eq!(dispatched(&node, "slow").len(), 1, "it outlives its parent");
    let whole = node.get(&format!("/v1/job/{}", id.replace('/', "%2F"))).json();
    assert_eq!((&whole["Status"], &whole["TaskGroups"][0]["Name"]), (&"running".into(), &"g".into()));
    node.drover(&["job", "stop", "-detach", &id]).exits(0);
    wait::until("it has ended", || (dispatched(&node, "slow")[0]["Status"] == "dead").then_some(()));
}

#[test]
fn dispatch_with_wait_tells_how_the_child_ended() {
    let node = Node::dev();
    let mut job = shell_job("once", "test $NOMAD_META_CODE = wait && sleep 1000; exit $NOMAD_META_CODE");
    job["Type"] = json!("batch");
    job["ParameterizedJob"] = json!({"MetaRequired": ["code"]});
    job["TaskGroups"][0]["ReschedulePolicy"] = json!({"Attempts": 0, "Unlimited": false});
    node.register(&job);
    let dispatch = |code: &str| node.drover(&["job", "dispatch", "-wait", "-meta", code, "once"]);
    let good = dispatch("code=0");
    assert!(good.exits(0).contains("has ended: 1 complete\n"), "{good:?}");
    let bad = dispatch("code=3");
    assert!(bad.exits(1).contains("has ended: 1 failed\n"), "{bad:?}");
    node.drover(&["job", "dispatch", "-wait", "-detach", "once"]).fails(1, "exclude each other");
    let args = ["job", "dispatch", "-wait", "-id-prefix-template", "long", "-meta", "code=wait", "once"];
    let waiting = node.drover_spawn(&args);
    let long = wait::until("it is there", || {
        dispatched(&node, "once").iter().map(|j| text(&j["ID"]).to_string()).find(|id| id.contains("long"))
    });
    node.await_alloc(&long, "running");
    let pid = i32::try_from(waiting.id()).expect("a pid");
    signal_process(pid, Signal::STOP);
    wait::until("it stands still", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") T ").then_some(())
    });
    signal_process(pid, Signal::CONT);
    node.drover(&["job", "stop", "-detach", &long]).exits(0);
    let said = waiting.wait_with_output().expect("its end");
    let out = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.code() == Some(1) && out.contains("has ended, as it was stopped: "), "{out}");
}

#[test]
fn simultaneous_dispatches_with_one_token_all_name_the_same_job() {
    let node = Node::dev();
    node.drover(&["job", "run", &file(&node, "form", "", "true")]).exits(0);
    let named = std::thread::scope(|scope| {
        let ask = || {
            text(&node.put("/v1/job/form/dispatch?idempotency_token=one", &json!({})).json()["DispatchedJobID"]).to_string()
        };
        let asks: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asks.into_iter().map(|ask| ask.join().expect("answers")).collect::<Vec<_>>()
    });
    assert!(named.iter().all(|id| *id == named[0]), "{named:?}");
    let all = dispatched(&node, "form");
    assert_eq!((all.len(), &all[0]["ID"]), (1, &named[0].clone().into()));
}

#[test]
fn invalid_dispatches_are_refused_with_a_sentence() {
    let node = Node::dev();
    node.drover(&["job", "run", &file(&node, "form", RULES, TELL)]).exits(0);
    node.drover(&["job", "run", &file(&node, "mute", "payload = \"forbidden\"", "true")]).exits(0);
    let ask = |id: &str, body: &str| {
        let answer = web::send(node.port, "PUT", &format!("/v1/job/{id}/dispatch"), body);
        (answer.status, answer.text())
    };
    let payload = |bytes: usize| {
        format!(r#"{{"Payload":"{}","Meta":{{"who":"me"}}}}"#, STANDARD.encode(vec![7; bytes]))
    };
    let deep = format!("{{\"Meta\":{}", "[".repeat(100_000));
    for (id, body, status, why) in [
        ("form", "", 400, ""),
        ("form", "[]", 400, "must be a JSON object"),
        ("form", &deep, 400, ""),
        ("form", r#"{"JobID":"other"}"#, 400, "Job ID does not match"),
        ("form", r#"{"Payload":"not base64"}"#, 400, "not base64"),
        ("form", r#"{"Meta":{"who":7}}"#, 400, "object of strings"),
        ("form", r#"{"Meta":["who"]}"#, 400, "object of strings"),
        ("form", r#"{"Priority":101}"#, 500, "job priority must be between [1, 100]"),
        ("form", r#"{"Meta":{"who":"me"}}"#, 500, "Payload is not provided but required"),
        ("form", r#"{"Payload":"aGk="}"#, 500, "Dispatch did not provide required meta keys: [who]"),
        ("form", r#"{"Payload":"aGk=","Meta":{"x":""}}"#, 500, "unpermitted metadata keys: [x]"),
        ("form", &payload(16_385), 500, "Payload exceeds maximum size; 16385 > 16384"),
        ("mute", r#"{"Payload":"aGk="}"#, 500, "Payload provided but forbidden by parameterized job"),
        ("none", "{}", 500, "parameterized job not found"),
    ] {
        let (got, told) = ask(id, body);
        assert!(got == status && told.contains(why), "{body:.60}: {got} {told}");
    }
    assert_eq!(ask("form", &payload(16_384)).0, 200);
    assert_eq!(node.get("/v1/job/form/dispatch/payload").status, 405);
    assert_eq!(node.get("/v1/job/form/dispatch").status, 405);
    for (rules, why) in [
        ("payload = \"perhaps\"", "\"perhaps\" is unknown"),
        (
            "meta_required = [\"a\"]\n meta_optional = [\"a\"]",
            "should be disjoint. Following keys exist in both: [a]",
        ),
    ] {
        node.drover(&["job", "run", &file(&node, "worse", rules, "true")]).fails(1, why);
    }
    let escaping =
        fs::read_to_string(file(&node, "out", "", "true")).expect("a file").replace("in/put.txt", "../../x");
    let escaping = path(&node.write("out.hcl", &escaping)).to_string();
    node.drover(&["job", "run", &escaping]).fails(1, "file escapes the task's local directory");
    let service = fs::read_to_string(file(&node, "svc", "", "true"))
        .expect("a file")
        .replace("\"batch\"", "\"service\"");
    let service = path(&node.write("svc.hcl", &service)).to_string();
    node.drover(&["job", "run", &service]).fails(1, "Parameterized job can only be used with");
    let huge = path(&node.write("huge", &"x".repeat(20_000))).to_string();
    node.drover(&["job", "dispatch", "form", &huge]).fails(1, "too long for a payload");
    node.drover(&["job", "dispatch", "nobody"]).fails(1, "No job(s) with prefix or ID");
    node.drover(&["job", "dispatch", "-meta", "who", "form"]).fails(1, "-meta wants key=value");
}

#[test]
fn a_restart_of_the_agent_leaves_a_payload_as_its_task_left_it() {
    let mut node = Node::durable();
    let script = "echo changed >> local/in/put.txt; sleep 60";
    node.drover(&["job", "run", &file(&node, "form", "", script)]).exits(0);
    let said = node.put("/v1/job/form/dispatch", &json!({"Payload": STANDARD.encode("mine ")})).json();
    let id = text(&said["DispatchedJobID"]).to_string();
    let alloc = node.await_alloc(&id, "running");
    let read = |node: &Node| {
        node.get(&format!("/v1/client/fs/cat/{}?path=t/local/in/put.txt", text(&alloc["ID"]))).text()
    };
    wait::until("it is changed", || (read(&node) == "mine changed\n").then_some(()));
    node.restart();
    wait::until("the task is started anew", || {
        let restart = node.drover(&["alloc", "restart", text(&alloc["ID"])]);
        (restart.code == 0).then_some(())
    });
    wait::until("it is what the task made of it, and more", || {
        (read(&node) == "mine changed\nchanged\n").then_some(())
    });
}
