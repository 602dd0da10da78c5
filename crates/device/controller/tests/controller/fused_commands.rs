//! Fused Compare and Write: both or neither, and what becomes of one alone.

use byway_dma::BusAddr;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};
use proptest::prelude::*;

use crate::common::number;
use crate::io::{BLOCKS_512, BLOCKS_4096, DATA, Io, KV, QUEUE, blocks};

const LBA: u64 = 9;
/// Address of the blocks to write, behind the expected ones.
const SECOND: u64 = DATA + 4096;

const DONE: [Status; 2] = [Status::SUCCESS; 2];
const UNLIKE: [Status; 2] = [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED];
const MISSING: Status = Status::ABORTED_MISSING_FUSED;

fn command(opcode: NvmOpcode, fuse: u8, data: u64) -> Command {
    let mut command = blocks(opcode, BLOCKS_512, LBA, 1);
    command.cdw0.set_fuse(fuse);
    command.set_prps(data, 0);
    command
}

fn compare() -> Command {
    command(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST, DATA)
}

fn write() -> Command {
    command(NvmOpcode::WRITE, Cdw0::FUSE_SECOND, SECOND)
}

/// A matching Compare, alone.
fn plain() -> Command {
    command(NvmOpcode::COMPARE, Cdw0::FUSE_NONE, DATA)
}

/// Sends commands with one ring of the doorbell; their statuses in order.
fn send(io: &mut Io, commands: &[Command]) -> Vec<Status> {
    let cids: Vec<u16> = commands.iter().map(|command| io.host.submit(QUEUE, *command)).collect();
    io.host.ring(QUEUE);
    io.host.run();
    statuses(io, &cids)
}

/// Statuses of commands that are done, each once.
fn statuses(io: &mut Io, cids: &[u16]) -> Vec<Status> {
    let mut found = vec![None; cids.len()];
    while let Some(entry) = io.host.reap(QUEUE) {
        let place = cids.iter().position(|cid| *cid == entry.cid).unwrap();
        assert!(found[place].replace(entry.status().code()).is_none(), "completed twice");
    }
    found.into_iter().map(|status| status.expect("a completion")).collect()
}

fn filled(io: &mut Io, expected: u8, new: u8) {
    io.put(DATA, &[expected; 512]);
    io.put(SECOND, &[new; 512]);
}

fn block(io: &mut Io) -> u8 {
    let read = command(NvmOpcode::READ, Cdw0::FUSE_NONE, DATA + 8192);
    assert_eq!(send(io, &[read]), [Status::SUCCESS]);
    io.get(DATA + 8192, 1)[0]
}

#[test]
fn blocks_are_written_where_they_are_as_expected_and_not_otherwise() {
    for profile in ["gen4x4", "cosmos"] {
        let mut io = Io::of_profile(profile);
        filled(&mut io, 0, 1);
        assert_eq!(send(&mut io, &[compare(), write()]), DONE);
        assert_eq!(block(&mut io), 1);
        filled(&mut io, 0, 2);
        assert_eq!(send(&mut io, &[compare(), write()]), UNLIKE);
        assert_eq!(block(&mut io), 1);
    }
}

#[test]
fn one_of_two_alone_is_aborted_and_others_go_on() {
    let mut io = Io::new();
    filled(&mut io, 0, 7);
    assert_eq!(send(&mut io, &[compare()]), [MISSING]);
    assert_eq!(send(&mut io, &[write()]), [MISSING]);
    let answers = send(&mut io, &[compare(), plain(), write(), compare(), compare(), write()]);
    assert_eq!(answers, [MISSING, Status::SUCCESS, MISSING, MISSING, Status::SUCCESS, Status::SUCCESS]);
    assert_eq!(block(&mut io), 7);
}

