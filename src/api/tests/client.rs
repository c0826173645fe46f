//! Questions to a node: what is asked of it, and what is refused before it is asked.

use super::*;
use crate::presentation::Form;
use state::samples::alloc_id;
use wire::client_rpc::{LogStream, ReadOffset, RestartScope};

/// What a request asks of the node, or why it does not.
fn asked(world: &World, method: Method, target: &str, body: &str) -> Result<ClientRequest, String> {
    world.ask(method, target, body).map(|(ask, _)| ask)
}

#[test]
fn logs_are_checked_before_the_first_byte() {
    let world = World::running();
    let id = alloc_id(1);
    let path = format!("/v1/client/fs/logs/{id}");
    for (target, error) in [
        ("/v1/client/fs/logs/".to_string(), "400 must provide a valid alloc id"),
        ("/v1/client/fs/logs/abc?task=t&type=stdout".to_string(), "400 must provide a valid alloc id"),
        (format!("{path}?type=stdout"), "400 must provide task name"),
        (format!("{path}?task=t"), "400 must provide log type (stdout/stderr)"),
        (format!("{path}?task=t&type=x"), "400 must provide log type (stdout/stderr)"),
        (format!("{path}?task=t&type=stdout&origin=x"), "400 origin must be start or end"),
        (format!("{path}?task=x&type=stdout"), "400 unknown task name \"x\""),
    ] {
        assert_eq!(asked(&world, Method::Get, &target, ""), Err(error.to_string()), "{target}");
    }
    let target = format!("{path}?task=t&type=stderr&follow=true&origin=end&offset=5");
    let from = ReadOffset::FromEnd(5);
    let ask =
        ClientRequest::Logs { alloc: id, task: "t".into(), stream: LogStream::Stderr, from, follow: true };
    assert_eq!(
        world.ask(Method::Get, &target, ""),
        Ok((ask, Presentation { form: Form::Frames, pretty: false }))
    );
    let plain = world.ask(Method::Get, &format!("{path}?task=t&type=stdout&plain=true"), "");
    assert_eq!(plain.map(|(_, presentation)| presentation.form), Ok(Form::Text));
}

#[test]
fn files_are_named_by_path_and_read_from_a_position() {
    let world = World::running();
    let alloc = alloc_id(1);
    let path = || "a/b".to_string();
    let file = |from, limit, follow| Ok(ClientRequest::File { alloc, path: path(), from, limit, follow });
    let start = ReadOffset::FromStart;
    for (target, expected) in [
        ("ls/ID", Ok(ClientRequest::List { alloc, path: "/".into() })),
        ("ls/ID?path=a/b", Ok(ClientRequest::List { alloc, path: path() })),
        ("stat/ID?path=a%2Fb", Ok(ClientRequest::Stat { alloc, path: path() })),
        ("stat/ID", Err("400 must provide a file name")),
        ("cat/ID?path=", Err("400 must provide a file name")),
        ("cat/x?path=a", Err("400 must provide a valid alloc id")),
        ("cat/ID?path=a/b", file(start(0), None, false)),
        ("readat/ID?path=a/b&offset=3&limit=4", file(start(3), Some(4), false)),
        ("readat/ID?path=a/b&limit=-1", file(start(0), None, false)),
        ("readat/ID?path=a/b&offset=-1", Err("400 offset must not be negative")),
        ("stream/ID?path=a/b&origin=end&offset=9", file(ReadOffset::FromEnd(9), None, true)),
        ("stream/ID?path=a/b&follow=false", file(start(0), None, false)),
        ("stream/ID?path=a/b&origin=middle", Err("400 origin must be start or end")),
    ] {
        let target = format!("/v1/client/fs/{}", target.replace("ID", &alloc.to_string()));
        assert_eq!(asked(&world, Method::Get, &target, ""), expected.map_err(str::to_string), "{target}");
    }
}

#[test]
fn a_task_that_has_not_begun_has_no_logs() {
    let mut world = World::new();
    world.region.ready_node(1);
    world.job("web", 1);
    let job = world.region.job("web");
    let nodes = place(vec![alloc(1, &job, node_id(1), eval_id(1))]);
    world.region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let target = format!("/v1/client/fs/logs/{}?task=t&type=stdout", alloc_id(1));
    let error = "404 task \"t\" not started yet. No logs available";
    assert_eq!(asked(&world, Method::Get, &target, ""), Err(error.to_string()));
}

