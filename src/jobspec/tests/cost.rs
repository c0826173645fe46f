//! The largest texts are read or refused in bounded time: each takes seconds at most, even in an unoptimised build.

use super::*;
use crate::diagnostic::MAX_KEPT;
use crate::hcl::MAX_TEXT;

/// `line(i)` for i from 0 on, as many as fit beside the rest of a file.
fn filled(line: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    let mut i = 0;
    while out.len() < MAX_TEXT - 1000 {
        out.push_str(&line(i));
        i += 1;
    }
    out
}

fn read_with(inside: &str) -> Parsed {
    read(&format!("job \"x\" {{\n task \"t\" {{\n driver = \"d\"\n{inside}\n}}\n}}\n"))
}

#[test]
fn large_good_files_are_read() {
    let long = "x".repeat(MAX_TEXT - 1000);
    assert!(read_with(&format!("config {{\n data = \"{long}\"\n}}")).job.is_some());
    let list = filled(|_| "\"abcdefg\", ".into());
    assert!(read_with(&format!("config {{\n data = [{list}]\n}}")).job.is_some());
    let attributes = filled(|i| format!(" attribute_with_a_long_name_{i} = \"{}\"\n", "v".repeat(120)));
    assert!(read_with(&format!("env {{\n{attributes}\n}}")).job.is_some());
}

#[test]
fn large_objects_are_refused_before_the_parser_sees_them() {
    let members = filled(|i| format!("a{i} = 1\n"));
    let parsed = read_with(&format!("env = {{\n{members}\n}}"));
    assert_eq!(parsed.diagnostics[0].summary, "Object or block too large");
    let members = filled(|i| format!("a{i} = 1,"));
    let parsed = read(&format!("{{\"job\": {{\"x\": {{\"name\": \"${{ {{ {members} }} }}\"}}}}}}"));
    assert_eq!(parsed.diagnostics[0].summary, "Too much");
}

#[test]
fn large_bad_files_are_refused_with_few_diagnostics() {
    let unknown = filled(|i| format!(" unknown_{i} {{}}\n"));
    assert_eq!(read_with(&unknown).diagnostics.len(), MAX_KEPT);
    let jobs = filled(|_| "job \"a\" {}\n".into());
    assert_eq!(read(&jobs).diagnostics.len(), MAX_KEPT);
    let unset = filled(|i| format!("variable \"v{i}\" {{}}\n"));
    assert_eq!(read(&unset).diagnostics.len(), MAX_KEPT);
    let failing = filled(|_| "upper([]), ".into());
    assert_eq!(read_with(&format!("config {{\n data = [{failing}]\n}}")).diagnostics.len(), 1);
}
