//! Calls on an open DAX-resident file: without a system call.
//!
//! A file is DAX-resident while it has one open file in the system, which the kernel's lease ensures. Calls run under the file's lock; a signal
//! handler that interrupted the holder runs inside the interrupted call. A call that only the kernel can make demotes the file first, and so
//! does a thread that finds the lock's holder stopped.

use std::io::{self, ErrorKind};

use crate::log::Source;
use crate::resident::{ResidentError, ResidentFile, ResidentIo};
use crate::table::{Counted, Level, Reason, ResidentState, Timed};
use byway_sys::lease;
use byway_sys::time::monotonic_ns;
use byway_tdm_region::Window;

use crate::client::calls::{Call, ThreadPlace};
use crate::client::file::{Errno, Extent, OpenFile};
use crate::client::reentrancy::ReentrancyGuard;
use crate::client::timed::Watch;

const EIO: Errno = 5;
const EBADF: Errno = 9;
const EINVAL: Errno = 22;
const ENXIO: Errno = 6;
/// A signal handler interrupted the holder of the lock and cannot wait for it.
const EDEADLK: Errno = 35;

const APPENDS: u32 = 0o2000;
const ACCESS: u32 = 3;
const WRITES_ONLY: u32 = 1;

/// Wait this long after a refused promotion: the daemon really syncs an absorbed file to try it.
const PROMOTION_RETRY_NS: u64 = 30_000_000_000;

/// Where a call reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// At the open file's position, which advances.
    Here,
    /// At this offset.
    At(u64),
    /// At an offset that was reserved while the file was DAX-resident, whatever its flags; the position has advanced already.
    Claimed(u64),
}

/// The base of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The start (SEEK_SET).
    Set,
    /// The position (SEEK_CUR).
    Current,
    /// The end (SEEK_END).
    End,
    /// The next data (SEEK_DATA).
    Data,
    /// The next hole (SEEK_HOLE).
    Hole,
}

/// Result of a call on a DAX-resident file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidentOutcome<T> {
    /// Done.
    Done(T),
    /// Failed with this error number.
    Failed(Errno),
    /// Not done, as the file is not DAX-resident: repeat it, mostly by the kernel.
    NotResident,
}

impl<T> ResidentOutcome<Result<T, Errno>> {
    fn flattened(self) -> ResidentOutcome<T> {
        match self {
            Self::Done(Ok(done)) => ResidentOutcome::Done(done),
            Self::Done(Err(error)) | Self::Failed(error) => ResidentOutcome::Failed(error),
            Self::NotResident => ResidentOutcome::NotResident,
        }
    }
}

/// Destination of bytes that are read.
pub trait Sink {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);
}

impl<'s> OpenFile<'s> {
    /// Whether the file is DAX-resident.
    #[inline]
    #[must_use]
    pub fn is_resident(&self) -> bool {
        self.entry().level() == Level::Dax
    }

