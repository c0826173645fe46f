//! Tells a brain when its store's disk becomes full or has room again. A disk is full while the store's reserve is spent.

use ::io::disk::{RESERVE_BYTES, Reserve};
use model::time::{Mono, Span};
use server::disk_full::MIN_RESERVE_BYTES;
use std::sync::Arc;

// while it is spent, a server's log still grows
const _: () = assert!(MIN_RESERVE_BYTES < RESERVE_BYTES);

/// How often a full disk is looked at again.
const CHECK_PERIOD: Span = Span::seconds(1);

pub struct DiskSpaceMonitor {
    reserve: Arc<Reserve>,
    reported_free: bool,
    next_check: Mono,
}

impl DiskSpaceMonitor {
    /// A monitor for a new brain, which assumes a disk with space until one of its inputs says otherwise.
    pub fn new(reserve: Arc<Reserve>) -> DiskSpaceMonitor {
        DiskSpaceMonitor { reserve, reported_free: true, next_check: Mono::default() }
    }

    pub fn reserve(&self) -> Arc<Reserve> {
        self.reserve.clone()
    }

    /// Whether the disk has space, when that has changed. It is the brain's first input of the turn, so that the brain does not try to
    /// write for the others.
    pub fn poll_change(&mut self, now: Mono) -> Option<bool> {
        if self.reserve.is_exhausted() && now >= self.next_check {
            self.next_check = now.after(CHECK_PERIOD);
            self.reserve.refill();
        }
        let free = !self.reserve.is_exhausted();
        let news = (free != self.reported_free).then_some(free);
        self.reported_free = free;
        news
    }

    /// When there may be news.
    pub fn deadline(&self) -> Option<Mono> {
        (!self.reported_free || self.reserve.is_exhausted()).then_some(self.next_check)
    }
}
