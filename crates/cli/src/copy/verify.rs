//! Sums of what was copied, and reading it back.

use std::hash::{DefaultHasher, Hasher};

use anyhow::Result;
use byway_console::failure::No;
use parking_lot::Mutex;

use super::Shared;
use super::place::Blocks;
use super::plan::How;
use super::reader::Reader;

/// 64-bit checksums of each piece; `None` without verification.
pub struct Sums {
    piece_bytes: u64,
    pieces: Option<Mutex<Vec<u64>>>,
}

impl Sums {
    /// Room for the sums of a copy.
    pub fn new(wanted: bool, piece_bytes: u64, total: Option<u64>) -> Self {
        let count = total.unwrap_or(0).div_ceil(piece_bytes.max(1)) as usize;
        Self { piece_bytes, pieces: wanted.then(|| Mutex::new(vec![0; count])) }
    }

    /// Keeps the sum of the piece that begins at a byte.
    pub fn keep(&self, at: u64, bytes: &[u8]) {
        let Some(pieces) = &self.pieces else { return };
        let sum = sum_of(bytes);
        let index = (at / self.piece_bytes) as usize;
        let mut pieces = pieces.lock();
        if pieces.len() <= index {
            pieces.resize(index + 1, 0);
        }
        if let Some(place) = pieces.get_mut(index) {
            *place = sum;
        }
    }

    /// Looks whether a piece is as it was.
    ///
    /// # Errors
    /// [`No`] where it is not.
    pub fn check(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let Some(pieces) = &self.pieces else { return Ok(()) };
        let index = (at / self.piece_bytes) as usize;
        let pieces = pieces.lock();
        if pieces.get(index) == Some(&sum_of(bytes)) {
            return Ok(());
        }
        let end = at + bytes.len() as u64;
        Err(No(format!("what was read back differs between byte {at} and byte {end} of the copy")).into())
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Reads the first `bytes` of a copy back, and looks whether they are what was written.
///
/// # Errors
/// What the device says; [`No`] for a difference.
pub fn read_back(how: &How, to: &mut Blocks, bytes: u64, sums: &Sums, shared: &Shared<'_>) -> Result<()> {
    // The last piece may end off a block: it is read as it was summed, as a whole.
    let whole = bytes / how.piece_bytes * how.piece_bytes;
    Reader::new(to, how, 0..whole)?.each(shared, |at, piece| {
        shared.add(piece.len() as u64);
        sums.check(at, piece)
    })?;
    if shared.is_over() || whole == bytes {
        return Ok(());
    }
    let mut rest = vec![0; (bytes - whole) as usize];
    to.read_any(whole, &mut rest)?;
    sums.check(whole, &rest)
}
