//! What is to be sent to one host: bytes in order, and room behind them in which data is made where it is sent from.

use crate::share::{FREE_BYTES, Share};

/// So much is sent before more is executed: its host is not to wait for all that it asked for at once. While the host has not
/// taken it, nothing more is executed either.
const CHUNK_BYTES: usize = 64 << 10;

/// Room that is kept while there is nothing to send: that of 1 MiB of data.
const KEPT_BYTES: usize = 2 << 20;

/// Room that is kept by a connection over which nothing comes.
const IDLE_BYTES: usize = 64 << 10;

/// Bytes to be sent.
///
/// Behind `end` the bytes stay as they were used last, so that room for data is not cleared before it is written.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Of all that connections hold, what large data here is.
    share: Share,
}

impl Outbox {
    /// An empty one.
    pub fn new(share: Share) -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, share }
    }

    /// Whether there may be so much data: a little always, more as far as there is any for it.
    #[inline]
    pub fn admits(&mut self, bytes: usize) -> bool {
        bytes <= FREE_BYTES || self.share.take(bytes)
    }

    /// What is to be sent next.
    pub fn pending(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether it is to be sent before there is more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.end - self.start >= CHUNK_BYTES
    }

    /// Bytes that it has room for.
    pub fn room_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// So much was sent.
    pub fn sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        self.share.keep(self.end - self.start);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.keep(KEPT_BYTES);
        }
    }

    /// Nothing came for a while: room that stands empty is given back.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.keep(IDLE_BYTES);
        }
    }

    fn keep(&mut self, bytes: usize) {
        if self.bytes.len() > bytes {
            self.bytes = Vec::new();
        }
    }

    /// Room behind what is to be sent, which [`Self::commit`] adds to it. What is in it is left over.
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.end + bytes > self.bytes.len() {
            self.make_room(bytes);
        }
        &mut self.bytes[self.end..self.end + bytes]
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let needed = self.end + bytes;
        if needed > self.bytes.len() {
            self.bytes.resize(needed.next_power_of_two().max(4096), 0);
        }
    }

    /// The first `bytes` of the room are to be sent.
    pub fn commit(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.commit(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Shared;

    fn empty() -> Outbox {
        Outbox::new(Shared::new(0).share())
    }

    #[test]
    fn what_was_pushed_comes_out_in_order_whatever_was_sent_between() {
        let mut outbox = empty();
        let (mut pushed, mut sent) = (Vec::new(), Vec::new());
        for round in 0..200u32 {
            let piece = vec![round as u8; (round as usize * 37) % 5000];
            outbox.push(&piece);
            pushed.extend_from_slice(&piece);
            let some = outbox.pending().len().min((round as usize * 91) % 4000);
            sent.extend_from_slice(&outbox.pending()[..some]);
            outbox.sent(some);
        }
        sent.extend_from_slice(outbox.pending());
        assert_eq!(sent, pushed);
    }

    #[test]
    fn room_that_was_not_committed_is_not_sent() {
        let mut outbox = empty();
        outbox.push(b"head");
        outbox.room(100).fill(7);
        outbox.push(b"tail");
        assert_eq!(outbox.pending(), b"headtail");
        outbox.sent(8);
        assert!(outbox.is_empty());
    }
}
