//! Memory namespaces and programs: commands of their sets, and what each refuses.

mod exec;
mod running;

use byway_spec::base::admin::{AdminOpcode, FormatCdw10, NamespaceCdw11, SanitizeCdw10, SelectCdw10};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::LogPage;
use byway_spec::memory::{MemoryCopyBlocks, MemoryCopyBytes, MemoryCopyCdw12, MemoryOpcode};
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::programs::{
    ExecuteCdw2, LoadProgramCdw10, MemoryRangeDescriptor, ProgramActivationCdw10, ProgramOpcode, ProgramType,
    RangeSetCdw10,
};
use byway_spec::{Command, Completion, Status};
use zerocopy::{FromZeros, IntoBytes};

use crate::common::{TestHost, get_log, number, nvm};

const MIB: u64 = 1 << 20;

/// Namespaces: blocks, memory of 1 MiB, programs.
const BLOCKS: u32 = 1;
const MEMORY: u32 = 2;
const PROGRAMS: u32 = 3;

/// First index that is not one of the device's programs, and the index of CRC-32C.
const FREE: u16 = 5;
const CRC32C: u16 = 2;

/// `r0 = r3; r0 += r4; exit`: the sum of the parameters.
const SUM: [u8; 24] = [0xbf, 0x30, 0, 0, 0, 0, 0, 0, 0x0f, 0x40, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

fn create(host: &mut TestHost, csi: Csi, size_bytes: u64) -> Completion {
    let mut command = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 0);
    command.cdw11 = NamespaceCdw11::new().with_csi(csi.0).into_bits();
    let mut data = vec![0; 4096];
    data[..8].copy_from_slice(&size_bytes.to_le_bytes());
    host.admin_write(command, &data)
}

fn attach(host: &mut TestHost, nsid: u32) {
    let mut list = vec![0; 4096];
    list[0] = 1;
    assert!(
        host.admin_write(Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, nsid), &list)
            .status()
            .is_success()
    );
}

fn delete(host: &mut TestHost, nsid: u32) -> Status {
    let mut command = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, nsid);
    command.cdw10 = SelectCdw10::DELETE.into();
    host.admin(command).status()
}

fn host() -> TestHost {
    let mut host = TestHost::new(64 * MIB, &[nvm(8 * MIB, 512)]);
    add_namespaces(&mut host);
    host
}

/// Makes the namespaces of memory and programs, and a queue.
fn add_namespaces(host: &mut TestHost) {
    host.create_pair(1, 64);
    for (csi, size_bytes, nsid) in [(Csi::SLM, MIB, MEMORY), (Csi::CP, 0, PROGRAMS)] {
        let made = create(host, csi, size_bytes);
        assert_eq!((made.status(), made.dw0), (Status::SUCCESS, nsid));
        attach(host, nsid);
    }
}

/// Executes an I/O command that brings `bytes`.
fn send(host: &mut TestHost, mut command: Command, bytes: &[u8]) -> Completion {
    let at = host.alloc(bytes.len().max(1));
    host.write(at, bytes);
    host.point_prps(&mut command, at, bytes.len());
    host.execute(1, command)
}

fn memory_command(opcode: MemoryOpcode, start: u64, length_bytes: u32) -> Command {
    let mut command = Command::new(opcode.0, 0, MEMORY);
    (command.cdw10, command.cdw11) = (start as u32, (start >> 32) as u32);
    command.cdw12 = length_bytes;
    command
}

fn write(host: &mut TestHost, start: u64, bytes: &[u8]) -> Status {
    send(host, memory_command(MemoryOpcode::WRITE, start, bytes.len() as u32), bytes).status()
}

fn read(host: &mut TestHost, start: u64, len_bytes: usize) -> Result<Vec<u8>, Status> {
    let at = host.alloc(len_bytes);
    let mut command = memory_command(MemoryOpcode::READ, start, len_bytes as u32);
    host.point_prps(&mut command, at, len_bytes);
    let status = host.execute(1, command).status();
    if status.is_success() { Ok(host.read(at, len_bytes)) } else { Err(status) }
}

fn load(host: &mut TestHost, index: u16, size_bytes: u32, offset: u32, bytes: &[u8]) -> Status {
    let mut command = Command::new(AdminOpcode::LOAD_PROGRAM.0, 0, PROGRAMS);
    let cdw10 = LoadProgramCdw10::new().with_pind(index).with_ptype(ProgramType::EBPF.0).with_pit(1);
    (command.cdw10, command.cdw11, command.cdw12) = (cdw10.into_bits(), size_bytes, 77);
    (command.cdw14, command.cdw15) = (bytes.len() as u32, offset);
    host.admin_write(command, bytes).status()
}

