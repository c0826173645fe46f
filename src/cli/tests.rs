//! Tables for the command line: flags, help, unknown commands.

use super::*;
use argh::{ArgsInfo, FromArgs};
use flags::{FlagError, SplitArgs, split};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

fn run_split(line: &str) -> Result<SplitArgs, FlagError> {
    split(&words(line), &job::run::JobRunCommand::get_args_info(), true, false)
}

#[test]
fn nomads_spellings_of_flags_become_arghs() {
    for (line, expected) in [
        ("-detach a.hcl", "--detach -- a.hcl"),
        ("--detach a.hcl", "--detach -- a.hcl"),
        ("-detach=true a.hcl", "--detach -- a.hcl"),
        ("-detach=false a.hcl", "-- a.hcl"),
        ("-detach -detach a.hcl", "--detach -- a.hcl"),
        ("-detach -detach=false a.hcl", "-- a.hcl"),
        ("a.hcl -detach", "--detach -- a.hcl"),
        ("-var a=1 --var=b=2 -", "--var a=1 --var b=2 -- -"),
        ("-check-index 3 -check-index=4 x", "--check-index 4 -- x"),
        ("-hcl2-strict x", "--hcl2-strict true -- x"),
        ("-hcl2-strict=false x", "--hcl2-strict false -- x"),
        ("-- -detach", "-- -detach"),
        ("-var -detach x", "--var -detach -- x"),
    ] {
        assert_eq!(run_split(line).map(|s| s.args), Ok(words(expected)), "{line}");
    }
}

#[test]
fn normalized_arguments_are_accepted_by_argh() {
    for line in
        ["-detach -var a=1 -hcl2-strict=false -eval-priority=7 a.hcl", "-", "", "-output -json -verbose x"]
    {
        let split = run_split(line).unwrap();
        let args: Vec<&str> = split.args.iter().map(String::as_str).collect();
        assert!(job::run::JobRunCommand::from_args(&["x"], &args).is_ok(), "{line}");
    }
}

#[test]
fn wrong_flags_are_refused_by_name() {
    for (line, expected) in [
        ("-detahc x", "unknown flag -detahc; did you mean -detach?"),
        ("-adress=x", "unknown flag -adress; did you mean -address?"),
        ("-qqqqqqqqqq", "unknown flag -qqqqqqqqqq"),
        ("-var", "the flag -var needs a value"),
        ("-detach=maybe", "the flag -detach is true or false, not \"maybe\""),
        ("-ca-cert", "the flag -ca-cert needs a value"),
        ("-insecure=x", "the flag -insecure is true or false, not \"x\""),
    ] {
        assert_eq!(run_split(line).map_err(|e| e.to_string()), Err(expected.to_string()), "{line}");
    }
}

#[test]
fn global_flags_are_taken_out() {
    let split = run_split("-address http://a:1 -no-color x -namespace=n -force-color=false").unwrap();
    assert_eq!(split.args, words("-- x"));
    let expected =
        [("address", "http://a:1"), ("no-color", "true"), ("namespace", "n"), ("force-color", "false")];
    assert_eq!(split.globals, expected.map(|(n, v)| (n, v.to_string())));
    assert!(run_split("-h").unwrap().help && run_split("x --help").unwrap().help);
}

#[test]
fn every_command_has_help_with_an_example_and_its_own_flags() {
    for command in COMMANDS {
        let ask = |line: &str| prepare(command, &words(line), &|_| None).err();
        let Some(EarlyEnd::Help(help)) = ask("-h") else { panic!("{}: no help", command.name) };
        let example =
            help.split("Examples:").nth(1).is_some_and(|e| e.contains(&format!("drover {}", command.name)));
        assert!(example && help.contains("  -h, -help ") && !help.contains(" --"), "{help}");
        assert_eq!(help.contains("  -address "), command.networked, "{help}");
        let expected = format!("unknown flag -no-such-flag\n\n{help}");
        assert_eq!(
            ask("-no-such-flag"),
            Some(EarlyEnd::Wrong(expected, command.failure)),
            "{}",
            command.name
        );
    }
}

#[test]
fn options_are_aligned() {
    let Err(EarlyEnd::Help(help)) = prepared("job stop -h") else { panic!("no help") };
    let shown = "  -purge            forget the job and its allocations at once\n";
    assert!(help.contains(shown) && help.contains("  -address          where the agent is"), "{help}");
}

/// Chosen and prepared, but not run.
fn prepared(line: &str) -> Result<&'static str, EarlyEnd> {
    let args = words(line);
    let (command, rest) = choose(&args)?;
    prepare(command, rest, &|_| None).map(|_| command.name)
}

