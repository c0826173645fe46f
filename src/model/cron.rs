//! Cron expressions: five fields, six with a year behind them, seven with seconds before them
//! (server.md 10.3); and the moments that some of them name in a time zone.
//!
//! Refuses to know: what time it is, where time zones are written down, and what happens at such a moment. What is local time
//! that a change of the clocks skips names no moment; what it repeats names the first of both.

use super::time::Wall;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Where time zones are looked up by name. `None`: it is not known.
pub type Zones = fn(&str) -> Option<TimeZone>;

/// The longest expression: evaluating it is the leader's work.
pub const MAX_BYTES: usize = 256;
/// Years before it lie behind, whatever is said of them; from it to the last one there are 128.
const FIRST_YEAR: u16 = 1972;
const LAST_YEAR: u16 = 2099;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: Field,
    minutes: Field,
    hours: Field,
    days: Vec<DayRule>,
    months: Field,
    years: Field,
}

/// Numbers from `first` on, a bit for each: to look at one costs the same however many were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    first: u16,
    bits: u128,
}

impl Field {
    fn has(self, n: u16) -> bool {
        n >= self.first && self.bits >> (n - self.first) & 1 == 1
    }

    fn add(&mut self, n: u16) {
        if n >= self.first {
            self.bits |= 1 << (n - self.first);
        }
    }
}

/// A day that fits any of them is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DayRule {
    OfMonth(Field),
    LastOfMonth,
    LastWorkday,
    /// The workday that is nearest to it, in the same month.
    WorkdayNear(u16),
    OfWeek(Field),
    /// The last such day of the week.
    Last(u16),
    /// The day of the week, and the how-manieth it is in its month.
    Nth(u16, u16),
}

/// How a field is written.
struct Grammar {
    name: &'static str,
    /// Values of its `Field`.
    first: u16,
    least: u16,
    most: u16,
    /// What `*` and a step without an end go to.
    end: u16,
    names: &'static [&'static str],
    /// The number of the first name.
    named_from: u16,
}

const fn numbers(name: &'static str, least: u16, most: u16) -> Grammar {
    Grammar { name, first: 0, least, most, end: most, names: &[], named_from: 0 }
}

const SECOND_FIELD: Grammar = numbers("second", 0, 59);
const MINUTE_FIELD: Grammar = numbers("minute", 0, 59);
const HOUR_FIELD: Grammar = numbers("hour", 0, 23);
const DAY_FIELD: Grammar = numbers("day of month", 1, 31);
const MONTH_FIELD: Grammar = Grammar { names: &MONTHS, named_from: 1, ..numbers("month", 1, 12) };
/// 7 is Sunday, as 0 is.
const WEEKDAY_FIELD: Grammar = Grammar { end: 6, names: &WEEKDAYS, ..numbers("day of week", 0, 7) };
const YEAR_FIELD: Grammar = Grammar { first: FIRST_YEAR, ..numbers("year", 1970, LAST_YEAR) };

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

impl Cron {
    pub fn parse(text: &str) -> Result<Cron, String> {
        let bytes = text.len();
        if bytes > MAX_BYTES {
            return Err(format!("it has {bytes} bytes; at most {MAX_BYTES} are allowed"));
        }
        let text = text.trim().to_ascii_lowercase();
        let expanded = match text.as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = expanded.split_ascii_whitespace().collect();
        let (second, five, year) = match fields.as_slice() {
            five @ [_, _, _, _, _] => ("0", five, "*"),
            [five @ .., year] if five.len() == 5 => ("0", five, *year),
            [second, five @ .., year] if five.len() == 5 => (*second, five, *year),
            other => return Err(format!("it has {} fields; 5, 6 or 7 are expected", other.len())),
        };
        Ok(Cron {
            seconds: SECOND_FIELD.field(second)?,
            minutes: MINUTE_FIELD.field(five[0])?,
            hours: HOUR_FIELD.field(five[1])?,
            days: days(five[2], five[4])?,
            months: MONTH_FIELD.field(five[3])?,
            years: YEAR_FIELD.field(year)?,
        })
    }

    /// The first local time at or after this one that it names; both as seconds since 1970, as if they were UTC.
    fn local_from(&self, mut local: i64) -> Option<i64> {
        loop {
            let at = civil(local)?;
            let (year, month) = (at.year() as u16, at.month() as u16);
            if year > LAST_YEAR {
                return None;
            }
            local = if !self.years.has(year) || !self.months.has(month) {
                let left = i64::from(at.date().days_in_month() - at.day());
                (local.div_euclid(DAY) + left + 1) * DAY
            } else if !self.days.iter().any(|rule| rule.has(at)) {
                (local.div_euclid(DAY) + 1) * DAY
            } else if !self.hours.has(at.hour() as u16) {
                (local.div_euclid(HOUR) + 1) * HOUR
            } else if !self.minutes.has(at.minute() as u16) {
                (local.div_euclid(MINUTE) + 1) * MINUTE
            } else if !self.seconds.has(at.second() as u16) {
                local + 1
            } else {
                return Some(local);
            };
        }
    }

    /// The first moment after `after` that it names there; in seconds since 1970.
    fn next(&self, after: i64, zone: &TimeZone) -> Option<i64> {
        let offset = zone.to_offset(Timestamp::from_second(after).ok()?);
        let mut local = after + i64::from(offset.seconds());
        loop {
            local = self.local_from(local + 1)?;
            let offset = match zone.to_ambiguous_timestamp(civil(local)?).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset,
                AmbiguousOffset::Fold { before, .. } => before,
                AmbiguousOffset::Gap { .. } => continue,
            };
            let at = local - i64::from(offset.seconds());
            if at > after {
                return Some(at);
            }
        }
    }

    /// The last moment after `after` that is not beyond `until`.
    fn newest(&self, after: i64, until: i64, zone: &TimeZone) -> Option<i64> {
        let due = |after| self.next(after, zone).filter(|next| *next <= until);
        let mut newest = due(after)?;
        // what comes after `known` is due, what comes after `beyond` is not
        let (mut known, mut beyond) = (newest - 1, until);
        while beyond - known > 1 {
            let between = known + (beyond - known) / 2;
            match due(between) {
                Some(later) => (known, newest) = (later - 1, later),
                None => beyond = between,
            }
        }
        Some(newest)
    }
}

