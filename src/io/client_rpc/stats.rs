//! What tasks and the machine use at present, as /proc and the control groups show it. Processor time is read twice,
//! `SAMPLE_INTERVAL` apart: the difference is reported.
//!
//! Refuses to know: whose tasks they are. Nothing is measured while nobody asks.

use crate::clock;
use crate::executor;
use crate::keeper::{Cgroups, group_of, processes_of};
use client::effects::RunningTask;
use model::time::Wall;
use smol::Timer;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::resource_usage::{
    AllocResourceUsage, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, ResourceUsage,
    TaskResourceUsage,
};

/// The time between the two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
/// The most disks that are reported.
const MAX_DISKS: usize = 64;
/// The most processes of a task that are reported one by one.
const MAX_PROCESSES: usize = 1024;

/// Clock ticks that a process has used, and the memory that it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    user_ticks: u64,
    system_ticks: u64,
    rss_bytes: u64,
    start_ticks: u64,
}

type Processes = BTreeMap<u32, Process>;

/// `core_mhz`: of one core.
pub async fn of_runs(runs: Vec<RunningTask>, core_mhz: f64) -> AllocResourceUsage {
    let (began, first, runs) = executor::unblock(move || {
        let cgroups = Cgroups::detect();
        let look = |run: &RunningTask| processes(&processes_of(&cgroups, run.run, &run.label, run.pid));
        (Instant::now(), runs.iter().map(look).collect::<Vec<_>>(), runs)
    })
    .await;
    Timer::after(SAMPLE_INTERVAL).await;
    executor::unblock(move || {
        let cgroups = Cgroups::detect();
        let ticks = began.elapsed().as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
        let task = |(run, before): (&RunningTask, &Processes)| {
            let now = processes(&processes_of(&cgroups, run.run, &run.label, run.pid));
            let mut figures = between(before, &now, ticks, core_mhz);
            figures.cgroup = group_of(&cgroups, run.run, &run.label).usage();
            (run.task.clone(), figures)
        };
        AllocResourceUsage { tasks: runs.iter().zip(&first).map(task).collect(), at: now() }
    })
    .await
}

fn now() -> Wall {
    clock::wall().unwrap_or(Wall::NEVER)
}

fn between(before: &Processes, now: &Processes, ticks: f64, core_mhz: f64) -> TaskResourceUsage {
    let mut figures = TaskResourceUsage::default();
    for (pid, process) in now {
        // a reused pid has no earlier sample
        let then = before.get(pid).filter(|p| p.start_ticks == process.start_ticks);
        let percent = |count: fn(&Process) -> u64| {
            let used = then.map_or(0, |then| count(process).saturating_sub(count(then)));
            if ticks > 0.0 { used as f64 * 100.0 / ticks } else { 0.0 }
        };
        let (user, system) = (percent(|p| p.user_ticks), percent(|p| p.system_ticks));
        let mhz = (user + system) / 100.0 * core_mhz;
        let rss_bytes = process.rss_bytes;
        let usage = ResourceUsage { user_percent: user, system_percent: system, mhz, rss_bytes };
        let all = &mut figures.usage;
        all.user_percent += user;
        all.system_percent += system;
        all.mhz += mhz;
        all.rss_bytes += rss_bytes;
        figures.processes.insert(*pid, usage);
    }
    figures
}

fn processes(pids: &[u32]) -> Processes {
    let read = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((*pid, process(&text, rustix::param::page_size() as u64)?))
    };
    pids.iter().take(MAX_PROCESSES).filter_map(read).collect()
}

/// proc_pid_stat(5): fields are counted from the last parenthesis of the name.
fn process(text: &str, page_bytes: u64) -> Option<Process> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        start_ticks: number(22)?,
        rss_bytes: number(24)?.saturating_mul(page_bytes),
    })
}

