//! Promotion of one file to DAX, and a promoted file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_sys::{barrier, lease};
use byway_tdm_engine::client::{demote_file, end_residency};
use byway_tdm_engine::resident::{ResidentFile, ResidentPlace};
use byway_tdm_engine::table::{Entry, EntryIndex, FileTable, Level, Reason, Terms};
use byway_tdm_region::{DeviceRegion, Window};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, inotify, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::absorbed::{LOCK_TIMEOUT, locked};
use crate::cache_pins::bring;
use crate::table::SlotNumber;

/// Bytes copied at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Attempts to find no system call in flight, and the time between them.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_micros(500);

/// A DAX-resident file, as the daemon holds it.
#[derive(Debug)]
pub(crate) struct PromotedFile {
    pub(crate) entry: EntryIndex,
    pub(crate) slot: SlotNumber,
    pub(crate) place: ResidentPlace,
    pub(crate) path: PathBuf,
    /// The program's open file, shared: another open file would break the lease.
    open: File,
    /// The program that asked (pidfd).
    program: OwnedFd,
    came: AtPromotion,
}

/// The file at its promotion.
#[derive(Debug, Clone, Copy)]
struct AtPromotion {
    size_bytes: u64,
    /// In ns of the monotonic clock.
    at_ns: u64,
}

/// A promotion in progress.
#[derive(Debug)]
pub(crate) struct PromotionAttempt<'e> {
    pub(crate) file_table: &'e FileTable,
    pub(crate) entry: Entry<'e>,
    pub(crate) handed: BorrowedFd<'e>,
    pub(crate) place: ResidentPlace,
    pub(crate) flags: OFlags,
    pub(crate) daemon_epoch: u32,
}

impl PromotionAttempt<'_> {
    /// Copies the file to its place and makes the header valid. The file stays at PASS if it is, or was meanwhile, open elsewhere.
    pub(crate) fn bring(&self, partition: &dyn DeviceRegion) -> Result<(), Reason> {
        let resident = ResidentFile::new(partition.window(), self.place).map_err(|_| Reason::NoRoom)?;
        prefetch(partition, self.place)?;
        resident.announce(file_time_ms()).map_err(|_| Reason::NoRoom)?;
        let room = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.handed, room, 0, resident.room_bytes()).map_err(|_| Reason::NoLease)?;
        for _ in 0..TRIES {
            let _guard = locked(self.entry).map_err(|_| Reason::Busy)?;
            if self.entry.level() != Level::Pass {
                // Promoted or absorbed by another thread meanwhile.
                return Err(Reason::Busy);
            }
            if self.entry.is_being_demoted() {
                // Still being demoted.
                return Err(Reason::Busy);
            }
            self.entry.resident_words().reopen();
            // If the daemon is killed from here on, the header stays void and the file below is complete.
            self.entry.set_ring(self.place);
            let is_barred = !self.entry.move_to(Level::Dax, Reason::InDeviceMemory);
            if !is_barred && !self.is_under_way() {
                return self.settle_in(&resident, partition.window());
            }
            end_residency(partition.window(), self.entry, Reason::Busy).map_err(|_| Reason::NoRoom)?;
            if is_barred {
                return Err(self.entry.level_state().why);
            }
            drop(_guard);
            std::thread::sleep(BETWEEN);
        }
        Err(Reason::Busy)
    }

    /// Whether a system call is in flight that began before the level was stored.
    fn is_under_way(&self) -> bool {
        barrier::for_registered().is_err() || self.file_table.is_under_way(self.entry)
    }

    /// Ends the promotion. The lock is held, no call is in flight, and programs wait for the result.
    fn settle_in(&self, resident: &ResidentFile<'_, Window>, memory: &Window) -> Result<(), Reason> {
        let came = self.fill(resident);
        if let Err(why) = came {
            let _ = lease::give_back(self.handed);
            end_residency(memory, self.entry, why).map_err(|_| Reason::NoRoom)?;
        }
        came
    }

    fn fill(&self, resident: &ResidentFile<'_, Window>) -> Result<(), Reason> {
        let reader = again(self.handed).map_err(|_| Reason::OtherOwner)?;
        let watch = Watch::over(self.handed).map_err(|_| Reason::NoLease)?;
        let size_bytes = copy(resident, reader)?;
        lease::take(self.handed).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Reason::OpenElsewhere,
            _ => Reason::NoLease,
        })?;
        // Detects a program that opened, wrote and closed the file before the lease.
        if watch.has_seen() {
            return Err(Reason::OpenElsewhere);
        }
        let position = rustix::fs::seek(self.handed, SeekFrom::Current(0)).map_err(|_| Reason::Busy)?;
        self.entry.resident_words().begin(size_bytes);
        self.entry.resident_state().set_position(position);
        resident.begin(size_bytes).map_err(|_| Reason::NoRoom)?;
        self.entry
            .resident_state()
            .set_terms(Some(Terms { flags: self.flags.bits(), daemon_epoch: self.daemon_epoch }));
        Ok(())
    }
}

