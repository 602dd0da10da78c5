//! Several buffers that one command moves.

use std::ops::{Deref, DerefMut};

use crate::buffer::Buffer;

/// Buffers that one command moves, one behind the other: as wide as a pointer, since most commands have none.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "every command and every completion has a place for it")]
pub struct Buffers(Option<Box<Vec<Buffer>>>);

impl Buffers {
    /// None.
    pub const NONE: Self = Self(None);

    /// The list of them, to be changed.
    pub fn as_vec_mut(&mut self) -> &mut Vec<Buffer> {
        self.0.get_or_insert_default()
    }

    /// Them as a list of their own.
    #[must_use]
    pub fn into_vec(self) -> Vec<Buffer> {
        self.0.map_or_else(Vec::new, |parts| *parts)
    }
}

impl Deref for Buffers {
    type Target = [Buffer];

    #[inline]
    fn deref(&self) -> &[Buffer] {
        self.0.as_ref().map_or(&[], |parts| parts.as_slice())
    }
}

impl DerefMut for Buffers {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Buffer] {
        self.0.as_mut().map_or(&mut [], |parts| parts.as_mut_slice())
    }
}

impl From<Vec<Buffer>> for Buffers {
    fn from(parts: Vec<Buffer>) -> Self {
        Self(Some(Box::new(parts)))
    }
}

impl FromIterator<Buffer> for Buffers {
    fn from_iter<I: IntoIterator<Item = Buffer>>(parts: I) -> Self {
        parts.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for Buffers {
    type Item = Buffer;
    type IntoIter = std::vec::IntoIter<Buffer>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Buffers {
    type Item = &'a Buffer;
    type IntoIter = std::slice::Iter<'a, Buffer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
