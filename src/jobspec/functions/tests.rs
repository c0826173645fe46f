//! Every function, by what expressions give.

use super::*;
use crate::diagnostic::Source;
use crate::eval::Evaluator;
use crate::hcl::Expr;
use crate::scope::{Budget, Scope, WHOLE_FILE};
use serde_json::json;

struct Tree;

impl Files for Tree {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if path == "/home/u/a.txt" || path == "a.txt" {
            Ok(b"text".to_vec())
        } else {
            Err(format!("no {path}"))
        }
    }

    fn exists(&self, path: &str) -> Result<bool, String> {
        Ok(path == "a.txt")
    }

    fn list(&self, _dir: &str) -> Result<Vec<String>, String> {
        Ok(["b/c.txt", "a.txt", "a.md"].map(String::from).to_vec())
    }

    fn working_dir(&self) -> String {
        "/work".into()
    }

    fn home(&self) -> String {
        "/home/u".into()
    }
}

fn eval_with(text: &str, files: Option<&dyn Files>) -> Result<Value, String> {
    let budget = Budget::new(WHOLE_FILE);
    let evaluator =
        Evaluator { source: Source { name: "t", text }, world: World { files, seed: 1, budget: &budget } };
    let expr = hcl_edit::parser::parse_expr(text).map_err(|e| e.message().to_string())?;
    evaluator.value(&Expr::Hcl(expr), &Scope::EMPTY).map_err(|d| format!("{}; {}", d.summary, d.detail))
}

fn eval(text: &str) -> Result<Value, String> {
    eval_with(text, None)
}

fn all_give(cases: &[(&str, Value)]) {
    for (text, expected) in cases {
        assert_eq!(eval(text).as_ref(), Ok(expected), "{text}");
    }
}

#[test]
fn numbers() {
    all_give(&[
        ("abs(-2.5)", json!(2.5)),
        ("ceil(1.2)", json!(2)),
        ("floor(-1.2)", json!(-2)),
        ("signum(-3)", json!(-1)),
        ("signum(0)", json!(0)),
        ("log(8, 2)", json!(3)),
        ("pow(2, 10)", json!(1024)),
        ("max(1, 3, 2)", json!(3)),
        ("min([4, 2]...)", json!(2)),
        ("parseint(\"ff\", 16)", json!(255)),
    ]);
}

#[test]
fn strings() {
    all_give(&[
        ("chomp(\"a\\n\\n\")", json!("a")),
        ("lower(\"AB\")", json!("ab")),
        ("title(\"hello big world\")", json!("Hello Big World")),
        ("trimspace(\" a \")", json!("a")),
        ("strrev(\"abc\")", json!("cba")),
        ("trim(\"??a?\", \"?\")", json!("a")),
        ("trimprefix(\"abc\", \"a\")", json!("bc")),
        ("trimsuffix(\"abc\", \"c\")", json!("ab")),
        ("strlen(\"äb\")", json!(2)),
        ("split(\",\", \"a,b\")", json!(["a", "b"])),
        ("join(\"-\", [\"a\", 1])", json!("a-1")),
        ("indent(2, \"a\\nb\")", json!("a\n  b")),
        ("replace(\"a.b.c\", \".\", \"-\")", json!("a-b-c")),
        ("replace(\"a1b2\", \"/[0-9]/\", \"#\")", json!("a#b#")),
        ("regex_replace(\"ab12\", \"([a-z]+)\", \"<$1>\")", json!("<ab>12")),
        ("substr(\"hello\", 1, 3)", json!("ell")),
        ("substr(\"hello\", -3, -1)", json!("llo")),
        ("upper(attr.kernel.name)", json!("${ATTR.KERNEL.NAME}")),
    ]);
}

#[test]
fn formats() {
    all_give(&[
        ("format(\"%s-%d\", \"a\", 7)", json!("a-7")),
        ("format(\"%03d|%-4s|%4s|%+d\", 7, \"a\", \"b\", 3)", json!("007|a   |   b|+3")),
        (
            "format(\"%.2f %e %x %X %b %o %t %q %%\", 1.005, 1500, 255, 255, 5, 8, true, \"a\")",
            json!("1.00 1.500000e+03 ff FF 101 10 true \"a\" %"),
        ),
        ("format(\"%[2]s%[1]s\", \"a\", \"b\")", json!("ba")),
        ("format(\"%v %v %#v\", [1], null, \"a\")", json!("[1] null \"a\"")),
        ("formatlist(\"%s-%d\", [\"a\", \"b\"], 1)", json!(["a-1", "b-1"])),
        ("format(\"%05d\", -42)", json!("-0042")),
    ]);
}

