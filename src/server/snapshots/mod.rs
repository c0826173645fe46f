//! Snapshots between servers: a leader offers its state to the followers that its log does not reach any more; a follower takes what
//! it is offered chunk by chunk into its store, and installs it when it is whole.
//!
//! Refuses to know: links, and what else a server does. Invariants: a leader sends at most `MAX_SENDING` at a time, and a follower
//! takes one; nothing that goes wrong on the way touches the state; a follower that has failed is served again after a pause.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use model::random::Stream;
use model::time::{Mono, Span};
use raft::{Installed, Members, WantsSnapshot};
use receiver::Receiver;
use sender::Sender;
use state::fault::Fault;
use state::snapshot::{SnapshotHeader, SnapshotRows};
use state::store::{NotInstalled, Store};
use std::collections::BTreeMap;
use wire::snapshot::{CHUNK_BYTES, SnapshotMessage, SnapshotOffer, StopReason};

/// Views that are held at the same time, for minutes.
const MAX_SENDING: usize = 2;
/// The pause after a transfer that failed.
const RETRY_AFTER: Span = Span::seconds(10);
/// How long the log is kept for a follower: what was written meanwhile takes at most so long after the snapshot, at 64 kbit/s.
const LOG_RETENTION: Span = Span::minutes(20);

pub struct Snapshots {
    /// By follower.
    sending: BTreeMap<u64, Sender>,
    /// When a follower is served again that has failed.
    not_before: BTreeMap<u64, Mono>,
    receiving: Option<Receiver>,
    /// Whole, and to be installed with the next step: of which server, and which transfer.
    installing: Option<(u64, u64)>,
    keep_log_until: Mono,
    numbers: Stream,
    out: Vec<(u64, SnapshotMessage)>,
}

impl Snapshots {
    /// `seed`: another one at each start, so that nothing of an earlier life is taken for something of this one.
    pub fn new(seed: u64) -> Snapshots {
        Snapshots {
            sending: BTreeMap::new(),
            not_before: BTreeMap::new(),
            receiving: None,
            installing: None,
            keep_log_until: Mono::default(),
            numbers: Stream::new(seed, 0x5a9),
            out: vec![],
        }
    }

    /// The messages to be sent, and to which server.
    pub fn take_messages(&mut self) -> Vec<(u64, SnapshotMessage)> {
        std::mem::take(&mut self.out)
    }

    /// Whether a follower may need more of the log than others do.
    pub fn need_log(&self, now: Mono) -> bool {
        !self.sending.is_empty() || now < self.keep_log_until
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn is_installing(&self) -> bool {
        self.receiving.is_some() || self.installing.is_some()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let sending = self.sending.values().map(Sender::deadline);
        let retries = self.not_before.values().copied();
        sending.chain(retries).chain(self.receiving.as_ref().map(Receiver::deadline)).min()
    }

    fn stop(&mut self, to: u64, transfer: u64, why: StopReason) {
        self.out.push((to, SnapshotMessage::Stopped { transfer, why }));
    }
}

/// A replica as snapshots see it.
pub struct Parts<'a> {
    pub raft: &'a mut raft::RaftNode,
    pub store: &'a mut Store,
    pub now: Mono,
}

/// The leader's side.
impl Snapshots {
    /// Before each step: offers followers the snapshots that they need, and times out what is late.
    pub fn advance(&mut self, parts: &mut Parts<'_>, space_free: bool) -> Result<(), Fault> {
        self.expire_receiving(parts, space_free);
        let wanted = parts.raft.wants_snapshot();
        self.drop_unwanted(&wanted);
        self.not_before.retain(|_, until| parts.now < *until);
        self.expire_sending(parts);
        for wants in wanted {
            let waits = self.not_before.contains_key(&wants.member);
            if !waits && self.sending.len() < MAX_SENDING && !self.sending.contains_key(&wants.member) {
                self.offer(wants, parts)?;
            }
        }
        Ok(())
    }

    /// Drops transfers to followers that have caught up or are members no more, and all when this server does not lead.
    fn drop_unwanted(&mut self, wanted: &[WantsSnapshot]) {
        let is_wanted = |member: &u64| wanted.iter().any(|w| w.member == *member);
        let unwanted: Vec<u64> = self.sending.keys().copied().filter(|member| !is_wanted(member)).collect();
        for member in unwanted {
            if let Some(sender) = self.sending.remove(&member) {
                self.stop(member, sender.transfer(), StopReason::Gone);
            }
        }
    }

