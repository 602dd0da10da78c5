//! One namespace of a backend, as the engine of a namespace of a controller.
//!
//! Commands go to the backend's queue as they come; those that it has no room for wait here, in order. What a backend
//! cannot do by one command (force unit access) is done by two under one place.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use byway_controller::engine::{BlockRun, EngineCommands, EngineShape, Finished, Place, Request};
use byway_controller::{BlockEngine, CommandError, MAX_TRANSFER_BYTES};
use byway_core::{
    Backend, BackendQueue, Buffer, Command, CopyRanges, Error, ErrorKind, Failed, LbaRange, LbaRanges,
    NamespaceKind, Nsid, NvmCommand, Outcome, Payload, QueueOptions, Result,
};
use byway_spec::Status;
use parking_lot::Mutex;

use crate::memory::Shelves;
use crate::slots::{Doing, Sequel, Slots};
use crate::status::of_error;

/// With this much data of commands under way, further commands wait.
const FULL_BYTES: usize = 64 << 20;

/// Commands under way from which on others wait.
const FULL_COMMANDS: u32 = 4096;

/// Lower bound of the maximum transfer size that a controller can announce, in bytes.
const LEAST_TRANSFER_BYTES: u64 = 4096;

/// Block sizes that Identify can report, as powers of two.
const LBA_SHIFTS: std::ops::RangeInclusive<u32> = 9..=16;

/// How a namespace is exported.
#[derive(Debug, Clone)]
pub struct ExportAs {
    /// Which namespace of the device.
    pub nsid: Nsid,
    /// For reading alone.
    pub is_read_only: bool,
    /// Identifiers of the namespace, unless the device has one: the same whenever it is exported.
    pub identifier: [u8; 16],
    /// Of the queue that carries its commands.
    pub queue: QueueOptions,
}

/// A namespace of a backend that is exported.
pub struct Export<B: Backend> {
    // Declared before `backend`, so that it is dropped first.
    // Each use is exclusive: the mutex is what makes an engine `Sync` whose queue need not be.
    queue: Mutex<B::Queue>,
    backend: B,
    nsid: Nsid,
    shape: EngineShape,
    slots: Slots,
    shelves: Shelves,
    /// Commands that the queue has had no room for.
    waiting: VecDeque<(Place, Command)>,
    /// Commands that ended without the queue.
    ended: VecDeque<Finished>,
    under_way: u32,
    under_way_bytes: usize,
}

impl<B: Backend> Export<B> {
    /// Exports a namespace of blocks of `backend`.
    ///
    /// # Errors
    /// When there is no such namespace, it is not one of blocks that can be announced, or the device has no queue left.
    pub fn new(backend: B, export_as: &ExportAs) -> Result<Self> {
        let shape = shape_of(&backend, export_as)?;
        let queue = Backend::queue(&backend, export_as.queue)?;
        Ok(Self {
            queue: Mutex::new(queue),
            backend,
            nsid: export_as.nsid,
            shape,
            slots: Slots::default(),
            shelves: Shelves::default(),
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
            under_way: 0,
            under_way_bytes: 0,
        })
    }

    /// A descriptor that can be read when something may have been done; none where the backend has none.
    ///
    /// # Errors
    /// The system's answer.
    pub fn event(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        if self.backend.capabilities().event { self.queue.get_mut().event().map(Some) } else { Ok(None) }
    }

    /// Hands a command to the queue, behind those that wait for it.
    fn send(&mut self, place: Place, command: Command) {
        if !self.waiting.is_empty() {
            return self.waiting.push_back((place, command));
        }
        if let Some(command) = self.submit(place, command) {
            self.waiting.push_back((place, command));
        }
    }

    /// Hands the queue what it has room for.
    fn refill(&mut self) {
        while let Some((place, command)) = self.waiting.pop_front() {
            if let Some(command) = self.submit(place, command) {
                return self.waiting.push_front((place, command));
            }
        }
    }

    /// Hands the queue a command; returns it where there is no room.
    #[inline]
    fn submit(&mut self, place: Place, command: Command) -> Option<Command> {
        let tag = self.slots.tag(place);
        let refused = self.queue.get_mut().submit(command, tag).err()?;
        if refused.error.kind() == ErrorKind::QueueFull {
            return Some(refused.command);
        }
        let failed = Failed::from(refused);
        self.end(place, Err(failed));
        None
    }

    /// A command that the queue has done, unless another follows it.
    fn finish(&mut self, place: Place, result: Result<Outcome, Failed>) -> Option<Finished> {
        let slot = self.slots.at(place);
        let (result, buffer) = match result {
            Ok(outcome) => (Ok(()), outcome.buffer),
            Err(failed) => (Err(of_error(&failed.error, slot.doing)), failed.buffer),
        };
        slot.buffer = buffer.or(slot.buffer.take());
        match slot.sequel.take() {
            Some(sequel) if result.is_ok() => {
                slot.is_half_done = true;
                let command = self.sequel(place, sequel);
                self.send(place, command);
                None
            }
            _ => {
                self.note_finished(place);
                Some(Finished { place, result })
            }
        }
    }

