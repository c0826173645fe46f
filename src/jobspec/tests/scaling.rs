//! How far a group may be scaled, from both languages.

use super::accepted::{changed, decode};
use super::*;
use crate::decode_job;
use model::scaling::{Scaling, ScalingType, TaskScaling};
use model::value::Value as Plain;
use serde_json::json;

fn group(count: &str, scaling: &str) -> Value {
    with(&format!(
        "group \"g\" {{\n{count}\n scaling {{\n{scaling}\n}}\n task \"t\" {{\n driver = \"d\"\n}}\n}}"
    ))
}

#[test]
fn count_and_limits_fill_each_other_in() {
    let scaling = |min, max| Scaling { min, max, enabled: true, ..Scaling::default() };
    for (count, words, expected) in [
        ("", "max = 3", (1, scaling(1, 3))),
        ("count = 2", "max = 3", (2, scaling(2, 3))),
        ("", "min = 2\n max = 3", (2, scaling(2, 3))),
        ("count = 3", "min = 2\n max = 4\n type = \"\"", (3, scaling(2, 4))),
        ("count = 0", "max = 4\n enabled = false", (0, Scaling { enabled: false, ..scaling(0, 4) })),
    ] {
        let spec = decode(&group(count, words));
        let found = &spec.groups[0];
        assert_eq!((found.count, found.scaling.clone()), (expected.0, Some(expected.1)), "{count} {words}");
    }
    let json = |scaling| decode(&changed("/TaskGroups/0/Scaling", scaling)).groups.remove(0);
    assert_eq!(json(json!({"Max": 3})).scaling, Some(scaling(1, 3)));
    assert_eq!(json(json!({})).scaling, Some(scaling(1, Scaling::NO_MAX)));
    assert_eq!(json(json!(null)).scaling, None);
    let shown = json!({"ID": "x", "Type": "horizontal", "Target": {"Job": "a"}, "Min": 1, "Max": 2, "Enabled": true,
        "Policy": null, "CreateIndex": 7, "ModifyIndex": 7, "Namespace": ""});
    assert_eq!(json(shown).scaling, Some(scaling(1, 2)), "what servers say of it is theirs to say");
}

#[test]
fn a_policy_is_kept_as_it_is_but_for_its_numbers() {
    let words = "max = 3\n policy {\n cooldown = \"1m\"\n n = 5\n check \"load\" {\n query = 1.5\n}\n}";
    let policy = decode(&group("", words)).groups.remove(0).scaling.expect("is there").policy;
    assert_eq!(policy.get("cooldown"), Some(&Plain::Text("1m".into())));
    assert_eq!(policy.get("n"), Some(&Plain::Float(5.0)));
    let check = policy.get("check").map(|check| format!("{check:?}")).unwrap_or_default();
    assert!(check.contains("Float(1.5)") && check.contains("load"), "{check}");
}

#[test]
fn a_task_has_policies_for_what_it_is_given() {
    let words = "scaling \"cpu\" {\n max = 500\n}\n scaling \"mem\" {\n min = 32\n max = 256\n enabled = false\n policy {\n n = 5\n}\n}";
    let file = with(&format!("group \"g\" {{\n task \"t\" {{\n driver = \"d\"\n{words}\n}}\n}}"));
    let members = json!([
        {"Type": "vertical_cpu", "Max": 500},
        {"Type": "vertical_mem", "Min": 32, "Max": 256, "Enabled": false, "Policy": {"n": 5}, "ID": "x", "ModifyIndex": 7,
         "Target": {"Namespace": "default", "Job": "a", "Group": "g", "Task": "t"}}
    ]);
    let cpu = Scaling { min: 0, max: 500, enabled: true, ..Scaling::default() };
    let policy = [("n".to_string(), Plain::Float(5.0))].into();
    let expected = [
        TaskScaling { kind: ScalingType::VerticalCpu, scaling: cpu },
        TaskScaling {
            kind: ScalingType::VerticalMem,
            scaling: Scaling { min: 32, max: 256, enabled: false, policy },
        },
    ];
    for job in [file, changed("/TaskGroups/0/Tasks/0/ScalingPolicies", members)] {
        assert_eq!(decode(&job).groups[0].tasks[0].scaling, expected);
    }
}

#[test]
fn other_types_are_refused() {
    let refused = decode_job(&changed("/TaskGroups/0/Scaling", json!({"Max": 1, "Type": "vertical_cpu"})));
    let why = refused.expect_err("is for tasks").to_string();
    assert!(
        why.contains("TaskGroups[0].Scaling: scaling policy type \"vertical_cpu\" is not valid"),
        "{why}"
    );
    let of_task = changed("/TaskGroups/0/Tasks/0/ScalingPolicies", json!([{"Max": 1, "Type": "horizontal"}]));
    let why = decode_job(&of_task).expect_err("is for groups").to_string();
    assert!(
        why.contains("Tasks[0].ScalingPolicies[0]: scaling policy type \"horizontal\" is not valid; it is \"vertical_cpu\""),
        "{why}"
    );
}
