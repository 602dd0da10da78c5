//! A mount from beginning to end.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use byway_tdm_engine::client::SessionError;
use byway_tdm_engine::table::is_in_mount;
use fuser::{Config, MountOption, Session, SessionACL};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, info};

use crate::error::MountError;
use crate::fuse::FuseFilesystem;
use crate::nodes::Nodes;
use crate::pseudo;
use crate::service::Service;
use crate::shared::Shared;

/// Threads that answer requests. A real sync holds one for milliseconds, and a demotion elsewhere for as long as it takes. More threads would
/// make no request slower.
const THREADS: usize = 32;

const DEVICE: &str = "/dev/fuse";

/// Options of a mount.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The folder.
    pub folder: PathBuf,
    /// The mount point; the folder itself by default.
    pub at: Option<PathBuf>,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// Other users' programs may use it, with their own rights.
    pub allow_other: bool,
}

impl Options {
    /// A mount over `folder` itself, for the user's own programs.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, socket: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), at: None, socket: socket.into(), allow_other: false }
    }

    byway_sys::setters! {
        /// The mount point; `None` for the folder itself.
        at: impl Into<Option<PathBuf>>;
        /// Other users' programs may use it, with their own rights.
        allow_other: bool;
    }
}

/// A mounted folder.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    shared: Arc<Shared>,
    unserved: Option<SessionError>,
}

/// Result of an unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// No file was open.
    Clean,
    /// Files are open: the mount has no name any more and ends with their last close.
    Busy,
}

impl Mounted {
    /// Mounts a folder and answers requests by its own threads. Calls `ended` once the mount is gone. Changes the umask and the limit of open files
    /// of this process.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn begin(
        options: &Options,
        ended: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> Result<Self, MountError> {
        if !Path::new(DEVICE).exists() {
            return Err(MountError::NoDevice);
        }
        let is_root = rustix::process::geteuid().is_root();
        if options.allow_other && !is_root {
            return Err(MountError::OthersNeedRoot);
        }
        let at = std::path::absolute(options.at.as_ref().unwrap_or(&options.folder))
            .map_err(MountError::system("find", &options.folder))?;
        clear(&at)?;
        let at = at.canonicalize().map_err(MountError::system("find", &at))?;
        if let Some(of) = pseudo::kind(&at) {
            return Err(MountError::Pseudo(at, of));
        }
        let root = open_folder(&options.folder)?;
        let nodes = Nodes::new(root).map_err(MountError::system("look at", &options.folder))?;
        let service = Service::new(options.socket.clone());
        let unserved = service.begin().err();
        if let Some(own) = own_file_in(&at, &options.socket) {
            return Err(MountError::HoldsItsOwn(at, own));
        }
        let shared = Arc::new(Shared::new(nodes, service));
        prepare();
        let session = Session::new(FuseFilesystem(Arc::clone(&shared)), &at, &config(options))
            .map_err(|cause| refused(&at, is_root, cause))?;
        let run = || {
            let result = without_abort(session.run());
            info!(error = ?result.as_ref().err(), "mount ended");
            ended(result);
        };
        let spawned = thread::Builder::new().name("byway-tdm-mount".into()).spawn(run);
        spawned.map_err(MountError::system("start a thread for", &at))?;
        info!(?at, folder = ?options.folder, is_served = unserved.is_none(), "mount begun");
        Ok(Self { at, shared, unserved })
    }

    /// The mount point.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Why no daemon serves the mount, if none does: its files are at PASS until one does.
    #[must_use]
    pub const fn unserved(&self) -> Option<&SessionError> {
        self.unserved.as_ref()
    }

    /// Unmounts. Programs with open files continue, and so do the threads.
    ///
    /// # Errors
    /// The system's error.
    pub fn leave(&self) -> Result<Departure, MountError> {
        match unmount(&self.at, MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => Ok(Departure::Clean),
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                debug!(at = ?self.at, "files are open: the mount ends with their last close");
                unmount(&self.at, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH)
                    .map_err(MountError::system("unmount", &self.at))?;
                Ok(Departure::Busy)
            }
            Err(cause) => Err(MountError::system("unmount", &self.at)(cause)),
        }
    }

    /// Demotes every absorbed file to PASS; returns their number.
    #[must_use]
    pub fn settle(&self) -> usize {
        self.shared.nodes().all().iter().filter(|node| self.shared.service().settle(node)).count()
    }
}