impl PromotedFile {
    pub(crate) fn new(
        attempt: &PromotionAttempt<'_>,
        slot: SlotNumber,
        path: PathBuf,
        program: i32,
    ) -> io::Result<Self> {
        let program = Pid::from_raw(program).ok_or(Errno::SRCH)?;
        Ok(Self {
            entry: attempt.entry.index(),
            slot,
            place: attempt.place,
            path,
            open: attempt.handed.try_clone_to_owned()?.into(),
            program: pidfd_open(program, PidfdFlags::empty())?,
            came: AtPromotion {
                size_bytes: rustix::fs::fstat(attempt.handed)?.st_size as u64,
                at_ns: monotonic_ns(),
            },
        })
    }

    /// Why the file must be demoted, if it must.
    pub(crate) fn must_leave(&self, entry: Entry<'_>) -> Option<Reason> {
        let level_state = entry.level_state();
        if level_state.is_barred {
            return Some(level_state.why);
        }
        if entry.gave_up_ns() > self.came.at_ns && is_holder_stopped(entry) {
            return Some(Reason::HolderStopped);
        }
        if !lease::is_whole(&self.open).unwrap_or(false) {
            return Some(Reason::OpenElsewhere);
        }
        if has_ended(&self.program) {
            return Some(Reason::Closed);
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd()));
        path.is_ok_and(|path| path != self.path).then_some(Reason::Renamed)
    }

    /// Expected growth in `ns` nanoseconds, at the rate since its promotion.
    pub(crate) fn growth_in(&self, ns: u64, size_bytes: u64) -> u64 {
        let grew_bytes = u128::from(size_bytes.saturating_sub(self.came.size_bytes));
        let in_ns = u128::from(monotonic_ns().saturating_sub(self.came.at_ns).max(1));
        u64::try_from(grew_bytes * u128::from(ns) / in_ns).unwrap_or(u64::MAX)
    }

    /// Whether it is still DAX-resident in this place; its program may have demoted it.
    pub(crate) fn is_here(&self, entry: Entry<'_>) -> bool {
        entry.level() == Level::Dax && entry.ring() == self.place
    }

    /// Demotes the file, also while threads are inside calls.
    pub(crate) fn demote_file(&self, entry: Entry<'_>, memory: &Window, why: Reason) -> io::Result<()> {
        let _guard = entry.lock_for_demotion(LOCK_TIMEOUT)?;
        if !self.is_here(entry) {
            return Ok(());
        }
        demote_file(memory, entry, self.open.as_fd(), why, || sync(&self.open))
    }

    /// Gives the lease back, so that a waiting open continues.
    pub(crate) fn let_in(&self) {
        let _ = lease::give_back(&self.open);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the resident file's flushes are named; this is the only sync of the file below"
)]
fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Whether the holder of the file's lock, for which a waiter timed out, still has it.
fn is_holder_stopped(entry: Entry<'_>) -> bool {
    let is_kept = locked(entry).is_err();
    if !is_kept {
        entry.forget_given_up();
    }
    is_kept
}

fn has_ended(program: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(program, PollFlags::IN)], Some(&now)).is_ok_and(|ended| ended > 0)
}

/// Loads the place into the device's cache and maps its pages.
fn prefetch(partition: &dyn DeviceRegion, place: ResidentPlace) -> Result<(), Reason> {
    bring(partition, place.at, place.len_bytes).map_err(|_| Reason::NoRoom)?;
    let _ = partition.window().mapping().populate(place.at as usize, place.len_bytes as usize);
    Ok(())
}

/// Opens the file again for reading.
fn again(handed: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(open(path_of(handed), flags, Mode::empty())?.into())
}

fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Copies the file to its place; returns its size.
fn copy(resident: &ResidentFile<'_, Window>, mut reader: File) -> Result<u64, Reason> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let read = reader.read(&mut piece).map_err(|_| Reason::NoLease)?;
        if read == 0 {
            return Ok(at);
        }
        resident.fill(at, &piece[..read]).map_err(|_| Reason::NoRoom)?;
        at += read as u64;
    }
}

/// Watches a file for opens, writes and closes after writing (inotify).
struct Watch(OwnedFd);

impl Watch {
    fn over(file: BorrowedFd<'_>) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let what = inotify::WatchFlags::OPEN | inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::MODIFY;
        inotify::add_watch(&watch, Path::new(&path_of(file)), what)?;
        Ok(Self(watch))
    }

    fn has_seen(&self) -> bool {
        let mut events = [0; 256];
        rustix::io::read(&self.0, &mut events) != Err(Errno::AGAIN)
    }
}

/// Whether RWF_NOAPPEND works (Linux 6.9).
pub(crate) fn can_overwrite() -> bool {
    let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") else { return false };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}
