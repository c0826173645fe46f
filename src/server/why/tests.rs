//! What is told of a small history, on a real store in memory.

use super::*;
use model::alloc::ClientStatus;
use model::eval::Trigger;
use model::id::{AllocId, EvalId};
use model::job::{JobSpec, JobType};
use model::node::{NodeEvent, NodeStatus};
use model::plan::{AllocStop, NodePlan};
use model::scheduling::SchedulerSettings;
use model::time::{Span, Wall};
use state::samples::*;
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};

fn why(r: &Region, subject: Subject) -> Why {
    explain(&r.view(), &subject, 1).unwrap().unwrap()
}

fn at(seconds: i64) -> Wall {
    AT + Span::seconds(seconds)
}

/// A service `web` runs on node 1, which dies; its successor runs on node 2.
fn moved() -> Region {
    let mut r = Region::default();
    let (one, two) = (r.ready_node(1), r.ready_node(2));
    r.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let job = r.job("web");
    let done = |e: Evaluation, snapshot_index| {
        vec![Evaluation { status: EvalStatus::Complete, snapshot_index, ..e }]
    };
    let nodes = place(vec![alloc(1, &job, one, eval_id(1))]);
    let seen = r.store.applied();
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: done(eval(1, "web"), seen),
        at: at(1),
    });
    let mut told = report(1, ClientStatus::Running);
    let started = model::task::TaskEvent {
        kind: "Started".into(),
        at: at(2),
        message: "Task started by client".into(),
        details: BTreeMap::new(),
    };
    told.task_states.values_mut().for_each(|t| t.events = vec![started.clone()]);
    let updates: Vec<AllocUpdate> = vec![told];
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: one,
        updates,
        verdicts: vec![],
        evals: vec![],
        at: at(2),
    });
    let event = NodeEvent {
        subsystem: "Cluster".into(),
        message: "Node heartbeat missed".into(),
        details: BTreeMap::new(),
        at: at(60),
        create_index: 0,
    };
    let mut lost = Evaluation { trigger: Trigger::NodeUpdate, node_id: Some(one), ..eval(2, "web") };
    lost.create_time = at(60);
    let (status, event) = (NodeStatus::Down, Some(Box::new(event)));
    r.run(&Command::UpdateNodeStatus { node: one, status, event, evals: vec![lost], at: at(60) });
    let lost = r.view().eval(eval_id(2)).unwrap().unwrap();
    let stop = AllocStop {
        id: alloc_id(1),
        description: "alloc is lost since its node is down".into(),
        client: Some(ClientStatus::Lost),
    };
    let mut next = alloc(2, &job, two, eval_id(2));
    next.previous = Some(alloc_id(1));
    let nodes = vec![
        NodePlan { node_id: one, stops: vec![stop], places: vec![] },
        NodePlan { node_id: two, stops: vec![], places: vec![next] },
    ];
    let seen = r.store.applied();
    r.run(&Command::ApplyPlan {
        eval: eval_id(2),
        nodes,
        deployment: None,
        updates: vec![],
        evals: done(lost, seen),
        at: at(61),
    });
    r
}

fn entries_of(why: &Why) -> Vec<(&'static str, &str)> {
    why.history.iter().map(|l| (l.kind, l.text.as_str())).collect()
}

