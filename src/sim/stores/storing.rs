//! The store's own rules: what it refuses, what it recovers, who may read, and what a change costs the disk.

use crate::disk::SimDisk;
use redb::TableDefinition;
use state::apply::Committed;
use state::check::consistent;
use state::checksummed;
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::samples::*;
use state::store::{OpenError, Options, Recovered, Store};
use wire::command::Command;
use wire::record;

#[test]
fn what_cannot_follow_is_refused_and_changes_nothing() {
    let mut region = Region::default();
    let node = region.ready_node(1);
    region.run(&register(spec("a", 1), Some(eval(1, "a"))));
    let places = place(vec![alloc(1, &region.job("a"), node, eval_id(1))]);
    region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: places,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    for command in [&[1, 200, 3][..], &[]] {
        let bad = Committed { index: region.store.applied() + 1, command: Some(command), conf_state: None };
        assert!(matches!(region.store.apply(&[bad]), Err(Fault::Corrupt(_))), "{command:?}");
    }
    let gap = Committed { index: region.store.applied() + 2, command: None, conf_state: None };
    assert!(matches!(region.store.apply(&[gap]), Err(Fault::Corrupt(_))));
    consistent(&region.view()).expect("nothing changed");
    let gap = LogBatch { entries: vec![(99, vec![])], ..LogBatch::default() };
    let ahead = LogBatch { compact_to: Some((99, 1)), ..LogBatch::default() };
    let back = LogBatch { truncate_from: Some(1), ..LogBatch::default() };
    for batch in [gap, ahead, back] {
        assert!(matches!(region.store.append(&batch), Err(Fault::Corrupt(_))), "{batch:?}");
    }
}

#[test]
fn a_reader_outlives_no_store_and_a_view_sees_one_index() {
    let mut region = Region::default();
    let reader = region.store.reader();
    region.run(&register(spec("a", 1), None));
    let before = region.view();
    region.run(&register(spec("b", 1), None));
    assert_eq!((before.index(), region.view().index()), (1, 2));
    assert_eq!(before.jobs(None, "", None, 10).expect("reads").len(), 1);
    drop(before);
    drop(region);
    assert!(matches!(reader.view(), Err(Fault::Storage(_))));
}

#[test]
fn a_region_is_founded_and_members_go_with_the_applied_index() {
    let disk = SimDisk::new(1);
    let open = || Store::open(disk.media(), Options::default()).expect("opens");
    let (mut store, empty) = open();
    assert!(empty.is_empty(), "{empty:?}");
    assert_eq!(store.found(&founding(&[1]), &[7]).expect("founds").last_index(), 1);
    assert!(store.found(&founding(&[1]), &[7]).is_err(), "once");
    drop(store);

    let (mut store, founded) = open();
    let wanted = Recovered { conf_state: Some(vec![7]), truncated: Some((1, 1)), applied: 1, ..empty };
    assert_eq!(founded, wanted);
    assert_eq!((store.applied(), store.reader().view().expect("reads").index()), (1, 1));
    let entries = vec![(2, vec![1]), (3, vec![2])];
    store.append(&LogBatch { entries: entries.clone(), ..LogBatch::default() }).expect("appends");
    let changes = Committed { index: 2, command: None, conf_state: Some(&[8, 8]) };
    store.apply(&[changes, Committed { index: 3, command: None, conf_state: None }]).expect("applies");
    drop(store);
    let (_, recovered) = open();
    let conf_state = Some(if recovered.applied == 3 { vec![8, 8] } else { vec![7] });
    assert_eq!(recovered, Recovered { entries, conf_state, applied: recovered.applied, ..wanted });
}

/// However often its log begins a new segment; and another disk is another server.
#[test]
fn a_store_keeps_its_servers_id() {
    let disk = SimDisk::new(1);
    let options = |new_server_id| Options {
        new_server_id,
        segment_bytes: 8192,
        unsaved_rows: 50,
        ..Options::default()
    };
    let (mut store, new) = Store::open(disk.media(), options(17)).expect("opens");
    assert_eq!(new.server_id, 17);
    for index in 1..=60 {
        let compact_to = (index > 1).then(|| (index - 1, 1));
        let entries = vec![(index, vec![1; 500])];
        store.append(&LogBatch { entries, compact_to, ..LogBatch::default() }).expect("appends");
        store.apply(&[Committed { index, command: None, conf_state: None }]).expect("applies");
    }
    drop(store);
    let (_, found) = Store::open(disk.media(), options(18)).expect("opens");
    assert_eq!(found.server_id, 17);
    let (_, other) = Store::open(SimDisk::new(2).media(), options(18)).expect("opens");
    assert_eq!(other.server_id, 18);
}

