//! What a program has from the daemon.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use byway_sys::Mapping;
use byway_sys::map::Sharing;
use byway_tdm_board::{BOARD_BYTES, Board, BoardError, Entry, Why};
use byway_tdm_control::{Channel, Reply, Request};
use byway_tdm_log::RingPlace;
use byway_tdm_region::{Domain, Window};
use thiserror::Error;

use crate::fds::Listed;
use crate::file::OpenFile;

/// How long the daemon has for an answer. It may have to sync a file.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Nobody answers, or the system refuses what came.
    #[error("the daemon at {0} cannot be used")]
    Daemon(PathBuf, #[source] io::Error),
    /// It answers something else than a welcome.
    #[error("the daemon says {0:?}")]
    Refused(Reply),
    /// What it gave is no board.
    #[error(transparent)]
    Board(#[from] BoardError),
}

/// A program and its daemon.
#[derive(Debug)]
pub struct Session {
    board: Board,
    memory: Window,
    socket: PathBuf,
    /// Of the process that made it: one that was forked since makes its own.
    channel: Mutex<Option<(u32, Channel)>>,
}

impl Session {
    /// Has the daemon at a socket give us its board and its memory.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn begin(socket: &Path) -> Result<Self, SessionError> {
        let system = |e| SessionError::Daemon(socket.to_owned(), e);
        let channel = Channel::connect(socket, PATIENCE).map_err(system)?;
        let (reply, files) = channel.ask(Request::Hello, &[]).map_err(system)?;
        let mut files = files.into_iter().map(File::from);
        let (Reply::Welcome(export), Some(board), Some(memory)) = (reply, files.next(), files.next()) else {
            return Err(SessionError::Refused(reply));
        };
        let board = Mapping::file(&board, 0, BOARD_BYTES, Sharing::Shared).map_err(system)?;
        let memory = Window::of_export(&memory, files.next().as_ref(), &export).map_err(system)?;
        Ok(Self {
            board: Board::open(board)?,
            memory,
            socket: socket.to_owned(),
            channel: Mutex::new(Some((std::process::id(), channel))),
        })
    }

    /// The board.
    #[must_use]
    pub const fn board(&self) -> &Board {
        &self.board
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
        Some(OpenFile::new(self, self.board.entry(listed.entry)?, file, listed.appends))
    }

    /// Asks for a file to be absorbed; the reason, if it is not.
    pub(crate) fn ask_to_absorb(&self, entry: Entry<'_>, file: BorrowedFd<'_>) -> Option<Why> {
        match self.ask(Request::Absorb(entry.index()), &[file.as_fd()]) {
            Some(Reply::Done) => None,
            Some(Reply::Refused(why)) => Some(why),
            _ => Some(Why::NoDaemon),
        }
    }

    /// Maps a ring's pages into this process, so that no write waits for one. Where that cannot be, they wait.
    pub(crate) fn map_ahead(&self, ring: RingPlace) {
        let _ = self.memory.mapping().populate(ring.at as usize, ring.len_bytes as usize);
    }

    /// Has the daemon take a file down to the kernel, before it gets another name. Says whether that is done.
    pub fn settle(&self, entry: Entry<'_>) -> bool {
        self.ask(Request::Settle(entry.index()), &[]) == Some(Reply::Done)
    }

    /// One request; `None` where nobody answers. A connection that fails is made once more: its daemon may have been started again.
    fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> Option<Reply> {
        // Another thread is asking, or was when this process was forked off: this one asks for itself.
        let Ok(mut channel) = self.channel.try_lock() else {
            let own = Channel::connect(&self.socket, PATIENCE).ok()?;
            return own.ask(request, files).ok().map(|(reply, _)| reply);
        };
        let me = std::process::id();
        if let Some((_, channel)) = channel.as_ref().filter(|(of, _)| *of == me)
            && let Ok((reply, _)) = channel.ask(request, files)
        {
            return Some(reply);
        }
        // The parent's connection is the parent's: this end of it is only closed.
        *channel = None;
        let fresh = Channel::connect(&self.socket, PATIENCE).ok()?;
        let (reply, _) = fresh.ask(request, files).ok()?;
        *channel = Some((me, fresh));
        Some(reply)
    }
}
