//! The folder of a user's control sockets: where a process that has an image open listens, and where others look for it.
//!
//! A socket is named after its image's device and inode, so that every name of the image leads to it. Its folder belongs to
//! the user of the process, and only that user and root can make files there. Both ends check each other: the listener
//! takes requests of its own user and of root; a client sends nothing before it has found, by the folder, the socket and
//! `SO_PEERCRED`, that the listener is of its own user, of the image's owner or of root (decision 57).

use std::fmt;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use byway_flash::Flash;
use byway_sys::handover::{self, UNMAPPED_UID};
use byway_sys::runtime_folder::{check_folder, folders_of, look, own_folder};
use byway_sys::{ImageFile, SocketListener};

/// What is asked at a control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For copies of the image.
    Snapshot,
    /// For changes of what is served.
    Serve,
}

impl Purpose {
    fn name_of(self, (device, inode): (u64, u64)) -> String {
        let ending = match self {
            Self::Snapshot => "snapshot",
            Self::Serve => "serve",
        };
        format!("{device:x}-{inode:x}.{ending}")
    }
}

/// Where other processes of this user, and root, reach the process that has an image open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlSocket {
    /// At this socket.
    At(PathBuf),
    /// Nowhere, for this reason.
    Missing(String),
}

impl ControlSocket {
    /// Why there is none.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::At(_) => None,
            Self::Missing(why) => Some(why),
        }
    }
}

impl fmt::Display for ControlSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(path) => write!(f, "{}", path.display()),
            Self::Missing(why) => write!(f, "none: {why}"),
        }
    }
}

/// An image that this process has open.
#[derive(Debug, Clone)]
pub(crate) struct OpenImage {
    id: (u64, u64),
    /// Its file, which the device alone keeps open.
    file: Weak<ImageFile>,
    /// Other processes may have it open too: it is open for reading.
    is_shared: bool,
}

impl OpenImage {
    /// That of a device, if it has one.
    pub fn of(flash: &Flash) -> Option<Self> {
        Some(Self {
            id: flash.image_id()?,
            file: Arc::downgrade(&flash.image_file()?),
            is_shared: flash.is_opened_to_read(),
        })
    }

    /// Whether other processes may have it open for reading too.
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Its path, if another program has truncated or overwritten it since it was opened. Loads four words; no system call.
    pub fn damaged(&self) -> Option<PathBuf> {
        let file = self.file.upgrade()?;
        file.is_truncated().then(|| file.path().to_owned())
    }

    /// Listens for requests about it; where, or why not.
    pub fn listen(&self, purpose: Purpose) -> Result<(SocketListener, PathBuf), String> {
        let folder = own_folder()?;
        remove_dead(&folder);
        let path = folder.join(purpose.name_of(self.id));
        let socket = match self.is_shared {
            true => SocketListener::open_for_owner(&path),
            // What is there was left by a process that had the image before: this one has its lock.
            false => SocketListener::take_over(&path),
        };
        socket.map(|socket| (socket, path)).map_err(|error| error.to_string())
    }
}

/// Connects to the process that has an image open, if it may be trusted with what is to be sent.
///
/// # Errors
/// A sentence: there is none, or it is another user's.
pub(crate) fn connect(image: &Path, purpose: Purpose, timeout: Duration) -> Result<UnixStream, String> {
    let found = image.metadata().map_err(|error| error.to_string())?;
    let name = purpose.name_of((found.dev(), found.ino()));
    let (mut looked, mut refused) = (Vec::new(), Vec::new());
    for uid in trusted(&found) {
        for folder in folders_of(uid) {
            match connect_in(&folder, &name, uid, timeout) {
                Ok(Some(stream)) => return Ok(stream),
                Ok(None) => looked.push(folder.display().to_string()),
                Err(why) => refused.push(why),
            }
        }
    }
    match refused.is_empty() {
        true => Err(format!("there is no socket of it in {}", looked.join(" or "))),
        false => Err(refused.join("; ")),
    }
}

