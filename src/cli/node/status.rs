//! `drover node status`: the list, and one node (cli.md 3.6).

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::node;
use crate::node::list::{ListOptions, allocs_of_node};
use crate::node::shapes::{HostStats, Node};
use crate::numbers;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::render::lists::alloc_table;
use crate::session::{Session, path};
use crate::shapes::Alloc;
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// list all nodes, or show one: what it offers and what runs there
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node status -self")]
pub struct NodeStatusCommand {
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
    /// show in detail what the machine uses at present
    #[argh(switch)]
    stats: bool,
    /// list the operating systems, too
    #[argh(switch)]
    os: bool,
    /// list ids and nothing else
    #[argh(switch)]
    quiet: bool,
    /// list at most so many
    #[argh(option, from_str_fn(numbers::per_page))]
    per_page: Option<u32>,
    /// token of the page to show, as the last page printed it
    #[argh(option)]
    page_token: Option<String>,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    node: Option<String>,
}

impl NodeStatusCommand {
    pub fn one(id: &str, verbose: bool) -> NodeStatusCommand {
        NodeStatusCommand {
            this: false,
            short: false,
            verbose,
            json: false,
            allocs: false,
            filter: None,
            stats: false,
            os: false,
            quiet: false,
            per_page: None,
            page_token: None,
            template: None,
            node: Some(id.to_string()),
        }
    }
}

impl NodeStatusCommand {
    fn list_options(&self) -> ListOptions<'_> {
        ListOptions {
            filter: self.filter.as_deref(),
            os: self.os,
            per_page: self.per_page,
            page_token: self.page_token.as_deref(),
            quiet: self.quiet,
            verbose: self.verbose,
            allocs: self.allocs,
        }
    }
}

