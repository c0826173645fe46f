//! Snapshots on simulated disks: the power fails at every operation of an installation, the disk is full, and what was installed stays.

use crate::disk::SimDisk;
use model::member::{Founding, ServerInfo};
use state::apply::Committed;
use state::check::consistent;
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::samples::*;
use state::snapshot::{SnapshotHeader, SnapshotRows};
use state::store::{NotInstalled, Options, Recovered, Store};
use state::view::View;
use wire::command::Command;
use wire::feature_level::FEATURE_LEVEL;
use wire::record;

const SMALL: Options = Options {
    feature_level: FEATURE_LEVEL,
    new_server_id: SERVER_ID,
    cache_bytes: 64 << 10,
    segment_bytes: 48 << 10,
    unsaved_rows: 50,
    unverified: false,
};
const SERVER_ID: u64 = 17;
const CHUNK_BYTES: usize = 8 << 10;
const TERM: u64 = 3;
const MEMBERS: [u8; 3] = [7, 8, 9];

fn command(n: u64) -> Command {
    let id = format!("job-{}", n % 40);
    register(spec(&id, (n % 5) as i64), Some(eval(n.into(), &id)))
}

/// A state of so many entries.
fn region(entries: u64) -> Region {
    let mut region = Region::default();
    (1..=entries).for_each(|n| drop(region.run(&command(n))));
    region
}

/// Appends entry `index` and applies it.
fn run(store: &mut Store, index: u64) -> Result<(), Fault> {
    let bytes = record::encode(&command(index));
    store.append(&LogBatch { entries: vec![(index, bytes.clone())], ..LogBatch::default() })?;
    store.apply(&[Committed { index, command: Some(&bytes), conf_state: None }])?;
    Ok(())
}

/// A follower that has applied so many, and was killed.
fn follower(entries: u64) -> Vec<Vec<u8>> {
    let disk = SimDisk::new(1);
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    (1..=entries).for_each(|n| run(&mut store, n).expect("nothing fails"));
    disk.detach();
    disk.images()
}

fn header(view: &View) -> SnapshotHeader {
    let members = MEMBERS.to_vec();
    SnapshotHeader {
        index: view.index(),
        term: TERM,
        members,
        applied_state: view.applied_state(),
        bytes: 1 << 20,
    }
}

fn receive(store: &mut Store, region: &Region) -> Result<(), NotInstalled> {
    store.receive_snapshot(header(&region.view()))?;
    let mut rows = SnapshotRows::new(region.view());
    loop {
        let chunk = rows.next_chunk(CHUNK_BYTES).expect("the source is sound");
        store.receive_chunk(&chunk.bytes)?;
        if chunk.last {
            return store.complete_snapshot();
        }
    }
}

fn install(store: &mut Store, region: &Region) -> Result<(), NotInstalled> {
    receive(store, region)?;
    let batch = LogBatch { hard_state: Some(vec![TERM as u8]), ..LogBatch::default() };
    let receipt = store.install_snapshot(&batch)?;
    assert_eq!(receipt.last_index(), region.store.applied());
    Ok(())
}

/// What an installed snapshot leaves.
fn wanted(region: &Region) -> Recovered {
    let index = region.store.applied();
    Recovered {
        server_id: SERVER_ID,
        entries: vec![],
        hard_state: Some(vec![TERM as u8]),
        conf_state: Some(MEMBERS.to_vec()),
        truncated: Some((index, TERM)),
        applied: index,
    }
}

fn must_be(store: &Store, region: &Region) {
    assert_eq!((store.applied(), store.digest()), (region.store.applied(), region.store.digest()));
    let view = store.reader().view().expect("reads");
    consistent(&view).expect("is consistent");
    assert_eq!(
        view.applied_state(),
        region.view().applied_state(),
        "the tables' indexes are the leader's, too"
    );
}

