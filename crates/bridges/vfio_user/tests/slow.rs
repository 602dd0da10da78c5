//! A disk that takes its time: messages are answered whatever the device waits for, and registers tell how far it is.
//!
//! Its syncs wait at a gate, so that nothing here depends on how long anything takes.
#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};

use byway_flash::{Durability, RunOptions};
use byway_spec::base::admin::{AdminOpcode, FormatCdw10, SanitizeCdw10};
use byway_spec::base::register::Csts;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_sys::FileEvents;
use common::host::{DATA, MEMORY_AT, blocks};
use common::{Host, Served};

/// Where syncs wait while it is shut.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

impl FileEvents for Gate {
    fn before_sync(&self) -> io::Result<()> {
        let shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(shut, |is_shut| *is_shut).unwrap());
        Ok(())
    }
}

fn served(durability: Durability) -> (Served, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let run = RunOptions { durability, events: Some(gate.clone()), ..RunOptions::default() };
    (Served::watched(run), gate)
}

/// Every kind of message that a busy guest sends is answered.
fn is_answered(host: &mut Host) {
    assert!(host.status().rdy());
    assert_eq!(host.client.register(8), 0x2_0100);
    host.client.set_register(0x0c, 1);
    host.ring(1);
    host.client.ask(&byway_vfio_user_wire::Request::DeviceGetInfo).unwrap();
}

#[test]
fn a_shutdown_is_answered_before_its_sync_has_ended_and_its_status_tells_when_it_has() {
    let (served, gate) = served(Durability::Process);
    let mut host = Host::new(&served);
    host.write_blocks(0, &[1; 512]);
    gate.set(true);
    host.shut_down();
    for _ in 0..100 {
        assert_eq!(host.status().shst(), Csts::SHST_OCCURRING);
        is_answered(&mut host);
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
        (0..100).for_each(|_| is_answered(&mut host));
        assert!(host.peek(0).is_none());
        gate.set(false);
        assert!(host.reap(0).status().is_success());
    }
}

#[test]
fn an_admin_command_behind_one_that_was_put_off_waits_for_it_and_a_reset_forgets_both() {
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
    is_answered(&mut host);
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
    (0..100).for_each(|_| is_answered(&mut host));
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
