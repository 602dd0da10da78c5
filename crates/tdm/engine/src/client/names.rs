//! Changes of names: a served file is demoted first, since its log names it by path.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use crate::table::{Entry, FileKey, Level, Reason};
use rustix::fs::AtFlags;

use crate::client::file::Errno;
use crate::client::session::Session;

/// A name in a folder. `flags` as for statx(2).
#[derive(Debug, Clone, Copy)]
pub struct Name<'n> {
    /// The folder that the path starts at.
    pub folder: BorrowedFd<'n>,
    /// The path.
    pub path: &'n CStr,
    /// AT_ flags: how a link at the end is followed.
    pub flags: AtFlags,
}

impl Session {
    /// Whether the file of this name is served.
    #[must_use]
    pub fn is_served(&self, name: Name<'_>) -> bool {
        self.named(name).is_some_and(|(entry, _)| entry.level() != Level::Pass)
    }

    /// Changes a file by its name, or the name itself, by `real`. `sync_all` really syncs everything.
    pub fn change<R>(
        &self,
        name: Name<'_>,
        sync_all: impl Fn() -> Result<(), Errno>,
        real: impl FnOnce() -> R,
    ) -> R {
        let found = self.named(name).map(|(entry, _)| entry);
        found.inspect(|entry| self.take_down(*entry, sync_all));
        let result = real();
        // The daemon may have begun to serve it meanwhile.
        found.filter(|entry| entry.level() != Level::Pass).inspect(|entry| entry.cursor().suspend());
        result
    }

    /// Removes a name by `real`. A file with other names is demoted first, as its log may name this one.
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

    /// Has a served file demoted to PASS.
    pub fn take_down(&self, entry: Entry<'_>, sync_all: impl Fn() -> Result<(), Errno>) {
        let is_down = || entry.level() == Level::Pass;
        // Demoted earlier, without a daemon.
        let is_over = || entry.level_state().is_barred && entry.cursor().kept_bytes() == 0;
        // A daemon of another region, listening at the same socket now, does not know the file.
        if is_down() || is_over() || self.settle(entry) && is_down() {
            return;
        }
        // No daemon answers and this process may have no descriptor of the file: sync everything.
        entry.bar(Reason::NoDaemon);
        self.settle_here(entry, sync_all);
    }

    /// The entry of a file, and its number of names.
    #[must_use]
    pub fn named(&self, name: Name<'_>) -> Option<(Entry<'_>, u32)> {
        let found = FileKey::in_folder(name.folder, name.path, name.flags).ok()??;
        Some((self.file_table().find(found.key)?, found.links))
    }
}
