//! What views show: order, pages, prefixes.

use crate::samples::*;
use crate::view::Table;
use model::id::{AllocId, EvalId, JobKey};
use wire::command::Command;

fn named(region: &mut Region, namespace: &str, id: &str) {
    let mut spec = spec(id, 1);
    spec.namespace = namespace.into();
    region.run(&self::namespace(namespace, ""));
    region.run(&register(spec, None));
}

#[test]
fn jobs_come_by_namespace_and_id_in_pages() {
    let mut region = Region::default();
    for (namespace, id) in [
        ("default", "web"),
        ("a", "web"),
        ("default", "we"),
        ("default", "web-2"),
        ("default", "x"),
        ("default2", "w"),
    ] {
        named(&mut region, namespace, id);
    }
    let view = region.view();
    let list = |namespace, prefix, after: Option<JobKey>, limit| -> Vec<String> {
        let jobs = view.jobs(namespace, prefix, after.as_ref(), limit).expect("reads");
        jobs.iter().map(|j| j.spec.key().to_string()).collect()
    };
    let all = ["a/web", "default/we", "default/web", "default/web-2", "default/x", "default2/w"];
    assert_eq!(list(None, "", None, 100), all);
    assert_eq!(list(None, "web", None, 100), ["a/web", "default/web", "default/web-2"]);
    assert_eq!(list(Some("default"), "", None, 100), all[1..5]);
    assert_eq!(list(Some("default"), "web", None, 100), all[2..4]);
    assert_eq!(list(Some("default"), "", None, 2), all[1..3]);
    assert_eq!(list(Some("default"), "", Some(key("web")), 100), all[3..5]);
    assert_eq!(list(None, "", Some(key("nothing")), 100), all[1..]);
    assert_eq!(list(Some("default"), "", Some(JobKey::new("a", "web")), 1), ["default/we"]);
    assert!(list(Some("none"), "", None, 100).is_empty() && list(None, "", None, 0).is_empty());
}

#[test]
fn evaluations_and_allocations_come_by_creation() {
    let mut region = Region::default();
    let node = region.ready_node(1);
    region.run(&register(spec("a", 1), None));
    let job = region.job("a");
    for n in [5, 3, 4] {
        let evals = vec![eval(n, "a"), eval(n + 10, "a")];
        region.run(&Command::UpdateEvals { evals, at: AT });
        let nodes = place(vec![alloc(n, &job, node, eval_id(n))]);
        region.run(&Command::ApplyPlan {
            eval: eval_id(n),
            nodes,
            deployment: None,
            updates: vec![],
            evals: vec![],
            at: AT,
        });
    }
    let view = region.view();
    let evals = view.evals(None, 100).expect("reads");
    assert_eq!(evals.iter().map(|e| e.id).collect::<Vec<_>>(), [5, 15, 3, 13, 4, 14].map(eval_id));
    assert_eq!(view.evals_of_job(&key("a")).expect("reads"), evals);
    let second = &evals[1];
    assert_eq!(view.evals(Some((second.create_index, second.id)), 2).expect("reads"), evals[2..4]);
    let allocs = view.allocs(None, 100).expect("reads");
    assert_eq!(allocs.iter().map(|a| a.id).collect::<Vec<_>>(), [5, 3, 4].map(alloc_id));
    let first = &allocs[0];
    assert_eq!(view.allocs(Some((first.create_index, first.id)), 100).expect("reads"), allocs[1..]);
    let on_node: Vec<AllocId> =
        view.alloc_indexes_of_node(node).expect("reads").iter().map(|(id, _)| *id).collect();
    assert_eq!(on_node, [3, 4, 5].map(alloc_id));
    assert_eq!(view.table_index(Table::Allocs), allocs[2].modify_index);
}

#[test]
fn ids_are_found_by_any_number_of_hex_digits() {
    let mut region = Region::default();
    let ids: Vec<EvalId> =
        [0x1234_u128 << 112, 0x1235 << 112, 0x12f0 << 112, 0xf << 124].map(EvalId::from_random).into();
    let evals = ids.iter().map(|id| model::eval::Evaluation { id: *id, ..eval(1, "a") }).collect();
    region.run(&Command::UpdateEvals { evals, at: AT });
    let view = region.view();
    let full = ids[1].to_string();
    for (prefix, found) in [
        ("", &ids[..]),
        ("1", &ids[..3]),
        ("12", &ids[..3]),
        ("123", &ids[..2]),
        ("1234", &ids[..1]),
        ("F", &ids[3..]),
        ("2", &[]),
        ("12x", &[]),
        (full.as_str(), &ids[1..2]),
        (&full[..10], &ids[1..2]),
    ] {
        assert_eq!(view.eval_ids(prefix, 100).expect("reads"), found, "{prefix:?}");
    }
    assert_eq!(view.eval_ids("1", 2).expect("reads"), ids[..2]);
    assert!(view.eval_ids(&format!("{full}0"), 9).expect("reads").is_empty(), "longer than an id");
}
