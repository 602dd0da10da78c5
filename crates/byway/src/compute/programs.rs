//! Synchronous calls to a namespace of programs.

use std::time::Duration;

use byway_core::{
    AdminCommand, AdminQueue, Backend, BackendQueue, Error, ErrorKind, Nsid, Outcome, Payload, RawCommand,
    RawData, Result,
};
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::Csi;
use byway_spec::programs::{
    ExecuteCdw2, LoadProgramCdw10, MemoryRangeDescriptor, ProgramActivationCdw10, ProgramOpcode, ProgramType,
    RangeSetCdw10,
};
use zerocopy::IntoBytes;

use super::namespaces::check_set;
use crate::calls::Queue;
use crate::device::Device;

/// Most bytes of a program that one command loads.
const PART_BYTES: u64 = 64 << 10;

/// How long a look for the completion of an admin command sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);

/// A namespace of programs, with a queue of its own. One thread uses it.
///
/// Programs are at indexes. In Byway's device those from 0 to 4 are its own: filter, aggregate, CRC-32C, CRC-64/NVME and
/// decompress; those from 5 on take programs in eBPF and WebAssembly.
pub struct Programs {
    queue: Queue,
    admin: Box<dyn AdminQueue>,
    /// Tag of the last admin command.
    last_tag: u64,
    nsid: Nsid,
    part_bytes: usize,
}

/// Bytes of local memory that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The namespace of local memory.
    pub nsid: Nsid,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len_bytes: u32,
}

/// The ranges of local memory that a program runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramRanges<'a> {
    /// These. Linux does not pass such a command on, if there is any range: take a set there.
    Listed(&'a [MemoryRange]),
    /// Those of a set ([`Programs::create_range_set`]).
    Set(u16),
}

impl<'a> From<&'a [MemoryRange]> for ProgramRanges<'a> {
    fn from(ranges: &'a [MemoryRange]) -> Self {
        Self::Listed(ranges)
    }
}

impl<'a, const RANGES: usize> From<&'a [MemoryRange; RANGES]> for ProgramRanges<'a> {
    fn from(ranges: &'a [MemoryRange; RANGES]) -> Self {
        Self::Listed(ranges)
    }
}

impl Programs {
    pub(super) fn open(device: &Device, nsid: Nsid) -> Result<Self> {
        check_set(device, nsid, Csi::CP, "programs")?;
        let part_bytes = device.capabilities().limits.transfer_bytes.clamp(1, PART_BYTES) as usize;
        Ok(Self {
            queue: device.default_queue()?,
            admin: device.admin_queue()?,
            last_tag: 0,
            nsid,
            part_bytes,
        })
    }

    /// The namespace.
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// The queue beneath, for commands and completions of one's own.
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Loads a program at `index`, in as many parts as it takes. The device verifies it. It replaces one that is not activated.
    ///
    /// # Errors
    /// A program that is unsound or too large, of a type that the device does not run, or at an index that takes none; one that is
    /// activated; what the device says.
    pub fn load(
        &mut self,
        index: u16,
        program_type: ProgramType,
        identifier: Option<u64>,
        program: &[u8],
    ) -> Result<()> {
        let size_bytes = u32::try_from(program.len()).map_err(|_| length(program))?;
        if size_bytes == 0 {
            return Err(length(program));
        }
        let kind =
            identifier.map_or(LoadProgramCdw10::NO_IDENTIFIER, |_| LoadProgramCdw10::UNIQUE_IDENTIFIER);
        let cdw10 = LoadProgramCdw10::new().with_pind(index).with_ptype(program_type.0).with_pit(kind);
        let identifier = identifier.unwrap_or(0);
        for (part, bytes) in program.chunks(self.part_bytes).enumerate() {
            let mut entry = self.admin_entry(AdminOpcode::LOAD_PROGRAM, cdw10.into_bits());
            entry.cdw11 = size_bytes;
            (entry.cdw12, entry.cdw13) = (identifier as u32, (identifier >> 32) as u32);
            (entry.cdw14, entry.cdw15) = (bytes.len() as u32, (part * self.part_bytes) as u32);
            self.manage(entry, bytes)?;
        }
        Ok(())
    }

