//! What commands come to, one rule at a time, on a real store in memory.

mod child_jobs;
mod cluster_config;
mod deployments;
mod dispatch;
mod drains;
mod garbage;
mod join_tokens;
mod members;
mod namespaces;
mod preemption;
mod scaling;
mod versions;

use crate::samples::*;
use crate::view::Table;
use model::alloc::{ClientStatus, DesiredStatus};
use model::eval::EvalStatus;
use model::id::JobKey;
use model::job::{JobSpec, JobStatus, JobType};
use model::node::{NodeEvent, NodeStatus};
use model::plan::{AllocStop, NodePlan};
use model::time::{Span, Wall};
use scheduler::SchedulerState;
use wire::change::Change;
use wire::command::{Command, RegisterJobCommand};
use wire::request::{RefusalKind, WriteReply};

fn plan(eval: u128, nodes: Vec<NodePlan>) -> Command {
    Command::ApplyPlan {
        eval: eval_id(eval),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    }
}

/// A running service `web` with one allocation (1) on a ready node (1).
fn running() -> Region {
    let mut r = Region::default();
    let node = r.ready_node(1);
    r.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let mut done = eval(1, "web");
    done.status = EvalStatus::Complete;
    let nodes = place(vec![alloc(1, &r.job("web"), node, eval_id(1))]);
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![done],
        at: AT,
    });
    let updates = vec![report(1, ClientStatus::Running)];
    r.run(&Command::UpdateAllocs { seen: u64::MAX, node, updates, verdicts: vec![], evals: vec![], at: AT });
    r
}

#[test]
fn a_job_lives_from_register_to_purge() {
    let mut r = running();
    let job = r.job("web");
    assert_eq!((job.status, job.version), (JobStatus::Running, 0));
    let a = r.alloc(1);
    assert_eq!((a.client, a.desired), (ClientStatus::Running, DesiredStatus::Run));
    assert!(a.alloc_modify_index < a.modify_index);
    let view = r.view();
    assert_eq!(view.allocs_of_job(&key("web")).unwrap(), vec![a.clone()]);
    assert_eq!(view.allocs_of_node(a.node_id).unwrap(), vec![a.clone()]);
    assert_eq!(view.allocs_of_eval(a.eval_id).unwrap(), vec![a.clone()]);
    assert_eq!(view.alloc_indexes_of_node(a.node_id).unwrap(), vec![(a.id, a.alloc_modify_index)]);
    let summary = view.job_summary(&key("web")).unwrap().unwrap();
    assert_eq!((summary.groups["g"].starting, summary.groups["g"].running), (0, 1));
    drop(view);
    let out = r.run(&Command::PurgeJob { job: key("web"), eval: Some(Box::new(eval(2, "web"))), at: AT });
    assert_eq!(
        out.reply,
        Ok(WriteReply::Job { eval: Some(eval_id(2)), job_modify_index: out.index, index: out.index })
    );
    let view = r.view();
    assert_eq!(view.job(&key("web")).unwrap(), None);
    assert_eq!(view.alloc(alloc_id(1)).unwrap(), None);
    assert_eq!(view.evals_of_job(&key("web")).unwrap().len(), 2);
    assert_eq!(view.alloc_indexes_of_node(a.node_id).unwrap(), vec![]);
    let freed = out.changes.iter().any(|c| matches!(c, Change::Alloc(a) if a.freed && a.for_node));
    assert!(freed, "{:?}", out.changes);
}

#[test]
fn the_fleet_follows_nodes_and_what_allocations_hold() {
    let mut r = running();
    let used = |r: &Region| r.view().fleet().usage(node_id(1)).unwrap().0;
    let held = spec("web", 1).groups[0].resources().total();
    assert_eq!(used(&r), held);
    let mut stop = AllocStop { id: alloc_id(1), description: String::new(), client: None };
    r.run(&plan(1, vec![NodePlan { node_id: node_id(1), stops: vec![stop.clone()], places: vec![] }]));
    assert_eq!(used(&r), held, "until the client says that it ended");
    stop.client = Some(ClientStatus::Lost);
    r.run(&plan(1, vec![NodePlan { node_id: node_id(1), stops: vec![stop], places: vec![] }]));
    assert_eq!(used(&r), Default::default());
    let view = r.view();
    assert!(view.fleet().ready(node_id(1)));
    assert!(SchedulerState::allocs_by_job(&view, &key("web")).len() == 1 && view.fault().is_none());
}