#[test]
fn two_that_were_rung_one_by_one_are_each_aborted_and_the_queue_goes_on() {
    let mut io = Io::new();
    filled(&mut io, 0, 3);
    let first = io.host.submit(QUEUE, compare());
    io.host.ring(QUEUE);
    io.host.run();
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(first).into_bits();
    assert_eq!(io.host.admin(abort).dw0, 1, "it is over already");
    let second = io.host.submit(QUEUE, write());
    io.host.ring(QUEUE);
    io.host.run();
    assert_eq!(statuses(&mut io, &[first, second]), [MISSING; 2]);
    assert_eq!(block(&mut io), 0);
    assert_eq!(send(&mut io, &[compare(), write()]), DONE);
}

/// A pair of which both are changed.
fn changed(change: fn(&mut Command)) -> [Command; 2] {
    let mut pair = [compare(), write()];
    pair.iter_mut().for_each(change);
    pair
}

#[test]
fn invalid_fused_pair_is_refused_as_a_whole() {
    let mut io = Io::new();
    filled(&mut io, 0, 7);
    let elsewhere = [compare(), Command { cdw10: LBA as u32 + 1, ..write() }];
    let mut read = [compare(), write()];
    read[0].cdw0.set_opcode(NvmOpcode::READ.0);
    for (pair, status) in [
        (elsewhere, Status::INVALID_FIELD),
        ([compare(), Command { nsid: BLOCKS_4096, ..write() }], Status::INVALID_FIELD),
        (read, Status::INVALID_FIELD),
        (changed(|command| command.cdw12 = 1), Status::ATOMIC_WRITE_UNIT_EXCEEDED),
    ] {
        assert_eq!(send(&mut io, &pair), [status; 2]);
    }
    let failed = Status::ABORTED_FAILED_FUSED;
    for (pair, answers) in [
        (changed(|command| command.nsid = KV), [Status::INVALID_OPCODE, failed]),
        (changed(|command| command.nsid = 60), [failed, Status::INVALID_NAMESPACE]),
        (changed(|command| command.cdw11 = 1), [Status::LBA_OUT_OF_RANGE, failed]),
    ] {
        assert_eq!(send(&mut io, &pair), answers);
    }
    assert_eq!(send(&mut io, &[command(NvmOpcode::FLUSH, 3, DATA)]), [Status::INVALID_FIELD]);
    assert_eq!(block(&mut io), 0);
}

#[test]
fn pairs_stay_pairs_in_a_full_queue_of_them_and_over_its_end() {
    let mut io = Io::new();
    for round in 0..100_u8 {
        filled(&mut io, round, round + 1);
        // The second and third do not find what the first left.
        let answers = send(&mut io, &[plain(), compare(), write(), compare(), write(), compare(), write()]);
        assert_eq!(answers, [&[Status::SUCCESS][..], &DONE, &UNLIKE, &UNLIKE].concat());
    }
    assert_eq!(block(&mut io), 100);
}

/// Puts a pair with payloads into the ring, but for the last `missing` slots; identifiers, and what is missing.
fn put_inline(io: &mut Io, fills: [u8; 2], missing: usize) -> Vec<u16> {
    let mut cids = Vec::new();
    let mut slots = 0;
    for (mut command, fill) in [compare(), write()].into_iter().zip(fills) {
        command.set_sgl1(SglDescriptor::inline(512));
        if slots < 18 - missing {
            cids.push(io.host.submit(QUEUE, command));
        }
        slots += 1;
        for _ in 0..8 {
            if slots < 18 - missing {
                io.host.push(QUEUE, &[fill; 64]);
            }
            slots += 1;
        }
    }
    cids
}

#[test]
fn payloads_in_the_ring_are_fused_too() {
    let mut io = Io::new();
    io.enable_methods();
    for (fills, wanted) in [([0, 5], DONE), ([0, 6], UNLIKE)] {
        let cids = put_inline(&mut io, fills, 0);
        io.host.ring(QUEUE);
        io.host.run();
        assert_eq!(statuses(&mut io, &cids), wanted);
    }
    assert_eq!(block(&mut io), 5);
}

