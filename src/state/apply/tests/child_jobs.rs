//! Launches and children: each launch is decided once, and parents count what there is.

use super::*;
use model::eval::Evaluation;
use model::job::JobSpec;
use model::job_summary::Children;
use model::periodic::Periodic;
use wire::command::LaunchJobCommand;
use wire::request::Refusal;

fn clock(prohibit_overlap: bool) -> JobSpec {
    let periodic = Periodic {
        enabled: true,
        spec: "* * * * *".into(),
        specs: vec![],
        prohibit_overlap,
        time_zone: Periodic::UTC.into(),
    };
    JobSpec { job_type: JobType::Batch, periodic: Some(periodic), ..spec("clock", 1) }
}

/// A launch of the job's first version in a new region, unless it is forced.
fn launch(minutes: i64, forced: bool) -> Command {
    launch_of(if forced { None } else { Some(1) }, minutes)
}

fn launch_of(timed_by: Option<u64>, minutes: i64) -> Command {
    let (eval, moment) = (eval(100 + minutes as u128, "clock"), AT + Span::minutes(minutes));
    let (job, tracked_versions, at) = (key("clock"), 6, AT);
    Command::LaunchJob(Box::new(LaunchJobCommand { job, moment, timed_by, eval, tracked_versions, at }))
}

fn child(minutes: i64) -> String {
    format!("clock/periodic-{}", (AT + Span::minutes(minutes)).unix_seconds())
}

fn children(region: &Region) -> Children {
    region.view().job_summary(&key("clock")).expect("reads").expect("is there").children
}

fn told(region: &mut Region, command: &Command) -> Result<WriteReply, Refusal> {
    region.run(command).reply
}

fn end(region: &mut Region, minutes: i64) {
    let eval = region.view().evals_of_job(&key(&child(minutes))).expect("reads").remove(0);
    let done = Evaluation { status: EvalStatus::Complete, ..eval };
    region.run(&Command::UpdateEvals { evals: vec![done], at: AT });
}

#[test]
fn a_launch_makes_one_child_with_its_evaluation_and_only_once() {
    let mut region = Region::default();
    let done = told(&mut region, &register(clock(false), Some(eval(1, "clock")))).expect("is taken");
    assert!(matches!(done, WriteReply::Job { eval: None, .. }), "what makes others runs nothing: {done:?}");
    assert_eq!(region.job("clock").status, JobStatus::Running);
    assert!(matches!(told(&mut region, &launch(1, false)), Ok(WriteReply::Job { eval: Some(_), .. })));
    let made = region.job(&child(1));
    assert_eq!((made.spec.name.as_str(), made.spec.parent.as_str()), (child(1).as_str(), "clock"));
    assert_eq!((made.spec.periodic, made.status), (None, JobStatus::Pending));
    for (minutes, why) in [(1, "it was launched"), (0, "it lies behind")] {
        assert!(
            matches!(told(&mut region, &launch(minutes, false)), Ok(WriteReply::Nothing { .. })),
            "{why}"
        );
    }
    assert_eq!(region.job(&child(1)).version, 0);
    assert_eq!(region.view().evals_of_job(&key(&child(1))).expect("reads").len(), 1);
    assert_eq!(region.view().launched(&key("clock")).expect("reads"), Some(AT + Span::minutes(1)));
}

#[test]
fn prohibit_overlap_skips_launches_while_a_child_runs() {
    let mut region = Region::default();
    told(&mut region, &register(clock(true), None)).expect("is taken");
    told(&mut region, &launch(1, false)).expect("is launched");
    assert!(matches!(told(&mut region, &launch(2, false)), Ok(WriteReply::Nothing { .. })));
    assert_eq!(
        region.view().launched(&key("clock")).expect("reads"),
        Some(AT + Span::minutes(2)),
        "it is decided"
    );
    told(&mut region, &launch(3, true)).expect("by hand it is launched all the same");
    assert_eq!(
        region.view().launched(&key("clock")).expect("reads"),
        Some(AT + Span::minutes(2)),
        "by hand counts not"
    );
    assert_eq!(children(&region), Children { pending: 2, running: 0, dead: 0 });
    [1, 3].into_iter().for_each(|n| end(&mut region, n));
    assert_eq!(children(&region), Children { pending: 0, running: 0, dead: 2 });
    assert!(matches!(told(&mut region, &launch(4, false)), Ok(WriteReply::Job { .. })));
}

#[test]
fn children_outlive_a_purged_parent() {
    let mut region = Region::default();
    told(&mut region, &register(clock(false), None)).expect("is taken");
    [1, 2].into_iter().for_each(|n| drop(told(&mut region, &launch(n, false))));
    end(&mut region, 1);
    let purge = |id: &str| Command::PurgeJob { job: key(id), eval: None, at: AT };
    told(&mut region, &purge("clock")).expect("goes");
    assert_eq!(region.job(&child(2)).status, JobStatus::Pending);
    told(&mut region, &register(clock(false), None)).expect("is taken");
    assert_eq!(children(&region), Children { pending: 1, running: 0, dead: 0 }, "those that have not ended");
    told(&mut region, &purge(&child(2))).expect("goes");
    assert_eq!(children(&region), Children { pending: 0, running: 0, dead: 1 }, "what is gone has ended");
    told(&mut region, &purge(&child(1))).expect("goes");
    assert_eq!(children(&region), Children { pending: 0, running: 0, dead: 1 });
}

