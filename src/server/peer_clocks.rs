//! The clocks of a region's servers, compared (server.md 4.6). Followers send theirs to their leader; a leader whose clock is another than
//! that of a majority of servers, which agree with each other, hands leadership to one of those.
//!
//! Refuses to know: who is right. Where no majority agrees, nothing follows.

use super::clock::WallClock;
use super::context::Context;
use super::effects::Effect;
use super::replica::Replica;
use model::time::{Mono, Span, Wall};
use std::collections::BTreeMap;
use wire::frame::Body;
use wire::server_rpc::ServerRequest;

const SEND_INTERVAL: Span = Span::seconds(30);
/// Older readings of a clock do not count.
const FORGET_AFTER: Span = Span::minutes(2);
/// A leader whose clock is off tries again so long after a transfer that may have failed.
const RECHECK_AFTER: Span = Span::seconds(5);
/// Clocks that differ by less show the same: a message may take seconds.
const TOLERANCE: Span = Span::minutes(1);

/// This server's clock, and what it knows of the others'.
pub struct Clocks {
    pub own: WallClock,
    peers: PeerClocks,
}

#[derive(Default)]
struct PeerClocks {
    /// By server: how far its clock is ahead of this one's, and when that was found.
    offsets: BTreeMap<u64, (Span, Mono)>,
    /// The leader that was told this server's time last, in which term, and when it is told again.
    sent: Option<(u64, u64, Mono)>,
    /// When this leader, whose clock is off, looks again whether it still leads.
    recheck_at: Option<Mono>,
}

/// How this server's clock compares with those of the voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockVerdict {
    /// No majority of voters shows one time.
    Unknown,
    /// A majority shows this server's time.
    Agrees,
    /// A majority shows another time, and among it that server.
    Outlier { agreeing: u64, offset: Span },
}

impl Clocks {
    pub fn new(own: WallClock) -> Clocks {
        Clocks { own, peers: PeerClocks::default() }
    }

    /// A follower tells its leader the time, at once when it is a new one.
    pub fn send_time(&mut self, leader: Option<u64>, cx: &mut Context<'_>) {
        self.peers.send(leader.map(|leader| (leader, cx.raft.term())), cx);
    }

    /// Another server's clock shows that time. `leads`: this server does, and is established.
    pub fn receive_time(&mut self, server: u64, wall: Wall, leads: bool, replica: &mut Replica, now: Mono) {
        let raft = replica.raft();
        if raft.is_leader() && self.own.is_set() && raft.voters().contains(&server) {
            self.peers.record_offset(server, wall - self.own.at(now), now);
            self.check(leads, replica, now);
        }
    }

    /// A leader whose clock is off looks again: the one that it asked to lead may not have been able to.
    pub fn recheck(&mut self, leads: bool, replica: &mut Replica, now: Mono) {
        if self.peers.recheck_at.is_some_and(|at| at <= now) {
            self.check(leads, replica, now);
        }
    }

