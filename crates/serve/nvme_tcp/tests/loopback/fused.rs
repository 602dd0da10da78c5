//! Fused Compare and Write over a connection: event by the order of capsules, whichever data comes first.

use std::io::Write;
use std::num::NonZeroU16;
use std::thread;

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::Cns;
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};

use crate::host::{By, Host, Proposal, blocks, pattern};
use crate::served::Served;

const BLOCK: usize = 512;
const DONE: [Status; 2] = [Status::SUCCESS; 2];
const UNLIKE: [Status; 2] = [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED];
const MISSING: Status = Status::ABORTED_MISSING_FUSED;
const WAYS: [By; 2] = [By::Capsule, By::R2t];

fn half(opcode: NvmOpcode, fuse: u8, lba: u64) -> Command {
    let mut command = blocks(opcode, lba, BLOCK);
    command.cdw0.set_fuse(fuse);
    command
}

fn first(lba: u64) -> Command {
    half(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST, lba)
}

fn second(lba: u64) -> Command {
    half(NvmOpcode::WRITE, Cdw0::FUSE_SECOND, lba)
}

/// Sends a pair that writes `new` where `expected` is.
fn start(io: &mut Host, lba: u64, ways: [By; 2], expected: &[u8], new: &[u8]) -> [u16; 2] {
    [io.start(first(lba), ways[0], expected), io.start(second(lba), ways[1], new)]
}

fn statuses(io: &mut Host, cids: [u16; 2]) -> [Status; 2] {
    cids.map(|cid| io.wait(cid).0.status().code())
}

fn read(io: &mut Host, lba: u64) -> Vec<u8> {
    let (done, data) = io.read(blocks(NvmOpcode::READ, lba, BLOCK), BLOCK);
    assert!(done.status().is_success());
    data
}

#[test]
fn a_pair_does_both_or_neither_whichever_way_its_data_comes() {
    for served in [Served::new(), Served::synced()] {
        for proposal in [Proposal::default(), Proposal::DIGESTS] {
            let (_admin, mut io) = served.host(proposal);
            let mut there = read(&mut io, 5);
            for (round, ways) in WAYS.iter().flat_map(|one| WAYS.map(|other| [*one, other])).enumerate() {
                let new = pattern(round as u64, BLOCK);
                let cids = start(&mut io, 5, ways, &there, &new);
                assert_eq!(statuses(&mut io, cids), DONE, "{ways:?}");
                let cids = start(&mut io, 5, ways, &pattern(99, BLOCK), &[0; BLOCK]);
                assert_eq!(statuses(&mut io, cids), UNLIKE, "{ways:?}");
                there = read(&mut io, 5);
                assert!(there == new, "{ways:?}");
            }
        }
    }
}

#[test]
fn one_of_two_alone_is_aborted_by_what_comes_behind_it() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    let zeroes = [0; BLOCK];
    for way in WAYS {
        let alone = io.start(first(3), way, &zeroes);
        assert_eq!(read(&mut io, 3), zeroes);
        assert!(io.wait(alone).0.status().is(MISSING));
        assert!(io.write(second(3), way, &pattern(1, BLOCK)).status().is(MISSING));
        let alone = io.start(first(3), way, &zeroes);
        let cids = start(&mut io, 3, [way; 2], &zeroes, &zeroes);
        assert_eq!(statuses(&mut io, cids), DONE);
        assert!(io.wait(alone).0.status().is(MISSING));
    }
    assert_eq!(read(&mut io, 3), zeroes);
}

#[test]
fn invalid_fused_pair_is_refused_without_an_r2t() {
    let served = Served::new();
    let (mut admin, mut io) = served.host(Proposal::default());
    let cids = [io.start(first(1), By::R2t, &[0; BLOCK]), io.start(second(2), By::Capsule, &[1; BLOCK])];
    assert_eq!(statuses(&mut io, cids), [Status::INVALID_FIELD; 2]);
    let long = vec![0_u8; 1 << 20];
    let many = |command: Command| Command { cdw12: (long.len() / BLOCK) as u32 - 1, ..command };
    let cids = [io.start(many(first(1)), By::R2t, &long), io.start(many(second(1)), By::R2t, &long)];
    assert_eq!(statuses(&mut io, cids), [Status::ATOMIC_WRITE_UNIT_EXCEEDED; 2]);
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    identify.cdw10 = u32::from(Cns::CONTROLLER.0);
    let controller = admin.read(identify, 4096).1;
    assert_eq!(controller[522..524], [1, 0], "FUSES");
    assert_eq!(read(&mut io, 1), [0; BLOCK]);
}