fn unload(host: &mut TestHost, index: u16) -> Status {
    let mut command = Command::new(AdminOpcode::LOAD_PROGRAM.0, 0, PROGRAMS);
    command.cdw10 = LoadProgramCdw10::new().with_pind(index).with_sel(LoadProgramCdw10::UNLOAD).into_bits();
    host.admin(command).status()
}

fn activation(host: &mut TestHost, index: u16, select: u8) -> Status {
    let mut command = Command::new(AdminOpcode::PROGRAM_ACTIVATION.0, 0, PROGRAMS);
    command.cdw10 = ProgramActivationCdw10::new().with_pind(index).with_sel(select).into_bits();
    host.admin(command).status()
}

fn activate(host: &mut TestHost, index: u16) -> Status {
    activation(host, index, ProgramActivationCdw10::ACTIVATE)
}

fn range(nsid: u32, start: u64, length_bytes: u32) -> MemoryRangeDescriptor {
    MemoryRangeDescriptor { nsid, length_bytes, start, ..MemoryRangeDescriptor::default() }
}

fn create_set(host: &mut TestHost, ranges: &[MemoryRangeDescriptor]) -> Completion {
    let mut command = Command::new(AdminOpcode::MEMORY_RANGE_SET.0, 0, PROGRAMS);
    command.cdw11 = ranges.len() as u32;
    host.admin_write(command, ranges.as_bytes())
}

fn delete_set(host: &mut TestHost, id: u16) -> Status {
    let mut command = Command::new(AdminOpcode::MEMORY_RANGE_SET.0, 0, PROGRAMS);
    command.cdw10 = RangeSetCdw10::new().with_sel(RangeSetCdw10::DELETE).with_rsid(id).into_bits();
    host.admin(command).status()
}

fn execute_command(index: u16, set: u16, ranges: usize, [first, second]: [u64; 2]) -> Command {
    let mut command = Command::new(ProgramOpcode::EXECUTE.0, 0, PROGRAMS);
    command.cdw2 = ExecuteCdw2::new().with_pind(index).with_rsid(set).into_bits();
    (command.cdw3, command.mptr) = (ranges as u32, ranges as u64 * 32);
    (command.cdw10, command.cdw11) = (first as u32, (first >> 32) as u32);
    (command.cdw12, command.cdw13) = (second as u32, (second >> 32) as u32);
    command
}

/// Executes a program; what it returns, or the status.
fn execute(
    host: &mut TestHost,
    index: u16,
    ranges: &[MemoryRangeDescriptor],
    parameters: [u64; 2],
) -> Result<u64, Status> {
    let completion = send(host, execute_command(index, 0, ranges.len(), parameters), ranges.as_bytes());
    value_of(&completion)
}

fn value_of(completion: &Completion) -> Result<u64, Status> {
    let status = completion.status();
    let value = u64::from(completion.dw0) | u64::from(completion.dw1) << 32;
    if status.is_success() { Ok(value) } else { Err(status.code()) }
}

#[test]
fn memory_is_written_read_and_filled() {
    let mut host = host();
    assert_eq!(read(&mut host, 0, 8), Ok(vec![0; 8]));
    assert!(write(&mut host, MIB - 8, b"abcdefgh").is_success());
    assert_eq!(read(&mut host, MIB - 8, 8), Ok(b"abcdefgh".to_vec()));
    assert!(host.execute(1, memory_command(MemoryOpcode::FILL, MIB - 8, 4)).status().is_success());
    assert_eq!(read(&mut host, MIB - 8, 8), Ok(b"\0\0\0\0efgh".to_vec()));
}

#[test]
fn memory_takes_whole_dwords_inside_it_alone() {
    let mut host = host();
    for (start, length_bytes) in [(2, 4), (0, 6), (MIB - 4, 8), (u64::MAX - 3, 8)] {
        let status = write(&mut host, start, &vec![1; length_bytes]);
        assert!(status.is(Status::INVALID_FIELD), "{start} {length_bytes}: {status}");
    }
    let of_blocks = Command::new(NvmOpcode::WRITE_ZEROES.0, 0, MEMORY);
    assert!(host.execute(1, of_blocks).status().is(Status::INVALID_OPCODE));
}

