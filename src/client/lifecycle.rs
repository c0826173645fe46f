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
pub enum LifecycleStage {
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

impl LifecycleStage {
    /// May a task of this role start?
    pub fn may_start(self, role: Role) -> bool {
        match role {
            Role::Prestart => self == LifecycleStage::Prestart,
            Role::PrestartSidecar => self != LifecycleStage::Poststop,
            Role::Main => {
                matches!(self, LifecycleStage::Main | LifecycleStage::Poststart | LifecycleStage::WaitAlloc)
            }
            Role::Poststart => self == LifecycleStage::Poststart,
            Role::PoststartSidecar => matches!(self, LifecycleStage::Poststart | LifecycleStage::WaitAlloc),
            Role::Poststop => self == LifecycleStage::Poststop,
        }
    }

    /// The stage that these tasks have reached. It only ever moves forward.
    pub fn advance(self, tasks: &[TaskView]) -> LifecycleStage {
        let mut stage = self;
        while let Some(next) = stage.next(tasks) {
            stage = next;
        }
        stage
    }

    fn next(self, tasks: &[TaskView]) -> Option<LifecycleStage> {
        let each =
            |role: Role, test: fn(&TaskView) -> bool| tasks.iter().filter(|t| t.role == role).all(test);
        let dead = |t: &TaskView| t.phase == TaskPhase::Dead;
        if self == LifecycleStage::Poststop {
            return None;
        }
        if tasks.iter().filter(|t| t.role != Role::Poststop).all(dead) {
            return Some(LifecycleStage::Poststop);
        }
        let done = match self {
            LifecycleStage::Prestart => {
                each(Role::Prestart, |t| t.phase == TaskPhase::Dead && !t.failed)
                    && each(Role::PrestartSidecar, |t| t.phase == TaskPhase::Running)
            }
            LifecycleStage::Main => each(Role::Main, |t| t.phase != TaskPhase::Pending),
            LifecycleStage::Poststart => each(Role::Poststart, |t| t.phase == TaskPhase::Dead),
            LifecycleStage::WaitAlloc | LifecycleStage::Poststop => false,
        };
        match self {
            _ if !done => None,
            LifecycleStage::Prestart => Some(LifecycleStage::Main),
            LifecycleStage::Main => Some(LifecycleStage::Poststart),
            LifecycleStage::Poststart | LifecycleStage::WaitAlloc | LifecycleStage::Poststop => {
                Some(LifecycleStage::WaitAlloc)
            }
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
        let cases: [(&[TaskView], LifecycleStage); 10] = [
            (&[view(Main, Pending, false)], LifecycleStage::Main),
            (&[view(Main, Running, false)], LifecycleStage::WaitAlloc),
            (&[view(Main, Dead, false)], LifecycleStage::Poststop),
            (&[view(Main, Pending, false), view(Prestart, Pending, false)], LifecycleStage::Prestart),
            (&[view(Main, Pending, false), view(Prestart, Dead, false)], LifecycleStage::Main),
            (&[view(Main, Pending, false), view(Prestart, Dead, true)], LifecycleStage::Prestart),
            (&[view(Main, Pending, false), view(PrestartSidecar, Pending, false)], LifecycleStage::Prestart),
            (&[view(Main, Pending, false), view(PrestartSidecar, Running, false)], LifecycleStage::Main),
            (&[view(Main, Running, false), view(Poststart, Pending, false)], LifecycleStage::Poststart),
            (&[view(Main, Running, false), view(Poststart, Dead, false)], LifecycleStage::WaitAlloc),
        ];
        for (tasks, stage) in cases {
            assert_eq!(LifecycleStage::Prestart.advance(tasks), stage, "{tasks:?}");
        }
        let stopped = [view(Main, Dead, false), view(Poststop, Pending, false)];
        assert_eq!(LifecycleStage::Prestart.advance(&stopped), LifecycleStage::Poststop);
    }

    #[test]
    fn gates_open_by_stage() {
        let open = |stage: LifecycleStage| {
            [Prestart, PrestartSidecar, Main, Poststart, PoststartSidecar, Poststop]
                .map(|r| stage.may_start(r) as u8)
        };
        assert_eq!(open(LifecycleStage::Prestart), [1, 1, 0, 0, 0, 0]);
        assert_eq!(open(LifecycleStage::Main), [0, 1, 1, 0, 0, 0]);
        assert_eq!(open(LifecycleStage::Poststart), [0, 1, 1, 1, 1, 0]);
        assert_eq!(open(LifecycleStage::WaitAlloc), [0, 1, 1, 0, 1, 0]);
        assert_eq!(open(LifecycleStage::Poststop), [0, 0, 0, 0, 0, 1]);
    }
}