    /// Removes the program at `index`, which is not activated.
    ///
    /// # Errors
    /// What the device says.
    pub fn unload(&mut self, index: u16) -> Result<()> {
        let cdw10 = LoadProgramCdw10::new().with_pind(index).with_sel(LoadProgramCdw10::UNLOAD);
        let entry = self.admin_entry(AdminOpcode::LOAD_PROGRAM, cdw10.into_bits());
        self.manage(entry, &[]).map(drop)
    }

    /// Lets a program be executed.
    ///
    /// # Errors
    /// What the device says.
    pub fn activate(&mut self, index: u16) -> Result<()> {
        self.set_activation(index, ProgramActivationCdw10::ACTIVATE)
    }

    /// Lets a program no longer be executed: then it can be replaced and unloaded.
    ///
    /// # Errors
    /// A program that runs, and what the device says.
    pub fn deactivate(&mut self, index: u16) -> Result<()> {
        self.set_activation(index, ProgramActivationCdw10::DEACTIVATE)
    }

    /// Has the device keep ranges, to run programs over them by the number that this gives.
    ///
    /// # Errors
    /// Ranges that overlap or are outside their memory, more than the device takes; what it says.
    pub fn create_range_set(&mut self, ranges: &[MemoryRange]) -> Result<u16> {
        let cdw10 = RangeSetCdw10::new().with_sel(RangeSetCdw10::CREATE);
        let mut entry = self.admin_entry(AdminOpcode::MEMORY_RANGE_SET, cdw10.into_bits());
        entry.cdw11 = ranges.len() as u32;
        Ok(self.manage(entry, descriptors(ranges).as_bytes())?.dw0() as u16)
    }

    /// Has the device forget ranges.
    ///
    /// # Errors
    /// A set that a program runs over, and what the device says.
    pub fn delete_range_set(&mut self, set: u16) -> Result<()> {
        let cdw10 = RangeSetCdw10::new().with_sel(RangeSetCdw10::DELETE).with_rsid(set);
        let entry = self.admin_entry(AdminOpcode::MEMORY_RANGE_SET, cdw10.into_bits());
        self.manage(entry, &[]).map(drop)
    }

    /// Executes a program over ranges with two parameters, and gives what it returns.
    ///
    /// # Errors
    /// A program that is not activated, ranges that it may not see, one that the device stopped; what the device says.
    pub fn execute<'a>(
        &mut self,
        index: u16,
        ranges: impl Into<ProgramRanges<'a>>,
        parameters: [u64; 2],
    ) -> Result<u64> {
        let command = self.execution(index, ranges, parameters)?;
        let done = self.queue.execute(command.into())?;
        Ok(u64::from(done.answer.dw0) | u64::from(done.answer.dw1) << 32)
    }

    /// The command of [`Programs::execute`], for a queue of one's own: there it can be cancelled. Dwords 0 (low) and 1 of its completion
    /// are what the program returns.
    ///
    /// # Errors
    /// When there is no memory for the ranges; set 0, which is none.
    pub fn execution<'a>(
        &self,
        index: u16,
        ranges: impl Into<ProgramRanges<'a>>,
        [first, second]: [u64; 2],
    ) -> Result<RawCommand> {
        let (set, listed) = match ranges.into() {
            ProgramRanges::Listed(ranges) => (0, ranges),
            ProgramRanges::Set(0) => return Err(no_set()),
            ProgramRanges::Set(set) => (set, &[][..]),
        };
        let mut entry = Entry::new(ProgramOpcode::EXECUTE.0, 0, self.nsid.get());
        entry.cdw2 = ExecuteCdw2::new().with_pind(index).with_rsid(set).into_bits();
        // CDW4, the bytes of data, is the low half of what other command sets have the metadata pointer in.
        (entry.cdw3, entry.mptr) =
            (listed.len() as u32, size_of::<MemoryRangeDescriptor>() as u64 * listed.len() as u64);
        (entry.cdw10, entry.cdw11) = (first as u32, (first >> 32) as u32);
        (entry.cdw12, entry.cdw13) = (second as u32, (second >> 32) as u32);
        Ok(RawCommand { entry, data: data_of(descriptors(listed).as_bytes())? })
    }

    fn set_activation(&mut self, index: u16, select: u8) -> Result<()> {
        let cdw10 = ProgramActivationCdw10::new().with_pind(index).with_sel(select);
        let entry = self.admin_entry(AdminOpcode::PROGRAM_ACTIVATION, cdw10.into_bits());
        self.manage(entry, &[]).map(drop)
    }

    fn admin_entry(&self, opcode: AdminOpcode, cdw10: u32) -> Entry {
        let mut entry = Entry::new(opcode.0, 0, self.nsid.get());
        entry.cdw10 = cdw10;
        entry
    }

    /// Executes an admin command.
    fn manage(&mut self, entry: Entry, bytes: &[u8]) -> Result<Outcome> {
        self.last_tag += 1;
        execute_admin(&mut *self.admin, AdminCommand::raw(entry, data_of(bytes)?), self.last_tag)
    }
}

