//! What the commands read of nodes in the API's answers (http-api.md). Everything has a default: an older agent may say less.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeStub {
    #[serde(rename = "ID")]
    pub id: String,
    pub address: String,
    pub datacenter: String,
    pub name: String,
    pub node_pool: String,
    pub node_class: String,
    pub version: String,
    pub drain: bool,
    pub scheduling_eligibility: String,
    pub status: String,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Node {
    #[serde(rename = "ID")]
    pub id: String,
    pub datacenter: String,
    pub name: String,
    pub node_pool: String,
    pub node_class: String,
    pub drain: bool,
    pub scheduling_eligibility: String,
    pub status: String,
    pub attributes: BTreeMap<String, String>,
    pub meta: BTreeMap<String, String>,
    pub drivers: BTreeMap<String, Driver>,
    /// Oldest first.
    pub events: Vec<NodeEvent>,
    pub node_resources: NodeResources,
    pub reserved_resources: NodeResources,
    pub host_volumes: Option<BTreeMap<String, Value>>,
    pub host_networks: Option<BTreeMap<String, Value>>,
    /// 0: it was not said.
    pub node_max_allocs: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Driver {
    pub detected: bool,
    pub healthy: bool,
    pub health_description: String,
    pub update_time: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEvent {
    pub message: String,
    pub subsystem: String,
    pub timestamp: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeResources {
    pub cpu: NodeCpu,
    pub memory: NodeMemory,
    pub disk: NodeDisk,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeCpu {
    /// MHz.
    pub cpu_shares: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeMemory {
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeDisk {
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

/// What `client/stats` answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostStats {
    pub memory: HostMemoryStats,
    #[serde(rename = "CPU")]
    pub cpus: Vec<HostCpuStats>,
    pub disk_stats: Vec<HostDiskStats>,
    pub alloc_dir_stats: HostDiskStats,
    /// Seconds.
    pub uptime: u64,
    #[serde(rename = "CPUTicksConsumed")]
    pub used_mhz: f64,
}

/// Bytes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostMemoryStats {
    pub total: u64,
    pub available: u64,
    pub used: u64,
    pub free: u64,
}

/// Percent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostCpuStats {
    #[serde(rename = "CPU")]
    pub name: String,
    pub user: f64,
    pub system: f64,
    pub idle: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostDiskStats {
    pub device: String,
    pub mountpoint: String,
    pub size: u64,
    pub used: u64,
    pub available: u64,
    pub used_percent: f64,
    pub inodes_used_percent: f64,
}