#[test]
fn commands_are_found_by_name_and_alias() {
    for (line, expected) in [
        ("job run a", "job run"),
        ("run a", "job run"),
        ("stop a b", "job stop"),
        ("start a", "job start"),
        ("logs -f a", "alloc logs"),
        ("status", "status"),
        ("status job run", "status"),
        ("alloc-status a", "alloc status"),
        ("keeper run -data-dir /d", "keeper run"),
        ("version", "version"),
    ] {
        let found = prepared(line).map_err(|_| ());
        let too_many = line == "status job run";
        assert_eq!(found, if too_many { Err(()) } else { Ok(expected) }, "{line}");
    }
}

#[test]
fn unknown_commands_exit_127_and_unbuilt_ones_1() {
    for (line, code, expected) in [
        ("", 127, "Usage: drover <command>"),
        ("jbo run", 127, "Unknown command \"drover jbo run\". Did you mean \"drover job run\"?"),
        ("job rnu x", 1, "Did you mean \"drover job run\"?"),
        ("qqqqqqqqq", 127, "\"drover -h\" lists the commands."),
        ("job", 1, "Usage: drover job <command>"),
        ("license get", 1, "not supported yet: license"),
        ("plan -bogus", 255, "-bogus"),
        ("operator raft migrate-backend", 1, "not supported yet: operator"),
        ("operator gossip keyring list", 1, "not supported yet: operator gossip"),
        ("agent -rejoin", 1, "not supported yet: -rejoin"),
    ] {
        match prepared(line) {
            Err(EarlyEnd::Wrong(text, found)) => {
                assert!(found == code && text.contains(expected), "{line}: {text}")
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    for (line, expected) in [
        ("-h", "  job run "),
        ("job -h", "  job stop "),
        ("--version", "drover v"),
        ("keeper -help", "  keeper run "),
        ("operator -help", "  operator gossip keyring generate "),
    ] {
        assert!(matches!(prepared(line), Err(EarlyEnd::Help(text)) if text.contains(expected)), "{line}");
    }
}

#[test]
fn no_command_is_both_built_and_not() {
    for command in COMMANDS {
        assert!(!NOT_SUPPORTED.contains(&command.name), "{}", command.name);
    }
}

#[test]
fn lists_of_commands_keep_names_apart_from_what_they_do() {
    let groups = COMMANDS.iter().filter_map(|c| c.name.split_once(' ')).map(|(group, _)| group);
    for group in groups.chain([""]) {
        let list = overview(group);
        for command in
            COMMANDS.iter().filter(|c| group.is_empty() || c.name.starts_with(&format!("{group} ")))
        {
            let line = list.lines().find(|l| l.trim_start().starts_with(&format!("{}  ", command.name)));
            assert!(
                line.is_some_and(|l| l.ends_with(&format!("  {}", command.about))),
                "{}: {list}",
                command.name
            );
        }
        let columns: std::collections::BTreeSet<usize> = list
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter_map(|line| line.find("  ").map(|end| line.len() - line[end..].trim_start().len()))
            .collect();
        assert_eq!(columns.len(), 1, "one column: {list}");
    }
}

#[test]
fn numbers_out_of_range_are_told_the_range() {
    let numeric = |f: &&argh::FlagInfo<'_>| {
        let name = f.long.trim_start_matches('-');
        matches!(name, "n" | "c" | "version" | "diff-version" | "priority" | "eval-priority" | "per-page")
            || matches!(name, "check-index" | "bootstrap-expect" | "node-limit-for-feasibility-checks")
    };
    let mut asked = 0;
    for command in COMMANDS {
        for flag in (command.info)().flags.iter().filter(numeric) {
            let name = flag.long.trim_start_matches('-');
            for value in ["x", "1.5", "-99999999999999999999", "99999999999999999999"] {
                let line = format!("-{name}={value}");
                let Err(EarlyEnd::Wrong(told, code)) = prepare(command, &words(&line), &|_| None) else {
                    panic!("{} {line}: accepted", command.name)
                };
                let why =
                    format!("Error parsing option '-{name}' with value '{value}': it must be a whole number");
                assert!(told.starts_with(&why) && !told.contains("Usage:"), "{}: {told}", command.name);
                assert_eq!((told.lines().count(), code), (2, command.failure), "{told}");
            }
            asked += 1;
        }
    }
    assert_eq!(asked, 21);
    for command in ["job run", "job stop"] {
        let command = COMMANDS.iter().find(|c| c.name == command).unwrap();
        for value in ["0", "101", "500"] {
            let line = format!("-eval-priority {value} x");
            let Err(EarlyEnd::Wrong(told, _)) = prepare(command, &words(&line), &|_| None) else {
                panic!("{line}")
            };
            assert!(told.contains("it must be a whole number between 1 and 100"), "{told}");
        }
        assert!(prepare(command, &words("-eval-priority 100 x"), &|_| None).is_ok());
    }
}
