//! What authors of jobs let operators run beside tasks, from both languages.

use super::accepted::{changed, decode};
use super::*;
use crate::decode_job;
use model::job::TaskAction;
use serde_json::json;

fn action(name: &str, command: &str, args: &[&str]) -> TaskAction {
    let args = args.iter().map(ToString::to_string).collect();
    TaskAction { name: name.into(), command: command.into(), args }
}

#[test]
fn actions_are_read_in_their_order() {
    let words = "action \"b\" {\n command = \"/bin/b\"\n args = [\"-x\", \"${NOMAD_TASK_NAME}\"]\n}\n\
                 action \"a\" {\n command = \"a\"\n}";
    let file = with(&format!("group \"g\" {{\n task \"t\" {{\n driver = \"d\"\n{words}\n}}\n}}"));
    let members = json!([
        {"Name": "b", "Command": "/bin/b", "Args": ["-x", "${NOMAD_TASK_NAME}"]},
        {"Name": "a", "Command": "a", "Args": null}
    ]);
    assert_eq!(file["TaskGroups"][0]["Tasks"][0]["Actions"], members);
    let expected = vec![action("b", "/bin/b", &["-x", "${NOMAD_TASK_NAME}"]), action("a", "a", &[])];
    for job in [file, changed("/TaskGroups/0/Tasks/0/Actions", members)] {
        assert_eq!(decode(&job).groups[0].tasks[0].actions, expected);
    }
    assert_eq!(decode(&changed("/TaskGroups/0/Tasks/0/Actions", json!(null))).groups[0].tasks[0].actions, []);
    let refused = decode_job(&changed("/TaskGroups/0/Tasks/0/Actions", json!([{"Name": "a", "Command": 1}])));
    assert!(refused.expect_err("no text").to_string().contains("Actions[0].Command"));
}
