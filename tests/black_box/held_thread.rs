//! One thread of the agent that stands still while the others go on: strace holds it at its next system call. A stopped process would
//! not do, as a server that was away itself gives its nodes time.

use crate::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct HeldThread {
    strace: Child,
}

impl HeldThread {
    /// Returns once the thread of this name is held, or is about to be at its next system call. strace writes what it sees to `trace`.
    #[track_caller]
    pub fn hold(process: i32, name: &str, trace: &Path) -> HeldThread {
        let thread = thread_named(process, name);
        let mut command = Command::new("strace");
        command.args(["-p", &thread.to_string(), "-o"]).arg(trace).stderr(Stdio::null());
        let strace = command.spawn().expect("strace starts");
        // what it has attached to it stops at system calls only once it has begun to write them down
        wait::until("strace sees a system call", || {
            fs::metadata(trace).is_ok_and(|file| file.len() > 0).then_some(())
        });
        // a tracer that is stopped lets nobody go on
        let pid = Pid::from_raw(strace.id() as i32).expect("a process has a number");
        kill_process(pid, Signal::STOP).expect("strace is stopped");
        HeldThread { strace }
    }
}

/// The kernel lets a thread go on whose tracer is gone.
impl Drop for HeldThread {
    fn drop(&mut self) {
        self.strace.kill().expect("strace is killed");
        self.strace.wait().expect("strace has ended");
    }
}

#[track_caller]
fn thread_named(process: i32, name: &str) -> i32 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process lives");
    let mut numbers =
        tasks.map(|entry| entry.expect("a thread").file_name().into_string().expect("a number"));
    let named = |number: &String| {
        let comm = fs::read_to_string(format!("/proc/{process}/task/{number}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let number = numbers.find(named).unwrap_or_else(|| panic!("no thread is called {name}"));
    number.parse().expect("a number")
}
