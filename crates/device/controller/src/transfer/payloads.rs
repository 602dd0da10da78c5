//! Unfinished payloads of the pass-through form: fragments name their payload, over any queue and in any order.
//!
//! The table is bounded. A payload without a new fragment for [`STALE_COMMANDS`] commands is dropped when room is needed:
//! its writer may be gone, as a process can die between two pass-through calls. A late writer finds its payload unknown,
//! not another's in its place: identifiers of dropped payloads are not reused for long.

use std::collections::VecDeque;

use byway_spec::Key;
use byway_spec::Status;
use byway_spec::vendor;

use super::assembly::Target;
use crate::error::CommandError;

/// Unfinished payloads a controller holds at most; announced in the vendor area.
pub const MAX_UNFINISHED: usize = 64;

/// A payload untouched for this many fragment commands may be dropped for a new one.
pub const STALE_COMMANDS: u64 = 1024;

/// Identifiers of dropped payloads that are not reused.
const DROPPED_KEPT: usize = 4096;

const FRAGMENT_BYTES: usize = vendor::TRANSFER_PT_BYTES;

/// The table of unfinished payloads.
#[derive(Debug, Default)]
pub struct PayloadTable {
    /// At most [`MAX_UNFINISHED`], in no order.
    unfinished: Vec<Payload>,
    /// Counts commands.
    clock: u64,
    next_id: u16,
    /// Identifiers of dropped payloads, the oldest first.
    dropped: VecDeque<u16>,
}

#[derive(Debug)]
struct Payload {
    id: u16,
    target: Target,
    bytes: Vec<u8>,
    first_bytes: usize,
    arrived: Vec<bool>,
    missing: usize,
    touched: u64,
}

impl PayloadTable {
    /// Opens a payload whose first bytes came with the write command. Returns its id.
    pub fn open(&mut self, nsid: u32, key: Key, len_bytes: usize, first: &[u8]) -> Result<u16, CommandError> {
        self.clock += 1;
        self.make_room()?;
        let id = self.unused_id();
        let fragments = (len_bytes - first.len()).div_ceil(FRAGMENT_BYTES);
        let mut bytes = vec![0; len_bytes];
        bytes[..first.len()].copy_from_slice(first);
        let target = Target { nsid, key, len_bytes };
        let arrived = vec![false; fragments];
        self.unfinished.push(Payload {
            id,
            target,
            bytes,
            first_bytes: first.len(),
            arrived,
            missing: fragments,
            touched: self.clock,
        });
        Ok(id)
    }

    /// Adds the fragment `index` fragments behind the write's own bytes. Returns the whole payload
    /// once nothing is missing. A fragment that comes twice is refused.
    pub fn add(
        &mut self,
        nsid: u32,
        id: u16,
        index: u16,
        fragment: &[u8],
    ) -> Result<Option<(Target, Vec<u8>)>, CommandError> {
        self.clock += 1;
        let is_it = |payload: &Payload| payload.id == id && payload.target.nsid == nsid;
        let at = self.unfinished.iter().position(is_it).ok_or(UNKNOWN)?;
        let payload = self.unfinished.get_mut(at).ok_or(UNKNOWN)?;
        payload.touched = self.clock;
        payload.place(usize::from(index), fragment)?;
        if payload.missing > 0 {
            return Ok(None);
        }
        let whole = self.unfinished.swap_remove(at);
        Ok(Some((whole.target, whole.bytes)))
    }

    /// Drops everything: controller reset.
    pub fn clear(&mut self) {
        self.unfinished.clear();
        self.dropped.clear();
    }

    /// An identifier that no unfinished payload has: one may have been abandoned 65536 payloads ago.
    fn unused_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            let is_taken = self.unfinished.iter().any(|payload| payload.id == self.next_id);
            if !is_taken && !self.dropped.contains(&self.next_id) {
                return self.next_id;
            }
        }
    }

    /// Drops the oldest payload if the table is full.
    fn make_room(&mut self) -> Result<(), CommandError> {
        if self.unfinished.len() < MAX_UNFINISHED {
            return Ok(());
        }
        let oldest = (0..self.unfinished.len()).min_by_key(|at| self.unfinished[*at].touched);
        let is_stale = |at: &usize| self.clock - self.unfinished[*at].touched > STALE_COMMANDS;
        let oldest = oldest.filter(is_stale).ok_or(TOO_MANY)?;
        let dropped = self.unfinished.swap_remove(oldest);
        if self.dropped.len() == DROPPED_KEPT {
            self.dropped.pop_front();
        }
        self.dropped.push_back(dropped.id);
        Ok(())
    }
}

