//! `drover node status`: the list, and one node (reference: cli 3.6).

use crate::cli::Run;
use crate::cli::alloc_status::alloc_table;
use crate::cli::http::decode;
use crate::cli::layout;
use crate::cli::output::{Failure, Outcome, refuse_template};
use crate::cli::session::{Session, path};
use crate::cli::shapes::{Alloc, Node, NodeStub};
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::process::ExitCode;

/// list all nodes, or show one: what it offers and what runs there
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node status -self")]
pub struct NodeStatus {
    /// show the node of the agent that is asked
    #[argh(switch, long = "self")]
    this: bool,
    /// show only what the node is, and its allocations
    #[argh(switch)]
    short: bool,
    /// show ids in full, attributes and metadata
    #[argh(switch)]
    verbose: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// count the running allocations of each node
    #[argh(switch)]
    allocs: bool,
    /// list only the nodes that this expression matches
    #[argh(option, arg_name = "expression")]
    filter: Option<String>,
    /// what its allocations use: not supported yet
    #[argh(switch)]
    stats: bool,
    /// a Go template for the output: not supported yet
    #[argh(option, long = "t")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    node: Option<String>,
}

impl NodeStatus {
    pub fn one(id: &str, verbose: bool) -> NodeStatus {
        NodeStatus {
            this: false,
            short: false,
            verbose,
            json: false,
            allocs: false,
            filter: None,
            stats: false,
            template: None,
            node: Some(id.to_string()),
        }
    }
}

impl Run for NodeStatus {
    fn run(self, session: &mut Session) -> Outcome<ExitCode> {
        show(session, &self)
    }
}

