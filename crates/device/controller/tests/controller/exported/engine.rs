//! An engine in memory that finishes its commands when the test asks, in the order that the test wants.

use std::sync::Arc;

use byway_controller::engine::{BlockRun, EngineCommands, EngineShape, Finished, Place, Request};
use byway_controller::{BlockEngine, CommandError};
use byway_spec::Status;
use parking_lot::{Mutex, MutexGuard};

/// Bytes of a block.
pub const LBA_BYTES: usize = 512;

/// What a test sees and decides.
#[derive(Debug, Default)]
pub struct State {
    /// Content of the device.
    pub bytes: Vec<u8>,
    /// Commands are left under way.
    pub holds: bool,
    /// The last command begun is done first.
    pub backwards: bool,
    /// Commands under way can be taken back.
    pub cancels: bool,
    /// Every command fails with this.
    pub fails: Option<Status>,
    /// It has enough to do.
    pub is_full: bool,
    /// Flushes and writes with force unit access.
    pub made_durable: usize,
    /// Places in use.
    pub places: usize,
    begun: Vec<(Place, Op)>,
}

impl State {
    /// Commands under way.
    pub fn under_way(&self) -> usize {
        self.begun.len()
    }
}

#[derive(Debug)]
enum Op {
    Read(BlockRun),
    Write(BlockRun, bool),
    Compare(BlockRun),
    Clear(Vec<BlockRun>),
    Copy(u64, Vec<BlockRun>),
    Verify,
    Flush,
}

/// The engine.
pub struct TestEngine {
    shape: EngineShape,
    /// Memory of each place that is in use.
    places: Vec<Option<Vec<u8>>>,
    state: Arc<Mutex<State>>,
}

impl TestEngine {
    /// One of `blocks` blocks, and the test's hand on it.
    pub fn new(blocks: u64) -> (Self, Arc<Mutex<State>>) {
        let shape = EngineShape {
            blocks,
            lba_shift: 9,
            transfer_max_bytes: 128 << 10,
            is_read_only: false,
            has_volatile_cache: true,
            commands: EngineCommands::ALL,
            nguid: [5; 16],
            uuid: [6; 16],
        };
        let state = State { bytes: vec![0; blocks as usize * LBA_BYTES], ..State::default() };
        let state = Arc::new(Mutex::new(state));
        (Self { shape, places: Vec::new(), state: state.clone() }, state)
    }

    /// Another shape.
    pub fn shaped(mut self, change: impl FnOnce(&mut EngineShape)) -> Self {
        change(&mut self.shape);
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn bytes_of(run: BlockRun) -> std::ops::Range<usize> {
    let start = run.slba as usize * LBA_BYTES;
    start..start + run.blocks as usize * LBA_BYTES
}

impl State {
    fn perform(&mut self, memory: &mut [u8], op: Op) -> Result<(), CommandError> {
        if let Some(status) = self.fails {
            return Err(CommandError::new(status, "the test's engine fails"));
        }
        match op {
            Op::Read(run) => memory.copy_from_slice(&self.bytes[bytes_of(run)]),
            Op::Write(run, durable) => {
                self.bytes[bytes_of(run)].copy_from_slice(memory);
                self.made_durable += usize::from(durable);
            }
            Op::Compare(run) if self.bytes[bytes_of(run)] != memory[..] => {
                return Err(CommandError::new(Status::COMPARE_FAILURE, "they differ"));
            }
            Op::Clear(runs) => runs.into_iter().for_each(|run| self.bytes[bytes_of(run)].fill(0)),
            Op::Copy(to, from) => {
                let all: Vec<u8> =
                    from.into_iter().flat_map(|run| self.bytes[bytes_of(run)].to_vec()).collect();
                self.bytes[to as usize * LBA_BYTES..][..all.len()].copy_from_slice(&all);
            }
            Op::Flush => self.made_durable += 1,
            Op::Compare(_) | Op::Verify => {}
        }
        Ok(())
    }
}

impl BlockEngine for TestEngine {
    fn shape(&self) -> &EngineShape {
        &self.shape
    }

    fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError> {
        let at = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = Some(vec![0xdd; bytes]);
        self.state().places += 1;
        Ok(Place(at as u32))
    }

    fn memory(&mut self, place: Place) -> &mut [u8] {
        self.places[place.0 as usize].as_mut().expect("a command has a place")
    }

    fn begin(&mut self, place: Place, request: Request<'_>) {
        let op = match request {
            Request::Read { run, .. } => Op::Read(run),
            Request::Write { run, fua } => Op::Write(run, fua),
            Request::Compare(run) => Op::Compare(run),
            Request::Verify(_) => Op::Verify,
            Request::WriteZeroes { run, .. } => Op::Clear(vec![run]),
            Request::Deallocate(runs) => Op::Clear(runs.to_vec()),
            Request::Copy { to_lba, from } => Op::Copy(to_lba, from.to_vec()),
            Request::Flush => Op::Flush,
        };
        self.state().begun.push((place, op));
    }

    fn cancel(&mut self, place: Place) -> bool {
        let mut state = self.state();
        let found = state.begun.iter().position(|(begun, _)| *begun == place).filter(|_| state.cancels);
        found.map(|at| state.begun.remove(at)).is_some()
    }

    fn next_finished(&mut self) -> Option<Finished> {
        let mut state = self.state.lock();
        if state.holds || state.begun.is_empty() {
            return None;
        }
        let (place, op) = if state.backwards { state.begun.pop()? } else { state.begun.remove(0) };
        let memory = self.places[place.0 as usize].as_mut().expect("a command has a place");
        let result = state.perform(memory, op);
        Some(Finished { place, result })
    }

    fn release(&mut self, place: Place) {
        let released = self.places[place.0 as usize].take();
        assert!(released.is_some(), "a place is given back once");
        self.state().places -= 1;
    }

    fn is_full(&self) -> bool {
        self.state().is_full
    }

    fn outstanding(&self) -> u32 {
        self.state().begun.len() as u32
    }
}
