//! The names that an expression may use, and how much an evaluation may still produce.

use serde_json::Value;
use std::cell::Cell;

/// A chain of names, innermost first. Values are borrowed: entering a scope copies nothing.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    outer: Option<&'s Scope<'s>>,
    binding: Option<(&'s str, &'s Value)>,
}

impl<'s> Scope<'s> {
    pub const EMPTY: Scope<'static> = Scope { outer: None, binding: None };

    pub fn with(&'s self, name: &'s str, value: &'s Value) -> Scope<'s> {
        Scope { outer: Some(self), binding: Some((name, value)) }
    }

    pub fn get(&self, name: &str) -> Option<&'s Value> {
        let mut scope = Some(self);
        while let Some(s) = scope {
            match s.binding {
                Some((bound, value)) if bound == name => return Some(value),
                _ => scope = s.outer,
            }
        }
        None
    }
}

/// Every value made takes from it, so that no job file makes the reader work or remember without end.
pub struct Budget(Cell<u64>);

/// What a whole job file may make: about this many bytes of text, each value counting as 16 more.
pub const WHOLE_FILE: u64 = 64 << 20;

/// Deeper values are refused: everything that walks a value may then recurse.
pub const MAX_VALUE_DEPTH: usize = 100;

/// The budget is used up, or a value is too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl TooMuch {
    pub const SENTENCE: &'static str = "the expressions of this file make more, or more deeply nested, values than a job can use; make them smaller";
}

impl Budget {
    pub fn new(units: u64) -> Budget {
        Budget(Cell::new(units))
    }

    pub fn take(&self, units: u64) -> Result<(), TooMuch> {
        let left = self.0.get().checked_sub(units).ok_or(TooMuch)?;
        self.0.set(left);
        Ok(())
    }

    /// What is left of it.
    pub fn left(&self) -> u64 {
        self.0.get()
    }

    /// Takes what a value weighs.
    pub fn weigh(&self, value: &Value) -> Result<(), TooMuch> {
        self.weigh_at(value, 0)
    }

    fn weigh_at(&self, value: &Value, depth: usize) -> Result<(), TooMuch> {
        if depth > MAX_VALUE_DEPTH {
            return Err(TooMuch);
        }
        self.take(16)?;
        match value {
            Value::String(s) => self.take(s.len() as u64),
            Value::Array(items) => items.iter().try_for_each(|v| self.weigh_at(v, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(k, v)| {
                self.take(k.len() as u64)?;
                self.weigh_at(v, depth + 1)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inner_names_hide_outer_ones() {
        let (one, two) = (json!(1), json!(2));
        let outer = Scope::EMPTY.with("a", &one);
        let inner = outer.with("a", &two);
        assert_eq!((outer.get("a"), inner.get("a"), inner.get("b")), (Some(&one), Some(&two), None));
    }

    #[test]
    fn weight_and_depth_are_bounded() {
        let budget = Budget::new(100);
        assert_eq!(budget.weigh(&json!(["abcd", 1])), Ok(()));
        assert_eq!(budget.take(49), Err(TooMuch));
        let deep = (0..MAX_VALUE_DEPTH + 1).fold(json!(1), |v, _| json!([v]));
        assert_eq!(Budget::new(u64::MAX).weigh(&deep), Err(TooMuch));
    }
}