/// Executes an admin command under a tag of its own. The completion of an earlier command, for which a call waited that failed, is dropped.
fn execute_admin(admin: &mut dyn AdminQueue, command: AdminCommand, tag: u64) -> Result<Outcome> {
    admin.submit(command, tag)?;
    loop {
        match admin.next_finished()? {
            Some(finished) if finished.tag == tag => return finished.result.map_err(Error::from),
            Some(_) => {}
            None => _ = admin.sleep(SLEEP)?,
        }
    }
}

fn descriptors(ranges: &[MemoryRange]) -> Vec<MemoryRangeDescriptor> {
    let descriptor = |range: &MemoryRange| MemoryRangeDescriptor {
        nsid: range.nsid.get(),
        length_bytes: range.len_bytes,
        start: range.start,
        ..MemoryRangeDescriptor::default()
    };
    ranges.iter().map(descriptor).collect()
}

fn data_of(bytes: &[u8]) -> Result<RawData> {
    if bytes.is_empty() { Ok(RawData::None) } else { Ok(RawData::ToDevice(Payload::copy_of(bytes)?)) }
}

fn length(program: &[u8]) -> Error {
    let said = format!("a program has from 1 byte to 4 GiB, not {} bytes", program.len());
    Error::host(ErrorKind::InvalidArgument, said)
}

/// A number that stands for no set would run a program over nothing.
fn no_set() -> Error {
    Error::host(ErrorKind::InvalidArgument, "0 is the number of no set of ranges")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::BorrowedFd;

    use byway_core::{Answer, Finished, RefusedAdmin};

    use super::*;

    /// A queue that fails once, and gives each command's tag as its result.
    struct FailsOnce {
        has_failed: bool,
        submitted: VecDeque<u64>,
    }

    impl AdminQueue for FailsOnce {
        fn submit(&mut self, _: AdminCommand, tag: u64) -> std::result::Result<(), RefusedAdmin> {
            self.submitted.push_back(tag);
            Ok(())
        }

        fn next_finished(&mut self) -> Result<Option<Finished>> {
            if !std::mem::replace(&mut self.has_failed, true) {
                return Err(no_set());
            }
            Ok(self.submitted.pop_front().map(|tag| {
                let answer = Answer { dw0: tag as u32, ..Answer::default() };
                Finished { tag, result: Ok(Outcome { answer, ..Outcome::default() }) }
            }))
        }

        fn sleep(&mut self, _: Duration) -> Result<bool> {
            Ok(false)
        }

        fn event(&mut self) -> Result<BorrowedFd<'_>> {
            Err(no_set())
        }

        fn cancel(&mut self, _: u64) -> Result<()> {
            Err(no_set())
        }

        fn outstanding(&self) -> u32 {
            self.submitted.len() as u32
        }
    }

    #[test]
    fn completion_of_a_command_whose_call_failed_is_not_taken_for_the_next_one() {
        let mut queue = FailsOnce { has_failed: false, submitted: VecDeque::new() };
        let command = || AdminCommand::raw(Entry::new(AdminOpcode::LOAD_PROGRAM.0, 0, 1), RawData::None);
        assert!(execute_admin(&mut queue, command(), 1).is_err());
        let done = execute_admin(&mut queue, command(), 2);
        assert_eq!(done.ok().map(|outcome| outcome.dw0()), Some(2));
    }
}
