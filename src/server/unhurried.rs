//! Ends of evaluations that placed nothing: nobody waits for them within milliseconds, so they share the durable commit
//! of whatever is written next instead of having one of their own.
//!
//! Refuses to know: what is in them. Holds no more than evaluations are in workers' hands at a time.

use super::{Op, Server};
use model::time::{Mono, Now, Span};
use wire::command::Command;

/// How long one waits for company. A client that registers jobs one after the other sends its next within this.
const HOLD: Span = Span::millis(5);

#[derive(Default)]
pub struct Unhurried {
    held: Vec<(Command, Op)>,
    /// When the oldest of them has waited long enough.
    due: Option<Mono>,
}

impl Unhurried {
    fn hold(&mut self, command: Command, op: Op, now: Mono) {
        self.due.get_or_insert(now.after(HOLD));
        self.held.push((command, op));
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.due
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Server {
    pub(super) fn propose_with_the_next(&mut self, command: Command, op: Op, now: Now) {
        self.unhurried.hold(command, op, now.mono);
    }

    /// What is held goes with what this turn writes anyhow, or alone once it has waited long enough.
    pub(super) fn join_company(&mut self, now: Now) {
        let Some(due) = self.unhurried.due else { return };
        if now.mono < due && !self.log.has_work() {
            return;
        }
        for (command, op) in std::mem::take(&mut self.unhurried).held {
            self.propose(&command, op);
        }
    }
}
