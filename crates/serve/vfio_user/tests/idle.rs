//! An idle server sleeps: it uses no processor time.
//!
//! One test alone in its process, whose threads are then the server's.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::time::Duration;

use byway_spec::Command;
use byway_spec::nvm::NvmOpcode;
use common::{Host, Served};

/// How often the server's thread has gone to sleep so far.
fn sleeps() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let server = threads.into_iter().find(|thread| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == common::SERVER)
    });
    let status = fs::read_to_string(server.unwrap().join("status")).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// Says nothing until the server sleeps, and then for a while; how often it woke. On a busy machine it may take long to come
/// to rest: one that wakes of its own does so each time.
fn wakes_of_its_own() -> u64 {
    let wakes = || {
        std::thread::sleep(Duration::from_millis(300));
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(700));
        sleeps() - before
    };
    (0..20).map(|_| wakes()).find(|wakes| *wakes == 0).unwrap_or_else(wakes)
}

#[test]
fn idle_server_sleeps_whatever_a_client_did_before() {
    let served = Served::new();
    assert_eq!(wakes_of_its_own(), 0, "without a client");
    let mut host = Host::new(&served);
    assert_eq!(wakes_of_its_own(), 0, "with queues");
    host.write_blocks(0, &[1; 512]);
    assert_eq!(wakes_of_its_own(), 0, "after a command");
    host.restart_with_doorbells_at(0x10000);
    assert_eq!(wakes_of_its_own(), 0, "with doorbell buffers");
    for _ in 0..500 {
        host.submit(1, &Command::new(NvmOpcode::FLUSH.0, 0, 1));
        host.ring(1);
        assert!(host.reap(1).status().is_success());
    }
    assert_eq!(wakes_of_its_own(), 0, "after it has looked into doorbell buffers");
}
