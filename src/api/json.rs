//! Small request bodies: a JSON object whose members are found as Go's decoder finds them, whatever their case.
//!
//! Refuses to know: which members a request has.

use super::response::Response;
use serde_json::{Map, Value};

pub fn object(body: &[u8]) -> Result<Map<String, Value>, Response> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Response::text(400, "the request body must be a JSON object")),
        Err(why) => Err(Response::text(400, why.to_string())),
    }
}

/// The member of that name: the exact one if there is one, else the first that differs in case only. `null` is absence.
pub fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let found = object
        .get(name)
        .or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

pub fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Response> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Response::text(400, format!("member {name} must be a string"))),
    }
}

pub fn flag(object: &Map<String, Value>, name: &str) -> Result<bool, Response> {
    Ok(choice(object, name)?.unwrap_or(false))
}

pub fn choice(object: &Map<String, Value>, name: &str) -> Result<Option<bool>, Response> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Response::text(400, format!("member {name} must be true or false"))),
    }
}

pub fn number(object: &Map<String, Value>, name: &str) -> Result<Option<u64>, Response> {
    let wrong = || Response::text(400, format!("member {name} must be a whole number from 0"));
    member(object, name).map(|value| value.as_u64().ok_or_else(wrong)).transpose()
}

/// Absent: none.
pub fn texts<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a str>, Response> {
    let wrong = || Response::text(400, format!("member {name} must be a list of strings"));
    let Some(given) = member(object, name) else { return Ok(Vec::new()) };
    given.as_array().and_then(|given| given.iter().map(Value::as_str).collect()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_their_case() {
        let body = object(br#"{"jobhcl":"a","JOBHCL":"b","Null":null,"Yes":true,"N":7}"#).unwrap();
        assert_eq!((number(&body, "n"), number(&body, "null")), (Ok(Some(7)), Ok(None)));
        assert_eq!(number(&body, "yes").unwrap_err().status, 400);
        assert_eq!(text(&body, "jobhcl"), Ok(Some("a")));
        assert_eq!(text(&body, "yes").unwrap_err().status, 400);
        assert_eq!(
            (text(&body, "Null"), flag(&body, "YES"), flag(&body, "No")),
            (Ok(None), Ok(true), Ok(false))
        );
    }

    #[test]
    fn non_objects_and_deep_nesting_are_refused() {
        for body in ["", "[]", "1", "{", "nul"] {
            assert_eq!(object(body.as_bytes()).unwrap_err().status, 400, "{body}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(object(format!("{{\"a\":{deep}").as_bytes()).unwrap_err().status, 400);
    }
}
