//! The socket's file: made, taken over from a server that died, and removed.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byway_sys::{FileId, OwnerProcess, handover};
use rustix::event::PollFlags;
use rustix::io::Errno;

/// How long nobody is let in once the system had no descriptor for who came.
const REST: Duration = Duration::from_millis(100);

/// Permission bits of a socket that other users have no business with.
const NOT_FOR_OTHERS: u32 = 0o770;

/// Permission bits of a socket for its owner.
const FOR_OWNER: u32 = 0o600;

/// Why there is no socket to listen at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// Another server listens there.
    #[error("{0}: a server listens at this socket")]
    Live(PathBuf),
    /// The path is that of something else, which is left alone.
    #[error("{0} is there and is no socket")]
    NoSocket(PathBuf),
    /// The system's answer.
    #[error("{path}: {source}")]
    System {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A socket that is listened at. Its file is removed with it.
#[derive(Debug)]
pub struct Door {
    owner: OwnerProcess,
    listener: UnixListener,
    path: PathBuf,
    /// The socket that was bound: another file may have its name by now.
    bound: FileId,
    /// A descriptor that is given up for one who comes when none is left, so that he can be turned away.
    spare: RefCell<Option<File>>,
    /// Nobody is let in until then.
    rests_until: Cell<Option<Instant>>,
}

impl Door {
    /// Whether somebody could listen at `path`, before what is to be served is opened.
    ///
    /// # Errors
    /// As [`Door::open`], but for what the system says of the folder.
    pub fn check(path: &Path) -> Result<(), DoorError> {
        match fs::symlink_metadata(path) {
            Ok(_) => clear(path),
            Err(_) => Ok(()),
        }
    }

    /// Listens at `path`. A socket that a dead server left there is replaced. Users who are neither the owner nor of its
    /// group may not connect, whatever the umask.
    ///
    /// # Errors
    /// As [`DoorError`] says.
    pub fn open(path: &Path) -> Result<Self, DoorError> {
        Self::bind(path, NOT_FOR_OTHERS, clear)
    }

    /// Listens at `path` for the owner alone. Whatever socket is there is replaced without a look whether anything listens
    /// at it: the caller holds a lock without which none could be made there.
    ///
    /// # Errors
    /// As [`Door::open`], except [`DoorError::Live`].
    pub fn take_over(path: &Path) -> Result<Self, DoorError> {
        Self::bind(path, FOR_OWNER, remove_socket)
    }

    /// The same for a name that other processes may have taken before, and keep.
    ///
    /// # Errors
    /// As [`Door::open`].
    pub fn open_for_owner(path: &Path) -> Result<Self, DoorError> {
        Self::bind(path, FOR_OWNER, clear)
    }

    fn bind(
        path: &Path,
        mode: u32,
        make_room: impl FnOnce(&Path) -> Result<(), DoorError>,
    ) -> Result<Self, DoorError> {
        let system = |source| DoorError::System { path: path.to_owned(), source };
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
            rests_until: Cell::new(None),
        })
    }

    /// Who has come, if anybody.
    #[must_use]
    pub fn accept(&self) -> Option<UnixStream> {
        match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) => {
                // One that went away again before it was let in is nobody.
                let errno = Errno::from_io_error(&error);
                if matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
                    self.turn_away();
                }
                None
            }
        }
    }

    /// Turns one away whom the process has no descriptor for. Whoever else comes waits a while: the socket is ready for as
    /// long as they do.
    #[cold]
    fn turn_away(&self) {
        self.rests_until.set(Some(Instant::now() + REST));
        if self.spare.take().is_some() {
            drop(self.listener.accept());
        }
        self.spare.replace(spare());
    }

    /// What to wait for at the socket, and for how long nobody is let in.
    #[must_use]
    pub fn wanted(&self) -> (PollFlags, Option<Duration>) {
        let rests = self.rests_until.get().map(|until| until.saturating_duration_since(Instant::now()));
        match rests.filter(|rests| !rests.is_zero()) {
            Some(rests) => (PollFlags::empty(), Some(rests)),
            None => (PollFlags::IN, None),
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Door {
    /// A forked child leaves the socket to its parent, which goes on listening.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        if FileId::at(&self.path).is_ok_and(|found| found == self.bound) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket, and nothing else.
fn remove_socket(path: &Path) -> Result<(), DoorError> {
    check_socket(path)?;
    fs::remove_file(path).map_err(|source| DoorError::System { path: path.to_owned(), source })
}

fn check_socket(path: &Path) -> Result<(), DoorError> {
    let system = |source| DoorError::System { path: path.to_owned(), source };
    match fs::symlink_metadata(path).map_err(system)?.file_type().is_socket() {
        true => Ok(()),
        false => Err(DoorError::NoSocket(path.to_owned())),
    }
}

/// Removes a socket that no server listens at.
fn clear(path: &Path) -> Result<(), DoorError> {
    let system = |source| DoorError::System { path: path.to_owned(), source };
    check_socket(path)?;
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(system),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(system(error)),
        // A server whose queue is full is alive too.
        _ => Err(DoorError::Live(path.to_owned())),
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
        let door = Door::open(&path).unwrap();
        assert!(matches!(Door::open(&path), Err(DoorError::Live(_))));
        // As after a kill: the file stays.
        let listener = door.listener.try_clone().unwrap();
        std::mem::forget(door);
        drop(listener);
        let dead = folder.path().join("dead");
        drop(UnixListener::bind(&dead).unwrap());
        let door = Door::open(&dead).unwrap();
        drop(door);
        assert!(!dead.exists());
    }

    #[test]
    fn door_lets_no_other_users_in_whatever_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        let door = Door::open(&path).unwrap();
        assert_eq!(mode() & 0o007, 0);
        drop(door);
        let _door = Door::open_for_owner(&path).unwrap();
        assert_eq!(mode() & 0o077, 0);
    }

    #[test]
    fn door_that_takes_over_replaces_live_sockets_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let inherited = UnixListener::bind(&path).unwrap();
        let door = Door::take_over(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        assert!(door.accept().is_some());
        drop((inherited, door));
        assert!(!path.exists());
        fs::write(&path, "data").unwrap();
        assert!(matches!(Door::take_over(&path), Err(DoorError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    /// Runs in a process of its own, whose descriptors it uses up.
    #[test]
    #[ignore = "the child of the test below"]
    fn comes_when_no_descriptor_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let door = Door::open(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let all: Vec<File> = std::iter::from_fn(spare).collect();
        assert!(door.accept().is_none());
        assert_eq!(io::Read::read(&mut client, &mut [0]).unwrap(), 0, "the client is turned away");
        let (wanted, rests) = door.wanted();
        assert!(wanted.is_empty() && rests.is_some(), "the socket is left alone for a while");
        drop(all);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(door.accept().is_some());
    }

    #[test]
    fn who_comes_when_no_descriptor_is_left_is_turned_away_and_the_socket_is_left_alone_for_a_while() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "door::tests::comes_when_no_descriptor_is_left"])
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(matches!(Door::open(&path), Err(DoorError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_socket_that_another_has_put_there_since_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Door::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Door::open(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
