//! Leases: stores that several threads do beside each other, and what a kill leaves of them.

use crate::common::{Rig, key, numbered, small, value};
use byway_kv::{KvError, KvOptions, LeaseId, Packing, TryGet, WindowId};

/// Larger tables than the other tests have: leases take records by their share of them.
fn options() -> KvOptions {
    small(Packing::All).memtable_bytes(60 * 4000)
}

fn rig() -> Rig {
    Rig::new(8 << 20, options())
}

fn lease(rig: &mut Rig) -> LeaseId {
    rig.engine.open_lease(&mut rig.store).unwrap()
}

/// A lease that has a stretch of the log.
fn begun(rig: &mut Rig, first: u64) -> LeaseId {
    let lease = lease(rig);
    assert!(!rig.engine.put_beside(&rig.store, lease, &numbered(first), b"first"), "it has nothing yet");
    rig.put_leased(lease, &numbered(first), b"first").unwrap();
    lease
}

#[test]
fn stores_of_two_leases_are_there_once_they_are_taken_in() {
    let mut rig = rig();
    let leases = [begun(&mut rig, 1000), begun(&mut rig, 1001)];
    for n in 0..40 {
        let lease = leases[n as usize % 2];
        assert!(rig.engine.put_beside(&rig.store, lease, &numbered(n), &value(n, 50)), "{n}");
    }
    rig.engine.take_in(&mut rig.store);
    for n in 0..40 {
        assert_eq!(rig.get(&numbered(n)).unwrap(), value(n, 50));
    }
    assert_eq!(rig.engine.keys(), 42);
}

#[test]
fn a_get_by_shared_reference_finds_what_waits_to_be_taken_in() {
    let mut rig = rig();
    let lease = begun(&mut rig, 1000);
    rig.put(&key(b"old"), b"before").unwrap();
    rig.put(&key(b"other"), b"same").unwrap();
    assert!(rig.engine.put_beside(&rig.store, lease, &key(b"old"), b"after"));
    let mut into = [0; 8];
    let old = rig.engine.try_get(&rig.store, &key(b"old"), false, &mut into);
    assert!(matches!(old, TryGet::Found { len_bytes: 5, .. }) && &into[..5] == b"after", "{old:?}");
    let other = rig.engine.try_get(&rig.store, &key(b"other"), false, &mut into);
    assert!(matches!(other, TryGet::Found { len_bytes: 4, .. }), "other keys are found: {other:?}");
    assert!(rig.engine.put_beside(&rig.store, lease, &key(b"long"), &value(1, 1024)));
    let mut into = [0; 1024];
    let long = rig.engine.try_get(&rig.store, &key(b"long"), false, &mut into);
    assert!(matches!(long, TryGet::Found { len_bytes: 1024, .. }) && into[..] == value(1, 1024), "{long:?}");
    let mut beginning = [0; 8];
    let long = rig.engine.try_get(&rig.store, &key(b"long"), false, &mut beginning);
    assert!(matches!(long, TryGet::Found { len_bytes: 1024, .. }) && beginning[..] == value(1, 1024)[..8]);
    rig.engine.take_in(&mut rig.store);
    assert_eq!(rig.get(&key(b"old")).unwrap(), b"after");
}

#[test]
fn of_stores_of_one_key_by_two_leases_the_later_counts() {
    let mut rig = rig();
    let leases = [begun(&mut rig, 1000), begun(&mut rig, 1001)];
    // Leases are taken in by window: one order or the other is not that of the stores.
    for (n, order) in [(1, [0, 1]), (2, [1, 0])] {
        assert!(rig.engine.put_beside(&rig.store, leases[order[0]], &numbered(n), b"earlier"));
        assert!(rig.engine.put_beside(&rig.store, leases[order[1]], &numbered(n), b"later"));
    }
    let killed = rig.store.image.clone();
    rig.engine.take_in(&mut rig.store);
    let (mut store, mut engine, _) = rig.open_image(killed);
    for n in [1, 2] {
        assert_eq!(rig.get(&numbered(n)).unwrap(), b"later");
        assert_eq!(crate::common::get(&mut engine, &mut store, &numbered(n)).unwrap(), b"later");
    }
}

#[test]
fn a_kill_after_any_byte_of_a_store_leaves_all_stores_before_it() {
    let mut rig = rig();
    let lease = begun(&mut rig, 1000);
    for n in 0..20 {
        assert!(rig.engine.put_beside(&rig.store, lease, &numbered(n), &value(n, 30)));
    }
    let before = rig.store.image.clone();
    assert!(rig.engine.put_beside(&rig.store, lease, &numbered(20), &value(20, 30)));
    let after = rig.store.image.clone();
    let (old, new) = (before.windows.borrow().clone(), after.windows.borrow().clone());
    let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
    assert!(!changed.is_empty());
    for stored in 0..=changed.len() {
        let image = before.clone();
        changed[..stored].iter().for_each(|at| image.windows.borrow_mut()[*at] = new[*at]);
        let (mut store, mut engine, recovery) = rig.open_image(image);
        assert_eq!(recovery.damage, []);
        for n in 0..20 {
            assert_eq!(crate::common::get(&mut engine, &mut store, &numbered(n)).unwrap(), value(n, 30));
        }
        match crate::common::get(&mut engine, &mut store, &numbered(20)) {
            Ok(found) => assert_eq!((found, stored), (value(20, 30), changed.len())),
            Err(error) => assert!(matches!(error, KvError::NotFound) && stored < changed.len()),
        }
    }
}