pub async fn of_host(alloc_dir: PathBuf, core_mhz: f64) -> HostStats {
    let first = executor::unblock(|| read("/proc/stat")).await;
    Timer::after(SAMPLE_INTERVAL).await;
    executor::unblock(move || {
        let uptime = read("/proc/uptime");
        HostStats {
            memory: memory(&read("/proc/meminfo")),
            cpus: cpus(&first, &read("/proc/stat"), core_mhz),
            disks: disks(&read("/proc/self/mountinfo")),
            alloc_dir: disk(String::new(), &alloc_dir).unwrap_or_default(),
            uptime_seconds: uptime.split('.').next().and_then(|s| s.parse().ok()).unwrap_or(0),
            at: now(),
        }
    })
    .await
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn memory(info: &str) -> HostMemoryStats {
    let bytes = |name: &str| {
        let line = info.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    };
    let (total, free) = (bytes("MemTotal"), bytes("MemFree"));
    HostMemoryStats {
        total_bytes: total,
        available_bytes: bytes("MemAvailable"),
        used_bytes: total.saturating_sub(free + bytes("Buffers") + bytes("Cached")),
        free_bytes: free,
    }
}

/// The use of each processor, from two readings of /proc/stat.
fn cpus(before: &str, after: &str, core_mhz: f64) -> Vec<HostCpuStats> {
    let before: BTreeMap<String, [u64; 8]> = cpu_lines(before).collect();
    let cpu = |(name, now): (String, [u64; 8])| {
        let then = before.get(&name)?;
        let spent: Vec<u64> = now.iter().zip(then).map(|(n, t)| n.saturating_sub(*t)).collect();
        let total = spent.iter().sum::<u64>().max(1) as f64;
        let percent = |which: &[usize]| which.iter().map(|i| spent[*i]).sum::<u64>() as f64 * 100.0 / total;
        let idle_percent = percent(&[3, 4]);
        Some(HostCpuStats {
            name,
            user_percent: percent(&[0, 1]),
            system_percent: percent(&[2, 5, 6]),
            idle_percent,
            mhz: (100.0 - idle_percent) / 100.0 * core_mhz,
        })
    };
    cpu_lines(after).filter_map(cpu).collect()
}

/// Name and the ticks of user, nice, system, idle, iowait, irq, softirq and steal.
fn cpu_lines(stat: &str) -> impl Iterator<Item = (String, [u64; 8])> {
    stat.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().filter(|n| n.starts_with("cpu") && *n != "cpu")?;
        let mut ticks = [0; 8];
        for tick in &mut ticks {
            *tick = words.next()?.parse().ok()?;
        }
        Some((name.to_string(), ticks))
    })
}

/// One for each device.
fn disks(mounts: &str) -> Vec<HostDiskStats> {
    let mut seen = BTreeSet::new();
    let mounted = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let device = right.split(' ').nth(1).filter(|d| d.starts_with("/dev/"))?;
        Some((device.to_string(), left.split(' ').nth(4)?.to_string()))
    });
    let first = mounted.filter(|(device, _)| seen.insert(device.clone())).take(MAX_DISKS);
    first.filter_map(|(device, point)| disk(device, Path::new(&point))).collect()
}

fn disk(device: String, path: &Path) -> Option<HostDiskStats> {
    let found = rustix::fs::statvfs(path).ok()?;
    let (size, free) = (found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize);
    let inodes = found.f_files.max(1) as f64;
    Some(HostDiskStats {
        device,
        mountpoint: path.display().to_string(),
        size_bytes: size,
        used_bytes: size.saturating_sub(free),
        available_bytes: found.f_bavail * found.f_frsize,
        inodes_used_percent: found.f_files.saturating_sub(found.f_ffree) as f64 * 100.0 / inodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_and_compared() {
        let stat = |user: u64, start: u64| {
            format!("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 {user} 5 0 0 20 0 1 0 {start} 1000 3 9 9\n")
        };
        let read = |user, start| process(&stat(user, start), 4096).expect("a process");
        let before: Processes = [(7, read(10, 4242)), (8, read(0, 1))].into();
        assert_eq!(
            before[&7],
            Process { user_ticks: 10, system_ticks: 5, rss_bytes: 12_288, start_ticks: 4242 }
        );
        let now: Processes = [(7, read(30, 4242)), (8, read(90, 2))].into();
        let figures = between(&before, &now, 20.0, 1000.0);
        assert_eq!(
            (figures.usage.user_percent, figures.usage.mhz),
            (100.0, 1000.0),
            "8 is another process now"
        );
        assert_eq!((figures.usage.rss_bytes, figures.processes.len()), (24_576, 2));
        assert_eq!(process("7 (a", 4096), None);
    }

    #[test]
    fn the_machine_is_read_from_texts() {
        let info =
            "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 600 kB\nBuffers: 100 kB\nCached: 300 kB\n";
        let read = memory(info);
        assert_eq!((read.total_bytes, read.used_bytes, read.free_bytes), (1_024_000, 409_600, 204_800));
        let before = "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 10 80 0 0 0 0 0 0\nintr 1\n";
        let after = "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 20 0 20 160 0 0 0 0 0 0\ncpu1 1 1 1 1 1 1 1 1\n";
        let told = cpus(before, after, 2000.0);
        assert_eq!(told.len(), 1, "cpu1 was not there before: {told:?}");
        assert_eq!((told[0].user_percent, told[0].idle_percent, told[0].mhz), (10.0, 80.0, 400.0));
    }

    #[test]
    fn this_machine_has_stats() {
        let host = smol::block_on(of_host(std::env::temp_dir(), 1000.0));
        assert!(
            host.memory.total_bytes > 0 && !host.cpus.is_empty() && host.alloc_dir.size_bytes > 0,
            "{host:?}"
        );
    }
}
