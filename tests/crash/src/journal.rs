//! A writer's record of its steps in a file that outlives it: which it began, and how they ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    /// It was begun, and not acknowledged.
    Begun,
    /// It was acknowledged.
    Done,
    /// It was refused, for want of room or as too long for the transfer method, and acknowledged as that.
    Refused,
}

/// One byte a step, written by one call, so that it survives any end of the writer.
#[derive(Debug)]
pub struct Journal {
    file: File,
    first: u64,
}

impl Journal {
    /// A new journal of steps from `first` on.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, first: u64) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, first })
    }

    /// Records the state of a step.
    ///
    /// # Errors
    /// What the system says.
    pub fn record(&self, step: u64, state: StepState) -> io::Result<()> {
        let byte = match state {
            StepState::Begun => 1,
            StepState::Done => 2,
            StepState::Refused => 3,
        };
        self.file.write_all_at(&[byte], step - self.first)
    }

    /// The steps that a writer which began with `first` recorded, in order.
    ///
    /// # Errors
    /// What the system says; a missing file has none.
    pub fn read(path: &Path, first: u64) -> io::Result<Vec<(u64, StepState)>> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let state = |(step, byte): (u64, u8)| match byte {
            1 => Some((step, StepState::Begun)),
            2 => Some((step, StepState::Done)),
            3 => Some((step, StepState::Refused)),
            _ => None,
        };
        Ok((first..).zip(bytes).filter_map(state).collect())
    }
}