#[test]
fn the_history_of_a_moved_allocation_is_in_order() {
    let r = moved();
    let old = why(&r, Subject::Alloc(alloc_id(1)));
    assert_eq!(old.summary, "web.g[0] on node: wanted stop, is lost");
    assert_eq!(
        entries_of(&old),
        [
            ("evaluation", "job-register, complete"),
            ("plan", "was placed on node (00000000), of 0 nodes looked at"),
            ("task", "t: Started: Task started by client"),
            ("node", "node-1: Node heartbeat missed"),
            ("evaluation", "node-update, complete"),
            ("allocation", "servers found it lost"),
            ("plan", "was told to stop: alloc is lost since its node is down"),
            ("allocation", "takes its place on node (00000000), pending"),
        ]
    );
    assert!(old.history.is_sorted_by_key(|l| l.at));
    let new = why(&r, Subject::Alloc(alloc_id(2)));
    let story = entries_of(&new);
    let replaced = "replaces this one on node (00000000), lost: alloc is lost since its node is down";
    assert!(story.contains(&("allocation", replaced)), "{story:?}");
    assert!(story.contains(&("node", "node-1: Node heartbeat missed")), "{story:?}");
    let of_eval = why(&r, Subject::Eval(eval_id(2)));
    let placed = entries_of(&of_eval).contains(&("allocation", "web.g[0] was placed on node (00000000)"));
    assert!(placed, "{:?}", of_eval.history);
    let job = why(&r, Subject::Job(key("web")));
    assert_eq!((job.groups[0].live, job.groups[0].nodes, job.groups[0].feasible), (1, 2, 1));
    assert_eq!(job.groups[0].reasons[0].text, "down, draining or not eligible");
}

#[test]
fn why_explains_missing_places_and_refuses_unknown_ids() {
    let mut r = moved();
    let mut large = spec("large", 1);
    large.groups[0].tasks[0].resources.memory_mb = 1024 - 64 + 12;
    r.run(&register(JobSpec { groups: large.groups, ..spec("large", 1) }, Some(eval(3, "large"))));
    let mut blocked = Evaluation { status: EvalStatus::Blocked, ..eval(3, "large") };
    blocked.failed_groups.insert("g".into(), Default::default());
    r.run(&Command::UpdateEvals { evals: vec![blocked], at: AT });
    for subject in [Subject::Job(key("large")), Subject::Eval(eval_id(3))] {
        let found = why(&r, subject);
        let group = &found.groups[0];
        let nearest = group.nearest.as_ref().unwrap();
        assert_eq!((nearest.name.as_str(), nearest.missing[0].missing), ("node-2", 12));
        let memory = group.reasons.iter().find(|reason| reason.text == "memory").unwrap();
        assert_eq!((memory.alone, memory.amount.and_then(|a| a.would_do)), (1, Some(960)));
    }
    assert!(why(&r, Subject::Job(key("large"))).summary.ends_with("some of it waits for a place"));
    let view = r.view();
    for (subject, message) in [
        (Subject::Job(key("nosuch")), "job not found"),
        (Subject::Alloc(AllocId::default()), "alloc not found"),
        (Subject::Eval(EvalId::default()), "eval not found"),
    ] {
        let refused = explain(&view, &subject, 1).unwrap().unwrap_err();
        assert_eq!((refused.kind, refused.message.as_str()), (RefusalKind::NotFound, message));
    }
}

#[test]
fn a_long_history_is_cut_to_a_screen() {
    let mut r = moved();
    let event = |n: i64| model::task::TaskEvent {
        kind: "Restarting".into(),
        at: at(100 + n),
        message: "again".into(),
        details: BTreeMap::new(),
    };
    let mut told = report(2, ClientStatus::Running);
    let state = told.task_states["t"].clone();
    for task in ["a", "b", "c"] {
        let events = (0..10).map(event).collect();
        told.task_states.insert(task.into(), model::task::TaskState { events, ..state.clone() });
    }
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(2),
        updates: vec![told],
        verdicts: vec![],
        evals: vec![],
        at: at(200),
    });
    let why = why(&r, Subject::Alloc(alloc_id(2)));
    assert_eq!(why.history.len(), 18);
    assert!(why.history[0].at <= at(61) && why.history[17].at == at(109), "its beginning and its end");
}

