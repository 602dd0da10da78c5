//! Requests to the daemon.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use byway_console::files;
use byway_tdm_daemon::{FileReport, Report};
use byway_tdm_engine::control::{Channel, Reply, Request};
use byway_tdm_engine::table::{FileKey, Identified, lower_of};
use rustix::fs::{Mode, OFlags, open};

/// Time limit of a request. The daemon may have to sync a file first.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to the daemon.
///
/// # Errors
/// No daemon listens; the message says what helps.
pub fn connect(socket: &Path) -> Result<Channel> {
    Channel::connect(socket, LOCK_TIMEOUT).map_err(|cause| refused(socket, cause))
}

fn refused(socket: &Path, cause: io::Error) -> anyhow::Error {
    let at = socket.display();
    match cause.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow!(
                "no daemon listens at {at}: start one by `byway tdm serve`, or name its socket by --socket; `byway tdm recover` \
                 writes back what a killed one left"
            )
        }
        _ => anyhow::Error::new(cause).context(format!("the daemon at {at} cannot be asked")),
    }
}

/// The daemon's report.
///
/// # Errors
/// The daemon does not answer, or not understandably.
pub fn report(channel: &Channel) -> Result<Report> {
    let (reply, _) = channel.ask(Request::Report, &[]).context("the daemon does not answer")?;
    let Reply::Text(len_bytes) = reply else { return Err(unexpected(reply)) };
    let text = channel.text(len_bytes).context("the daemon does not answer")?;
    serde_json::from_str(&text).context("the daemon is of another version: its report is not understood")
}

/// An error for a reply of another kind.
pub fn unexpected(reply: Reply) -> anyhow::Error {
    match reply {
        Reply::Refused(why) => anyhow!("the daemon refuses: {why}"),
        _ => anyhow!("the daemon is of another version: its answer is not understood"),
    }
}

/// A file by path, with links and our mounts resolved.
#[derive(Debug)]
pub struct NamedFile {
    /// Path without links.
    pub path: PathBuf,
    /// Its identity; `None` if it can have no log.
    pub identified: Option<Identified>,
}

impl NamedFile {
    /// Finds a file.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn find(name: &Path) -> Result<Self> {
        let path = std::fs::canonicalize(name).map_err(|cause| files::refused("find", name, cause))?;
        let identified = match lower_of(&path) {
            // O_PATH has no effect on what is opened.
            Some(lower) => FileKey::of(open(lower, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?),
            None => FileKey::at(&CString::new(path.as_os_str().as_bytes())?),
        };
        let identified = identified.with_context(|| format!("look at {}", path.display()))?;
        Ok(Self { path, identified })
    }

    /// Its part of a report.
    pub fn reported_in<'r>(&self, report: &'r Report) -> Option<&'r FileReport> {
        let key = key_words(self.identified?.key);
        report.users.iter().flat_map(|user| &user.files).find(|file| file.key == key)
    }
}

/// A key in the form of reports.
pub const fn key_words(key: FileKey) -> [u64; 3] {
    [key.device, key.inode, key.born_ns]
}
