//! Versions and the constraints on them: the operands `version` and `semver` (scheduler.md 14.3, scheduler.md 14.4).
//! Refuses to know where the texts come from.

use std::cmp::Ordering;

/// A version as people write them: `1`, `v1.2`, `1.2.3-beta.1+build`, `1.2.3beta1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// At least three: what is not written is 0.
    segments: Vec<u64>,
    /// How many segments were written.
    written: usize,
    /// Empty: a release.
    pre: String,
}

impl Version {
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
        if build.is_some_and(|b| !dotted(b)) {
            return None;
        }
        let numbers_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(numbers_end);
        let mut segments = numbers.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let pre = rest.strip_prefix('-').unwrap_or(rest);
        if !(rest.is_empty() || dotted(pre)) {
            return None;
        }
        let written = segments.len();
        segments.resize(written.max(3), 0);
        Some(Version { segments, written, pre: pre.to_string() })
    }

    /// Segments, then pre-release: a release comes after its pre-releases. Build metadata is not compared.
    fn compare(&self, other: &Version) -> Ordering {
        let len = self.segments.len().max(other.segments.len());
        let at = |v: &Version, i: usize| v.segments.get(i).copied().unwrap_or(0);
        let segments = (0..len).map(|i| at(self, i).cmp(&at(other, i))).find(|o| o.is_ne());
        segments.unwrap_or_else(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_pre(&self.pre, &other.pre),
        })
    }
}

fn dotted(text: &str) -> bool {
    let word =
        |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '~');
    text.split('.').all(word)
}

/// Part by part: numbers by value and before words, words by their bytes, and what ends first comes first (SemVer 2, 11).
fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(l), Some(r)) => match (l.parse::<u64>(), r.parse::<u64>()) {
                (Ok(l), Ok(r)) => l.cmp(&r),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => l.cmp(r),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// How pre-releases are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ordered {
    /// `version`: a pre-release passes an ordering only when the constraint names a pre-release of the same segments.
    Leniently,
    /// `semver`: a pre-release is a version like any other; there is no `~>`.
    Strictly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    /// `~> 1.2.3`: at least that, and the segments before the last written one are the same.
    Pessimistic,
}

/// Longest first, so that `>=` is not read as `>`. Nothing written means equal.
const RELATIONS: [(&str, Relation); 7] = [
    (">=", Relation::GreaterOrEqual),
    ("<=", Relation::LessOrEqual),
    ("!=", Relation::NotEqual),
    ("~>", Relation::Pessimistic),
    (">", Relation::Greater),
    ("<", Relation::Less),
    ("=", Relation::Equal),
];

/// A comma list of relations, all of which must hold.
#[derive(Clone, Debug)]
pub struct VersionConstraint {
    all: Vec<(Relation, Version)>,
    ordered: Ordered,
}

impl VersionConstraint {
    /// None: not a constraint.
    pub fn parse(text: &str, ordered: Ordered) -> Option<VersionConstraint> {
        let all =
            text.split(',').map(|part| parse_relation(part.trim(), ordered)).collect::<Option<Vec<_>>>()?;
        Some(VersionConstraint { all, ordered })
    }

    pub fn holds(&self, version: &Version) -> bool {
        self.all.iter().all(|(relation, bound)| self.one_holds(version, *relation, bound))
    }

    fn one_holds(&self, version: &Version, relation: Relation, bound: &Version) -> bool {
        let order = version.compare(bound);
        match relation {
            Relation::Equal => return order.is_eq(),
            Relation::NotEqual => return order.is_ne(),
            _ if self.ordered == Ordered::Leniently && !comparable(version, bound) => return false,
            _ => {}
        }
        match relation {
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Pessimistic => order.is_ge() && pessimistic(version, bound),
            Relation::Equal | Relation::NotEqual => false,
        }
    }
}

fn parse_relation(text: &str, ordered: Ordered) -> Option<(Relation, Version)> {
    let found = RELATIONS.iter().find_map(|(sign, r)| text.strip_prefix(sign).map(|rest| (*r, rest)));
    let (relation, rest) = found.unwrap_or((Relation::Equal, text));
    let version = Version::parse(rest)?;
    let strictly_written = version.pre.is_empty() || rest.contains(&format!("-{}", version.pre));
    let allowed = ordered == Ordered::Leniently || (relation != Relation::Pessimistic && strictly_written);
    allowed.then_some((relation, version))
}

