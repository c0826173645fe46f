//! Proof that the checks of documents are alive.

use crate::decisions::Decision;
use crate::source::Source;
use crate::{citations, decisions, links, tree};

#[test]
fn a_citation_without_its_rule_is_found() {
    let rules =
        [citations::Rules::new("server.md", "# Server\n## 7. Drains\n### 7.1 Wishes\n**7.1.2** One.\n")];
    for (text, wanted) in [
        ("// as server.md 7, server.md 7.1 and server.md 7.1.2 say", 0),
        ("// server.md 7.1.3", 1),
        ("// server.md 7 and 7.1, server.md 7 to 7.1.2, (server.md 7.1, 7.1.2).", 0),
        ("// server.md 7 and 9, server.md 7.1 to 7.4", 2),
        ("// cli.md 9 is another document's, and other-server.md 9 none", 0),
        ("// reference: server 7", 1),
        ("const A: &str = \"server.md 9\";", 0),
    ] {
        let found = citations::in_comments(&Source::new("src/model/a.rs", text), &rules);
        assert_eq!(found.len(), wanted, "{text}: {found:?}");
    }
    for (name, wanted) in
        [("r7_1_2_a_wish", 0), ("r7_wishes", 0), ("refuses", 0), ("r7_1_3_a_wish", 1), ("r7_1_2a_a_wish", 1)]
    {
        let named = |path| citations::in_test_names(&Source::new(path, &format!("fn {name}() {{}}")), &rules);
        assert_eq!(named("src/server/tests.rs").len(), wanted, "{name}");
    }
    for (row, wanted) in [
        ("| 101 | 7.1.2 | a |", 0),
        ("| 101 | server 7, 7.1 | a |", 0),
        ("| 101 | 7.1.3 | a |", 1),
        ("| 101 | cli 7.1 | a |", 1),
        ("| number | rule |", 0),
    ] {
        let found = citations::differences(&format!("Rules: server.\n{row}\n"), &rules);
        assert_eq!(found.len(), wanted, "{row}: {found:?}");
    }
    let twice = citations::Rules::new("server.md", "## 1. A\n**1** One.\n**1.1** Two.\n**1.1** Three.\n");
    assert_eq!(twice.doubled(), ["docs/behaviour/server.md: 1.1 is there twice"]);
}

#[test]
fn missing_files_and_examples_are_named() {
    let examples: Vec<String> = (0..8).map(|n| format!("{n}.nomad.hcl")).collect();
    assert_eq!(tree::promised_files(|_| true, &examples), Vec::<String>::new());
    assert_eq!(tree::promised_files(|path| path != "LICENSE", &examples[1..]).len(), 2);
}

#[test]
fn an_invariant_without_a_test_is_found() {
    let found = |text| tree::invariants(text, |name| name == "A::f", |name| name == "there");
    let sound = "# A\n## Invariants\nBefore.\n1. One `x`. *By*\n   `A::f`. *Seen by*\n   `there`.\n2. Two. *Seen by* `there`.\n\n## After\n1. `gone`";
    assert_eq!(found(sound), Vec::<String>::new());
    for broken in [
        "",
        "## Invariants\n1. One.",
        "## Invariants\n1. One. *Seen by* `gone`.",
        "## Invariants\n1. One. *By* `A::g`. *Seen by* `there`.",
        "## Invariants\n2. Two. *Seen by* `there`.",
    ] {
        assert_eq!(found(broken).len(), 1, "{broken:?}");
    }
}

#[test]
fn a_decision_that_is_not_whole_or_not_there_is_found() {
    let file = |name: &str, headings: &str| Decision {
        name: name.into(),
        text: headings.split(' ').map(|h| format!("## {}\n", h.replace('_', " "))).collect(),
    };
    let whole = |name: &str| file(name, "Context Decision Measured Rejected What_would_reopen_it");
    let files = [whole("0001-a.md"), whole("0002-b.md")];
    let index = "| [0001](0001-a.md) | A |\n| [0002](0002-b.md) | B |\n";
    assert_eq!(decisions::records(&files, index), Vec::<String>::new());
    assert_eq!(decisions::records(&files, &index[..26]).len(), 1, "no row");
    let lacks = [whole("0001-a.md"), file("0002-b.md", "Context Decision What_would_reopen_it")];
    assert_eq!(decisions::records(&lacks, index).len(), 1, "no heading");
    let hole = [whole("0001-a.md"), whole("0003-b.md")];
    assert_eq!(decisions::records(&hole, &index.replace("0002", "0003")).len(), 1, "a hole");
    for (text, wanted) in [
        ("decision 0001, decisions 0001 and 0002, ours: 0002. [0001](decisions/0001-a.md)", 0),
        ("mode 0700, 0.0048, 11223344-0000, 2026-11-23", 0),
        ("(decision 0003)", 1),
        ("decisions 0001 and 0103", 1),
        ("see 0003.", 1),
        ("[b](../decisions/0002-a.md)", 1),
    ] {
        assert_eq!(decisions::without_target("docs/a.md", text, &files).len(), wanted, "{text}");
    }
}

#[test]
fn a_decision_that_names_what_is_gone_is_found() {
    let sources =
        [Source::new("src/server/plans.rs", "pub struct PlanQueue { left_out: u8 }\nfn verify() {}")];
    let found = |status: &str, section: &str, text: &str| {
        let text = format!("- Status: {status}\n\n## {section}\n\n{text}\n");
        decisions::unknown_names(&[Decision { name: "0001-a.md".into(), text }], &sources).len()
    };
    assert_eq!(found("accepted", "Decision", "`plans::verify`, `PlanQueue`, `left_out`, `drop_in_place`"), 0);
    assert_eq!(
        found("accepted", "Decision", "`gone`, `-q`, `src/plans.rs`, `GET`, `a b_c`: no names of ours"),
        0
    );
    assert_eq!(found("accepted", "Decision", "`plans::gone`, `PlanStack`, `left_in`"), 3);
    assert_eq!(found("accepted", "Rejected", "`PlanStack`"), 0);
    assert_eq!(found("superseded by 0002", "Decision", "`PlanStack`"), 0);
}

#[test]
fn a_link_that_leads_nowhere_and_a_long_page_are_found() {
    let exists = |path: &str| {
        ["docs/a.md", "docs/decisions/0001-a.md", "README.md", "config/examples"].contains(&path)
    };
    let found = |text: &str| links::without_target("docs/decisions/0001-a.md", text, exists).len();
    assert_eq!(
        found("[a](../a.md), [b](0001-a.md#b), [c](https://x/y), [d](#d), [e](../../config/examples/)"),
        0
    );
    assert_eq!(found("[a](a.md) and [b](../b.md)"), 2);
    assert_eq!(links::long_pages("docs/ARCHITECTURE.md", &"a\n".repeat(80)), Vec::<String>::new());
    assert_eq!(links::long_pages("docs/ARCHITECTURE.md", &"a\n".repeat(81)).len(), 1);
    assert_eq!(links::long_pages("docs/a.md", &"a\n".repeat(81)), Vec::<String>::new());
}