#[test]
fn collections() {
    all_give(&[
        ("chunklist([1, 2, 3], 2)", json!([[1, 2], [3]])),
        ("coalesce(null, \"\", \"b\")", json!("")),
        ("coalescelist([], [1])", json!([1])),
        ("compact([\"a\", \"\", null])", json!(["a"])),
        ("concat([1], [2, 3])", json!([1, 2, 3])),
        ("contains([1, 2], 2)", json!(true)),
        ("distinct([1, 2, 1])", json!([1, 2])),
        ("element([\"a\", \"b\"], 3)", json!("b")),
        ("flatten([1, [2, [3]]])", json!([1, 2, 3])),
        ("index([\"a\", \"b\"], 1)", json!("b")),
        ("keys({ b = 1, a = 2 })", json!(["a", "b"])),
        ("values({ b = 1, a = 2 })", json!([2, 1])),
        ("length({ a = 1 })", json!(1)),
        ("lookup({ a = 1 }, \"b\", 9)", json!(9)),
        ("merge({ a = 1 }, { a = 2, b = 3 })", json!({"a": 2, "b": 3})),
        ("range(3)", json!([0, 1, 2])),
        ("range(4, 0, -2)", json!([4, 2])),
        ("reverse(\"ab\")", json!("ba")),
        ("setintersection([1, 2], [2, 3])", json!([2])),
        ("setunion([2], [1, 2])", json!([1, 2])),
        ("setproduct([1, 2], [\"a\"])", json!([[1, "a"], [2, "a"]])),
        ("slice([1, 2, 3], 1, 2)", json!([2])),
        ("sort([\"b\", \"a\"])", json!(["a", "b"])),
        ("zipmap([\"a\"], [1])", json!({"a": 1})),
        ("convert(\"5\", number)", json!(5)),
        ("convert([1], list(string))", json!(["1"])),
        ("try(nosuch.x, \"f\")", json!("${nosuch.x}")),
        ("try(parseint(\"x\", 10), 3)", json!(3)),
        ("can(parseint(\"x\", 10))", json!(false)),
        ("can(1)", json!(true)),
    ]);
}