    fn note_finished(&mut self, place: Place) {
        let slot = self.slots.at(place);
        slot.is_under_way = false;
        self.under_way_bytes -= slot.bytes;
        self.under_way -= 1;
    }

    /// Ends a command without the queue.
    fn end(&mut self, place: Place, result: Result<Outcome, Failed>) {
        // One that failed has no sequel.
        self.slots.at(place).sequel = None;
        let finished = self.finish(place, result);
        self.ended.extend(finished);
    }

    fn sequel(&mut self, place: Place, sequel: Sequel) -> Command {
        match sequel {
            Sequel::Flush => NvmCommand::Flush { nsid: self.nsid }.into(),
            Sequel::Read(run) => self.read(place, run),
        }
    }

    fn read(&mut self, place: Place, run: BlockRun) -> Command {
        // A read has memory; without any, it would be refused for its length.
        let into = self.slots.at(place).buffer.take().unwrap_or_else(|| Buffer::from_bytes(Box::new([])));
        NvmCommand::Read { nsid: self.nsid, slba: run.slba, blocks: run.blocks, into }.into()
    }

    fn data(&mut self, place: Place) -> Payload {
        self.slots.at(place).buffer.take().map_or(Payload::Empty, Payload::Buffer)
    }

    /// What the queue is to do for a request, and what then.
    fn command(&mut self, place: Place, request: Request<'_>) -> Result<(Command, Option<Sequel>)> {
        let (nsid, caches) = (self.nsid, self.shape.has_volatile_cache);
        let flush = |fua: bool| (fua && caches).then_some(Sequel::Flush);
        Ok(match request {
            Request::Read { run, fua } if fua && caches => {
                (NvmCommand::Flush { nsid }.into(), Some(Sequel::Read(run)))
            }
            Request::Read { run, .. } => (self.read(place, run), None),
            Request::Write { run: BlockRun { slba, blocks }, fua } => {
                let data = self.data(place);
                (NvmCommand::Write { nsid, slba, blocks, data }.into(), flush(fua))
            }
            Request::Compare(BlockRun { slba, blocks }) => {
                let data = self.data(place);
                (NvmCommand::Compare { nsid, slba, blocks, data }.into(), None)
            }
            Request::Verify(BlockRun { slba, blocks }) => {
                (NvmCommand::Verify { nsid, slba, blocks }.into(), None)
            }
            Request::WriteZeroes { run: BlockRun { slba, blocks }, deallocate, fua } => {
                (NvmCommand::WriteZeroes { nsid, slba, blocks, deallocate }.into(), flush(fua))
            }
            Request::Deallocate(runs) => {
                let ranges = LbaRanges::new(&ranges_of(runs))?;
                (NvmCommand::Deallocate { nsid, ranges }.into(), None)
            }
            Request::Copy { to_lba, from } => {
                let from = CopyRanges::new(&ranges_of(from))?;
                (NvmCommand::Copy { nsid, to: to_lba, from }.into(), None)
            }
            Request::Flush => (NvmCommand::Flush { nsid }.into(), None),
        })
    }

    /// Fails all commands of a failed queue. Their outcome is unknown, and their buffers stay with the queue.
    #[cold]
    fn lose_all(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (place, command) in waiting {
            self.slots.at(place).buffer = command.into_buffer();
        }
        let lost: Vec<Place> = self.slots.under_way().collect();
        for place in lost {
            let error = Error::host(ErrorKind::DeviceLost, "the queue of what is exported failed");
            self.end(place, Err(error.into()));
        }
    }
}

impl<B: Backend> BlockEngine for Export<B> {
    fn shape(&self) -> &EngineShape {
        &self.shape
    }

    fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError> {
        let buffer = match bytes {
            0 => None,
            _ => Some(self.shelves.take(&self.backend, bytes).map_err(|_| NO_MEMORY)?),
        };
        Ok(self.slots.take(buffer, bytes))
    }

    fn memory(&mut self, place: Place) -> &mut [u8] {
        self.slots.at(place).buffer.as_mut().map_or(&mut [], |buffer| buffer.as_mut_slice())
    }

    fn begin(&mut self, place: Place, request: Request<'_>) {
        let doing = match request {
            Request::Read { .. } | Request::Compare(_) | Request::Verify(_) => Doing::Reading,
            _ => Doing::Writing,
        };
        let slot = self.slots.at(place);
        (slot.doing, slot.is_under_way) = (doing, true);
        self.under_way += 1;
        self.under_way_bytes += slot.bytes;
        if request == Request::Flush && !self.shape.has_volatile_cache {
            // What has no cache has nothing to flush.
            return self.end(place, Ok(Outcome::default()));
        }
        match self.command(place, request) {
            Ok((command, sequel)) => {
                self.slots.at(place).sequel = sequel;
                self.send(place, command);
            }
            Err(error) => self.end(place, Err(error.into())),
        }
    }

