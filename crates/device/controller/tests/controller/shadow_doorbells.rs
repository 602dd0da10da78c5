//! Doorbells in host memory: a host that rings only when the device asked for it loses no command.

use crate::common::{MEMORY_AT, TestHost, nvm};
use byway_dma::BusAddr;
use byway_link::Class;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};

const MIB: u64 = 1 << 20;

/// A host with doorbell buffers, as Linux drives one.
struct ShadowHost {
    host: TestHost,
    shadow: BusAddr,
    events: BusAddr,
    rings: u32,
}

impl ShadowHost {
    fn new() -> Self {
        let mut host = TestHost::new(32 * MIB, &[nvm(8 * MIB, 512)]);
        let (shadow, events) = (host.alloc(4096), host.alloc(4096));
        assert!(configure(&mut host, shadow, events).is_success());
        Self { host, shadow, events, rings: 0 }
    }

    fn word(&self, buffer: BusAddr, entry: usize) -> u32 {
        self.host.memory.load_u32((buffer.0 - MEMORY_AT) as usize + entry * 4).unwrap()
    }

    /// Updates a doorbell as Linux does: the shadow, then the register if the event index was passed.
    fn update(&mut self, entry: usize, value: u32, ring: impl FnOnce(&TestHost)) {
        let old = self.word(self.shadow, entry) as u16;
        self.host.memory.store_u32((self.shadow.0 - MEMORY_AT) as usize + entry * 4, value).unwrap();
        let event = self.word(self.events, entry) as u16;
        let new = value as u16;
        if new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old) {
            self.rings += 1;
            ring(&self.host);
            self.host.run();
        }
    }

    fn submit(&mut self, qid: u16, count: u32) {
        for _ in 0..count {
            self.host.submit(qid, Command::new(NvmOpcode::FLUSH.0, 0, 1));
            let tail = self.host.tail(qid);
            self.update(2 * usize::from(qid), tail, |host| host.ring(qid));
        }
    }

    /// Takes every posted completion.
    fn take(&mut self, qid: u16) -> u32 {
        let mut taken = 0;
        while let Some(entry) = self.host.peek(qid) {
            assert!(entry.status().is_success());
            taken += 1;
        }
        let head = self.host.head(qid);
        let index = byway_queue::DoorbellIndex::completion(qid);
        self.update(2 * usize::from(qid) + 1, head, |host| host.ring_raw(index, head));
        taken
    }
}

fn configure(host: &mut TestHost, shadow: BusAddr, events: BusAddr) -> Status {
    let mut command = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0, 0);
    command.set_prps(shadow.0, events.0);
    host.admin(command).status()
}

#[test]
fn every_command_completes_though_the_host_rings_only_when_asked() {
    let mut shadow = ShadowHost::new();
    shadow.host.create_pair(1, 8);
    shadow.host.create_pair(2, 5);
    let mut done = 0;
    for round in 0..200 {
        let (qid, count) = if round % 3 == 0 { (2, 1 + round % 4) } else { (1, 1 + round % 7) };
        shadow.submit(qid, count);
        let taken = shadow.take(qid);
        assert_eq!(taken, count, "round {round}");
        done += taken;
    }
    assert!(shadow.rings < 2 * done, "heads are not rung while there is room");
    assert!(shadow.host.meter.ledger().row(Class::Shadow).count > 0);
}

#[test]
fn a_head_is_rung_for_when_its_queue_is_full() {
    let mut shadow = ShadowHost::new();
    let (cq, sq) = (shadow.host.alloc(4096), shadow.host.alloc(4096));
    assert!(shadow.host.create_cq(1, cq, 3, None).is_success());
    assert!(shadow.host.create_sq(1, sq, 16, 1).is_success());
    shadow.submit(1, 10);
    let mut done = 0;
    for _ in 0..10 {
        done += shadow.take(1);
    }
    assert_eq!(done, 10);
}

#[test]
fn a_full_queue_is_not_freed_by_a_register_older_than_the_shadow() {
    let mut shadow = ShadowHost::new();
    shadow.host.create_pair(1, 8);
    let sq = shadow.host.alloc(4096);
    assert!(shadow.host.create_sq(2, sq, 32, 1).is_success());
    for count in [7, 3, 3] {
        shadow.submit(2, count);
        assert_eq!(shadow.take(1), count);
    }
    // Here the register holds an older head than the buffer.
    let first = shadow.host.submit(2, Command::new(NvmOpcode::FLUSH.0, 0, 1));
    shadow.submit(2, 11);
    shadow.host.run();
    let mut expected = first;
    while let Some(entry) = shadow.host.peek(1) {
        assert_eq!(entry.cid, expected);
        expected += 1;
    }
    assert_eq!(expected - first, 7, "seven entries fit and none was written over");
}

