//! A brain's inbox: bounded, drained in batches, awaited until the brain's own deadline.

use ::io::clock;
use async_channel::{Receiver, Sender, TrySendError};
use model::time::Mono;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// The most inputs of one turn.
const INPUTS_PER_TURN: usize = 256;
/// The most inputs that wait. A full inbox refuses: frames are lost as on a bad link, writes are answered "busy".
pub const CAPACITY: usize = 1024;

/// All senders are gone.
#[derive(Debug)]
pub struct Closed;

/// Waits for the first input or the deadline, whichever comes first, and takes what else is there.
pub fn collect<T>(from: &Receiver<T>, deadline: Option<Mono>) -> Result<Vec<T>, Closed> {
    let mut batch = vec![];
    if let Some(first) = first(from, deadline)? {
        batch.push(first);
        drain(from, &mut batch);
    }
    Ok(batch)
}

fn drain<T>(from: &Receiver<T>, batch: &mut Vec<T>) {
    while batch.len() < INPUTS_PER_TURN {
        let Ok(next) = from.try_recv() else { break };
        batch.push(next);
    }
}

/// By the thread's own parking and not by an executor's timers: those cost half a dozen system calls for each wait.
fn first<T>(from: &Receiver<T>, deadline: Option<Mono>) -> Result<Option<T>, Closed> {
    let mut receiving = pin!(from.recv());
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(received) = receiving.as_mut().poll(&mut context) {
            return received.map(Some).map_err(|_| Closed);
        }
        if deadline.is_some_and(|at| at <= clock::mono()) {
            return Ok(None);
        }
        park(deadline);
    }
}

/// Parks this thread until it is woken, or the deadline has come.
pub fn park(deadline: Option<Mono>) {
    match deadline {
        None => thread::park(),
        Some(at) => thread::park_timeout(clock::until(at)),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Sends what may be lost.
pub fn send_or_drop<T>(to: &Sender<T>, what: &str, input: T) {
    if let Err(TrySendError::Full(_)) = to.try_send(input) {
        tracing::warn!("lost {what}: the inbox is full");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::time::Span;

    #[test]
    fn a_wait_ends_by_a_message_a_deadline_or_closed_senders() {
        let (sender, inbox) = async_channel::bounded(CAPACITY);
        let soon = clock::mono().after(Span::millis(20));
        assert!(collect::<u32>(&inbox, Some(soon)).is_ok_and(|batch| batch.is_empty()));
        assert!(clock::mono() >= soon, "not before the deadline");
        thread::scope(|scope| {
            scope.spawn(|| [1, 2].map(|n| sender.send_blocking(n)));
            let mut got = vec![];
            while got.len() < 2 {
                got.extend(collect(&inbox, None).expect("the sender lives"));
            }
            assert_eq!(got, [1, 2]);
        });
        drop(sender);
        assert!(collect(&inbox, None).is_err(), "nobody is left");
    }
}
