//! Random reads or writes of one size, so many at a time, and what they go to.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Bytes of a file, and most bytes of a device that are used.
const SIZE_BYTES: u64 = 256 << 20;

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

/// Somebody who gives an interface the load.
pub trait Runner {
    /// Does so many commands, and ends with none under way.
    fn run(&mut self, commands: u32) -> Result<()>;
}

/// Where a load goes to.
pub struct Scratch {
    pub path: PathBuf,
    pub name: String,
    pub size_bytes: u64,
    is_file: bool,
}

impl Scratch {
    /// A file of its own in `folder`, with bytes in it.
    pub fn file(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("byway-bench-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).with_context(|| format!("making {}", path.display()))?;
        for chunk in 0..SIZE_BYTES >> 20 {
            file.write_all(&vec![chunk as u8; 1 << 20])?;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path, name, size_bytes: SIZE_BYTES, is_file: true })
    }

    /// A block device, whose first bytes are overwritten.
    pub fn device(path: &Path) -> Result<Self> {
        let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
        let device = opened.with_context(|| format!("opening {}", path.display()))?;
        let size_bytes = std::io::Seek::seek(&mut &device, std::io::SeekFrom::End(0))?.min(SIZE_BYTES);
        let half = |n: usize| if n.is_multiple_of(2) { (n as u8).wrapping_mul(97) } else { 0 };
        let chunk: Vec<u8> = (0..1 << 20).map(half).collect();
        for at in (0..size_bytes).step_by(1 << 20) {
            device.write_all_at(&chunk, at)?;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path: path.to_owned(), name, size_bytes, is_file: false })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
