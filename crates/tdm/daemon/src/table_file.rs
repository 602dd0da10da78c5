//! The file of a user's shared file table: host memory mapped by programs, in a folder that anyone may write to.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use byway_sys::map::Sharing;
use byway_sys::{Mapping, dax};
use byway_tdm_engine::table::{FILE_TABLE_BYTES, FileTable};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, major, minor, open as open_file};

use crate::error::DaemonError;
use crate::maps::mapped_files;

/// Opens the user's table at a path, or makes one. `memory` is the memory of the user's logs of this boot, if there are any.
///
/// # Errors
/// [`DaemonError::OtherFileTable`] if programs use a table of another version, or one that is gone: they may log by it.
pub(crate) fn open(path: &Path, uid: u32, memory: Option<&File>) -> Result<(FileTable, File), DaemonError> {
    if let Some(found) = found(path, uid)? {
        return Ok(found);
    }
    if let Some(memory) = memory {
        let about = memory.metadata().map_err(DaemonError::system(path, "see who uses its memory"))?;
        refuse_users(path, about.dev(), about.ino())?;
    }
    make(path, uid)
}

fn found(path: &Path, uid: u32) -> Result<Option<(FileTable, File)>, DaemonError> {
    let system = |doing| DaemonError::system(path, doing);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open_file(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system("open it")(error.into())),
    };
    let about = file.metadata().map_err(system("measure it"))?;
    let me = rustix::process::geteuid().as_raw();
    // A file of a third user: no program was given it.
    if !about.is_file() || ![me, uid].contains(&about.uid()) {
        return Ok(None);
    }
    if about.len() == FILE_TABLE_BYTES as u64 {
        reserve(path, &file)?;
        if let Ok(file_table) = FileTable::open(map(&file).map_err(system("map it"))?) {
            return Ok(Some((file_table, file)));
        }
    }
    refuse_users(path, about.dev(), about.ino()).map(|()| None)
}

fn refuse_users(path: &Path, device: u64, inode: u64) -> Result<(), DaemonError> {
    match users_of(device, inode) {
        users if users.is_empty() => Ok(()),
        users => Err(DaemonError::OtherFileTable { path: path.to_owned(), users }),
    }
}

fn make(path: &Path, uid: u32) -> Result<(FileTable, File), DaemonError> {
    let system = |doing| DaemonError::system(path, doing);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(system("take it away")(error)),
        _ => {}
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = open_file(path, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(made.map_err(|e| system("make it")(e.into()))?);
    reserve(path, &file).inspect_err(|_| drop(std::fs::remove_file(path)))?;
    if rustix::process::geteuid().is_root() {
        fchown(&file, Some(Uid::from_raw(uid)), None::<Gid>).map_err(|e| system("hand it over")(e.into()))?;
    }
    Ok((FileTable::make(map(&file).map_err(system("map it"))?)?, file))
}

/// Allocates all of the file's memory: a page missing later would kill the program that touches it.
fn reserve(path: &Path, file: &File) -> Result<(), DaemonError> {
    let taken = dax::take_room(file, FILE_TABLE_BYTES as u64);
    taken.map_err(DaemonError::system(path, "allocate a user's shared file table"))
}

/// The user may truncate the file, which is guarded against (decision 19).
fn map(file: &File) -> io::Result<Mapping> {
    Mapping::guarded_file(file, 0, FILE_TABLE_BYTES, Sharing::Shared)
}

/// Other processes that map a file.
fn users_of(device: u64, inode: u64) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let file = ((major(device), minor(device)), inode);
    let numbers = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter(|process| *process != std::process::id() && maps(*process, file)).collect()
}

/// Whether a process maps a file, by device and inode as in proc(5). `false` if its mappings cannot be read.
fn maps(process: u32, file: ((u32, u32), u64)) -> bool {
    let mapped = mapped_files(process).unwrap_or_default();
    mapped.iter().any(|mapped| (mapped.device, mapped.inode) == file)
}
