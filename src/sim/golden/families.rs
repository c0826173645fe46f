//! Samples of jobs that make others, and of evaluations by why they were made.

use super::Samples;
use crate::model::eval::{Evaluation, Trigger};
use crate::model::family::{Children, Periodic};
use crate::model::job::{JobSpec, JobSummary};
use crate::state::samples::{AT, Region, eval, key, register, spec};
use crate::wire::command::{Command, LaunchJob};

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
    Command::LaunchJob(Box::new(LaunchJob { job, moment: AT, timed_by, eval, tracked_versions, at }))
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

pub fn families(s: &mut Samples) {
    s.add::<JobSpec>("periodic", &clock());
    s.add::<JobSpec>("child", &JobSpec { parent: "clock".into(), ..spec("clock/periodic-1", 1) });
    let children = Children { pending: 1, running: 2, dead: 300 };
    s.add("parent", &JobSummary { children, ..JobSummary::default() });
    s.add("periodic-job", &Evaluation { trigger: Trigger::PeriodicJob, ..eval(4, "clock") });
    s.add("launch job", &launch(None));
    s.add("launch job in time", &launch(Some(300)));
}

/// The rows that these lie in.
pub fn launched(region: &mut Region) {
    region.run(&register(clock(), None));
    region.run(&launch(None));
}
