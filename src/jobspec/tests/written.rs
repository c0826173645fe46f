//! A job written as a job file is read as itself.

use super::accepted::decode;
use super::samples::SAMPLES;
use super::*;
use crate::write;
use model::job::{JobSpec, JobType, JobUpdate};
use model::samples;
use model::value::Value as Plain;
use serde_json::json;

/// What the job's file says.
fn again(spec: &JobSpec) -> JobSpec {
    let text = write(spec);
    let parsed = read(&text);
    let told = crate::render(&[parsed.diagnostics.as_slice(), parsed.not_supported.as_slice()].concat());
    assert_eq!(told, "", "{text}");
    decode(&parsed.job.unwrap_or_default())
}

fn assert_same(spec: &JobSpec, what: &str) {
    assert_eq!(again(spec), *spec, "{what}\n{}", write(spec));
}

#[test]
fn a_job_with_every_field_comes_back_from_its_file() {
    assert_same(&samples::full_job(), "all fields");
}

#[test]
fn each_field_comes_back_from_a_file_with_another_value() {
    let spec = samples::full_job();
    for path in samples::paths(&spec) {
        let names: Vec<_> = path.iter().map(|member| member.json).collect();
        let is_listed_twice = path.last().is_some_and(|member| member.block().is_some());
        // servers alone say that a job is stopped; a dynamic port with a number is a static one; empty blocks mean nothing
        if names == ["Stop"] || names.ends_with(&["DynamicPorts", "Value"]) || is_listed_twice {
            continue;
        }
        // a type has its own defaults, and a policy's numbers are floats
        if names == ["Type"] || names.ends_with(&["Scaling", "Policy"]) {
            continue;
        }
        assert_same(&samples::with_change(&spec, &path), &names.join("."));
    }
}

#[test]
fn samples_come_back_from_their_files() {
    for text in SAMPLES {
        assert_same(&decode(&job(text)), text);
    }
}

#[test]
fn every_type_has_its_own_defaults() {
    for name in ["service", "batch", "system", "sysbatch"] {
        let file = format!("type = \"{name}\"\n group \"g\" {{\n task \"t\" {{\n driver = \"d\"\n }}\n }}");
        let spec = decode(&with(&file));
        assert_same(&spec, name);
        let expected = if name == "service" { 0 } else { 1 };
        assert_eq!(write(&spec).matches("type =").count(), expected, "what is usual is left out");
        assert_eq!(write(&spec).matches("restart").count(), 0, "{}", write(&spec));
    }
}

#[test]
fn update_rules_of_a_whole_job_come_back() {
    let mut zero = super::accepted::changed("/Update", json!({"MaxParallel": 0}));
    zero["TaskGroups"][0]["Update"] = json!({"MaxParallel": 0});
    assert_same(&decode(&zero), "no parallel");
    let mut spec = decode(&with("group \"g\" {\n task \"t\" {\n driver = \"d\"\n }\n }"));
    (spec.update, spec.groups[0].update) = (None, None);
    assert_same(&spec, "none at all");
    let update = JobUpdate { max_parallel: 7, ..JobUpdate::default() };
    spec = decode(&with(
        "update {\n max_parallel = 7\n }\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n }\n }",
    ));
    assert_eq!((spec.update, spec.job_type), (Some(update), JobType::Service));
    assert_same(&spec, "seven");
}

#[test]
fn texts_are_written_so_that_nothing_in_them_is_filled_in() {
    let texts = [
        "plain",
        "\"",
        "\\",
        "\\n",
        "${attr.x}",
        "$${attr.x}",
        "$$${x}",
        "%{ if true }",
        "%%{x}",
        "$",
        "${",
        "a$",
        "\u{1}",
        "\u{7f}",
        "tab\t",
        "cr\r\n",
        "two\nlines\n",
        "EOT0\nEOT0\n",
        "  EOT0\n\n",
        "\n\n",
        "no end\nof line",
        "a ${b}\n%{c}\n",
        "$${b}\nx\n",
        "é𝕏",
        "\\u0024{x}",
        "// # /* */",
        "<<EOT\nx\n",
    ];
    for text in texts {
        let mut spec = decode(&with("group \"g\" {\n task \"t\" {\n driver = \"d\"\n }\n }"));
        let task = &mut spec.groups[0].tasks[0];
        task.env.insert("PLAIN".into(), text.into());
        task.config.insert("args".into(), Plain::List(vec![Plain::Text(text.into())]));
        task.config.insert("one".into(), Plain::Text(text.into()));
        spec.meta.insert(format!("odd {text}"), text.into());
        assert_same(&spec, text);
    }
}
