//! What needs root, and fails with a sentence where it cannot run.

use super::*;

/// Fails where it is not: a test that looks at nothing would pass.
fn assert_root() {
    let id = Process::new("id").arg("-u").output().expect("id");
    assert_eq!(id.stdout, b"0\n", "this test needs root: run tests/run as root, for example with sudo");
}

#[test]
fn a_task_runs_as_its_user() {
    assert_root();
    let node = Node::new();
    let mut agent = node.connect();
    let mut spec = node.sh("id -un; id -Gn; umask; ulimit -n; echo direct > /dev/stdout");
    spec.user = "nobody".into();
    spec.cwd = "/".into();
    agent.start(run(1), spec);
    assert_eq!(agent.exit(run(1)), ended(Status::Code(0)), "{}", node.output("stderr"));
    let out = node.output("stdout");
    assert!(out.starts_with("nobody\nnogroup\n0022\n") && out.ends_with("direct\n"), "{out}");
}

#[test]
fn a_task_of_another_user_has_none_of_the_keepers_groups() {
    assert_root();
    let node = Node::with_groups("0,4,24");
    let mut agent = node.connect();
    let mut spec = node.sh("id -G");
    spec.cwd = "/".into();
    agent.start(run(1), spec.clone());
    assert_eq!(agent.exit(run(1)), ended(Status::Code(0)));
    assert_eq!(node.output("stdout"), "0 4 24\n", "the keeper's own user keeps its groups");
    spec.user = "nobody".into();
    agent.start(run(2), spec);
    assert_eq!(agent.exit(run(2)), ended(Status::Code(0)));
    assert_eq!(node.output("stdout"), "0 4 24\n65534\n");
}

/// Where a process's control group of this controller lies; on version 2 there is one for all.
fn cgroup_of(pid: u32, controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its control groups");
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let root = Path::new("/sys/fs/cgroup");
        let dir = match controllers {
            "" if root.join("cgroup.controllers").exists() => root.join(path),
            _ if controllers.split(',').any(|c| c == controller) => root.join(controller).join(path),
            _ => return None,
        };
        dir.is_dir().then_some(dir)
    })
}

#[test]
fn limits_stand_in_the_tasks_control_group() {
    assert_root();
    let node = Node::new();
    let mut agent = node.connect();
    let mut spec = node.sh("sleep 1000");
    (spec.cpu_mhz, spec.memory_bytes) = (250, 64 << 20);
    let pid = agent.start(run(1), spec);
    let files = [
        ("cpu", "cpu.shares", "250"),
        ("cpu", "cpu.weight", "10"),
        ("memory", "memory.limit_in_bytes", "67108864"),
        ("memory", "memory.memsw.limit_in_bytes", "67108864"),
        ("memory", "memory.swappiness", "0"),
        ("memory", "memory.max", "67108864"),
        ("memory", "memory.swap.max", "0"),
    ];
    let mut seen = BTreeSet::new();
    for (controller, file, limit) in files {
        let Some(group) = cgroup_of(pid, controller) else { continue };
        if let Ok(text) = fs::read_to_string(group.join(file)) {
            assert_eq!(text.trim(), limit, "{file}");
            seen.insert(controller);
        }
    }
    assert!(
        seen.len() == 2,
        "only {seen:?} of cpu and memory are limited: mount cgroups below /sys/fs/cgroup, writable for root and with both controllers on"
    );
    agent.send(&Command::Stop { run: run(1), signal: SIGTERM, timeout: SECOND });
    agent.exit(run(1));
}

#[test]
fn without_privileges_and_cgroups_tasks_still_end_whole() {
    assert_root();
    let node = Node::unprivileged();
    let mut agent = node.connect();
    let script = "sleep 1000 & echo $! >> pids; setsid sleep 1000 & echo $! >> pids; exit 5";
    agent.start(run(1), node.sh(script));
    assert_eq!(agent.exit(run(1)), ended(Status::Code(5)));
    let mut spec = node.sh("setsid sh -c 'echo $$ >> pids; exec sleep 1000' & wait");
    spec.user = "nobody".into();
    agent.start(run(2), spec.clone());
    until("the third pid", || (lines_of(&node.dir.join("pids")).len() == 3).then_some(()));
    agent.send(&Command::Stop { run: run(2), signal: SIGTERM, timeout: 0 });
    assert!(matches!(agent.exit(run(2)).status, Status::Signal(_)));
    assert!(lines_of(&node.dir.join("pids")).into_iter().all(|pid| !alive(pid)));
    spec.user = "root".into();
    agent.send(&Command::Start { run: run(3), spec });
    let failed = agent.next();
    assert!(matches!(&failed, Event::StartFailed { message, .. } if message.contains("user")), "{failed:?}");
}

