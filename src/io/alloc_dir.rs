//! Allocation directories: built, named and removed without ever leaving their root.
//!
//! Refuses to know: what tasks put there. They own what is inside, so no step follows a symbolic link: everything goes
//! through descriptors of directories that were opened without following. Layout and modes are those of client.md 13:
//! `secrets` and `private` belong to the task's user alone, because others on the machine have no business there.

use model::dispatch::payload_path;
use model::id::AllocId;
use model::validate::names::MAX_TASK_NAME_BYTES as MAX_NAME_BYTES;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory that holds all allocations.
#[derive(Debug)]
pub struct AllocDirs {
    root: PathBuf,
    fd: OwnedFd,
}

/// Absolute paths, as tasks see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPaths {
    /// `NOMAD_ALLOC_DIR`.
    pub alloc: PathBuf,
    pub logs: PathBuf,
    /// The working directory.
    pub task: PathBuf,
    /// `NOMAD_TASK_DIR`.
    pub local: PathBuf,
    /// `NOMAD_SECRETS_DIR`.
    pub secrets: PathBuf,
}

const SHARED: &str = "alloc";
const OPEN: u32 = 0o777;
const STICKY: u32 = 0o1777;
const OWN: u32 = 0o700;
const READABLE: u32 = 0o755;
/// The mode of the root: others may pass to what they know, and list nothing.
const ROOT: u32 = 0o711;
/// How deep directories are entered before what is deeper is moved up first.
const MAX_DEPTH: usize = 64;
/// Names taken from a directory at a time.
const BATCH: usize = 512;

impl AllocDirs {
    /// Opens the directory, and makes it if it does not exist.
    pub fn open(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        fs::DirBuilder::new().recursive(true).mode(ROOT).create(&root)?;
        let fd = rustix::fs::open(&root, dir_flags() - OFlags::NOFOLLOW, Mode::empty())?;
        Ok(AllocDirs { root, fd })
    }

    /// Where the task's directories are or will be. The error is a sentence about the task's name.
    pub fn paths(&self, alloc: AllocId, task: &str) -> Result<TaskPaths, String> {
        check_name(task)?;
        let dir = self.root.join(alloc.to_string());
        let (shared, task) = (dir.join(SHARED), dir.join(task));
        Ok(TaskPaths {
            logs: shared.join("logs"),
            alloc: shared,
            local: task.join("local"),
            secrets: task.join("secrets"),
            task,
        })
    }

    /// Makes what is missing and sets modes and owners; what is there already stays. `user`: uid and gid of the task.
    pub fn build(&self, alloc: AllocId, task: &str, user: Option<(u32, u32)>) -> Result<TaskPaths, String> {
        let paths = self.paths(alloc, task)?;
        self.try_build(alloc, task, user)
            .map_err(|e| format!("the directories of task {task} of allocation {}: {e}", alloc.0.short()))?;
        Ok(paths)
    }

    fn try_build(&self, alloc: AllocId, task: &str, user: Option<(u32, u32)>) -> io::Result<()> {
        let dir = make(&self.fd, &alloc.to_string(), READABLE, None)?;
        let shared = make(&dir, SHARED, OPEN, None)?;
        for name in ["logs", "tmp", "data"] {
            make(&shared, name, OPEN, None)?;
        }
        let task = make(&dir, task, OPEN, user)?;
        for (name, mode) in [("local", OPEN), ("secrets", OWN), ("private", OWN), ("tmp", STICKY)] {
            make(&task, name, mode, user)?;
        }
        Ok(())
    }

    /// Puts a file below the task's `local/`, whole or not at all. One that is there, or whatever the task has put in its place, stays.
    pub fn put_file(
        &self,
        alloc: AllocId,
        task: &str,
        user: Option<(u32, u32)>,
        path: &str,
        bytes: &[u8],
    ) -> Result<(), String> {
        check_name(task)?;
        let names = payload_path(path)?;
        let (name, dirs) = names.split_last().ok_or("the payload's file has no name")?;
        let put = || {
            let task = enter(&enter(&self.fd, alloc.to_string())?, task)?;
            let mut dir = make(&task, "local", OPEN, user)?;
            for name in dirs {
                dir = make(&dir, name, OPEN, user)?;
            }
            write_once(&make(&task, "private", OWN, user)?, &dir, name, user, bytes)
        };
        put().map_err(|e: io::Error| format!("the payload's file {path:?} of task {task:?}: {e}"))
    }

