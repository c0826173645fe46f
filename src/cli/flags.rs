//! Nomad's command line habits, turned into what argh understands: `-flag`, `--flag`, `-flag=value`, `-flag value`, booleans
//! as `-x=false`, `-` and everything after `--` as arguments. Global flags are taken out on the way.
//!
//! Pure. Refuses to know: what a flag does. One kindness beyond Go's rules: flags may also follow arguments.

use crate::settings::go_bool;
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind};
use jobspec::nearest::nearest;
use std::fmt;

/// A flag that every networked command knows. `value`: it takes one.
pub struct GlobalFlag {
    pub name: &'static str,
    pub value: bool,
    pub help: &'static str,
}

const fn global(name: &'static str, value: bool, help: &'static str) -> GlobalFlag {
    GlobalFlag { name, value, help }
}

pub static GLOBAL_FLAGS: &[GlobalFlag] = &[
    global("address", true, "where the agent is: http://, https:// or unix:// [DROVER_ADDR, NOMAD_ADDR]"),
    global("region", true, "the region to ask [.._REGION]"),
    global("namespace", true, "the namespace; * is all of them where lists are shown [.._NAMESPACE]"),
    global("token", true, "sent as X-Nomad-Token [.._TOKEN]"),
    global("ca-cert", true, "a file with the authorities to trust [.._CACERT]"),
    global("ca-path", true, "a folder with the authorities to trust [.._CAPATH]"),
    global("client-cert", true, "the certificate to show to the agent [.._CLIENT_CERT]"),
    global("client-key", true, "its key [.._CLIENT_KEY]"),
    global("tls-server-name", true, "the name that the agent's certificate must have [.._TLS_SERVER_NAME]"),
    global("tls-skip-verify", false, "take any certificate, whoever shows it [.._SKIP_VERIFY]"),
    global("insecure", false, "the same"),
    global("no-color", false, "no colours [.._CLI_NO_COLOR]"),
    global("force-color", false, "colours without a terminal, too [.._CLI_FORCE_COLOR]"),
];

/// Flags of `agent` that are known and not built.
const AGENT_NOT_BUILT: [&str; 7] = [
    "acl-enabled",
    "acl-replication-token",
    "dev-connect",
    "network-speed",
    "plugin-dir",
    "raft-protocol",
    "rejoin",
];

/// A command line, sorted out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SplitArgs {
    pub help: bool,
    /// For argh: long flags with their values, then `--`, then arguments.
    pub args: Vec<String>,
    /// Global flags in order; a switch has the value `true` or `false`.
    pub globals: Vec<(&'static str, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum FlagError {
    Unknown { flag: String, nearest: Option<String> },
    ValueMissing(String),
    NotABoolean { flag: String, value: String },
    NotSupported(String),
}

impl FlagError {
    /// With what is known of this command's flags besides those that it declares.
    pub fn of(self, command: &str) -> FlagError {
        match self {
            FlagError::Unknown { flag, .. } if command == "agent" && AGENT_NOT_BUILT.contains(&&*flag) => {
                FlagError::NotSupported(flag)
            }
            other => other,
        }
    }
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Unknown { flag, nearest: Some(near) } => {
                write!(f, "unknown flag -{flag}; did you mean -{near}?")
            }
            FlagError::Unknown { flag, nearest: None } => write!(f, "unknown flag -{flag}"),
            FlagError::ValueMissing(flag) => write!(f, "the flag -{flag} needs a value"),
            FlagError::NotABoolean { flag, value } => {
                write!(f, "the flag -{flag} is true or false, not {value:?}")
            }
            FlagError::NotSupported(flag) => write!(f, "not supported yet: -{flag}"),
        }
    }
}

/// What a known flag wants.
enum Shape {
    Switch,
    /// An option of argh's whose value is `true` or `false` and may be left out.
    Boolean,
    Value,
}

/// Sorts `args` by the flags that `command` declares and, of a networked one, the global ones.
/// `flags_first`: the first argument ends the flags, since what follows it is another's command line.
pub fn split(
    args: &[String],
    command: &CommandInfoWithArgs,
    networked: bool,
    flags_first: bool,
) -> Result<SplitArgs, FlagError> {
    let globals = if networked { GLOBAL_FLAGS } else { &[] };
    let mut out = SplitArgs::default();
    let mut positionals = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            positionals.extend(rest.cloned());
            break;
        }
        let Some(body) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|b| !b.is_empty())
        else {
            positionals.push(arg.clone());
            if flags_first {
                positionals.extend(rest.cloned());
                break;
            }
            continue;
        };
        let (name, given) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (body, None),
        };
        // argh knows no capitals
        let name = if name == "H" && own_flag(command, "machine").is_some() { "machine" } else { name };
        if matches!(name, "h" | "help") {
            out.help = true;
            continue;
        }
        if let Some(own) = own_flag(command, name) {
            own_argument(&mut out.args, own, given, &mut rest)?;
        } else if let Some(found) = globals.iter().find(|g| g.name == name) {
            out.globals.push((found.name, global_value(found, given, &mut rest)?));
        } else {
            return Err(unknown(command, globals, name));
        }
    }
    if !positionals.is_empty() {
        out.args.push("--".to_string());
        out.args.extend(positionals);
    }
    Ok(out)
}

