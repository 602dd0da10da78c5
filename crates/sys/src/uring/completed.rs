//! Operations that the kernel is done with.

use std::io;

/// An operation that the kernel is done with.
#[derive(Debug)]
pub struct Completed<H, T> {
    /// Memory of the operation.
    pub held: H,
    /// The caller's word for it.
    pub ticket: T,
    /// How it ended.
    pub ending: Ending,
    /// The completion's second result: an NVMe device's own result.
    pub answer: u64,
}

/// How an operation ended.
#[derive(Debug)]
pub enum Ending {
    /// It was done; of a transfer, so many bytes. They are fewer than there is memory only at the end of the file.
    Done(usize),
    /// The kernel refused it, or the device failed.
    Failed(io::Error),
    /// It was given up, as asked.
    Cancelled,
    /// It was given up when its time was over.
    TimedOut,
}
