//! Golden bytes: what each stored or sent record was written as, once and for all. `golden/records.txt` holds one line for
//! each, `<record>/<what>: <hex>`; `golden/rows.txt` holds the rows of a small region.
//! The files are append only. A line is never changed, because disks and peers in the field hold its bytes: a record that
//! changes becomes its next version, whose lines are added, while the old ones must still be read (docs/ondisk.md).

#![cfg(test)]

mod child_jobs;
mod claims;
mod drains;
mod enrolment;
mod members;
mod node_requests;
mod operator;
mod preemption;
mod rollouts;
mod scaling;
mod servers;
mod sessions;
mod snapshots;
mod variants;

use claims::claims;
use drains::{draining, node_commands};
use keeper::journal::{JournalEntry, Process};
use members::members;
use model::alloc::{Allocation, ClientStatus, Health, Leave, StateChange, Transition};
use model::eval::{EvalStatus, Evaluation};
use model::id::{DeploymentId, EvalId, RunId, Uuid};
use model::job::{DisconnectPolicy, Job, JobSpec, Reconcile};
use model::job_summary::JobSummary;
use model::key::{Seed, SigningKey};
use model::member::Generation;
use model::namespace::{Capabilities, Namespace, NamespaceSpec};
use model::node::{Node, NodeEvent, NodeStatus};
use model::reschedule::Reschedule;
use model::submission::Submission;
use model::task::{Exit, ExitStatus};
use model::time::{Span, Wall};
use operator::operator_samples;
use rollouts::{rollouts, verdict};
use servers::servers;
use sessions::sessions;
use snapshots::snapshots;
use state::check;
use state::client_store::{
    AllocRecord, ClientLogHead, HealthResult, Retention, RowBatch, RunRecord, TaskRecord, WantedRestart,
};
use state::samples::{
    AT, Region, alloc, alloc_id, eval, eval_id, founding, info, key, log_batch, namespace, node_id, place,
    register, report, spec, submit,
};
use std::collections::BTreeMap;
use wire::command::Command;
use wire::keeper::{Event, KeeperCommand, RunLogs, RunReport, RunSpec, RunState};
use wire::record::{self, Record};
use wire::rpc::{AllocSet, Assignment, NodeReply, NodeRequest};

const RECORDS: &str = include_str!("golden/records.txt");
const ROWS: &str = include_str!("golden/rows.txt");

/// Reads a record's bytes and writes them as today's build does.
type Again = fn(&[u8]) -> Result<Vec<u8>, String>;

fn again<R: Record>(bytes: &[u8]) -> Result<Vec<u8>, String> {
    record::decode::<R>(bytes).map(|r| record::encode(&r)).map_err(|e| e.to_string())
}

