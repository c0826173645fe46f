//! Proof that the checks are alive: each is fed text that breaks its rule and text that keeps it.

mod documents;

use crate::brains::{self, Ceiling};
use crate::source::Source;
use crate::{checkers, checks, circles, floors, items, public, tree, types};

type Check = fn(&Source) -> Vec<String>;

/// Check, path, text, how many findings it must give.
const CASES: &[(&str, Check, &str, &str, usize)] = &[
    ("part of a room", floors::parts, "src/state/a.rs", "use scheduler::fleet::Fleet;", 0),
    ("wrong part", floors::parts, "src/state/a.rs", "use scheduler::rank::Rank;", 1),
    ("group of a part", floors::parts, "src/state/a.rs", "use scheduler::{self, fleet::{F, G}, rank};", 1),
    ("wrong part in tests", floors::parts, "src/state/a/tests.rs", "use scheduler::rank::Rank;", 0),
    (
        "only text",
        floors::parts,
        "src/state/a.rs",
        "// scheduler::rank\nconst A: &str = \"scheduler::rank\";",
        0,
    ),
    ("no head doc", checks::head_doc, "src/model/a.rs", "use std::fmt;\n//! late\n", 1),
    ("empty head doc", checks::head_doc, "src/model/a.rs", "//! x\n", 1),
    ("head doc", checks::head_doc, "src/model/a.rs", "\n//! What a thing is.\n", 0),
    (
        "unfinished",
        checks::banned_words,
        "src/model/a.rs",
        "fn f() { todo!() }\nfn g() { unimplemented!() }",
        2,
    ),
    ("said to be unfinished", checks::banned_words, "src/model/a.rs", "// FIXME later\n/* XXX */", 2),
    ("skipped test", checks::banned_words, "tests/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", 1),
    ("sleeping", checks::banned_words, "tests/a.rs", "fn f() { std::thread::sleep(A); }", 1),
    ("timer in a test", checks::banned_words, "tests/a.rs", "fn f() { smol::Timer::after(A); }", 1),
    ("no bound", checks::banned_words, "src/agent/a.rs", "fn f() { async_channel::unbounded::<u8>(); }", 1),
    ("timer at home", checks::banned_words, "src/io/a.rs", "fn f() { smol::Timer::after(A); }", 0),
    (
        "sleeping at home",
        checks::banned_words,
        "src/cli/a.rs",
        "#[cfg(test)]\nmod tests;\nfn f() { thread::sleep(A); }",
        0,
    ),
    (
        "sleeping in its tests",
        checks::banned_words,
        "src/io/a.rs",
        "#[cfg(test)]\nmod tests {\nfn f() { thread::sleep(A); }\n}",
        1,
    ),
    ("left over", checks::banned_words, "src/model/a.rs", "#![allow(dead_code)]\nfn f() { dbg!(1); }", 2),
    (
        "banned words as text",
        checks::banned_words,
        "src/model/a.rs",
        "const A: &str = r#\"todo!() \"XXX\" FIXME\"#;",
        0,
    ),
    ("name that says nothing", checks::module_names, "src/model/util.rs", "", 1),
    ("inline", checks::module_names, "src/model/a.rs", "mod helpers {}\nmod helpers_of_x {}", 1),
    ("bare of", checks::bare_of, "src/model/a.rs", "/// Of a job.\n// Of late, never.\nfn f() {}", 1),
    (
        "private word",
        checks::private_words,
        "src/server/a.rs",
        "fn a() {}\nfn take_office() {}\n// enlist\nlet is_kinship = Obeys;\n// obeys its kinship",
        3,
    ),
    (
        "bare pronoun",
        checks::bare_pronouns,
        "src/model/a.rs",
        "//! Their state.\n\n/// It leads.\nfn f() {}\n    /// Whoever asks.\n    fn g() {}",
        3,
    ),
    (
        "pronoun with its noun",
        checks::bare_pronouns,
        "src/model/a.rs",
        "/// The leader.\n/// It leads. Its term.\n// It is no doc.\nfn it() {}\n/// Item.\nfn g() {}",
        0,
    ),
    (
        "pronoun in its tests",
        checks::bare_pronouns,
        "src/model/a.rs",
        "#[cfg(test)]\nmod tests {\n/// It leads.\nfn f() {}\n}",
        0,
    ),
    ("of within", checks::bare_of, "src/model/a.rs", "/// The name\n/// Of a job. Often.\nfn f() {}", 0),
    (
        "long name",
        checks::long_names,
        "src/model/a.rs",
        "fn a_name_that_goes_on_and_on_until_nobody_reads_it_to_its_very_end() {}\nfn short() {}",
        1,
    ),
    ("homoglyph", checks::characters, "src/model/a.rs", "fn \u{0430}() {}\n// \u{2014}\n", 1),
    ("free text", checks::characters, "src/model/a.rs", "const A: &str = \"\u{0430}\";", 0),
    ("hidden", checks::characters, "src/model/a.rs", "const A: &str = \"\u{202e}\";", 1),
    ("unsafe abroad", checks::unsafety, "src/model/a.rs", "// SAFETY: no\nunsafe { f() }", 1),
    (
        "unproven",
        checks::unsafety,
        "src/io/a.rs",
        "// SAFETY: yes\nunsafe { f() }\nlet x = unsafe { g() };",
        1,
    ),
    (
        "proven",
        checks::unsafety,
        "src/io/a.rs",
        "// SAFETY: the fd\n// is ours\n#[inline]\nunsafe fn f() {}",
        0,
    ),
    ("statement", checks::unsafety, "src/io/a.rs", "// SAFETY: yes\nlet a =\n    unsafe { f() };", 0),
    ("other statement", checks::unsafety, "src/io/a.rs", "// SAFETY: yes\nf();\n    unsafe { f() };", 1),
    ("ban lifted", checks::bans_lifted, "src/io/a.rs", "#![allow(\n    clippy::disallowed_types\n)]", 1),
    ("ban lifted at a head", checks::bans_lifted, "src/io/mod.rs", "#![allow(clippy::disallowed_types)]", 0),
    ("another lint", checks::bans_lifted, "src/model/a.rs", "#[allow(clippy::too_many_arguments)]", 0),
];

