//! `format` and `formatlist`: texts with verbs in them, as `%-10s` or `%03d`.

use super::Error;
use super::arguments::{Arguments, Outcome};
use crate::operators;
use serde_json::Value;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "format" => args.between(1, usize::MAX).and_then(|()| {
            let rest: Vec<&Value> = args.all()[1..].iter().collect();
            format(&args.text(0)?, &rest).map(Value::String)
        }),
        "formatlist" => format_list(args),
        _ => return None,
    })
}

/// Once per element of the lists among the arguments; they are equally long, the others repeat.
fn format_list(args: &Arguments<'_>) -> Outcome {
    args.between(1, usize::MAX)?;
    let pattern = args.text(0)?;
    let rest = &args.all()[1..];
    let mut lengths = rest.iter().filter_map(Value::as_array).map(Vec::len);
    let rows = lengths.next().unwrap_or(1);
    if lengths.any(|n| n != rows) {
        return Err("the lists are not equally long".into());
    }
    let mut out = Vec::with_capacity(rows);
    for i in 0..rows {
        args.budget.take(pattern.len() as u64 + 16)?;
        let row: Vec<&Value> = rest.iter().map(|v| v.as_array().map_or(v, |l| &l[i])).collect();
        let line = format(&pattern, &row)?;
        args.budget.take(line.len() as u64)?;
        out.push(Value::String(line));
    }
    Ok(Value::Array(out))
}

/// Wider fields are refused.
const MAX_WIDTH: usize = 1000;

#[derive(Default)]
struct Verb {
    minus: bool,
    plus: bool,
    space: bool,
    sharp: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

fn format(pattern: &str, values: &[&Value]) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (verb, position, letter, after) = read_verb(rest)?;
        rest = after;
        let i = position.unwrap_or(next);
        next = i + 1;
        used = used.max(next);
        let value = values
            .get(i)
            .ok_or_else(|| Error::Failed(format!("there is no argument {} for a verb", i + 1)))?;
        out.push_str(&verb.pad(verb.text(letter, value)?, letter));
    }
    if used < values.len() {
        return Err(format!("{} arguments, but verbs for {used} only", values.len()).into());
    }
    out.push_str(rest);
    Ok(out)
}

/// Flags, width, precision, `[position]` and letter, and what follows.
fn read_verb(text: &str) -> Result<(Verb, Option<usize>, char, &str), Error> {
    let mut verb = Verb::default();
    let mut position = None;
    let mut rest = text;
    loop {
        let Some(c) = rest.chars().next() else { return Err("the text ends within a verb".into()) };
        let after = &rest[c.len_utf8()..];
        match c {
            '-' => verb.minus = true,
            '+' => verb.plus = true,
            ' ' => verb.space = true,
            '#' => verb.sharp = true,
            '0' if verb.width.is_none() => verb.zero = true,
            '0'..='9' => {
                let (n, after) = digits(rest)?;
                verb.width = Some(n);
                rest = after;
                continue;
            }
            '.' => {
                let (n, after) = digits(after)?;
                verb.precision = Some(n);
                rest = after;
                continue;
            }
            '[' => {
                let (n, after) = digits(after)?;
                position = Some(n.checked_sub(1).ok_or("positions count from 1")?);
                rest = after.strip_prefix(']').ok_or("a position ends with ]")?;
                continue;
            }
            letter => return Ok((verb, position, letter, after)),
        }
        rest = after;
    }
}

fn digits(text: &str) -> Result<(usize, &str), Error> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let n = if len == 0 { 0 } else { text[..len].parse().unwrap_or(usize::MAX) };
    if n > MAX_WIDTH { Err(format!("widths go up to {MAX_WIDTH}").into()) } else { Ok((n, &text[len..])) }
}

impl Verb {
    fn text(&self, letter: char, v: &Value) -> Result<String, Error> {
        Ok(match letter {
            'v' if self.sharp => v.to_string(),
            'v' => match v {
                Value::Null => "null".into(),
                Value::Array(_) | Value::Object(_) => v.to_string(),
                other => operators::text(other)?,
            },
            't' => operators::truth(v)?.to_string(),
            's' => self.cut(operators::text(v)?),
            'q' => Value::String(self.cut(operators::text(v)?)).to_string(),
            'd' => {
                let whole = operators::number(operators::float(v)?.trunc())?;
                let exact = operators::integer(v).or_else(|_| operators::integer(&whole))?;
                self.sign(exact as f64, |_| exact.unsigned_abs().to_string())
            }
            'b' => self.whole(v, |n| format!("{n:b}"))?,
            'o' => self.whole(v, |n| format!("{n:o}"))?,
            'x' => self.whole(v, |n| format!("{n:x}"))?,
            'X' => self.whole(v, |n| format!("{n:X}"))?,
            'f' => {
                let digits = self.precision.unwrap_or(6);
                self.sign(operators::float(v)?, |n| format!("{n:.digits$}"))
            }
            'e' | 'E' => {
                let digits = self.precision.unwrap_or(6);
                let text = self.sign(operators::float(v)?, |n| exponent(&format!("{n:.digits$e}")));
                if letter == 'E' { text.to_uppercase() } else { text }
            }
            'g' | 'G' => self.sign(operators::float(v)?, |n| format!("{n}")),
            other => return Err(format!("there is no verb %{other}").into()),
        })
    }

    fn cut(&self, text: String) -> String {
        match self.precision {
            Some(n) => text.chars().take(n).collect(),
            None => text,
        }
    }

    fn whole(&self, v: &Value, f: impl Fn(u64) -> String) -> Result<String, Error> {
        let n = operators::integer(v)?;
        Ok(self.sign(n as f64, |_| f(n.unsigned_abs())))
    }

    fn sign(&self, n: f64, f: impl Fn(f64) -> String) -> String {
        let sign = match () {
            () if n < 0.0 => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        format!("{sign}{}", f(n.abs()))
    }

    fn pad(&self, text: String, letter: char) -> String {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        if missing == 0 {
            return text;
        }
        if self.minus {
            return text + &" ".repeat(missing);
        }
        if self.zero && !matches!(letter, 's' | 'q' | 'v' | 't') {
            let signs = text.bytes().take_while(|b| b"+- ".contains(b)).count();
            return format!("{}{}{}", &text[..signs], "0".repeat(missing), &text[signs..]);
        }
        " ".repeat(missing) + &text
    }
}

/// `1.5e0` as `1.5e+00`.
fn exponent(text: &str) -> String {
    let Some((mantissa, power)) = text.split_once('e') else { return text.to_string() };
    let (sign, power) = match power.strip_prefix('-') {
        Some(p) => ('-', p),
        None => ('+', power),
    };
    format!("{mantissa}e{sign}{power:0>2}")
}
