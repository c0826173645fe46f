//! The answers of the `why` routes as JSON.

use model::alloc::NodeScore;
use serde_json::{Value, json};
use wire::why::{GroupWhy, HistoryEntry, Missing, Reason, Why};

pub fn shown(why: &Why) -> Value {
    json!({
        "Namespace": why.job.namespace,
        "JobID": why.job.id,
        "Summary": why.summary,
        "Groups": why.groups.iter().map(group).collect::<Vec<_>>(),
        "PlacedBy": why.then.iter().map(score).collect::<Vec<_>>(),
        "History": why.history.iter().map(link).collect::<Vec<_>>(),
        "Index": why.index,
    })
}

fn group(g: &GroupWhy) -> Value {
    let nearest = g.nearest.as_ref().map(|n| {
        let missing: Vec<Value> = n.missing.iter().map(missing).collect();
        json!({"NodeID": n.node.to_string(), "NodeName": n.name, "Missing": missing})
    });
    json!({
        "Name": g.name,
        "Count": g.count,
        "EachNode": g.each_node,
        "Live": g.live,
        "Nodes": g.nodes,
        "Feasible": g.feasible,
        "Reasons": g.reasons.iter().map(reason).collect::<Vec<_>>(),
        "Nearest": nearest,
        "Preemption": {"Nodes": g.preemptable_nodes, "LookedAt": g.looked_at, "Allowed": g.preempts},
        "Best": g.best.iter().map(score).collect::<Vec<_>>(),
    })
}

fn reason(r: &Reason) -> Value {
    json!({
        "Reason": r.text,
        "Nodes": r.nodes,
        "Alone": r.alone,
        "Asked": r.amount.map(|a| a.asked),
        "WouldDo": r.amount.and_then(|a| a.would_do),
    })
}

fn missing(m: &Missing) -> Value {
    json!({"Dimension": m.what, "Missing": m.missing, "Asked": m.asked})
}

fn score((score, name): &(NodeScore, String)) -> Value {
    json!({
        "NodeID": score.node_id.to_string(),
        "NodeName": name,
        "Scores": score.by_name(),
        "NormScore": score.normalized,
    })
}

fn link(l: &HistoryEntry) -> Value {
    json!({"Time": l.at.0, "Kind": l.kind, "ID": l.id, "Text": l.text})
}