#[derive(Default)]
struct Samples {
    lines: Vec<(String, Vec<u8>)>,
    kinds: BTreeMap<&'static str, Again>,
    variants: BTreeMap<&'static str, &'static [&'static str]>,
}

impl Samples {
    fn add<R: Record>(&mut self, what: &str, record: &R) {
        self.kinds.insert(R::NAME, again::<R>);
        self.variants.insert(R::NAME, variants::variants::<R>());
        self.lines.push((format!("{}/{what}", R::NAME), record::encode(record)));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

fn run_id(n: u128) -> RunId {
    RunId::from_random(n << 64 | n)
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_random(n << 64 | n)
}

fn job() -> Job {
    let mut region = Region::default();
    region.run(&register(spec("web", 2), Some(eval(1, "web"))));
    region.job("web")
}

fn assignment() -> Assignment {
    let a = alloc(1, &job(), node_id(1), eval_id(1));
    Assignment {
        id: a.id,
        name: a.name,
        job: a.job,
        job_name: "web".into(),
        job_type: model::job::JobType::Service,
        job_version: 0,
        job_meta: BTreeMap::from([("owner".to_string(), "ops".to_string())]),
        region: "global".into(),
        group: spec("web", 2).groups.remove(0),
        resources: a.resources,
        desired: a.desired,
        previous: Some(alloc_id(2)),
        alloc_modify_index: 9,
        deployment: Some(DeploymentId::from_random(4)),
        job_parent: "clock".into(),
        payload: vec![1, 2],
        preempted: vec![alloc_id(3)],
        no_shutdown_delay: false,
    }
}

fn objects(s: &mut Samples) {
    let job = job();
    s.add("service", &job);
    s.add::<JobSpec>("service", &job.spec);
    s.add::<JobSpec>("disconnect", &patient(job.spec.clone()));
    s.add("empty", &JobSummary::default());
    s.add("pending", &eval(1, "web"));
    s.add("team", &Namespace { spec: team(), create_index: 3, modify_index: 4 });
    s.add("hcl", &submission());
    s.add("everything", &log_batch());
    let mut running = alloc(1, &job, node_id(1), eval_id(1));
    running.client = ClientStatus::Running;
    running.task_states = report(1, ClientStatus::Running).task_states;
    s.add("running", &running);
    s.add("rescheduled", &rescheduled(running.clone()));
    for how in [Leave::No, Leave::WhenPlaced] {
        running.transition.migrate = Some(how);
        s.add(&format!("{how:?}").to_lowercase(), &running);
    }
    child_jobs::triggers(s);
    preemption::preemption(s, running.clone());
    let mut region = Region::default();
    let id = region.ready_node(1);
    let node: Node = region.view().node(id).expect("reads").map(|n| Node::clone(&n)).expect("exists");
    s.add("ready", &node);
    claims(s, job.spec.clone(), running, node.clone());
    s.add("draining", &draining(node));
    s.add("ed25519", &signing_key());
}

fn rescheduled(alloc: Allocation) -> Allocation {
    let delay = Span::seconds(30);
    let event = Reschedule { at: AT, previous_alloc: alloc_id(2), previous_node: node_id(2), delay };
    Allocation {
        reschedules: vec![event],
        followup_eval: Some(eval_id(3)),
        transition: Transition {
            migrate: Some(Leave::AtOnce),
            reschedule: None,
            force_reschedule: Some(false),
            no_shutdown_delay: None,
        },
        deployment: Some(DeploymentId::from_random(4)),
        health: Some(Health { healthy: Some(true), at: AT, canary: true, modify_index: 300 }),
        states: vec![StateChange { status: ClientStatus::Unknown, at: AT }],
        ..alloc
    }
}

fn patient(mut spec: JobSpec) -> JobSpec {
    spec.groups[0].disconnect = Some(DisconnectPolicy {
        lost_after: Some(Span::minutes(5)),
        stop_on_client_after: None,
        replace: true,
        reconcile: Reconcile::LongestRunning,
    });
    spec
}

fn signing_key() -> SigningKey {
    SigningKey { id: uuid(3), seed: Seed([7; 32]), public: [9; 32], created: AT, create_index: 5 }
}

fn commands(s: &mut Samples) {
    s.add("init", &Command::Init(Box::new(founding(&[7, 300]))));
    s.add("register job", &register(spec("web", 2), Some(eval(1, "web"))));
    let eval_of_purge = Some(Box::new(eval(2, "web")));
    s.add("purge job", &Command::PurgeJob { job: key("web"), eval: eval_of_purge, at: AT });
    s.add("register node", &Command::RegisterNode { info: Box::new(info(1)), evals: vec![], at: AT });
    let event = NodeEvent {
        at: AT,
        message: "Node heartbeat missed".into(),
        subsystem: "Cluster".into(),
        details: BTreeMap::new(),
        create_index: 0,
    };
    let status = Command::UpdateNodeStatus {
        node: node_id(1),
        status: NodeStatus::Down,
        event: Some(Box::new(event)),
        evals: vec![eval(3, "web")],
        at: AT,
    };
    s.add("update node status", &status);
    let mut done = eval(1, "web");
    done.status = EvalStatus::Complete;
    s.add("update evals", &Command::UpdateEvals { evals: vec![done.clone()], at: AT });
    let nodes = place(vec![alloc(1, &job(), node_id(1), eval_id(1))]);
    s.add(
        "apply plan",
        &Command::ApplyPlan {
            eval: eval_id(1),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![done],
            at: AT,
        },
    );
    s.add("add signing key", &Command::AddSigningKey { key: Box::new(signing_key()) });
    let updates = vec![report(1, ClientStatus::Running)];
    let (node, verdicts) = (node_id(1), vec![verdict()]);
    s.add(
        "update allocs",
        &Command::UpdateAllocs { seen: u64::MAX, node, updates, verdicts, evals: vec![], at: AT },
    );
    rollouts(s);
    s.add("register job with its text", &submit(spec("web", 2), "job \"web\" {}", 6));
    let forced = Some(false);
    let transition =
        Transition { migrate: Some(Leave::AtOnce), force_reschedule: forced, ..Transition::default() };
    let allocs = vec![(alloc_id(1), transition)];
    s.add("update transitions", &Command::UpdateTransitions { allocs, evals: vec![eval(3, "web")], at: AT });
    let eval = Some(Box::new(eval(2, "web")));
    for (what, no_shutdown_delay) in [("stop job", false), ("stop job at once", true)] {
        let (job, eval) = (key("web"), eval.clone());
        s.add(what, &Command::StopJob { job, no_shutdown_delay, eval, tracked_versions: 6, at: AT });
    }
    let hurried = Transition { no_shutdown_delay: Some(true), ..transition };
    let allocs = vec![(alloc_id(1), hurried)];
    s.add("hurry allocs", &Command::UpdateTransitions { allocs, evals: vec![], at: AT });
    s.add("upsert namespace", &Command::UpsertNamespace { namespace: Box::new(team()) });
    s.add("delete namespace", &Command::DeleteNamespace { name: "team".into() });
}

fn team() -> NamespaceSpec {
    let drivers = |name: &str| vec![name.to_string()];
    NamespaceSpec {
        name: "team".into(),
        description: "ours".into(),
        meta: BTreeMap::from([("owner".to_string(), "ops".to_string())]),
        capabilities: Some(Capabilities {
            enabled_task_drivers: drivers("raw_exec"),
            disabled_task_drivers: drivers("docker"),
        }),
    }
}

/// With every member said.
fn submission() -> Submission {
    Submission {
        source: "job \"web\" {}".into(),
        format: "hcl2".into(),
        variable_flags: BTreeMap::from([("a".to_string(), "b".to_string())]),
        variables: "c = 1".into(),
    }
}

fn conversation(s: &mut Samples) {
    let (node, secret) = (node_id(1), info(1).secret);
    s.add("register", &NodeRequest::Register { info: Box::new(info(1)) });
    s.add("heartbeat", &NodeRequest::Heartbeat { node, secret });
    let generation = Generation { region_id: uuid(5), restores: 1 };
    s.add("watch", &NodeRequest::Watch { node, secret, generation, since: 7, servers: 4 });
    s.add("fetch", &NodeRequest::Fetch { node, secret, allocs: vec![alloc_id(1)] });
    let updates = vec![report(1, ClientStatus::Running)];
    s.add("report", &NodeRequest::Report { node, secret, seen: 7, updates, verdicts: vec![verdict()] });
    s.add("alive", &NodeReply::Alive { ttl: Span::seconds(12), info: 7 });
    let wanted = vec![(alloc_id(1), 9)];
    let set = AllocSet { index: 9, wanted, assignments: vec![assignment()] };
    s.add("watched", &NodeReply::Watched { generation, set, servers: Some(members::server_list()) });
    s.add("fetched", &NodeReply::Fetched { assignments: vec![assignment()] });
    s.add("reported", &NodeReply::Reported { index: 9 });
    s.add("unknown node", &NodeReply::UnknownNode);
    s.add("no leader", &NodeReply::NoLeader);
    s.add("heartbeat first", &NodeReply::HeartbeatFirst);
    s.add("refused", &NodeReply::Refused { message: "no".into() });
    s.add("stale report", &NodeReply::StaleReport { index: 9 });
    s.add("try later", &NodeReply::TryLater);
}

fn keeper(s: &mut Samples) {
    let (run, signal, timeout) = (run_id(1), 15, Span::seconds(5));
    let logs =
        Some(RunLogs { dir: "/a/logs".into(), name: "t".into(), max_files: 10, max_file_bytes: 10 << 20 });
    let run_spec = RunSpec {
        label: "a.t".into(),
        command: "/bin/serve".into(),
        args: vec!["-p".into(), "80".into()],
        search: vec!["/a/t/local".into()],
        env: vec![("A".into(), "b".into())],
        cwd: "/a/t".into(),
        user: "web".into(),
        logs: logs.clone(),
        cpu_mhz: 100,
        memory_bytes: 64 << 20,
        memory_low_bytes: 32 << 20,
    };
    s.add("hello", &KeeperCommand::Hello { protocol: 1 });
    s.add("start", &KeeperCommand::Start { run, spec: Box::new(run_spec.clone()) });
    s.add("exec", &KeeperCommand::Exec { run, spec: Box::new(run_spec), tty: true });
    s.add("signal", &KeeperCommand::Signal { run, signal });
    s.add("stop", &KeeperCommand::Stop { run, signal, timeout });
    s.add("forget", &KeeperCommand::Forget { run });
    s.add("shutdown", &KeeperCommand::Shutdown { signal, timeout });
    s.add("list", &KeeperCommand::List);
    let exits = [ExitStatus::Code(3), ExitStatus::Signal(9), ExitStatus::Unknown];
    let exits = exits.map(|status| Exit { status, oom_killed: status == ExitStatus::Signal(9) });
    let state = RunState::Running { pid: 7, since: AT };
    let failed = RunState::StartFailed { message: "no such file".into(), retryable: false };
    let ended = RunState::Exited { exit: exits[0], at: AT };
    let runs = [state, ended, failed].map(|state| RunReport { run, label: "a.t".into(), state }).to_vec();
    s.add("welcome", &Event::Welcome { protocol: 1, boot_id: uuid(2), keeper_pid: 5, runs });
    s.add("started", &Event::Started { run, pid: 7, at: AT });
    s.add("start failed", &Event::StartFailed { run, message: "no".into(), retryable: true });
    for (what, exit) in ["exited with a code", "exited by a signal", "exited unseen"].into_iter().zip(exits) {
        s.add(what, &Event::Exited { run, exit, at: AT });
    }
    s.add("session started", &Event::SessionStarted);
    s.add("session ended", &Event::SessionEnded { exit: exits[0] });
    s.add("refused", &Event::Refused { run: Some(run), message: "no".into() });
    let (label, process) = ("a.t".to_string(), Process { pid: 7, start_ticks: 99, since: AT });
    let boot_id = uuid(2);
    s.add(
        "started",
        &JournalEntry::Started { run, boot_id, label: label.clone(), process, logs: logs.clone() },
    );
    s.add("waiting", &JournalEntry::Waiting { run, boot_id, label: label.clone(), process, logs });
    s.add("released", &JournalEntry::Released { run });
    s.add("ended", &JournalEntry::Ended { run, label: label.clone(), exit: exits[2], at: Wall::NEVER });
    s.add("failed", &JournalEntry::Failed { run, label, message: "no".into(), retryable: false });
    s.add("forgotten", &JournalEntry::Forgotten { run });
}

fn local(s: &mut Samples) {
    for (what, retention) in
        [("kept", Retention::Kept), ("removed", Retention::Removed), ("collected", Retention::Collected)]
    {
        s.add(
            what,
            &AllocRecord { assignment: assignment(), dir_built: true, retention, health: None, received: AT },
        );
    }
    let found = Some(HealthResult { deployment: Some(DeploymentId::from_random(4)), healthy: true });
    let head = AllocRecord {
        assignment: assignment(),
        dir_built: true,
        retention: Retention::Kept,
        health: found,
        received: AT,
    };
    s.add("found healthy", &head);
    let state = report(1, ClientStatus::Running).task_states.remove("t").unwrap_or_default();
    let run = Some(RunRecord { id: run_id(1), boot: uuid(2), confirmed: true });
    for (what, restart) in [
        ("running, no restart", None),
        ("to be restarted", Some(WantedRestart::Alone)),
        ("to be restarted with all", Some(WantedRestart::WithAll)),
    ] {
        s.add(what, &TaskRecord { state: state.clone(), run: run.clone(), set_up: true, restart });
    }
    s.add("head", &ClientLogHead { format: 1, frames_before: 300 });
    s.add("rows", &RowBatch(vec![(vec![1, 200], Some(vec![3])), (vec![4], None)]));
}

fn samples() -> Samples {
    let mut s = Samples::default();
    objects(&mut s);
    commands(&mut s);
    node_commands(&mut s);
    operator_samples(&mut s);
    child_jobs::child_jobs(&mut s);
    scaling::scaling_samples(&mut s);
    conversation(&mut s);
    keeper(&mut s);
    local(&mut s);
    node_requests::requests(&mut s);
    node_requests::usage(&mut s);
    sessions(&mut s);
    servers(&mut s);
    servers::for_nodes(&mut s);
    servers::relays(&mut s);
    servers::credentials(&mut s);
    enrolment::enrolment(&mut s);
    snapshots(&mut s);
    members(&mut s);
    s
}

fn lines(text: &str) -> Vec<(&str, Vec<u8>)> {
    text.lines().filter_map(|l| l.split_once(": ")).map(|(name, bytes)| (name, unhex(bytes))).collect()
}

#[test]
fn records_are_written_and_read_as_ever() {
    let samples = samples();
    let golden = lines(RECORDS);
    let missing: Vec<String> = samples
        .lines
        .iter()
        .filter(|(name, bytes)| !golden.iter().any(|(n, b)| n == name && b == bytes))
        .map(|(name, bytes)| format!("{name}: {}", hex(bytes)))
        .collect();
    assert!(
        missing.is_empty(),
        "not in golden/records.txt as they are written now. A new kind or variant: add the line. \
         A changed one: it needs a new version.\n{}",
        missing.join("\n")
    );
    for (name, bytes) in golden {
        let kind = name.split('/').next().unwrap_or_default();
        let again = samples.kinds.get(kind).unwrap_or_else(|| panic!("{name}: nobody reads this kind"));
        let written = again(&bytes).unwrap_or_else(|e| panic!("{name} is not read any more: {e}"));
        let newer = written.first() != bytes.first();
        assert!(newer || written == bytes, "{name} is read, but not as what it was");
    }
}

/// A variant's number is the first thing behind the version.
#[test]
fn every_variant_of_every_record_has_its_bytes() {
    for (kind, names) in samples().variants {
        for (number, name) in names.iter().enumerate() {
            let of_variant = |line: &(&str, Vec<u8>)| {
                line.0.split('/').next() == Some(kind) && line.1.get(1).copied() == u8::try_from(number).ok()
            };
            assert!(lines(RECORDS).iter().any(of_variant), "{kind} {name}: not in golden/records.txt");
        }
    }
}

/// How many commands there are whose level is the first one. Whoever adds one after a release gives it the level that it comes with.
const FIRST_COMMANDS: u8 = 29;

#[test]
fn a_command_that_came_later_has_a_higher_level() {
    let commands = samples().lines.into_iter().filter(|(name, _)| name.starts_with("command/"));
    for (name, bytes) in commands {
        assert!(bytes[0] > 1 || bytes[1] < FIRST_COMMANDS, "{name}: older builds do not know it");
    }
}

/// Every kind of row and key, from one small history.
#[test]
fn rows_lie_where_they_always_lay() {
    let mut region = Region::default();
    region.run(&Command::Init(Box::new(founding(&[7, 300]))));
    let node = region.ready_node(1);
    region.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let nodes = place(vec![alloc(1, &region.job("web"), node, eval_id(1))]);
    let done = Evaluation { status: EvalStatus::Complete, ..eval(1, "web") };
    region.run(&Command::ApplyPlan {
        eval: EvalId(done.id.0),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![done],
        at: AT,
    });
    region.run(&Command::UpdateAllocs {
        seen: u64::MAX,
        node,
        updates: vec![report(1, ClientStatus::Running)],
        verdicts: vec![],
        evals: vec![eval(2, "web")],
        at: AT,
    });
    region.run(&namespace("team", "ours"));
    region.run(&submit(spec("written", 0), "job \"written\" {}", 6));
    region.run(&Command::AddSigningKey { key: Box::new(signing_key()) });
    operator::operator_rows(&mut region);
    child_jobs::launched(&mut region);
    scaling::scaled(&mut region);
    let view = region.view();
    check::consistent(&view).expect("whole");
    let rows = check::rows(&view).expect("reads");
    let told: String = rows.iter().map(|(k, v)| format!("{}: {}\n", hex(k), hex(v))).collect();
    assert!(told == ROWS, "golden/rows.txt differs from what is written now:\n{told}");
}
