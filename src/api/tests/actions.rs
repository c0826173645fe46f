//! Actions of tasks over HTTP: what a job has, which task is meant, and what is refused before the node is asked.

use super::*;
use crate::presentation::Form;
use model::job::{Task, TaskAction};
use serde_json::json;
use state::samples::alloc_id;

fn action(name: &str, args: &[&str]) -> TaskAction {
    let args = args.iter().map(ToString::to_string).collect();
    TaskAction { name: name.into(), command: "/bin/echo".into(), args }
}

/// Allocation 1 of `web` runs its first version, whose tasks `t` and `u` have three actions; the second one has none.
fn acting() -> World {
    let mut world = World::new();
    world.region.ready_node(1);
    let mut with_actions = spec("web", 1);
    let first = &mut with_actions.groups[0].tasks[0];
    first.actions = vec![action("show", &["-n", "x"]), action("both", &[])];
    let second = Task { name: "u".into(), actions: vec![action("both", &[])], ..first.clone() };
    with_actions.groups[0].tasks.push(second);
    world.region.run(&register(with_actions, Some(eval(1, "web")))).reply.unwrap();
    let allocs = vec![alloc(1, &world.region.job("web"), node_id(1), eval_id(1))];
    let plan = Command::ApplyPlan {
        eval: eval_id(1),
        nodes: place(allocs),
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    };
    world.region.run(&plan);
    world.report(ClientStatus::Running);
    world
}

fn listed(world: &World, target: &str) -> Value {
    serde_json::from_slice(&world.respond(Method::Get, target, "").body).unwrap()
}

#[test]
fn a_jobs_actions_are_listed_with_their_tasks() {
    let mut world = acting();
    let of = |task: &str| json!({"Name": "both", "Command": "/bin/echo", "Args": null, "TaskName": task, "TaskGroupName": "g"});
    let show = json!({"Name": "show", "Command": "/bin/echo", "Args": ["-n", "x"], "TaskName": "t", "TaskGroupName": "g"});
    assert_eq!(listed(&world, "/v1/job/web/actions"), json!([show, of("t"), of("u")]));
    let shown = listed(&world, "/v1/job/web");
    let own = json!([{"Name": "show", "Command": "/bin/echo", "Args": ["-n", "x"]},
        {"Name": "both", "Command": "/bin/echo", "Args": null}]);
    assert_eq!(shown["TaskGroups"][0]["Tasks"][0]["Actions"], own);
    world.job("plain", 2);
    assert_eq!(listed(&world, "/v1/job/plain/actions"), json!([]));
    assert_eq!(listed(&world, "/v1/job/plain")["TaskGroups"][0]["Tasks"][0]["Actions"], Value::Null);
    for target in ["/v1/job/nope/actions", "/v1/job/web/actions?namespace=team"] {
        let unknown = world.respond(Method::Get, target, "");
        assert_eq!((unknown.status, text(&unknown)), (404, "job not found".into()), "{target}");
    }
}

#[test]
fn the_task_that_has_the_action_is_asked() {
    let mut world = acting();
    let (alloc, other) = (alloc_id(1), alloc_id(9));
    let session = |task: &str, action: &str, tty| {
        Ok(ClientRequest::Action { alloc, task: task.into(), action: action.into(), tty })
    };
    let asked = |world: &World, job: &str, query: &str| {
        let target = format!("/v1/job/{job}/action?{}", query.replace("@", &alloc.to_string()));
        world.ask(Method::Get, &target, "")
    };
    for (job, query, expected) in [
        ("web", "action=show&allocID=@", session("t", "show", false)),
        (
            "web",
            "action=show&allocID=@&task=t&group=g&tty=true&ws_handshake=true",
            session("t", "show", true),
        ),
        (
            "web",
            "action=both&allocID=@&task=u&namespace=*&command=%5B%22evil%22%5D",
            session("u", "both", false),
        ),
        ("web", "allocID=@", Err("400 action name is required")),
        ("web", "action=show", Err("400 must provide a valid alloc id")),
        ("web", "action=show&allocID=@&tty=x", Err("400 ")),
        (
            "web",
            "action=nope&allocID=@",
            Err("404 action \"nope\" not found; there are: show (task t), both (task t), both (task u)"),
        ),
        (
            "web",
            "action=show&allocID=@&task=u",
            Err("404 action \"show\" not found; there are: both (task u)"),
        ),
        ("web", "action=show&allocID=@&task=v", Err("400 unknown task name \"v\"")),
        ("web", "action=both&allocID=@", Err("400 several tasks have action \"both\", name one: t, u")),
        ("web", "action=show&allocID=@&group=h", Err("is of group \"g\", not of \"h\"")),
        ("other", "action=show&allocID=@", Err("is not one of job \"other\": it belongs to \"web\"")),
        (
            "web",
            "action=show&allocID=@&namespace=team",
            Err("it belongs to \"web\" in namespace \"default\""),
        ),
    ] {
        match (asked(&world, job, query), expected) {
            (Ok((ask, presentation)), expected) => {
                assert_eq!((Ok(ask), presentation.form), (expected, Form::Session), "{query}");
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{query}: {why}"),
            (Err(why), _) => panic!("{query}: {why}"),
        }
    }
    let unknown = asked(&world, "web", &format!("action=show&allocID={other}"));
    assert_eq!(unknown, Err(format!("404 Unknown allocation \"{other}\"")));
    world.job("web", 3);
    assert_eq!(listed(&world, "/v1/job/web/actions"), json!([]));
    let still = asked(&world, "web", "action=show&allocID=@").map(|(ask, _)| ask);
    assert_eq!(still, session("t", "show", false).map_err(str::to_string), "what it runs counts");
    let mut plain = request(Method::Get, &format!("/v1/job/web/action?action=show&allocID={alloc}"), "");
    plain.websocket = false;
    let RouteOutcome::Respond(response) = world.step(&plain, WaitState::default()) else {
        panic!("it was asked for")
    };
    assert_eq!((response.status, text(&response).contains("websocket")), (400, true));
    world.client = None;
    let target = format!("/v1/job/web/action?action=show&allocID={alloc}");
    let (to, request) = world.relayed(Method::Get, &target, "");
    assert_eq!((to, request.query.ends_with("&task=%74")), (RelayTarget::Node(node_id(1)), true));
}
