//! What tests ask a world, and what it was told.

use super::fixtures;
use super::world::{Process, World};
use crate::effects::{Input, RequestOutcome};
use model::deployment::Verdict;
use model::task::TaskState;
use wire::client_rpc::ClientRequest;
use wire::command::AllocUpdate;
use wire::keeper::RunState;
use wire::request::Refusal;
use wire::rpc::NodeReply;

impl World {
    /// Asks the node, and gives its answer.
    pub fn ask(&mut self, ask: ClientRequest) -> Result<RequestOutcome, Refusal> {
        self.inbox.push_back(Input::Ask { token: 1, ask });
        self.settle();
        self.answers.pop().expect("every question is answered")
    }

    /// Each report that is taken moves the servers' index.
    pub fn hear_all(&mut self, seen: u64, updates: Vec<AllocUpdate>, verdicts: Vec<Verdict>) -> NodeReply {
        if self.reported_at > seen {
            self.stale_reports += 1;
            return NodeReply::StaleReport { index: self.reported_at };
        }
        self.reports += 1;
        self.reported_at = self.reported_at.max(self.index) + 1;
        self.missed = false;
        self.verdicts.extend(verdicts);
        for update in updates {
            self.hear(update);
        }
        NodeReply::Reported { index: self.reported_at }
    }

    fn hear(&mut self, update: AllocUpdate) {
        let before = self.told.insert(update.id, update.clone());
        if before.is_none_or(|b| b.client != update.client) {
            self.trace.push(format!("report {}", update.client.as_str()));
        }
    }

    pub fn living(&self) -> Vec<String> {
        let alive = |p: &&Process| matches!(p.state, RunState::Running { .. });
        self.processes.iter().filter(alive).map(|p| self.name(p.run)).collect()
    }

    /// `<alloc id>.<task>` of what lives.
    pub fn living_labels(&self) -> Vec<String> {
        let alive = |p: &&Process| matches!(p.state, RunState::Running { .. });
        let mut labels: Vec<_> = self.processes.iter().filter(alive).map(|p| p.full_label.clone()).collect();
        labels.sort();
        labels
    }

    pub fn task(&self, n: u8, task: &str) -> &TaskState {
        &self.told[&fixtures::alloc_id(n)].task_states[task]
    }

    /// The kinds of a task's events, as the servers were told.
    pub fn events(&self, n: u8, task: &str) -> Vec<&str> {
        self.task(n, task).events.iter().map(|e| e.kind.as_str()).collect()
    }

    pub fn status(&self, n: u8) -> &str {
        self.told[&fixtures::alloc_id(n)].client.as_str()
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }
}
