//! A job's older versions over HTTP: what becomes an action, and what is refused.

use super::*;
use crate::model::id::JobKey;
use crate::wire::request::Done;

#[test]
fn coming_back_to_a_version_is_an_action_answered_like_a_registration() {
    let world = World::running();
    for method in [Method::Put, Method::Post] {
        let body = r#"{"JobID":"web","JobVersion":3,"EnforcePriorVersion":5,"ConsulToken":""}"#;
        let (action, answer) = world.act(method, "/v1/job/web/revert?namespace=team", body);
        let expected =
            Action::RevertJob { job: JobKey::new("team", "web"), version: 3, enforce_prior_version: Some(5) };
        assert_eq!(action, expected);
        let done = Done::Job { eval: Some(eval_id(1)), job_modify_index: 9, index: 9 };
        let shown: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
        assert_eq!((&shown["EvalID"], &shown["Index"]), (&eval_id(1).to_string().into(), &9.into()));
    }
    let (action, answer) = world.act(Method::Put, "/v1/job/web/stable", r#"{"JobID":"web","Stable":true}"#);
    assert_eq!(action, Action::SetStability { job: JobKey::new("default", "web"), version: 0, stable: true });
    let done = answer.response(Ok(Done::Job { eval: None, job_modify_index: 7, index: 9 }));
    assert_eq!((done.status, text(&done).as_str()), (200, r#"{"JobModifyIndex":7,"Index":9}"#));
}

#[test]
fn what_names_no_job_or_no_version_is_told_so() {
    let world = World::running();
    for (body, status, why) in [
        ("", 400, "Request body is empty"),
        ("{}", 400, "JobID must be specified"),
        (r#"{"JobID":"other"}"#, 400, "Job ID does not match"),
        (r#"{"JobID":"web","JobVersion":-1}"#, 400, "member JobVersion must be a whole number from 0"),
        (r#"{"JobID":"web","VaultToken":"t"}"#, 501, "not supported yet: job/:id/revert with VaultToken"),
    ] {
        let refused = world.respond(Method::Put, "/v1/job/web/revert", body);
        assert_eq!((refused.status, text(&refused).as_str()), (status, why));
    }
    assert_eq!(world.get("/v1/job/web/revert").status, 405);
    assert_eq!(text(&world.respond(Method::Put, "/v1/job/web/stable", "{}")), "JobID must be specified");
}
