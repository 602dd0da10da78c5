//! Queues of threads that contend for the device are delegated, and reclaimed when the controller is needed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use byway::embedded::{EmbeddedDevice, EmbeddedQueue};
use byway::{BackendQueue, Class, Key, KvCommand, Ledger, Method, Nsid, Payload, StoreOptions};
use byway_kit::tagged;

const THREADS: u32 = 3;
const ROUNDS: u32 = 60;
const DEPTH: u32 = 24;

fn key(thread: u32, n: u32) -> Key {
    Key::new(&[thread.to_be_bytes(), n.to_be_bytes()].concat()).unwrap()
}

fn value(thread: u32, n: u32, round: u32) -> Vec<u8> {
    tagged(round.into(), (thread * DEPTH + n).into(), 20 + n as usize % 60)
}

fn drain(queue: &mut EmbeddedQueue, mut wanted: impl FnMut(u64, Option<&[u8]>)) {
    while queue.outstanding() > 0 {
        let mut take = |finished: byway::Finished| {
            let outcome = finished.result.unwrap();
            let len = outcome.answer.dw0 as usize;
            wanted(finished.tag, outcome.buffer.as_ref().map(|buffer| &buffer.as_slice()[..len]));
        };
        queue.wait(1, Duration::from_secs(60), &mut take).unwrap();
    }
}

/// Stores and reads, many at a time, and now and then a command that no delegated queue takes.
fn work(device: &EmbeddedDevice, thread: u32) {
    let transfer = [Method::Hybrid, Method::Inline, Method::Prp][thread as usize];
    let mut queue = device.queue_with(device.queue_options().transfer(transfer).depth(DEPTH)).unwrap();
    for round in 0..ROUNDS {
        for n in 0..DEPTH {
            let store = KvCommand::Store {
                nsid: Nsid::FIRST,
                key: key(thread, n),
                value: Payload::copy_of(&value(thread, n, round)).unwrap(),
                options: StoreOptions::NONE,
            };
            queue.submit(store.into(), u64::from(n)).unwrap();
        }
        drain(&mut queue, |_, _| {});
        for n in 0..DEPTH {
            let into = device.driver().buffer(100).unwrap();
            let retrieve = KvCommand::Retrieve { nsid: Nsid::FIRST, key: key(thread, n), into };
            queue.submit(retrieve.into(), u64::from(n)).unwrap();
        }
        drain(&mut queue, |n, read| assert_eq!(read.unwrap(), value(thread, n as u32, round)));
        if round % 16 == 7 {
            queue.execute_flush(Nsid::FIRST).unwrap();
        }
        assert!(queue.execute_exist(Nsid::FIRST, &key(thread, round % DEPTH)).unwrap());
    }
}

/// Ledger rows of the threads' commands, whichever thread served them. Counts of doorbells and interrupts depend on timing.
fn moved(device: &EmbeddedDevice, before: &Ledger) -> Vec<(Class, u64, u64)> {
    let kinds =
        [Class::CommandFetch, Class::ChunkFetch, Class::DataRead, Class::DataWrite, Class::Completion];
    let ledger = device.ledger().since(before);
    kinds.map(|class| (class, ledger.row(class).count, ledger.row(class).cost.wire_bytes())).to_vec()
}

#[test]
fn concurrent_threads_count_and_answer_as_sequential_ones() {
    const URI: &str = "ram:256M?profile=gen4x4";
    let alone = byway::embedded::open(URI).unwrap();
    let before = alone.ledger();
    (0..THREADS).for_each(|thread| work(&alone, thread));
    let wanted = moved(&alone, &before);

    let device = byway::embedded::open(URI).unwrap();
    let before = device.ledger();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = &device;
            scope.spawn(move || work(device, thread));
        }
    });
    assert_eq!(moved(&device, &before), wanted);
}

