//! Piggybacked payloads bound to their write by queue order (BandSlim, command layout in `byway_spec::vendor`).
//!
//! The write command opens an assembly on its submission queue and completes at once; transfer commands add bytes
//! in order, and the one that brings the last byte carries the store's status. A queue has one assembly: a new
//! write drops an unfinished one, whose store was never acknowledged.

use byway_spec::Key;
use byway_spec::Status;

use crate::error::CommandError;

/// Room a queue keeps from one value to the next.
const KEPT_BYTES: usize = 64 << 10;

/// One value on its way into a queue.
#[derive(Debug, Default)]
pub struct Assembly {
    target: Option<Target>,
    bytes: Vec<u8>,
}

/// Where an assembled value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Namespace of the write command.
    pub nsid: u32,
    /// Key of the write command.
    pub key: Key,
    /// Length of the whole value in bytes.
    pub len_bytes: usize,
}

impl Assembly {
    /// Opens an assembly whose first bytes are `first`. Returns whether the value is already whole.
    pub fn open(&mut self, target: Target, first: &[u8]) -> bool {
        self.clear();
        self.target = Some(target);
        self.bytes.extend_from_slice(first);
        self.bytes.len() >= target.len_bytes
    }

    /// The buffer of an assembly just opened, for a caller that brings the first bytes by DMA.
    pub fn extend_by(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.resize(start + bytes, 0);
        &mut self.bytes[start..]
    }

    /// Adds the next fragment, of which the value may need only a part. Returns whether the value is whole.
    pub fn add(&mut self, nsid: u32, fragment: &[u8]) -> Result<bool, CommandError> {
        let target = self.target.ok_or(NO_WRITE)?;
        if target.nsid != nsid {
            return Err(CommandError::new(
                Status::COMMAND_SEQUENCE_ERROR,
                "fragment of another namespace's write",
            ));
        }
        let wanted = fragment.len().min(target.len_bytes - self.bytes.len());
        self.bytes.extend_from_slice(&fragment[..wanted]);
        Ok(self.bytes.len() == target.len_bytes)
    }

    /// Closes the assembly and gives what it held.
    pub fn close(&mut self) -> Option<(Target, &[u8])> {
        self.target.take().map(|target| (target, self.bytes.as_slice()))
    }

    /// Forgets what it holds, and gives back the room of a large value.
    #[inline]
    pub fn clear(&mut self) {
        if self.target.is_some() || !self.bytes.is_empty() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.target = None;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

const NO_WRITE: CommandError = CommandError::new(
    Status::COMMAND_SEQUENCE_ERROR,
    "a fragment came with no unfinished write on its queue",
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn target(len_bytes: usize) -> Target {
        Target { nsid: 1, key: Key::new(b"k").unwrap(), len_bytes }
    }

    #[test]
    fn a_fragment_without_a_write_is_a_sequence_error() {
        let error = Assembly::default().add(1, &[0; 56]).unwrap_err();
        assert_eq!(error.status, Status::COMMAND_SEQUENCE_ERROR);
    }

    #[test]
    fn fragments_join_in_order_and_padding_is_dropped() {
        let mut assembly = Assembly::default();
        assert!(!assembly.open(target(100), &[1; 35]));
        assert!(!assembly.add(1, &[2; 56]).unwrap());
        assert!(assembly.add(1, &[3; 56]).unwrap());
        let (_, bytes) = assembly.close().unwrap();
        assert_eq!(bytes.len(), 100);
        assert_eq!(&bytes[91..], &[3; 9]);
    }

    #[test]
    fn a_new_write_drops_an_unfinished_one() {
        let mut assembly = Assembly::default();
        assembly.open(target(100), &[1; 35]);
        assert!(assembly.open(target(10), &[9; 10]));
        assert_eq!(assembly.close().unwrap().1, &[9; 10]);
        assert!(assembly.close().is_none());
    }
}
