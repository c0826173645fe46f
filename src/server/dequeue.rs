//! Scheduler workers of a server that follows: they take evaluations off the leader's broker, wait until this server's own state
//! has reached what the leader saw, decide on it, and hand their plans in to the leader (scheduler.md 5).
//!
//! Refuses to know: what an evaluation comes to. Whatever is lost with a connection or a leader, the leader's deadline brings back.

use super::Server;
use super::context::Context;
use super::effects::{Effect, ScheduleTask};
use super::reservations::ReservationChange;
use super::submit;
use model::id::{EvalId, EvalToken};
use model::plan::Decision;
use model::time::{Mono, Span};
use scheduler::Attempt;
use state::fault::Fault;
use std::collections::{BTreeMap, VecDeque};
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::rpc::Peer;
use wire::server_rpc::{RemoteDecision, RemoteTask, ServerRequest};

/// Evaluations that wait here for a worker, or for the state.
const MAX_QUEUED: usize = 64;
/// A dequeue request without an answer is sent again after this: it may be lost.
const RETRY_AFTER: Span = Span::seconds(10);
/// After this the leader is about to give the evaluation to somebody else.
const TASK_TIMEOUT: Span = Span::seconds(30);

impl Server {
    /// Handles a worker's answer: for this server if it leads, otherwise for the leader that it follows.
    pub(super) fn planned(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        result: Result<Box<Decision>, String>,
        now: Mono,
    ) -> Result<(), Fault> {
        let Err(result) = self.with_follower_workers(now, |all, cx| all.planned(eval, token, result, cx))
        else {
            return Ok(());
        };
        let (leader, mut cx) = self.split(now);
        match leader {
            Some(leader) => leader.planned(eval, token, result, false, &mut cx),
            None => {
                cx.outbox.reservation(ReservationChange::Release { eval, token });
                Ok(())
            }
        }
    }

    pub(super) fn with_follower_workers<T>(
        &mut self,
        now: Mono,
        work: impl FnOnce(&mut FollowerWorkers, &mut Context<'_>) -> T,
    ) -> T {
        let (parts, mut cx) = self.parts(now);
        work(parts.follower_workers, &mut cx)
    }

    /// What this server's workers do for the leader that it follows.
    pub(super) fn work_for_leader(&mut self, now: Mono) {
        let raft = self.replica.raft();
        let leader = self.other_leader().map(|leader| (leader, raft.term()));
        self.with_follower_workers(now, |all, cx| {
            all.set_leader(leader);
            all.advance(cx);
        });
    }
}

#[derive(Default)]
pub struct FollowerWorkers {
    /// The leader that this server follows, and its term.
    leader: Option<(u64, u64)>,
    pending: Option<PendingDequeue>,
    queue: VecDeque<(Mono, RemoteTask)>,
    /// What workers hold, and the leader and term that it came from.
    running: BTreeMap<(EvalId, EvalToken), (u64, u64)>,
    numbers: u64,
}

struct PendingDequeue {
    request: u64,
    free: u32,
    again: Mono,
}

impl FollowerWorkers {
    /// `first`: the number of its first request, as in `Forwarding`.
    pub fn new(first: u64) -> FollowerWorkers {
        FollowerWorkers { numbers: first, ..FollowerWorkers::default() }
    }

    /// Another leader's broker does not know the evaluations that are queued here: they are dropped.
    pub fn set_leader(&mut self, leader: Option<(u64, u64)>) {
        if self.leader != leader {
            self.leader = leader;
            self.pending = None;
            self.queue.clear();
        }
    }

    /// Evaluations of the leader. `request`: the number that they answer; one that was tried before comes unasked.
    pub fn delivered(&mut self, from: u64, request: u64, tasks: Vec<RemoteTask>, now: Mono) {
        if self.leader.is_none_or(|(leader, _)| leader != from) {
            return;
        }
        self.pending.take_if(|pending| pending.request == request);
        assert!(self.queue.len() <= MAX_QUEUED, "no more evaluations wait here than may");
        let room = MAX_QUEUED - self.queue.len();
        self.queue.extend(tasks.into_iter().take(room).map(|task| (now, task)));
    }

    /// Gives workers what this server's state is new enough for, and asks for more.
    pub fn advance(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        self.queue.retain(|(since, _)| now.since(*since) < TASK_TIMEOUT);
        while self.running.len() < cx.config.workers
            && let Some((_, task)) = self.queue.pop_front_if(|(_, task)| task.min_index <= cx.applied)
        {
            self.start(task, cx);
        }
        self.ask(cx);
    }

