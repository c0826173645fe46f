//! What is collected, kind by kind: when it is as old as it has to be, to the nanosecond, and never while something needs it
//! (server.md 14). The thresholds are those that hold when nobody says otherwise.

use super::*;
use crate::check;
use model::deployment::{Deployment, DeploymentStatus, DeploymentUpdate};
use model::eval::Evaluation;
use model::garbage::{Cutoffs, Garbage, GarbageRules};
use wire::command::CollectGarbageCommand;

fn collect(r: &mut Region, garbage: Garbage, before: Cutoffs) -> u64 {
    let order = CollectGarbageCommand { garbage, before, tracked_versions: 6, at: AT };
    let reply = r.run(&Command::CollectGarbage(Box::new(order))).reply;
    check::consistent(&r.view()).expect("whole");
    match reply {
        Ok(WriteReply::Deleted { count, .. }) => count,
        other => panic!("{other:?}"),
    }
}

/// It goes once it is as old as that, and not a moment before. `since`: when it came to be so.
fn goes_after(r: &mut Region, garbage: Garbage, since: Wall, kept: Span) {
    let before = |age: Span| Cutoffs::of(&GarbageRules::default(), since + age);
    assert_eq!(collect(r, garbage.clone(), before(Span(kept.0 - 1))), 0, "{garbage:?} is too young");
    assert_eq!(collect(r, garbage.clone(), before(kept)), 1, "{garbage:?} is old enough");
}

fn stays(r: &mut Region, garbage: Garbage, why: &str) {
    assert_eq!(collect(r, garbage, Cutoffs::FORCED), 0, "{why}");
}

fn jobs(id: &str) -> Garbage {
    Garbage::Jobs(vec![key(id)])
}

/// When they ended.
fn end_evals(r: &mut Region, id: &str) -> Wall {
    let at = AT + Span::minutes(1);
    for eval in r.view().evals_of_job(&key(id)).expect("reads") {
        let evals = vec![Evaluation { status: EvalStatus::Complete, ..eval }];
        r.run(&Command::UpdateEvals { evals, at });
    }
    at
}

fn stop(r: &mut Region, id: &str, at: Wall) {
    r.run(&Command::StopJob { job: key(id), no_shutdown_delay: false, eval: None, tracked_versions: 6, at });
}

#[test]
fn r14_eval_gc_thresholds() {
    let mut r = Region::default();
    for (n, job_type, kept) in [
        (1, JobType::Service, Span::hours(1)),
        (2, JobType::System, Span::hours(1)),
        (3, JobType::Sysbatch, Span::hours(1)),
        (4, JobType::Batch, Span::hours(24)),
    ] {
        let id = format!("job-{n}");
        r.run(&register(JobSpec { job_type, ..spec(&id, 1) }, Some(Evaluation { job_type, ..eval(n, &id) })));
        stays(&mut r, Garbage::Evals(vec![eval_id(n)]), "it is open");
        let ended = end_evals(&mut r, &id);
        goes_after(&mut r, Garbage::Evals(vec![eval_id(n)]), ended, kept);
    }
}

#[test]
fn r14_an_eval_is_collected_after_its_allocs() {
    let mut r = running();
    stays(&mut r, Garbage::Evals(vec![eval_id(1)]), "what it placed is there");
    stays(&mut r, Garbage::Allocs(vec![alloc_id(1)]), "it runs");
    let updates = vec![report(1, ClientStatus::Complete)];
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    stays(&mut r, Garbage::Evals(vec![eval_id(1)]), "what it placed is there");
    goes_after(&mut r, Garbage::Allocs(vec![alloc_id(1)]), AT, Span::hours(1));
    let ended = r.view().eval(eval_id(1)).expect("reads").expect("is there").modify_time;
    goes_after(&mut r, Garbage::Evals(vec![eval_id(1)]), ended, Span::hours(1));
}

#[test]
fn r14_job_gc_threshold() {
    for job_type in [JobType::Batch, JobType::Sysbatch] {
        let mut r = Region::default();
        let spec = JobSpec { job_type, ..spec("done", 1) };
        r.run(&register(spec, Some(Evaluation { job_type, ..eval(1, "done") })));
        stays(&mut r, jobs("done"), "it is to be evaluated");
        let ended = end_evals(&mut r, "done");
        assert_eq!(r.job("done").status, JobStatus::Dead);
        goes_after(&mut r, jobs("done"), ended, Span::hours(4));
        assert!(r.view().evals_of_job(&key("done")).expect("reads").is_empty(), "with all that is its own");
    }
    for job_type in [JobType::Service, JobType::System] {
        let mut r = Region::default();
        r.run(&register(JobSpec { job_type, ..spec("web", 0) }, Some(eval(1, "web"))));
        end_evals(&mut r, "web");
        stays(&mut r, jobs("web"), "it is wanted");
        stop(&mut r, "web", AT + Span::hours(1));
        goes_after(&mut r, jobs("web"), AT + Span::hours(1), Span::hours(4));
    }
}

