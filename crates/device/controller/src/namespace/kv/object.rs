//! Values as objects of queries: read in parts, each with where the value stood.

use byway_flash::Flash;
use byway_kv::Key;

use super::{KvNamespace, NO_SUCH_KEY};
use crate::error::CommandError;
use crate::query::ValueVersion;

impl KvNamespace {
    /// Length of the value of a key in bytes.
    ///
    /// # Errors
    /// Key Does Not Exist; what the flash says.
    pub(crate) fn value_bytes(&mut self, flash: &mut Flash, key: &Key) -> Result<u32, CommandError> {
        self.engine.len_of(flash, key, &mut 0)?.ok_or(NO_SUCH_KEY)
    }

    /// Fills `into` from byte `at` of a value on, as far as it goes, and says which value it is. `at_ps` is the modelled time at
    /// which the read begins, and moves on to where it ends.
    ///
    /// # Errors
    /// As [`value_bytes`](Self::value_bytes).
    pub(crate) fn read_value(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        at: u64,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Result<ValueVersion, CommandError> {
        let seq = self.engine.seq_of(flash, key, at_ps)?.ok_or(NO_SUCH_KEY)?;
        let found = self.engine.find(flash, key, false, at_ps)?.ok_or(NO_SUCH_KEY)?;
        let mut filled = 0;
        let part = at..at.saturating_add(into.len() as u64);
        let put = |piece: &[u8], _: &mut u64| {
            into[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
            Ok::<(), CommandError>(())
        };
        self.engine.read(flash, key, &found, part, put, at_ps)?;
        Ok(ValueVersion { seq, address: found.address(), len_bytes: found.len() })
    }
}