    /// The allocations that have a directory.
    #[cfg(any(test, feature = "testing"))]
    pub fn list(&self) -> io::Result<Vec<AllocId>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            found.extend(entry.file_name().to_str().ok().and_then(|n| n.parse::<AllocId>().ok()));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes an allocation's directory, as far as `budget` entries go. `Ok(true)`: nothing is left of it.
    pub fn remove(&self, alloc: AllocId, budget: usize) -> io::Result<bool> {
        let name = alloc.to_string();
        let dir = match enter(&self.fd, &name) {
            Ok(dir) => dir,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(e),
        };
        let device = rustix::fs::fstat(&dir)?.st_dev;
        let mut removal = Removal { top: enter(&self.fd, &name)?, device, budget, moved: 0 };
        // What was moved up during one pass is found by the next.
        while removal.budget > 0 {
            if removal.empty(&dir, 0)? {
                rustix::fs::unlinkat(&self.fd, &name, AtFlags::REMOVEDIR)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a task of that name can have a directory. The error is a sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    let bad = |why: &str| Err(format!("the task name {name:?} cannot name a directory: {why}"));
    match name {
        "" => bad("it is empty"),
        "." | ".." => bad("it is a step in a path"),
        SHARED => bad("that directory is shared by all tasks; choose another name"),
        _ if name.len() > MAX_NAME_BYTES => bad(&format!("more than {MAX_NAME_BYTES} bytes")),
        _ if name.contains(['/', '\0']) => bad("it contains a slash or NUL"),
        _ => Ok(()),
    }
}

fn dir_flags() -> OFlags {
    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY
}

fn enter(parent: &OwnedFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(parent, name, dir_flags(), Mode::empty())?)
}

fn make(parent: &OwnedFd, name: &str, mode: u32, user: Option<(u32, u32)>) -> io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(OWN)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(e) => return Err(e.into()),
    };
    let dir =
        enter(parent, name).map_err(|e| io::Error::new(e.kind(), format!("{name} is no directory: {e}")))?;
    // A task may have changed what is its own; only what is new is set.
    if made {
        if let Some((uid, gid)) = user {
            rustix::fs::fchown(&dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode))?;
    }
    Ok(dir)
}

