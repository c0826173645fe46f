//! Waiting for what another process does: the one place of these tests that looks again and again, under a deadline.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// The first value that `look` gives; panics with `what` when there is none in time.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match within(PATIENCE, look) {
        Some(value) => value,
        None => panic!("waited {PATIENCE:?} in vain: {what}"),
    }
}

/// Until `look` gives what is expected; panics with what it gave last.
#[track_caller]
pub fn until_eq<T: PartialEq + Debug>(what: &str, expected: &T, mut look: impl FnMut() -> T) {
    let mut last = None;
    let met = within(PATIENCE, || {
        let now = look();
        let met = now == *expected;
        last = Some(now);
        met.then_some(())
    });
    assert!(met.is_some(), "waited {PATIENCE:?} in vain: {what}: {last:?} instead of {expected:?}");
}

/// `None` when `look` gave nothing in this time.
pub fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = look() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(PAUSE);
    }
}
