//! How long a node has been alone, as its agent has to reckon it: since a server answered a heartbeat that the agent waited for. An answer to
//! one that it has given up is none.
//!
//! Refuses to know: what a node ends when it is alone.

use model::time::{Mono, Span};
use wire::frame::{self, Body, Frame};
use wire::rpc::{NodeReply, NodeRequest, Peer};

/// For how long an agent waits for the answer to a heartbeat (client.md 2.1).
const PATIENCE: Span = Span::seconds(5);
/// By so much a task may be signalled after its agent gave it up, and has been answered since: its keeper was away, or the task did not heed
/// the first signal.
const LATE_SIGNAL: Span = Span::seconds(20);

#[derive(Debug, Default)]
pub struct Contact {
    /// The server that it asked last, whatever it asked.
    asks: Option<Peer>,
    /// How often that was another one than before.
    pub turned_away: u64,
    awaited: Option<Awaited>,
    heard_at: Mono,
    /// The longest silence of late, and when it ended.
    broken: Option<(Span, Mono)>,
}

/// The heartbeat under way.
#[derive(Debug)]
struct Awaited {
    number: u64,
    to: Peer,
    until: Mono,
}

impl Contact {
    /// The agent sends a frame.
    pub fn sent(&mut self, to: Peer, bytes: &[u8], now: Mono) {
        let before = self.asks.replace(to);
        self.turned_away += u64::from(before.is_some_and(|before| before != to));
        if let Ok(Frame { request: number, body: Body::Request(asked) }) = frame::decode(bytes)
            && matches!(asked, NodeRequest::Register { .. } | NodeRequest::Heartbeat { .. })
        {
            self.awaited = Some(Awaited { number, to, until: now.after(PATIENCE) });
        }
    }

    /// A frame comes to the agent.
    pub fn received(&mut self, from: Peer, bytes: &[u8], now: Mono) {
        let Ok(Frame { request, body: Body::Reply(reply) }) = frame::decode(bytes) else { return };
        let answers = |a: &mut Awaited| (a.number, a.to) == (request, from) && now < a.until;
        let answered = self.awaited.take_if(answers).is_some();
        if answered && matches!(reply, NodeReply::Alive { .. } | NodeReply::Missed { .. }) {
            let silence = now.since(self.heard_at);
            if self.broken_of_late(now) <= silence {
                self.broken = Some((silence, now));
            }
            self.heard_at = now;
        }
    }

    /// The server that it asks.
    pub fn server(&self) -> Option<Peer> {
        self.asks
    }

    /// What was asked is answered to nobody.
    pub fn agent_ended(&mut self) {
        self.awaited = None;
    }

    /// For how long no server has answered, or had not when the agent decided what is done now.
    pub fn silence(&self, now: Mono) -> Span {
        now.since(self.heard_at).max(self.broken_of_late(now))
    }

    fn broken_of_late(&self, now: Mono) -> Span {
        self.broken.filter(|(_, at)| now.since(*at) <= LATE_SIGNAL).map_or(Span::ZERO, |(silence, _)| silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Peer = Peer::Server(1);

    fn s(seconds: i64) -> Mono {
        Mono(0).after(Span::seconds(seconds))
    }

    /// Whose heartbeat number 7 was sent at second 100.
    fn waiting() -> Contact {
        let mut contact = Contact::default();
        ask(&mut contact, 7, s(100));
        contact
    }

    fn ask(contact: &mut Contact, number: u64, at: Mono) {
        let asked = NodeRequest::Heartbeat { node: Default::default(), secret: Default::default() };
        contact.sent(SERVER, &frame::encode(&Frame { request: number, body: Body::Request(asked) }), at);
    }

    fn answer(contact: &mut Contact, from: Peer, number: u64, reply: NodeReply, at: Mono) {
        contact.received(from, &frame::encode(&Frame { request: number, body: Body::Reply(reply) }), at);
    }

    fn alive() -> NodeReply {
        NodeReply::Alive { ttl: Span::seconds(10), info: 0 }
    }

    #[test]
    fn only_the_answer_that_is_waited_for_ends_the_silence() {
        let ended = |from, number, at| {
            let mut contact = waiting();
            answer(&mut contact, from, number, alive(), at);
            contact.silence(s(150)) == Span::seconds(150 - 104)
        };
        assert!(ended(SERVER, 7, s(104)));
        assert!(!ended(Peer::Server(2), 7, s(104)), "it was not asked");
        assert!(!ended(SERVER, 6, s(104)), "an earlier one");
        assert!(!ended(SERVER, 7, s(105)), "it was given up");
        let mut contact = waiting();
        contact.agent_ended();
        answer(&mut contact, SERVER, 7, alive(), s(104));
        assert_eq!(contact.silence(s(150)), Span::seconds(150), "another agent asked");
        let mut contact = waiting();
        answer(&mut contact, SERVER, 7, NodeReply::NoLeader, s(102));
        answer(&mut contact, SERVER, 7, alive(), s(104));
        assert_eq!(contact.silence(s(150)), Span::seconds(150), "it was answered before");
    }

    /// What was given up in a silence may be signalled a while after it.
    #[test]
    fn a_silence_counts_a_while_after_it_has_ended() {
        let mut contact = waiting();
        answer(&mut contact, SERVER, 7, NodeReply::Missed { ttl: Span::seconds(10), info: 0 }, s(104));
        ask(&mut contact, 8, s(112));
        answer(&mut contact, SERVER, 8, alive(), s(113));
        assert_eq!(contact.silence(s(124)), Span::seconds(104));
        assert_eq!(contact.silence(s(125)), Span::seconds(12));
    }
}
