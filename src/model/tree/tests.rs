//! Against the standard library's maps, item by item.

use super::{BTreeMap, BTreeSet, Entry};
use crate::random::Stream;
use std::collections;

type Ours = BTreeMap<u32, String>;
type Theirs = collections::BTreeMap<u32, String>;

/// That both hold the same, from either end, and that the leaves are what they promise.
fn assert_same(ours: &Ours, theirs: &Theirs) {
    assert!(ours.iter().eq(theirs), "{ours:?} {theirs:?}");
    assert!(ours.iter().rev().eq(theirs.iter().rev()), "backwards: {ours:?} {theirs:?}");
    assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
    assert_eq!(ours.first_key_value(), theirs.first_key_value());
    assert_eq!(ours.last_key_value(), theirs.last_key_value());
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    assert!(ours.leaves.iter().all(|leaf| (1..=Ours::LEAF_ITEMS).contains(&leaf.len())));
}

fn change(ours: &mut Ours, theirs: &mut Theirs, what: u64, key: u32, value: &str) {
    let value = value.to_string();
    match what {
        0..=4 => assert_eq!(ours.insert(key, value.clone()), theirs.insert(key, value)),
        5..=7 => assert_eq!(ours.remove(&key), theirs.remove(&key)),
        8 => *ours.entry(key).or_default() = theirs.entry(key).or_default().clone(),
        9 => assert_eq!(ours.entry(key).or_insert(value.clone()), theirs.entry(key).or_insert(value)),
        10 => assert_eq!(ours.get_mut(&key), theirs.get_mut(&key)),
        11 => assert_eq!(ours.pop_first(), theirs.pop_first()),
        12 => {
            ours.values_mut().for_each(|v| v.push('+'));
            theirs.values_mut().for_each(|v| v.push('+'));
        }
        _ => {
            ours.retain(|k, _| k % 7 != key % 7);
            theirs.retain(|k, _| k % 7 != key % 7);
        }
    }
    assert_eq!((ours.get(&key), ours.contains_key(&key)), (theirs.get(&key), theirs.contains_key(&key)));
}

#[test]
fn does_what_the_standard_librarys_does() {
    for seed in 0..40 {
        let mut random = Stream::new(seed, 0);
        let mut below = |n: u64| random.below(n);
        let (mut ours, mut theirs) = (Ours::new(), Theirs::new());
        // from a single leaf to many
        let keys = [20, 300, 5_000][seed as usize % 3];
        for step in 0..4_000_u64 {
            // what concerns all is rare
            let what = if step % 500 == 0 { 12 + below(2) } else { below(12 + 3) % 12 };
            change(&mut ours, &mut theirs, what, below(keys) as u32, "v");
            if step % 100 == 0 {
                assert_same(&ours, &theirs);
            }
        }
        assert_same(&ours, &theirs);
        assert_eq!(ours.clone(), theirs.clone().into_iter().collect());
        let (mut all, mut expected) = (ours.into_iter(), theirs.into_iter());
        while let Some(item) = expected.next() {
            assert_eq!((all.next(), all.next_back()), (Some(item), expected.next_back()));
        }
        assert_eq!((all.next(), all.next_back()), (None, None));
    }
}

#[test]
fn what_comes_in_order_fills_its_leaves_and_what_goes_leaves_none_behind() {
    let mut map: BTreeMap<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
    let full = BTreeMap::<u32, u32>::LEAF_ITEMS;
    assert_eq!(map.leaves.len(), 10_000_usize.div_ceil(full));
    // one in twenty stays
    for i in (0..10_000).filter(|i| i % 20 != 0) {
        assert_eq!(map.remove(&i), Some(i));
    }
    assert!(map.leaves.len() <= 4 * 500_usize.div_ceil(full), "{} leaves for 500", map.leaves.len());
    assert!(map.keys().copied().eq((0..500).map(|i| i * 20)));
    while map.pop_first().is_some() {}
    assert!(map.leaves.is_empty());
}

#[test]
fn equal_maps_are_equal_however_they_came_to_be() {
    let up: BTreeMap<u32, u32> = (0..1_000).map(|i| (i, i)).collect();
    let mut down: BTreeMap<u32, u32> = (0..1_000).rev().map(|i| (i, i)).collect();
    assert_ne!(up.leaves.len(), down.leaves.len());
    assert_eq!(up, down);
    down.insert(7, 8);
    assert!(up < down && up != down);
    down.remove(&999);
    assert_ne!(up, down);
    down.append(&mut up.clone());
    assert_eq!((down.len(), down[&7]), (1_000, 7));
}

#[test]
fn entries_say_whether_they_are_taken() {
    let mut map = BTreeMap::from([("a", 1)]);
    let Entry::Occupied(taken) = map.entry("a") else { panic!("one is at a") };
    assert_eq!(*taken.into_mut(), 1);
    let Entry::Vacant(free) = map.entry("b") else { panic!("nothing is at b") };
    *free.insert(2) += 1;
    assert_eq!(map, BTreeMap::from([("a", 1), ("b", 3)]));
}

#[test]
fn sets_are_sets() {
    let mut set = BTreeSet::from([3, 1, 2, 3]);
    assert!(set.iter().eq(&[1, 2, 3]) && set.iter().rev().eq(&[3, 2, 1]));
    assert_eq!((set.insert(3), set.insert(4), set.remove(&1), set.remove(&1)), (false, true, true, false));
    assert_eq!(
        (set.first(), set.last(), set.get(&3), set.contains(&1)),
        (Some(&2), Some(&4), Some(&3), false)
    );
    let other = BTreeSet::from([2, 4]);
    assert!(set.difference(&other).eq(&[3]) && other.is_subset(&set) && !set.is_subset(&other));
    set.retain(|item| *item != 3);
    assert_eq!(set, other);
    assert_eq!((set.pop_first(), set.len()), (Some(2), 1));
}

#[test]
fn are_written_and_read_as_the_standard_librarys() {
    let theirs: Theirs = (0..200).map(|i| (i, format!("v{i}"))).collect();
    let ours: Ours = theirs.clone().into_iter().collect();
    let bytes = postcard::to_stdvec(&theirs).expect("is written");
    assert_eq!(postcard::to_stdvec(&ours).expect("is written"), bytes);
    assert_eq!(postcard::from_bytes::<Ours>(&bytes).expect("is read"), ours);
    let items: collections::BTreeSet<u32> = theirs.into_keys().collect();
    let bytes = postcard::to_stdvec(&items).expect("is written");
    let set: BTreeSet<u32> = postcard::from_bytes(&bytes).expect("is read");
    assert!(set.iter().eq(&items));
    assert_eq!(postcard::to_stdvec(&set).expect("is written"), bytes);
}