#[test]
fn r14_a_parent_job_is_collected_once_stopped() {
    use model::dispatch::{Parameterized, PayloadRule};
    use model::periodic::Periodic;
    let batch = JobSpec { job_type: JobType::Batch, ..spec("maker", 1) };
    let periodic = Periodic {
        enabled: false,
        spec: "@daily".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: Periodic::UTC.into(),
    };
    let rules =
        Parameterized { payload: PayloadRule::Optional, meta_required: vec![], meta_optional: vec![] };
    for maker in [
        JobSpec { periodic: Some(periodic), ..batch.clone() },
        JobSpec { parameterized: Some(rules), ..batch.clone() },
    ] {
        let mut r = Region::default();
        r.run(&register(maker, None));
        stays(&mut r, jobs("maker"), "it may make others any time");
        stop(&mut r, "maker", AT);
        goes_after(&mut r, jobs("maker"), AT, Span::hours(4));
    }
}

#[test]
fn r14_node_gc_threshold() {
    let mut r = running();
    let node = || Garbage::Nodes(vec![node_id(1)]);
    stays(&mut r, node(), "it is ready");
    let down = NodeStatus::Down;
    r.run(&Command::UpdateNodeStatus { node: node_id(1), status: down, event: None, evals: vec![], at: AT });
    stays(&mut r, node(), "something is still to run there");
    let stops = vec![AllocStop {
        id: alloc_id(1),
        description: "alloc is lost since its node is down".into(),
        client: Some(ClientStatus::Lost),
    }];
    r.run(&plan(1, vec![NodePlan { node_id: node_id(1), stops, places: vec![] }]));
    goes_after(&mut r, node(), AT, Span::hours(24));
    assert!(r.view().node(node_id(1)).expect("reads").is_none());
    assert_eq!(r.alloc(1).client, ClientStatus::Lost, "what is told of it stays");
}

/// A deployment of the newest version, and what becomes of the one before it.
fn deploy(r: &mut Region, n: u128, ended: Option<DeploymentStatus>) -> Deployment {
    let made = deployment(n, &r.job("web"), super::deployments::group(0));
    let rollout = |deployment: Option<&Deployment>, updates| Command::ApplyPlan {
        eval: eval_id(n),
        nodes: vec![],
        deployment: deployment.cloned().map(Box::new),
        updates,
        evals: vec![],
        at: AT,
    };
    r.run(&rollout(Some(&made), vec![]));
    if let Some(status) = ended {
        let updates = vec![DeploymentUpdate { id: made.id, status, description: "over".into() }];
        r.run(&rollout(None, updates));
    }
    made
}

#[test]
fn r14_deployment_gc_threshold() {
    let mut r = Region::default();
    r.run(&register(spec("web", 1), None));
    let first = deploy(&mut r, 1, Some(DeploymentStatus::Failed));
    let of = |d: &Deployment| Garbage::Deployments(vec![d.id]);
    stays(&mut r, of(&first), "it is the newest");
    r.run(&register(JobSpec { priority: 60, ..spec("web", 1) }, None));
    let second = deploy(&mut r, 2, None);
    stays(&mut r, of(&second), "it is under way");
    goes_after(&mut r, of(&first), AT, Span::hours(1));

    let mut r = running();
    let first = deploy(&mut r, 1, Some(DeploymentStatus::Successful));
    r.run(&register(JobSpec { priority: 60, ..spec("web", 1) }, None));
    deploy(&mut r, 2, None);
    stays(&mut r, of(&first), "an allocation of its version is there");
}

/// What `/v1/job/:id/allocations` shows as its index.
#[test]
fn the_index_of_a_jobs_allocations_never_goes_back() {
    let mut r = running();
    let index = |r: &Region| r.view().table_index(Table::Allocs);
    let placed = index(&r);
    let updates = vec![report(1, ClientStatus::Complete)];
    let ended = r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    assert_eq!(index(&r), ended.index);
    assert!(placed < ended.index);

    assert_eq!(collect(&mut r, Garbage::Allocs(vec![alloc_id(1)]), Cutoffs::FORCED), 1);
    assert!(r.view().allocs_of_job(&key("web")).expect("reads").is_empty());
    let collected = r.view().index();
    assert_eq!(index(&r), collected, "it goes on with the entry that took the last one away");

    end_evals(&mut r, "web");
    stop(&mut r, "web", AT);
    assert_eq!(collect(&mut r, jobs("web"), Cutoffs::FORCED), 1);
    assert_eq!(index(&r), collected, "it stays with the job's end, too");
}
