//! Which connections may begin: handshakes under way are bounded, in all and for each source. When there are many, a source has to
//! show first that it is where it says (a stateless retry, which keeps nothing), so that none is shut out by packets in its name.
//!
//! Refuses to know: sockets, and what becomes of a handshake.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From so many handshakes on, sources have to show where they are.
const RETRY_FROM: usize = 32;
pub const MAX_HALF_OPEN: usize = 256;
/// From one address, or one IPv6 network of 64 bits: a site's machines behind one address begin together after an outage.
pub const MAX_HALF_OPEN_OF_SOURCE: usize = 64;

#[derive(Debug)]
pub enum HandshakeAdmission {
    Accepted(HalfOpen),
    /// Once the source has shown where it is.
    AfterRetry,
    Refused,
}

#[derive(Clone, Debug, Default)]
pub struct HandshakeLimiter(Arc<Mutex<HandshakeCounts>>);

#[derive(Debug, Default)]
struct HandshakeCounts {
    total: usize,
    by_source: BTreeMap<IpAddr, usize>,
}

impl HandshakeLimiter {
    /// `is_validated`: the source has shown that it gets what is sent to it.
    pub fn admit(&self, source: IpAddr, is_validated: bool) -> HandshakeAdmission {
        let source = network(source);
        let mut counts = self.lock();
        let of_source = counts.by_source.get(&source).copied().unwrap_or(0);
        let is_full = of_source >= MAX_HALF_OPEN_OF_SOURCE || counts.total >= MAX_HALF_OPEN;
        if !is_validated && (is_full || counts.total >= RETRY_FROM) {
            return HandshakeAdmission::AfterRetry;
        }
        if is_full {
            return HandshakeAdmission::Refused;
        }
        counts.total += 1;
        *counts.by_source.entry(source).or_default() += 1;
        HandshakeAdmission::Accepted(HalfOpen { limiter: self.clone(), source })
    }

    /// HandshakeCounts are changed in one step: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, HandshakeCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An IPv6 network of 64 bits stands for all of its addresses: one machine may have them all.
pub fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

/// A handshake under way, for as long as this is kept.
#[derive(Debug)]
pub struct HalfOpen {
    limiter: HandshakeLimiter,
    source: IpAddr,
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        let mut counts = self.limiter.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                counts.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn accepted(limiter: &HandshakeLimiter, source: IpAddr) -> HalfOpen {
        match limiter.admit(source, true) {
            HandshakeAdmission::Accepted(half_open) => half_open,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn many_handshakes_make_sources_show_where_they_are() {
        let limiter = HandshakeLimiter::default();
        let held: Vec<HandshakeAdmission> =
            (0..RETRY_FROM as u32).map(|n| limiter.admit(IpAddr::from(n.to_be_bytes()), false)).collect();
        assert!(held.iter().all(|admission| matches!(admission, HandshakeAdmission::Accepted(_))));
        assert!(matches!(limiter.admit(ip("10.0.0.1"), false), HandshakeAdmission::AfterRetry));
        assert!(matches!(limiter.admit(ip("10.0.0.1"), true), HandshakeAdmission::Accepted(_)));
        drop(held);
        assert!(matches!(limiter.admit(ip("10.0.0.1"), false), HandshakeAdmission::Accepted(_)));
        assert!(limiter.lock().by_source.is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn packets_in_a_sources_name_do_not_use_up_its_bound() {
        let limiter = HandshakeLimiter::default();
        let networks =
            [("10.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::ffff:1"), ("::ffff:10.0.0.2", "10.0.0.2")];
        for (one, same) in networks {
            let held: Vec<HalfOpen> =
                (0..MAX_HALF_OPEN_OF_SOURCE).map(|_| accepted(&limiter, ip(one))).collect();
            assert!(matches!(limiter.admit(ip(same), true), HandshakeAdmission::Refused), "{same}");
            assert!(matches!(limiter.admit(ip(same), false), HandshakeAdmission::AfterRetry), "{same}");
            drop(accepted(&limiter, ip("2001:db8:0:1::1")));
            drop(held);
        }
    }

    #[test]
    fn handshakes_are_bounded_in_all() {
        let limiter = HandshakeLimiter::default();
        let held: Vec<HalfOpen> =
            (0..MAX_HALF_OPEN as u32).map(|n| accepted(&limiter, IpAddr::from(n.to_be_bytes()))).collect();
        assert!(matches!(limiter.admit(ip("10.9.9.9"), true), HandshakeAdmission::Refused));
        drop(held);
        drop(accepted(&limiter, ip("10.9.9.9")));
    }
}
