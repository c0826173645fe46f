//! Compression of answers for callers that ask for it: whole ones that are worth it, streams chunk by chunk.
//!
//! Invariants: a stream's chunk can be read as soon as it was sent; at most `MAX_STREAMS` streams are compressed at once,
//! as each costs some 300 KiB, and the others go out as they are.

use crate::executor;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::HeaderMap;
use hyper::header::ACCEPT_ENCODING;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Smaller bodies fit into one packet anyway.
const MIN_COMPRESSED_BYTES: usize = 1 << 10;
/// Larger ones are compressed on the blocking pool: other connections shall not wait for them.
const MAX_INLINE_BYTES: usize = 64 << 10;
const MAX_STREAMS: usize = 16;

/// Headers of a compressed answer.
pub const HEADERS: [(&str, &str); 2] = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")];

/// Whether the caller takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    listed.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse::<f64>() == Ok(0.0));
        named && !parts.any(refused)
    })
}

/// The body compressed, or as it was when that is not worth it.
pub async fn compress(body: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
    match body.len() {
        0..MIN_COMPRESSED_BYTES => Err(body),
        MIN_COMPRESSED_BYTES..=MAX_INLINE_BYTES => compressed(body),
        _ => executor::unblock(move || compressed(body)).await,
    }
}

fn compressed(body: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    match encoder.write_all(&body).and_then(|()| encoder.finish()) {
        Ok(small) if small.len() < body.len() => Ok(small),
        _ => Err(body),
    }
}

/// How many streams are compressed at present.
#[derive(Clone, Debug, Default)]
pub struct ActiveCompressions(Arc<AtomicUsize>);

/// Released when dropped.
struct CompressionPermit(ActiveCompressions);

impl Drop for CompressionPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The compressor of one stream.
pub struct GzipStream {
    encoder: GzEncoder<Vec<u8>>,
    _permit: CompressionPermit,
}

impl GzipStream {
    /// `None` when there are enough of them.
    pub fn new(compressions: &ActiveCompressions) -> Option<GzipStream> {
        let one_more = |n| (n < MAX_STREAMS).then_some(n + 1);
        compressions.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        Some(GzipStream { encoder, _permit: CompressionPermit(compressions.clone()) })
    }

    /// Compresses a chunk: the bytes hold everything up to and with it.
    pub fn chunk(&mut self, bytes: &[u8]) -> Vec<u8> {
        let written = self.encoder.write_all(bytes).and_then(|()| self.encoder.flush());
        written.expect("memory takes all");
        std::mem::take(self.encoder.get_mut())
    }

    /// The bytes that end the stream.
    pub fn end(self) -> Vec<u8> {
        self.encoder.finish().expect("memory takes all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use hyper::header::HeaderValue;
    use std::io::Read;

    #[test]
    fn only_callers_that_ask_get_gzip() {
        for (value, takes) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn bodies_come_back_as_they_were() {
        for length in [MIN_COMPRESSED_BYTES, MAX_INLINE_BYTES + 1] {
            let body = b"drover ".repeat(length / 7 + 1);
            let small = smol::block_on(compress(body.clone())).unwrap();
            assert!(small.len() < body.len() / 4);
            let mut back = Vec::new();
            GzDecoder::new(&small[..]).read_to_end(&mut back).unwrap();
            assert_eq!(back, body);
        }
        assert!(smol::block_on(compress(vec![b'a'; MIN_COMPRESSED_BYTES - 1])).is_err(), "too small");
    }

    #[test]
    fn gzip_chunks_are_readable_one_by_one() {
        let compressions = ActiveCompressions::default();
        let mut compressor = GzipStream::new(&compressions).unwrap();
        let mut sent = compressor.chunk(b"first ");
        let mut partly = [0; 6];
        GzDecoder::new(&sent[..]).read_exact(&mut partly).unwrap();
        assert_eq!(&partly, b"first ");
        sent.extend(compressor.chunk(b"second"));
        sent.extend(compressor.end());
        let mut all = String::new();
        GzDecoder::new(&sent[..]).read_to_string(&mut all).unwrap();
        assert_eq!(all, "first second");
        let mut many: Vec<_> = (0..MAX_STREAMS).filter_map(|_| GzipStream::new(&compressions)).collect();
        assert_eq!((many.len(), GzipStream::new(&compressions).is_none()), (MAX_STREAMS, true));
        many.pop();
        assert!(GzipStream::new(&compressions).is_some(), "its place is given back");
    }
}
