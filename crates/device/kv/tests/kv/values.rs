//! Sizes, pieces, order, options, space and damage, seen from outside.

use crate::common::{Rig, get, key, list, numbered, small, value};
use byway_kv::{KvError, KvOptions, Packing, Placement, Recovery, StoreHow, VALUE_MAX_BYTES};

const DMA: StoreHow = StoreHow { must_exist: false, must_not_exist: false, placement: Placement::Dma };

#[test]
fn values_of_every_size_are_read_back_before_and_after_a_crash() {
    let edges =
        [0, 1, 31, 4059, 4060, 4061, 4095, 4096, 4097, 12_288, 16_384, 16_385, 65_536, 1 << 20, 16 << 20];
    for packing in Packing::ALL {
        for how in [StoreHow::default(), DMA] {
            let mut rig = Rig::new(512 << 20, small(packing));
            for (n, len) in edges.into_iter().enumerate() {
                rig.put_how(&numbered(n as u64), &value(n as u64, len), how).unwrap();
            }
            for _ in 0..2 {
                for (n, len) in edges.into_iter().enumerate() {
                    assert_eq!(
                        rig.get(&numbered(n as u64)).unwrap(),
                        value(n as u64, len),
                        "{packing:?} {len}"
                    );
                }
                assert_eq!(rig.reopen().damage, []);
            }
        }
    }
}

#[test]
fn a_value_longer_than_the_limit_is_refused_with_the_limit() {
    let mut rig = Rig::new(512 << 20, small(Packing::All));
    let long = vec![0; VALUE_MAX_BYTES as usize + 1];
    let error = rig.put(&key(b"k"), &long).unwrap_err();
    assert_eq!(error.to_string(), "the value has 16777217 bytes; the limit here is 16777216");
}

#[test]
fn any_part_of_a_value_can_be_read() {
    let mut rig = Rig::new(8 << 20, small(Packing::SelectiveBackfill));
    for len in [100usize, 5000, 70_000] {
        let whole = value(9, len);
        rig.put(&key(b"k"), &whole).unwrap();
        for (offset, limit) in
            [(0, 10), (50, 50), (99, 1), (len / 2, 40_000), (len - 1, 9), (len, 5), (len + 7, 5)]
        {
            let mut found = Vec::new();
            let into = |piece: &[u8], _: &mut u64| {
                found.extend_from_slice(piece);
                Ok::<(), KvError>(())
            };
            let info = rig
                .engine
                .get(&mut rig.store, &key(b"k"), offset as u64, limit as u64, into, &mut 0)
                .unwrap();
            assert_eq!(info.len as usize, len);
            assert_eq!(found, whole[offset.min(len)..(offset + limit).min(len)], "{len} {offset} {limit}");
        }
    }
}

#[test]
fn an_error_of_the_receiver_is_given_back() {
    #[derive(Debug)]
    enum Mine {
        Kv,
        Full,
    }
    impl From<KvError> for Mine {
        fn from(_: KvError) -> Self {
            Self::Kv
        }
    }
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    rig.put(&key(b"k"), b"value").unwrap();
    let refuse = |_: &[u8], _: &mut u64| Err(Mine::Full);
    let found = rig.engine.get(&mut rig.store, &key(b"k"), 0, 9, refuse, &mut 0);
    assert!(matches!(found, Err(Mine::Full)));
    let missing = rig.engine.get(&mut rig.store, &key(b"j"), 0, 9, refuse, &mut 0);
    assert!(matches!(missing, Err(Mine::Kv)));
}

#[test]
fn keys_are_listed_in_order_and_a_list_goes_on_where_it_stopped() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    for n in (0..500u64).rev() {
        rig.put(&numbered(n * 2), &value(n, n as usize % 60)).unwrap();
    }
    for n in (0..500u64).step_by(3) {
        assert!(rig.delete(&numbered(n * 2)).unwrap());
    }
    let expected: Vec<_> =
        (0..500u64).filter(|n| n % 3 != 0).map(|n| (numbered(n * 2), n as u32 % 60)).collect();
    assert_eq!(rig.list(b""), expected);
    let mut resumed = Vec::new();
    let mut start = Vec::new();
    loop {
        let mut page = list(&mut rig.engine, &mut rig.store, &start);
        page.retain(|(key, _)| key.as_bytes() != &start[..]);
        page.truncate(7);
        let Some((last, _)) = page.last() else { break };
        start = last.as_bytes().to_vec();
        resumed.extend(page);
    }
    assert_eq!(resumed, expected);
    assert_eq!(rig.list(numbered(501).as_bytes())[0].0, numbered(502));
}