    /// Begins a system call on a file that is not DAX-resident: it is not promoted before [`OpenFile::end`].
    #[inline]
    #[must_use]
    pub fn begin(&self, own: &ThreadPlace) -> Option<Call<'s>> {
        let call = self.session().calls().begin(self.session().file_table(), *self.entry(), own);
        // After the mark: the daemon stores the level first and then reads the marks.
        if self.is_resident() {
            self.end(call);
            return None;
        }
        Some(call)
    }

    /// Ends that call.
    #[inline]
    pub fn end(&self, call: Call<'_>) {
        self.session().calls().end(*self.entry(), call);
    }

    /// Clears counted calls left by killed threads, on a file that was just opened and is open nowhere else.
    pub fn opened(&self) {
        let resident_state = self.entry().resident_state();
        if resident_state.is_counted() && lease::take(self.fd()).is_ok() {
            resident_state.forget_calls();
            let _ = lease::give_back(self.fd());
        }
    }

    /// Writes `len_bytes` of `source`; returns the bytes written. If the file is demoted meanwhile, `spot` becomes where to write them.
    pub fn write_resident<S: Source>(
        &self,
        spot: &mut Spot,
        len_bytes: u64,
        mut source: S,
    ) -> ResidentOutcome<u64> {
        let counters = self.entry().counters();
        let mut watch = Watch::of_write(counters);
        let done = self.with_resident(|file, resident_state| {
            if len_bytes == 0 {
                return Ok(0);
            }
            match *spot {
                Spot::Claimed(at) => file.write(at, len_bytes, &mut source)?,
                _ if appends(resident_state) => append(file, resident_state, spot, (len_bytes, &mut source))?,
                Spot::Here => write_here(file, resident_state, spot, (len_bytes, &mut source))?,
                Spot::At(at) => file.write(at, len_bytes, &mut source)?,
            }
            Ok(len_bytes)
        });
        if let ResidentOutcome::Done(wrote) = done {
            let took = watch.lap();
            watch.record(self.entry().times(), Timed::LevelWrite, took);
            counters.add(Counted::Writes, 1);
            counters.add(Counted::WrittenBytes, wrote);
        }
        done
    }

    /// Reads up to `len_bytes` into `sink`; returns the bytes read.
    pub fn read_resident(&self, spot: Spot, len_bytes: u64, sink: &mut impl Sink) -> ResidentOutcome<u64> {
        let mut watch = Watch::of_read(self.entry().counters());
        let done = self.read_there(spot, len_bytes, sink);
        if let ResidentOutcome::Done(read) = done {
            let took = watch.lap();
            watch.record(self.entry().times(), Timed::LevelRead, took);
            self.count_read(read);
        }
        done
    }

    /// Reads by `real`, which returns what the system call does. Counted and timed if the file is absorbed.
    #[inline]
    pub fn read_below(&self, real: impl FnOnce() -> isize) -> isize {
        if self.is_at_pass() {
            return real();
        }
        let mut watch = Watch::of_read(self.entry().counters());
        let read = real();
        if read > 0 {
            let took = watch.lap();
            watch.record(self.entry().times(), Timed::LowerRead, took);
            self.count_read(read.unsigned_abs() as u64);
        }
        read
    }

    #[inline]
    fn count_read(&self, read_bytes: u64) {
        let counters = self.entry().counters();
        counters.add(Counted::Reads, 1);
        counters.add(Counted::ReadBytes, read_bytes);
    }

    fn read_there(&self, spot: Spot, len_bytes: u64, sink: &mut impl Sink) -> ResidentOutcome<u64> {
        self.with_resident(|file, resident_state| {
            if resident_state.terms().is_some_and(|terms| terms.flags & ACCESS == WRITES_ONLY) {
                return Ok(Err(EBADF));
            }
            let at = match spot {
                Spot::Here => resident_state.position(),
                Spot::At(at) | Spot::Claimed(at) => at,
            };
            let there = file.size_bytes().saturating_sub(at).min(len_bytes);
            copy_out(file, at, there, sink)?;
            if spot == Spot::Here {
                resident_state.advance(there).ok_or(ResidentError::Demoting)?;
            }
            Ok(Ok(there))
        })
        .flattened()
    }

    /// Moves the open file's position; returns the new one.
    pub fn seek_resident(&self, by: i64, from: Seek) -> ResidentOutcome<u64> {
        self.with_resident(|file, resident_state| {
            match resident_state.seek(|position| sought(file.size_bytes(), position, by, from)) {
                Ok(to) => to.ok_or(ResidentError::Demoting).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        })
        .flattened()
    }

    /// Truncates or extends the file.
    pub fn truncate_resident(&self, size_bytes: u64) -> ResidentOutcome<()> {
        self.with_resident(|file, _| file.truncate(size_bytes))
    }

    /// The file's size, if it is DAX-resident. Takes no lock.
    #[must_use]
    pub fn resident_size(&self) -> Option<u64> {
        let is_there = self.is_resident() && self.entry().resident_state().terms().is_some();
        is_there.then(|| self.entry().resident_words().size_bytes())
    }

    /// Makes all writes durable. `below` is the real sync of the same extent: for attribute changes, and to demote a file whose daemon is gone.
    pub fn sync_resident(
        &self,
        extent: Extent,
        below: impl Fn() -> Result<(), Errno>,
    ) -> ResidentOutcome<()> {
        let now = monotonic_ns();
        if self.is_resident() && self.session().is_gone(now) {
            return match self.demote(Reason::NoDaemon, below) {
                Ok(()) => ResidentOutcome::NotResident,
                Err(error) => ResidentOutcome::Failed(error),
            };
        }
        let done = self.with_resident(|file, _| file.sync());
        if done != ResidentOutcome::Done(()) {
            return done;
        }
        let counters = self.entry().counters();
        counters.synced_at(now);
        let mut watch = Watch::of_sync(counters, now);
        match self.unkept(extent) {
            None => {
                counters.add(Counted::SavedSyncs, 1);
                let took = watch.lap();
                watch.record(self.entry().times(), Timed::LevelSync, took);
            }
            changes => match below() {
                Ok(()) => self.keep(changes),
                Err(error) => return ResidentOutcome::Failed(error),
            },
        }
        done
    }

    /// Asks the daemon to promote the file, if that is requested.
    #[inline]
    pub fn promote_if_requested(&self) {
        if self.entry().resident_state().is_promotion_requested() && !self.is_resident() {
            self.ask_for_promotion();
        }
    }

    #[cold]
    fn ask_for_promotion(&self) {
        let (level_state, counters, now) =
            (self.entry().level_state(), self.entry().counters(), monotonic_ns());
        let is_out = level_state.is_barred || self.entry().resident_state().excluded().is_some();
        if is_out || now < counters.get(Counted::PromotionRetryNs) {
            return;
        }
        let Some(_guard) = ReentrancyGuard::take() else { return };
        counters.set(Counted::PromotionRetryNs, now + PROMOTION_RETRY_NS);
        match self.session().ask_for_promotion(*self.entry(), self.fd()) {
            Some(why) => self.entry().explain(why),
            None => self.session().map_ahead(self.entry().ring()),
        }
    }

    /// Runs `act` on the file under its lock.
    #[inline]
    pub(super) fn with_resident<R>(
        &self,
        act: impl FnOnce(&ResidentIo<'_, Window>, ResidentState<'s>) -> Result<R, ResidentError>,
    ) -> ResidentOutcome<R> {
        let entry = *self.entry();
        let guard = ReentrancyGuard::take();
        let held = entry.lock_resident();
        let is_inside = match &held {
            Ok(_) => false,
            // A signal handler that interrupted the holder.
            Err(error) if error.raw_os_error() == Some(EDEADLK) && guard.is_none() => true,
            Err(error) if is_lock_unavailable(error) => {
                drop((held, guard));
                return self.bypass_stopped_holder();
            }
            Err(_) => return ResidentOutcome::Failed(EIO),
        };
        if entry.level() != Level::Dax {
            return ResidentOutcome::NotResident;
        }
        // Load the place before the terms: the demoter clears the terms first.
        let resident = ResidentFile::new(self.session().memory(), entry.ring());
        let (file, terms) = match entry.resident_state().terms().zip(resident.ok()) {
            Some((terms, resident)) => (ResidentIo::new(resident, entry.resident_words()), terms),
            None if is_inside || entry.is_being_demoted() => {
                drop((held, guard));
                return self.wait_for_demotion();
            }
            None => return self.finish_dead_move(),
        };
        if file.words().is_closed() {
            drop((held, guard));
            return self.wait_for_demotion();
        }
        if !is_inside {
            if terms.daemon_epoch != self.session().file_table().daemon_epoch() {
                drop((held, guard));
                return self.fall_back_to_kernel(Reason::NoDaemon);
            }
            file.enter();
        }
        let done = act(&file, entry.resident_state());
        drop((held, guard));
        match done {
            Ok(done) => ResidentOutcome::Done(done),
            Err(ResidentError::Outgrown(_)) => self.fall_back_to_kernel(Reason::Outgrown),
            Err(ResidentError::Demoting) => self.wait_for_demotion(),
            Err(_) => ResidentOutcome::Failed(EIO),
        }
    }
}

