//! Send buffer of a connection: pending bytes, and room behind them into which the device writes data.

use crate::share::{FREE_BYTES, Share};

/// Pending bytes from which on they are sent before more is executed, and nothing more is executed until the host takes them.
const CHUNK_BYTES: usize = 64 << 10;

/// Capacity kept while nothing is pending: enough for 1 MiB of data.
const KEPT_BYTES: usize = 2 << 20;

/// Capacity kept by an idle connection.
const IDLE_BYTES: usize = 64 << 10;

/// Pending bytes.
///
/// Bytes behind `end` keep old contents, so that room for data is not zeroed before it is written.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The part of the budget taken by large data here.
    share: Share,
}

impl Outbox {
    /// An empty buffer.
    pub fn new(share: Share) -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, share }
    }

    /// Reserves `bytes` of the budget; up to [`FREE_BYTES`] need none.
    #[inline]
    pub fn admits(&mut self, bytes: usize) -> bool {
        bytes <= FREE_BYTES || self.share.take(bytes)
    }

    /// Gives back what [`admits`](Self::admits) reserved for a command that is not executed.
    #[cold]
    pub fn retract(&mut self, bytes: usize) {
        if bytes > FREE_BYTES {
            self.share.give(bytes);
        }
    }

    /// The bytes to send next.
    pub fn pending(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether to send before executing more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.end - self.start >= CHUNK_BYTES
    }

    /// Capacity in bytes.
    pub fn room_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes `bytes` sent bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        self.share.keep(self.end - self.start);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.keep(KEPT_BYTES);
        }
    }

    /// Frees excess capacity of an idle connection.
    pub fn release_buffers(&mut self) {
        if self.is_empty() {
            self.keep(IDLE_BYTES);
        }
    }

    fn keep(&mut self, bytes: usize) {
        if self.bytes.len() > bytes {
            self.bytes = Vec::new();
        }
    }

    /// Room behind the pending bytes, with old contents; [`Self::commit`] makes it pending.
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

    /// Makes the first `bytes` of the room pending.
    pub fn commit(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.commit(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Budget;

    fn empty() -> Outbox {
        Outbox::new(Budget::new(0).share())
    }

    #[test]
    fn outbox_with_partial_sends_keeps_the_order_of_bytes() {
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
    fn outbox_room_without_commit_is_not_sent() {
        let mut outbox = empty();
        outbox.push(b"head");
        outbox.room(100).fill(7);
        outbox.push(b"tail");
        assert_eq!(outbox.pending(), b"headtail");
        outbox.sent(8);
        assert!(outbox.is_empty());
    }
}
