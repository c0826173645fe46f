//! Namespaces, the texts of jobs, and how many versions stay.

use super::*;
use crate::check;
use model::eval::Evaluation;

#[test]
fn as_many_versions_are_tracked_as_the_command_says() {
    let mut r = Region::default();
    let versions = |r: &Region| {
        let all = r.view().job_versions(&key("web")).unwrap();
        all.iter().map(|v| v.version).collect::<Vec<_>>()
    };
    for count in 0..5 {
        r.run(&submit(spec("web", count), &format!("text {count}"), 3));
    }
    assert_eq!(versions(&r), [4, 3, 2]);
    r.run(&submit(spec("web", 5), "text 5", 1));
    assert_eq!(versions(&r), [5]);
    r.run(&submit(spec("web", 6), "text 6", 9));
    assert_eq!(versions(&r), [6, 5]);
    r.run(&Command::StopJob {
        job: key("web"),
        no_shutdown_delay: false,
        eval: None,
        tracked_versions: 1,
        at: AT,
    });
    assert_eq!((versions(&r), r.job("web").spec.stop), (vec![7], true));
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_submission_is_kept_while_its_version_is_tracked() {
    let mut r = Region::default();
    let text = |r: &Region, version: u64| {
        let view = r.view();
        let jobs = view.job_versions(&key("web")).unwrap();
        let job = jobs.iter().find(|j| j.version == version)?;
        view.submission(job).unwrap().map(|s| s.source)
    };
    r.run(&submit(spec("web", 1), "one", 2));
    r.run(&submit(spec("web", 1), "the same job in other words", 2));
    assert_eq!(text(&r, 0).as_deref(), Some("one"), "an unchanged job keeps its text");
    r.run(&register(spec("web", 2), None));
    assert_eq!(text(&r, 1), None, "nobody said one");
    r.run(&submit(spec("web", 3), "three", 2));
    assert_eq!((text(&r, 0), text(&r, 2).as_deref()), (None, Some("three")));
    check::consistent(&r.view()).unwrap();
    r.run(&Command::PurgeJob { job: key("web"), eval: None, at: AT });
    r.run(&register(spec("web", 3), None));
    assert_eq!(text(&r, 0), None, "nothing of the purged job is left");
    let rows = check::rows(&r.view()).unwrap();
    assert!(!rows.iter().any(|(_, row)| row.windows(5).any(|w| w == b"three")), "no row either");
}

#[test]
fn namespaces_are_written_listed_and_deleted() {
    let mut r = Region::default();
    let names = |r: &Region, prefix: &str| {
        let all = r.view().namespaces(prefix).unwrap();
        all.into_iter().map(|n| n.spec.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&r, ""), ["default"]);
    let out = r.run(&namespace("team", "ours"));
    assert_eq!(out.reply, Ok(WriteReply::Written { index: out.index }));
    assert_eq!(out.changes, [Change::Namespace]);
    assert_eq!(r.view().table_index(Table::Namespaces), out.index);
    r.run(&namespace("apps", ""));
    assert_eq!(names(&r, ""), ["apps", "default", "team"]);
    assert_eq!(
        (names(&r, "d"), names(&r, "te"), names(&r, "x")),
        (vec!["default".into()], vec!["team".into()], vec![])
    );
    assert_eq!(r.run(&namespace("team", "ours")).changes, [], "nothing new");
    let out_again = r.run(&namespace("team", "theirs"));
    let team = r.view().namespace("team").unwrap().unwrap();
    assert_eq!((team.create_index, team.modify_index), (out.index, out_again.index));
    r.run(&namespace("default", "everybody's"));
    assert_eq!(r.view().namespace("default").unwrap().unwrap().spec.description, "everybody's");
    assert_eq!(names(&r, ""), ["apps", "default", "team"], "once");
    let out = r.run(&Command::DeleteNamespace { name: "team".into() });
    assert_eq!((out.reply, out.changes.len()), (Ok(WriteReply::Written { index: out.index }), 1));
    assert_eq!(names(&r, ""), ["apps", "default"]);
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_namespace_is_not_deleted_under_its_jobs() {
    let mut r = Region::default();
    let delete = |r: &mut Region, name: &str| {
        let reply = r.run(&Command::DeleteNamespace { name: name.into() }).reply;
        reply.map_err(|refusal| (refusal.kind, refusal.message))
    };
    let job = JobSpec { namespace: "team".into(), ..spec("web", 0) };
    let unknown = r.run(&submit(job.clone(), "", 6)).reply.unwrap_err();
    assert_eq!(unknown.message, "job \"web\" is in nonexistent namespace \"team\"");
    assert_eq!(delete(&mut r, "team").unwrap_err().0, RefusalKind::NotFound);
    assert_eq!(delete(&mut r, "default").unwrap_err().1, "can not delete default namespace");
    r.run(&namespace("team", ""));
    r.run(&namespace("tea", ""));
    r.run(&submit(job.clone(), "", 6)).reply.unwrap();
    let refused =
        (RefusalKind::Conflict, "namespace \"team\" has non-terminal jobs in regions: [global]".into());
    assert_eq!(delete(&mut r, "team").unwrap_err(), refused);
    assert!(delete(&mut r, "tea").is_ok(), "the beginning of another's name");
    let mut done = Evaluation { job: job.key(), ..eval(1, "web") };
    done.status = EvalStatus::Complete;
    r.run(&Command::UpdateEvals { evals: vec![done], at: AT });
    assert!(delete(&mut r, "team").is_ok(), "its only job is dead");
    assert!(r.run(&submit(JobSpec { priority: 7, ..job }, "", 6)).reply.is_err());
    check::consistent(&r.view()).unwrap();
}
