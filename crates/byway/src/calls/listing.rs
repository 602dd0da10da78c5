//! Listing the keys of a namespace whose index is damaged: as many as can be listed, and word of each stretch that cannot.

use std::fmt;

use byway_core::{Error, ErrorKind, Result};
use byway_spec::Key;

use crate::calls::kv::{Kv, LIST_BYTES, LIST_MAX_BYTES};

/// Bytes of a list that is asked for where a longer one fails: some keys.
const SHORT_LIST_BYTES: usize = 256;

/// Keys that cannot be listed.
#[derive(Debug)]
pub struct Unlisted {
    /// The last key before them; `None` where they are the first.
    pub after: Option<Key>,
    /// The first key behind them that can be listed; `None` where there is none.
    pub before: Option<Key>,
    /// What the device says.
    pub error: Error,
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.after, self.before) {
            (Some(after), Some(before)) => write!(f, "keys after {after} and before {before}")?,
            (Some(after), None) => write!(f, "keys after {after}")?,
            (None, Some(before)) => write!(f, "keys before {before}")?,
            (None, None) => write!(f, "keys")?,
        }
        write!(f, " cannot be listed: {}", self.error)
    }
}

impl Kv {
    /// The keys in order, as far as the device can list them. A stretch that the device cannot list is skipped and passed to
    /// `miss`.
    ///
    /// # Errors
    /// Those that are not the medium's.
    pub fn listable_keys(&mut self, mut miss: impl FnMut(Unlisted)) -> Result<Vec<Key>> {
        let (mut keys, mut from, mut list_bytes) = (Vec::new(), None, LIST_BYTES);
        loop {
            match self.add_listed(&mut keys, from, list_bytes) {
                Ok(true) => (from, list_bytes) = (keys.last().copied(), (2 * list_bytes).min(LIST_MAX_BYTES)),
                Ok(false) => return Ok(keys),
                Err(error) if error.kind() != ErrorKind::Media => return Err(error),
                Err(_) if list_bytes > SHORT_LIST_BYTES => list_bytes = SHORT_LIST_BYTES,
                Err(error) => {
                    let before = self.listable_behind(from)?;
                    miss(Unlisted { after: keys.last().copied(), before, error });
                    if before.is_none() {
                        return Ok(keys);
                    }
                    from = before;
                }
            }
        }
    }

    /// Appends one list of keys from `from` on; whether there was another key than `from`.
    fn add_listed(&mut self, keys: &mut Vec<Key>, from: Option<Key>, list_bytes: usize) -> Result<bool> {
        let mut page = self.list(from, list_bytes)?;
        let before = keys.len();
        while page.left() > 0 {
            let key = page.next()?;
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        }
        Ok(keys.len() > before)
    }

    /// The first key that can be listed behind one that cannot be listed from: looked for further and further behind, then
    /// between.
    fn listable_behind(&mut self, from: Option<Key>) -> Result<Option<Key>> {
        let (first, mut near) = (from.map_or(0, |key| key.number()), 0);
        for shift in 0..u128::BITS {
            let far = (1 << shift).min(u128::MAX - first);
            if self.can_list(first + far)? {
                return self.first_listable(first, near, far);
            }
            near = far;
        }
        Ok(None)
    }

    /// The first key behind where, between two distances from `first`, listing begins to work: it does at the far one.
    fn first_listable(&mut self, first: u128, mut near: u128, mut far: u128) -> Result<Option<Key>> {
        while far - near > 1 {
            let between = near + (far - near) / 2;
            match self.can_list(first + between)? {
                true => far = between,
                false => near = between,
            }
        }
        let mut page = self.list(Some(key_at(first + far)), SHORT_LIST_BYTES)?;
        if page.left() == 0 { Ok(None) } else { page.next().map(Some) }
    }

    /// Whether keys from one of this number on can be listed, or there are none.
    fn can_list(&mut self, number: u128) -> Result<bool> {
        match self.list(Some(key_at(number)), SHORT_LIST_BYTES) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Media => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The longest key of a number: behind all others of it.
const fn key_at(number: u128) -> Key {
    Key::from_number(number, Key::MAX_BYTES)
}
