//! A short result that stands in the completion queue behind its completion (decision 0095).

use byway_queue::ResultPermit;
use byway_spec::vendor::RESULT_ENTRY_BYTES;

/// The result of the command at hand, if it is to stand behind its completion.
#[derive(Debug, Default)]
pub struct InlineResult {
    bytes: Vec<u8>,
    /// Longest result that does; 0 if none may.
    limit_bytes: usize,
}

impl InlineResult {
    /// Results of up to so many bytes stand behind the completion of the next command.
    #[inline]
    pub fn open(&mut self, limit_bytes: usize) {
        self.bytes.clear();
        self.limit_bytes = limit_bytes;
    }

    /// No result does.
    #[inline]
    pub fn close(&mut self) {
        self.open(0);
    }

    /// Empty room for a result of `bytes`, if one of that length is to stand behind the completion.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        // A command that is executed anew begins anew.
        self.bytes.clear();
        (1..=self.limit_bytes).contains(&bytes).then_some(&mut self.bytes)
    }

    /// Bytes of the result so far.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the memory with the result out. It is to be [given back](Self::reuse).
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes memory back for the next result.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        self.close();
    }
}

/// A result behind a completion that waits for its modelled time.
#[derive(Debug)]
pub struct KeptResult {
    pub permit: ResultPermit,
    pub bytes: Box<[u8]>,
}

/// Most bytes of a result in so many entries.
#[inline]
pub const fn bytes_in(entries: u32) -> usize {
    entries as usize * RESULT_ENTRY_BYTES
}
