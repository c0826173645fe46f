//! What filters mean: each answer was compared with go-bexpr 0.1.16 itself, unless a comment says where drover differs.

use super::{Filter, MAX_BYTES, OmitEmpty};
use serde_json::{Value, json};

static OMIT_EMPTY: OmitEmpty =
    OmitEmpty { text: &["NodeID"], numbers: &["Wait"], flags: &["Drain"], others: &["Ports"] };

fn thing() -> Value {
    json!({
        "ID": "web-1", "Name": "web", "Status": "running", "Priority": 50, "Index": 7, "Stop": false, "Score": 1.5,
        "Meta": {"a": "b", "os.name": "linux", "x/y": "z"}, "NoMeta": {}, "Tags": ["blue", "green"],
        "Nums": [1, 2, 10], "NoTags": [], "Inner": {"N": 3, "Tags": ["t"]}, "Nil": null,
        "Groups": [{"N": 1, "Tags": ["one"]}, {"N": 2, "Tags": []}],
        "Map": {"k": {"N": 5, "Tags": []}, "l": {"N": 6, "Tags": ["six"]}}
    })
}

fn outcome(text: &str) -> Result<bool, String> {
    Filter::parse(text)?.matches(&thing(), &OMIT_EMPTY)
}

#[track_caller]
fn table(expected: bool, filters: &[&str]) {
    for text in filters {
        assert_eq!(outcome(text), Ok(expected), "{text}");
    }
}

#[test]
fn expressions_that_match() {
    table(
        true,
        &[
            "ID == web or ID == `web-1`",
            "ID==\"web-1\"",
            "  ID != web  ",
            "Priority == 50",
            "Priority == \"0x32\"",
            "Stop == false",
            "Stop != T",
            "Score == 1.5",
            "Meta.a == b",
            "Meta[\"os.name\"] == \"linux\"",
            "Meta[ `os.name` ] == \"linux\"",
            "\"/Meta/a\" == b",
            "\"/Meta/x~1y\" == z",
            "Meta contains a",
            "\"os.name\" in Meta",
            "missing not in Meta",
            "Tags contains blue",
            "\"blue\" in Tags",
            "10 in Nums",
            "Name contains \"e\"",
            "x not in Name",
            "NoTags is empty",
            "NoMeta is empty",
            "Tags is not empty",
            "Tags.1 == green",
            "Groups.0.N == 1",
            "Status matches \"^r.*g$\"",
            "Status matches run",
            "Status not matches `^x`",
            "not Status matches \"^x\"",
            "not not Stop == false",
            "not (Stop == true and Priority == 50)",
            "Stop == true or Priority == 50 and Name == web",
            "(((Priority == 50)))",
            "( Priority == 50 )",
            "Meta.missing != x",
            "Meta.missing is empty",
            "Meta.missing not matches x",
            "Inner is not nil",
            "Nil is nil",
            "NoTags is not nil",
            "any Groups as g { g.N == 2 }",
            "all Groups as g { g.N != 3 }",
            "any Groups as i, g { i == 1 and g.N == 2 }",
            "any Groups as _, g { g.N == 2 }",
            "any Groups as i, _ { i == 1 }",
            "any Map as k { k == l }",
            "any Map as k, v { k == l and v.N == 6 }",
            "all NoTags as t { t == x }",
            "all Meta.missing as t { t == x }",
            "any Groups as g { any g.Tags as t { t == one } }",
            "Stop == true or any Tags as t { t == blue }",
            "(any Tags as t { t == blue }) and Stop == false",
            "Name == web and not (any Tags as t { t == red })",
            "any Tags as Name { Name == green }",
        ],
    );
}

#[test]
fn expressions_that_do_not_match() {
    table(
        false,
        &[
            "ID == web",
            "Priority == 51",
            "Meta.missing == x",
            "Meta.missing contains x",
            "Meta.missing is not empty",
            "Tags contains red",
            "abc in Nums",
            "Inner is nil",
            "any NoTags as t { t == x }",
            "any Meta.missing as t { t == x }",
            "all Groups as g { g.N == 2 }",
        ],
    );
}

#[test]
fn zeros_that_a_shape_leaves_out_are_there() {
    table(true, &["NodeID == \"\"", "NodeID is empty", "Wait == 0", "Drain == false", "Ports is nil"]);
}

/// go-bexpr knows Go's types. It calls each of these an error, but the last, which is false there.
#[test]
fn where_json_knows_less_or_drover_differs() {
    table(true, &["Nil is empty", "Nil != x", "Nil.N != 3", "all Nil as n { n == x }"]);
    table(false, &["Nil == x", "Nil.N == 3", "Nil contains x", "Inner.Missing == x"]);
    let slash = Filter::parse("Name == \"/web\"").unwrap();
    assert_eq!(slash.matches(&json!({"Name": "/web"}), &OMIT_EMPTY), Ok(true));
}

