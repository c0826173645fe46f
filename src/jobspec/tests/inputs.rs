//! Variables, locals and files: what comes from outside the job block.

use super::*;
use crate::{Files, render};
use serde_json::json;

fn valued(declaration: &str, vars: Vars) -> Parsed {
    let file = format!("{declaration}\njob \"x\" {{\n meta {{\n v = jsonencode(var.v)\n}}\n}}\n");
    parse("t", &file, &vars, None)
}

#[test]
fn variables_take_their_values_in_order() {
    let env =
        |v: &str| vec![("NOMAD_VAR_v".to_string(), v.to_string()), ("NOMAD_VAR_other".into(), "x".into())];
    let file = |v: &str| vec![("f".to_string(), v.to_string())];
    let flag = |v: &str| vec![("v".to_string(), v.to_string())];
    let strict = Vars { strict: true, ..Vars::default() };
    let untyped = "variable \"v\" {}";
    for (declaration, vars, expected) in [
        ("variable \"v\" { default = 1 }", Vars::default(), "1"),
        ("variables {\n v = 1\n}", Vars { flags: flag("7"), ..strict.clone() }, "7"),
        (untyped, Vars { env: env("a b"), ..strict.clone() }, "\"a b\""),
        (untyped, Vars { env: env("a"), files: file("v = \"b\""), ..strict.clone() }, "\"b\""),
        (untyped, Vars { files: file("v = \"b\""), flags: flag("c"), ..strict.clone() }, "\"c\""),
        (untyped, Vars { files: file("{\"v\": [1]}"), ..strict.clone() }, "[1]"),
        (
            "variable \"v\" { type = list(string) }",
            Vars { flags: flag("[1, \"b\"]"), ..strict.clone() },
            "[\"1\",\"b\"]",
        ),
        ("variable \"v\" { type = number }", Vars { flags: flag("5"), ..strict.clone() }, "5"),
        ("variable \"v\" { type = bool }", Vars { env: env("true"), ..strict.clone() }, "true"),
        ("variable \"v\" { default = false }", Vars { env: env("true"), ..strict.clone() }, "true"),
        (
            "variable \"v\" {\n type = object({ a = number })\n}",
            Vars { flags: flag("{ a = \"1\" }"), ..strict.clone() },
            "{\"a\":1}",
        ),
        ("variable \"v\" {\n type = map(string)\n default = { b = 1 }\n}", Vars::default(), "{\"b\":\"1\"}"),
    ] {
        let parsed = valued(declaration, vars);
        let text = render(&parsed.diagnostics);
        assert_eq!(
            parsed.job.unwrap_or_else(|| panic!("{text}"))["Meta"]["v"],
            json!(expected),
            "{declaration}"
        );
    }
}

