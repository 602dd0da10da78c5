//! The listening UNIX socket: its file is created, replaced after a dead server, and removed.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::{FileId, OwnerProcess, handover};

/// Pause of accepting after the process ran out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Mode of a socket for owner and group, less the umask.
const NOT_FOR_OTHERS: u32 = 0o770;

/// Mode of a socket for its owner only.
const FOR_OWNER: u32 = 0o600;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another server listens there.
    #[error("{0}: a server listens at this socket")]
    Live(PathBuf),
    /// The path is another kind of file, which is left alone.
    #[error("{0} is there and is no socket")]
    NoSocket(PathBuf),
    /// The system's error.
    #[error("{path}: {source}")]
    System {
        /// The socket's path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A listening socket. Dropping it removes its file.
#[derive(Debug)]
pub struct SocketListener {
    owner: OwnerProcess,
    listener: UnixListener,
    path: PathBuf,
    /// Identity of the bound file; another may have its name by now.
    bound: FileId,
    /// A reserve descriptor, closed to accept and close a client when none is left.
    spare: RefCell<Option<File>>,
    /// End of the pause of accepting.
    paused_until: Cell<Option<Instant>>,
}

impl SocketListener {
    /// Checks whether `path` can be bound, before the image is opened.
    ///
    /// # Errors
    /// Those of [`SocketListener::open`], except errors of the folder.
    pub fn check(path: &Path) -> Result<(), SocketError> {
        match fs::symlink_metadata(path) {
            Ok(_) => clear(path),
            Err(_) => Ok(()),
        }
    }

    /// Listens at `path`, for owner and group as far as the umask allows; never for others. The socket of a dead server is replaced.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub fn open(path: &Path) -> Result<Self, SocketError> {
        Self::bind(path, NOT_FOR_OTHERS, clear)
    }

    /// Listens at `path` for the owner only. Any socket there is replaced, live or not: the caller holds the lock that guards
    /// the path.
    ///
    /// # Errors
    /// Those of [`SocketListener::open`], except [`SocketError::Live`].
    pub fn take_over(path: &Path) -> Result<Self, SocketError> {
        Self::bind(path, FOR_OWNER, remove_socket)
    }

    /// Listens at `path` for the owner only; a live server's socket is not replaced.
    ///
    /// # Errors
    /// Those of [`SocketListener::open`].
    pub fn open_for_owner(path: &Path) -> Result<Self, SocketError> {
        Self::bind(path, FOR_OWNER, clear)
    }

    fn bind(
        path: &Path,
        mode: u32,
        make_room: impl FnOnce(&Path) -> Result<(), SocketError>,
    ) -> Result<Self, SocketError> {
        let system = |source| SocketError::System { path: path.to_owned(), source };
        let listener = match handover::listen_with_mode(path, mode) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                make_room(path)?;
                handover::listen_with_mode(path, mode)
            }
            bound => bound,
        };
        let listener = listener.map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let bound = FileId::at(path).map_err(system)?;
        Ok(Self {
            owner: OwnerProcess::current(),
            listener,
            path: path.to_owned(),
            bound,
            spare: RefCell::new(spare()),
            paused_until: Cell::new(None),
        })
    }

    /// Accepts a pending connection.
    #[must_use]
    pub fn accept(&self) -> Option<UnixStream> {
        match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) => {
                // A client that has disconnected meanwhile is skipped.
                let errno = Errno::from_io_error(&error);
                if matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
                    self.turn_away();
                }
                None
            }
        }
    }

    /// Closes one pending connection with the reserve descriptor, and pauses accepting: poll would report the socket as ready
    /// without pause.
    #[cold]
    fn turn_away(&self) {
        self.paused_until.set(Some(Instant::now() + PAUSE));
        if self.spare.take().is_some() {
            drop(self.listener.accept());
        }
        self.spare.replace(spare());
    }

    /// Poll flags of the socket, and the rest of a pause of accepting.
    #[must_use]
    pub fn wanted(&self) -> (PollFlags, Option<Duration>) {
        let pause = self.paused_until.get().map(|until| until.saturating_duration_since(Instant::now()));
        match pause.filter(|pause| !pause.is_zero()) {
            Some(pause) => (PollFlags::empty(), Some(pause)),
            None => (PollFlags::IN, None),
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl AsFd for SocketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for SocketListener {
    /// A forked child leaves the file to its parent.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        if FileId::at(&self.path).is_ok_and(|found| found == self.bound) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file.
fn remove_socket(path: &Path) -> Result<(), SocketError> {
    check_socket(path)?;
    fs::remove_file(path).map_err(|source| SocketError::System { path: path.to_owned(), source })
}

fn check_socket(path: &Path) -> Result<(), SocketError> {
    let system = |source| SocketError::System { path: path.to_owned(), source };
    match fs::symlink_metadata(path).map_err(system)?.file_type().is_socket() {
        true => Ok(()),
        false => Err(SocketError::NoSocket(path.to_owned())),
    }
}

/// Removes the socket file of a dead server.
fn clear(path: &Path) -> Result<(), SocketError> {
    let system = |source| SocketError::System { path: path.to_owned(), source };
    check_socket(path)?;
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(system),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(system(error)),
        // A server with a full backlog is alive.
        _ => Err(SocketError::Live(path.to_owned())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_live_server_s_socket_is_refused_and_a_dead_one_s_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = SocketListener::open(&path).unwrap();
        assert!(matches!(SocketListener::open(&path), Err(SocketError::Live(_))));
        // As after a kill: the file stays.
        let inherited = listener.listener.try_clone().unwrap();
        std::mem::forget(listener);
        drop(inherited);
        let dead = folder.path().join("dead");
        drop(UnixListener::bind(&dead).unwrap());
        let listener = SocketListener::open(&dead).unwrap();
        drop(listener);
        assert!(!dead.exists());
    }

    #[test]
    fn socket_file_whatever_the_umask_is_closed_to_other_users() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        let listener = SocketListener::open(&path).unwrap();
        assert_eq!(mode() & 0o007, 0);
        drop(listener);
        let _door = SocketListener::open_for_owner(&path).unwrap();
        assert_eq!(mode() & 0o077, 0);
    }

    #[test]
    fn take_over_replaces_live_sockets_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let inherited = UnixListener::bind(&path).unwrap();
        let listener = SocketListener::take_over(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().is_some());
        drop((inherited, listener));
        assert!(!path.exists());
        fs::write(&path, "data").unwrap();
        assert!(matches!(SocketListener::take_over(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    /// Runs in a process of its own, whose descriptors it uses up.
    #[test]
    #[ignore = "the child of the test below"]
    fn child_accepts_without_free_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = SocketListener::open(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let all: Vec<File> = std::iter::from_fn(spare).collect();
        assert!(listener.accept().is_none());
        assert_eq!(io::Read::read(&mut client, &mut [0]).unwrap(), 0, "the client is turned away");
        let (wanted, pause) = listener.wanted();
        assert!(wanted.is_empty() && pause.is_some(), "the socket is left alone for a while");
        drop(all);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().is_some());
    }

    #[test]
    fn accept_without_descriptors_closes_the_client_and_pauses() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "socket_listener::tests::child_accepts_without_free_descriptors"])
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(matches!(SocketListener::open(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_socket_that_another_has_put_there_since_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = SocketListener::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = SocketListener::open(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
