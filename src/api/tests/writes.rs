//! Registration, deregistration and parsing: what becomes an action, and how its result is told.

use super::*;
use model::id::JobKey;
use model::plan::GroupChanges;
use serde_json::json;
use wire::job_plan::JobPlanReply;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// A small job as clients send it.
fn job(id: &str, more: &str) -> String {
    format!(
        r#"{{"ID":"{id}","Name":"{id}","Type":"batch"{more},"TaskGroups":[{{"Name":"g","Count":1,"Tasks":[
        {{"Name":"t","Driver":"raw_exec","Config":{{"command":"/bin/true"}}}}]}}]}}"#
    )
}

fn registered(action: WriteRequest) -> (model::job::JobSpec, Option<u64>) {
    match action {
        WriteRequest::RegisterJob { spec, enforce_index, .. } => (*spec, enforce_index),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_registration_becomes_a_write_request() {
    let world = World::new();
    let body = format!(r#"{{"Job":{},"EnforceIndex":true,"JobModifyIndex":7}}"#, job("a", ""));
    for method in [Method::Put, Method::Post] {
        for target in ["/v1/jobs", "/v1/job/a"] {
            let (spec, enforce) = registered(world.act(method, target, &body).0);
            assert_eq!((spec.id.as_str(), enforce), ("a", Some(7)));
            assert_eq!((spec.region.as_str(), spec.namespace.as_str()), ("eu", "default"));
            assert_eq!((spec.priority, spec.datacenters.as_slice()), (50, &["*".to_string()][..]));
        }
    }
}

#[test]
fn preserved_resources_are_taken_with_a_warning() {
    let body = format!(r#"{{"PreserveResources":true,"Job":{}}}"#, job("a", ""));
    let (_, answer) = World::new().act(Method::Put, "/v1/jobs", &body);
    let done = WriteReply::Job { eval: Some(eval_id(1)), job_modify_index: 9, index: 9 };
    let told: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
    assert!(told["Warnings"].as_str().unwrap().contains("* PreserveResources has no effect"), "{told}");
}

#[test]
fn namespaces_and_regions_have_their_order() {
    let world = World::new();
    let cases = [
        ("/v1/jobs", r#","Namespace":"job""#, "", "job"),
        ("/v1/jobs", r#","Namespace":"job""#, r#","Namespace":"body""#, "body"),
        ("/v1/jobs?namespace=query", r#","Namespace":"job""#, r#","Namespace":"body""#, "query"),
        ("/v1/jobs", "", "", "default"),
    ];
    for (target, in_job, in_body, namespace) in cases {
        let body = format!(r#"{{"Job":{}{in_body}}}"#, job("a", in_job));
        assert_eq!(registered(world.act(Method::Put, target, &body).0).0.namespace, namespace);
    }
    let elsewhere = format!(r#"{{"Job":{},"Region":"us"}}"#, job("a", ""));
    assert_eq!(text(&world.respond(Method::Put, "/v1/jobs", &elsewhere)), "No path to region");
    let own = format!(r#"{{"Job":{}}}"#, job("a", r#","Region":"global""#));
    assert_eq!(registered(world.act(Method::Put, "/v1/jobs", &own).0).0.region, "eu");
}

#[test]
fn invalid_registrations_are_refused_with_the_reason() {
    let world = World::new();
    let good = format!(r#"{{"Job":{}}}"#, job("a", ""));
    for (target, body, status, part) in [
        ("/v1/jobs", "", 400, "Request body is empty"),
        ("/v1/jobs", "{", 400, "EOF"),
        ("/v1/jobs", "{}", 400, "Job must be specified"),
        ("/v1/jobs", r#"{"Job":null}"#, 400, "Job must be specified"),
        ("/v1/job/b", good.as_str(), 400, "Job ID does not match name"),
        ("/v1/jobs", &format!(r#"{{"Job":{}}}"#, job("a", r#","Priority":101"#)), 500, "error occurred:"),
        (
            "/v1/jobs",
            &format!(r#"{{"Job":{},"EvalPriority":101}}"#, job("a", "")),
            400,
            "Eval priority must be between 1 and 100 inclusively",
        ),
        (
            "/v1/jobs",
            &format!(r#"{{"Job":{}}}"#, job("a", r#","Multiregion":{"Regions":[{"Name":"a"}]}"#)),
            501,
            "not supported yet",
        ),
    ] {
        let response = world.respond(Method::Put, target, body);
        assert_eq!(response.status, status, "{body}: {}", text(&response));
        assert!(text(&response).contains(part), "{body}: {}", text(&response));
    }
}

#[test]
fn a_wrong_value_is_500_and_a_word_that_cannot_be_read_400() {
    let world = World::new();
    let told = |members: &str| {
        let body = format!(r#"{{"Job":{{"ID":"a","Name":"a"{members}}}}}"#);
        let response = world.respond(Method::Put, "/v1/jobs", &body);
        (response.status, text(&response))
    };
    let priority = r#","Priority":500"#;
    let groups = r#","TaskGroups":[{"Name":"g","RestartPolicy":{"Mode":"zz"}}]"#;
    let (status, why) = told(priority);
    assert!(status == 500 && why.contains("riority"), "{status} {why}");
    let (status, why) = told(&format!("{priority}{groups}"));
    let names_both = why.contains("zz") && why.contains("riority");
    assert!(status == 400 && names_both, "{status} {why}");
}

#[test]
fn write_results_are_answered_in_the_apis_shape() {
    let world = World::new();
    let body = format!(r#"{{"Job":{}}}"#, job("a", ""));
    let answer = || world.act(Method::Put, "/v1/jobs", &body).1;
    let done = WriteReply::Job { eval: Some(eval_id(1)), job_modify_index: 4, index: 9 };
    let response = answer().response(Ok(done));
    let told: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(told["EvalID"], eval_id(1).to_string());
    assert_eq!(
        (&told["EvalCreateIndex"], &told["JobModifyIndex"], &told["Index"]),
        (&9.into(), &4.into(), &9.into())
    );
    assert_eq!(response.header("X-Nomad-Index"), Some("9"));
    let conflict = "Enforcing job modify index 0: job already exists";
    let refused = answer().response(Err(Refusal::new(RefusalKind::Conflict, conflict)));
    assert_eq!((refused.status, text(&refused).as_str()), (500, conflict));
    let busy = answer().response(Err(Refusal::new(RefusalKind::Busy, "later")));
    assert_eq!((busy.status, busy.header("Retry-After")), (429, Some("1")));
}

#[test]
fn a_deregistration_becomes_a_write_request() {
    let world = World::new();
    let (action, answer) =
        world.act(Method::Delete, "/v1/job/a%2Fb?purge=true&eval_priority=60&namespace=n", "");
    let expected = WriteRequest::DeregisterJob {
        job: JobKey::new("n", "a/b"),
        purge: true,
        eval_priority: Some(60),
        no_shutdown_delay: false,
    };
    assert_eq!(action, expected);
    let unknown = answer.response(Ok(WriteReply::Nothing { index: 5 }));
    let told: Value = serde_json::from_slice(&unknown.body).unwrap();
    assert_eq!((&told["EvalID"], &told["Index"]), (&"".into(), &0.into()));
    let bad = world.respond(Method::Delete, "/v1/job/a?purge=maybe", "");
    assert_eq!(bad.status, 500, "{}", text(&bad));
    assert!(text(&bad).starts_with("Failed to parse value of"), "{}", text(&bad));
    let (action, _) = world.act(Method::Delete, "/v1/job/a?no_shutdown_delay=true", "");
    assert!(
        matches!(action, WriteRequest::DeregisterJob { purge: false, no_shutdown_delay: true, .. }),
        "{action:?}"
    );
    let both = world.respond(Method::Delete, "/v1/job/a?no_shutdown_delay=true&purge=true", "");
    assert_eq!(both.status, 501);
    world.act(
        Method::Delete,
        "/v1/job/a?global=true&purge=false&eval_priority=0&no_shutdown_delay=false",
        "",
    );
}

#[test]
fn job_files_are_parsed() {
    let world = World::new();
    let parse = |body: &Value| world.respond(Method::Put, "/v1/jobs/parse", &body.to_string());
    let hcl = r#"
variable "n" {
  default = 1
}
job "a" {
  group "g" {
    count = var.n
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}"#;
    let parsed = parse(&serde_json::json!({ "JobHCL": hcl, "Variables": "n = 3" }));
    assert_eq!(parsed.status, 200, "{}", text(&parsed));
    let job: Value = serde_json::from_slice(&parsed.body).unwrap();
    assert_eq!((&job["ID"], &job["TaskGroups"][0]["Count"]), (&"a".into(), &3.into()));
    assert_eq!(job["Priority"], Value::Null, "nothing is filled in");
    let canonical = parse(&serde_json::json!({ "jobhcl": hcl, "Canonicalize": true }));
    let job: Value = serde_json::from_slice(&canonical.body).unwrap();
    assert_eq!((&job["Priority"], &job["Type"]), (&50.into(), &"service".into()));
    for (body, status, part) in [
        (serde_json::json!({}), 400, "Job spec is empty"),
        (serde_json::json!({ "JobHCL": "job {" }), 400, "Failed to parse job: "),
        (serde_json::json!({ "JobHCL": hcl, "hclv1": true }), 501, "not supported yet"),
        (serde_json::json!({ "JobHCL": 5 }), 400, "JobHCL"),
    ] {
        let response = parse(&body);
        assert_eq!(response.status, status, "{body}");
        assert!(text(&response).contains(part), "{}", text(&response));
    }
}

/// What the API prints of a job is accepted again, and means the same.
#[test]
fn a_stored_job_survives_its_own_json() {
    let mut world = World::new();
    let more = r#","Priority":70,"Meta":{"k":"v"},"Constraints":[{"LTarget":"${attr.cpu.arch}","RTarget":"arm64","Operand":"="}]"#;
    for job_type in ["batch", "service"] {
        let sent = job("a", more).replace("batch", job_type);
        let (spec, _) = registered(world.act(Method::Put, "/v1/jobs", &format!(r#"{{"Job":{sent}}}"#)).0);
        let mut stored = spec.clone();
        stored.id = job_type.into();
        world.region.run(&register(stored.clone(), None)).reply.unwrap();
        let printed = text(&world.get(&format!("/v1/job/{job_type}")));
        let (again, _) = registered(world.act(Method::Put, "/v1/jobs", &format!(r#"{{"Job":{printed}}}"#)).0);
        assert_eq!(again, stored);
    }
}

#[test]
fn a_job_plan_is_requested_and_shown() {
    let mut world = World::new();
    world.region.run(&register(spec("a", 2), None)).reply.unwrap();
    let before = world.region.view().job(&JobKey::new("default", "a")).unwrap();
    let body = format!(r#"{{"Job":{},"Diff":true}}"#, job("a", ""));
    let plan = |target: &str, body: &str| match world
        .step(&request(Method::Put, target, body), WaitState::default())
    {
        RouteOutcome::PlanJob(asked, planned) => (asked, planned),
        _ => panic!("{target}: no question"),
    };
    let (asked, planned) = plan("/v1/job/a/plan", &body);
    assert_eq!((asked.spec.id.as_str(), asked.spec.priority, asked.spec.region.as_str()), ("a", 50, "eu"));
    let does = GroupChanges { stop: 1, ignore: 1, ..GroupChanges::default() };
    let found = JobPlanReply {
        before,
        desired: [("g".to_string(), does)].into(),
        index: 9,
        ..JobPlanReply::default()
    };
    let response = planned.clone().response(Ok(found.clone()));
    let answer: Value = serde_json::from_slice(&response.body).unwrap();
    let updates = &answer["Annotations"]["DesiredTGUpdates"]["g"];
    assert_eq!((&updates["Stop"], &updates["Ignore"], &updates["Place"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!((&answer["JobModifyIndex"], &answer["Index"]), (&json!(1), &json!(9)));
    assert_eq!((&answer["FailedTGAllocs"], &answer["NextPeriodicLaunch"]), (&Value::Null, &Value::Null));
    let (diff, group) = (&answer["Diff"], &answer["Diff"]["TaskGroups"][0]);
    assert_eq!(
        (&diff["Type"], &diff["ID"], &group["Type"]),
        (&json!("Edited"), &json!("a"), &json!("Edited"))
    );
    assert_eq!(group["Updates"], json!({"destroy": 1, "ignore": 1}));
    let count = group["Fields"].as_array().unwrap().iter().find(|f| f["Name"] == "Count").unwrap();
    let edited =
        json!({"Type": "Edited", "Name": "Count", "Old": "2", "New": "1", "Annotations": ["forces destroy"]});
    assert_eq!(count, &edited);
    let unasked = plan("/v1/job/a/plan", &body.replace(",\"Diff\":true", "")).1.response(Ok(found));
    assert_eq!(serde_json::from_slice::<Value>(&unasked.body).unwrap()["Diff"], Value::Null);
    let refused = planned.response(Err(Refusal::new(RefusalKind::Busy, "later")));
    assert_eq!((refused.status, text(&refused)), (429, "later".into()));
}

#[test]
fn invalid_plans_are_refused_with_the_reason() {
    let world = World::new();
    let good = format!(r#"{{"Job":{}}}"#, job("a", ""));
    for (target, body, status, part) in [
        ("/v1/job/a/plan", "", 400, "Request body is empty"),
        ("/v1/job/a/plan", "{}", 400, "Job must be specified"),
        ("/v1/job/b/plan", good.as_str(), 400, "Job ID does not match"),
        ("/v1/job//plan", &format!(r#"{{"Job":{}}}"#, job("", "")), 400, "Job must have a valid ID"),
        (
            "/v1/job/a/plan",
            &format!(r#"{{"Job":{}}}"#, job("a", r#","Priority":101"#)),
            500,
            "error occurred:",
        ),
    ] {
        let response = world.respond(Method::Put, target, body);
        assert_eq!(response.status, status, "{body}: {}", text(&response));
        assert!(text(&response).contains(part), "{body}: {}", text(&response));
    }
}

#[test]
fn a_dispatch_with_meta_for_no_environment_is_refused() {
    let world = World::new();
    let asked = |meta: Value| {
        let body = json!({ "Meta": meta }).to_string();
        world.step(&request(Method::Put, "/v1/job/form/dispatch", &body), WaitState::default())
    };
    for (meta, part) in [
        (json!({"a=b": "c"}), "Meta key a=b contains '='"),
        (json!({"a": "b\u{0}c"}), "the value of Meta key a contains a NUL character"),
        (json!({"": "c"}), "Meta has an empty key"),
        (
            json!({"a": "b".repeat(130_000), "c": "d".repeat(130_000)}),
            "Meta, with that of the job, makes 520048",
        ),
    ] {
        let RouteOutcome::Respond(response) = asked(meta.clone()) else { panic!("{meta} is taken") };
        assert_eq!(response.status, 400, "{meta}");
        assert!(text(&response).starts_with(part), "{meta}: {}", text(&response));
    }
    assert!(matches!(asked(json!({"a": "b=c"})), RouteOutcome::Write(WriteRequest::DispatchJob { .. }, _)));
}