#[test]
fn memory_is_copied_from_blocks_and_from_memory() {
    let mut host = host();
    let mut block = Command::new(NvmOpcode::WRITE.0, 0, BLOCKS);
    (block.cdw10, block.cdw12) = (3, NvmCdw12::new().with_nlb_z(0).into_bits());
    assert!(send(&mut host, block, &[7; 512]).status().is_success());
    let source = MemoryCopyBlocks { snsid: BLOCKS, slba: 2, nlb_z: 1, ..MemoryCopyBlocks::new_zeroed() };
    assert!(copy(&mut host, MemoryCopyCdw12::FORMAT_BLOCKS, 64, 1024, source.as_bytes()).is_success());
    let copied = read(&mut host, 64, 1024).unwrap();
    assert!(copied[..512] == [0; 512] && copied[512..] == [7; 512]);
    let source =
        MemoryCopyBytes { snsid: MEMORY, start: 1084, length_bytes: 8, ..MemoryCopyBytes::new_zeroed() };
    assert!(copy(&mut host, MemoryCopyCdw12::FORMAT_BYTES, 4096, 8, source.as_bytes()).is_success());
    assert_eq!(read(&mut host, 4096, 8), Ok(vec![7, 7, 7, 7, 0, 0, 0, 0]));
}

fn copy(host: &mut TestHost, format: u8, to: u64, length_bytes: u32, sources: &[u8]) -> Status {
    let mut command = memory_command(MemoryOpcode::COPY, to, 0);
    command.cdw2 = length_bytes;
    command.cdw12 =
        MemoryCopyCdw12::new().with_format(format).with_ranges_z((sources.len() / 32 - 1) as u8).into_bits();
    send(host, command, sources).status()
}

#[test]
fn copies_that_cannot_be_made_are_refused() {
    let mut host = host();
    let bytes = |snsid, start, length_bytes| {
        let source = MemoryCopyBytes { snsid, start, length_bytes, ..MemoryCopyBytes::new_zeroed() };
        source.as_bytes().to_vec()
    };
    let mut refused = |format, to, length, source: &[u8]| copy(&mut host, format, to, length, source).code();
    let by_bytes = MemoryCopyCdw12::FORMAT_BYTES;
    assert_eq!(refused(by_bytes, 4, 8, &bytes(MEMORY, 0, 8)), Status::OVERLAPPING_IO_RANGE);
    assert_eq!(refused(by_bytes, 64, 12, &bytes(MEMORY, 0, 8)), Status::INVALID_FIELD);
    assert_eq!(refused(by_bytes, 64, 6, &bytes(MEMORY, 0, 6)), Status::INVALID_FIELD);
    assert_eq!(refused(by_bytes, MIB - 4, 8, &bytes(MEMORY, 0, 8)), Status::INVALID_FIELD);
    assert_eq!(refused(by_bytes, 64, 8, &bytes(BLOCKS, 0, 8)), Status::INVALID_NAMESPACE);
    assert_eq!(refused(by_bytes, 64, 8, &bytes(9, 0, 8)), Status::INVALID_NAMESPACE);
    assert_eq!(
        refused(MemoryCopyCdw12::FORMAT_BLOCKS, 64, 512, &bytes(MEMORY, 0, 0)),
        Status::INCOMPATIBLE_NAMESPACE
    );
    assert_eq!(
        refused(MemoryCopyCdw12::FORMAT_BLOCKS, 64, 512, &bytes(BLOCKS, 1 << 40, 0)),
        Status::LBA_OUT_OF_RANGE
    );
    assert_eq!(refused(0, 64, 8, &bytes(MEMORY, 0, 8)), Status::INVALID_FIELD);
    let fast = MemoryCopyBytes { snsid: MEMORY, length_bytes: 8, sopt: 1, ..MemoryCopyBytes::new_zeroed() };
    assert_eq!(refused(by_bytes, 64, 8, fast.as_bytes()), Status::FAST_COPY_NOT_POSSIBLE);
}

#[test]
fn a_program_is_loaded_in_pieces_activated_and_executed() {
    let mut host = host();
    assert!(load(&mut host, FREE, 24, 0, &SUM[..8]).is_success());
    assert!(load(&mut host, FREE, 24, 16, &SUM[16..]).is(Status::COMMAND_SEQUENCE_ERROR));
    assert!(load(&mut host, FREE, 24, 8, &SUM[8..]).is_success());
    assert_eq!(execute(&mut host, FREE, &[], [1, 2]), Err(Status::PROGRAM_NOT_ACTIVATED));
    assert!(activate(&mut host, FREE).is_success());
    assert_eq!(execute(&mut host, FREE, &[], [1 << 40, 2]), Ok((1 << 40) + 2));
    assert!(unload(&mut host, FREE).is(Status::PROGRAM_IN_USE));
    assert!(activation(&mut host, FREE, ProgramActivationCdw10::DEACTIVATE).is_success());
    assert!(unload(&mut host, FREE).is_success());
    assert_eq!(execute(&mut host, FREE, &[], [1, 2]), Err(Status::NO_PROGRAM));
}

