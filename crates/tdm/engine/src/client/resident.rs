//! What is done with an open file whose home is device memory: nobody is called.
//!
//! A file is at home while its one open file is the only one there is, which the kernel's lease sees to. Everything is done under the
//! file's lock; a signal handler that interrupted whoever holds it does it inside. What only the kernel can do has the file brought below
//! first, and so has a holder who stands still: whoever brings it below waits for nobody.

use std::io::{self, ErrorKind};

use crate::log::Source;
use crate::resident::{Home, HomeError, Resident};
use crate::table::{Counted, Housed, Level, Timed, Why};
use byway_sys::lease;
use byway_sys::time::monotonic_ns;
use byway_tdm_region::Window;

use crate::client::calls::{Call, ThreadPlace};
use crate::client::file::{Errno, Extent, OpenFile};
use crate::client::timed::Watch;
use crate::client::turn::Turn;

const EIO: Errno = 5;
const EBADF: Errno = 9;
const EINVAL: Errno = 22;
const ENXIO: Errno = 6;
/// A signal handler interrupted whoever holds the file's lock, and cannot wait for it.
const EDEADLK: Errno = 35;

const APPENDS: u32 = 0o2000;
const ACCESS: u32 = 3;
const WRITES_ONLY: u32 = 1;

/// After a refusal the daemon is not asked again for so long: a file that was absorbed was synced below to be looked at.
const HOME_AGAIN_NS: u64 = 30_000_000_000;

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// At its open file's position, which moves on.
    Here,
    /// At an offset.
    At(u64),
    /// At an offset that it was given before, when the file was at home: however it was opened, and its position has moved on.
    Claimed(u64),
}

/// Where a position is moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// From the beginning.
    Set,
    /// From where it is.
    Current,
    /// From the end.
    End,
    /// To the next byte that is written.
    Data,
    /// To the next that is not.
    Hole,
}

/// What came of something that is done at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtHome<T> {
    /// It is done.
    Done(T),
    /// It fails with this error number.
    Failed(Errno),
    /// It is not done: it is to be tried again by whoever has the file then, mostly the kernel.
    Left,
}

impl<T> AtHome<Result<T, Errno>> {
    fn flattened(self) -> AtHome<T> {
        match self {
            Self::Done(Ok(done)) => AtHome::Done(done),
            Self::Done(Err(error)) | Self::Failed(error) => AtHome::Failed(error),
            Self::Left => AtHome::Left,
        }
    }
}

/// Bytes that were read, piece by piece.
pub trait Sink {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);
}

impl<'s> OpenFile<'s> {
    /// Whether device memory is its home now.
    #[inline]
    #[must_use]
    pub fn is_home(&self) -> bool {
        self.entry().level() == Level::Dax
    }

