//! Local memory and programs (command sets 3 and 4), whatever carries their commands.
//!
//! Programs are given as the bytes of their instructions: eBPF in eight bytes each (RFC 9669), WebAssembly as a module.

use std::time::{Duration, Instant};

use byway::compute::{CopySource, LocalMemory, MemoryRange, ProgramRanges, Programs};
use byway::spec::Status;
use byway::spec::programs::ProgramType;
use byway::{BackendQueue, Device, ErrorKind, Finished, Nsid, Result};

const MIB: usize = 1 << 20;

/// Far longer than anything here takes: a hang fails the test.
const LONG: Duration = Duration::from_secs(60);

/// The first index that takes programs of hosts, and that of CRC-32C.
const FREE: u16 = 5;
const CRC32C: u16 = 2;

/// `*(u8 *)ranges[0].base = 1; goto -1`.
const ENDLESS: [u8; 24] =
    [0x79, 0x11, 0, 0, 0, 0, 0, 0, 0x72, 1, 0, 0, 1, 0, 0, 0, 0x05, 0, 0xff, 0xff, 0, 0, 0, 0];

/// `do r3 -= 1; while r3 != 0; r0 = r4; exit`: gives the second parameter after two instructions for each unit of the first.
const COUNT_DOWN: [u8; 32] = [
    0x07, 3, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x55, 3, 0xfe, 0xff, 0, 0, 0, 0, 0xbf, 0x40, 0, 0, 0, 0, 0, 0,
    0x95, 0, 0, 0, 0, 0, 0, 0,
];

/// `*(u8 *)(ranges[0].base + first) = second; r0 = 0; exit`.
const STORE: [u8; 40] = [
    0x79, 0x11, 0, 0, 0, 0, 0, 0, 0x0f, 0x31, 0, 0, 0, 0, 0, 0, 0x73, 0x41, 0, 0, 0, 0, 0, 0, 0xb7, 0, 0, 0,
    0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0,
];

/// A module that multiplies its parameters.
const PRODUCT: &[u8] = b"\0asm\x01\0\0\0\x01\x07\x01\x60\x02\x7e\x7e\x01\x7e\x03\x02\x01\0\x05\x03\x01\0\x01\
    \x07\x10\x02\x03run\0\0\x06memory\x02\0\x0a\x09\x01\x07\0\x20\0\x20\x01\x7e\x0b";

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + salt) as u8).collect()
}

fn made(device: &Device, size_bytes: usize) -> (LocalMemory, Programs) {
    let memory = device.memory(device.create_memory(size_bytes as u64).unwrap()).unwrap();
    (memory, device.programs(device.create_programs().unwrap()).unwrap())
}

fn unmade(device: &Device, memory: LocalMemory, programs: Programs) {
    let namespaces = [memory.nsid(), programs.nsid()];
    drop((memory, programs));
    namespaces.iter().for_each(|nsid| device.delete_namespace(*nsid).unwrap());
}

/// The status of a refused call.
#[track_caller]
fn refusal<R>(result: Result<R>) -> Status {
    let error = result.err().expect("it is refused");
    error.nvme_status().unwrap_or_else(|| panic!("the host refused it: {error}")).code()
}

/// Every call to local memory, beside an array that says what each leaves.
pub fn memory_is_what_was_written_filled_and_copied(device: &Device) {
    let (mut memory, programs) = made(device, 4 * MIB);
    assert_eq!(memory.size_bytes(), 4 << 20);
    let mut model = vec![0; 4 * MIB];
    for (at, len) in [(0, 4), (4, 4096), (MIB - 4, 8), (100, 2 * MIB + 12), (4 * MIB - 4, 4), (8, 0)] {
        let bytes = pattern(len, at);
        memory.write(at as u64, &bytes).unwrap();
        model[at..at + len].copy_from_slice(&bytes);
    }
    memory.fill(4096, 70_000).unwrap();
    model[4096..74_096].fill(0);
    let nsid = memory.nsid();
    let from =
        |start: usize, len: usize| CopySource::Memory { nsid, start: start as u64, len_bytes: len as u32 };
    memory.copy(3 << 20, 300_008, &[from(MIB, 300_000), from(0, 8)]).unwrap();
    model.copy_within(MIB..MIB + 300_000, 3 * MIB);
    model.copy_within(0..8, 3 * MIB + 300_000);
    let mut read = vec![0xee; 4 * MIB];
    memory.read(0, &mut read).unwrap();
    assert!(read == model);
    unmade(device, memory, programs);
}