    /// A leader holds its clock against those that it was told of. One that is not established yet cannot hand leadership on.
    pub fn check(&mut self, leads: bool, replica: &mut Replica, now: Mono) {
        self.peers.recheck_at = None;
        let raft = replica.raft();
        let (own, voters) = (raft.id(), raft.voters());
        if !leads || !self.own.is_set() {
            return;
        }
        match self.peers.compare(own, &voters, self.own.moved(), now) {
            ClockVerdict::Unknown => {}
            ClockVerdict::Agrees => self.own.confirm(),
            ClockVerdict::Outlier { agreeing, offset } => {
                tracing::warn!(target: "nomad", %offset, to = agreeing,
                    "this server's clock differs from that of most servers: leadership is transferred; set the clock");
                self.peers.recheck_at = Some(now.after(RECHECK_AFTER));
                if let Err(refused) = replica.transfer_leader(agreeing) {
                    tracing::debug!(target: "nomad", %refused, "leadership is not transferred");
                }
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.peers.next_deadline()
    }
}

impl PeerClocks {
    fn send(&mut self, leader: Option<(u64, u64)>, cx: &mut Context<'_>) {
        let Some((leader, term)) = leader else {
            self.sent = None;
            return;
        };
        let is_known =
            |(to, in_term, again): (u64, u64, Mono)| (to, in_term) == (leader, term) && cx.now < again;
        if !cx.clock.is_set() || self.sent.is_some_and(is_known) {
            return;
        }
        self.sent = Some((leader, term, cx.now.after(SEND_INTERVAL)));
        let request = ServerRequest::Clock { wall: cx.clock.at(cx.now) };
        cx.outbox.effect(Effect::server_frame(leader, 0, Body::ServerRequest(request)));
    }

    fn record_offset(&mut self, server: u64, ahead: Span, now: Mono) {
        self.offsets.retain(|_, (_, at)| now.since(*at) < FORGET_AFTER);
        self.offsets.insert(server, (ahead, now));
    }

    /// `moved`: when this server's clock jumped; offsets that were found before that do not count.
    fn compare(&self, own: u64, voters: &[u64], moved: Option<Mono>, now: Mono) -> ClockVerdict {
        let is_fresh = |at: Mono| now.since(at) < FORGET_AFTER && moved.is_none_or(|moved| at >= moved);
        let fresh = |id: &u64| self.offsets.get(id).filter(|(_, at)| is_fresh(*at));
        let mut known: Vec<(Span, u64)> =
            voters.iter().filter_map(|id| fresh(id).map(|(ahead, _)| (*ahead, *id))).collect();
        known.push((Span::ZERO, own));
        known.sort_unstable();
        let quorum = voters.len() / 2 + 1;
        // the clock around which most others are
        let around = |middle: Span| known.iter().filter(move |(ahead, _)| is_near(*ahead, middle)).count();
        let most =
            known.iter().max_by_key(|(ahead, id)| (around(*ahead), *id == own, std::cmp::Reverse(*id)));
        match most {
            Some((ahead, _)) if around(*ahead) < quorum => ClockVerdict::Unknown,
            Some((ahead, _)) if is_near(Span::ZERO, *ahead) => ClockVerdict::Agrees,
            Some((offset, agreeing)) => ClockVerdict::Outlier { agreeing: *agreeing, offset: *offset },
            None => ClockVerdict::Unknown,
        }
    }

    fn next_deadline(&self) -> Option<Mono> {
        self.sent.map(|(_, _, again)| again).into_iter().chain(self.recheck_at).min()
    }
}

fn is_near(a: Span, b: Span) -> bool {
    a.0.abs_diff(b.0) <= TOLERANCE.0.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono(1);

    fn compared(voters: &[u64], ahead: &[(u64, i64)]) -> ClockVerdict {
        let mut clocks = PeerClocks::default();
        ahead.iter().for_each(|(id, seconds)| clocks.record_offset(*id, Span::seconds(*seconds), NOW));
        clocks.compare(1, voters, None, NOW)
    }

    #[test]
    fn a_majority_of_voters_decides_which_clock_is_off() {
        let year = 31_536_000;
        assert_eq!(compared(&[1, 2, 3], &[(2, 3), (3, year)]), ClockVerdict::Agrees);
        let offset = Span::seconds(year);
        assert_eq!(
            compared(&[1, 2, 3], &[(2, year), (3, year + 9)]),
            ClockVerdict::Outlier { agreeing: 2, offset }
        );
        assert_eq!(compared(&[1, 2, 3], &[(2, year), (3, -year)]), ClockVerdict::Unknown, "three times");
        assert_eq!(compared(&[1, 2], &[(2, year)]), ClockVerdict::Unknown, "one against one");
        assert_eq!(compared(&[1, 2, 3, 4, 5], &[(2, year), (3, year)]), ClockVerdict::Unknown, "two of five");
        assert_eq!(compared(&[1], &[]), ClockVerdict::Agrees, "nobody else votes");
    }

    #[test]
    fn old_times_of_peers_are_forgotten() {
        let mut clocks = PeerClocks::default();
        clocks.record_offset(2, Span::ZERO, NOW);
        assert_eq!(clocks.compare(1, &[1, 2, 3], None, NOW), ClockVerdict::Agrees);
        assert_eq!(clocks.compare(1, &[1, 2, 3], None, NOW.after(FORGET_AFTER)), ClockVerdict::Unknown);
        assert_eq!(clocks.compare(1, &[1, 2, 3], Some(NOW), NOW), ClockVerdict::Agrees);
        let moved = NOW.after(Span::seconds(1));
        assert_eq!(clocks.compare(1, &[1, 2, 3], Some(moved), moved), ClockVerdict::Unknown);
    }
}
