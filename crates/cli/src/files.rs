//! Files that commands read and make, with a sentence for each way in which that fails.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Error, Result};

/// Opens a file to read it; `-` is standard input.
///
/// # Errors
/// When there is none, it is a directory, or it may not be read.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).map_err(|cause| refused("open", path, cause))?;
    let is_directory = file.metadata().is_ok_and(|about| about.is_dir());
    anyhow::ensure!(!is_directory, "{} is a directory; expected is a file", path.display());
    Ok(Box::new(file))
}

/// All bytes of a file; `-` is standard input.
///
/// # Errors
/// As [`open`], and when it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).with_context(|| format!("read {}", path.display()))?;
    Ok(bytes)
}

/// Has the words of each line of a file taken; empty lines and those that begin with `#` say nothing.
///
/// # Errors
/// As [`read`]; what `take` says of a line, with its number.
pub fn for_each_line_of_words(path: &Path, mut take: impl FnMut(&[&str]) -> Result<()>) -> Result<()> {
    let bytes = read(path)?;
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any new file: the umask takes from it.
    let mode = Permissions::from_mode(0o666);
    let mut new = tempfile::Builder::new().permissions(mode).tempfile_in(folder).map_err(failed)?;
    new.write_all(bytes).map_err(failed)?;
    new.persist(path).map_err(|kept| failed(kept.error))?;
    Ok(())
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
