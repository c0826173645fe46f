//! What tasks and machines use, as JSON (http-api.md 3.0.9, 3.0.10).

use super::{Empty, Null};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::resource_usage::{
    AllocResourceUsage, HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, ResourceUsage,
};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocFiguresShape<'a> {
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
    memory_stats: MemoryShape,
    cpu_stats: CpuShape,
    device_stats: Null,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryShape {
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
    measured: [&'static str; 3],
}

impl<'a> AllocFiguresShape<'a> {
    pub fn new(figures: &'a AllocResourceUsage) -> AllocFiguresShape<'a> {
        let mut all = ResourceUsage::default();
        for task in figures.tasks.values() {
            add(&mut all, &task.usage);
        }
        let timestamp = figures.at.0;
        let task = |task: &wire::resource_usage::TaskResourceUsage| TaskFiguresShape {
            resource_usage: UsageShape::new(&task.usage),
            timestamp,
            pids: task.processes.iter().map(|(pid, u)| (pid.to_string(), UsageShape::new(u))).collect(),
        };
        AllocFiguresShape {
            resource_usage: UsageShape::new(&all),
            tasks: figures.tasks.iter().map(|(name, t)| (name.as_str(), task(t))).collect(),
            timestamp,
        }
    }
}

fn add(all: &mut ResourceUsage, one: &ResourceUsage) {
    let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
    all.user_percent += one.user_percent;
    all.system_percent += one.system_percent;
    all.mhz += one.mhz;
    all.rss_bytes += one.rss_bytes;
    all.memory_bytes = sum(all.memory_bytes, one.memory_bytes);
    all.max_memory_bytes = sum(all.max_memory_bytes, one.max_memory_bytes);
}

impl UsageShape {
    fn new(usage: &ResourceUsage) -> UsageShape {
        let measured =
            [Some("RSS"), usage.memory_bytes.map(|_| "Usage"), usage.max_memory_bytes.map(|_| "Max Usage")];
        UsageShape {
            memory_stats: MemoryShape {
                rss: usage.rss_bytes,
                cache: 0,
                swap: 0,
                mapped_file: 0,
                usage: usage.memory_bytes.unwrap_or(0),
                max_usage: usage.max_memory_bytes.unwrap_or(0),
                kernel_usage: 0,
                kernel_max_usage: 0,
                measured: measured.into_iter().flatten().collect(),
            },
            cpu_stats: CpuShape {
                system_mode: usage.system_percent,
                user_mode: usage.user_percent,
                total_ticks: usage.mhz,
                throttled_periods: 0,
                throttled_time: 0,
                percent: usage.user_percent + usage.system_percent,
                measured: ["System Mode", "User Mode", "Percent"],
            },
            device_stats: (),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostFiguresShape {
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

impl From<&HostStats> for HostFiguresShape {
    fn from(host: &HostStats) -> HostFiguresShape {
        let HostMemoryStats { total_bytes, available_bytes, used_bytes, free_bytes } = host.memory;
        HostFiguresShape {
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
