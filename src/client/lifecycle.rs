//! Which of an allocation's tasks may start now: prestart tasks, then main ones, then poststart, and poststop when all
//! others have ended (client.md 6). Knows phases of tasks, not processes.

use model::job::JobType;
use model::resources::{Hook, Lifecycle};
use model::task::TaskPhase;

/// A task's place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Prestart,
    PrestartSidecar,
    Main,
    Poststart,
    PoststartSidecar,
    Poststop,
}

impl Role {
    pub fn of(lifecycle: Option<Lifecycle>) -> Role {
        match lifecycle {
            None => Role::Main,
            Some(Lifecycle { hook: Hook::Prestart, sidecar: false }) => Role::Prestart,
            Some(Lifecycle { hook: Hook::Prestart, sidecar: true }) => Role::PrestartSidecar,
            Some(Lifecycle { hook: Hook::Poststart, sidecar: false }) => Role::Poststart,
            Some(Lifecycle { hook: Hook::Poststart, sidecar: true }) => Role::PoststartSidecar,
            Some(Lifecycle { hook: Hook::Poststop, .. }) => Role::Poststop,
        }
    }

    pub fn is_sidecar(self) -> bool {
        matches!(self, Role::PrestartSidecar | Role::PoststartSidecar)
    }

    /// Whether a task that ended well is started again.
    pub fn restarts_on_success(self, job_type: JobType) -> bool {
        match self {
            Role::Main => matches!(job_type, JobType::Service | JobType::System),
            Role::PrestartSidecar | Role::PoststartSidecar => true,
            Role::Prestart | Role::Poststart | Role::Poststop => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Prestart,
    Main,
    Poststart,
    WaitAlloc,
    Poststop,
}

/// What the stage depends on.
#[derive(Clone, Copy, Debug)]
pub struct TaskView {
    pub role: Role,
    pub phase: TaskPhase,
    pub failed: bool,
}

impl Stage {
    /// May a task of this role start?
    pub fn opens(self, role: Role) -> bool {
        match role {
            Role::Prestart => self == Stage::Prestart,
            Role::PrestartSidecar => self != Stage::Poststop,
            Role::Main => matches!(self, Stage::Main | Stage::Poststart | Stage::WaitAlloc),
            Role::Poststart => self == Stage::Poststart,
            Role::PoststartSidecar => matches!(self, Stage::Poststart | Stage::WaitAlloc),
            Role::Poststop => self == Stage::Poststop,
        }
    }

    /// The stage that these tasks have reached. It only ever moves forward.
    pub fn advance(self, tasks: &[TaskView]) -> Stage {
        let mut stage = self;
        while let Some(next) = stage.next(tasks) {
            stage = next;
        }
        stage
    }

    fn next(self, tasks: &[TaskView]) -> Option<Stage> {
        let each =
            |role: Role, test: fn(&TaskView) -> bool| tasks.iter().filter(|t| t.role == role).all(test);
        let dead = |t: &TaskView| t.phase == TaskPhase::Dead;
        if self == Stage::Poststop {
            return None;
        }
        if tasks.iter().filter(|t| t.role != Role::Poststop).all(dead) {
            return Some(Stage::Poststop);
        }
        let done = match self {
            Stage::Prestart => {
                each(Role::Prestart, |t| t.phase == TaskPhase::Dead && !t.failed)
                    && each(Role::PrestartSidecar, |t| t.phase == TaskPhase::Running)
            }
            Stage::Main => each(Role::Main, |t| t.phase != TaskPhase::Pending),
            Stage::Poststart => each(Role::Poststart, |t| t.phase == TaskPhase::Dead),
            Stage::WaitAlloc | Stage::Poststop => false,
        };
        match self {
            _ if !done => None,
            Stage::Prestart => Some(Stage::Main),
            Stage::Main => Some(Stage::Poststart),
            Stage::Poststart | Stage::WaitAlloc | Stage::Poststop => Some(Stage::WaitAlloc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::*;
    use TaskPhase::{Dead, Pending, Running};

    fn view(role: Role, phase: TaskPhase, failed: bool) -> TaskView {
        TaskView { role, phase, failed }
    }

    #[test]
    fn stages_follow_the_tasks() {
        let cases: [(&[TaskView], Stage); 10] = [
            (&[view(Main, Pending, false)], Stage::Main),
            (&[view(Main, Running, false)], Stage::WaitAlloc),
            (&[view(Main, Dead, false)], Stage::Poststop),
            (&[view(Main, Pending, false), view(Prestart, Pending, false)], Stage::Prestart),
            (&[view(Main, Pending, false), view(Prestart, Dead, false)], Stage::Main),
            (&[view(Main, Pending, false), view(Prestart, Dead, true)], Stage::Prestart),
            (&[view(Main, Pending, false), view(PrestartSidecar, Pending, false)], Stage::Prestart),
            (&[view(Main, Pending, false), view(PrestartSidecar, Running, false)], Stage::Main),
            (&[view(Main, Running, false), view(Poststart, Pending, false)], Stage::Poststart),
            (&[view(Main, Running, false), view(Poststart, Dead, false)], Stage::WaitAlloc),
        ];
        for (tasks, stage) in cases {
            assert_eq!(Stage::Prestart.advance(tasks), stage, "{tasks:?}");
        }
        let stopped = [view(Main, Dead, false), view(Poststop, Pending, false)];
        assert_eq!(Stage::Prestart.advance(&stopped), Stage::Poststop);
    }

    #[test]
    fn gates_open_by_stage() {
        let open = |stage: Stage| {
            [Prestart, PrestartSidecar, Main, Poststart, PoststartSidecar, Poststop]
                .map(|r| stage.opens(r) as u8)
        };
        assert_eq!(open(Stage::Prestart), [1, 1, 0, 0, 0, 0]);
        assert_eq!(open(Stage::Main), [0, 1, 1, 0, 0, 0]);
        assert_eq!(open(Stage::Poststart), [0, 1, 1, 1, 1, 0]);
        assert_eq!(open(Stage::WaitAlloc), [0, 1, 1, 0, 1, 0]);
        assert_eq!(open(Stage::Poststop), [0, 0, 0, 0, 0, 1]);
    }
}
