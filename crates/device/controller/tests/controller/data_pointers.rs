//! PRP and SGL payloads of every shape, sound and unsound: what the host gets for them.

use crate::common::number;
use crate::io::{BLOCKS_512, BLOCKS_4096, DATA, DATA_BYTES, Io, assert_status, blocks, get, keyed};
use byway_kit::pattern;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::LogPage;
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::name_text;
use byway_spec::{Command, Completion, DataPointer, Status};

const PAGE: u64 = 4096;
/// Where lists are built, away from the data.
const LISTS: u64 = DATA + (20 << 20);

/// A write of `pages` pages whose data pointer is still to be set.
fn write(pages: usize) -> Command {
    blocks(NvmOpcode::WRITE, BLOCKS_4096, 0, pages)
}

/// What the first `pages` pages of the namespace hold.
fn written(io: &mut Io, pages: usize) -> Vec<u8> {
    let mut command = blocks(NvmOpcode::READ, BLOCKS_4096, 0, pages);
    io.point_prps(&mut command, DATA, pages * 4096);
    assert_eq!(io.run(command).status().code(), Status::SUCCESS);
    io.get(DATA, pages * 4096)
}

/// Scatters `bytes` over pages that are not adjacent and in falling order. Returns their addresses.
fn scatter(io: &mut Io, bytes: &[u8]) -> Vec<u64> {
    let pages = bytes.chunks(4096).enumerate();
    pages
        .map(|(index, page)| {
            let at = DATA + (4000 - 2 * index as u64) * PAGE;
            io.put(at, page);
            at
        })
        .collect()
}

fn put_list(io: &mut Io, at: u64, entries: &[u64]) {
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    io.put(at, &bytes);
}

fn put_segment(io: &mut Io, at: u64, descriptors: &[SglDescriptor]) {
    let bytes: Vec<u8> = descriptors.iter().flat_map(SglDescriptor::to_bytes).collect();
    io.put(at, &bytes);
}

fn with_prps(io: &mut Io, pages: usize, prp1: u64, prp2: u64) -> Completion {
    let mut command = write(pages);
    command.set_prps(prp1, prp2);
    io.run(command)
}

fn with_sgl(io: &mut Io, pages: usize, sgl1: SglDescriptor) -> Completion {
    let mut command = write(pages);
    command.set_sgl1(sgl1);
    io.run(command)
}

#[test]
fn one_page_at_an_offset_takes_both_prps_whether_pages_move_whole_or_not() {
    for profile in ["gen4x4", "cosmos"] {
        let mut io = Io::of_profile(profile);
        let bytes = pattern(0, 4096);
        io.put(DATA + 512, &bytes[..3584]);
        io.put(DATA + 8 * PAGE, &bytes[3584..]);
        assert_status(with_prps(&mut io, 1, DATA + 512, DATA + 8 * PAGE), Status::SUCCESS);
        assert!(written(&mut io, 1) == bytes);
    }
}

#[test]
fn a_prp_list_may_begin_in_the_middle_of_its_page() {
    let mut io = Io::new();
    let bytes = pattern(0, 5 * 4096);
    let pages = scatter(&mut io, &bytes);
    put_list(&mut io, LISTS + 4096 - 4 * 8, &pages[1..]);
    assert_status(with_prps(&mut io, 5, pages[0], LISTS + 4096 - 4 * 8), Status::SUCCESS);
    assert!(written(&mut io, 5) == bytes);
}

#[test]
fn a_list_that_begins_near_the_end_of_its_page_goes_on_in_another() {
    let mut io = Io::new();
    let bytes = pattern(0, 600 * 4096);
    let pages = scatter(&mut io, &bytes);
    put_list(&mut io, LISTS + 4096 - 2 * 8, &[pages[1], LISTS + 2 * PAGE]);
    let mut second = pages[2..513].to_vec();
    second.push(LISTS + 5 * PAGE);
    put_list(&mut io, LISTS + 2 * PAGE, &second);
    put_list(&mut io, LISTS + 5 * PAGE, &pages[513..]);
    assert_status(with_prps(&mut io, 600, pages[0], LISTS + 4096 - 2 * 8), Status::SUCCESS);
    assert!(written(&mut io, 600) == bytes);
}

#[test]
fn a_list_that_points_at_itself_ends_with_the_length() {
    let mut io = Io::new();
    let mut list = vec![DATA; 511];
    list.push(LISTS);
    put_list(&mut io, LISTS, &list);
    io.put(DATA, &[0x77; 4096]);
    assert_status(with_prps(&mut io, 4096, DATA, LISTS), Status::SUCCESS);
    assert!(written(&mut io, 3).iter().all(|byte| *byte == 0x77));
}

