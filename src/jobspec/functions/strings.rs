//! Functions of texts.

use super::Error;
use super::arguments::{Arguments, Outcome, texts};
use serde_json::Value;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "chomp" => map(args, |s| s.trim_end_matches(['\r', '\n']).to_string()),
        "lower" => map(args, |s| s.to_lowercase()),
        "upper" => map(args, |s| s.to_uppercase()),
        "title" => map(args, title),
        "trimspace" => map(args, |s| s.trim().to_string()),
        "strrev" => map(args, |s| s.chars().rev().collect()),
        "trim" => pair(args, |s, cut| s.trim_matches(|c| cut.contains(c)).to_string()),
        "trimprefix" => pair(args, |s, cut| s.strip_prefix(cut).unwrap_or(s).to_string()),
        "trimsuffix" => pair(args, |s, cut| s.strip_suffix(cut).unwrap_or(s).to_string()),
        "strlen" => args.exactly(1).and_then(|()| Ok(Value::from(args.text(0)?.chars().count()))),
        "split" => split(args),
        "join" => join(args),
        "indent" => indent(args),
        "replace" => replace(args),
        "regex_replace" => regex_replace(args),
        "substr" => substr(args),
        _ => return None,
    })
}

fn map(args: &Arguments<'_>, f: impl Fn(&str) -> String) -> Outcome {
    args.exactly(1)?;
    Ok(Value::String(f(&args.text(0)?)))
}

fn pair(args: &Arguments<'_>, f: impl Fn(&str, &str) -> String) -> Outcome {
    args.exactly(2)?;
    Ok(Value::String(f(&args.text(0)?, &args.text(1)?)))
}

fn title(s: &str) -> String {
    let mut start = true;
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        if start {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
        start = !c.is_alphanumeric() && c != '_' && c != '\'';
    }
    out
}

fn split(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (separator, text) = (args.text(0)?, args.text(1)?);
    args.budget.take(text.len() as u64 * 17)?;
    if separator.is_empty() {
        return Ok(texts(text.chars().map(String::from)));
    }
    Ok(texts(text.split(&separator).map(str::to_string)))
}

fn join(args: &Arguments<'_>) -> Outcome {
    args.between(2, usize::MAX)?;
    let separator = args.text(0)?;
    let mut parts = Vec::new();
    for i in 1..args.len() {
        parts.extend(args.texts(i)?);
    }
    args.budget.take((separator.len() * parts.len()) as u64)?;
    Ok(Value::String(parts.join(&separator)))
}

/// All lines but the first.
fn indent(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (spaces, text) = (args.count(0)?, args.text(1)?);
    let lines = text.matches('\n').count();
    args.budget.take((spaces as u64).saturating_mul(lines as u64 + 1))?;
    Ok(Value::String(text.replace('\n', &format!("\n{}", " ".repeat(spaces)))))
}

/// Every occurrence; a search text between slashes is a regular expression.
fn replace(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    let (text, search, with) = (args.text(0)?, args.text(1)?, args.text(2)?);
    if let Some(pattern) = search.strip_prefix('/').and_then(|s| s.strip_suffix('/')) {
        return replace_all(args, &text, pattern, &with);
    }
    let times = if search.is_empty() { text.chars().count() + 1 } else { text.matches(&search).count() };
    args.budget.take((times as u64).saturating_mul(with.len() as u64))?;
    Ok(Value::String(text.replace(&search, &with)))
}

fn regex_replace(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    replace_all(args, &args.text(0)?, &args.text(1)?, &args.text(2)?)
}

/// `$1` and `${name}` in the replacement stand for groups of the match.
fn replace_all(args: &Arguments<'_>, text: &str, pattern: &str, with: &str) -> Outcome {
    let regex =
        regex_lite::Regex::new(pattern).map_err(|e| Error::Failed(format!("invalid pattern: {e}")))?;
    args.budget.take((text.len() as u64 + 1).saturating_mul(pattern.len() as u64 / 8 + 1))?;
    let mut out = String::new();
    let mut end = 0;
    for found in regex.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        // A group can be as long as the match, and the replacement can name it with every second byte.
        args.budget.take(16 + with.len() as u64 + (with.matches('$').count() * whole.len()) as u64)?;
        out.push_str(&text[end..whole.start()]);
        found.expand(with, &mut out);
        end = whole.end();
    }
    out.push_str(&text[end..]);
    Ok(Value::String(out))
}

/// Counted in characters; a negative offset counts from the end, a negative length goes to the end.
fn substr(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    let (text, offset, length) = (args.text(0)?, args.int(1)?, args.int(2)?);
    let total = text.chars().count();
    let start = if offset < 0 {
        total.saturating_sub(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(offset).unwrap_or(usize::MAX)
    };
    let take = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(Value::String(text.chars().skip(start).take(take).collect()))
}