fn comparable(version: &Version, bound: &Version) -> bool {
    version.pre.is_empty() || (!bound.pre.is_empty() && version.segments == bound.segments)
}

fn pessimistic(version: &Version, bound: &Version) -> bool {
    let same = bound.written.saturating_sub(1);
    let release_for_pre = version.pre.is_empty() && !bound.pre.is_empty();
    version.segments.len() >= bound.segments.len()
        && version.segments[..same] == bound.segments[..same]
        && !release_for_pre
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(version: &str, constraint: &str, ordered: Ordered) -> bool {
        let constraint = VersionConstraint::parse(constraint, ordered);
        Version::parse(version).zip(constraint).is_some_and(|(v, c)| c.holds(&v))
    }

    #[test]
    fn version_constraints() {
        let cases = [
            ("1.2.3", "= 1.2.3", true),
            ("1.2.3", "1.2.3", true),
            ("v1.2", "= 1.2.0", true),
            ("1", "= 1.0.0", true),
            ("1.2.3+ent", "= 1.2.3", true),
            ("1.2.3", "!= 1.2.4", true),
            ("1.2.3", "!= 1.2.3", false),
            ("1.10.0", "> 1.9", true),
            ("1.2.3", "> 1.2.3", false),
            ("1.2.3", ">= 1.2.3", true),
            ("1.2.3", "< 1.3", true),
            ("1.2.3", "<= 1.2.2", false),
            ("1.2.3", ">= 1.0, < 2.0", true),
            ("2.2.3", ">= 1.0, < 2.0", false),
            ("1.3.0", "~> 1.2", true),
            ("2.0.0", "~> 1.2", false),
            ("1.2.9", "~> 1.2.3", true),
            ("1.3.0", "~> 1.2.3", false),
            ("1.2.2", "~> 1.2.3", false),
            ("9.0", "~> 1", true),
            ("1.3.0-beta1", ">= 0.6.1", false),
            ("1.3.0-beta2", ">= 1.3.0-beta1", true),
            ("1.3.1-beta2", ">= 1.3.0-beta1", false),
            ("1.3.0", ">= 1.3.0-beta1", true),
            ("1.3.0", "~> 1.3.0-beta1", false),
            ("1.3.0-beta2", "~> 1.3.0-beta1", true),
            ("1.3.0-beta1", "= 1.3.0-beta1", true),
            ("1.3.0beta1", "= 1.3.0-beta1", true),
            ("1.3.0-beta1", "!= 1.3.0", true),
            ("abc", "> 0", false),
            ("1.2.3", "", false),
            ("1.2.3", ">", false),
            ("1.2.3", "> 1.2.x.y!", false),
            ("99999999999999999999", "> 1", false),
        ];
        for (version, constraint, want) in cases {
            assert_eq!(
                holds(version, constraint, Ordered::Leniently),
                want,
                "{version} version {constraint}"
            );
        }
    }

    #[test]
    fn semver_constraints() {
        let cases = [
            ("1.3.0-beta1", ">= 0.6.1", true),
            ("1.7.0-alpha1", ">= 1.6.0-beta1", true),
            ("1.7.0-alpha1", "> 1.7.0", false),
            ("1.3.0-beta1+ent", "= 1.3.0-beta1", true),
            ("1.0.0-alpha", "< 1.0.0-alpha.1", true),
            ("1.0.0-alpha.2", "< 1.0.0-alpha.10", true),
            ("1.0.0-1", "< 1.0.0-alpha", true),
            ("1.2.3", "~> 1.0", false),
            ("1.2.3", ">= 1.0.0, != 1.2.3", false),
            ("1.2.3-beta1", "= 1.2.3beta1", false),
        ];
        for (version, constraint, want) in cases {
            assert_eq!(holds(version, constraint, Ordered::Strictly), want, "{version} semver {constraint}");
        }
    }
}
