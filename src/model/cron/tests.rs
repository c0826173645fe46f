//! What expressions name, from calendars; what they name when clocks change; and what is no expression.

use super::*;

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().expect("a time").as_second()
}

fn told(seconds: i64) -> String {
    Timestamp::from_second(seconds).expect("in range").to_string()
}

/// The first moments after `after` in that zone.
fn moments(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(cron).unwrap_or_else(|why| panic!("{cron}: {why}"));
    let zone = TimeZone::posix(zone).expect("a zone");
    let mut after = at(after);
    let next = || {
        after = cron.next(after, &zone)?;
        Some(told(after))
    };
    std::iter::from_fn(next).take(count).collect()
}

#[test]
fn expressions_name_these_moments() {
    for (cron, after, expected) in [
        ("*/15 * * * *", "2024-05-01T10:07:30Z", &["2024-05-01T10:15:00Z", "2024-05-01T10:30:00Z"][..]),
        ("5/20 * * * *", "2024-05-01T10:07:00Z", &["2024-05-01T10:25:00Z", "2024-05-01T10:45:00Z"]),
        ("0 9-17/4 * * mon-fri", "2024-05-03T13:00:00Z", &["2024-05-03T17:00:00Z", "2024-05-06T09:00:00Z"]),
        ("0 0 1,15 * *", "2024-05-01T00:00:00Z", &["2024-05-15T00:00:00Z", "2024-06-01T00:00:00Z"]),
        ("0 0 L * *", "2024-02-01T00:00:00Z", &["2024-02-29T00:00:00Z", "2024-03-31T00:00:00Z"]),
        // 2024-06-30 is a Sunday, 2024-08-31 a Saturday
        ("0 0 LW 6,8 *", "2024-06-01T00:00:00Z", &["2024-06-28T00:00:00Z", "2024-08-30T00:00:00Z"]),
        // 2024-06-01 is a Saturday, 2024-09-01 a Sunday, 2024-12-15 a Sunday
        ("0 0 1W 6,9 ?", "2024-05-31T00:00:00Z", &["2024-06-03T00:00:00Z", "2024-09-02T00:00:00Z"]),
        ("0 0 15W 12 *", "2024-12-01T00:00:00Z", &["2024-12-16T00:00:00Z", "2025-12-15T00:00:00Z"]),
        ("0 0 * * 5L", "2024-05-01T00:00:00Z", &["2024-05-31T00:00:00Z", "2024-06-28T00:00:00Z"]),
        ("0 0 * * tue#2", "2024-05-01T00:00:00Z", &["2024-05-14T00:00:00Z", "2024-06-11T00:00:00Z"]),
        ("0 0 * * 7", "2024-05-01T00:00:00Z", &["2024-05-05T00:00:00Z", "2024-05-12T00:00:00Z"]),
        ("0 0 * * 5-7", "2024-05-02T00:00:00Z", &["2024-05-03T00:00:00Z", "2024-05-04T00:00:00Z"]),
        // either kind of day fits
        ("0 0 13 * fri", "2024-05-11T00:00:00Z", &["2024-05-13T00:00:00Z", "2024-05-17T00:00:00Z"]),
        ("0 0 29 feb *", "2024-03-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 12 1 January ? 2030", "2024-05-01T00:00:00Z", &["2030-01-01T12:00:00Z"]),
        ("0 0 30 2 *", "2024-05-01T00:00:00Z", &[]),
        ("0 0 1 1 * 2020", "2024-05-01T00:00:00Z", &[]),
        ("*/20 30 10 * * * *", "2024-05-01T10:30:19Z", &["2024-05-01T10:30:20Z", "2024-05-01T10:30:40Z"]),
        ("@hourly", "2024-05-01T10:30:00Z", &["2024-05-01T11:00:00Z", "2024-05-01T12:00:00Z"]),
        ("@Daily", "2024-05-01T10:30:00Z", &["2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z"]),
        ("@weekly", "2024-05-01T10:30:00Z", &["2024-05-05T00:00:00Z", "2024-05-12T00:00:00Z"]),
        ("@monthly", "2024-05-01T10:30:00Z", &["2024-06-01T00:00:00Z", "2024-07-01T00:00:00Z"]),
        ("@yearly", "2024-05-01T10:30:00Z", &["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]),
        ("59 23 31 12 * 2099", "2099-12-31T23:58:59Z", &["2099-12-31T23:59:00Z"]),
        ("0 0 1 1 * 1970-2099/40", "2024-05-01T00:00:00Z", &["2050-01-01T00:00:00Z", "2090-01-01T00:00:00Z"]),
        ("0 0 1 1 * 1970,1971", "1970-05-01T00:00:00Z", &[]),
        (
            "0 0 1-7,1-7,L,L * sat,6,7#1",
            "2024-05-07T00:00:00Z",
            &["2024-05-11T00:00:00Z", "2024-05-18T00:00:00Z"],
        ),
    ] {
        assert_eq!(moments(cron, "UTC0", after, 2), expected, "{cron}");
    }
}

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// On 2024-03-31 two o'clock was followed by three o'clock there, on 2024-10-27 three o'clock by two o'clock.
#[test]
fn a_skipped_hour_is_passed_over_and_a_doubled_one_counts_once() {
    for (cron, after, expected) in [
        ("30 2 * * *", "2024-03-30T00:00:00Z", &["2024-03-30T01:30:00Z", "2024-04-01T00:30:00Z"][..]),
        ("*/30 * * * *", "2024-03-31T00:29:00Z", &["2024-03-31T00:30:00Z", "2024-03-31T01:00:00Z"]),
        ("0 0-4 31 3 *", "2024-03-30T23:00:00Z", &["2024-03-31T00:00:00Z", "2024-03-31T01:00:00Z"]),
        ("30 2 * * *", "2024-10-26T00:00:00Z", &["2024-10-26T00:30:00Z", "2024-10-27T00:30:00Z"]),
        ("30 2 * * *", "2024-10-27T00:29:00Z", &["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]),
        // asked for in the second pass of that hour
        ("30 2 * * *", "2024-10-27T01:10:00Z", &["2024-10-28T01:30:00Z", "2024-10-29T01:30:00Z"]),
        ("*/30 * * * *", "2024-10-27T00:00:00Z", &["2024-10-27T00:30:00Z", "2024-10-27T02:00:00Z"]),
        ("0 12 * * *", "2024-10-26T10:00:00Z", &["2024-10-27T11:00:00Z", "2024-10-28T11:00:00Z"]),
    ] {
        assert_eq!(moments(cron, BERLIN, after, 2), expected, "{cron} after {after}");
    }
}

/// Zones whose clocks change by less than an hour, at midnight, in the other half of the year, and never.
#[test]
fn times_are_those_of_the_zone_wherever_it_is() {
    // 2024-10-06 from 2:00 to 2:30; 2024-04-07 from 2:00 to 1:30
    const LORD_HOWE: &str = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
    // 2024-09-08 from 0:00 to 1:00; 2024-04-07 from 0:00 to 23:00 of the day before
    const SANTIAGO: &str = "<-04>4<-03>,M9.1.6/24,M4.1.6/24";
    const KOLKATA: &str = "IST-5:30";
    for (zone, cron, after, expected) in [
        (LORD_HOWE, "15 2 * * *", "2024-10-04T20:00:00Z", &["2024-10-06T15:15:00Z"][..]),
        (LORD_HOWE, "45 2 * * *", "2024-10-05T12:00:00Z", &["2024-10-05T15:45:00Z"]),
        (LORD_HOWE, "45 1 * * *", "2024-04-06T12:00:00Z", &["2024-04-06T14:45:00Z", "2024-04-07T15:15:00Z"]),
        (SANTIAGO, "@daily", "2024-09-07T05:00:00Z", &["2024-09-09T03:00:00Z"]),
        (SANTIAGO, "30 23 * * *", "2024-04-06T12:00:00Z", &["2024-04-07T02:30:00Z", "2024-04-08T03:30:00Z"]),
        (KOLKATA, "0 0 1 1 *", "2024-05-01T00:00:00Z", &["2024-12-31T18:30:00Z"]),
        (BERLIN, "30 30 2 * * * *", "2024-03-30T12:00:00Z", &["2024-04-01T00:30:30Z"]),
        (BERLIN, "0 2 * * sun#5", "2024-03-01T00:00:00Z", &["2024-06-30T00:00:00Z"]),
        (
            BERLIN,
            "59 59 1,3 31 3 * *",
            "2024-03-30T12:00:00Z",
            &["2024-03-31T00:59:59Z", "2024-03-31T01:59:59Z"],
        ),
    ] {
        assert_eq!(moments(cron, zone, after, expected.len()), expected, "{cron} in {zone}");
    }
}

/// However an expression is written, a look at a moment costs the same; one that names nothing looks at some ten thousand days.
#[test]
fn a_schedule_that_never_comes_is_known_soon() {
    let longest = format!("0 0 {} 4,6,9,11 *", ["31"; 80].join(","));
    assert!(longest.len() <= MAX_BYTES && Cron::parse(&longest).is_ok_and(|cron| cron.days.len() == 1));
    let crons = vec![Cron::parse(&longest).expect("parses"); crate::periodic::MAX_EXPRESSIONS];
    let schedule = Schedule { crons, zone: TimeZone::posix(BERLIN).expect("a zone") };
    let after = Wall(at("2024-05-01T10:00:00Z") * 1_000_000_000);
    assert_eq!(schedule.next(after), None);
    assert_eq!(schedule.newest(after, Wall(i64::MAX)), None);
}

#[test]
fn malformed_cron_expressions_are_told_why() {
    for (cron, why) in [
        ("", "it has 0 fields"),
        ("* * * *", "it has 4 fields"),
        ("* * * * * * * *", "it has 8 fields"),
        ("@midnight", "it has 1 fields"),
        ("@every 5m", "it has 2 fields"),
        ("60 * * * *", "\"60\" is no minute"),
        ("-1 * * * *", "\"\" is no minute"),
        ("* 24 * * *", "\"24\" is no hour"),
        ("* * 0 * *", "\"0\" is no day of month"),
        ("* * 32W * *", "\"32\" is no day of month"),
        ("* * * 13 *", "\"13\" is no month"),
        ("* * * mon *", "\"mon\" is no month"),
        ("* * * * 8", "\"8\" is no day of week"),
        ("* * * * fri#6", "\"fri#6\" is no day of week"),
        ("* * * * * 1969", "\"1969\" is no year"),
        ("5-2 * * * *", "\"5-2\" is no minute"),
        ("*/0 * * * *", "\"*/0\" is no minute"),
        ("1,,2 * * * *", "\"\" is no minute"),
        (&format!("0{} * * * *", ",0".repeat(200)), "it has 409 bytes; at most 256 are allowed"),
        ("\u{663} * * * *", "is no minute"),
        ("H * * * *", "is no minute"),
        ("99999999999999999999 * * * *", "is no minute"),
        ("*/99999999999999999999 * * * *", "is no minute"),
    ] {
        let told = Cron::parse(cron).expect_err(cron);
        assert!(told.contains(why), "{cron}: {told}");
    }
}

#[test]
fn a_schedule_finds_the_next_and_the_newest_due_time() {
    let crons = ["0 * * * *", "20 * * * *"].map(|c| Cron::parse(c).expect("parses")).to_vec();
    let schedule = Schedule { crons, zone: TimeZone::UTC };
    let wall = |text: &str| Wall(at(text) * 1_000_000_000);
    let after = wall("2024-05-01T10:00:00Z");
    assert_eq!(schedule.next(after), Some(wall("2024-05-01T10:20:00Z")));
    assert_eq!(schedule.next(wall("2024-05-01T10:20:00Z")), Some(wall("2024-05-01T11:00:00Z")));
    for (until, newest) in [
        ("2024-05-01T10:19:59Z", None),
        ("2024-05-01T10:20:00Z", Some("2024-05-01T10:20:00Z")),
        ("2024-05-01T10:59:59Z", Some("2024-05-01T10:20:00Z")),
        ("2024-05-01T11:00:00Z", Some("2024-05-01T11:00:00Z")),
        ("2024-05-09T07:21:00Z", Some("2024-05-09T07:20:00Z")),
        ("2080-01-01T00:00:00Z", Some("2080-01-01T00:00:00Z")),
    ] {
        assert_eq!(schedule.newest(after, wall(until)), newest.map(wall), "{until}");
    }
}
