//! What a constraint means: its targets, read from a node, and its operand, applied to two texts
//! (scheduler.md 14). Refuses to know which nodes exist and who asks.

use super::fleet::{Profile, UniqueProperties};
use super::version::{Ordered, Version, VersionConstraint};
use model::constraint::Constraint;
use model::id::NodeId;
use regex_lite::Regex;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One side of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintTarget<'a> {
    Literal(&'a str),
    NodeId,
    NodeName,
    Datacenter,
    Class,
    Pool,
    Attribute(&'a str),
    Meta(&'a str),
    /// Names nothing that a node has.
    Nothing,
}

impl<'a> ConstraintTarget<'a> {
    pub fn parse(text: &'a str) -> ConstraintTarget<'a> {
        let Some(inner) = text.strip_prefix("${") else { return ConstraintTarget::Literal(text) };
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        match inner {
            "node.unique.id" => ConstraintTarget::NodeId,
            "node.unique.name" => ConstraintTarget::NodeName,
            "node.datacenter" => ConstraintTarget::Datacenter,
            "node.class" => ConstraintTarget::Class,
            "node.pool" => ConstraintTarget::Pool,
            _ => inner
                .strip_prefix("attr.")
                .map(ConstraintTarget::Attribute)
                .or_else(|| inner.strip_prefix("meta.").map(ConstraintTarget::Meta))
                .unwrap_or(ConstraintTarget::Nothing),
        }
    }

    /// The value on one node; None: not found there.
    pub fn resolve<'n>(
        self,
        id: NodeId,
        profile: &'n Profile,
        own: &'n UniqueProperties,
    ) -> Option<Cow<'n, str>>
    where
        'a: 'n,
    {
        match self {
            ConstraintTarget::NodeId => Some(Cow::Owned(id.to_string())),
            _ => self.resolve_own(profile, own).map(Cow::Borrowed),
        }
    }

    /// As `resolve`, but for the node's id, which is no text there.
    pub fn resolve_own<'n>(self, profile: &'n Profile, own: &'n UniqueProperties) -> Option<&'n str>
    where
        'a: 'n,
    {
        match self {
            ConstraintTarget::NodeId | ConstraintTarget::Nothing => None,
            ConstraintTarget::Literal(text) => Some(text),
            ConstraintTarget::NodeName => Some(&*own.name),
            ConstraintTarget::Datacenter => Some(&*profile.datacenter),
            ConstraintTarget::Class => Some(&*profile.class),
            ConstraintTarget::Pool => Some(&*profile.pool),
            ConstraintTarget::Attribute(key) if is_unique(key) => own.attribute(key),
            ConstraintTarget::Attribute(key) => profile.attribute(key),
            ConstraintTarget::Meta(key) if is_unique(key) => own.meta(key),
            ConstraintTarget::Meta(key) => profile.meta(key),
        }
    }

    /// The value on every node of a profile; only for targets that are not unique.
    pub fn resolve_shared<'n>(self, profile: &'n Profile) -> Option<&'n str>
    where
        'a: 'n,
    {
        match self {
            ConstraintTarget::Literal(text) => Some(text),
            ConstraintTarget::Datacenter => Some(&profile.datacenter),
            ConstraintTarget::Class => Some(&profile.class),
            ConstraintTarget::Pool => Some(&profile.pool),
            ConstraintTarget::Attribute(key) => profile.attribute(key),
            ConstraintTarget::Meta(key) => profile.meta(key),
            ConstraintTarget::NodeId | ConstraintTarget::NodeName | ConstraintTarget::Nothing => None,
        }
    }

    /// Whether no profile tells the value, because it is unique to a node.
    pub fn unique(self) -> bool {
        match self {
            ConstraintTarget::NodeId | ConstraintTarget::NodeName => true,
            ConstraintTarget::Attribute(key) | ConstraintTarget::Meta(key) => is_unique(key),
            _ => false,
        }
    }
}

fn is_unique(key: &str) -> bool {
    key.starts_with("unique.")
}

/// The constraint looks at what is unique to a node: its computed class does not tell whether it holds
/// (scheduler.md 4.8).
pub fn escapes_class(constraint: &Constraint) -> bool {
    let escapes = |text: &str| text.starts_with("${node.unique.") || ConstraintTarget::parse(text).unique();
    escapes(&constraint.left) || escapes(&constraint.right)
}

/// How many compiled right-hand sides are kept at most.
const MAX_COMPILED: usize = 256;

/// Applies operands; keeps what it compiled.
#[derive(Default)]
pub struct ConstraintChecker {
    regexes: BTreeMap<String, Option<Regex>>,
    versions: BTreeMap<(Ordered, String), Option<VersionConstraint>>,
}

impl ConstraintChecker {
    /// Whether `left operand right` holds; a side that is None was not found. An unknown operand never holds.
    pub fn holds(&mut self, operand: &str, left: Option<&str>, right: Option<&str>) -> bool {
        let both = left.zip(right);
        let ordered = |wanted: fn(Ordering) -> bool| both.is_some_and(|(l, r)| wanted(compare(l, r)));
        match operand {
            "=" | "==" | "is" => both.is_some_and(|(l, r)| l == r),
            "!=" | "not" => left.unwrap_or_default() != right.unwrap_or_default(),
            "<" => ordered(Ordering::is_lt),
            "<=" => ordered(Ordering::is_le),
            ">" => ordered(Ordering::is_gt),
            ">=" => ordered(Ordering::is_ge),
            "is_set" => left.is_some(),
            "is_not_set" => left.is_none(),
            "version" => both.is_some_and(|(l, r)| self.version_holds(l, r, Ordered::Leniently)),
            "semver" => both.is_some_and(|(l, r)| self.version_holds(l, r, Ordered::Strictly)),
            "regexp" => both.is_some_and(|(l, r)| self.matches(l, r)),
            "set_contains" | "set_contains_all" => {
                both.is_some_and(|(l, r)| contained(l, r).all(|found| found))
            }
            "set_contains_any" => both.is_some_and(|(l, r)| contained(l, r).any(|found| found)),
            "distinct_hosts" | "distinct_property" => true,
            _ => false,
        }
    }

    fn version_holds(&mut self, version: &str, constraint: &str, ordered: Ordered) -> bool {
        if self.versions.len() >= MAX_COMPILED {
            self.versions.clear();
        }
        let key = (ordered, constraint.to_string());
        let compiled =
            self.versions.entry(key).or_insert_with(|| VersionConstraint::parse(constraint, ordered));
        compiled.as_ref().zip(Version::parse(version)).is_some_and(|(c, v)| c.holds(&v))
    }

    fn matches(&mut self, text: &str, pattern: &str) -> bool {
        if self.regexes.len() >= MAX_COMPILED {
            self.regexes.clear();
        }
        let compiled = self.regexes.entry(pattern.to_string()).or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_some_and(|r| r.is_match(text))
    }
}

/// Compares as whole numbers if both are, else as numbers if both are, else by bytes.
fn compare(left: &str, right: &str) -> Ordering {
    if let (Ok(l), Ok(r)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return l.cmp(&r);
    }
    if let (Ok(l), Ok(r)) = (left.parse::<f64>(), right.parse::<f64>()) {
        return l.total_cmp(&r);
    }
    left.cmp(right)
}

/// For every item of the comma list `right`: is it in the comma list `left`?
fn contained<'a>(left: &'a str, right: &'a str) -> impl Iterator<Item = bool> + 'a {
    items(right).map(move |r| items(left).any(|l| l == r))
}

/// Trims blanks only where the first or last byte of an item may be one: few are.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let visible = |b: Option<&u8>| b.is_none_or(u8::is_ascii_graphic);
    list.split(',').map(move |item| {
        match visible(item.as_bytes().first()) && visible(item.as_bytes().last()) {
            true => item,
            false => item.trim(),
        }
    })
}

