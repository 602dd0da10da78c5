//! Files by their names, before something is done to these: one that is served is taken down to the kernel first, as its log says
//! where it was.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use crate::table::{Entry, FileKey, Level, Why};
use rustix::fs::AtFlags;

use crate::client::file::Errno;
use crate::client::session::Session;

/// A name in a folder. `flags` say whether a link at its end is followed.
#[derive(Debug, Clone, Copy)]
pub struct Name<'n> {
    /// The folder.
    pub folder: BorrowedFd<'n>,
    /// From there.
    pub path: &'n CStr,
    /// How it is followed.
    pub flags: AtFlags,
}

impl Session {
    /// Whether a file is served, by its name.
    #[must_use]
    pub fn is_served(&self, name: Name<'_>) -> bool {
        self.named(name).is_some_and(|(entry, _)| entry.standing().level != Level::Pass)
    }

    /// Does something by `real` to a file that has a name, or to this name. `sync_all` syncs all that there is.
    pub fn change<R>(
        &self,
        name: Name<'_>,
        sync_all: impl Fn() -> Result<(), Errno>,
        real: impl FnOnce() -> R,
    ) -> R {
        let found = self.named(name).map(|(entry, _)| entry);
        found.inspect(|entry| self.take_down(*entry, sync_all));
        let result = real();
        // Who began to serve it meanwhile does not know.
        found.filter(|entry| entry.standing().level != Level::Pass).inspect(|entry| entry.cursor().suspend());
        result
    }

    /// Takes a name away by `real`: a file that has others goes on, and its log may say this one.
    pub fn unname<R>(
        &self,
        name: Name<'_>,
        sync_all: impl Fn() -> Result<(), Errno>,
        real: impl FnOnce() -> R,
    ) -> R {
        let found = self.named(name).filter(|(_, names)| *names > 1);
        found.inspect(|(entry, _)| self.take_down(*entry, sync_all));
        real()
    }

    /// Has a file that is served taken down to the kernel.
    pub fn take_down(&self, entry: Entry<'_>, sync_all: impl Fn() -> Result<(), Errno>) {
        let is_down = || entry.standing().level == Level::Pass;
        // Nobody answered before, and nothing is left to be done.
        let is_over = || entry.standing().is_barred && entry.cursor().kept_bytes() == 0;
        // A daemon of another region that listens there by now knows nothing of it.
        if is_down() || is_over() || self.settle(entry) && is_down() {
            return;
        }
        // Nobody answers, and there may be no descriptor of it here: all that there is is synced.
        entry.bar(Why::NoDaemon);
        self.settle_here(entry, sync_all);
    }

    /// A file that has an entry, and how many names.
    #[must_use]
    pub fn named(&self, name: Name<'_>) -> Option<(Entry<'_>, u32)> {
        let found = FileKey::in_folder(name.folder, name.path, name.flags).ok()??;
        Some((self.board().find(found.key)?, found.links))
    }
}
