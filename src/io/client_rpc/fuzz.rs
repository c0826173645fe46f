//! What holds of readers of logs in a directory that its task has written to: they end, and nothing leads out.

use super::logs::{LogLocation, LogReader};
use super::scratch::Scratch;
use super::stream::{CHUNK_BYTES, ChunkSource};
use std::os::unix::fs::symlink;
use wire::client_rpc::{ReadOffset, StreamFrame};

const SECRET: &[u8] = b"what nobody may read";

/// Two bytes of where to begin, then files: a byte of its kind, one of its index, one of its size.
pub fn logs(bytes: &[u8]) {
    let [start, offset, files @ ..] = bytes else { return };
    let dir = Scratch::new("fuzz-logs", &["own/alloc/logs"]);
    dir.write("secret", SECRET);
    let mut most = 0;
    for file in files.chunks_exact(3).take(12) {
        let [kind, index, size] = *file else { return };
        let name = match kind % 8 {
            0 => format!("t.stderr.{index}"),
            1 => format!("t.stdout.0{index}"),
            2 => "t.stdout.18446744073709551615".to_string(),
            3 => "t.stdout.-1".to_string(),
            _ => format!("t.stdout.{}", index % 8),
        };
        let path = format!("own/alloc/logs/{name}");
        if kind & 0x40 != 0 {
            // one name may come twice
            let _ = symlink(dir.path().join("secret"), dir.path().join(&path));
        } else if !dir.path().join(&path).is_symlink() {
            dir.write(&path, vec![b'x'; usize::from(size)]);
            most += usize::from(size);
        }
    }
    let offset = u64::from(*offset);
    let start = if start % 2 == 0 { ReadOffset::FromStart(offset) } else { ReadOffset::FromEnd(offset) };
    let place = LogLocation { alloc_dir: dir.path().join("own"), task: "t".into(), stream: "stdout" };
    let mut reader = LogReader::open(place, start, false).expect("the directory is there");
    let mut read = 0;
    while let Some(piece) = reader.next().expect("it can be read") {
        if let StreamFrame::Data { bytes, .. } = piece {
            assert!(bytes.len() <= CHUNK_BYTES && bytes.iter().all(|b| *b == b'x'), "nothing leads out");
            read += bytes.len();
        }
        assert!(read <= most, "each byte is told once");
    }
}
