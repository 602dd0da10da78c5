//! Keys that begin alike.
//!
//! The List command of NVMe has a key to begin at and no prefix, so the host ends the list: keys are ordered bytewise, and
//! those with a prefix are adjacent, from the prefix on.

use byway_core::{Key, Result};

use crate::calls::kv::{Keys, Kv};

/// Keys of a namespace that begin with a prefix, in order.
pub struct PrefixKeys<'a> {
    keys: Keys<'a>,
    prefix: Option<Key>,
    has_ended: bool,
}

impl Kv {
    /// The keys that begin with `prefix` (all, if it is empty) in order, from `start` on where one is given. A page of keys
    /// that was asked for may reach beyond the last of them; no further one is.
    ///
    /// # Errors
    /// A prefix that is longer than a key can be.
    pub fn keys_with_prefix(&mut self, prefix: &[u8], start: Option<Key>) -> Result<PrefixKeys<'_>> {
        let prefix = if prefix.is_empty() { None } else { Some(Key::new(prefix)?) };
        Ok(PrefixKeys { keys: self.keys(prefix.max(start)), prefix, has_ended: false })
    }
}

impl Iterator for PrefixKeys<'_> {
    type Item = Result<Key>;

    fn next(&mut self) -> Option<Result<Key>> {
        if self.has_ended {
            return None;
        }
        let next = self.keys.next();
        let is_beyond =
            |key: &Key| self.prefix.is_some_and(|prefix| !key.as_bytes().starts_with(prefix.as_bytes()));
        self.has_ended = match &next {
            Some(Ok(key)) => is_beyond(key),
            _ => true,
        };
        next.filter(|next| !next.as_ref().is_ok_and(is_beyond))
    }
}
