//! A program in eBPF over local memory of a device: compute [URI]

use byway::compute::{CopySource, MemoryRange, ProgramRanges};
use byway::spec::programs::ProgramType;

/// The sum of the bytes of the first range.
const SUM: [u64; 9] = [
    0x0000_0000_0000_1279, // r2 = *(u64 *)(r1 + 0)
    0x0000_0000_0008_1379, // r3 = *(u64 *)(r1 + 8)
    0x0000_0000_0000_230f, // r3 += r2
    0x0000_0000_0000_00b7, // r0 = 0
    0x0000_0000_0000_2471, // r4 = *(u8 *)(r2 + 0)
    0x0000_0000_0000_400f, // r0 += r4
    0x0000_0001_0000_0207, // r2 += 1
    0x0000_0000_fffc_32ad, // if r2 < r3 goto -4
    0x95,                  // exit
];

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;
    let memory = device.create_memory(1 << 20)?;
    let programs = device.create_programs()?;

    // Blocks get to the memory within the device.
    let mut nvm = device.nvm(None)?;
    let lba_bytes = nvm.lba_bytes();
    nvm.write(0, &vec![3; lba_bytes as usize])?;
    let mut local = device.memory(memory)?;
    local.copy(0, lba_bytes.into(), &[CopySource::Blocks { nsid: nvm.nsid(), slba: 0, blocks: 1 }])?;
    local.write(0, &[100, 0, 0, 0])?;

    let mut runs = device.programs(programs)?;
    let program: Vec<u8> = SUM.iter().flat_map(|instruction| instruction.to_le_bytes()).collect();
    runs.load(8, ProgramType::EBPF, None, &program)?;
    runs.activate(8)?;
    let set = runs.create_range_set(&[MemoryRange { nsid: memory, start: 0, len_bytes: lba_bytes }])?;
    let sum = runs.execute(8, ProgramRanges::Set(set), [0, 0])?;
    println!("the sum of {lba_bytes} bytes in the device is {sum}");

    drop((local, runs));
    device.delete_namespace(programs)?;
    device.delete_namespace(memory)
}
