//! A file that is brought home, and one that is there.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_sys::{barrier, lease};
use byway_tdm_engine::client::{go_below, leave};
use byway_tdm_engine::resident::{Home, HomePlace};
use byway_tdm_engine::table::{Board, Entry, EntryIndex, Level, Terms, Why};
use byway_tdm_region::{DeviceRegion, Window};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, inotify, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::held::{PATIENCE, locked};
use crate::resident::bring;
use crate::table::SlotNumber;

/// Bytes that are brought home at a time.
const PIECE_BYTES: usize = 256 << 10;

/// How often it is looked whether no call is under way, and what is between two looks.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_micros(500);

/// A file whose home is device memory, as the daemon has it.
#[derive(Debug)]
pub(crate) struct HousedFile {
    pub(crate) entry: EntryIndex,
    pub(crate) slot: SlotNumber,
    pub(crate) place: HomePlace,
    pub(crate) path: PathBuf,
    /// Its one open file, which is its program's too: what else would be open would break its lease.
    open: File,
    /// The program that asked.
    program: OwnedFd,
    came: Came,
}

/// How a file was when it came.
#[derive(Debug, Clone, Copy)]
struct Came {
    size_bytes: u64,
    /// On the monotonic clock.
    at_ns: u64,
}

/// What a file has to be brought home with.
#[derive(Debug)]
pub(crate) struct Coming<'e> {
    pub(crate) board: &'e Board,
    pub(crate) entry: Entry<'e>,
    pub(crate) handed: BorrowedFd<'e>,
    pub(crate) place: HomePlace,
    pub(crate) flags: OFlags,
    pub(crate) reign: u32,
}

impl Coming<'_> {
    /// Fills its home and has it count; the file stays below if anything else has it open, or had it open meanwhile.
    pub(crate) fn bring(&self, slice: &dyn DeviceRegion) -> Result<(), Why> {
        let home = Home::new(slice.window(), self.place).map_err(|_| Why::NoRoom)?;
        prefetch(slice, self.place)?;
        home.announce(file_time_ms()).map_err(|_| Why::NoRoom)?;
        let room = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.handed, room, 0, home.room_bytes()).map_err(|_| Why::NoLease)?;
        for _ in 0..TRIES {
            let _held = locked(self.entry).map_err(|_| Why::Busy)?;
            if self.entry.standing().level != Level::Pass {
                // Somebody else brought it home meanwhile, or has it absorbed.
                return Err(Why::Busy);
            }
            if self.entry.is_leaving() {
                // Whoever brought it below is not done with it.
                return Err(Why::Busy);
            }
            self.entry.home_words().reopen();
            // Who dies from here on leaves a place that does not count, and the file below as it is.
            self.entry.set_ring(self.place);
            let is_barred = !self.entry.move_to(Level::Dax, Why::LevelIsHome);
            if !is_barred && !self.is_under_way() {
                return self.settle_in(&home, slice.window());
            }
            leave(slice.window(), self.entry, Why::Busy).map_err(|_| Why::NoRoom)?;
            if is_barred {
                return Err(self.entry.standing().why);
            }
            drop(_held);
            std::thread::sleep(BETWEEN);
        }
        Err(Why::Busy)
    }

    /// Whether a call is under way that began before the file was said to be at home.
    fn is_under_way(&self) -> bool {
        barrier::for_registered().is_err() || self.board.is_under_way(self.entry)
    }

    /// With the lock held, no call under way, and everybody waiting for it to be at home.
    fn settle_in(&self, home: &Home<'_, Window>, memory: &Window) -> Result<(), Why> {
        let came = self.fill(home);
        if let Err(why) = came {
            let _ = lease::give_back(self.handed);
            leave(memory, self.entry, why).map_err(|_| Why::NoRoom)?;
        }
        came
    }

    fn fill(&self, home: &Home<'_, Window>) -> Result<(), Why> {
        let reader = again(self.handed).map_err(|_| Why::OtherOwner)?;
        let watch = Watch::over(self.handed).map_err(|_| Why::NoLease)?;
        let size_bytes = copy(home, reader)?;
        lease::take(self.handed).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Why::OpenElsewhere,
            _ => Why::NoLease,
        })?;
        // Who opened it before the lease, wrote it and closed it again is seen by this.
        if watch.has_seen() {
            return Err(Why::OpenElsewhere);
        }
        let position = rustix::fs::seek(self.handed, SeekFrom::Current(0)).map_err(|_| Why::Busy)?;
        self.entry.home_words().begin(size_bytes);
        self.entry.housed().set_position(position);
        home.begin(size_bytes).map_err(|_| Why::NoRoom)?;
        self.entry.housed().set_terms(Some(Terms { flags: self.flags.bits(), reign: self.reign }));
        Ok(())
    }
}