/// The moments that any of some expressions name in one time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub crons: Vec<Cron>,
    pub zone: TimeZone,
}

impl Schedule {
    /// The first one after `after`.
    pub fn next(&self, after: Wall) -> Option<Wall> {
        let after = after.unix_seconds();
        let next = self.crons.iter().filter_map(|cron| cron.next(after, &self.zone)).min()?;
        Some(Wall(next.checked_mul(1_000_000_000)?))
    }

    /// The last one after `after` that is not beyond `until`.
    pub fn newest(&self, after: Wall, until: Wall) -> Option<Wall> {
        let (after, until) = (after.unix_seconds(), until.unix_seconds());
        let newest = self.crons.iter().filter_map(|cron| cron.newest(after, until, &self.zone)).max()?;
        Some(Wall(newest.checked_mul(1_000_000_000)?))
    }
}

fn civil(local: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?))
}

impl Grammar {
    fn field(&self, text: &str) -> Result<Field, String> {
        let mut field = Field { first: self.first, bits: 0 };
        for item in text.split(',') {
            let (from, to, step) = self.steps(item)?;
            (from..=to).step_by(step).for_each(|n| field.add(n));
        }
        Ok(field)
    }

    /// `*`, `n`, `n-m`, each with `/step` or without; `n/step` goes on to the end. From, to, and how far apart.
    fn steps(&self, item: &str) -> Result<(u16, u16, usize), String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.end),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            None if step.is_some() => (self.number(range)?, self.end),
            None => (self.number(range)?, self.number(range)?),
        };
        let step = match step {
            None => 1,
            Some(step) => {
                let most = usize::from(self.most);
                step.parse().ok().filter(|s| (1..=most).contains(s)).ok_or(self.bad(item))?
            }
        };
        if from > to { Err(self.bad(item)) } else { Ok((from, to, step)) }
    }

    /// By digits or by name, in full or its first three letters.
    fn number(&self, text: &str) -> Result<u16, String> {
        let named = self.names.iter().position(|name| *name == text || name.get(..3) == Some(text));
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = match named {
            Some(place) => Some(self.named_from + place as u16),
            None if digits => text.parse().ok(),
            None => None,
        };
        number.filter(|n| (self.least..=self.most).contains(n)).ok_or(self.bad(text))
    }

    fn bad(&self, text: &str) -> String {
        format!("{text:?} is no {}", self.name)
    }
}

/// What both fields of days say: an unrestricted one leaves it to the other.
fn days(of_month: &str, of_week: &str) -> Result<Vec<DayRule>, String> {
    let mut rules = Vec::new();
    let mut add = |rule: DayRule| {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    };
    let open = |text: &str| text == "*" || text == "?";
    for item in of_month.split(',').filter(|_| !open(of_month)) {
        add(match (item, item.strip_suffix('w')) {
            ("l", _) => DayRule::LastOfMonth,
            ("lw", _) => DayRule::LastWorkday,
            (_, Some(day)) => DayRule::WorkdayNear(DAY_FIELD.number(day)?),
            _ => DayRule::OfMonth(DAY_FIELD.field(item)?),
        });
    }
    for item in of_week.split(',').filter(|_| !open(of_week)) {
        add(match (item.strip_suffix('l'), item.split_once('#')) {
            (_, Some((day, nth))) => {
                let nth = nth.parse().ok().filter(|n| (1..=5).contains(n));
                DayRule::Nth(WEEKDAY_FIELD.number(day)? % 7, nth.ok_or(WEEKDAY_FIELD.bad(item))?)
            }
            (Some(day), None) => DayRule::Last(WEEKDAY_FIELD.number(day)? % 7),
            (None, None) => DayRule::OfWeek(WEEKDAY_FIELD.field(item)?),
        });
    }
    if rules.is_empty() {
        rules.push(DayRule::OfMonth(DAY_FIELD.field("*")?));
    }
    Ok(rules)
}

impl DayRule {
    fn has(&self, at: DateTime) -> bool {
        let (day, last) = (at.day() as u16, at.date().days_in_month() as u16);
        let weekday = at.weekday().to_sunday_zero_offset() as u16;
        match self {
            DayRule::OfMonth(field) => field.has(day),
            DayRule::LastOfMonth => day == last,
            DayRule::LastWorkday => day == workday_near(last, last, weekday, day),
            DayRule::WorkdayNear(wanted) => {
                *wanted <= last && day == workday_near(*wanted, last, weekday, day)
            }
            DayRule::OfWeek(field) => field.has(weekday) || (weekday == 0 && field.has(7)),
            DayRule::Last(wanted) => weekday == *wanted && day + 7 > last,
            DayRule::Nth(wanted, nth) => weekday == *wanted && day.div_ceil(7) == *nth,
        }
    }
}

/// `weekday` is that of `day`; `wanted` is a day of the same month.
fn workday_near(wanted: u16, last: u16, weekday: u16, day: u16) -> u16 {
    match (weekday + 35 + wanted - day) % 7 {
        6 if wanted > 1 => wanted - 1,
        6 => wanted + 2,
        0 if wanted < last => wanted + 1,
        0 => wanted - 2,
        _ => wanted,
    }
}

#[cfg(test)]
mod tests;
