//! Samples of groups that are scaled, their policies and what is left of it.

use super::Samples;
use model::eval::{Evaluation, Trigger};
use model::job::JobSpec;
use model::scaling::{Scaling, ScalingEvent, ScalingEvents, ScalingPolicy, ScalingType, TaskScaling};
use model::value::Value;
use state::samples::{AT, Region, eval, key, register, registration, spec};
use std::collections::BTreeMap;
use wire::command::{Command, RegisterJobCommand, ScaleJobCommand};
use wire::request::ScaleRequest;

/// With every member said.
fn scaling() -> Scaling {
    let policy = BTreeMap::from([("cooldown".to_string(), Value::Text("1m".into()))]);
    Scaling { min: 1, max: 300, enabled: true, policy }
}

fn scalable() -> JobSpec {
    let mut spec = spec("scaled", 1);
    spec.groups[0].scaling = Some(scaling());
    spec
}

fn scale(count: Option<i64>) -> Command {
    let request = ScaleRequest {
        job: key("scaled"),
        group: "g".into(),
        count,
        message: "busy".into(),
        error: count.is_none(),
        meta: BTreeMap::from([("load".to_string(), Value::Float(0.5))]),
        enforce_index: count.map(|_| 300),
    };
    Command::ScaleJob(Box::new(ScaleJobCommand {
        request,
        eval: count.map(|_| Evaluation { trigger: Trigger::JobScaling, ..eval(5, "scaled") }),
        tracked_versions: 6,
        at: AT,
    }))
}

pub fn scaling_samples(s: &mut Samples) {
    s.add::<JobSpec>("scalable", &scalable());
    let policy = ScalingPolicy {
        job: key("scaled"),
        group: "g".into(),
        scaling: scaling(),
        create_index: 5,
        modify_index: 300,
        kind: ScalingType::Horizontal,
        task: String::new(),
    };
    s.add("of a group", &policy);
    let kind = ScalingType::VerticalMem;
    s.add("of a task", &ScalingPolicy { kind, task: "t".into(), ..policy });
    let mut sized = scalable();
    let kinds = ScalingType::VERTICAL.into_iter();
    sized.groups[0].tasks[0].scaling = kinds.map(|kind| TaskScaling { kind, scaling: scaling() }).collect();
    s.add::<JobSpec>("with scalable tasks", &sized);
    let event = ScalingEvent {
        at: AT,
        count: Some(2),
        previous_count: 1,
        message: "busy".into(),
        error: false,
        meta: BTreeMap::from([("load".to_string(), Value::Float(0.5))]),
        eval: Some(eval(5, "scaled").id),
        create_index: 300,
    };
    s.add(
        "two",
        &ScalingEvents(vec![ScalingEvent { count: None, error: true, eval: None, ..event.clone() }, event]),
    );
    s.add("job-scaling", &Evaluation { trigger: Trigger::JobScaling, ..eval(5, "scaled") });
    s.add("scale job", &scale(Some(2)));
    s.add("scaling event", &scale(None));
    let keeps = RegisterJobCommand { preserve_counts: true, ..registration(spec("web", 2), None) };
    s.add("register job that keeps counts", &Command::RegisterJob(Box::new(keeps)));
}

/// The rows that these lie in.
pub fn scaled(region: &mut Region) {
    region.run(&register(scalable(), None));
    region.run(&scale(None));
}
