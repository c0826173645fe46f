//! The checks that look at one file at a time: each takes a source and returns its findings, one sentence each.
//!
//! Raising a ceiling here is a decision, to be explained where it is raised; lowering one is housekeeping.

use crate::source::{Source, is_word, word_positions};

/// A file over this many lines is named in `LONG_FILES`.
const SOFT_LINES: usize = 500;
/// A file over this many lines wants splitting; one in `LONG_FILES` may be longer, with a reason beside it.
const HARD_LINES: usize = 800;
/// Files over the soft limit and the ceiling of each, which may only fall. Over the hard limit only with a reason.
pub const LONG_FILES: &[(&str, usize)] = &[("src/scheduler/process/tests.rs", 516)];
/// How far a file may stay below its ceiling before the ceiling must follow.
const SLACK_LINES: usize = 60;
/// No function is longer, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// No function's name is longer.
const NAME_CHARACTERS: usize = 60;

/// Unfinished or fragile work, as it stands in code.
const BANNED_CODE: &[(&str, &str)] = &[
    ("todo!", "build it, or refuse it with \"not supported yet: ...\""),
    ("unimplemented!", "build it, or refuse it with \"not supported yet: ...\""),
    ("dbg!", "left over from debugging"),
    ("#[ignore", "a test runs or is deleted"),
    ("allow(dead_code", "delete what nothing uses"),
    ("allow(unused", "delete what nothing uses"),
    ("assert!(true)", "an assertion must be able to fail"),
    ("unbounded", "give it a bound, and its sender an answer when it is full"),
    ("thread::sleep", "wait for the event itself, with a deadline"),
    ("Timer::after(", "wait for the event itself, with a deadline"),
];
/// What pauses. Outside of tests the three outer rooms may, under a deadline of their own.
const PAUSES: &[&str] = &["thread::sleep", "Timer::after("];
/// Where black-box tests poll an outside process for a condition: the one place of theirs that pauses between two looks.
const POLLING_FILE: &str = "tests/black_box/wait.rs";
const BANNED_COMMENTS: &[&str] = &["FIXME", "XXX", "TODO", "HACK"];
/// Module names that say nothing about their content.
const BANNED_MODULES: &[&str] =
    &["common", "util", "utils", "helper", "helpers", "prelude", "misc", "shared"];
/// Characters outside ASCII that code and comments may use; strings are free.
const DECLARED_CHARACTERS: &str = "–—…·×→←≤≥≠µ§";
/// Direction marks and zero-width characters make a text read otherwise than it compiles: nowhere, not even in strings.
const HIDDEN_CHARACTERS: &[std::ops::RangeInclusive<char>] =
    &['\u{200b}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2060}'..='\u{2069}', '\u{feff}'..='\u{feff}'];
/// The rooms without threads, locks and waiting.
const BRAINS: &[&str] =
    &["model", "jobspec", "wire", "scheduler", "raft", "server", "client", "keeper", "api"];
const WAITING_WORDS: &[&str] = &["Mutex", "RwLock", "Condvar", "async", "await"];
/// Whose types are stored or sent as postcard.
const RECORD_ROOMS: &[&str] = &["model", "wire", "state", "keeper"];
const NOT_POSITIONAL: &[&str] = &["skip_serializing_if", "flatten", "untagged", "tag ="];
/// The rooms at whose heads the bans of .clippy.toml are lifted.
const OUTSIDE_ROOMS: &[&str] = &["io", "agent", "cli"];
/// And the test that shares the simulator's seeds among the cores.
const SEEDS: &str = "src/sim/tests.rs";

/// The path packages whose module names a published crate dictates.
const FOREIGN: &str = "src/raft/engine_types/";

pub fn head_doc(source: &Source) -> Vec<String> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let says_something = first.strip_prefix("//!").is_some_and(|doc| doc.trim().len() > 10);
    if says_something { Vec::new() } else { vec![format!("{}: opens without a `//!` head doc", source.path)] }
}

pub fn file_size(source: &Source) -> Vec<String> {
    file_size_against(source, LONG_FILES)
}

pub fn file_size_against(source: &Source, long_files: &[(&str, usize)]) -> Vec<String> {
    let lines = source.line_count();
    let path = &source.path;
    match long_files.iter().find(|(long, _)| long == path) {
        None if lines > HARD_LINES => vec![format!("{path}: {lines} lines: split it")],
        None if lines > SOFT_LINES => {
            vec![format!("{path}: {lines} lines: split it, or name it in LONG_FILES")]
        }
        Some((_, ceiling)) if lines > *ceiling => {
            vec![format!("{path}: {lines} lines, over its ceiling of {ceiling}, which may only fall")]
        }
        Some((_, ceiling)) if lines <= SOFT_LINES || lines + SLACK_LINES < *ceiling => {
            vec![format!(
                "{path}: {lines} lines now: lower its ceiling of {ceiling}, or drop it from LONG_FILES"
            )]
        }
        _ => Vec::new(),
    }
}

