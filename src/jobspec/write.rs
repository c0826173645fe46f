//! A job as a job file: reading the file gives the job again. Keys come from the job's table; what a reader fills in by itself
//! is left out.
//!
//! Refuses to know: what any key means, but for what groups inherit from their job. Of what only servers say of a job (that
//! it is stopped, its parent, what it was dispatched with) a file has no key.

use model::canonical::{self, Defaults};
use model::job::{
    JobSpec, JobType, JobUpdate, MigratePolicy, ReschedulePolicy, RestartPolicy, Task, TaskGroup,
    UpdatePolicy,
};
use model::scaling::ScalingType;
use model::schema::change::{pairs, same};
use model::schema::{Block, Declared, FieldView, Fields, Member, Shape, ValueKind};
use model::value::Value;
use std::collections::BTreeMap;

const INDENT: &str = "  ";

/// The job file of that job.
pub fn write(spec: &JobSpec) -> String {
    let mut writer = Writer::default();
    writer.job(spec);
    writer.text
}

#[derive(Default)]
struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    fn job(&mut self, spec: &JobSpec) {
        let mut base = JobSpec { id: spec.id.clone(), ..JobSpec::default() };
        canonical::complete(&mut base, &Defaults::default());
        // what a region fills in may be another thing in the next one
        (base.priority, base.node_pool) = (0, String::new());
        self.open(JobSpec::BLOCK, Some(&spec.id));
        self.fields(spec, Some(&base), "TaskGroups");
        let update = self.job_update(spec);
        spec.groups.iter().for_each(|group| self.group(spec, update, group));
        self.close();
    }

    /// Writes the job's own `update`, and returns what groups inherit of it.
    fn job_update(&mut self, spec: &JobSpec) -> Option<UpdatePolicy> {
        let is_usual = matches!(spec.job_type, JobType::Service | JobType::System);
        let usual = is_usual.then(JobUpdate::default);
        let inherited = |u: JobUpdate| UpdatePolicy {
            stagger: u.stagger,
            max_parallel: u.max_parallel,
            ..UpdatePolicy::default()
        };
        if spec.update != usual {
            self.open(UpdatePolicy::BLOCK, None);
            match &spec.update {
                Some(update) => {
                    self.fields(update, None, "");
                    // which says that only these two are meant
                    self.line("health_check = \"\"");
                }
                None => UpdatePolicy::BLOCK.members.iter().for_each(|member| self.line(&zero(member))),
            }
            self.close();
        }
        spec.update.map(inherited)
    }

    fn group(&mut self, spec: &JobSpec, update: Option<UpdatePolicy>, group: &TaskGroup) {
        let base = TaskGroup {
            // which depends on its scaling
            count: i64::MIN,
            restart: RestartPolicy::default_for(spec.job_type),
            reschedule: ReschedulePolicy::default_for(spec.job_type),
            update,
            migrate: (spec.job_type == JobType::Service).then(MigratePolicy::default),
            ..TaskGroup::default()
        };
        self.open(TaskGroup::BLOCK, Some(&group.name));
        self.fields(group, Some(&base), "Tasks");
        group.tasks.iter().for_each(|task| self.task(group, task));
        self.close();
    }

    fn task(&mut self, group: &TaskGroup, task: &Task) {
        let mut base = Task { restart: group.restart, ..Task::default() };
        if task.resources.cores > 0 {
            base.resources.cpu_mhz = 0;
        }
        self.open(Task::BLOCK, Some(&task.name));
        self.fields(task, Some(&base), "");
        for policy in &task.scaling {
            let of_cpu = policy.kind == ScalingType::VerticalCpu;
            self.open(policy.scaling.block(), Some(if of_cpu { "cpu" } else { "mem" }));
            self.fields(&policy.scaling, None, "");
            self.close();
        }
        self.close();
    }

    /// What of a block differs from what its reader begins with: values first, then the blocks in it. Without a `base`
    /// everything is written.
    fn fields(&mut self, block: &dyn Fields, base: Option<&dyn Fields>, skip: &str) {
        let nothing = block.fresh();
        let all = pairs(base.unwrap_or(&*nothing), block);
        let label = block.block().label.unwrap_or_default();
        let written = |member: &Member, was, is| {
            let stays = base.is_some() && member.empty_means.is_empty() && same(member, was, is);
            !member.hcl.is_empty() && ![label, skip].contains(&member.json) && !stays && !is_nothing(is)
        };
        let (values, blocks): (Vec<_>, Vec<_>) = all
            .into_iter()
            .filter(|(member, was, is)| written(member, *was, *is))
            .partition(|(.., is)| is_value(*is));
        for (member, _, is) in values {
            self.value(member.hcl, is);
        }
        for (member, was, is) in blocks {
            self.inner(member, was, is);
        }
    }

    fn value(&mut self, key: &str, view: FieldView<'_>) {
        let text = match view {
            FieldView::Text(text) => return self.text(key, text),
            FieldView::Int(number) => number.to_string(),
            FieldView::Bool(flag) => flag.to_string(),
            FieldView::Span(span) => quoted(&span.to_string()),
            FieldView::Texts(texts) => listed(texts.iter().map(|text| quoted(text))),
            _ => return,
        };
        self.line(&format!("{key} = {text}"));
    }

    fn inner(&mut self, member: &Member, was: FieldView<'_>, is: FieldView<'_>) {
        match is {
            FieldView::TextMap(map) => {
                self.map(member.hcl, map.iter().map(|(key, text)| (key, MapEntry::Text(text))))
            }
            FieldView::Free(map) => {
                self.map(member.hcl, map.iter().map(|(key, value)| (key, MapEntry::Value(value))))
            }
            FieldView::Block(block) => {
                let fresh = block.fresh();
                let base = if let FieldView::Block(was) = was { was } else { &*fresh };
                self.open(block.block(), None);
                // what is read by hand may tell a key that is there from one that is not
                self.fields(block, (!by_hand(member)).then_some(base), "");
                self.close();
            }
            FieldView::Blocks(list) => {
                for block in (0..list.count()).filter_map(|i| list.at(i)) {
                    self.one_of_many(block, label(block));
                }
            }
            FieldView::ByLabel(map) => {
                for (label, block) in
                    map.labels().into_iter().filter_map(|label| Some((label, map.get(label)?)))
                {
                    self.one_of_many(block, Some(label));
                }
            }
            _ => {}
        }
    }

    fn one_of_many(&mut self, block: &dyn Fields, label: Option<&str>) {
        self.open(block.block(), label);
        self.fields(block, Some(&*block.fresh()), "");
        self.close();
    }

    /// A block where every key can stand as a name, otherwise an object.
    fn map<'a>(&mut self, name: &str, entries: impl Iterator<Item = (&'a String, MapEntry<'a>)>) {
        let entries: Vec<_> = entries.collect();
        if entries.iter().all(|(key, _)| is_name(key)) {
            self.opened(name);
            for (key, item) in entries {
                match item {
                    MapEntry::Text(text) => self.text(key, text),
                    MapEntry::Value(Value::Text(text)) => self.text(key, text),
                    MapEntry::Value(value) => self.line(&format!("{key} = {}", expression(value))),
                }
            }
            return self.close();
        }
        self.opened(&format!("{name} ="));
        for (key, item) in entries {
            let value = match item {
                MapEntry::Text(text) => quoted(text),
                MapEntry::Value(value) => expression(value),
            };
            self.line(&format!("{} = {value}", quoted(key)));
        }
        self.close();
    }

    fn text(&mut self, key: &str, text: &str) {
        if !reads_as_heredoc(text) {
            return self.line(&format!("{key} = {}", quoted(text)));
        }
        let is_free = |marker: &String| text.lines().all(|line| line.trim() != marker);
        let marker = (0..).map(|n| format!("EOT{n}")).find(is_free).unwrap_or_default();
        self.line(&format!("{key} = <<{marker}"));
        self.text.push_str(&text.replace("${", "$${").replace("%{", "%%{"));
        self.text.push_str(&format!("{marker}\n"));
    }

    fn open(&mut self, block: &'static Block, label: Option<&str>) {
        match label {
            Some(label) => self.opened(&format!("{} {}", block.name, quoted(label))),
            None => self.opened(block.name),
        }
    }

    fn opened(&mut self, head: &str) {
        if !self.text.is_empty() && !self.text.ends_with("{\n") {
            self.text.push('\n');
        }
        self.line(&format!("{head} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn line(&mut self, line: &str) {
        (0..self.depth).for_each(|_| self.text.push_str(INDENT));
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// A job has no update rules where all of them are zero.
fn zero(member: &Member) -> String {
    let zero = match member.shape {
        Shape::Value(ValueKind::Int) => "0",
        Shape::Value(ValueKind::Bool) => "false",
        Shape::Value(ValueKind::Span) => "\"0s\"",
        _ => "\"\"",
    };
    format!("{} = {zero}", member.hcl)
}

/// One entry of a map.
enum MapEntry<'a> {
    Text(&'a str),
    Value(&'a Value),
}

fn by_hand(member: &Member) -> bool {
    member.read_by_hand || member.written_by_hand
}

/// Absent means the same.
fn is_nothing(view: FieldView<'_>) -> bool {
    match view {
        FieldView::Null | FieldView::NotKept | FieldView::Text("") => true,
        FieldView::TextMap(map) => map.is_empty(),
        FieldView::Free(map) => map.is_empty(),
        FieldView::Blocks(list) => list.count() == 0,
        FieldView::ByLabel(map) => map.labels().is_empty(),
        _ => false,
    }
}

fn is_value(view: FieldView<'_>) -> bool {
    matches!(
        view,
        FieldView::Text(_)
            | FieldView::Int(_)
            | FieldView::Bool(_)
            | FieldView::Span(_)
            | FieldView::Texts(_)
    )
}

/// The field that stands as the block's label.
fn label(block: &dyn Fields) -> Option<&str> {
    let (name, mut found) = (block.block().label?, None);
    block.each(&mut |member, view| {
        if let FieldView::Text(text) = view
            && member.json == name
        {
            found = Some(text);
        }
    });
    found
}

fn is_name(key: &str) -> bool {
    let mut chars = key.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && key != "dynamic"
}

/// Whole lines, without what only a quoted text can say.
fn reads_as_heredoc(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.ends_with('\n')
        && text.trim_end_matches('\n').contains('\n')
        && text.chars().all(is_plain)
        && !text.contains("$${")
        && !text.contains("%%{")
}

/// In quotes, with nothing left that a reader would fill in.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let opens = matches!(c, '$' | '%') && chars.peek() == Some(&'{');
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // a sign twice already stands for itself
            _ if opens && before == c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ if opens => out.extend([c, c]),
            _ if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
        before = c;
    }
    out.push('"');
    out
}

fn listed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn expression(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => quoted(text),
        Value::List(items) => listed(items.iter().map(expression)),
        Value::Map(map) => object(map),
    }
}

fn object(map: &BTreeMap<String, Value>) -> String {
    let entries = map.iter().map(|(key, value)| format!("{} = {}", quoted(key), expression(value)));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}
