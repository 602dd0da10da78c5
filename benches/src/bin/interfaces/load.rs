//! Random reads or writes of one size, so many at a time.

use std::path::PathBuf;

use anyhow::Result;

/// A load.
#[derive(Debug, Clone)]
pub struct Load {
    pub path: PathBuf,
    pub on: String,
    pub size_bytes: u64,
    pub writes: bool,
    pub block_bytes: u32,
    pub depth: u32,
    pub direct: bool,
}

impl Load {
    /// Block numbers in no order.
    pub fn blocks(&self) -> Blocks {
        Blocks { state: 0x9e37_79b9_7f4a_7c15, count: self.size_bytes / u64::from(self.block_bytes) }
    }
}

/// Block numbers in no order.
#[derive(Debug)]
pub struct Blocks {
    state: u64,
    count: u64,
}

impl Blocks {
    /// The next one.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * u128::from(self.count)) >> 64) as u64
    }
}

/// Gives an interface the load.
pub trait Runner {
    /// Does so many commands, and ends with none under way.
    fn run(&mut self, commands: u32) -> Result<()>;
}