/// Lines at the median and at the 90th percentile of what ships: most files and functions are small, and not only the largest bounded.
/// They may only fall.
const FUNCTION_PERCENTILES: (usize, usize) = (9, 23);
const FILE_PERCENTILES: (usize, usize) = (150, 370);

pub fn percentiles(sources: &[Source]) -> Vec<String> {
    let ships = |s: &&Source| {
        let is_support = ["src/sim/", "src/fuzz/", FOREIGN].iter().any(|dir| s.path.starts_with(dir));
        s.path.starts_with("src/") && !is_support
    };
    let ship: Vec<&Source> = sources.iter().filter(ships).collect();
    let functions = ship.iter().flat_map(|s| s.functions()).map(|f| f.lines).collect();
    let files = ship.iter().map(|s| s.line_count()).collect();
    let mut found = over_percentiles("functions", functions, FUNCTION_PERCENTILES);
    found.extend(over_percentiles("files", files, FILE_PERCENTILES));
    found
}

pub fn over_percentiles(of: &str, mut lines: Vec<usize>, most: (usize, usize)) -> Vec<String> {
    lines.sort_unstable();
    let at = |percent: usize| lines.get(lines.len() * percent / 100).copied().unwrap_or(0);
    let found = (at(50), at(90));
    let is_over = found.0 > most.0 || found.1 > most.1;
    is_over
        .then(|| format!("{of}: {found:?} lines at the median and the 90th percentile, at most {most:?}"))
        .into_iter()
        .collect()
}

pub fn function_size(source: &Source) -> Vec<String> {
    let long = source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES);
    long.map(|f| format!("{}:{}: `{}` has {} lines: split it", source.path, f.line, f.name, f.lines))
        .collect()
}

pub fn banned_words(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (word, instead) in BANNED_CODE {
        let may_pause = |line: &usize| PAUSES.contains(word) && may_pause(source, *line);
        for line in source.code_lines_with(word).into_iter().filter(|line| !may_pause(line)) {
            found.push(format!("{}:{line}: `{word}`: {instead}", source.path));
        }
    }
    for word in BANNED_COMMENTS {
        for line in source.comment_lines_with(word) {
            found.push(format!(
                "{}:{line}: `{word}` in a comment: do it, or write it down as an issue",
                source.path
            ));
        }
    }
    found
}

/// A comment says what a thing is, instead of hanging on to the name below it.
pub fn bare_of(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.comments.lines().map(str::trim_start).collect();
    let opens = |at: usize| {
        let begins = at == 0 || !lines[at - 1].starts_with("//");
        begins && lines[at].trim_start_matches(['/', '!']).starts_with(" Of ")
    };
    let found = (0..lines.len()).filter(|at| opens(*at));
    found.map(|at| format!("{}:{}: opens with a bare \"Of\": say what it is", source.path, at + 1)).collect()
}

/// Words that stand for a noun elsewhere, which a reader of the comment alone has not seen.
const PRONOUNS: &[&str] = &["It", "They", "Its", "Their", "Whom", "Whoever"];

/// A doc comment names what it speaks of: editors show it without the code around it.
pub fn bare_pronouns(source: &Source) -> Vec<String> {
    if source.path.starts_with(FOREIGN) {
        return Vec::new();
    }
    let shipped = source.tests_begin().saturating_sub(1);
    let lines: Vec<&str> = source.comments.lines().take(shipped).map(str::trim_start).collect();
    let opening = |at: usize| {
        let doc = lines[at].strip_prefix("///").or_else(|| lines[at].strip_prefix("//!"))?;
        let word = doc.trim_start().split(|c| !is_word(c)).next()?;
        let begins = at == 0 || !lines[at - 1].starts_with("//");
        (begins && PRONOUNS.contains(&word)).then_some((at + 1, word))
    };
    let found = (0..lines.len()).filter_map(opening);
    found
        .map(|(line, word)| format!("{}:{line}: opens with \"{word}\": name what it is", source.path))
        .collect()
}

/// Names that nobody in this field would search for, and what they are called now. Whole words, in code and in comments.
const PRIVATE_WORDS: &[(&str, &str)] = &[
    ("take_office", "become_leader"),
    ("leave_office", "step_down"),
    ("bury_silent_nodes", "mark_expired_nodes_down"),
    ("Unhurried", "deferred proposals"),
    ("join_company", "flush"),
    ("rehearsal", "job_plan"),
    ("look_over", "search"),
    ("bury", "mark down"),
    ("enlist", "register"),
    ("Board", "SharedReservations"),
    ("told_at", "visible_at"),
    ("misplaced", "check_namespace_and_pool"),
    ("homeless", "check_namespace_and_pool"),
];
/// As any part of a name, and what says the same.
const PRIVATE_PARTS: &[(&str, &str)] = &[
    ("obey", "apply, execute"),
    ("gather", "collect"),
    ("operating", "operator"),
    ("kinship", "relation"),
    ("hurry", "schedule_now, no_shutdown_delay"),
];