    fn cancel(&mut self, place: Place) -> bool {
        let waits = self.waiting.iter().position(|(waiting, _)| *waiting == place);
        let Some((_, command)) =
            waits.filter(|_| !self.slots.at(place).is_half_done).and_then(|at| self.waiting.remove(at))
        else {
            // What the backend can still take back finishes as cancelled, later.
            let _ = self.queue.get_mut().cancel(self.slots.tag(place));
            return false;
        };
        let slot = self.slots.at(place);
        (slot.buffer, slot.sequel) = (command.into_buffer(), None);
        self.note_finished(place);
        true
    }

    fn next_finished(&mut self) -> Option<Finished> {
        if self.under_way == 0 && self.ended.is_empty() {
            // Clears the queue's descriptor of earlier completions.
            let _ = self.queue.get_mut().next_finished();
            return None;
        }
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            match self.queue.get_mut().next_finished() {
                Ok(Some(finished)) => {
                    let place = self.slots.by_tag(finished.tag);
                    let done = place.and_then(|place| self.finish(place, finished.result));
                    self.refill();
                    if done.is_some() {
                        return done;
                    }
                }
                Ok(None) if self.ended.is_empty() => return None,
                Ok(None) => {}
                Err(_) => self.lose_all(),
            }
        }
    }

    fn release(&mut self, place: Place) {
        let buffer = self.slots.release(place);
        buffer.into_iter().for_each(|buffer| self.shelves.put(buffer));
    }

    fn is_full(&self) -> bool {
        self.under_way_bytes >= FULL_BYTES || self.under_way >= FULL_COMMANDS
    }

    fn outstanding(&self) -> u32 {
        self.under_way
    }
}

fn ranges_of(runs: &[BlockRun]) -> Vec<LbaRange> {
    runs.iter().map(|run| LbaRange { slba: run.slba, blocks: run.blocks }).collect()
}

fn shape_of(backend: &impl Backend, export_as: &ExportAs) -> Result<EngineShape> {
    let namespaces = backend.namespaces()?;
    let namespace = namespaces.iter().find(|namespace| namespace.nsid == export_as.nsid);
    let namespace = namespace.ok_or_else(|| {
        Error::host(ErrorKind::NotFound, format!("there is no namespace {}", export_as.nsid))
    })?;
    let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
        let said = format!(
            "namespace {} is of kind {}: only namespaces of blocks are exported",
            export_as.nsid,
            namespace.kind.name()
        );
        return Err(Error::host(ErrorKind::Unsupported, said));
    };
    let lba_shift = lba_bytes.checked_ilog2().filter(|shift| LBA_SHIFTS.contains(shift));
    let lba_shift = lba_shift.filter(|_| lba_bytes.is_power_of_two()).ok_or_else(|| {
        Error::host(ErrorKind::Unsupported, format!("blocks of {lba_bytes} bytes cannot be announced"))
    })?;
    let capabilities = backend.capabilities();
    let can = capabilities.nvm;
    let identifier = Some(namespace.nguid).filter(|nguid| *nguid != [0; 16]).unwrap_or(export_as.identifier);
    Ok(EngineShape {
        blocks,
        lba_shift: lba_shift as u8,
        transfer_max_bytes: transfer_bytes(capabilities.limits.transfer_bytes)?,
        is_read_only: export_as.is_read_only,
        has_volatile_cache: can.flush,
        commands: EngineCommands {
            write_zeroes: can.write_zeroes,
            deallocate: can.deallocate,
            compare: can.compare,
            verify: can.verify,
            copy: can.copy,
        },
        nguid: identifier,
        uuid: as_uuid(identifier),
    })
}

/// Most bytes of one command: a power of two, which is what a controller can say.
fn transfer_bytes(limit_bytes: u64) -> Result<usize> {
    let bytes = limit_bytes.min(MAX_TRANSFER_BYTES as u64);
    if bytes < LEAST_TRANSFER_BYTES {
        let said =
            format!("commands of {limit_bytes} bytes at most are too short for a controller to announce");
        return Err(Error::host(ErrorKind::Unsupported, said));
    }
    Ok(1 << bytes.ilog2())
}

/// An identifier as a UUID of the form that is for anything (RFC 9562, version 8).
fn as_uuid(mut identifier: [u8; 16]) -> [u8; 16] {
    identifier[6] = identifier[6] & 0x0f | 0x80;
    identifier[8] = identifier[8] & 0x3f | 0x80;
    identifier
}

const NO_MEMORY: CommandError =
    CommandError::new(Status::NAMESPACE_NOT_READY, "there is no memory for the command's data now");
