//! A pause for addresses that try join tokens until one fits: after so many wrong ones an address, or an IPv6 network of 64 bits, is not heard.
//!
//! Refuses to know: what makes a token wrong.

use super::admission::network;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens of one address before its pause.
pub const MAX_WRONG: u32 = 10;
/// How long a pause is, and after how long without a wrong token an address is forgotten.
pub const PAUSE: Duration = Duration::from_secs(300);
/// Addresses that are remembered. Beyond, the one that was wrong longest ago is forgotten.
const MAX_SOURCES: usize = 1024;

#[derive(Default)]
pub struct WrongTokens(Mutex<BTreeMap<IpAddr, WrongTries>>);

#[derive(Clone, Copy)]
struct WrongTries {
    count: u32,
    last: Instant,
}

impl WrongTokens {
    pub fn may_try(&self, source: IpAddr, now: Instant) -> bool {
        let mut known = self.lock();
        known.retain(|_, tries| now.duration_since(tries.last) < PAUSE);
        known.get(&network(source)).is_none_or(|tries| tries.count < MAX_WRONG)
    }

    pub fn was_wrong(&self, source: IpAddr, now: Instant) {
        let mut known = self.lock();
        let source = network(source);
        if known.len() >= MAX_SOURCES && !known.contains_key(&source) {
            let oldest = known.iter().min_by_key(|(_, tries)| tries.last).map(|(source, _)| *source);
            oldest.map(|source| known.remove(&source));
        }
        let tries = known.entry(source).or_insert(WrongTries { count: 0, last: now });
        *tries = WrongTries { count: tries.count.saturating_add(1), last: now };
    }

    /// Changes are done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, WrongTries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_tokens_of_an_address_give_it_a_pause() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (one, same, other) = (ip("2001:db8::1"), ip("2001:db8::2"), ip("10.0.0.1"));
        for _ in 0..MAX_WRONG {
            assert!(wrong.may_try(one, now));
            wrong.was_wrong(one, now);
        }
        assert!(!wrong.may_try(one, now) && !wrong.may_try(same, now) && wrong.may_try(other, now));
        assert!(wrong.may_try(one, now + PAUSE), "the pause is over");
        assert!(wrong.lock().is_empty(), "and nothing is kept of it");
    }

    #[test]
    fn remembered_addresses_are_bounded() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        for n in 0..MAX_SOURCES as u32 + 5 {
            wrong.was_wrong(IpAddr::from(n.to_be_bytes()), now + Duration::from_millis(n.into()));
        }
        let known = wrong.lock();
        assert_eq!(known.len(), MAX_SOURCES);
        assert!(!known.contains_key(&IpAddr::from(4u32.to_be_bytes())), "the oldest ones are forgotten");
    }
}
