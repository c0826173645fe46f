//! Making a task's process: everything is prepared before the fork, and the child waits before it executes anything.
//!
//! Refuses to know: why a run starts. The child becomes the command only once it reads a byte from its release pipe; if the
//! keeper dies first, the pipe ends and so does the child. So no command ever runs that the journal does not know. For the
//! pipe to end nobody else may hold it open: a child that waits has nothing of the keeper's but its own ends of two pipes,
//! and so keeps neither the lock nor a connection from ending with the keeper either. (A signal at the parent's death would
//! have to be taken back before the command is executed, and so would leave a moment without either.)

use super::cgroup::{CgroupLimits, Group};
use super::output::TaskOutputFds;
use super::users::{self, User};
use super::{process, signals};
use keeper::mark;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wire::keeper::RunSpec;

/// Why a process could not be started, as a sentence, and whether a retry may help.
#[derive(Debug, PartialEq)]
pub struct SpawnError {
    pub message: String,
    pub retryable: bool,
}

/// All that a child needs, allocated before the fork.
pub struct PreparedProcess {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    pub user: Option<User>,
}

/// A child that waits for its release.
pub struct WaitingChild {
    pub pid: u32,
    release: File,
    released: bool,
    /// Readable once the child executed its command (end of file) or could not (a stage and an errno).
    pub exec: File,
}

/// Whether a released child has executed its command.
#[derive(Debug, PartialEq)]
pub enum ExecStatus {
    Yes,
    No(SpawnError),
    NotYet,
}

/// `mark`: what the run's processes are known by. It is put first in the environment, so that it is what everybody finds.
pub fn prepare(spec: &RunSpec, mark: &str) -> Result<PreparedProcess, SpawnError> {
    let user = match spec.user.as_str() {
        "" => None,
        name => Some(users::find(name).map_err(|message| SpawnError { message, retryable: false })?),
    };
    if !Path::new(&spec.cwd).is_dir() {
        let message = format!("the working directory {} does not exist", spec.cwd);
        return Err(SpawnError { message, retryable: false });
    }
    let program = find_program(spec)?;
    make_executable(spec, &program);
    let text = |s: &str| CString::new(s).map_err(|_| never("a text contains a NUL byte"));
    let args = std::iter::once(&spec.command).chain(&spec.args).map(|a| text(a)).collect::<Result<_, _>>()?;
    let given = spec.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).filter(|(k, _)| *k != mark::VARIABLE);
    let env = std::iter::once((mark::VARIABLE, mark)).chain(given);
    let env = env.map(|(k, v)| text(&format!("{k}={v}"))).collect::<Result<_, _>>()?;
    let program = text(&program.to_string_lossy())?;
    Ok(PreparedProcess { program, args, env, cwd: text(&spec.cwd)?, user })
}

fn never(message: &str) -> SpawnError {
    SpawnError { message: message.into(), retryable: false }
}

/// With a slash: as it is, from the working directory. Without: the first file in `search`, then in `PATH` of `env`.
fn find_program(spec: &RunSpec) -> Result<PathBuf, SpawnError> {
    if spec.command.contains('/') {
        let program = Path::new(&spec.cwd).join(&spec.command);
        return match fs::metadata(&program) {
            Ok(m) if m.is_file() => Ok(program),
            Ok(_) => Err(never(&format!("{} is no file", program.display()))),
            Err(e) => Err(never(&format!("{} cannot be executed: {e}", program.display()))),
        };
    }
    let path = spec.env.iter().rfind(|(k, _)| k == "PATH").map(|(_, v)| v.as_str()).unwrap_or_default();
    let dirs = spec.search.iter().map(String::as_str).chain(path.split(':').filter(|d| !d.is_empty()));
    dirs.map(|dir| Path::new(&spec.cwd).join(dir).join(&spec.command)).find(|p| p.is_file()).ok_or_else(
        || {
            never(&format!(
                "the command {:?} was not found in {} nor in PATH ({path})",
                spec.command,
                spec.search.join(", ")
            ))
        },
    )
}

