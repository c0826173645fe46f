//! The links of a server, for the thread of its brain, which sends on them, and for what is relayed.
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
        if let Some(link) = self.get(peer)
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

    pub fn get(&self, peer: Peer) -> Option<Link> {
        self.lock().get(&peer).cloned()
    }

    /// To other servers, this many at most.
    pub fn servers(&self, max: usize) -> Vec<Link> {
        let servers = Peer::Server(0)..=Peer::Server(u64::MAX);
        self.lock().range(servers).take(max).map(|(_, link)| link.clone()).collect()
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