/// Blocks are copied to local memory within the device.
pub fn blocks_are_copied_to_memory(device: &Device) {
    let (mut memory, programs) = made(device, MIB);
    let mut nvm = device.nvm(None).unwrap();
    let lba_bytes = nvm.lba_bytes() as usize;
    let blocks = pattern(5 * lba_bytes, 3);
    nvm.write(7, &blocks).unwrap();
    let of_blocks = |slba, blocks| CopySource::Blocks { nsid: nvm.nsid(), slba, blocks };
    memory.copy(64, 3 * lba_bytes as u64, &[of_blocks(10, 2), of_blocks(7, 1)]).unwrap();
    let mut read = vec![0; 3 * lba_bytes];
    memory.read(64, &mut read).unwrap();
    assert!(read[..2 * lba_bytes] == blocks[3 * lba_bytes..] && read[2 * lba_bytes..] == blocks[..lba_bytes]);
    let outside = memory.copy(0, lba_bytes as u64, &[of_blocks(nvm.blocks(), 1)]);
    assert_eq!(refusal(outside), Status::LBA_OUT_OF_RANGE);
    unmade(device, memory, programs);
}

/// What local memory refuses leaves it as it was.
pub fn memory_refuses_what_it_cannot_do(device: &Device) {
    let (mut memory, programs) = made(device, 4096);
    let nsid = memory.nsid();
    memory.write(0, &pattern(4096, 1)).unwrap();
    assert_eq!(memory.write(2, &[0; 4]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(memory.read(0, &mut [0; 6]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(memory.fill(4092, 8).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(memory.write(u64::MAX - 3, &[0; 8]).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(memory.copy(0, 0, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let from = |start, len_bytes| CopySource::Memory { nsid, start, len_bytes };
    assert_eq!(refusal(memory.copy(4, 8, &[from(0, 8)])), Status::OVERLAPPING_IO_RANGE);
    assert_eq!(refusal(memory.copy(64, 12, &[from(0, 8)])), Status::INVALID_FIELD);
    assert_eq!(refusal(memory.copy(64, 8, &[from(4092, 8)])), Status::INVALID_FIELD);
    let keys = CopySource::Memory { nsid: programs.nsid(), start: 0, len_bytes: 8 };
    assert_eq!(refusal(memory.copy(64, 8, &[keys])), Status::INVALID_NAMESPACE);
    let mut read = vec![0; 4096];
    memory.read(0, &mut read).unwrap();
    assert!(read == pattern(4096, 1));
    assert_eq!(device.create_memory(6).unwrap_err().nvme_status().unwrap().code(), Status::INVALID_FIELD);
    let no_programs = device.programs(memory.nsid()).err().unwrap();
    assert_eq!(no_programs.kind(), ErrorKind::InvalidArgument, "{no_programs}");
    unmade(device, memory, programs);
}

/// Programs of hosts, in pieces, and of the device, over ranges and over sets of them.
pub fn programs_run_over_ranges_of_memory(device: &Device) {
    let (mut memory, mut programs) = made(device, 64 << 10);
    memory.write(0, b"123456789\0\0\0").unwrap();
    programs.activate(CRC32C).unwrap();
    let range = |start, len_bytes| MemoryRange { nsid: memory.nsid(), start, len_bytes };
    assert_eq!(programs.execute(CRC32C, &[range(0, 9)], [0; 2]).unwrap(), 0xe306_9283);
    let set = programs.create_range_set(&[range(0, 4), range(4, 5)]).unwrap();
    assert_eq!(programs.execute(CRC32C, ProgramRanges::Set(set), [0; 2]).unwrap(), 0xe306_9283);
    programs.load(FREE, ProgramType::EBPF, Some(77), &STORE).unwrap();
    programs.activate(FREE).unwrap();
    assert_eq!(programs.execute(FREE, &[range(8, 4)], [1, u64::from(b'!')]).unwrap(), 0);
    let outside = programs.execute(FREE, &[range(8, 4)], [4, 1]);
    assert_eq!(refusal(outside), Status::INVALID_PROGRAM_DATA);
    let mut read = [0; 16];
    memory.read(0, &mut read).unwrap();
    assert_eq!(&read, b"123456789!\0\0\0\0\0\0");
    programs.delete_range_set(set).unwrap();
    let gone = programs.execute(CRC32C, ProgramRanges::Set(set), [0; 2]);
    assert_eq!(refusal(gone), Status::INVALID_MEMORY_RANGE_SET_ID);
    unmade(device, memory, programs);
}

/// Programs that are long: in text, so that they come in pieces, and in time.
pub fn long_programs_run_to_their_end(device: &Device) {
    let (memory, mut programs) = made(device, 4096);
    // r0 = r0, 20,000 times; then as the other.
    let mut program = [0xbf, 0, 0, 0, 0, 0, 0, 0].repeat(20_000);
    program.extend(COUNT_DOWN);
    programs.load(FREE, ProgramType::EBPF, None, &program).unwrap();
    programs.activate(FREE).unwrap();
    for count in [1, 10_000, 3_000_000] {
        assert_eq!(programs.execute(FREE, &[], [count, u64::MAX - count]).unwrap(), u64::MAX - count);
    }
    programs.load(FREE + 1, ProgramType::WASM, None, PRODUCT).unwrap();
    programs.activate(FREE + 1).unwrap();
    assert_eq!(programs.execute(FREE + 1, &[], [1 << 40, 3]).unwrap(), 3 << 40);
    unmade(device, memory, programs);
}

/// What may not happen to programs that are there, or to those that are not.
pub fn programs_refuse_what_they_cannot_do(device: &Device) {
    let (memory, mut programs) = made(device, 4096);
    let range = |nsid, start, len_bytes| MemoryRange { nsid, start, len_bytes };
    assert_eq!(
        refusal(programs.load(FREE, ProgramType::EBPF, None, &STORE[..8])),
        Status::INVALID_PROGRAM_DATA
    );
    assert_eq!(
        refusal(programs.load(0, ProgramType::EBPF, None, &STORE)),
        Status::PROGRAM_INDEX_NOT_DOWNLOADABLE
    );
    assert_eq!(refusal(programs.load(999, ProgramType::EBPF, None, &STORE)), Status::INVALID_PROGRAM_INDEX);
    assert_eq!(refusal(programs.load(FREE, ProgramType(7), None, &STORE)), Status::INVALID_PROGRAM_TYPE);
    assert_eq!(
        programs.load(FREE, ProgramType::EBPF, None, &[]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(refusal(programs.activate(FREE)), Status::NO_PROGRAM);
    assert_eq!(refusal(programs.unload(FREE)), Status::NO_PROGRAM);
    programs.load(FREE, ProgramType::EBPF, None, &STORE).unwrap();
    assert_eq!(refusal(programs.execute(FREE, &[], [0; 2])), Status::PROGRAM_NOT_ACTIVATED);
    programs.activate(FREE).unwrap();
    assert_eq!(refusal(programs.unload(FREE)), Status::PROGRAM_IN_USE);
    let nsid = memory.nsid();
    let refused = |programs: &mut Programs, ranges: &[MemoryRange]| {
        let status = refusal(programs.create_range_set(ranges));
        assert_eq!(refusal(programs.execute(FREE, ranges, [0; 2])), status);
        status
    };
    assert_eq!(refused(&mut programs, &[range(Nsid::FIRST, 0, 4)]), Status::INVALID_MEMORY_NAMESPACE);
    assert_eq!(refused(&mut programs, &[range(nsid, 4092, 5)]), Status::INVALID_MEMORY_RANGE_SET);
    let overlapping = [range(nsid, 0, 5), range(nsid, 4, 4)];
    assert_eq!(refused(&mut programs, &overlapping), Status::OVERLAPPING_MEMORY_RANGES);
    assert_eq!(refused(&mut programs, &[range(nsid, 0, 4); 65]), Status::MEMORY_RANGES_EXCEEDED);
    programs.deactivate(FREE).unwrap();
    programs.unload(FREE).unwrap();
    unmade(device, memory, programs);
}

/// Begins a program that does not end, as command 7, and waits until it runs.
fn begin_endless(memory: &mut LocalMemory, programs: &mut Programs) {
    programs.load(FREE, ProgramType::EBPF, None, &ENDLESS).unwrap();
    programs.activate(FREE).unwrap();
    let ranges = [MemoryRange { nsid: memory.nsid(), start: 0, len_bytes: 8 }];
    let command = programs.execution(FREE, &ranges, [0; 2]).unwrap();
    programs.queue().submit(command.into(), 7).unwrap();
    programs.queue().start().unwrap();
    let mut first = [0; 4];
    until(|| {
        memory.read(0, &mut first).unwrap();
        first[0] == 1
    });
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it does not come to be");
        std::thread::yield_now();
    }
}

fn next(programs: &mut Programs) -> Finished {
    programs.queue().next_within(LONG).unwrap().expect("a command is lost")
}

/// A program that loops keeps no other command waiting, and Abort ends it.
pub fn a_program_that_loops_goes_on_beside_other_commands_until_it_is_aborted(device: &Device) {
    let (mut memory, mut programs) = made(device, 4096);
    begin_endless(&mut memory, &mut programs);
    let mut kv = device.kv(None).unwrap();
    for number in 0..100_u32 {
        kv.put(&number.to_be_bytes(), &pattern(100, number as usize)).unwrap();
        memory.write(0, &pattern(8, number as usize)).unwrap();
        assert_eq!(kv.get(&number.to_be_bytes()).unwrap().unwrap(), pattern(100, number as usize));
    }
    programs.activate(CRC32C).unwrap();
    assert_eq!(refusal(programs.deactivate(FREE)), Status::PROGRAM_IN_USE);
    programs.queue().cancel(7).unwrap();
    let finished = next(&mut programs);
    assert_eq!(finished.tag, 7);
    assert_eq!(finished.result.unwrap_err().error.kind(), ErrorKind::Cancelled);
    programs.deactivate(FREE).unwrap();
    assert!(programs.execute(CRC32C, &[], [5, 0]).unwrap() == 5, "the queue serves on");
    unmade(device, memory, programs);
}

/// A memory that is deleted ends the programs over it; a queue that is dropped ends its programs.
pub fn a_program_ends_with_its_memory_and_with_its_queue(device: &Device) {
    let (mut memory, mut programs) = made(device, 4096);
    begin_endless(&mut memory, &mut programs);
    device.delete_namespace(memory.nsid()).unwrap();
    let ended = next(&mut programs).result.unwrap_err().error;
    assert_eq!(ended.nvme_status().unwrap().code(), Status::INVALID_MEMORY_NAMESPACE, "{ended}");
    programs.deactivate(FREE).unwrap();
    let mut memory = device.memory(device.create_memory(4096).unwrap()).unwrap();
    begin_endless(&mut memory, &mut programs);
    let nsid = programs.nsid();
    drop(programs);
    let mut programs = device.programs(nsid).unwrap();
    until(|| programs.deactivate(FREE).is_ok());
    unmade(device, memory, programs);
}
