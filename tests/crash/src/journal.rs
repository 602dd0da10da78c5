//! What a writer says of its steps, in a file that outlives it: which it began, and what came of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It was begun; nobody acknowledged it.
    Begun,
    /// It was acknowledged.
    Done,
    /// It was refused, for want of room or as too long for the transfer method, and acknowledged as that.
    Refused,
}

/// One byte a step, written by one call, so that it is there however the writer ends.
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

    /// Notes what became of a step.
    ///
    /// # Errors
    /// What the system says.
    pub fn tell(&self, step: u64, told: Told) -> io::Result<()> {
        let byte = match told {
            Told::Begun => 1,
            Told::Done => 2,
            Told::Refused => 3,
        };
        self.file.write_all_at(&[byte], step - self.first)
    }

    /// The steps that a writer which began with `first` told of, in order.
    ///
    /// # Errors
    /// What the system says; a file that was never made tells of none.
    pub fn read(path: &Path, first: u64) -> io::Result<Vec<(u64, Told)>> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let told = |(step, byte): (u64, u8)| match byte {
            1 => Some((step, Told::Begun)),
            2 => Some((step, Told::Done)),
            3 => Some((step, Told::Refused)),
            _ => None,
        };
        Ok((first..).zip(bytes).filter_map(told).collect())
    }
}
