//! Validation of a task's actions.

use super::names::shown;
use super::nest;
use crate::job::TaskAction;
use std::collections::BTreeSet;

const MAX_ACTION_NAME_CHARS: usize = 128;

/// Checks a task's actions. A name is typed on command lines, and nothing else tells actions apart.
pub fn actions(actions: &[TaskAction], errors: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for action in actions {
        let (name, mut own) = (shown(&action.name), Vec::new());
        if action.command.is_empty() {
            own.push("command cannot be empty".to_string());
        }
        let fits = (1..=MAX_ACTION_NAME_CHARS).contains(&action.name.chars().count());
        if !fits || action.name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let rule =
                format!("1 to {MAX_ACTION_NAME_CHARS} characters, no blanks and no control characters");
            own.push(format!("invalid name '{name}': it takes {rule}"));
        }
        nest(errors, &format!("Action {name} validation failed"), own);
        if !names.insert(&action.name) {
            errors.push(format!("Action {name} defined multiple times"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job as sample;
    use super::super::{Limits, validate};
    use super::*;
    use crate::job::JobType;

    #[test]
    fn actions_have_a_name_of_their_own_and_a_command() {
        let action = |name: &str, command: &str| TaskAction {
            name: name.into(),
            command: command.into(),
            args: vec![],
        };
        let most = "ü".repeat(MAX_ACTION_NAME_CHARS);
        for (actions, told) in [
            (
                vec![action("a", "x"), action("A", "x"), action("\u{1f1f3}/-.", "x"), action(&most, "x")],
                &[][..],
            ),
            (vec![action("a", "")], &["Action a validation failed", "command cannot be empty"]),
            (vec![action("", "x")], &["invalid name ''"]),
            (vec![action("a b", "x")], &["invalid name 'a b': it takes 1 to 128 characters"]),
            (vec![action("a\0", "x")], &["invalid name 'a\\u{0}'"]),
            (vec![action(&(most.clone() + "a"), "x")], &["invalid name"]),
            (
                vec![action("a", "x"), action("b", "x"), action("a", "y")],
                &["Action a defined multiple times"],
            ),
        ] {
            let mut spec = sample(JobType::Batch);
            spec.groups[0].tasks[0].actions = actions;
            let text = validate(&spec, &Limits::default()).error_text();
            assert!(told.iter().all(|part| text.contains(part)), "{told:?}: {text}");
            assert_eq!(text.is_empty(), told.is_empty(), "{text}");
        }
    }
}
