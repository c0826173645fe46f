//! Deployments over HTTP: what is shown, what waits, and what users may ask for.

use super::*;
use model::deployment::DeploymentGroup;
use model::id::DeploymentId;
use state::samples::alloc_id;
use wire::request::{DeploymentRequest, WriteReply};

fn id() -> DeploymentId {
    DeploymentId::from_random(5)
}

/// With a deployment of `web`, of which allocation 2 is a part.
fn rolling() -> World {
    let mut world = World::running();
    let job = world.region.job("web");
    let group = DeploymentGroup {
        desired_total: 1,
        progress_deadline: Span::seconds(9),
        ..DeploymentGroup::default()
    };
    let deployment = state::samples::deployment(5, &job, group);
    let mut part = alloc(2, &job, node_id(1), eval_id(1));
    part.deployment = Some(id());
    world.region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: place(vec![part]),
        deployment: Some(Box::new(deployment)),
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    world
}

#[test]
fn deployments_are_shown_wherever_they_are_looked_for() {
    let world = rolling();
    let whole = world.json(&format!("/v1/deployment/{}", id()));
    assert_eq!((&whole["ID"], &whole["JobID"]), (&id().to_string().into(), &"web".into()));
    assert_eq!((&whole["Status"], &whole["IsMultiregion"]), (&"running".into(), &false.into()));
    let group = &whole["TaskGroups"]["g"];
    assert_eq!((&group["PlacedAllocs"], &group["ProgressDeadline"]), (&1.into(), &9_000_000_000i64.into()));
    assert_eq!((&group["PlacedCanaries"], group["RequireProgressBy"].is_string()), (&Value::Null, true));
    assert_eq!(world.json("/v1/job/web/deployment"), whole);
    let prefix = &id().to_string()[..4];
    for list in ["/v1/deployments", "/v1/job/web/deployments", &format!("/v1/deployments?prefix={prefix}")] {
        assert_eq!(world.json(list), serde_json::json!([whole]), "{list}");
    }
    assert_eq!(world.json("/v1/deployments?namespace=other"), serde_json::json!([]));
    for (filter, found) in [("Status%20%3D%3D%20running", 1), ("Status%20%3D%3D%20failed", 0)] {
        let list = world.json(&format!("/v1/deployments?filter={filter}"));
        assert_eq!(list.as_array().map(Vec::len), Some(found), "{filter}");
    }
    let allocs = world.json(&format!("/v1/deployment/allocations/{}", id()));
    assert_eq!(
        (&allocs[0]["ID"], allocs.as_array().map(Vec::len)),
        (&alloc_id(2).to_string().into(), Some(1))
    );
    let part = world.json(&format!("/v1/allocation/{}", alloc_id(2)));
    assert_eq!(part["DeploymentID"], id().to_string());
    let latest = &world.json("/v1/jobs/statuses")[0]["LatestDeployment"];
    assert_eq!((&latest["ID"], &latest["IsActive"]), (&id().to_string().into(), &true.into()));
}