/// Users whose servers a client trusts: its own and, if the client is root, the image's owner. A server of root is always
/// trusted.
fn trusted(image: &Metadata) -> Vec<u32> {
    let me = rustix::process::geteuid();
    let owner = Some(image.uid()).filter(|owner| me.is_root() && *owner != 0 && *owner != UNMAPPED_UID);
    std::iter::once(me.as_raw()).chain(owner).collect()
}

/// Number of sockets in a folder above which those of killed processes are removed.
const SOCKETS_MANY: usize = 64;

/// A socket that is younger may not be listened at yet.
const DEAD_AFTER: Duration = Duration::from_secs(3600);

/// Removes sockets of processes that were killed and whose images nothing opened again, where there are many sockets.
fn remove_dead(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let sockets: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    if sockets.len() <= SOCKETS_MANY {
        return;
    }
    for socket in sockets.iter().filter(|socket| is_dead(socket)) {
        let _ = std::fs::remove_file(socket);
    }
}

fn is_dead(socket: &Path) -> bool {
    let is_old = |found: &Metadata| {
        found.file_type().is_socket()
            && found.modified().is_ok_and(|made| made.elapsed().is_ok_and(|age| age > DEAD_AFTER))
    };
    let asked = || handover::connect(socket, Duration::from_millis(1));
    socket.symlink_metadata().is_ok_and(|found| is_old(&found))
        && asked().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Connects to a user's socket; `None` where there is none.
fn connect_in(folder: &Path, name: &str, uid: u32, timeout: Duration) -> Result<Option<UnixStream>, String> {
    let socket = folder.join(name);
    let (Some(found), Some(named)) = (look(folder)?, look(&socket)?) else { return Ok(None) };
    check_folder(folder, &found, uid)?;
    let shown = socket.display();
    if !named.file_type().is_socket() {
        return Err(format!("{shown} is no socket"));
    }
    let stream = match handover::connect(&socket, timeout) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            return Err(format!("the process that listened at {shown} has ended"));
        }
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let (peer, _) = handover::peer(&stream).map_err(|error| format!("{shown}: {error}"))?;
    match peer == uid || peer == 0 {
        true => Ok(Some(stream)),
        false => Err(format!("user {peer} listens at {shown}, who is neither user {uid} nor root")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use rustix::fs::{Timespec, Timestamps};

    use super::*;

    fn of(time: SystemTime) -> Timespec {
        Timespec::try_from(time.duration_since(UNIX_EPOCH).unwrap()).unwrap()
    }

    #[test]
    fn sockets_of_killed_processes_are_removed_where_there_are_many() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - 2 * DEAD_AFTER;
        let age = |path: &Path| {
            let (at, times) =
                (rustix::fs::CWD, Timestamps { last_access: of(long_ago), last_modification: of(long_ago) });
            rustix::fs::utimensat(at, path, &times, rustix::fs::AtFlags::empty()).unwrap();
        };
        let socket =
            |name: &str| (folder.path().join(name), UnixListener::bind(folder.path().join(name)).unwrap());
        let (live, listener) = socket("live");
        age(&live);
        let (young, _) = socket("young");
        for dead in 0..SOCKETS_MANY {
            age(&socket(&format!("dead{dead}")).0);
        }
        remove_dead(folder.path());
        assert!(live.exists() && young.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        drop(listener);
        remove_dead(folder.path());
        assert!(live.exists(), "few are left alone");
    }

    #[test]
    fn names_differ_by_image_and_purpose_and_fit_an_address() {
        let most = (u64::MAX, u64::MAX);
        let of = |purpose: Purpose, id| folders_of(u32::MAX)[0].join(purpose.name_of(id));
        assert!(of(Purpose::Snapshot, most).as_os_str().len() <= 107);
        assert_ne!(of(Purpose::Snapshot, most), of(Purpose::Serve, most));
        assert_ne!(of(Purpose::Serve, (1, 23)), of(Purpose::Serve, (12, 3)));
    }
}
