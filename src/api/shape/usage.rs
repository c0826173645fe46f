//! What tasks and machines use, as JSON (http-api.md 3.0.9, 3.0.10).

use super::{Empty, Null};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::resource_usage::{
    AllocResourceUsage, CgroupUsage, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, ResourceUsage,
    TaskResourceUsage,
};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStatsShape<'a> {
    resource_usage: UsageShape,
    tasks: BTreeMap<&'a str, TaskFiguresShape>,
    timestamp: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskFiguresShape {
    resource_usage: UsageShape,
    timestamp: i64,
    pids: BTreeMap<String, UsageShape>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct UsageShape {
    memory_stats: MemoryUsageShape,
    cpu_stats: CpuShape,
    device_stats: Null,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryUsageShape {
    #[serde(rename = "RSS")]
    rss: u64,
    cache: u64,
    swap: u64,
    mapped_file: u64,
    usage: u64,
    max_usage: u64,
    kernel_usage: u64,
    kernel_max_usage: u64,
    measured: Vec<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CpuShape {
    system_mode: f64,
    user_mode: f64,
    total_ticks: f64,
    throttled_periods: u64,
    throttled_time: u64,
    percent: f64,
    measured: Vec<&'static str>,
}

impl<'a> AllocStatsShape<'a> {
    pub fn new(figures: &'a AllocResourceUsage) -> AllocStatsShape<'a> {
        let mut all = TaskResourceUsage::default();
        for task in figures.tasks.values() {
            add(&mut all, task);
        }
        let timestamp = figures.at.0;
        let process = |usage: &ResourceUsage| UsageShape::new(usage, &CgroupUsage::default());
        let task = |task: &TaskResourceUsage| TaskFiguresShape {
            resource_usage: UsageShape::new(&task.usage, &task.cgroup),
            timestamp,
            pids: task.processes.iter().map(|(pid, usage)| (pid.to_string(), process(usage))).collect(),
        };
        AllocStatsShape {
            resource_usage: UsageShape::new(&all.usage, &all.cgroup),
            tasks: figures.tasks.iter().map(|(name, t)| (name.as_str(), task(t))).collect(),
            timestamp,
        }
    }
}

fn add(all: &mut TaskResourceUsage, one: &TaskResourceUsage) {
    all.usage.user_percent += one.usage.user_percent;
    all.usage.system_percent += one.usage.system_percent;
    all.usage.mhz += one.usage.mhz;
    all.usage.rss_bytes += one.usage.rss_bytes;
    let (all, one) = (&mut all.cgroup, &one.cgroup);
    for (all, one) in [
        (&mut all.memory_bytes, one.memory_bytes),
        (&mut all.max_memory_bytes, one.max_memory_bytes),
        (&mut all.cache_bytes, one.cache_bytes),
        (&mut all.swap_bytes, one.swap_bytes),
        (&mut all.mapped_file_bytes, one.mapped_file_bytes),
        (&mut all.kernel_bytes, one.kernel_bytes),
        (&mut all.max_kernel_bytes, one.max_kernel_bytes),
        (&mut all.throttled_periods, one.throttled_periods),
        (&mut all.throttled_nanos, one.throttled_nanos),
        (&mut all.cpu_nanos, one.cpu_nanos),
    ] {
        *all = all.map_or(one, |sum| Some(sum.saturating_add(one.unwrap_or(0))));
    }
}

impl UsageShape {
    fn new(usage: &ResourceUsage, cgroup: &CgroupUsage) -> UsageShape {
        let mut memory = vec!["RSS"];
        let mut cpu = vec!["System Mode", "User Mode", "Percent"];
        UsageShape {
            memory_stats: MemoryUsageShape {
                rss: usage.rss_bytes,
                cache: counted("Cache", cgroup.cache_bytes, &mut memory),
                swap: counted("Swap", cgroup.swap_bytes, &mut memory),
                mapped_file: counted("Mapped File", cgroup.mapped_file_bytes, &mut memory),
                usage: counted("Usage", cgroup.memory_bytes, &mut memory),
                max_usage: counted("Max Usage", cgroup.max_memory_bytes, &mut memory),
                kernel_usage: counted("Kernel Usage", cgroup.kernel_bytes, &mut memory),
                kernel_max_usage: counted("Kernel Max Usage", cgroup.max_kernel_bytes, &mut memory),
                measured: memory,
            },
            cpu_stats: CpuShape {
                system_mode: usage.system_percent,
                user_mode: usage.user_percent,
                total_ticks: usage.mhz,
                throttled_periods: counted("Throttled Periods", cgroup.throttled_periods, &mut cpu),
                throttled_time: counted("Throttled Time", cgroup.throttled_nanos, &mut cpu),
                percent: usage.user_percent + usage.system_percent,
                measured: cpu,
            },
            device_stats: (),
        }
    }
}

/// A figure, with its name among the measured ones if it is one of them.
fn counted(name: &'static str, figure: Option<u64>, measured: &mut Vec<&'static str>) -> u64 {
    measured.extend(figure.map(|_| name));
    figure.unwrap_or(0)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostStatsShape {
    memory: HostMemoryShape,
    #[serde(rename = "CPU")]
    cpu: Vec<HostCpuShape>,
    disk_stats: Vec<HostDiskShape>,
    alloc_dir_stats: HostDiskShape,
    device_stats: [Empty; 0],
    uptime: u64,
    timestamp: i64,
    #[serde(rename = "CPUTicksConsumed")]
    cpu_ticks_consumed: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostMemoryShape {
    total: u64,
    available: u64,
    used: u64,
    free: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostCpuShape {
    #[serde(rename = "CPU")]
    cpu: String,
    user: f64,
    system: f64,
    idle: f64,
    total_percent: f64,
    total_ticks: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostDiskShape {
    device: String,
    mountpoint: String,
    size: u64,
    used: u64,
    available: u64,
    used_percent: f64,
    inodes_used_percent: f64,
}

impl From<&HostStats> for HostStatsShape {
    fn from(host: &HostStats) -> HostStatsShape {
        let HostMemoryStats { total_bytes, available_bytes, used_bytes, free_bytes } = host.memory;
        HostStatsShape {
            memory: HostMemoryShape {
                total: total_bytes,
                available: available_bytes,
                used: used_bytes,
                free: free_bytes,
            },
            cpu: host.cpus.iter().map(HostCpuShape::from).collect(),
            disk_stats: host.disks.iter().map(HostDiskShape::from).collect(),
            alloc_dir_stats: HostDiskShape::from(&host.alloc_dir),
            device_stats: [],
            uptime: host.uptime_seconds,
            timestamp: host.at.0,
            cpu_ticks_consumed: host.cpus.iter().map(|c| c.mhz).sum(),
        }
    }
}

impl From<&HostCpuStats> for HostCpuShape {
    fn from(cpu: &HostCpuStats) -> HostCpuShape {
        HostCpuShape {
            cpu: cpu.name.clone(),
            user: cpu.user_percent,
            system: cpu.system_percent,
            idle: cpu.idle_percent,
            total_percent: 100.0 - cpu.idle_percent,
            total_ticks: cpu.mhz,
        }
    }
}

impl From<&HostDiskStats> for HostDiskShape {
    fn from(disk: &HostDiskStats) -> HostDiskShape {
        HostDiskShape {
            device: disk.device.clone(),
            mountpoint: disk.mountpoint.clone(),
            size: disk.size_bytes,
            used: disk.used_bytes,
            available: disk.available_bytes,
            used_percent: disk.used_bytes as f64 * 100.0 / disk.size_bytes.max(1) as f64,
            inodes_used_percent: disk.inodes_used_percent,
        }
    }
}
