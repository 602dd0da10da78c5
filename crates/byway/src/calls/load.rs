//! Loading many pairs: packed by the host into payloads of one command each (the bulk put of KV-CSD).
//!
//! A put costs a command; of a load, some hundred pairs share one. Pairs are stored in the order they are given, in any
//! order of keys, and each as durably as by a put once its command has completed.

use byway_core::{Buffer, Command, Error, ErrorKind, Key, KvCommand, Payload, Result};
use byway_spec::vendor::{BULK_COUNT_BYTES, BulkPair};

use crate::calls::kv::Kv;

/// Bytes of a payload where the transfer method takes as many: enough that the command does not count, and not more than a
/// processor's cache.
const LOAD_BYTES: usize = 128 * 1024;

/// A load under way. What was added and not [finished](Self::finish) may be stored or not.
#[must_use = "the last pairs are stored when the load is finished"]
pub struct Loader<'a> {
    kv: &'a mut Kv,
    payload: Option<Buffer>,
    room_bytes: usize,
    /// Where the next pair goes.
    at: usize,
    pairs: u32,
    loaded: u64,
}

impl Kv {
    /// Starts a load.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn loader(&mut self) -> Result<Loader<'_>> {
        let room_bytes = self.bulk_bytes().min(LOAD_BYTES);
        let payload = if room_bytes > 0 { Some(self.buffer(room_bytes)?) } else { None };
        Ok(Loader { kv: self, payload, room_bytes, at: BULK_COUNT_BYTES, pairs: 0, loaded: 0 })
    }

    /// Stores many pairs, in any order; how many. Not atomic: on an error, a first part is stored.
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn load<V: AsRef<[u8]>>(&mut self, pairs: impl IntoIterator<Item = (Key, V)>) -> Result<u64> {
        let mut loader = self.loader()?;
        for (key, value) in pairs {
            loader.add(&key, value.as_ref())?;
        }
        loader.finish()
    }
}

impl Loader<'_> {
    /// Adds a pair; a full payload is stored first.
    ///
    /// # Errors
    /// As [`Kv::put`].
    #[inline]
    pub fn add(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let bytes = BulkPair::bytes(key.len(), value.len());
        if self.at + bytes > self.room_bytes {
            self.store()?;
        }
        let at = self.at;
        let place = self.payload.as_mut().and_then(|payload| payload.as_mut_slice().get_mut(at..at + bytes));
        let Some(place) = place else { return self.put(key, value) };
        write_pair(place, key, value, 0);
        self.at += bytes;
        self.pairs += 1;
        Ok(())
    }

    /// Stores what is left; how many pairs were loaded.
    ///
    /// # Errors
    /// As [`Kv::put`].
    pub fn finish(mut self) -> Result<u64> {
        self.store()?;
        Ok(self.loaded)
    }

    /// A pair that fits no payload goes by itself.
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.kv.put(key.as_bytes(), value)?;
        self.loaded += 1;
        Ok(())
    }

    fn store(&mut self) -> Result<()> {
        if self.pairs == 0 {
            return Ok(());
        }
        let lost = || Error::device(ErrorKind::Protocol, "a load whose buffer did not come back");
        let mut payload = self.payload.take().ok_or_else(lost)?;
        payload.as_mut_slice()[..BULK_COUNT_BYTES].copy_from_slice(&self.pairs.to_le_bytes());
        payload.set_len(self.at);
        let nsid = self.kv.nsid();
        let command =
            Command::Kv(KvCommand::BulkStore { nsid, pairs: Payload::Buffer(payload), atomic: false });
        let outcome = self.kv.execute(command).map_err(|error| error.doing("load pairs"))?;
        let mut payload = outcome.buffer.ok_or_else(lost)?;
        payload.set_len(self.room_bytes);
        self.payload = Some(payload);
        self.loaded += u64::from(std::mem::take(&mut self.pairs));
        self.at = BULK_COUNT_BYTES;
        Ok(())
    }
}

/// Writes a pair and its padding.
#[inline]
pub(crate) fn write_pair(into: &mut [u8], key: &Key, value: &[u8], flags: u8) {
    let (head, rest) = into.split_at_mut(size_of::<BulkPair>());
    head[..4].copy_from_slice(&[key.len() as u8, flags, 0, 0]);
    head[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    let (key_place, value_place) = rest.split_at_mut(key.len().next_multiple_of(4));
    let padded = key.padded().iter().chain(&[0; 4]);
    key_place.iter_mut().zip(padded).for_each(|(to, from)| *to = *from);
    let (value_place, padding) = value_place.split_at_mut(value.len());
    value_place.copy_from_slice(value);
    padding.fill(0);
}
