//! JSON for people to read.

use api::indent::indented;

/// Four spaces of indentation, as the API's `?pretty`.
pub fn pretty(value: &serde_json::Value) -> String {
    String::from_utf8_lossy(&indented(value.to_string().as_bytes())).into_owned()
}
