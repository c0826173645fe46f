//! The nearest of some known names to one that is not known: for "did you mean". Knows nothing of what the names mean.

/// The known name that takes the fewest single-character edits (insertions, deletions, replacements, swaps of
/// neighbours) to become `name`; none when the best takes more than a third of its length, rounded up.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are typing accidents of another kind, and comparing them costs time.
    const MAX_LENGTH: usize = 64;
    let wanted: Vec<char> = name.to_lowercase().chars().take(MAX_LENGTH).collect();
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let chars: Vec<char> = candidate.chars().take(MAX_LENGTH).collect();
        let edits = distance(&wanted, &chars);
        let allowed = chars.len().max(wanted.len()).div_ceil(3);
        if edits <= allowed && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = replace.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(before[j - 2] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_or_none() {
        let known = ["driver", "config", "resources", "count", "constraint"];
        for (name, expected) in [
            ("drivr", Some("driver")),
            ("Driver", Some("driver")),
            ("resource", Some("resources")),
            ("cuont", Some("count")),
            ("constrain", Some("constraint")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
