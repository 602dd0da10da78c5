//! A copy of an image that is in use: as it is at one instant, while writing goes on.
//!
//! Flash pages are written once between two erases, so those that were written at the instant are copied afterwards,
//! and a block that is to be erased or wiped before its turn is copied first. Only protected state has to be copied at the
//! instant itself: it is copied once before, and then what changed since. The device stands still for that long.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use byway_sys::copy::{DataRanges, copy_range, reflink};
use byway_sys::{Access, CopyFile, ImageFile};

use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::BlockId;
use crate::image::layout::Range;

/// Protected state is compared and copied by pieces of this size.
const PIECE_BYTES: u64 = 64 << 10;

const TO_COPY: u8 = 1;
const BEING_COPIED: u8 = 2;
const COPIED: u8 = 0;

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
    /// Copies protected state, what changed of it since the last time.
    ///
    /// # Errors
    /// What the system says.
    pub fn copy_protected(&self) -> io::Result<()> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Makes the copy by sharing all blocks of the file system, where it can; call it with the device standing still.
    #[must_use]
    pub fn share_blocks(&self) -> bool {
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
        let begun =
            state.compare_exchange(TO_COPY, BEING_COPIED, Ordering::Acquire, Ordering::Acquire).is_ok();
        if !begun {
            while state.load(Ordering::Acquire) == BEING_COPIED {
                std::thread::yield_now();
            }
            return 0;
        }
        let at = self.pages.at + u64::from(block) * self.block_bytes;
        let copied = self.copy_data(at, at + self.block_bytes);
        if copied.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        state.store(COPIED, Ordering::Release);
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

impl Flash {
    /// Prepares a copy of the image into `to`, an empty file.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] for a device without an image, or while another copy is made; what the file says.
    pub fn prepare_snapshot(&self, to: CopyFile) -> Result<Arc<Snapshot>, FlashError> {
        let Some(from) = self.image_file().filter(|_| !self.ftl.media.is_being_copied()) else {
            return Err(FlashError::Misuse("only an image can be copied, and once at a time"));
        };
        to.set_len(self.image_bytes()).map_err(FlashError::Memory)?;
        let blocks = (0..self.ftl.geometry.block_count()).map(|_| AtomicU8::new(COPIED)).collect();
        Ok(Arc::new(Snapshot {
            from,
            to,
            pages: self.pages_range(),
            block_bytes: self.ftl.geometry.block_bytes(),
            blocks,
            pieces: Mutex::default(),
            failed: AtomicBool::new(false),
        }))
    }

    /// Who may open the image: owner, mode and ACL of its file.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] for a device without an image; what the file says.
    pub fn access(&self) -> Result<Access, FlashError> {
        let in_memory = FlashError::Misuse("a device in memory has no image file, and so no access rights");
        Ok(self.image_file().ok_or(in_memory)?.access()?)
    }

    /// The instant: what the image is now, it will be in the copy. Until [`end_snapshot`](Self::end_snapshot), blocks are
    /// copied before they are erased.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin_snapshot(&mut self, snapshot: &Arc<Snapshot>) -> Result<(), FlashError> {
        snapshot.copy_protected().map_err(FlashError::Memory)?;
        for id in (0..self.ftl.geometry.block_count()).map(BlockId) {
            let block = self.ftl.blocks.get(id);
            let state = if block.written > 0 { TO_COPY } else { COPIED };
            snapshot.blocks[id.0 as usize].store(state, Ordering::Release);
        }
        self.ftl.media.set_copying(Some(Arc::clone(snapshot)));
        Ok(())
    }

    /// Ends the copy: blocks are erased as ever.
    pub fn end_snapshot(&mut self) {
        self.ftl.media.set_copying(None);
    }
}