/// Writes the file beside, and durably, before it gets its name.
fn write_once(
    beside: &OwnedFd,
    dir: &OwnedFd,
    name: &str,
    user: Option<(u32, u32)>,
    bytes: &[u8],
) -> io::Result<()> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    const UNFINISHED: &str = ".payload";
    match rustix::fs::unlinkat(beside, UNFINISHED, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(beside, UNFINISHED, flags, Mode::from_raw_mode(OWN))?;
    if let Some((uid, gid)) = user {
        rustix::fs::fchown(&fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(OPEN))?;
    let mut file = fs::File::from(fd);
    file.write_all(bytes)?;
    file.sync_all()?;
    match rustix::fs::renameat_with(beside, UNFINISHED, dir, name, RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

struct Removal {
    top: OwnedFd,
    /// Nothing is removed from other file systems that someone mounted inside.
    device: u64,
    budget: usize,
    moved: u64,
}

impl Removal {
    /// `Ok(true)`: nothing is left in `dir`.
    fn empty(&mut self, dir: &OwnedFd, depth: usize) -> io::Result<bool> {
        loop {
            let batch = names(dir)?;
            if batch.is_empty() {
                return Ok(true);
            }
            for (name, is_dir) in batch {
                if self.budget == 0 {
                    return Ok(false);
                }
                self.budget -= 1;
                let gone = if is_dir { self.remove_dir(dir, &name, depth)? } else { unlink(dir, &name)? };
                if !gone {
                    return Ok(false);
                }
            }
        }
    }

    fn remove_dir(&mut self, parent: &OwnedFd, name: &CString, depth: usize) -> io::Result<bool> {
        if depth == MAX_DEPTH {
            return self.move_up(parent, name);
        }
        let dir = match enter(parent, name.as_c_str()) {
            // A task took the permission away from itself.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                rustix::fs::chmodat(parent, name.as_c_str(), Mode::from_raw_mode(OWN), AtFlags::empty())?;
                enter(parent, name.as_c_str())?
            }
            other => other?,
        };
        if rustix::fs::fstat(&dir)?.st_dev != self.device {
            return Err(io::Error::other(format!(
                "another file system is mounted at {}: unmount it first",
                name.to_string_lossy()
            )));
        }
        if !self.empty(&dir, depth + 1)? {
            return Ok(false);
        }
        rustix::fs::unlinkat(parent, name.as_c_str(), AtFlags::REMOVEDIR)?;
        Ok(true)
    }

    /// Moves a directory to the top, under a name that is not taken: an earlier call or a task may have left some.
    fn move_up(&mut self, parent: &OwnedFd, name: &CString) -> io::Result<bool> {
        while self.budget > 0 {
            self.moved += 1;
            let up = format!(".removed.{}", self.moved);
            match rustix::fs::renameat(parent, name.as_c_str(), &self.top, up) {
                Ok(()) => return Ok(true),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => self.budget -= 1,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(false)
    }
}

fn unlink(dir: &OwnedFd, name: &CString) -> io::Result<bool> {
    match rustix::fs::unlinkat(dir, name.as_c_str(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Some of a directory's names, and which are directories.
fn names(dir: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        found.push((name.to_owned(), kind == FileType::Directory));
        if found.len() == BATCH {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    const ALL: usize = 1_000_000;

    /// A root beside a file that nothing may touch.
    fn world(name: &str) -> (PathBuf, AllocDirs, AllocId) {
        let base = std::env::temp_dir().join(format!("drover-dirs-{name}-{}", std::process::id()));
        fs::create_dir_all(base.join("outside")).expect("directories");
        fs::write(base.join("outside/kept"), "kept").expect("a file");
        let dirs = AllocDirs::open(&base.join("allocs")).expect("a root");
        (base, dirs, AllocId::from_random(7))
    }

    fn done(base: &Path) {
        assert_eq!(fs::read_to_string(base.join("outside/kept")).expect("kept"), "kept");
        fs::remove_dir_all(base).expect("removed");
    }

    #[test]
    fn alloc_dirs_have_their_modes_and_build_twice() {
        let (base, dirs, alloc) = world("modes");
        let paths = dirs.build(alloc, "web", None).expect("built");
        let mode = |p: &Path| fs::metadata(p).expect("there").mode() & 0o7777;
        let parent = paths.alloc.parent().expect("a parent");
        for (path, want) in [
            (base.join("allocs").as_path(), 0o711),
            (parent, 0o755),
            (&paths.alloc, 0o777),
            (&paths.logs, 0o777),
            (&paths.alloc.join("data"), 0o777),
            (&paths.task, 0o777),
            (&paths.local, 0o777),
            (&paths.secrets, 0o700),
            (&paths.task.join("tmp"), 0o1777),
        ] {
            assert_eq!(mode(path), want, "{}", path.display());
        }
        fs::set_permissions(&paths.local, fs::Permissions::from_mode(0o750)).expect("changed");
        fs::write(paths.local.join("file"), "x").expect("a file");
        assert_eq!(dirs.build(alloc, "web", None).expect("again"), paths);
        assert_eq!(mode(&paths.local), 0o750);
        dirs.build(alloc, "other", None).expect("a second task");
        assert_eq!(dirs.list().expect("listed"), [alloc]);
        assert!(dirs.remove(alloc, ALL).expect("removed") && !parent.exists());
        assert!(dirs.remove(alloc, ALL).expect("removed twice"));
        done(&base);
    }

    #[test]
    fn no_name_escapes_its_directory() {
        let (base, dirs, alloc) = world("names");
        for bad in ["", ".", "..", "alloc", "../x", "a/b", "/etc", "a\0b", &"n".repeat(300), &"é".repeat(101)]
        {
            assert!(dirs.build(alloc, bad, None).is_err(), "{bad:?}");
        }
        assert!(dirs.list().expect("listed").is_empty());
        for good in ["a", "...", "-rf", "né ☃", "a\\b", "a\nb", &"n".repeat(200)] {
            assert!(dirs.build(alloc, good, None).expect(good).task.is_dir());
        }
        assert!(dirs.remove(alloc, ALL).expect("removed"));
        done(&base);
    }

    #[test]
    fn links_planted_by_tasks_are_not_followed() {
        let (base, dirs, alloc) = world("links");
        let paths = dirs.build(alloc, "web", None).expect("built");
        let outside = base.join("outside");
        symlink(&outside, paths.local.join("dir")).expect("a link");
        symlink(outside.join("kept"), paths.local.join("file")).expect("a link");
        fs::remove_dir(&paths.secrets).expect("removed");
        symlink(&outside, &paths.secrets).expect("a link");
        assert!(dirs.build(alloc, "web", None).expect_err("a link").contains("secrets is no directory"));
        assert!(dirs.remove(alloc, ALL).expect("removed"));
        // The allocation's directory itself, replaced.
        symlink(&outside, base.join("allocs").join(alloc.to_string())).expect("a link");
        assert!(dirs.build(alloc, "web", None).is_err() && dirs.remove(alloc, ALL).is_err());
        done(&base);
    }

    #[test]
    fn a_payload_is_written_once_and_only_below_local() {
        let (base, dirs, alloc) = world("payload");
        let paths = dirs.build(alloc, "web", None).expect("built");
        let put = |path: &str, bytes: &[u8]| dirs.put_file(alloc, "web", None, path, bytes);
        put("in/put.json", b"first").expect("put");
        let file = paths.local.join("in/put.json");
        assert_eq!(fs::read(&file).expect("there"), b"first");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o7777, 0o777);
        put("in/put.json", b"second").expect("is there");
        assert_eq!(fs::read(&file).expect("there"), b"first", "what is there stays");
        assert_eq!(
            fs::read_dir(paths.task.join("private")).expect("reads").count(),
            0,
            "nothing is left over"
        );
        // left by an agent that died while it wrote
        fs::write(paths.task.join("private/.payload"), "torn").expect("a file");
        put("other", b"whole").expect("put");
        assert_eq!(fs::read(paths.local.join("other")).expect("there"), b"whole");
        for bad in ["", "../x", "a/../../x", "dir/", "a\0b"] {
            assert!(put(bad, b"x").is_err(), "{bad:?}");
        }
        let outside = base.join("outside");
        symlink(&outside, paths.local.join("dir")).expect("a link");
        symlink(outside.join("new"), paths.local.join("file")).expect("a link");
        assert!(put("dir/kept", b"x").expect_err("a link").contains("dir is no directory"));
        put("file", b"x").expect("the task's own business");
        symlink(outside.join("kept"), paths.task.join("private/.payload")).expect("a link");
        put("beside", b"x").expect("put");
        assert!(!outside.join("new").exists() && paths.local.join("beside").exists());
        assert!(dirs.remove(alloc, ALL).expect("removed"));
        done(&base);
    }

    #[test]
    fn removal_is_bounded_and_depth_is_no_obstacle() {
        let (base, dirs, alloc) = world("deep");
        let paths = dirs.build(alloc, "web", None).expect("built");
        let mut dir = rustix::fs::open(&paths.local, dir_flags(), Mode::empty()).expect("open");
        for _ in 0..1000 {
            rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o700)).expect("made");
            dir = enter(&dir, "d").expect("entered");
        }
        for n in 0..2000 {
            fs::write(paths.task.join(format!("{n}")), "").expect("a file");
        }
        fs::set_permissions(&paths.secrets, fs::Permissions::from_mode(0o000)).expect("closed");
        let mut calls = 1;
        while !dirs.remove(alloc, 500).expect("removed in part") {
            calls += 1;
            assert!(calls < 100, "it never ends");
        }
        assert!(calls > 4 && dirs.list().expect("listed").is_empty());
        done(&base);
    }
}
