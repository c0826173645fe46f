//! How many connections there may be, in all and from one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections in all.
    pub connections: usize,
    /// Connections from one address that is not this machine's own. 0: as many as there may be in all.
    pub per_address: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits { connections: 1024, per_address: 100 }
    }
}

/// The most refusals that are being sent at once; beyond that a connection is closed without one.
const MAX_REFUSALS: usize = 32;

#[derive(Debug, Default)]
pub struct ConnectionLimiter {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    refusals: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

pub enum Admission {
    Accepted(ConnectionPermit),
    /// Too many: answered with a refusal, then closed.
    Refused(ConnectionPermit),
    /// Far too many: to be closed at once.
    Dropped,
}

/// A permit for one connection, released when dropped.
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    kind: PermitKind,
}

enum PermitKind {
    Local,
    From(IpAddr),
    Refusal,
}

impl ConnectionLimiter {
    /// `limits`: the present ones; connections that are admitted already stay.
    pub fn acquire(self: &Arc<Self>, from: IpAddr, limits: HttpLimits) -> Admission {
        let from = from.to_canonical();
        let mut counts = self.counts();
        let of_address = counts.by_address.get(&from).copied().unwrap_or(0);
        let crowded = limits.per_address > 0 && of_address >= limits.per_address;
        let permit = |kind| ConnectionPermit { limiter: self.clone(), kind };
        if counts.all >= limits.connections || (crowded && !from.is_loopback()) {
            if counts.refusals >= MAX_REFUSALS {
                return Admission::Dropped;
            }
            counts.refusals += 1;
            return Admission::Refused(permit(PermitKind::Refusal));
        }
        counts.all += 1;
        if from.is_loopback() {
            return Admission::Accepted(permit(PermitKind::Local));
        }
        *counts.by_address.entry(from).or_default() += 1;
        Admission::Accepted(permit(PermitKind::From(from)))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Whether more than half of the permits are taken.
    pub fn is_half_full(&self, limits: HttpLimits) -> bool {
        self.limiter.counts().all > limits.connections / 2
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.counts();
        match self.kind {
            PermitKind::Refusal => counts.refusals -= 1,
            PermitKind::Local => counts.all -= 1,
            PermitKind::From(address) => {
                counts.all -= 1;
                if let Some(count) = counts.by_address.get_mut(&address) {
                    *count -= 1;
                    if *count == 0 {
                        counts.by_address.remove(&address);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HttpLimits = HttpLimits { connections: 5, per_address: 2 };

    fn enter(limiter: &Arc<ConnectionLimiter>, from: &str) -> Option<ConnectionPermit> {
        match limiter.acquire(from.parse().unwrap(), LIMITS) {
            Admission::Accepted(permit) => Some(permit),
            Admission::Refused(_) | Admission::Dropped => None,
        }
    }

    #[test]
    fn permits_are_counted_by_address_and_released() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let first = enter(&limiter, "10.0.0.1").unwrap();
        let _second = enter(&limiter, "::ffff:10.0.0.1").unwrap();
        assert!(enter(&limiter, "10.0.0.1").is_none());
        drop(first);
        let _third = enter(&limiter, "10.0.0.1").unwrap();
        let _local: Vec<_> = (0..3).map(|_| enter(&limiter, "127.0.0.1").unwrap()).collect();
        assert!(enter(&limiter, "127.0.0.1").is_none(), "loopback counts in all");
        assert!(enter(&limiter, "10.0.0.2").is_none());
    }

    #[test]
    fn refusals_are_bounded_too() {
        let limiter = Arc::<ConnectionLimiter>::default();
        let enter = || limiter.acquire([10, 0, 0, 1].into(), HttpLimits { connections: 0, per_address: 0 });
        let mut kept = Vec::new();
        for _ in 0..MAX_REFUSALS {
            match enter() {
                Admission::Refused(permit) => kept.push(permit),
                Admission::Accepted(_) | Admission::Dropped => panic!("expected a refusal"),
            }
        }
        assert!(matches!(enter(), Admission::Dropped));
        kept.clear();
        assert!(matches!(enter(), Admission::Refused(_)));
    }
}
