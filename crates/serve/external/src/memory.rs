//! A pool of command buffers, by size.

use byway_core::{Backend, Buffer, Result};

/// Smallest buffer, in bytes: a page.
const LEAST_BYTES: usize = 4096;

/// Bytes of free buffers, at most.
const KEPT_BYTES: usize = 32 << 20;

/// Free buffers.
#[derive(Default)]
pub struct Shelves {
    /// At `n`, those of 2ⁿ pages.
    by_size: Vec<Vec<Buffer>>,
    kept_bytes: usize,
}

impl Shelves {
    /// A buffer of `bytes`. Its contents may be those of an earlier command.
    pub fn take(&mut self, backend: &impl Backend, bytes: usize) -> Result<Buffer> {
        let size = size_of_class(bytes);
        let kept = self.by_size.get_mut(class_of(size)).and_then(Vec::pop);
        let mut buffer = match kept {
            Some(buffer) => {
                self.kept_bytes -= size;
                buffer
            }
            None => backend.buffer(size)?,
        };
        buffer.set_len(bytes);
        Ok(buffer)
    }

    /// Puts a buffer back, or frees it where enough are kept.
    pub fn put(&mut self, mut buffer: Buffer) {
        // A buffer of another length is not from this pool.
        buffer.set_len(usize::MAX);
        let size = buffer.len();
        if self.kept_bytes + size > KEPT_BYTES || size_of_class(size) != size {
            return;
        }
        let class = class_of(size);
        if class >= self.by_size.len() {
            self.by_size.resize_with(class + 1, Vec::new);
        }
        self.by_size[class].push(buffer);
        self.kept_bytes += size;
    }
}

/// Bytes of the buffer that a command of `bytes` gets.
fn size_of_class(bytes: usize) -> usize {
    bytes.next_power_of_two().max(LEAST_BYTES)
}

fn class_of(size: usize) -> usize {
    (size / LEAST_BYTES).ilog2() as usize
}