#[test]
fn a_snapshot_takes_the_place_of_state_and_log() {
    let (region, disk) = (region(100), SimDisk::with_images(1, follower(30)));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
    let (reader, old) = (store.reader(), store.reader().view().expect("reads"));
    let before = old.applied_state();
    install(&mut store, &region).expect("nothing fails");
    must_be(&store, &region);
    assert_eq!(reader.view().expect("reads").index(), 100, "readers are not bound to a slot");
    assert_eq!(old.jobs(None, "", None, 100).expect("reads").len(), 30, "an old view stays good");
    assert_eq!((old.index(), old.applied_state()), (30, before));
    drop((old, store));
    let (store, recovered) = Store::open(disk.media(), SMALL).expect("opens");
    assert_eq!(recovered, wanted(&region));
    must_be(&store, &region);
    assert_eq!(disk.images()[0].len(), 0, "the old slot's room is free");
}

/// For every operation, and for several ways in which the unsynced sectors come through.
#[test]
fn a_power_cut_at_any_operation_leaves_old_or_new() {
    let (old, new, images) = (region(30), region(80), follower(30));
    let (mut olds, mut news, mut cuts) = (0, 0, 0);
    for seed in 0..3 {
        for operation in 1.. {
            let disk = SimDisk::with_images(1000 * operation + seed, images.clone());
            let (mut store, before) = Store::open(disk.media(), SMALL).expect("opens");
            (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
            disk.cut_power_after(operation);
            let installed = install(&mut store, &new);
            let is_cut = disk.is_dead();
            assert!(installed.is_ok() || is_cut, "operation {operation}: {installed:?}");
            disk.detach();
            drop(store);
            disk.power_on();
            disk.heal();
            cuts += u64::from(is_cut);
            let (mut store, recovered) = Store::open(disk.media(), SMALL)
                .unwrap_or_else(|e| panic!("seed {seed}, operation {operation}: {e}"));
            if recovered.truncated == Some((80, TERM)) {
                assert_eq!(recovered, wanted(&new));
                must_be(&store, &new);
                news += 1;
            } else {
                assert!(is_cut, "what is done is done");
                assert_eq!(recovered.entries, before.entries, "operation {operation}");
                (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
                must_be(&store, &old);
                install(&mut store, &new).expect("nothing fails now");
                must_be(&store, &new);
                olds += 1;
            }
            run(&mut store, 81).expect("goes on");
            drop(store);
            let (_, recovered) = Store::open(disk.media(), SMALL).expect("opens");
            assert_eq!((recovered.applied.max(80), recovered.entries.len()), (recovered.applied, 1));
            if !is_cut {
                break;
            }
        }
    }
    println!("{cuts} power cuts: {olds} left the old state, {news} the new one");
    assert!(cuts > 100 && olds > 100 && news > 3);
}

/// From the log, as after any crash.
fn reapply(store: &mut Store, index: u64) {
    let bytes = record::encode(&command(index));
    let entry = Committed { index, command: Some(&bytes), conf_state: None };
    store.apply(&[entry]).expect("applies");
}

/// The frame that says which slot counts is gone with its segment in the end; each segment's first frame says it again.
#[test]
fn segments_that_come_and_go_remember_the_slot() {
    let (region, disk) = (region(60), SimDisk::with_images(1, follower(10)));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    install(&mut store, &region).expect("nothing fails");
    let mut twin = region;
    for index in 61..400 {
        run(&mut store, index).expect("nothing fails");
        twin.run(&command(index));
        if index % 10 == 0 {
            let compact_to = Some((store.applied() - 5, TERM));
            store.append(&LogBatch { compact_to, ..LogBatch::default() }).expect("nothing fails");
        }
        // not before both segments have been begun anew
        if index > 250 && index % 37 == 0 {
            disk.detach();
            drop(store);
            let (opened, recovered) = Store::open(disk.media(), SMALL).expect("opens");
            store = opened;
            let first = store.applied() + 1;
            (first..=index).for_each(|n| reapply(&mut store, n));
            assert_eq!(recovered.last_index(), index);
            must_be(&store, &twin);
            assert_eq!(disk.images()[0].len(), 0);
        }
    }
}

/// Entries that the leader never had: they are gone with the installation, also those behind it.
#[test]
fn entries_behind_a_snapshot_do_not_outlive_it() {
    let (region, disk) = (region(60), SimDisk::with_images(1, follower(30)));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
    let entries = (31..=90).map(|index| (index, vec![9])).collect();
    store.append(&LogBatch { entries, ..LogBatch::default() }).expect("appends");
    install(&mut store, &region).expect("nothing fails");
    disk.detach();
    drop(store);
    let (mut store, recovered) = Store::open(disk.media(), SMALL).expect("opens");
    assert_eq!(recovered, wanted(&region));
    run(&mut store, 61).expect("goes on");
}

#[test]
fn a_second_snapshot_goes_into_the_first_slot() {
    let disk = SimDisk::with_images(1, follower(10));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    let old = store.reader().view().expect("reads");
    install(&mut store, &region(60)).expect("nothing fails");
    let busy = install(&mut store, &region(80));
    assert_eq!(busy, Err(NotInstalled::Busy), "the first slot is still being read");
    drop(old);
    let second = region(80);
    install(&mut store, &second).expect("nothing fails");
    must_be(&store, &second);
    drop(store);
    let (store, recovered) = Store::open(disk.media(), SMALL).expect("opens");
    assert_eq!(recovered, wanted(&second));
    must_be(&store, &second);
    assert_eq!(disk.images()[3].len(), 0);
}

#[test]
fn no_room_stops_a_snapshot_and_not_the_store() {
    let (new, old, images) = (region(100), region(31), follower(30));
    let mut full = 0;
    for room in (0..40).map(|n| n * (16 << 10)) {
        let disk = SimDisk::with_images(room, images.clone());
        let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
        (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
        store.append(&LogBatch { hard_state: Some(vec![1]), ..LogBatch::default() }).expect("appends");
        disk.set_room(Some(room));
        let refused = store.receive_snapshot(header(&new.view()));
        assert!(matches!(refused, Err(NotInstalled::NoRoom { .. })), "{refused:?}");
        disk.set_room(None);
        // there was room when it began
        store.receive_snapshot(header(&new.view())).expect("has room");
        disk.set_room(Some(room));
        let mut rows = SnapshotRows::new(new.view());
        let mut taken = Ok(());
        while taken.is_ok() {
            let chunk = rows.next_chunk(CHUNK_BYTES).expect("the source is sound");
            taken = store.receive_chunk(&chunk.bytes);
            if chunk.last && taken.is_ok() {
                taken = store.complete_snapshot();
                break;
            }
        }
        if let Err(why) = taken {
            assert!(matches!(why, NotInstalled::Fault(Fault::Full(_))), "{why:?}");
            assert_eq!(disk.images()[3].len(), 0, "its room is free again");
            full += 1;
        } else {
            store.abandon_snapshot();
        }
        disk.set_room(None);
        run(&mut store, 31).expect("the state is as it was");
        must_be(&store, &old);
    }
    assert!(full > 5, "{full} times full");
}

#[test]
fn a_failing_disk_under_the_other_slot_touches_no_state() {
    let (new, old, images) = (region(100), region(31), follower(30));
    let mut failed = 0;
    for chunk in 0..6 {
        for forgets in [false, true] {
            let disk = SimDisk::with_images(chunk, images.clone());
            let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
            (store.applied() + 1..=30).for_each(|n| reapply(&mut store, n));
            store.receive_snapshot(header(&new.view())).expect("has room");
            let mut rows = SnapshotRows::new(new.view());
            for _ in 0..chunk {
                store.receive_chunk(&rows.next_chunk(CHUNK_BYTES).expect("sound").bytes).expect("has room");
            }
            match forgets {
                true => disk.forget_at_sync(1),
                false => disk.fail_next(),
            }
            let mut taken = Ok(());
            while taken.is_ok() {
                let next = rows.next_chunk(CHUNK_BYTES).expect("the source is sound");
                taken = store.receive_chunk(&next.bytes);
                if next.last && taken.is_ok() {
                    taken = store.complete_snapshot();
                    break;
                }
            }
            failed += u64::from(matches!(taken, Err(NotInstalled::Fault(_))));
            store.abandon_snapshot();
            disk.heal();
            run(&mut store, 31).expect("the state is as it was");
            must_be(&store, &old);
            install(&mut store, &new).expect("another one is taken");
            must_be(&store, &new);
        }
    }
    assert!(failed > 8, "{failed} times failed");
}

#[test]
fn a_slot_that_is_not_what_the_log_says_is_damage() {
    let (region, disk) = (region(60), SimDisk::with_images(1, follower(10)));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    install(&mut store, &region).expect("nothing fails");
    drop(store);
    let installed = disk.images();
    let with = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut images = installed.clone();
        change(&mut images);
        let disk = SimDisk::with_images(1, images);
        let open = || Store::open(disk.media(), SMALL).map(drop).map_err(|e| e.to_string());
        let opened = open();
        assert_eq!(open(), opened, "it is refused every time");
        opened
    };
    assert_eq!(with(&|_| {}), Ok(()));
    let said = with(&|images| images[3].clear()).expect_err("the state is gone");
    assert!(said.contains("state.1 is empty"), "{said}");
    let older = follower(10);
    let said = with(&|images| images[3].clone_from(&older[0])).expect_err("that is another state");
    assert!(said.contains("state.1 does not hold the snapshot"), "{said}");
    let said = with(&|images| images[1].fill(0)).expect_err("nobody knows which slot counts");
    assert!(said.contains("the log is damaged"), "{said}");
}

#[test]
fn a_snapshot_that_is_not_whole_is_not_installed() {
    let (region, disk) = (region(60), SimDisk::with_images(1, follower(10)));
    let (mut store, _) = Store::open(disk.media(), SMALL).expect("opens");
    assert!(store.install_snapshot(&LogBatch::default()).is_err(), "nothing came");
    store.receive_snapshot(header(&region.view())).expect("has room");
    let chunk = SnapshotRows::new(region.view()).next_chunk(CHUNK_BYTES).expect("sound");
    store.receive_chunk(&chunk.bytes).expect("has room");
    assert!(matches!(store.complete_snapshot(), Err(NotInstalled::Malformed(_))), "the rest is missing");
    assert!(store.install_snapshot(&LogBatch::default()).is_err());
    assert!(store.receive_chunk(&chunk.bytes).is_err(), "nothing is on its way any more");
    assert_eq!(store.applied() + disk.images()[3].len() as u64, store.applied(), "nothing is left of it");
}

#[test]
fn the_snapshot_of_a_newer_build_changes_nothing() {
    let newer = Options { feature_level: FEATURE_LEVEL + 1, ..Options::default() };
    let (mut store, _) = Store::open(in_memory(), newer).expect("opens");
    let (id, info) = (SERVER_ID, ServerInfo { feature_level: FEATURE_LEVEL + 1, ..server_info("newer") });
    let founding = Founding { servers: vec![(id, info)], ..founding(&[]) };
    store.found(&founding, &MEMBERS).expect("an empty store begins a region");
    let region = Region { store };
    let disk = SimDisk::with_images(1, follower(0));
    let (mut older, _) = Store::open(disk.media(), SMALL).expect("opens");
    let refused = receive(&mut older, &region);
    assert!(matches!(refused, Err(NotInstalled::Fault(Fault::Newer(_)))), "{refused:?}");
    assert_eq!(older.applied(), 0);
    disk.detach();
    let disk = SimDisk::with_images(1, disk.images());
    let (mut able, _) =
        Store::open(disk.media(), Options { feature_level: FEATURE_LEVEL + 1, ..SMALL }).expect("opens");
    receive(&mut able, &region).expect("its build knows as much");
}
