//! Values as objects of queries: read in parts, each with where the value stood.

use byway_flash::Flash;
use byway_kv::Key;

use super::{KvNamespace, NO_SUCH_KEY};
use crate::error::CommandError;
use crate::query::{COPIED_MAX_BYTES, QueryObject, ValueVersion};

impl KvNamespace {
    /// The value of `key` as an object of a query: copied if it is short. `at_ps` is the modelled time at which that begins, and
    /// moves on to where it ends.
    ///
    /// # Errors
    /// There is no such key; what the flash says.
    pub(crate) fn query_object(
        &mut self,
        flash: &mut Flash,
        nsid: u32,
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<QueryObject, CommandError> {
        let found = self.engine.find(flash, key, false, at_ps)?.ok_or(NO_SUCH_KEY)?;
        let len_bytes = found.len();
        if len_bytes > COPIED_MAX_BYTES {
            return Ok(QueryObject::Value { nsid, key: *key, len_bytes });
        }
        let mut value = Vec::with_capacity(len_bytes as usize);
        let put = |piece: &[u8], _: &mut u64| {
            value.extend_from_slice(piece);
            Ok::<(), CommandError>(())
        };
        self.engine.read(flash, key, &found, 0..len_bytes.into(), put, at_ps)?;
        Ok(QueryObject::Copied(value))
    }

    /// Fills `into` from byte `at` of a value on, as far as it goes, and says which value it is. `known` is the value of which a part before
    /// was read: of that one, each page of flash is read once. `at_ps` is the modelled time at which the read begins, and moves on to
    /// where it ends.
    ///
    /// # Errors
    /// As [`query_object`](Self::query_object).
    pub(crate) fn read_value(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        known: Option<&ValueVersion>,
        at: u64,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<ValueVersion, CommandError> {
        let (seq, found) = self.engine.find_version(flash, key, at_ps)?.ok_or(NO_SUCH_KEY)?;
        let pages = self.engine.pages_of(&found);
        let version = ValueVersion { seq, address: found.address(), len_bytes: found.len(), pages };
        let mut filled = 0;
        let part = at..at.saturating_add(into.len() as u64);
        let put = |piece: &[u8], _: &mut u64| {
            into[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
            Ok::<(), CommandError>(())
        };
        match known {
            Some(known) if at > 0 && *known == version => {
                self.engine.read_next_part(flash, key, &found, part, put, at_ps)?;
            }
            _ => self.engine.read(flash, key, &found, part, put, at_ps)?,
        }
        Ok(version)
    }
}
