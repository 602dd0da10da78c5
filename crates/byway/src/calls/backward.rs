//! Keys in descending order on a device that lists them in ascending order alone.
//!
//! A List from a key that is not too far below reaches the upper end within one page. How far that is, is found by doubling
//! and halving the distance, and remembered for the next page.

use byway_core::{Key, Result};
use byway_spec::vendor::KeyRange as Span;

use crate::calls::kv::Kv;

/// Bytes of each List.
const PROBE_BYTES: usize = 16 * 1024;

/// Distance at which the first search of a namespace begins: keys of eight bytes that differ in the last.
pub(crate) const FIRST_DISTANCE: u128 = 1 << 64;

/// What a List from some distance below the upper end shows.
enum Probe {
    /// There is no key between.
    Nothing,
    /// All keys between, in ascending order.
    All(Vec<Key>),
    /// More keys than a page has room for.
    TooMany,
}

/// A search of the keys below the upper end of a range.
struct Search<'a> {
    span: &'a Span,
    upper: Key,
}

impl Kv {
    /// Up to `most` keys of a backward range from its start down, and whether it ends with them.
    pub(crate) fn keys_backward(&mut self, span: &Span, most: usize) -> Result<(Vec<Key>, bool)> {
        let search =
            Search { span, upper: span.start.unwrap_or(Key::from_number(u128::MAX, Key::MAX_BYTES)) };
        let mut keys = search.nearest(self)?;
        let is_end = keys.is_empty();
        keys.reverse();
        keys.truncate(most.max(1));
        Ok((keys, is_end))
    }
}

impl Search<'_> {
    /// The keys nearest to the upper end, in ascending order; none if the range has no more.
    fn nearest(&self, kv: &mut Kv) -> Result<Vec<Key>> {
        let lowest = self.span.bound.map_or(0, |bound| bound.number());
        let farthest = self.upper.number().saturating_sub(lowest);
        let (mut near, mut distance) = (0, kv.distance().min(farthest));
        let mut far = loop {
            match self.probe(kv, distance)? {
                Probe::All(keys) => return Ok(kept(kv, keys, distance)),
                Probe::TooMany => break distance,
                Probe::Nothing if distance == farthest => return Ok(Vec::new()),
                Probe::Nothing => {
                    (near, distance) = (distance, distance.max(1).saturating_mul(16).min(farthest))
                }
            }
        };
        while far - near > 1 {
            let between = near + (far - near) / 2;
            match self.probe(kv, between)? {
                Probe::All(keys) => return Ok(kept(kv, keys, between)),
                Probe::TooMany => far = between,
                Probe::Nothing => near = between,
            }
        }
        self.all_from(kv, far)
    }

    /// Lists once from a distance below.
    fn probe(&self, kv: &mut Kv, distance: u128) -> Result<Probe> {
        let (mut keys, mut from) = (Vec::new(), self.first_at(distance));
        let reached = self.add_page(kv, &mut keys, from)?;
        if let (false, Some(last)) = (reached, keys.last()) {
            // A page that is not full may be the last of the namespace.
            from = *last;
            let before = keys.len();
            if !self.add_page(kv, &mut keys, from)? && keys.len() > before {
                return Ok(Probe::TooMany);
            }
        }
        Ok(if keys.is_empty() { Probe::Nothing } else { Probe::All(keys) })
    }

    /// Every key from a distance below up to the upper end.
    fn all_from(&self, kv: &mut Kv, distance: u128) -> Result<Vec<Key>> {
        let (mut keys, mut from) = (Vec::new(), self.first_at(distance));
        loop {
            let before = keys.len();
            if self.add_page(kv, &mut keys, from)? || keys.len() == before {
                return Ok(keys);
            }
            from = keys.last().copied().unwrap_or(from);
        }
    }

    /// Appends a page of keys from `from` on; whether it reaches beyond the upper end.
    fn add_page(&self, kv: &mut Kv, keys: &mut Vec<Key>, from: Key) -> Result<bool> {
        let mut page = kv.list(Some(from), PROBE_BYTES)?;
        while page.left() > 0 {
            let key = page.next()?;
            if key > self.upper || (self.span.exclusive && key == self.upper) {
                return Ok(true);
            }
            if keys.last().is_none_or(|last| *last < key) && self.span.is_within_bound(&key) {
                keys.push(key);
            }
        }
        Ok(false)
    }

    /// The lowest key at a distance below the upper end, and not below the range.
    fn first_at(&self, distance: u128) -> Key {
        let number = self.upper.number().saturating_sub(distance);
        let len = Key::MAX_BYTES - number.trailing_zeros() as usize / 8;
        let first = Key::from_number(number, len.max(1));
        self.span.bound.map_or(first, |bound| bound.max(first))
    }
}

/// Remembers at which distance a search ended.
fn kept(kv: &mut Kv, keys: Vec<Key>, distance: u128) -> Vec<Key> {
    kv.set_distance(distance);
    keys
}
