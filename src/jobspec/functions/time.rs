//! Functions of given points in time. None asks what time it is.

use super::Error;
use super::arguments::{Arguments, Outcome};
use crate::duration;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "formatdate" => format_date(args),
        "timeadd" => time_add(args),
        _ => return None,
    })
}

/// An RFC 3339 time, and the offset it was written with.
fn read(text: &str) -> Result<(Timestamp, Offset), Error> {
    let bad = || Error::Failed(format!("{text:?} is no time: write it like \"2025-01-31T12:00:00Z\""));
    let instant: Timestamp = text.parse().map_err(|_| bad())?;
    let tail = text.get(text.len().saturating_sub(6)..).unwrap_or_default();
    let seconds = match tail.as_bytes() {
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let two = |a: &u8, b: &u8| i32::from(a.wrapping_sub(b'0')) * 10 + i32::from(b.wrapping_sub(b'0'));
            let seconds = two(h1, h2) * 3600 + two(m1, m2) * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => 0,
    };
    Ok((instant, Offset::from_seconds(seconds).map_err(|_| bad())?))
}

fn time_add(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (instant, offset) = read(&args.text(0)?)?;
    let span = duration::parse(&args.text(1)?).map_err(|e| Error::Failed(e.to_string()))?;
    let later = instant.checked_add(SignedDuration::from_nanos(span.as_nanos()));
    let later = later.map_err(|_| Error::Failed("the result lies beyond the year 9999".into()))?;
    let civil = offset.to_datetime(later);
    Ok(Value::String(format!("{}{}", civil.strftime("%Y-%m-%dT%H:%M:%S"), zone(offset, ":", "Z"))))
}

fn zone(offset: Offset, separator: &str, zero: &str) -> String {
    let seconds = offset.seconds();
    if seconds == 0 {
        return zero.to_string();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    format!("{sign}{:02}{separator}{:02}", minutes / 60, minutes % 60)
}

/// Runs of one letter are parts of the time; text in single quotes stands for itself.
fn format_date(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let pattern = args.text(0)?;
    let (instant, offset) = read(&args.text(1)?)?;
    let civil = offset.to_datetime(instant);
    let mut out = String::new();
    let mut rest = pattern.as_str();
    while let Some(c) = rest.chars().next() {
        if c == '\'' {
            let (text, after) = quoted(&rest[1..])?;
            out.push_str(&text);
            rest = after;
        } else if c.is_ascii_alphabetic() {
            let len = rest.bytes().take_while(|b| *b == c as u8).count();
            out.push_str(&part(&rest[..len], civil, offset)?);
            rest = &rest[len..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(Value::String(out))
}

/// Up to the closing quote; two quotes in a row are one.
fn quoted(text: &str) -> Result<(String, &str), Error> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('\'').ok_or("a quote is not closed")?;
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('\'') {
            Some(after) => {
                out.push('\'');
                rest = after;
            }
            None => return Ok((out, rest)),
        }
    }
}

fn part(run: &str, t: DateTime, offset: Offset) -> Result<String, Error> {
    let form = match run {
        "YYYY" => "%Y",
        "YY" => "%y",
        "MMMM" => "%B",
        "MMM" => "%b",
        "MM" => "%m",
        "M" => return Ok(t.month().to_string()),
        "DD" => "%d",
        "D" => return Ok(t.day().to_string()),
        "EEEE" => "%A",
        "EEE" => "%a",
        "hh" => "%H",
        "h" => return Ok(t.hour().to_string()),
        "HH" => "%I",
        "H" => return Ok(((t.hour() + 11) % 12 + 1).to_string()),
        "AA" => return Ok(if t.hour() < 12 { "AM" } else { "PM" }.into()),
        "aa" => return Ok(if t.hour() < 12 { "am" } else { "pm" }.into()),
        "mm" => "%M",
        "m" => return Ok(t.minute().to_string()),
        "ss" => "%S",
        "s" => return Ok(t.second().to_string()),
        "ZZZZZ" => return Ok(zone(offset, ":", "+00:00")),
        "ZZZZ" => return Ok(zone(offset, "", "+0000")),
        "ZZZ" => return Ok(zone(offset, "", "UTC")),
        "Z" => return Ok(zone(offset, ":", "Z")),
        other => return Err(format!("{other:?} is no part of a time; put text in single quotes").into()),
    };
    Ok(t.strftime(form).to_string())
}
