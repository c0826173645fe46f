//! A snapshot on its way to one follower, as its leader sees it: the follower asks for one chunk after the other.
//!
//! Refuses to know: links, and what raft makes of the outcome. Invariants: two chunks at most are in memory, the one that was sent
//! last and what was read beyond it; a view is held no longer than `MAX_DURATION`.

use model::time::{Mono, Span};
use state::fault::Fault;
use state::snapshot::{SnapshotChunk, SnapshotRows};
use wire::snapshot::{CHUNK_BYTES, SnapshotMessage, SnapshotOffer};

/// The follower says nothing for so long: it has gone.
pub const IDLE_TIMEOUT: Span = Span::seconds(90);
/// What a view keeps on the disk grows with every write: no transfer takes longer. 28 MB on a line of 64 kbit/s.
pub const MAX_DURATION: Span = Span::hours(1);
/// An offer that nobody answers is repeated.
const OFFER_RETRY: Span = Span::seconds(5);

#[derive(Debug)]
pub struct Sender {
    offer: SnapshotOffer,
    rows: SnapshotRows,
    /// The chunk that was asked for last: it may be asked for again.
    sent: Option<(u64, SnapshotChunk)>,
    started: Mono,
    last_contact: Mono,
    offered: Mono,
}

/// What has to be done because time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferDue {
    Nothing,
    OfferAgain,
    GiveUp,
}

impl Sender {
    pub fn new(offer: SnapshotOffer, rows: SnapshotRows, now: Mono) -> Sender {
        Sender { offer, rows, sent: None, started: now, last_contact: now, offered: now }
    }

    pub fn transfer(&self) -> u64 {
        self.offer.transfer
    }

    pub fn offer(&self) -> SnapshotMessage {
        SnapshotMessage::Offer(Box::new(self.offer.clone()))
    }

    /// `None`: what was asked for is neither the next chunk nor the last one again.
    pub fn pull(&mut self, chunk: u64, now: Mono) -> Result<Option<SnapshotMessage>, Fault> {
        let next = match &self.sent {
            None => Some(0),
            Some((_, SnapshotChunk { last: true, .. })) => None,
            Some((sent, _)) => Some(sent + 1),
        };
        if next == Some(chunk) {
            self.sent = Some((chunk, self.rows.next_chunk(CHUNK_BYTES)?));
        }
        let Some((sent, SnapshotChunk { bytes, last })) = self.sent.clone() else { return Ok(None) };
        if sent != chunk {
            return Ok(None);
        }
        self.last_contact = now;
        Ok(Some(SnapshotMessage::Chunk { transfer: self.offer.transfer, chunk, bytes, last }))
    }

    pub fn due(&mut self, now: Mono) -> OfferDue {
        if now >= self.gives_up() {
            return OfferDue::GiveUp;
        }
        if now >= self.offers_again() {
            self.offered = now;
            return OfferDue::OfferAgain;
        }
        OfferDue::Nothing
    }

    pub fn deadline(&self) -> Mono {
        self.gives_up().min(self.offers_again())
    }

    fn gives_up(&self) -> Mono {
        self.last_contact.after(IDLE_TIMEOUT).min(self.started.after(MAX_DURATION))
    }

    fn offers_again(&self) -> Mono {
        if self.sent.is_none() { self.offered.after(OFFER_RETRY) } else { Mono(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::samples::{Region, eval, register, spec};

    const NOW: Mono = Mono(1);

    fn offer() -> SnapshotOffer {
        SnapshotOffer {
            transfer: 7,
            index: 1,
            term: 1,
            members: vec![],
            applied_state: vec![],
            bytes: 0,
            region_id: Default::default(),
        }
    }

    /// A state of several chunks, and who sends it.
    fn sender() -> (Region, Sender) {
        let mut region = Region::default();
        for n in 0..500 {
            let id = format!("job-{n}");
            region.run(&register(spec(&id, 2), Some(eval(n, &id))));
        }
        let sender = Sender::new(offer(), SnapshotRows::new(region.view()), NOW);
        (region, sender)
    }

    fn chunk(sent: Option<SnapshotMessage>) -> (u64, Vec<u8>, bool) {
        match sent {
            Some(SnapshotMessage::Chunk { transfer: 7, chunk, bytes, last }) => (chunk, bytes, last),
            other => panic!("no chunk: {other:?}"),
        }
    }

    #[test]
    fn chunks_go_out_in_order_and_the_last_one_again() {
        let (_region, mut sender) = sender();
        let first = chunk(sender.pull(0, NOW).unwrap());
        assert_eq!((first.0, first.1.len(), first.2), (0, CHUNK_BYTES, false));
        assert_eq!(chunk(sender.pull(0, NOW).unwrap()), first, "it was lost");
        let second = chunk(sender.pull(1, NOW).unwrap());
        assert_ne!(second.1, first.1);
        for stale in [0, 3, u64::MAX] {
            assert_eq!(sender.pull(stale, NOW).unwrap(), None, "chunk {stale}");
        }
        assert_eq!(chunk(sender.pull(1, NOW).unwrap()), second);
        let mut next = 2;
        while !chunk(sender.pull(next, NOW).unwrap()).2 {
            next += 1;
        }
        assert_eq!(sender.pull(next + 1, NOW).unwrap(), None, "nothing follows the last one");
        assert!(chunk(sender.pull(next, NOW).unwrap()).2);
    }

    #[test]
    fn an_offer_is_repeated_until_it_is_answered() {
        let (_region, mut sender) = sender();
        assert_eq!(sender.due(NOW), OfferDue::Nothing);
        let later = sender.deadline();
        assert_eq!((sender.due(later), sender.due(later)), (OfferDue::OfferAgain, OfferDue::Nothing));
        assert!(sender.pull(0, later).unwrap().is_some());
        assert_eq!(sender.due(later.after(OFFER_RETRY)), OfferDue::Nothing);
        assert_eq!(sender.deadline(), later.after(IDLE_TIMEOUT));
    }

    #[test]
    fn stale_pulls_do_not_extend_a_transfer() {
        let (_region, mut sender) = sender();
        sender.pull(0, NOW.after(Span::seconds(80))).unwrap();
        assert_eq!(sender.due(NOW.after(IDLE_TIMEOUT)), OfferDue::Nothing);
        sender.pull(5, NOW.after(Span::seconds(160))).unwrap();
        assert_eq!(sender.due(NOW.after(Span::seconds(170))), OfferDue::GiveUp, "what is stale says nothing");
    }

    #[test]
    fn a_transfer_ends_after_an_hour() {
        let (_region, mut sender) = sender();
        for minute in 1..60 {
            let now = NOW.after(Span::minutes(minute));
            sender.pull(0, now).unwrap();
            assert_eq!(sender.due(now), OfferDue::Nothing);
        }
        assert_eq!(sender.due(NOW.after(MAX_DURATION)), OfferDue::GiveUp);
    }
}
