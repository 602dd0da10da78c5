//! A cursor: a position among the keys, that moves both ways.

use byway_core::{Key, Result};

use crate::calls::kv::Kv;
use crate::calls::scan::ScanState;

/// A position among the pairs of a namespace. Before the first [`Cursor::next`] or seek it is before the first pair.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// let device = byway::open("embedded-ram:64M")?;
/// let mut kv = device.kv(None)?;
/// for key in [b"a", b"b", b"c"] {
///     kv.put(key, key)?;
/// }
/// let mut cursor = kv.cursor();
/// assert!(cursor.seek(b"b")?);
/// assert!(cursor.next()? && cursor.key() == Some(b"c"));
/// assert!(cursor.prev()? && cursor.prev()? && cursor.value() == Some(b"a"));
/// # }
/// # Ok::<(), byway::Error>(())
/// ```
pub struct Cursor<'a> {
    kv: &'a mut Kv,
    state: CursorState,
}

impl Kv {
    /// A cursor over all pairs.
    pub fn cursor(&mut self) -> Cursor<'_> {
        Cursor { kv: self, state: CursorState::default() }
    }
}

impl Cursor<'_> {
    /// Goes to the first pair whose key is `key` or above; whether there is one.
    ///
    /// # Errors
    /// A key of a wrong length, or what the device says.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.state.seek(self.kv, key)
    }

    /// Goes to the first pair; whether there is one.
    ///
    /// # Errors
    /// What the device says.
    pub fn seek_first(&mut self) -> Result<bool> {
        self.state.seek_first(self.kv)
    }

    /// Goes to the last pair; whether there is one.
    ///
    /// # Errors
    /// What the device says.
    pub fn seek_last(&mut self) -> Result<bool> {
        self.state.seek_last(self.kv)
    }

    /// Goes to the next pair; whether there is one. Behind the last it stays, and [`Cursor::prev`] goes to the last.
    ///
    /// # Errors
    /// What the device says.
    #[expect(clippy::should_implement_trait, reason = "it lends what it stands at, and turns round")]
    pub fn next(&mut self) -> Result<bool> {
        self.state.next(self.kv)
    }

    /// Goes to the pair before; whether there is one. Before the first it stays, and [`Cursor::next`] goes to the first.
    ///
    /// # Errors
    /// What the device says.
    pub fn prev(&mut self) -> Result<bool> {
        self.state.prev(self.kv)
    }

    /// The key of the pair it is at.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.state.key()
    }

    /// The value of the pair it is at.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.state.value()
    }
}

/// A cursor between its calls, which are passed the namespace: for programs that cannot hold a [`Cursor`], which borrows it.
#[derive(Default)]
pub struct CursorState {
    scan: ScanState,
    backward: bool,
    position: Position,
}

#[derive(Clone, Copy, Default)]
enum Position {
    /// Before the first pair.
    #[default]
    Before,
    /// At a pair.
    At(Key),
    /// Behind the last pair.
    Behind,
}

impl CursorState {
    /// As [`Cursor::seek`].
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek(&mut self, kv: &mut Kv, key: &[u8]) -> Result<bool> {
        let scan = ScanState::onward(Some(Key::new(key)?), false, false);
        self.begin(kv, scan, false)
    }

    /// As [`Cursor::seek_first`].
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    pub fn seek_first(&mut self, kv: &mut Kv) -> Result<bool> {
        self.begin(kv, ScanState::onward(None, false, false), false)
    }

    /// As [`Cursor::seek_last`].
    ///
    /// # Errors
    /// As [`Cursor::seek_last`].
    pub fn seek_last(&mut self, kv: &mut Kv) -> Result<bool> {
        self.begin(kv, ScanState::onward(None, false, true), true)
    }

    /// As [`Cursor::next`].
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub fn next(&mut self, kv: &mut Kv) -> Result<bool> {
        match self.position {
            Position::Before => self.seek_first(kv),
            Position::At(_) if !self.backward => self.advance(kv),
            Position::At(key) => self.begin(kv, ScanState::onward(Some(key), true, false), false),
            Position::Behind => Ok(false),
        }
    }

    /// As [`Cursor::prev`].
    ///
    /// # Errors
    /// As [`Cursor::prev`].
    pub fn prev(&mut self, kv: &mut Kv) -> Result<bool> {
        match self.position {
            Position::Before => Ok(false),
            Position::At(_) if self.backward => self.advance(kv),
            Position::At(key) => self.begin(kv, ScanState::onward(Some(key), true, true), true),
            Position::Behind => self.seek_last(kv),
        }
    }

    /// As [`Cursor::key`].
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match &self.position {
            Position::At(key) => Some(key.as_bytes()),
            Position::Before | Position::Behind => None,
        }
    }

    /// As [`Cursor::value`].
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        matches!(self.position, Position::At(_)).then(|| self.scan.value())
    }

    fn begin(&mut self, kv: &mut Kv, scan: ScanState, backward: bool) -> Result<bool> {
        (self.scan, self.backward) = (scan, backward);
        self.advance(kv)
    }

    fn advance(&mut self, kv: &mut Kv) -> Result<bool> {
        let went = self.scan.advance(kv);
        self.position = match (&went, self.scan.key()) {
            (Ok(true), Some(key)) => Position::At(key),
            // After an error the pair is not known any more.
            _ if self.backward => Position::Before,
            _ => Position::Behind,
        };
        went
    }
}
