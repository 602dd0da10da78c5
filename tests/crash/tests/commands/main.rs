//! Any commands, on any small device, against a plain map; with devices that are closed, dropped, killed, cut off from
//! power, copied and resized in between. Failures are shrunk and saved beside this file, in `found.txt`, and tried again in
//! each run. A run of so many cases: `BYWAY_TEST_CASES=2000`.
#![allow(clippy::unwrap_used)]

mod expected;
mod life;
mod loss;
mod op;
mod open;
mod power_cut;
mod run;
mod seen;
mod setup;

use std::cell::RefCell;

use byway::Method;
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};

use crate::life::Life;
use crate::op::{Op, any_ops, expand};
use crate::run::Run;
use crate::seen::Seen;
use crate::setup::{Setup, any_setup};

/// Cases of a run, always the same; of any other run, as many new ones as the environment says.
const CASES: u32 = 16;
/// Number of cases, enough to reach every kind of event.
const ENOUGH: u32 = 200;

fn runner() -> TestRunner {
    let asked: Option<u32> = std::env::var("BYWAY_TEST_CASES").ok().map(|cases| cases.parse().unwrap());
    let found = FileFailurePersistence::Direct("tests/commands/found.txt");
    let config = Config {
        cases: asked.unwrap_or(CASES),
        max_shrink_iters: 3000,
        failure_persistence: Some(Box::new(found)),
        ..Config::default()
    };
    match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

#[test]
fn a_device_is_a_map_that_survives_whatever_comes_between_commands() {
    let (mut runner, seen) = (runner(), RefCell::new(Seen::default()));
    let enough = runner.config().cases >= ENOUGH;
    let ran = runner.run(&(any_setup(), any_ops()), |(setup, ops)| {
        seen.borrow_mut().add(&Run::new(setup).go(&expand(ops)));
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
    let seen = seen.into_inner();
    println!("{seen:?}");
    assert!(!enough || seen.is_all_of_it(), "not everything was met: {seen:?}");
}

/// Sequences that found a fault, as they were shrunk: an erasing format that wiped pages of another namespace, a snapshot of
/// a hole, a byte store behind a refused store through a window.
#[test]
fn sequences_that_failed_before_pass() {
    let setup = PLAIN;
    let (put, churn) = (|key| Op::Put { key, len: 0 }, |seed, steps| Op::Churn { seed, steps });
    go(setup, &[churn(0, 23), Op::FormatBlocks { erase: true }]);
    go(setup, &[put(0), Op::FormatPairs { erase: true }, churn(0, 23), Op::Snapshot]);
    let full =
        [put(16), churn(50509, 93), churn(46231, 484), put(0), churn(6781, 18), churn(25956, 188), put(0)];
    let byte_store = Op::PutByBytes { key: 0, len: 5000 };
    go(Setup { method: Method::Cxl, ..setup }, &[&full[..], &[byte_store]].concat());
}

#[test]
fn a_deletion_has_room_in_a_namespace_of_few_segments() {
    let churn = |(seed, steps)| Op::Churn { seed, steps };
    let mut ops = vec![Op::Put { key: 0, len: 0 }, Op::Put { key: 0, len: 96 }];
    ops.extend([(19283, 311), (6711, 215), (46154, 316)].map(churn));
    ops.push(Op::Close);
    ops.extend([(40507, 273), (12945, 352)].map(churn));
    go(Setup { method: Method::Cxl, ..PLAIN }, &ops);
}

/// What most faults were found with.
const PLAIN: Setup = Setup {
    profile: "cosmos",
    method: Method::Prp,
    lba_bytes: 512,
    over_provisioning_percent: 10,
    memtable: "2K",
    packing: "all",
    flush: "process",
    run: "caller",
    gc: "greedy",
};

fn go(setup: Setup, ops: &[Op]) {
    Run::new(setup).go(&expand(ops.to_vec()));
}

#[test]
fn a_process_runs_the_life_of_its_environment() {
    Life::run_if_asked();
}
