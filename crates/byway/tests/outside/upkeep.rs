//! Upkeep by threads that have nothing to execute.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use byway::BackendQueue;
use byway::embedded::EmbeddedDevice;
use byway_kit::{Random, tagged};

const KEYS: u64 = 46_000;

fn value(n: u64, version: u64) -> Vec<u8> {
    tagged(version, n, 400)
}

/// A device that is nearly full.
fn filled(upkeep: &str) -> EmbeddedDevice {
    let uri = format!("ram:48M?memtable=256K&cache=1M&upkeep={upkeep}");
    let device = byway::embedded::open(&uri).unwrap();
    let mut kv = device.kv(None).unwrap();
    for n in 0..KEYS {
        match kv.put(&n.to_be_bytes(), &value(n, 0)) {
            Ok(()) => {}
            Err(error) => panic!("{n}: {error}"),
        }
    }
    drop(kv);
    device
}

/// Overwrites at random until `done`; the version of each key.
fn overwrite(device: &EmbeddedDevice, mut done: impl FnMut(u64) -> bool) -> Vec<u64> {
    let (mut kv, mut random, mut versions) =
        (device.kv(None).unwrap(), Random::new(1), vec![0; KEYS as usize]);
    for version in 1.. {
        let n = random.below(KEYS);
        kv.put(&n.to_be_bytes(), &value(n, version)).unwrap();
        versions[n as usize] = version;
        if done(version) {
            break;
        }
    }
    versions
}

fn check(device: &EmbeddedDevice, versions: &[u64]) {
    let mut kv = device.kv(None).unwrap();
    for (n, version) in (0..).zip(versions) {
        assert_eq!(kv.get(&u64::to_be_bytes(n)).unwrap().unwrap(), value(n, *version), "{n}");
    }
}

#[test]
fn queue_without_commands_pays_what_another_owes() {
    let device = filled("idle");
    let stop = AtomicBool::new(false);
    let versions = std::thread::scope(|scope| {
        let poll = || {
            let mut queue = device.queue().unwrap();
            while !stop.load(Relaxed) {
                assert_eq!(queue.poll(1, &mut |_| {}).unwrap(), 0);
            }
        };
        let idle = scope.spawn(poll);
        // Compaction and the index need work now; how much of it the other thread has done is looked for now and then.
        let has_helped = |version: u64| version.is_multiple_of(4096) && device.upkeep().quanta.count > 100;
        let versions = overwrite(&device, has_helped);
        stop.store(true, Relaxed);
        idle.join().unwrap();
        versions
    });
    check(&device, &versions);
}

#[test]
fn device_without_commands_goes_quiet() {
    let device = filled("thread");
    let versions = overwrite(&device, |version| version >= KEYS / 2 && device.upkeep().quanta.count > 0);
    while device.owes_upkeep() {
        std::thread::yield_now();
    }
    let quiet = device.upkeep();
    let stats = device.kv_stats(byway::Nsid::FIRST).unwrap();
    check(&device, &versions);
    assert_eq!(device.upkeep(), quiet, "gets cause no upkeep");
    let after = device.kv_stats(byway::Nsid::FIRST).unwrap();
    assert_eq!((after.index, after.compaction), (stats.index, stats.compaction));
}

#[test]
fn commands_pay_for_upkeep_where_no_thread_does() {
    let device = filled("off");
    let mut queue = device.queue().unwrap();
    let versions = overwrite(&device, |version| {
        assert_eq!(queue.poll(1, &mut |_| {}).unwrap(), 0);
        version == KEYS / 4
    });
    assert_eq!(device.upkeep().quanta.count, 0);
    check(&device, &versions);
}