impl Payload {
    fn place(&mut self, index: usize, fragment: &[u8]) -> Result<(), CommandError> {
        let seen = self.arrived.get_mut(index).ok_or(OUT_OF_PLACE)?;
        if std::mem::replace(seen, true) {
            return Err(OUT_OF_PLACE);
        }
        let start = self.first_bytes + index * FRAGMENT_BYTES;
        let wanted = fragment.len().min(self.target.len_bytes - start);
        self.bytes[start..start + wanted].copy_from_slice(&fragment[..wanted]);
        self.missing -= 1;
        Ok(())
    }
}

const TOO_MANY: CommandError =
    CommandError::new(Status::PAYLOAD_LIMIT_EXCEEDED, "too many unfinished payloads");
const UNKNOWN: CommandError = CommandError::new(Status::PAYLOAD_UNKNOWN, "no unfinished payload has this id");
const OUT_OF_PLACE: CommandError =
    CommandError::new(Status::PAYLOAD_FRAGMENT_INVALID, "fragment came twice or lies past the payload's end");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> Key {
        Key::new(b"key").unwrap()
    }

    #[test]
    fn fragments_come_in_any_order() {
        let mut table = PayloadTable::default();
        let id = table.open(1, key(), 60, &[1; 11]).unwrap();
        assert!(table.add(1, id, 1, &[3; 28]).unwrap().is_none());
        let (target, bytes) = table.add(1, id, 0, &[2; 28]).unwrap().unwrap();
        assert_eq!(target.len_bytes, 60);
        assert_eq!(bytes[..11], [1; 11]);
        assert_eq!(bytes[11..39], [2; 28]);
        assert_eq!(bytes[39..], [3; 21]);
    }

    #[test]
    fn a_fragment_past_the_end_or_twice_is_refused() {
        let mut table = PayloadTable::default();
        let id = table.open(1, key(), 100, &[1; 11]).unwrap();
        assert!(table.add(1, id, 9, &[0; 28]).is_err());
        table.add(1, id, 0, &[0; 28]).unwrap();
        assert!(table.add(1, id, 0, &[0; 28]).is_err());
    }

    #[test]
    fn another_namespace_cannot_add_to_a_payload() {
        let mut table = PayloadTable::default();
        let id = table.open(1, key(), 100, &[1; 11]).unwrap();
        assert_eq!(table.add(2, id, 0, &[0; 28]).unwrap_err().status, Status::PAYLOAD_UNKNOWN);
    }

    #[test]
    fn unfinished_payloads_are_bounded_and_stale_ones_dropped() {
        let mut table = PayloadTable::default();
        let first = table.open(1, key(), 100, &[1; 11]).unwrap();
        for _ in 1..MAX_UNFINISHED {
            table.open(1, key(), 100, &[1; 11]).unwrap();
        }
        let refused = table.open(1, key(), 100, &[1; 11]).unwrap_err();
        assert_eq!(refused.status, Status::PAYLOAD_LIMIT_EXCEEDED);
        table.clock += STALE_COMMANDS;
        table.open(1, key(), 100, &[1; 11]).unwrap();
        assert_eq!(table.add(1, first, 0, &[0; 28]).unwrap_err().status, Status::PAYLOAD_UNKNOWN);
    }

    #[test]
    fn identifier_of_a_dropped_payload_is_not_reused() {
        let mut table = PayloadTable::default();
        let late = table.open(1, key(), 100, &[1; 11]).unwrap();
        for _ in 1..MAX_UNFINISHED {
            table.open(1, key(), 100, &[1; 11]).unwrap();
        }
        table.clock += STALE_COMMANDS;
        for _ in 0..=u16::MAX {
            let id = table.open(1, key(), 39, &[1; 11]).unwrap();
            assert_ne!(id, late);
            table.add(1, id, 0, &[2; 28]).unwrap().unwrap();
        }
        assert_eq!(table.add(1, late, 0, &[0; 28]).unwrap_err().status, Status::PAYLOAD_UNKNOWN);
    }
}
