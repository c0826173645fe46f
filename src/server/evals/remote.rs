//! Evaluations that the workers of other servers take off the leader's broker: when they help, what they are told, and what comes back
//! when one of these servers is gone (scheduler.md 5).
//!
//! Refuses to know: which servers wait for work, which `remote_workers` says.

use super::{Evals, own_types};
use crate::Config;
use crate::context::Context;
use crate::effects::ScheduleTask;
use crate::plans::Plans;
use crate::remote_workers::RemoteWorkers;
use model::id::EvalId;
use model::job::JobType;
use wire::frame::{self, Body, Frame};
use wire::rpc::Peer;
use wire::server_rpc::{RemoteTask, ServerReply};

impl Evals {
    /// What waits longer than this server's workers need for it goes to servers that have asked.
    pub(super) fn dispatch_remotely(
        &mut self,
        remote: &mut RemoteWorkers,
        plans: &Plans,
        cx: &mut Context<'_>,
    ) {
        // a server whose state is behind would hold evaluations until it has caught up
        let is_fit = |server| !cx.raft.is_behind(server);
        while let Some(waiting) =
            remote.take(cx.now, is_fit, |of| !self.types_for_remote_workers(of, cx.config).is_empty())
        {
            let mut tasks = vec![];
            while tasks.len() < waiting.free as usize {
                let types_for_remote_workers = self.types_for_remote_workers(&waiting.enabled, cx.config);
                let Some(task) = self.take_ready(Some(waiting.server), &types_for_remote_workers, cx) else {
                    break;
                };
                tasks.push(remote_task(task, plans, cx));
            }
            deliver(waiting.server, waiting.request, tasks, cx);
        }
    }

    /// Whether another server's worker has the evaluation.
    pub fn is_remote(&self, eval: EvalId) -> bool {
        self.outstanding.get(&eval).is_some_and(|held| held.server.is_some())
    }

    /// The types of which another server may have evaluations: those that this server's own workers do not take, and any while more
    /// are ready than those will soon take.
    fn types_for_remote_workers(&self, types: &[JobType], config: &Config) -> Vec<JobType> {
        let own = own_types(config);
        let has_enough = self.broker.ready_of(own) > config.workers * config.ready_per_worker;
        let is_offered = |t: &&JobType| self.broker.ready_of(&[**t]) > 0 && (has_enough || !own.contains(t));
        types.iter().filter(is_offered).copied().collect()
    }

    /// The connection to that server is gone: what its workers hold, and have not answered, goes back now, and the rest once it would
    /// be tried again.
    pub fn link_down(&mut self, server: u64, cx: &mut Context<'_>) {
        let mut lost = vec![];
        for held in self.outstanding.values_mut().filter(|held| held.server == Some(server)) {
            held.is_cut_off = true;
            if !held.is_answered {
                lost.push((held.task.eval.id, held.task.token));
            }
        }
        for (eval, token) in lost {
            if self.broker.is_delivered(eval, token) {
                self.nack(eval, token, cx);
            }
        }
    }
}

pub fn remote_task(task: ScheduleTask, plans: &Plans, cx: &Context<'_>) -> RemoteTask {
    let ScheduleTask { eval, token, attempt, min_index, at, seed } = task;
    let (attempt, snapshot_index) = (attempt.number, attempt.snapshot_index);
    // what is proposed in this turn gets the indexes behind the log's end
    let in_flight = plans.in_flight_plans(cx.log_end + cx.outbox.proposals() as u64);
    RemoteTask { eval, token, attempt, snapshot_index, min_index, at, seed, in_flight }
}

pub fn deliver(server: u64, request: u64, tasks: Vec<RemoteTask>, cx: &mut Context<'_>) {
    let body = Body::ServerReply(ServerReply::Deliver { tasks });
    cx.send(Peer::Server(server), frame::encode(&Frame { request, body }));
}
