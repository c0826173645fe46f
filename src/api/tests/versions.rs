//! A job's older versions over HTTP: what becomes an action, and what is refused.

use super::*;
use model::id::JobKey;
use wire::request::WriteReply;

#[test]
fn tokens_of_a_revert_are_taken_with_a_warning() {
    let world = World::running();
    let body = r#"{"JobID":"web","JobVersion":3,"VaultToken":"x"}"#;
    let (_, answer) = world.act(Method::Put, "/v1/job/web/revert", body);
    let done = WriteReply::Job { eval: Some(eval_id(1)), job_modify_index: 9, index: 9 };
    let told: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
    assert!(told["Warnings"].as_str().unwrap().contains("* VaultToken has no effect"), "{told}");
}

#[test]
fn revert_is_answered_like_a_registration() {
    let world = World::running();
    for method in [Method::Put, Method::Post] {
        let body = r#"{"JobID":"web","JobVersion":3,"EnforcePriorVersion":5,"ConsulToken":""}"#;
        let (action, answer) = world.act(method, "/v1/job/web/revert?namespace=team", body);
        let expected = WriteRequest::RevertJob {
            job: JobKey::new("team", "web"),
            version: 3,
            enforce_prior_version: Some(5),
        };
        assert_eq!(action, expected);
        let done = WriteReply::Job { eval: Some(eval_id(1)), job_modify_index: 9, index: 9 };
        let shown: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
        assert_eq!((&shown["EvalID"], &shown["Index"]), (&eval_id(1).to_string().into(), &9.into()));
    }
    let (action, answer) = world.act(Method::Put, "/v1/job/web/stable", r#"{"JobID":"web","Stable":true}"#);
    assert_eq!(
        action,
        WriteRequest::SetStability { job: JobKey::new("default", "web"), version: 0, stable: true }
    );
    let done = answer.response(Ok(WriteReply::Job { eval: None, job_modify_index: 7, index: 9 }));
    assert_eq!((done.status, text(&done).as_str()), (200, r#"{"JobModifyIndex":7,"Index":9}"#));
}

#[test]
fn a_revert_without_a_job_or_version_is_refused() {
    let world = World::running();
    for (body, status, why) in [
        ("", 400, "Request body is empty"),
        ("{}", 400, "JobID must be specified"),
        (r#"{"JobID":"other"}"#, 400, "Job ID does not match"),
        (r#"{"JobID":"web","JobVersion":-1}"#, 400, "member JobVersion must be a whole number from 0"),
    ] {
        let refused = world.respond(Method::Put, "/v1/job/web/revert", body);
        assert_eq!((refused.status, text(&refused).as_str()), (status, why));
    }
    assert_eq!(world.get("/v1/job/web/revert").status, 405);
    assert_eq!(text(&world.respond(Method::Put, "/v1/job/web/stable", "{}")), "JobID must be specified");
}

#[test]
fn a_version_tag_is_written_and_shown() {
    let mut world = World::running();
    let job = JobKey::new("team", "a/b");
    let wish = |version, description: Option<&str>| WriteRequest::TagVersion {
        job: job.clone(),
        name: "good".into(),
        version,
        description: description.map(str::to_string),
    };
    for (method, body, action) in [
        (Method::Put, r#"{"Version":3,"Description":"why"}"#, wish(Some(3), Some("why"))),
        (Method::Post, r#"{"Version":0,"Latest":true,"Description":"why"}"#, wish(None, Some("why"))),
        (Method::Delete, "", wish(None, None)),
    ] {
        let (found, answer) = world.act(method, "/v1/job/a%2Fb/versions/good/tag?namespace=team", body);
        assert_eq!(found, action);
        let shown: Value =
            serde_json::from_slice(&answer.response(Ok(WriteReply::Tagged { at: AT, index: 9 })).body)
                .unwrap();
        let expected = match method {
            Method::Delete => serde_json::json!(["", "", 0, 9]),
            _ => serde_json::json!(["good", "why", AT.0, 9]),
        };
        let told = ["Name", "Description", "TaggedTime", "Index"].map(|name| shown[name].clone());
        assert_eq!(serde_json::json!(told), expected);
    }
    let long = format!("/v1/job/web/versions/{}/tag", "x".repeat(129));
    assert_eq!(world.respond(Method::Put, &long, "{}").status, 400);
    assert_eq!(world.get("/v1/job/web/versions/good/tag").status, 405);
    let order = wire::command::TagVersionCommand {
        job: JobKey::new("default", "web"),
        name: "good".into(),
        version: None,
        description: Some("why".into()),
        at: AT,
    };
    world.region.run(&Command::TagVersion(Box::new(order))).reply.unwrap();
    let versions = world.get("/v1/job/web/versions?diff_tag=good");
    let shown: Value = serde_json::from_slice(&versions.body).unwrap();
    let tag = serde_json::json!({"Name": "good", "Description": "why", "TaggedTime": AT.0});
    assert_eq!(shown["Versions"][0]["VersionTag"], tag);
    let counts = (shown["Versions"].as_array().map(Vec::len), shown["Diffs"].as_array().map(Vec::len));
    assert_eq!(counts, (Some(1), Some(1)), "as many differences as versions");
}
