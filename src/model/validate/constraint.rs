//! Whether a constraint can mean anything: its operator, its targets, its pattern or version.

use crate::constraint::Constraint;

/// More of a regular expression than this is not repeated in the error about it.
const MAX_SHOWN: usize = 200;

pub fn constraint(c: &Constraint) -> Vec<String> {
    let mut errors = Vec::new();
    let needs_value = match c.operand.as_str() {
        "" => {
            errors.push("Missing constraint operand".to_string());
            true
        }
        "is_set" | "is_not_set" => {
            if !c.right.is_empty() {
                errors.push(format!("Operator {:?} does not support an RTarget", c.operand));
            }
            false
        }
        "=" | "==" | "is" | "!=" | "not" | "<" | "<=" | ">" | ">=" | "set_contains" | "set_contains_all"
        | "set_contains_any" => true,
        "regexp" => {
            if let Err(why) = regex_lite::Regex::new(&c.right) {
                let text: String = c.right.chars().take(MAX_SHOWN).collect();
                errors.push(format!("Regular expression {text:?} failed to compile: {why}"));
            }
            true
        }
        "version" | "semver" => {
            if let Err(why) = version_constraint(&c.right, c.operand == "semver") {
                errors.push(format!(
                    "{} constraint is invalid: {why}",
                    if c.operand == "semver" { "Semver" } else { "Version" }
                ));
            }
            true
        }
        "distinct_hosts" => {
            if !matches!(c.right.as_str(), "" | "true" | "false") {
                errors.push(format!("distinct_hosts is true or false, not {:?}", c.right));
            }
            return errors;
        }
        "distinct_property" => {
            if !c.right.is_empty() && c.right.parse::<u64>().map_or(true, |n| n == 0) {
                errors.push(format!("distinct_property allows a count of 1 or more, not {:?}", c.right));
            }
            false
        }
        other => {
            errors.push(format!("Unknown constraint type {other:?}"));
            false
        }
    };
    if needs_value && c.right.is_empty() {
        errors.push(format!("Operator {:?} requires an RTarget", c.operand));
    }
    if c.left.is_empty() {
        errors.push("No LTarget provided but is required by constraint".to_string());
    } else {
        target(&c.left, &mut errors);
    }
    errors
}

/// `${...}` must name something that nodes have.
pub fn target(text: &str, errors: &mut Vec<String>) {
    let Some(rest) = text.strip_prefix("${") else { return };
    let known = ["node.unique.id", "node.unique.name", "node.datacenter", "node.class", "node.pool"];
    let prefixes = ["attr.", "meta.", "device."];
    match rest.strip_suffix('}') {
        None => errors.push(format!("{text:?} is missing its closing brace")),
        Some(name) if known.contains(&name) || prefixes.iter().any(|p| name.starts_with(p)) => {}
        Some(name) => errors.push(format!(
            "{name:?} is no property of a node: use {}, or one that starts with {}",
            known.join(", "),
            prefixes.join(", ")
        )),
    }
}

/// `>= 1.2, < 2`: comma-separated operators with versions, which may be partial. Strict, as semantic versions are: no `~>`
/// and no leading `v`.
fn version_constraint(text: &str, strict: bool) -> Result<(), String> {
    for part in text.split(',') {
        let part = part.trim();
        let version = ["~>", ">=", "<=", "!=", "=", ">", "<"]
            .iter()
            .filter(|op| !strict || **op != "~>")
            .find_map(|op| part.strip_prefix(op))
            .unwrap_or(part)
            .trim();
        let version = version.strip_prefix('v').filter(|_| !strict).unwrap_or(version);
        let numbers = version.split(['-', '+']).next().unwrap_or_default();
        let parts: Vec<&str> = numbers.split('.').collect();
        let numeric = parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
        if !numeric {
            return Err(format!("{part:?} is not an operator with a version, like \">= 1.2.3\""));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_checked() {
        let cases: &[(&str, &str, &str, Option<&str>)] = &[
            ("${attr.kernel.name}", "=", "linux", None),
            ("${attr.kernel.name}", "is_set", "", None),
            ("${attr.kernel.name}", "is_set", "x", Some("does not support an RTarget")),
            ("${attr.kernel.name}", "=", "", Some("requires an RTarget")),
            ("", "=", "x", Some("No LTarget")),
            ("${node.region}", "=", "x", Some("no property of a node")),
            ("${attr.x", "=", "x", Some("closing brace")),
            ("literal", "=", "literal", None),
            ("${meta.a}", "regexp", "^a(", Some("Regular expression \"^a(\" failed to compile: ")),
            ("${meta.a}", "regexp", "^a.*", None),
            ("${attr.v}", "version", ">= 1.2, < 2", None),
            ("${attr.v}", "version", "new", Some("Version constraint is invalid")),
            ("${attr.v}", "version", "~> v1.2", None),
            ("${attr.v}", "semver", ">= 1.2", None),
            ("${attr.v}", "semver", "~> 1.2", Some("Semver constraint is invalid")),
            ("${attr.v}", "semver", ">= v1.2", Some("Semver constraint is invalid")),
            ("${attr.v}", "semver", ">= 1.", Some("Semver constraint is invalid")),
            ("${attr.v}", "semver", ">= 1.2.3-rc1", None),
            ("${attr.v}", "almost", "x", Some("Unknown constraint type")),
            ("", "distinct_hosts", "", None),
            ("", "distinct_hosts", "false", None),
            ("", "distinct_hosts", "maybe", Some("distinct_hosts is true or false, not \"maybe\"")),
            ("${meta.rack}", "distinct_property", "", None),
            ("${meta.rack}", "distinct_property", "3", None),
            (
                "${meta.rack}",
                "distinct_property",
                "0",
                Some("distinct_property allows a count of 1 or more, not \"0\""),
            ),
            ("", "distinct_property", "", Some("No LTarget provided but is required by constraint")),
        ];
        for (left, operand, right, expected) in cases {
            let errors = constraint(&Constraint {
                left: (*left).into(),
                operand: (*operand).into(),
                right: (*right).into(),
            });
            match expected {
                None => assert_eq!(errors, Vec::<String>::new(), "{left} {operand} {right}"),
                Some(part) => assert!(errors.iter().any(|e| e.contains(part)), "{errors:?}"),
            }
        }
    }
}
