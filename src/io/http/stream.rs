//! Logs on their way out: frames or plain bytes, as they come (reference: http-api 3.2).

use super::gate::Gate;
use crate::api::response::Response;
use crate::api::{LogRequest, Origin};
use crate::io::logs::{Chunk, LogReader, Place, Start};
use async_channel::{Receiver, Sender};
use base64::Engine;
use hyper::body::Bytes;
use rustix::io::Errno;
use serde::Serialize;
use smol::Timer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many chunks wait for a slow reader.
const CHUNKS: usize = 4;
/// How often a follower looks for more.
const LOOK: Duration = Duration::from_millis(100);
/// A follower that has nothing to send says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Content type and chunks of a task's output. Everything that can be refused is refused here, before the first byte.
pub async fn logs(
    executor: &Arc<smol::Executor<'static>>,
    gate: Arc<Gate>,
    request: LogRequest,
) -> Result<(&'static str, Receiver<Bytes>), Response> {
    let (alloc, task) = (request.alloc, request.task.clone());
    if task.contains('/') {
        return Err(Response::text(400, format!("unknown task name \"{task}\"")));
    }
    let place =
        Place { alloc_dir: gate.alloc_dir.join(alloc.to_string()), task, stream: request.stream.as_str() };
    let start = match request.origin {
        Origin::Start => Start::FromStart(request.offset),
        Origin::End => Start::FromEnd(request.offset),
    };
    let follow = request.follow;
    let reader = smol::unblock(move || LogReader::open(place, start, follow)).await;
    let reader = reader.map_err(|error| match error {
        Errno::NOENT => Response::text(404, format!("state for allocation {alloc} not found on client")),
        error => Response::text(500, format!("the logs of allocation {alloc} cannot be read: {error}")),
    })?;
    let (sender, chunks) = async_channel::bounded(CHUNKS);
    let content_type = if request.plain { "text/plain; charset=utf-8" } else { "application/json" };
    let ended = move || gate.ended(alloc);
    executor.spawn(pump(reader, sender, request.plain, follow, ended)).detach();
    Ok((content_type, chunks))
}

/// Sends until the stream ends, its reader leaves, or, for a follower, the allocation has ended and all was sent.
async fn pump(
    mut reader: LogReader,
    sender: Sender<Bytes>,
    plain: bool,
    follow: bool,
    ended: impl Fn() -> bool,
) {
    let mut last_sent = Instant::now();
    let mut last_round = !follow;
    loop {
        let (back, chunk) = smol::unblock(move || {
            let chunk = reader.next();
            (reader, chunk)
        })
        .await;
        reader = back;
        let out = match chunk {
            Ok(Chunk::Data { bytes, file, offset }) => {
                Some(if plain { bytes } else { data(&bytes, &file, offset) })
            }
            Ok(Chunk::Truncated { file }) if !plain => Some(event(&file, "file truncated")),
            Ok(Chunk::Truncated { .. }) => continue,
            Ok(Chunk::End) if last_round => return,
            Ok(Chunk::End) => None,
            Err(error) => {
                tracing::warn!(%error, "a task's logs can no longer be read");
                return;
            }
        };
        if let Some(bytes) = out {
            if sender.send(bytes.into()).await.is_err() {
                return;
            }
            last_sent = Instant::now();
            continue;
        }
        if last_sent.elapsed() >= HEARTBEAT {
            // What was written before the end was seen is read in one more round.
            last_round = ended();
            if sender.is_closed() || (!plain && sender.send(Bytes::from_static(b"{}")).await.is_err()) {
                return;
            }
            last_sent = Instant::now();
        }
        if !last_round {
            Timer::after(LOOK).await;
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FrameShape<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_event: Option<&'a str>,
}

fn data(bytes: &[u8], file: &str, offset: u64) -> Vec<u8> {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    frame(&FrameShape { offset: Some(offset), data: Some(data), file, file_event: None })
}

/// Bytes that are of no file.
pub fn data_frame(bytes: &[u8]) -> Vec<u8> {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    frame(&FrameShape { data: Some(data), ..FrameShape::default() })
}

fn event(file: &str, what: &str) -> Vec<u8> {
    frame(&FrameShape { file, file_event: Some(what), ..FrameShape::default() })
}

fn frame(shape: &FrameShape<'_>) -> Vec<u8> {
    // Text and numbers always become JSON; an empty object is a heartbeat, which every reader skips.
    serde_json::to_vec(shape).unwrap_or_else(|_| b"{}".to_vec())
}
