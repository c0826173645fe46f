//! Node pools, the scheduler's configuration, and evaluations that are deleted.

use super::super::ApplyResult;
use super::*;
use crate::check;
use model::pool::NodePoolSpec;
use model::scheduling::{Algorithm, PoolScheduling, SchedulerSettings, Scheduling};
use wire::event::Object;

fn refused(out: ApplyResult) -> (RefusalKind, String) {
    assert!(out.changes.is_empty(), "nothing has changed");
    let refusal = out.reply.expect_err("is refused");
    (refusal.kind, refusal.message)
}

fn names(r: &Region, prefix: &str) -> Vec<String> {
    r.view().node_pools(prefix).unwrap().into_iter().map(|p| p.spec.name).collect()
}

fn delete(r: &mut Region, name: &str) -> ApplyResult {
    r.run(&Command::DeleteNodePool { name: name.into() })
}

#[test]
fn pools_are_written_listed_and_deleted_and_their_events_told() {
    let mut r = Region::default();
    assert_eq!(names(&r, ""), ["all", "default"]);
    let out = r.run(&node_pool("boards"));
    assert_eq!(
        (out.reply, out.changes),
        (Ok(WriteReply::Written { index: out.index }), vec![Change::NodePool])
    );
    let events = out.events.expect("has events");
    assert_eq!(
        (events.kind, matches!(events.objects[..], [Object::NodePool(_)])),
        ("NodePoolUpserted", true)
    );
    assert_eq!(
        (names(&r, ""), names(&r, "d")),
        (vec!["all".into(), "boards".into(), "default".into()], vec!["default".into()])
    );
    assert_eq!(r.run(&node_pool("boards")).changes, [], "it says nothing new");
    assert_eq!(r.view().table_index(Table::NodePools), out.index);
    check::consistent(&r.view()).unwrap();
    let out = delete(&mut r, "boards");
    assert_eq!(out.events.map(|e| e.kind), Some("NodePoolDeleted"));
    assert_eq!(names(&r, ""), ["all", "default"]);
}

#[test]
fn forbidden_pool_changes_are_refused() {
    let mut r = Region::default();
    for name in ["all", "default"] {
        let why = |what: &str| (RefusalKind::Invalid, format!("{what} node pool {name:?} is not allowed"));
        assert_eq!(refused(r.run(&node_pool(name))), why("modifying"));
        assert_eq!(refused(delete(&mut r, name)), why("deleting"));
    }
    assert_eq!(refused(delete(&mut r, "boards")), (RefusalKind::NotFound, "node pool not found".into()));
    let mut of_pool = spec("web", 1);
    of_pool.node_pool = "boards".into();
    let why = "job \"web\" is in nonexistent node pool \"boards\"";
    assert_eq!(refused(r.run(&register(of_pool.clone(), None))).1, why);
    r.run(&node_pool("boards"));
    r.run(&register(of_pool, Some(eval(1, "web")))).reply.unwrap();
    let why = "node pool \"boards\" has non-terminal jobs in regions: [global]";
    assert_eq!(refused(delete(&mut r, "boards")), (RefusalKind::Invalid, why.into()));
    r.run(&Command::PurgeJob { job: key("web"), eval: None, at: AT });
    delete(&mut r, "boards").reply.unwrap();
}

#[test]
fn a_node_pool_is_made_by_its_first_node() {
    let mut r = Region::default();
    let mut here = info(1);
    here.pool = "boards".into();
    let out = r.run(&Command::RegisterNode { info: Box::new(here.clone()), evals: vec![], at: AT });
    assert!(out.changes.contains(&Change::NodePool));
    assert_eq!(names(&r, "b"), ["boards"]);
    assert_eq!(refused(delete(&mut r, "boards")).1, "node pool \"boards\" has nodes");
    here.pool = "default".into();
    r.run(&Command::RegisterNode { info: Box::new(here), evals: vec![], at: AT });
    assert_eq!(names(&r, "b"), ["boards"], "it stays until somebody deletes it");
    delete(&mut r, "boards").reply.unwrap();
    check::consistent(&r.view()).unwrap();
}

