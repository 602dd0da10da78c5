//! Namespaces that another engine keeps: what the controller does before the engine begins a command and after it has done it.

mod capsules;
mod engine;
mod fused;

use std::sync::Arc;

use byway_controller::engine::EngineShape;
use byway_kit::pattern;
use byway_spec::base::admin::{AdminOpcode, SelectCdw10};
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::reservation::ReservationOpcode;
use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw11, DsmRange, NvmCdw12, NvmOpcode};
use byway_spec::{Command, Completion, Status};
use parking_lot::{Mutex, MutexGuard};
use zerocopy::IntoBytes;

use crate::common::number;
use crate::io::{DATA, Io, QUEUE, assert_status, blocks};
use engine::{LBA_BYTES, State, TestEngine};

/// Behind the device's own three namespaces.
const EXPORTED: u32 = 4;
const BLOCKS: u64 = 1024;

/// A device with a namespace that an engine of the test's keeps.
pub struct Exported {
    io: Io,
    state: Arc<Mutex<State>>,
}

impl Exported {
    fn new() -> Self {
        Self::shaped(|_| {})
    }

    pub fn shaped(change: impl FnOnce(&mut EngineShape)) -> Self {
        Self::beside(Io::new(), change)
    }

    fn beside(mut io: Io, change: impl FnOnce(&mut EngineShape)) -> Self {
        let (engine, state) = TestEngine::new(BLOCKS);
        assert_eq!(io.host.subsystem.export(Box::new(engine.shaped(change))).unwrap(), EXPORTED);
        Self { io, state }
    }

    pub fn host(&mut self) -> &mut crate::common::TestHost {
        &mut self.io.host
    }

