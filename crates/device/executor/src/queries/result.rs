//! Bytes of a result between the thread that makes them and the host that takes them.

/// Bytes in order.
#[derive(Debug, Default)]
pub(super) struct ResultBytes {
    bytes: Vec<u8>,
    /// Bytes in front that were taken.
    taken: usize,
}

impl ResultBytes {
    /// Bytes that are there.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Adds bytes behind the others.
    pub fn add(&mut self, more: &[u8]) {
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..std::mem::take(&mut self.taken));
        }
        self.bytes.extend_from_slice(more);
    }

    /// A copy of the first bytes, at most `max_bytes`.
    pub fn peek(&self, max_bytes: usize) -> Vec<u8> {
        let there = &self.bytes[self.taken..];
        there[..max_bytes.min(there.len())].to_vec()
    }

    /// Takes the first `bytes`, or all.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes.min(self.len());
        if self.len() == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let (mut bytes, mut out) = (ResultBytes::default(), Vec::new());
        for round in 0..50_u8 {
            bytes.add(&[round; 7]);
            let piece = bytes.peek(usize::from(round % 11));
            bytes.take(piece.len());
            out.extend(piece);
        }
        out.extend(bytes.peek(usize::MAX));
        let expected: Vec<u8> = (0..50).flat_map(|round| [round; 7]).collect();
        assert_eq!(out, expected);
    }
}