#[test]
fn scheduler_config_is_read_by_region_and_pool() {
    let mut r = Region::default();
    let scheduling = |r: &Region, pool: &str| SchedulerState::scheduling(&r.view(), pool);
    assert_eq!(scheduling(&r, "default"), Scheduling::default());
    let settings = SchedulerSettings { algorithm: Algorithm::Spread, ..SchedulerSettings::default() };
    let set = |r: &mut Region, cas| r.run(&Command::ConfigureScheduler { settings, cas });
    let out = set(&mut r, Some(7));
    assert_eq!(out.reply, Ok(WriteReply::SchedulerConfig { updated: false, index: out.index }));
    let first = set(&mut r, Some(0));
    assert_eq!(first.reply, Ok(WriteReply::SchedulerConfig { updated: true, index: first.index }));
    assert_eq!(first.changes, [Change::Scheduler]);
    assert_eq!(set(&mut r, Some(0)).changes, [], "somebody has said something");
    let second = set(&mut r, Some(first.index));
    let config = r.view().scheduler_config().unwrap();
    assert_eq!((config.create_index, config.modify_index), (first.index, second.index));
    let said = PoolScheduling { algorithm: Some(Algorithm::Binpack), memory_oversubscription: Some(true) };
    let pool = NodePoolSpec { name: "boards".into(), scheduling: Some(said), ..NodePoolSpec::default() };
    r.run(&Command::UpsertNodePool { pool: Box::new(pool) });
    for (pool, algorithm, memory_oversubscription) in [
        ("boards", Algorithm::Binpack, true),
        ("default", Algorithm::Spread, false),
        ("all", Algorithm::Spread, false),
    ] {
        assert_eq!(
            scheduling(&r, pool),
            Scheduling { algorithm, memory_oversubscription, ..Scheduling::default() },
            "{pool}"
        );
    }
    check::consistent(&r.view()).unwrap();
}

fn pause(r: &mut Region, pause_eval_broker: bool) {
    let settings = SchedulerSettings { pause_eval_broker, ..SchedulerSettings::default() };
    r.run(&Command::ConfigureScheduler { settings, cas: None });
}

fn remove(r: &mut Region, ids: &[u128], skip_needed: bool) -> ApplyResult {
    r.run(&Command::DeleteEvals { ids: ids.iter().map(|n| eval_id(*n)).collect(), skip_needed })
}

#[test]
fn evaluations_are_deleted_completely_in_a_pause() {
    let mut r = Region::default();
    r.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let why = "eval broker is enabled; eval broker must be paused to delete evals";
    assert_eq!(refused(remove(&mut r, &[1], false)).1, why);
    pause(&mut r, true);
    assert_eq!(r.job("web").status, JobStatus::Pending);
    let out = remove(&mut r, &[1, 1], false);
    assert_eq!(out.reply, Ok(WriteReply::Deleted { count: 1, index: out.index }));
    assert!(matches!(&out.changes[..], [Change::EvalDeleted(e), Change::Job { .. }] if e.id == eval_id(1)));
    let view = r.view();
    assert_eq!((view.eval(eval_id(1)).unwrap(), view.open_evals().unwrap().len()), (None, 0));
    assert_eq!(r.job("web").status, JobStatus::Dead, "nothing will ever place it");
    check::consistent(&r.view()).unwrap();
    r.run(&register(spec("web", 2), Some(eval(2, "web"))));
    assert_eq!(r.job("web").status, JobStatus::Pending);
    pause(&mut r, false);
    assert_eq!(refused(remove(&mut r, &[2], true)).1, why);
}

#[test]
fn needed_objects_keep_what_they_refer_to() {
    let mut r = Region::default();
    let node = r.ready_node(1);
    r.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let nodes = place(vec![alloc(1, &r.job("web"), node, eval_id(1))]);
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![eval(2, "web")],
        at: AT,
    });
    pause(&mut r, true);
    let unsafe_one = format!("eval {} is not safe to delete", eval_id(1));
    assert_eq!(refused(remove(&mut r, &[2, 1], false)).1, unsafe_one);
    assert_eq!(refused(remove(&mut r, &[2, 9], false)).1, "eval not found");
    let out = remove(&mut r, &[1, 2, 9], true);
    assert_eq!(out.reply, Ok(WriteReply::Deleted { count: 1, index: out.index }));
    let report = |r: &mut Region, status| {
        let updates = vec![report(1, status)];
        r.run(&Command::UpdateAllocs {
            seen: u64::MAX,
            node,
            updates,
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
    };
    report(&mut r, ClientStatus::Failed);
    assert_eq!(refused(remove(&mut r, &[1], false)).1, unsafe_one, "it may be placed again");
    r.run(&Command::StopJob {
        job: key("web"),
        no_shutdown_delay: false,
        eval: None,
        tracked_versions: 6,
        at: AT,
    });
    remove(&mut r, &[1], false).reply.unwrap();
    check::consistent(&r.view()).unwrap();
}
