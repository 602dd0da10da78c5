//! Values as objects of queries: read in parts, each with where the value stood.

use byway_flash::Flash;
use byway_kv::Key;

use super::{KvNamespace, NO_SUCH_KEY};
use crate::error::CommandError;
use crate::query::ValuePlace;

impl KvNamespace {
    /// Length of the value of a key in bytes.
    ///
    /// # Errors
    /// Key Does Not Exist; what the flash says.
    pub(crate) fn value_bytes(&mut self, flash: &mut Flash, key: &Key) -> Result<u32, CommandError> {
        self.engine.len_of(flash, key, &mut 0)?.ok_or(NO_SUCH_KEY)
    }

    /// Fills `into` from byte `at` of a value on, as far as it goes, and says where the value stands: at the same place it is the same
    /// value.
    ///
    /// # Errors
    /// As [`value_bytes`](Self::value_bytes).
    pub(crate) fn read_value(
        &mut self,
        flash: &mut Flash,
        key: &Key,
        at: u64,
        into: &mut [u8],
    ) -> Result<ValuePlace, CommandError> {
        let found = self.engine.find(flash, key, false, &mut 0)?.ok_or(NO_SUCH_KEY)?;
        let mut filled = 0;
        let part = at..at.saturating_add(into.len() as u64);
        let put = |piece: &[u8], _: &mut u64| {
            into[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
            Ok::<(), CommandError>(())
        };
        self.engine.read(flash, key, &found, part, put, &mut 0)?;
        Ok(ValuePlace { address: found.address(), len_bytes: found.len() })
    }
}