    /// Writes and reads so many blocks.
    pub fn move_some_blocks(&mut self, count: usize) {
        assert_status(self.write(0, &pattern(1, count * LBA_BYTES)), Status::SUCCESS);
        self.read(0, count);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn places(&self) -> usize {
        self.state().places
    }

    fn under_way(&self) -> usize {
        self.state().under_way()
    }

    fn reap(&mut self) -> Option<Completion> {
        self.io.host.reap(QUEUE)
    }

    /// Submits a command with its data at `at`, and lets the controller begin it.
    fn begin(&mut self, mut command: Command, at: u64, len: usize) -> u16 {
        self.io.point_prps(&mut command, at, len);
        let cid = self.io.host.submit(QUEUE, command);
        self.io.host.ring(QUEUE);
        self.io.host.run();
        cid
    }

    /// Executes a command to its end.
    fn run(&mut self, command: Command, len: usize) -> Completion {
        let cid = self.begin(command, DATA, len);
        let done = match self.reap() {
            Some(at_once) => at_once,
            None => {
                self.io.host.advance();
                self.reap().expect("no completion")
            }
        };
        assert_eq!(done.cid, cid);
        done
    }

    fn write(&mut self, slba: u64, bytes: &[u8]) -> Completion {
        self.io.put(DATA, bytes);
        self.run(blocks(NvmOpcode::WRITE, EXPORTED, slba, bytes.len() / LBA_BYTES), bytes.len())
    }

    fn read(&mut self, slba: u64, count: usize) -> Vec<u8> {
        let len = count * LBA_BYTES;
        self.io.put(DATA, &vec![0xee; len]);
        let done = self.run(blocks(NvmOpcode::READ, EXPORTED, slba, count), len);
        assert!(done.status().is_success(), "{}", done.status());
        self.io.get(DATA, len)
    }
}

#[test]
fn write_to_an_export_reaches_its_engine_and_is_read_back() {
    let mut device = Exported::new();
    let bytes = pattern(1, 100 * LBA_BYTES);
    assert_status(device.write(7, &bytes), Status::SUCCESS);
    assert_eq!(device.state().bytes[7 * LBA_BYTES..][..bytes.len()], bytes);
    assert_eq!(device.read(7, 100), bytes);
    assert_eq!(device.places(), 0);
}

#[test]
fn commands_complete_in_the_order_in_which_the_engine_has_done_them() {
    let mut device = Exported::new();
    device.state().bytes = pattern(3, BLOCKS as usize * LBA_BYTES);
    device.state().holds = true;
    device.state().backwards = true;
    let begin = |device: &mut Exported, n: u64| {
        device.begin(blocks(NvmOpcode::READ, EXPORTED, n * 8, 8), DATA + n * 4096, 4096)
    };
    let cids: Vec<u16> = (0..20).map(|n| begin(&mut device, n)).collect();
    let (under_way, done) = (device.under_way(), device.reap());
    assert_eq!((under_way, done), (20, None));
    device.state().holds = false;
    device.io.host.advance();
    let done: Vec<u16> = std::iter::from_fn(|| device.reap()).map(|done| done.cid).collect();
    assert!(done.iter().eq(cids.iter().rev()), "{done:?}");
    assert_eq!(device.io.get(DATA, 20 * 4096), device.state().bytes[..20 * 4096]);
    assert_eq!(device.io.host.take_interrupts().last(), Some(&QUEUE));
}

#[test]
fn other_namespaces_are_served_while_an_engine_is_slow() {
    let mut device = Exported::new();
    device.state().holds = true;
    let slow = device.begin(blocks(NvmOpcode::FLUSH, EXPORTED, 0, 1), DATA, 0);
    let mut command = blocks(NvmOpcode::READ, 1, 0, 1);
    device.io.point_prps(&mut command, DATA, 512);
    assert_status(device.io.run(command), Status::SUCCESS);
    device.state().holds = false;
    device.io.host.advance();
    assert_eq!(device.reap().map(|done| done.cid), Some(slow));
}

#[test]
fn identify_reports_shape_and_commands_of_the_engine() {
    let mut device = Exported::shaped(|shape| {
        shape.transfer_max_bytes = 64 << 10;
        shape.commands.copy = false;
        shape.commands.write_zeroes = false;
    });
    let host = &mut device.io.host;
    let page = host.identify(Cns::NAMESPACE, EXPORTED, Csi::NVM).unwrap();
    assert_eq!((number(&page, 0, 8), number(&page, 8, 8)), (BLOCKS, BLOCKS));
    // One format, of blocks of 512 bytes; the engine's identifier.
    assert_eq!((page[25], page[26], page[128 + 2], page[128 + 4 + 2]), (0, 0, 9, 0));
    assert_eq!(page[104..120], [5; 16]);
    let controller = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(controller[77], 4, "MDTS of 64 KiB");
    // Neither Write Zeroes (bit 3) nor Copy (bit 8); Compare and Dataset Management.
    let oncs = number(&controller, 520, 2);
    assert_eq!((oncs >> 3 & 1, oncs >> 8 & 1, oncs & 1, oncs >> 2 & 1), (0, 0, 1, 1));
    assert_eq!(controller[525], 0b101, "a volatile cache, flushed one namespace at a time");
    assert_eq!(number(&controller, 328, 4), 0, "no sanitize");
    let list = host.identify(Cns::ACTIVE_NAMESPACES, 0, Csi::NVM).unwrap();
    assert_eq!(number(&list, 12, 4), u64::from(EXPORTED));
}

#[test]
fn ranges_and_commands_are_checked_before_they_reach_the_engine() {
    let mut device = Exported::shaped(|shape| shape.commands.verify = false);
    for (slba, count) in [(BLOCKS, 1), (BLOCKS - 1, 2), (u64::MAX, 1)] {
        let done = device.run(blocks(NvmOpcode::READ, EXPORTED, slba, count), count * LBA_BYTES);
        assert_status(done, Status::LBA_OUT_OF_RANGE);
    }
    let long = (128 << 10) / LBA_BYTES + 1;
    assert_status(device.run(blocks(NvmOpcode::WRITE, EXPORTED, 0, long), 0), Status::INVALID_FIELD);
    assert_status(device.run(blocks(NvmOpcode::VERIFY, EXPORTED, 0, 1), 0), Status::INVALID_OPCODE);
    assert_status(device.run(blocks(NvmOpcode::FLUSH, NSID_ALL, 0, 1), 0), Status::INVALID_NAMESPACE);
    assert_eq!(device.places(), 0);
}

#[test]
fn command_with_unreadable_data_frees_its_slot() {
    let mut device = Exported::new();
    let mut command = blocks(NvmOpcode::WRITE, EXPORTED, 0, 8);
    command.set_prps(0x666_0000, 0);
    assert_status(device.io.run(command), Status::DATA_TRANSFER_ERROR);
    assert_eq!((device.places(), device.under_way()), (0, 0));
}

#[test]
fn a_read_only_engine_is_write_protected() {
    let mut device = Exported::shaped(|shape| shape.is_read_only = true);
    for opcode in [NvmOpcode::WRITE, NvmOpcode::WRITE_ZEROES] {
        let done = device.run(blocks(opcode, EXPORTED, 0, 1), LBA_BYTES);
        assert_status(done, Status::NAMESPACE_WRITE_PROTECTED);
    }
    let page = device.io.host.identify(Cns::NAMESPACE, EXPORTED, Csi::NVM).unwrap();
    assert_eq!(page[99] & 1, 1);
    assert_eq!(device.read(0, 1), vec![0; LBA_BYTES]);
}

#[test]
fn every_command_of_blocks_reaches_the_engine() {
    let mut device = Exported::new();
    let bytes = pattern(9, 16 * LBA_BYTES);
    device.write(0, &bytes);
    device.io.put(DATA, &bytes);
    let compare = blocks(NvmOpcode::COMPARE, EXPORTED, 0, 16);
    assert_status(device.run(compare, bytes.len()), Status::SUCCESS);
    device.io.put(DATA, &[0xff]);
    assert_status(device.run(compare, bytes.len()), Status::COMPARE_FAILURE);
    assert_status(device.run(blocks(NvmOpcode::VERIFY, EXPORTED, 0, 16), 0), Status::SUCCESS);

    let source = CopyRange { slba: 2, nlb_z: 1, ..CopyRange::default() };
    device.io.put(DATA, source.as_bytes());
    let mut copy = Command::new(NvmOpcode::COPY.0, 0, EXPORTED);
    copy.set_cdw10_11(100);
    copy.cdw12 = CopyCdw12::new().with_nr_z(0).into_bits();
    assert_status(device.run(copy, 32), Status::SUCCESS);
    assert_eq!(device.read(100, 2), bytes[2 * LBA_BYTES..4 * LBA_BYTES]);

    assert_status(device.run(blocks(NvmOpcode::WRITE_ZEROES, EXPORTED, 0, 4), 0), Status::SUCCESS);
    let ranges = [DsmRange { nlb: 2, slba: 6, ..DsmRange::default() }];
    device.io.put(DATA, ranges.as_bytes());
    let mut deallocate = Command::new(NvmOpcode::DATASET_MANAGEMENT.0, 0, EXPORTED);
    deallocate.cdw11 = DsmCdw11::new().with_ad(true).into_bits();
    assert_status(device.run(deallocate, 16), Status::SUCCESS);
    let mut expected = bytes;
    expected[..4 * LBA_BYTES].fill(0);
    expected[6 * LBA_BYTES..8 * LBA_BYTES].fill(0);
    assert_eq!(device.read(0, 16), expected);
}

#[test]
fn flush_and_force_unit_access_are_for_the_engine_to_keep() {
    let mut device = Exported::new();
    assert_status(device.run(blocks(NvmOpcode::FLUSH, EXPORTED, 0, 1), 0), Status::SUCCESS);
    let mut forced = blocks(NvmOpcode::WRITE, EXPORTED, 0, 1);
    forced.cdw12 |= NvmCdw12::new().with_fua(true).into_bits();
    assert_status(device.run(forced, LBA_BYTES), Status::SUCCESS);
    assert_eq!(device.state().made_durable, 2);
}

#[test]
fn an_engines_failure_is_the_commands_status_and_the_next_command_goes_on() {
    let mut device = Exported::new();
    for status in [Status::UNRECOVERED_READ_ERROR, Status::WRITE_FAULT, Status::NAMESPACE_NOT_READY] {
        device.state().fails = Some(status);
        assert_status(device.run(blocks(NvmOpcode::READ, EXPORTED, 0, 1), LBA_BYTES), status);
    }
    device.state().fails = None;
    assert_eq!(device.read(0, 1), vec![0; LBA_BYTES]);
    assert_eq!(device.places(), 0);
}

#[test]
fn results_of_an_engine_after_a_reset_are_dropped() {
    let mut device = Exported::new();
    device.state().holds = true;
    for n in 0..4 {
        device.begin(blocks(NvmOpcode::READ, EXPORTED, n, 1), DATA, LBA_BYTES);
    }
    device.io.host.reset();
    device.io.host.enable();
    let mut device = Exported { io: Io::over(device.io.host), state: device.state };
    device.io.put(DATA, &[0x77; LBA_BYTES]);
    device.state().holds = false;
    device.io.host.advance();
    assert_eq!(device.reap(), None);
    assert_eq!(device.io.get(DATA, LBA_BYTES), [0x77; LBA_BYTES]);
    assert_eq!(device.places(), 0);
}

#[test]
fn commands_of_a_queue_that_is_deleted_are_aborted() {
    let mut device = Exported::new();
    device.state().holds = true;
    let cid = device.begin(blocks(NvmOpcode::READ, EXPORTED, 0, 1), DATA, LBA_BYTES);
    assert!(device.io.host.delete_sq(QUEUE).is_success());
    let aborted = device.reap().unwrap();
    assert_eq!(aborted.cid, cid);
    assert_status(aborted, Status::ABORTED_SQ_DELETION);
    device.state().holds = false;
    device.io.host.advance();
    assert_eq!(device.reap(), None);
    assert_eq!(device.places(), 0);
}

#[test]
fn a_command_that_its_engine_has_done_nothing_of_is_aborted_and_any_other_is_not() {
    let mut device = Exported::new();
    device.state().holds = true;
    let cids: Vec<u16> = (0..3)
        .map(|n| device.begin(blocks(NvmOpcode::READ, EXPORTED, n, 1), DATA + n * 4096, LBA_BYTES))
        .collect();
    let abort = |device: &mut Exported, cid: u16| {
        let mut command = Command::new(AdminOpcode::ABORT.0, 0, 0);
        command.cdw10 = u32::from(QUEUE) | u32::from(cid) << 16;
        let done = device.io.host.execute(0, command);
        assert_status(done, Status::SUCCESS);
        done.result() & 1
    };
    let not_aborted = abort(&mut device, cids[1]);
    assert_eq!((not_aborted, device.reap()), (1, None), "the engine is at it");
    device.state().cancels = true;
    assert_eq!(abort(&mut device, cids[1]), 0);
    let aborted = device.reap().unwrap();
    assert_eq!(aborted.cid, cids[1]);
    assert_status(aborted, Status::ABORT_REQUESTED);
    assert_eq!(
        (abort(&mut device, cids[1]), device.places()),
        (1, 2),
        "it is gone, and its memory is given back"
    );
    device.state().holds = false;
    device.io.host.advance();
    let done: Vec<u16> = std::iter::from_fn(|| device.reap()).map(|done| done.cid).collect();
    assert_eq!(done, [cids[0], cids[2]]);
    assert_eq!((abort(&mut device, cids[0]), device.places()), (1, 0));
}

#[test]
fn while_an_engine_is_full_commands_wait_in_their_rings() {
    let mut device = Exported::new();
    device.state().is_full = true;
    device.begin(blocks(NvmOpcode::READ, EXPORTED, 0, 1), DATA, LBA_BYTES);
    assert_eq!(device.reap(), None);
    assert_eq!(device.places(), 0);
    device.state().is_full = false;
    device.io.host.run();
    device.io.host.advance();
    assert_status(device.reap().unwrap(), Status::SUCCESS);
}

#[test]
fn hosts_neither_remove_nor_format_nor_sanitize_what_is_exported() {
    let mut device = Exported::new();
    let mut delete = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, EXPORTED);
    delete.cdw10 = SelectCdw10::DELETE.into();
    let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, EXPORTED);
    let mut sanitize = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    sanitize.cdw10 = 2;
    for command in [delete, format, sanitize] {
        assert_status(device.io.host.admin(command), Status::INVALID_OPCODE);
    }
    assert_eq!(device.read(0, 1), vec![0; LBA_BYTES]);
}

