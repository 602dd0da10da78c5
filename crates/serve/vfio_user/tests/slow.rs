//! A slow disk: messages are answered while the device waits, and registers show its progress.
//!
//! Its syncs wait at a gate, so that nothing here depends on how long anything takes.
#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use byway_flash::{Durability, RunOptions};
use byway_spec::base::admin::{AdminOpcode, FormatCdw10, SanitizeCdw10};
use byway_spec::base::register::{Csts, Register};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_sys::FileEvents;
use byway_vfio_user_wire::{DmaMap, DmaRange, DmaUnmap, RegionIndex, Request};
use common::host::{DATA, MEMORY_AT, blocks, fd, mapping};
use common::{Host, Served};
use parking_lot::{Condvar, Mutex};

/// Bit 15 of it asks for a function level reset.
const DEVICE_CONTROL: u64 = 0x68;

/// Where syncs wait while it is shut.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

/// Shuts the gate, and opens it when dropped: a failed test ends its server, which may wait at the gate.
struct GateGuard(Arc<Gate>);

impl GateGuard {
    fn set(&self, is_shut: bool) {
        *self.0.is_shut.lock() = is_shut;
        self.0.opened.notify_all();
    }
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl FileEvents for Gate {
    fn before_sync(&self) -> io::Result<()> {
        let mut shut = self.is_shut.lock();
        self.opened.wait_while(&mut shut, |is_shut| *is_shut);
        Ok(())
    }
}

fn served(durability: Durability) -> (Served, GateGuard) {
    let gate = Arc::new(Gate::default());
    let run = RunOptions::default().durability(durability).events(Some(gate.clone()));
    (Served::watched(run), GateGuard(gate))
}

/// Every kind of message that a busy guest sends is answered.
fn assert_answered(host: &mut Host) {
    assert!(host.status().rdy());
    assert_eq!(host.client.register(8), 0x2_0100);
    host.client.set_register(0x0c, 1);
    host.ring(1);
    host.client.ask(&Request::DeviceGetInfo).unwrap();
}

#[test]
fn shutdown_is_answered_before_its_sync_and_csts_shows_the_end() {
    let (served, gate) = served(Durability::Process);
    let mut host = Host::new(&served);
    host.write_blocks(0, &[1; 512]);
    gate.set(true);
    host.shut_down();
    for _ in 0..100 {
        assert_eq!(host.status().shst(), Csts::SHST_OCCURRING);
        assert_answered(&mut host);
    }
    gate.set(false);
    host.await_status(|status| status.shst() == Csts::SHST_COMPLETE);
    assert!(!host.status().cfs());
}

#[test]
fn admin_commands_that_wait_for_the_disk_hold_up_no_message() {
    let sanitize = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    let format = FormatCdw10::new().with_ses(1).into_bits();
    for (durability, opcode, nsid, cdw10) in [
        (Durability::Process, AdminOpcode::SANITIZE, 0, sanitize),
        (Durability::Media, AdminOpcode::SANITIZE, 0, sanitize),
        (Durability::Media, AdminOpcode::FORMAT_NVM, 1, format),
    ] {
        let (served, gate) = served(durability);
        let mut host = Host::new(&served);
        host.write_blocks(0, &[1; 512]);
        gate.set(true);
        let mut command = Command::new(opcode.0, 0, nsid);
        command.cdw10 = cdw10;
        host.submit(0, &command);
        host.ring(0);
        (0..100).for_each(|_| assert_answered(&mut host));
        assert!(host.peek(0).is_none());
        gate.set(false);
        assert!(host.reap(0).status().is_success());
    }
}

/// Commands that wait for the gate, and their queue; the run lock's holder waits with each.
fn slow_commands() -> [(Durability, u16, Command); 4] {
    let admin = |opcode: AdminOpcode, nsid, cdw10| Command { cdw10, ..Command::new(opcode.0, 0, nsid) };
    let sanitize = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    let format = FormatCdw10::new().with_ses(1).into_bits();
    [
        (Durability::Process, 0, admin(AdminOpcode::SANITIZE, 0, sanitize)),
        (Durability::Media, 0, admin(AdminOpcode::FORMAT_NVM, 1, format)),
        (Durability::Media, 1, Command::new(NvmOpcode::FLUSH.0, 0, 1)),
        (Durability::Media, 1, blocks(NvmOpcode::WRITE, 0, 512, MEMORY_AT + DATA)),
    ]
}

/// Blocks are written and read again, once a sanitize operation has ended that a reset does not stop.
fn serves_again(host: &mut Host) {
    let write = blocks(NvmOpcode::WRITE, 0, 512, MEMORY_AT + DATA);
    loop {
        let status = host.execute(1, write).status();
        if status.is_success() {
            break;
        }
        assert!(status.is(Status::SANITIZE_IN_PROGRESS), "{status:?}");
    }
    host.write_blocks(0, &[2; 512]);
    assert_eq!(host.read_blocks(0, 512), [2; 512]);
}

/// A host one of whose commands waits at a gate that is shut.
fn busy(served: &Served, gate: &GateGuard, qid: u16, command: &Command) -> Host {
    let mut host = Host::new(served);
    host.write_blocks(0, &[1; 512]);
    gate.set(true);
    host.submit(qid, command);
    host.ring(qid);
    assert_answered(&mut host);
    host
}

#[test]
fn a_reset_is_answered_whatever_the_disk_does_and_nothing_is_touched_from_there_on() {
    let flr = 0x8000u16.to_le_bytes();
    for (durability, qid, command) in slow_commands() {
        let (served, gate) = served(durability);
        let mut host = busy(&served, &gate, qid, &command);
        host.client.write(RegionIndex::CONFIG, DEVICE_CONTROL, &flr).unwrap();
        assert!(!host.status().rdy() && host.client.register(u64::from(Register::CC.0)) == 0);
        host.client.ask(&Request::DeviceReset).unwrap();
        host.fill(0xaa);
        gate.set(false);
        // It becomes ready once what it was doing has ended.
        host.enable();
        assert!(host.is_filled_with(0xaa), "{command:?}");
        host.forget_queues();
        host.make_queues();
        serves_again(&mut host);
    }
}

#[test]
fn memory_is_taken_away_at_once_whatever_the_disk_does_and_is_not_touched_from_there_on() {
    for (durability, qid, command) in slow_commands() {
        let (served, gate) = served(durability);
        let mut host = busy(&served, &gate, qid, &command);
        host.client.ask(&Request::DmaUnmap(DmaUnmap::All)).unwrap();
        host.fill(0xaa);
        gate.set(false);
        // Somewhere else, so that it can be reset and become ready.
        let range = DmaRange::new(MEMORY_AT + (1 << 30), 1 << 20).unwrap();
        host.client.ask_with(&Request::DmaMap(DmaMap { range, ..mapping() }), &[&fd(&host.memory)]).unwrap();
        host.client.ask(&Request::DeviceReset).unwrap();
        host.enable();
        assert!(host.is_filled_with(0xaa), "{command:?}");
    }
}

#[test]
fn the_next_client_comes_in_while_the_disk_is_still_busy_with_the_last_one_s_command() {
    for (durability, qid, command) in slow_commands() {
        let (served, gate) = served(durability);
        drop(busy(&served, &gate, qid, &command));
        let mut client = served.client();
        assert_eq!(client.register(u64::from(Register::CSTS.0)), 0);
        gate.set(false);
        let mut host = Host::over(client);
        serves_again(&mut host);
    }
}

#[test]
fn register_writes_are_answered_while_the_disk_is_busy_and_the_last_counts() {
    let (served, gate) = served(Durability::Process);
    let [(_, qid, command), ..] = slow_commands();
    let mut host = busy(&served, &gate, qid, &command);
    for mask in 0..3000 {
        host.client.set_register(u64::from(Register::INTMS.0), mask);
    }
    host.client.ask(&Request::DeviceReset).unwrap();
    for value in 0..3000 {
        host.client.set_register(u64::from(Register::ASQ.0), value << 12);
    }
    gate.set(false);
    host.forget_queues();
    host.enable();
    host.make_queues();
    serves_again(&mut host);
}

#[test]
fn an_admin_command_behind_one_that_was_deferred_waits_for_it_and_a_reset_forgets_both() {
    let (served, gate) = served(Durability::Process);
    let mut host = Host::new(&served);
    host.write_blocks(0, &[1; 512]);
    gate.set(true);
    host.shut_down();
    let mut format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, 1);
    format.cdw10 = FormatCdw10::new().into_bits();
    host.submit(0, &format);
    host.submit(0, &Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
    host.ring(0);
    assert_answered(&mut host);
    assert!(host.peek(0).is_none());
    gate.set(false);
    host.await_status(|status| status.shst() == Csts::SHST_COMPLETE);
    assert!(host.reap(0).status().is_success());
    assert!(host.reap(0).status().is_success());
    host.restart();
    host.write_blocks(0, &[2; 512]);
}

#[test]
fn writes_that_wait_for_the_disk_hold_up_no_message_and_complete_with_its_sync() {
    let (served, gate) = served(Durability::Media);
    let mut host = Host::new(&served);
    gate.set(true);
    host.memory.write_all_at(&[3; 512], DATA).unwrap();
    host.submit(1, &blocks(NvmOpcode::WRITE, 0, 512, MEMORY_AT + DATA));
    host.ring(1);
    (0..100).for_each(|_| assert_answered(&mut host));
    assert!(host.peek(1).is_none());
    gate.set(false);
    assert_eq!(host.reap(1).status(), Status::SUCCESS);
}

#[test]
fn a_completion_that_a_sync_leaves_for_later_comes_without_another_message() {
    let served = Served::paced();
    let mut host = Host::new(&served);
    for lba in 0..20 {
        host.write_blocks(lba, &[1; 512]);
        // Nothing is said from here on until it completes.
        assert_eq!(host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, 1)).status(), Status::SUCCESS);
    }
}