    fn expire_sending(&mut self, parts: &mut Parts<'_>) {
        let mut late = vec![];
        for (member, sender) in &mut self.sending {
            match sender.due(parts.now) {
                sender::OfferDue::Nothing => {}
                sender::OfferDue::OfferAgain => self.out.push((*member, sender.offer())),
                sender::OfferDue::GiveUp => late.push(*member),
            }
        }
        for member in late {
            self.sending_failed(member, StopReason::TimedOut, parts);
        }
    }

    fn offer(&mut self, wants: WantsSnapshot, parts: &mut Parts<'_>) -> Result<(), Fault> {
        let raft::Snapshot { index, term, members } = parts.raft.snapshot().clone();
        if index < wants.at_least || !members.contains(wants.member) {
            self.not_before.insert(wants.member, parts.now.after(RETRY_AFTER));
            return Ok(());
        }
        let view = parts.store.reader().view()?;
        assert_eq!(view.index(), index, "raft and the store agree on what is applied");
        let offer = SnapshotOffer {
            transfer: self.numbers.next_u64(),
            index,
            term,
            members: members.encode(),
            applied_state: view.applied_state(),
            bytes: parts.store.state_bytes()?,
            region_id: view.founding()?.map(|founding| founding.region_id).unwrap_or_default(),
        };
        tracing::info!(to = wants.member, index, bytes = offer.bytes, "a follower needs a snapshot");
        let sender = Sender::new(offer, SnapshotRows::new(view), parts.now);
        self.out.push((wants.member, sender.offer()));
        self.sending.insert(wants.member, sender);
        self.keep_log_until = parts.now.after(LOG_RETENTION);
        Ok(())
    }

    fn sending_failed(&mut self, member: u64, why: StopReason, parts: &mut Parts<'_>) {
        if self.sending.remove(&member).is_some() {
            tracing::warn!(to = member, %why, "a snapshot was not taken");
            self.not_before.insert(member, parts.now.after(RETRY_AFTER));
            parts.raft.report_snapshot(member, false);
        }
    }

    fn is_sending(&self, to: u64, transfer: u64) -> bool {
        self.sending.get(&to).is_some_and(|sender| sender.transfer() == transfer)
    }

    fn pulled(&mut self, from: u64, transfer: u64, chunk: u64, now: Mono) -> Result<(), Fault> {
        match self.sending.get_mut(&from).filter(|sender| sender.transfer() == transfer) {
            Some(sender) => self.out.extend(sender.pull(chunk, now)?.map(|message| (from, message))),
            None => self.stop(from, transfer, StopReason::Gone),
        }
        Ok(())
    }
}

/// The follower's side, and what comes from others.
impl Snapshots {
    pub fn receive(
        &mut self,
        from: u64,
        message: SnapshotMessage,
        parts: &mut Parts<'_>,
        space_free: bool,
    ) -> Result<(), Fault> {
        match message {
            SnapshotMessage::Offer(offer) => self.offered(from, *offer, parts, space_free),
            SnapshotMessage::Chunk { transfer, chunk, bytes, last } => {
                if self.receiving.as_ref().is_some_and(|r| r.awaits((from, transfer), chunk)) {
                    self.take_chunk(&bytes, last, parts)?;
                }
            }
            SnapshotMessage::Pull { transfer, chunk } => self.pulled(from, transfer, chunk, parts.now)?,
            SnapshotMessage::Installed { transfer } if self.is_sending(from, transfer) => {
                self.sending.remove(&from);
                self.keep_log_until = parts.now.after(LOG_RETENTION);
                parts.raft.report_snapshot(from, true);
            }
            SnapshotMessage::Stopped { transfer, why } if self.is_sending(from, transfer) => {
                self.sending_failed(from, why, parts);
            }
            SnapshotMessage::Stopped { transfer, .. } => {
                if self.receiving.take_if(|r| r.is_of((from, transfer))).is_some() {
                    parts.store.abandon_snapshot();
                }
            }
            SnapshotMessage::Installed { .. } => {}
        }
        Ok(())
    }

    fn offered(&mut self, from: u64, offer: SnapshotOffer, parts: &mut Parts<'_>, space_free: bool) {
        let transfer = offer.transfer;
        if self.installing.is_some() {
            return; // it is repeated
        }
        if let Some(receiver) = &self.receiving {
            if receiver.is_of((from, transfer)) {
                return self.out.push((from, receiver.pull()));
            }
            if receiver.from() != from && parts.raft.leader() != Some(from) {
                return self.stop(from, transfer, StopReason::Busy);
            }
        }
        let Ok(members) = Members::decode(&offer.members) else {
            return self.stop(from, transfer, StopReason::Malformed);
        };
        let snapshot = raft::Snapshot { index: offer.index, term: offer.term, members };
        if parts.raft.is_leader() || !snapshot.members.contains(parts.raft.id()) {
            return self.stop(from, transfer, StopReason::Refused);
        }
        if offer.index <= parts.store.applied() {
            return self.has_it_already(from, transfer, &snapshot, parts);
        }
        if !space_free {
            return self.stop(from, transfer, StopReason::NoRoom);
        }
        let SnapshotOffer { index, term, members, applied_state, bytes, .. } = offer;
        self.receiving = None;
        match parts.store.receive_snapshot(SnapshotHeader { index, term, members, applied_state, bytes }) {
            Ok(()) => {
                tracing::info!(from, index, "takes a snapshot");
                let receiver = Receiver::new((from, transfer), snapshot, parts.now);
                self.out.push((from, receiver.pull()));
                self.receiving = Some(receiver);
            }
            Err(why) => self.refuse(from, transfer, &why),
        }
    }

