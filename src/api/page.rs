//! Pages of lists: where a page begins and ends, and ids and their prefixes as callers write them.
//!
//! A token names the first item of the next page (http-api.md 0.5.2): `<namespace>.<id>` for jobs,
//! `<create index>.<id>` for evaluations and allocations, `<id>` for nodes and for whatever was looked up by prefix.
//!
//! Refuses to know: what the rows are.

use crate::query::Query;
use crate::response::Response;
use std::str::FromStr;

/// One page, and the token of the next one: empty when there is none.
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_token: String,
}

/// How many rows are read at a time while looking for those that a page keeps.
pub const CHUNK: usize = 256;

/// Rows in their order, read `CHUNK` at a time. `read` takes the row to go on after.
pub fn rows<T: Clone>(
    mut read: impl FnMut(Option<&T>) -> Result<Vec<T>, Response>,
) -> impl Iterator<Item = Result<T, Response>> {
    let mut chunk = Vec::new().into_iter();
    let mut last: Option<T> = None;
    let mut done = false;
    std::iter::from_fn(move || {
        if chunk.len() == 0 && !done {
            match read(last.as_ref()) {
                Err(response) => {
                    done = true;
                    return Some(Err(response));
                }
                Ok(rows) => {
                    done = rows.len() < CHUNK;
                    last = rows.last().cloned();
                    chunk = rows.into_iter();
                }
            }
        }
        chunk.next().map(Ok)
    })
}

/// Cuts the asked page out of `rows`. Rows that lie before `from` in the list's direction are left out, and then those
/// that the query's filter does not match; `key` is what rows are ordered by and `name` is the token of one.
pub fn paginate<T, K: Ord>(
    rows: impl Iterator<Item = Result<T, Response>>,
    query: &Query,
    from: Option<&K>,
    key: impl Fn(&T) -> K,
    name: impl Fn(&T) -> String,
    matches: impl Fn(&T) -> Result<bool, Response>,
) -> Result<Page<T>, Response> {
    let most = if query.per_page == 0 { usize::MAX } else { query.per_page };
    if query.reverse {
        let mut all = rows.collect::<Result<Vec<T>, Response>>()?;
        all.reverse();
        let rest = all.into_iter().filter(|row| from.is_none_or(|f| key(row) <= *f));
        return fill(rest.map(Ok), most, name, matches);
    }
    let rest = rows.filter(|row| match (row, from) {
        (Ok(row), Some(from)) => key(row) >= *from,
        _ => true,
    });
    fill(rest, most, name, matches)
}

fn fill<T>(
    rows: impl Iterator<Item = Result<T, Response>>,
    most: usize,
    name: impl Fn(&T) -> String,
    matches: impl Fn(&T) -> Result<bool, Response>,
) -> Result<Page<T>, Response> {
    let mut items = Vec::new();
    for row in rows {
        let row = row?;
        if !matches(&row)? {
            continue;
        }
        if items.len() == most {
            return Ok(Page { next_token: name(&row), items });
        }
        items.push(row);
    }
    Ok(Page { items, next_token: String::new() })
}

/// The elements of a list without pages that `matches` holds.
pub fn filtered<T>(rows: Vec<T>, matches: impl Fn(&T) -> Result<bool, Response>) -> Result<Vec<T>, Response> {
    Ok(fill(rows.into_iter().map(Ok), usize::MAX, |_| String::new(), matches)?.items)
}

impl<T> Page<T> {
    /// With the header that names the next page, if there is one.
    pub fn mark(&self, response: Response) -> Response {
        match self.next_token.as_str() {
            "" => response,
            token => response.with("X-Nomad-NextToken", token),
        }
    }
}

/// `<create index>.<id>`, or `<id>` alone (create index 0). `None` when no page was asked for.
pub fn place_token<Id: FromStr>(token: &str) -> Result<Option<(u64, Id)>, Response> {
    if token.is_empty() {
        return Ok(None);
    }
    let (index, id) = token.split_once('.').unwrap_or(("0", token));
    match (index.parse(), id.parse()) {
        (Ok(index), Ok(id)) => Ok(Some((index, id))),
        _ => Err(Response::text(400, format!("next_token {token:?} is not one that this list gives out"))),
    }
}

/// A full id, as every read of one object needs it.
pub fn full_id<Id: FromStr>(what: &str, text: &str) -> Result<Id, Response> {
    text.parse().map_err(|_| {
        let sentence =
            format!("{what} lookup failed: {text:?} is not a full id of 36 characters; list with ?prefix=");
        Response::text(400, sentence)
    })
}

