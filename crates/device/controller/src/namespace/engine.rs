//! The boundary between a controller and an engine elsewhere that keeps a namespace of blocks: a file, another device,
//! whatever the host library reaches.
//!
//! **What an implementer must do.** Begin a command without waiting for it, and tell once that it has finished, well or not.
//! Keep a command's memory from [`BlockEngine::reserve`] to [`BlockEngine::release`]; nobody else touches it
//! between [`BlockEngine::begin`] and the command's end. A failure is a status; one that the engine goes on from, whatever it is.
//!
//! **What it may rely on.** One thread at a time has it. Commands are checked: blocks lie inside, memory is as long as they are, and
//! nothing changes an engine that is read-only. A place is begun once and released once, after it has finished or was
//! cancelled, or without having been begun.

use std::fmt;

use crate::error::CommandError;

/// A command that an engine has: which of its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u32);

/// A run of logical blocks, all of them inside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRun {
    /// First block.
    pub slba: u64,
    /// How many, not zero-based.
    pub blocks: u32,
}

/// What an engine is asked for. Data stands in the memory of the command's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Blocks into the memory; with `fua`, what was written of them before is durable by then.
    Read {
        /// Which.
        run: BlockRun,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks from the memory; with `fua`, durable by then.
    Write {
        /// Which.
        run: BlockRun,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks against the memory.
    Compare(BlockRun),
    /// Blocks read and thrown away.
    Verify(BlockRun),
    /// Blocks that read as zeroes from now on.
    WriteZeroes {
        /// Which.
        run: BlockRun,
        /// They may be deallocated for it.
        deallocate: bool,
        /// Force unit access.
        fua: bool,
    },
    /// Blocks that nobody needs any more.
    Deallocate(&'a [BlockRun]),
    /// Blocks, one run behind the other, to `to_lba` and those behind it.
    Copy {
        /// First block of the destination.
        to_lba: u64,
        /// The sources.
        from: &'a [BlockRun],
    },
    /// What was written before is durable by then.
    Flush,
}

impl<'a> Request<'a> {
    /// It without the runs that it names, and these.
    pub(super) fn without_runs(self) -> (Request<'static>, &'a [BlockRun]) {
        let runs = match self {
            Request::Deallocate(runs) | Request::Copy { from: runs, .. } => runs,
            _ => &[],
        };
        (self.with_runs(&[]), runs)
    }

    /// It with other runs where it names any.
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

/// A command that an engine has done.
#[derive(Debug)]
pub struct Finished {
    /// Which.
    pub place: Place,
    /// How it ended. A host sees the status, and the cause in its error log.
    pub result: Result<(), CommandError>,
}

/// Commands that not every engine can do.
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
    /// Every one.
    pub const ALL: Self =
        Self { write_zeroes: true, deallocate: true, compare: true, verify: true, copy: true };

    /// What both can do.
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

/// What an engine keeps, as Identify tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineShape {
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two.
    pub lba_shift: u8,
    /// Most bytes of one command, at least 4 KiB.
    pub transfer_max_bytes: usize,
    /// It is written to by nobody.
    pub is_read_only: bool,
    /// Completed writes are lost with the power until they are flushed.
    pub has_volatile_cache: bool,
    /// What it can do beside Read, Write and Flush.
    pub commands: EngineCommands,
    /// Namespace globally unique identifier: the same whenever it is exported.
    pub nguid: [u8; 16],
    /// Universally unique identifier, likewise.
    pub uuid: [u8; 16],
}

/// An engine that keeps a namespace of blocks. See the module's text for the contract.
pub trait BlockEngine: Send {
    /// What it keeps. It does not change.
    fn shape(&self) -> &EngineShape;

    /// A place for a command with `bytes` of memory, which are left over from another.
    ///
    /// # Errors
    /// The status for a command that there is no memory for.
    fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError>;

    /// The memory of a command that is not under way.
    fn memory(&mut self, place: Place) -> &mut [u8];

    /// Begins a command, at the latest with the next look for what has finished.
    fn begin(&mut self, place: Place, request: Request<'_>);

    /// Takes a command back that was begun and that nothing was done of, so that it does not finish; whether that was possible.
    fn cancel(&mut self, place: Place) -> bool;

    /// The next command that has finished, if there is one. A look that finds none leaves every command begun.
    fn next_finished(&mut self) -> Option<Finished>;

    /// Gives a place back.
    fn release(&mut self, place: Place);

    /// Whether it has as much to do as it should: what comes should wait until some of it has finished.
    fn is_full(&self) -> bool;

    /// Commands under way.
    fn outstanding(&self) -> u32;
}

impl fmt::Debug for dyn BlockEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockEngine").field("shape", self.shape()).finish_non_exhaustive()
    }
}
