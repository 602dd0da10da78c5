//! The boundary between a controller and an external engine that keeps a namespace of blocks: a file, another device, any
//! backend of the host library.
//!
//! **What an implementer must do.** Begin a command without waiting for it, and report once that it has finished, with or
//! without success. Keep a command's memory from [`BlockEngine::reserve`] to [`BlockEngine::release`]; only the engine
//! touches it between [`BlockEngine::begin`] and the command's end. A failure is a status, and the engine goes on after it.
//!
//! **What it may rely on.** One thread at a time calls it. Commands are checked: blocks lie inside, memory is as long as
//! they are, and no command changes a read-only engine. A slot is begun once and released once, after it has finished or
//! was cancelled, or without having been begun.

use std::fmt;

use crate::error::CommandError;

/// A command's slot in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u32);

/// A run of logical blocks, all of them inside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRun {
    /// First block.
    pub slba: u64,
    /// Number of blocks, not zero-based.
    pub blocks: u32,
}

/// A command for an engine. Its data is in the memory of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Blocks into the memory; with `fua`, earlier writes of them are made durable first.
    Read {
        /// The blocks.
        run: BlockRun,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks from the memory; with `fua`, durable by then.
    Write {
        /// The blocks.
        run: BlockRun,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks against the memory.
    Compare(BlockRun),
    /// Blocks read and not transferred.
    Verify(BlockRun),
    /// Blocks that read as zeroes from now on.
    WriteZeroes {
        /// The blocks.
        run: BlockRun,
        /// They may be deallocated for it.
        deallocate: bool,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks whose contents are not needed any more.
    Deallocate(&'a [BlockRun]),
    /// Blocks, one run behind the other, to `to_lba` and those behind it.
    Copy {
        /// First block of the destination.
        to_lba: u64,
        /// The sources.
        from: &'a [BlockRun],
    },
    /// Makes every block written before durable.
    Flush,
}

impl<'a> Request<'a> {
    /// The request without its runs, and the runs.
    pub(super) fn without_runs(self) -> (Request<'static>, &'a [BlockRun]) {
        let runs = match self {
            Request::Deallocate(runs) | Request::Copy { from: runs, .. } => runs,
            _ => &[],
        };
        (self.with_runs(&[]), runs)
    }

    /// The request with other runs, where it has any.
    pub(super) fn with_runs(self, runs: &[BlockRun]) -> Request<'_> {
        match self {
            Request::Read { run, fua } => Request::Read { run, fua },
            Request::Write { run, fua } => Request::Write { run, fua },
            Request::Compare(run) => Request::Compare(run),
            Request::Verify(run) => Request::Verify(run),
            Request::WriteZeroes { run, deallocate, fua } => Request::WriteZeroes { run, deallocate, fua },
            Request::Deallocate(_) => Request::Deallocate(runs),
            Request::Copy { to_lba, .. } => Request::Copy { to_lba, from: runs },
            Request::Flush => Request::Flush,
        }
    }
}

/// A command that an engine has finished.
#[derive(Debug)]
pub struct Finished {
    /// Its slot.
    pub place: Place,
    /// How it ended. The host gets the status, and the cause in its error log.
    pub result: Result<(), CommandError>,
}

/// Optional commands that an engine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands are")]
pub struct EngineCommands {
    pub write_zeroes: bool,
    pub deallocate: bool,
    pub compare: bool,
    pub verify: bool,
    pub copy: bool,
}

impl EngineCommands {
    /// Every command.
    pub const ALL: Self =
        Self { write_zeroes: true, deallocate: true, compare: true, verify: true, copy: true };

    /// Commands that both support.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            write_zeroes: self.write_zeroes && other.write_zeroes,
            deallocate: self.deallocate && other.deallocate,
            compare: self.compare && other.compare,
            verify: self.verify && other.verify,
            copy: self.copy && other.copy,
        }
    }
}

/// Size, limits and identifiers of an engine, as Identify reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineShape {
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two.
    pub lba_shift: u8,
    /// Most bytes of one command, at least 4 KiB.
    pub transfer_max_bytes: usize,
    /// No command may write to it.
    pub is_read_only: bool,
    /// Completed writes are lost with the power until they are flushed.
    pub has_volatile_cache: bool,
    /// Commands that it supports beside Read, Write and Flush.
    pub commands: EngineCommands,
    /// Namespace globally unique identifier: the same whenever it is exported.
    pub nguid: [u8; 16],
    /// Universally unique identifier, likewise.
    pub uuid: [u8; 16],
}

/// An engine that keeps a namespace of blocks. See the module's text for the contract.
pub trait BlockEngine: Send + Sync {
    /// Its size, limits and identifiers. They do not change.
    fn shape(&self) -> &EngineShape;

    /// A slot for a command with `bytes` of memory. The memory is not cleared.
    ///
    /// # Errors
    /// The status for a command that there is no memory for.
    fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError>;

    /// The memory of a command that is not under way.
    fn memory(&mut self, place: Place) -> &mut [u8];

    /// Begins a command, at the latest with the next call of [`next_finished`](Self::next_finished).
    fn begin(&mut self, place: Place, request: Request<'_>);

    /// Cancels a command that was begun but not started, so that it does not finish; whether that was possible.
    fn cancel(&mut self, place: Place) -> bool;

    /// The next command that has finished. `None` leaves every command begun.
    fn next_finished(&mut self) -> Option<Finished>;

    /// Releases a slot.
    fn release(&mut self, place: Place);

    /// Whether its queue is full: new commands should wait until some have finished.
    fn is_full(&self) -> bool;

    /// Commands under way.
    fn outstanding(&self) -> u32;
}

impl fmt::Debug for dyn BlockEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockEngine").field("shape", self.shape()).finish_non_exhaustive()
    }
}
