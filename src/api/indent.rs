//! JSON for reading: the written form with a line for each member and element. One pass over the text, instead of each shape
//! written by two formatters.
//!
//! Refuses to know: whether the text is JSON. It comes from what has just written it.

const STEP: usize = 4;

/// From JSON without white space, as serde_json's pretty form with four spaces.
pub fn indented(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_string, mut escaped, mut before) = (0_usize, false, false, 0);
    for (i, &b) in compact.iter().enumerate() {
        if in_string {
            in_string = escaped || b != b'"';
            escaped = !escaped && b == b'\\';
            out.push(b);
        } else {
            let opened = matches!(before, b'{' | b'[');
            let closes = matches!(b, b'}' | b']');
            if closes && !opened {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
            }
            in_string = b == b'"';
            out.push(b);
            match b {
                b'{' | b'[' if !matches!(compact.get(i + 1), Some(b'}' | b']')) => {
                    depth += 1;
                    line(&mut out, depth);
                }
                b',' => line(&mut out, depth),
                b':' => out.push(b' '),
                _ => {}
            }
        }
        before = b;
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + STEP * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    #[test]
    fn is_what_serde_json_writes_with_four_spaces() {
        for value in [
            json!({}),
            json!([]),
            json!([[], {}, [{}], {"a": []}]),
            json!({"a": 1, "b": [true, null, 1.5, -2], "c": {"d": {"e": "f"}}}),
            json!({"quoted \" {": "} \\", "[,:": "\\\", ]"}),
            json!("{\"only\": \"text\"}"),
            Value::Null,
        ] {
            let mut expected = Vec::new();
            let four = serde_json::ser::PrettyFormatter::with_indent(b"    ");
            value
                .serialize(&mut serde_json::Serializer::with_formatter(&mut expected, four))
                .expect("is written");
            let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(told(&indented(value.to_string().as_bytes())), told(&expected));
        }
    }
}
