//! Commands that a job's author has prepared beside its tasks: run by name, on the command line and as any client of the API does.

use crate::node::{Node, path, text};
use crate::wait;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

const ACTIONS: &str = r#"
      action "greet" {
        command = "/bin/echo"
        args    = ["${GREETING}", "${NOMAD_TASK_NAME}", "${nosuch}"]
      }
      action "read" {
        command = "cat"
        args    = ["local/f"]
      }
      action "fail" {
        command = "/bin/sh"
        args    = ["-c", "echo bad >&2; n=42; exit ${n}"]
      }
      action "typed" {
        command = "cat"
      }
"#;

/// A service of group `g` with the tasks `t` and `u`; `t` tells its pid.
fn file(node: &Node, actions: &str) -> String {
    let task = |name: &str, script: &str, more: &str| {
        format!(
            "    task \"{name}\" {{\n      driver = \"raw_exec\"\n      config {{\n        command = \"/bin/sh\"\n        \
             args = [\"-c\", \"{script}\"]\n      }}\n      resources {{\n        cpu = 10\n        memory = 16\n      }}\n{more}    }}\n"
        )
    };
    let env = "      env {\n        GREETING = \"hello\"\n      }\n";
    let first = task("t", "echo pid $$; echo mine > local/f; exec sleep 1000", &format!("{env}{actions}"));
    let second =
        task("u", "exec sleep 1000", "      action \"typed\" {\n        command = \"tac\"\n      }\n");
    let job = format!("job \"acting\" {{\n  group \"g\" {{\n{first}{second}  }}\n}}\n");
    path(&node.write("acting.nomad.hcl", &job)).to_string()
}

fn running(node: &Node) -> String {
    node.drover(&["job", "run", "-detach", &file(node, ACTIONS)]).exits(0);
    let id = text(&node.await_alloc("acting", "running")["ID"]).to_string();
    node.await_pid("acting");
    id
}

const ANY: [&str; 6] = ["job", "action", "-job", "acting", "-group", "g"];

#[test]
fn an_action_runs_beside_its_task_and_ends_with_its_code() {
    let node = Node::dev();
    let id = running(&node);
    let any = |words: &[&str]| node.drover(&[&ANY[..], words].concat());
    assert_eq!(any(&["greet"]).exits(0), "hello t ${nosuch}\n");
    assert_eq!(node.drover(&["action", "-alloc", &id[..8], "read"]).exits(0), "mine\n");
    assert_eq!(
        node.drover(&["job", "action", "-job", "act", "-alloc", &id, "-task", "t", "read"]).exits(0),
        "mine\n"
    );
    let failed = any(&["fail"]);
    assert_eq!((failed.code, failed.err.as_str()), (42, "bad\n"));
    let mut cat = node.drover_command(&[&ANY[..], &["-task", "t", "typed"]].concat());
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut typed = cat.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(cat.stdout.take().expect("a pipe")).lines();
    writeln!(typed, "word").expect("typed");
    assert_eq!(lines.next().expect("a line").expect("text"), "word");
    drop(typed);
    assert!(cat.wait().expect("its end").success());

    let listed = node.get("/v1/job/acting/actions").json();
    let names: Vec<&Value> = listed.as_array().expect("a list").iter().map(|a| &a["Name"]).collect();
    assert_eq!(names, ["greet", "read", "fail", "typed", "typed"]);
    assert_eq!((&listed[4]["TaskName"], &listed[4]["TaskGroupName"]), (&json!("u"), &json!("g")));
    let inspected = node.drover(&["job", "inspect", "acting"]);
    assert!(inspected.exits(0).contains("\"${NOMAD_TASK_NAME}\""), "{}", inspected.out);
    let completed = node.drover(&["complete", "--", "job", "action", "-job", "acting", "gr"]);
    assert_eq!(completed.exits(0), "greet\n");
}

