//! The directory of one allocation: when it is built and built again, and when it is removed (client.md 6, client.md 23).
//!
//! Refuses to know: what runs in it, and how it is built.

use super::AllocRunner;
use crate::effects::{DirFile, DirSpec, DirTask, Effect};
use crate::events;
use crate::task_runner::{Dirty, TurnContext};
use model::job::Task;
use model::time::{Mono, Span, Wall};
use state::client_store::Retention;

/// How long building or removing may take before it is asked for again.
const DIR_TIMEOUT: Span = Span::minutes(5);
const DIR_RETRY: Span = Span::minutes(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocDirState {
    Absent,
    /// Built before the agent's restart: part of it lies in memory and may be gone with a reboot.
    Stale,
    /// Asked for again at `again` if no answer has come.
    Building {
        again: Mono,
    },
    Built,
}

impl AllocRunner {
    pub fn dir_built(&mut self, ctx: &TurnContext<'_>, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.dir = AllocDirState::Built;
                self.record.dir_built = true;
                self.record_dirty = self.record_dirty.max(Dirty::Lazy);
            }
            Err(why) => {
                // Running tasks continue; the directory is built again before the next start.
                self.dir = AllocDirState::Building { again: ctx.now.mono.after(DIR_RETRY) };
                let why = format!("failed to setup alloc: pre-run hook \"alloc_dir\" failed: {why}");
                self.fail_setup(ctx.now.stamp(), &why);
            }
        }
    }

    fn fail_setup(&mut self, at: Wall, why: &str) {
        for task in self.tasks.iter_mut().filter(|t| !t.is_dead() && !t.has_run()) {
            task.fail(events::setup_failure(at, why), at);
        }
    }

    /// A directory whose removal failed is tried again later.
    pub fn dir_not_removed(&mut self, now: Mono) {
        self.remove_at = Some(now.after(DIR_RETRY));
    }

    pub(super) fn prepare_dir(&mut self, ctx: &mut TurnContext<'_>, previous_lives: bool) {
        let wanted = match self.plan {
            None => true,
            Some(plan) => self.record.dir_built && !plan.with_poststop,
        };
        if !wanted || !ctx.disk_has_space || self.has_ended() {
            return;
        }
        let due = match self.dir {
            AllocDirState::Absent => !previous_lives,
            AllocDirState::Stale => true,
            AllocDirState::Building { again } => again <= ctx.now.mono,
            AllocDirState::Built => false,
        };
        if !due {
            return;
        }
        let group = &self.record.assignment.group;
        if let Some(bad) = group.tasks.iter().find(|t| !is_file_name(&t.name)) {
            let why = format!("task name {:?} cannot be the name of a directory", bad.name);
            return self.fail_setup(ctx.now.stamp(), &why);
        }
        let payload = &self.record.assignment.payload;
        let file = |t: &Task| {
            let wanted = t.dispatch_payload.as_ref().filter(|_| !payload.is_empty())?;
            Some(DirFile { path: wanted.file.clone(), bytes: payload.clone() })
        };
        let dir = |t: &Task| DirTask { name: t.name.clone(), user: t.user.clone(), file: file(t) };
        let tasks = group.tasks.iter().map(dir).collect();
        ctx.effects.push(Effect::BuildDir(DirSpec { alloc: self.id(), tasks }));
        if self.dir == AllocDirState::Absent {
            // what starts as soon as the directory is there
            let stage = self.stage.advance(&self.views());
            self.tasks.iter_mut().filter(|t| stage.may_start(t.role)).for_each(|task| task.plan_run(ctx));
        }
        self.dir = AllocDirState::Building { again: ctx.now.mono.after(DIR_TIMEOUT) };
    }

    pub(super) fn remove_dir_if_wanted(&mut self, ctx: &mut TurnContext<'_>) {
        let now = ctx.now.mono;
        let building = matches!(self.dir, AllocDirState::Building { again } if again > now);
        if self.record.retention == Retention::Kept || !self.has_ended() || building {
            return;
        }
        if self.remove_at.is_none_or(|at| at <= now) {
            tracing::debug!(target: "client.gc", alloc_id = %self.id(), "removing allocation directory");
            ctx.effects.push(Effect::RemoveDir { alloc: self.id() });
            self.remove_at = Some(now.after(DIR_TIMEOUT));
        }
    }
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !matches!(name, "." | ".." | "alloc")
        && !name.contains(['/', '\0'])
}
