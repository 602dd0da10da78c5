//! How a file leaves its home: by a call that only the kernel can make, or as whoever has its lock stands still.
//!
//! Nobody waits for that one for long. Who brings the file below has a lock of his own, and what the other does then goes for nothing: see [`go_below`].

use std::io;
use std::time::Duration;

use crate::table::{Entry, FileKey, Level, Why};
use byway_sys::time::monotonic_ns;
use byway_sys::{Deadline, lease};

use crate::client::below::{go_below, leave};
use crate::client::file::{Errno, OpenFile};
use crate::client::home::AtHome;
use crate::client::session::Session;
use crate::client::turn::Turn;

const EIO: Errno = 5;
/// A signal handler interrupted whoever brings the file below, and cannot wait for it.
const EDEADLK: Errno = 35;

/// A file that the daemon is to bring below is looked at again after so long: whoever stood still may go on by then.
const AWAITED: Duration = Duration::from_secs(1);

/// A daemon that was not seen for so long looks no more who opens a file.
const GONE_NS: u64 = 3_000_000_000;

impl OpenFile<'_> {
    /// Has it brought below if it is at home; `below` is the system's sync.
    ///
    /// # Errors
    /// An error number: it is at home still.
    pub fn leave_home(&self, why: Why, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        while self.is_home() {
            if self.go_below(why, &below)? {
                break;
            }
            // Somebody brings it home, or has died of that: who has the file's lock knows.
            if let AtHome::Failed(error) = self.at_home(|_, _| Ok(())) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The same of one that is at home; whether it is below, and not on its way.
    fn go_below(&self, why: Why, below: &impl Fn() -> Result<(), Errno>) -> Result<bool, Errno> {
        let Some(_turn) = Turn::take() else { return self.is_brought_below().map(|()| true) };
        let is_it =
            FileKey::of(self.fd()).ok().flatten().is_some_and(|it| Some(it.key) == self.entry().key());
        if !is_it {
            // A number that is another file's by now.
            return if self.session().settle(*self.entry()) { Ok(true) } else { Err(EIO) };
        }
        // Who stands still in the midst of this writes the file below when he goes on, and nobody can go past that: mostly it is the daemon, whom nobody stops.
        if self.session().bring_below(*self.entry(), why) && !self.is_home() {
            return Ok(true);
        }
        let _held = self.entry().lock_to_leave(Duration::MAX).map_err(|_| EIO)?;
        if !self.is_home() || self.entry().housed().terms().is_none() {
            return Ok(!self.is_home());
        }
        let sync = || below().map_err(io::Error::from_raw_os_error);
        go_below(self.session().memory(), *self.entry(), self.fd(), why, sync)
            .map(|()| true)
            .map_err(|error| error.raw_os_error().unwrap_or(EIO))
    }

    /// Has the daemon bring it below past this thread, for a signal handler that interrupted a call of it.
    fn is_brought_below(&self) -> Result<(), Errno> {
        if self.entry().is_locked_by_me() {
            self.entry().give_up();
            let _ = self.session().await_below(*self.entry());
        }
        if self.is_home() { Err(EDEADLK) } else { Ok(()) }
    }

    /// Whoever has the file's lock was waited for in vain, or is this thread, which has jumped out of there: the daemon brings the file below past
    /// that.
    #[cold]
    pub(super) fn stands_still<R>(&self) -> AtHome<R> {
        self.entry().give_up();
        self.comes_below()
    }

    /// Somebody brings it below, or is about to.
    #[cold]
    pub(super) fn comes_below<R>(&self) -> AtHome<R> {
        match self.session().await_below(*self.entry()) {
            Ok(()) => AtHome::Left,
            Err(Awaited::Nobody) => self.went_below(Why::NoDaemon),
            Err(Awaited::Myself) => AtHome::Failed(EDEADLK),
        }
    }

    /// Whoever brought it home, or below, died in the midst of it, and the file below has every byte. With its lock held.
    #[cold]
    pub(super) fn left_behind<R>(&self) -> AtHome<R> {
        match leave(self.session().memory(), *self.entry(), Why::Busy) {
            Ok(()) => {
                let _ = lease::give_back(self.fd());
                AtHome::Left
            }
            Err(_) => AtHome::Failed(EIO),
        }
    }

    /// What cannot be done at home the kernel does, with all of the file below.
    #[cold]
    pub(super) fn went_below<R>(&self, why: Why) -> AtHome<R> {
        let sync = || sync_raw(self.fd());
        match self.leave_home(why, sync) {
            Ok(()) => AtHome::Left,
            Err(error) => AtHome::Failed(error),
        }
    }
}

/// Who is waited for in vain.
#[derive(Debug)]
pub(super) enum Awaited {
    /// There is no daemon, or whoever began is dead.
    Nobody,
    /// A signal handler interrupted whoever brings the file below.
    Myself,
}

impl Session {
    /// Waits until a file is below that somebody brings there, or that the daemon is to bring there past whoever stands still with its lock; not for
    /// ever: then it is to be looked at again.
    ///
    /// # Errors
    /// [`Awaited`].
    pub(super) fn await_below(&self, entry: Entry<'_>) -> Result<(), Awaited> {
        const BETWEEN: Duration = Duration::from_millis(1);
        let end = Deadline::after(AWAITED);
        if entry.is_leaving_by_me() {
            return Err(Awaited::Myself);
        }
        while entry.level() == Level::Dax && (entry.home_words().is_closed() || !end.is_over()) {
            let is_deserted = match entry.home_words().is_closed() {
                true => !entry.is_leaving(),
                false => self.is_gone(monotonic_ns()) || self.is_another_s(entry),
            };
            if is_deserted && entry.level() == Level::Dax {
                return Err(Awaited::Nobody);
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(())
    }

    /// Whether a file came home to an earlier daemon.
    pub(super) fn is_another_s(&self, entry: Entry<'_>) -> bool {
        entry.housed().terms().is_some_and(|terms| terms.reign != self.board().reign())
    }

    /// Whether there is no daemon that looks who opens a file.
    #[inline]
    pub(super) fn is_gone(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.board().seen_ns()) > GONE_NS
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file below of a home that is full: its bytes are kept there before it ends"
)]
fn sync_raw(file: std::os::fd::BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fdatasync(file).map_err(rustix::io::Errno::raw_os_error)
}