#[test]
fn a_queue_full_of_pairs_is_done_pair_by_pair() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    for round in 0..4u64 {
        let image = |round: u64, lba: u64| match round {
            0 => vec![0; BLOCK],
            _ => pattern(round << 8 | lba, BLOCK),
        };
        let pairs: Vec<_> = (0..60u64)
            .map(|lba| {
                let ways = [WAYS[lba as usize % 2], WAYS[lba as usize / 2 % 2]];
                start(&mut io, lba, ways, &image(round, lba), &image(round + 1, lba))
            })
            .collect();
        for cids in pairs {
            assert_eq!(statuses(&mut io, cids), DONE);
        }
    }
}

#[test]
fn data_whose_digest_is_wrong_fails_its_command_and_the_other_for_it() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    for corrupt in 0..2 {
        let mut cids = [0; 2];
        for (at, mut command) in [first(4), second(4)].into_iter().enumerate() {
            cids[at] = io.next();
            command.cdw0.set_cid(cids[at]);
            command.set_sgl1(SglDescriptor::inline(BLOCK as u32));
            let mut wire = Vec::new();
            io.writer.command(&command, &[&[0; BLOCK][..]]).append_to(&mut wire);
            *wire.last_mut().unwrap() ^= u8::from(at == corrupt);
            io.expect(&command, &[0; BLOCK]);
            io.stream.write_all(&wire).unwrap();
        }
        let mut wanted = [Status::ABORTED_FAILED_FUSED; 2];
        wanted[corrupt] = Status::TRANSIENT_TRANSPORT_ERROR;
        assert_eq!(statuses(&mut io, cids), wanted);
    }
}

#[test]
fn a_connection_that_ends_with_half_a_pair_leaves_nothing_of_it() {
    let served = Served::new();
    let (admin, mut io) = served.host(Proposal::default());
    io.start(first(6), By::Capsule, &[0; BLOCK]);
    drop(io);
    let mut other = served.queue(&admin, 2, Proposal::default());
    assert!(other.write(second(6), By::Capsule, &[9; BLOCK]).status().is(MISSING));
    let cids = start(&mut other, 6, WAYS, &[0; BLOCK], &[8; BLOCK]);
    assert_eq!(statuses(&mut other, cids), DONE);
    assert_eq!(read(&mut other, 6), [8; BLOCK]);
}

/// Increments the number in a block `times` times, concurrently with other hosts.
fn count_up(io: &mut Host, ways: [By; 2], times: u64) {
    let mut there = read(io, 7);
    for _ in 0..times {
        loop {
            let mut new = there.clone();
            let number = u64::from_le_bytes(new[..8].try_into().unwrap()) + 1;
            new[..8].copy_from_slice(&number.to_le_bytes());
            let cids = start(io, 7, ways, &there, &new);
            if statuses(io, cids) == DONE {
                there = new;
                break;
            }
            there = read(io, 7);
        }
    }
}

#[test]
fn compare_and_write_increments_by_several_hosts_lose_none() {
    const TIMES: u64 = 100;
    let served = Served::with(|options| options.target.threads = NonZeroU16::new(2).unwrap());
    let mut hosts: Vec<_> = (0..4).map(|_| served.host(Proposal::default())).collect();
    thread::scope(|scope| {
        for (at, (_, io)) in hosts.iter_mut().enumerate() {
            scope.spawn(move || count_up(io, [WAYS[at % 2], WAYS[at / 2]], TIMES));
        }
    });
    let counted = read(&mut hosts[0].1, 7);
    assert_eq!(counted[..8], (4 * TIMES).to_le_bytes());
}
