//! Whether a path fits a route's pattern, and which names stand in it.
//!
//! Refuses to know: which patterns there are. A pattern's segments are literal, `:name` (one segment) or `*name` (any number
//! of segments, as many as the rest of the pattern leaves). That is how the id of a job may hold slashes: the job's part is
//! recognised by how the path ends (http-api.md 0.1.3). A slash that was escaped is part of a name and ends no segment: the
//! job `a/summary` is not the summary of the job `a`.

use crate::request::SLASH_OF_A_NAME;

/// Only ids of jobs keep escaped slashes apart from others: nothing else is recognised by how its path ends.
const JOB: &str = "/v1/job/";

/// The segments of a path that was decoded as `Request::decoded_path` does it.
pub fn segments(path: &str) -> Vec<String> {
    let plain = if path.starts_with(JOB) { path.to_string() } else { path.replace(SLASH_OF_A_NAME, "/") };
    plain.split('/').map(str::to_string).collect()
}

/// The names, in the pattern's order; `None`: the path does not fit.
pub fn names(pattern: &str, path: &[String]) -> Option<Vec<String>> {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let mut found = fit(&pattern, path)?;
    found.reverse();
    Some(found)
}

/// Last name first.
fn fit(pattern: &[&str], path: &[String]) -> Option<Vec<String>> {
    let Some((first, pattern)) = pattern.split_first() else { return path.is_empty().then(Vec::new) };
    if !first.starts_with([':', '*']) {
        let (segment, rest) = path.split_first()?;
        return if segment == first { fit(pattern, rest) } else { None };
    }
    let most = if first.starts_with('*') { path.len() } else { 1.min(path.len()) };
    (1..=most).rev().find_map(|count| {
        let (name, rest) = path.split_at(count);
        let mut found = fit(pattern, rest)?;
        found.push(name.join("/").replace(SLASH_OF_A_NAME, "/"));
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment_or_as_many_as_the_rest_leaves() {
        for (pattern, path, expected) in [
            ("/a", "/a", Some(vec![])),
            ("/a", "/a/", None),
            ("/a/:id", "/a/x", Some(vec!["x"])),
            ("/a/:id", "/a/x/y", None),
            ("/a/:id", "/a/", Some(vec![""])),
            ("/a/:id", "/a", None),
            ("/a/*id/end", "/a/x/y/end", Some(vec!["x/y"])),
            ("/a/*id/end", "/a/end", None),
            ("/a/*id/end", "/a/end/end", Some(vec!["end"])),
            ("/a/*id/of/:tag/end", "/a/x/of/y/of/z/end", Some(vec!["x/of/y", "z"])),
            ("/v1/job/*id", "/v1/job/a\0b", Some(vec!["a/b"])),
            ("/v1/job/*id/end", "/v1/job/a\0end", None),
            ("/v1/pool/*id/end", "/v1/pool/a\0end", Some(vec!["a"])),
        ] {
            let expected = expected.map(|names| names.into_iter().map(str::to_string).collect());
            assert_eq!(names(pattern, &segments(path)), expected, "{pattern} {path}");
        }
    }
}