/// What a task brought along (a download, a template) is made executable; what belongs to the system is left alone.
fn make_executable(spec: &RunSpec, program: &Path) {
    const EXECUTE: u32 = 0o111;
    let own = spec.search.iter().chain([&spec.cwd]).any(|dir| dir != "/" && program.starts_with(dir));
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(program);
    if let (true, Ok(file)) = (own, file)
        && let Ok(meta) = file.metadata()
        && meta.is_file()
        && meta.mode() & EXECUTE != EXECUTE
    {
        // If it cannot be changed, executing says so.
        let _ = file.set_permissions(fs::Permissions::from_mode(meta.mode() | EXECUTE));
    }
}

/// The cgroup's files to join by. Limits that this machine cannot enforce were told by its fingerprint.
pub fn join_files(group: &Group, spec: &RunSpec) -> Result<Vec<File>, SpawnError> {
    let RunSpec { cpu_mhz, memory_bytes, memory_low_bytes, .. } = *spec;
    let limits = CgroupLimits { cpu_mhz, memory_bytes, memory_low_bytes };
    group.create(limits).map_err(|e| SpawnError {
        message: format!("the task's cgroup cannot be made: {e}"),
        retryable: true,
    })
}

/// What a child gets as its descriptors 0, 1 and 2; `None` is /dev/null.
pub struct Stdio {
    fds: [Option<OwnedFd>; 3],
    /// The descriptors are a terminal, which becomes the child's own.
    terminal: bool,
    /// The child ends when the keeper dies.
    with_keeper: bool,
}

impl Stdio {
    pub fn output(ends: Option<TaskOutputFds>) -> Stdio {
        let (stdout, stderr) = ends.map_or((None, None), |e| (Some(e.stdout), Some(e.stderr)));
        Stdio { fds: [None, stdout, stderr], terminal: false, with_keeper: false }
    }

    pub fn pipes(fds: [OwnedFd; 3]) -> Stdio {
        Stdio { fds: fds.map(Some), terminal: false, with_keeper: true }
    }

    pub fn terminal(fd: OwnedFd) -> io::Result<Stdio> {
        let fds = [Some(fd.try_clone()?), Some(fd.try_clone()?), Some(fd)];
        Ok(Stdio { fds, terminal: true, with_keeper: true })
    }
}

/// Forks. `open_files`: the limit that tasks get.
pub fn fork(
    prepared: &PreparedProcess,
    stdio: Stdio,
    join: Vec<File>,
    open_files: &libc::rlimit,
) -> Result<WaitingChild, SpawnError> {
    let failed = |what: &str, e: io::Error| SpawnError { message: format!("{what}: {e}"), retryable: true };
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(|e| failed("/dev/null", e))?;
    let (release_read, release) = pipe().map_err(|e| failed("pipe", e))?;
    let (exec, exec_write) = pipe().map_err(|e| failed("pipe", e))?;
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&prepared.args), pointers(&prepared.env));
    let groups = prepared.user.as_ref().map(|u| u.groups.clone());
    let open = if has_close_range() { vec![] } else { process::open_descriptors() };
    let child = Child {
        release: release_read.as_raw_fd(),
        report: exec_write.as_raw_fd(),
        stdio: stdio.fds.each_ref().map(|fd| fd.as_ref().map_or(null.as_raw_fd(), AsRawFd::as_raw_fd)),
        terminal: stdio.terminal,
        with_keeper: stdio.with_keeper,
        join: &join.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>(),
        cwd: prepared.cwd.as_ptr(),
        ids: prepared.user.as_ref().map(|u| (u.uid, u.gid)),
        groups: groups.as_deref().unwrap_or_default(),
        open: &open,
        open_files,
        program: prepared.program.as_ptr(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
    };
    // SAFETY: this process has one thread, so the child's memory is whole; the child calls only async-signal-safe
    // functions on memory prepared above (`Child::run`) and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(failed("the process cannot be forked", io::Error::last_os_error())),
        // SAFETY: we are in the freshly forked child.
        0 => unsafe { child.run() },
        pid => {
            Ok(WaitingChild { pid: pid as u32, release: release.into(), released: false, exec: exec.into() })
        }
    }
}

