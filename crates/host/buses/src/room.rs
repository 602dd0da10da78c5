//! Room for pages that are lent and come back: in a file, or among bus addresses.

use std::collections::BTreeMap;

/// What is free of one stretch, by offsets: what is free beside each other is one piece.
#[derive(Debug, Default)]
pub(crate) struct Room {
    free: BTreeMap<u64, u64>,
}

impl Room {
    /// All of `bytes` free.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { free: BTreeMap::from([(0, bytes)]) }
    }

    /// Whether a piece is long enough.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.free.values().any(|len| *len >= bytes)
    }

    /// Takes the first piece that is long enough, or a part of it.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &len) = self.free.iter().find(|(_, len)| **len >= bytes)?;
        self.free.remove(&at);
        if len > bytes {
            self.free.insert(at + bytes, len - bytes);
        }
        Some(at)
    }

    /// Gives a piece back that was taken.
    pub(crate) fn give_back(&mut self, at: u64, bytes: u64) {
        let (mut at, mut bytes) = (at, bytes);
        if let Some((&before, &len)) = self.free.range(..at).next_back()
            && before + len == at
        {
            self.free.remove(&before);
            (at, bytes) = (before, bytes + len);
        }
        if let Some(len) = self.free.remove(&(at + bytes)) {
            bytes += len;
        }
        self.free.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returned_in_any_order_is_merged() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
            let mut room = Room::new(12);
            let taken = [(0, 3), (3, 4), (7, 5)];
            for (at, bytes) in taken {
                assert_eq!(room.take(bytes), Some(at));
            }
            assert_eq!(room.take(1), None);
            for index in order {
                room.give_back(taken[index].0, taken[index].1);
            }
            assert_eq!(room.take(12), Some(0));
        }
    }

    #[test]
    fn the_first_piece_that_is_long_enough_is_taken() {
        let mut room = Room::new(10);
        assert_eq!((room.take(2), room.take(3), room.take(5)), (Some(0), Some(2), Some(5)));
        room.give_back(0, 2);
        room.give_back(5, 5);
        assert_eq!((room.take(3), room.take(2), room.take(2)), (Some(5), Some(0), Some(8)));
    }
}
