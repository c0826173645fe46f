//! A server's scheduler workers: what they are given, they decide on after a while, on the state as it is then.
//!
//! Refuses to know what a decision comes to.

use super::faults::Kind;
use super::place::ServerAt;
use super::world::{Event, World};
use model::plan::Decision;
use model::time::Span;
use server::effects::{Input, ScheduleTask};
use server::worker;

impl World {
    pub fn give_worker(&mut self, at: ServerAt, task: Box<ScheduleTask>) {
        if std::mem::take(&mut self.regions[at].lose_next_worker) {
            return self.faults.fired(Kind::WorkerLost);
        }
        let delay = self.delay(Span(50_000), Span::millis(200));
        self.after(delay, Event::Worker { server: at, task });
    }

    /// A worker reads the state as it is now, which may be far from what it was when the work was handed out.
    pub fn worker(&mut self, at: ServerAt, task: ScheduleTask) {
        let host = &self.regions[at];
        let Some(server) = &host.brain else { return };
        let (eval, token) = (task.eval.id, task.token);
        let result = worker::decide(&task, &server.reader(), || host.reservations.borrow_mut());
        self.decided_by_followers += u64::from(!host.leads());
        self.note(|_| match &result {
            Ok(d) => format!("worker  {} of {}: {}", d.eval.status.as_str(), d.eval.job, told(d)),
            Err(why) => format!("worker  failed: {why}"),
        });
        self.server_input(at, Input::Planned { eval, token, result });
    }
}

/// A decision in a line: what it stops and places, and why it places no more.
fn told(decision: &Decision) -> String {
    let nodes = &decision.plan.nodes;
    let stops: usize = nodes.iter().map(|n| n.stops.len()).sum();
    let places: usize = nodes.iter().map(|n| n.places.len()).sum();
    let failed = decision.eval.failed_groups.values().map(|m| {
        let (c, d) = (&m.constraint_filtered, &m.dimension_exhausted);
        format!(" {} nodes, filtered {c:?}, exhausted {d:?}", m.nodes_evaluated)
    });
    format!("stops {stops}, places {places}{}", failed.collect::<String>())
}
