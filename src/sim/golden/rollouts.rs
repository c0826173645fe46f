//! Samples of deployments and of what moves them on.

use super::Samples;
use model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus as S, DeploymentStep, DeploymentUpdate, Failure, Verdict,
};
use model::id::DeploymentId;
use model::time::Span;
use state::samples::{AT, alloc_id, eval, eval_id, key};
use std::collections::BTreeMap;
use wire::command::{Command, StepDeploymentCommand};

pub fn verdict() -> Verdict {
    Verdict { alloc: alloc_id(1), deployment: Some(DeploymentId::from_random(4)), healthy: true }
}

/// With every member said.
fn deployment() -> Deployment {
    let group = DeploymentGroup {
        auto_revert: true,
        auto_promote: true,
        progress_deadline: Span::minutes(10),
        require_progress_by: AT,
        promoted: true,
        placed_canaries: vec![alloc_id(1)],
        desired_canaries: 1,
        desired_total: 2,
        placed: 3,
        healthy: 2,
        unhealthy: 1,
    };
    Deployment {
        id: DeploymentId::from_random(4),
        job: key("web"),
        job_create_index: 3,
        job_version: 7,
        job_modify_index: 300,
        groups: BTreeMap::from([("g".to_string(), group)]),
        status: S::Running,
        status_description: "Deployment is running".into(),
        priority: 50,
        create_time: AT,
        modify_time: AT,
        create_index: 301,
        modify_index: 302,
    }
}

pub fn rollouts(s: &mut Samples) {
    s.add::<Deployment>("running", &deployment());
    for status in [S::Paused, S::Failed, S::Successful, S::Cancelled] {
        s.add::<Deployment>(status.as_str(), &Deployment { status, ..deployment() });
    }
    let id = deployment().id;
    let update = DeploymentUpdate { id, status: S::Successful, description: "done".into() };
    let rollout = Command::ApplyPlan {
        eval: eval_id(1),
        nodes: vec![],
        deployment: Some(Box::new(deployment())),
        updates: vec![update],
        evals: vec![eval(1, "web")],
        at: AT,
    };
    s.add("apply plan with a deployment", &rollout);
    let failure = Failure { description: "why".into(), revert: Some(2) };
    let (healthy, unhealthy) = (vec![alloc_id(1)], vec![alloc_id(2)]);
    for (what, step) in [
        ("pause deployment", DeploymentStep::Pause),
        ("resume deployment", DeploymentStep::Resume),
        ("fail deployment", DeploymentStep::Fail(failure.clone())),
        ("promote deployment", DeploymentStep::Promote { groups: Some(vec!["g".into()]) }),
        ("set health", DeploymentStep::SetHealth { healthy, unhealthy, failure: Some(failure) }),
    ] {
        let eval = Some(eval(1, "web"));
        let step = StepDeploymentCommand { deployment: id, step, eval, tracked_versions: 6, at: AT };
        s.add(what, &Command::StepDeployment(Box::new(step)));
    }
}
