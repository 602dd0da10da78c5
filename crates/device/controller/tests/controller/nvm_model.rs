//! A block namespace against an array: whatever is done to it, it reads as the array does.

use crate::io::{BLOCKS_512, BLOCKS_4096, DATA, Io, blocks};
use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw11, DsmRange, NvmOpcode};
use byway_spec::{Command, Status};
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// Blocks of the namespace that the model covers: several units, pages and chunks.
const MODEL_BLOCKS: u64 = 600;

#[derive(Debug, Clone)]
enum Step {
    Write { slba: u64, count: u64, fill: u8 },
    WriteZeroes { slba: u64, count: u64 },
    Deallocate(Vec<(u64, u64)>),
    Copy { to: u64, from: Vec<(u64, u64)> },
    Compare { slba: u64, count: u64, flip: bool },
    Read { slba: u64, count: u64 },
}

fn range(longest: u64) -> impl Strategy<Value = (u64, u64)> {
    (0..MODEL_BLOCKS, 1..=longest).prop_map(|(slba, count)| (slba, count.min(MODEL_BLOCKS - slba)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (range(300), any::<u8>()).prop_map(|((slba, count), fill)| Step::Write { slba, count, fill }),
        1 => range(300).prop_map(|(slba, count)| Step::WriteZeroes { slba, count }),
        1 => prop::collection::vec(range(100), 1..5).prop_map(Step::Deallocate),
        1 => (0..MODEL_BLOCKS - 150, prop::collection::vec(range(50), 1..4))
            .prop_map(|(to, from)| Step::Copy { to, from }),
        1 => (range(40), any::<bool>()).prop_map(|((slba, count), flip)| Step::Compare { slba, count, flip }),
        2 => range(300).prop_map(|(slba, count)| Step::Read { slba, count }),
    ]
}

struct Model {
    io: Io,
    nsid: u32,
    block: usize,
    bytes: Vec<u8>,
}

impl Model {
    fn new(nsid: u32) -> Self {
        let io = Io::new();
        let block = io.block_bytes(nsid);
        Self { io, nsid, block, bytes: vec![0; MODEL_BLOCKS as usize * block] }
    }

    fn part(&mut self, (slba, count): (u64, u64)) -> &mut [u8] {
        let at = slba as usize * self.block;
        &mut self.bytes[at..at + count as usize * self.block]
    }

    fn run(&mut self, mut command: Command, payload: &[u8]) -> Status {
        self.io.put(DATA, payload);
        self.io.point_prps(&mut command, DATA, payload.len());
        self.io.run(command).status().code()
    }

    fn command(&self, opcode: NvmOpcode, slba: u64, count: u64) -> Command {
        blocks(opcode, self.nsid, slba, count as usize)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Write { slba, count, fill } => self.write(*slba, *count, *fill),
            Step::WriteZeroes { slba, count } => {
                let command = self.command(NvmOpcode::WRITE_ZEROES, *slba, *count);
                assert_eq!(self.run(command, &[]), Status::SUCCESS);
                self.part((*slba, *count)).fill(0);
            }
            Step::Deallocate(ranges) => self.deallocate(ranges),
            Step::Copy { to, from } => self.copy(*to, from),
            Step::Compare { slba, count, flip } => self.compare(*slba, *count, *flip),
            Step::Read { slba, count } => self.read(*slba, *count),
        }
    }

    fn write(&mut self, slba: u64, count: u64, fill: u8) {
        let bytes: Vec<u8> = (0..count as usize * self.block).map(|i| fill ^ (i / 64) as u8).collect();
        let command = self.command(NvmOpcode::WRITE, slba, count);
        assert_eq!(self.run(command, &bytes), Status::SUCCESS);
        self.part((slba, count)).copy_from_slice(&bytes);
    }

    fn deallocate(&mut self, ranges: &[(u64, u64)]) {
        let list: Vec<DsmRange> = ranges
            .iter()
            .map(|(slba, count)| DsmRange { slba: *slba, nlb: *count as u32, cattr: 0 })
            .collect();
        let mut command = Command::new(NvmOpcode::DATASET_MANAGEMENT.0, 0, self.nsid);
        command.cdw10 = list.len() as u32 - 1;
        command.cdw11 = DsmCdw11::new().with_ad(true).into_bits();
        assert_eq!(self.run(command, list.as_bytes()), Status::SUCCESS);
        ranges.iter().for_each(|range| self.part(*range).fill(0));
    }

    fn copy(&mut self, to: u64, from: &[(u64, u64)]) {
        let list: Vec<CopyRange> = from
            .iter()
            .map(|(slba, count)| CopyRange { slba: *slba, nlb_z: *count as u16 - 1, ..CopyRange::default() })
            .collect();
        let mut command = Command::new(NvmOpcode::COPY.0, 0, self.nsid);
        command.set_cdw10_11(to);
        command.cdw12 = CopyCdw12::new().with_nr_z((list.len() - 1) as u8).into_bits();
        assert_eq!(self.run(command, list.as_bytes()), Status::SUCCESS);
        let bytes: Vec<u8> = from.iter().flat_map(|range| self.part(*range).to_vec()).collect();
        let count = (bytes.len() / self.block) as u64;
        self.part((to, count)).copy_from_slice(&bytes);
    }

    fn compare(&mut self, slba: u64, count: u64, flip: bool) {
        let mut bytes = self.part((slba, count)).to_vec();
        if flip {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let expected = if flip { Status::COMPARE_FAILURE } else { Status::SUCCESS };
        let command = self.command(NvmOpcode::COMPARE, slba, count);
        assert_eq!(self.run(command, &bytes), expected);
    }

    fn read(&mut self, slba: u64, count: u64) {
        let len = count as usize * self.block;
        let command = self.command(NvmOpcode::READ, slba, count);
        assert_eq!(self.run(command, &vec![0xee; len]), Status::SUCCESS);
        assert!(self.io.get(DATA, len) == self.part((slba, count)), "blocks {slba} to {}", slba + count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_block_namespace_reads_as_the_array_it_models(
        small in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut model = Model::new(if small { BLOCKS_512 } else { BLOCKS_4096 });
        steps.iter().for_each(|step| model.take(step));
        model.read(0, MODEL_BLOCKS);
    }
}