#[test]
fn commands_of_a_namespace_that_is_withdrawn_fail_and_hosts_find_it_gone() {
    let mut device = Exported::new();
    device.state().holds = true;
    device.begin(blocks(NvmOpcode::READ, EXPORTED, 0, 1), DATA, LBA_BYTES);
    device.io.host.withdraw(EXPORTED);
    device.io.host.run();
    assert_status(device.reap().unwrap(), Status::NAMESPACE_NOT_READY);
    let done = device.run(blocks(NvmOpcode::READ, EXPORTED, 0, 1), LBA_BYTES);
    assert_status(done, Status::INVALID_NAMESPACE);
    assert!(!device.io.host.subsystem.has_engines());
}

#[test]
fn reservations_of_what_is_exported_end_with_the_power() {
    let mut device = Exported::new();
    let register = |device: &mut Exported, persists: u32| {
        // The current key and the new one; change persistence in CDW10 bits 31:30.
        device.io.put(DATA, &[[0; 8], [7; 8]].concat());
        let mut command = Command::new(ReservationOpcode::REGISTER.0, 0, EXPORTED);
        command.cdw10 = persists << 30;
        device.run(command, 16)
    };
    assert_status(register(&mut device, 3), Status::INVALID_FIELD);
    assert_status(register(&mut device, 0), Status::SUCCESS);
    let page = device.io.host.identify(Cns::NAMESPACE, EXPORTED, Csi::NVM).unwrap();
    assert_eq!(page[31], 0xfe, "every type, and no persistence");
}

#[test]
fn exported_namespace_is_served_after_the_image_was_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut device = Exported::beside(Io::in_image(&path), |_| {});
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    // The first command in the image finds out.
    let refused = device.run(blocks(NvmOpcode::WRITE, 1, 0, 1), 512);
    assert!(!refused.status().is_success());
    assert!(device.io.host.subsystem.flash().check_whole().is_err());
    device.move_some_blocks(3);
    let refused = device.run(blocks(NvmOpcode::READ, 1, 0, 1), 512);
    assert!(!refused.status().is_success());
}