pub fn private_words(source: &Source) -> Vec<String> {
    let mut found = vec![];
    for (at, line) in source.code.lines().zip(source.comments.lines()).enumerate() {
        let mut words = [line.0, line.1].into_iter().flat_map(|text| text.split(|c| !is_word(c)));
        if let Some((old, new)) = words.find_map(|word| PRIVATE_WORDS.iter().find(|(old, _)| *old == word)) {
            found.push(format!("{}:{}: `{old}` is called {new} here", source.path, at + 1));
        }
        let names = line.0.split(|c| !is_word(c)).map(str::to_lowercase);
        let parts: Vec<String> =
            names.flat_map(|name| name.split('_').map(str::to_string).collect::<Vec<_>>()).collect();
        let private = PRIVATE_PARTS.iter().find(|(old, _)| parts.iter().any(|part| part.starts_with(old)));
        if let Some((old, new)) = private {
            found.push(format!("{}:{}: `{old}` in a name: say {new}", source.path, at + 1));
        }
    }
    found
}

/// Names of tests say the behaviour, at a length that a reader takes in at once.
pub fn long_names(source: &Source) -> Vec<String> {
    let long = source.functions().into_iter().filter(|function| function.name.len() > NAME_CHARACTERS);
    long.map(|f| {
        format!("{}:{}: `{}` has more than {NAME_CHARACTERS} characters", source.path, f.line, f.name)
    })
    .collect()
}

/// A result is not ignored by making a default of it: `let _ =` says that it is ignored, and a comment why (`unexplained`).
pub fn ignored_results(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
    let begins = |at: usize| {
        let ends =
            |line: &str| line.is_empty() || line.ends_with([';', '{', '}', ',']) || line.ends_with("=>");
        (0..at).rev().find(|above| ends(lines[*above])).map_or(0, |above| above + 1)
    };
    let keeps = |statement: &str| {
        statement.starts_with("return") || statement.contains(" = ") || statement.contains("+=")
    };
    let ignored = |at: &usize| {
        let ends_statement = lines[*at].ends_with(".unwrap_or_default();");
        let is_arm_of_a_try = lines[*at].ends_with(".unwrap_or_default(),") && lines[*at].contains("try_");
        is_arm_of_a_try || ends_statement && !keeps(&lines[begins(*at)..=*at].join(" "))
    };
    let found = (0..lines.len()).filter(ignored);
    found
        .map(|at| format!("{}:{}: a result is ignored by `unwrap_or_default`", source.path, at + 1))
        .collect()
}

/// What ships and ignores a value says why, on the line itself or on the one above it.
pub fn unexplained(source: &Source) -> Vec<String> {
    if source.path.starts_with(FOREIGN)
        || !source.path.starts_with("src/")
        || source.path.starts_with("src/sim/")
    {
        return Vec::new();
    }
    let comments: Vec<&str> = source.comments.lines().collect();
    let says_why = |line: usize| !comments[line].trim().is_empty();
    let ignored = source.code_lines_with("let _ =").into_iter().filter(|line| *line < source.tests_begin());
    let found = ignored.filter(|line| !says_why(line - 1) && (*line < 2 || !says_why(line - 2)));
    found.map(|line| format!("{}:{line}: `let _ =` without a comment that says why", source.path)).collect()
}

/// A brain is one plain struct that one thread drives: it locks nothing and waits for nothing. What is shared among threads is the
/// agent's; `state` publishes views for readers on other threads.
pub fn plain_brains(source: &Source) -> Vec<String> {
    let shipped = |line: &usize| *line < source.tests_begin();
    if !source.room().is_some_and(|room| BRAINS.contains(&room)) || source.path.contains(FOREIGN) {
        return Vec::new();
    }
    let lines = WAITING_WORDS
        .iter()
        .flat_map(|word| source.code_lines_with(word).into_iter().map(move |line| (word, line)));
    let found = lines.filter(|(_, line)| shipped(line));
    found
        .map(|(word, line)| format!("{}:{line}: `{word}` in a brain: it is driven from outside", source.path))
        .collect()
}

