//! Functions of files, through what the caller handed in: this room opens nothing itself.

use super::arguments::{Arguments, Outcome, texts};
use super::{Error, Files};
use base64::Engine as _;
use serde_json::Value;

/// Larger files are refused.
const MAX_FILE: usize = 1 << 20;

pub fn call(name: &str, args: &Arguments<'_>, files: Option<&dyn Files>) -> Option<Outcome> {
    if !["abspath", "basename", "dirname", "file", "filebase64", "fileexists", "fileset", "pathexpand"]
        .contains(&name)
    {
        return None;
    }
    let Some(files) = files else { return Some(Err("filesystem function disabled".into())) };
    Some(match name {
        "fileset" => file_set(args, files),
        _ => args.exactly(1).and_then(|()| one(name, &args.text(0)?, args, files)),
    })
}

fn one(name: &str, path: &str, args: &Arguments<'_>, files: &dyn Files) -> Outcome {
    Ok(match name {
        "abspath" => Value::String(absolute(path, files)),
        "basename" => Value::String(basename(path).to_string()),
        "dirname" => Value::String(dirname(path)),
        "pathexpand" => Value::String(expand(path, files)),
        "fileexists" => Value::Bool(files.exists(&expand(path, files))?),
        "file" => {
            let text = String::from_utf8(read(path, args, files)?);
            Value::String(
                text.map_err(|_| Error::Failed(format!("{path} is not UTF-8 text; use filebase64")))?,
            )
        }
        _ => Value::String(base64::engine::general_purpose::STANDARD.encode(read(path, args, files)?)),
    })
}

fn read(path: &str, args: &Arguments<'_>, files: &dyn Files) -> Result<Vec<u8>, Error> {
    let bytes = files.read(&expand(path, files))?;
    if bytes.len() > MAX_FILE {
        return Err(format!("{path} has {} bytes; at most {MAX_FILE} are read", bytes.len()).into());
    }
    args.budget.take(bytes.len() as u64)?;
    Ok(bytes)
}

fn expand(path: &str, files: &dyn Files) -> String {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", files.home()),
        _ => path.to_string(),
    }
}

fn absolute(path: &str, files: &dyn Files) -> String {
    let whole =
        if path.starts_with('/') { path.to_string() } else { format!("{}/{path}", files.working_dir()) };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    format!("/{}", parts.join("/"))
}

fn basename(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match (trimmed, path) {
        ("", "") => ".",
        ("", _) => "/",
        (t, _) => t.rsplit('/').next().unwrap_or(t),
    }
}

fn dirname(path: &str) -> String {
    match path.trim_end_matches(|c| c != '/') {
        "" => ".".to_string(),
        head => match head.trim_end_matches('/') {
            "" => "/".to_string(),
            trimmed => trimmed.to_string(),
        },
    }
}

/// The files under a directory that a pattern names: `*` and `?` within a name, `**` across names, `{a,b}` for either.
fn file_set(args: &Arguments<'_>, files: &dyn Files) -> Outcome {
    args.exactly(2)?;
    let (dir, pattern) = (expand(&args.text(0)?, files), args.text(1)?);
    let mut found = files.list(&dir)?;
    let pattern = glob(&pattern)?;
    args.budget.take(found.iter().map(|f| f.len() as u64 + 16).sum())?;
    found.retain(|f| pattern.is_match(f));
    found.sort();
    Ok(texts(found))
}

fn glob(pattern: &str) -> Result<regex_lite::Regex, Error> {
    let mut out = String::from("^");
    let mut braces = 0;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            out.push_str("(?:.*/)?");
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("**") {
            out.push_str(".*");
            rest = after;
            continue;
        }
        match c {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '{' => {
                braces += 1;
                out.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                out.push(')');
            }
            ',' if braces > 0 => out.push('|'),
            other => out.push_str(&regex_lite::escape(&other.to_string())),
        }
        rest = &rest[c.len_utf8()..];
    }
    out.push('$');
    regex_lite::Regex::new(&out).map_err(|e| Error::Failed(format!("invalid pattern: {e}")))
}