#[test]
fn whole_device_is_locked_while_queues_are_delegated() {
    let device = byway::embedded::open("ram:256M").unwrap();
    let (looks, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (device, looks, is_over) = (&device, &looks, &is_over);
        let busy = move |thread| {
            // However late the one that looks is given a processor, it finds queues away.
            for _ in 0..1000 {
                work(device, thread);
                if looks.load(SeqCst) > 0 {
                    return;
                }
            }
        };
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || busy(thread))).collect();
        let looker = scope.spawn(move || {
            while !is_over.load(SeqCst) {
                assert_eq!(device.namespaces().unwrap().len(), 2);
                let now = device.ledger();
                assert!(device.ledger().since(&now).wire_bytes() < u64::MAX / 2);
                let mut kv = device.kv(None).unwrap();
                let look = looks.load(SeqCst).to_be_bytes();
                kv.put(b"looker", &look).unwrap();
                assert_eq!(kv.get(b"looker").unwrap().unwrap(), look);
                looks.fetch_add(1, SeqCst);
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        is_over.store(true, SeqCst);
        looker.join().unwrap();
        assert!(looks.load(SeqCst) > 0);
    });
}

/// Blocks of 4 KiB that threads read while one writes.
const BLOCKS: u64 = 300;
const WRITES: u64 = 20_000;

/// What each block was last begun to be written with, and acknowledged.
struct Written([Vec<AtomicU64>; 2]);

impl Written {
    fn new() -> Self {
        Self([(); 2].map(|()| (0..BLOCKS).map(|_| AtomicU64::new(0)).collect()))
    }

    fn write(&self, blocks: &mut byway::Nvm, block: u64, version: u64) {
        let Self([begun, acknowledged]) = self;
        begun[block as usize].store(version, SeqCst);
        blocks.write(block * lbas(blocks), &tagged(version, block, 4096)).unwrap();
        acknowledged[block as usize].store(version, SeqCst);
    }

    fn check(&self, blocks: &mut byway::Nvm, block: u64) {
        let Self([begun, acknowledged]) = self;
        let oldest = acknowledged[block as usize].load(SeqCst);
        let mut read = [1; 4096];
        blocks.read(block * lbas(blocks), &mut read).unwrap();
        let newest = begun[block as usize].load(SeqCst);
        let is_current = (oldest..=newest).any(|version| match version {
            0 => read == [0; 4096],
            _ => read == *tagged(version, block, 4096),
        });
        assert!(is_current, "block {block} is of none of the versions {oldest} to {newest}");
    }
}

fn lbas(blocks: &byway::Nvm) -> u64 {
    4096 / u64::from(blocks.lba_bytes())
}

#[test]
fn blocks_that_threads_read_while_another_writes_are_whole_and_current() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let options = byway::CreateOptions::new(8 << 20).namespaces([byway::NewNamespace::NVM]);
    byway::create(&path, &options).unwrap();
    for uri in [format!("embedded:{}", path.display()), "ram:64M".into()] {
        let device = byway::embedded::open(&uri).unwrap();
        let (written, is_over) = (Written::new(), AtomicBool::new(false));
        let reads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for first in 0..2 {
                let (device, written, is_over, reads) = (&device, &written, &is_over, &reads);
                scope.spawn(move || {
                    let mut blocks = device.nvm(None).unwrap();
                    let mut numbers = byway_kit::Random::new(first);
                    while !is_over.load(SeqCst) {
                        written.check(&mut blocks, numbers.below(BLOCKS));
                        reads.fetch_add(1, SeqCst);
                    }
                });
            }
            let mut blocks = device.nvm(None).unwrap();
            let mut numbers = byway_kit::Random::new(7);
            for version in 1..=WRITES {
                written.write(&mut blocks, numbers.below(BLOCKS), version);
            }
            is_over.store(true, SeqCst);
        });
        let host = device.flash().counters.host;
        assert_eq!((host.reads, host.writes), (reads.load(SeqCst), WRITES), "{uri}");
    }
}

