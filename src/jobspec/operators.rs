//! Values and what operators do with them: arithmetic, comparison, indexing, and HCL's conversions between texts,
//! numbers and booleans. Whole numbers are always integers here, so that equal numbers are equal values.

use hcl_edit::Number;
use hcl_edit::expr::{BinaryOperator, UnaryOperator};
use serde_json::Value;
use std::cmp::Ordering;

/// 2^63: from here on a whole number no longer fits an `i64`.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

pub fn number(n: f64) -> Result<Value, String> {
    if n.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&n) {
        return Ok(Value::from(n as i64));
    }
    serde_json::Number::from_f64(n)
        .map(Value::Number)
        .ok_or_else(|| "the result is not a finite number".into())
}

pub fn literal(n: &Number) -> Value {
    if let Some(i) = n.as_i64() {
        return Value::from(i);
    }
    n.as_f64().and_then(|f| number(f).ok()).unwrap_or(Value::Null)
}

/// A number that JSON wrote with a fraction of zero becomes an integer.
pub fn whole(v: Value) -> Value {
    match v {
        Value::Number(ref n) if n.as_i64().is_none() => n.as_f64().and_then(|f| number(f).ok()).unwrap_or(v),
        Value::Array(items) => Value::Array(items.into_iter().map(whole).collect()),
        Value::Object(members) => Value::Object(members.into_iter().map(|(k, v)| (k, whole(v))).collect()),
        other => other,
    }
}

/// What to call a value in a sentence.
pub fn kind(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub fn text(v: &Value) -> Result<String, String> {
    match v {
        Value::String(s) => Ok(s.clone()),
        Value::Number(n) => Ok(number_text(n)),
        Value::Bool(b) => Ok(b.to_string()),
        other => Err(format!("a string is required, this is {}", kind(other))),
    }
}

fn number_text(n: &serde_json::Number) -> String {
    match n.as_f64() {
        Some(f) if n.is_f64() => format!("{f}"),
        _ => n.to_string(),
    }
}

pub fn truth(v: &Value) -> Result<bool, String> {
    match v {
        Value::Bool(b) => Ok(*b),
        Value::String(s) if s == "true" || s == "1" => Ok(true),
        Value::String(s) if s == "false" || s == "0" => Ok(false),
        other => Err(format!("a bool is required, this is {}", kind(other))),
    }
}

/// A number, or a text that is one.
pub fn numeric(v: &Value) -> Result<Value, String> {
    match v {
        Value::Number(_) => Ok(whole(v.clone())),
        Value::String(s) => parse_number(s).ok_or_else(|| {
            let shown: String = s.chars().take(40).collect();
            format!("a number is required, this is the string {shown:?}")
        }),
        other => Err(format!("a number is required, this is {}", kind(other))),
    }
}

pub fn parse_number(s: &str) -> Option<Value> {
    let plain = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if !plain {
        return None;
    }
    if let Ok(i) = s.parse::<i64>() {
        return Some(Value::from(i));
    }
    s.parse::<f64>().ok().and_then(|f| number(f).ok())
}

pub fn float(v: &Value) -> Result<f64, String> {
    numeric(v)?.as_f64().ok_or_else(|| "a number is required".to_string())
}

pub fn integer(v: &Value) -> Result<i64, String> {
    numeric(v)?.as_i64().ok_or_else(|| "a whole number is required".to_string())
}

pub fn unary(operator: UnaryOperator, v: &Value) -> Result<Value, String> {
    match operator {
        UnaryOperator::Not => Ok(Value::Bool(!truth(v)?)),
        UnaryOperator::Neg => match numeric(v)?.as_i64().and_then(i64::checked_neg) {
            Some(i) => Ok(Value::from(i)),
            None => number(-float(v)?),
        },
    }
}

/// What gives true or false; what gives a number is `decimal`'s.
pub fn binary(operator: BinaryOperator, a: &Value, b: &Value) -> Result<Value, String> {
    use BinaryOperator as Op;
    Ok(Value::Bool(match operator {
        Op::Eq => a == b,
        Op::NotEq => a != b,
        Op::And => truth(a)? && truth(b)?,
        Op::Or => truth(a)? || truth(b)?,
        Op::Less => order(a, b)? == Ordering::Less,
        Op::LessEq => order(a, b)? != Ordering::Greater,
        Op::Greater => order(a, b)? == Ordering::Greater,
        Op::GreaterEq => order(a, b)? != Ordering::Less,
        Op::Plus | Op::Minus | Op::Mul | Op::Div | Op::Mod => {
            return Err(format!("{operator:?} gives a number"));
        }
    }))
}

pub fn order(a: &Value, b: &Value) -> Result<Ordering, String> {
    let (a, b) = (numeric(a)?, numeric(b)?);
    if let Some((x, y)) = a.as_i64().zip(b.as_i64()) {
        return Ok(x.cmp(&y));
    }
    float(&a)?.partial_cmp(&float(&b)?).ok_or_else(|| "these numbers cannot be compared".into())
}

pub fn index<'v>(value: &'v Value, key: &Value) -> Result<&'v Value, String> {
    match value {
        Value::Array(items) => {
            let i = integer(key)?;
            let found = usize::try_from(i).ok().and_then(|i| items.get(i));
            found.ok_or_else(|| format!("there is no element {i} in a list of {}", items.len()))
        }
        Value::Object(members) => {
            let name = text(key)?;
            members.get(&name).ok_or_else(|| {
                let near = super::nearest::nearest(&name, members.keys().map(String::as_str));
                let hint = near.map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
                format!("there is no {name:?} here{hint}")
            })
        }
        other => Err(format!("{} has no elements", kind(other))),
    }
}

/// Keys and values of a list (counted from 0) or of an object.
pub fn pairs(v: Value) -> Result<Vec<(Value, Value)>, String> {
    match v {
        Value::Array(items) => Ok(items.into_iter().enumerate().map(|(i, v)| (Value::from(i), v)).collect()),
        Value::Object(members) => Ok(members.into_iter().map(|(k, v)| (Value::String(k), v)).collect()),
        other => Err(format!("a list or an object is required, this is {}", kind(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_beyond_the_integers_are_negated() {
        assert_eq!(unary(UnaryOperator::Neg, &json!(i64::MIN)), number(TOO_LARGE));
    }

    #[test]
    fn conversions_follow_hcl() {
        assert_eq!(text(&json!(1.5)), Ok("1.5".into()));
        assert_eq!(text(&json!(true)), Ok("true".into()));
        assert!(text(&json!(null)).is_err() && text(&json!([])).is_err());
        assert_eq!(truth(&json!("true")), Ok(true));
        assert!(truth(&json!(1)).is_err());
        for bad in ["", "inf", "NaN", "0x10", "1_000", "1e999"] {
            assert!(numeric(&json!(bad)).is_err(), "{bad}");
        }
    }
}