    fn start(&mut self, task: RemoteTask, cx: &mut Context<'_>) {
        let Some(leader) = self.leader else { return };
        let RemoteTask { eval, token, attempt, snapshot_index, min_index, at, seed, in_flight } = task;
        in_flight.into_iter().for_each(|plan| cx.outbox.reservation(ReservationChange::Remote(plan)));
        self.running.insert((eval.id, token), leader);
        let attempt = Attempt { number: attempt, snapshot_index };
        let task = ScheduleTask { eval, token, attempt, min_index, at, seed };
        cx.outbox.effect(Effect::Schedule(Box::new(task)));
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        let Some((leader, _)) = self.leader else { return };
        let busy = self.running.len() + self.queue.len();
        let free = u32::try_from(cx.config.workers.saturating_sub(busy)).unwrap_or(u32::MAX);
        // lost by now, and asked for again once a worker is free: a deadline that nobody acts on would end every wait at once
        self.pending.take_if(|pending| pending.again <= cx.now);
        if free == 0 || self.pending.as_ref().is_some_and(|pending| pending.free >= free) {
            return;
        }
        self.numbers = self.numbers.wrapping_add(1);
        self.pending = Some(PendingDequeue { request: self.numbers, free, again: cx.now.after(RETRY_AFTER) });
        let enabled = cx.config.enabled_schedulers.clone();
        send(leader, self.numbers, ServerRequest::Dequeue { free, enabled }, cx);
    }

