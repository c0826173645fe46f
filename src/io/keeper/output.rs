//! A run's output: two FIFOs that tasks write to, and numbered files that the keeper fills from them.
//!
//! Refuses to know: when files rotate (`keeper::logs` says). Both ends of a FIFO are opened for reading and writing: no
//! task ever gets SIGPIPE, and what a pipe holds outlives the keeper as long as the task does. Bytes are looked at in a
//! copy (tee) and then moved from pipe to file by the kernel (splice): a keeper killed in between has lost none.
//! Directories may belong to a task, so nothing here follows a symbolic link.

use keeper::logs::{LogFileStep, Rotation};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice, tee};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::keeper::RunLogs;

/// Bytes that a pipe holds unless someone made it larger (pipe(7)).
const BUFFER_BYTES: usize = 64 << 10;
/// Reads per stream and turn: one loud task does not starve the others.
const READS_PER_TURN: usize = 4;
/// A pipe holds at most 1 MiB unless root made it larger (pipe(7)); a last drain takes twice that and no more.
const READS_TO_DRAIN: usize = 32;
/// The most directory entries that are read to find old files.
const MAX_DIR_ENTRIES: usize = 100_000;

pub struct Output {
    dir: OwnedFd,
    pub stdout: OutputStream,
    pub stderr: OutputStream,
}

pub struct OutputStream {
    fifo: File,
    fifo_name: String,
    /// `<name>.stdout` or `<name>.stderr`.
    prefix: String,
    rotation: Rotation,
    file: Option<(u64, File)>,
    /// Bytes that could not be written since the last that could.
    lost_bytes: u64,
}

