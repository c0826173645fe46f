//! How things look: key/value blocks, tables, short ids, sizes and times. Pure: the present time and the time zone come in.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;

/// What an empty value shows as.
const NONE: &str = "<none>";
const SHORT_ID: usize = 8;

/// `Key   = value` lines, keys padded to the longest.
pub fn key_values(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(key, value)| format!("{key:<width$} = {}\n", cell(value))).collect()
}

/// Columns two spaces apart, the header first. Rows shorter than the header end early.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = header.iter().map(ToString::to_string).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&head).chain(rows).collect();
    let width =
        |column: usize| all.iter().filter_map(|r| r.get(column)).map(|c| cell(c).chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    all.iter().map(|row| format!("{}\n", line(row, &widths))).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut out = String::new();
    for (text, width) in row.iter().zip(widths) {
        out.push_str(&format!("{:<width$}  ", cell(text)));
    }
    out.trim_end().to_string()
}

/// Escapes control characters and those that change the direction of writing: in names and messages they could move the
/// cursor or make one name look like another.
fn cell(value: &str) -> Cow<'_, str> {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match value {
        "" => NONE.into(),
        _ if value.contains(hostile) => {
            let shown = |c: char| if hostile(c) { c.escape_default().to_string() } else { c.to_string() };
            value.chars().map(shown).collect::<String>().into()
        }
        _ => value.into(),
    }
}

/// The first 8 characters, or all of them.
pub fn id(full: &str, verbose: bool) -> String {
    if verbose { full.to_string() } else { full.chars().take(SHORT_ID).collect() }
}

/// Nanoseconds since 1970 as `2024-05-01T10:20:30+02:00`, `Z` in UTC. Zero and nonsense are empty.
pub fn time(unix_nanos: i64, zone: &TimeZone) -> String {
    if unix_nanos <= 0 {
        return String::new();
    }
    match Timestamp::from_nanosecond(i128::from(unix_nanos)) {
        Ok(t) => zoned(t, zone),
        Err(_) => String::new(),
    }
}