impl WaitingChild {
    pub fn release(&mut self) {
        self.released = true;
        // Fails only if the child is dead, which its exit tells.
        let _ = self.release.write_all(b"!");
    }

    pub fn executed(&mut self) -> ExecStatus {
        let mut report = [0u8; 5];
        match self.exec.read(&mut report) {
            Ok(0) if self.released => ExecStatus::Yes,
            Ok(0) => {
                let message = "the process was ended while it waited to be started".into();
                ExecStatus::No(SpawnError { message, retryable: true })
            }
            Ok(5) => {
                let [stage, a, b, c, d] = report;
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]));
                let what = STAGES.get(usize::from(stage)).copied().unwrap_or("starting it");
                ExecStatus::No(SpawnError {
                    message: format!("{what}: {error}"),
                    retryable: is_transient(&error),
                })
            }
            Ok(_) => {
                ExecStatus::No(SpawnError { message: "the child's report is torn".into(), retryable: true })
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => ExecStatus::NotYet,
            Err(e) => {
                ExecStatus::No(SpawnError { message: format!("the child's report: {e}"), retryable: true })
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    let passing = [
        libc::EAGAIN,
        libc::ENOMEM,
        libc::EMFILE,
        libc::ENFILE,
        libc::ETXTBSY,
        libc::ENOSPC,
        libc::EIO,
        libc::EBUSY,
    ];
    error.raw_os_error().is_some_and(|e| passing.contains(&e))
}

/// close_range(2) came with Linux 5.9, and not to every emulator.
fn has_close_range() -> bool {
    // SAFETY: numbers only; the range holds one number that is never a descriptor.
    unsafe { libc::syscall(libc::SYS_close_range, libc::c_uint::MAX, libc::c_uint::MAX, 0) == 0 }
}

/// Close-on-exec; the read end does not block (the child polls).
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

const STAGES: [&str; 6] = [
    "a session of its own",
    "joining the task's cgroup",
    "attaching input and output",
    "entering the working directory",
    "becoming the task's user",
    "executing the command",
];

/// What the child works with: numbers and pointers into the parent's memory as it was at the fork.
struct Child<'a> {
    release: RawFd,
    report: RawFd,
    stdio: [RawFd; 3],
    terminal: bool,
    with_keeper: bool,
    join: &'a [RawFd],
    cwd: *const libc::c_char,
    ids: Option<(u32, u32)>,
    groups: &'a [u32],
    /// The descriptors that were open at the fork, where the kernel cannot close a range.
    open: &'a [RawFd],
    open_files: &'a libc::rlimit,
    program: *const libc::c_char,
    argv: *const *const libc::c_char,
    envp: *const *const libc::c_char,
}

