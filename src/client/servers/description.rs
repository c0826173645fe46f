//! The node's description of itself: the first one registers the node; it registers again with a different one, and when the servers
//! hold another one than the node's. Refuses to know what the description means.

use super::{RequestKind, Servers};
use model::node::NodeInfo;
use model::random::Stream;
use model::time::{Mono, Span};

impl Servers {
    /// The first description registers the node; a different one later does so again after a while.
    pub fn describe(&mut self, info: Box<NodeInfo>, now: Mono, random: &mut Stream) {
        if self.info.is_none() {
            self.info = Some(info);
        } else if self.info.as_ref().is_some_and(|known| describes_the_same(known, &info)) {
            self.pending_description = None;
        } else {
            let at = self.pending_description.take().map(|(at, _)| at);
            let later = || now.after(random.span_between(Span::seconds(5), Span::seconds(10)));
            self.pending_description = Some((at.unwrap_or_else(later), info));
        }
    }

    pub(super) fn take_newer_description(&mut self, now: Mono) {
        if self.requests[RequestKind::Presence as usize].in_flight.is_some() {
            return;
        }
        if let Some((_, info)) = self.pending_description.take_if(|(at, _)| *at <= now) {
            self.info = Some(info);
            self.outdated = true;
            self.requests[RequestKind::Presence as usize].due = now;
        }
    }

    /// An earlier registration that timed out may reach the servers after the last one, and replace it: then the node registers
    /// again.
    pub(super) fn verify_registration(&mut self, info: u64, now: Mono) {
        if self.registering {
            self.registered_info = info;
        } else if info != self.registered_info {
            tracing::info!(target: "client", "the servers have an earlier description of this node: it registers again");
            self.outdated = true;
            self.requests[RequestKind::Presence as usize].due = now;
        }
    }
}

/// Ignores when drivers were fingerprinted.
fn describes_the_same(known: &NodeInfo, info: &NodeInfo) -> bool {
    let mut info = info.clone();
    for (name, driver) in &mut info.drivers {
        driver.updated = known.drivers.get(name).map_or(driver.updated, |d| d.updated);
    }
    *known == info
}