#[test]
fn wrong_variables_are_diagnosed() {
    let flag = |n: &str, v: &str| vec![(n.to_string(), v.to_string())];
    let with = |flags: Vec<(String, String)>, strict| Vars { flags, strict, ..Vars::default() };
    let rule = "variable \"v\" {\n default = 3\n validation {\n condition = var.v > 2\n error_message = \"Too small.\"\n}\n}";
    for (declaration, vars, part) in [
        ("variable \"v\" {}", Vars::default(), "Unset variable \"v\""),
        ("variable \"1v\" {}", Vars::default(), "Invalid variable name"),
        ("variables {\n v = 1\n}\nvariable \"v\" {}", Vars::default(), "Duplicate variable"),
        ("variable \"v\" {\n type = strin\n}", Vars::default(), "Invalid type specification"),
        (
            "variable \"v\" {\n type = number\n default = \"x\"\n}",
            Vars::default(),
            ":3,12-15: Invalid default value",
        ),
        ("variable \"v\" {\n type = number\n default = nope\n}", Vars::default(), ":3,12-16: "),
        ("variable \"v\" { type = number }", with(flag("v", "x"), true), "Invalid value for variable"),
        (
            "variable \"v\" { default = 1 }",
            with(flag("vv", "1"), true),
            "Undefined -var variable; the job file declares no variable \"vv\"; did you mean \"v\"?",
        ),
        (rule, with(flag("v", "1"), true), "Invalid value for -var variable; Too small."),
        (
            "variable \"v\" {\n default = 3\n validation {\n condition = true\n error_message = \"x\"\n}\n}",
            Vars::default(),
            "must be about var.v",
        ),
        ("variable \"v\" { defalt = 3 }", Vars::default(), "Unsupported argument"),
    ] {
        let found = valued(declaration, vars).diagnostics;
        let text = render(&found);
        assert!(text.contains(part), "{part}: {text}");
        if declaration.contains("default = ") || part == "Invalid value for variable" {
            assert_eq!(found.len(), 1, "and nothing more: {text}");
        }
    }
    assert!(valued(rule, Vars::default()).job.is_some());
    let lenient = valued("variable \"v\" { default = 1 }", with(flag("vv", "1"), false));
    assert_eq!((lenient.job.is_some(), lenient.warnings.len()), (true, 1));
    let file = Vars {
        files: vec![("f".into(), "variable \"v\" {}\nw = 1\n".into())],
        strict: true,
        ..Vars::default()
    };
    let text = render(&valued("variable \"v\" { default = 1 }", file).diagnostics);
    assert!(
        text.contains("Variable declaration in a .var file") && text.contains("f:2,1-2: Undefined variable"),
        "{text}"
    );
}

#[test]
fn locals_come_in_any_order() {
    let meta = |locals: &str| {
        problems_or_meta(&format!("locals {{\n{locals}\n}}\njob \"x\" {{\n meta {{\n v = local.a\n}}\n}}\n"))
    };
    assert_eq!(meta("a = local.b\n b = \"${local[\"c\"]}!\"\n c = 1"), "1!");
    assert!(meta("a = local.b\n b = local.a").contains("Unresolvable local"));
    assert!(meta("a = local.nope").contains("there is no \"nope\""));
    let chain: String = (0..500).map(|i| format!(" l{i} = local.l{}\n", i + 1)).collect();
    assert_eq!(meta(&format!("a = local.l0\n{chain} l500 = \"end\"")), "end");
    let deep: String = (0..500).map(|i| format!(" l{i} = [local.l{}]\n", i + 1)).collect();
    assert!(meta(&format!("a = local.l0\n{deep} l500 = \"end\"")).contains("Too much"));
    let wide: String = (0..60).map(|i| format!(" l{i} = [local.l{0}, local.l{0}]\n", i + 1)).collect();
    assert!(meta(&format!("a = length(local.l0)\n{wide} l60 = \"end\"")).contains("Too much"));
    let twice = "locals {\n a = 1\n}\nlocals {\n a = 2\n}\njob \"x\" {}\n";
    assert!(problems(twice).contains("Duplicate value in locals"));
}

fn problems_or_meta(text: &str) -> String {
    let parsed = read(text);
    match parsed.job {
        Some(job) => job["Meta"]["v"].as_str().unwrap_or_default().to_string(),
        None => render(&parsed.diagnostics),
    }
}

struct OneFile;

impl Files for OneFile {
    fn read(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(b"from a file".to_vec())
    }

    fn exists(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn list(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn working_dir(&self) -> String {
        "/".into()
    }

    fn home(&self) -> String {
        "/".into()
    }
}

#[test]
fn files_are_read_only_through_the_caller() {
    let text = "job \"x\" {\n meta {\n v = file(\"a\")\n}\n}\n";
    let parsed = parse("t", text, &Vars::default(), Some(&OneFile));
    assert_eq!(parsed.job.unwrap_or_default()["Meta"]["v"], json!("from a file"));
    assert!(problems(text).contains("filesystem function disabled"));
}
