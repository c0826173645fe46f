//! What holds of requests as bytes: however they are cut, they end at the same place and say the same.

use super::head::{self, MAX_HEAD_BYTES};
use super::incoming::Incoming;

const LIMIT: usize = 64;

/// A byte that says how the rest is cut into pieces, and a connection's bytes.
pub fn message(bytes: &[u8]) {
    let [step, bytes @ ..] = bytes else { return };
    let whole = read(bytes, bytes.len().max(1));
    let cut = read(bytes, usize::from(*step % 16) + 1);
    assert_eq!(whole, cut, "it matters how it is cut");
}

/// What the first request says, and how many bytes are behind it; `None` when it is refused or not whole.
fn read(bytes: &[u8], step: usize) -> Option<(String, Vec<u8>, usize)> {
    let mut pieces = bytes.chunks(step);
    let (mut came, mut looked) = (vec![], 0);
    let end = loop {
        match head::end(&came, looked) {
            Some(end) => break end,
            None => {
                looked = came.len();
                came.extend_from_slice(pieces.next()?);
            }
        }
    };
    assert!(end <= came.len() && head::end(&came[..end - 1], 0).is_none());
    let head = head::parse(&came[..end]).ok().filter(|_| end <= MAX_HEAD_BYTES)?;
    came.drain(..end);
    let mut body = Incoming::new(head.framing, LIMIT);
    loop {
        body.take(&mut came).ok()?;
        assert!(body.bytes.len() <= LIMIT);
        if body.is_whole() {
            came.extend(pieces.flatten());
            let said = format!("{:?} {} {}", head.request, head.keeps, head.gzip);
            return Some((said, body.bytes, came.len()));
        }
        came.extend_from_slice(pieces.next()?);
    }
}
