//! A namespace of blocks that an external engine keeps: commands are checked here, begun there, and completed when the
//! engine has finished them.

use byway_flash::{ACCESS_STATE_BYTES, ExtentId, NamespaceKind, NamespaceRecord, OWNER_STATE_BYTES};
use byway_spec::nvm::{CopyRange, DSM_RANGES_MAX, DsmRange, NvmCdw12};
use byway_spec::{Command, Status};
use zerocopy::IntoBytes;

use super::Execution;
use super::engine::{BlockEngine, BlockRun, EngineShape, Finished, Place, Request};
use super::nvm::{
    Blocks, COPY_MAX_BYTES, COPY_RANGES_MAX, NvmCommand, OUT_OF_RANGE, copy_blocks, dsm_blocks,
};
use super::ordered::{Ordered, Pair};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::outcome::{Done, ExternalCommand, ExternalWork, Outcome, Reply};

/// A namespace of blocks that an external engine keeps.
#[derive(Debug)]
pub struct ExportedNamespace {
    record: NamespaceRecord,
    engine: Ordered,
    /// By slot: the controller of its last command.
    owners: Vec<Owner>,
}

/// The owner of a slot's command.
#[derive(Debug, Clone, Copy)]
struct Owner {
    /// The controller that it came over.
    id: ControllerId,
    /// The engine executes it.
    is_under_way: bool,
}

impl ExportedNamespace {
    /// Namespace `nsid`, which `engine` keeps.
    pub fn new(nsid: u32, engine: Box<dyn BlockEngine>) -> Self {
        let shape = engine.shape();
        let record = NamespaceRecord {
            nsid,
            kind: NamespaceKind::Nvm { lba_bytes: 1 << shape.lba_shift },
            size_bytes: shape.blocks << shape.lba_shift,
            // It has no flash, and nothing asks for an exported namespace's extent.
            extent: ExtentId(u16::MAX),
            nguid: shape.nguid,
            uuid: shape.uuid,
            owner_state: [0; OWNER_STATE_BYTES],
            access_state: [0; ACCESS_STATE_BYTES],
        };
        Self { record, engine: Ordered::new(engine), owners: Vec::new() }
    }

    /// Its identifiers and size.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Size and limits of its engine.
    pub fn shape(&self) -> &EngineShape {
        self.engine.shape()
    }

    /// The memory of a command that is not under way.
    pub fn memory(&mut self, place: Place) -> &mut [u8] {
        self.engine.memory(place)
    }

    /// Releases the slot of a command that is over.
    pub fn release(&mut self, place: Place) {
        self.engine.release(place);
    }

    /// Cancels a command that its engine has not started; whether that was possible.
    pub fn cancel(&mut self, place: Place) -> bool {
        let is_cancelled = self.engine.cancel(place);
        if let Some(owner) = self.owners.get_mut(place.0 as usize) {
            owner.is_under_way &= !is_cancelled;
        }
        is_cancelled
    }

    /// Whether nothing more should be begun now.
    pub fn is_full(&self) -> bool {
        self.engine.is_full()
    }

    /// Commands that its engine has.
    pub fn outstanding(&self) -> u32 {
        self.engine.outstanding()
    }

    /// Longest source range of Copy, and longest copy, in blocks.
    pub fn copy_limit_blocks(&self) -> u32 {
        (COPY_MAX_BYTES >> self.shape().lba_shift).max(1) as u32
    }

    /// The next command that its engine has done.
    pub fn next_done(&mut self) -> Option<Done> {
        let Finished { place, result } = self.engine.next_finished()?;
        // A slot that was never begun does not finish. A controller that does not know the command releases it.
        let owner = self.owners.get_mut(place.0 as usize).map_or(ControllerId(0), |owner| {
            owner.is_under_way = false;
            owner.id
        });
        let result = result.map(|()| [0; 2]);
        Some(Done { owner, work: self.work(place), result, text: None, at_ps: 0 })
    }

    /// Whether its engine has commands that came over controller `id`.
    pub fn has_commands_of(&self, id: ControllerId) -> bool {
        self.owners.iter().any(|owner| owner.is_under_way && owner.id == id)
    }

