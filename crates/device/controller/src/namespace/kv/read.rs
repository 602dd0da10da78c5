//! Retrieve and List: from the engine to the host's buffer.

use byway_spec::Command;
use byway_spec::Key;
use byway_spec::kv::{LIST_ENTRY_HEADER_BYTES, LIST_HEADER_BYTES, list_entry_bytes};

use super::command::StartKey;
use super::{KvNamespace, NO_SUCH_KEY};
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::media::{midway, timed};
use crate::namespace::{Execution, Outcome};

impl KvNamespace {
    /// Brings as much of the value as the buffer takes. DW0 is the length of the whole value.
    pub(super) fn retrieve(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        key: &Key,
        buffer_bytes: usize,
    ) -> Result<Outcome, CommandError> {
        let Execution { flash, port, room, whole_pages, .. } = execution;
        let found = timed(port, |now_ps| self.engine.find(*flash, key, room.is_prefetched, now_ps))?;
        let found = found.ok_or(NO_SUCH_KEY)?;
        let value_bytes = found.len() as usize;
        let moved = value_bytes.min(buffer_bytes);
        if let Some(result) = room.result.take(moved) {
            data_pointer::check_length(buffer_bytes)?;
            let mut now_ps = port.meter.cursor_ps();
            let put = |piece: &[u8], _: &mut u64| {
                result.extend_from_slice(piece);
                Ok::<(), CommandError>(())
            };
            self.engine.read(*flash, key, &found, 0..moved as u64, put, &mut now_ps)?;
            port.meter.advance_to(now_ps);
            return Ok(Outcome::with(value_bytes as u32));
        }
        let data =
            data_pointer::map_buffer(port, &mut room.mapped, command, buffer_bytes, moved, *whole_pages)?;
        let mut sink = data.sink(&mut room.stage)?;
        let mut now_ps = port.meter.cursor_ps();
        let put = |piece: &[u8], at_ps: &mut u64| midway(port, at_ps, |port| sink.put(port, piece));
        self.engine.read(*flash, key, &found, 0..moved as u64, put, &mut now_ps)?;
        port.meter.advance_to(now_ps);
        sink.finish(port)?;
        Ok(Outcome::with(value_bytes as u32))
    }

    /// Lists as many whole keys as the buffer takes, from `start` on, in the order of their bytes. DW0 is the length of a list that
    /// stands behind its completion.
    pub(super) fn list(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        start: StartKey,
        buffer_bytes: usize,
    ) -> Result<Outcome, CommandError> {
        if buffer_bytes < LIST_HEADER_BYTES {
            return Err(CommandError::invalid_field("the list buffer has no room for the number of keys"));
        }
        // Before keys are gathered: the host must not choose how much memory that takes.
        data_pointer::check_length(buffer_bytes)?;
        let Execution { flash, port, room, whole_pages, .. } = execution;
        let mut list = KeyList::new(&mut room.bytes, buffer_bytes);
        let start = start.as_ref().map_or(&[][..], Key::as_bytes);
        timed(port, |now_ps| self.engine.list(*flash, start, |key, _| list.add(key), now_ps))?;
        let list = list.finish();
        if let Some(result) = room.result.take(list.len()) {
            result.extend_from_slice(list);
            return Ok(Outcome::with(list.len() as u32));
        }
        let data = data_pointer::map_buffer(
            port,
            &mut room.mapped,
            command,
            buffer_bytes,
            list.len(),
            *whole_pages,
        )?;
        let mut sink = data.sink(&mut room.stage)?;
        sink.put(port, list)?;
        sink.finish(port)?;
        Ok(Outcome::OK)
    }
}

/// A List buffer being filled: the number of keys, then each key's length and bytes, padded to four.
struct KeyList<'a> {
    bytes: &'a mut Vec<u8>,
    limit_bytes: usize,
    count: u32,
}

impl<'a> KeyList<'a> {
    fn new(bytes: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        bytes.clear();
        bytes.resize(LIST_HEADER_BYTES, 0);
        Self { bytes, limit_bytes, count: 0 }
    }

    /// Adds a key if it fits whole. Returns whether to go on.
    #[inline]
    fn add(&mut self, key: &Key) -> bool {
        let end = self.bytes.len() + list_entry_bytes(key.len());
        if end > self.limit_bytes {
            return false;
        }
        // The longest entry, of which the rest is zero, and then as much of it as is wanted: one copy of known size.
        let mut entry = [0; list_entry_bytes(Key::MAX_BYTES)];
        let (len, bytes) = entry.split_at_mut(LIST_ENTRY_HEADER_BYTES);
        len.copy_from_slice(&(key.len() as u16).to_le_bytes());
        bytes[..Key::MAX_BYTES].copy_from_slice(key.padded());
        self.bytes.extend_from_slice(&entry);
        self.bytes.truncate(end);
        self.count += 1;
        true
    }

    fn finish(self) -> &'a [u8] {
        self.bytes[..LIST_HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_whole_keys_are_listed() {
        let mut bytes = vec![9; 100];
        let mut list = KeyList::new(&mut bytes, 4 + 4 + 8 - 1);
        assert!(list.add(&Key::new(b"ab").unwrap()));
        assert!(!list.add(&Key::new(b"abcde").unwrap()));
        assert_eq!(list.finish(), [1, 0, 0, 0, 2, 0, b'a', b'b']);
    }
}
