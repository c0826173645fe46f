//! The tables of allocations, evaluations and nodes that several commands show. Pure.

use crate::node::shapes::NodeStub;
use crate::render::layout;
use crate::shapes::{Alloc, Eval};

/// The columns of `job status`, newest first (cli.md 3.2.5).
pub fn alloc_table(allocs: &[Alloc], now: i64, verbose: bool) -> String {
    let mut sorted: Vec<&Alloc> = allocs.iter().collect();
    sorted.sort_by_key(|a| std::cmp::Reverse(a.create_index));
    let short = |full: &str| layout::id(full, verbose);
    let row = |a: &&Alloc| {
        let mut row = vec![
            short(&a.id),
            short(&a.node_id),
            a.task_group.clone(),
            a.version().to_string(),
            a.desired_status.clone(),
            a.client_status.clone(),
            layout::relative(a.create_time, now),
            layout::relative(a.modify_time, now),
        ];
        if verbose {
            row.insert(1, short(&a.eval_id));
            row.insert(3, a.node_name.clone());
        }
        row
    };
    let mut header =
        vec!["ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"];
    if verbose {
        header.insert(1, "Eval ID");
        header.insert(3, "Node Name");
    }
    layout::table(&header, &sorted.iter().map(row).collect::<Vec<_>>())
}

pub fn eval_table(evals: &[Eval], verbose: bool) -> String {
    let row = |e: &Eval| {
        vec![
            layout::id(&e.id, verbose),
            e.priority.to_string(),
            e.triggered_by.clone(),
            e.job_id.clone(),
            e.namespace.clone(),
            layout::id(&e.node_id, verbose),
            e.status.clone(),
            failures(e).to_string(),
        ]
    };
    let header =
        ["ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"];
    layout::table(&header, &evals.iter().map(row).collect::<Vec<_>>())
}

/// What is told of an evaluation's placements in a column.
pub fn failures(eval: &Eval) -> &'static str {
    match eval.status.as_str() {
        "blocked" => "N/A - In Progress",
        _ if eval.failed_tg_allocs.is_empty() => "false",
        _ => "true",
    }
}

/// Those that are not always there.
#[derive(Clone, Copy, Default)]
pub struct NodeColumns {
    pub os: bool,
    pub verbose: bool,
}

pub fn node_table(nodes: &[NodeStub], running: Option<&[usize]>, columns: NodeColumns) -> String {
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
    fn evaluations_are_laid_out_as_their_reference() {
        let eval = Eval {
            id: "0123456789".into(),
            priority: 50,
            triggered_by: "job-register".into(),
            job_id: "cache".into(),
            namespace: "default".into(),
            status: "complete".into(),
            ..Eval::default()
        };
        let expected = "\
ID        Priority  Triggered By  Job ID  Namespace  Node ID  Status    Placement Failures
01234567  50        job-register  cache   default    <none>   complete  false
";
        assert_eq!(eval_table(&[eval], false), expected);
    }

    #[test]
    fn failures_are_known_once_it_has_ended() {
        let eval = |status: &str, failed: bool| {
            let groups = failed.then(|| ("g".to_string(), Default::default()));
            Eval { status: status.into(), failed_tg_allocs: groups.into_iter().collect(), ..Eval::default() }
        };
        assert_eq!(failures(&eval("complete", false)), "false");
        assert_eq!(failures(&eval("complete", true)), "true");
        assert_eq!(failures(&eval("blocked", true)), "N/A - In Progress");
    }

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
        assert_eq!(node_table(std::slice::from_ref(&node), None, NodeColumns::default()), expected);
        let expected = "\
ID        Node Pool  DC   Name    Class   OS      Drain  Eligibility  Status  Running Allocs
aabbccdd  default    dc1  edge-1  <none>  debian  false  eligible     ready   3
";
        assert_eq!(node_table(&[node], Some(&[3]), NodeColumns { os: true, verbose: false }), expected);
    }
}