/// Flags of one letter that argh cannot spell, and the flag that each stands for where a command has it.
const SHORT: [(&str, &str); 3] = [("X", "method"), ("H", "header"), ("v", "verbose")];

fn own_flag(command: &CommandInfoWithArgs, name: &str) -> Option<&'static FlagInfo<'static>> {
    let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
    command.flags.iter().find(|f| f.long.trim_start_matches('-') == name)
}

/// A flag of the command's own that is followed by a value.
pub fn takes_value(command: &CommandInfoWithArgs, name: &str) -> bool {
    own_flag(command, name).is_some_and(|flag| matches!(shape(flag), Shape::Value))
}

fn shape(flag: &FlagInfo<'_>) -> Shape {
    match flag.kind {
        FlagInfoKind::Switch => Shape::Switch,
        FlagInfoKind::Option { arg_name: "bool" } => Shape::Boolean,
        FlagInfoKind::Option { .. } => Shape::Value,
    }
}

fn own_argument<'a>(
    out: &mut Vec<String>,
    flag: &FlagInfo<'_>,
    given: Option<String>,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<(), FlagError> {
    let name = flag.long.trim_start_matches('-');
    let long = format!("--{name}");
    match shape(flag) {
        Shape::Switch => {
            if boolean(name, given)? {
                // twice the same switch is an error to argh, and none to Go
                if !out.contains(&long) {
                    out.push(long);
                }
            } else {
                out.retain(|arg| *arg != long);
            }
        }
        Shape::Boolean => {
            let value = boolean(name, given)?;
            replace(out, long, value.to_string());
        }
        Shape::Value => {
            let value = value_of(name, given, rest)?;
            if matches!(flag.optionality, argh::Optionality::Repeating) {
                out.extend([long, value]);
            } else {
                replace(out, long, value);
            }
        }
    }
    Ok(())
}

/// The last one said counts.
fn replace(out: &mut Vec<String>, long: String, value: String) {
    if let Some(at) = out.iter().step_by(1).position(|arg| *arg == long) {
        out.drain(at..(at + 2).min(out.len()));
    }
    out.extend([long, value]);
}

fn global_value<'a>(
    flag: &GlobalFlag,
    given: Option<String>,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<String, FlagError> {
    if flag.value { value_of(flag.name, given, rest) } else { Ok(boolean(flag.name, given)?.to_string()) }
}

fn value_of<'a>(
    name: &str,
    given: Option<String>,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<String, FlagError> {
    given.or_else(|| rest.next().cloned()).ok_or_else(|| FlagError::ValueMissing(name.to_string()))
}

/// As Go's `strconv.ParseBool` takes them.
fn boolean(name: &str, given: Option<String>) -> Result<bool, FlagError> {
    let Some(value) = given else { return Ok(true) };
    go_bool(&value).ok_or_else(|| FlagError::NotABoolean { flag: name.to_string(), value })
}

/// Flags of Nomad's commands that drover's do not have: what they ask for is not built (cli.md 1.1.4).
const NOT_BUILT: [&str; 8] = [
    "consul-namespace",
    "consul-token",
    "group",
    "hcl1",
    "policy-override",
    "ui",
    "vault-namespace",
    "vault-token",
];

fn unknown(command: &CommandInfoWithArgs, globals: &[GlobalFlag], name: &str) -> FlagError {
    if NOT_BUILT.contains(&name) {
        return FlagError::NotSupported(name.to_string());
    }
    let own = command.flags.iter().map(|f| f.long.trim_start_matches('-'));
    let known = own.chain(globals.iter().map(|g| g.name));
    FlagError::Unknown { flag: name.to_string(), nearest: nearest(name, known).map(str::to_string) }
}

/// argh's words on a value that its flag does not take, in the house's spelling; `None` when it says something else.
pub fn wrong_value(argh_text: &str) -> Option<String> {
    argh_text.strip_prefix("Error parsing option '--").map(|rest| format!("Error parsing option '-{rest}"))
}

/// argh's help text in the house's spelling: one dash, and the global flags at the end.
pub fn help_text(argh_text: &str, networked: bool) -> String {
    let mut out = String::new();
    for line in argh_text.trim_end().lines() {
        out.push_str(&respelled(line));
        out.push('\n');
    }
    if networked {
        out.push_str("\nGlobal options:\n");
        for flag in GLOBAL_FLAGS {
            out.push_str(&option_line(flag.name, flag.help));
            out.push('\n');
        }
    }
    out
}

fn respelled(line: &str) -> String {
    let line = line.replace("--help, help", "--h, -help").replace("[--]", "").replace("[--", "[-");
    if line.starts_with("Usage:") {
        return line.replace(" --", " -").replace("  ", " ");
    }
    let Some(option) = line.strip_prefix("  --") else { return line };
    let Some((name, about)) = option.split_once(' ') else { return format!("  -{option}") };
    // `-h, -help` has a blank of its own
    match about.strip_prefix("-help") {
        Some(about) => option_line(&format!("{name} -help"), about.trim_start()),
        None => option_line(name, about.trim_start()),
    }
}

fn option_line(name: &str, about: &str) -> String {
    format!("  {:<17} {about}", format!("-{name}"))
}
