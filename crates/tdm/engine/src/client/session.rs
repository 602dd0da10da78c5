//! A program's connection to the daemon: the shared file table and the device memory it was given.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::{Channel, Order, Reply, Request};
use crate::log::{Absorber, Ring, RingPlace};
use crate::table::{Entry, FILE_TABLE_BYTES, FileTable, FileTableError, Level, Reason};
use byway_sys::Mapping;
use byway_sys::map::Sharing;
use byway_sys::time::monotonic_ns;
use byway_tdm_region::{Domain, Window};
use thiserror::Error;

use crate::client::bypass::hold;
use crate::client::calls::Calls;
use crate::client::fds::Listed;
use crate::client::file::{Errno, OpenFile, settle_held};

/// Time limit of a request. The daemon may have to sync a file first.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for reading a request, of a daemon that the shared file table has not shown for a while.
const STOPPED_WAIT_GONE: Duration = Duration::from_millis(20);

/// Why a session cannot begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No daemon listens at this socket, or the system refuses what it sent.
    #[error("the daemon at {0} cannot be used")]
    Daemon(PathBuf, #[source] io::Error),
    /// The daemon answered something else than a welcome.
    #[error("the daemon says {0:?}")]
    Refused(Reply),
    /// The daemon's shared file table has another length than this version's.
    #[error("the daemon is of another version than the library")]
    OtherVersion,
    /// The daemon sent something else than a shared file table.
    #[error(transparent)]
    FileTable(#[from] FileTableError),
}

/// A program's session with its daemon.
#[derive(Debug)]
pub struct Session {
    file_table: FileTable,
    memory: Window,
    calls: Calls,
    /// User of the files it serves. The program may have changed its user since.
    uid: u32,
    /// Path of the daemon's socket. No connection is kept open: programs close descriptors that they did not open and reuse their numbers.
    socket: PathBuf,
}

impl Session {
    /// Connects to the daemon at a socket and maps its shared file table and device memory.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin(socket: &Path) -> Result<Self, SessionError> {
        Self::begin_by(Channel::connect(socket, LOCK_TIMEOUT), socket)
    }

    /// As [`Session::begin`], after an attempt that failed: a stopped daemon gets 20 ms, not 1 s.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin_again(socket: &Path) -> Result<Self, SessionError> {
        Self::begin_by(Channel::connect_unless_stopped(socket, LOCK_TIMEOUT, STOPPED_WAIT_GONE), socket)
    }

    fn begin_by(connected: io::Result<Channel>, socket: &Path) -> Result<Self, SessionError> {
        let system = |e| SessionError::Daemon(socket.to_owned(), e);
        let channel = connected.map_err(system)?;
        let (reply, files) = channel.ask(Request::Hello, &[]).map_err(system)?;
        let mut files = files.into_iter().map(File::from);
        let (Reply::Welcome(export), Some(file_table), Some(memory)) = (reply, files.next(), files.next())
        else {
            return Err(SessionError::Refused(reply));
        };
        if file_table.metadata().map_err(system)?.len() != FILE_TABLE_BYTES as u64 {
            return Err(SessionError::OtherVersion);
        }
        let file_table = Mapping::file(&file_table, 0, FILE_TABLE_BYTES, Sharing::Shared).map_err(system)?;
        let memory = Window::of_export(&memory, files.next().as_ref(), &export).map_err(system)?;
        let uid = rustix::process::geteuid().as_raw();
        Ok(Self {
            file_table: FileTable::open(file_table)?,
            memory,
            calls: Calls::new(),
            uid,
            socket: socket.to_owned(),
        })
    }

    /// User that the program had when the session began.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// The shared file table.
    #[must_use]
    pub const fn file_table(&self) -> &FileTable {
        &self.file_table
    }

    /// Makes the session the calling process's own: for a child of fork.
    pub fn own(&self) {
        self.calls.own();
    }

    /// Marks of the system calls that this process's threads have in flight.
    #[inline]
    pub(super) const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The device memory that logs and resident files lie in.
    #[must_use]
    pub const fn memory(&self) -> &Window {
        &self.memory
    }

    /// Persistence domain of that memory.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        self.memory.domain()
    }

    /// The open file of a listed descriptor.
    #[inline]
    #[must_use]
    pub fn file<'s>(&'s self, file: BorrowedFd<'s>, listed: Listed) -> Option<OpenFile<'s>> {
        Some(OpenFile::new(self, self.file_table.entry(listed.entry)?, file, listed))
    }

    /// Asks the daemon to absorb a file. `None` if it is absorbed, else the reason.
    pub(super) fn ask_to_absorb(&self, entry: Entry<'_>, file: BorrowedFd<'_>) -> Option<Reason> {
        match self.ask(Request::Absorb(entry.index()), &[file.as_fd()]) {
            Some(Reply::Done) => None,
            Some(Reply::Refused(why)) => Some(why),
            _ => Some(Reason::NoDaemon),
        }
    }

    /// Asks the daemon to promote a file. `None` if it is DAX-resident, else the reason.
    pub(super) fn ask_for_promotion(&self, entry: Entry<'_>, file: BorrowedFd<'_>) -> Option<Reason> {
        match self.ask(Request::Promote(entry.index()), &[file.as_fd()]) {
            Some(Reply::Done) => None,
            Some(Reply::Refused(why)) => Some(why),
            _ => Some(Reason::NoDaemon),
        }
    }

    /// Maps a ring's pages into this process ahead of the first write. Where that fails, writes take the page faults.
    pub(super) fn map_ahead(&self, ring: RingPlace) {
        let _ = self.memory.mapping().populate(ring.at as usize, ring.len_bytes as usize);
    }

    /// Asks the daemon to demote a file to PASS, before it is renamed. `true` once it is.
    pub fn settle(&self, entry: Entry<'_>) -> bool {
        self.ask(Request::Settle(entry.index()), &[]) == Some(Reply::Done)
    }

    /// Asks the daemon to demote a DAX-resident file. `true` once it is demoted.
    pub(super) fn ask_to_demote(&self, entry: Entry<'_>, why: Reason) -> bool {
        let is_asked = !self.is_gone(monotonic_ns()) && !self.is_of_other_daemon(entry);
        is_asked && self.ask(Request::Leave(entry.index(), why), &[]) == Some(Reply::Done)
    }

    /// Asks the daemon to really sync an absorbed file. `true` once that is done.
    pub(super) fn drain(&self, entry: Entry<'_>) -> bool {
        let drain = |key| self.ask(Request::Order(Order::Drain, key), &[]) == Some(Reply::Done);
        entry.key().is_some_and(drain)
    }

    /// Really syncs a file and ends its log: a change without a record follows.
    pub fn settle_here(&self, entry: Entry<'_>, below: impl Fn() -> Result<(), Errno>) {
        if entry.level() != Level::Absorb {
            return;
        }
        // A failure is stored in the shared file table: every later sync of the file reports it.
        let Some((_guard, _lock)) = hold(entry) else {
            let _ = self.sync_in_bypass(entry, below);
            return;
        };
        // With the lock held no append is under way: the log has everything that it will have.
        let is_settled = entry.cursor().kept_bytes() == 0 || entry.level() != Level::Absorb;
        if let Some(absorber) = self.absorber(entry).filter(|_| !is_settled) {
            let _ = settle_held(&absorber, &below);
        }
    }

    pub(super) fn absorber<'a>(&'a self, entry: Entry<'a>) -> Option<Absorber<'a, Window>> {
        self.absorber_in(entry, entry.ring())
    }

    /// As [`Session::absorber`], for a given ring.
    pub(super) fn absorber_in<'a>(
        &'a self,
        entry: Entry<'a>,
        ring: RingPlace,
    ) -> Option<Absorber<'a, Window>> {
        Some(Absorber::new(Ring::new(&self.memory, ring).ok()?, entry.cursor()))
    }

    /// Sends one request. `None` if no daemon answers.
    fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> Option<Reply> {
        if rustix::process::geteuid().as_raw() != self.uid {
            // The daemon would look the entry up in the table of the program's new user.
            return None;
        }
        let channel = match self.is_gone(monotonic_ns()) {
            false => Channel::connect(&self.socket, LOCK_TIMEOUT),
            true => Channel::connect_unless_stopped(&self.socket, LOCK_TIMEOUT, STOPPED_WAIT_GONE),
        };
        let channel = channel.ok()?;
        channel.ask(request, files).ok().map(|(reply, _)| reply)
    }
}
