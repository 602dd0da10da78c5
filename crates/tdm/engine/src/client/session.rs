//! What a program has from the daemon.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::{Channel, Order, Reply, Request};
use crate::log::{Absorber, Ring, RingPlace};
use crate::table::{BOARD_BYTES, Board, BoardError, Entry, Level, Why};
use byway_sys::Mapping;
use byway_sys::map::Sharing;
use byway_sys::time::monotonic_ns;
use byway_tdm_region::{Domain, Window};
use thiserror::Error;

use crate::client::calls::Calls;
use crate::client::fds::Listed;
use crate::client::file::{Errno, OpenFile, settle_held};
use crate::client::past::hold;

/// How long the daemon has for an answer. It may have to sync a file.
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon that was not seen on the board for a while, but may have come back, has so long to read a question: who waited for one that stands still does not do so again.
const STILL_GONE: Duration = Duration::from_millis(20);

/// Why there is no session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Nobody answers, or the system refuses what came.
    #[error("the daemon at {0} cannot be used")]
    Daemon(PathBuf, #[source] io::Error),
    /// It answers something else than a welcome.
    #[error("the daemon says {0:?}")]
    Refused(Reply),
    /// What it gave has another length than boards of this version.
    #[error("the daemon is of another version than the library")]
    OtherVersion,
    /// What it gave is no board.
    #[error(transparent)]
    Board(#[from] BoardError),
}

/// A program and its daemon.
#[derive(Debug)]
pub struct Session {
    board: Board,
    memory: Window,
    calls: Calls,
    /// Whose it is: a program may be another user's since.
    uid: u32,
    /// No connection is kept: a program closes descriptors that it did not open, and uses their numbers for its own.
    socket: PathBuf,
}

impl Session {
    /// Has the daemon at a socket give us its board and its memory.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin(socket: &Path) -> Result<Self, SessionError> {
        Self::begin_by(Channel::connect(socket, PATIENCE), socket)
    }

    /// The same, for who has looked before and was given nothing: a daemon that stands still is not waited for again.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin_again(socket: &Path) -> Result<Self, SessionError> {
        Self::begin_by(Channel::connect_unless_still(socket, PATIENCE, STILL_GONE), socket)
    }

    fn begin_by(connected: io::Result<Channel>, socket: &Path) -> Result<Self, SessionError> {
        let system = |e| SessionError::Daemon(socket.to_owned(), e);
        let channel = connected.map_err(system)?;
        let (reply, files) = channel.ask(Request::Hello, &[]).map_err(system)?;
        let mut files = files.into_iter().map(File::from);
        let (Reply::Welcome(export), Some(board), Some(memory)) = (reply, files.next(), files.next()) else {
            return Err(SessionError::Refused(reply));
        };
        if board.metadata().map_err(system)?.len() != BOARD_BYTES as u64 {
            return Err(SessionError::OtherVersion);
        }
        let board = Mapping::file(&board, 0, BOARD_BYTES, Sharing::Shared).map_err(system)?;
        let memory = Window::of_export(&memory, files.next().as_ref(), &export).map_err(system)?;
        let uid = rustix::process::geteuid().as_raw();
        Ok(Self { board: Board::open(board)?, memory, calls: Calls::new(), uid, socket: socket.to_owned() })
    }

    /// Whose files it serves: who the program was when it began.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// The board.
    #[must_use]
    pub const fn board(&self) -> &Board {
        &self.board
    }

    /// This is a child of fork: what it does is its own.
    pub fn own(&self) {
        self.calls.own();
    }

    /// How threads say which calls they have under way.
    #[inline]
    pub(super) const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The memory that logs lie in.
    #[must_use]
    pub const fn memory(&self) -> &Window {
        &self.memory
    }

    /// From where on that memory keeps what is stored.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        self.memory.domain()
    }

    /// An open file that is listed.
    #[inline]
    #[must_use]
    pub fn file<'s>(&'s self, file: BorrowedFd<'s>, listed: Listed) -> Option<OpenFile<'s>> {
        Some(OpenFile::new(self, self.board.entry(listed.entry)?, file, listed))
    }

    /// Asks for a file to be absorbed; the reason, if it is not.
    pub(super) fn ask_to_absorb(&self, entry: Entry<'_>, file: BorrowedFd<'_>) -> Option<Why> {
        match self.ask(Request::Absorb(entry.index()), &[file.as_fd()]) {
            Some(Reply::Done) => None,
            Some(Reply::Refused(why)) => Some(why),
            _ => Some(Why::NoDaemon),
        }
    }

    /// Asks for a file to be brought home; the reason, if it is not.
    pub(super) fn ask_for_home(&self, entry: Entry<'_>, file: BorrowedFd<'_>) -> Option<Why> {
        match self.ask(Request::House(entry.index()), &[file.as_fd()]) {
            Some(Reply::Done) => None,
            Some(Reply::Refused(why)) => Some(why),
            _ => Some(Why::NoDaemon),
        }
    }

    /// Maps a ring's pages into this process, so that no write waits for one. Where that cannot be, they wait.
    pub(super) fn map_ahead(&self, ring: RingPlace) {
        let _ = self.memory.mapping().populate(ring.at as usize, ring.len_bytes as usize);
    }

    /// Has the daemon take a file down to the kernel, before it gets another name. Says whether that is done.
    pub fn settle(&self, entry: Entry<'_>) -> bool {
        self.ask(Request::Settle(entry.index()), &[]) == Some(Reply::Done)
    }

    /// Has the daemon bring a file below that came home to it. Says whether that is done.
    pub(super) fn bring_below(&self, entry: Entry<'_>, why: Why) -> bool {
        let is_asked = !self.is_gone(monotonic_ns()) && !self.is_another_s(entry);
        is_asked && self.ask(Request::Leave(entry.index(), why), &[]) == Some(Reply::Done)
    }

    /// Has the daemon sync an absorbed file below. Says whether that is done.
    pub(super) fn drain(&self, entry: Entry<'_>) -> bool {
        let drain = |key| self.ask(Request::Order(Order::Drain, key), &[]) == Some(Reply::Done);
        entry.key().is_some_and(drain)
    }

    /// Syncs a file below and ends its log here, where it is about to be changed in a way that no record tells of.
    pub fn settle_here(&self, entry: Entry<'_>, below: impl Fn() -> Result<(), Errno>) {
        if entry.standing().level != Level::Absorb {
            return;
        }
        // What fails is on the board: every later sync of the file says so.
        let Some((_turn, _held)) = hold(entry) else {
            let _ = self.sync_past(entry, below);
            return;
        };
        // Whoever was about to append has: what is logged now is all of it.
        let is_settled = entry.cursor().kept_bytes() == 0 || entry.standing().level != Level::Absorb;
        if let Some(absorber) = self.absorber(entry).filter(|_| !is_settled) {
            let _ = settle_held(&absorber, &below);
        }
    }

    pub(super) fn absorber<'a>(&'a self, entry: Entry<'a>) -> Option<Absorber<'a, Window>> {
        self.absorber_in(entry, entry.ring())
    }

    /// The same of a file that has or had its ring there.
    pub(super) fn absorber_in<'a>(
        &'a self,
        entry: Entry<'a>,
        ring: RingPlace,
    ) -> Option<Absorber<'a, Window>> {
        Some(Absorber::new(Ring::new(&self.memory, ring).ok()?, entry.cursor()))
    }

    /// One request; `None` where nobody answers.
    fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> Option<Reply> {
        if rustix::process::geteuid().as_raw() != self.uid {
            // It would be another user's board that the daemon looked at.
            return None;
        }
        let channel = match self.is_gone(monotonic_ns()) {
            false => Channel::connect(&self.socket, PATIENCE),
            true => Channel::connect_unless_still(&self.socket, PATIENCE, STILL_GONE),
        };
        let channel = channel.ok()?;
        channel.ask(request, files).ok().map(|(reply, _)| reply)
    }
}
