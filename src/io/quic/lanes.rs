//! What waits to be sent on a link: a lane for each class of traffic, bounded in messages and bytes. What finds its lane full is lost,
//! as on a bad line, and counted.
//!
//! Refuses to know: streams. Invariant: what leaves a lane leaves in the order in which it came.

use async_channel::{Receiver, Sender};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::frame::{MAX_SENT_BYTES, TrafficClass};

/// How much may wait. A message that is larger by itself may wait alone.
const fn bounds(class: TrafficClass) -> (usize, usize) {
    match class {
        // raft says again what is lost of these, and late ones are worth nothing
        TrafficClass::Consensus => (256, 1 << 20),
        TrafficClass::Requests => (1024, 16 << 20),
        TrafficClass::Forwarded => (64, 2 * MAX_SENT_BYTES),
        // a leader has 4 MiB under way to a member, and again as much after a probe
        TrafficClass::Appends => (1024, 2 * MAX_SENT_BYTES),
        // a transfer has one chunk under way
        TrafficClass::Snapshots => (16, 1 << 20),
    }
}

pub struct Lanes {
    lanes: [Lane; TrafficClass::ALL.len()],
    dropped: AtomicU64,
}

struct Lane {
    queue: Mutex<Queue>,
    wake: Sender<()>,
    woken: Receiver<()>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Lane {
    /// A push or a pop is done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    pub fn new() -> Lanes {
        let lane = |_| {
            let (wake, woken) = async_channel::bounded(1);
            Lane { queue: Mutex::default(), wake, woken }
        };
        Lanes { lanes: TrafficClass::ALL.map(lane), dropped: AtomicU64::new(0) }
    }

    fn lane(&self, class: TrafficClass) -> &Lane {
        &self.lanes[class as usize]
    }

    /// False: the lane is full, or the link is closed, and the message is lost.
    pub fn push(&self, class: TrafficClass, message: Vec<u8>) -> bool {
        let (max_messages, max_bytes) = bounds(class);
        let lane = self.lane(class);
        let mut queue = lane.lock();
        let fits = queue.bytes == 0 || queue.bytes + message.len() <= max_bytes;
        if queue.waiting.len() >= max_messages || !fits || lane.wake.is_closed() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queue.bytes += message.len();
        queue.waiting.push_back(message);
        drop(queue);
        // one that is there already wakes as well
        let _ = lane.wake.try_send(());
        true
    }

    /// The next message of a class, once there is one. `None`: the lanes are closed.
    pub async fn next(&self, class: TrafficClass) -> Option<Vec<u8>> {
        let lane = self.lane(class);
        loop {
            if let Some(message) = self.pop(class) {
                return Some(message);
            }
            lane.woken.recv().await.ok()?;
        }
    }

    fn pop(&self, class: TrafficClass) -> Option<Vec<u8>> {
        let mut queue = self.lane(class).lock();
        let message = queue.waiting.pop_front()?;
        queue.bytes -= message.len();
        Some(message)
    }

    /// Nothing more is sent, and what waits is lost.
    pub fn close(&self) {
        for class in TrafficClass::ALL {
            self.lane(class).wake.close();
            *self.lane(class).lock() = Queue::default();
        }
    }

    /// How many messages found their lane full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_loses_what_comes_and_keeps_its_order() {
        let lanes = Lanes::new();
        let (max_messages, _) = bounds(TrafficClass::Consensus);
        for n in 0..max_messages {
            assert!(lanes.push(TrafficClass::Consensus, vec![n as u8]));
        }
        assert!(!lanes.push(TrafficClass::Consensus, vec![0]));
        assert!(lanes.push(TrafficClass::Requests, vec![7]), "another lane has room");
        assert_eq!(lanes.dropped(), 1);
        for n in 0..max_messages {
            assert_eq!(smol::block_on(lanes.next(TrafficClass::Consensus)), Some(vec![n as u8]));
        }
        assert!(lanes.push(TrafficClass::Consensus, vec![1]));
    }

    #[test]
    fn bytes_are_bounded_and_one_large_message_may_wait_alone() {
        let lanes = Lanes::new();
        for class in TrafficClass::ALL {
            let (_, max_bytes) = bounds(class);
            assert!(lanes.push(class, vec![0; max_bytes + 1]), "{class:?}");
            assert!(!lanes.push(class, vec![0]), "{class:?}");
            assert!(lanes.pop(class).is_some());
            assert!(lanes.push(class, vec![0; max_bytes]) && !lanes.push(class, vec![0]), "{class:?}");
        }
    }

    #[test]
    fn a_closed_lane_ends_whoever_waits_for_it() {
        let lanes = Lanes::new();
        assert!(lanes.push(TrafficClass::Appends, vec![1]));
        lanes.close();
        assert_eq!(smol::block_on(lanes.next(TrafficClass::Appends)), None);
        assert!(!lanes.push(TrafficClass::Appends, vec![1]));
    }
}