#[test]
fn a_lease_goes_on_over_pages_and_segments() {
    let mut rig = rig();
    let mut leases = [lease(&mut rig), lease(&mut rig)];
    for n in 0..3000 {
        rig.put_leased(leases[n as usize % 2], &numbered(n % 700), &value(n, 200)).unwrap();
        if n % 501 == 500 {
            assert_eq!(rig.reopen().damage, []);
            leases = [lease(&mut rig), lease(&mut rig)];
        }
    }
    assert_eq!(rig.reopen().damage, []);
    for n in 2300..3000 {
        assert_eq!(rig.get(&numbered(n % 700)).unwrap(), value(n, 200));
    }
    let recovery = rig.reopen();
    assert_eq!(rig.check(&recovery), []);
}

#[test]
fn a_host_that_opens_the_window_of_a_lease_ends_it() {
    let mut rig = rig();
    let (first, second) = (begun(&mut rig, 1000), begun(&mut rig, 1001));
    assert!(rig.engine.open_lease(&mut rig.store).is_none(), "there are two windows");
    assert!(rig.engine.put_beside(&rig.store, first, &numbered(1), b"first"));
    assert!(rig.engine.put_beside(&rig.store, second, &numbered(2), b"second"));
    for window in [0, 1] {
        rig.engine.open_window(&mut rig.store, WindowId(window), &mut 0).unwrap();
    }
    for (lease, n) in [(first, 3), (second, 4)] {
        assert!(!rig.engine.put_beside(&rig.store, lease, &numbered(n), b"late"));
        rig.put_leased(lease, &numbered(n), b"late").unwrap();
    }
    let all: Vec<u64> = vec![1, 2, 3, 4, 1000, 1001];
    assert!(all.iter().all(|n| rig.get(&numbered(*n)).is_ok()));
    assert_eq!(rig.reopen().damage, []);
    assert!(all.iter().all(|n| rig.get(&numbered(*n)).is_ok()));
}

#[test]
fn a_namespace_without_leases_is_one_that_older_versions_open() {
    let mut rig = rig();
    let plain = rig.store.image.state[..64].to_vec();
    let lease = begun(&mut rig, 1000);
    assert!(rig.engine.put_beside(&rig.store, lease, &numbered(1), b"value"));
    assert_ne!(rig.store.image.state[..64], plain, "after a kill they would miss what was not taken in");
    rig.engine.close_lease(&mut rig.store, lease);
    assert_eq!(rig.store.image.state[..64], plain);
    rig.reopen();
    assert_eq!(rig.get(&numbered(1)).unwrap(), b"value");
}

#[test]
fn a_lease_that_has_ended_names_no_later_one_of_its_window_or_of_another_engine() {
    let mut rig = rig();
    let ended = begun(&mut rig, 1000);
    rig.engine.close_lease(&mut rig.store, ended);
    let later = begun(&mut rig, 1001);
    // One that took few records is not renewed at once.
    assert!((10..20).all(|n| rig.engine.put_beside(&rig.store, later, &numbered(n), b"some")));
    assert!(!rig.engine.put_beside(&rig.store, ended, &numbered(1), b"by the ended one"));
    rig.put_leased(ended, &numbered(2), b"without a lease").unwrap();
    rig.engine.close_lease(&mut rig.store, ended);
    rig.put_leased(later, &numbered(3), b"renewed").unwrap();
    assert!(rig.engine.put_beside(&rig.store, later, &numbered(4), b"by the later one"));
    rig.reopen();
    let of_new_engine = begun(&mut rig, 1002);
    assert!(!rig.engine.put_beside(&rig.store, later, &numbered(5), b"of the engine before"));
    assert!(rig.engine.put_beside(&rig.store, of_new_engine, &numbered(6), b"of this one"));
    assert!(rig.get(&numbered(1)).is_err() && rig.get(&numbered(5)).is_err());
    assert_eq!(rig.get(&numbered(2)).unwrap(), b"without a lease");
}

#[test]
fn leases_keep_within_the_capacity() {
    let mut rig = rig();
    let leases = [lease(&mut rig), lease(&mut rig)];
    let mut stored = 0;
    while rig.put_leased(leases[stored as usize % 2], &numbered(stored), &value(stored, 300)).is_ok() {
        stored += 1;
    }
    rig.engine.take_in(&mut rig.store);
    assert!(rig.engine.used_bytes() <= rig.engine.capacity_bytes());
    let left = rig.engine.capacity_bytes() - rig.engine.used_bytes();
    assert!(left < 1000, "{left} bytes are left of {}", rig.engine.capacity_bytes());
    assert!((0..stored).all(|n| rig.get(&numbered(n)).unwrap() == value(n, 300)));
}

#[test]
fn a_lease_that_is_recalled_before_it_took_much_is_renewed_some_stores_later() {
    let mut rig = rig();
    let lease = begun(&mut rig, 1000);
    assert!(rig.engine.put_beside(&rig.store, lease, &numbered(1), b"first"));
    rig.engine.take_in(&mut rig.store);
    let by_itself = |rig: &mut Rig, n: u64| rig.engine.put_beside(&rig.store, lease, &numbered(n), b"next");
    let mut waited = 0;
    while !by_itself(&mut rig, waited) {
        rig.put_leased(lease, &numbered(waited), b"next").unwrap();
        waited += 1;
        assert!(waited < 1000, "it is never renewed");
    }
    assert!(waited > 10, "renewed after {waited} stores");
    for n in 100..110 {
        assert!(by_itself(&mut rig, n));
    }
    rig.engine.take_in(&mut rig.store);
    rig.put_leased(lease, &numbered(200), b"next").unwrap();
    assert!(by_itself(&mut rig, 201), "one that took more is renewed at once");
}
