//! The engine on the real flash: in memory, and in a file that is opened again.

use crate::common::{get, list, numbered, scan, spec, value};
use byway_flash::{Cause, Flash, FlashOptions, MediaKind, NamespaceRecord, OpenOptions};
use byway_kv::{
    KvEngine, KvError, KvFormat, KvOptions, Packing, Placement, ScanPart, Selection, StoreHow, TryGet,
    WindowId, record_header_bytes,
};
use byway_spec::vendor::KeyRange;

fn device(media: MediaKind) -> (Flash, NamespaceRecord) {
    let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
    let flash = Flash::create(FlashOptions::new(64 << 20, profile, media), &[spec(32 << 20)]).unwrap();
    let namespace = flash.namespace(1).unwrap().clone();
    (flash, namespace)
}

fn options(packing: Packing) -> KvOptions {
    KvOptions::default().packing(packing).memtable_bytes(44 * 1000)
}

fn fill(engine: &mut KvEngine, flash: &mut Flash, at_ps: &mut u64) {
    for n in 0..5000u64 {
        let placement = if n % 7 == 0 { Placement::Dma } else { Placement::Packed };
        let how = StoreHow { placement, ..StoreHow::default() };
        engine.put(flash, &numbered(n), &value(n, len(n)), how, at_ps).unwrap();
    }
    for n in (0..5000).step_by(10) {
        assert!(engine.delete(flash, &numbered(n), at_ps).unwrap());
    }
}

fn len(n: u64) -> usize {
    if n % 1000 == 1 { 300_000 } else { n as usize * 17 % 400 }
}

fn check(engine: &mut KvEngine, flash: &mut Flash) {
    for n in 0..5000 {
        match get(engine, flash, &numbered(n)) {
            Ok(found) => assert_eq!(found, value(n, len(n))),
            Err(KvError::NotFound) => assert_eq!(n % 10, 0),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(list(engine, flash, b"").len(), 4500);
}

#[test]
fn a_store_in_memory_keeps_what_it_is_given_and_takes_modelled_time() {
    for packing in Packing::ALL {
        let (mut flash, namespace) = device(MediaKind::Ram);
        let mut engine =
            KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(packing)).unwrap();
        let mut at_ps = 0;
        fill(&mut engine, &mut flash, &mut at_ps);
        check(&mut engine, &mut flash);
        let before = at_ps;
        get(&mut engine, &mut flash, &numbered(1)).unwrap();
        let into = |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
        engine.get(&mut flash, &numbered(1001), 0, 1 << 20, into, &mut at_ps).unwrap();
        assert!(at_ps > before, "reading flash takes time");
    }
}

#[test]
fn pieces_of_a_value_come_and_go_in_modelled_time() {
    const PIECE_PS: u64 = 1_000_000_000_000;
    let (mut flash, namespace) = device(MediaKind::Ram);
    let mut engine =
        KvEngine::create(&mut flash, &namespace, &KvFormat::default(), KvOptions::default()).unwrap();
    let (mut at_ps, mut pieces) = (0, 0);
    let slow = |piece: &mut [u8], at_ps: &mut u64| {
        assert_eq!(*at_ps, pieces * PIECE_PS, "flash is faster than this host");
        piece.fill(7);
        (pieces, *at_ps) = (pieces + 1, *at_ps + PIECE_PS);
        Ok::<(), KvError>(())
    };
    engine.put_with(&mut flash, &numbered(1), 1 << 20, StoreHow::default(), slow, &mut at_ps).unwrap();
    assert!(pieces > 8);
    assert_eq!(at_ps, pieces * PIECE_PS);
    let mut taken = 0;
    let slow = |_: &[u8], at_ps: &mut u64| {
        (taken, *at_ps) = (taken + 1, *at_ps + PIECE_PS);
        Ok::<(), KvError>(())
    };
    let before = at_ps;
    engine.get(&mut flash, &numbered(1), 0, u64::MAX, slow, &mut at_ps).unwrap();
    let waited_ps = at_ps - before - taken * PIECE_PS;
    assert!(waited_ps < PIECE_PS / 1000, "pages come while pieces before them go: {waited_ps}");
}

#[test]
fn the_pages_of_a_long_value_are_read_at_the_same_time() {
    let (mut flash, namespace) = device(MediaKind::Ram);
    let mut engine =
        KvEngine::create(&mut flash, &namespace, &KvFormat::default(), KvOptions::default()).unwrap();
    let mut at_ps = 0;
    engine.put(&mut flash, &numbered(1), &[7; 1 << 20], StoreHow::default(), &mut at_ps).unwrap();
    let mut time = |from, len| {
        at_ps += 1_000_000_000_000;
        let before = at_ps;
        let into = |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
        engine.get(&mut flash, &numbered(1), from, len, into, &mut at_ps).unwrap();
        at_ps - before
    };
    let (one, all) = (time(500_000, 10), time(0, 1 << 20));
    assert!(all < 20 * one, "64 pages in {all} ps, one in {one} ps");
}

#[test]
fn engine_in_a_file_is_reopened_after_a_drop_without_close() {
    for packing in Packing::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let (mut flash, namespace) = device(MediaKind::File(path.clone()));
        let mut engine =
            KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(packing)).unwrap();
        fill(&mut engine, &mut flash, &mut 0);
        for _ in 0..2 {
            drop((engine, flash));
            flash = Flash::open(&path, OpenOptions::default().read_only(false).timing(false)).unwrap();
            let namespace = flash.namespace(1).unwrap().clone();
            let recovery;
            (engine, recovery) = KvEngine::open(&mut flash, &namespace, options(packing)).unwrap();
            assert_eq!(recovery.damage, []);
            assert!(recovery.records > 0 && recovery.records <= 2000, "{} records", recovery.records);
            check(&mut engine, &mut flash);
        }
    }
}