#[test]
fn unchanged_specs_make_no_version() {
    let mut r = running();
    let before = r.job("web");
    let out = r.run(&register(spec("web", 1), Some(eval(3, "web"))));
    let answer =
        WriteReply::Job { eval: Some(eval_id(3)), job_modify_index: before.modify_index, index: out.index };
    assert_eq!(out.reply, Ok(answer));
    assert_eq!(r.job("web").version, 0);
    let stored = r.view().eval(eval_id(3)).unwrap().unwrap();
    assert_eq!(stored.job_modify_index, before.job_modify_index);
    assert_eq!((stored.create_index, stored.modify_index), (out.index, out.index));
}

#[test]
fn enforced_indexes_and_types_are_checked() {
    let mut r = Region::default();
    r.run(&register(spec("a", 1), None));
    let at = r.job("a").job_modify_index;
    let batch = JobSpec { job_type: JobType::Batch, ..spec("a", 1) };
    let cases = [
        (spec("a", 2), Some(0), Some("Enforcing job modify index 0: job already exists".to_string())),
        (
            spec("a", 2),
            Some(99),
            Some(format!(
                "Enforcing job modify index 99: job exists with conflicting job modify index: {at}"
            )),
        ),
        (spec("b", 1), Some(7), Some("Enforcing job modify index 7: job does not exist".to_string())),
        (batch, None, Some("cannot update job from type \"service\" to \"batch\"".to_string())),
        (spec("b", 1), Some(0), None),
        (spec("a", 2), Some(at), None),
    ];
    for (spec, enforce_index, refusal) in cases {
        let digest = r.store.digest();
        let order = RegisterJobCommand { enforce_index, ..registration(spec, None) };
        let out = r.run(&Command::RegisterJob(Box::new(order)));
        match refusal {
            None => assert!(out.reply.is_ok(), "{out:?}"),
            Some(message) => {
                let refused = out.reply.expect_err("is refused");
                assert_eq!((refused.kind, refused.message), (RefusalKind::Conflict, message));
                assert_eq!(r.store.digest(), digest);
            }
        }
    }
}

#[test]
fn stopping_makes_a_version_once() {
    let mut r = running();
    let stop = Command::StopJob {
        job: key("web"),
        no_shutdown_delay: false,
        eval: Some(Box::new(eval(4, "web"))),
        tracked_versions: 6,
        at: AT,
    };
    let out = r.run(&stop);
    let job = r.job("web");
    assert_eq!((job.version, job.spec.stop, job.job_modify_index), (1, true, out.index));
    r.run(&stop);
    assert_eq!(r.job("web").version, 1);
    let unknown = Command::StopJob {
        job: key("none"),
        no_shutdown_delay: false,
        eval: Some(Box::new(eval(5, "none"))),
        tracked_versions: 6,
        at: AT,
    };
    let out = r.run(&unknown);
    assert_eq!(out.reply, Ok(WriteReply::Job { eval: None, job_modify_index: 0, index: out.index }));
    assert_eq!(r.view().eval(eval_id(5)).unwrap(), None);
}

#[test]
fn six_versions_are_tracked_and_used_specs_are_kept() {
    let mut r = running();
    for count in 2..=9 {
        r.run(&register(spec("web", count), None));
    }
    let create = r.job("web").create_index;
    let versions = r.view().job_versions(&key("web")).unwrap();
    assert_eq!(versions.iter().map(|v| v.version).collect::<Vec<_>>(), [8, 7, 6, 5, 4, 3]);
    assert!(versions.iter().all(|v| v.spec.groups[0].count == v.version as i64 + 1));
    let kept = |r: &Region, v| r.view().job_spec(&key("web"), create, v).unwrap().is_some();
    assert_eq!([kept(&r, 0), kept(&r, 1), kept(&r, 3)], [true, false, true]);
    let moved = alloc(1, &r.job("web"), node_id(1), eval_id(1));
    r.run(&plan(1, place(vec![moved])));
    assert!(!kept(&r, 0), "the last allocation that named it moved on");
    assert_eq!(r.alloc(1).client, ClientStatus::Running, "the client's half is kept");
}

