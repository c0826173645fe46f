//! A task's output as its keeper wrote it: rotated files read as one stream of bytes.
//!
//! Refuses to know: HTTP, and who may read. The directory belongs to the task, so nothing in it is trusted: no symbolic
//! link is followed and only regular files are read. A reader holds one open file and one buffer.

use super::stream::{CHUNK_BYTES, ChunkSource};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wire::client_rpc::{ReadOffset, StreamFrame};

/// Where a stream's files are: `<allocation directory>/alloc/logs/<task>.<stdout|stderr>.<index>`.
#[derive(Clone, Debug)]
pub struct LogLocation {
    pub alloc_dir: PathBuf,
    pub task: String,
    pub stream: &'static str,
}

#[derive(Debug)]
pub struct LogReader {
    place: LogLocation,
    /// Index of the file that is read; `None` before the first one is there.
    index: Option<u64>,
    position: u64,
    file: Option<File>,
    /// Files above this one are of no interest: what there was when a reader that does not follow began.
    last: Option<u64>,
}

impl LogReader {
    /// Offsets count over all files that are there; back from the end, 0 is the beginning of the newest file
    /// (client.md 25.3). `follow`: also what is written from now on. Fails when the directory is not there.
    pub fn open(place: LogLocation, start: ReadOffset, follow: bool) -> Result<LogReader, Errno> {
        let files = list(&place)?;
        let (index, position) = match begin(&files, start) {
            Some((index, position)) => (Some(index), position),
            None => (None, 0),
        };
        let last = if follow { None } else { Some(files.last().map_or(0, |f| f.0)) };
        Ok(LogReader { place, index, position, file: None, last })
    }

    /// The lowest index after the one that is read.
    fn following(&self) -> Result<Option<u64>, Errno> {
        let files = list(&self.place)?;
        let later = files.iter().map(|f| f.0).filter(|i| self.index.is_none_or(|at| *i > at));
        Ok(later.min().filter(|next| self.last.is_none_or(|last| *next <= last)))
    }

    /// `None` at the end of the file, or when it is gone.
    fn read(&mut self) -> Result<Option<StreamFrame>, Errno> {
        let Some(index) = self.index else { return Ok(None) };
        if self.file.is_none() {
            let logs = open_logs(&self.place.alloc_dir)?;
            self.file = match open_file(&logs, &self.place.name(index)) {
                Err(Errno::NOENT) => return Ok(None),
                file => Some(File::from(file?)),
            };
        }
        let Some(file) = &self.file else { return Ok(None) };
        let name = format!("alloc/logs/{}", self.place.name(index));
        if (fstat(file)?.st_size as u64) < self.position {
            self.position = 0;
            return Ok(Some(StreamFrame::Truncated { file: name }));
        }
        let mut bytes = vec![0; CHUNK_BYTES];
        let n = file
            .read_at(&mut bytes, self.position)
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        if n == 0 {
            return Ok(None);
        }
        bytes.truncate(n);
        self.position += n as u64;
        Ok(Some(StreamFrame::Data { bytes, file: name, offset: self.position }))
    }
}

impl ChunkSource for LogReader {
    fn next(&mut self) -> Result<Option<StreamFrame>, Errno> {
        // Each turn either answers or goes on to a later file, of which there are finitely many.
        loop {
            if let Some(piece) = self.read()? {
                return Ok(Some(piece));
            }
            let Some(next) = self.following()? else { return Ok(None) };
            // Bytes may have come between the read and the file that followed.
            if let Some(piece) = self.read()? {
                return Ok(Some(piece));
            }
            (self.index, self.position, self.file) = (Some(next), 0, None);
        }
    }
}

impl LogLocation {
    fn name(&self, index: u64) -> String {
        format!("{}.{}.{index}", self.task, self.stream)
    }

    /// The index in a file's name, if it is one of this stream.
    fn index_of(&self, name: &str) -> Option<u64> {
        let index =
            name.strip_prefix(&self.task)?.strip_prefix('.')?.strip_prefix(self.stream)?.strip_prefix('.')?;
        index.parse().ok().filter(|i: &u64| i.to_string() == index)
    }
}

/// Index and size of the stream's files, lowest index first.
fn list(place: &LogLocation) -> Result<Vec<(u64, u64)>, Errno> {
    let logs = open_logs(&place.alloc_dir)?;
    let mut files = Vec::new();
    for entry in Dir::read_from(&logs)? {
        let entry = entry?;
        let Some(index) = entry.file_name().to_str().ok().and_then(|name| place.index_of(name)) else {
            continue;
        };
        match open_file(&logs, &place.name(index)) {
            Ok(file) => files.push((index, fstat(&file)?.st_size as u64)),
            // Rotated away since, or not the keeper's.
            Err(Errno::NOENT | Errno::LOOP | Errno::INVAL) => {}
            Err(e) => return Err(e),
        }
    }
    files.sort();
    Ok(files)
}

fn open_logs(alloc_dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let own = openat(CWD, alloc_dir, flags, Mode::empty())?;
    let shared = openat(&own, "alloc", flags, Mode::empty())?;
    openat(&shared, "logs", flags, Mode::empty())
}

