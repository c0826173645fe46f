//! A brain's inbox: bounded, drained in batches, awaited until the brain's own deadline.

use crate::io::clock;
use crate::model::time::Mono;
use async_channel::{Receiver, Sender, TrySendError};
use smol::future::or;

/// What one turn takes at most.
const INPUTS_PER_TURN: usize = 256;
/// What may wait. A full inbox refuses: frames are lost as on a bad link, writes are answered "busy".
pub const CAPACITY: usize = 1024;

/// Nobody will send anything any more.
#[derive(Debug)]
pub struct Closed;

/// Waits for the first input or the deadline, whichever comes first, and takes what else is there.
pub fn collect<T>(from: &Receiver<T>, deadline: Option<Mono>) -> Result<Vec<T>, Closed> {
    let mut batch = vec![];
    if let Some(first) = smol::block_on(first(from, deadline))? {
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

async fn first<T>(from: &Receiver<T>, deadline: Option<Mono>) -> Result<Option<T>, Closed> {
    if let Ok(at_once) = from.try_recv() {
        return Ok(Some(at_once));
    }
    let received = async { from.recv().await.map(Some).map_err(|_| Closed) };
    match deadline {
        None => received.await,
        Some(at) if at <= clock::mono() => Ok(None),
        Some(at) => {
            or(received, async {
                smol::Timer::after(clock::until(at)).await;
                Ok(None)
            })
            .await
        }
    }
}

/// Sends what may be lost.
pub fn send_or_lose<T>(to: &Sender<T>, what: &str, input: T) {
    if let Err(TrySendError::Full(_)) = to.try_send(input) {
        tracing::warn!("lost {what}: the inbox is full");
    }
}
