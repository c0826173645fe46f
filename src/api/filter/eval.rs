//! A filter's tree against an object.
//!
//! A member at the end of a path that its object does not have is absent: it equals nothing and holds nothing. So is
//! whatever would be inside of a `null`. Other paths that lead nowhere are errors.

use super::OmitEmpty;
use super::grammar::{FilterExpr, Names, Test};
use super::literal;
use serde_json::Value;
use std::borrow::Cow;

/// How many parts of an expression are looked at for one object: `any` within `any` multiplies.
const MAX_STEPS: usize = 10_000;

pub fn matches(expr: &FilterExpr, object: &Value, omit_empty: &OmitEmpty) -> Result<bool, String> {
    let zeros = Zeros { text: "".into(), number: 0.into(), flag: false.into(), null: Value::Null };
    Scope { object, omit_empty, zeros: &zeros, names: Vec::new(), steps: 0 }.holds(expr)
}

struct Scope<'v> {
    object: &'v Value,
    omit_empty: &'v OmitEmpty,
    zeros: &'v Zeros,
    /// What `any` and `all` named, innermost last.
    names: Vec<(&'v str, Named<'v>)>,
    steps: usize,
}

struct Zeros {
    text: Value,
    number: Value,
    flag: Value,
    null: Value,
}

enum Named<'v> {
    Element(&'v Value),
    /// Has no members.
    Key(Value),
}

impl<'v> Scope<'v> {
    fn holds(&mut self, expr: &'v FilterExpr) -> Result<bool, String> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(format!(
                "the filter takes more than {MAX_STEPS} steps for one element: nest it less"
            ));
        }
        match expr {
            FilterExpr::Or(terms) => self.first_that_is(terms, true),
            FilterExpr::And(terms) => self.first_that_is(terms, false),
            FilterExpr::Not(inner) => Ok(!self.holds(inner)?),
            FilterExpr::Match { path, test, negated } => {
                let value = self.find(path)?;
                Ok(test.holds(value.as_deref(), path)? != *negated)
            }
            FilterExpr::Each { all, path, names, inner } => self.each(*all, path, names, inner),
        }
    }

    /// Terms after the one that decides are not looked at.
    fn first_that_is(&mut self, terms: &'v [FilterExpr], deciding: bool) -> Result<bool, String> {
        for term in terms {
            if self.holds(term)? == deciding {
                return Ok(deciding);
            }
        }
        Ok(!deciding)
    }

    /// `None`: absent.
    fn find(&self, path: &'v [String]) -> Result<Option<Cow<'v, Value>>, String> {
        let (head, rest) = path.split_first().ok_or("a path without a name")?;
        let value = match self.names.iter().rev().find(|(name, _)| name == head) {
            Some((_, Named::Key(key))) if rest.is_empty() => return Ok(Some(Cow::Owned(key.clone()))),
            Some((_, Named::Key(_))) => {
                return Err(nowhere(path, &format!("{head} is a key or an index and has no members")));
            }
            Some((_, Named::Element(value))) => *value,
            None => self.member(head).ok_or_else(|| nowhere(path, &format!("there is no {head:?}")))?,
        };
        Ok(follow(value, rest, path)?.map(Cow::Borrowed))
    }

    fn member(&self, name: &str) -> Option<&'v Value> {
        let (omit_empty, zeros) = (self.omit_empty, self.zeros);
        let kinds = [
            (omit_empty.text, &zeros.text),
            (omit_empty.numbers, &zeros.number),
            (omit_empty.flags, &zeros.flag),
            (omit_empty.others, &zeros.null),
        ];
        let zero = || kinds.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, zero)| zero);
        self.object.get(name).or_else(zero)
    }

    fn each(
        &mut self,
        all: bool,
        path: &'v [String],
        names: &'v Names,
        inner: &'v FilterExpr,
    ) -> Result<bool, String> {
        let (of_map, elements): (bool, Vec<(Value, &'v Value)>) = match self.find(path)? {
            None | Some(Cow::Borrowed(Value::Null)) => return Ok(all),
            Some(Cow::Borrowed(Value::Array(list))) => {
                (false, list.iter().enumerate().map(|(i, value)| (i.into(), value)).collect())
            }
            Some(Cow::Borrowed(Value::Object(map))) => {
                (true, map.iter().map(|(key, value)| (key.as_str().into(), value)).collect())
            }
            Some(_) => return Err(format!("{} is not a list or a map", path.join("."))),
        };
        let depth = self.names.len();
        for (key, value) in elements {
            self.name(names, of_map, key, value);
            let held = self.holds(inner);
            self.names.truncate(depth);
            if held? != all {
                return Ok(!all);
            }
        }
        Ok(all)
    }

    fn name(&mut self, names: &'v Names, of_map: bool, key: Value, value: &'v Value) {
        if let Some(name) = &names.either {
            let named = if of_map { Named::Key(key.clone()) } else { Named::Element(value) };
            self.names.push((name, named));
        }
        if let Some(name) = &names.key {
            self.names.push((name, Named::Key(key)));
        }
        if let Some(name) = &names.value {
            self.names.push((name, Named::Element(value)));
        }
    }
}