#[test]
fn each_check_finds_what_it_must_and_no_more() {
    for (name, check, path, text, wanted) in CASES {
        let found = check(&Source::new(path, text));
        assert_eq!(found.len(), *wanted, "case `{name}`: {found:?}");
    }
}

#[test]
fn a_manifest_lists_lower_floors_and_what_is_named() {
    let listed = |dependencies: &str| {
        format!("[package]\nname = \"a\"\n\n[dependencies]\n{dependencies}\n[lints]\nworkspace = true\n")
    };
    for (name, room, text, wanted) in [
        ("downwards", "server", listed("state.workspace = true"), 0),
        ("sideways", "wire", listed("jobspec = { workspace = true }"), 1),
        ("upwards", "model", listed("server.workspace = true"), 1),
        ("the sim reads no agent", "sim", listed("agent.workspace = true"), 1),
        ("engine abroad", "server", listed("smol.workspace = true"), 1),
        ("engine at home", "io", listed("smol.workspace = true"), 0),
        ("store in tests", "client", listed("") + "[dev-dependencies]\nredb.workspace = true\n", 0),
        ("sideways in tests", "wire", listed("") + "[dev-dependencies]\njobspec.workspace = true\n", 1),
        ("nobody names it", "io", listed("silent-crate = \"1\""), 1),
        ("no floor", "cellar", listed(""), 1),
    ] {
        let found = floors::manifest(room, &text, |name| name != "silent_crate");
        assert_eq!(found.len(), wanted, "case `{name}`: {found:?}");
    }
    let rooms: Vec<&str> = floors::FLOORS.iter().map(|(room, _)| *room).collect();
    assert_eq!(floors::without_room(&rooms), Vec::<String>::new());
    let gone: Vec<&str> = rooms.into_iter().filter(|room| *room != "wire").collect();
    assert_eq!(floors::without_room(&gone), ["tests/tidy/floors.rs: there is no src/wire"]);
}

