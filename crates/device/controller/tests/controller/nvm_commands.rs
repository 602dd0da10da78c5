//! Commands of a block namespace, seen from the host: what they do and what they refuse.

use crate::io::{BLOCKS_512, BLOCKS_4096, DATA, Io, KV, assert_status, blocks};
use byway_kit::pattern;
use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw11, DsmRange, NvmCdw12, NvmOpcode};
use byway_spec::{Command, Completion, Status};
use zerocopy::IntoBytes;

fn device() -> Io {
    Io::new()
}

/// Sends `command` with its data at [`DATA`], from one PRP pair.
fn run(io: &mut Io, mut command: Command, len: usize) -> Completion {
    io.point_prps(&mut command, DATA, len);
    io.run(command)
}

fn write(io: &mut Io, nsid: u32, slba: u64, bytes: &[u8]) -> Completion {
    io.put(DATA, bytes);
    let count = bytes.len() / io.block_bytes(nsid);
    run(io, blocks(NvmOpcode::WRITE, nsid, slba, count), bytes.len())
}

fn read(io: &mut Io, nsid: u32, slba: u64, count: usize) -> Vec<u8> {
    let len = count * io.block_bytes(nsid);
    io.put(DATA, &vec![0xee; len]);
    let done = run(io, blocks(NvmOpcode::READ, nsid, slba, count), len);
    assert!(done.status().is_success(), "{}", done.status());
    io.get(DATA, len)
}