    /// Begins a call of the kernel, unless the file is at home: it does not come there before [`OpenFile::end`].
    #[inline]
    #[must_use]
    pub fn begin(&self, own: &ThreadPlace) -> Option<Call<'s>> {
        let call = self.session().calls().begin(self.session().board(), *self.entry(), own);
        // Behind that: who brings it home looks in the other order.
        if self.is_home() {
            self.end(call);
            return None;
        }
        Some(call)
    }

    /// Such a call ends.
    #[inline]
    pub fn end(&self, call: Call<'_>) {
        self.session().calls().end(*self.entry(), call);
    }

    /// It was just opened, and nothing was done with it. Calls that seem to be under way are those of the dead, if nobody else has it open.
    pub fn opened(&self) {
        let housed = self.entry().housed();
        if housed.is_counted() && lease::take(self.fd()).is_ok() {
            housed.forget_calls();
            let _ = lease::give_back(self.fd());
        }
    }

    /// Writes so many bytes of `source`; says how many were written. Where the file leaves meanwhile, `spot` is where they are to be written then.
    pub fn write_home<S: Source>(&self, spot: &mut Spot, len_bytes: u64, mut source: S) -> AtHome<u64> {
        let counters = self.entry().counters();
        let mut watch = Watch::of_write(counters);
        let done = self.at_home(|file, housed| {
            if len_bytes == 0 {
                return Ok(0);
            }
            match *spot {
                Spot::Claimed(at) => file.write(at, len_bytes, &mut source)?,
                _ if appends(housed) => append(file, housed, spot, (len_bytes, &mut source))?,
                Spot::Here => write_here(file, housed, spot, (len_bytes, &mut source))?,
                Spot::At(at) => file.write(at, len_bytes, &mut source)?,
            }
            Ok(len_bytes)
        });
        if let AtHome::Done(wrote) = done {
            let took = watch.lap();
            watch.record(self.entry().times(), Timed::LevelWrite, took);
            counters.add(Counted::Writes, 1);
            counters.add(Counted::WrittenBytes, wrote);
        }
        done
    }

    /// Reads up to so many bytes into `sink`; says how many there were.
    pub fn read_home(&self, spot: Spot, len_bytes: u64, sink: &mut impl Sink) -> AtHome<u64> {
        let mut watch = Watch::of_read(self.entry().counters());
        let done = self.read_there(spot, len_bytes, sink);
        if let AtHome::Done(read) = done {
            let took = watch.lap();
            watch.record(self.entry().times(), Timed::LevelRead, took);
            self.count_read(read);
        }
        done
    }

    /// Reads by `real`, which returns what the system's call does, of a file that is not at home. Counted of one that is absorbed, which may come
    /// there.
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

    fn read_there(&self, spot: Spot, len_bytes: u64, sink: &mut impl Sink) -> AtHome<u64> {
        self.at_home(|file, housed| {
            if housed.terms().is_some_and(|terms| terms.flags & ACCESS == WRITES_ONLY) {
                return Ok(Err(EBADF));
            }
            let at = match spot {
                Spot::Here => housed.position(),
                Spot::At(at) | Spot::Claimed(at) => at,
            };
            let there = file.size_bytes().saturating_sub(at).min(len_bytes);
            copy_out(file, at, there, sink)?;
            if spot == Spot::Here {
                housed.advance(there).ok_or(HomeError::Leaving)?;
            }
            Ok(Ok(there))
        })
        .flattened()
    }

    /// Moves the open file's position; says where it is then.
    pub fn seek_home(&self, by: i64, from: Seek) -> AtHome<u64> {
        self.at_home(|file, housed| {
            match housed.seek(|position| sought(file.size_bytes(), position, by, from)) {
                Ok(to) => to.ok_or(HomeError::Leaving).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        })
        .flattened()
    }

    /// Cuts it to a size, or has it grow to it.
    pub fn cut_home(&self, size_bytes: u64) -> AtHome<()> {
        self.at_home(|file, _| file.cut(size_bytes))
    }

    /// Its size, if it is at home: whoever is inside of a call is not waited for.
    #[must_use]
    pub fn size_home(&self) -> Option<u64> {
        let is_there = self.is_home() && self.entry().housed().terms().is_some();
        is_there.then(|| self.entry().home_words().size_bytes())
    }

    /// Keeps all that was written to it. `below` is the system's sync of as much: for what no home has, and for a file whose daemon is gone: it
    /// goes below by itself.
    pub fn sync_home(&self, extent: Extent, below: impl Fn() -> Result<(), Errno>) -> AtHome<()> {
        let now = monotonic_ns();
        if self.is_home() && self.session().is_gone(now) {
            return match self.leave_home(Why::NoDaemon, below) {
                Ok(()) => AtHome::Left,
                Err(error) => AtHome::Failed(error),
            };
        }
        let done = self.at_home(|file, _| file.sync());
        if done != AtHome::Done(()) {
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
                Err(error) => return AtHome::Failed(error),
            },
        }
        done
    }

    /// Asks the daemon to bring it home, if somebody wants it there.
    #[inline]
    pub fn come_home(&self) {
        if self.entry().housed().is_wished() && !self.is_home() {
            self.ask_for_home();
        }
    }

    #[cold]
    fn ask_for_home(&self) {
        let (standing, counters, now) = (self.entry().standing(), self.entry().counters(), monotonic_ns());
        let is_out = standing.is_barred || self.entry().housed().excluded().is_some();
        if is_out || now < counters.get(Counted::HomeAgainNs) {
            return;
        }
        let Some(_turn) = Turn::take() else { return };
        counters.set(Counted::HomeAgainNs, now + HOME_AGAIN_NS);
        match self.session().ask_for_home(*self.entry(), self.fd()) {
            Some(why) => self.entry().explain(why),
            None => self.session().map_ahead(self.entry().ring()),
        }
    }

    /// Does something with it under its lock.
    #[inline]
    pub(super) fn at_home<R>(
        &self,
        act: impl FnOnce(&Resident<'_, Window>, Housed<'s>) -> Result<R, HomeError>,
    ) -> AtHome<R> {
        let entry = *self.entry();
        let turn = Turn::take();
        let held = entry.lock_at_home();
        let is_inside = match &held {
            Ok(_) => false,
            // A signal handler interrupted whoever holds it.
            Err(error) if error.raw_os_error() == Some(EDEADLK) && turn.is_none() => true,
            Err(error) if is_still(error) => {
                drop((held, turn));
                return self.stands_still();
            }
            Err(_) => return AtHome::Failed(EIO),
        };
        if entry.level() != Level::Dax {
            return AtHome::Left;
        }
        // Where it is, and only then whether: whoever brings it below says first that it is not.
        let home = Home::new(self.session().memory(), entry.ring());
        let (file, terms) = match entry.housed().terms().zip(home.ok()) {
            Some((terms, home)) => (Resident::new(home, entry.home_words()), terms),
            None if is_inside || entry.is_leaving() => {
                drop((held, turn));
                return self.comes_below();
            }
            None => return self.left_behind(),
        };
        if file.words().is_closed() {
            drop((held, turn));
            return self.comes_below();
        }
        if !is_inside {
            if terms.reign != self.session().board().reign() {
                drop((held, turn));
                return self.went_below(Why::NoDaemon);
            }
            file.enter();
        }
        let done = act(&file, entry.housed());
        drop((held, turn));
        match done {
            Ok(done) => AtHome::Done(done),
            Err(HomeError::Outgrown(_)) => self.went_below(Why::Outgrown),
            Err(HomeError::Leaving) => self.comes_below(),
            Err(_) => AtHome::Failed(EIO),
        }
    }
}

