//! A bit that rots anywhere under a store: found, or of no consequence. No acknowledged change is ever taken back.

use crate::disk::{Operation, SimDisk};
use model::random::Stream;
use state::apply::Committed;
use state::check::{consistent, rows};
use state::client_store::{ClientStore, ClientStoreOpenError, WriteBatch};
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::samples::*;
use state::store::{OpenError, Options, Store};
use wire::feature_level::FEATURE_LEVEL;
use wire::record;

const SMALL: Options = Options {
    feature_level: FEATURE_LEVEL,
    new_server_id: SERVER_ID,
    cache_bytes: 4096,
    segment_bytes: 64 << 10,
    unsaved_rows: 50,
    unverified: false,
};
const SERVER_ID: u64 = 17;
/// With its seal.
const HEADER_BYTES: usize = 328;

/// Jobs, each in a turn of its own, and then the process is killed. Gives the images before the last turn.
fn killed(disk: &SimDisk, jobs: u64) -> Vec<Vec<u8>> {
    let mut store = Store::open(disk.media(), SMALL).expect("opens").0;
    let mut before = Vec::new();
    for index in 1..=jobs {
        before = disk.images();
        let id = format!("job-{index}");
        let command = record::encode(&register(spec(&id, 1), Some(eval(index.into(), &id))));
        let log = LogBatch { entries: vec![(index, command.clone())], ..LogBatch::default() };
        store.append(&log).expect("appends");
        store.apply(&[Committed { index, command: Some(&command), conf_state: None }]).expect("applies");
    }
    disk.detach();
    before
}

fn is_corrupt<T>(opened: &Result<T, OpenError>) -> bool {
    matches!(opened, Err(OpenError::Fault(Fault::Corrupt(_))))
}

#[test]
fn an_acknowledged_commit_is_never_taken_back() {
    const JOBS: u64 = 30;
    let disk = SimDisk::new(1);
    let before = killed(&disk, JOBS);
    let images = disk.images();
    let mut places: Vec<(usize, usize)> = (0..HEADER_BYTES).map(|at| (0, at)).collect();
    for (file, image) in images.iter().enumerate() {
        let changed = (0..image.len()).filter(|at| before[file].get(*at) != image.get(*at));
        places.extend(changed.step_by(7).map(|at| (file, at)));
    }
    let (mut refused, mut borne) = (0, 0);
    for (file, at) in &places {
        let rotten = SimDisk::with_images(1, images.clone());
        rotten.rot_of(*file, *at, 1 << (at % 8));
        let opened = Store::open(rotten.media(), SMALL);
        match opened {
            Ok((_, recovered)) => {
                borne += 1;
                let entries = recovered.entries.len() as u64;
                assert_eq!(entries, JOBS, "bit {} of byte {at} of file {file}", at % 8);
            }
            Err(_) => {
                refused += 1;
                assert!(is_corrupt(&opened), "byte {at} of file {file}: {opened:?}");
            }
        }
    }
    println!("{} places: {refused} refused, {borne} of no consequence", places.len());
    assert!(refused > 300 && borne > 50);
}

/// Two or three at once hide each other from redb: the mark of what is acknowledged, the number of a commit, its checksum.
#[test]
fn no_bits_of_the_header_rot_unseen() {
    let mut draws = Stream::new(97, 0);
    for _ in 0..500 {
        let rotten = SimDisk::with_images(1, killed_images().to_vec());
        let first = draws.below(HEADER_BYTES as u64) as usize;
        rotten.rot_at(first, 1 << draws.below(8));
        for _ in 0..draws.below(3) {
            let other = (first + 1 + draws.below(HEADER_BYTES as u64 - 1) as usize) % HEADER_BYTES;
            rotten.rot_at(other, 1 << draws.below(8));
        }
        assert!(is_corrupt(&Store::open(rotten.media(), SMALL)));
    }
}

#[test]
fn what_rots_under_a_living_store_is_no_answer() {
    let sleeping = SimDisk::with_images(1, killed_images().to_vec());
    let (mut store, recovered) = Store::open(sleeping.media(), SMALL).expect("opens");
    for (index, command) in &recovered.entries[recovered.applied as usize..] {
        store
            .apply(&[Committed { index: *index, command: Some(command), conf_state: None }])
            .expect("applies");
    }
    drop(store);
    let (mut found, mut harmless) = (0, 0);
    for at in (0..sleeping.image().len()).step_by(1 << 10) {
        let disk = SimDisk::with_images(1, sleeping.images());
        let (store, _) = Store::open(disk.media(), SMALL).expect("opens");
        let view = store.reader().view().expect("reads");
        let sound = rows(&view).expect("reads");
        drop(view);
        (at..at + 1024).step_by(16).for_each(|at| disk.rot_at(at, 0x10));
        match store.reader().view().map_err(|e| e.to_string()).and_then(|v| rows(&v)) {
            Ok(all) => {
                harmless += 1;
                assert!(all == sound, "bytes from {at}");
            }
            Err(why) => {
                found += 1;
                assert!(why.contains("is damaged"), "{why}");
            }
        }
    }
    println!("{found} times found, {harmless} times not read");
    assert!(found > 20 && harmless > 20);
}

fn killed_images() -> &'static [Vec<u8>] {
    static IMAGES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    IMAGES.get_or_init(|| {
        let disk = SimDisk::new(1);
        killed(&disk, 60);
        disk.images()
    })
}

#[test]
fn a_sound_store_opens_after_a_refusal_as_it_was() {
    let disk = SimDisk::with_images(1, killed_images().to_vec());
    let end = killed_images()[0].len();
    (0..end).step_by(512).for_each(|at| disk.rot_at(at + 100, 1));
    for _ in 0..3 {
        assert!(is_corrupt(&Store::open(disk.media(), SMALL)));
    }
    disk.mend();
    let (store, recovered) = Store::open(disk.media(), SMALL).expect("is sound again");
    assert_eq!(recovered.entries.len(), 60);
    consistent(&store.reader().view().expect("reads")).expect("nothing is missing");
}

#[test]
fn an_opening_that_fails_changes_nothing() {
    for operation in [Operation::Read, Operation::Write, Operation::Sync] {
        let disk = SimDisk::with_images(1, killed_images().to_vec());
        disk.fail_next_of(operation);
        let opened = Store::open(disk.media(), SMALL).map(drop);
        assert!(matches!(opened, Err(OpenError::Fault(Fault::Storage(_)))), "{operation:?}: {opened:?}");
        assert!(disk.image() == killed_images()[0], "{operation:?}");
        Store::open(disk.media(), SMALL).expect("opens when nothing fails");
    }
}

#[test]
fn a_clients_rotten_store_is_refused_with_a_sentence() {
    let disk = SimDisk::new(1);
    let (mut store, _) = ClientStore::open(disk.media().log).expect("opens");
    let mut writes = WriteBatch::default();
    writes.set_ended(alloc_id(1), true);
    writes.require_durable();
    store.commit(writes).expect("commits");
    disk.detach();
    disk.rot(10_000);
    match ClientStore::open(disk.media().log).map(drop) {
        Err(e @ ClientStoreOpenError::Damaged(_)) => assert!(e.to_string().contains("restore it"), "{e}"),
        other => panic!("{other:?}"),
    }
    disk.mend();
    let (store, _) = ClientStore::open(disk.media().log).expect("is sound again");
    assert!(store.ended().contains(&alloc_id(1)));
}