/// `None`: absent.
fn follow<'v>(mut value: &'v Value, rest: &[String], path: &[String]) -> Result<Option<&'v Value>, String> {
    for (i, part) in rest.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(part) {
                Some(next) => next,
                None if i + 1 == rest.len() => return Ok(None),
                None => return Err(nowhere(path, &format!("there is no {part:?}"))),
            },
            Value::Array(list) => {
                let index = literal::integer(part).and_then(|n| usize::try_from(n).ok());
                index.and_then(|n| list.get(n)).ok_or_else(|| {
                    nowhere(path, &format!("{part:?} is no index of a list of {}", list.len()))
                })?
            }
            other => return Err(nowhere(path, &format!("{} has no member {part:?}", kind(other)))),
        };
    }
    Ok(Some(value))
}

fn nowhere(path: &[String], why: &str) -> String {
    format!("error finding value in datum: {}: {why}", path.join("."))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Test {
    fn holds(&self, value: Option<&Value>, path: &[String]) -> Result<bool, String> {
        let unfit = |value: &Value, what: &str| Err(format!("{} is {}: {what}", path.join("."), kind(value)));
        match (self, value.unwrap_or(&Value::Null)) {
            // Absent, or there and without a value: equal to nothing, and empty.
            (Test::Equals(_) | Test::Contains(_) | Test::Matches(_), Value::Null) => Ok(false),
            (Test::Empty | Test::Nil, Value::Null) => Ok(true),
            (Test::Equals(text), value) => equals(text, value).or_else(|why| unfit(value, &why)),
            (Test::Contains(text), Value::String(value)) => Ok(value.contains(text)),
            (Test::Contains(text), Value::Object(map)) => Ok(map.contains_key(text)),
            (Test::Contains(text), Value::Array(list)) => holds_element(text, list, path),
            (Test::Contains(_), value) => unfit(value, "only strings, lists and maps contain something"),
            (Test::Matches(pattern), Value::String(value)) => Ok(pattern.regex.is_match(value)),
            (Test::Matches(_), value) => unfit(value, "only a string matches a regular expression"),
            (Test::Empty, Value::String(value)) => Ok(value.is_empty()),
            (Test::Empty, Value::Array(list)) => Ok(list.is_empty()),
            (Test::Empty, Value::Object(map)) => Ok(map.is_empty()),
            (Test::Empty, value) => unfit(value, "only strings, lists and maps can be empty"),
            (Test::Nil, Value::Array(_) | Value::Object(_)) => Ok(false),
            (Test::Nil, value) => unfit(value, "only objects, lists and maps can be nil"),
        }
    }
}

/// The value's type decides how the text is read.
fn equals(text: &str, value: &Value) -> Result<bool, String> {
    let read = |as_what: &str| format!("{text:?} cannot be read as {as_what}");
    match value {
        Value::String(value) => Ok(value == text),
        Value::Bool(value) => Ok(*value == literal::boolean(text).ok_or_else(|| read("true or false"))?),
        Value::Number(value) => match (value.as_i64(), value.as_u64()) {
            (None, None) => Ok(value.as_f64() == Some(literal::float(text).ok_or_else(|| read("a number"))?)),
            (signed, unsigned) => {
                let whole = literal::integer(text).ok_or_else(|| read("a whole number"))?;
                Ok(signed.map(i128::from).or(unsigned.map(i128::from)) == Some(whole))
            }
        },
        _ => Err("only strings, numbers and booleans can be compared".into()),
    }
}

/// Elements as which the text cannot be read are other elements.
fn holds_element(text: &str, list: &[Value], path: &[String]) -> Result<bool, String> {
    for element in list {
        match element {
            Value::Array(_) | Value::Object(_) => {
                return Err(format!("{} is a list of lists or objects: ask with any or all", path.join(".")));
            }
            element if equals(text, element) == Ok(true) => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}
