//! Writes, syncs and truncations of files that the daemon may have absorbed.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use byway_sys::time::monotonic_ns;
use byway_tdm_engine::client::{Extent, Listed, OpenFile, Session, SessionError};
use byway_tdm_engine::table::{Entry, FileKey, Level};

use crate::node::Node;
use crate::open_file::{OpenBelow, To};

/// Interval of attempts to reach an absent daemon.
const LOOK_NS: u64 = 1_000_000_000;

/// The session with the daemon, now or later.
#[derive(Debug)]
pub(crate) struct Service {
    socket: PathBuf,
    session: OnceLock<Session>,
    looked_ns: AtomicU64,
}

impl Service {
    pub(crate) const fn new(socket: PathBuf) -> Self {
        Self { socket, session: OnceLock::new(), looked_ns: AtomicU64::new(0) }
    }

    /// Connects to the daemon.
    pub(crate) fn begin(&self) -> Result<&Session, SessionError> {
        let session = match self.looked_ns.swap(monotonic_ns(), Ordering::Relaxed) {
            0 => Session::begin(&self.socket),
            _ => Session::begin_again(&self.socket),
        }?;
        Ok(self.session.get_or_init(|| session))
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.get()
    }

    /// Makes an entry for a file opened for writing, if a daemon serves. Files opened without one get it at their next write.
    pub(crate) fn opened(&self, node: &Node) {
        let since = monotonic_ns().saturating_sub(self.looked_ns.load(Ordering::Relaxed));
        if self.session.get().is_none() && since > LOOK_NS {
            let _ = self.begin();
        }
        if let Some(session) = self.session.get() {
            let _ = node.entry(session);
        }
    }

    fn file<'a>(&'a self, open: &'a OpenBelow) -> Option<OpenFile<'a>> {
        let session = self.session.get()?;
        session.file(
            open.as_fd(),
            Listed { entry: open.node.entry(session)?, appends: false, writes_only: false },
        )
    }

    /// The open file of a served file that is open for reading.
    fn found<'a>(&'a self, open: &'a OpenBelow) -> Option<OpenFile<'a>> {
        let session = self.session.get()?;
        let key = FileKey::of(open).ok()??.key;
        let entry = session.file_table().find(key).filter(|entry| entry.level() != Level::Pass)?;
        session.file(open.as_fd(), Listed { entry: entry.index(), appends: false, writes_only: false })
    }

    /// Writes, with a record if the file is absorbed.
    pub(crate) fn write(&self, open: &OpenBelow, data: &[u8], to: To) -> io::Result<usize> {
        let failed = Cell::new(0);
        let real = || open.write(data, to, &failed);
        let wrote = match self.file(open) {
            Some(file) => file.write(real, |wrote| open.whereto(to, wrote), || data),
            None => self.unlisted(open, real),
        };
        usize::try_from(wrote).map_err(|_| io::Error::from_raw_os_error(failed.get()))
    }

    pub(crate) fn sync(&self, open: &OpenBelow, extent: Extent) -> io::Result<()> {
        let file = if open.writes { self.file(open) } else { self.found(open) };
        let below = || open.sync(extent);
        file.map_or_else(below, |file| file.sync(extent, below)).map_err(io::Error::from_raw_os_error)
    }

    /// Truncates or extends a file.
    pub(crate) fn truncate(&self, open: &OpenBelow, size_bytes: u64) -> io::Result<()> {
        let real = || open.truncate(size_bytes);
        let below = || open.sync(Extent::Data);
        match self
            .file(open)
            .map_or_else(|| self.unlisted(open, real), |file| file.truncate(size_bytes, below, real))
        {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Makes a change without a record by `real`.
    pub(crate) fn unseen<R>(&self, open: &OpenBelow, real: impl FnOnce() -> R) -> R {
        match self.file(open) {
            Some(file) => file.unseen(|| open.sync(Extent::Data), real),
            None => self.unlisted(open, real),
        }
    }

    /// Makes a change by `real` to a file without an entry. A daemon that came meanwhile may have absorbed it.
    fn unlisted<R>(&self, open: &OpenBelow, real: impl FnOnce() -> R) -> R {
        let had_session = self.session.get().is_some();
        let result = real();
        if !had_session && let Some(file) = self.file(open) {
            file.entry().cursor().suspend();
        }
        result
    }

    /// Demotes a file to PASS, if it is served. `true` if it was.
    pub(crate) fn settle(&self, node: &Node) -> bool {
        let Some((session, entry)) = self.listed(node) else { return false };
        let is_served = entry.level() != Level::Pass;
        if is_served {
            session.take_down(entry, || node.sync());
        }
        is_served
    }

    /// Counts an attribute change: the next `fsync` is a real one.
    pub(crate) fn attributes_changed(&self, node: &Node) {
        if let Some((_, entry)) = self.listed(node) {
            entry.attributes().change();
        }
    }

    /// A file's entry.
    fn listed(&self, node: &Node) -> Option<(&Session, Entry<'_>)> {
        let session = self.session.get()?;
        let key = FileKey::of(node).ok()??.key;
        Some((session, session.file_table().find(key)?))
    }
}
