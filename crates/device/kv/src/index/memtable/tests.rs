//! Memtables against models.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::value_log::record::{Kind, Shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn entry(key: u16, seq: u64) -> Entry {
    let key = Key::new(&key.to_be_bytes()).unwrap();
    Entry::new(&key, Shape::new(Kind::Value, 2, 1), 0, seq)
}

/// The copy of the value of a key.
fn copy_of<'a>(table: &'a Memtable, key: &Key) -> Option<&'a [u8]> {
    let InTable { entry, number } = table.get_noting(key, |_| {})?;
    let len = entry.shape().value_len() as usize;
    table.values().get(number as usize, len).filter(|_| entry.has_copy())
}

#[test]
fn a_copy_follows_overwrites_and_moves_of_its_record() {
    let mut table = Memtable::new(16, 1 << 10, 3);
    let key = entry(1, 0).key();
    table.insert(entry(1, 1), Value::Bytes(b"a"));
    table.insert(entry(2, 2), Value::Bytes(b"b"));
    assert_eq!(copy_of(&table, &key), Some(&b"a"[..]));
    table.insert(entry(1, 3), Value::Bytes(b"c"));
    assert_eq!(table.insert(entry(1, 2), Value::Bytes(b"d")), Inserted::Older);
    table.insert(entry(1, 4), Value::Unchanged);
    assert_eq!(copy_of(&table, &key), Some(&b"c"[..]));
    table.insert(entry(1, 5), Value::Unknown);
    table.insert(entry(1, 6), Value::Unchanged);
    assert_eq!(copy_of(&table, &key), None);
    table.insert(entry(3, 7), Value::Unchanged);
    assert_eq!(copy_of(&table, &entry(3, 0).key()), None);
    assert_eq!(copy_of(&table, &entry(2, 0).key()), Some(&b"b"[..]));
    while !table.empty_some(usize::MAX) {}
    assert_eq!((copy_of(&table, &key), table.values().ram_bytes()), (None, 0));
}

fn keys_from(table: &mut Memtable, start: Option<u16>, most: usize) -> Vec<Key> {
    let start = start.map(|s| Key::new(&s.to_be_bytes()).unwrap());
    let (mut walk, mut numbers, mut keys) = (table.walk(start.as_ref()), Vec::new(), Vec::new());
    loop {
        table.next(&mut walk, &mut numbers, most, most);
        if numbers.is_empty() {
            return keys;
        }
        assert!(numbers.len() <= most);
        keys.extend(numbers.iter().map(|number| table.entry(*number as usize).unwrap().key()));
    }
}

#[test]
fn keys_of_one_number_and_every_length_are_listed_in_order() {
    let mut table = Memtable::new(16, 0, 3);
    let mut keys: Vec<Key> = Vec::new();
    for first in 0..200u8 {
        keys.extend((1..17).map(|len| Key::new(&[&[first][..], &[0; 16]].concat()[..len]).unwrap()));
    }
    for (seq, key) in keys.iter().rev().enumerate() {
        table.insert(Entry::new(key, Shape::new(Kind::Value, key.len(), 1), 0, seq as u64), Value::Unknown);
    }
    assert_eq!(keys_from(&mut table, None, 100), keys);
}

#[test]
fn keys_that_share_most_bytes_or_lie_at_doubling_distances_are_listed_in_order() {
    let mut table = Memtable::new(16, 0, 3);
    let shared = (0..3000u16).map(|n| [&[7; 14][..], &n.wrapping_mul(40_503).to_be_bytes()].concat());
    let distant = (0..128).flat_map(|bit| (0..20).map(move |n| (1u128 << bit).wrapping_add(n) | 1 << 124));
    let mut keys: Vec<Key> = shared.map(|key| Key::new(&key).unwrap()).collect();
    keys.extend(distant.map(|number| Key::new(&number.to_be_bytes()).unwrap()));
    for (seq, key) in keys.iter().enumerate() {
        table.insert(Entry::new(key, Shape::new(Kind::Value, key.len(), 1), 0, seq as u64), Value::Unknown);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys_from(&mut table, None, 100), keys);
}

