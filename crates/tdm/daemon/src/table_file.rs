//! The file that a user's board is in: memory of the host that his programs map, in a folder where anybody may make files.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use byway_sys::map::Sharing;
use byway_sys::{Mapping, dax};
use byway_tdm_engine::table::{BOARD_BYTES, Board};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, major, minor, open as open_file};

use crate::error::DaemonError;
use crate::maps::mapped_files;

/// The board of a user that is at a path, or a new one there; `memory` is what his logs of this boot lie in, if there are any.
///
/// # Errors
/// [`DaemonError::OtherBoard`] where programs use one that is not of this version, or that is gone: they may log where it says.
pub(crate) fn open(path: &Path, uid: u32, memory: Option<&File>) -> Result<(Board, File), DaemonError> {
    if let Some(found) = found(path, uid)? {
        return Ok(found);
    }
    if let Some(memory) = memory {
        let about = memory.metadata().map_err(DaemonError::system(path, "see who uses its memory"))?;
        refuse_users(path, about.dev(), about.ino())?;
    }
    make(path, uid)
}

fn found(path: &Path, uid: u32) -> Result<Option<(Board, File)>, DaemonError> {
    let system = |doing| DaemonError::system(path, doing);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open_file(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system("open it")(error.into())),
    };
    let about = file.metadata().map_err(system("measure it"))?;
    let me = rustix::process::geteuid().as_raw();
    // A third user's: whatever is in it, no program of ours was given it.
    if !about.is_file() || ![me, uid].contains(&about.uid()) {
        return Ok(None);
    }
    if about.len() == BOARD_BYTES as u64 {
        reserve(path, &file)?;
        if let Ok(board) = Board::open(map(&file).map_err(system("map it"))?) {
            return Ok(Some((board, file)));
        }
    }
    refuse_users(path, about.dev(), about.ino()).map(|()| None)
}

fn refuse_users(path: &Path, device: u64, inode: u64) -> Result<(), DaemonError> {
    match users_of(device, inode) {
        users if users.is_empty() => Ok(()),
        users => Err(DaemonError::OtherBoard { path: path.to_owned(), users }),
    }
}

fn make(path: &Path, uid: u32) -> Result<(Board, File), DaemonError> {
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
    Ok((Board::make(map(&file).map_err(system("map it"))?)?, file))
}

/// Takes memory for all of it before anybody maps it: a page that is not to be had would end the program that touches it first.
fn reserve(path: &Path, file: &File) -> Result<(), DaemonError> {
    let taken = dax::take_room(file, BOARD_BYTES as u64);
    taken.map_err(DaemonError::system(path, "take memory for all of a user's board"))
}

/// The user may cut the file short, which ends none but what is served to him (decision 0019).
fn map(file: &File) -> io::Result<Mapping> {
    Mapping::guarded_file(file, 0, BOARD_BYTES, Sharing::Shared)
}

/// Processes that map a file, but this one.
fn users_of(device: u64, inode: u64) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let file = ((major(device), minor(device)), inode);
    let numbers = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter(|process| *process != std::process::id() && maps(*process, file)).collect()
}

/// Whether a process maps a file, by its device and inode as proc(5) has them; one whose mappings are not told does not.
fn maps(process: u32, file: ((u32, u32), u64)) -> bool {
    let mapped = mapped_files(process).unwrap_or_default();
    mapped.iter().any(|mapped| (mapped.device, mapped.inode) == file)
}