#[test]
fn alloc_requests_are_parsed() {
    let world = World::running();
    let alloc = alloc_id(1);
    let restart = |scope| ClientRequest::Restart { alloc, scope };
    let signal = |task: Option<&str>| {
        let task = task.map(str::to_string);
        ClientRequest::Signal { alloc, task, signal: "SIGHUP".into() }
    };
    for (what, body, ask) in [
        ("restart", "", Ok(restart(RestartScope::Running))),
        ("restart", "{}", Ok(restart(RestartScope::Running))),
        ("restart", r#"{"TaskName":"t"}"#, Ok(restart(RestartScope::Task("t".into())))),
        ("restart", r#"{"AllTasks":true}"#, Ok(restart(RestartScope::All))),
        (
            "restart",
            r#"{"TaskName":"t","AllTasks":true}"#,
            Err("400 task name cannot be set when restarting all tasks"),
        ),
        ("restart", r#"{"TaskName":1}"#, Err("400 member TaskName must be a string")),
        ("signal", r#"{"Signal":"SIGHUP"}"#, Ok(signal(None))),
        ("signal", r#"{"Signal":"SIGHUP","Task":"t"}"#, Ok(signal(Some("t")))),
        ("signal", "", Err("400 Request body is empty")),
    ] {
        let got = asked(&world, Method::Put, &format!("/v1/client/allocation/{alloc}/{what}"), body);
        assert_eq!(got, ask.map_err(str::to_string), "{what} {body}");
    }
}

/// The request goes on as it came, once it is known that the state has nothing against it.
#[test]
fn what_another_node_has_is_relayed_to_it() {
    let mut world = World::running();
    let other = alloc_id(9);
    let unknown = format!("404 Unknown allocation \"{other}\"");
    let targets = |id| {
        [
            (Method::Get, format!("/v1/client/fs/logs/{id}?task=t&type=stdout"), ""),
            (Method::Get, format!("/v1/client/fs/ls/{id}"), ""),
            (Method::Put, format!("/v1/client/allocation/{id}/restart"), ""),
            (Method::Put, format!("/v1/client/allocation/{id}/signal"), r#"{"Signal":"SIGHUP"}"#),
        ]
    };
    for (method, target, body) in targets(other) {
        assert_eq!(asked(&world, method, &target, body), Err(unknown.clone()), "{target}");
    }
    world.client = None;
    let to = RelayTarget::Node(node_id(1));
    for (method, target, body) in targets(alloc_id(1)) {
        assert_eq!(world.relayed(method, &target, body), (to, request(method, &target, body)), "{target}");
    }
    let unstarted = format!("/v1/client/fs/logs/{}?task=x&type=stdout", alloc_id(1));
    assert_eq!(asked(&world, Method::Get, &unstarted, ""), Err("400 unknown task name \"x\"".into()));
    let checks = format!("/v1/allocation/{}/checks", alloc_id(1));
    assert_eq!(world.relayed(Method::Get, &checks, "").0, to);
    for path in ["/v1/client/stats", "/v1/client/metadata", "/v1/client/gc"] {
        let named = format!("{path}?node_id={}", node_id(1));
        assert_eq!(world.relayed(Method::Get, &named, "").0, to, "{path}");
        let unnamed = "400 No local Node and node_id not provided".to_string();
        assert_eq!(asked(&world, Method::Get, path, ""), Err(unnamed), "{path}");
        let unknown = format!("404 Unknown node \"{}\"", node_id(7));
        let other = format!("{path}?node_id={}", node_id(7));
        assert_eq!(asked(&world, Method::Get, &other, ""), Err(unknown), "{path}");
    }
}

#[test]
fn only_what_one_agent_knows_is_answered_to_others() {
    let alloc = alloc_id(1);
    for (method, target, wanted) in [
        (Method::Get, format!("/v1/client/fs/logs/{alloc}"), true),
        (Method::Get, format!("/v1/client/allocation/{alloc}/exec"), true),
        (Method::Put, format!("/v1/client/allocation/{alloc}/restart"), true),
        (Method::Get, "/v1/client/stats".into(), true),
        (Method::Get, "/v1/agent/monitor".into(), true),
        (Method::Get, "/v1/agent/host".into(), true),
        (Method::Get, "/v1/job/web/action".into(), true),
        (Method::Get, "/v1/agent/self".into(), false),
        (Method::Get, "/v1/metrics".into(), false),
        (Method::Get, "/v1/jobs".into(), false),
        (Method::Put, "/v1/jobs".into(), false),
        (Method::Get, "/v1/event/stream".into(), false),
        (Method::Delete, format!("/v1/client/fs/logs/{alloc}"), false),
        (Method::Get, "/v1/%zz".into(), false),
    ] {
        assert_eq!(may_be_relayed(&request(method, &target, "")), wanted, "{method:?} {target}");
    }
}

#[test]
fn a_session_needs_a_task_a_command_and_a_websocket() {
    let world = World::running();
    let alloc = alloc_id(1);
    let command = vec!["ls".to_string(), "-l".to_string()];
    let exec = |tty| Ok(ClientRequest::Exec { alloc, task: "t".into(), command: command.clone(), tty });
    let listed = "command=%5B%22ls%22,%22-l%22%5D";
    for (query, expected) in [
        (format!("?task=t&{listed}"), exec(false)),
        (format!("?task=t&tty=true&{listed}&ws_handshake=true"), exec(true)),
        (format!("?{listed}"), Err("400 task name is required")),
        ("?task=t".to_string(), Err("400 command is not present")),
        ("?task=t&command=%5B%5D".to_string(), Err("400 command is not present")),
    ] {
        let target = format!("/v1/client/allocation/{alloc}/exec{query}");
        assert_eq!(asked(&world, Method::Get, &target, ""), expected.map_err(str::to_string), "{query}");
    }
    let mut plain = request(Method::Get, &format!("/v1/client/allocation/{alloc}/exec?task=t&{listed}"), "");
    plain.websocket = false;
    let RouteOutcome::Respond(response) = world.step(&plain, WaitState::default()) else {
        panic!("it was asked for")
    };
    assert_eq!((response.status, text(&response).contains("websocket")), (400, true));
}
