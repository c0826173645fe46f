//! Golden bytes of what servers say to each other of snapshots, and of what the log and the store keep of one.

use super::Samples;
use state::log_batch::Installation;
use wire::snapshot::{SnapshotMessage, SnapshotOffer, StopReason};

pub fn snapshots(s: &mut Samples) {
    let (transfer, chunk) = (77, 5);
    let (members, applied_state) = (vec![1, 2, 3], vec![4, 5]);
    let offer = SnapshotOffer {
        transfer,
        index: 900,
        term: 3,
        members,
        applied_state,
        bytes: 70_000,
        region_id: super::uuid(4),
    };
    s.add("offer", &SnapshotMessage::Offer(Box::new(offer)));
    s.add("pull", &SnapshotMessage::Pull { transfer, chunk });
    s.add("chunk", &SnapshotMessage::Chunk { transfer, chunk, bytes: vec![1, 0, 255], last: false });
    s.add("last chunk", &SnapshotMessage::Chunk { transfer, chunk, bytes: vec![], last: true });
    s.add("installed", &SnapshotMessage::Installed { transfer });
    for (what, why) in [
        ("no room", StopReason::NoRoom),
        ("busy", StopReason::Busy),
        ("malformed", StopReason::Malformed),
        ("disk", StopReason::Disk),
        ("refused", StopReason::Refused),
        ("timed out", StopReason::TimedOut),
        ("gone", StopReason::Gone),
    ] {
        s.add(what, &SnapshotMessage::Stopped { transfer, why });
    }
    s.add("snapshot", &Installation { index: 900, term: 3, digest: u64::MAX });
}