/// A mount that the kernel ends while a thread takes a request ends as any other: that thread gets ECONNABORTED in place of ENODEV.
fn without_abort(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(()),
        result => result,
    }
}

/// Unmounts a mount whose process is gone.
fn clear(at: &Path) -> Result<(), MountError> {
    match rustix::fs::statfs(at) {
        Err(rustix::io::Errno::NOTCONN) => {
            unmount(at, MntFlags::MNT_DETACH).map_err(MountError::system("unmount what is left of", at))
        }
        _ => Ok(()),
    }
}

/// Opens the folder below, before anything is mounted over it.
fn open_folder(folder: &Path) -> Result<OwnedFd, MountError> {
    if is_in_mount(folder) {
        return Err(MountError::InMount(folder.to_owned()));
    }
    if let Some(of) = pseudo::kind(folder) {
        return Err(MountError::Pseudo(folder.to_owned(), of));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(folder, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NOTDIR => MountError::NotAFolder(folder.to_owned()),
        error => MountError::system("open", folder)(error.into()),
    })
}

/// A file under the mount point that the daemon or the client needs: the socket, or what is mapped of it writable (shared file table, memory).
fn own_file_in(at: &Path, socket: &Path) -> Option<PathBuf> {
    let socket = socket.canonicalize().ok().filter(|socket| socket.starts_with(at));
    socket.or_else(|| {
        let maps = std::fs::read("/proc/self/maps").ok()?;
        let shared = String::from_utf8_lossy(&maps).lines().filter_map(shared_file).collect::<Vec<_>>();
        shared.into_iter().find(|mapped| mapped.starts_with(at))
    })
}

/// The file of a shared, writable mapping (proc(5)).
fn shared_file(line: &str) -> Option<PathBuf> {
    let mut words = line.splitn(6, ' ');
    let is_shared = words.nth(1)? == "rw-s";
    let name = words.nth(3)?.trim_start();
    (is_shared && name.starts_with('/')).then(|| name.into())
}

/// The kernel applies the umask; each inode it knows is an open file here.
fn prepare() {
    rustix::process::umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    // With a lower limit the mount serves fewer files at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.folder.display().to_string()),
        MountOption::Subtype("byway".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

fn refused(at: &Path, is_root: bool, cause: io::Error) -> MountError {
    match cause.kind() {
        ErrorKind::PermissionDenied => MountError::NotPermitted,
        // fusermount is missing.
        ErrorKind::NotFound if !is_root || at.exists() => MountError::NotPermitted,
        _ => MountError::system("mount over", at)(cause),
    }
}

/// Unmounts directly, or by fusermount for users.
fn unmount(at: &Path, flags: MntFlags) -> io::Result<()> {
    match umount2(at, flags) {
        Err(Errno::EPERM) => unmount_for_user(at, flags.contains(MntFlags::MNT_DETACH)),
        result => Ok(result?),
    }
}

fn unmount_for_user(at: &Path, is_lazy: bool) -> io::Result<()> {
    let how = if is_lazy { "-uqz" } else { "-uq" };
    let arguments = [OsStr::new(how), OsStr::new("--"), at.as_os_str()];
    let status = Command::new("fusermount3").args(arguments).stderr(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(Errno::EBUSY.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mapping_line_names_its_file() {
        let line = "7f00-7f01 rw-s 00000000 00:16 77                       /dev/shm/a table";
        assert_eq!(shared_file(line), Some("/dev/shm/a table".into()));
        for private in ["7f00-7f01 rw-p 00000000 00:16 77 /usr/lib/a", "7f00-7f01 rw-s 00000000 00:01 77"] {
            assert_eq!(shared_file(private), None);
        }
    }
}