/// Whether whoever has the lock was waited for in vain, or is this thread.
fn is_still(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut || error.raw_os_error() == Some(EDEADLK)
}

/// Writes to the end, as the file was opened for.
#[inline]
fn append(
    file: &Resident<'_, Window>,
    housed: Housed<'_>,
    spot: &mut Spot,
    (len_bytes, source): (u64, &mut impl Source),
) -> Result<(), HomeError> {
    let at = file.claim(len_bytes)?;
    if *spot == Spot::Here {
        housed.set_position(at + len_bytes);
    }
    file.write_claimed(at, len_bytes, source).inspect_err(|_| {
        // A signal handler that wrote behind it has made its place part of the file.
        if file.size_bytes() > at {
            *spot = Spot::Claimed(at);
        }
    })
}

/// Writes at the position, which moves on first: a signal handler's write lies behind.
#[inline]
fn write_here(
    file: &Resident<'_, Window>,
    housed: Housed<'_>,
    spot: &mut Spot,
    (len_bytes, source): (u64, &mut impl Source),
) -> Result<(), HomeError> {
    let at = housed.advance(len_bytes).ok_or(HomeError::Leaving)?;
    file.write(at, len_bytes, source).inspect_err(|_| {
        if !housed.retreat(len_bytes) {
            *spot = Spot::Claimed(at);
        }
    })
}

#[inline]
fn appends(housed: Housed<'_>) -> bool {
    housed.terms().is_some_and(|terms| terms.flags & APPENDS != 0)
}

fn copy_out(
    file: &Resident<'_, Window>,
    at: u64,
    len_bytes: u64,
    sink: &mut impl Sink,
) -> Result<(), HomeError> {
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

/// Where a position is moved to, in a file of one piece.
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