#[test]
fn an_older_record_never_replaces_a_newer_one() {
    let mut table = Memtable::new(16, 0, 0);
    assert_eq!(table.insert(entry(1, 9), Value::Unknown), Inserted::New);
    assert_eq!(table.insert(entry(1, 8), Value::Unknown), Inserted::Older);
    assert_eq!(table.insert(entry(1, 10), Value::Unknown), Inserted::Replaced(entry(1, 9)));
}

#[test]
fn a_table_given_more_than_it_was_made_for_still_finds_everything() {
    let mut table = Memtable::new(16, 0, 1);
    (0..5000).for_each(|k| assert_eq!(table.insert(entry(k, 1), Value::Unknown), Inserted::New));
    assert!((0..5000).all(|k| table.get(&entry(k, 1).key()).is_some()));
    assert!(table.get(&entry(5000, 1).key()).is_none());
}

#[test]
fn a_table_that_was_emptied_in_steps_knows_nothing_of_what_was_in_it() {
    for (count, words) in [(40u16, 64), (40, 6400), (900, 64), (900, usize::MAX)] {
        let mut table = Memtable::new(2000, 0, 5);
        for round in 0..3 {
            (0..count).for_each(|k| assert_eq!(table.insert(entry(k, round), Value::Unknown), Inserted::New));
            table.walk(None);
            while !table.empty_some(words) {}
            assert!(table.is_emptied() && table.len() == 0);
            assert!((0..count).all(|k| table.get(&entry(k, 0).key()).is_none()));
            assert!(table.slots.iter().all(|slot| *slot == 0));
            assert!(keys_from(&mut table, None, 100).is_empty());
        }
    }
}

#[test]
fn a_table_that_expects_few_entries_is_full_early_and_one_that_gets_more_still_finds_them() {
    let mut table = Memtable::new(20_000, 0, 5);
    for (expected, most) in [(100, 512), (5000, 16_384), (3, 512), (1 << 40, 20_000)] {
        table.set_expected_entries(expected);
        (0..most - 1).for_each(|k| assert_eq!(table.insert(entry(k, 1), Value::Unknown), Inserted::New));
        assert!(!table.is_full_with(0) && table.is_full_with(1));
        (most - 1..25_000).for_each(|k| assert_eq!(table.insert(entry(k, 1), Value::Unknown), Inserted::New));
        assert!((0..25_000).all(|k| table.get(&entry(k, 1).key()).is_some()));
        table.set_expected_entries(10);
        while !table.empty_some(640) {}
        assert!(table.slots.iter().all(|slot| *slot == 0));
    }
}

proptest! {
    #[test]
    fn a_memtable_is_a_sorted_map(ops in proptest::collection::vec((0u16..3000, any::<bool>()), 1..3000), start: u16, most in 1usize..300) {
        let (mut table, mut model) = (Memtable::new(1000, 0, 7), BTreeMap::new());
        for (seq, (key, list)) in ops.into_iter().enumerate() {
            table.insert(entry(key, seq as u64), Value::Unknown);
            model.insert(entry(key, 0).key(), seq as u64);
            if list {
                table.walk(Some(&entry(key, 0).key()));
            }
        }
        for (key, seq) in &model {
            prop_assert_eq!(table.get(key).unwrap().seq(), *seq);
        }
        prop_assert_eq!(keys_from(&mut table, None, most), model.keys().copied().collect::<Vec<_>>());
        let start = start % 3000;
        let from = Key::new(&start.to_be_bytes()).unwrap();
        prop_assert_eq!(keys_from(&mut table, Some(start), most), model.range(from..).map(|(k, _)| *k).collect::<Vec<_>>());
    }
}
