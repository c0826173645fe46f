//! What tests ask a world, and what it was told.

use super::fixtures;
use super::world::World;
use crate::effects::{Grant, Input};
use model::deployment::Verdict;
use model::task::TaskState;
use wire::client_rpc::ClientRequest;
use wire::command::AllocUpdate;
use wire::request::Refusal;
use wire::rpc::NodeReply;

impl World {
    /// Asks the node, and gives its answer.
    pub fn ask(&mut self, ask: ClientRequest) -> Result<Grant, Refusal> {
        self.inbox.push_back(Input::Ask { token: 1, ask });
        self.settle();
        self.answers.pop().expect("every question is answered")
    }

    pub fn hear_all(&mut self, updates: Vec<AllocUpdate>, verdicts: Vec<Verdict>) -> NodeReply {
        self.reports += 1;
        self.missed = false;
        self.verdicts.extend(verdicts);
        for update in updates {
            self.hear(update);
        }
        NodeReply::Reported
    }

    fn hear(&mut self, update: AllocUpdate) {
        let before = self.told.insert(update.id, update.clone());
        if before.is_none_or(|b| b.client != update.client) {
            self.trace.push(format!("report {}", update.client.as_str()));
        }
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
