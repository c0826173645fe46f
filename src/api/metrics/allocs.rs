//! Metrics of each task's resource usage: which allocations are asked, and the names of their figures.
//!
//! Refuses to know: how use is measured.

use super::names::Labels;
use model::alloc::{Allocation, ClientStatus};
use model::id::{AllocId, NodeId};
use model::resources::TaskResources;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use wire::resource_usage::{AllocResourceUsage, TaskResourceUsage};

/// The most allocations that are measured: the answer must come before a collector gives up.
const MAX_ALLOCS: usize = 512;
const MIB: f64 = 1_048_576.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// A running allocation, and what its tasks have reserved.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningAlloc {
    pub id: AllocId,
    labels: Labels,
    tasks: BTreeMap<String, TaskResources>,
}

pub fn running(view: &View, node: NodeId) -> Result<Vec<RunningAlloc>, Fault> {
    let all = view.allocs_of_node(node)?.into_iter().filter(|a| a.client == ClientStatus::Running);
    Ok(all.take(MAX_ALLOCS).map(RunningAlloc::new).collect())
}

impl RunningAlloc {
    fn new(alloc: Allocation) -> RunningAlloc {
        let labels = [
            ("alloc_id", alloc.id.to_string()),
            ("job", alloc.job.id),
            ("namespace", alloc.job.namespace),
            ("task_group", alloc.group),
        ]
        .into_iter()
        .collect::<Labels>();
        RunningAlloc { id: alloc.id, labels, tasks: alloc.resources.tasks }
    }

    /// Gauges for each task that runs. `core_mhz`: of one core.
    pub fn gauges(&self, figures: &AllocResourceUsage, core_mhz: Option<f64>) -> Vec<(String, Labels, f64)> {
        let mut gauges = vec![];
        for (task, measured) in &figures.tasks {
            let mut labels = self.labels.clone();
            labels.insert("task", task.clone());
            let allocated = self.tasks.get(task).into_iter().flat_map(allocated);
            for (name, value) in allocated.chain(used(measured, core_mhz)) {
                gauges.push((format!("client.allocs.{name}"), labels.clone(), value));
            }
        }
        gauges
    }
}

/// `max_allocated` exists only for a task with `memory_max`.
fn allocated(resources: &TaskResources) -> impl Iterator<Item = (&'static str, f64)> {
    let max_mb = resources.held.memory_max_mb;
    let max = (max_mb > 0).then_some(("memory.max_allocated", max_mb as f64 * MIB));
    [("cpu.allocated", resources.cpu_mhz as f64), ("memory.allocated", resources.memory_mb as f64 * MIB)]
        .into_iter()
        .chain(max)
}

/// What was not measured has no metric.
fn used(measured: &TaskResourceUsage, core_mhz: Option<f64>) -> impl Iterator<Item = (&'static str, f64)> {
    let TaskResourceUsage { usage, cgroup, .. } = measured;
    let whole = |n: Option<u64>| n.map(|n| n as f64);
    let cpu_seconds = cgroup.cpu_nanos.map(|nanos| nanos as f64 / NANOS_PER_SECOND);
    [
        ("cpu.user", Some(usage.user_percent)),
        ("cpu.system", Some(usage.system_percent)),
        ("cpu.total_percent", Some(usage.user_percent + usage.system_percent)),
        ("cpu.total_ticks", Some(usage.mhz)),
        ("memory.rss", Some(usage.rss_bytes as f64)),
        ("cpu.total_ticks_count", cpu_seconds.zip(core_mhz).map(|(seconds, mhz)| seconds * mhz)),
        ("cpu.throttled_periods", whole(cgroup.throttled_periods)),
        ("cpu.throttled_time", whole(cgroup.throttled_nanos)),
        ("memory.usage", whole(cgroup.memory_bytes)),
        ("memory.max_usage", whole(cgroup.max_memory_bytes)),
        ("memory.cache", whole(cgroup.cache_bytes)),
        ("memory.swap", whole(cgroup.swap_bytes)),
        ("memory.mapped_file", whole(cgroup.mapped_file_bytes)),
        ("memory.kernel_usage", whole(cgroup.kernel_bytes)),
        ("memory.kernel_max_usage", whole(cgroup.max_kernel_bytes)),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.map(|value| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_memory_is_told_of_a_task_that_asks_for_more() {
        let mut resources = TaskResources { memory_mb: 16, ..TaskResources::default() };
        let told = |resources: &TaskResources| allocated(resources).last().expect("is told");
        assert_eq!(told(&resources), ("memory.allocated", 16.0 * MIB));
        resources.held.memory_max_mb = 64;
        assert_eq!(told(&resources), ("memory.max_allocated", 64.0 * MIB));
    }
}
