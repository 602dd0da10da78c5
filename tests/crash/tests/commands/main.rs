//! Any commands, on any small device, against a plain map; with devices that are closed, dropped, killed, cut off from
//! power, copied and resized in between. Failures are shrunk and saved beside this file, in `found.txt`, and tried again in
//! each run. A run of so many cases: `BYWAY_TEST_CASES=2000`.
#![allow(clippy::unwrap_used)]

mod bomb;
mod expected;
mod life;
mod op;
mod open;
mod run;
mod seen;
mod setup;

use std::cell::RefCell;

use byway::Method;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use crate::life::Life;
use crate::op::{Op, any_ops, expand};
use crate::run::Run;
use crate::seen::Seen;
use crate::setup::{Setup, any_setup};

/// Cases of a run; of any other run, as many as the environment says.
const CASES: u32 = 16;

fn config() -> Config {
    let cases = std::env::var("BYWAY_TEST_CASES").ok().map_or(CASES, |cases| cases.parse().unwrap());
    let found = FileFailurePersistence::Direct("tests/commands/found.txt");
    Config { cases, max_shrink_iters: 3000, failure_persistence: Some(Box::new(found)), ..Config::default() }
}

#[test]
fn a_device_is_a_map_that_survives_whatever_comes_between_commands() {
    let (config, seen) = (config(), RefCell::new(Seen::default()));
    let enough = config.cases >= CASES;
    let ran = TestRunner::new(config).run(&(any_setup(), any_ops()), |(setup, ops)| {
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
fn what_failed_once_does_not_fail_again() {
    let setup = Setup {
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
    let go = |setup, ops: &[Op]| Run::new(setup).go(&expand(ops.to_vec()));
    let (put, churn) = (|key| Op::Put { key, len: 0 }, |seed, steps| Op::Churn { seed, steps });
    go(setup, &[churn(0, 23), Op::FormatBlocks { erase: true }]);
    go(setup, &[put(0), Op::FormatPairs { erase: true }, churn(0, 23), Op::Snapshot]);
    let full =
        [put(16), churn(50509, 93), churn(46231, 484), put(0), churn(6781, 18), churn(25956, 188), put(0)];
    let byte_store = Op::PutByBytes { key: 0, len: 5000 };
    go(Setup { method: Method::Cxl, ..setup }, &[&full[..], &[byte_store]].concat());
}

#[test]
fn a_process_that_is_told_of_a_life_lives_it() {
    Life::live_if_told();
}