/// What is stored and sent is encoded by position, which these switches of serde break; JSON belongs to `api`.
pub fn plain_records(source: &Source) -> Vec<String> {
    if !source.room().is_some_and(|room| RECORD_ROOMS.contains(&room)) {
        return Vec::new();
    }
    let code = source.code.lines().enumerate().take(source.tests_begin().saturating_sub(1));
    let breaks = |line: &str| {
        line.contains("serde_json")
            || (line.contains("serde(") && NOT_POSITIONAL.iter().any(|word| line.contains(word)))
    };
    let found = code.filter(|(_, line)| breaks(line));
    found
        .map(|(at, _)| {
            format!("{}:{}: a record is plain: postcard cannot read this back", source.path, at + 1)
        })
        .collect()
}

fn may_pause(source: &Source, line: usize) -> bool {
    let outside = source.room().is_some_and(|room| OUTSIDE_ROOMS.contains(&room));
    source.path == POLLING_FILE || (outside && line < source.tests_begin())
}

pub fn module_names(source: &Source) -> Vec<String> {
    if source.path.starts_with(FOREIGN) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for step in source.path.trim_end_matches(".rs").split('/') {
        if BANNED_MODULES.contains(&step) {
            found.push(format!("{}: `{step}` says nothing: name the thing", source.path));
        }
    }
    for name in BANNED_MODULES {
        for line in source.code_lines_with(&format!("mod {name}")) {
            found.push(format!("{}:{line}: `mod {name}` says nothing: name the thing", source.path));
        }
    }
    found
}

pub fn characters(source: &Source) -> Vec<String> {
    let hidden = |c: char| HIDDEN_CHARACTERS.iter().any(|range| range.contains(&c));
    let strange = |c: char| !c.is_ascii() && !DECLARED_CHARACTERS.contains(c);
    let mut found = Vec::new();
    for (view, wrong) in [
        (&source.code, &strange as &dyn Fn(char) -> bool),
        (&source.comments, &strange),
        (&source.strings, &hidden),
    ] {
        for (number, line) in view.lines().enumerate() {
            if let Some(c) = line.chars().find(|c| wrong(*c)) {
                found.push(format!("{}:{}: character U+{:04X}", source.path, number + 1, u32::from(c)));
            }
        }
    }
    found
}

/// `unsafe` stands only in io, each block and implementation with its proof in the comment above its statement. A function
/// that is unsafe to call needs none here: the blocks inside it do.
pub fn unsafety(source: &Source) -> Vec<String> {
    let comments: Vec<&str> = source.comments.lines().collect();
    let code: Vec<&str> = source.code.lines().collect();
    let mut found = Vec::new();
    for line in source.code_lines_with("unsafe") {
        let declares = ["unsafe fn", "unsafe extern"].iter().any(|words| code[line - 1].contains(words));
        if source.room() != Some("io") {
            found.push(format!("{}:{line}: `unsafe` outside io", source.path));
        } else if !declares && !proven(&code, &comments, line - 1) {
            found.push(format!("{}:{line}: `unsafe` without a `// SAFETY:` comment above it", source.path));
        }
    }
    found
}

/// Looks at the line itself, then upwards through attributes, comments and the lines of the same statement.
fn proven(code: &[&str], comments: &[&str], at: usize) -> bool {
    let passes = |line: &usize| {
        let text = code[*line].trim();
        let blank = text.is_empty() && comments[*line].trim().is_empty();
        !blank && !text.ends_with([';', '{', '}'])
    };
    std::iter::once(at).chain((0..at).rev().take_while(passes)).any(|line| comments[line].contains("SAFETY:"))
}

/// The bans of .clippy.toml and on `unsafe` are lifted at the heads of three rooms and in the black-box tests, nowhere else.
pub fn bans_lifted(source: &Source) -> Vec<String> {
    let at_a_head = source.room().is_some_and(|room| {
        OUTSIDE_ROOMS.contains(&room)
            && [format!("src/{room}.rs"), format!("src/{room}/mod.rs")].contains(&source.path)
    });
    if at_a_head || source.path == SEEDS || source.path.starts_with("tests/") {
        return Vec::new();
    }
    let chars: Vec<char> = source.code.chars().collect();
    let lifts = ["allow", "expect"].iter().flat_map(|word| word_positions(&chars, word));
    let mut found = Vec::new();
    for at in lifts {
        let lints: String = chars[at..].iter().take_while(|c| **c != ')').collect();
        let banned = [
            "disallowed_methods",
            "disallowed_types",
            "unsafe_code",
            "print_stdout",
            "print_stderr",
            "unwrap_used",
        ];
        for lint in banned.iter().filter(|lint| lints.split(|c| !is_word(c)).any(|word| word == **lint)) {
            let line = chars[..at].iter().filter(|c| **c == '\n').count() + 1;
            found.push(format!(
                "{}:{line}: `{lint}` is lifted only at the heads of {}",
                source.path,
                OUTSIDE_ROOMS.join(", ")
            ));
        }
    }
    found
}
