//! Inline reads: a short result behind its completion, in the completion queue.
//!
//! A command asks for it and names a buffer all the same, where the device writes a result that is too long or finds no room. The
//! driver copies what stands in the queue to that buffer: from there on it makes no difference which way a result came.

use byway_core::{Error, ErrorKind, Result};
use byway_spec::vendor::{
    INLINE_RESULT, inline_result_bytes, inline_result_max_bytes, result_buffer_bytes, result_bytes,
    result_entries, set_inline_result_max_bytes,
};
use byway_spec::{Command as Entry, Completion};

use crate::bus::Bus;
use crate::queue_pair::Queue;
use crate::table::{InlineRoom, OpIndex};

impl<B: Bus> Queue<B> {
    /// Whether the queue is set so that results may stand behind their completions.
    #[inline]
    pub(crate) fn asks_inline(&self) -> bool {
        self.inline_read_max_bytes > 0
    }

    /// Lets the result of a Retrieve, a List, a Query Results or an Exec stand behind its completion, if the queue is set so.
    #[inline]
    pub(crate) fn ask_inline(&self, entry: &mut Entry) {
        if self.asks_inline() {
            set_inline_result_max_bytes(entry, self.inline_read_max_bytes);
        }
    }

    /// Notes whether the result of a command may stand behind its completion, as this queue or the program asked.
    #[inline(always)]
    pub(crate) fn note_inline(&mut self, op: OpIndex, entry: &Entry) {
        let asked_bytes = inline_result_max_bytes(entry);
        if asked_bytes > 0 && self.limits().inline_read_max_bytes > 0 {
            self.table.op(op).inline_room =
                InlineRoom { buffer_bytes: result_buffer_bytes(entry), asked_bytes: asked_bytes as u16 };
        }
    }

    /// Copies the result behind a completion to the memory that its command names, and takes the mark of it off the completion.
    /// The entries that it has; `None` if not all of them are there yet.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] where the device says what cannot be. Then the boundary between completions and results is lost: the
    /// completion stays where it is, every later call fails in the same way, and the queue must be opened anew.
    #[inline(never)]
    pub(crate) fn receive_result(&mut self, completion: &mut Completion) -> Result<Option<u32>> {
        let Some(op) = self.table.op_of(completion.cid) else { return Ok(Some(0)) };
        let InlineRoom { buffer_bytes, asked_bytes } = self.table.op(op).inline_room;
        // DW1 of a command that did not ask means something else.
        let Some(len) = inline_result_bytes(completion, buffer_bytes).filter(|_| asked_bytes > 0) else {
            return Ok(Some(0));
        };
        let entries = result_entries(len) as u32;
        let most_bytes = self.limits().inline_read_max_bytes.min(asked_bytes.into());
        if len as u64 > most_bytes || entries + 2 > self.ring_entries() {
            return Err(too_long(len));
        }
        let mut copied = 0;
        for distance in 1..=entries {
            let Some(entry) = self.rings.peek_behind(distance) else { return Ok(None) };
            let bytes = result_bytes(&entry).ok_or_else(not_a_result)?;
            let part = bytes.get(..bytes.len().min(len - copied)).unwrap_or_default();
            self.fill_buffer(op, copied, part).ok_or_else(no_buffer)?;
            copied += part.len();
        }
        completion.dw1 &= !INLINE_RESULT;
        Ok(Some(entries))
    }

    /// Copies bytes to the memory that an operation's command names, from byte `at` on, as the device would; `None` if it has none there.
    fn fill_buffer(&mut self, op: OpIndex, at: usize, from: &[u8]) -> Option<()> {
        let state = self.table.op(op);
        if let Some(page) = state.bounce() {
            return self.bounce.fill_from(page, at, from);
        }
        let into = state.held.as_mut()?.as_mut_slice().get_mut(at..at + from.len())?;
        into.copy_from_slice(from);
        Some(())
    }
}

#[cold]
fn too_long(len: usize) -> Error {
    let said = format!("a completion announces {len} bytes behind it, more than its command asked for");
    Error::device(ErrorKind::Protocol, said)
}

#[cold]
fn no_buffer() -> Error {
    Error::device(ErrorKind::Protocol, "a completion announces a result for which its command has no buffer")
}

#[cold]
fn not_a_result() -> Error {
    Error::device(ErrorKind::Protocol, "a completion stands where the device announced a part of a result")
}
