//! Scaling over HTTP: what becomes an action, what is refused, and what whoever scales reads.

use super::*;
use model::id::JobKey;
use model::scaling::{Scaling, policy_id};
use model::value::Value as Plain;
use serde_json::json;
use wire::command::ScaleJobCommand;
use wire::command::ScaleRequest;

/// `web` may have one to three.
fn scalable() -> World {
    let mut world = World::running();
    let mut spec = spec("web", 1);
    let policy = [("cooldown".to_string(), Plain::Float(5.0))].into();
    spec.groups[0].scaling = Some(Scaling { min: 1, max: 3, enabled: true, policy });
    world.region.run(&register(spec, None)).reply.unwrap();
    world
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

impl World {
    fn say(&mut self, message: &str) -> u64 {
        let request = ScaleRequest {
            job: JobKey::new("default", "web"),
            group: "g".into(),
            count: None,
            message: message.into(),
            error: true,
            meta: [("load".to_string(), Plain::Float(2.0))].into(),
            enforce_index: None,
        };
        let order = ScaleJobCommand { request, eval: None, tracked_versions: 6, at: AT };
        self.region.run(&Command::ScaleJob(Box::new(order))).index
    }
}

#[test]
fn a_scale_request_becomes_a_write_with_all_members() {
    let world = scalable();
    let body = r#"{"Count":3,"Target":{"Group":"g","Job":"web","Namespace":"team"},"Message":"busy",
        "Meta":{"load":2,"deep":[1]},"PolicyOverride":true,"JobModifyIndex":7}"#;
    for method in [Method::Put, Method::Post] {
        let (action, answer) = world.act(method, "/v1/job/web/scale?namespace=team", body);
        let meta = [
            ("load".to_string(), Plain::Float(2.0)),
            ("deep".to_string(), Plain::List(vec![Plain::Float(1.0)])),
        ];
        let request = ScaleRequest {
            job: JobKey::new("team", "web"),
            group: "g".into(),
            count: Some(3),
            message: "busy".into(),
            error: false,
            meta: meta.into(),
            enforce_index: Some(7),
        };
        assert_eq!(action, WriteRequest::ScaleJob(Box::new(request)));
        let done = wire::request::WriteReply::Job { eval: Some(eval_id(1)), job_modify_index: 9, index: 9 };
        let shown = json_of(&answer.response(Ok(done)));
        assert_eq!((&shown["EvalID"], &shown["JobModifyIndex"]), (&json!(eval_id(1).to_string()), &json!(9)));
    }
}