    /// A worker's answer. `Err`: no other leader delivered the evaluation, and the answer is given back.
    pub fn planned(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        result: Result<Box<Decision>, String>,
        cx: &mut Context<'_>,
    ) -> Result<(), Result<Box<Decision>, String>> {
        let Some(from) = self.running.remove(&(eval, token)) else { return Err(result) };
        cx.outbox.reservation(ReservationChange::Release { eval, token });
        if self.leader == Some(from) {
            let mut is_split = false;
            let result = result.map(|mut decision| {
                is_split = submit::split(&mut decision.plan);
                *decision
            });
            submit(from.0, RemoteDecision { eval, token, result, is_split }, cx);
        }
        Ok(())
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let queued = self.queue.front().map(|(since, _)| since.after(TASK_TIMEOUT));
        self.pending.as_ref().map(|pending| pending.again).into_iter().chain(queued).min()
    }
}

/// Sends a decision; one that fits into no message is sent as a failure, so that the leader's broker takes the evaluation back.
fn submit(leader: u64, decision: RemoteDecision, cx: &mut Context<'_>) {
    let (eval, token) = (decision.eval, decision.token);
    let bytes = encode(0, ServerRequest::Planned(Box::new(decision)));
    if bytes.len() <= MAX_FRAME_BYTES {
        return cx.send(Peer::Server(leader), bytes);
    }
    let why = format!("the decision has {} bytes, a message holds {MAX_FRAME_BYTES}", bytes.len());
    let failed = RemoteDecision { eval, token, result: Err(why), is_split: false };
    send(leader, 0, ServerRequest::Planned(Box::new(failed)), cx);
}

fn send(leader: u64, request: u64, body: ServerRequest, cx: &mut Context<'_>) {
    cx.send(Peer::Server(leader), encode(request, body));
}

fn encode(request: u64, body: ServerRequest) -> Vec<u8> {
    frame::encode(&Frame { request, body: Body::ServerRequest(body) })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Alone;
    use super::*;
    use state::samples::{AT, eval};

    const LEADER: u64 = 8;
    const TERM: u64 = 3;

    fn task(n: u128, min_index: u64) -> RemoteTask {
        RemoteTask {
            eval: eval(n, "web"),
            token: EvalToken::from_random(n),
            attempt: 2,
            snapshot_index: 1,
            min_index,
            at: AT,
            seed: 5,
            in_flight: vec![],
        }
    }

    /// What workers are given, and what the leader is told.
    fn effects(
        alone: &mut Alone,
        workers: &mut FollowerWorkers,
        work: impl FnOnce(&mut FollowerWorkers, &mut Context<'_>),
    ) -> (Vec<ScheduleTask>, Vec<(u64, ServerRequest)>) {
        let (_, mut cx) = alone.split();
        work(workers, &mut cx);
        let (mut tasks, mut sent) = (vec![], vec![]);
        for effect in alone.server.outbox.take_effects().0 {
            match effect {
                Effect::Schedule(task) => tasks.push(*task),
                Effect::Send { to: Peer::Server(LEADER), bytes } => match frame::decode(&bytes) {
                    Ok(Frame { request, body: Body::ServerRequest(request_body) }) => {
                        sent.push((request, request_body));
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        (tasks, sent)
    }

    fn following(alone: &mut Alone) -> (FollowerWorkers, u64) {
        let mut workers = FollowerWorkers::default();
        workers.set_leader(Some((LEADER, TERM)));
        let (_, sent) = effects(alone, &mut workers, FollowerWorkers::advance);
        let [(request, ServerRequest::Dequeue { free: 1, .. })] = sent[..] else { panic!("{sent:?}") };
        (workers, request)
    }

    #[test]
    fn a_task_waits_for_the_state_and_its_plan_goes_to_the_leader() {
        let mut alone = Alone::with(|_| {});
        let (mut workers, request) = following(&mut alone);
        let applied = alone.server.replica.applied();
        let now = alone.now;
        workers.delivered(LEADER, request, vec![task(1, applied + 1)], now);
        let (tasks, sent) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert!(tasks.is_empty() && sent.is_empty(), "the state is older: {sent:?}");
        workers.queue[0].1.min_index = applied;
        let (tasks, sent) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert_eq!((tasks.len(), sent.len()), (1, 0), "no worker is free for more");
        assert_eq!((tasks[0].attempt.number, tasks[0].seed), (2, 5));
        let (id, token) = (tasks[0].eval.id, tasks[0].token);
        let (_, sent) = effects(&mut alone, &mut workers, |w, cx| {
            assert!(w.planned(id, token, Err("no".into()), cx).is_ok());
            assert!(w.planned(id, token, Err("no".into()), cx).is_err(), "once");
            w.advance(cx);
        });
        let [(_, ServerRequest::Planned(decision)), (_, ServerRequest::Dequeue { free: 1, .. })] = &sent[..]
        else {
            panic!("{sent:?}");
        };
        assert_eq!((decision.eval, decision.token, &decision.result), (id, token, &Err("no".into())));
    }

    #[test]
    fn evaluations_of_an_earlier_leader_are_dropped() {
        let mut alone = Alone::with(|_| {});
        let (mut workers, request) = following(&mut alone);
        let now = alone.now;
        workers.delivered(9, request, vec![task(1, 0)], now);
        assert!(workers.queue.is_empty(), "of a server that does not lead");
        workers.delivered(LEADER, request, vec![task(1, 0), task(2, 0)], now);
        let (tasks, _) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        let (id, token) = (tasks[0].eval.id, tasks[0].token);
        workers.set_leader(Some((LEADER, TERM + 1)));
        assert!(workers.queue.is_empty());
        let (_, sent) = effects(&mut alone, &mut workers, |w, cx| {
            assert!(w.planned(id, token, Err("no".into()), cx).is_ok());
            w.advance(cx);
        });
        assert!(matches!(sent[..], [(_, ServerRequest::Dequeue { free: 1, .. })]), "{sent:?}");
    }

    #[test]
    fn a_lost_dequeue_is_retried_and_a_late_task_is_dropped() {
        let mut alone = Alone::with(|_| {});
        let (mut workers, request) = following(&mut alone);
        alone.now = workers.next_deadline().expect("it is asked again");
        let (_, sent) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert!(matches!(sent[..], [(again, ServerRequest::Dequeue { .. })] if again != request));
        let far = alone.server.replica.applied() + 100;
        let now = alone.now;
        workers.delivered(LEADER, 0, vec![task(1, far)], now);
        alone.now = alone.now.after(TASK_TIMEOUT);
        effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert!(workers.queue.is_empty(), "the leader gives it to somebody else");
    }

    #[test]
    fn a_lost_dequeue_of_a_busy_server_wakes_nobody() {
        let mut alone = Alone::with(|_| {});
        let (mut workers, _) = following(&mut alone);
        let now = alone.now;
        workers.delivered(LEADER, 0, vec![task(1, 0)], now);
        let (tasks, sent) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert_eq!((tasks.len(), sent.len()), (1, 0), "it came unasked, and the only worker has it");
        alone.now = workers.next_deadline().expect("the request is to be asked again");
        let (_, sent) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        assert_eq!((sent.len(), workers.next_deadline()), (0, None), "no worker is free");
        let (_, sent) = effects(&mut alone, &mut workers, |w, cx| {
            assert!(w.planned(tasks[0].eval.id, tasks[0].token, Err("no".into()), cx).is_ok());
            w.advance(cx);
        });
        assert!(matches!(sent[..], [_, (_, ServerRequest::Dequeue { free: 1, .. })]), "{sent:?}");
    }

    #[test]
    fn a_decision_too_large_for_a_message_is_sent_as_a_failure() {
        let mut alone = Alone::with(|_| {});
        let (mut workers, request) = following(&mut alone);
        let now = alone.now;
        workers.delivered(LEADER, request, vec![task(1, 0)], now);
        let (tasks, _) = effects(&mut alone, &mut workers, FollowerWorkers::advance);
        let (id, token) = (tasks[0].eval.id, tasks[0].token);
        let long = "x".repeat(MAX_FRAME_BYTES);
        let decision = Decision {
            plan: Default::default(),
            eval: model::eval::Evaluation { status_description: long, ..tasks[0].eval.clone() },
            created: vec![],
            desired: Default::default(),
        };
        let (_, sent) = effects(&mut alone, &mut workers, |w, cx| {
            assert!(w.planned(id, token, Ok(Box::new(decision)), cx).is_ok());
        });
        let [(_, ServerRequest::Planned(told))] = &sent[..] else { panic!("{sent:?}") };
        assert!(told.result.as_ref().is_err_and(|why| why.contains("a message holds")), "{:?}", told.result);
    }
}
