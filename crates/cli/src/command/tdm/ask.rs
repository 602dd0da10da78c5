//! Asking the daemon.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use byway_tdm_daemon::{FileReport, Report};
use byway_tdm_engine::control::{Channel, Reply, Request};
use byway_tdm_engine::table::{FileKey, Identified, lower_of};
use rustix::fs::{Mode, OFlags, open};

use crate::files;

/// How long the daemon has for an answer. It may have to sync a file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to the daemon.
///
/// # Errors
/// Where none listens, with what helps.
pub fn connect(socket: &Path) -> Result<Channel> {
    Channel::connect(socket, LOCK_TIMEOUT).map_err(|cause| refused(socket, cause))
}

fn refused(socket: &Path, cause: io::Error) -> anyhow::Error {
    let at = socket.display();
    match cause.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow!(
                "no daemon listens at {at}: start one by `byway tdm serve`, or name its socket by --socket"
            )
        }
        _ => anyhow::Error::new(cause).context(format!("the daemon at {at} cannot be asked")),
    }
}

/// The daemon's report.
///
/// # Errors
/// A daemon that does not answer, or in no way that is understood.
pub fn report(channel: &Channel) -> Result<Report> {
    let (reply, _) = channel.ask(Request::Report, &[]).context("the daemon does not answer")?;
    let Reply::Text(len_bytes) = reply else { return Err(unexpected(reply)) };
    let text = channel.text(len_bytes).context("the daemon does not answer")?;
    serde_json::from_str(&text).context("the daemon is of another version: its report is not understood")
}

/// An answer that belongs to no such request.
pub fn unexpected(reply: Reply) -> anyhow::Error {
    match reply {
        Reply::Refused(why) => anyhow!("the daemon refuses: {why}"),
        _ => anyhow!("the daemon is of another version: its answer is not understood"),
    }
}

/// A file by its name, as links lead to it, and a mount of ours.
#[derive(Debug)]
pub struct NamedFile {
    /// Without links.
    pub path: PathBuf,
    /// What the daemon would know of it; none for what can have no log.
    pub identified: Option<Identified>,
}

impl NamedFile {
    /// Looks for a file.
    ///
    /// # Errors
    /// When it is not there.
    pub fn find(name: &Path) -> Result<Self> {
        let path = std::fs::canonicalize(name).map_err(|cause| files::refused("find", name, cause))?;
        let identified = match lower_of(&path) {
            // Opened so, nothing happens to whatever it is.
            Some(lower) => FileKey::of(open(lower, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?),
            None => FileKey::at(&CString::new(path.as_os_str().as_bytes())?),
        };
        let identified = identified.with_context(|| format!("look at {}", path.display()))?;
        Ok(Self { path, identified })
    }

    /// What a report describes it.
    pub fn reported_in<'r>(&self, report: &'r Report) -> Option<&'r FileReport> {
        let key = key_words(self.identified?.key);
        report.users.iter().flat_map(|user| &user.files).find(|file| file.key == key)
    }
}

/// A key as reports have it.
pub const fn key_words(key: FileKey) -> [u64; 3] {
    [key.device, key.inode, key.born_ns]
}
