//! Blocks: every size, every way, in any order.

use byway_spec::nvm::{DsmCdw11, DsmRange, NvmOpcode};
use byway_spec::{Command, Status};
use byway_tcp_target::Idle;
use zerocopy::IntoBytes;

use crate::host::{By, Proposal, blocks, pattern};
use crate::served::{BLOCKS, BLOCKS_BYTES, Served};

const PROPOSALS: [Proposal; 3] = [
    Proposal { digests: byway_nvme_tcp::Digests::NONE, no_flow_control: false, entries: None },
    Proposal { digests: byway_nvme_tcp::Digests::NONE, no_flow_control: true, entries: None },
    Proposal::DIGESTS,
];

#[test]
fn writes_of_every_size_in_capsules_or_by_r2t_are_read_back() {
    let served = Served::new();
    for (round, proposal) in PROPOSALS.into_iter().enumerate() {
        let (_admin, mut io) = served.host(proposal);
        for bytes in [512, 4096, 8192, 16384, 16896, 65536, 128 << 10, 1 << 20, 3 << 20] {
            let by = if bytes <= 16384 { vec![By::Capsule, By::R2t] } else { vec![By::R2t] };
            for by in by {
                let data = pattern((round * bytes) as u64 + by as u64, bytes);
                let written = io.write(blocks(NvmOpcode::WRITE, 7, bytes), by, &data);
                assert!(written.status().is_success(), "{bytes} {by:?}: {:?}", written.status());
                let (read, got) = io.read(blocks(NvmOpcode::READ, 7, bytes), bytes);
                assert!(read.status().is_success());
                assert!(got == data, "{bytes} bytes by {by:?} with {proposal:?}");
            }
        }
    }
}

#[test]
fn digests_are_right_of_whole_units_and_their_parts_of_what_was_overwritten_and_what_was_never_written() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    let mut kept = vec![0; 1 << 20];
    for (slba, bytes) in [(0, 512 << 10), (8, 4096), (17, 512)] {
        let data = pattern(slba, bytes);
        assert!(io.write(blocks(NvmOpcode::WRITE, slba, bytes), By::R2t, &data).status().is_success());
        kept[slba as usize * 512..][..bytes].copy_from_slice(&data);
    }
    for slba in (0..256).chain(1020..1032) {
        for bytes in [512, 4096, 8192] {
            // The host checks the digest.
            let (read, got) = io.read(blocks(NvmOpcode::READ, slba, bytes), bytes);
            assert!(read.status().is_success());
            assert!(got == kept[slba as usize * 512..][..bytes], "{bytes} bytes at {slba}");
        }
    }
    let (read, got) = io.read(blocks(NvmOpcode::READ, 32, 4096), 8192);
    assert!(read.status().is_success());
    assert!(got[..4096] == kept[32 * 512..][..4096] && got[4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_command_of_the_largest_transfer_is_written_and_read_and_one_larger_is_refused() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    let data = pattern(3, 16 << 20);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, data.len()), By::R2t, &data).status().is_success());
    let (read, got) = io.read(blocks(NvmOpcode::READ, 0, data.len()), data.len());
    assert!(read.status().is_success());
    assert!(got == data);
    let more = data.len() + 512;
    let refused = io.read(blocks(NvmOpcode::READ, 0, more), more).0;
    assert!(refused.status().is(Status::INVALID_FIELD));
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
}

/// Linux sends a page of ranges, whatever their number.
#[test]
fn ranges_to_deallocate_may_come_with_more_behind_them() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    for by in [By::Capsule, By::R2t] {
        let data = pattern(11, 8192);
        assert!(io.write(blocks(NvmOpcode::WRITE, 0, data.len()), By::Capsule, &data).status().is_success());
        let range = DsmRange { slba: 2, nlb: 4, ..DsmRange::default() };
        let mut page = pattern(12, 4096);
        page[..16].copy_from_slice(range.as_bytes());
        let mut deallocate = Command::new(NvmOpcode::DATASET_MANAGEMENT.0, 0, BLOCKS);
        deallocate.cdw11 = DsmCdw11::new().with_ad(true).into_bits();
        let done = io.write(deallocate, by, &page);
        assert!(done.status().is_success(), "{by:?}: {:?}", done.status());
        let (_, got) = io.read(blocks(NvmOpcode::READ, 0, data.len()), data.len());
        let kept = |at: usize| if (1024..3072).contains(&at) { 0 } else { data[at] };
        assert!((0..data.len()).all(|at| got[at] == kept(at)), "{by:?}");
        deallocate.cdw10 = 255;
        let refused = io.write(deallocate, by, &page[..16]);
        assert!(refused.status().is(Status::DATA_SGL_LENGTH_INVALID), "{by:?}: {:?}", refused.status());
    }
}

