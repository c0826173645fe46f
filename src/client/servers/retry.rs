//! When a failed request is tried again (client.md 2.5).

use super::{Config, RequestKind, Servers};
use model::random::Stream;
use model::time::{Mono, Span};

impl Servers {
    pub(super) fn backoff(&self, kind: RequestKind, now: Mono, config: &Config, random: &mut Stream) -> Span {
        let s = Span::seconds;
        match kind {
            _ if config.dev => s(1),
            RequestKind::Presence if self.registered => {
                let left = self.last_ok.map(|at| self.ttl.0.saturating_sub(now.since(at).0));
                heartbeat_retry(left.map(Span), random)
            }
            RequestKind::Presence => random.span_between(s(15), s(30)),
            RequestKind::Watch | RequestKind::Fetch => random.span_between(s(30), s(60)),
            RequestKind::Report => random.span_between(s(5), s(10)),
        }
    }
}

/// How long after a failed heartbeat the next one comes. `left`: until the TTL runs out, below zero if it has; `None`
/// if none ever succeeded (client.md 2.5).
pub fn heartbeat_retry(left: Option<Span>, random: &mut Stream) -> Span {
    let s = Span::seconds;
    let range = match left {
        None => return random.span_between(s(15), s(30)),
        Some(left) if left < s(-30) => Span(left.0.saturating_neg()),
        Some(left) if left < Span::ZERO => return random.span_between(s(1), s(2)),
        Some(left) => left,
    };
    match random.span_below(range) {
        wait if wait < s(1) => random.span_between(s(1), s(2)),
        wait if wait > s(30) => random.span_between(s(25), s(30)),
        wait => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_heartbeat_is_retried_within_what_is_left() {
        let s = Span::seconds;
        for (left, low, high) in [
            (None, s(15), s(30)),
            (Some(s(9)), s(1), s(9)),
            (Some(Span::millis(1)), s(1), s(2)),
            (Some(s(-1)), s(1), s(2)),
            (Some(s(-30)), s(1), s(2)),
            (Some(s(-40)), s(1), s(30)),
            (Some(s(3000)), s(1), s(30)),
        ] {
            for seed in 0..200 {
                let wait = heartbeat_retry(left, &mut Stream::new(seed, 0));
                assert!(wait >= low && wait < high + s(1), "{left:?}: {wait}");
            }
        }
    }
}
