//! Coming back to older versions, and which of them are good.

use super::super::super::store::ApplyResult;
use super::*;
use crate::check;
use model::alloc::Allocation;
use model::job::VersionTag;
use wire::command::{RevertJobCommand, TagVersionCommand};

fn revert(r: &mut Region, version: u64, enforce_prior_version: Option<u64>) -> ApplyResult {
    let eval = Some(eval(50 + u128::from(version), "web"));
    let order = RevertJobCommand {
        job: key("web"),
        version,
        enforce_prior_version,
        eval,
        tracked_versions: 6,
        at: AT,
    };
    r.run(&Command::RevertJob(Box::new(order)))
}

fn refused(out: ApplyResult) -> String {
    assert!(out.changes.is_empty(), "nothing has changed");
    out.reply.expect_err("is refused").message
}

/// Three versions, with one, two and three allocations wanted.
fn versions() -> Region {
    let mut r = Region::default();
    for count in 1..=3 {
        r.run(&submit(spec("web", count), &format!("text {count}"), 6));
    }
    r
}

#[test]
fn revert_makes_a_new_version_with_the_old_submission() {
    let mut r = versions();
    let out = revert(&mut r, 0, Some(2));
    let evaluation = eval(50, "web").id;
    let index = out.index;
    assert_eq!(out.reply, Ok(WriteReply::Job { eval: Some(evaluation), job_modify_index: index, index }));
    let job = r.job("web");
    assert_eq!((job.version, job.spec.groups[0].count, job.stable), (3, 1, false));
    let view = r.view();
    assert_eq!(view.submission(&job).unwrap().map(|s| s.source).as_deref(), Some("text 1"));
    assert_eq!(view.eval(evaluation).unwrap().map(|e| e.job_modify_index), Some(index));
    check::consistent(&view).unwrap();
}

#[test]
fn what_cannot_be_come_back_to_is_said() {
    let mut r = versions();
    assert_eq!(refused(revert(&mut r, 2, None)), "can't revert to current version");
    let unknown = "job \"web\" in namespace \"default\" at version 9 not found";
    assert_eq!(refused(revert(&mut r, 9, None)), unknown);
    assert_eq!(refused(revert(&mut r, 0, Some(7))), "Current job has version 2; enforcing version 7");
    r.run(&Command::PurgeJob { job: key("web"), eval: None, at: AT });
    assert_eq!(refused(revert(&mut r, 0, None)), "job \"web\" not found");
}

#[test]
fn reverting_to_an_equal_version_makes_none() {
    let mut r = versions();
    r.run(&submit(spec("web", 1), "again", 6));
    let before = r.job("web");
    let out = revert(&mut r, 0, None);
    let (index, answer) = (out.index, before.modify_index);
    let eval = Some(eval(50, "web").id);
    assert_eq!(out.reply, Ok(WriteReply::Job { eval, job_modify_index: answer, index }));
    assert_eq!(r.job("web").version, before.version);
    r.run(&Command::StopJob {
        job: key("web"),
        no_shutdown_delay: false,
        eval: None,
        tracked_versions: 6,
        at: AT,
    });
    revert(&mut r, 1, None);
    assert!(!r.job("web").spec.stop, "a stopped job runs again");
    revert(&mut r, 4, None);
    assert!(r.job("web").spec.stop);
}

#[test]
fn a_version_is_called_good_and_no_longer_so() {
    let mut r = versions();
    let stable = |r: &Region| {
        let all = r.view().job_versions(&key("web")).unwrap();
        all.iter().filter(|v| v.stable).map(|v| v.version).collect::<Vec<_>>()
    };
    let mark =
        |r: &mut Region, version, stable| r.run(&Command::SetStability { job: key("web"), version, stable });
    let out = mark(&mut r, 0, true);
    assert_eq!((stable(&r), out.changes.len()), (vec![0], 1), "and whoever looks at the versions is woken");
    assert_eq!(mark(&mut r, 0, true).changes.len(), 0, "it was");
    mark(&mut r, 2, true);
    mark(&mut r, 0, false);
    assert_eq!(stable(&r), [2]);
    let unknown = "job \"web\" in namespace \"default\" at version 9 not found";
    assert_eq!(refused(mark(&mut r, 9, true)), unknown);
    check::consistent(&r.view()).unwrap();
}