#[test]
fn the_status_follows_allocations_and_evaluations() {
    let mut r = Region::default();
    let node = r.ready_node(1);
    r.run(&register(spec("j", 1), None));
    let status = |r: &Region| r.job("j").status;
    assert_eq!(status(&r), JobStatus::Pending, "never evaluated");
    let mut e = eval(1, "j");
    let put = |r: &mut Region, e: &_| r.run(&Command::UpdateEvals { evals: vec![Clone::clone(e)], at: AT });
    put(&mut r, &e);
    assert_eq!(status(&r), JobStatus::Pending, "an open evaluation");
    e.status = EvalStatus::Complete;
    put(&mut r, &e);
    assert_eq!(status(&r), JobStatus::Dead, "nothing wanted");
    let job = r.job("j");
    r.run(&plan(1, place(vec![alloc(1, &job, node, eval_id(1))])));
    assert_eq!(status(&r), JobStatus::Running, "a live allocation");
    assert!(r.job("j").modify_index > job.modify_index);
    assert_eq!(r.job("j").job_modify_index, job.job_modify_index);
    let updates = vec![report(1, ClientStatus::Complete)];
    let out = r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node,
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    assert_eq!(status(&r), JobStatus::Dead, "all ended");
    assert!(out.changes.contains(&Change::Job { job: key("j") }));
    e = eval(2, "j");
    e.status = EvalStatus::Blocked;
    put(&mut r, &e);
    assert_eq!(status(&r), JobStatus::Pending, "a blocked evaluation");
    let mut system = spec("s", 1);
    system.job_type = JobType::System;
    r.run(&register(system, None));
    assert_eq!(r.job("s").status, JobStatus::Running);
    r.run(&Command::StopJob {
        job: key("s"),
        no_shutdown_delay: false,
        eval: None,
        tracked_versions: 6,
        at: AT,
    });
    assert_eq!(r.job("s").status, JobStatus::Dead);
}