pub fn show(session: &Session, command: &NodeStatus) -> Outcome<ExitCode> {
    refuse_template(command.template.as_deref())?;
    if command.stats {
        return Err(Failure::new("not supported yet: -stats"));
    }
    match &command.node {
        node if command.filter.is_some() && (node.is_some() || command.this) => {
            return Err(Failure::usage("-filter is for the list of nodes: leave the node out"));
        }
        Some(_) if command.this => return Err(Failure::usage("-self takes no node id")),
        None if command.this => one(session, command, &own_node(session)?)?,
        None => list(session, command)?,
        Some(prefix) => one(session, command, &session.node_id(prefix)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn own_node(session: &Session) -> Outcome<String> {
    let agent = session.client.get_value("/v1/agent/self", &[])?;
    let id = agent.pointer("/stats/client/node_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    id.map(str::to_string)
        .ok_or_else(|| Failure::new("The agent that was asked is no client: it has no node"))
}

fn list(session: &Session, command: &NodeStatus) -> Outcome<()> {
    let filter: Vec<_> = command.filter.iter().map(|filter| ("filter", filter.as_str())).collect();
    let value = session.client.get_value("/v1/nodes", &filter)?;
    if command.json {
        return session.out.json(&value);
    }
    let nodes: Vec<NodeStub> = decode(&value)?;
    let mut running = Vec::new();
    if command.allocs {
        for node in &nodes {
            running
                .push(allocs_of(session, &node.id)?.iter().filter(|a| a.client_status == "running").count());
        }
    }
    if nodes.is_empty() {
        let none = command.filter.as_ref().map_or("No nodes registered", |_| "No nodes match the filter");
        return session.out.line(none);
    }
    session.out.text(&node_table(&nodes, &running, command.allocs, command.verbose))
}

/// `running`: of each node the count of its running allocations, shown with `with_allocs`.
pub fn node_table(nodes: &[NodeStub], running: &[usize], with_allocs: bool, verbose: bool) -> String {
    let mut header = vec!["ID", "Node Pool", "DC", "Name", "Class"];
    if verbose {
        header.extend(["Address", "Version"]);
    }
    header.extend(["Drain", "Eligibility", "Status"]);
    if with_allocs {
        header.push("Running Allocs");
    }
    let row = |(i, n): (usize, &NodeStub)| {
        let mut row = vec![
            layout::id(&n.id, verbose),
            n.node_pool.clone(),
            n.datacenter.clone(),
            n.name.clone(),
            n.node_class.clone(),
        ];
        if verbose {
            row.extend([n.address.clone(), n.version.clone()]);
        }
        row.extend([n.drain.to_string(), n.scheduling_eligibility.clone(), n.status.clone()]);
        if with_allocs {
            row.push(running.get(i).copied().unwrap_or(0).to_string());
        }
        row
    };
    layout::table(&header, &nodes.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn allocs_of(session: &Session, node: &str) -> Outcome<Vec<Alloc>> {
    Ok(session.client.get(&format!("{}/allocations", path("node", node)), &[])?)
}

fn one(session: &Session, command: &NodeStatus, id: &str) -> Outcome<()> {
    let value = session.client.get_value(&path("node", id), &[]).map_err(|e| match e.is_not_found() {
        true => Failure::new(format!("No node(s) with prefix or id {id:?} found")),
        false => e.into(),
    })?;
    if command.json {
        return session.out.json(&value);
    }
    let node: Node = decode(&value)?;
    session.out.text(&basics(&node, command.verbose))?;
    let allocs = allocs_of(session, id)?;
    if !command.short {
        if command.verbose {
            session.out.section("Drivers")?;
            session.out.text(&driver_table(&node, session))?;
        }
        session.out.section("Node Events")?;
        session.out.text(&event_table(&node, session))?;
        session.out.section("Allocated Resources")?;
        session.out.text(&allocated(&node, &allocs))?;
    }
    session.out.section("Allocations")?;
    if allocs.is_empty() {
        session.out.line("No allocations placed")?;
    } else {
        session.out.text(&alloc_table(&allocs, session.now(), command.verbose))?;
    }
    if command.verbose && !command.short {
        for (title, map) in [("Attributes", &node.attributes), ("Meta", &node.meta)] {
            session.out.section(title)?;
            let rows: Vec<_> = map.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
            session.out.text(&layout::key_values(&rows))?;
        }
    }
    Ok(())
}

fn basics(node: &Node, verbose: bool) -> String {
    let drivers: Vec<&str> =
        node.drivers.iter().filter(|(_, d)| d.detected && d.healthy).map(|(n, _)| n.as_str()).collect();
    layout::key_values(&[
        ("ID", layout::id(&node.id, verbose)),
        ("Name", node.name.clone()),
        ("Node Pool", node.node_pool.clone()),
        ("Class", node.node_class.clone()),
        ("DC", node.datacenter.clone()),
        ("Drain", node.drain.to_string()),
        ("Eligibility", node.scheduling_eligibility.clone()),
        ("Status", node.status.clone()),
        ("CSI Controllers", String::new()),
        ("CSI Drivers", String::new()),
        ("Host Volumes", String::new()),
        ("Host Networks", String::new()),
        ("CSI Volumes", String::new()),
        ("Driver Status", drivers.join(",")),
    ])
}

fn driver_table(node: &Node, session: &Session) -> String {
    let row = |(name, d): (&String, &crate::cli::shapes::Driver)| {
        vec![
            name.clone(),
            d.detected.to_string(),
            d.healthy.to_string(),
            d.health_description.clone(),
            session.time(layout::unix_nanos(&d.update_time)),
        ]
    };
    let header = ["Driver", "Detected", "Healthy", "Message", "Time"];
    layout::table(&header, &node.drivers.iter().map(row).collect::<Vec<_>>())
}

/// Newest first.
fn event_table(node: &Node, session: &Session) -> String {
    let row = |e: &crate::cli::shapes::NodeEvent| {
        vec![session.time(layout::unix_nanos(&e.timestamp)), e.subsystem.clone(), e.message.clone()]
    };
    layout::table(&["Time", "Subsystem", "Message"], &node.events.iter().rev().map(row).collect::<Vec<_>>())
}

/// What the allocations that are not over were promised, of what is left after the reservation.
fn allocated(node: &Node, allocs: &[Alloc]) -> String {
    let live: Vec<&Alloc> = allocs
        .iter()
        .filter(|a| matches!(a.client_status.as_str(), "running" | "pending" | "unknown"))
        .collect();
    let sum = |part: fn(&Alloc) -> i64| live.iter().map(|a| part(a)).sum::<i64>();
    let (total, reserved) = (&node.node_resources, &node.reserved_resources);
    let row = vec![
        format!("{}/{} MHz", sum(|a| a.resources.cpu), total.cpu.cpu_shares - reserved.cpu.cpu_shares),
        ratio(sum(|a| a.resources.memory_mb), total.memory.memory_mb - reserved.memory.memory_mb),
        ratio(sum(|a| a.resources.disk_mb), total.disk.disk_mb - reserved.disk.disk_mb),
        live.len().to_string(),
    ];
    layout::table(&["CPU", "Memory", "Disk", "Alloc Count"], &[row])
}

fn ratio(used_mb: i64, total_mb: i64) -> String {
    format!("{}/{}", layout::mib(used_mb), layout::mib(total_mb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shapes::{LegacyResources, NodeCpu, NodeDisk, NodeMemory, NodeResources};

    #[test]
    fn nodes_are_listed_as_in_their_reference() {
        let node = NodeStub {
            id: "aabbccdd-0000-0000-0000-000000000000".to_string(),
            node_pool: "default".to_string(),
            datacenter: "dc1".to_string(),
            name: "edge-1".to_string(),
            scheduling_eligibility: "eligible".to_string(),
            status: "ready".to_string(),
            ..NodeStub::default()
        };
        let expected = "\
ID        Node Pool  DC   Name    Class   Drain  Eligibility  Status
aabbccdd  default    dc1  edge-1  <none>  false  eligible     ready
";
        assert_eq!(node_table(&[node], &[], false, false), expected);
    }

    #[test]
    fn allocated_resources_are_of_live_allocations() {
        let resources = |cpu, memory_mb, disk_mb| NodeResources {
            cpu: NodeCpu { cpu_shares: cpu },
            memory: NodeMemory { memory_mb },
            disk: NodeDisk { disk_mb },
        };
        let node = Node {
            node_resources: resources(4_100, 7_882, 40_960),
            reserved_resources: resources(100, 100, 0),
            ..Node::default()
        };
        let alloc = |status: &str| Alloc {
            client_status: status.to_string(),
            resources: LegacyResources {
                cpu: 150,
                memory_mb: 300,
                disk_mb: 300,
                ..LegacyResources::default()
            },
            ..Alloc::default()
        };
        let expected = "\
CPU           Memory           Disk            Alloc Count
300/4000 MHz  600 MiB/7.6 GiB  600 MiB/40 GiB  2
";
        assert_eq!(allocated(&node, &[alloc("running"), alloc("pending"), alloc("complete")]), expected);
    }
}