#[test]
fn expressions_that_fail_on_an_object() {
    for (text, part) in [
        ("Foo == 3", "error finding value in datum: Foo: there is no \"Foo\""),
        ("Meta.missing.more == x", "there is no \"missing\""),
        ("ID.x == 1", "a string has no member \"x\""),
        ("Groups.2.N == 1", "\"2\" is no index of a list of 2"),
        ("Groups.web.N == 1", "is no index"),
        ("Priority == high", "\"high\" cannot be read as a whole number"),
        ("Priority == 50.0", "cannot be read"),
        ("Score == x", "cannot be read as a number"),
        ("Stop == yes", "cannot be read as true or false"),
        ("Meta == x", "only strings, numbers and booleans"),
        ("Priority contains 5", "only strings, lists and maps contain"),
        ("x in Groups", "ask with any or all"),
        ("Priority matches 5", "only a string matches"),
        ("Priority is empty", "can be empty"),
        ("ID is nil", "can be nil"),
        ("any ID as x { x == 1 }", "ID is not a list or a map"),
        ("any Map as k { k.N == 1 }", "is a key or an index"),
        ("\"\" == x", "there is no \"\""),
    ] {
        let why = outcome(text).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn syntax_errors_are_told_with_their_position() {
    for (text, sentence) in [
        ("", "character 1: expected a value or the name of a member, found the end"),
        ("Status", "character 7: an operator"),
        ("Status = x", "character 8: an operator"),
        ("Status ==", "character 10: a value, found the end"),
        ("Status == running x", "character 19: \"and\", \"or\" or the end, found 'x'"),
        ("(Status == running", "character 19: \")\""),
        ("Status == running)", "character 18: \"and\", \"or\" or the end, found ')'"),
        ("Status == \"running", "character 11: a value"),
        ("Status == \"ru\\qing\"", "character 11: a wrong escape"),
        ("Priority == 08", "character 13: a value"),
        ("Priority == 5x", "character 13: a value"),
        ("Name == web-1", "character 12: \"and\", \"or\" or the end, found '-'"),
        ("Meta[a] == b", "character 6: a string in quotes"),
        ("Name matches `(`", "character 14: the regular expression \"(\" cannot be used"),
        ("Name is foo", "character 9: \"empty\", \"nil\" or \"not\""),
        ("a == b AND c == d", "character 8: expected"),
        ("a == b and(c == d)", "character 8: expected"),
        ("not(a == b)", "character 4: an operator"),
        ("any Tags as t { t == 1} ", "character 22: a value"),
        ("any Tags as t { t == x } and ID == y", "character 26: \"and\", \"or\" or the end"),
        ("any Tags as i, i { i == x }", "character 13: index and value need different names"),
        ("any Tags { t == x }", "character 10: expected"),
    ] {
        let why = Filter::parse(text).expect_err(text);
        let (place, part) = sentence.split_once(": ").unwrap();
        assert!(why.starts_with(place) && why.contains(part), "{text}: {why}");
    }
}

#[test]
fn length_and_depth_are_bounded() {
    let deep = |n: usize| format!("{}ID == x{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(outcome(&deep(32)), Ok(false));
    assert!(outcome(&deep(33)).unwrap_err().contains("deeper than 32 levels"));
    assert!(outcome(&format!("{}ID == x", "not ".repeat(40))).unwrap_err().contains("deeper than 32"));
    let long = vec!["ID == x"; MAX_BYTES / 11].join(" or ");
    assert_eq!(outcome(&long), Ok(false));
    assert!(outcome(&format!("{long}{}", " ".repeat(MAX_BYTES))).unwrap_err().contains("longer than 8192"));
    let nested = "any Nums as n { ".repeat(12) + "n == 99" + &" }".repeat(12);
    assert!(outcome(&nested).unwrap_err().contains("more than 10000 steps"), "3 to the 12th");
    let bomb = format!("Name matches `{}`", "(a{500}){500}");
    assert!(outcome(&bomb).unwrap_err().contains("cannot be used"), "a large regular expression");
}

/// Nothing panics, and no text takes long: every prefix of every odd text is read.
#[test]
fn no_text_makes_the_parser_panic_or_hang() {
    for text in [
        "any all as as, in { not not in not }",
        "\"/a/b\".c[`d`] not in \"",
        "ä == ö",
        "((((not ((a",
        "`` in a",
    ] {
        for (end, _) in text.char_indices() {
            let _ = outcome(&text[..end]);
        }
    }
}