fn tag(r: &mut Region, name: &str, version: Option<u64>, description: Option<&str>) -> ApplyResult {
    let (name, description) = (name.to_string(), description.map(str::to_string));
    r.run(&Command::TagVersion(Box::new(TagVersionCommand {
        job: key("web"),
        name,
        version,
        description,
        at: AT,
    })))
}

/// Newest first.
fn names(r: &Region) -> Vec<(u64, Option<String>)> {
    let all = r.view().job_versions(&key("web")).unwrap();
    all.into_iter().map(|v| (v.version, v.tag.map(|tag| tag.name))).collect()
}

#[test]
fn a_version_has_one_name_and_a_name_one_version() {
    let mut r = versions();
    let out = tag(&mut r, "good", Some(1), Some("why"));
    assert_eq!(out.reply, Ok(WriteReply::Tagged { at: AT, index: out.index }));
    assert_eq!(out.changes, [Change::Job { job: key("web") }], "whoever looks at the versions is woken");
    let named = r.view().job_versions(&key("web")).unwrap().remove(1);
    let expected = VersionTag { name: "good".into(), description: "why".into(), at: AT };
    assert_eq!((named.tag, named.modify_index), (Some(expected), out.index));
    assert_eq!(
        refused(tag(&mut r, "good", None, Some(""))),
        "tag \"good\" already exists on a different version of job \"web\""
    );
    assert!(tag(&mut r, "better", Some(1), Some("")).reply.is_ok());
    assert_eq!(
        names(&r),
        [(2, None), (1, Some("better".into())), (0, None)],
        "the new name replaces the old one"
    );
    assert!(tag(&mut r, "newest", None, Some("")).reply.is_ok());
    assert!(tag(&mut r, "better", None, None).reply.is_ok());
    assert_eq!(names(&r), [(2, Some("newest".into())), (1, None), (0, None)]);
    assert_eq!(refused(tag(&mut r, "better", None, None)), "tag \"better\" not found on job \"web\"");
    let unknown = "job \"web\" in namespace \"default\" at version 9 not found";
    assert_eq!(refused(tag(&mut r, "x", Some(9), Some(""))), unknown);
    check::consistent(&r.view()).unwrap();
}

#[test]
fn tagged_versions_are_kept_and_bounded() {
    let mut r = Region::default();
    let most = VersionTag::MOST as i64;
    for count in 1..=most {
        r.run(&submit(spec("web", count), "text", 2));
        assert!(tag(&mut r, &format!("v{count}"), None, Some("")).reply.is_ok(), "{count}");
    }
    r.run(&submit(spec("web", most + 1), "text", 2));
    assert_eq!(refused(tag(&mut r, "v0", None, Some(""))), "64 versions of a job may have tags: unset one");
    assert!(tag(&mut r, "again", Some(0), Some("")).reply.is_ok(), "one that has a name gets another one");
    assert_eq!(names(&r).len(), VersionTag::MOST + 1);
    assert!(tag(&mut r, "again", None, None).reply.is_ok());
    r.run(&submit(spec("web", 1), "text", 2));
    assert_eq!(names(&r).last(), Some(&(1, Some("v2".into()))), "without its name it goes with its age");
    check::consistent(&r.view()).unwrap();
}

#[test]
fn no_shutdown_delay_reaches_running_allocs() {
    let mut r = Region::default();
    r.run(&register(spec("web", 3), Some(eval(1, "web"))));
    let (node, job) = (r.ready_node(1), r.job("web"));
    let waits = Allocation { desired: DesiredStatus::Stop, ..alloc(2, &job, node, eval_id(1)) };
    let over = Allocation { client: ClientStatus::Complete, ..alloc(3, &job, node, eval_id(1)) };
    let nodes = place(vec![alloc(1, &job, node, eval_id(1)), waits, over]);
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let before = [1, 2, 3].map(|n| r.alloc(n).alloc_modify_index);
    let out = r.run(&Command::StopJob {
        job: key("web"),
        no_shutdown_delay: true,
        eval: None,
        tracked_versions: 6,
        at: AT,
    });
    assert!(r.job("web").spec.stop);
    assert_eq!([1, 2, 3].map(|n| r.alloc(n).transition.no_shutdown_delay), [Some(true), Some(true), None]);
    let told = [1, 2, 3].map(|n| r.alloc(n).alloc_modify_index);
    assert_eq!(told, [before[0], out.index, before[2]], "who runs hears it with its end");
    check::consistent(&r.view()).unwrap();
}
