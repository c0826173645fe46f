//! Dispatching: one child for each token, and parents' versions that stay while children are made of them.

use super::*;
use crate::check;
use crate::scans::RangeScan;
use model::dispatch::{DispatchRequest, Parameterized, PayloadRule};
use model::eval::Evaluation;
use model::garbage::{Cutoffs, Garbage};
use model::job::JobSpec;
use model::job_summary::Children;
use wire::command::{CollectGarbageCommand, DispatchJobCommand};
use wire::request::Refusal;

fn form() -> JobSpec {
    let rules = Parameterized {
        payload: PayloadRule::Optional,
        meta_required: vec![],
        meta_optional: vec!["who".into()],
    };
    let meta = [("who".to_string(), "nobody".to_string())].into();
    JobSpec { job_type: JobType::Batch, parameterized: Some(rules), meta, ..spec("form", 1) }
}

fn request(token: &str) -> DispatchRequest {
    let meta = [("who".to_string(), "me".to_string())].into();
    let (prefix, token) = (String::new(), token.to_string());
    DispatchRequest { job: key("form"), payload: vec![1, 2, 3], meta, prefix, token, priority: 0 }
}

fn dispatch(n: u128, request: DispatchRequest) -> Command {
    Command::DispatchJob(Box::new(DispatchJobCommand { request, eval: eval_id(n), at: AT }))
}

fn told(region: &mut Region, command: &Command) -> Result<WriteReply, Refusal> {
    let reply = region.run(command).reply;
    check::consistent(&region.view()).expect("whole");
    reply
}

/// The child's id, and whether it is new.
fn made(region: &mut Region, n: u128, token: &str) -> (String, bool) {
    match told(region, &dispatch(n, request(token))).expect("is dispatched") {
        WriteReply::Dispatched { job, eval, .. } => (job, eval.is_some()),
        other => panic!("{other:?}"),
    }
}

fn begun() -> Region {
    let mut region = Region::default();
    let done = told(&mut region, &register(form(), Some(eval(1, "form")))).expect("is taken");
    assert!(matches!(done, WriteReply::Job { eval: None, .. }), "it runs nothing itself: {done:?}");
    region
}

fn purge(id: &str) -> Command {
    Command::PurgeJob { job: key(id), eval: None, at: AT }
}

fn end(region: &mut Region, child: &str) {
    let eval = region.view().evals_of_job(&key(child)).expect("reads").remove(0);
    let done = Evaluation { status: EvalStatus::Complete, ..eval };
    told(region, &Command::UpdateEvals { evals: vec![done], at: AT }).expect("ends");
}

fn children(region: &Region) -> Children {
    region.view().job_summary(&key("form")).expect("reads").expect("is there").children
}

/// Rows of jobs' versions, and the bytes of all of them.
fn kept(region: &Region) -> (usize, usize) {
    let rows = check::rows(&region.view()).expect("reads");
    let specs: Vec<_> = rows.iter().filter(|(key, _)| check::is_spec(key)).collect();
    (specs.len(), specs.iter().map(|(_, value)| value.len()).sum())
}

#[test]
fn a_dispatch_makes_a_child_with_its_evaluation_in_one_entry() {
    let mut region = begun();
    let (id, new) = made(&mut region, 7, "");
    assert!(new && id == "form/dispatch-1700000000-00000000", "{id}");
    let child = region.job(&id);
    assert_eq!((child.spec.name.as_str(), child.spec.parent.as_str()), (id.as_str(), "form"));
    assert_eq!((child.spec.meta["who"].as_str(), child.status), ("me", JobStatus::Pending));
    assert_eq!(child.spec.groups, form().groups, "what it shares with its parent is there");
    assert_eq!(child.spec.dispatch.as_ref().map(|d| d.payload.as_slice()), Some(&[1, 2, 3][..]));
    let evals = region.view().evals_of_job(&key(&id)).expect("reads");
    assert_eq!((evals.len(), evals[0].id, evals[0].job_type), (1, eval_id(7), JobType::Batch));
    assert_eq!(children(&region), Children { pending: 1, running: 0, dead: 0 });
    end(&mut region, &id);
    assert_eq!(children(&region), Children { pending: 0, running: 0, dead: 1 });
    let heads = region.view().job_headers(None, "form", None, 9).expect("reads");
    let told: Vec<_> = heads.iter().map(|h| (h.relation.is_parameterized(), h.relation.parent())).collect();
    assert_eq!(told, [(true, ""), (false, "form")]);
}

