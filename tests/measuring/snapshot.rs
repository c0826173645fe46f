//! What a follower does that takes in another server's state: how long it takes to receive, and its longest turns. Not on a network.
//!
//! Refuses to know how the state came to be.

use super::region_host::open_store;
use super::{HALF_ELECTION_TIMEOUT_MS, Outcome};
use state::log_batch::LogBatch;
use state::snapshot::{SnapshotHeader, SnapshotRows};
use state::view::View;
use std::path::Path;
use std::time::Instant;
use wire::snapshot::CHUNK_BYTES;

/// The view's rows, chunk by chunk, into an empty store in `dir`: a turn takes a chunk, and the last turns complete and install it.
pub fn receive(dir: &Path, view: View, state_bytes: u64) -> Outcome {
    let mut store = open_store(dir)?;
    let began = Instant::now();
    store.receive_snapshot(SnapshotHeader {
        index: view.index(),
        term: 1,
        members: vec![],
        applied_state: view.applied_state(),
        bytes: state_bytes,
    })?;
    let ms = |since: Instant| since.elapsed().as_secs_f64() * 1e3;
    let (mut rows, mut bytes, mut longest_chunk): (_, usize, f64) = (SnapshotRows::new(view), 0, 0.0);
    let completing = loop {
        let chunk = rows.next_chunk(CHUNK_BYTES)?;
        bytes += chunk.bytes.len();
        let turn = Instant::now();
        store.receive_chunk(&chunk.bytes)?;
        if chunk.last {
            store.complete_snapshot()?;
            break ms(turn);
        }
        longest_chunk = longest_chunk.max(ms(turn));
    };
    let turn = Instant::now();
    store.install_snapshot(&LogBatch::default())?;
    let installing = ms(turn);
    println!(
        "{:.1} MiB of rows are installed after {:.2} s; a chunk takes up to {longest_chunk:.1} ms, the last one, which completes the \
         snapshot, {completing:.1} ms, its installation {installing:.1} ms",
        bytes as f64 / f64::from(1 << 20),
        began.elapsed().as_secs_f64()
    );
    Ok(longest_chunk.max(completing).max(installing) <= HALF_ELECTION_TIMEOUT_MS)
}
