//! Coming back to older versions, and which of them are good.

use super::super::super::store::Outcome;
use super::*;
use crate::state::check;
use crate::wire::command::RevertJob;

fn revert(r: &mut Region, version: u64, enforce_prior_version: Option<u64>) -> Outcome {
    let eval = Some(eval(50 + u128::from(version), "web"));
    let order =
        RevertJob { job: key("web"), version, enforce_prior_version, eval, tracked_versions: 6, at: AT };
    r.run(&Command::RevertJob(Box::new(order)))
}

fn refused(out: Outcome) -> String {
    assert!(out.changes.is_empty(), "nothing has changed");
    out.reply.expect_err("is refused").message
}

/// Three versions, with one, two and three allocations wanted.
fn versions() -> Region {
    let mut r = Region::new();
    for count in 1..=3 {
        r.run(&submit(spec("web", count), &format!("text {count}"), 6));
    }
    r
}

#[test]
fn an_older_version_comes_back_as_the_newest_with_its_text_and_an_evaluation() {
    let mut r = versions();
    let out = revert(&mut r, 0, Some(2));
    let evaluation = eval(50, "web").id;
    let index = out.index;
    assert_eq!(out.reply, Ok(Done::Job { eval: Some(evaluation), job_modify_index: index, index }));
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
    r.run(&Command::DeregisterJob { job: key("web"), purge: true, eval: None, at: AT });
    assert_eq!(refused(revert(&mut r, 0, None)), "job \"web\" not found");
}

#[test]
fn a_version_that_is_the_same_makes_no_new_one_and_one_that_was_stopped_stops() {
    let mut r = versions();
    r.run(&submit(spec("web", 1), "again", 6));
    let before = r.job("web");
    let out = revert(&mut r, 0, None);
    let (index, answer) = (out.index, before.modify_index);
    let eval = Some(eval(50, "web").id);
    assert_eq!(out.reply, Ok(Done::Job { eval, job_modify_index: answer, index }));
    assert_eq!(r.job("web").version, before.version);
    r.run(&Command::StopJob { job: key("web"), eval: None, tracked_versions: 6, at: AT });
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