#[test]
fn full_queue_of_capsule_and_r2t_writes_completes() {
    let served = Served::new();
    for proposal in PROPOSALS {
        let (_admin, mut io) = served.host(proposal);
        let sizes = [512, 4096, 16384, 65536];
        let place = |at: u64| at * 128;
        let writes: Vec<_> = (0..120u64)
            .map(|at| {
                let bytes = sizes[at as usize % sizes.len()];
                let by = if at % 3 == 0 && bytes <= 16384 { By::Capsule } else { By::R2t };
                io.start(blocks(NvmOpcode::WRITE, place(at), bytes), by, &pattern(at, bytes))
            })
            .collect();
        for cid in writes.into_iter().rev() {
            assert!(io.wait(cid).0.status().is_success());
        }
        let reads: Vec<_> = (0..120u64)
            .map(|at| {
                let bytes = sizes[at as usize % sizes.len()];
                (at, bytes, io.start_read(blocks(NvmOpcode::READ, place(at), bytes), bytes))
            })
            .collect();
        for (at, bytes, cid) in reads {
            let (completion, got) = io.wait(cid);
            assert!(completion.status().is_success());
            assert!(got == pattern(at, bytes), "{at}");
        }
    }
}

#[test]
fn hosts_are_served_whichever_way_threads_wait_for_them() {
    for idle in [Idle::Adaptive, Idle::Sleep, Idle::Poll] {
        let served = Served::with(|options| {
            options.target.idle = idle;
            options.target.threads = 2.try_into().unwrap();
        });
        let (_admins, mut queues): (Vec<_>, Vec<_>) =
            (0..3).map(|_| served.host(Proposal::default())).unzip();
        for round in 0..40u64 {
            for (host, io) in (0..).zip(&mut queues) {
                let data = pattern(round * 3 + host, 4096);
                let written = io.write(blocks(NvmOpcode::WRITE, host * 8, 4096), By::Capsule, &data);
                assert!(written.status().is_success());
                assert!(io.read(blocks(NvmOpcode::READ, host * 8, 4096), 4096).1 == data, "{idle:?} {round}");
            }
        }
    }
}

#[test]
fn a_compare_takes_its_data_as_a_write_does() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    let data = pattern(1, 4096);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data).status().is_success());
    for by in [By::Capsule, By::R2t] {
        assert!(io.write(blocks(NvmOpcode::COMPARE, 0, 4096), by, &data).status().is_success());
        let other = io.write(blocks(NvmOpcode::COMPARE, 0, 4096), by, &pattern(2, 4096));
        assert!(other.status().is(Status::COMPARE_FAILURE));
    }
}

#[test]
fn data_that_is_not_as_long_as_the_blocks_is_refused_and_the_next_command_is_served() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    for by in [By::Capsule, By::R2t] {
        let refused = io.write(blocks(NvmOpcode::WRITE, 0, 4096), by, &pattern(1, 2048));
        assert!(refused.status().is(Status::DATA_SGL_LENGTH_INVALID), "{:?}", refused.status());
    }
    let short = io.read(blocks(NvmOpcode::READ, 0, 4096), 2048).0;
    assert!(short.status().is(Status::DATA_SGL_LENGTH_INVALID));
    let behind = io.read(blocks(NvmOpcode::READ, BLOCKS_BYTES / 512, 512), 512).0;
    assert!(behind.status().is(Status::LBA_OUT_OF_RANGE));
    let nowhere = io.read(Command { nsid: 9, ..blocks(NvmOpcode::READ, 0, 512) }, 512).0;
    assert!(nowhere.status().is(Status::INVALID_NAMESPACE));
    let data = pattern(9, 512);
    assert!(io.write(blocks(NvmOpcode::WRITE, 3, 512), By::Capsule, &data).status().is_success());
    assert_eq!(io.read(blocks(NvmOpcode::READ, 3, 512), 512).1, data);
}

#[test]
fn a_flush_is_answered_once_the_image_is_synced() {
    for served in [Served::new(), Served::synced()] {
        let (_admin, mut io) = served.host(Proposal::default());
        let data = pattern(4, 4096);
        let write = io.start(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data);
        let flush = io.start_read(Command::new(NvmOpcode::FLUSH.0, 0, BLOCKS), 0);
        assert!(io.wait(flush).0.status().is_success());
        assert!(io.wait(write).0.status().is_success());
        assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
    }
}
