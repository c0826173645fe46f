//! The links to other servers, for the thread of the server's brain, which sends on them.
//!
//! Refuses to know: how links come and go.

use ::io::quic::Link;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::frame::TrafficClass;

/// The link to send on, by the server's raft id. Empty where the agent has no network.
#[derive(Clone, Default)]
pub struct LinkSender(Arc<Mutex<BTreeMap<u64, Link>>>);

impl LinkSender {
    /// What cannot be sent is lost: raft, and whoever asks, say again what matters.
    pub fn send(&self, server: u64, class: TrafficClass, bytes: Vec<u8>) {
        let link = self.lock().get(&server).cloned();
        if let Some(link) = link
            && !link.send(class, bytes)
        {
            tracing::debug!(
                server,
                ?class,
                dropped = link.dropped(),
                "a message is lost: too many wait for the line"
            );
        }
    }

    pub fn set(&self, server: u64, link: Link) {
        self.lock().insert(server, link);
    }

    pub fn remove(&self, server: u64) {
        self.lock().remove(&server);
    }

    /// A change is done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