#[test]
fn prps_that_are_not_aligned_are_refused() {
    let mut io = Io::new();
    assert_status(with_prps(&mut io, 1, DATA + 2, DATA + PAGE), Status::PRP_OFFSET_INVALID);
    assert_status(with_prps(&mut io, 2, DATA, DATA + PAGE + 8), Status::PRP_OFFSET_INVALID);
    assert_status(with_prps(&mut io, 3, DATA, LISTS + 4), Status::PRP_OFFSET_INVALID);
    put_list(&mut io, LISTS, &[DATA, DATA + 8]);
    assert_status(with_prps(&mut io, 3, DATA, LISTS), Status::PRP_OFFSET_INVALID);
    let mut list = vec![DATA; 511];
    list.push(LISTS + 8);
    put_list(&mut io, LISTS, &list);
    assert_status(with_prps(&mut io, 600, DATA, LISTS), Status::PRP_OFFSET_INVALID);
}

#[test]
fn prps_and_lists_outside_the_map_are_transfer_errors() {
    let mut io = Io::new();
    let outside = DATA + DATA_BYTES as u64;
    for prp1 in [outside, 0, u64::MAX - 4095] {
        assert_status(with_prps(&mut io, 1, prp1, 0), Status::DATA_TRANSFER_ERROR);
    }
    for list in [outside, 0, u64::MAX - 4095, u64::MAX - 7] {
        assert_status(with_prps(&mut io, 3, DATA, list), Status::DATA_TRANSFER_ERROR);
    }
    put_list(&mut io, LISTS, &[DATA, u64::MAX - 4095]);
    assert_status(with_prps(&mut io, 3, DATA, LISTS), Status::DATA_TRANSFER_ERROR);
}

#[test]
fn an_sgl_data_block_may_begin_and_end_anywhere() {
    let mut io = Io::new();
    let bytes = pattern(0, 3 * 4096);
    io.put(DATA + 1235, &bytes);
    assert_status(with_sgl(&mut io, 3, SglDescriptor::data_block(DATA + 1235, 3 * 4096)), Status::SUCCESS);
    assert!(written(&mut io, 3) == bytes);
}

#[test]
fn sgl_segments_chain_and_blocks_have_any_length() {
    let mut io = Io::new();
    let bytes = pattern(0, 2 * 4096);
    io.put(DATA + 7, &bytes[..100]);
    io.put(DATA + PAGE, &bytes[100..5000]);
    io.put(DATA + 4 * PAGE + 1, &bytes[5000..]);
    let first = [
        SglDescriptor::data_block(DATA + 7, 100),
        SglDescriptor::data_block(0, 0),
        SglDescriptor::last_segment(LISTS + 256, 32),
    ];
    put_segment(&mut io, LISTS, &first);
    let last =
        [SglDescriptor::data_block(DATA + PAGE, 4900), SglDescriptor::data_block(DATA + 4 * PAGE + 1, 3192)];
    put_segment(&mut io, LISTS + 256, &last);
    assert_status(with_sgl(&mut io, 2, SglDescriptor::segment(LISTS, 48)), Status::SUCCESS);
    assert!(written(&mut io, 2) == bytes);
}

#[test]
fn bit_bucket_discards_read_data() {
    let mut io = Io::new();
    let bytes = pattern(0, 4096);
    io.put(DATA, &bytes);
    assert_status(with_prps(&mut io, 1, DATA, 0), Status::SUCCESS);
    io.put(DATA + PAGE, &[0xee; 4096]);
    let descriptors = [
        SglDescriptor::data_block(DATA + PAGE, 96),
        SglDescriptor::bit_bucket(3900),
        SglDescriptor::data_block(DATA + PAGE + 96, 100),
    ];
    put_segment(&mut io, LISTS, &descriptors);
    let mut command = blocks(NvmOpcode::READ, BLOCKS_4096, 0, 1);
    command.set_sgl1(SglDescriptor::last_segment(LISTS, 48));
    assert_status(io.run(command), Status::SUCCESS);
    let mut expected = bytes[..96].to_vec();
    expected.extend_from_slice(&bytes[3996..]);
    expected.extend_from_slice(&[0xee; 60]);
    assert_eq!(io.get(DATA + PAGE, 256), expected);
}

