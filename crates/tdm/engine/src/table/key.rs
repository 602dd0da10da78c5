//! Identity of a file.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

/// A file, whatever its name. Inode numbers are reused; the birth time distinguishes the new file from the old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device number.
    pub device: u64,
    /// Inode number, not zero.
    pub inode: u64,
    /// Birth time, in ns since 1970.
    pub born_ns: u64,
}

/// A file and the facts that decide whether it can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identified {
    /// Its identity.
    pub key: FileKey,
    /// Its owner.
    pub owner_uid: u32,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its number of names.
    pub links: u32,
}

impl FileKey {
    /// The file of a descriptor. `None` if it is not a regular file or has no birth time.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(file: impl AsFd) -> io::Result<Option<Identified>> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
        Ok(Self::from_statx(&found))
    }

    /// Whether the descriptor is of a regular file without a birth time.
    #[must_use]
    pub fn is_unborn(file: impl AsFd) -> bool {
        let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::BTIME);
        found.is_ok_and(|found| is_file(&found) && !has_birth(&found))
    }

    /// The file of a path, not following a link at its end. `None` as for [`FileKey::of`].
    ///
    /// # Errors
    /// What the system says.
    pub fn at(path: &std::ffi::CStr) -> io::Result<Option<Identified>> {
        Self::in_folder(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The file of a path relative to a folder. `None` as for [`FileKey::of`].
    ///
    /// # Errors
    /// What the system says.
    pub fn in_folder(
        folder: impl AsFd,
        path: &std::ffi::CStr,
        flags: AtFlags,
    ) -> io::Result<Option<Identified>> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Self::from_statx(&statx(folder, path, flags, wanted)?))
    }

    /// Device number of an open file or folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn device_of(file: impl AsFd) -> io::Result<u64> {
        Ok(device(&statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?))
    }

    fn from_statx(found: &rustix::fs::Statx) -> Option<Identified> {
        if !is_file(found) || !has_birth(found) || found.stx_ino == 0 {
            return None;
        }
        let device = device(found);
        let seconds = u64::try_from(found.stx_btime.tv_sec).unwrap_or(0);
        let born_ns = seconds.wrapping_mul(1_000_000_000).wrapping_add(found.stx_btime.tv_nsec.into());
        let key = Self { device, inode: found.stx_ino, born_ns };
        Some(Identified { key, owner_uid: found.stx_uid, size_bytes: found.stx_size, links: found.stx_nlink })
    }

    /// Hash of the key: start of the probe sequence.
    pub(super) const fn hash(self) -> u64 {
        let mixed = self.inode ^ self.device.rotate_left(40) ^ self.born_ns.rotate_left(20);
        let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 29
    }
}

fn is_file(found: &rustix::fs::Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile
}

const fn has_birth(found: &rustix::fs::Statx) -> bool {
    found.stx_mask & StatxFlags::BTIME.bits() != 0
}

fn device(found: &rustix::fs::Statx) -> u64 {
    u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor)
}
