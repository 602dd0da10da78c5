//! Several threads share the queues of a host.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::FileExt;
use std::time::Duration;

use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, QueueCdw10};
use byway_spec::base::register::{Cc, Register};
use byway_spec::nvm::NvmOpcode;
use byway_vfio_user_wire::{DmaMap, DmaRange, DmaUnmap, Errno, Request};
use common::host::{DATA, MEMORY_AT, blocks, fd, mapping};
use common::{Host, Served, begin};

/// How a host rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Messages,
    /// In memory that the server shares.
    Page,
    /// In memory of its own.
    Buffers,
}

const WAYS: [Way; 3] = [Way::Messages, Way::Page, Way::Buffers];

/// Where a host has its doorbells.
const SHADOWS: u64 = 0x1c000;

impl Way {
    /// A served device whose queue 1 is another thread's, and a host.
    fn begin(self) -> (Served, Host) {
        let served = Served::by_threads(2, self == Self::Page);
        let host = self.host(&served);
        (served, host)
    }

    fn host(self, served: &Served) -> Host {
        let mut host = Host::new(served);
        if self == Self::Page {
            host.doorbells = Some(host.client.map_doorbells());
        }
        self.restart(&mut host);
        host
    }

    fn restart(self, host: &mut Host) {
        match self {
            Self::Buffers => host.restart_with_doorbells_at(SHADOWS),
            _ => host.restart(),
        }
    }
}

/// Rings so often that the queue leaves its controller.
fn call_away(host: &mut Host) {
    for round in 0..40 {
        host.write_blocks(round % 7, &[round as u8; 512]);
    }
}

/// Fills the queue with reads without waiting for them.
fn fill(host: &mut Host) {
    for lba in 0..12 {
        host.submit(1, &blocks(NvmOpcode::READ, lba, 4096, MEMORY_AT + DATA + lba * 4096));
    }
    host.ring(1);
}

/// What of the host's memory a device may write.
fn memory(host: &Host) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 17];
    host.memory.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn assert_untouched(host: &Host) {
    let before = memory(host);
    std::thread::sleep(Duration::from_millis(1));
    assert!(memory(host) == before, "memory is written after a reset");
}

/// Resets the device repeatedly with outstanding commands; it accesses no memory once `reset` is done.
fn reset_under_commands(times: u32, reset: impl Fn(&mut Host)) {
    for way in WAYS {
        let (_served, mut host) = way.begin();
        for _ in 0..times {
            call_away(&mut host);
            fill(&mut host);
            reset(&mut host);
            assert_untouched(&host);
            way.restart(&mut host);
        }
        assert_eq!(host.read_blocks(4, 512), [39; 512]);
    }
}

#[test]
fn reset_under_commands_stops_every_memory_access() {
    reset_under_commands(60, |host| {
        host.client.set_register(u64::from(Register::CC.0), Cc::new().into_bits());
        host.await_status(|status| !status.rdy());
    });
}

#[test]
fn a_message_that_resets_the_device_waits_for_its_threads() {
    reset_under_commands(30, |host| _ = host.client.ask(&Request::DeviceReset).unwrap());
}

#[test]
fn a_queue_is_deleted_and_made_anew_while_its_thread_serves_it() {
    for way in WAYS {
        let (_served, mut host) = way.begin();
        for _ in 0..60 {
            call_away(&mut host);
            fill(&mut host);
            let queue = QueueCdw10::new().with_qid(1).into_bits();
            for opcode in [AdminOpcode::DELETE_SQ, AdminOpcode::DELETE_CQ] {
                let mut delete = Command::new(opcode.0, 0, 0);
                delete.cdw10 = queue;
                assert!(host.execute(0, delete).status().is_success());
            }
            assert_untouched(&host);
            host.forget_queue(1);
            host.make_queues();
        }
    }
}

#[test]
fn unmapped_memory_is_released_by_every_thread() {
    for way in WAYS {
        let (_served, mut host) = way.begin();
        let range = DmaRange::new(0x2000_0000, 0x1000).unwrap();
        for _ in 0..30 {
            let map = DmaMap { range, file_offset: DATA + 0x10000, ..mapping() };
            host.client.ask_with(&Request::DmaMap(map), &[&fd(&host.memory)]).unwrap();
            call_away(&mut host);
            for _ in 0..8 {
                host.submit(1, &blocks(NvmOpcode::READ, 0, 512, range.first()));
            }
            host.ring(1);
            host.client.ask(&Request::DmaUnmap(DmaUnmap::Range(range))).unwrap();
            host.memory.write_all_at(&[0x77; 512], DATA + 0x10000).unwrap();
            (0..8).for_each(|_| _ = host.reap(1));
            let mut after = [0; 512];
            host.memory.read_exact_at(&mut after, DATA + 0x10000).unwrap();
            assert_eq!(after, [0x77; 512]);
        }
    }
}

#[test]
fn a_client_that_goes_under_commands_leaves_a_device_for_the_next_and_another_is_refused_before() {
    for way in WAYS {
        let (served, mut first) = way.begin();
        for _ in 0..10 {
            call_away(&mut first);
            fill(&mut first);
            let mut second = served.connect();
            assert_eq!(second.ask(&begin()).unwrap_err(), Errno::EBUSY);
            drop(first);
            first = way.host(&served);
            assert_eq!(first.read_blocks(4, 512), [39; 512]);
        }
    }
}
