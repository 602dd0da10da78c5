//! A mount, from its beginning to its end.

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

use crate::error::MountError;
use crate::front::Front;
use crate::nodes::Nodes;
use crate::pseudo;
use crate::service::Service;
use crate::shared::Shared;

/// Threads that answer the kernel: a sync below holds one of them for milliseconds, and a file at home elsewhere for as long as it takes
/// to bring it below. More of them make no request slower.
const THREADS: usize = 32;

const DEVICE: &str = "/dev/fuse";

/// What is to be mounted.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder.
    pub folder: PathBuf,
    /// Where it is seen: over itself, if nothing is said.
    pub at: Option<PathBuf>,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// Other users' programs come in as well, with their own rights.
    pub allow_other: bool,
}

/// A folder that is mounted.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    shared: Arc<Shared>,
    unserved: Option<SessionError>,
}

/// How a mount was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Nothing was open.
    Clean,
    /// Programs have files of it open: it has no name any more, and goes when they close them.
    Busy,
}

impl Mounted {
    /// Mounts, and answers the kernel by threads of its own until the mount is gone: then `ended` is called. Sets what files are made
    /// with (umask) and how many may be open for all of this process.
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
        let session = Session::new(Front(Arc::clone(&shared)), &at, &config(options))
            .map_err(|cause| refused(&at, is_root, cause))?;
        let spawned = thread::Builder::new().name("byway-tdm-mount".into()).spawn(|| ended(session.run()));
        spawned.map_err(MountError::system("start a thread for", &at))?;
        Ok(Self { at, shared, unserved })
    }

    /// Where it is seen.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Why nobody serves it yet, if that is so: its files are the kernel's until somebody does.
    #[must_use]
    pub const fn unserved(&self) -> Option<&SessionError> {
        self.unserved.as_ref()
    }

    /// Takes it away. Programs that have files of it open go on, and so do the threads.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn leave(&self) -> Result<Departure, MountError> {
        match unmount(&self.at, MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => Ok(Departure::Clean),
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                unmount(&self.at, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH)
                    .map_err(MountError::system("unmount", &self.at))?;
                Ok(Departure::Busy)
            }
            Err(cause) => Err(MountError::system("unmount", &self.at)(cause)),
        }
    }

    /// Has every file that is absorbed taken down to the kernel, synced; how many that were.
    #[must_use]
    pub fn settle(&self) -> usize {
        let Shared { nodes, service, .. } = &*self.shared;
        nodes.all().iter().filter(|node| service.settle(node)).count()
    }
}

/// Takes away a mount whose process is gone.
fn clear(at: &Path) -> Result<(), MountError> {
    match rustix::fs::statfs(at) {
        Err(rustix::io::Errno::NOTCONN) => {
            unmount(at, MntFlags::MNT_DETACH).map_err(MountError::system("unmount what is left of", at))
        }
        _ => Ok(()),
    }
}

/// The folder below, held before anything is mounted over it.
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

/// What would be behind the mount that the daemon or its library has to come to: the socket, or what is mapped of it to be written, which is the
/// board and the memory.
fn own_file_in(at: &Path, socket: &Path) -> Option<PathBuf> {
    let socket = socket.canonicalize().ok().filter(|socket| socket.starts_with(at));
    socket.or_else(|| {
        let maps = std::fs::read("/proc/self/maps").ok()?;
        let shared = String::from_utf8_lossy(&maps).lines().filter_map(shared_file).collect::<Vec<_>>();
        shared.into_iter().find(|mapped| mapped.starts_with(at))
    })
}

/// A line of a process's mappings (proc(5)): the file, if what is stored there is written to it.
fn shared_file(line: &str) -> Option<PathBuf> {
    let mut words = line.splitn(6, ' ');
    let is_shared = words.nth(1)? == "rw-s";
    let name = words.nth(3)?.trim_start();
    (is_shared && name.starts_with('/')).then(|| name.into())
}

/// Modes are the kernel's to mask, and every file that it knows of is an open file here.
fn prepare() {
    rustix::process::umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    // With fewer the mount serves fewer files at once.
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
        // The program that mounts for others is not there.
        ErrorKind::NotFound if !is_root || at.exists() => MountError::NotPermitted,
        _ => MountError::system("mount over", at)(cause),
    }
}

/// Unmounts by ourselves, or by the program that does it for users.
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
    fn a_mapping_that_others_share_is_the_file_that_it_is_of() {
        let line = "7f00-7f01 rw-s 00000000 00:16 77                       /dev/shm/a board";
        assert_eq!(shared_file(line), Some("/dev/shm/a board".into()));
        for private in ["7f00-7f01 rw-p 00000000 00:16 77 /usr/lib/a", "7f00-7f01 rw-s 00000000 00:01 77"] {
            assert_eq!(shared_file(private), None);
        }
    }
}
