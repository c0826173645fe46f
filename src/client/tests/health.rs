//! What a client finds of its allocations' health, and what no crash makes it say too early, twice or otherwise.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use model::deployment::Verdict;
use model::id::DeploymentId;
use model::job::{HealthCheck, JobType, RestartMode, UpdatePolicy};
use model::time::Span;
use wire::rpc::Assignment;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

fn deployment(n: u128) -> Option<DeploymentId> {
    Some(DeploymentId::from_random(n))
}

fn deployed(health_check: HealthCheck) -> Assignment {
    let mut a = assignment(1, &[task("web")]);
    a.group.update = Some(UpdatePolicy {
        stagger: s(30),
        max_parallel: 1,
        health_check,
        min_healthy_time: s(10),
        healthy_deadline: s(60),
        progress_deadline: s(600),
        auto_revert: false,
        auto_promote: false,
        canary: 0,
    });
    a.deployment = deployment(1);
    a
}

fn found(healthy: bool) -> Verdict {
    Verdict { alloc: alloc_id(1), deployment: deployment(1), healthy }
}

#[test]
fn long_running_tasks_are_reported_healthy_once() {
    let mut w = World::new(&[deployed(HealthCheck::TaskStates)]);
    w.pass(s(9));
    assert_eq!(w.verdicts, []);
    w.pass(s(5));
    assert_eq!(w.verdicts, [found(true)]);
    w.exit("web", 1);
    w.pass(s(300));
    assert_eq!(w.verdicts, [found(true)], "what was found stays found");
}

#[test]
fn a_restarted_agent_waits_again_and_does_not_change_its_mind() {
    let mut w = World::new(&[deployed(HealthCheck::TaskStates)]);
    for _ in 0..4 {
        w.pass(s(7));
        w.crash_agent();
    }
    assert_eq!(w.verdicts, [], "nobody has seen it run for ten seconds");
    w.pass(s(15));
    assert_eq!(w.verdicts, [found(true)]);
    w.crash_agent();
    w.pass(s(2));
    w.exit("web", 1);
    w.pass(s(300));
    assert!(w.verdicts.iter().all(|v| *v == found(true)), "{:?}", w.verdicts);
}

#[test]
fn failed_or_late_tasks_are_reported_unhealthy() {
    let mut failing = deployed(HealthCheck::TaskStates);
    failing.group.tasks[0].restart = restart(0, RestartMode::Fail);
    let mut w = World::new(&[failing]);
    w.pass(s(3));
    w.exit("web", 1);
    w.pass(s(3));
    assert_eq!((&w.verdicts[..], w.status(1)), (&[found(false)][..], "failed"));
    assert!(w.events(1, "web").contains(&"Alloc Unhealthy"), "{:?}", w.events(1, "web"));

    let mut w = World::new(&[deployed(HealthCheck::TaskStates)]);
    for _ in 0..2 {
        w.pass(s(8));
        w.exit("web", 1);
        w.pass(s(15));
    }
    w.pass(s(8));
    w.stop_alloc(1);
    w.pass(s(120));
    assert_eq!(w.verdicts, [], "what is stopped is not judged");
}

#[test]
fn health_is_not_watched_without_automatic_rules() {
    for alloc in [deployed(HealthCheck::Manual), assignment(1, &[task("web")])] {
        let mut w = World::new(&[alloc]);
        w.pass(s(120));
        assert_eq!(w.verdicts, []);
    }
}

#[test]
fn a_system_job_is_judged_as_part_of_a_deployment_and_only_then() {
    for (job_type, of, judged) in [
        (JobType::System, deployment(1), true),
        (JobType::System, None, false),
        (JobType::Sysbatch, None, false),
    ] {
        let mut w =
            World::new(&[Assignment { job_type, deployment: of, ..deployed(HealthCheck::TaskStates) }]);
        w.pass(s(15));
        assert_eq!(w.verdicts, if judged { vec![found(true)] } else { vec![] }, "{job_type:?}");
    }
}

#[test]
fn a_new_deployment_wants_a_verdict_of_its_own() {
    let mut w = World::new(&[deployed(HealthCheck::TaskStates)]);
    w.pass(s(15));
    w.change(1, |a| a.deployment = deployment(2));
    w.pass(s(3));
    let second = Verdict { deployment: deployment(2), ..found(true) };
    assert_eq!(w.verdicts, [found(true), second], "it has run for long enough");
}
