//! Files of an allocation, by paths that callers name. Tasks write what they like below the same directory, so nothing
//! there is trusted: no path, link or race leads out of it, only regular files are read, and secrets are not.
//!
//! Refuses to know: HTTP. The kernel resolves each path in one step (openat2, Linux 5.6); without that call, links are not
//! followed at all.

use super::stream::{CHUNK_BYTES, ChunkSource};
use model::time::Wall;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wire::client_rpc::{FileInfo, ReadOffset, StreamFrame};
use wire::request::{Refusal, RefusalKind};

/// The most that one listing holds.
const MAX_ENTRIES: usize = 10_000;
const MAX_PATH_BYTES: usize = 4095;
/// How many bytes the content type is detected from.
const SNIFFED_BYTES: usize = 512;
/// A path that is moved while it is resolved is resolved again.
const MAX_ATTEMPTS: usize = 8;

/// An allocation's directory.
pub struct AllocFiles {
    root: OwnedFd,
    real: PathBuf,
}

/// Something found by its path, not yet opened for reading.
struct ResolvedFile {
    handle: OwnedFd,
    stat: Stat,
    /// Below the allocation's directory, as it really is.
    real: PathBuf,
    /// The path as the caller wrote it, without slashes at its ends.
    asked: String,
}

impl AllocFiles {
    /// `NOENT`: there is no such directory.
    pub fn open(alloc_dir: &Path) -> Result<AllocFiles, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = openat(CWD, alloc_dir, flags, Mode::empty())?;
        let real = real_path(&root)?;
        Ok(AllocFiles { root, real })
    }

    /// Sorted by name.
    pub fn list(&self, path: &str) -> Result<Vec<FileInfo>, Refusal> {
        let found = self.find(path)?;
        if !found.is_dir() {
            return Err(invalid(format!("{path:?} is not a directory: ask for it by stat or cat")));
        }
        let dir = found.reopen(OFlags::DIRECTORY).map_err(|e| unreadable(path, e))?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&dir).map_err(|e| unreadable(path, e))? {
            let entry = entry.map_err(|e| unreadable(path, e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                let most = "entries, the most that is listed: name a directory below it";
                return Err(invalid(format!("{path:?} holds more than {MAX_ENTRIES} {most}")));
            }
            // deleted since
            let Ok(stat) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            entries.push(info(&name.to_string_lossy(), &stat));
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub fn stat(&self, path: &str) -> Result<FileInfo, Refusal> {
        let found = self.find(path)?;
        let name = Path::new(&found.asked).file_name().map(|n| n.to_string_lossy().into_owned());
        let mut info = info(name.as_deref().unwrap_or("/"), &found.stat);
        if found.is_regular() && !found.is_secret() {
            let mut beginning = vec![0; SNIFFED_BYTES];
            let read = found.reopen(OFlags::empty()).map(File::from).map(|f| f.read_at(&mut beginning, 0));
            if let Ok(Ok(n)) = read {
                info.content_type = content_type(&beginning[..n]).to_string();
            }
        }
        Ok(info)
    }

    /// `limit`: at most so many bytes. `follow`: also what is written from now on.
    pub fn read(
        &self,
        path: &str,
        from: ReadOffset,
        limit: Option<u64>,
        follow: bool,
    ) -> Result<FileReader, Refusal> {
        let found = self.find(path)?;
        if found.is_dir() {
            return Err(invalid(format!("file {path:?} is a directory")));
        }
        if !found.is_regular() {
            return Err(invalid(format!("{path:?} is no regular file: nothing else is read")));
        }
        if found.is_secret() {
            let message = format!("Reading secret file prohibited: {path}");
            return Err(Refusal::new(RefusalKind::Forbidden, message));
        }
        let file = File::from(found.reopen(OFlags::empty()).map_err(|e| unreadable(path, e))?);
        let position = match from {
            ReadOffset::FromStart(offset) => offset,
            ReadOffset::FromEnd(offset) => size(&found.stat).saturating_sub(offset),
        };
        Ok(FileReader { file, name: found.asked, position, left: limit, follow, gone: false })
    }

    fn find(&self, path: &str) -> Result<ResolvedFile, Refusal> {
        if path.len() > MAX_PATH_BYTES {
            return Err(invalid(format!("the path is longer than {MAX_PATH_BYTES} bytes")));
        }
        let asked = path.trim_matches('/').to_string();
        let below = if asked.is_empty() { "." } else { &asked };
        let handle = match open_beneath(&self.root, below) {
            Err(Errno::NOSYS) => open_step_by_step(&self.root, below),
            resolved => resolved,
        };
        let handle = handle.map_err(|e| unreadable(path, e))?;
        let stat = fstat(&handle).map_err(|e| unreadable(path, e))?;
        let real = real_path(&handle).map_err(|e| unreadable(path, e))?;
        let real = real.strip_prefix(&self.real).map(Path::to_path_buf).map_err(|_| escapes())?;
        Ok(ResolvedFile { handle, stat, real, asked })
    }
}

impl ResolvedFile {
    fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// `secrets` and `private` in a task's directory are not served.
    fn is_secret(&self) -> bool {
        let mut parts = self.real.iter();
        parts.next().is_some_and(|first| first != "alloc")
            && parts.next().is_some_and(|second| second == "secrets" || second == "private")
    }

    /// The same file, to be read.
    fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        openat(CWD, own_link(&self.handle), flags, Mode::empty())
    }
}

