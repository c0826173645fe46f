//! What the machine and this process use at present, and what an operator is told of the machine: read when it is asked
//! for, so that an agent at rest looks at nothing.
//!
//! Refuses to know: names of metrics. What cannot be read is left out.

use super::fingerprint::{field_values, read, volume};
use super::{clock, interfaces};
use api::host::{DiskSpace, HostData};
use api::metrics::{CpuMetrics, DiskMetrics, HostMetrics, MemoryMetrics, ProcessMetrics};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MIB: u64 = 1 << 20;

/// Looks at the machine, and remembers how busy its processors were when it last looked.
#[derive(Debug)]
pub struct HostStatsCollector {
    /// A directory on the disk that tasks write to.
    dir: PathBuf,
    last: Mutex<Vec<CpuTimes>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CpuTimes {
    name: String,
    user: u64,
    system: u64,
    idle: u64,
    total: u64,
}

impl HostStatsCollector {
    pub fn new(dir: PathBuf) -> HostStatsCollector {
        HostStatsCollector { dir, last: Mutex::new(cpu_times(&read("/proc/stat"))) }
    }

    /// Reads files: to be called where that may take its time.
    pub fn collect(&self) -> HostMetrics {
        let now = cpu_times(&read("/proc/stat"));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let cpus = cpu_use(&last, &now);
        *last = now;
        drop(last);
        HostMetrics {
            wall: clock::wall(),
            process: process(&read("/proc/self/status"), &read("/proc/self/stat")),
            cpus,
            memory: memory(&read("/proc/meminfo")),
            disks: disk(&self.dir).into_iter().collect(),
            uptime_seconds: read("/proc/uptime").split(' ').next().and_then(|s| s.parse().ok()),
        }
    }

    /// The machine as `agent/host` shows it.
    pub fn host(&self) -> HostData {
        let mut disks = BTreeMap::new();
        if let Some(d) = disk(&self.dir) {
            let space = DiskSpace { disk_mb: d.size_bytes / MIB, used_mb: d.used_bytes / MIB };
            disks.insert(d.name, space);
        }
        HostData {
            os: read("/proc/version").trim().to_string(),
            network: interfaces::addresses().into_iter().flat_map(named_addresses).collect(),
            resolv_conf: read("/etc/resolv.conf"),
            hosts: read("/etc/hosts"),
            environment: std::env::vars_os()
                .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
                .collect(),
            disks,
        }
    }
}

fn named_addresses((name, addresses): (String, Vec<IpAddr>)) -> Vec<BTreeMap<&'static str, String>> {
    let one = |a: &IpAddr| {
        [("name", name.clone()), ("address", a.to_string())].into_iter().collect::<BTreeMap<_, _>>()
    };
    addresses.iter().map(one).collect()
}

/// proc(5): a line for each processor: user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_times(stat: &str) -> Vec<CpuTimes> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|w| w.len() > 3 && w.starts_with("cpu"))?;
        let ticks: Vec<u64> = words.take(8).filter_map(|w| w.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, ..] = ticks.as_slice() else { return None };
        Some(CpuTimes {
            name: name.to_string(),
            user: user + nice,
            system,
            idle: idle + iowait,
            total: ticks.iter().sum(),
        })
    };
    stat.lines().filter_map(of_line).collect()
}

/// The use of each processor that was there both times, if any time has passed.
fn cpu_use(before: &[CpuTimes], after: &[CpuTimes]) -> Vec<CpuMetrics> {
    let of_one = |now: &CpuTimes| {
        let was = before.iter().find(|w| w.name == now.name)?;
        let passed = now.total.checked_sub(was.total).filter(|n| *n > 0)? as f64;
        let share = |now: u64, was: u64| now.saturating_sub(was) as f64 * 100.0 / passed;
        let idle = share(now.idle, was.idle);
        Some(CpuMetrics {
            name: now.name.clone(),
            user: share(now.user, was.user),
            system: share(now.system, was.system),
            idle,
            total: 100.0 - idle,
            busy_seconds: now.total.saturating_sub(now.idle) as f64 / TICKS_PER_SECOND,
        })
    };
    after.iter().filter_map(of_one).collect()
}

/// All memory of this machine.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // words of the machine's size: 32 bits on some
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

