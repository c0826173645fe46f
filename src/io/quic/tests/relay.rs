//! A line between two machines that is slow, loses datagrams, or leads elsewhere by now.

use model::random::Stream;
use smol::future::or;
use smol::net::UdpSocket;
use smol::{Timer, block_on};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What waits on a line that is full is lost beyond this.
const MAX_QUEUE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
pub struct Line {
    /// One way.
    pub delay: Duration,
    pub loss_percent: u64,
    pub bytes_per_second: u32,
}

pub const GOOD: Line = Line { delay: Duration::ZERO, loss_percent: 0, bytes_per_second: u32::MAX };

struct Settings {
    line: Line,
    target: SocketAddr,
    /// The relay's own address towards the target is to change.
    moves: bool,
}

/// Where the line begins; it ends with the test's process.
pub struct Relay {
    pub address: SocketAddr,
    settings: Arc<Mutex<Settings>>,
}

impl Relay {
    pub fn to(target: SocketAddr, line: Line) -> Relay {
        let settings = Arc::new(Mutex::new(Settings { line, target, moves: false }));
        let front = block_on(bind());
        let address = front.local_addr().expect("it is bound");
        let of_thread = settings.clone();
        thread::spawn(move || block_on(carry(front, &of_thread)));
        Relay { address, settings }
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().expect("nobody panics with it"));
    }

    pub fn set_line(&self, line: Line) {
        self.change(|s| s.line = line);
    }

    pub fn lead_to(&self, target: SocketAddr) {
        self.change(|s| s.target = target);
    }

    /// As a machine behind it whose address changes.
    pub fn move_source(&self) {
        self.change(|s| s.moves = true);
    }
}

async fn bind() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a socket")
}

/// A datagram on its way, and whether to the target.
type UnderWay = (Instant, bool, Vec<u8>);

enum Next {
    Came { forth: bool, length: usize, from: SocketAddr },
    Due,
}

async fn carry(front: UdpSocket, settings: &Mutex<Settings>) {
    let mut back = bind().await;
    let mut draws = Stream::new(1, 1);
    let mut client = None;
    let mut queues: [VecDeque<UnderWay>; 2] = Default::default();
    let mut free_at = [Instant::now(); 2];
    loop {
        let (mut there, mut here) = ([0; 2048], [0; 2048]);
        let due = queues.iter().filter_map(|queue| queue.front()).map(|next| next.0).min();
        let next = or(or(came(&front, &mut there, true), came(&back, &mut here, false)), async {
            match due {
                Some(at) => Timer::at(at).await,
                None => super::machine::never().await,
            };
            Next::Due
        });
        let (next, now) = (next.await, Instant::now());
        let (line, target, moves) = {
            let mut settings = settings.lock().expect("nobody panics with it");
            (settings.line, settings.target, std::mem::take(&mut settings.moves))
        };
        if moves {
            back = bind().await;
        }
        if let Next::Came { forth, length, from } = next {
            if forth {
                client = Some(from);
            }
            let way = usize::from(forth);
            let leaves = free_at[way].max(now) + Duration::from_secs(length as u64) / line.bytes_per_second;
            if draws.below(100) >= line.loss_percent && leaves - now < MAX_QUEUE {
                free_at[way] = leaves;
                let bytes = if forth { &there[..length] } else { &here[..length] };
                queues[way].push_back((leaves + line.delay, forth, bytes.to_vec()));
            }
        }
        for queue in &mut queues {
            while let Some((_, forth, bytes)) = queue.pop_front_if(|next| next.0 <= now) {
                // a machine that is gone hears nothing
                let _ = match (forth, client) {
                    (true, _) => back.send_to(&bytes, target).await,
                    (false, Some(client)) => front.send_to(&bytes, client).await,
                    (false, None) => Ok(0),
                };
            }
        }
    }
}

async fn came(socket: &UdpSocket, buffer: &mut [u8], forth: bool) -> Next {
    loop {
        if let Ok((length, from)) = socket.recv_from(buffer).await {
            return Next::Came { forth, length, from };
        }
    }
}