/// A regular file, or `INVAL`.
fn open_file(logs: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(logs, name, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

/// File and position to begin at; `None` when there is no file.
fn begin(files: &[(u64, u64)], start: ReadOffset) -> Option<(u64, u64)> {
    let (newest, size) = *files.last()?;
    match start {
        ReadOffset::FromStart(mut offset) => {
            for (index, size) in files {
                if offset < *size {
                    return Some((*index, offset));
                }
                offset -= size;
            }
            Some((newest, size))
        }
        ReadOffset::FromEnd(0) => Some((newest, 0)),
        ReadOffset::FromEnd(mut offset) => {
            for (index, size) in files.iter().rev() {
                if offset <= *size {
                    return Some((*index, size - offset));
                }
                offset -= size;
            }
            files.first().map(|(index, _)| (*index, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::{Scratch, rest};
    use super::*;
    use std::fs;

    struct Logs(Scratch);

    impl Logs {
        fn new(name: &str) -> Logs {
            Logs(Scratch::new(name, &["alloc/logs"]))
        }

        fn write(&self, index: u64, bytes: &[u8]) {
            self.0.write(&format!("alloc/logs/t.stdout.{index}"), bytes);
        }

        fn remove(&self, index: u64) {
            fs::remove_file(self.0.path().join(format!("alloc/logs/t.stdout.{index}"))).unwrap();
        }

        fn place(&self) -> LogLocation {
            LogLocation { alloc_dir: self.0.path().to_path_buf(), task: "t".into(), stream: "stdout" }
        }
    }

    #[test]
    fn offsets_count_over_all_files() {
        let files = [(0, 100), (1, 100), (2, 40)];
        for (start, place) in [
            (ReadOffset::FromEnd(150), (0, 90)),
            (ReadOffset::FromEnd(140), (1, 0)),
            (ReadOffset::FromEnd(40), (2, 0)),
            (ReadOffset::FromEnd(1), (2, 39)),
            (ReadOffset::FromEnd(0), (2, 0)),
            (ReadOffset::FromEnd(9999), (0, 0)),
            (ReadOffset::FromStart(0), (0, 0)),
            (ReadOffset::FromStart(100), (1, 0)),
            (ReadOffset::FromStart(239), (2, 39)),
            (ReadOffset::FromStart(240), (2, 40)),
            (ReadOffset::FromStart(u64::MAX), (2, 40)),
        ] {
            assert_eq!(begin(&files, start), Some(place), "{start:?}");
        }
        assert_eq!(begin(&[], ReadOffset::FromStart(3)), None);
        assert_eq!(begin(&[(3, 10), (4, 5)], ReadOffset::FromStart(12)), Some((4, 2)));
    }

    #[test]
    fn rotated_files_are_read_as_one_stream() {
        let dir = Logs::new("rotated");
        dir.write(1, b"one\n");
        dir.write(2, b"two\n");
        dir.write(10, b"ten\n");
        let mut reader = LogReader::open(dir.place(), ReadOffset::FromStart(2), false).unwrap();
        assert_eq!(rest(&mut reader), "e\ntwo\nten\n");
        dir.write(11, b"later\n");
        assert_eq!(rest(&mut reader), "", "a reader that does not follow ends with what there was");
    }

    #[test]
    fn a_follower_sees_what_comes_and_survives_rotation() {
        let dir = Logs::new("logs");
        let mut reader = LogReader::open(dir.place(), ReadOffset::FromEnd(0), true).unwrap();
        assert_eq!(reader.next(), Ok(None));
        dir.write(0, b"a");
        assert_eq!(
            reader.next(),
            Ok(Some(StreamFrame::Data {
                bytes: b"a".to_vec(),
                file: "alloc/logs/t.stdout.0".into(),
                offset: 1
            }))
        );
        dir.write(0, b"ab");
        dir.write(1, b"c");
        assert_eq!(rest(&mut reader), "bc");
        dir.write(2, b"d");
        dir.write(3, b"e");
        dir.remove(0);
        dir.remove(2);
        assert_eq!(rest(&mut reader), "e");
        dir.write(3, b"");
        assert_eq!(reader.next(), Ok(Some(StreamFrame::Truncated { file: "alloc/logs/t.stdout.3".into() })));
        dir.write(3, b"new");
        assert_eq!(rest(&mut reader), "new");
    }

    #[test]
    fn big_files_come_in_bounded_chunks() {
        let dir = Logs::new("big");
        dir.write(0, &vec![b'x'; 3 * CHUNK_BYTES + 1]);
        let mut reader = LogReader::open(dir.place(), ReadOffset::FromStart(0), false).unwrap();
        let mut sizes = Vec::new();
        while let Some(StreamFrame::Data { bytes, .. }) = reader.next().unwrap() {
            sizes.push(bytes.len());
        }
        assert_eq!(sizes, [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 1]);
    }

    #[test]
    fn files_planted_by_tasks_are_not_trusted() {
        let dir = Logs::new("foreign");
        let logs = dir.0.path().join("alloc/logs");
        std::os::unix::fs::symlink("/etc/passwd", logs.join("t.stdout.0")).unwrap();
        fs::create_dir(logs.join("t.stdout.1")).unwrap();
        for name in [
            "t.stdout.x",
            "t.stdout.-1",
            "t.stdout.01",
            "t.stdout.+2",
            "tt.stdout.2",
            "t.stderr.2",
            "t.stdout",
        ] {
            fs::write(logs.join(name), b"no").unwrap();
        }
        let mut reader = LogReader::open(dir.place(), ReadOffset::FromStart(0), false).unwrap();
        assert_eq!(reader.next(), Ok(None));
        fs::remove_dir_all(&logs).unwrap();
        std::os::unix::fs::symlink("/etc", &logs).unwrap();
        assert!(LogReader::open(dir.place(), ReadOffset::FromStart(0), false).is_err());
    }
}
