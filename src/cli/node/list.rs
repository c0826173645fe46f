//! `drover node status` without a node: the list (cli.md 3.6.1).

use crate::http::decode;
use crate::node::shapes::NodeStub;
use crate::node::status::{NodeStatus, allocs_of};
use crate::output::{Objects, Outcome};
use crate::render::layout;
use crate::session::Session;

pub fn show(session: &Session, command: &NodeStatus, objects: Option<Objects<'_>>) -> Outcome<()> {
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
    let columns = Columns { os: command.os, verbose: command.verbose };
    session.out.text(&table(&nodes, running.as_deref(), columns))?;
    if !next.is_empty() {
        session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
    }
    Ok(())
}

/// The count of running allocations by node.
fn running(session: &Session, nodes: &[NodeStub]) -> Outcome<Vec<usize>> {
    let count = |node: &NodeStub| {
        let allocs = allocs_of(session, &node.id)?;
        Ok(allocs.iter().filter(|a| a.client_status == "running").count())
    };
    nodes.iter().map(count).collect()
}

/// Those that are not always there.
#[derive(Clone, Copy, Default)]
pub struct Columns {
    pub os: bool,
    pub verbose: bool,
}

pub fn table(nodes: &[NodeStub], running: Option<&[usize]>, columns: Columns) -> String {
    let mut header = vec!["ID", "Node Pool", "DC", "Name", "Class"];
    if columns.os {
        header.push("OS");
    }
    if columns.verbose {
        header.extend(["Address", "Version"]);
    }
    header.extend(["Drain", "Eligibility", "Status"]);
    if running.is_some() {
        header.push("Running Allocs");
    }
    let row = |(i, n): (usize, &NodeStub)| {
        let mut row = vec![
            layout::id(&n.id, columns.verbose),
            n.node_pool.clone(),
            n.datacenter.clone(),
            n.name.clone(),
            n.node_class.clone(),
        ];
        if columns.os {
            row.push(n.attributes.get("os.name").cloned().unwrap_or_default());
        }
        if columns.verbose {
            row.extend([n.address.clone(), n.version.clone()]);
        }
        row.extend([n.drain.to_string(), n.scheduling_eligibility.clone(), n.status.clone()]);
        row.extend(running.map(|counts| counts.get(i).copied().unwrap_or(0).to_string()));
        row
    };
    layout::table(&header, &nodes.iter().enumerate().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_as_in_their_reference() {
        let node = NodeStub {
            id: "aabbccdd-0000-0000-0000-000000000000".to_string(),
            node_pool: "default".to_string(),
            datacenter: "dc1".to_string(),
            name: "edge-1".to_string(),
            scheduling_eligibility: "eligible".to_string(),
            status: "ready".to_string(),
            attributes: [("os.name".to_string(), "debian".to_string())].into(),
            ..NodeStub::default()
        };
        let expected = "\
ID        Node Pool  DC   Name    Class   Drain  Eligibility  Status
aabbccdd  default    dc1  edge-1  <none>  false  eligible     ready
";
        assert_eq!(table(std::slice::from_ref(&node), None, Columns::default()), expected);
        let expected = "\
ID        Node Pool  DC   Name    Class   OS      Drain  Eligibility  Status  Running Allocs
aabbccdd  default    dc1  edge-1  <none>  debian  false  eligible     ready   3
";
        assert_eq!(table(&[node], Some(&[3]), Columns { os: true, verbose: false }), expected);
    }
}