#[test]
fn an_image_that_is_opened_to_be_read_is_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let (mut flash, namespace) = device(MediaKind::File(path.clone()));
    let mut engine =
        KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(Packing::All)).unwrap();
    fill(&mut engine, &mut flash, &mut 0);
    drop((engine, flash));
    let before = std::fs::read(&path).unwrap();
    let mut flash = Flash::open(&path, OpenOptions::default().read_only(true).timing(false)).unwrap();
    let (mut engine, _) = KvEngine::open(&mut flash, &namespace, options(Packing::All)).unwrap();
    check(&mut engine, &mut flash);
    let put = engine.put(&mut flash, &numbered(1), b"no", StoreHow::default(), &mut 0);
    assert!(matches!(put, Err(KvError::Flash(byway_flash::FlashError::ReadOnly))));
    assert!(engine.delete(&mut flash, &numbered(1), &mut 0).is_err());
    drop((engine, flash));
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_namespace_without_an_engine_is_empty_in_an_image_opened_to_be_read() {
    // As a kill leaves it: within the making of a namespace, and within a format.
    for is_formatted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let (mut flash, namespace) = device(MediaKind::File(path.clone()));
        if is_formatted {
            let mut engine =
                KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(Packing::All))
                    .unwrap();
            fill(&mut engine, &mut flash, &mut 0);
            flash.wipe_areas(1).unwrap();
        }
        drop(flash);
        let before = std::fs::read(&path).unwrap();
        let mut flash = Flash::open(&path, OpenOptions::default().read_only(true).timing(false)).unwrap();
        let mut engine =
            KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(Packing::All)).unwrap();
        assert!(matches!(get(&mut engine, &mut flash, &numbered(1)), Err(KvError::NotFound)));
        assert_eq!(engine.keys(), 0);
        let put = engine.put(&mut flash, &numbered(1), b"no", StoreHow::default(), &mut 0);
        assert!(matches!(put, Err(KvError::Flash(byway_flash::FlashError::ReadOnly))));
        drop((engine, flash));
        assert!(std::fs::read(&path).unwrap() == before);
    }
}

#[test]
fn a_window_is_memory_that_a_host_can_map() {
    let (mut flash, namespace) = device(MediaKind::Ram);
    let mut engine =
        KvEngine::create(&mut flash, &namespace, &KvFormat::default(), options(Packing::All)).unwrap();
    let window = WindowId(3);
    engine.open_window(&mut flash, window, &mut 0).unwrap();
    let memory = engine.window_memory().unwrap();
    let at = engine.window_range(window).start + record_header_bytes(8);
    memory.write_at(at, b"stored by the host").unwrap();
    engine.put_in_place(&mut flash, window, &numbered(5), &[], 18, StoreHow::default(), &mut 0).unwrap();
    assert_eq!(get(&mut engine, &mut flash, &numbered(5)).unwrap(), b"stored by the host");
    drop(engine);
    let (mut engine, _) = KvEngine::open(&mut flash, &namespace, options(Packing::All)).unwrap();
    assert_eq!(get(&mut engine, &mut flash, &numbered(5)).unwrap(), b"stored by the host");
}

