//! What the kernel says of processes and of the machine.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// One line on what the figures were taken on.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown processor");
    let count = cpu.lines().filter(|l| l.starts_with("processor")).count();
    format!(
        "{count} processors ({}), Linux {}, load {}",
        model.trim_start_matches(['\t', ' ', ':']),
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").trim()
    )
}

/// Proportional set size in KiB.
pub fn pss_kib(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:"));
    let number = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok());
    number.ok_or_else(|| format!("{path} has no Pss"))
}

/// As many as this process may have: a crowd needs one for each of its connections.
pub fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // if it cannot be raised, connecting says so
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Processes with this parent: pid and name.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let child = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let its_parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        (its_parent == parent).then(|| (pid, name.to_string()))
    };
    pids.filter_map(child).collect()
}

/// How long it takes to write 4 KiB in place and make them durable.
pub fn fsync(dir: &Path) -> io::Result<Duration> {
    let path = dir.join("fsync");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    file.write_all(&[7; 4096])?;
    let start = Instant::now();
    file.sync_data()?;
    let took = start.elapsed();
    Ok(took)
}
