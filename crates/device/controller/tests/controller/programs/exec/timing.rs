//! Modelled time of an Exec: that of its reads of flash.

use byway_controller::Next;
use byway_flash::Cause;
use byway_spec::kv::KvOpcode;

use super::lasting::{advance, begin, running};
use super::*;

/// More than the open pages of a key-value namespace hold, so that most of it is on flash.
const LONG_BYTES: usize = 700 << 10;

/// A value whose programs end within their command, if they are short.
const SHORT_BYTES: usize = 8 << 10;

/// A device in modelled time whose values `short` and `long` are on flash.
fn timed(program: &[[u8; 8]]) -> TestHost {
    let mut host = running(program);
    store(&mut host, b"short", &[7; SHORT_BYTES]);
    // What the open pages hold when the last value comes.
    (0..2 * LONG_BYTES / SHORT_BYTES)
        .for_each(|other| store(&mut host, &other.to_le_bytes(), &[7; SHORT_BYTES]));
    store(&mut host, b"long", &vec![7; LONG_BYTES]);
    host.meter.set_timing(true);
    host.now_ps = 1_000_000_000_000;
    host
}

/// `r0 = 8; exit`: an output of 8 zeroes.
const LENGTH: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 8, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// Modelled picoseconds and pages of flash read until the completion that is due next, which is a success.
fn cost(host: &mut TestHost, run: impl FnOnce(&mut TestHost)) -> (u64, u64) {
    let (status, cost_ps, pages) = outcome(host, run);
    assert!(status.is_success());
    (cost_ps, pages)
}

/// Status of the completion that is due next, with modelled picoseconds and pages of flash read until then.
fn outcome(host: &mut TestHost, run: impl FnOnce(&mut TestHost)) -> (Status, u64, u64) {
    let (begun_ps, before) = (host.now_ps, pages_read(host));
    run(host);
    let Next::At(due_ps) = host.next else { panic!("no completion is due") };
    host.now_ps = due_ps;
    host.run();
    let status = host.reap(1).unwrap().status();
    host.now_ps += 1_000_000_000_000;
    (status, due_ps - begun_ps, pages_read(host) - before)
}

fn pages_read(host: &TestHost) -> u64 {
    host.subsystem.flash().counters()[Cause::Host].reads
}

fn retrieve(host: &mut TestHost) {
    let mut command = Command::new(KvOpcode::RETRIEVE.0, 0, KV);
    command.set_key(b"long");
    command.cdw10 = LONG_BYTES as u32;
    command.cdw11 = KvCdw11::new().with_key_len(4).into_bits();
    let at = host.alloc(LONG_BYTES);
    host.point_prps(&mut command, at, LONG_BYTES);
    host.submit(1, command);
    host.ring(1);
    host.run();
}

/// `r0 = *(u8 *)0`, which no program may read.
const FAILING: [[u8; 8]; 3] =
    [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x71, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

fn exec_long(host: &mut TestHost) {
    begin(host, b"long", 8);
    advance(host);
}

#[test]
fn exec_reads_each_page_of_flash_once_and_all_of_them_from_its_command_on() {
    let mut host = timed(&LENGTH);
    let (retrieve_ps, retrieved_pages) = cost(&mut host, retrieve);
    let (exec_ps, exec_pages) = cost(&mut host, exec_long);
    assert!(retrieved_pages > 20, "{retrieved_pages} pages come from flash");
    assert_eq!(exec_pages, retrieved_pages);
    // The value of a Retrieve crosses the link, too.
    assert!(exec_ps <= retrieve_ps, "{exec_ps} ps, Retrieve {retrieve_ps} ps");
}

#[test]
fn exec_that_fails_completes_once_its_reads_of_flash_have_ended() {
    for key in [&b"short"[..], b"long"] {
        let exec = |host: &mut TestHost| {
            begin(host, key, 8);
            advance(host);
        };
        let (ended_ps, ended_pages) = cost(&mut timed(&LENGTH), exec);
        let (status, failed_ps, failed_pages) = outcome(&mut timed(&FAILING), exec);
        assert_eq!((status.code(), failed_pages), (Status::INVALID_PROGRAM_DATA, ended_pages));
        assert!(ended_pages > 0);
        // The output crosses the link, too.
        assert!(failed_ps * 10 > ended_ps * 9, "{failed_ps} ps, {ended_ps} ps with an output");
    }
}