#[test]
fn a_payload_that_comes_later_is_waited_for_and_nothing_is_done_before() {
    for is_delegated in [false, true] {
        let mut io = Io::new();
        io.enable_methods();
        let cids = put_inline(&mut io, [0, 5], 3);
        io.host.ring(QUEUE);
        if is_delegated {
            io.host.run_delegated(QUEUE);
        }
        io.host.run();
        assert!(io.host.reap(QUEUE).is_none());
        (0..3).for_each(|_| io.host.push(QUEUE, &[5; 64]));
        io.host.ring(QUEUE);
        io.host.run();
        assert_eq!(statuses(&mut io, &cids), DONE);
        assert_eq!(block(&mut io), 5);
    }
}

#[test]
fn a_reset_or_a_deletion_with_half_a_pair_leaves_nothing_of_it() {
    let mut io = Io::new();
    io.enable_methods();
    put_inline(&mut io, [0, 5], 3);
    io.host.ring(QUEUE);
    io.host.run();
    assert!(io.host.delete_sq(QUEUE).is_success());
    assert!(io.host.delete_cq(QUEUE).is_success());
    let mut io = Io::over(io.host);
    put_inline(&mut io, [0, 5], 3);
    io.host.ring(QUEUE);
    io.host.run();
    io.host.reset();
    io.host.enable();
    let mut io = Io::over(io.host);
    filled(&mut io, 0, 8);
    assert_eq!(send(&mut io, &[write()]), [MISSING]);
    assert_eq!(block(&mut io), 0);
    assert_eq!(send(&mut io, &[compare(), write()]), DONE);
}

#[test]
fn a_pair_waits_until_both_have_room_to_complete() {
    let mut io = Io::new();
    io.host.create_pair(2, 4);
    filled(&mut io, 0, 4);
    let mut wanted = Vec::new();
    for commands in [vec![plain(), plain()], vec![compare(), write()]] {
        wanted.extend(commands.iter().map(|command| io.host.submit(2, *command)));
        io.host.ring(2);
        io.host.run();
    }
    // Of the three entries one is free: nothing of the pair is done.
    assert_eq!(block(&mut io), 0);
    let mut done = Vec::new();
    while let Some(entry) = io.host.reap(2) {
        assert!(entry.status().is_success());
        done.push(entry.cid);
        io.host.run();
    }
    assert_eq!(done, wanted);
    assert_eq!(block(&mut io), 4);
}

#[test]
fn fused_pair_is_aborted_if_the_completion_queue_is_too_small() {
    let mut io = Io::new();
    let at = io.host.alloc(4096);
    io.host.create_cq(2, at, 2, None);
    let at = io.host.alloc(4096);
    assert!(io.host.create_sq(2, at, 16, 2).is_success());
    [compare(), write()].into_iter().for_each(|command| _ = io.host.submit(2, command));
    io.host.ring(2);
    for _ in 0..2 {
        io.host.run();
        assert!(io.host.reap(2).expect("a completion").status().is(MISSING));
    }
    assert_eq!(block(&mut io), 0);
}

#[test]
fn identify_reports_compare_and_write_and_its_blocks() {
    let mut io = Io::new();
    let controller = io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!((number(&controller, 522, 2), number(&controller, 532, 2)), (1, 0));
}