/// The task's descriptors 1 and 2.
pub struct TaskOutputFds {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

impl Output {
    /// Makes new FIFOs that belong to `owner` (uid, gid), so that the task can also open /dev/stdout.
    pub fn create(logs: &RunLogs, owner: Option<(u32, u32)>) -> io::Result<(Output, TaskOutputFds)> {
        let dir = open_dir(logs)?;
        for kind in ["stdout", "stderr"] {
            let name = fifo_name(logs, kind);
            match rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
            rustix::fs::mknodat(&dir, &name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        let output = Output::open(dir, logs)?;
        let ends = TaskOutputFds {
            stdout: open_task_output(&output.dir, &output.stdout, owner)?,
            stderr: open_task_output(&output.dir, &output.stderr, owner)?,
        };
        Ok((output, ends))
    }

    /// Opens the FIFOs of a run that another keeper started.
    pub fn reopen(logs: &RunLogs) -> io::Result<Output> {
        Output::open(open_dir(logs)?, logs)
    }

    fn open(dir: OwnedFd, logs: &RunLogs) -> io::Result<Output> {
        let stdout = OutputStream::open(&dir, logs, "stdout")?;
        let stderr = OutputStream::open(&dir, logs, "stderr")?;
        Ok(Output { dir, stdout, stderr })
    }

    /// Moves as much from the pipe to the log files as one turn may.
    pub fn pump_stdout(&mut self, view: &mut PipeView) {
        self.stdout.pump(&self.dir, view, READS_PER_TURN);
    }

    pub fn pump_stderr(&mut self, view: &mut PipeView) {
        self.stderr.pump(&self.dir, view, READS_PER_TURN);
    }

    /// Takes in what is left and removes the FIFOs.
    pub fn close(mut self, view: &mut PipeView) {
        self.stdout.pump(&self.dir, view, READS_TO_DRAIN);
        self.stderr.pump(&self.dir, view, READS_TO_DRAIN);
        for stream in [&self.stdout, &self.stderr] {
            if stream.is_at(&self.dir, &stream.fifo_name) {
                // Gone already if the allocation's directory was removed.
                let _ = rustix::fs::unlinkat(&self.dir, &stream.fifo_name, AtFlags::empty());
            }
        }
    }

    /// Whether the process writes to this output.
    pub fn is_open_in(&self, pid: u32) -> bool {
        let open = |fd: u32| rustix::fs::stat(format!("/proc/{pid}/fd/{fd}")).ok();
        [1, 2]
            .into_iter()
            .filter_map(open)
            .any(|held| [&self.stdout, &self.stderr].into_iter().any(|stream| stream.is(&held)))
    }
}

/// Reads what a pipe holds without consuming it (tee(2)).
pub struct PipeView {
    read: File,
    write: OwnedFd,
    buffer: Vec<u8>,
}

impl PipeView {
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(PipeView { read: read.into(), write, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Nothing: the pipe is empty.
    fn peek(&mut self, pipe: &File) -> &[u8] {
        let copied = tee(pipe, &self.write, self.buffer.len(), SpliceFlags::NONBLOCK).unwrap_or(0);
        // No other process has this pipe: all that was copied can be read.
        let read = self.read.read_exact(&mut self.buffer[..copied]);
        if read.is_ok() { &self.buffer[..copied] } else { &[] }
    }
}

impl AsFd for OutputStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

impl OutputStream {
    fn open(dir: &OwnedFd, logs: &RunLogs, kind: &str) -> io::Result<OutputStream> {
        let fifo_name = fifo_name(logs, kind);
        let prefix = format!("{}.{kind}", logs.name);
        let fifo = open_fifo(dir, &fifo_name, OFlags::NONBLOCK)?;
        let rotation = Rotation::new(&files(dir, &prefix)?, logs.max_files, logs.max_file_bytes);
        Ok(OutputStream { fifo: fifo.into(), fifo_name, prefix, rotation, file: None, lost_bytes: 0 })
    }

    /// A later run of the same task may have put its own FIFO there.
    fn is_at(&self, dir: &OwnedFd, name: &str) -> bool {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| self.is(&there))
    }

    fn is(&self, other: &rustix::fs::Stat) -> bool {
        rustix::fs::fstat(&self.fifo)
            .is_ok_and(|own| (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
    }

    fn pump(&mut self, dir: &OwnedFd, view: &mut PipeView, times: usize) {
        for _ in 0..times {
            let chunk = view.peek(&self.fifo);
            if chunk.is_empty() {
                return;
            }
            for step in self.rotation.take(chunk) {
                match step {
                    LogFileStep::Write { index, from, to } => self.write_log(dir, index, to - from),
                    LogFileStep::Delete { index } => {
                        let name = format!("{}.{index}", self.prefix);
                        // mostly removed by hand already; else a file stays that is removed with its allocation
                        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
                    }
                }
            }
        }
    }

    /// Moves `bytes` from the pipe to file `index`. What cannot be written is dropped and counted: a full disk costs output,
    /// and never makes a task wait.
    fn write_log(&mut self, dir: &OwnedFd, index: u64, bytes: usize) {
        let mut left = bytes;
        if self.transfer(dir, index, &mut left).is_err() {
            self.file = None;
            self.lost_bytes += left as u64;
            let mut pipe = (&self.fifo).take(left as u64);
            // As much as there is: a task that reads its own output leaves less.
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
    }

    fn transfer(&mut self, dir: &OwnedFd, index: u64, left: &mut usize) -> io::Result<()> {
        let file = match &mut self.file {
            Some((open, file)) if *open == index => file,
            other => &mut other.insert((index, open_log(dir, &format!("{}.{index}", self.prefix))?)).1,
        };
        // Always at the current end: a log file that was truncated gets no hole.
        let mut end = file.seek(SeekFrom::End(0))?;
        if self.lost_bytes > 0 {
            let told = format!("\n[drover: {} bytes of output could not be written here]\n", self.lost_bytes);
            file.write_all(told.as_bytes())?;
            end += told.len() as u64;
            self.lost_bytes = 0;
        }
        while *left > 0 {
            match splice(&self.fifo, None, &*file, Some(&mut end), *left, SpliceFlags::NONBLOCK) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => *left -= n,
                Err(Errno::INTR) => {}
                // A file system that cannot: copied by hand, with the risk that splice avoids.
                Err(Errno::INVAL) => {
                    file.seek(SeekFrom::Start(end))?;
                    *left -= io::copy(&mut (&self.fifo).take(*left as u64), file)? as usize;
                    return Ok(());
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

fn open_dir(logs: &RunLogs) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    Ok(rustix::fs::open(&logs.dir, flags, Mode::empty())?)
}

fn fifo_name(logs: &RunLogs, kind: &str) -> String {
    format!(".{}.{kind}.fifo", logs.name)
}

fn open_fifo(dir: &OwnedFd, name: &str, extra: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let fifo = rustix::fs::openat(dir, name, flags, Mode::empty())
        .map_err(|e| io::Error::other(format!("{name}: {e}")))?;
    if FileType::from_raw_mode(rustix::fs::fstat(&fifo)?.st_mode) != FileType::Fifo {
        return Err(io::Error::other(format!("{name} is not the FIFO that was made for the task")));
    }
    Ok(fifo)
}

fn open_task_output(dir: &OwnedFd, stream: &OutputStream, owner: Option<(u32, u32)>) -> io::Result<OwnedFd> {
    // NONBLOCK for the opening only: whoever swapped the FIFO for a device does not make the keeper wait.
    let end = open_fifo(dir, &stream.fifo_name, OFlags::NONBLOCK)?;
    rustix::fs::fcntl_setfl(&end, OFlags::RDWR)?;
    if let Some((uid, gid)) = owner
        && rustix::process::geteuid().is_root()
    {
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::fchown(&end, Some(uid), Some(gid))?;
    }
    Ok(end)
}

fn open_log(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o644))?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other(format!("{name} is not a file")));
    }
    // where the kernel lets everybody link to any file, it may be any file
    if stat.st_nlink > 1 {
        return Err(io::Error::other(format!("{name} has another name elsewhere")));
    }
    Ok(file.into())
}

/// Index and size in bytes of each file of a stream.
fn files(dir: &OwnedFd, prefix: &str) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)?.take(MAX_DIR_ENTRIES) {
        let entry = entry?;
        let name = entry.file_name();
        let index = name.to_str().ok().and_then(|n| index(n, prefix));
        if let Some(index) = index
            && let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            found.push((index, u64::try_from(stat.st_size).unwrap_or(0)));
        }
    }
    Ok(found)
}

/// Only what this module would have written: no sign, no leading zeros, and room to count on.
fn index(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_prefix('.')?;
    let index = digits.parse::<u32>().ok()?;
    (index.to_string() == digits && index < u32::MAX).then_some(u64::from(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a task may have put where its output goes.
    #[test]
    fn only_own_files_are_written() {
        let dir = std::env::temp_dir().join(format!("drover-output-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("dir")).expect("directories");
        std::fs::write(dir.join("other"), "kept").expect("a file");
        std::os::unix::fs::symlink("other", dir.join("link")).expect("a link");
        std::fs::hard_link(dir.join("other"), dir.join("second")).expect("a link");
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("pipe"), FileType::Fifo, Mode::RWXU, 0)
            .expect("a pipe");
        let open = rustix::fs::open(&dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened");
        for (name, opens) in [
            ("new", true),
            ("new", true),
            ("link", false),
            ("second", false),
            ("pipe", false),
            ("dir", false),
        ] {
            assert_eq!(open_log(&open, name).is_ok(), opens, "{name}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn only_own_files_are_counted() {
        for (name, want) in [
            ("t.stdout.0", Some(0)),
            ("t.stdout.12", Some(12)),
            ("t.stdout.012", None),
            ("t.stdout.+1", None),
            ("t.stdout.", None),
            ("t.stdout.99999999999999999999", None),
            ("t.stdout.4294967295", None),
            ("t.stderr.0", None),
            (".t.stdout.fifo", None),
            ("xt.stdout.0", None),
        ] {
            assert_eq!(index(name, "t.stdout"), want, "{name}");
        }
    }
}