/// A file system of 2 MiB over a directory, gone when dropped.
struct Small(PathBuf);

impl Small {
    fn over(dir: &Path) -> Option<Small> {
        let mut mount = Process::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(dir);
        mount.status().is_ok_and(|s| s.success()).then(|| Small(dir.to_path_buf()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Process::new("umount").arg("-l").arg(&self.0).status().expect("umount");
    }
}

#[test]
fn a_full_disk_costs_output_and_in_the_end_starts_but_no_exit() {
    assert_root();
    let mut node = Node::new();
    node.end_keeper(SIGTERM);
    let small = Small::over(&node.dir);
    assert!(small.is_some(), "no tmpfs can be mounted: run this where root may mount (CAP_SYS_ADMIN)");
    fs::create_dir(node.dir.join("logs")).expect("logs");
    node.start();
    let mut agent = node.connect();
    let fill = node.dir.join("fill");
    let mut file = fs::File::create(&fill).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    agent.start(run(1), node.sh("echo lost; exit 3"));
    assert_eq!(agent.exit(run(1)), ended(Status::Code(3)));
    // More than the journal has in reserve.
    let mut spec = node.sh("true");
    spec.command = "no-such-command".into();
    let mut n = 0u32;
    let told = loop {
        n += 1;
        assert!(n < 3000, "the reserve never ends");
        let mut id = run(2);
        id[8..12].copy_from_slice(&n.to_le_bytes());
        agent.send(&Command::Start { run: id, spec: spec.clone() });
        if n == 1 {
            agent.stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        }
        match agent.try_next() {
            Some(Event::StartFailed { message, retryable: true, .. }) => break message,
            // Held back until it is durable; the next start is refused at once.
            Some(Event::StartFailed { .. }) | None => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(told.contains("cannot write its journal") && n > 100, "{n}: {told}");
    drop(file);
    fs::remove_file(&fill).expect("removed");
    agent.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(matches!(agent.next(), Event::StartFailed { retryable: false, .. }), "the one held back");
    agent.start(run(3), node.sh("echo back"));
    assert_eq!(agent.exit(run(3)), ended(Status::Code(0)));
    assert!(node.output("stdout").ends_with("back\n"));
    agent.send(&Command::Shutdown { signal: SIGTERM, timeout: SECOND });
    assert_eq!(agent.drain(), []);
}

#[test]
fn memory_limits_hold_and_are_told() {
    assert_root();
    let v2 = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let has_memory = v2.contains("memory") || Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
    assert!(
        has_memory,
        "no memory controller: mount cgroups with the controller `memory` below /sys/fs/cgroup"
    );
    let node = Node::new();
    let mut agent = node.connect();
    let mut spec = node.sh("x=0123456789abcdef; while :; do x=$x$x; done");
    spec.memory_bytes = 16 << 20;
    let pid = agent.start(run(1), spec);
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    assert_eq!(agent.exit(run(1)), Exit { status: Status::Signal(SIGKILL), oom_killed: true });
    let ours: String = run(1)[..4].iter().map(|b| format!("{b:02x}")).collect();
    assert!(group.contains(&format!("/alloc.task.{ours}")), "{group}");
    for parent in ["memory/drover", "cpu/drover", "cpuacct/drover", "freezer/drover", "drover.slice"] {
        let left = fs::read_dir(format!("/sys/fs/cgroup/{parent}")).into_iter().flatten().flatten();
        assert_eq!(left.filter(|d| d.file_name().to_string_lossy().contains(&ours)).count(), 0);
    }
}
