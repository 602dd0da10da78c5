//! Names of files, and what has to be on the disk before whom.
//!
//! After a loss of power a file that was just made may have no name, one that was renamed its old one, and one whose name is on
//! the disk no content. So each name is given by these functions, and each sync has a name itself: the [`NamePoint`]s.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::events::of_folder;

/// What has to be on the disk before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamePoint {
    /// The name of a new image, before anything in it is promised.
    ImageName,
    /// A copy, before it gets its name.
    CopyContent,
    /// The name of a copy, before it is said to be made.
    CopyName,
    /// An image's name, once another file has it, before anything in that is promised.
    ReplacedName,
}

impl NamePoint {
    /// Every point there is.
    pub const ALL: [Self; 4] = [Self::ImageName, Self::CopyContent, Self::CopyName, Self::ReplacedName];
}

/// Something done to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStep<'a> {
    /// A file gets another name, and whatever had that loses it.
    Rename {
        /// The name it had.
        from: &'a Path,
        /// The name it gets.
        to: &'a Path,
    },
    /// Something is put on the disk.
    Sync {
        /// What for.
        point: NamePoint,
        /// The file.
        path: &'a Path,
    },
}

/// Gives a file another name.
///
/// # Errors
/// What the system says.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    told(NameStep::Rename { from, to }, || std::fs::rename(from, to))
}

/// Waits until the name of a file is on its disk.
///
/// # Errors
/// What the system says.
pub fn sync_name(path: &Path, point: NamePoint) -> io::Result<()> {
    told(NameStep::Sync { point, path }, || put_on_disk(&File::open(folder_of(path))?))
}

/// Where a name stands.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Waits until a file without a lock, and what belongs to it, is on its disk.
pub(crate) fn sync_content(file: &File, path: &Path, point: NamePoint) -> io::Result<()> {
    told(NameStep::Sync { point, path }, || put_on_disk(file))
}

#[expect(clippy::disallowed_methods, reason = "here each such sync has a name")]
fn put_on_disk(file: &File) -> io::Result<()> {
    file.sync_all()
}

fn told<R>(step: NameStep<'_>, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let events = of_folder();
    events.iter().try_for_each(|events| events.before(&step))?;
    let done = act()?;
    events.iter().for_each(|events| events.after(&step));
    Ok(done)
}
