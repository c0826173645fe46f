//! The agent's own log on its way out: frames or plain lines, as they are written (http-api.md 8).

use ::io::executor;
use ::io::http::Bytes;
use ::io::monitor::{Monitor, MonitorSubscription};
use api::monitor::MonitorRequest;
use api::presentation::data_frame;
use api::response::Response;
use async_channel::{Receiver, Sender};
use smol::Timer;
use smol::future::or;
use std::sync::Arc;
use std::time::Duration;

/// How often a reader without lines gets a heartbeat; a reader that has left is noticed by it.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// At most this many chunks are queued for a slow reader outside the monitor.
const CHUNKS: usize = 4;

/// Content type and chunks.
pub fn log(
    executor: &Arc<smol::Executor<'static>>,
    monitor: &Arc<Monitor>,
    request: MonitorRequest,
) -> Result<(&'static str, Receiver<Bytes>), Response> {
    let why = "too many readers follow this agent's log already: close one, or try again later";
    let subscription = monitor.subscribe(request).ok_or_else(|| Response::text(429, why))?;
    let (sender, chunks) = async_channel::bounded(CHUNKS);
    executor::spawn(executor, pump(subscription, sender, request.plain)).detach();
    Ok((if request.plain { "text/plain; charset=utf-8" } else { "application/json" }, chunks))
}

/// Sends until the reader leaves.
async fn pump(subscription: MonitorSubscription, sender: Sender<Bytes>, plain: bool) {
    loop {
        let line = or(async { subscription.lines.recv().await.ok() }, async {
            Timer::after(HEARTBEAT_EVERY).await;
            None
        })
        .await;
        let out = match line {
            Some(line) if plain => line,
            Some(line) => data_frame(&line),
            None if plain => vec![],
            None => b"{}".to_vec(),
        };
        let gone = if out.is_empty() { sender.is_closed() } else { sender.send(out.into()).await.is_err() };
        if gone || !report_lost(&subscription, &sender, plain).await {
            return;
        }
    }
}

/// False when the reader has left.
async fn report_lost(subscription: &MonitorSubscription, sender: &Sender<Bytes>, plain: bool) -> bool {
    let lost = subscription.take_dropped();
    if lost == 0 {
        return true;
    }
    let line =
        format!("[WARN] this reader was too slow: {lost} lines of the log were left out\n").into_bytes();
    sender.send(if plain { line } else { data_frame(&line) }.into()).await.is_ok()
}