impl Child<'_> {
    /// # Safety
    /// Only in a child right after fork. Allocates nothing, unwinds nowhere, returns never.
    unsafe fn run(&self) -> ! {
        // SAFETY: async-signal-safe functions only; every pointer is to memory that the fork copied and that nobody
        // changes; descriptors were open at the fork.
        unsafe {
            let stage = self.become_command();
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            let mut report = [stage, 0, 0, 0, 0];
            report[1..].copy_from_slice(&error.to_ne_bytes());
            libc::write(self.report, report.as_ptr().cast(), report.len());
            libc::_exit(127)
        }
    }

    /// Returns the stage that failed, with errno set.
    unsafe fn become_command(&self) -> u8 {
        // SAFETY: as in `run`.
        unsafe {
            if libc::setsid() == -1 {
                return 0;
            }
            for procs in self.join {
                if libc::write(*procs, c"0".as_ptr().cast(), 1) != 1 {
                    return 1;
                }
            }
            for (target, source) in self.stdio.iter().enumerate() {
                if libc::dup2(*source, target as RawFd) == -1 {
                    return 2;
                }
            }
            if self.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                return 2;
            }
            signals::reset_in_child();
            libc::umask(0o022);
            self.close_other_descriptors();
            self.await_release();
            libc::setrlimit(libc::RLIMIT_NOFILE, self.open_files);
            if libc::chdir(self.cwd) == -1 {
                return 3;
            }
            if !self.become_user() {
                return 4;
            }
            // after becoming another user, which clears it
            if self.with_keeper {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            libc::execve(self.program, self.argv, self.envp);
            5
        }
    }

    /// Closes whatever the keeper has open, but for the two ends that are this child's.
    unsafe fn close_other_descriptors(&self) {
        let (low, high) = (self.release.min(self.report), self.release.max(self.report));
        for (from, to) in [(3, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
            if from > to {
                continue;
            }
            // SAFETY: as in `run`; numbers only, and this process uses none of the descriptors meant.
            unsafe {
                // Linux 5.9; before that, one by one.
                if libc::syscall(libc::SYS_close_range, from, to, 0) != 0 {
                    for fd in self.open.iter().filter(|fd| (from..=to).contains(fd)) {
                        libc::close(*fd);
                    }
                }
            }
        }
    }

    unsafe fn await_release(&self) {
        let mut byte = 0u8;
        let mut ready = libc::pollfd { fd: self.release, events: libc::POLLIN, revents: 0 };
        // SAFETY: as in `run`; poll and read get pointers to live locals.
        unsafe {
            loop {
                libc::poll(&mut ready, 1, -1);
                match libc::read(self.release, (&raw mut byte).cast(), 1) {
                    1 => return,
                    // The keeper has died: the command is not executed.
                    0 => libc::_exit(126),
                    _ => {}
                }
            }
        }
    }

    unsafe fn become_user(&self) -> bool {
        let Some((uid, gid)) = self.ids else { return true };
        // SAFETY: as in `run`; `groups` is valid for its length.
        unsafe {
            // A keeper without privileges can be no one else, but may be asked to be who it is.
            if libc::geteuid() == uid && libc::getegid() == gid && uid != 0 {
                return true;
            }
            libc::setgroups(self.groups.len() as _, self.groups.as_ptr()) == 0
                && libc::setresgid(gid, gid, gid) == 0
                && libc::setresuid(uid, uid, uid) == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keeper::run::sample as spec;

    #[test]
    fn programs_are_looked_for_where_the_spec_says() {
        let dir = std::env::temp_dir().join(format!("drover-find-{}", std::process::id()));
        fs::create_dir_all(dir.join("local")).expect("directories");
        for file in ["local/tool", "other"] {
            fs::write(dir.join(file), "#!/bin/sh\n").expect("a file");
        }
        let at = |p: &str| dir.join(p).display().to_string();
        let mut wanted = spec();
        wanted.cwd = at("");
        wanted.search = vec![at("local"), at("")];
        wanted.env = vec![("PATH".into(), "/nowhere:/bin".into())];
        for (command, found) in [
            ("tool", Some(at("local/tool"))),
            ("other", Some(at("other"))),
            ("sh", Some("/bin/sh".into())),
            ("./other", Some(at("./other"))),
            ("/bin/sh", Some("/bin/sh".into())),
            ("no-such", None),
            ("./no-such", None),
            ("local", None),
            ("./local", None),
        ] {
            wanted.command = command.into();
            let got = find_program(&wanted).ok().map(|p| p.display().to_string());
            assert_eq!(got, found, "{command}");
        }
        wanted.command = "other".into();
        prepare(&wanted, "mark").expect("prepared");
        assert_eq!(fs::metadata(dir.join("other")).expect("meta").mode() & 0o111, 0o111);
        fs::remove_dir_all(&dir).expect("remove");
    }

    #[test]
    fn transient_spawn_errors_are_recognised() {
        for (errno, passes) in
            [(libc::ENOENT, false), (libc::EACCES, false), (libc::ENOEXEC, false), (libc::EAGAIN, true)]
        {
            assert_eq!(is_transient(&io::Error::from_raw_os_error(errno)), passes);
        }
    }
}
