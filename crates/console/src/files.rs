//! Files that commands read and make, with a sentence for each way in which that fails.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use byway_sys::text::{SETTINGS_MAX_BYTES, read_at_most};
use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use crate::event::wait_for_any;
use crate::terminal::Interrupt;

/// Opens a file to read it; `-` is standard input. Of a pipe, a terminal or a device, a read ends once a signal came.
///
/// # Errors
/// When there is none, it is a directory, or it may not be read.
pub fn open(path: &Path, interrupt: &Interrupt) -> Result<Box<dyn Read>> {
    let file = match path == Path::new("-") {
        true => File::from(io::stdin().as_fd().try_clone_to_owned().context("open standard input")?),
        // To open a FIFO waits for its writer without this flag.
        false => File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .map_err(|cause| refused("open", path, cause))?,
    };
    let about = file.metadata().map_err(|cause| refused("read", path, cause))?;
    ensure!(!about.is_dir(), "{} is a directory; expected is a file", path.display());
    if about.is_file() {
        return Ok(Box::new(file));
    }
    Ok(Box::new(Interruptible { file, interrupt: interrupt.clone() }))
}

/// Interval in which a read without data checks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A file whose reads fail with [`Interrupted`](crate::terminal::Interrupted) once a signal came.
struct Interruptible {
    file: File,
    interrupt: Interrupt,
}

impl Read for Interruptible {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.interrupt.check().map_err(io::Error::other)?;
            if !wait_for_any([self.file.as_fd()], LOOK_EVERY)? {
                continue;
            }
            match self.file.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                read => return read,
            }
        }
    }
}

/// Longest file of data for one command, which is in memory whole.
pub const DATA_MAX_BYTES: u64 = 1 << 30;

/// All bytes of a file that one command sends; `-` is standard input.
///
/// # Errors
/// As [`open`], when it cannot be read, and over [`DATA_MAX_BYTES`].
pub fn read(path: &Path, interrupt: &Interrupt) -> Result<Vec<u8>> {
    read_most(&mut open(path, interrupt)?, path, DATA_MAX_BYTES)
}

/// All of a file that says how something is done, keys and secrets among it; `-` is standard input. A pipe is read to its end.
///
/// # Errors
/// As [`open`], when it cannot be read, and over [`SETTINGS_MAX_BYTES`].
pub fn read_settings(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_most(&mut io::stdin(), path, SETTINGS_MAX_BYTES);
    }
    let mut file = File::open(path).map_err(|cause| refused("open", path, cause))?;
    let is_directory = file.metadata().is_ok_and(|about| about.is_dir());
    ensure!(!is_directory, "{} is a directory; expected is a file", path.display());
    read_most(&mut file, path, SETTINGS_MAX_BYTES)
}

/// The same of a file that is read again later: a regular file.
///
/// # Errors
/// As [`read_settings`]; for a device, a pipe or a socket.
pub fn read_regular(path: &Path) -> Result<Vec<u8>> {
    // A pipe that nothing writes to is refused too, and not waited for.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let mut file = file.map_err(|cause| refused("open", path, cause))?;
    let found = file.metadata().map_err(|cause| refused("read", path, cause))?;
    let shown = path.display();
    ensure!(!found.is_dir(), "{shown} is a directory; expected is a file");
    ensure!(found.is_file(), "{shown} is a device, a pipe or a socket; expected is a regular file");
    read_most(&mut file, path, SETTINGS_MAX_BYTES)
}

fn read_most(from: &mut dyn Read, path: &Path, most_bytes: u64) -> Result<Vec<u8>> {
    read_at_most(from, most_bytes).with_context(|| format!("read {}", path.display()))
}

/// Has the words of each line of a file taken; empty lines and those that begin with `#` say nothing.
///
/// # Errors
/// As [`read_settings`]; what `take` says of a line, with its number.
pub fn for_each_line_of_words(path: &Path, mut take: impl FnMut(&[&str]) -> Result<()>) -> Result<()> {
    let bytes = read_settings(path)?;
    for (at, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|first| !first.starts_with('#')) {
            take(&words).with_context(|| format!("{}, line {}", path.display(), at + 1))?;
        }
    }
    Ok(())
}

