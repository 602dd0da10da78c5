//! SIGKILL at random instants, in every workload and by every transfer method: what was acknowledged is there, whole,
//! and nothing else changed.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Kills of the same program that is run on record, in a process of its own: while a writer starts it holds whatever
/// the one that starts it has open.
fn nothing_is_lost(kills: u64, workloads: &[&str]) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_byway-crash-tests"));
    run.args(["--kills", &kills.to_string(), "--seed", "20261121"]);
    for workload in workloads {
        run.args(["--workload", workload]);
    }
    let ended = run.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    println!("{said}");
    assert!(ended.status.success() && said.contains(&format!("{kills} kept, 0 broken")), "{said}");
}

#[test]
fn killed_puts_and_overwrites_lose_nothing_acknowledged() {
    nothing_is_lost(48, &["put", "overwrite"]);
}

#[test]
fn killed_deletes_and_lists_lose_nothing_acknowledged() {
    nothing_is_lost(30, &["delete", "list"]);
}

#[test]
fn killed_writes_of_everything_lose_nothing_acknowledged() {
    nothing_is_lost(36, &["mixed", "bulk"]);
}

#[test]
fn killed_writers_of_a_full_namespace_lose_nothing_acknowledged() {
    nothing_is_lost(20, &["full"]);
}

#[test]
fn killed_writers_lose_nothing_acknowledged_while_logs_are_compacted_and_blocks_collected() {
    nothing_is_lost(18, &["worn"]);
}

#[test]
fn killed_writes_and_trims_of_blocks_lose_nothing_acknowledged() {
    nothing_is_lost(24, &["blocks"]);
}

#[test]
fn a_killed_format_forgets_everything_or_nothing_and_a_killed_making_leaves_an_image_or_none() {
    nothing_is_lost(24, &["format", "create"]);
}
