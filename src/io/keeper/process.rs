//! Processes as the kernel shows them: identity, descendants, signals, exits.
//!
//! Refuses to know: runs.

use model::task::ExitStatus;
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, set_child_subreaper, wait, waitpid,
};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::{fs, io};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// Dead, but not yet waited for.
    pub zombie: bool,
    /// Clock ticks since boot. With the pid, names a process for good.
    pub start_ticks: u64,
}

pub fn stat(pid: u32) -> Option<ProcessStat> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// proc_pid_stat(5): the name in parentheses may hold anything, so fields are counted from its last parenthesis.
fn parse(pid: u32, text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        pid,
        zombie: matches!(fields.first(), Some(&"Z" | &"X")),
        parent: number(4)? as u32,
        group: number(5)? as u32,
        session: number(6)? as u32,
        start_ticks: number(22)?,
    })
}

/// Every process of the machine that can be seen.
pub fn all() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).collect()
}

/// The descriptors that this process has open.
pub fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that `main` started, by what the kernel still knows of it: parents, group and session. Where there are
/// no cgroups this is all there is; who left both group and session and lost its parents is not found.
pub fn descendants(main: u32) -> Vec<ProcessStat> {
    members(main, all())
}

pub fn children_of(parent: u32) -> Vec<ProcessStat> {
    all().into_iter().filter(|p| p.parent == parent).collect()
}

fn members(main: u32, all: Vec<ProcessStat>) -> Vec<ProcessStat> {
    let mut found: BTreeSet<u32> = [main].into();
    loop {
        let before = found.len();
        for p in &all {
            if p.group == main || p.session == main || found.contains(&p.parent) {
                found.insert(p.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    all.into_iter().filter(|p| found.contains(&p.pid)).collect()
}

/// Signals a child that was not waited for yet, so that its pid is not reused; errors mean that it is gone.
pub fn signal(pid: u32, signal: i32) {
    if let Ok(pid) = i32::try_from(pid)
        && pid > 1
    {
        // SAFETY: kill(2) takes numbers only; `pid` names one process, never a group or everyone.
        let _gone = unsafe { libc::kill(pid, signal) };
    }
}

/// Signals the process of `pidfd`, even if its pid was reused.
pub fn pidfd_signal(pidfd: &OwnedFd, signal: i32) {
    let (flags, info) = (0, std::ptr::null::<libc::siginfo_t>());
    // SAFETY: pidfd_send_signal(2) with a live descriptor, a number, no info and no flags; it reads no memory.
    let _gone = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, info, flags) };
}

/// SIGKILL to a process that is not our child: through a pidfd, so that it cannot hit a process that reuses the pid.
pub fn pidfd_kill(seen: &ProcessStat) {
    let pidfd = watch(seen.pid);
    let same = stat(seen.pid).is_some_and(|now| now.start_ticks == seen.start_ticks);
    match pidfd {
        _ if !same => {}
        Some(pidfd) => pidfd_signal(&pidfd, libc::SIGKILL),
        // A kernel without pidfds: the number was right a moment ago.
        None => signal(seen.pid, libc::SIGKILL),
    }
}

/// Readable once the process has ended. The caller compares the start time afterwards.
pub fn watch(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// One child that ended, with how. Children are waited for once.
pub fn reap() -> Option<(u32, ExitStatus)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid.as_raw_nonzero().get() as u32, exit_status(status)))
}

/// Kills a child that was not waited for yet, and waits for its end.
pub fn kill_and_wait(pid: u32) {
    signal(pid, libc::SIGKILL);
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Unknown,
    }
}

/// Makes this process the parent of orphaned descendants. Where that cannot be had (an emulator), control groups still hold them.
pub fn adopt_orphans() {
    if let Err(e) = set_child_subreaper(Some(getpid())) {
        super::log(format_args!(
            "orphans of tasks are found by control group only: this is no subreaper: {e}"
        ));
    }
}

/// Raises the limit of open files to what is allowed, and gives the one from before: tasks get that.
pub fn raise_open_files() -> io::Result<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get pointers to live locals of the right type.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let raised = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_whatever_the_name_is() {
        let tail = " S 1 20 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 100 200";
        for name in ["(sh)", "(a b)", "(x) S 9 9 9)", "())"] {
            let got = parse(7, &format!("7 {name}{tail}")).expect(name);
            let want =
                ProcessStat { pid: 7, parent: 1, group: 20, session: 30, zombie: false, start_ticks: 4242 };
            assert_eq!(got, want, "{name}");
        }
        assert_eq!(parse(7, "7 (sh) S 1 2"), None);
        assert!(stat(std::process::id()).is_some_and(|s| s.start_ticks > 0 && !s.zombie));
    }

    #[test]
    fn descendants_are_found_by_parent_group_and_session() {
        let p = |pid, parent, group, session| ProcessStat {
            pid,
            parent,
            group,
            session,
            zombie: false,
            start_ticks: 0,
        };
        let all = vec![
            p(5, 1, 5, 5),
            p(10, 5, 10, 10),
            p(11, 10, 11, 10),
            p(12, 11, 12, 12),
            p(13, 1, 10, 99),
            p(14, 1, 14, 14),
        ];
        let pids: Vec<u32> = members(10, all).iter().map(|s| s.pid).collect();
        assert_eq!(pids, [10, 11, 12, 13]);
    }
}
