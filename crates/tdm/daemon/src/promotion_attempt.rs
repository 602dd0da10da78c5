//! A promotion in progress: copies a file to its place under a lease.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use byway_sys::time::file_time_ms;
use byway_sys::{barrier, lease};
use byway_tdm_engine::client::end_residency;
use byway_tdm_engine::resident::{ResidentFile, ResidentPlace};
use byway_tdm_engine::table::{Entry, FileTable, Level, Reason, Terms};
use byway_tdm_region::{DeviceRegion, Window};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, inotify, open};
use rustix::io::Errno;

use crate::absorbed::locked;
use crate::cache_pins::load_range;

/// Bytes copied at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Attempts to find no system call in flight, and the time between them.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_micros(500);

/// A promotion in progress.
#[derive(Debug)]
pub(crate) struct PromotionAttempt<'e> {
    file_table: &'e FileTable,
    entry: Entry<'e>,
    handed: BorrowedFd<'e>,
    place: ResidentPlace,
    terms: Terms,
}

impl<'e> PromotionAttempt<'e> {
    /// A promotion of the file of an entry, `handed` over by its program, to a place with a void header.
    pub(crate) const fn new(
        file_table: &'e FileTable,
        (entry, handed): (Entry<'e>, BorrowedFd<'e>),
        place: ResidentPlace,
        terms: Terms,
    ) -> Self {
        Self { file_table, entry, handed, place, terms }
    }

    /// Copies the file to its place and makes the header valid. The file stays at PASS if it is, or was meanwhile, open elsewhere.
    pub(crate) fn promote(&self, partition: &dyn DeviceRegion) -> Result<(), Reason> {
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
                return self.complete(&resident, partition.window());
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

    /// Completes the promotion: copies the file, or ends its residency. The lock is held, no call is in flight, and programs wait.
    fn complete(&self, resident: &ResidentFile<'_, Window>, memory: &Window) -> Result<(), Reason> {
        let copied = self.fill(resident);
        if let Err(why) = copied {
            let _ = lease::give_back(self.handed);
            end_residency(memory, self.entry, why).map_err(|_| Reason::NoRoom)?;
        }
        copied
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
        self.entry.resident_state().set_terms(Some(self.terms));
        Ok(())
    }
}

/// Loads the place into the device's cache and maps its pages.
fn prefetch(partition: &dyn DeviceRegion, place: ResidentPlace) -> Result<(), Reason> {
    load_range(partition, place.at, place.len_bytes).map_err(|_| Reason::NoRoom)?;
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
