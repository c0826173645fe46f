//! Resource usage measured on a node: of the tasks of an allocation, and of the machine. Part of `client_rpc::ClientReply`.

use model::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocResourceUsage {
    /// By the name of each task that runs.
    pub tasks: BTreeMap<String, TaskResourceUsage>,
    pub at: Wall,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResourceUsage {
    /// The sum over its processes.
    pub usage: ResourceUsage,
    pub cgroup: CgroupUsage,
    pub processes: BTreeMap<u32, ResourceUsage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Percent of one core, in the last moments.
    pub user_percent: f64,
    pub system_percent: f64,
    /// The same in MHz.
    pub mhz: f64,
    pub rss_bytes: u64,
}

/// What the kernel counts for a task's control group; `None` where it does not count that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupUsage {
    /// Caches and the kernel's own memory included.
    pub memory_bytes: Option<u64>,
    pub max_memory_bytes: Option<u64>,
    pub cache_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub mapped_file_bytes: Option<u64>,
    pub kernel_bytes: Option<u64>,
    pub max_kernel_bytes: Option<u64>,
    /// Since the group was made, as all that follows.
    pub throttled_periods: Option<u64>,
    pub throttled_nanos: Option<u64>,
    pub cpu_nanos: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    pub memory: HostMemoryStats,
    pub cpus: Vec<HostCpuStats>,
    pub disks: Vec<HostDiskStats>,
    /// Where the allocations' directories lie.
    pub alloc_dir: HostDiskStats,
    pub uptime_seconds: u64,
    pub at: Wall,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostMemoryStats {
    pub total_bytes: u64,
    pub available_bytes: u64,
    pub used_bytes: u64,
    pub free_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCpuStats {
    pub name: String,
    pub user_percent: f64,
    pub system_percent: f64,
    pub idle_percent: f64,
    /// What is not idle, in MHz.
    pub mhz: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostDiskStats {
    pub device: String,
    pub mountpoint: String,
    pub size_bytes: u64,
    pub used_bytes: u64,
    pub available_bytes: u64,
    pub inodes_used_percent: f64,
}
