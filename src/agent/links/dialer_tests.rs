//! Tests of whom a server dials, and when.

use super::*;
use model::member::{ServerInfo, Suffrage};

const NOW: Mono = Mono(1);
/// Seconds between attempts that fail, without what chance adds.
const LEAST: [i64; 6] = [1, 2, 4, 8, 15, 15];

fn join(retry: &[&str], once: &[&str], retry_max: u32) -> ServerJoin {
    let mut join = ServerJoin { retry_max, retry_interval: Span::seconds(30), ..ServerJoin::default() };
    retry.iter().for_each(|at| join.add_retry_join(at).expect("an address"));
    once.iter().for_each(|at| join.add_start_join(at).expect("an address"));
    join
}

fn dialer(retry: &[&str], once: &[&str], retry_max: u32) -> Dialer {
    Dialer::new(7, &join(retry, once, retry_max), 1, NOW)
}

fn names(attempts: &[DialAttempt]) -> Vec<String> {
    attempts.iter().map(|attempt| attempt.target.to_string()).collect()
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn outcome(target: &str, found: Result<Peer, LinkEnd>) -> DialOutcome {
    let at = address(target);
    let target = JoinAddress::parse(target).expect("an address");
    DialOutcome { target, unresolved: None, found: vec![(at, found)] }
}

fn refused(refusal: LinkRefusal) -> Result<Peer, LinkEnd> {
    Err(LinkEnd::ClosedByPeer(Some(refusal)))
}

fn member(id: u64, rpc_addr: &str) -> ServerMember {
    let info = ServerInfo { rpc_addr: rpc_addr.into(), ..ServerInfo::default() };
    ServerMember { id, info, suffrage: Suffrage::Voter, create_index: 1, modify_index: 1 }
}

#[test]
fn named_addresses_are_dialed_at_once_and_one_attempt_each() {
    let mut dialer = dialer(&["10.0.0.2"], &["10.0.0.1"], 0);
    let table = LinkTable::new(7);
    assert_eq!(names(&dialer.due(&table, NOW)), ["10.0.0.1:4647", "10.0.0.2:4647"]);
    assert!(dialer.due(&table, NOW.after(Span::hours(1))).is_empty(), "both are under way");
    for at in ["10.0.0.1:4647", "10.0.0.2:4647"] {
        assert!(dialer.done(&outcome(at, Err(LinkEnd::TimedOut)), NOW).is_some());
    }
    assert!(dialer.due(&table, NOW.after(Span::seconds(29))).is_empty());
    let later = NOW.after(Span::seconds(38));
    assert_eq!(names(&dialer.due(&table, later)), ["10.0.0.2:4647"], "start_join is tried once");
}

#[test]
fn who_is_linked_is_not_dialed_until_the_link_is_lost() {
    let mut dialer = dialer(&["10.0.0.2"], &[], 0);
    let mut table = LinkTable::new(7);
    assert_eq!(dialer.due(&table, NOW).len(), 1);
    table.up(2, 1, [0; 32]);
    assert_eq!(dialer.done(&outcome("10.0.0.2:4647", Ok(Peer::Server(2))), NOW), None);
    let later = NOW.after(Span::hours(1));
    assert!(dialer.due(&table, later).is_empty());
    assert_eq!(dialer.next_deadline(&table), None);
    table.down(2, 1);
    assert_eq!(dialer.lost(2, Span::hours(1), &LinkEnd::Reset, later), Some(LinkEnd::Reset.to_string()));
    let again = dialer.next_deadline(&table).expect("it is dialed again");
    assert!(again.since(later) < Span::seconds(2), "soon, whatever the interval is");
    let attempts = dialer.due(&table, again);
    assert!(attempts[0].leave_out.is_empty(), "{attempts:?}");
}

#[test]
fn the_servers_of_a_name_that_are_linked_are_left_out() {
    let mut dialer = dialer(&["servers"], &[], 0);
    let mut table = LinkTable::new(7);
    let (a, b) = (address("10.0.0.2:4647"), address("10.0.0.3:4647"));
    let target = dialer.due(&table, NOW)[0].target.clone();
    table.up(2, 1, [0; 32]);
    let found = vec![(a, Ok(Peer::Server(2))), (b, Err(LinkEnd::TimedOut))];
    assert!(dialer.done(&DialOutcome { target, unresolved: None, found }, NOW).is_some());
    let again = dialer.due(&table, NOW.after(Span::minutes(1)));
    assert_eq!(again[0].leave_out, [a].into());
}

#[test]
fn links_that_end_at_once_are_made_less_and_less_often() {
    let mut dialer = dialer(&["10.0.0.2"], &[], 0);
    let (table, mut now) = (LinkTable::new(7), NOW);
    let same_id = LinkEnd::ClosedByPeer(Some(LinkRefusal::SameId));
    let (mut waits, mut told) = (vec![], vec![]);
    for _ in 0..6 {
        assert_eq!(dialer.due(&table, now).len(), 1);
        dialer.done(&outcome("10.0.0.2:4647", Ok(Peer::Server(2))), now);
        told.push(dialer.lost(2, Span::millis(5), &same_id, now).is_some());
        let next = dialer.next_deadline(&table).expect("it is dialed again");
        waits.push(next.since(now).0 / Span::seconds(1).0);
        now = next;
    }
    assert!(
        waits.iter().zip(LEAST).all(|(wait, least)| (least..=least + least / 4).contains(wait)),
        "{waits:?}"
    );
    assert_eq!(told, [false, false, false, true, false, false], "once it does not pass");
}

#[test]
fn an_agents_own_address_is_never_dialed_again() {
    let mut dialer = dialer(&["10.0.0.7"], &[], 0);
    let table = LinkTable::new(7);
    assert_eq!(dialer.due(&table, NOW).len(), 1);
    let told = dialer.done(&outcome("10.0.0.7:4647", refused(LinkRefusal::SameProcess)), NOW);
    assert_eq!(told, None, "that is no failure");
    let again = dialer.due(&table, NOW.after(Span::hours(1)));
    assert_eq!(again[0].leave_out, [address("10.0.0.7:4647")].into());
}

#[test]
fn servers_of_the_region_are_dialed_more_often_at_first() {
    let mut dialer = dialer(&[], &[], 0);
    let mut table = LinkTable::new(7);
    dialer.learn(&[member(7, "10.0.0.7:4647"), member(2, "10.0.0.2:4647"), member(3, "")], NOW);
    let (mut now, mut waits) = (NOW, vec![]);
    for _ in 0..6 {
        assert_eq!(names(&dialer.due(&table, now)), ["10.0.0.2:4647"]);
        dialer.done(&outcome("10.0.0.2:4647", Err(LinkEnd::TimedOut)), now);
        let next = dialer.next_deadline(&table).expect("it is tried again");
        waits.push(next.since(now).0 / Span::seconds(1).0);
        now = next;
    }
    assert!(
        waits.iter().zip(LEAST).all(|(wait, least)| (least..=least + least / 4).contains(wait)),
        "{waits:?}"
    );
    table.up(2, 1, [0; 32]);
    assert!(dialer.due(&table, now).is_empty(), "it has dialed itself meanwhile");
    table.down(2, 1);
    dialer.learn(&[member(2, "10.0.0.9:4647")], now);
    assert_eq!(names(&dialer.due(&table, now)), ["10.0.0.9:4647"], "it has moved");
}

#[test]
fn a_refusal_that_passes_is_tried_again_soon() {
    for refusal in [LinkRefusal::SameId, LinkRefusal::Busy, LinkRefusal::Stopping] {
        let mut dialer = dialer(&[], &["10.0.0.2"], 0);
        let table = LinkTable::new(7);
        assert_eq!(dialer.due(&table, NOW).len(), 1);
        let told = dialer.done(&outcome("10.0.0.2:4647", refused(refusal)), NOW);
        assert_eq!(told, None, "{refusal:?} passes");
        assert_eq!(dialer.due(&table, NOW.after(Span::seconds(2))).len(), 1, "{refusal:?}");
    }
}

#[test]
fn a_reason_is_told_once_until_it_changes() {
    let mut dialer = dialer(&["10.0.0.2"], &[], 0);
    let mut told = |found| dialer.done(&outcome("10.0.0.2:4647", found), NOW);
    assert!(told(refused(LinkRefusal::OtherKey)).is_some_and(|why| why.contains("server.encrypt")));
    assert_eq!(told(refused(LinkRefusal::OtherKey)), None);
    assert!(told(Err(LinkEnd::TimedOut)).is_some());
    assert_eq!(told(Ok(Peer::Server(2))), None);
    assert_eq!(told(Err(LinkEnd::TimedOut)), None, "the log has it");
}

#[test]
fn as_many_attempts_as_allowed_without_success_are_enough() {
    let mut given_up = dialer(&["10.0.0.2", "10.0.0.3"], &[], 2);
    let mut patient = dialer(&["10.0.0.2"], &[], 0);
    for _ in 0..2 {
        for at in ["10.0.0.2:4647", "10.0.0.3:4647"] {
            assert_eq!(given_up.gives_up(), None, "{at}");
            given_up.done(&outcome(at, Err(LinkEnd::TimedOut)), NOW);
            patient.done(&outcome(at, Err(LinkEnd::TimedOut)), NOW);
        }
    }
    let why = given_up.gives_up().expect("it has tried twice");
    assert!(why.contains("10.0.0.3:4647") && why.contains("retry_join"), "{why}");
    assert_eq!(patient.gives_up(), None);
    assert_eq!(dialer(&[], &["10.0.0.2"], 1).gives_up(), None, "nothing is to be tried again");
}

#[test]
fn whoever_reaches_nobody_says_so_now_and_then() {
    let mut dialer = dialer(&["10.0.0.2"], &[], 0);
    let mut table = LinkTable::new(7);
    assert_eq!(dialer.complaint(&table, NOW.after(Span::seconds(14))), None);
    let at = NOW.after(Span::seconds(15));
    assert!(dialer.complaint(&table, at).is_some_and(|why| why.contains("10.0.0.2:4647")));
    assert_eq!(dialer.complaint(&table, at.after(Span::minutes(4))), None);
    assert!(dialer.complaint(&table, at.after(Span::minutes(5))).is_some());
    table.up(2, 1, [0; 32]);
    assert_eq!(dialer.complaint(&table, at.after(Span::hours(1))), None);
    table.down(2, 1);
    assert_eq!(dialer.complaint(&table, at.after(Span::hours(1))), None, "it has only just lost it");
}

#[test]
fn attempts_under_way_are_bounded() {
    let many: Vec<String> = (0..20).map(|n| format!("10.0.0.{}", n + 10)).collect();
    let mut dialer = dialer(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[], 0);
    let table = LinkTable::new(7);
    let first = dialer.due(&table, NOW);
    assert_eq!(first.len(), MAX_ATTEMPTS);
    dialer.done(&outcome(&first[0].target.to_string(), Err(LinkEnd::TimedOut)), NOW);
    assert_eq!(dialer.due(&table, NOW).len(), 1);
}