/// What a host does in the model: a pair, a half of one, or a command alone.
#[derive(Debug, Clone, Copy)]
enum Step {
    Pair { lba: u64, expected: u8, new: u8, inline: bool },
    First { lba: u64 },
    Second { lba: u64 },
    Write { lba: u64, new: u8 },
    Compare { lba: u64, expected: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (lba, fill) = (0..3u64, 0..3u8);
    prop_oneof![
        4 => (lba.clone(), fill.clone(), fill.clone(), any::<bool>())
            .prop_map(|(lba, expected, new, inline)| Step::Pair { lba, expected, new, inline }),
        1 => lba.clone().prop_map(|lba| Step::First { lba }),
        1 => lba.clone().prop_map(|lba| Step::Second { lba }),
        1 => (lba.clone(), fill.clone()).prop_map(|(lba, new)| Step::Write { lba, new }),
        1 => (lba, fill).prop_map(|(lba, expected)| Step::Compare { lba, expected }),
    ]
}

/// Blocks as they must be, and commands with the statuses that they must have.
#[derive(Default)]
struct Model {
    blocks: [u8; 3],
    /// By queue and identifier.
    wanted: Vec<(u16, u16, Status)>,
}

impl Model {
    /// Puts what `step` does into ring `qid`, and reckons what becomes of it.
    fn put(&mut self, io: &mut Io, qid: u16, step: Step) {
        match step {
            Step::Pair { lba, expected, new, inline } => {
                let is_like = self.blocks[lba as usize] == expected;
                let answers = if is_like { DONE } else { UNLIKE };
                self.submit(io, qid, place(compare(), lba), (expected, inline), answers[0]);
                self.submit(io, qid, place(write(), lba), (new, inline), answers[1]);
                if is_like {
                    self.blocks[lba as usize] = new;
                }
            }
            Step::First { lba } => self.submit(io, qid, place(compare(), lba), (0, false), MISSING),
            Step::Second { lba } => self.submit(io, qid, place(write(), lba), (0, false), MISSING),
            Step::Write { lba, new } => {
                let alone = command(NvmOpcode::WRITE, Cdw0::FUSE_NONE, 0);
                self.submit(io, qid, place(alone, lba), (new, false), Status::SUCCESS);
                self.blocks[lba as usize] = new;
            }
            Step::Compare { lba, expected } => {
                let is_like = self.blocks[lba as usize] == expected;
                let status = if is_like { Status::SUCCESS } else { Status::COMPARE_FAILURE };
                self.submit(io, qid, place(plain(), lba), (expected, false), status);
            }
        }
    }

    fn submit(
        &mut self,
        io: &mut Io,
        qid: u16,
        mut command: Command,
        (fill, inline): (u8, bool),
        status: Status,
    ) {
        if inline {
            command.set_sgl1(SglDescriptor::inline(512));
        } else {
            command.set_prps(DATA + u64::from(fill) * 4096, 0);
        }
        self.wanted.push((qid, io.host.submit(qid, command), status));
        (0..if inline { 8 } else { 0 }).for_each(|_| io.host.push(qid, &[fill; 64]));
    }
}

fn place(command: Command, lba: u64) -> Command {
    Command { cdw10: lba as u32, ..command }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each turn is of one queue and rung for at once, so that the order of the turns is that of the device.
    #[test]
    fn pairs_and_halves_of_two_queues_do_what_a_model_does(
        turns in prop::collection::vec((1..3u16, prop::collection::vec(step(), 1..6), any::<bool>()), 1..40),
    ) {
        let mut io = Io::new();
        io.enable_methods();
        io.host.create_pair(2, 128);
        (0..3u8).for_each(|fill| io.put(DATA + u64::from(fill) * 4096, &[fill; 512]));
        let mut model = Model::default();
        for (qid, steps, is_delegated) in turns {
            let mut last_was_first = false;
            for step in steps {
                // A half that meets its other half is a pair: the model says so by a step of its own.
                if last_was_first && matches!(step, Step::Second { .. }) {
                    continue;
                }
                last_was_first = matches!(step, Step::First { .. });
                model.put(&mut io, qid, step);
            }
            io.host.ring(qid);
            if is_delegated {
                io.host.run_delegated(qid);
            }
            io.host.run();
            for (qid, cid, status) in model.wanted.drain(..) {
                let entry = io.host.reap(qid).expect("a completion");
                prop_assert_eq!((entry.cid, entry.status().code()), (cid, status));
            }
        }
        for lba in 0..3 {
            let read = place(command(NvmOpcode::READ, Cdw0::FUSE_NONE, DATA + (1 << 20)), lba);
            prop_assert_eq!(send(&mut io, &[read]), [Status::SUCCESS]);
            prop_assert_eq!(io.host.read(BusAddr(DATA + (1 << 20)), 512), vec![model.blocks[lba as usize]; 512]);
        }
    }
}
