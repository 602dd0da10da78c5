//! Stress of the executor from outside, by a host that knows registers, doorbells, memory and NVMe entries alone: threads come and
//! go and hand on queue pairs with commands under way, while another one deletes and creates queues, aborts, resets and looks.
//!
//! Every command is answered once, or never once its queue is deleted or reset. What is read is what was stored. Memory of an
//! earlier life of a queue is never written again.
//!
//! Decisions follow from a seed; how threads interleave does not. A run of so many acts: `BYWAY_TEST_CASES=20000`.
#![allow(clippy::unwrap_used)]

mod admin;
mod cells;
mod commands;
mod heads;
mod host;
mod memory;
mod operator;
mod pair;
mod rights;
mod ring;
mod stage;

use std::sync::atomic::Ordering::SeqCst;

use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_executor::{Embedded, RunBy, RunOptions};
use byway_flash::{Durability, Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
use byway_kit::{Random, cases};
use byway_kv::KvOptions;
use byway_link::Profile;
use byway_queue::DoorbellIndex;

use commands::LBA_BYTES;
use host::Host;
use operator::Operator;
use pair::{Owner, Pair};
use stage::{Count, Seen, Stage};

const MIB: u64 = 1 << 20;

/// Queue pairs, each with an owner.
const OWNERS: u16 = 6;

/// Threads that load the queues at one time: fewer than pairs, so that some pairs always wait with commands under way.
const WORKERS: u64 = 4;

/// Queues that the device can have and the host never creates.
const NO_QUEUES: std::ops::RangeInclusive<u64> = 100..=128;

/// How the device runs.
#[derive(Debug, Clone, Copy)]
enum Runs {
    /// For a host in this process.
    By(RunBy),
    /// For a host in another process, with threads that share the queues.
    Served,
}

/// A device in memory with a namespace of keys and one of blocks.
fn device(runs: Runs, durability: Durability) -> (Embedded, Host) {
    let profile = Profile::by_name("gen4x4").unwrap();
    let run = byway_flash::RunOptions::default().durability(durability);
    let options = FlashOptions::new(160 * MIB, profile.flash, MediaKind::Ram).uuid([7; 16]).run(run);
    let namespace = |kind, size_bytes| NamespaceSpec { nsid: None, kind, size_bytes };
    let nvm = NamespaceKind::Nvm { lba_bytes: LBA_BYTES as u32 };
    let flash =
        Flash::create(options, &[namespace(NamespaceKind::Kv, 128 * MIB), namespace(nvm, 16 * MIB)]).unwrap();
    let identity = Identity {
        nqn: "nqn.2026-01.example:byway:stress".to_owned(),
        serial: "STRESS01".to_owned(),
        model: "Byway software SSD".to_owned(),
    };
    let kv = KvOptions::default().memtable_bytes(MIB as usize).cache_bytes(MIB as usize);
    let subsystem = Subsystem::new(identity, profile, flash, SubsystemOptions::default().kv(kv)).unwrap();
    let Runs::By(run_by) = runs else { return Host::serve(subsystem) };
    let embedded = Embedded::start(subsystem, RunOptions::default().run_by(run_by)).unwrap();
    let host = Host::of(&embedded);
    (embedded, host)
}

/// A thread that takes over some pairs, loads them, hands them on and ends.
fn stint(stage: &Stage, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..=random.below(6) {
        let Some(mut pair) = stage.take(&mut random) else { return std::thread::yield_now() };
        for _ in 0..=random.below(40) {
            if pair.is_dead() {
                break;
            }
            pair.step(stage);
        }
        stage.give(pair);
    }
}

/// Threads that follow each other, until the run is over.
fn work(stage: &Stage, seed: u64) {
    for n in 0.. {
        if stage.is_over() {
            return;
        }
        let seed = seed.wrapping_add(n << 8);
        let stint = std::thread::scope(|scope| scope.spawn(|| stage.guarded(|| stint(stage, seed))).join());
        stint.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Counters of the device, under its run lock and beside it, from a thread that has no queue.
fn look(stage: &Stage, seed: u64) {
    let (mut random, handle) = (Random::new(seed), stage.embedded.handle());
    let mut moved_bytes = 0;
    while !stage.is_over() {
        stage.wait_for_answers(1 + random.below(600));
        match random.below(4) {
            0 => {
                let ledger = stage.embedded.ledger();
                assert!(ledger.payload_bytes() >= moved_bytes, "the ledger forgets");
                moved_bytes = ledger.payload_bytes();
            }
            1 => stage.embedded.with_subsystem(|subsystem| assert!(subsystem.flash().used_bytes() > 0)),
            2 => assert_eq!(handle.snapshot().unwrap().space.len(), 2),
            _ => stage.embedded.set_ledger(random.one_in(2)),
        }
    }
}

/// Doorbells of queues that never exist, at any time.
fn ring_nothing(stage: &Stage, seed: u64) {
    let mut random = Random::new(seed);
    while !stage.is_over() {
        let qid = (NO_QUEUES.start() + random.below(NO_QUEUES.count() as u64)) as u16;
        let value = random.below(1 << 17) as u32;
        stage.host.ring(DoorbellIndex::submission(qid), value);
        stage.host.ring(DoorbellIndex::completion(qid), value);
        if stage.is_resetting.load(SeqCst) {
            std::thread::yield_now();
        } else {
            stage.wait_for_answers(1 + random.below(100));
        }
    }
}

/// A run of `acts` acts of the operator.
fn run(runs: Runs, durability: Durability, seed: u64, acts: u32) {
    let stage = Stage::new(device(runs, durability));
    let owners = (0..OWNERS).map(|number| Owner::new(number, seed)).collect();
    let mut operator = Operator::start(&stage, owners, seed);
    std::thread::scope(|scope| {
        let stage = &stage;
        for worker in 0..WORKERS {
            scope.spawn(move || stage.guarded(|| work(stage, seed << 8 | worker)));
        }
        scope.spawn(move || stage.guarded(|| look(stage, seed)));
        scope.spawn(move || stage.guarded(|| ring_nothing(stage, seed)));
        stage.guarded(|| (0..acts).for_each(|_| operator.act()));
        stage.end();
    });
    let pairs: Vec<Pair> = std::iter::from_fn(|| stage.take(&mut Random::new(seed))).collect();
    assert_eq!(pairs.len(), usize::from(OWNERS));
    let Seen { answers, unanswered, handed_on, full_rings } = &stage.seen;
    let met = [answers, unanswered, handed_on, full_rings].map(Count::get);
    assert!(acts < 100 || met.iter().all(|count| *count > 0), "the run is no stress: {:?}", stage.seen);
    println!("{:?}", stage.seen);
    operator.finish(pairs.into_iter().map(|pair| pair.settle(&stage)).collect());
}

#[test]
fn queues_run_by_callers_under_churn_deletes_aborts_and_resets() {
    run(Runs::By(RunBy::Caller), Durability::Process, 1, cases(280));
}

#[test]
fn queues_run_by_a_thread_under_churn_deletes_aborts_and_resets() {
    run(Runs::By(RunBy::Thread), Durability::Process, 2, cases(200));
}

#[test]
fn queues_that_wait_for_syncs_under_churn_deletes_aborts_and_resets() {
    run(Runs::By(RunBy::Caller), Durability::Media, 3, cases(200));
}

#[test]
fn queues_synced_by_a_thread_under_churn_deletes_aborts_and_resets() {
    run(Runs::By(RunBy::Thread), Durability::Media, 4, cases(200));
}

#[test]
fn queues_of_a_served_device_under_churn_deletes_aborts_and_resets() {
    run(Runs::Served, Durability::Process, 5, cases(200));
}