#[test]
fn children_without_a_parent_are_counted_where_they_are() {
    let mut region = Region::default();
    told(&mut region, &register(clock(false), None)).expect("is taken");
    [1, 2, 3].into_iter().for_each(|n| drop(told(&mut region, &launch(n, false))));
    let purge = |id: &str| Command::PurgeJob { job: key(id), eval: None, at: AT };
    told(&mut region, &purge("clock")).expect("goes");
    crate::check::consistent(&region.view()).expect("three are pending");
    end(&mut region, 1);
    crate::check::consistent(&region.view()).expect("two are pending");
    told(&mut region, &purge(&child(2))).expect("goes");
    told(&mut region, &register(clock(false), None)).expect("is taken");
    assert_eq!(children(&region), Children { pending: 1, running: 0, dead: 0 });
    told(&mut region, &purge("clock")).expect("goes");
    end(&mut region, 3);
    crate::check::consistent(&region.view()).expect("nothing is left to count");
}

#[test]
fn impossible_launches_and_kind_changes_are_refused() {
    let mut region = Region::default();
    let refused = |region: &mut Region, command: &Command, why: &str| {
        let refusal = told(region, command).expect_err(why);
        assert!(refusal.message.contains(why), "{refusal}");
    };
    refused(&mut region, &launch(1, true), "job not found");
    told(&mut region, &register(spec("clock", 1), None)).expect("is taken");
    refused(&mut region, &launch(1, true), "can't force launch non-periodic job");
    let batch = JobSpec { periodic: None, ..clock(false) };
    let mut region = Region::default();
    told(&mut region, &register(batch.clone(), None)).expect("is taken");
    refused(&mut region, &register(clock(false), None), "cannot update non-periodic job to being periodic");
    let mut region = Region::default();
    told(&mut region, &register(clock(false), None)).expect("is taken");
    refused(&mut region, &register(batch, None), "cannot update periodic job to being non-periodic");
    told(
        &mut region,
        &Command::StopJob {
            job: key("clock"),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        },
    )
    .expect("stops");
    assert_eq!(region.job("clock").status, JobStatus::Dead);
    refused(&mut region, &launch(1, true), "can't force run non-tracked job \"clock\" (default)");
}

#[test]
fn periodic_children_keep_type_and_priority() {
    let mut region = Region::default();
    let everywhere = JobSpec { job_type: JobType::Sysbatch, priority: 70, ..clock(false) };
    told(&mut region, &register(everywhere, None)).expect("is taken");
    told(&mut region, &launch(1, false)).expect("is launched");
    let eval = region.view().evals_of_job(&key(&child(1))).expect("reads").remove(0);
    assert_eq!((eval.job_type, eval.priority), (JobType::Sysbatch, 70));
    assert_eq!(eval.job_modify_index, region.job(&child(1)).job_modify_index);
}

#[test]
fn a_launch_leaves_a_user_job_with_the_childs_id_alone() {
    let mut region = Region::default();
    told(&mut region, &register(clock(false), None)).expect("is taken");
    told(&mut region, &register(spec(&child(1), 1), None)).expect("is taken");
    let batch = JobSpec { job_type: JobType::Batch, ..spec(&child(2), 1) };
    told(&mut region, &register(batch, None)).expect("is taken");
    for minutes in [1, 2] {
        let before = region.job(&child(minutes));
        let refusal = told(&mut region, &launch(minutes, true)).expect_err("is somebody's own");
        assert!(refusal.message.contains("has not launched it: try again"), "{refusal}");
        assert!(matches!(told(&mut region, &launch(minutes, false)), Ok(WriteReply::Nothing { .. })));
        assert_eq!(region.job(&child(minutes)), before);
    }
    assert_eq!(children(&region), Children::default(), "nor is it counted");
    told(&mut region, &launch(3, true)).expect("is launched");
    told(&mut region, &launch(3, true)).expect("the same second's is its own");
    assert_eq!(children(&region).pending, 1);
}

#[test]
fn a_new_version_has_its_own_submit_time() {
    let mut region = Region::default();
    told(&mut region, &register(clock(false), None)).expect("is taken");
    told(&mut region, &launch(1, false)).expect("is launched");
    let again = |spec: JobSpec, at: Wall| {
        let order = wire::command::RegisterJobCommand { at, ..registration(spec, None) };
        Command::RegisterJob(Box::new(order))
    };
    told(&mut region, &again(clock(false), AT + Span::hours(1))).expect("is taken");
    let launched = |region: &Region| region.view().launched(&key("clock")).expect("reads");
    assert_eq!(launched(&region), Some(AT + Span::minutes(1)), "nothing has changed");
    told(&mut region, &again(clock(true), AT + Span::hours(1))).expect("is taken");
    assert_eq!(launched(&region), Some(AT + Span::hours(1)));
    let old = told(&mut region, &launch_of(Some(1), 120));
    assert!(
        matches!(old, Ok(WriteReply::Nothing { .. })),
        "the times were those of an older version: {old:?}"
    );
    assert_eq!(launched(&region), Some(AT + Span::hours(1)));
    let mut changed = region.job(&child(1)).spec;
    (changed.parent, changed.priority) = (String::new(), 80);
    told(&mut region, &again(changed, AT)).expect("is taken");
    let child = region.job(&child(1));
    assert_eq!((child.version, child.spec.parent.as_str()), (1, "clock"));
    assert_eq!(children(&region), Children { pending: 1, running: 0, dead: 0 });
}
