//! File attributes, between statx(2) and FUSE.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, Timespec, UTIME_NOW, UTIME_OMIT, statx};

/// What statx(2) says of it.
#[derive(Debug)]
pub(crate) struct Found(Statx);

impl Found {
    /// Of an open one.
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self(statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?))
    }

    pub(crate) const fn inode(&self) -> u64 {
        self.0.stx_ino
    }

    pub(crate) const fn device(&self) -> (u32, u32) {
        (self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    pub(crate) fn kind(&self) -> FileType {
        kind(rustix::fs::FileType::from_raw_mode(self.0.stx_mode.into()))
    }

    /// As FUSE has it, under that number.
    pub(crate) fn attributes(&self, number: u64) -> FileAttr {
        let Self(found) = self;
        FileAttr {
            ino: INodeNo(number),
            size: found.stx_size,
            blocks: found.stx_blocks,
            atime: time(&found.stx_atime),
            mtime: time(&found.stx_mtime),
            ctime: time(&found.stx_ctime),
            crtime: UNIX_EPOCH,
            kind: self.kind(),
            perm: found.stx_mode & 0o7777,
            nlink: found.stx_nlink,
            uid: found.stx_uid,
            gid: found.stx_gid,
            rdev: rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor) as u32,
            blksize: found.stx_blksize,
            flags: 0,
        }
    }
}

pub(crate) const fn kind(raw: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Raw;
    match raw {
        Raw::Directory => FileType::Directory,
        Raw::Symlink => FileType::Symlink,
        Raw::Fifo => FileType::NamedPipe,
        Raw::Socket => FileType::Socket,
        Raw::CharacterDevice => FileType::CharDevice,
        Raw::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(at: &StatxTimestamp) -> SystemTime {
    let part = Duration::from_nanos(at.tv_nsec.into());
    match u64::try_from(at.tv_sec) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + part,
        Err(_) => UNIX_EPOCH - Duration::from_secs(at.tv_sec.unsigned_abs()) + part,
    }
}

/// A time to be set, as utimensat(2) takes it.
pub(crate) fn time_to_set(at: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match at {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(at)) => match at.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
            Err(before) => before_1970(before.duration()),
        },
    }
}

/// Seconds are counted down, and their part up from there.
fn before_1970(before: Duration) -> Timespec {
    let (seconds, part) = (before.as_secs() as i64, i64::from(before.subsec_nanos()));
    match part {
        0 => Timespec { tv_sec: -seconds, tv_nsec: 0 },
        part => Timespec { tv_sec: -seconds - 1, tv_nsec: 1_000_000_000 - part },
    }
}