/// Keys that a writer overwrites. Every other one is also deleted at times.
const KEYS: u32 = 400;

/// Bytes of a value: of several lengths, so that readers meet records of other shapes.
fn versioned(n: u32, version: u32) -> Vec<u8> {
    tagged(version.into(), n.into(), 40 + (n * 7 + version) as usize % 300)
}

/// Reads keys again and again: a value is whole, that of its key, no older than what was acknowledged before the get began, and
/// no newer than what was begun when it ended.
fn read_beside_writer(
    device: &EmbeddedDevice,
    [begun, acknowledged]: [&[AtomicU32]; 2],
    is_over: &AtomicBool,
) {
    let mut kv = device.kv(None).unwrap();
    for n in (0..KEYS).cycle() {
        if n == 0 && is_over.load(SeqCst) {
            return;
        }
        let oldest = acknowledged[n as usize].load(SeqCst);
        let found = kv.get(key(9, n).as_bytes()).unwrap();
        let newest = begun[n as usize].load(SeqCst);
        match found {
            Some(found) => {
                let is_one = (oldest..=newest).any(|version| found == versioned(n, version));
                assert!(is_one, "key {n}: none of versions {oldest} to {newest}");
            }
            None => assert!(n % 2 == 1, "key {n} is always there"),
        }
    }
}