#[test]
fn a_namespace_without_an_engine_is_not_opened() {
    let (mut flash, namespace) = device(MediaKind::Ram);
    let opened = KvEngine::open(&mut flash, &namespace, KvOptions::default());
    assert!(matches!(opened, Err(KvError::DamagedState(_))));
    let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
    let options = FlashOptions::new(64 << 20, profile, MediaKind::Ram);
    let mut flash = Flash::create(options, &[spec(512 << 10)]).unwrap();
    let small = flash.namespace(1).unwrap().clone();
    let made = KvEngine::create(&mut flash, &small, &KvFormat::default(), KvOptions::default());
    assert!(matches!(made, Err(KvError::TooSmall { .. })));
}

/// Pairs of which every sixteenth record lies in two pages, in more than one segment, the last of them in protected memory.
const OF_TWO_PAGES: u64 = 4000;

fn device_of_values_of_1_kib() -> (Flash, KvEngine) {
    let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
    let options = FlashOptions::new(64 << 20, profile, MediaKind::Ram).timing(false);
    let mut flash = Flash::create(options, &[spec(32 << 20)]).unwrap();
    let namespace = flash.namespace(1).unwrap().clone();
    let format = KvFormat::default();
    let mut engine = KvEngine::create(&mut flash, &namespace, &format, KvOptions::default()).unwrap();
    for n in 0..OF_TWO_PAGES {
        engine.put(&mut flash, &numbered(n), &value(n, 1024), StoreHow::default(), &mut 0).unwrap();
    }
    (flash, engine)
}

#[test]
fn records_of_two_pages_are_found_by_scans_and_by_shared_reference() {
    let (mut flash, mut engine) = device_of_values_of_1_kib();
    let (pairs, is_end) =
        scan(&mut engine, &mut flash, &KeyRange::default(), OF_TWO_PAGES as usize, u32::MAX);
    assert!(is_end && pairs.len() as u64 == OF_TWO_PAGES);
    let mut into = [0; 1024];
    for (n, (key, _, found)) in (0..).zip(&pairs) {
        assert_eq!((key, found), (&numbered(n), &value(n, 1024)));
        let read = engine.try_get(&flash, key, false, &mut into);
        assert!(matches!(read, TryGet::Found { len_bytes: 1024, .. }), "{n}: {read:?}");
        assert_eq!(into[..], value(n, 1024));
    }
}

#[test]
fn a_scan_hands_pairs_whose_records_lie_in_two_pages_over_at_once_and_counts_what_it_reads() {
    let (mut flash, mut engine) = device_of_values_of_1_kib();
    let mut selection = Selection::default();
    let most = OF_TWO_PAGES as usize;
    engine
        .select(&mut flash, &KeyRange::default(), most, &mut selection, |_, len| Some(len), &mut 0)
        .unwrap();
    let read = |flash: &Flash| flash.counters()[Cause::Host];
    let before = read(&flash);
    let (mut whole, mut in_pieces) = (0, 0);
    let into = |part: ScanPart<'_>| match part {
        ScanPart::Whole { .. } => whole += 1,
        ScanPart::Pair { .. } => in_pieces += 1,
        ScanPart::Value(_) => {}
    };
    engine.read_selected(&mut flash, &mut selection, into, &mut 0).unwrap();
    assert_eq!((whole, in_pieces), (most, 0));
    let between = read(&flash);
    (0..OF_TWO_PAGES).for_each(|n| drop(get(&mut engine, &mut flash, &numbered(n)).unwrap()));
    let after = read(&flash);
    assert_eq!(between.reads - before.reads, after.reads - between.reads, "as many pages as by gets");
    assert_eq!(between.read_bytes - before.read_bytes, after.read_bytes - between.read_bytes);
}