#[test]
fn doorbell_register_is_ignored_for_a_shadowed_queue() {
    let mut shadow = ShadowHost::new();
    shadow.host.create_pair(1, 8);
    shadow.submit(1, 3);
    assert_eq!(shadow.take(1), 3);
    // Late word of an older tail: it must not be taken for a nearly full ring.
    shadow.host.ring_raw(byway_queue::DoorbellIndex::submission(1), 2);
    shadow.host.run();
    assert!(shadow.host.peek(1).is_none());
    shadow.submit(1, 2);
    assert_eq!(shadow.take(1), 2);
}

/// Submits a Compare and a Write of zeroes to queue 1 under one tail.
fn submit_pair(shadow: &mut ShadowHost, data: BusAddr) {
    for (opcode, fuse) in [(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST), (NvmOpcode::WRITE, Cdw0::FUSE_SECOND)] {
        let mut command = Command::new(opcode.0, 0, 1);
        command.cdw0.set_fuse(fuse);
        command.set_prps(data.0, 0);
        shadow.host.submit(1, command);
    }
    let tail = shadow.host.tail(1);
    shadow.update(2, tail, |host| host.ring(1));
}

#[test]
fn fused_commands_under_one_tail_are_executed_as_one() {
    let mut shadow = ShadowHost::new();
    shadow.host.create_pair(1, 8);
    let data = shadow.host.alloc(4096);
    for round in 0..10 {
        submit_pair(&mut shadow, data);
        assert_eq!(shadow.take(1), 2, "round {round}");
    }
}

#[test]
fn fused_commands_that_wait_for_a_second_place_are_rung_for_before_the_queue_is_full() {
    let mut shadow = ShadowHost::new();
    shadow.host.create_pair(1, 8);
    let data = shadow.host.alloc(4096);
    // Six of seven places are taken.
    shadow.submit(1, 6);
    submit_pair(&mut shadow, data);
    assert_eq!(shadow.take(1), 6);
    assert_eq!(shadow.take(1), 2);
}

#[test]
fn a_queue_made_again_starts_from_zero_whatever_the_buffer_holds() {
    let mut shadow = ShadowHost::new();
    for _ in 0..3 {
        shadow.host.create_pair(1, 8);
        shadow.submit(1, 5);
        assert_eq!(shadow.take(1), 5);
        assert!(shadow.host.delete_sq(1).is_success() && shadow.host.delete_cq(1).is_success());
        assert_eq!(shadow.word(shadow.shadow, 2), 5);
    }
}

#[test]
fn buffers_may_come_after_io_queues_as_linux_sets_them() {
    let mut host = TestHost::new(32 * MIB, &[nvm(8 * MIB, 512)]);
    host.create_pair(1, 8);
    for _ in 0..5 {
        assert!(host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, 1)).status().is_success());
    }
    let (buffer, events) = (host.alloc(4096), host.alloc(4096));
    assert!(configure(&mut host, buffer, events).is_success());
    let mut shadow = ShadowHost { host, shadow: buffer, events, rings: 0 };
    assert_eq!(
        (shadow.word(buffer, 2), shadow.word(buffer, 3)),
        (5, 5),
        "doorbells go on from where they stand"
    );
    for count in [3, 7, 1] {
        shadow.submit(1, count);
        assert_eq!(shadow.take(1), count);
    }
}

#[test]
fn buffers_that_are_not_pages_are_refused() {
    let mut host = TestHost::new(32 * MIB, &[]);
    let at = host.alloc(8192);
    for (shadow, events) in [(0, at.0), (at.0, 0), (at.0 + 8, at.0), (at.0, at.0 + 64), (at.0, !0xfff)] {
        let status = configure(&mut host, BusAddr(shadow), BusAddr(events));
        assert!(status.is(Status::INVALID_FIELD), "{shadow:#x} {events:#x}");
    }
}

#[test]
fn buffers_the_host_takes_away_are_controller_fatal_until_reset() {
    let mut host = TestHost::new(32 * MIB, &[nvm(8 * MIB, 512)]);
    assert!(configure(&mut host, BusAddr(0x10_0000), BusAddr(0x10_1000)).is_success());
    let cq = host.alloc(4096);
    host.submit(0, {
        let mut command = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        (command.cdw10, command.cdw11) = (7 << 16 | 1, 1);
        command.set_prps(cq.0, 0);
        command
    });
    host.ring(0);
    host.run();
    host.run();
    assert!(host.csts().cfs());
    host.reset();
    host.enable();
    host.create_pair(1, 8);
    assert!(host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, 1)).status().is_success());
}
