//! How many connections there may be, in all and from one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub connections: usize,
    /// From one address that is not this machine's own. 0: as many as there may be in all.
    pub per_address: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1024, per_address: 100 }
    }
}

/// So many refusals may be on their way at once; beyond that a connection is just closed.
const REFUSALS: usize = 32;

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
    In(Pass),
    /// Tell it so, then close.
    Refused(Pass),
    /// Close it.
    Dropped,
}

/// Gives its place back when dropped.
pub struct Pass {
    turnstile: Arc<ConnectionLimiter>,
    place: Place,
}

enum Place {
    Local,
    From(IpAddr),
    Refusal,
}

impl ConnectionLimiter {
    /// `limits`: as they are now; who is in already stays.
    pub fn enter(self: &Arc<Self>, from: IpAddr, limits: Limits) -> Admission {
        let from = from.to_canonical();
        let mut counts = self.counts();
        let of_address = counts.by_address.get(&from).copied().unwrap_or(0);
        let crowded = limits.per_address > 0 && of_address >= limits.per_address;
        let pass = |place| Pass { turnstile: self.clone(), place };
        if counts.all >= limits.connections || (crowded && !from.is_loopback()) {
            if counts.refusals >= REFUSALS {
                return Admission::Dropped;
            }
            counts.refusals += 1;
            return Admission::Refused(pass(Place::Refusal));
        }
        counts.all += 1;
        if from.is_loopback() {
            return Admission::In(pass(Place::Local));
        }
        *counts.by_address.entry(from).or_default() += 1;
        Admission::In(pass(Place::From(from)))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// More than half of the places are taken.
    pub fn is_crowded(&self, limits: Limits) -> bool {
        self.turnstile.counts().all > limits.connections / 2
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = self.turnstile.counts();
        match self.place {
            Place::Refusal => counts.refusals -= 1,
            Place::Local => counts.all -= 1,
            Place::From(address) => {
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

    const LIMITS: Limits = Limits { connections: 5, per_address: 2 };

    fn enter(turnstile: &Arc<ConnectionLimiter>, from: &str) -> Option<Pass> {
        match turnstile.enter(from.parse().unwrap(), LIMITS) {
            Admission::In(pass) => Some(pass),
            Admission::Refused(_) | Admission::Dropped => None,
        }
    }

    #[test]
    fn places_are_counted_by_address_and_given_back() {
        let turnstile = Arc::<ConnectionLimiter>::default();
        let first = enter(&turnstile, "10.0.0.1").unwrap();
        let _second = enter(&turnstile, "::ffff:10.0.0.1").unwrap();
        assert!(enter(&turnstile, "10.0.0.1").is_none());
        drop(first);
        let _third = enter(&turnstile, "10.0.0.1").unwrap();
        let _local: Vec<_> = (0..3).map(|_| enter(&turnstile, "127.0.0.1").unwrap()).collect();
        assert!(enter(&turnstile, "127.0.0.1").is_none(), "loopback counts in all");
        assert!(enter(&turnstile, "10.0.0.2").is_none());
    }

    #[test]
    fn refusals_are_bounded_too() {
        let turnstile = Arc::<ConnectionLimiter>::default();
        let enter = || turnstile.enter([10, 0, 0, 1].into(), Limits { connections: 0, per_address: 0 });
        let mut kept = Vec::new();
        for _ in 0..REFUSALS {
            match enter() {
                Admission::Refused(pass) => kept.push(pass),
                Admission::In(_) | Admission::Dropped => panic!("expected a refusal"),
            }
        }
        assert!(matches!(enter(), Admission::Dropped));
        kept.clear();
        assert!(matches!(enter(), Admission::Refused(_)));
    }
}
