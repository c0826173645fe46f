//! Differences between jobs, laid out for people: marks, alignment and colours (cli.md 3.3.2).

use crate::output::Printer;
use anstyle::AnsiColor;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDiffAnswer {
    #[serde(rename = "Type")]
    pub kind: String,
    #[serde(rename = "ID")]
    id: String,
    fields: Vec<FieldDiff>,
    objects: Vec<ObjectDiff>,
    task_groups: Vec<GroupDiff>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct GroupDiff {
    #[serde(rename = "Type")]
    kind: String,
    name: String,
    fields: Vec<FieldDiff>,
    objects: Vec<ObjectDiff>,
    tasks: Vec<TaskDiff>,
    updates: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TaskDiff {
    #[serde(rename = "Type")]
    kind: String,
    name: String,
    fields: Vec<FieldDiff>,
    objects: Vec<ObjectDiff>,
    annotations: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ObjectDiff {
    #[serde(rename = "Type")]
    kind: String,
    name: String,
    fields: Vec<FieldDiff>,
    objects: Vec<ObjectDiff>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct FieldDiff {
    #[serde(rename = "Type")]
    kind: String,
    name: String,
    old: String,
    new: String,
    annotations: Vec<String>,
}

/// `verbose`: what came or went is shown with all that is in it.
pub fn render(diff: &JobDiffAnswer, verbose: bool, out: &Printer) -> String {
    let mut page = DiffLayout { text: String::new(), verbose, out };
    page.job(diff);
    page.text
}

/// `+`, `-` or `+/-` before a name.
fn mark(kind: &str) -> (&'static str, Option<AnsiColor>) {
    match kind {
        "Added" => ("+ ", Some(AnsiColor::Green)),
        "Deleted" => ("- ", Some(AnsiColor::Red)),
        "Edited" => ("+/- ", Some(AnsiColor::Yellow)),
        _ => ("", None),
    }
}

fn consequence(text: &str) -> Option<AnsiColor> {
    match text.trim_start_matches("forces ") {
        "create" => Some(AnsiColor::Green),
        "destroy" => Some(AnsiColor::Red),
        "in-place update" => Some(AnsiColor::Cyan),
        "create/destroy update" | "canary" => Some(AnsiColor::Yellow),
        "migrate" => Some(AnsiColor::Blue),
        _ => None,
    }
}

struct DiffLayout<'a> {
    text: String,
    verbose: bool,
    out: &'a Printer,
}

impl DiffLayout<'_> {
    fn job(&mut self, job: &JobDiffAnswer) {
        let title = self.out.bold(&format!("Job: {:?}", job.id));
        self.title(&job.kind, 0, 0, &title);
        let widest = widest(&job.fields, &job.objects, job.task_groups.iter().map(|g| g.kind.as_str()));
        if job.kind == "Edited" || self.verbose {
            self.body(&job.fields, &job.objects, 0, widest);
        }
        for group in &job.task_groups {
            self.group(group, pad(widest, &group.kind));
        }
    }

    fn group(&mut self, group: &GroupDiff, shift: usize) {
        let mut title = self.out.bold(&format!("Task Group: {:?}", group.name));
        if !group.updates.is_empty() {
            let one = |(what, n): (&String, &u64)| self.painted(&format!("{n} {what}"), consequence(what));
            let all: Vec<String> = group.updates.iter().map(one).collect();
            title.push_str(&format!(" ({})", all.join(", ")));
        }
        self.title(&group.kind, 0, shift, &title);
        let widest = widest(&group.fields, &group.objects, group.tasks.iter().map(|t| t.kind.as_str()));
        if group.kind == "Edited" || self.verbose {
            self.body(&group.fields, &group.objects, shift + 2, widest);
        }
        for task in &group.tasks {
            self.task(task, shift + 2, pad(widest, &task.kind));
        }
        self.text.push('\n');
    }

    fn task(&mut self, task: &TaskDiff, indent: usize, shift: usize) {
        let title = self.out.bold(&format!("Task: {:?}", task.name)) + &self.annotations(&task.annotations);
        self.title(&task.kind, indent, shift, &title);
        if task.kind == "Edited" || (task.kind != "None" && self.verbose) {
            let widest = widest(&task.fields, &task.objects, [].into_iter());
            self.body(&task.fields, &task.objects, indent + 2, widest);
        }
    }

    fn object(&mut self, object: &ObjectDiff, indent: usize, shift: usize) {
        self.title(&object.kind, indent, shift, &format!("{} {{", object.name));
        let widest = widest(&object.fields, &object.objects, [].into_iter());
        self.body(&object.fields, &object.objects, indent + shift + 2, widest);
        let (mark, _) = mark(&object.kind);
        self.text.push_str(&format!("{}}}\n", " ".repeat(indent + mark.len() + shift)));
    }

    fn body(&mut self, fields: &[FieldDiff], objects: &[ObjectDiff], indent: usize, widest: usize) {
        let longest = fields.iter().map(|f| f.name.len()).max().unwrap_or(0);
        for field in fields {
            let name = format!("{}: {}", field.name, " ".repeat(longest - field.name.len()));
            let value = match field.kind.as_str() {
                "Deleted" => format!("{:?}", field.old),
                "Edited" => format!("{:?} => {:?}", field.old, field.new),
                _ => format!("{:?}", field.new),
            };
            let line = format!("{name}{value}{}", self.annotations(&field.annotations));
            self.title(&field.kind, indent, pad(widest, &field.kind), &line);
        }
        for object in objects {
            self.object(object, indent, pad(widest, &object.kind));
        }
    }

    fn title(&mut self, kind: &str, indent: usize, shift: usize, text: &str) {
        let (mark, color) = mark(kind);
        let line =
            format!("{}{}{}{text}\n", " ".repeat(indent), self.painted(mark, color), " ".repeat(shift));
        self.text.push_str(&line);
    }

    fn annotations(&self, annotations: &[String]) -> String {
        if annotations.is_empty() {
            return String::new();
        }
        let painted: Vec<_> = annotations.iter().map(|a| self.painted(a, consequence(a))).collect();
        format!(" ({})", painted.join(", "))
    }

    fn painted(&self, text: &str, color: Option<AnsiColor>) -> String {
        match color {
            Some(color) if !text.is_empty() => self.out.colored(text, color),
            _ => text.to_string(),
        }
    }
}

/// The length of the longest mark of what stands in one column.
fn widest<'a>(
    fields: &'a [FieldDiff],
    objects: &'a [ObjectDiff],
    others: impl Iterator<Item = &'a str>,
) -> usize {
    let kinds = fields.iter().map(|f| f.kind.as_str()).chain(objects.iter().map(|o| o.kind.as_str()));
    kinds.chain(others).map(|kind| mark(kind).0.len()).max().unwrap_or(0)
}

fn pad(widest: usize, kind: &str) -> usize {
    widest.saturating_sub(mark(kind).0.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::read;
    use crate::settings::CliSettings;
    use serde_json::json;

    fn shown(diff: serde_json::Value, verbose: bool, force_color: bool) -> String {
        let settings = CliSettings { force_color, ..CliSettings::default() };
        render(&read(&diff).unwrap(), verbose, &Printer::new(&settings))
    }

    #[test]
    fn an_edited_job_is_laid_out_with_marks_in_columns() {
        let diff = json!({"Type": "Edited", "ID": "cache", "TaskGroups": [{
            "Type": "Edited", "Name": "g", "Updates": {"create": 1, "in-place update": 2},
            "Fields": [{"Type": "Edited", "Name": "Count", "Old": "2", "New": "3", "Annotations": ["forces create"]}],
            "Tasks": [
                {"Type": "None", "Name": "r"},
                {"Type": "Edited", "Name": "s", "Annotations": ["forces create/destroy update"], "Objects": [{
                    "Type": "Edited", "Name": "Resources", "Fields": [
                        {"Type": "None", "Name": "CPU", "Old": "1", "New": "1"},
                        {"Type": "Edited", "Name": "MemoryMB", "Old": "1", "New": "2"}]}]}]}]});
        let want = "+/- Job: \"cache\"\n\
            +/- Task Group: \"g\" (1 create, 2 in-place update)\n  \
              +/- Count: \"2\" => \"3\" (forces create)\n      \
                  Task: \"r\"\n  \
              +/- Task: \"s\" (forces create/destroy update)\n    \
                +/- Resources {\n          \
                      CPU:      \"1\"\n      \
                  +/- MemoryMB: \"1\" => \"2\"\n        \
                    }\n\n";
        assert_eq!(shown(diff, false, false), want);
    }

    #[test]
    fn additions_are_short_unless_verbose() {
        let diff = json!({"Type": "Added", "ID": "a", "Fields": [{"Type": "Added", "Name": "Priority", "New": "50"}],
            "TaskGroups": [{"Type": "Added", "Name": "g", "Tasks": [{"Type": "Added", "Name": "t",
                "Annotations": ["forces create"], "Fields": [{"Type": "Added", "Name": "Driver", "New": "exec"}]}]}]});
        let short = "+ Job: \"a\"\n+ Task Group: \"g\"\n  + Task: \"t\" (forces create)\n\n";
        assert_eq!(shown(diff.clone(), false, false), short);
        let long = shown(diff.clone(), true, false);
        assert!(
            long.contains("\n+ Priority: \"50\"\n") && long.contains("\n    + Driver: \"exec\"\n"),
            "{long}"
        );
        let colored = shown(diff, false, true);
        assert!(colored.starts_with("\u{1b}[32m+ \u{1b}[0m\u{1b}[1mJob: \"a\"\u{1b}[0m\n"), "{colored:?}");
    }
}
