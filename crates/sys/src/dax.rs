//! Files to be mapped: DAX detection, locks, allocation with zeroes written, and ownership.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

use crate::zeroes::{ZEROES_BYTES, zeroes};

/// Whether mappings of the file reach the memory that it lies on; `None` from kernels that do not say (before 5.8).
///
/// # Errors
/// The system's answer.
pub fn is_dax(file: &File) -> io::Result<Option<bool>> {
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    let says = found.stx_attributes_mask.contains(StatxAttributes::DAX);
    Ok(says.then(|| found.stx_attributes.contains(StatxAttributes::DAX)))
}

/// Opens a file for reading and writing, made for its owner alone if it is not there; whether it was made. No symbolic link is
/// followed.
///
/// # Errors
/// The system's answer.
pub fn open_or_make(path: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            opened => return Ok((File::from(opened?), false)),
        }
        match rustix::fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR) {
            // Another process made it meanwhile.
            Err(Errno::EXIST) => {}
            made => return Ok((File::from(made?), true)),
        }
    }
}

/// Locks a file for this process, until it is dropped; `false` where another has it.
///
/// # Errors
/// The system's answer.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The process that has locked a file, if this PID namespace shows it: by device and inode in `/proc/locks` (proc(5)).
#[must_use]
pub fn who_locked(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let named = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let mut of_file = locks.lines().filter_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_its = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&named.as_str());
        is_its.then(|| words[4].parse().ok()).flatten()
    });
    of_file.find(|process| *process != 0)
}

/// Has a file be `len_bytes` long at least, with room for all of it.
///
/// # Errors
/// The system's answer: `StorageFull` where there is no room.
pub fn take_room(file: &File, len_bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len_bytes)?)
}

/// Writes zeroes wherever nothing was ever written, and waits until it is on the disk: from there on, a store into the file
/// changes nothing that its file system keeps of it.
///
/// # Errors
/// The system's answer.
#[expect(clippy::disallowed_methods, reason = "once a file, before anything in it is promised")]
pub fn write_zeroes_once(file: &File, len_bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < len_bytes {
        let hole = rustix::fs::seek(file, SeekFrom::Hole(at))?;
        let end = written_from(file, hole)?.unwrap_or(len_bytes).min(len_bytes);
        zero(file, hole, end)?;
        at = end.max(hole);
    }
    file.sync_all()
}

/// The first byte from `at` on that was written; `None` where there is none.
fn written_from(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The next range from `at` on that was ever written; `None` where there is none.
///
/// # Errors
/// The system's answer.
pub fn next_written(file: &File, at: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    let Some(start) = written_from(file, at)? else { return Ok(None) };
    Ok(Some(start..rustix::fs::seek(file, SeekFrom::Hole(start))?))
}

fn zero(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let piece = (to - at).min(ZEROES_BYTES as u64);
        file.write_all_at(&zeroes()[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

/// The same file opened anew, to be given away: what its receiver does with it cannot touch this process's position or locks.
///
/// # Errors
/// The system's answer.
pub fn reopen(file: &File, writable: bool) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::OpenOptions::new().read(true).write(writable).open(path)
}

/// A device's number as sysfs writes it.
#[must_use]
pub fn device_name(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// This process's user.
#[must_use]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a file belongs to this process's user, or to `other`.
///
/// # Errors
/// The system's answer.
pub fn is_ours_or(file: &File, other: Option<u32>) -> io::Result<bool> {
    let owner = rustix::fs::fstat(file)?.st_uid;
    Ok(owner == own_user() || Some(owner) == other)
}

/// Makes a file one that only `uid` (and root) may open.
///
/// # Errors
/// The system's answer: `PermissionDenied` where this process may not give files away.
pub fn belong_to(file: &File, uid: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))?;
    std::os::unix::fs::fchown(file, Some(uid), None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_gets_all_of_its_room_and_keeps_what_was_written() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 5000], 200_000).unwrap();
        take_room(&file, 300_000).unwrap();
        write_zeroes_once(&file, 300_000).unwrap();
        write_zeroes_once(&file, 300_000).unwrap();
        let mut back = vec![0; 300_000];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().enumerate().all(|(at, byte)| (*byte == 7) == (200_000..205_000).contains(&at)));
        assert_eq!(next_written(&file, 0).unwrap().unwrap(), 0..300_000, "no hole is left");
    }

    #[test]
    fn a_locked_file_is_not_locked_twice_and_a_passed_descriptor_holds_no_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ours, is_new) = open_or_make(file.path()).unwrap();
        assert!(!is_new);
        assert!(try_lock(&ours).unwrap());
        assert!(!try_lock(&open_or_make(file.path()).unwrap().0).unwrap());
        let given = reopen(&ours, true).unwrap();
        drop(ours);
        assert!(try_lock(&open_or_make(file.path()).unwrap().0).unwrap());
        drop(given);
    }

    #[test]
    fn a_file_given_away_for_reading_cannot_be_written() {
        let file = tempfile::tempfile().unwrap();
        assert!(reopen(&file, false).unwrap().write_all_at(b"x", 0).is_err());
        reopen(&file, true).unwrap().write_all_at(b"x", 0).unwrap();
    }

    #[test]
    fn a_file_on_a_disk_is_not_mapped_past_the_page_cache() {
        assert_ne!(is_dax(&tempfile::tempfile().unwrap()).unwrap(), Some(true));
    }
}