/// `*` stands for any run of characters, the empty one included; all else for itself.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume: after the last star, with one more byte given to it.
    let mut resume = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            resume = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after_star, taken)) = resume {
            resume = Some((after_star, taken + 1));
            p = after_star;
            t = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand() {
        let some = Some;
        let cases: &[(&str, Option<&str>, Option<&str>, bool)] = &[
            ("=", some("a"), some("a"), true),
            ("==", some("a"), some("b"), false),
            ("is", some(""), some(""), true),
            ("=", None, some("a"), false),
            ("=", None, None, false),
            ("!=", some("a"), some("b"), true),
            ("not", some("a"), some("a"), false),
            ("!=", None, some("a"), true),
            ("!=", None, some(""), false),
            ("<", some("9"), some("10"), true),
            ("<", some("9.5"), some("10"), true),
            ("<", some("abc"), some("abd"), true),
            ("<", some("10x"), some("9x"), true),
            ("<=", some("10"), some("10"), true),
            ("<=", some("11"), some("10"), false),
            (">", some("10"), some("9"), true),
            (">", None, some("9"), false),
            (">=", some("-1"), some("-1"), true),
            (">=", some("1e3"), some("999"), true),
            ("is_set", some(""), some(""), true),
            ("is_set", None, some(""), false),
            ("is_not_set", None, some(""), true),
            ("is_not_set", some("x"), some(""), false),
            ("version", some("1.4.2"), some(">= 1.4, < 2"), true),
            ("version", None, some("> 1"), false),
            ("semver", some("1.4.0-rc1"), some(">= 1.0.0"), true),
            ("version", some("1.4.0-rc1"), some(">= 1.0.0"), false),
            ("regexp", some("linux-5.10"), some("[0-9]+\\.[0-9]+"), true),
            ("regexp", some("linux"), some("^inux"), false),
            ("regexp", some("linux"), some("("), false),
            ("set_contains", some("a, b,c"), some("c,a"), true),
            ("set_contains_all", some("a,b"), some("a,d"), false),
            ("set_contains_any", some("a,b"), some("d, b"), true),
            ("set_contains_any", some("a,b"), some("d,e"), false),
            ("set_contains", None, some("a"), false),
            ("distinct_hosts", some(""), some("true"), true),
            ("distinct_property", some("x"), None, true),
            ("like", some("a"), some("a"), false),
        ];
        let mut operands = ConstraintChecker::default();
        for (operand, left, right, want) in cases {
            assert_eq!(operands.holds(operand, *left, *right), *want, "{left:?} {operand} {right:?}");
        }
    }

    /// Each is as in RE2, but for the last three, where the crate is known to differ (jobspec 2.2.9).
    #[test]
    fn classes_of_patterns_are_ascii_as_in_re2() {
        let mut operands = ConstraintChecker::default();
        for (pattern, text, matches) in [
            ("^\\d$", "7", true),
            ("^\\d$", "\u{663}", false),
            ("^\\w+$", "a_1", true),
            ("^\\w+$", "caf\u{e9}", false),
            ("^\\s$", "\u{a0}", false),
            ("\\bx", "\u{e9}x", true),
            ("^.$", "\u{e9}", true),
            ("^[^a]$", "\u{e9}", true),
            ("(?i)^linux$", "LINUX", true),
            ("(?i)^\u{e9}$", "\u{c9}", false),
            ("\\pL", "a", false),
            ("{", "{", false),
        ] {
            assert_eq!(operands.holds("regexp", Some(text), Some(pattern)), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn targets_are_read_as_written() {
        for (text, target) in [
            ("linux", ConstraintTarget::Literal("linux")),
            ("${node.unique.id}", ConstraintTarget::NodeId),
            ("${node.unique.name}", ConstraintTarget::NodeName),
            ("${node.datacenter}", ConstraintTarget::Datacenter),
            ("${node.class}", ConstraintTarget::Class),
            ("${node.pool}", ConstraintTarget::Pool),
            ("${attr.kernel.name}", ConstraintTarget::Attribute("kernel.name")),
            ("${meta.rack}", ConstraintTarget::Meta("rack")),
            ("${node.nonsense}", ConstraintTarget::Nothing),
        ] {
            assert_eq!(ConstraintTarget::parse(text), target);
        }
    }

    #[test]
    fn constraints_on_unique_values_escape_the_class() {
        for (left, right, escapes) in [
            ("${node.unique.name}", "a", true),
            ("${attr.unique.hostname}", "a", true),
            ("${meta.unique.x}", "a", true),
            ("a", "${node.unique.id}", true),
            ("${attr.kernel.name}", "linux", false),
            ("unique.x", "unique.y", false),
        ] {
            let constraint = Constraint { left: left.into(), operand: "=".into(), right: right.into() };
            assert_eq!(escapes_class(&constraint), escapes, "{constraint}");
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("*", "dc1", true),
            ("dc*", "dc1", true),
            ("dc*", "xdc1", false),
            ("*1", "dc11", true),
            ("d*-*1", "dc-eu-1", true),
            ("dc1", "dc1", true),
            ("dc1", "dc10", false),
            ("", "dc1", false),
            ("a**b", "ab", true),
            ("a?c", "abc", false),
        ] {
            assert_eq!(glob_matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
