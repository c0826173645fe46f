//! What a machine and its allocations use at present, as `node status` shows it (cli.md 3.6.2, 3.6.3). A node that does not answer
//! leaves its sections out, with a warning.

use crate::error::{CommandError, CommandResult};
use crate::node::shapes::{HostCpuStats, HostDiskStats, HostMemoryStats, HostStats, Node};
use crate::render::layout;
use crate::session::{Session, path};
use crate::shapes::{Alloc, AllocResourceUsage, Usage};

/// Nothing when the node does not run or does not answer.
pub fn ask(session: &Session, node: &Node) -> Option<HostStats> {
    if node.status != "ready" {
        return None;
    }
    match session.client.get("/v1/client/stats", &[("node_id", &node.id)]) {
        Ok(figures) => Some(figures),
        Err(e) => {
            session.out.warning(&format!("What the node uses is not known: {}", CommandError::from(e)));
            None
        }
    }
}

/// The sections on what is used; with `detailed` each processor and each disk, too.
pub fn show(
    session: &Session,
    node: &Node,
    host: &HostStats,
    allocs: &[Alloc],
    detailed: bool,
) -> CommandResult<()> {
    session.out.section("Allocation Resource Utilization")?;
    session.out.text(&of_allocs(&used(session, allocs), node))?;
    session.out.section("Host Resource Utilization")?;
    session.out.text(&of_host(host, node))?;
    if !detailed {
        return Ok(());
    }
    session.out.section("CPU Stats")?;
    session.out.text(&blocks(host.cpus.iter().map(cpu_rows)))?;
    session.out.section("Memory Stats")?;
    session.out.text(&layout::key_values(&memory_rows(&host.memory)))?;
    session.out.section("Disk Stats")?;
    session.out.text(&blocks(host.disk_stats.iter().map(disk_rows)))?;
    session.out.section("Allocation Directory Stats")?;
    session.out.text(&layout::key_values(&disk_rows(&host.alloc_dir_stats)))
}

/// An allocation that has ended meanwhile is left out.
fn used(session: &Session, allocs: &[Alloc]) -> Vec<Usage> {
    let running = allocs.iter().filter(|a| a.client_status == "running");
    let usage = |alloc: &Alloc| {
        let stats = format!("{}/stats", path("client/allocation", &alloc.id));
        session.client.get::<AllocResourceUsage>(&stats, &[]).ok().map(|figures| figures.resource_usage)
    };
    running.filter_map(usage).collect()
}

fn of_allocs(used: &[Usage], node: &Node) -> String {
    // `sum` of no floats is -0.0, which would be shown
    let mhz = used.iter().fold(0.0, |sum, u| sum + u.cpu_stats.total_ticks);
    let rss = used.iter().map(|u| u.memory_stats.rss).sum();
    let memory = format!("{}/{}", layout::size(rss), layout::mib(node.node_resources.memory.memory_mb));
    layout::table(&["CPU", "Memory"], &[vec![processor(mhz, node), memory]])
}

fn of_host(host: &HostStats, node: &Node) -> String {
    let part = |used: u64, total: u64| format!("{}/{}", layout::size(used), layout::size(total));
    let disk = &host.alloc_dir_stats;
    let row = vec![
        processor(host.used_mhz, node),
        part(host.memory.used, host.memory.total),
        part(disk.used, disk.size),
    ];
    layout::table(&["CPU", "Memory", "Disk"], &[row])
}

fn processor(used_mhz: f64, node: &Node) -> String {
    format!("{used_mhz:.0}/{} MHz", node.node_resources.cpu.cpu_shares)
}

type Rows = Vec<(&'static str, String)>;

fn blocks(all: impl Iterator<Item = Rows>) -> String {
    all.map(|rows| layout::key_values(&rows)).collect::<Vec<_>>().join("\n")
}

fn cpu_rows(cpu: &HostCpuStats) -> Rows {
    let percent = |value: f64| format!("{value:.2}%");
    vec![
        ("CPU", cpu.name.clone()),
        ("User", percent(cpu.user)),
        ("System", percent(cpu.system)),
        ("Idle", percent(cpu.idle)),
    ]
}

fn memory_rows(memory: &HostMemoryStats) -> Rows {
    vec![
        ("Total", layout::size(memory.total)),
        ("Available", layout::size(memory.available)),
        ("Used", layout::size(memory.used)),
        ("Free", layout::size(memory.free)),
    ]
}

fn disk_rows(disk: &HostDiskStats) -> Rows {
    vec![
        ("Device", disk.device.clone()),
        ("MountPoint", disk.mountpoint.clone()),
        ("Size", layout::size(disk.size)),
        ("Used", layout::size(disk.used)),
        ("Available", layout::size(disk.available)),
        ("Used Percent", format!("{:.2}%", disk.used_percent)),
        ("Inodes Percent", format!("{:.2}%", disk.inodes_used_percent)),
    ]
}
