//! Keys that begin alike.

use byway_core::{Key, Result};

use crate::calls::kv::Kv;
use crate::calls::range::{KeyRange, ScanOptions};
use crate::calls::scan::Scan;

/// Keys of a namespace that begin with a prefix, in order.
pub struct PrefixKeys<'a>(Scan<'a>);

impl Kv {
    /// The keys that begin with `prefix` (all, if it is empty) in order, from `start` on where one is given.
    ///
    /// # Errors
    /// A prefix that is longer than a key can be.
    pub fn keys_with_prefix(&mut self, prefix: &[u8], start: Option<Key>) -> Result<PrefixKeys<'_>> {
        let range = KeyRange::prefix(prefix)?.from(start);
        Ok(PrefixKeys(self.scan_with(range, ScanOptions::default().keys_only(true))))
    }
}

impl Iterator for PrefixKeys<'_> {
    type Item = Result<Key>;

    fn next(&mut self) -> Option<Result<Key>> {
        self.0.next().map(|pair| pair.map(|(key, _)| key))
    }
}
