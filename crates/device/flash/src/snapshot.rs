//! A copy of an image that is in use: as it is at one instant, while writing goes on.
//!
//! Flash pages are written once between two erases, so those that were written at the instant are copied afterwards,
//! and a block that is to be erased or wiped before its turn is copied first. Only protected state has to be copied at the
//! instant itself: it is copied once before, and then what changed since. The device is paused for that second copy.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use byway_sys::copy::{DataRanges, copy_range, reflink};
use byway_sys::{CopyFile, ImageFile};

use crate::image::layout::Range;

/// Protected state is compared and copied by pieces of this size.
const PIECE_BYTES: u64 = 64 << 10;

/// Whether the pages of a block are still to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum CopyState {
    /// There is nothing to copy, or no longer.
    Done,
    Due,
    /// A thread copies it.
    Running,
}

/// A copy being made.
#[derive(Debug)]
pub struct Snapshot {
    from: Arc<ImageFile>,
    to: CopyFile,
    pages: Range,
    block_bytes: u64,
    /// Of each block: whether its pages are still to be copied. Only after the instant; nothing is before.
    blocks: Vec<AtomicU8>,
    /// What protected state was when it was last copied: the checksum of each piece that is not a hole.
    pieces: Mutex<HashMap<u64, u32>>,
    failed: AtomicBool,
}

impl Snapshot {
    /// A copy into `to`, an empty file, of an image with `block_count` blocks of pages. Nothing is due before it begins.
    pub(crate) fn new(
        from: Arc<ImageFile>,
        to: CopyFile,
        pages: Range,
        block_bytes: u64,
        block_count: u32,
    ) -> Self {
        let blocks = (0..block_count).map(|_| AtomicU8::new(CopyState::Done as u8)).collect();
        let (pieces, failed) = (Mutex::default(), AtomicBool::new(false));
        Self { from, to, pages, block_bytes, blocks, pieces, failed }
    }

    /// Notes that the pages of a block are due, or that it has none, at the instant that is copied.
    pub(crate) fn begin_block(&self, block: u32, has_pages: bool) {
        let state = if has_pages { CopyState::Due } else { CopyState::Done };
        self.blocks[block as usize].store(state as u8, Ordering::Release);
    }

    /// Copies protected state, what changed of it since the last time.
    ///
    /// # Errors
    /// What the system says.
    pub fn copy_protected(&self) -> io::Result<()> {
        let mut pieces = byway_sys::locked(&self.pieces);
        let mut seen = HashMap::with_capacity(pieces.len());
        let mut bytes = vec![0; PIECE_BYTES as usize];
        for range in DataRanges::between(self.from.file(), 0, self.pages.at) {
            let (at, len) = range?;
            for at in (at / PIECE_BYTES * PIECE_BYTES..at + len).step_by(PIECE_BYTES as usize) {
                if seen.contains_key(&at) {
                    continue;
                }
                self.from.file().read_exact_at(&mut bytes, at)?;
                let sum = crc32c::crc32c(&bytes);
                if pieces.get(&at) != Some(&sum) {
                    self.to.write_at(at, &bytes)?;
                }
                seen.insert(at, sum);
            }
        }
        let gone: Vec<u64> = pieces.keys().copied().filter(|at| !seen.contains_key(at)).collect();
        bytes.fill(0);
        gone.into_iter().try_for_each(|at| self.to.write_at(at, &bytes))?;
        *pieces = seen;
        Ok(())
    }

    /// Writes bytes of the copy's protected state that are not what the image has.
    pub(crate) fn write_protected(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.to.write_at(at, bytes)
    }

    /// Makes the copy by sharing all blocks of the file system, where it can; nothing changes the image meanwhile.
    pub(crate) fn share_blocks(&self) -> bool {
        reflink(self.from.file(), &self.to)
    }

    /// Blocks there are, copied or not.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Copies the pages of a block, if they still are to be; waits where another thread is at it. The bytes it has.
    pub fn copy_block(&self, block: u32) -> u64 {
        let Some(state) = self.blocks.get(block as usize) else { return 0 };
        let begun = state
            .compare_exchange(
                CopyState::Due as u8,
                CopyState::Running as u8,
                Ordering::Acquire,
                Ordering::Acquire,
            )
            .is_ok();
        if !begun {
            while state.load(Ordering::Acquire) == CopyState::Running as u8 {
                std::thread::yield_now();
            }
            return 0;
        }
        let at = self.pages.at + u64::from(block) * self.block_bytes;
        let copied = self.copy_data(at, at + self.block_bytes);
        if copied.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        state.store(CopyState::Done as u8, Ordering::Release);
        copied.unwrap_or(0)
    }

    fn copy_data(&self, at: u64, end: u64) -> io::Result<u64> {
        let mut copied = 0;
        for range in DataRanges::between(self.from.file(), at, end) {
            let (at, len) = range?;
            copy_range(self.from.file(), &self.to, at, len)?;
            copied += len;
        }
        Ok(copied)
    }

    /// Waits until the copy is on its disk.
    ///
    /// # Errors
    /// What the system says, now or when a block was copied.
    pub fn finish(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("a block could not be copied"));
        }
        self.to.sync()
    }
}
