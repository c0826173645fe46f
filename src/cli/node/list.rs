//! `drover node status` without a node: the list (cli.md 3.6.1).

use crate::error::CommandResult;
use crate::http::decode;
use crate::node::shapes::NodeStub;
use crate::output::Objects;
use crate::render::layout;
use crate::render::lists::{NodeColumns, node_table};
use crate::session::{Session, path};
use crate::shapes::Alloc;

/// What the flags of the list say.
#[derive(Clone, Copy)]
pub struct ListOptions<'a> {
    pub filter: Option<&'a str>,
    pub os: bool,
    pub per_page: Option<u32>,
    pub page_token: Option<&'a str>,
    pub quiet: bool,
    pub verbose: bool,
    /// Count the running allocations of each node.
    pub allocs: bool,
}

pub fn show(session: &Session, list: ListOptions<'_>, objects: Option<Objects<'_>>) -> CommandResult<()> {
    let per_page = list.per_page.map(|n| n.to_string());
    let given = [
        ("filter", list.filter),
        ("os", list.os.then_some("true")),
        ("per_page", per_page.as_deref()),
        ("next_token", list.page_token),
    ];
    let query: Vec<_> = given.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let (value, next) = session.client.get_page("/v1/nodes", &query)?;
    if let Some(objects) = objects {
        return session.out.objects(objects, &value);
    }
    let nodes: Vec<NodeStub> = decode(&value)?;
    if list.quiet {
        return nodes.iter().try_for_each(|n| session.out.line(&layout::id(&n.id, list.verbose)));
    }
    if nodes.is_empty() {
        let none = list.filter.map_or("No nodes registered", |_| "No nodes match the filter");
        return session.out.line(none);
    }
    let running = if list.allocs { Some(running(session, &nodes)?) } else { None };
    let columns = NodeColumns { os: list.os, verbose: list.verbose };
    session.out.text(&node_table(&nodes, running.as_deref(), columns))?;
    if !next.is_empty() {
        session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
    }
    Ok(())
}

/// The count of running allocations by node.
fn running(session: &Session, nodes: &[NodeStub]) -> CommandResult<Vec<usize>> {
    let count = |node: &NodeStub| {
        let allocs = allocs_of_node(session, &node.id)?;
        Ok(allocs.iter().filter(|a| a.client_status == "running").count())
    };
    nodes.iter().map(count).collect()
}

pub fn allocs_of_node(session: &Session, node: &str) -> CommandResult<Vec<Alloc>> {
    Ok(session.client.get(&format!("{}/allocations", path("node", node)), &[])?)
}
