//! What servers want of the node, and how it is told.

use super::fixtures;
use super::world::World;
use model::alloc::DesiredStatus;
use wire::rpc::{AllocSet, Assignment, NodeReply, Peer};

/// The one that is open.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub request: u64,
    pub since: u64,
    pub servers: u64,
}

impl World {
    pub fn answer_watch(&mut self) {
        let is_news = |w: &mut Watch| w.since < self.index || w.servers < self.listed.index;
        let Some(Watch { request, since, servers }) = self.watch.take_if(is_news) else { return };
        let set = AllocSet {
            index: self.index,
            wanted: self.assigned.values().map(|a| (a.id, a.alloc_modify_index)).collect(),
            assignments: self
                .assigned
                .values()
                .filter(|a| a.alloc_modify_index > since)
                .take(1)
                .cloned()
                .collect(),
        };
        let servers = Some(self.listed.clone()).filter(|list| list.index > servers);
        self.lists_sent += u64::from(servers.is_some());
        let reply = NodeReply::Watched { generation: self.generation, set, servers };
        self.answer(Peer::Server(self.leader), request, reply);
    }

    /// The servers change their mind about an allocation; the news is under way.
    pub fn change(&mut self, n: u8, change: impl FnOnce(&mut Assignment)) {
        self.index += 1;
        let alloc = self.assigned.get_mut(&fixtures::alloc_id(n)).expect("it is assigned");
        alloc.alloc_modify_index = self.index;
        change(alloc);
        self.answer_watch();
    }

    pub fn stop_alloc(&mut self, n: u8) {
        self.change(n, |a| a.desired = DesiredStatus::Stop);
        self.settle();
    }

    pub fn evict_alloc(&mut self, n: u8) {
        self.change(n, |a| a.desired = DesiredStatus::Evict);
        self.settle();
    }

    pub fn remove_alloc(&mut self, n: u8) {
        self.index += 1;
        self.assigned.remove(&fixtures::alloc_id(n));
        self.answer_watch();
        self.settle();
    }
}
