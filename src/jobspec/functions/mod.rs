//! The functions that job files may call (jobspec.md 2.2.5). Each takes values and gives a value or a sentence.
//!
//! Refuses to know: names in scope and positions. Whatever could grow beyond its arguments asks the budget first.

mod arguments;
mod collections;
mod encoding;
mod files;
mod format;
mod network;
mod numbers;
mod strings;
#[cfg(test)]
mod tests;
mod time;

use super::nearest::nearest;
use super::scope::Budget;
use arguments::Arguments;
use serde_json::Value;

/// What the filesystem functions may ask. Absent where a job is parsed for somebody else.
pub trait Files {
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;
    fn exists(&self, path: &str) -> Result<bool, String>;
    /// The regular files under `dir`, at any depth, relative to it, with `/` between names.
    fn list(&self, dir: &str) -> Result<Vec<String>, String>;
    /// The directory that relative paths start from.
    fn working_dir(&self) -> String;
    /// What `~` stands for.
    fn home(&self) -> String;
}

/// What functions may use beyond their arguments.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub files: Option<&'a dyn Files>,
    /// Where random ids and salts come from: equal seeds give equal jobs.
    pub seed: u64,
    pub budget: &'a Budget,
}

/// Why a call gives no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    Unknown(String),
    Failed(String),
    TooMuch,
}

pub fn call(name: &str, args: Vec<Value>, world: &World<'_>) -> Result<Value, Error> {
    let args = Arguments::new(args, world.budget);
    numbers::call(name, &args)
        .or_else(|| strings::call(name, &args))
        .or_else(|| format::call(name, &args))
        .or_else(|| collections::call(name, &args))
        .or_else(|| encoding::call(name, &args, world))
        .or_else(|| network::call(name, &args))
        .or_else(|| time::call(name, &args))
        .or_else(|| files::call(name, &args, world.files))
        .unwrap_or_else(|| {
            let hint = nearest(name, NAMES).map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
            Err(Error::Unknown(format!("there is no function {name:?}{hint}")))
        })
}

/// All of them, for "did you mean".
const NAMES: [&str; 83] = [
    "abs",
    "base64decode",
    "base64encode",
    "bcrypt",
    "can",
    "ceil",
    "chomp",
    "chunklist",
    "cidrhost",
    "cidrnetmask",
    "cidrsubnet",
    "cidrsubnets",
    "coalesce",
    "coalescelist",
    "compact",
    "concat",
    "contains",
    "convert",
    "csvdecode",
    "distinct",
    "element",
    "flatten",
    "floor",
    "format",
    "formatdate",
    "formatlist",
    "indent",
    "index",
    "join",
    "jsondecode",
    "jsonencode",
    "keys",
    "length",
    "log",
    "lookup",
    "lower",
    "max",
    "md5",
    "merge",
    "min",
    "parseint",
    "pow",
    "range",
    "regex_replace",
    "replace",
    "reverse",
    "rsadecrypt",
    "setintersection",
    "setproduct",
    "setunion",
    "sha1",
    "sha256",
    "sha512",
    "signum",
    "slice",
    "sort",
    "split",
    "strlen",
    "strrev",
    "substr",
    "timeadd",
    "title",
    "trim",
    "trimprefix",
    "trimspace",
    "trimsuffix",
    "try",
    "upper",
    "urlencode",
    "uuidv4",
    "uuidv5",
    "values",
    "yamldecode",
    "yamlencode",
    "zipmap",
    "abspath",
    "basename",
    "dirname",
    "file",
    "filebase64",
    "fileexists",
    "fileset",
    "pathexpand",
];