impl HousedFile {
    pub(crate) fn new(
        coming: &Coming<'_>,
        slot: SlotNumber,
        path: PathBuf,
        program: i32,
    ) -> io::Result<Self> {
        let program = Pid::from_raw(program).ok_or(Errno::SRCH)?;
        Ok(Self {
            entry: coming.entry.index(),
            slot,
            place: coming.place,
            path,
            open: coming.handed.try_clone_to_owned()?.into(),
            program: pidfd_open(program, PidfdFlags::empty())?,
            came: Came {
                size_bytes: rustix::fs::fstat(coming.handed)?.st_size as u64,
                at_ns: monotonic_ns(),
            },
        })
    }

    /// Why it should go below, if it should.
    pub(crate) fn must_leave(&self, entry: Entry<'_>) -> Option<Why> {
        let standing = entry.standing();
        if standing.is_barred {
            return Some(standing.why);
        }
        if entry.gave_up_ns() > self.came.at_ns && stands_still(entry) {
            return Some(Why::StandsStill);
        }
        if !lease::is_whole(&self.open).unwrap_or(false) {
            return Some(Why::OpenElsewhere);
        }
        if has_ended(&self.program) {
            return Some(Why::Closed);
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd()));
        path.is_ok_and(|path| path != self.path).then_some(Why::Renamed)
    }

    /// By how much it would grow in so many nanoseconds, as it did since it came.
    pub(crate) fn growth_in(&self, ns: u64, size_bytes: u64) -> u64 {
        let grew_bytes = u128::from(size_bytes.saturating_sub(self.came.size_bytes));
        let in_ns = u128::from(monotonic_ns().saturating_sub(self.came.at_ns).max(1));
        u64::try_from(grew_bytes * u128::from(ns) / in_ns).unwrap_or(u64::MAX)
    }

    /// Whether it is at home here still; its program may have brought it below.
    pub(crate) fn is_home(&self, entry: Entry<'_>) -> bool {
        entry.standing().level == Level::Dax && entry.ring() == self.place
    }

    /// Brings it below, whoever is inside of a call of it.
    pub(crate) fn go_below(&self, entry: Entry<'_>, memory: &Window, why: Why) -> io::Result<()> {
        let _held = entry.lock_to_leave(PATIENCE)?;
        if !self.is_home(entry) {
            return Ok(());
        }
        go_below(memory, entry, self.open.as_fd(), why, || sync(&self.open))
    }

    /// Whoever waits to open it goes on.
    pub(crate) fn let_in(&self) {
        let _ = lease::give_back(&self.open);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the home names what is kept before what; this is the only sync below it"
)]
fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Whether the file's lock is kept as it was when somebody waited for it in vain.
fn stands_still(entry: Entry<'_>) -> bool {
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

/// Touches of it wait for nothing from here on.
fn prefetch(slice: &dyn DeviceRegion, place: HomePlace) -> Result<(), Why> {
    bring(slice, place.at, place.len_bytes).map_err(|_| Why::NoRoom)?;
    let _ = slice.window().mapping().populate(place.at as usize, place.len_bytes as usize);
    Ok(())
}

/// The file by another open file, to be read.
fn again(handed: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(open(path_of(handed), flags, Mode::empty())?.into())
}

fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Copies all of a file home; its size.
fn copy(home: &Home<'_, Window>, mut reader: File) -> Result<u64, Why> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let read = reader.read(&mut piece).map_err(|_| Why::NoLease)?;
        if read == 0 {
            return Ok(at);
        }
        home.fill(at, &piece[..read]).map_err(|_| Why::NoRoom)?;
        at += read as u64;
    }
}

/// Sees whether somebody opens a file, writes it, or closes it after writing.
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

/// Whether this system can write a file in place that was opened to append (RWF_NOAPPEND, Linux 6.9).
pub(crate) fn can_overwrite() -> bool {
    let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") else { return false };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}