    /// This replica has applied as much already, which the leader does not know yet. Raft is not asked: whatever the offer says, what is
    /// applied stays, and no term is learned from it.
    fn has_it_already(&mut self, from: u64, transfer: u64, offered: &raft::Snapshot, parts: &Parts<'_>) {
        let applied = parts.raft.snapshot();
        if offered.index == applied.index && offered.term != applied.term {
            return self.stop(from, transfer, StopReason::Refused);
        }
        self.out.push((from, SnapshotMessage::Installed { transfer }));
    }

    /// Takes the awaited chunk. A state that this build cannot read is a fault: without it the server cannot follow its region.
    fn take_chunk(&mut self, bytes: &[u8], last: bool, parts: &mut Parts<'_>) -> Result<(), Fault> {
        let Some(mut receiver) = self.receiving.take() else { return Ok(()) };
        let (from, transfer) = (receiver.from(), receiver.transfer());
        if bytes.len() > CHUNK_BYTES {
            parts.store.abandon_snapshot();
            self.stop(from, transfer, StopReason::Malformed);
            return Ok(());
        }
        let mut taken = parts.store.receive_chunk(bytes);
        if last {
            taken = taken.and_then(|()| parts.store.complete_snapshot());
        }
        match taken {
            Err(NotInstalled::Fault(fault @ Fault::Newer(_))) => return Err(fault),
            Err(why) => self.refuse(from, transfer, &why),
            Ok(()) if last => self.install(&receiver, parts),
            Ok(()) => {
                receiver.arrived(parts.now);
                self.out.push((from, receiver.pull()));
                self.receiving = Some(receiver);
            }
        }
        Ok(())
    }

    /// The snapshot is whole: raft decides whether this replica still needs it.
    fn install(&mut self, receiver: &Receiver, parts: &mut Parts<'_>) {
        let (from, transfer) = (receiver.from(), receiver.transfer());
        match parts.raft.install(receiver.snapshot()) {
            Ok(Installed::Taken) => self.installing = Some((from, transfer)),
            Ok(Installed::NotNeeded) => {
                parts.store.abandon_snapshot();
                self.out.push((from, SnapshotMessage::Installed { transfer }));
            }
            Err(refused) => {
                tracing::warn!(from, %refused, "a snapshot is not installed");
                parts.store.abandon_snapshot();
                self.stop(from, transfer, StopReason::Refused);
            }
        }
    }

    /// The snapshot that `install` took is durable.
    pub fn installed(&mut self) {
        if let Some((from, transfer)) = self.installing.take() {
            self.out.push((from, SnapshotMessage::Installed { transfer }));
        }
    }

    fn expire_receiving(&mut self, parts: &mut Parts<'_>, space_free: bool) {
        let Some(receiver) = &mut self.receiving else { return };
        let (from, transfer) = (receiver.from(), receiver.transfer());
        let why = match receiver.due(parts.now) {
            _ if !space_free => StopReason::NoRoom,
            receiver::PullDue::GiveUp => StopReason::TimedOut,
            receiver::PullDue::PullAgain => return self.out.push((from, receiver.pull())),
            receiver::PullDue::Nothing => return,
        };
        tracing::warn!(from, %why, "gives up a snapshot");
        self.receiving = None;
        parts.store.abandon_snapshot();
        self.stop(from, transfer, why);
    }

    fn refuse(&mut self, from: u64, transfer: u64, why: &NotInstalled) {
        tracing::warn!(from, %why, "a snapshot is not taken");
        self.stop(from, transfer, reason(why));
    }
}

fn reason(why: &NotInstalled) -> StopReason {
    match why {
        NotInstalled::Busy => StopReason::Busy,
        NotInstalled::NoRoom { .. } | NotInstalled::Fault(Fault::Full(_)) => StopReason::NoRoom,
        NotInstalled::Malformed(_) => StopReason::Malformed,
        NotInstalled::Fault(_) => StopReason::Disk,
    }
}