    /// Begins the command that `place` was reserved for.
    fn start(&mut self, place: Place, request: Request<'_>) {
        self.engine.begin(place, request);
        self.note_begun(place);
    }

    fn note_begun(&mut self, place: Place) {
        self.owners.get_mut(place.0 as usize).into_iter().for_each(|owner| owner.is_under_way = true);
    }

    /// Takes the data of one of two fused commands, to be begun with the other ([`Self::begin_pair`]).
    pub fn reserve_half(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<(Place, BlockRun), CommandError> {
        let run = match NvmCommand::parse(command)? {
            NvmCommand::Compare(blocks) => {
                offered(self.shape().commands.compare)?;
                self.run(blocks)?
            }
            NvmCommand::Write(blocks) => {
                self.check_writable()?;
                self.run(blocks)?
            }
            _ => return Err(NOT_OFFERED),
        };
        Ok((self.take_data(execution, command, run)?, run))
    }

    /// Begins two fused commands.
    pub fn begin_pair(&mut self, pair: Pair) -> [Outcome; 2] {
        self.engine.begin_pair(pair);
        [pair.compare, pair.write].map(|place| {
            self.note_begun(place);
            self.external(place)
        })
    }

    /// Begins one command.
    pub fn execute(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let fua = NvmCdw12::from_bits(command.cdw12).fua();
        let can = self.shape().commands;
        match NvmCommand::parse(command)? {
            NvmCommand::Read(blocks) => self.read(execution, command, blocks, fua),
            NvmCommand::Write(blocks) => {
                self.check_writable()?;
                let run = self.run(blocks)?;
                self.send(execution, command, run, Request::Write { run, fua })
            }
            NvmCommand::Compare(blocks) => {
                offered(can.compare)?;
                let run = self.run(blocks)?;
                self.send(execution, command, run, Request::Compare(run))
            }
            NvmCommand::Verify(blocks) => {
                offered(can.verify)?;
                let run = self.run(blocks)?;
                self.begin(execution, Request::Verify(run))
            }
            NvmCommand::WriteZeroes(blocks) => {
                offered(can.write_zeroes)?;
                self.check_writable()?;
                let deallocate = NvmCdw12::from_bits(command.cdw12).deac();
                let run = self.run(blocks)?;
                self.begin(execution, Request::WriteZeroes { run, deallocate, fua })
            }
            NvmCommand::DatasetManagement { ranges, deallocate } => {
                offered(can.deallocate)?;
                self.dataset_management(execution, command, ranges, deallocate)
            }
            NvmCommand::Copy { to_lba, ranges } => {
                offered(can.copy)?;
                self.copy(execution, command, to_lba, ranges)
            }
            NvmCommand::Flush => self.begin(execution, Request::Flush),
        }
    }

    fn read(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        blocks: Blocks,
        fua: bool,
    ) -> Result<Outcome, CommandError> {
        let run = self.run(blocks)?;
        let bytes = self.transfer_bytes(run)?;
        // The host's buffer is mapped now, and kept with the command until it completes.
        execution.map(command, bytes)?;
        let place = self.reserve(execution, bytes)?;
        self.start(place, Request::Read { run, fua });
        let room_bytes = execution.port.reply_bytes().max(bytes) as u32;
        let reply = Reply { data_bytes: bytes as u32, room_bytes, inline_max_bytes: 0 };
        Ok(Outcome::External(ExternalCommand { work: self.work(place), reply }))
    }

    /// Begins a command with the host's data of `run`.
    fn send(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        run: BlockRun,
        request: Request<'_>,
    ) -> Result<Outcome, CommandError> {
        let place = self.take_data(execution, command, run)?;
        self.start(place, request);
        Ok(self.external(place))
    }

    /// A slot with the host's data of `run`.
    fn take_data(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        run: BlockRun,
    ) -> Result<Place, CommandError> {
        let bytes = self.transfer_bytes(run)?;
        let place = self.reserve(execution, bytes)?;
        let received = execution.receive(command, self.engine.memory(place));
        if received.is_err() {
            self.engine.release(place);
        }
        received.map(|()| place)
    }

    /// Begins a command without data.
    fn begin(
        &mut self,
        execution: &mut Execution<'_, '_>,
        request: Request<'_>,
    ) -> Result<Outcome, CommandError> {
        let place = self.reserve(execution, 0)?;
        self.start(place, request);
        Ok(self.external(place))
    }

    fn dataset_management(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        ranges: usize,
        deallocate: bool,
    ) -> Result<Outcome, CommandError> {
        let mut list = [DsmRange::default(); DSM_RANGES_MAX];
        let list = execution.receive_ranges(command, ranges, &mut list)?;
        if !deallocate {
            return Ok(Outcome::OK);
        }
        self.check_writable()?;
        let mut runs = Vec::with_capacity(list.len());
        for range in list.iter().filter(|range| range.nlb > 0) {
            runs.push(self.run(dsm_blocks(range))?);
        }
        if runs.is_empty() {
            return Ok(Outcome::OK);
        }
        self.begin(execution, Request::Deallocate(&runs))
    }

    fn copy(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        to_lba: u64,
        ranges: usize,
    ) -> Result<Outcome, CommandError> {
        self.check_writable()?;
        let mut list = [CopyRange::default(); COPY_RANGES_MAX];
        let list = list.get_mut(..ranges).ok_or(COPY_TOO_LARGE)?;
        execution.receive(command, list.as_mut_bytes())?;
        let (mut runs, mut count) = (Vec::with_capacity(list.len()), 0);
        for range in list.iter() {
            let run = self.run(copy_blocks(range))?;
            count += run.blocks;
            if count > self.copy_limit_blocks() {
                return Err(COPY_TOO_LARGE);
            }
            runs.push(run);
        }
        self.run(Blocks { slba: to_lba, count: count.into() })?;
        self.begin(execution, Request::Copy { to_lba, from: &runs })
    }

    fn reserve(&mut self, execution: &Execution<'_, '_>, bytes: usize) -> Result<Place, CommandError> {
        let place = self.engine.reserve(bytes)?;
        let (at, owner) = (place.0 as usize, Owner { id: execution.controller, is_under_way: false });
        if at >= self.owners.len() {
            self.owners.resize(at + 1, owner);
        }
        self.owners[at] = owner;
        Ok(place)
    }

    fn external(&self, place: Place) -> Outcome {
        Outcome::External(self.work(place).into())
    }

    const fn work(&self, place: Place) -> ExternalWork {
        ExternalWork::Engine { nsid: self.record.nsid, place }
    }

    /// Blocks of a command, if all of them are inside the namespace.
    fn run(&self, blocks: Blocks) -> Result<BlockRun, CommandError> {
        let end = blocks.slba.checked_add(blocks.count).ok_or(OUT_OF_RANGE)?;
        if end > self.shape().blocks {
            return Err(OUT_OF_RANGE);
        }
        // The count comes from a field of 32 bits, or of 16 bits zero-based.
        Ok(BlockRun { slba: blocks.slba, blocks: u32::try_from(blocks.count).map_err(|_| OUT_OF_RANGE)? })
    }

    fn transfer_bytes(&self, run: BlockRun) -> Result<usize, CommandError> {
        let bytes = u64::from(run.blocks) << self.shape().lba_shift;
        if bytes > self.shape().transfer_max_bytes as u64 {
            return Err(CommandError::invalid_field("more bytes than one command may move"));
        }
        Ok(bytes as usize)
    }

    fn check_writable(&self) -> Result<(), CommandError> {
        if self.shape().is_read_only { Err(WRITE_PROTECTED) } else { Ok(()) }
    }
}

fn offered(is_offered: bool) -> Result<(), CommandError> {
    if is_offered { Ok(()) } else { Err(NOT_OFFERED) }
}

const WRITE_PROTECTED: CommandError =
    CommandError::new(Status::NAMESPACE_WRITE_PROTECTED, "the namespace is exported for reading alone");
const NOT_OFFERED: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "what is exported has no such command").at_byte(0);
const COPY_TOO_LARGE: CommandError =
    CommandError::new(Status::COMMAND_SIZE_LIMIT_EXCEEDED, "more ranges or blocks than one Copy takes");
