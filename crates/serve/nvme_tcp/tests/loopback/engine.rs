//! An engine of a namespace that does nothing by itself: its commands wait until they are taken back, and some break it.

use byway_controller::engine::{EngineCommands, EngineShape, Finished, Place, Request};
use byway_controller::{BlockEngine, CommandError};

/// The block that breaks it.
pub const FATAL_LBA: u64 = 13;

pub struct IdleEngine {
    shape: EngineShape,
    memory: Vec<Vec<u8>>,
    begun: Vec<Place>,
}

impl IdleEngine {
    pub fn new() -> Self {
        let shape = EngineShape {
            blocks: 1024,
            lba_shift: 9,
            transfer_max_bytes: 128 << 10,
            is_read_only: false,
            has_volatile_cache: false,
            commands: EngineCommands::ALL,
            nguid: [5; 16],
            uuid: [6; 16],
        };
        Self { shape, memory: Vec::new(), begun: Vec::new() }
    }
}

impl BlockEngine for IdleEngine {
    fn shape(&self) -> &EngineShape {
        &self.shape
    }

    fn reserve(&mut self, bytes: usize) -> Result<Place, CommandError> {
        self.memory.push(vec![0; bytes]);
        Ok(Place(self.memory.len() as u32 - 1))
    }

    fn memory(&mut self, place: Place) -> &mut [u8] {
        &mut self.memory[place.0 as usize]
    }

    fn begin(&mut self, place: Place, request: Request<'_>) {
        let is_fatal = matches!(request, Request::Write { run, .. } if run.slba == FATAL_LBA);
        assert!(!is_fatal, "the test's engine breaks");
        self.begun.push(place);
    }

    fn cancel(&mut self, place: Place) -> bool {
        let at = self.begun.iter().position(|begun| *begun == place);
        at.map(|at| self.begun.remove(at)).is_some()
    }

    fn next_finished(&mut self) -> Option<Finished> {
        None
    }

    fn release(&mut self, _: Place) {}

    fn is_full(&self) -> bool {
        false
    }

    fn outstanding(&self) -> u32 {
        self.begun.len() as u32
    }
}