#[test]
fn options_decide_by_whether_the_key_is_there_now() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    let new = StoreHow { must_not_exist: true, ..StoreHow::default() };
    let over = StoreHow { must_exist: true, ..StoreHow::default() };
    assert!(matches!(rig.put_how(&key(b"k"), b"1", over), Err(KvError::NotFound)));
    rig.put_how(&key(b"k"), b"1", new).unwrap();
    assert!(matches!(rig.put_how(&key(b"k"), b"2", new), Err(KvError::Exists)));
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    assert!(matches!(rig.put_how(&key(b"k"), b"2", new), Err(KvError::Exists)));
    rig.put_how(&key(b"k"), b"3", over).unwrap();
    assert!(rig.delete(&key(b"k")).unwrap());
    assert!(!rig.delete(&key(b"k")).unwrap());
    rig.put_how(&key(b"k"), b"4", new).unwrap();
    assert_eq!(rig.get(&key(b"k")).unwrap(), b"4");
}

#[test]
fn deletion_survives_flushes_merges_and_crashes() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    for n in 0..300 {
        rig.put(&numbered(n), b"here").unwrap();
    }
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    for n in 0..300 {
        assert!(rig.delete(&numbered(n)).unwrap());
    }
    for _ in 0..3 {
        assert!((0..300).all(|n| matches!(rig.get(&numbered(n)), Err(KvError::NotFound))));
        assert!(rig.list(b"").is_empty());
        rig.engine.flush(&mut rig.store, &mut 0).unwrap();
        rig.reopen();
    }
}

#[test]
fn an_opening_after_a_flush_replays_nothing_and_otherwise_what_came_since() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    for n in 0..1000 {
        rig.put(&numbered(n), b"v").unwrap();
    }
    let recovery = rig.reopen();
    assert!(recovery.records > 0 && recovery.records <= 64, "{} records", recovery.records);
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    assert_eq!(rig.reopen().records, 0);
    assert!((0..1000).all(|n| rig.get(&numbered(n)).unwrap() == b"v"));
}

/// Two memtables are as much: one that fills, and one that is on its way to flash.
#[test]
fn an_opening_replays_no_more_than_it_may_whatever_was_put() {
    let replay_bytes = 256 << 10;
    let options = small(Packing::All).replay_bytes(replay_bytes).memtable_bytes(8 << 20);
    let mut rig = Rig::new(32 << 20, options);
    let mut most = 0;
    for n in 0..6000 {
        rig.put(&numbered(n % 900), &value(n, 1000)).unwrap();
        if n % 97 == 0 {
            most = most.max(rig.reopen().record_bytes);
        }
    }
    assert!((replay_bytes / 2..=2 * replay_bytes).contains(&most), "{most} bytes were replayed");
    assert!((0..900).all(|n| rig.get(&numbered(n)).is_ok()));
}

#[test]
fn overwriting_and_deleting_gives_space_back() {
    let mut rig = Rig::new(2 << 20, small(Packing::All));
    let free = rig.engine.stats().free_segments;
    for n in 0..20_000u64 {
        rig.put(&numbered(n % 20), &value(n, 500)).unwrap();
    }
    rig.engine.reclaim(&mut rig.store, &mut 0).unwrap();
    assert_eq!(rig.engine.keys(), 20);
    for n in 0..20 {
        assert_eq!(rig.get(&numbered(n)).unwrap(), value(19_980 + n, 500));
        rig.delete(&numbered(n)).unwrap();
    }
    rig.engine.reclaim(&mut rig.store, &mut 0).unwrap();
    assert_eq!(rig.engine.used_bytes(), 0);
    let now = rig.engine.stats().free_segments;
    assert!(now + 3 >= free, "{now} segments free of {free}");
}

#[test]
fn full_namespace_is_reported_and_still_deletes() {
    let mut rig = Rig::new(1 << 20, small(Packing::All));
    let mut stored = 0;
    let error = loop {
        match rig.put(&numbered(stored), &value(stored, 3000)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, KvError::Full));
    assert!((0..stored).all(|n| rig.get(&numbered(n)).unwrap() == value(n, 3000)));
    assert!((0..stored).all(|n| rig.delete(&numbered(n)).unwrap()));
    rig.engine.reclaim(&mut rig.store, &mut 0).unwrap();
    rig.put(&numbered(0), &value(0, 3000)).unwrap();
}