#[test]
fn why_tells_what_preemption_would_free() {
    let mut r = Region::default();
    let node = r.ready_node(1);
    let all = r.view().fleet().usage(node).unwrap().1;
    for (id, priority) in [("low", 20), ("near", 29), ("high", 30)] {
        let mut spec = spec(id, 1);
        (spec.priority, spec.groups[0].tasks[0].resources.cpu_mhz) = (priority, all.cpu_mhz);
        r.run(&register(spec, None));
    }
    let low = alloc(1, &r.job("low"), node, eval_id(1));
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: place(vec![low]),
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let told = |r: &Region, id: &str| {
        let group = why(r, Subject::Job(key(id))).groups.remove(0);
        assert_eq!(group.feasible, 0);
        (group.preemptable_nodes, group.preempts)
    };
    assert_eq!((told(&r, "high"), told(&r, "near")), ((1, false), (0, false)));
    let mut settings = SchedulerSettings::default();
    settings.preemption.service = true;
    r.run(&Command::ConfigureScheduler { settings, cas: None });
    assert_eq!(told(&r, "high"), (1, true));
}

#[test]
fn why_begins_with_parents_and_dead_jobs() {
    use model::dispatch::{Parameterized, PayloadRule};
    use model::periodic::Periodic;
    let mut r = Region::default();
    let one = r.ready_node(1);
    let batch = |id: &str| JobSpec { job_type: JobType::Batch, ..spec(id, 1) };
    let periodic = |enabled| Periodic {
        enabled,
        spec: "@daily".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: Periodic::UTC.into(),
    };
    let rules =
        Parameterized { payload: PayloadRule::Optional, meta_required: vec![], meta_optional: vec![] };
    r.run(&register(JobSpec { parameterized: Some(rules), ..batch("form") }, None));
    r.run(&register(JobSpec { periodic: Some(periodic(true)), ..batch("clock") }, None));
    r.run(&register(JobSpec { periodic: Some(periodic(false)), ..batch("off") }, None));
    r.run(&register(batch("done"), Some(eval(1, "done"))));
    let nodes = place(vec![alloc(1, &r.job("done"), one, eval_id(1))]);
    let evals = vec![Evaluation { status: EvalStatus::Complete, ..eval(1, "done") }];
    r.run(&Command::ApplyPlan { eval: eval_id(1), nodes, deployment: None, updates: vec![], evals, at: AT });
    let updates = vec![report(1, ClientStatus::Failed)];
    r.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node: one,
        updates,
        verdicts: vec![],
        evals: vec![],
        at: AT,
    });
    let is = |what: &str| format!("batch job, version 0, {what}");
    for (id, expected) in [
        ("form", is("running: it runs nothing itself, jobs are dispatched from it")),
        ("clock", is("running: it runs nothing itself, it launches jobs at its times")),
        ("off", is("running: it runs nothing itself, and its times are switched off")),
        ("done", is("dead: of its allocations 0 complete, 1 failed, 0 lost are left to tell")),
    ] {
        assert_eq!(why(&r, Subject::Job(key(id))).summary, expected);
    }
}

/// A node that has it is not asked for more.
#[test]
fn why_checks_system_jobs_on_nodes_without_them_only() {
    let mut r = Region::default();
    let (one, _two) = (r.ready_node(1), r.ready_node(2));
    let mut system = JobSpec { job_type: JobType::System, ..spec("sys", 1) };
    r.run(&register(system.clone(), Some(eval(1, "sys"))));
    let nodes = place(vec![alloc(1, &r.job("sys"), one, eval_id(1))]);
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let group = |r: &Region| why(r, Subject::Job(key("sys"))).groups.remove(0);
    let seen = group(&r);
    assert_eq!((seen.each_node, seen.count, seen.live, seen.nodes, seen.feasible), (true, 1, 1, 1, 1));
    assert_eq!((seen.best, seen.reasons), (vec![], vec![]), "nothing is chosen");
    system.groups[0].tasks[0].resources.memory_mb = 4096;
    r.run(&register(system, None));
    let seen = group(&r);
    assert_eq!((seen.nodes, seen.feasible, seen.reasons.len()), (1, 0, 1));
    assert_eq!((seen.reasons[0].text.as_str(), seen.reasons[0].nodes), ("memory", 1));
    assert_eq!(seen.nearest.map(|n| n.name), Some("node-2".to_string()));
}
