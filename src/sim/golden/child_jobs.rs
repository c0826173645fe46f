//! Samples of jobs that make others, and of evaluations by why they were made.

use super::Samples;
use model::dispatch::{Dispatch, DispatchPayload, DispatchRequest, Parameterized, PayloadRule};
use model::eval::{Evaluation, Trigger};
use model::job::JobSpec;
use model::job_summary::{Children, JobSummary};
use model::periodic::Periodic;
use state::samples::{AT, Region, eval, eval_id, key, register, spec};
use wire::command::{Command, DispatchJobCommand, LaunchJobCommand};

/// With every member said.
fn clock() -> JobSpec {
    let periodic = Periodic {
        enabled: true,
        spec: "@daily".into(),
        specs: vec!["*/5 * * * *".into()],
        prohibit_overlap: true,
        time_zone: "Europe/Berlin".into(),
    };
    JobSpec { periodic: Some(periodic), ..spec("clock", 1) }
}

fn launch(timed_by: Option<u64>) -> Command {
    let eval = Evaluation { trigger: Trigger::PeriodicJob, ..eval(4, "clock") };
    let (job, tracked_versions, at) = (key("clock"), 6, AT);
    Command::LaunchJob(Box::new(LaunchJobCommand { job, moment: AT, timed_by, eval, tracked_versions, at }))
}

pub fn triggers(s: &mut Samples) {
    for trigger in [
        Trigger::AllocReschedule,
        Trigger::MaxDisconnectTimeout,
        Trigger::NodeDrain,
        Trigger::DeploymentWatcher,
        Trigger::Reconnect,
        Trigger::RollingUpdate,
    ] {
        let later = Evaluation { trigger, wait_until: Some(AT), ..eval(1, "web") };
        s.add(trigger.as_str(), &later);
    }
}

pub fn child_jobs(s: &mut Samples) {
    s.add::<JobSpec>("periodic", &clock());
    s.add::<JobSpec>("child", &JobSpec { parent: "clock".into(), ..spec("clock/periodic-1", 1) });
    let children = Children { pending: 1, running: 2, dead: 300 };
    s.add("parent", &JobSummary { children, ..JobSummary::default() });
    s.add("periodic-job", &Evaluation { trigger: Trigger::PeriodicJob, ..eval(4, "clock") });
    s.add("launch job", &launch(None));
    s.add("launch job in time", &launch(Some(300)));
    dispatches(s);
}

/// With every member said.
fn form() -> JobSpec {
    let parameterized = Parameterized {
        payload: PayloadRule::Required,
        meta_required: vec!["who".into()],
        meta_optional: vec!["why".into()],
    };
    let mut form = JobSpec { parameterized: Some(parameterized), ..spec("form", 1) };
    form.groups[0].tasks[0].dispatch_payload = Some(DispatchPayload { file: "in/put".into() });
    form
}

fn dispatch() -> Command {
    let request = DispatchRequest {
        job: key("form"),
        payload: vec![1, 2],
        meta: [("who".to_string(), "me".to_string())].into(),
        prefix: "night".into(),
        token: "once".into(),
        priority: 300,
    };
    Command::DispatchJob(Box::new(DispatchJobCommand { request, eval: eval_id(5), at: AT }))
}

fn dispatches(s: &mut Samples) {
    s.add::<JobSpec>("parameterized", &form());
    let dispatch_of = |made_of| Dispatch { payload: vec![1, 2], token: "once".into(), made_of };
    for (what, made_of) in [("dispatched", Some((300, 1))), ("launched by a dispatched one", None)] {
        let (parent, dispatch) = ("form".into(), Some(dispatch_of(made_of)));
        s.add::<JobSpec>(what, &JobSpec { parent, dispatch, ..spec("form/dispatch-1", 1) });
    }
    s.add("dispatch job", &dispatch());
}

/// The rows that these lie in.
pub fn launched(region: &mut Region) {
    region.run(&register(clock(), None));
    region.run(&launch(None));
    region.run(&register(form(), None));
    assert!(region.run(&dispatch()).reply.is_ok());
}
