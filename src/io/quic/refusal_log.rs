//! Log lines about machines that are refused: one a minute for each address, whatever comes.
//!
//! Refuses to know: why they are.

use super::link::LinkEnd;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::credential::LinkRefusal;

const INTERVAL: Duration = Duration::from_secs(60);
/// Beyond so many addresses in a minute, further ones go without a line.
const MAX_ADDRESSES: usize = 64;

#[derive(Default)]
pub struct RefusalLog(Mutex<BTreeMap<IpAddr, Instant>>);

impl RefusalLog {
    pub fn note(&self, source: SocketAddr, why: &LinkEnd) {
        match why.refusal() {
            Some(LinkRefusal::SameProcess | LinkRefusal::Stopping) | None => {
                tracing::debug!(target: "nomad", %source, %why, "a link did not come to be");
            }
            Some(_) if self.is_due(source.ip(), Instant::now()) => {
                tracing::warn!(target: "nomad", %source, %why, "a link was refused");
            }
            Some(_) => {}
        }
    }

    fn is_due(&self, source: IpAddr, now: Instant) -> bool {
        // a change is done or not: a poisoned lock can be used
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|_, at| now.duration_since(*at) < INTERVAL);
        if logged.contains_key(&source) || logged.len() >= MAX_ADDRESSES {
            return false;
        }
        logged.insert(source, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_line_a_minute_and_lines_are_bounded() {
        let (log, now) = (RefusalLog::default(), Instant::now());
        let address = |n: usize| IpAddr::from((n as u32).to_be_bytes());
        assert!(log.is_due(address(0), now) && !log.is_due(address(0), now));
        assert!((1..MAX_ADDRESSES).all(|n| log.is_due(address(n), now)));
        assert!(!log.is_due(address(MAX_ADDRESSES), now));
        assert!(log.is_due(address(0), now + INTERVAL));
    }
}