/// `OFlags::PATH`: what is found there is not opened yet, which for a device or a pipe would mean something.
fn open_beneath(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut last = Errno::AGAIN;
    for _ in 0..MAX_ATTEMPTS {
        match openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => last = Errno::AGAIN,
            other => return other,
        }
    }
    Err(last)
}

/// Opens a path step by step, for kernels without openat2.
fn open_step_by_step(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", flags, Mode::empty())?;
    for part in path.split('/').filter(|p| !matches!(*p, "" | ".")) {
        if part == ".." {
            return Err(Errno::XDEV);
        }
        at = openat(&at, part, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
            return Err(Errno::XDEV);
        }
    }
    Ok(at)
}

fn own_link(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn real_path(fd: &OwnedFd) -> Result<PathBuf, Errno> {
    fs::read_link(own_link(fd)).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

fn escapes() -> Refusal {
    Refusal::new(RefusalKind::Conflict, "Path escapes the alloc directory")
}

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalKind::Invalid, message)
}

fn unreadable(path: &str, error: Errno) -> Refusal {
    match error {
        Errno::NOENT | Errno::NOTDIR => {
            Refusal::new(RefusalKind::NotFound, format!("{path}: no such file or directory"))
        }
        Errno::XDEV | Errno::LOOP => escapes(),
        Errno::ACCESS | Errno::PERM => {
            Refusal::new(RefusalKind::Forbidden, format!("{path}: the agent may not read it: {error}"))
        }
        error => Refusal::new(RefusalKind::Conflict, format!("{path} cannot be read: {error}")),
    }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn info(name: &str, stat: &Stat) -> FileInfo {
    let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    FileInfo {
        name: name.to_string(),
        size: size(stat),
        mode: stat.st_mode,
        modified: Wall(i64::try_from(nanos).unwrap_or(i64::MAX)),
        content_type: String::new(),
    }
}

fn content_type(beginning: &[u8]) -> &'static str {
    let whole = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        // cut within a character
        Err(e) => e.error_len().is_none(),
    };
    let control = |b: &u8| b.is_ascii_control() && !matches!(b, b'\t' | b'\n' | 12 | b'\r' | 27);
    if whole && !beginning.iter().any(control) {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[derive(Debug)]
pub struct FileReader {
    file: File,
    name: String,
    position: u64,
    left: Option<u64>,
    follow: bool,
    /// The reader was told that the file is deleted.
    gone: bool,
}

impl ChunkSource for FileReader {
    fn next(&mut self) -> Result<Option<StreamFrame>, Errno> {
        let stat = fstat(&self.file)?;
        if self.follow && size(&stat) < self.position {
            self.position = 0;
            return Ok(Some(StreamFrame::Truncated { file: self.name.clone() }));
        }
        let most =
            self.left.map_or(CHUNK_BYTES, |l| usize::try_from(l).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES));
        let mut bytes = vec![0; most];
        let read = self.file.read_at(&mut bytes, self.position);
        let n = read.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        if n > 0 {
            bytes.truncate(n);
            self.position += n as u64;
            self.left = self.left.map(|l| l.saturating_sub(n as u64));
            return Ok(Some(StreamFrame::Data { bytes, file: self.name.clone(), offset: self.position }));
        }
        if self.follow && stat.st_nlink == 0 && !std::mem::replace(&mut self.gone, true) {
            return Ok(Some(StreamFrame::Deleted { file: self.name.clone() }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::{Scratch, rest};
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// An allocation's directory, and what lies beside it.
    struct TestDir(Scratch);

    impl TestDir {
        fn new(name: &str) -> TestDir {
            let dirs = ["a/alloc/logs", "a/t/local", "a/t/secrets", "a/t/private", "beside"];
            let dir = Scratch::new(name, &dirs);
            for (file, text) in [
                ("a/alloc/f", "hello\n"),
                ("a/t/secrets/token", "secret"),
                ("a/t/private/key", "secret"),
                ("beside/other", "not yours"),
            ] {
                dir.write(file, text);
            }
            TestDir(dir)
        }

        fn files(&self) -> AllocFiles {
            AllocFiles::open(&self.at("")).unwrap()
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join("a").join(path)
        }
    }

    fn text(files: &AllocFiles, path: &str, from: ReadOffset, limit: Option<u64>) -> Result<String, Refusal> {
        files.read(path, from, limit, false).map(|mut reader| rest(&mut reader))
    }

    #[test]
    fn files_are_listed_described_and_read() {
        let dir = TestDir::new("plain");
        fs::set_permissions(dir.at("alloc/f"), fs::Permissions::from_mode(0o640)).unwrap();
        let files = dir.files();
        for path in ["", "/", ".", "t/../"] {
            let names: Vec<String> = files.list(path).unwrap().into_iter().map(|f| f.name).collect();
            assert_eq!(names, ["alloc", "t"], "{path:?}");
        }
        let stat = files.stat("/alloc/f").unwrap();
        assert_eq!((stat.name.as_str(), stat.size, stat.mode & 0o7777), ("f", 6, 0o640));
        assert_eq!(stat.content_type, "text/plain; charset=utf-8");
        assert!(stat.modified > Wall::NEVER);
        for (from, limit, expected) in [
            (ReadOffset::FromStart(0), None, "hello\n"),
            (ReadOffset::FromStart(1), Some(3), "ell"),
            (ReadOffset::FromStart(9), None, ""),
            (ReadOffset::FromEnd(2), None, "o\n"),
            (ReadOffset::FromEnd(99), Some(1), "h"),
        ] {
            assert_eq!(text(&files, "alloc/f", from, limit), Ok(expected.to_string()), "{from:?} {limit:?}");
        }
    }

    /// What a task may put below its directory, and what callers may write, to get at something else.
    #[test]
    fn paths_cannot_escape_and_secrets_are_not_read() {
        let dir = TestDir::new("hostile");
        for (link, target) in [
            ("alloc/absolute", "/etc/passwd"),
            ("alloc/relative", "../../beside/other"),
            ("alloc/dir", "../../beside"),
            ("alloc/magic", "/proc/self/root/etc/passwd"),
            ("alloc/loop", "loop"),
            ("alloc/inside", "f"),
            ("alloc/token", "../t/secrets/token"),
            ("t/local/hidden", "../secrets"),
        ] {
            symlink(target, dir.at(link)).unwrap();
        }
        rustix::fs::mknodat(CWD, dir.at("alloc/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let files = dir.files();
        let read = |path: &str| text(&files, path, ReadOffset::FromStart(0), None).map_err(|r| r.kind);
        assert_eq!(read("alloc/inside"), Ok("hello\n".into()));
        for path in [
            "../beside/other",
            "alloc/../../beside/other",
            "/../../../../etc/passwd",
            "alloc/absolute",
            "alloc/relative",
            "alloc/dir/other",
            "alloc/magic",
            "alloc/loop",
        ] {
            assert_eq!(read(path), Err(RefusalKind::Conflict), "{path}");
            assert_eq!(files.stat(path).map_err(|r| r.kind), Err(RefusalKind::Conflict), "{path}");
        }
        assert_eq!(files.list("alloc/dir").map_err(|r| r.kind), Err(RefusalKind::Conflict));
        for path in [
            "t/secrets/token",
            "t/private/key",
            "alloc/token",
            "t/local/hidden/token",
            "//t//secrets/../secrets/token",
        ] {
            assert_eq!(read(path), Err(RefusalKind::Forbidden), "{path}");
            assert_eq!(files.stat(path).map(|f| (f.size, f.content_type)), Ok((6, String::new())), "{path}");
        }
        assert_eq!(files.list("t/secrets").map(|l| l.len()), Ok(1), "that they are there is no secret");
        for (path, kind) in [
            ("alloc/nope", RefusalKind::NotFound),
            ("alloc/f/nope", RefusalKind::NotFound),
            ("alloc/pipe", RefusalKind::Invalid),
            ("alloc", RefusalKind::Invalid),
            (&"x/".repeat(3000), RefusalKind::Invalid),
        ] {
            assert_eq!(read(path), Err(kind), "{path}");
        }
        for (path, found) in
            [("alloc/f", Ok(())), ("alloc/inside", Err(Errno::XDEV)), ("../a", Err(Errno::XDEV))]
        {
            assert_eq!(open_step_by_step(&files.root, path).map(drop), found, "without openat2: {path}");
        }
    }

    #[test]
    fn a_follower_gets_growth_truncation_and_deletion() {
        let dir = TestDir::new("follow");
        let file = "alloc/f".to_string();
        let mut reader = dir.files().read("/alloc/f", ReadOffset::FromEnd(0), None, true).unwrap();
        let data = |bytes: &[u8], offset| {
            Ok(Some(StreamFrame::Data { bytes: bytes.to_vec(), file: "alloc/f".into(), offset }))
        };
        assert_eq!(reader.next(), Ok(None));
        fs::write(dir.at("alloc/f"), "hello\nyou").unwrap();
        assert_eq!(reader.next(), data(b"you", 9));
        fs::write(dir.at("alloc/f"), "new").unwrap();
        assert_eq!(reader.next(), Ok(Some(StreamFrame::Truncated { file: file.clone() })));
        assert_eq!(reader.next(), data(b"new", 3));
        fs::remove_file(dir.at("alloc/f")).unwrap();
        assert_eq!(reader.next(), Ok(Some(StreamFrame::Deleted { file })));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn contents_are_text_or_not() {
        for (bytes, text) in [
            (&b""[..], true),
            (b"a\tb\r\n", true),
            ("hä".as_bytes(), true),
            (b"h\xc3", true),
            (b"\x00", false),
            (b"\xff\xd8\xff", false),
        ] {
            assert_eq!(content_type(bytes).starts_with("text/plain"), text, "{bytes:?}");
        }
    }
}