#[test]
fn programs_that_cannot_be_loaded_are_refused() {
    let mut host = host();
    assert!(load(&mut host, FREE, 8, 0, &SUM[..8]).is(Status::INVALID_PROGRAM_DATA));
    assert!(load(&mut host, 0, 24, 0, &SUM).is(Status::PROGRAM_INDEX_NOT_DOWNLOADABLE));
    assert!(load(&mut host, 999, 24, 0, &SUM).is(Status::INVALID_PROGRAM_INDEX));
    assert!(load(&mut host, FREE, u32::MAX, 0, &SUM).is(Status::PROGRAM_TOO_BIG));
    assert!(activate(&mut host, FREE).is(Status::NO_PROGRAM));
    assert!(activation(&mut host, 0, 5).is(Status::INVALID_FIELD));
    let mut elsewhere = Command::new(AdminOpcode::PROGRAM_ACTIVATION.0, 0, MEMORY);
    elsewhere.cdw10 = 1 << 16;
    assert!(host.admin(elsewhere).status().is(Status::INVALID_NAMESPACE));
}

#[test]
fn the_list_of_programs_says_what_is_at_each_index() {
    let mut host = host();
    assert!(load(&mut host, FREE, 24, 0, &SUM).is_success());
    assert!(activate(&mut host, FREE).is_success());
    let mut list = |nsid| {
        let mut command = get_log(LogPage::PROGRAM_LIST, Csi::CP, 0, 4096);
        command.nsid = nsid;
        let (completion, page) = host.admin_read(command, 4096);
        assert!(completion.status().is_success());
        page
    };
    let page = list(PROGRAMS);
    // Two bits of occupancy, one of activation, three of the type of the identifier.
    let at = |index: usize| (page[64 * (index + 1)], page[64 * (index + 1) + 1]);
    assert_eq!(number(&page, 0, 2), 37);
    assert_eq!(at(0), (2 | 1 << 3, ProgramType::BUILT_IN.0));
    assert_eq!(at(usize::from(FREE)), (1 | 1 << 2 | 1 << 3, ProgramType::EBPF.0));
    assert_eq!(number(&page, 64 * (usize::from(FREE) + 1) + 8, 8), 77);
    assert_eq!(at(usize::from(FREE) + 1), (0, 0));
    assert_eq!((number(&list(MEMORY), 0, 2), number(&list(0), 0, 2)), (0, 0));
}

#[test]
fn a_program_of_the_device_runs_over_ranges_and_over_a_set() {
    let mut host = host();
    assert!(write(&mut host, 0, b"123456789\0\0\0").is_success());
    assert!(activate(&mut host, CRC32C).is_success());
    assert_eq!(execute(&mut host, CRC32C, &[range(MEMORY, 0, 9)], [0; 2]), Ok(0xe306_9283));
    let set = create_set(&mut host, &[range(MEMORY, 0, 4), range(MEMORY, 4, 5)]);
    assert_eq!((set.status(), set.dw0), (Status::SUCCESS, 1));
    let by_set = host.execute(1, execute_command(CRC32C, 1, 0, [0; 2]));
    assert_eq!(value_of(&by_set), Ok(0xe306_9283));
    let both = send(&mut host, execute_command(CRC32C, 1, 1, [0; 2]), range(MEMORY, 0, 4).as_bytes());
    assert_eq!(value_of(&both), Err(Status::INVALID_FIELD));
    assert!(delete_set(&mut host, 1).is_success());
    assert!(delete_set(&mut host, 1).is(Status::INVALID_MEMORY_RANGE_SET_ID));
    let by_set = host.execute(1, execute_command(CRC32C, 1, 0, [0; 2]));
    assert_eq!(value_of(&by_set), Err(Status::INVALID_MEMORY_RANGE_SET_ID));
}

