//! What loads go to: files that are made and removed, and devices that are overwritten.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Bytes of a file, and most bytes of a device that are used.
const SIZE_BYTES: u64 = 256 << 20;

/// Target of a load: a file or a device.
#[derive(Debug)]
pub struct Scratch {
    /// The file or the device.
    pub path: PathBuf,
    /// The folder's or the device's last name.
    pub name: String,
    /// Bytes that may be used.
    pub size_bytes: u64,
    is_file: bool,
}

impl Scratch {
    /// A file of its own in `folder`, with bytes in it; `number` distinguishes it from others of the process.
    ///
    /// # Errors
    /// What the file system says.
    pub fn file(folder: &Path, number: usize) -> Result<Self> {
        let path = folder.join(format!("byway-bench-{}-{number}", std::process::id()));
        let mut file = std::fs::File::create(&path).with_context(|| format!("making {}", path.display()))?;
        for chunk in 0..SIZE_BYTES >> 20 {
            file.write_all(&vec![chunk as u8; 1 << 20])?;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path, name, size_bytes: SIZE_BYTES, is_file: true })
    }

    /// A block device, whose first bytes are overwritten.
    ///
    /// # Errors
    /// What the system says.
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