/// Whether the lock's holder did not release it in time, or is this thread.
fn is_lock_unavailable(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut || error.raw_os_error() == Some(EDEADLK)
}

/// Writes to the end, of a file opened to append.
#[inline]
fn append(
    file: &ResidentIo<'_, Window>,
    resident_state: ResidentState<'_>,
    spot: &mut Spot,
    (len_bytes, source): (u64, &mut impl Source),
) -> Result<(), ResidentError> {
    let at = file.claim(len_bytes)?;
    if *spot == Spot::Here {
        resident_state.set_position(at + len_bytes);
    }
    file.write_claimed(at, len_bytes, source).inspect_err(|_| {
        // A signal handler's write behind it made the reserved bytes part of the file.
        if file.size_bytes() > at {
            *spot = Spot::Claimed(at);
        }
    })
}

/// Writes at the position, which advances first: a signal handler's write goes behind.
#[inline]
fn write_here(
    file: &ResidentIo<'_, Window>,
    resident_state: ResidentState<'_>,
    spot: &mut Spot,
    (len_bytes, source): (u64, &mut impl Source),
) -> Result<(), ResidentError> {
    let at = resident_state.advance(len_bytes).ok_or(ResidentError::Demoting)?;
    file.write(at, len_bytes, source).inspect_err(|_| {
        if !resident_state.retreat(len_bytes) {
            *spot = Spot::Claimed(at);
        }
    })
}

#[inline]
fn appends(resident_state: ResidentState<'_>) -> bool {
    resident_state.terms().is_some_and(|terms| terms.flags & APPENDS != 0)
}

fn copy_out(
    file: &ResidentIo<'_, Window>,
    at: u64,
    len_bytes: u64,
    sink: &mut impl Sink,
) -> Result<(), ResidentError> {
    let mut piece = [0; 1024];
    let mut done = 0;
    while done < len_bytes {
        let len = (len_bytes - done).min(piece.len() as u64) as usize;
        let read = file.read(at + done, &mut piece[..len])?;
        sink.take(&piece[..read]);
        done += len as u64;
    }
    Ok(())
}

/// The new position, in a file without holes.
fn sought(size_bytes: u64, position: u64, by: i64, from: Seek) -> Result<u64, Errno> {
    let base = match from {
        Seek::Set => 0,
        Seek::Current => position,
        Seek::End => size_bytes,
        Seek::Data | Seek::Hole => {
            let at = u64::try_from(by).ok().filter(|at| *at < size_bytes).ok_or(ENXIO)?;
            return Ok(if from == Seek::Data { at } else { size_bytes });
        }
    };
    base.checked_add_signed(by).filter(|to| i64::try_from(*to).is_ok()).ok_or(EINVAL)
}