#[test]
fn files_that_name_each_other_are_found() {
    let sources = |b: &str| {
        let files = [
            ("src/model/a.rs", "use crate::b::c;\nmod own;"),
            ("src/model/a/own.rs", "use super::A;"),
            ("src/model/b/mod.rs", b),
            ("src/model/d.rs", "use super::a::{self, A};"),
        ];
        files.map(|(path, text)| Source::new(path, text))
    };
    assert_eq!(circles::circles(&sources("use crate::e;")), Vec::<String>::new());
    let found = circles::circles(&sources("use super::{e, d::{D, E}};"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("src/model/a.rs, src/model/b/mod.rs, src/model/d.rs"), "{found:?}");
}

#[test]
fn a_result_that_is_ignored_is_found() {
    for (text, wrong) in [
        ("fn f() {\n    g().unwrap_or_default();\n}", true),
        ("fn f() {\n    let a = 1;\n    g()\n        .h()\n        .unwrap_or_default();\n}", true),
        ("fn f() {\n    let a = g().unwrap_or_default();\n}", false),
        ("fn f() {\n    let a =\n        g().unwrap_or_default();\n}", false),
        ("fn f() {\n    return g().unwrap_or_default();\n}", false),
        ("fn f() {\n    a += g().unwrap_or_default();\n}", false),
        ("fn f() -> u8 {\n    g().unwrap_or_default()\n}", false),
        ("fn f() {\n    match a {\n        A => b.try_send(1).unwrap_or_default(),\n    }\n}", true),
        ("fn f() {\n    match a {\n        A => b.get(1).unwrap_or_default(),\n    }\n}", false),
    ] {
        let found = checks::ignored_results(&Source::new("src/api/a.rs", text));
        assert_eq!(found.len(), usize::from(wrong), "{text}: {found:?}");
    }
    let text = "fn f() {\n    // it may be gone\n    let _ = g();\n    let _ = h(); // no\n\n    let _ = i();\n    let _kept = j();\n}";
    let found = |path| checks::unexplained(&Source::new(path, text)).len();
    assert_eq!((found("src/api/a.rs"), found("src/api/tests.rs"), found("src/sim/a.rs")), (1, 0, 0));
}

#[test]
fn a_brain_that_waits_and_a_record_that_is_not_plain_are_found() {
    let waits = |path, text| checks::plain_brains(&Source::new(path, text)).len();
    assert_eq!(waits("src/server/a.rs", "struct A(Mutex<u8>);\nasync fn f() {}\n// a Mutex"), 2);
    assert_eq!(waits("src/agent/a.rs", "struct A(Mutex<u8>);"), 0);
    assert_eq!(waits("src/server/a.rs", "#[cfg(test)]\nmod tests {\nstruct A(Mutex<u8>);\n}"), 0);
    let broken = |path, text| checks::plain_records(&Source::new(path, text)).len();
    let text = "#[serde(skip)]\na: u8,\n#[serde(default, skip_serializing_if = \"x\")]\nb: u8,\nc: serde_json::Value,";
    assert_eq!((broken("src/wire/a.rs", text), broken("src/api/a.rs", text)), (2, 0));
}

#[test]
fn a_brain_that_outgrows_its_ceiling_is_found() {
    let files = [
        (
            "src/server/mod.rs",
            "#[cfg(any(test, feature = \"testing\"))]\nmod inspection;\npub struct Server {\n    /// a: b\n    one: Vec<a::B>,\n    pub(super) two:\n        BTreeMap<u8, u8>,\n    pub three: u8,\n}\nimpl Server {\n}",
        ),
        ("src/server/turn.rs", "impl Server {\n}\nimpl Server {\n}"),
        ("src/server/inspection.rs", "impl Server {\n}"),
        ("src/server/a.rs", "impl ServerParts {\n}\n#[cfg(test)]\nmod tests {\nimpl Server {\n}\n}"),
        ("src/client/brain.rs", "impl Server {\n}"),
    ];
    let sources = files.map(|(path, text)| Source::new(path, text));
    let found = |fields, files| {
        brains::overgrown(&sources, &[Ceiling { room: "server", name: "Server", fields, files }])
    };
    assert_eq!(found(3, 2), Vec::<String>::new());
    let fields = found(2, 2);
    assert!(
        fields.len() == 1 && fields[0].starts_with("src/server/mod.rs: `Server` has 3 fields"),
        "{fields:?}"
    );
    let files = found(3, 1);
    assert!(
        files.len() == 1 && files[0].starts_with("src/server/mod.rs, src/server/turn.rs: 2 files"),
        "{files:?}"
    );
    let gone =
        brains::overgrown(&sources, &[Ceiling { room: "client", name: "Client", fields: 1, files: 1 }]);
    assert_eq!(gone, ["src/client: there is no `struct Client`: correct the list"]);
}

#[test]
fn a_checker_that_no_test_breaks_is_found() {
    let checker = "fn check_it() -> Result<(), String> { Ok(()) }\n";
    for (test, wanted) in [
        ("", 1),
        ("#[test]\nfn t() { assert!(world.check_it().is_err()); }", 0),
        ("#[test]\n// why\nfn t() { is_found(check_it(), \"it\"); }", 0),
        ("#[test]\nfn t() { let mut found = |n| world.check_it(n); assert!(found(1).is_err_and(f)); }", 0),
        ("#[test]\nfn t() { assert_eq!(world.check_it(), Ok(())); assert!(other().is_err()); }", 1),
        ("#[test]\nfn t() { assert!(world.check_its().is_err()); }", 1),
        ("#[test]\nfn t() { assert!(other().is_err()); // check_it\n}", 1),
        ("fn t() { assert!(world.check_it().is_err()); }", 1),
    ] {
        let sources = |path| [Source::new(path, &format!("{checker}{test}"))];
        let found = checkers::never_broken(&sources("src/sim/a.rs"));
        assert_eq!(found.len(), wanted, "{test}: {found:?}");
        assert_eq!(checkers::never_broken(&sources("src/api/a.rs")), Vec::<String>::new());
    }
}

#[test]
fn a_type_name_with_two_meanings_is_found() {
    let files = [
        ("src/server/a.rs", "pub struct Line;\npub struct Config;\nstruct Own;\npub(super) enum Near {}"),
        ("src/io/b.rs", "pub enum Line {}\npub struct Config;\nstruct Own;\npub(super) enum Near {}"),
        ("src/cli/c.rs", "pub struct Line;"),
        ("src/cli/node/shapes.rs", "pub struct Line;"),
        ("src/api/tests/d.rs", "pub struct Line;"),
        ("src/api/e.rs", "#[cfg(test)]\nmod tests {\npub struct Line;\n}"),
    ];
    let sources = files.map(|(path, text)| Source::new(path, text));
    let found = types::doubled(&sources, &[("Config", 2)]);
    assert_eq!(
        found,
        [
            "src/server/a.rs:1, src/io/b.rs:1, src/cli/c.rs:1: the public type name `Line` has several meanings"
        ]
    );
    let fewer = types::doubled(&sources, &[("Config", 3), ("Line", 3)]);
    assert_eq!(fewer, ["`Config` is declared 2 times: correct the list"]);
}

#[test]
fn a_private_type_name_with_two_meanings_in_a_room_is_found() {
    let files = [
        (
            "src/io/a.rs",
            "struct Line;\npub(super) enum Near {}\nfn f() {\n    struct Inside;\n}\ntype Key = u8;",
        ),
        ("src/io/b.rs", "pub trait Line {}\nstruct Inside;\nimpl A for B {\n    type Key = u8;\n}"),
        ("src/io/c.rs", "#[cfg(test)]\nmod tests {\nstruct Near;\n}"),
        ("src/agent/a.rs", "struct Near;"),
    ];
    let found = types::doubled_in_a_room(&files.map(|(path, text)| Source::new(path, text)));
    let twice = |places: &str, name: &str| format!("{places}: `{name}` has several meanings in io");
    assert_eq!(
        found,
        [twice("src/io/a.rs:4, src/io/b.rs:2", "Inside"), twice("src/io/a.rs:1, src/io/b.rs:1", "Line")]
    );
}

#[test]
fn a_public_item_that_nobody_names_is_found() {
    let files = [
        (
            "src/model/a.rs",
            "pub fn named() {}\npub struct Lonely;\n#[cfg(test)]\nmod tests {\nfn f() { Lonely }\n}",
        ),
        ("src/model/mod.rs", "#[cfg(any(test, feature = \"testing\"))]\npub mod samples;"),
        ("src/model/samples.rs", "pub fn for_tests() {}"),
        (
            "src/server/a.rs",
            "fn f() { named() }\n#[cfg(any(test, feature = \"testing\"))]\npub fn looks_inside() {}",
        ),
    ];
    let found = public::unnamed(&files.map(|(path, text)| Source::new(path, text)));
    assert_eq!(found, ["src/model/a.rs:2: nobody names `Lonely` in what ships"]);
}

#[test]
fn sizes_are_limited_and_ceilings_only_fall() {
    let file = |lines: usize| Source::new("src/model/a.rs", &"//\n".repeat(lines));
    let listed: &[(&str, usize)] = &[("src/model/a.rs", 900)];
    let unlisted: &[(&str, usize)] = &[];
    for (lines, list, wanted) in [
        (500, unlisted, 0),
        (501, unlisted, 1),
        (900, listed, 0),
        (901, listed, 1),
        (839, listed, 1),
        (500, listed, 1),
    ] {
        assert_eq!(checks::file_size_against(&file(lines), list).len(), wanted, "{lines} lines");
    }
}

#[test]
fn many_long_files_or_functions_are_found() {
    let lines: Vec<usize> = (1..=100).collect();
    assert_eq!(checks::over_percentiles("files", lines.clone(), (51, 91)), Vec::<String>::new());
    for most in [(50, 91), (51, 90)] {
        let found = checks::over_percentiles("files", lines.clone(), most);
        assert_eq!(found.len(), 1, "{most:?}: {found:?}");
    }
}

#[test]
fn long_functions_are_found_with_their_place() {
    let body = |lines: usize| {
        format!("trait T {{ fn none(&self) -> [u8; 2]; }}\nfn f(a: fn(u8)) {{\n{}}}\n", "a;\n".repeat(lines))
    };
    assert_eq!(checks::function_size(&Source::new("src/model/a.rs", &body(68))), Vec::<String>::new());
    let long = checks::function_size(&Source::new("src/model/a.rs", &body(69)));
    assert_eq!(long, ["src/model/a.rs:2: `f` has 71 lines: split it"]);
}

#[test]
fn the_lexer_tells_code_from_comments_and_strings() {
    let text = "let a = 'x'; let b: &'static str = \"q\\\"fn\"; /* o /* i */ fn */ let c = br##\"fn\"#\"##; r#fn // fn\n'\\''";
    let source = Source::new("src/model/a.rs", text);
    assert_eq!(
        source.code.split_whitespace().collect::<Vec<_>>().join(" "),
        "let a = ; let b: &'static str = ; let c = b ; r#fn"
    );
    assert_eq!(source.comments.split_whitespace().collect::<Vec<_>>().join(" "), "/* o /* i */ fn */ // fn");
    assert!(source.strings.contains("q\\\"fn") && source.strings.contains("'\\''"), "{}", source.strings);
}

#[test]
fn a_tree_with_a_runtime_or_a_system_library_is_refused() {
    let package = |name: &str| format!("[[package]]\nname = \"{name}\"\ndependencies = [\n \"x\",\n]\n");
    assert_eq!(tree::lock_file(&(package("smol") + &package("protobuf"))), Vec::<String>::new());
    for name in ["tokio", "tokio-util", "aws-lc-sys"] {
        assert_eq!(tree::lock_file(&package(name)).len(), 1, "{name}");
    }
    let needs = |name: &str, needed: &str| {
        format!("[[package]]\nname = \"{name}\"\ndependencies = [\n \"{needed}\",\n]\n")
    };
    let leaf = needs("tokio", "pin-project-lite");
    for name in ["hyper", "quinn"] {
        assert_eq!(tree::lock_file(&(leaf.clone() + &needs(name, "tokio"))), Vec::<String>::new());
    }
    assert_eq!(tree::lock_file(&(leaf + &needs("smol", "tokio"))).len(), 1, "not for others");
    let registry = "[[package]]\nname = \"protobuf\"\nsource = \"registry+https://x\"\n";
    assert_eq!(tree::lock_file(registry).len(), 1);
}

#[test]
fn an_item_is_found_by_its_owner_and_name() {
    let text = "pub struct Plan<T> {\n    pub(super) part: T,\n}\nenum Step {\n    First,\n}\nimpl<T> Plan<T> {\n    fn verify(&self) { second() }\n}\nfn alone() {}";
    let sources = [Source::new("src/server/plans.rs", text), Source::new("tests/a.rs", "fn outside() {}")];
    for (name, wanted) in [
        ("Plan", true),
        ("Plan::verify", true),
        ("Plan::part", true),
        ("Step::First", true),
        ("plans::alone", true),
        ("server::plans", true),
        ("Plan::alone", false),
        ("Plan::second", false),
        ("Step::verify", false),
        ("outside", false),
        ("second", false),
    ] {
        assert_eq!(items::exists(&sources, name), wanted, "{name}");
    }
    assert!(items::is_path_of_items("Plan::part") && !items::is_path_of_items("src/server"));
}