#[test]
fn used_bytes_survive_a_crash_and_are_exact_after_a_reclaim() {
    let mut rig = Rig::new(4 << 20, small(Packing::SelectiveBackfill));
    for n in 0..700u64 {
        rig.put_how(
            &numbered(n % 90),
            &value(n, n as usize % 300),
            if n % 4 == 0 { DMA } else { StoreHow::default() },
        )
        .unwrap();
        if n % 5 == 0 {
            rig.delete(&numbered(n % 70)).unwrap();
        }
        if n % 37 == 0 {
            rig.reopen();
            let live: u64 = rig.list(b"").iter().map(|(_, len)| 28 + 36 + u64::from(*len)).sum();
            assert!(rig.engine.used_bytes() >= live, "after put {n}");
            rig.engine.flush(&mut rig.store, &mut 0).unwrap();
            assert_eq!(rig.engine.used_bytes(), live, "after put {n}");
        }
    }
    rig.engine.reclaim(&mut rig.store, &mut 0).unwrap();
    let live: u64 = rig.list(b"").iter().map(|(_, len)| 28 + 36 + u64::from(*len)).sum();
    assert_eq!(rig.engine.used_bytes(), live);
    rig.reopen();
    assert_eq!(rig.engine.used_bytes(), live);
}

/// Every key put twice and half of them a third time; the index that was written first cannot be read the second time,
/// if reads are to fail.
fn overwritten(fails: bool) -> Rig {
    let mut rig = Rig::new(4 << 20, small(Packing::All));
    for round in 0..3u64 {
        rig.store.fails_reads = fails && round == 1;
        for n in (0..300).step_by(if round == 2 { 2 } else { 1 }) {
            while rig.put(&numbered(n), &value(n + round, 200)).is_err() {}
        }
        // While reads fail, the memtable is written in the end, and merges wait.
        let _ = (0..10_000).find(|_| rig.engine.flush(&mut rig.store, &mut 0).is_ok());
    }
    rig.store.fails_reads = false;
    rig
}

#[test]
fn bytes_of_unread_dead_records_are_recounted_at_the_next_opening() {
    let (mut whole, mut failed) = (overwritten(false), overwritten(true));
    assert!(failed.engine.used_bytes() > whole.engine.used_bytes());
    assert_eq!(failed.check(&Recovery::default()), [], "the image says that it may count too much");
    for _ in 0..2 {
        let recovery = failed.reopen();
        assert_eq!(failed.engine.used_bytes(), whole.engine.used_bytes());
        assert_eq!(failed.check(&recovery), []);
        failed.put(&numbered(7), b"more").unwrap();
        whole.put(&numbered(7), b"more").unwrap();
        failed.engine.flush(&mut failed.store, &mut 0).unwrap();
        whole.engine.flush(&mut whole.store, &mut 0).unwrap();
    }
}

#[test]
fn packing_counts_what_it_copies_wastes_and_fills_in() {
    let packed = |packing| {
        let mut rig = Rig::new(8 << 20, small(packing));
        for n in 0..100u64 {
            rig.put_how(&numbered(n), &value(n, 4000), DMA).unwrap();
            rig.put(&numbered(1000 + n), &value(n, 60)).unwrap();
        }
        (rig.engine.stats().packing, rig.store.programs)
    };
    let (all, all_pages) = packed(Packing::All);
    let (selective, selective_pages) = packed(Packing::Selective);
    let (backfill, backfill_pages) = packed(Packing::SelectiveBackfill);
    assert_eq!((all.copied_bytes, all.placed_bytes), (100 * 4060, 0));
    assert!(all.wasted_bytes < 100 * 88, "only what short records leave at the end of a segment");
    assert_eq!((selective.copied_bytes, selective.placed_bytes), (100 * 60, 100 * 4000));
    assert_eq!((backfill.copied_bytes, backfill.placed_bytes), (100 * 60, 100 * 4000));
    assert!(backfill.backfilled_bytes > 0 && backfill.wasted_bytes < selective.wasted_bytes);
    assert!(all_pages < backfill_pages && backfill_pages < selective_pages);
}

#[test]
fn a_damaged_record_is_named_and_no_other_is_touched() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    for n in 0..200 {
        rig.put(&numbered(n), &value(n, 400)).unwrap();
    }
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    // Flip one bit in the middle of a value that is on flash.
    let needle = value(3, 400);
    let hit = rig.store.image.pages.iter().find_map(|(page, bytes)| {
        bytes.windows(400).position(|window| window == needle).map(|at| (*page, at))
    });
    let (page, at) = hit.unwrap();
    let mut bytes = rig.store.image.pages[&page].to_vec();
    bytes[at + 200] ^= 1;
    rig.store.image.pages.insert(page, bytes.into());
    for _ in 0..2 {
        rig.reopen();
        match rig.get(&numbered(3)) {
            Err(KvError::DamagedRecord { key, why, .. }) => {
                assert_eq!((key, why), (numbered(3), "its value does not match its checksum"));
            }
            other => panic!("{other:?}"),
        }
        assert!((0..200).filter(|n| *n != 3).all(|n| rig.get(&numbered(n)).unwrap() == value(n, 400)));
    }
    rig.put(&numbered(3), b"repaired").unwrap();
    assert_eq!(rig.get(&numbered(3)).unwrap(), b"repaired");
}

