//! Namespaces of programs (Computational Programs command set, CSI 4).

use std::sync::Arc;

use byway_flash::NamespaceRecord;
use byway_programs::{Program, RangeLimits, RangeSets, Ranges, Refusal, SlotLimits, Slots};
use byway_spec::programs::{ExecuteCdw2, MemoryRangeDescriptor, ProgramDescriptor, ProgramOpcode};
use byway_spec::{Command, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::Execution;
use super::volatile::{Step, refused};
use crate::error::CommandError;

/// A namespace of programs, and sets of ranges that they run over.
#[derive(Debug)]
pub struct ProgramsNamespace {
    record: NamespaceRecord,
    slots: Slots,
    sets: RangeSets,
}

/// An Execute Program command.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub program: Arc<Program>,
    pub ranges: Wanted,
    pub parameters: [u64; 2],
}

/// The ranges that a program is to see.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Those of a set.
    Set(Arc<Ranges>),
    /// Those that the command brought.
    Listed(Vec<MemoryRangeDescriptor>),
}

impl ProgramsNamespace {
    /// Most programs of hosts, activated programs and bytes.
    pub fn slot_limits() -> SlotLimits {
        SlotLimits::default()
    }

    /// Most ranges and sets.
    pub fn range_limits() -> RangeLimits {
        RangeLimits::default()
    }

    /// A namespace with the device's programs.
    pub fn new(record: NamespaceRecord) -> Self {
        Self { record, slots: Slots::new(Self::slot_limits()), sets: RangeSets::new(Self::range_limits()) }
    }

    /// Its identifiers.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Its programs.
    pub(crate) fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Its programs, by index, as their list describes them.
    pub(crate) fn descriptors(&self) -> Vec<ProgramDescriptor> {
        self.slots.descriptors().collect()
    }

    /// Its activated programs of an identifier.
    pub(crate) fn activated(&self, identifier: u64) -> impl Iterator<Item = &Arc<Program>> {
        self.slots.activated(identifier)
    }

    /// Its sets of ranges.
    pub(crate) fn sets(&mut self) -> &mut RangeSets {
        &mut self.sets
    }

    /// Removes the programs of hosts, and all sets.
    pub(crate) fn clear(&mut self) {
        self.slots = Slots::new(Self::slot_limits());
        self.sets = RangeSets::new(Self::range_limits());
    }

    /// Parses Execute Program, and gives what is to be run.
    pub(crate) fn prepare(
        &self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Step, CommandError> {
        if ProgramOpcode(command.opcode()) != ProgramOpcode::EXECUTE {
            return Err(NOT_PROGRAMS);
        }
        let cdw2 = ExecuteCdw2::from_bits(command.cdw2);
        let program = self.slots.program(cdw2.pind()).map_err(refused)?;
        let ranges = self.wanted(execution, command, cdw2.rsid())?;
        let (first, second) = (command.cdw10_11(), u64::from(command.cdw12) | u64::from(command.cdw13) << 32);
        Ok(Step::Run(Prepared { program, ranges, parameters: [first, second] }))
    }

    fn wanted(
        &self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        set: u16,
    ) -> Result<Wanted, CommandError> {
        let (count, data_bytes) = (command.cdw3 as usize, command.mptr as u32 as usize);
        if set != 0 && count != 0 {
            return Err(SET_AND_RANGES);
        }
        if count > usize::from(Self::range_limits().ranges_max) {
            return Err(refused(Refusal::TooManyRanges));
        }
        if data_bytes != count * size_of::<MemoryRangeDescriptor>() {
            return Err(OTHER_DATA);
        }
        if set != 0 {
            return self.sets.get(set).map(Wanted::Set).map_err(refused);
        }
        let mut listed = vec![MemoryRangeDescriptor::new_zeroed(); count];
        if count > 0 {
            execution.receive(command, listed.as_mut_slice().as_mut_bytes())?;
        }
        Ok(Wanted::Listed(listed))
    }
}

const NOT_PROGRAMS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "not a command of a namespace of programs").at_byte(0);
const SET_AND_RANGES: CommandError =
    CommandError::invalid_field("a command names a set of ranges or brings ranges").at_byte(10);
const OTHER_DATA: CommandError =
    CommandError::invalid_field("the data of a command is its ranges, of 32 bytes each").at_byte(16);
