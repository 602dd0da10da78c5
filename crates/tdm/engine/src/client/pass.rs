//! The shortest way: a call of a file that the kernel alone serves, as most files of most programs are.

use crate::table::{Entry, Level};

use crate::client::calls::{Call, ThreadPlace};
use crate::client::fds::Listed;
use crate::client::file::write_at_pass;
use crate::client::session::Session;

/// A call of such a file, under way: it does not come home meanwhile.
#[derive(Debug)]
#[must_use]
pub struct Passing<'s> {
    session: &'s Session,
    entry: Entry<'s>,
    call: Call<'s>,
}

impl Session {
    /// Begins a call of an open file that is listed, if it is at PASS. What is looked at is as little as can be: every write by a program under the
    /// library comes by here.
    #[inline(always)]
    #[must_use]
    pub fn passing(&self, listed: Listed, own: &ThreadPlace) -> Option<Passing<'_>> {
        let entry = self.board().entry(listed.entry)?;
        let call = self.calls().begin(self.board(), entry, own);
        // Behind that: who brings it home looks in the other order.
        if entry.level() != Level::Pass {
            self.calls().end(entry, call);
            return None;
        }
        Some(Passing { session: self, entry, call })
    }
}

impl Passing<'_> {
    /// Writes by `real`. Nothing is held meanwhile: a thread may be cancelled in it.
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
