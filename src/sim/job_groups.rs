//! The shapes of the users' jobs: tasks before, beside and after the main one, leaders, a second group, and what only one allocation of a
//! node can hold at a time.
//!
//! Refuses to know what comes of it.

use super::task_places::{lifecycle, tell_places};
use model::claims::DeviceAsk;
use model::job::{JobSpec, JobType, Task, TaskGroup};
use model::random::Stream;
use model::resources::Hook;
use model::value::Value;

/// The kind of every device that nodes have.
pub const DEVICE: &str = "gpu";
/// Beside the first one, which scaling names.
pub const SECOND_GROUP: &str = "second";
const HOOKS: [(&str, Hook, bool); 5] = [
    ("init", Hook::Prestart, false),
    ("proxy", Hook::Prestart, true),
    ("warm", Hook::Poststart, false),
    ("watch", Hook::Poststart, true),
    ("clean", Hook::Poststop, false),
];

pub struct JobShapes {
    draws: Stream,
    /// Else there are only second tasks beside the main one.
    has_all: bool,
}

/// How long a task takes; zero is forever.
type Milliseconds = u64;

impl JobShapes {
    pub fn new(seed: u64) -> JobShapes {
        JobShapes { draws: Stream::new(seed, 117), has_all: false }
    }

    /// From now on: where what they add takes little time.
    pub fn draw_all(&mut self) {
        self.has_all = true;
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0
    }

    /// `spec`: of one group with its main task.
    pub fn shape(&mut self, spec: &mut JobSpec) {
        let job_type = spec.job_type;
        if self.has_all && self.one_in(4) {
            self.add_group(spec);
        }
        for group in &mut spec.groups {
            if self.one_in(4) {
                self.add_sibling(group, job_type);
            }
            if self.has_all {
                if self.one_in(3) {
                    self.add_hooks(group);
                }
                self.claim(group);
            }
            tell_places(group, job_type);
        }
    }

    /// As the first one, but for its number and what its task does.
    fn add_group(&mut self, spec: &mut JobSpec) {
        let Some(mut group) = spec.groups.first().cloned() else { return };
        let most = if spec.job_type == JobType::System { 2 } else { 3 };
        (group.name, group.count) = (SECOND_GROUP.into(), self.draws.below(most) as i64);
        let ends = spec.job_type == JobType::Batch || self.one_in(4);
        let milliseconds = if ends { 1 + self.draws.below(20_000) } else { 0 };
        let args = self.args(milliseconds, 3);
        for task in &mut group.tasks {
            task.config.insert("args".into(), args.clone());
        }
        spec.groups.push(group);
    }

    /// A second task, which fares differently: when one of the two fails, or the leader ends, the other one is killed.
    fn add_sibling(&mut self, group: &mut TaskGroup, job_type: JobType) {
        let leader = self.one_in(2);
        let milliseconds = if self.one_in(2) { 0 } else { 1 + self.draws.below(20_000) };
        // a batch allocation completes only when each of its tasks has ended
        let ends = job_type == JobType::Batch && !leader;
        let milliseconds = if ends { milliseconds.max(1) } else { milliseconds };
        let args = self.args(milliseconds, u64::MAX);
        let Some(main) = group.tasks.first_mut() else { return };
        let mut side = Task { name: "side".into(), leader: false, ..main.clone() };
        main.leader = leader;
        side.config.insert("args".into(), args);
        group.tasks.push(side);
    }

    fn add_hooks(&mut self, group: &mut TaskGroup) {
        let Some(main) = group.tasks.first().cloned() else { return };
        for (name, hook, sidecar) in HOOKS {
            if self.draws.below(5) > 1 {
                continue;
            }
            let milliseconds = match sidecar {
                true if self.one_in(6) => 5_000 + self.draws.below(20_000),
                true => 0,
                false => 1 + self.draws.below(4_000),
            };
            let args = self.args(milliseconds, 8);
            let lifecycle = lifecycle(hook, sidecar);
            let mut task = Task { name: name.into(), lifecycle, leader: false, ..main.clone() };
            (task.resources.cpu_mhz, task.resources.memory_mb) = (50, 16);
            task.config.insert("args".into(), args);
            group.tasks.push(task);
        }
    }

    /// Now and then a task gets whole cores, or a device.
    fn claim(&mut self, group: &mut TaskGroup) {
        let (which, what, cores) = (self.draws.next_u64(), self.draws.below(10), 1 + self.draws.below(2));
        let count = group.tasks.len().max(1) as u64;
        let Some(task) = group.tasks.get_mut((which % count) as usize) else { return };
        match what {
            0 => (task.resources.cores, task.resources.cpu_mhz) = (cores as i64, 0),
            1 => {
                let asked = DeviceAsk { name: DEVICE.into(), count: 1, ..DeviceAsk::default() };
                task.resources.devices.push(asked);
            }
            _ => {}
        }
    }

    /// `fails`: once in so often.
    fn args(&mut self, milliseconds: Milliseconds, fails: u64) -> Value {
        let code = if self.one_in(fails) { 1 } else { 0 };
        let stubborn = self.one_in(4);
        task_args(milliseconds, code, stubborn)
    }
}

/// What a simulated process is told to do.
pub fn task_args(milliseconds: Milliseconds, code: i32, stubborn: bool) -> Value {
    let mut args = vec!["run".to_string(), milliseconds.to_string(), code.to_string()];
    args.extend(stubborn.then(|| "stubborn".to_string()));
    Value::List(args.into_iter().map(Value::Text).collect())
}

#[test]
fn jobs_have_every_shape() {
    use super::job_specs::{batch_job, service_job, system_job};
    use model::id::JobKey;
    use model::validate::{Limits, validate};
    use std::collections::BTreeSet;
    let mut shapes = JobShapes::new(1);
    shapes.draw_all();
    let key = JobKey::new("default", "a");
    let (mut seen, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for n in 0..300 {
        let mut spec = match n % 3 {
            0 => service_job(&key, 2),
            1 => batch_job(&key, 2),
            _ => system_job(&key),
        };
        spec.groups[0].reschedule = service_job(&key, 2).groups[0].reschedule.filter(|_| n % 3 < 2);
        spec.groups[0].tasks[0].config.insert("args".into(), task_args(0, 0, false));
        shapes.shape(&mut spec);
        assert_eq!(validate(&spec, &Limits::default()).error_text(), "");
        groups.insert(spec.groups.len());
        for task in spec.groups.iter().flat_map(|g| &g.tasks) {
            seen.insert(task.name.clone());
            seen.extend(task.leader.then(|| "leads".into()));
            seen.extend((task.resources.cores > 0).then(|| "cores".into()));
            seen.extend(task.resources.devices.first().map(|d| d.name.clone()));
        }
    }
    let all = ["clean", "cores", "gpu", "init", "leads", "main", "proxy", "side", "warm", "watch"];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), all);
    assert_eq!(groups, BTreeSet::from([1, 2]));
}
