//! The segments of the log on disks that tear and rot. Refuses to know what the frames say.

use crate::disk::SimDisk;
use state::wal::{HEADER_BYTES, PAGE_BYTES, Wal};

fn frames(n: u64) -> Vec<Vec<u8>> {
    (0..n).map(|i| vec![i as u8; (i as usize * 1733) % 9000]).collect()
}

fn written(disk: &SimDisk, frames: &[Vec<u8>]) -> Wal {
    let mut segments = Wal::create(disk.media().log, 7, b"head").expect("is created");
    frames.iter().for_each(|frame| segments.append(frame).expect("has room"));
    segments
}

#[test]
fn what_was_acknowledged_is_found_in_its_order_and_goes_on() {
    let disk = SimDisk::new(1);
    written(&disk, &frames(20));
    let (mut segments, found) = Wal::open(disk.media().log).expect("opens");
    assert_eq!((found.before.len(), &found.current[..1]), (0, &[b"head".to_vec()][..]));
    assert_eq!(found.current[1..], frames(20));
    segments.begin(8, b"second").expect("has room");
    segments.append(b"a").expect("has room");
    segments.begin(9, b"third").expect("has room");
    segments.append(b"b").expect("has room");
    let (_, found) = Wal::open(disk.media().log).expect("opens");
    assert_eq!(found.before, [b"second".to_vec(), b"a".to_vec()], "the first one is gone");
    assert_eq!(found.current, [b"third".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_frame_that_a_power_cut_tears_is_the_end_of_the_log() {
    let (mut torn, mut whole) = (0, 0);
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let mut segments = written(&disk, &frames(5));
        disk.cut_power_after(2);
        segments.append(&[9; 20_000]).expect_err("the power fails while it syncs");
        disk.power_on();
        let (mut segments, found) = Wal::open(disk.media().log).expect("opens");
        assert_eq!(found.current[1..6], frames(5));
        match found.current.len() {
            6 => torn += 1,
            _ => whole += 1,
        }
        segments.append(b"next").expect("has room");
        let (_, again) = Wal::open(disk.media().log).expect("opens");
        assert_eq!(again.current.len(), found.current.len() + 1);
        assert_eq!(again.current.last().expect("is there"), b"next");
    }
    assert!(torn > 20 && whole > 5, "{torn} torn, {whole} whole");
}

#[test]
fn a_segment_that_was_not_begun_leaves_the_one_before() {
    for cut in 1..=6 {
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let mut segments = written(&disk, &frames(5));
            disk.cut_power_after(cut);
            let begun = segments.begin(8, b"second");
            disk.power_on();
            let (_, found) = Wal::open(disk.media().log).expect("opens");
            match found.current[0] == b"second" {
                true => assert_eq!(found.before[1..], frames(5)),
                false => assert!(begun.is_err() && found.current[1..] == frames(5)),
            }
        }
    }
}

#[test]
fn rot_of_an_acknowledged_frame_is_damage() {
    let disk = SimDisk::new(1);
    written(&disk, &frames(8));
    let images = disk.images();
    let damage = |at: usize| {
        let rotten = SimDisk::with_images(1, images.clone());
        rotten.rot_of(1, at, 1);
        Wal::open(rotten.media().log).err().map(|e| e.to_string())
    };
    let payload = |page: usize| page * PAGE_BYTES as usize + HEADER_BYTES;
    for (page, is_found) in [(0, false), (1, false), (3, true), (8, true)] {
        let said = damage(payload(page));
        assert_eq!(said.is_some_and(|e| e.contains("is not what was written")), is_found, "page {page}");
    }
    let both = SimDisk::with_images(1, images.clone());
    both.rot_of(1, payload(0), 1);
    both.rot_of(1, payload(1), 1);
    Wal::open(both.media().log).expect_err("no head is left");
}
