//! Compare and Write as one in an engine that does many commands at once, in any order.

use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};

use super::engine::LBA_BYTES;
use super::{EXPORTED, Exported};
use crate::common::number;
use crate::io::{DATA, QUEUE, blocks};

const LBA: u64 = 9;
/// Address of the blocks to write, behind the expected ones.
const SECOND: u64 = DATA + 4096;
const OTHER: u64 = DATA + 8192;

const DONE: [Status; 2] = [Status::SUCCESS; 2];
const UNLIKE: [Status; 2] = [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED];

impl Exported {
    fn submit(&mut self, opcode: NvmOpcode, fuse: u8, lba: u64, at: u64) -> u16 {
        let mut command = blocks(opcode, EXPORTED, lba, 1);
        command.cdw0.set_fuse(fuse);
        self.io.point_prps(&mut command, at, LBA_BYTES);
        self.io.host.submit(QUEUE, command)
    }

    fn ring(&mut self) {
        self.io.host.ring(QUEUE);
        self.io.host.run();
    }

    /// Begins a pair of block 9 that expects it to be all `expected`.
    fn swap(&mut self, expected: u8, new: u8) -> [u16; 2] {
        self.io.put(DATA, &[expected; LBA_BYTES]);
        self.io.put(SECOND, &[new; LBA_BYTES]);
        let cids = [
            self.submit(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST, LBA, DATA),
            self.submit(NvmOpcode::WRITE, Cdw0::FUSE_SECOND, LBA, SECOND),
        ];
        self.ring();
        cids
    }

    /// Begins a write of a block, all `new`.
    fn fill(&mut self, lba: u64, new: u8) -> u16 {
        self.io.put(OTHER, &[new; LBA_BYTES]);
        let cid = self.submit(NvmOpcode::WRITE, Cdw0::FUSE_NONE, lba, OTHER);
        self.ring();
        cid
    }

    /// What was completed, in order.
    fn completed(&mut self) -> Vec<(u16, Status)> {
        self.io.host.advance();
        std::iter::from_fn(|| self.reap()).map(|done| (done.cid, done.status().code())).collect()
    }

    fn block(&self) -> u8 {
        self.state().bytes[LBA as usize * LBA_BYTES]
    }

    fn abort(&mut self, cid: u16) -> u32 {
        let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
        abort.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(cid).into_bits();
        self.io.host.admin(abort).dw0
    }
}

fn with(cids: [u16; 2], statuses: [Status; 2]) -> Vec<(u16, Status)> {
    cids.into_iter().zip(statuses).collect()
}

#[test]
fn compare_and_write_of_an_export_is_atomic() {
    let mut device = Exported::new();
    let swapped = device.swap(0, 1);
    assert_eq!(device.completed(), with(swapped, DONE));
    let refused = device.swap(0, 2);
    assert_eq!(device.completed(), with(refused, UNLIKE));
    assert_eq!((device.block(), device.places()), (1, 0));
    let controller = device.io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(number(&controller, 522, 2), 1);
}

#[test]
fn fused_commands_are_not_announced_where_an_engine_does_not_compare() {
    let mut device = Exported::shaped(|shape| shape.commands.compare = false);
    let refused = device.swap(0, 1);
    assert_eq!(device.completed(), with(refused, [Status::INVALID_OPCODE, Status::ABORTED_FAILED_FUSED]));
    let controller = device.io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!((number(&controller, 522, 2), device.places()), (0, 0));
}

#[test]
fn read_only_export_refuses_compare_and_write() {
    let mut device = Exported::shaped(|shape| shape.is_read_only = true);
    let refused = device.swap(7, 1);
    let statuses = [Status::ABORTED_FAILED_FUSED, Status::NAMESPACE_WRITE_PROTECTED];
    assert_eq!(device.completed(), with(refused, statuses));
    assert_eq!(device.places(), 0);
}

#[test]
fn a_write_of_the_same_block_waits_for_the_pair_and_others_do_not() {
    let mut device = Exported::new();
    device.state().holds = true;
    device.state().backwards = true;
    let pair = device.swap(0, 1);
    let same = device.fill(LBA, 5);
    let other = device.fill(LBA + 1, 6);
    assert_eq!(device.under_way(), 2, "the compare, and the write of another block");
    device.state().holds = false;
    let done = device.completed();
    assert_eq!(done[0], (other, Status::SUCCESS));
    assert_eq!(done[1..3], with(pair, DONE), "the write behind it did not come between");
    assert_eq!(done[3], (same, Status::SUCCESS));
    assert_eq!((device.block(), device.places()), (5, 0));
}

#[test]
fn a_pair_waits_for_writes_that_were_there_before() {
    let mut device = Exported::new();
    device.state().holds = true;
    let before = device.fill(LBA, 3);
    let pair = device.swap(3, 4);
    assert_eq!(device.under_way(), 1);
    device.state().holds = false;
    let done = device.completed();
    assert_eq!((done[0], &done[1..]), ((before, Status::SUCCESS), &with(pair, DONE)[..]));
    assert_eq!(device.block(), 4);
}

#[test]
fn pairs_of_one_block_go_one_after_the_other_and_a_write_between_them_keeps_its_turn() {
    let mut device = Exported::new();
    device.state().holds = true;
    let first = device.swap(0, 1);
    let between = device.fill(LBA, 8);
    let second = device.swap(8, 9);
    device.state().holds = false;
    let done = device.completed();
    assert_eq!(done[..2], with(first, DONE));
    assert_eq!(done[2], (between, Status::SUCCESS));
    assert_eq!(done[3..], with(second, DONE));
    assert_eq!((device.block(), device.places()), (9, 0));
}

#[test]
fn a_flush_waits_for_no_pair() {
    let mut device = Exported::new();
    device.state().holds = true;
    device.swap(0, 1);
    device.begin(blocks(NvmOpcode::FLUSH, EXPORTED, 0, 1), DATA, 0);
    assert_eq!(device.under_way(), 2);
}

#[test]
fn abort_of_a_fused_pair_reports_whether_it_was_cancelled() {
    let mut device = Exported::new();
    device.state().holds = true;
    device.state().cancels = true;
    let begun = device.swap(0, 1);
    let waits = device.swap(1, 2);
    let behind = device.fill(LBA, 3);
    assert_eq!(device.abort(begun[1]) & 1, 1, "its compare is under way");
    assert_eq!(device.abort(waits[1]) & 1, 0);
    assert_eq!(device.abort(waits[0]) & 1, 1, "it is over with the other");
    assert_eq!(device.abort(behind) & 1, 0);
    device.state().holds = false;
    let mut done = device.completed();
    done.sort_by_key(|(cid, _)| *cid);
    assert_eq!(done[..2], with(begun, DONE));
    assert_eq!(done[2..4], with(waits, [Status::ABORTED_FAILED_FUSED, Status::ABORT_REQUESTED]));
    assert_eq!(done[4], (behind, Status::ABORT_REQUESTED));
    assert_eq!((device.block(), device.places()), (1, 0));
}