#[test]
fn the_summary_counts_by_client_status() {
    let mut r = Region::default();
    let node = r.ready_node(1);
    let mut e = eval(1, "j");
    r.run(&register(spec("j", 2), Some(e.clone())));
    e.queued = [("g".to_string(), 3)].into();
    r.run(&Command::UpdateEvals { evals: vec![e], at: AT });
    let counts = |r: &Region| {
        let g = r.view().job_summary(&key("j")).unwrap().unwrap().groups["g"];
        [g.queued, g.starting, g.running, g.failed, g.complete, g.lost, g.unknown]
    };
    assert_eq!(counts(&r), [3, 0, 0, 0, 0, 0, 0]);
    let job = r.job("j");
    let two = vec![alloc(1, &job, node, eval_id(1)), alloc(2, &job, node, eval_id(1))];
    r.run(&plan(1, place(two)));
    assert_eq!(counts(&r), [1, 2, 0, 0, 0, 0, 0]);
    let mut say = |n, status| {
        r.run(&Command::UpdateAllocs {
            seen: u64::MAX,
            node,
            updates: vec![report(n, status)],
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
        counts(&r)
    };
    assert_eq!(say(1, ClientStatus::Running), [1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(say(1, ClientStatus::Failed), [1, 1, 0, 1, 0, 0, 0]);
    assert_eq!(say(2, ClientStatus::Complete), [1, 0, 0, 1, 1, 0, 0]);
    assert_eq!(say(1, ClientStatus::Running), [1, 0, 0, 1, 1, 0, 0], "ends are never taken back");
}

#[test]
fn a_successful_evaluation_cancels_the_blocked_ones() {
    let mut r = Region::default();
    r.run(&register(spec("j", 1), None));
    let blocked = |n, job: &str| {
        let mut e = eval(n, job);
        e.status = EvalStatus::Blocked;
        e
    };
    let evals = vec![blocked(1, "j"), blocked(2, "other"), eval(3, "j")];
    r.run(&Command::UpdateEvals { evals, at: AT });
    let mut done = eval(4, "j");
    done.status = EvalStatus::Complete;
    done.failed_groups.insert("g".into(), Default::default());
    r.run(&Command::UpdateEvals { evals: vec![done.clone()], at: AT });
    let status = |r: &Region, n| r.view().eval(eval_id(n)).unwrap().unwrap().status;
    assert_eq!(status(&r, 1), EvalStatus::Blocked, "not everything was placed");
    done.failed_groups.clear();
    r.run(&Command::UpdateEvals { evals: vec![done], at: Wall(5) });
    assert_eq!(
        [1, 2, 3, 4].map(|n| status(&r, n)),
        [EvalStatus::Canceled, EvalStatus::Blocked, EvalStatus::Pending, EvalStatus::Complete]
    );
    let canceled = r.view().eval(eval_id(1)).unwrap().unwrap();
    assert_eq!(canceled.status_description, format!("evaluation \"{}\" successful", eval_id(4)));
    assert_eq!(canceled.modify_time, canceled.create_time + Span::nanos(1), "clocks may disagree");
    let open = r.view().open_evals().unwrap();
    let open: Vec<_> = open.iter().map(|e| (e.id, e.status)).collect();
    assert_eq!(open, [(eval_id(3), EvalStatus::Pending), (eval_id(2), EvalStatus::Blocked)]);
}

#[test]
fn plans_stop_replace_and_keep_what_clients_said() {
    let mut r = running();
    let before = r.alloc(1);
    let stop = AllocStop { id: alloc_id(1), description: "gone".into(), client: Some(ClientStatus::Lost) };
    let mut next = alloc(2, &r.job("web"), node_id(1), eval_id(9));
    next.previous = Some(alloc_id(1));
    let node = NodePlan { node_id: node_id(1), stops: vec![stop.clone()], places: vec![next] };
    let out = r.run(&plan(1, vec![node]));
    let a = r.alloc(1);
    assert_eq!((a.desired, a.client, a.next), (DesiredStatus::Stop, ClientStatus::Lost, Some(alloc_id(2))));
    assert_eq!((a.alloc_modify_index, a.create_index), (out.index, before.create_index));
    assert_eq!(r.view().eval(eval_id(1)).unwrap().unwrap().modify_index, out.index);
    let stop_new = AllocStop { id: alloc_id(2), description: "x".into(), client: None };
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates: vec![report(2, ClientStatus::Complete)],
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    for stop in [stop_new, AllocStop { client: Some(ClientStatus::Lost), id: alloc_id(2), ..stop }] {
        r.run(&plan(1, vec![NodePlan { node_id: node_id(1), stops: vec![stop], places: vec![] }]));
        assert_eq!(r.alloc(2).client, ClientStatus::Complete, "an end is not overruled");
    }
    let mut orphan = alloc(3, &r.job("web"), node_id(1), eval_id(9));
    orphan.job = JobKey::new("default", "purged");
    r.run(&plan(1, place(vec![orphan])));
    assert_eq!(r.view().alloc(alloc_id(3)).unwrap(), None);
}

#[test]
fn a_report_that_a_newer_one_has_passed_changes_nothing() {
    let mut r = running();
    let node = node_id(1);
    let last = r.view().node(node).unwrap().unwrap().last_alloc_update_index;
    let told = |seen, client| {
        let (updates, evals) = (vec![report(1, client)], vec![eval(8, "web")]);
        Command::UpdateAllocs { node, seen, updates, verdicts: vec![], evals, at: AT }
    };
    let digest = r.store.digest();
    let out = r.run(&told(last - 1, ClientStatus::Pending));
    assert_eq!(out.reply.unwrap_err().kind, RefusalKind::Conflict);
    assert_eq!(r.store.digest(), digest, "not even its evaluation");
    let out = r.run(&told(last, ClientStatus::Pending));
    assert!(out.reply.is_ok(), "it knew of the last report");
    assert_eq!(r.alloc(1).client, ClientStatus::Pending);
    let out = r.run(&told(last, ClientStatus::Running));
    assert!(out.reply.is_err(), "another copy of what was under way");
}

#[test]
fn an_end_that_was_reported_is_final() {
    let mut r = running();
    let mut tell = |client| {
        let updates = vec![report(1, client)];
        let (node, seen) = (node_id(1), u64::MAX);
        r.run(&Command::UpdateAllocs { node, seen, updates, verdicts: vec![], evals: vec![], at: AT });
        r.alloc(1).client
    };
    assert_eq!(tell(ClientStatus::Failed), ClientStatus::Failed);
    for later in [ClientStatus::Running, ClientStatus::Pending, ClientStatus::Complete] {
        assert_eq!(tell(later), ClientStatus::Failed);
    }
}

#[test]
fn reports_touch_the_clients_half_only() {
    let mut r = running();
    let before = r.alloc(1);
    let digest = r.store.digest();
    let same = Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(2),
        updates: vec![report(1, ClientStatus::Failed), report(77, ClientStatus::Running)],
        verdicts: vec![],
        evals: vec![],
        at: AT,
    };
    r.run(&same);
    assert_eq!(r.store.digest(), digest, "another node's and unknown allocations are dropped");
    let updates = vec![report(1, ClientStatus::Failed)];
    let out = r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts: vec![],
        evals: vec![eval(8, "web")],
        at: AT,
    });
    let after = r.alloc(1);
    assert_eq!((after.modify_index, after.alloc_modify_index), (out.index, before.alloc_modify_index));
    assert!(out.changes.iter().any(|c| matches!(c, Change::Alloc(a) if a.freed && !a.for_node)));
    let view = r.view();
    assert_eq!(view.node(node_id(1)).unwrap().unwrap().last_alloc_update_index, out.index);
    assert!(view.eval(eval_id(8)).unwrap().is_some());
    assert_eq!(view.table_index(Table::Allocs), out.index);
    assert!(view.table_index(Table::Nodes) < out.index);
}

#[test]
fn nodes_register_again_without_losing_what_servers_know() {
    let mut r = Region::default();
    let opened = |out: &crate::apply::ApplyResult| {
        out.changes.iter().find_map(|c| match c {
            Change::Node(n) => Some(n.opened),
            _ => None,
        })
    };
    let register = |i| Command::RegisterNode { info: Box::new(i), evals: vec![], at: AT };
    let status =
        |status, event| Command::UpdateNodeStatus { node: node_id(1), status, event, evals: vec![], at: AT };
    assert_eq!(opened(&r.run(&register(info(1)))), Some(false));
    assert_eq!(opened(&r.run(&status(NodeStatus::Ready, None))), Some(true));
    assert_eq!(opened(&r.run(&register(info(1)))), None, "nothing changed");
    let mut more = info(1);
    more.meta.insert("rack".into(), "r1".into());
    assert_eq!(opened(&r.run(&register(more.clone()))), Some(true));
    let missed = NodeEvent {
        subsystem: "Cluster".into(),
        message: "Node heartbeat missed".into(),
        details: Default::default(),
        at: Wall::NEVER,
        create_index: 0,
    };
    let mut caused = eval(1, "j");
    caused.node_id = Some(node_id(1));
    let down = Command::UpdateNodeStatus {
        node: node_id(1),
        status: NodeStatus::Down,
        event: Some(Box::new(missed)),
        evals: vec![caused],
        at: AT,
    };
    let out = r.run(&down);
    assert_eq!(opened(&out), Some(false));
    assert_eq!(r.view().eval(eval_id(1)).unwrap().unwrap().node_modify_index, out.index);
    r.run(&register(info(1)));
    let node = r.view().node(node_id(1)).unwrap().unwrap();
    assert_eq!((node.status, node.last_missed_heartbeat_index), (NodeStatus::Down, out.index));
    let events: Vec<_> = node.events.iter().map(|e| (e.message.as_str(), e.create_index, e.at)).collect();
    assert_eq!(events, [("Node registered", 1, AT), ("Node heartbeat missed", out.index, AT)]);
    let mut thief = info(1);
    thief.secret = Default::default();
    let refused = r.run(&register(thief)).reply.expect_err("is refused");
    assert_eq!(refused.message, "node secret ID does not match");
    let unknown = Command::UpdateNodeStatus {
        node: node_id(5),
        status: NodeStatus::Ready,
        event: None,
        evals: vec![],
        at: AT,
    };
    assert_eq!(r.run(&unknown).reply.map_err(|e| e.kind), Err(RefusalKind::NotFound));
}

/// Room that the servers take back, or that an update leaves, is as free as what a client reports.
#[test]
fn what_counts_as_lost_or_holds_less_frees_room() {
    let mut r = running();
    let was = r.alloc(1);
    let freed = |r: &mut Region, part: NodePlan| {
        let changes = r.run(&plan(1, vec![part])).changes;
        changes.iter().any(|change| matches!(change, Change::Alloc(alloc) if alloc.freed))
    };
    let updated = |cpu_mhz: i64| {
        let mut alloc = was.clone();
        alloc.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = cpu_mhz);
        NodePlan { node_id: node_id(1), stops: vec![], places: vec![alloc] }
    };
    let now = was.resources.tasks.values().next().expect("a task").cpu_mhz;
    assert!(!freed(&mut r, updated(now + 2)), "it holds more");
    assert!(!freed(&mut r, updated(now + 2)), "as much");
    assert!(freed(&mut r, updated(now + 1)), "less");
    let stopped = |client| NodePlan {
        node_id: node_id(1),
        stops: vec![AllocStop { id: alloc_id(1), description: String::new(), client }],
        places: vec![],
    };
    assert!(!freed(&mut r, stopped(None)), "until it has ended");
    assert!(freed(&mut r, stopped(Some(ClientStatus::Lost))));
    assert!(!freed(&mut r, stopped(Some(ClientStatus::Lost))), "once");
}
