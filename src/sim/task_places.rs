//! What each task is in its group, as the job says and as every process of the group is told among its arguments: before, beside or after
//! the main tasks, a leader or not, and over once it has ended well or not.
//!
//! Refuses to know when a task starts and ends.

use model::job::{JobType, Task, TaskGroup};
use model::resources::{Hook, Lifecycle};
use model::value::Value;

/// What the argument begins with.
const WORD: &str = "places=";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlace {
    pub task: String,
    /// `None`: a main task.
    pub hook: Option<Hook>,
    /// The task goes on beside the main tasks.
    pub sidecar: bool,
    pub leader: bool,
    /// What ends well is not started again.
    pub once: bool,
}

impl TaskPlace {
    fn of(task: &Task, job_type: JobType) -> TaskPlace {
        let hook = task.lifecycle.map(|l| l.hook);
        let sidecar = task.lifecycle.is_some_and(|l| l.sidecar && l.hook != Hook::Poststop);
        let goes_on = match hook {
            None => matches!(job_type, JobType::Service | JobType::System),
            Some(_) => sidecar,
        };
        TaskPlace { task: task.name.clone(), hook, sidecar, leader: task.leader, once: !goes_on }
    }

    fn text(&self) -> String {
        let words = [
            Some(self.task.as_str()),
            self.hook.map(Hook::as_str),
            self.sidecar.then_some("sidecar"),
            self.leader.then_some("leader"),
            self.once.then_some("once"),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(":")
    }

    fn read(text: &str) -> TaskPlace {
        let words: Vec<&str> = text.split(':').collect();
        let says = |word: &str| words.contains(&word);
        let hooks = [Hook::Prestart, Hook::Poststart, Hook::Poststop];
        TaskPlace {
            task: words[0].to_string(),
            hook: hooks.into_iter().find(|hook| says(hook.as_str())),
            sidecar: says("sidecar"),
            leader: says("leader"),
            once: says("once"),
        }
    }

    pub fn is_main(&self) -> bool {
        self.hook.is_none()
    }

    pub fn is_poststop(&self) -> bool {
        self.hook == Some(Hook::Poststop)
    }

    /// Whether the task has to end well before the main tasks start.
    pub fn is_prestart(&self) -> bool {
        self.hook == Some(Hook::Prestart) && !self.sidecar
    }

    pub fn is_prestart_sidecar(&self) -> bool {
        self.hook == Some(Hook::Prestart) && self.sidecar
    }

    pub fn is_poststart(&self) -> bool {
        self.hook == Some(Hook::Poststart)
    }
}

/// Each process of the group is told what the group's tasks are.
pub fn tell_places(group: &mut TaskGroup, job_type: JobType) {
    let places: Vec<String> = group.tasks.iter().map(|t| TaskPlace::of(t, job_type).text()).collect();
    let word = Value::Text(format!("{WORD}{}", places.join(",")));
    for task in &mut group.tasks {
        if let Some(Value::List(args)) = task.config.get_mut("args") {
            args.push(word.clone());
        }
    }
}

/// What a process was told. Nothing: its group has no other task.
pub fn told_places(args: &[String]) -> Vec<TaskPlace> {
    let word = args.iter().find_map(|arg| arg.strip_prefix(WORD));
    word.into_iter().flat_map(|places| places.split(',')).map(TaskPlace::read).collect()
}

/// A task of that kind, which may lead.
pub fn lifecycle(hook: Hook, sidecar: bool) -> Option<Lifecycle> {
    Some(Lifecycle { hook, sidecar })
}

#[test]
fn a_process_is_told_what_its_group_has() {
    use model::samples;
    let task = |name: &str, lifecycle| Task { lifecycle, ..samples::task(name) };
    let tasks = vec![
        Task { leader: true, ..task("main", None) },
        task("init", lifecycle(Hook::Prestart, false)),
        task("watch", lifecycle(Hook::Poststart, true)),
        task("clean", lifecycle(Hook::Poststop, true)),
    ];
    let mut group = samples::group("group", 1, tasks);
    for task in &mut group.tasks {
        task.config.insert("args".into(), Value::List(vec![]));
    }
    for job_type in [JobType::Service, JobType::Batch] {
        let mut group = group.clone();
        tell_places(&mut group, job_type);
        for task in &group.tasks {
            let Some(Value::List(args)) = task.config.get("args") else { panic!("no arguments") };
            let [Value::Text(word)] = &args[..] else { panic!("{args:?}") };
            let places = told_places(std::slice::from_ref(word));
            let known: Vec<_> = group.tasks.iter().map(|t| TaskPlace::of(t, job_type)).collect();
            assert_eq!(places, known);
            assert_eq!(places[0].once, job_type == JobType::Batch);
            assert!(!places[3].sidecar && places[3].once, "what comes last does not go on");
        }
    }
    assert_eq!(told_places(&["run".into()]), vec![]);
}