fn memory(meminfo: &str) -> Option<MemoryMetrics> {
    let field = |name: &str| {
        let value = field_values(meminfo, name).next()?.trim_end_matches("kB").trim();
        value.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some(MemoryMetrics {
        total_bytes: field("MemTotal")?,
        available_bytes: field("MemAvailable")?,
        free_bytes: field("MemFree")?,
    })
}

/// The disk of `dir`, or of the nearest directory above that exists.
fn disk(dir: &Path) -> Option<DiskMetrics> {
    let found = dir.ancestors().find_map(|d| Some((d, rustix::fs::statvfs(d).ok()?)));
    let (dir, fs) = found?;
    let size = fs.f_blocks * fs.f_frsize;
    let used = fs.f_blocks.saturating_sub(fs.f_bfree) * fs.f_frsize;
    let available = fs.f_bavail * fs.f_frsize;
    let percent = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    Some(DiskMetrics {
        name: volume(&fs::canonicalize(dir).unwrap_or_default(), &read("/proc/self/mountinfo")),
        size_bytes: size,
        used_bytes: used,
        available_bytes: available,
        used_percent: percent(used, used + available),
        inodes_percent: percent(fs.f_files.saturating_sub(fs.f_ffree), fs.f_files),
    })
}

/// Ticks in a second of processor time, as the kernel counts them for programs on every machine that drover is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// How many threads this process has.
pub fn threads() -> Option<u64> {
    thread_count(&read("/proc/self/status"))
}

fn thread_count(status: &str) -> Option<u64> {
    field_values(status, "Threads").next().and_then(|n| n.trim().parse().ok())
}

/// proc(5): `status` has fields by name; in `stat` they come after the name in brackets, which may hold anything.
fn process(status: &str, stat: &str) -> ProcessMetrics {
    let kib =
        |name: &str| field_values(status, name).next()?.trim_end_matches("kB").trim().parse::<u64>().ok();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
    // the third field of the file is the first here
    let ticks = |n: usize| fields.get(n - 3).and_then(|f| f.parse::<u64>().ok());
    let used = ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) as f64 / TICKS_PER_SECOND);
    ProcessMetrics {
        resident_memory_bytes: kib("VmRSS").map(|n| n * 1024),
        virtual_memory_bytes: kib("VmSize").map(|n| n * 1024),
        cpu_seconds: used,
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
        threads: thread_count(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_usage_is_the_difference_of_two_samples() {
        let before = cpu_times("cpu  9 9 9 9 9\ncpu0 100 0 50 800 50 0 0 0\ncpu1 1 1 1 1 1\nintr 5\n");
        let after =
            cpu_times("cpu  9 9 9 9 9\ncpu0 130 10 60 840 60 0 0 0\ncpu1 1 1 1 1 1\ncpu2 5 5 5 5 5\n");
        assert_eq!(
            cpu_use(&before, &after),
            [CpuMetrics {
                name: "cpu0".into(),
                user: 40.0,
                system: 10.0,
                idle: 50.0,
                total: 50.0,
                busy_seconds: 2.0
            }]
        );
    }

    #[test]
    fn memory_and_process_are_read_from_their_files() {
        let meminfo = "MemTotal:        8000 kB\nMemFree:   1000 kB\nMemAvailable:    3000 kB\n";
        let expected =
            MemoryMetrics { total_bytes: 8_192_000, available_bytes: 3_072_000, free_bytes: 1_024_000 };
        assert_eq!(memory(meminfo), Some(expected));
        assert_eq!(memory("MemTotal: 1 kB\n"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 0 0 20 0 9 0 55 4096 3";
        let status = "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        let process = process(status, stat);
        assert_eq!((process.threads, process.resident_memory_bytes), (Some(9), Some(1 << 20)));
        assert_eq!(process.cpu_seconds, Some(3.0));
    }

    #[test]
    fn this_machine_has_stats() {
        let seen = HostStatsCollector::new(std::env::temp_dir()).collect();
        assert!(threads().is_some_and(|n| n > 0));
        assert!(seen.memory.is_some_and(|m| m.total_bytes > m.free_bytes), "{seen:?}");
        assert!(seen.process.resident_memory_bytes.is_some_and(|b| b > 1 << 20), "{seen:?}");
        assert!(seen.disks.iter().all(|d| d.size_bytes > 0 && d.used_percent <= 100.0), "{seen:?}");
    }
}
