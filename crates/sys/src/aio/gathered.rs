//! Operations that were pushed and not yet submitted, as `io_submit` takes them.

use std::io;
use std::ptr::NonNull;

use super::context::{Block, Context};

/// Operations that wait for the next system call, oldest first.
pub(super) struct Gathered {
    /// Their places.
    places: Vec<u32>,
    /// The addresses of their blocks: what the kernel is handed.
    blocks: Vec<usize>,
}

impl Gathered {
    pub(super) fn new(depth: u32) -> Self {
        Self { places: Vec::with_capacity(depth as usize), blocks: Vec::with_capacity(depth as usize) }
    }

    /// Takes the operation in this place, with its control block.
    #[inline(always)]
    pub(super) fn push(&mut self, place: u32, block: NonNull<Block>) {
        self.places.push(place);
        self.blocks.push(block.as_ptr().expose_provenance());
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes back the first operation of which `is` says that it is the one; says in which place it is.
    pub(super) fn remove_first(&mut self, is: impl Fn(&u32) -> bool) -> Option<u32> {
        let at = self.places.iter().position(is)?;
        self.blocks.remove(at);
        Some(self.places.remove(at))
    }

    /// Has the kernel begin them; says how many it began, the first ones.
    ///
    /// # Safety
    /// The blocks and the memory that they name are valid, and stay in place until the kernel is done with them.
    pub(super) unsafe fn submit(&mut self, context: &Context) -> io::Result<usize> {
        let count = self.blocks.len();
        // SAFETY: an array of `count` addresses of blocks; for those the caller answers.
        let begun = unsafe { libc::syscall(libc::SYS_io_submit, context.word, count, self.blocks.as_ptr()) };
        let begun = usize::try_from(begun).map_err(|_| io::Error::last_os_error())?.min(count);
        if begun == count {
            self.places.clear();
            self.blocks.clear();
        } else {
            self.places.drain(..begun);
            self.blocks.drain(..begun);
        }
        Ok(begun)
    }
}
