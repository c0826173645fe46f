//! A link that carries only so many bytes in a second, as a QUIC connection over a slow line does: a stream for each class of traffic,
//! a bounded send buffer for each, and packets of which the most urgent stream's goes next.
//!
//! Refuses to know what is carried. Invariant: what is queued on a stream leaves in its order.

use super::network::Link;
use super::world::{Event, World};
use model::time::Span;
use std::collections::VecDeque;
use wire::frame::TrafficClass;

/// What one packet carries.
const PACKET_BYTES: usize = 1_200;
/// What may wait on one stream. What is more is lost, and counted.
const SEND_BUFFER_BYTES: usize = 16 << 20;

pub struct Line {
    bytes_per_second: u64,
    streams: [SendBuffer; TrafficClass::ALL.len()],
    /// How large the packet is that is on its way out; 0: there is none.
    packet_bytes: usize,
    pub counts: LineCounts,
}

#[derive(Default)]
struct SendBuffer {
    messages: VecDeque<Message>,
    bytes: usize,
}

struct Message {
    bytes_left: usize,
    arrives: Event,
}

/// By class of traffic, but for what was lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineCounts {
    /// The most that ever waited.
    pub most_bytes: [usize; TrafficClass::ALL.len()],
    /// All that was ever to be sent.
    pub sent_bytes: [usize; TrafficClass::ALL.len()],
    pub lost: u64,
}

impl Line {
    pub fn new(bytes_per_second: u64) -> Line {
        let (streams, counts) = (Default::default(), LineCounts::default());
        Line { bytes_per_second, streams, packet_bytes: 0, counts }
    }

    /// The connection is gone, and what was on it.
    pub fn clear(&mut self) {
        self.streams = Default::default();
    }

    fn push(&mut self, class: TrafficClass, bytes: usize, arrives: Event) {
        let (at, stream) = (class as usize, &mut self.streams[class as usize]);
        if stream.bytes + bytes > SEND_BUFFER_BYTES {
            self.counts.lost += 1;
            return;
        }
        stream.bytes += bytes;
        stream.messages.push_back(Message { bytes_left: bytes, arrives });
        self.counts.sent_bytes[at] += bytes;
        self.counts.most_bytes[at] = self.counts.most_bytes[at].max(stream.bytes);
    }

    /// How long the next packet takes. `None`: nothing waits.
    fn begin_packet(&mut self) -> Option<Span> {
        let waiting: usize = self.streams.iter().map(|stream| stream.bytes).sum();
        self.packet_bytes = waiting.min(PACKET_BYTES);
        let takes = self.packet_bytes as u64 * 1_000_000_000 / self.bytes_per_second;
        (waiting > 0).then_some(Span(takes as i64))
    }

    /// What has left whole with the packet, which the most urgent of what waits now has filled.
    fn end_packet(&mut self) -> Vec<(TrafficClass, Event)> {
        let mut left = self.packet_bytes;
        let mut gone = vec![];
        for class in TrafficClass::ALL {
            let stream = &mut self.streams[class as usize];
            while left > 0
                && let Some(first) = stream.messages.front_mut()
            {
                let taken = first.bytes_left.min(left);
                (first.bytes_left, left, stream.bytes) =
                    (first.bytes_left - taken, left - taken, stream.bytes - taken);
                if first.bytes_left == 0 {
                    gone.extend(stream.messages.pop_front().map(|message| (class, message.arrives)));
                }
            }
        }
        gone
    }
}

impl World {
    pub fn queue_on_line(&mut self, link: Link, class: TrafficClass, bytes: usize, arrives: Event) {
        let Some(line) = self.network.lines.get_mut(&link) else { return };
        line.push(class, bytes, arrives);
        if line.packet_bytes == 0 {
            self.next_packet(link);
        }
    }

    fn next_packet(&mut self, link: Link) {
        let takes = self.network.lines.get_mut(&link).and_then(Line::begin_packet);
        if let Some(takes) = takes {
            self.at(self.now.after(takes), Event::Packet { link });
        }
    }

    /// A packet has left.
    pub fn packet_left(&mut self, link: Link) -> Result<(), String> {
        let gone = self.network.lines.get_mut(&link).map(Line::end_packet).unwrap_or_default();
        for (class, arrives) in gone {
            let delay = self.delay(Span(20_000), Span::millis(2));
            let at = self.network.arrival(link, class, self.now, delay);
            self.at(at, arrives);
        }
        self.next_packet(link);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_urgent_passes_what_is_large() {
        let mut line = Line::new(8_000);
        let event = || Event::Work;
        line.push(TrafficClass::Appends, 3_000, event());
        assert_eq!(line.begin_packet(), Some(Span::millis(150)));
        line.push(TrafficClass::Consensus, 100, event());
        let classes =
            |gone: Vec<(TrafficClass, Event)>| gone.into_iter().map(|(class, _)| class).collect::<Vec<_>>();
        assert_eq!(classes(line.end_packet()), [TrafficClass::Consensus]);
        let mut packets = 1;
        while line.begin_packet().is_some() {
            packets += 1;
            let gone = classes(line.end_packet());
            assert!(gone.is_empty() || (packets == 3 && gone == [TrafficClass::Appends]), "{gone:?}");
        }
        assert_eq!((packets, line.counts.most_bytes[TrafficClass::Appends as usize]), (3, 3_000));
        line.push(TrafficClass::Appends, SEND_BUFFER_BYTES + 1, event());
        assert_eq!((line.counts.lost, line.begin_packet()), (1, None));
    }
}