#[test]
fn deployments_are_found_by_prefixes_of_any_length() {
    let world = rolling();
    let whole = id().to_string();
    let found = |prefix: &str| {
        let list = world.json(&format!("/v1/deployments?prefix={prefix}"));
        list.as_array().expect("a list").len()
    };
    for length in 1..=whole.len() {
        assert_eq!(found(&whole[..length]), 1, "{length} characters");
    }
    let other = if whole.starts_with('5') { "6" } else { "5" };
    assert_eq!(found(other), 0, "one digit");
    for digit in 1..4 {
        let last = if &whole[digit..=digit] == "5" { "6" } else { "5" };
        assert_eq!(found(&format!("{}{last}", &whole[..digit])), 0, "{} digits", digit + 1);
    }
    for wrong in ["5x", &format!("{whole}0")] {
        assert_eq!(world.get(&format!("/v1/deployments?prefix={wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn a_deployment_is_waited_for() {
    let world = rolling();
    let index = world.region.view().deployment(id()).unwrap().unwrap().modify_index;
    for target in
        [format!("/v1/deployment/{}", id()), "/v1/deployments".into(), "/v1/job/web/deployment".into()]
    {
        assert!(world.wait(&format!("{target}?index={index}"), WaitState::default()).is_some(), "{target}");
        assert!(
            world.wait(&format!("{target}?index={}", index - 1), WaitState::default()).is_none(),
            "{target}"
        );
    }
}

#[test]
fn deployment_requests_become_deployment_steps() {
    let world = World::new();
    let alloc = alloc_id(2);
    let named = |more: &str| format!(r#"{{"DeploymentID":"{}"{more}}}"#, id());
    let health = format!(r#","HealthyAllocationIDs":["{alloc}"]"#);
    for (verb, body, request) in [
        ("fail", String::new(), DeploymentRequest::Fail),
        ("fail", named(""), DeploymentRequest::Fail),
        ("pause", named(r#","Pause":true"#), DeploymentRequest::Pause),
        ("pause", named(r#","pause":true"#), DeploymentRequest::Pause),
        ("pause", named(r#","Pause":false"#), DeploymentRequest::Resume),
        ("promote", named(r#","All":true"#), DeploymentRequest::Promote { groups: None }),
        (
            "promote",
            named(r#","Groups":["g"]"#),
            DeploymentRequest::Promote { groups: Some(vec!["g".into()]) },
        ),
        (
            "promote",
            named(r#","GROUPS":["g"]"#),
            DeploymentRequest::Promote { groups: Some(vec!["g".into()]) },
        ),
        (
            "allocation-health",
            named(&health.to_lowercase()),
            DeploymentRequest::SetHealth { healthy: vec![alloc], unhealthy: vec![] },
        ),
        (
            "allocation-health",
            named(&health),
            DeploymentRequest::SetHealth { healthy: vec![alloc], unhealthy: vec![] },
        ),
    ] {
        let (action, answer) = world.act(Method::Put, &format!("/v1/deployment/{verb}/{}", id()), &body);
        assert_eq!(action, WriteRequest::StepDeployment { deployment: id(), step: request }, "{verb} {body}");
        let done = WriteReply::Deployment { eval: Some(eval_id(3)), reverted: Some(2), index: 9 };
        let told: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
        let expected = serde_json::json!({
            "EvalID": eval_id(3).to_string(), "EvalCreateIndex": 9, "DeploymentModifyIndex": 9,
            "RevertedJobVersion": 2, "Index": 9,
        });
        assert_eq!(told, expected);
    }
}

#[test]
fn invalid_deployment_steps_are_refused() {
    let world = World::new();
    let named = |more: &str| format!(r#"{{"DeploymentID":"{}"{more}}}"#, id());
    let both = format!(r#","HealthyAllocationIDs":["{0}"],"UnhealthyAllocationIDs":["{0}"]"#, alloc_id(1));
    for (verb, body, status, sentence) in [
        ("pause", String::new(), 400, "Request body is empty"),
        ("pause", named(r#","Pause":3"#), 400, "member Pause must be true or false"),
        ("pause", "{}".into(), 400, "DeploymentID must be specified"),
        ("promote", r#"{"DeploymentID":"x"}"#.into(), 400, "Deployment ID does not match"),
        ("promote", named(""), 400, "name the groups to promote"),
        ("promote", named(r#","All":true,"Groups":["g"]"#), 400, "not both"),
        ("allocation-health", named(""), 500, "must specify at least one healthy/unhealthy allocation ID"),
        ("allocation-health", named(&both), 400, "cannot be healthy and unhealthy"),
        ("unblock", named(""), 500, "deployment not found"),
    ] {
        let response = world.respond(Method::Put, &format!("/v1/deployment/{verb}/{}", id()), &body);
        assert_eq!(response.status, status, "{verb} {body}: {}", text(&response));
        assert!(text(&response).contains(sentence), "{verb} {body}: {}", text(&response));
    }
}
