//! Values as Go writes them: quoted strings, whole numbers, fractions and booleans.

/// The text between double quotes; `None` for an unknown escape.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' => return None,
            '\\' => escape(&mut rest, &mut out)?,
            c => push(&mut out, c),
        }
    }
    String::from_utf8(out).ok()
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn escape(rest: &mut std::str::Chars<'_>, out: &mut Vec<u8>) -> Option<()> {
    let plain = match rest.next()? {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        'x' => u8::try_from(digits(rest, 2, 16, 0)?).ok()?,
        first @ '0'..='7' => u8::try_from(digits(rest, 2, 8, first.to_digit(8)?)?).ok()?,
        long @ ('u' | 'U') => {
            let count = if long == 'u' { 4 } else { 8 };
            push(out, char::from_u32(digits(rest, count, 16, 0)?)?);
            return Some(());
        }
        _ => return None,
    };
    out.push(plain);
    Some(())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32, first: u32) -> Option<u32> {
    (0..count).try_fold(first, |sum, _| sum.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))
}

/// A whole number: decimal, or with the prefixes `0x`, `0o`, `0b` or a leading zero (octal); `_` between digits.
pub fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let prefix = prefixes.iter().find(|(p, _)| lower.starts_with(p) && lower.len() > p.len());
    let (digits, radix) = prefix.map_or((lower.as_str(), 10), |(p, radix)| (&lower[p.len()..], *radix));
    // After a prefix, the first underscore may stand before the first digit.
    let well_placed = !digits.ends_with('_')
        && !digits.contains("__")
        && (prefix.is_some() || !digits.starts_with('_'))
        && (prefix.is_some() || !digits.contains('_'));
    let plain = digits.replace('_', "");
    if !well_placed || plain.is_empty() || !plain.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(&plain, radix).ok()?;
    let value = if negative { -value } else { value };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// A number with or without a fraction. One that is too large is none.
pub fn float(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let named = text.trim_start_matches(['+', '-']).starts_with(['i', 'I', 'n', 'N']);
    (value.is_finite() || named).then_some(value)
}

pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("plain ä", Some("plain ä")),
            (r"a\tb\n\\", Some("a\tb\n\\")),
            (r"\x41\101é\U0001F600", Some("AAé😀")),
            (r"\xc3\xa4", Some("ä")),
            (r"\xff", None),
            (r"\400", None),
            (r"\x4", None),
            (r"\ud800", None),
            (r"\'", None),
            (r"\q", None),
            ("\\", None),
            ("a\nb", None),
        ] {
            assert_eq!(unescape(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("50", Some(50)),
            ("-7", Some(-7)),
            ("+7", Some(7)),
            ("0", Some(0)),
            ("0x1F", Some(31)),
            ("0b101", Some(5)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("0x_1f", Some(31)),
            ("0_7", Some(7)),
            ("1_000", None),
            ("1__0", None),
            ("08", None),
            ("0x", None),
            ("_1", None),
            ("", None),
            ("-", None),
            ("1.5", None),
            ("1e3", None),
            ("18446744073709551615", Some(i128::from(u64::MAX))),
            ("18446744073709551616", None),
        ] {
            assert_eq!(integer(text), expected, "{text}");
        }
        for (text, expected) in
            [("1.5", Some(1.5)), (".5", Some(0.5)), ("1e3", Some(1000.0)), ("1e999", None), ("x", None)]
        {
            assert_eq!(float(text), expected, "{text}");
        }
        assert_eq!(float("-Inf"), Some(f64::NEG_INFINITY));
    }
}
