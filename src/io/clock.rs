//! The clocks: monotonic for deadlines, wall for stamps. The wall clock is not believed before it has been set.

use model::time::{Mono, Now, Span, Wall};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 2024-01-01T00:00:00Z: a clock that says less was never set.
const EARLIEST_BELIEVED_SECONDS: u64 = 1_704_067_200;

/// Monotonic time counts from the first call; it starts above zero, so that `Mono(0)` is always past.
pub fn mono() -> Mono {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    Mono(1 + u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX - 1))
}

pub fn wall() -> Option<Wall> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let believed = since_epoch.as_secs() >= EARLIEST_BELIEVED_SECONDS;
    i64::try_from(since_epoch.as_nanos()).ok().filter(|_| believed).map(Wall)
}

pub fn now() -> Now {
    Now { mono: mono(), wall: wall() }
}

/// How long from now until `at`; zero when it has passed.
pub fn until(at: Mono) -> Duration {
    Duration::from_nanos(at.0.saturating_sub(mono().0))
}

pub fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0.max(0).unsigned_abs())
}