/// Makes a new file.
///
/// # Errors
/// When there is such a file already, or no folder for it, or it may not be made.
pub fn create_new(path: &Path) -> Result<File> {
    File::create_new(path).map_err(|cause| refused("make", path, cause))
}

/// Writes a file anew in one step: a reader finds the old one or the new one, whole. A symbolic link of that name is replaced, not
/// followed, and no other file is touched.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |cause| refused("write", path, cause);
    let mut new = beside(path).map_err(failed)?;
    new.write_all(bytes).map_err(failed)?;
    new.persist(path).map_err(|kept| failed(kept.error))?;
    Ok(())
}

/// A temporary file in the folder of `path`.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any new file: the umask takes from it.
    let mode = Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(mode).tempfile_in(folder)
}

/// As [`replace`], for a file that is too long to be in memory: written piece by piece, in place once it is
/// [finished](Self::finish), and removed otherwise.
#[derive(Debug)]
pub struct Replacement {
    new: NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// When no file can be made in its folder, and where `path` is anything but a regular file.
    pub fn of(path: &Path) -> Result<Self> {
        if let Ok(found) = path.metadata() {
            let shown = path.display();
            ensure!(!found.is_dir(), "{shown} is a directory; expected is a file");
            ensure!(found.is_file(), "{shown} is a device, a pipe or a socket; expected is a regular file");
        }
        let new = beside(path).map_err(|cause| refused("write", path, cause))?;
        Ok(Self { new, path: path.to_owned() })
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the file in its place, and says how long it is.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn finish(self) -> Result<u64> {
        let failed = |cause| refused("write", &self.path, cause);
        let file = self.new.persist(&self.path).map_err(|kept| failed(kept.error))?;
        Ok(file.metadata().map_err(failed)?.len())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.new.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.new.flush()
    }
}

/// Why a file cannot be had.
pub fn refused(doing: &str, path: &Path, cause: io::Error) -> Error {
    let shown = path.display();
    let has_folder = path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.exists());
    match cause.kind() {
        ErrorKind::AlreadyExists => anyhow::anyhow!("{shown} exists already and is left as it is"),
        ErrorKind::NotFound if !has_folder => anyhow::anyhow!("there is no folder for {shown}"),
        ErrorKind::NotFound => anyhow::anyhow!("{shown} does not exist"),
        ErrorKind::IsADirectory => anyhow::anyhow!("{shown} is a directory; expected is a file"),
        _ => Error::new(cause).context(format!("{doing} {shown}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn said(read: Result<Vec<u8>>) -> String {
        format!("{:#}", read.unwrap_err())
    }

    #[test]
    fn settings_without_end_are_refused_at_the_limit() {
        assert!(said(read_settings(Path::new("/dev/zero"))).contains("longer than 1 MiB"));
    }

    #[test]
    fn settings_that_are_read_again_are_a_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, pipe) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_regular(&link).unwrap(), b"text");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for other in [Path::new("/dev/zero"), &pipe] {
            assert!(said(read_regular(other)).contains("expected is a regular file"), "{other:?}");
        }
        assert!(said(read_regular(folder.path())).contains("is a directory"));
        std::fs::write(&file, vec![b' '; (SETTINGS_MAX_BYTES + 1) as usize]).unwrap();
        assert!(said(read_regular(&file)).contains("longer than 1 MiB"));
        std::fs::write(&file, vec![b' '; SETTINGS_MAX_BYTES as usize]).unwrap();
        assert_eq!(read_regular(&file).unwrap().len() as u64, SETTINGS_MAX_BYTES);
    }

    #[test]
    fn replacement_appears_once_it_is_finished_and_leaves_nothing_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let begun = |text: &str| {
            let mut new = Replacement::of(&path).unwrap();
            new.write_all(text.as_bytes()).unwrap();
            new
        };
        drop(begun("dropped"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(begun("newer").finish().unwrap(), 5);
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        for (other, said) in
            [(Path::new("/dev/null"), "expected is a regular file"), (folder.path(), "is a directory")]
        {
            assert!(Replacement::of(other).unwrap_err().to_string().contains(said));
        }
    }
}