/// A prefix of ids as a list takes it: hex digits, any number of them, dashes allowed.
pub fn id_prefix(what: &str, text: &str) -> Result<String, Response> {
    hex_digits(text).ok_or_else(|| {
        let sentence = format!(
            "{what} lookup failed: {text:?} is not the beginning of an id: at most 32 hex digits are expected"
        );
        Response::text(400, sentence)
    })
}

/// The hex digits of an id's beginning, dashes left out; `None` when there is anything else, or too much.
pub fn hex_digits(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    (digits.len() <= 32 && digits.chars().all(|c| c.is_ascii_hexdigit())).then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::EvalId;

    fn numbers(count: u64) -> impl Iterator<Item = Result<u64, Response>> {
        rows(move |after: Option<&u64>| {
            let start = after.map_or(0, |a| a + 1);
            Ok((start..count.min(start + CHUNK as u64)).collect())
        })
    }

    fn page(count: u64, from: Option<u64>, per_page: usize, reverse: bool) -> (Vec<u64>, String) {
        let parameters = [("per_page", per_page.to_string()), ("reverse", reverse.to_string())];
        let query = Query::new(parameters.map(|(k, v)| (k.to_string(), v)).into()).unwrap();
        let page =
            paginate(numbers(count), &query, from.as_ref(), |n| *n, u64::to_string, |_| Ok(true)).unwrap();
        (page.items, page.next_token)
    }

    #[test]
    fn pages_follow_each_other() {
        assert_eq!(page(3, None, 2, false), (vec![0, 1], "2".into()));
        assert_eq!(page(3, Some(2), 2, false), (vec![2], String::new()));
        assert_eq!(page(4, Some(2), 2, false), (vec![2, 3], String::new()));
        assert_eq!(page(4, None, 3, true), (vec![3, 2, 1], "0".into()));
        assert_eq!(page(4, Some(0), 3, true), (vec![0], String::new()));
        assert_eq!(page(0, None, 2, false), (vec![], String::new()));
        let (all, token) = page(3 * CHUNK as u64, None, 0, false);
        assert_eq!((all.len(), token.as_str()), (3 * CHUNK, ""));
        assert_eq!(page(1000, Some(700), 1, false), (vec![700], "701".into()));
    }

    #[test]
    fn elements_left_out_by_a_filter_are_not_counted() {
        let query = Query::new(vec![("per_page".into(), "2".into())]).unwrap();
        let even = |n: &u64| Ok(n.is_multiple_of(2));
        let page = paginate(numbers(9), &query, Some(&1), |n| *n, u64::to_string, even).unwrap();
        assert_eq!((page.items, page.next_token.as_str()), (vec![2, 4], "6"));
    }

    #[test]
    fn a_row_that_cannot_be_read_ends_the_page_with_its_error() {
        let broken = rows(|_: Option<&u64>| Err(Response::text(500, "why")));
        let query = Query::default();
        let answer = paginate(broken, &query, None::<&u64>, |n| *n, u64::to_string, |_| Ok(true));
        assert_eq!(answer.map(|p| p.items).unwrap_err().status, 500);
    }

    #[test]
    fn tokens_and_ids_are_checked() {
        let id = "01234567-89ab-4def-8123-456789abcdef";
        let place = |token: &str| place_token::<EvalId>(token).map_err(|r| r.status);
        assert_eq!(place(&format!("7.{id}")), Ok(Some((7, id.parse().unwrap()))));
        assert_eq!(place(id), Ok(Some((0, id.parse().unwrap()))));
        assert_eq!(place(""), Ok(None));
        assert_eq!(place("x"), Err(400));
        assert_eq!(place(&format!("-1.{id}")), Err(400));
        for (prefix, digits) in [
            ("ab", Some("ab")),
            ("AB-cd", Some("abcd")),
            ("abc", Some("abc")),
            ("xy", None),
            ("", Some("")),
            (id, None),
        ] {
            let got = id_prefix("alloc", prefix).ok();
            let expected = if prefix == id { Some(id.replace('-', "")) } else { digits.map(str::to_string) };
            assert_eq!(got, expected, "{prefix}");
        }
        assert_eq!(id_prefix("alloc", "xy").map_err(|r| r.status), Err(400));
        assert_eq!(hex_digits(&"a".repeat(33)), None);
        assert_eq!(full_id::<EvalId>("eval", "0123").unwrap_err().status, 400);
    }
}