#[test]
fn written_blocks_are_read_back_at_both_block_sizes() {
    let mut io = device();
    for nsid in [BLOCKS_512, BLOCKS_4096] {
        let bytes = pattern(nsid.into(), 5 * io.block_bytes(nsid));
        assert_status(write(&mut io, nsid, 3, &bytes), Status::SUCCESS);
        assert_eq!(read(&mut io, nsid, 3, 5), bytes);
        assert!(read(&mut io, nsid, 0, 3).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_transfer_of_sixteen_mebibytes_works_and_one_block_more_does_not() {
    let mut io = device();
    let bytes = pattern(7, 16 << 20);
    assert_status(write(&mut io, BLOCKS_4096, 1, &bytes), Status::SUCCESS);
    assert!(read(&mut io, BLOCKS_4096, 1, bytes.len() / 4096) == bytes);
    let command = blocks(NvmOpcode::READ, BLOCKS_4096, 0, (16 << 20) / 4096 + 1);
    assert_status(io.run(command), Status::INVALID_FIELD);
}

#[test]
fn blocks_smaller_than_a_unit_do_not_disturb_their_neighbours() {
    let mut io = device();
    let before = pattern(1, 32 * 512);
    write(&mut io, BLOCKS_512, 0, &before);
    write(&mut io, BLOCKS_512, 13, &[0xaa; 512]);
    let mut expected = before;
    expected[13 * 512..14 * 512].fill(0xaa);
    assert_eq!(read(&mut io, BLOCKS_512, 0, 32), expected);
}

#[test]
fn blocks_past_the_end_are_out_of_range_even_where_the_sum_overflows() {
    let mut io = device();
    let end = io.block_count(BLOCKS_512);
    let opcodes =
        [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE, NvmOpcode::VERIFY, NvmOpcode::WRITE_ZEROES];
    for opcode in opcodes {
        for (slba, count) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 8), (1 << 63, 1)] {
            let done = run(&mut io, blocks(opcode, BLOCKS_512, slba, count), count * 512);
            assert_status(done, Status::LBA_OUT_OF_RANGE);
        }
    }
    assert_status(run(&mut io, blocks(NvmOpcode::READ, BLOCKS_512, end - 1, 1), 512), Status::SUCCESS);
}

#[test]
fn a_namespace_that_is_not_there_is_refused() {
    let mut io = device();
    for nsid in [0, 4, 64, 65, 0xffff_fffe, 0xffff_ffff] {
        let done = run(&mut io, blocks(NvmOpcode::READ, nsid, 0, 1), 4096);
        assert_status(done, Status::INVALID_NAMESPACE);
    }
}

#[test]
fn commands_of_another_set_are_invalid_opcodes() {
    let mut io = device();
    for opcode in [0x04, 0x0f, 0x10, 0x14, 0x79, 0x7d, 0x7f] {
        assert_status(io.run(Command::new(opcode, 0, BLOCKS_512)), Status::INVALID_OPCODE);
    }
    assert_status(io.run(blocks(NvmOpcode::WRITE_ZEROES, KV, 0, 1)), Status::INVALID_OPCODE);
}

#[test]
fn unsupported_write_flags_are_invalid_fields() {
    let mut io = device();
    let refused = [
        NvmCdw12::new().with_prinfo(8),
        NvmCdw12::new().with_stc(true),
        NvmCdw12::new().with_dtype(1),
        NvmCdw12::from_bits(1 << 16),
    ];
    for fields in refused {
        let mut command = blocks(NvmOpcode::WRITE, BLOCKS_512, 0, 1);
        command.cdw12 = fields.into_bits();
        assert_status(run(&mut io, command, 512), Status::INVALID_FIELD);
    }
    let mut command = blocks(NvmOpcode::WRITE, BLOCKS_512, 0, 1);
    command.cdw12 = NvmCdw12::new().with_fua(true).with_lr(true).into_bits();
    assert_status(run(&mut io, command, 512), Status::SUCCESS);
}

#[test]
fn flush_succeeds_on_one_namespace_and_on_all() {
    let mut io = device();
    for nsid in [BLOCKS_512, KV, 0xffff_ffff] {
        assert_status(io.run(Command::new(NvmOpcode::FLUSH.0, 0, nsid)), Status::SUCCESS);
    }
}

#[test]
fn compare_distinguishes_equal_blocks_from_others() {
    let mut io = device();
    let mut bytes = pattern(9, 9 * 512);
    write(&mut io, BLOCKS_512, 5, &bytes);
    io.put(DATA, &bytes);
    let command = blocks(NvmOpcode::COMPARE, BLOCKS_512, 5, 9);
    assert_status(run(&mut io, command, bytes.len()), Status::SUCCESS);
    bytes[8 * 512] ^= 1;
    io.put(DATA, &bytes);
    assert_status(run(&mut io, command, bytes.len()), Status::COMPARE_FAILURE);
}

#[test]
fn verify_reads_without_a_buffer() {
    let mut io = device();
    write(&mut io, BLOCKS_4096, 0, &pattern(2, 4096));
    assert_status(io.run(blocks(NvmOpcode::VERIFY, BLOCKS_4096, 0, 16)), Status::SUCCESS);
}

#[test]
fn write_zeroes_clears_exactly_its_blocks_deallocating_or_not() {
    let mut io = device();
    for deac in [false, true] {
        let mut expected = pattern(3, 64 * 512);
        write(&mut io, BLOCKS_512, 0, &expected);
        let mut command = blocks(NvmOpcode::WRITE_ZEROES, BLOCKS_512, 5, 41);
        command.cdw12 = NvmCdw12::from_bits(command.cdw12).with_deac(deac).into_bits();
        assert_status(io.run(command), Status::SUCCESS);
        expected[5 * 512..46 * 512].fill(0);
        assert_eq!(read(&mut io, BLOCKS_512, 0, 64), expected);
    }
}

#[test]
fn write_zeroes_takes_more_than_a_transfer_may_move() {
    let mut io = device();
    let bytes = pattern(4, 4096);
    write(&mut io, BLOCKS_4096, 5000, &bytes);
    assert_status(io.run(blocks(NvmOpcode::WRITE_ZEROES, BLOCKS_4096, 0, 5001)), Status::SUCCESS);
    assert!(read(&mut io, BLOCKS_4096, 5000, 1).iter().all(|byte| *byte == 0));
}

fn deallocate(io: &mut Io, nsid: u32, ranges: &[DsmRange], cdw11: DsmCdw11) -> Completion {
    let mut command = Command::new(NvmOpcode::DATASET_MANAGEMENT.0, 0, nsid);
    command.cdw10 = ranges.len() as u32 - 1;
    command.cdw11 = cdw11.into_bits();
    io.put(DATA, ranges.as_bytes());
    run(io, command, ranges.len() * 16)
}

fn dsm(slba: u64, nlb: u32) -> DsmRange {
    DsmRange { slba, nlb, cattr: 0 }
}

#[test]
fn deallocated_blocks_read_zeroes_and_others_stay() {
    let mut io = device();
    let mut expected = pattern(5, 64 * 512);
    write(&mut io, BLOCKS_512, 0, &expected);
    let ranges = [dsm(1, 2), dsm(16, 16), dsm(40, 0), dsm(60, 4)];
    let done = deallocate(&mut io, BLOCKS_512, &ranges, DsmCdw11::new().with_ad(true));
    assert_status(done, Status::SUCCESS);
    for (from, to) in [(1, 3), (16, 32), (60, 64)] {
        expected[from * 512..to * 512].fill(0);
    }
    assert_eq!(read(&mut io, BLOCKS_512, 0, 64), expected);
}

#[test]
fn a_range_past_the_end_deallocates_nothing() {
    let mut io = device();
    let bytes = pattern(6, 512);
    write(&mut io, BLOCKS_512, 0, &bytes);
    let end = io.block_count(BLOCKS_512);
    let ranges = [dsm(0, 1), dsm(end - 1, 2)];
    let done = deallocate(&mut io, BLOCKS_512, &ranges, DsmCdw11::new().with_ad(true));
    assert_status(done, Status::LBA_OUT_OF_RANGE);
    assert_eq!(read(&mut io, BLOCKS_512, 0, 1), bytes);
}

#[test]
fn dataset_hints_change_nothing() {
    let mut io = device();
    let bytes = pattern(6, 512);
    write(&mut io, BLOCKS_512, 0, &bytes);
    let hints = DsmCdw11::new().with_idr(true).with_idw(true);
    assert_status(deallocate(&mut io, BLOCKS_512, &[dsm(0, 1)], hints), Status::SUCCESS);
    assert_eq!(read(&mut io, BLOCKS_512, 0, 1), bytes);
}

fn copy(io: &mut Io, nsid: u32, to: u64, ranges: &[CopyRange]) -> Completion {
    let mut command = Command::new(NvmOpcode::COPY.0, 0, nsid);
    command.set_cdw10_11(to);
    command.cdw12 = CopyCdw12::new().with_nr_z((ranges.len() - 1) as u8).into_bits();
    io.put(DATA, ranges.as_bytes());
    run(io, command, ranges.len() * 32)
}

fn source(slba: u64, count: u16) -> CopyRange {
    CopyRange { slba, nlb_z: count - 1, ..CopyRange::default() }
}

#[test]
fn copy_gathers_its_ranges_at_the_destination() {
    let mut io = device();
    let bytes = pattern(8, 32 * 512);
    write(&mut io, BLOCKS_512, 0, &bytes);
    let done = copy(&mut io, BLOCKS_512, 100, &[source(20, 3), source(1, 9), source(50, 1)]);
    assert_status(done, Status::SUCCESS);
    let mut expected = bytes[20 * 512..23 * 512].to_vec();
    expected.extend_from_slice(&bytes[512..10 * 512]);
    expected.extend_from_slice(&[0; 512]);
    assert_eq!(read(&mut io, BLOCKS_512, 100, 13), expected);
}

#[test]
fn copy_onto_its_own_source_moves_what_was_there_before() {
    let mut io = device();
    let bytes = pattern(8, 32 * 512);
    write(&mut io, BLOCKS_512, 0, &bytes);
    assert_status(copy(&mut io, BLOCKS_512, 1, &[source(0, 31)]), Status::SUCCESS);
    assert_eq!(read(&mut io, BLOCKS_512, 1, 31), bytes[..31 * 512]);
}

#[test]
fn a_copy_over_its_limits_is_refused_whole() {
    let mut io = device();
    let many = vec![source(0, 1); 129];
    assert_status(copy(&mut io, BLOCKS_512, 500, &many), Status::COMMAND_SIZE_LIMIT_EXCEEDED);
    let long = [source(0, 2048), source(0, 1)];
    assert_status(copy(&mut io, BLOCKS_512, 500, &long), Status::COMMAND_SIZE_LIMIT_EXCEEDED);
    let long = [source(0, 2049)];
    assert_status(copy(&mut io, BLOCKS_512, 500, &long), Status::COMMAND_SIZE_LIMIT_EXCEEDED);
}

#[test]
fn a_copy_from_or_to_outside_names_the_range() {
    let mut io = device();
    let end = io.block_count(BLOCKS_512);
    let done = copy(&mut io, BLOCKS_512, 0, &[source(0, 1), source(1, 1), source(end, 1)]);
    assert_status(done, Status::LBA_OUT_OF_RANGE);
    assert_eq!(done.dw0, 2);
    assert_status(copy(&mut io, BLOCKS_512, end - 1, &[source(0, 2)]), Status::LBA_OUT_OF_RANGE);
}

#[test]
fn an_inline_payload_is_written_like_any_other() {
    let mut io = device();
    io.enable_methods();
    let bytes = pattern(9, 8192);
    for (nsid, len) in [(BLOCKS_512, 512), (BLOCKS_512, 1536), (BLOCKS_4096, 4096), (BLOCKS_512, 8192)] {
        let count = len / io.block_bytes(nsid);
        let done = io.run_inline(blocks(NvmOpcode::WRITE, nsid, 3, count), &bytes[..len]);
        assert_status(done, Status::SUCCESS);
        assert!(read(&mut io, nsid, 3, count) == bytes[..len], "{len}");
    }
    let done = io.run_inline(blocks(NvmOpcode::COMPARE, BLOCKS_512, 3, 16), &bytes);
    assert_status(done, Status::SUCCESS);
}

#[test]
fn an_inline_payload_of_another_length_is_refused_and_its_chunks_are_skipped() {
    let mut io = device();
    io.enable_methods();
    for len in [1, 511, 513, 1024] {
        let done = io.run_inline(blocks(NvmOpcode::WRITE, BLOCKS_512, 0, 1), &vec![0x02; len]);
        assert_status(done, Status::DATA_SGL_LENGTH_INVALID);
    }
    let done = io.run_inline(blocks(NvmOpcode::READ, BLOCKS_512, 0, 1), &[0; 512]);
    assert_status(done, Status::INVALID_FIELD);
    assert_status(write(&mut io, BLOCKS_512, 0, &[7; 512]), Status::SUCCESS);
}

#[test]
fn a_format_forgets_the_blocks_and_may_change_their_size() {
    let mut io = device();
    write(&mut io, BLOCKS_512, 0, &pattern(1, 4096));
    io.host.subsystem.format_namespace(BLOCKS_512, 1, false).unwrap();
    let mut command = blocks(NvmOpcode::READ, BLOCKS_512, 0, 1);
    io.put(DATA, &[0xee; 4096]);
    io.point_prps(&mut command, DATA, 4096);
    assert_status(io.run(command), Status::SUCCESS);
    assert_eq!(io.get(DATA, 4096), [0; 4096]);
    let end = io.block_count(BLOCKS_512) / 8;
    command.set_cdw10_11(end);
    assert_status(io.run(command), Status::LBA_OUT_OF_RANGE);
    assert!(io.host.subsystem.format_namespace(BLOCKS_512, 2, false).is_err());
}
