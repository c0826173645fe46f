//! `drover node status` without a node: the list (cli.md 3.6.1).

use crate::error::CommandResult;
use crate::http::decode;
use crate::node::shapes::NodeStub;
use crate::node::status::{NodeStatus, allocs_of};
use crate::output::Objects;
use crate::render::layout;
use crate::render::lists::{NodeColumns, node_table};
use crate::session::Session;

pub fn show(session: &Session, command: &NodeStatus, objects: Option<Objects<'_>>) -> CommandResult<()> {
    let per_page = command.per_page.map(|n| n.to_string());
    let given = [
        ("filter", command.filter.as_deref()),
        ("os", command.os.then_some("true")),
        ("per_page", per_page.as_deref()),
        ("next_token", command.page_token.as_deref()),
    ];
    let query: Vec<_> = given.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let (value, next) = session.client.get_page("/v1/nodes", &query)?;
    if let Some(objects) = objects {
        return session.out.objects(objects, &value);
    }
    let nodes: Vec<NodeStub> = decode(&value)?;
    if command.quiet {
        return nodes.iter().try_for_each(|n| session.out.line(&layout::id(&n.id, command.verbose)));
    }
    if nodes.is_empty() {
        let none = command.filter.as_ref().map_or("No nodes registered", |_| "No nodes match the filter");
        return session.out.line(none);
    }
    let running = if command.allocs { Some(running(session, &nodes)?) } else { None };
    let columns = NodeColumns { os: command.os, verbose: command.verbose };
    session.out.text(&node_table(&nodes, running.as_deref(), columns))?;
    if !next.is_empty() {
        session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
    }
    Ok(())
}

/// The count of running allocations by node.
fn running(session: &Session, nodes: &[NodeStub]) -> CommandResult<Vec<usize>> {
    let count = |node: &NodeStub| {
        let allocs = allocs_of(session, &node.id)?;
        Ok(allocs.iter().filter(|a| a.client_status == "running").count())
    };
    nodes.iter().map(count).collect()
}
