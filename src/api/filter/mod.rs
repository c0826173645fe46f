//! The `filter` of lists: boolean expressions over the members of an object, in go-bexpr's language.
//!
//! Refuses to know: which lists there are, and what Rust types stand behind an object: it sees JSON. Invariants: length
//! and depth of an expression are bounded, a regular expression has a bounded size and runs in linear time, and whatever
//! is wrong is a sentence with its place. Where it differs from go-bexpr: decision 0024.

mod eval;
mod grammar;
pub mod literal;
#[cfg(test)]
mod tests;

use grammar::FilterExpr;
use serde_json::Value;

/// How long an expression may be, in bytes.
pub const MAX_BYTES: usize = 8 << 10;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    expr: FilterExpr,
}

/// The members that a shape leaves out when they are zero. A filter sees them all the same.
#[derive(Debug)]
pub struct OmitEmpty {
    pub text: &'static [&'static str],
    pub numbers: &'static [&'static str],
    pub flags: &'static [&'static str],
    /// Objects, lists and maps.
    pub others: &'static [&'static str],
}

impl OmitEmpty {
    pub const NOTHING: OmitEmpty = OmitEmpty { text: &[], numbers: &[], flags: &[], others: &[] };
}

impl Filter {
    /// The error is a sentence with the place.
    pub fn parse(text: &str) -> Result<Filter, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("the filter is longer than {MAX_BYTES} bytes"));
        }
        Ok(Filter { expr: grammar::parse(text)? })
    }

    /// Whether the expression looks at this member of the object itself.
    pub fn names(&self, member: &str) -> bool {
        self.expr.names(member)
    }

    /// The error is a sentence that names the member.
    pub fn matches(&self, object: &Value, omit_empty: &OmitEmpty) -> Result<bool, String> {
        eval::matches(&self.expr, object, omit_empty)
    }
}