fn zoned(t: Timestamp, zone: &TimeZone) -> String {
    let local = t.to_zoned(zone.clone());
    let shown = local.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let seconds = local.offset().seconds();
    if seconds == 0 {
        return format!("{shown}Z");
    }
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
    format!("{shown}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// A time of the API (RFC 3339, in UTC, with fractions) without the fraction, in UTC; `N/A` when it is unset.
pub fn utc(rfc3339: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(t) if !rfc3339.starts_with("0001-") => zoned(t, &TimeZone::UTC),
        _ => "N/A".to_string(),
    }
}

/// Nanoseconds since 1970 of a time of the API; 0 when unset.
pub fn unix_nanos(rfc3339: &str) -> i64 {
    let parsed = rfc3339.parse::<Timestamp>().ok().filter(|_| !rfc3339.starts_with("0001-"));
    parsed.and_then(|t| i64::try_from(t.as_nanosecond()).ok()).unwrap_or(0)
}

/// The two largest units that are not zero: `1h5m ago`, `3d2h from now`, `0s ago`; empty for no time at all.
pub fn relative(unix_nanos: i64, now_unix_nanos: i64) -> String {
    if unix_nanos <= 0 {
        return String::new();
    }
    let seconds = now_unix_nanos / 1_000_000_000 - unix_nanos / 1_000_000_000;
    let suffix = if seconds < 0 { "from now" } else { "ago" };
    format!("{} {suffix}", units(seconds.unsigned_abs()))
}

/// Seconds as `1h5m`: a year has 365 days here, a month 30.
pub fn units(mut seconds: u64) -> String {
    const UNITS: [(u64, &str); 6] =
        [(31_536_000, "y"), (2_592_000, "mo"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let mut out = String::new();
    let mut shown = 0;
    for (length, name) in UNITS {
        let count = seconds / length;
        seconds %= length;
        if count > 0 && shown < 2 {
            out.push_str(&format!("{count}{name}"));
            shown += 1;
        }
    }
    if out.is_empty() { "0s".to_string() } else { out }
}

/// Bytes as people read them.
pub fn size(count: u64) -> String {
    bytes(count as f64)
}

/// MiB as people read them: `300 MiB`, `7.6 GiB`, one decimal below ten.
pub fn mib(count: i64) -> String {
    bytes(count.max(0) as f64 * 1024.0 * 1024.0)
}

fn bytes(count: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let rounded = (value * 10.0).round() / 10.0;
    let digits = if rounded < 10.0 && unit > 0 && rounded.fract() != 0.0 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `1 allocation`, `2 allocations`.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_values_are_aligned_to_the_longest_key() {
        let rows = [("ID", "a".to_string()), ("Long Key", String::new())];
        assert_eq!(key_values(&rows), "ID       = a\nLong Key = <none>\n");
        assert_eq!(key_values(&[]), "");
    }

    #[test]
    fn tables_have_two_spaces_between_columns_and_none_at_the_end() {
        let rows = vec![
            vec!["cache".to_string(), "50".to_string(), "running".to_string()],
            vec!["ö".to_string(), String::new(), "x".to_string()],
        ];
        let expected = "ID     Priority  Status\ncache  50        running\nö      <none>    x\n";
        assert_eq!(table(&["ID", "Priority", "Status"], &rows), expected);
    }

    #[test]
    fn control_characters_are_escaped() {
        let name = "\u{1b}[2J\u{9b}a\nb\r\u{202e}txt.exe";
        let shown = table(&["Name"], &[vec![name.to_string()]]);
        assert_eq!(shown, "Name\n\\u{1b}[2J\\u{9b}a\\nb\\r\\u{202e}txt.exe\n");
        assert_eq!(key_values(&[("N", "a\nN = b".to_string())]), "N = a\\nN = b\n");
    }

    #[test]
    fn relative_times_show_two_units() {
        let now = 1_714_551_630_000_000_000;
        for (seconds, expected) in [
            (0, "0s ago"),
            (50, "50s ago"),
            (63, "1m3s ago"),
            (3_900, "1h5m ago"),
            (3_605, "1h5s ago"),
            (90_061, "1d1h ago"),
            (-(3 * 86_400 + 2 * 3_600), "3d2h from now"),
            (40 * 86_400, "1mo10d ago"),
            (400 * 86_400, "1y1mo ago"),
        ] {
            assert_eq!(relative(now - seconds * 1_000_000_000, now), expected);
        }
        assert_eq!(relative(0, now), "");
    }

    #[test]
    fn times_are_in_the_given_zone() {
        let nanos = 1_714_551_630_123_456_789;
        let zone = |hours: i8| TimeZone::fixed(jiff::tz::offset(hours));
        assert_eq!(time(nanos, &TimeZone::UTC), "2024-05-01T08:20:30Z");
        assert_eq!(time(nanos, &zone(2)), "2024-05-01T10:20:30+02:00");
        assert_eq!(time(nanos, &zone(-3)), "2024-05-01T05:20:30-03:00");
        assert_eq!(time(0, &TimeZone::UTC), "");
        assert_eq!(utc("2024-05-01T08:20:32.123Z"), "2024-05-01T08:20:32Z");
        assert_eq!(utc("0001-01-01T00:00:00Z"), "N/A");
        assert_eq!(utc(""), "N/A");
        assert_eq!(unix_nanos("1970-01-01T00:00:01Z"), 1_000_000_000);
    }

    #[test]
    fn sizes_have_one_decimal_below_ten() {
        for (count, expected) in [
            (0, "0 B"),
            (300, "300 MiB"),
            (7_782, "7.6 GiB"),
            (1024, "1 GiB"),
            (40_960, "40 GiB"),
            (-5, "0 B"),
        ] {
            assert_eq!(mib(count), expected);
        }
    }
}
