//! Names of jobs, groups and tasks: what they may not hold, because they are shown to people, become parts of paths and
//! keys, and are kept for ever.
//!
//! Refuses to know what else a job says. The rules that Nomad has keep its sentences; those on length are drover's own.
//! Control characters are allowed, as in Nomad: who shows a name escapes it, who puts it into a path encodes it.

/// A job's id and its name. Escaped, it must still fit into a request's target.
pub const MAX_JOB_NAME_BYTES: usize = 1024;
pub const MAX_GROUP_NAME_BYTES: usize = 255;
/// A task's name names its directory; what is put around it (`.<task>.stdout.fifo`) needs room, too.
pub const MAX_TASK_NAME_BYTES: usize = 200;

pub fn job_id(id: &str, errors: &mut Vec<String>) {
    if id.contains(' ') {
        errors.push("Job ID contains a space".into());
    }
    if id.contains('\0') {
        errors.push("Job ID contains a null character".into());
    }
    job("Job ID", id, errors);
}

/// `what` begins the sentences.
pub fn job(what: &str, name: &str, errors: &mut Vec<String>) {
    bounded(what, name, MAX_JOB_NAME_BYTES, errors);
}

pub fn group(name: &str, errors: &mut Vec<String>) {
    if name.contains('\0') {
        errors.push("Task group name contains null character".to_string());
    }
    bounded("Task group name", name, MAX_GROUP_NAME_BYTES, errors);
}

pub fn task(name: &str, errors: &mut Vec<String>) {
    let mut check = |bad: bool, text: &str| {
        if bad {
            errors.push(text.to_string());
        }
    };
    check(name.contains(['/', '\\']), "Task name cannot include slashes");
    check(name.contains('\0'), "Task name cannot include null characters");
    check(name == "alloc", "Task name cannot be \"alloc\": that is the name of the shared directory");
    check(matches!(name, "." | ".."), "Task name cannot be \".\" or \"..\": it names a directory");
    bounded("Task name", name, MAX_TASK_NAME_BYTES, errors);
}

/// The name as it can stand in a sentence: without control characters, and cut where it would fill a screen.
pub fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(MAX_TASK_NAME_BYTES).flat_map(plain).collect();
    if name.chars().nth(MAX_TASK_NAME_BYTES).is_some() {
        text.push_str("...");
    }
    text
}

fn plain(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let itself = escaped.is_none().then_some(c);
    escaped.into_iter().flatten().chain(itself)
}

fn bounded(what: &str, name: &str, most: usize, errors: &mut Vec<String>) {
    if name.len() > most {
        errors.push(format!("{what} has {} bytes; at most {most} are allowed", name.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job as sample;
    use super::super::{Limits, validate};
    use super::*;
    use crate::job::{JobSpec, JobType};

    const HUGE: usize = 1 << 20;

    /// Every kind of name is put at each of these places.
    fn with(name: &str, place: fn(&mut JobSpec) -> &mut String) -> String {
        let mut spec = sample(JobType::Batch);
        *place(&mut spec) = name.to_string();
        validate(&spec, &Limits::default()).error_text()
    }

    fn id(spec: &mut JobSpec) -> &mut String {
        &mut spec.id
    }

    fn job_name(spec: &mut JobSpec) -> &mut String {
        &mut spec.name
    }

    fn group_name(spec: &mut JobSpec) -> &mut String {
        &mut spec.groups[0].name
    }

    fn task_name(spec: &mut JobSpec) -> &mut String {
        &mut spec.groups[0].tasks[0].name
    }

    #[test]
    fn hostile_names_are_refused_where_they_do_harm() {
        let huge = "a".repeat(HUGE);
        let everywhere = [id, job_name, group_name, task_name];
        for (name, part) in [
            ("a\0b", "null character"),
            ("\0a\nb\r\u{1b}[2J\u{85}", "null character"),
            ("", "issing"),
            (&huge, "1048576 bytes; at most "),
        ] {
            for place in everywhere {
                let text = with(name, place);
                assert!(text.contains(part), "{part}: {text:.300}");
                assert!(text.len() < 1000 && !text.contains(['\0', '\r', '\u{1b}', '\u{85}']), "{text:.300}");
                assert!(!text.contains("a\nb"), "{text}");
            }
        }
        for (name, part) in [
            ("a/b", "slashes"),
            ("../../etc", "slashes"),
            ("a\\b", "slashes"),
            (".", "\".\" or \"..\""),
            ("..", "\".\" or \"..\""),
            ("alloc", "\"alloc\""),
            (&"a".repeat(MAX_TASK_NAME_BYTES + 1), "201 bytes; at most 200"),
        ] {
            assert!(with(name, task_name).contains(part), "{part}: {}", with(name, task_name));
        }
        assert!(with("a b", id).contains("contains a space"));
    }

    #[test]
    fn odd_names_that_do_no_harm_are_taken() {
        for name in [
            "\u{e4}\u{4e2d}\u{1f41a}",
            ".hidden",
            "...",
            "a.b",
            "a..b",
            "-rf",
            "*",
            "%2e",
            "'\"$(x)",
            "?&a\nb",
            "\r",
            "\u{1b}[2J",
            "\u{85}",
        ] {
            for place in [id, job_name, group_name, task_name] {
                assert_eq!(with(name, place), "", "{name}");
            }
        }
        for name in ["a/b", "../..", "/", "a\\b", &"a".repeat(MAX_GROUP_NAME_BYTES)] {
            for place in [id, job_name, group_name] {
                assert_eq!(with(name, place), "", "{name}");
            }
        }
        assert_eq!(with(&"a".repeat(MAX_JOB_NAME_BYTES), id), "");
        assert_eq!(with(&"a".repeat(MAX_TASK_NAME_BYTES), task_name), "");
    }
}