#[test]
fn ranges_that_no_program_may_see_are_refused() {
    let mut host = host();
    assert!(activate(&mut host, CRC32C).is_success());
    let mut refused = |ranges: &[MemoryRangeDescriptor]| {
        let status = create_set(&mut host, ranges).status().code();
        assert_eq!(execute(&mut host, CRC32C, ranges, [0; 2]), Err(status));
        status
    };
    assert_eq!(refused(&[range(BLOCKS, 0, 4)]), Status::INVALID_MEMORY_NAMESPACE);
    assert_eq!(refused(&[range(MEMORY, MIB - 4, 5)]), Status::INVALID_MEMORY_RANGE_SET);
    assert_eq!(refused(&[range(MEMORY, 0, 5), range(MEMORY, 4, 4)]), Status::OVERLAPPING_MEMORY_RANGES);
    assert_eq!(refused(&[range(MEMORY, 0, 4); 65]), Status::MEMORY_RANGES_EXCEEDED);
}

#[test]
fn a_program_that_loops_or_leaves_its_ranges_is_stopped() {
    let mut host = host();
    let forever = [0x05, 0, 0xff, 0xff, 0, 0, 0, 0];
    let outside = [[0x61, 0x30, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]].concat();
    for (index, program) in [(FREE, &forever[..]), (FREE + 1, &outside[..])] {
        assert!(load(&mut host, index, program.len() as u32, 0, program).is_success());
        assert!(activate(&mut host, index).is_success());
    }
    assert_eq!(execute(&mut host, FREE, &[], [0; 2]), Err(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    let ranges = [range(MEMORY, 0, 4)];
    assert_eq!(execute(&mut host, FREE + 1, &ranges, [16 << 32, 0]), Ok(0));
    assert_eq!(execute(&mut host, FREE + 1, &ranges, [16 << 32 | 1, 0]), Err(Status::INVALID_PROGRAM_DATA));
}

#[test]
fn deleted_memory_takes_the_sets_with_ranges_of_it_along() {
    let mut host = host();
    assert!(create_set(&mut host, &[range(MEMORY, 0, 4)]).status().is_success());
    assert!(delete(&mut host, MEMORY).is_success());
    assert!(delete_set(&mut host, 1).is(Status::INVALID_MEMORY_RANGE_SET_ID));
    assert_eq!(create(&mut host, Csi::SLM, 4096).dw0, MEMORY, "its identifier is free again");
    attach(&mut host, MEMORY);
    assert_eq!(read(&mut host, 4088, 8), Ok(vec![0; 8]));
}

#[test]
fn memory_that_the_device_has_not_is_refused() {
    let mut host = host();
    assert!(create(&mut host, Csi::SLM, 0).status().is(Status::INVALID_FIELD));
    assert!(create(&mut host, Csi::SLM, 6).status().is(Status::INVALID_FIELD));
    for size_bytes in [1 << 30, u64::MAX - 3] {
        assert!(create(&mut host, Csi::SLM, size_bytes).status().is(Status::NAMESPACE_INSUFFICIENT_CAPACITY));
    }
}

#[test]
fn identify_describes_memory_and_programs() {
    let mut host = host();
    let memory = host.identify(Cns::SET_NAMESPACE, MEMORY, Csi::SLM).unwrap();
    assert_eq!((number(&memory, 0, 8), memory[30] & 1), (MIB, 1));
    let programs = host.identify(Cns::SET_NAMESPACE, PROGRAMS, Csi::CP).unwrap();
    assert_eq!((number(&programs, 0, 2), number(&programs, 2, 2), programs[6]), (32, 256, 64));
    assert_eq!(number(&programs, 8, 8), 4);
    let descriptors = host.identify(Cns::NAMESPACE_DESCRIPTORS, PROGRAMS, Csi::NVM).unwrap();
    assert!(descriptors.windows(5).any(|bytes| bytes == [4, 1, 0, 0, Csi::CP.0]));
    let list = host.identify(Cns::SET_ACTIVE_NAMESPACES, 0, Csi::SLM).unwrap();
    assert_eq!((number(&list, 0, 4), number(&list, 4, 4)), (MEMORY.into(), 0));
}

#[test]
fn format_and_sanitize_clear_memory() {
    let mut host = host();
    assert!(write(&mut host, 0, b"abcdefgh").is_success());
    let mut format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, MEMORY);
    format.cdw10 = FormatCdw10::new().into_bits();
    assert!(host.admin(format).status().is_success());
    assert_eq!(read(&mut host, 0, 8), Ok(vec![0; 8]));
    assert!(write(&mut host, 0, b"abcdefgh").is_success());
    assert!(load(&mut host, FREE, 24, 0, &SUM).is_success());
    let mut sanitize = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    sanitize.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    assert!(host.admin(sanitize).status().is_success());
    while host.subsystem.is_sanitizing() {
        host.run();
    }
    assert_eq!(read(&mut host, 0, 8), Ok(vec![0; 8]));
    assert!(activate(&mut host, FREE).is(Status::NO_PROGRAM));
}
