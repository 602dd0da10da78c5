//! The short path: a call on a file at PASS.

use crate::table::{Entry, Level};

use crate::client::calls::{Call, ThreadPlace};
use crate::client::fds::Listed;
use crate::client::file::write_at_pass;
use crate::client::session::Session;

/// A call on such a file, in flight: the file is not promoted meanwhile.
#[derive(Debug)]
#[must_use]
pub struct PassCall<'s> {
    session: &'s Session,
    entry: Entry<'s>,
    call: Call<'s>,
}

impl Session {
    /// Begins a call on a listed file at PASS. Every write under the library comes through here: it loads as little as possible.
    #[inline(always)]
    #[must_use]
    pub fn pass_call(&self, listed: Listed, own: &ThreadPlace) -> Option<PassCall<'_>> {
        let entry = self.file_table().entry(listed.entry)?;
        let call = self.calls().begin(self.file_table(), entry, own);
        // After the mark: the daemon stores the level first and then reads the marks.
        if entry.level() != Level::Pass {
            self.calls().end(entry, call);
            return None;
        }
        Some(PassCall { session: self, entry, call })
    }
}

impl PassCall<'_> {
    /// Writes by `real`. No lock is held: the thread may be cancelled inside.
    #[inline(always)]
    pub fn write(self, real: impl FnOnce() -> isize) -> isize {
        let wrote = write_at_pass(self.entry, real);
        self.session.calls().end(self.entry, self.call);
        wrote
    }

    /// Reads, or moves the position, by `real`.
    #[inline(always)]
    pub fn read<R>(self, real: impl FnOnce() -> R) -> R {
        let done = real();
        self.session.calls().end(self.entry, self.call);
        done
    }
}