#[test]
fn invalid_actions_are_refused_with_a_sentence() {
    let node = Node::dev();
    let id = running(&node);
    node.run("other", "exec sleep 1000");
    node.await_alloc("other", "running");
    let action = |words: &[&str]| node.drover(&[&["job", "action"], words].concat());
    action(&[]).fails(1, "<action>");
    action(&["greet"]).fails(1, "A job ID is required if no allocation is provided");
    action(&["-job", "acting", "greet"]).fails(1, "A group name is required if no allocation is provided");
    action(&["-job", "nope", "-group", "g", "greet"]).fails(1, "No job(s) with prefix or ID \"nope\"");
    action(&["-job", "acting", "-group", "h", "greet"])
        .fails(1, "No allocation of job \"acting\" and group \"h\" is running");
    action(&["-job", "other", "-alloc", &id, "greet"]).fails(1, "is one of job \"acting\", not of \"other\"");
    action(&["-job", "other", "-group", "g", "greet"]).fails(1, "action \"greet\" not found: there are none");
    action(&["-alloc", &id, "nope"]).fails(1, "action \"nope\" not found; there are: greet (task t)");
    action(&["-alloc", &id, "-task", "u", "greet"]).fails(1, "there are: typed (task u)");
    action(&["-alloc", &id, "-task", "v", "greet"]).fails(1, "unknown task name \"v\"");
    action(&["-alloc", &id, "typed"]).fails(1, "several tasks have action \"typed\", name one: t, u");
    action(&["-alloc", &id, "-i=false", "-t=true", "greet"])
        .fails(1, "-i must be enabled if running with tty");
    node.drover(&["job", "stop", "-detach", "acting"]).exits(0);
    node.await_alloc("acting", "complete");
    action(&["-alloc", &id, "greet"]).fails(1, "is not running");
    action(&["-job", "acting", "-group", "g", "greet"]).fails(1, "No allocation of job \"acting\"");
    let bad = file(&node, "      action \"a b\" {\n        command = \"\"\n      }\n");
    let refused = node.drover(&["job", "run", &bad]);
    refused.fails(1, "Action a b validation failed");
    refused.fails(1, "command cannot be empty");
    refused.fails(1, "invalid name 'a b'");
}

#[test]
fn a_changed_action_restarts_nothing() {
    let node = Node::dev();
    let id = running(&node);
    let pid = node.await_pid("acting");
    let changed =
        file(&node, &ACTIONS.replace("${GREETING}", "good").replace("\"local/f\"", "\"local/f\", \"-\""));
    let plan = node.drover(&["job", "plan", &changed]);
    for part in [
        "Task Group: \"g\" (1 in-place update)\n",
        "Task: \"t\" (forces in-place update)\n",
        "+/- Action {\n",
        "\"${GREETING}\" => \"good\"\n",
        "+ Args[1]: \"-\"\n",
    ] {
        assert!(plan.exits(0).contains(part), "no {part:?} in {}", plan.out);
    }
    node.drover(&["job", "run", "-detach", &changed]).exits(0);
    wait::until("the node has the new version", || {
        (node.drover(&[&ANY[..], &["greet"]].concat()).out == "good t ${nosuch}\n").then_some(())
    });
    let allocs = node.allocs("acting");
    assert_eq!((allocs.len(), text(&allocs[0]["ID"])), (1, id.as_str()));
    assert_eq!((&allocs[0]["JobVersion"], node.await_pid("acting")), (&json!(1), pid));
    assert_eq!(allocs[0]["TaskStates"]["t"]["Restarts"], 0);
}

/// As browsers and the field's own command line ask: with a group, with a first message of who they are. What they say of a
/// command is nobody's business.
#[test]
fn clients_of_the_api_have_their_session() {
    let node = Node::dev();
    let id = running(&node);
    let query = format!(
        "namespace=*&action=greet&allocID={id}&task=t&group=g&tty=false&ws_handshake=true&command=%5B%22/bin/false%22%5D"
    );
    let stream = TcpStream::connect(("127.0.0.1", node.port)).expect("a connection");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
    write!(
        &stream,
        "GET /v1/job/acting/action?{query} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        node.port
    )
    .expect("written");
    let mut from = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(from.read_line(&mut head).expect("a line") > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let hello = br#"{"version":1,"auth_token":""}"#;
    // a text frame, masked with zeros
    let frame = [&[0x81, 0x80 | hello.len() as u8, 0, 0, 0, 0], &hello[..]].concat();
    (&stream).write_all(&frame).expect("written");
    let mut told = Vec::new();
    loop {
        let mut start = [0; 2];
        from.read_exact(&mut start).expect("a frame");
        let mut payload = vec![0; usize::from(start[1])];
        from.read_exact(&mut payload).expect("its payload");
        if start[0] & 0x0f == 8 {
            assert_eq!(payload[..2], 1000_u16.to_be_bytes());
            break;
        }
        told.push(serde_json::from_slice::<Value>(&payload).expect("JSON"));
    }
    // "hello t ${nosuch}\n"
    assert_eq!(told[0], json!({"stdout": {"data": "aGVsbG8gdCAke25vc3VjaH0K"}}));
    assert_eq!(told[1..], [json!({"exited": true, "result": {}})]);
}