#[test]
fn a_log_can_be_replaced_from_where_it_is_not_applied() {
    let disk = SimDisk::new(1);
    let mut store = Store::open(disk.media(), Options::default()).expect("opens").0;
    let batch = |entries: &[(u64, u8)]| LogBatch {
        entries: entries.iter().map(|(i, b)| (*i, vec![*b])).collect(),
        ..LogBatch::default()
    };
    store.append(&batch(&[(1, 1), (2, 1), (3, 1)])).expect("appends");
    store.append(&batch(&[(2, 2)])).expect("replaces 2 and 3");
    assert!(store.append(&batch(&[(4, 1)])).is_err(), "a gap");
    store.append(&LogBatch { truncate_from: Some(2), ..LogBatch::default() }).expect("truncates");
    let states = LogBatch { hard_state: Some(vec![9]), conf_state: Some(vec![7]), ..LogBatch::default() };
    store.append(&LogBatch { entries: batch(&[(2, 3), (3, 3)]).entries, ..states }).expect("appends");
    store.apply(&[Committed { index: 1, command: None, conf_state: None }]).expect("applies");
    store.append(&LogBatch { compact_to: Some((1, 5)), ..LogBatch::default() }).expect("compacts");
    drop(store);
    let (_, recovered) = Store::open(disk.media(), Options::default()).expect("opens");
    let wanted = Recovered {
        server_id: 1,
        entries: vec![(2, vec![3]), (3, vec![3])],
        hard_state: Some(vec![9]),
        conf_state: Some(vec![7]),
        truncated: Some((1, 5)),
        applied: 1,
    };
    assert_eq!(recovered, wanted);
}

#[test]
fn another_format_is_refused_with_a_sentence() {
    let disk = SimDisk::new(1);
    drop(Store::open(disk.media(), Options::default()).expect("opens"));
    let database = checksummed::open(disk.backend(), 4096).expect("opens");
    let transaction = database.begin_write().expect("begins");
    let book = transaction.open_table(TableDefinition::<&[u8], &[u8]>::new("book"));
    book.expect("opens").insert(b"format".as_slice(), 2_u32.to_be_bytes().as_slice()).expect("writes");
    transaction.commit().expect("commits");
    drop(database);
    let refused = Store::open(disk.media(), Options::default()).expect_err("is refused");
    assert_eq!(refused, OpenError::Format { found: 2, known: 1 });
    assert!(refused.to_string().contains("newer"), "{refused}");
}

#[test]
fn another_table_layout_is_not_an_empty_store() {
    let disk = SimDisk::new(1);
    let database = checksummed::open(disk.backend(), 4096).expect("opens");
    let transaction = database.begin_write().expect("begins");
    drop(transaction.open_table(TableDefinition::<u64, &[u8]>::new("theirs")).expect("opens"));
    transaction.commit().expect("commits");
    drop(database);
    let refused = Store::open(disk.media(), Options::default()).expect_err("is refused");
    assert!(matches!(refused, OpenError::Fault(_)), "{refused}");
}

/// Bytes and syncs that a disk sees for one registered job, at two sizes of a turn. A page is 4 KiB; a turn that changes
/// nothing but the log is one of them. The limits may only shrink.
#[test]
fn wear_is_a_budget() {
    for (batch, limit) in [(1, 17_000), (64, 8_400)] {
        let disk = SimDisk::new(1);
        let mut store = Store::open(disk.media(), Options::default()).expect("opens").0;
        let round = |store: &mut Store, jobs: u64| {
            let before = disk.counts();
            let mut payload = 0;
            for turn in 0..jobs / batch {
                let first = store.applied() + 1;
                let one = |i: u64| {
                    let job = format!("job-{:x}", (first + i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    record::encode(&register(spec(&job, 1), Some(eval(u128::from(first + i) << 64, &job))))
                };
                let entries: Vec<_> = (0..batch).map(|i| (first + i, one(i))).collect();
                payload += entries.iter().map(|(_, e)| e.len()).sum::<usize>();
                let compact_to = (turn % 16 == 0 && first > 1).then(|| (first - 1, 1));
                let hard_state = Some(first.to_le_bytes().to_vec());
                let log = LogBatch { entries, hard_state, compact_to, ..LogBatch::default() };
                store.append(&log).expect("appends");
                let committed: Vec<_> = log
                    .entries
                    .iter()
                    .map(|(index, c)| Committed { index: *index, command: Some(c), conf_state: None })
                    .collect();
                store.apply(&committed).expect("applies");
            }
            let after = disk.counts();
            let bytes = (after.bytes_written - before.bytes_written) / jobs;
            let syncs = after.syncs - before.syncs;
            let payload = payload as u64 / jobs;
            println!("{batch} a turn: {bytes} bytes a job of {payload}, {syncs} syncs for {jobs} jobs");
            bytes
        };
        round(&mut store, 1024);
        let bytes = round(&mut store, 1024);
        assert!(bytes < limit, "{bytes} bytes for each job, {batch} a turn: the budget is {limit}");
    }
}