#[test]
fn an_idempotency_token_makes_one_child_while_it_exists() {
    let mut region = begun();
    let (first, _) = made(&mut region, 1, "once");
    assert_eq!(made(&mut region, 2, "once"), (first.clone(), false));
    assert_eq!(children(&region).pending, 1);
    assert_ne!(made(&mut region, 3, "twice").0, first);
    assert_ne!(made(&mut region, 4, "").0, made(&mut region, 5, "").0, "without a token each is new");
    told(
        &mut region,
        &Command::StopJob {
            job: key(&first),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        },
    )
    .expect("stops");
    assert_eq!(made(&mut region, 6, "once"), (first.clone(), false), "it has ended, and is there");
    told(&mut region, &purge("form")).expect("goes");
    told(&mut region, &register(form(), None)).expect("is taken");
    assert_eq!(made(&mut region, 7, "once"), (first.clone(), false), "its parent is another one");
    told(&mut region, &purge(&first)).expect("goes");
    assert!(made(&mut region, 8, "once").1, "nobody remembers it");
}

#[test]
fn dispatches_of_one_second_get_different_ids() {
    let mut region = begun();
    let (first, second) = (made(&mut region, 7, ""), made(&mut region, 8, ""));
    assert_eq!(first.0, "form/dispatch-1700000000-00000000");
    assert_eq!(second.0, "form/dispatch-1700000000-00000001");
    let prefixed = DispatchRequest { prefix: "night".into(), ..request("") };
    match told(&mut region, &dispatch(9, prefixed)) {
        Ok(WriteReply::Dispatched { job, .. }) => assert_eq!(job, "form/dispatch-night-1700000000-00000000"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refused_dispatches_write_nothing() {
    let refused = |region: &mut Region, request: DispatchRequest, why: &str| {
        let before = region.view().digest();
        let refusal = told(region, &dispatch(9, request)).expect_err(why);
        assert!(refusal.message.contains(why) && refusal.kind == RefusalKind::Validation, "{refusal}");
        assert_eq!(region.view().digest(), before, "{why}");
    };
    let mut region = begun();
    refused(&mut region, DispatchRequest { job: key("none"), ..request("") }, "parameterized job not found");
    told(&mut region, &register(spec("plain", 1), None)).expect("is taken");
    let why = "Specified job \"plain\" is not a parameterized job";
    refused(&mut region, DispatchRequest { job: key("plain"), ..request("") }, why);
    let (child, _) = made(&mut region, 1, "once");
    refused(&mut region, DispatchRequest { job: key(&child), ..request("") }, "is not a parameterized job");
    refused(
        &mut region,
        DispatchRequest { prefix: "a b".into(), ..request("") },
        "made of its parent's and id_prefix_template, cannot be: Job ID contains a space",
    );
    let meta = [("what".to_string(), String::new())].into();
    refused(&mut region, DispatchRequest { meta, ..request("once") }, "unpermitted metadata keys: [what]");
    told(
        &mut region,
        &Command::StopJob {
            job: key("form"),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        },
    )
    .expect("stops");
    assert_eq!(region.job(&child).status, JobStatus::Pending, "children outlive it");
    refused(&mut region, request("once"), "Specified job \"form\" is stopped");
}

#[test]
fn kind_changes_of_parameterized_jobs_are_refused() {
    let conflict = |region: &mut Region, spec: JobSpec, why: &str| {
        let refusal = told(region, &register(spec, None)).expect_err(why);
        assert_eq!((refusal.message.as_str(), refusal.kind), (why, RefusalKind::Conflict));
    };
    let mut region = begun();
    let plain = JobSpec { parameterized: None, ..form() };
    conflict(&mut region, plain, "cannot update parameterized job to being non-parameterized");
    let (child, _) = made(&mut region, 1, "");
    let other = JobSpec { id: child, priority: 80, parameterized: None, ..form() };
    conflict(&mut region, other, "field 'Dispatched' is read-only");
    let mut region = Region::default();
    told(&mut region, &register(JobSpec { parameterized: None, ..form() }, None)).expect("is taken");
    conflict(&mut region, form(), "cannot update non-parameterized job to being parameterized");
}

#[test]
fn a_dispatched_version_is_kept_and_children_are_small() {
    let mut region = begun();
    let (versions, bytes) = kept(&region);
    let (first, _) = made(&mut region, 1, "");
    let (second, _) = made(&mut region, 2, "");
    let (more, grown) = kept(&region);
    assert_eq!(more, versions + 2);
    assert!(grown - bytes < 2 * 160, "{} bytes for two", grown - bytes);
    let mut changed = form();
    changed.groups[0].count = 5;
    for n in 0..8 {
        changed.priority = 60 + n;
        told(&mut region, &register(changed.clone(), None)).expect("is taken");
    }
    assert_eq!(region.job(&first).spec.groups[0].count, 1, "as it was when it was dispatched");
    let (third, _) = made(&mut region, 3, "");
    assert_eq!(region.job(&third).spec.groups[0].count, 5);
    told(&mut region, &purge("form")).expect("goes");
    assert_eq!(region.job(&second).spec.groups, form().groups, "its parent is gone");
    told(
        &mut region,
        &Command::StopJob {
            job: key(&first),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        },
    )
    .expect("stops");
    assert!(region.job(&first).spec.stop && region.job(&first).spec.groups == form().groups);
    for child in [&first, &third, &second] {
        told(&mut region, &purge(child)).expect("goes");
    }
    assert_eq!(kept(&region), (0, 0), "nothing is made of it any more");
}

#[test]
fn gc_of_children_forgets_their_tokens() {
    let mut region = begun();
    let (first, _) = made(&mut region, 1, "once");
    end(&mut region, &first);
    told(
        &mut region,
        &Command::StopJob {
            job: key("form"),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        },
    )
    .expect("stops");
    let garbage = Garbage::Jobs(vec![key("form"), key(&first)]);
    let order = CollectGarbageCommand { garbage, before: Cutoffs::FORCED, tracked_versions: 6, at: AT };
    let gone = told(&mut region, &Command::CollectGarbage(Box::new(order)));
    assert!(matches!(gone, Ok(WriteReply::Deleted { count: 2, .. })), "{gone:?}");
    assert_eq!(kept(&region), (0, 0));
    told(&mut region, &register(form(), None)).expect("is taken");
    assert!(made(&mut region, 2, "once").1);
}

#[test]
fn a_dispatched_periodic_job_launches_by_itself() {
    use model::periodic::Periodic;
    let periodic = Periodic {
        enabled: true,
        spec: "* * * * *".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: Periodic::UTC.into(),
    };
    let mut region = Region::default();
    told(&mut region, &register(JobSpec { periodic: Some(periodic), ..form() }, None)).expect("is taken");
    assert_eq!(region.view().launched(&key("form")).expect("reads"), None, "nothing launches it");
    let (child, evaluated) = made(&mut region, 1, "");
    assert!(!evaluated, "it waits for its time");
    assert_eq!(region.view().launched(&key(&child)).expect("reads"), Some(AT));
    assert_eq!(region.job(&child).status, JobStatus::Running);
    assert_eq!(
        region.view().scan_system_and_periodic_jobs(&mut RangeScan::default(), 10).expect("reads"),
        [key(&child)]
    );
    let launch = wire::command::LaunchJobCommand {
        job: key(&child),
        moment: AT + Span::minutes(1),
        timed_by: None,
        eval: eval(5, &child),
        tracked_versions: 6,
        at: AT,
    };
    told(&mut region, &Command::LaunchJob(Box::new(launch))).expect("is launched");
    let grandchild = region.job(&format!("{child}/periodic-{}", (AT + Span::minutes(1)).unix_seconds()));
    assert_eq!(
        (grandchild.spec.parent.as_str(), grandchild.spec.meta["who"].as_str()),
        (child.as_str(), "me")
    );
    assert_eq!(grandchild.spec.dispatch.map(|d| d.payload), Some(vec![1, 2, 3]));
}