#[test]
fn readers_beside_a_writer_see_whole_values_no_older_than_acknowledged() {
    let device = byway::embedded::open("ram:256M").unwrap();
    let versions = || (0..KEYS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
    let (begun, acknowledged, is_over) = (versions(), versions(), AtomicBool::new(false));
    let mut kv = device.kv(None).unwrap();
    (0..KEYS).for_each(|n| kv.put(key(9, n).as_bytes(), &versioned(n, 0)).unwrap());
    std::thread::scope(|scope| {
        let (device, begun, acknowledged, is_over) = (&device, &begun, &acknowledged, &is_over);
        let readers: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(move || read_beside_writer(device, [begun, acknowledged], is_over)))
            .collect();
        for version in 1..150 {
            for n in 0..KEYS {
                begun[n as usize].store(version, SeqCst);
                if n % 2 == 1 && version % 3 == 0 {
                    kv.delete(key(9, n).as_bytes()).unwrap();
                }
                kv.put(key(9, n).as_bytes(), &versioned(n, version)).unwrap();
                acknowledged[n as usize].store(version, SeqCst);
            }
            // Fills pages, so that records leave protected memory.
            kv.put(key(8, version).as_bytes(), &[7; 4000]).unwrap();
        }
        is_over.store(true, SeqCst);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// A store of a key: when it was begun and acknowledged, by a clock that counts.
struct Stored {
    key: u32,
    begun: u64,
    acknowledged: u64,
    value: Vec<u8>,
}

#[test]
fn threads_that_store_the_same_keys_leave_what_was_stored_last() {
    const KEYS: u32 = 20;
    let device = byway::embedded::open("ram:256M").unwrap();
    let clock = AtomicU64::new(0);
    let store = |thread: u32| {
        let (mut kv, mut numbers) = (device.kv(None).unwrap(), byway_kit::Random::new(thread.into()));
        let one = |n: u64| {
            let n_key = numbers.below(KEYS.into()) as u32;
            let value = tagged(n, thread.into(), 20 + n as usize % 200);
            let begun = clock.fetch_add(1, SeqCst);
            kv.put(key(7, n_key).as_bytes(), &value).unwrap();
            Stored { key: n_key, begun, acknowledged: clock.fetch_add(1, SeqCst), value }
        };
        (0..30_000).map(one).collect::<Vec<_>>()
    };
    let all: Vec<Stored> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || store(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut kv = device.kv(None).unwrap();
    for n in 0..KEYS {
        let found = kv.get(key(7, n).as_bytes()).unwrap().unwrap();
        let kept = all.iter().find(|stored| stored.key == n && stored.value == found).unwrap();
        let later = all.iter().any(|stored| stored.key == n && stored.begun > kept.acknowledged);
        assert!(!later, "key {n} has a value that was overwritten");
    }
    let host = device.flash().counters.host;
    assert_eq!(host.writes, all.len() as u64);
}

/// Threads that write, read and deallocate the same few blocks, one command at a time and several, beside one that asks the device.
#[test]
fn threads_that_write_the_same_blocks_leave_what_was_written_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    byway::create(&path, &byway::CreateOptions::new(8 << 20).namespaces([byway::NewNamespace::NVM])).unwrap();
    for uri in [format!("embedded:{}", path.display()), "ram:64M".into()] {
        let device = byway::embedded::open(&uri).unwrap();
        let (clock, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let all: Vec<Stored> = std::thread::scope(|scope| {
            let (device, clock) = (&device, &clock);
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || write_same_blocks(device, clock, thread)))
                .collect();
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    assert!(!device.namespaces().unwrap().is_empty());
                    device.nvm(None).unwrap().flush().unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
            let all = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            is_over.store(true, SeqCst);
            all
        });
        check_last(&device, &all);
        assert_eq!(device.flash().counters.host.writes, all.len() as u64, "{uri}");
        drop(device);
        if uri.starts_with("embedded") {
            check_last(&byway::embedded::open(&uri).unwrap(), &all);
        }
    }
}

/// Blocks that all threads write.
const SAME: u64 = 20;

fn write_same_blocks(device: &EmbeddedDevice, clock: &AtomicU64, thread: u32) -> Vec<Stored> {
    let (mut blocks, mut numbers) = (device.nvm(None).unwrap(), byway_kit::Random::new(thread.into()));
    let lbas = lbas(&blocks);
    let one = |n: u64| {
        // Its own blocks in between, so that pages are filled and collected.
        let block =
            numbers.below(SAME) + if n.is_multiple_of(3) { 0 } else { SAME + 100 * u64::from(thread) };
        let value = tagged(n + 1, u64::from(thread), 4096);
        let begun = clock.fetch_add(1, SeqCst);
        blocks.write(block * lbas, &value).unwrap();
        let acknowledged = clock.fetch_add(1, SeqCst);
        if block >= SAME {
            let mut read = [1; 4096];
            blocks.read(block * lbas, &mut read).unwrap();
            assert_eq!(read[..], value[..], "block {block} of its thread alone");
        }
        Stored { key: block as u32, begun, acknowledged, value }
    };
    (0..15_000).map(one).collect()
}

/// Checks that each block has what a write left that no other write came after.
fn check_last(device: &EmbeddedDevice, all: &[Stored]) {
    let mut blocks = device.nvm(None).unwrap();
    let lbas = lbas(&blocks);
    for block in 0..SAME + 100 * u64::from(THREADS) {
        let mut found = vec![1; 4096];
        blocks.read(block * lbas, &mut found).unwrap();
        let of_block = || all.iter().filter(|stored| u64::from(stored.key) == block);
        match of_block().find(|stored| stored.value == found) {
            Some(kept) => {
                let later = of_block().any(|stored| stored.begun > kept.acknowledged);
                assert!(!later, "block {block} has what was overwritten");
            }
            None => assert!(of_block().count() == 0 && found == [0; 4096], "block {block} is of no write"),
        }
    }
}

#[test]
fn gets_of_delegated_queues_are_counted_when_the_device_is_asked() {
    let device = byway::embedded::open("ram:256M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", &[1; 100]).unwrap();
    let reads = |device: &EmbeddedDevice| device.details().counters.host.reads;
    let before = reads(&device);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut kv = device.kv(None).unwrap();
                (0..3000).for_each(|_| assert_eq!(kv.get(b"key").unwrap().unwrap(), [1; 100]));
            });
        }
    });
    assert_eq!(reads(&device) - before, 3000 * u64::from(THREADS));
}