#[test]
fn sgls_with_a_wrong_length_are_refused() {
    let mut io = Io::new();
    for len in [0, 1, 4095, 4097, u32::MAX] {
        let done = with_sgl(&mut io, 1, SglDescriptor::data_block(DATA, len));
        assert_status(done, Status::DATA_SGL_LENGTH_INVALID);
    }
    let done = with_sgl(&mut io, 1, SglDescriptor::data_block(u64::MAX - 100, 4096));
    assert_status(done, Status::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn sgl_segments_that_loop_end_in_a_status() {
    let mut io = Io::new();
    put_segment(&mut io, LISTS, &[SglDescriptor::segment(LISTS, 16)]);
    assert_status(with_sgl(&mut io, 1, SglDescriptor::segment(LISTS, 16)), Status::INVALID_SGL_COUNT);
    let both = [SglDescriptor::data_block(DATA, 16), SglDescriptor::segment(LISTS, 32)];
    put_segment(&mut io, LISTS, &both);
    assert_status(with_sgl(&mut io, 1, SglDescriptor::segment(LISTS, 32)), Status::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn sgl_segments_that_cannot_be_are_refused() {
    let mut io = Io::new();
    for len in [0, 15, 17] {
        let done = with_sgl(&mut io, 1, SglDescriptor::segment(LISTS, len));
        assert_status(done, Status::INVALID_SGL_SEGMENT);
    }
    put_segment(&mut io, LISTS, &[SglDescriptor::segment(LISTS, 16)]);
    assert_status(with_sgl(&mut io, 1, SglDescriptor::last_segment(LISTS, 16)), Status::INVALID_SGL_SEGMENT);
    let done = with_sgl(&mut io, 1, SglDescriptor::segment(DATA + DATA_BYTES as u64, 16));
    assert_status(done, Status::DATA_TRANSFER_ERROR);
    let done = with_sgl(&mut io, 1, SglDescriptor::segment(LISTS, !15));
    assert_status(done, Status::INVALID_SGL_COUNT);
}

#[test]
fn descriptor_types_that_pcie_does_not_have_are_refused() {
    let mut io = Io::new();
    let kinds = [
        SglKind::DATA_BLOCK_OFFSET,
        SglKind::KEYED_DATA_BLOCK,
        SglKind::TRANSPORT_DATA_BLOCK,
        SglKind(0xf0),
        SglKind(0x0f),
    ];
    for kind in kinds {
        let done = with_sgl(&mut io, 1, SglDescriptor::new(kind, DATA, 4096));
        assert_status(done, Status::SGL_TYPE_INVALID);
    }
}

#[test]
fn metadata_sgls_and_reserved_psdt_are_invalid_fields() {
    let mut io = Io::new();
    for psdt in [2, 3] {
        let mut command = write(1);
        command.cdw0 = (command.cdw0.into_bits() | psdt << 14).into();
        command.dptr = [DATA, 0];
        assert_status(io.run(command), Status::INVALID_FIELD);
    }
}

#[test]
fn a_device_without_sgls_announces_none_and_takes_none() {
    let mut io = Io::without_sgls("gen4x4");
    let data = io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(number(&data, 536, 4), 0, "SGLS");
    assert_status(with_sgl(&mut io, 1, SglDescriptor::data_block(DATA, 4096)), Status::INVALID_FIELD);
    let mut command = write(1);
    command.set_prps(DATA, 0);
    assert_status(io.run(command), Status::SUCCESS);
}

#[test]
fn commands_without_data_take_any_pointer_in_rings() {
    for mut io in [Io::new(), Io::without_sgls("gen4x4")] {
        for psdt in [DataPointer::Prp, DataPointer::Sgl, DataPointer::SglMetadata, DataPointer::Reserved] {
            for dptr in [[0; 2], [u64::MAX; 2]] {
                let unused = |mut command: Command| {
                    command.cdw0.set_psdt(psdt);
                    command.dptr = dptr;
                    command
                };
                let keep_alive = Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0);
                assert_status(io.host.admin(unused(keep_alive)), Status::SUCCESS);
                for opcode in [NvmOpcode::FLUSH, NvmOpcode::WRITE_ZEROES, NvmOpcode::VERIFY] {
                    assert_status(io.run(unused(blocks(opcode, BLOCKS_512, 0, 1))), Status::SUCCESS);
                }
            }
        }
    }
}

#[test]
fn inline_payloads_work_without_sgls() {
    let mut io = Io::without_sgls("gen4x4");
    let store = |key: &[u8]| keyed(KvOpcode::STORE.0, key, 100);
    let mut capsule = store(b"a");
    capsule.set_sgl1(SglDescriptor::inline(100));
    assert_status(io.run(capsule), Status::INVALID_FIELD);
    io.enable_methods();
    assert_status(io.run_inline(store(b"a"), &[7; 100]), Status::SUCCESS);
    assert_eq!(get(&mut io, b"a").unwrap(), [7; 100]);
}

#[test]
fn vendor_log_counts_descriptors_by_kind() {
    let mut io = Io::new();
    io.enable_methods();
    let mut command = write(1);
    command.set_prps(DATA, 0);
    io.run(command);
    with_sgl(&mut io, 1, SglDescriptor::data_block(DATA, 4096));
    with_sgl(&mut io, 1, SglDescriptor::data_block(DATA, 1));
    io.run_inline(keyed(KvOpcode::STORE.0, b"a", 64), &[7; 64]);
    let log = io.host.log(LogPage::LEDGER, Csi::NVM, 16 << 10).unwrap();
    let counter = |name: &str| {
        let at = log.windows(24).position(|field| name_text(field) == name).unwrap();
        number(&log, at + 24, 8)
    };
    assert_eq!(["payload.prp", "payload.sgl", "payload.inline"].map(counter), [1, 2, 1]);
}