#[test]
fn damage_in_the_replayed_log_is_reported_and_contained() {
    let options = small(Packing::All).memtable_bytes(1 << 20);
    let mut rig = Rig::new(8 << 20, options);
    for n in 0..200 {
        rig.put(&numbered(n), &value(n, 100)).unwrap();
    }
    let mut pages: Vec<u64> = rig.store.image.pages.keys().copied().collect();
    pages.sort_unstable();
    let hit = pages[2];
    let mut bytes = rig.store.image.pages[&hit].to_vec();
    bytes[1000..1400].fill(0x5a);
    rig.store.image.pages.insert(hit, bytes.into());
    let recovery = rig.reopen();
    assert_eq!(recovery.damage.len(), 1);
    let damage = recovery.damage[0];
    assert_eq!(damage.address / 4096, hit);
    assert!(damage.to - damage.from < 700, "{damage:?}");
    let lost: Vec<u64> = (0..200)
        .filter(|n| !matches!(rig.get(&numbered(*n)), Ok(found) if found == value(*n, 100)))
        .collect();
    assert!((3..=5).contains(&lost.len()), "{lost:?}");
    assert!(
        lost.iter().all(|n| matches!(
            rig.get(&numbered(*n)),
            Err(KvError::NotFound | KvError::DamagedRecord { .. })
        ))
    );
}

#[test]
fn a_damaged_index_page_is_named() {
    let mut rig = Rig::new(8 << 20, small(Packing::All));
    rig.put(&numbered(1), b"one").unwrap();
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    let index: Vec<u64> = rig
        .store
        .image
        .pages
        .iter()
        .filter(|(_, bytes)| &bytes[..4] == b"BYIX")
        .map(|(page, _)| *page)
        .collect();
    assert_eq!(index.len(), 3, "a data page, its filters, the root");
    for page in index {
        let mut image = rig.store.image.clone();
        let mut bytes = image.pages[&page].to_vec();
        bytes[70] ^= 4;
        image.pages.insert(page, bytes.into());
        let (mut store, mut engine, _) = rig.open_image(image);
        let found = get(&mut engine, &mut store, &numbered(1));
        assert!(
            matches!(found, Err(KvError::DamagedIndex { page: named, .. }) if named == page),
            "{found:?}"
        );
    }
}

#[test]
fn every_flipped_bit_of_the_control_state_is_named_or_harmless() {
    let mut rig = Rig::new(1 << 20, small(Packing::SelectiveBackfill));
    for n in 0..60 {
        rig.put_how(&numbered(n), &value(n, 150), if n % 3 == 0 { DMA } else { StoreHow::default() })
            .unwrap();
    }
    let control_bytes = 4096 * 6 + 16 * 64;
    for bit in (0..control_bytes * 8).filter(|bit| rig.store.image.state[bit / 8] != 0) {
        let mut image = rig.store.image.clone();
        image.state[bit / 8] ^= 1 << (bit % 8);
        let mut store = rig.store.with(image);
        match byway_kv::KvEngine::open(&mut store, &rig.namespace, rig.options) {
            Err(KvError::DamagedState(_) | KvError::OtherVersion { .. }) => {}
            Err(error) => panic!("bit {bit}: {error}"),
            // Hints for compaction carry no checksum, and nothing here relies on them.
            Ok((mut engine, _)) => assert_eq!(list(&mut engine, &mut store, b"").len(), 60, "bit {bit}"),
        }
    }
}

#[test]
fn short_value_of_a_memtable_is_read_without_its_record() {
    let mut rig = Rig::new(8 << 20, KvOptions::default());
    let lens = [0usize, 1, 32, 100, 256, 257];
    let lease = rig.engine.open_lease(&mut rig.store).unwrap();
    // Enough for pages to be programmed: those of open pages are in memory anyway.
    for n in 0..600 {
        let len = lens[n as usize % lens.len()];
        match n / 6 % 2 {
            0 => rig.put(&numbered(n), &value(n, len)).unwrap(),
            _ => rig.put_leased(lease, &numbered(n), &value(n, len)).unwrap(),
        }
    }
    rig.engine.take_in(&mut rig.store);
    let reads_of = |rig: &mut Rig, n: u64| {
        let before = rig.store.reads;
        assert_eq!(rig.get(&numbered(n)).unwrap(), value(n, lens[n as usize % lens.len()]));
        rig.store.reads - before
    };
    // The first value was empty: slots have 32 bytes.
    for n in 0..300 {
        let len = lens[n as usize % lens.len()];
        assert_eq!(reads_of(&mut rig, n) > 0, len > 32, "value of {len} bytes");
    }
    rig.reopen();
    assert!(reads_of(&mut rig, 2) > 0, "a replayed record has no copy");
}