#[test]
fn encodings() {
    all_give(&[
        ("base64encode(\"a\")", json!("YQ==")),
        ("base64decode(\"YQ==\")", json!("a")),
        ("jsonencode({ a = [1, true, null] })", json!("{\"a\":[1,true,null]}")),
        ("jsondecode(\"{\\\"a\\\": 1.0}\")", json!({"a": 1})),
        ("yamldecode(\"a: [1, b]\")", json!({"a": [1, "b"]})),
        ("yamlencode({ a = 1 })", json!("a: 1\n")),
        ("csvdecode(\"a,b\\n1,2\\n\")", json!([{"a": "1", "b": "2"}])),
        ("urlencode(\"a b/ä\")", json!("a+b%2F%C3%A4")),
        ("md5(\"\")", json!("d41d8cd98f00b204e9800998ecf8427e")),
        ("sha1(\"\")", json!("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
        ("sha256(\"\")", json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        ("substr(sha512(\"\"), 0, 8)", json!("cf83e135")),
        ("uuidv5(\"dns\", \"www.example.com\")", json!("2ed6657d-e927-568b-95e1-2665a8aea6a2")),
        ("substr(bcrypt(\"a\", 4), 0, 7)", json!("$2a$04$")),
        ("length(distinct([uuidv4(), uuidv4()]))", json!(2)),
    ]);
    assert_eq!(eval("uuidv4()"), eval("uuidv4()"), "equal seeds, equal ids");
}

#[test]
fn networks_and_times() {
    all_give(&[
        ("cidrhost(\"10.12.127.0/20\", 16)", json!("10.12.112.16")),
        ("cidrhost(\"10.0.0.0/8\", -1)", json!("10.255.255.255")),
        ("cidrhost(\"fd00::/64\", 1)", json!("fd00::1")),
        ("cidrnetmask(\"172.16.0.0/12\")", json!("255.240.0.0")),
        ("cidrsubnet(\"172.16.0.0/12\", 4, 2)", json!("172.18.0.0/16")),
        (
            "cidrsubnets(\"10.1.0.0/16\", 4, 4, 8, 4)",
            json!(["10.1.0.0/20", "10.1.16.0/20", "10.1.32.0/24", "10.1.48.0/20"]),
        ),
        ("timeadd(\"2017-11-22T00:00:00Z\", \"10m\")", json!("2017-11-22T00:10:00Z")),
        ("timeadd(\"2017-11-22T00:00:00+01:00\", \"1h\")", json!("2017-11-22T01:00:00+01:00")),
        ("formatdate(\"DD MMM YYYY hh:mm ZZZ\", \"2018-01-02T23:12:01Z\")", json!("02 Jan 2018 23:12 UTC")),
        (
            "formatdate(\"EEEE, D-M-YY 'o''clock' H:mmaa\", \"2018-01-02T23:12:01Z\")",
            json!("Tuesday, 2-1-18 o'clock 11:12pm"),
        ),
    ]);
}

#[test]
fn files() {
    for (text, expected) in [
        ("file(\"a.txt\")", json!("text")),
        ("file(\"~/a.txt\")", json!("text")),
        ("filebase64(\"a.txt\")", json!("dGV4dA==")),
        ("fileexists(\"b.txt\")", json!(false)),
        ("fileset(\".\", \"*.{txt,rs}\")", json!(["a.txt"])),
        ("fileset(\".\", \"**/*.txt\")", json!(["a.txt", "b/c.txt"])),
        ("abspath(\"../x/./y\")", json!("/x/y")),
        ("basename(\"/a/b/\")", json!("b")),
        ("dirname(\"/a/b\")", json!("/a")),
        ("dirname(\"b\")", json!(".")),
        ("pathexpand(\"~/x\")", json!("/home/u/x")),
    ] {
        assert_eq!(eval_with(text, Some(&Tree)), Ok(expected), "{text}");
    }
    assert!(eval("file(\"a.txt\")").unwrap_err().contains("filesystem function disabled"));
}

#[test]
fn wrong_calls_say_why() {
    for (text, part) in [
        ("uper(\"a\")", "did you mean \"upper\""),
        ("upper()", "takes 1 arguments, 0 given"),
        ("upper([])", "argument 1: a string is required"),
        ("range(2000)", "more than 1024"),
        ("range(0, 5, 0)", "step"),
        ("index([1], 5)", "no element 5"),
        ("slice([1], 0, 2)", "no part"),
        ("lookup({}, \"a\")", "takes 3"),
        ("length(\"a\")", "a list or an object is required"),
        ("reverse([1])", "a string is required"),
        ("format(\"%d\")", "no argument 1"),
        ("format(\"a\", 1)", "verbs for 0 only"),
        ("format(\"%999999999d\", 1)", "widths go up to"),
        ("format(\"%z\", 1)", "no verb %z"),
        ("bcrypt(\"a\", 31)", "from 4 to 12"),
        ("cidrhost(\"10.0.0.0/33\", 1)", "is no network"),
        ("cidrsubnet(\"10.0.0.0/30\", 4, 1)", "no room"),
        ("cidrsubnets(\"10.0.0.0/30\", 1, 1, 1)", "no room for argument 4"),
        ("base64decode(\"?\")", "not base64"),
        ("jsondecode(\"{\")", "not JSON"),
        ("yamldecode(\"a: [\")", "not YAML"),
        ("timeadd(\"now\", \"1h\")", "is no time"),
        ("formatdate(\"QQ\", \"2018-01-02T23:12:01Z\")", "is no part of a time"),
        ("regex_replace(\"a\", \"(\", \"\")", "invalid pattern"),
        ("rsadecrypt(\"a\", \"b\")", "not supported yet"),
        ("zipmap([\"a\"], [])", "1 keys, but 0 values"),
        ("element([], 0)", "empty"),
        ("pow(10, 400)", "not a finite"),
    ] {
        let why = eval(text).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn nothing_grows_without_bound() {
    let lists = "range(1000), range(1000), range(1000)";
    for text in [
        format!("setproduct({lists})"),
        "replace(join(\"\", [for x in range(1000): \"aaaaaaaaaa\"]), \"a\", join(\"\", [for x in range(1000): \"aaaaaaaaaa\"]))".into(),
        "[for a in range(1000): [for b in range(1000): [for c in range(1000): c]]]".into(),
        "indent(1000000000000, \"a\\nb\")".into(),
        "[for x in range(1000): bcrypt(\"a\", 12)]".into(),
        "try(setproduct(range(1000), range(1000), range(1000)), 1)".into(),
    ] {
        assert!(eval(&text).unwrap_err().contains("Too much"), "{text}");
    }
}
