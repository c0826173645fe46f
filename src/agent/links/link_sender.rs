//! The links of a server, for the thread of its brain, which sends on them.
//!
//! Refuses to know: how links come and go.

use ::io::quic::Link;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::frame::TrafficClass;
use wire::rpc::Peer;

/// The link to send on to each machine. Empty where the agent has no network.
#[derive(Clone, Default)]
pub struct LinkSender(Arc<Mutex<BTreeMap<Peer, Link>>>);

impl LinkSender {
    /// What cannot be sent is lost: raft, and whoever asks, say again what matters.
    pub fn send(&self, peer: Peer, class: TrafficClass, bytes: Vec<u8>) {
        let link = self.lock().get(&peer).cloned();
        if let Some(link) = link
            && !link.send(class, bytes)
        {
            tracing::debug!(
                %peer,
                ?class,
                dropped = link.dropped(),
                "a message is lost: too many wait for the line"
            );
        }
    }

    pub fn set(&self, peer: Peer, link: Link) {
        self.lock().insert(peer, link);
    }

    pub fn remove(&self, peer: Peer) {
        self.lock().remove(&peer);
    }

    /// A change is done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Peer, Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
