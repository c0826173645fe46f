//! What servers say to each other of snapshots, on its way: beside the frames of their links, with faults of its own.
//!
//! Refuses to know what becomes of it.

use super::network::Ends;
use super::place::{Machine, ServerAt};
use super::world::{Event, World};
use model::random::Stream;
use model::time::Span;
use server::effects::Input;
use wire::frame::TrafficClass;
use wire::record;
use wire::snapshot::SnapshotMessage;

/// In percent of all messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotFaults {
    pub lost: u64,
    pub doubled: u64,
    /// Comes seconds later, after others that left after it.
    pub late: u64,
}

pub struct SnapshotLinks {
    draws: Stream,
    pub faults: SnapshotFaults,
    pub offers: u64,
    pub chunks: u64,
    pub stopped: Vec<wire::snapshot::StopReason>,
    /// By any server.
    pub installed: u64,
    /// Messages that were lost, came twice, or came late.
    pub struck: u64,
}

impl SnapshotLinks {
    pub fn new(seed: u64) -> Self {
        SnapshotLinks {
            draws: Stream::new(seed, 107),
            faults: SnapshotFaults::default(),
            offers: 0,
            chunks: 0,
            stopped: vec![],
            installed: 0,
            struck: 0,
        }
    }

    fn strikes(&mut self, percent: u64) -> bool {
        let strikes = percent > 0 && self.draws.below(100) < percent;
        self.struck += u64::from(strikes);
        strikes
    }
}

impl World {
    pub fn send_snapshot(&mut self, at: ServerAt, to: u64, message: &SnapshotMessage) {
        let links = &mut self.snapshot_links;
        match message {
            SnapshotMessage::Offer(_) => links.offers += 1,
            SnapshotMessage::Chunk { .. } => links.chunks += 1,
            SnapshotMessage::Stopped { why, .. } => links.stopped.push(*why),
            SnapshotMessage::Pull { .. } | SnapshotMessage::Installed { .. } => {}
        }
        let SnapshotFaults { lost, doubled, late } = links.faults;
        let (lost, doubled, late) = (links.strikes(lost), links.strikes(doubled), links.strikes(late));
        let Some(to) = self.regions.machine(wire::rpc::Peer::Server(to)) else { return };
        let (from, bytes) = (Machine::Server(at), record::encode(message));
        let ends = self.ends(from, to);
        if lost {
            return;
        }
        for _ in 0..=u64::from(doubled) {
            if late {
                let wait = Span(self.snapshot_links.draws.below(30_000_000_000) as i64);
                self.after(wait, Event::Snapshot { ends, bytes: bytes.clone() });
            } else {
                let arrives = |ends, bytes| Event::Snapshot { ends, bytes };
                self.carry(from, to, bytes.clone(), TrafficClass::Snapshots, arrives);
            }
        }
    }

    pub fn snapshot_arrives(&mut self, ends: Ends, bytes: &[u8]) -> Result<(), String> {
        let (Machine::Server(from), Machine::Server(to)) = (ends.from, ends.to) else {
            return Err(format!("{} speaks of snapshots to {}", ends.from, ends.to));
        };
        if !self.are_joined(ends) {
            return Ok(());
        }
        let message = record::decode(bytes).map_err(|e| format!("{from} sent what cannot be read: {e}"))?;
        let from = self.regions[from].id();
        self.server_input(to, Input::Snapshot { from, message });
        Ok(())
    }
}
