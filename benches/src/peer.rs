//! The other side of what is measured between two processes: the bench's own program once more.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Result;
use byway::serve::{ServeOptions, Served, serve};

/// The other side's process, ended when it is dropped.
#[derive(Debug)]
pub struct Peer(Child);

impl Peer {
    /// Starts this program with other arguments.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?);
        Ok(Self(process.args(arguments).stdin(Stdio::piped()).spawn()?))
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Serves the device at `uri` until the process that started this one drops its [`Peer`], or ends; `begun` is called once it is
/// served.
///
/// # Errors
/// When it cannot be opened or served.
pub fn serve_for_peer(
    uri: &str,
    options: &ServeOptions,
    begun: impl FnOnce(&Served) -> Result<()>,
) -> Result<()> {
    let served = serve(uri, options)?;
    begun(&served)?;
    let stop = served.stopper();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        stop.stop();
    });
    served.run(|_| {})?;
    Ok(())
}

/// A folder for the socket of a bench, gone with it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A folder that is named after the bench and this process.
    ///
    /// # Errors
    /// What the file system says.
    pub fn of(bench: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("byway-{bench}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The folder under the system's folder for temporary files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