impl CliCommand for NodeStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let one_node = self.node.is_some() || self.this;
        let for_lists = [
            (self.filter.is_some(), "-filter"),
            (self.allocs, "-allocs"),
            (self.os, "-os"),
            (self.quiet, "-quiet"),
            (self.per_page.is_some(), "-per-page"),
            (self.page_token.is_some(), "-page-token"),
        ];
        if let Some((_, flag)) = for_lists.iter().find(|(given, _)| *given && one_node) {
            return Err(CommandError::usage(format!("{flag} is for the list of nodes: leave the node out")));
        }
        if self.stats && !one_node {
            return Err(CommandError::usage("-stats is for one node: name it, or say -self"));
        }
        if self.short && !one_node {
            return Err(CommandError::usage("-short is for one node: name it, or say -self"));
        }
        match &self.node {
            Some(_) if self.this => return Err(CommandError::usage("-self takes no node id")),
            None if self.this => one(session, &self, objects, &own_node(session)?)?,
            None => node::list::show(session, self.list_options(), objects)?,
            Some(prefix) => one(session, &self, objects, &session.node_id(prefix)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub fn own_node(session: &Session) -> CommandResult<String> {
    let agent = session.client.get_value("/v1/agent/self", &[])?;
    let id = agent.pointer("/stats/client/node_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    id.map(str::to_string)
        .ok_or_else(|| CommandError::new("The agent that was asked is no client: it has no node"))
}

fn one(
    session: &Session,
    command: &NodeStatusCommand,
    objects: Option<Objects<'_>>,
    id: &str,
) -> CommandResult<()> {
    let value = session.client.get_value(&path("node", id), &[]).map_err(|e| match e.is_not_found() {
        true => CommandError::new(format!("No node(s) with prefix or id {id:?} found")),
        false => e.into(),
    })?;
    if let Some(objects) = objects {
        return session.out.objects(objects, &value);
    }
    let node: Node = decode(&value)?;
    let host = if command.short { None } else { node::usage::ask(session, &node) };
    session.out.text(&basics(&node, host.as_ref(), command.verbose || command.this))?;
    let allocs = allocs_of_node(session, id)?;
    if !command.short {
        if command.verbose {
            for (title, all, columns) in [
                ("Host Volumes", &node.host_volumes, &["Name", "ReadOnly", "Path"][..]),
                ("Host Networks", &node.host_networks, &["Name", "Interface", "ReservedPorts"][..]),
            ] {
                if let Some(all) = all {
                    session.out.section(title)?;
                    session.out.text(&offered(all, columns))?;
                }
            }
            session.out.section("Drivers")?;
            session.out.text(&driver_table(&node, session))?;
        }
        session.out.section("Node Events")?;
        session.out.text(&event_table(&node, session))?;
        session.out.section("Allocated Resources")?;
        session.out.text(&allocated(&node, &allocs))?;
    }
    if let Some(host) = &host {
        node::usage::show(session, &node, host, &allocs, command.stats)?;
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

fn basics(node: &Node, host: Option<&HostStats>, whole_id: bool) -> String {
    let drivers: Vec<&str> =
        node.drivers.iter().filter(|(_, d)| d.detected && d.healthy).map(|(n, _)| n.as_str()).collect();
    layout::key_values(&[
        ("ID", layout::id(&node.id, whole_id)),
        ("Name", node.name.clone()),
        ("Node Pool", node.node_pool.clone()),
        ("Class", node.node_class.clone()),
        ("DC", node.datacenter.clone()),
        ("Drain", node.drain.to_string()),
        ("Eligibility", node.scheduling_eligibility.clone()),
        ("Status", node.status.clone()),
        ("CSI Controllers", String::new()),
        ("CSI Drivers", String::new()),
        ("Uptime", host.map(|h| layout::units(h.uptime)).unwrap_or_default()),
        ("Host Volumes", names(node.host_volumes.as_ref())),
        ("Host Networks", names(node.host_networks.as_ref())),
        ("CSI Volumes", String::new()),
        ("Driver Status", drivers.join(",")),
    ])
}

fn names(all: Option<&BTreeMap<String, Value>>) -> String {
    all.into_iter().flatten().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
}

/// A line for each; its columns are named as the API's fields.
fn offered(all: &BTreeMap<String, Value>, columns: &[&str]) -> String {
    let cell = |one: &Value, column: &&str| match &one[*column] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |one: &Value| columns.iter().map(|column| cell(one, column)).collect();
    layout::table(columns, &all.values().map(row).collect::<Vec<_>>())
}

fn driver_table(node: &Node, session: &Session) -> String {
    let row = |(name, d): (&String, &crate::node::shapes::Driver)| {
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
    let row = |e: &crate::node::shapes::NodeEvent| {
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
        match node.node_max_allocs {
            0 => live.len().to_string(),
            most => format!("{}/{most}", live.len()),
        },
    ];
    layout::table(&["CPU", "Memory", "Disk", "Alloc Count"], &[row])
}

fn ratio(used_mb: i64, total_mb: i64) -> String {
    format!("{}/{}", layout::mib(used_mb), layout::mib(total_mb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::shapes::{NodeCpu, NodeDisk, NodeMemory, NodeResources};
    use crate::shapes::LegacyResources;

    #[test]
    fn each_host_volume_has_a_line() {
        let volume =
            |path: &str, read_only| serde_json::json!({ "Name": "x", "Path": path, "ReadOnly": read_only });
        let all = [("data", volume("/data", false)), ("keys", volume("/etc/keys", true))];
        let all = all.into_iter().map(|(name, v)| (name.to_string(), v)).collect();
        let expected = "ReadOnly  Path\nfalse     /data\ntrue      /etc/keys\n";
        assert_eq!(offered(&all, &["ReadOnly", "Path"]), expected);
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
        let allocs = [alloc("running"), alloc("pending"), alloc("complete")];
        assert_eq!(allocated(&node, &allocs), expected);
        let limited = Node { node_max_allocs: 5, ..node };
        assert!(allocated(&limited, &allocs).ends_with("  2/5\n"));
    }
}