#[test]
fn malformed_scale_requests_are_refused() {
    let world = scalable();
    let long = format!(r#"{{"Target":{{"Group":"g"}},"Message":"{}"}}"#, "x".repeat(17_000));
    for (body, why) in [
        ("", "Request body is empty"),
        ("{}", "missing task group name for scaling action"),
        (r#"{"Count":1,"Target":{"Group":""}}"#, "missing task group name for scaling action"),
        (r#"{"Target":{"Group":"g","Job":"other"}}"#, "job ID in payload did not match URL"),
        (r#"{"Target":{"Group":"g","Namespace":"other"}}"#, "namespace in payload did not match header"),
        (r#"{"Target":1}"#, "member Target must be an object"),
        (r#"{"Target":{"Group":"g"},"Meta":1}"#, "member Meta must be an object"),
        (r#"{"Target":{"Group":"g"},"Count":1.5}"#, "member Count must be a whole number"),
        (r#"{"Target":{"Group":"g"},"Count":-1}"#, "scaling action count can't be negative"),
        (
            r#"{"Target":{"Group":"g"},"Count":1,"Error":true}"#,
            "scaling action should not contain count if error is true",
        ),
        (&long, "Message and Meta must not have more than 16384 bytes together"),
    ] {
        let refused = world.respond(Method::Put, "/v1/job/web/scale", body);
        assert_eq!((refused.status, text(&refused).as_str()), (400, why), "{body}");
    }
    assert_eq!(world.respond(Method::Delete, "/v1/job/web/scale", "").status, 405);
    assert_eq!(world.respond(Method::Put, "/v1/scaling/policies", "{}").status, 405);
}

#[test]
fn scale_status_counts_allocs_and_lists_events() {
    let mut world = scalable();
    let first = json_of(&world.get("/v1/job/web/scale"));
    let job = world.region.job("web");
    let counts =
        json!({"Desired": 1, "Placed": 1, "Running": 1, "Healthy": 0, "Unhealthy": 0, "Events": null});
    let expected = json!({
        "JobID": "web", "Namespace": "default", "JobCreateIndex": job.create_index,
        "JobModifyIndex": job.job_modify_index, "JobStopped": false, "TaskGroups": {"g": counts}
    });
    assert_eq!(first, expected);
    world.say("first");
    let index = world.say("second");
    let response = world.get("/v1/job/web/scale");
    assert_eq!(response.header("X-Nomad-Index"), Some(index.to_string().as_str()));
    let events = json_of(&response)["TaskGroups"]["g"]["Events"].clone();
    let newest = json!({
        "Count": null, "PreviousCount": 1, "Error": true, "Message": "second", "Meta": {"load": 2.0},
        "EvalID": null, "Time": AT.0, "CreateIndex": index
    });
    assert_eq!((&events[0], &events[1]["Message"], events[2].is_null()), (&newest, &json!("first"), true));
    let gone = world.get("/v1/job/gone/scale");
    assert_eq!((gone.status, text(&gone).as_str()), (404, "job not found"));
}

#[test]
fn policies_are_listed_shown_and_found() {
    let world = scalable();
    let id = policy_id("default", "web", "g").to_string();
    let index = world.region.job("web").job_modify_index;
    let target = json!({"Namespace": "default", "Job": "web", "Group": "g"});
    let stub = json!({
        "ID": id, "Enabled": true, "Type": "horizontal", "Target": target, "CreateIndex": index, "ModifyIndex": index
    });
    let whole = json!({
        "ID": id, "Enabled": true, "Type": "horizontal", "Target": target, "CreateIndex": index, "ModifyIndex": index,
        "Policy": {"cooldown": 5.0}, "Min": 1, "Max": 3
    });
    for (query, found) in [
        ("", true),
        ("?job=web", true),
        ("?job=other", false),
        ("?type=horizontal", true),
        ("?type=hor", true),
        ("?type=vertical_cpu", false),
        ("?namespace=*", true),
        ("?namespace=team", false),
        (&format!("?prefix={}", &id[..4]), true),
        ("?prefix=00", false),
    ] {
        let listed = world.get(&format!("/v1/scaling/policies{query}"));
        assert_eq!(json_of(&listed), if found { json!([stub]) } else { json!([]) }, "{query}");
        assert_eq!(listed.header("X-Nomad-Index"), Some(index.to_string().as_str()), "{query}");
    }
    assert_eq!(world.get("/v1/scaling/policies?prefix=000").status, 200);
    assert_eq!(world.get("/v1/scaling/policies?prefix=x").status, 400);
    assert_eq!(world.get("/v1/scaling/policy/").status, 404);
    let body = r#"{"Target":{"Group":"g"},"Count":1}"#;
    let response = world.respond(Method::Post, "/v1/job//scale", body);
    assert_eq!((response.status, text(&response).as_str()), (400, "missing job ID for scaling action"));
    assert_eq!(json_of(&world.get(&format!("/v1/scaling/policy/{id}"))), whole);
    let gone = world.get(&format!("/v1/scaling/policy/{}", eval_id(9)));
    assert_eq!((gone.status, text(&gone).as_str()), (404, "policy not found"));
    assert_eq!(world.get("/v1/scaling/policy/0123").status, 400);
    let body = format!(r#"{{"Prefix":"{}","Context":"scaling_policy"}}"#, &id[..7]);
    let matched = json_of(&world.respond(Method::Put, "/v1/search", &body));
    assert_eq!(matched["Matches"]["scaling_policy"], json!([id]));
    let job = json_of(&world.get("/v1/job/web"));
    let scaling = &job["TaskGroups"][0]["Scaling"];
    assert_eq!((&scaling["ID"], &scaling["Max"], &scaling["Target"]), (&json!(id), &json!(3), &target));
}

#[test]
fn a_system_job_with_a_policy_is_refused_with_all_else() {
    let world = World::running();
    let told = |members: &str| {
        let body = format!(
            r#"{{"Job":{{"ID":"s","Type":"system"{members},"TaskGroups":[{{"Name":"g","Count":1,"Scaling":{{"Max":1}},
            "Tasks":[{{"Name":"t","Driver":"raw_exec"}}]}}]}}}}"#
        );
        let refused = world.respond(Method::Put, "/v1/jobs", &body);
        (refused.status, text(&refused))
    };
    let why = "Task groups with job type system do not support scaling blocks";
    assert_eq!(told(""), (400, why.to_string()));
    let all = format!("2 errors occurred:\n\t* Job priority must be between [1, 100]\n\t* {why}\n\n");
    assert_eq!(told(r#","Priority":500"#), (400, all));
}
