//! Durations as people write them: Go's (`1h30m`, `500ms`, `1.5s`), and days and `hr`, which job files in the wild use.

use model::time::Span;
use std::fmt;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotADuration {
    pub text: String,
    pub reason: &'static str,
}

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.text.chars().take(40).collect();
        write!(
            f,
            "{shown:?} is not a duration: {}; write it like \"30s\", \"1h30m\" or \"500ms\"",
            self.reason
        )
    }
}

impl std::error::Error for NotADuration {}

/// A sign, then numbers with units: `ns us µs ms s m h hr d`. `0` needs no unit.
pub fn parse(text: &str) -> Result<Span, NotADuration> {
    let fail = |reason| NotADuration { text: text.to_string(), reason };
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Span::ZERO);
    }
    if rest.is_empty() {
        return Err(fail("it is empty"));
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanos, tail) = term(rest).map_err(fail)?;
        total += nanos;
        if total > i128::from(i64::MAX) {
            return Err(fail("it is longer than 292 years"));
        }
        rest = tail;
    }
    let signed = if negative { -total } else { total };
    i64::try_from(signed).map(Span::nanos).map_err(|_| fail("it is longer than 292 years"))
}

/// One number with its unit, in nanoseconds, and what follows it.
fn term(text: &str) -> Result<(i128, &str), &'static str> {
    let whole_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(whole_len);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(r) => r.split_at(r.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err("a number is missing");
    }
    let unit_len = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(unit_len);
    let unit = unit_nanos(name)?;
    if whole.len() > 19 {
        return Err("it is longer than 292 years");
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| "a number is missing")? };
    let mut nanos = whole * unit;
    let mut scale = unit;
    for digit in fraction.bytes().take(18) {
        nanos += i128::from(digit - b'0') * scale / 10;
        scale /= 10;
    }
    Ok((nanos, rest))
}

fn unit_nanos(name: &str) -> Result<i128, &'static str> {
    Ok(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" | "hr" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "" => return Err("a unit is missing"),
        _ => return Err("its unit is unknown (known are ns, us, ms, s, m, h, d)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [
            ("0", Span::ZERO),
            ("0s", Span::ZERO),
            ("30s", Span::seconds(30)),
            ("1h30m", Span::minutes(90)),
            ("1hr", Span::hours(1)),
            ("2d", Span::hours(48)),
            ("1.5s", Span::millis(1500)),
            (".5s", Span::millis(500)),
            ("500ms", Span::millis(500)),
            ("1.25h", Span::minutes(75)),
            ("-5s", Span::seconds(-5)),
            ("+5s", Span::seconds(5)),
            ("10us", Span::nanos(10_000)),
            ("10µs", Span::nanos(10_000)),
            ("1m0.000000001s", Span::nanos(60_000_000_001)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_durations_say_why() {
        for (text, reason) in [
            ("", "it is empty"),
            ("-", "it is empty"),
            ("5", "a unit is missing"),
            ("s", "a number is missing"),
            ("5x", "its unit is unknown"),
            ("99999999999999h", "292 years"),
            ("9223372036854775808ns", "292 years"),
            ("99999999999999999999999999s", "292 years"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_printed_duration_is_read_back() {
        for nanos in [1, 999, 1_001, 61_000_000_000, 3_600_000_000_001, 86_400_000_000_000, -1_500_000_000] {
            assert_eq!(parse(&Span::nanos(nanos).to_string()), Ok(Span::nanos(nanos)));
        }
    }
}
