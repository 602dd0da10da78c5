//! The files of a user that have device memory as their home: brought there, watched, brought below.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byway_sys::lease;
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_engine::client::leave;
use byway_tdm_engine::resident::{Home, HomeError, HomePlace, WrittenBack, recover, write_back};
use byway_tdm_engine::table::{Entry, EntryIndex, FileKey, Level, Why};
use byway_tdm_region::Memory;
use rustix::fs::OFlags;

use crate::absorb::take_slot;
use crate::attempt::{Attempt, Slot};
use crate::estate::Estate;
use crate::held::{HeldFile, PATIENCE};
use crate::home::{Coming, HousedFile, can_overwrite};
use crate::lower::{Lower, Sought};
use crate::recovery::{Outcome, Terms};
use crate::shares::users;
use crate::table::{Assignment, BootId, Kind, SlotNumber, Table};

/// One that outgrew its home has room for so long in the next one, if it goes on to grow as it did: what it writes until then is not written below for want
/// of room.
const AHEAD_NS: u64 = 8_000_000_000;

/// Which files.
#[derive(Debug, Default)]
pub(crate) struct Homes(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    housed: Vec<Arc<HousedFile>>,
    /// How much room ahead those want that outgrew their homes: in bytes, until they come again.
    growing: BTreeMap<EntryIndex, u64>,
    orphans: Vec<Orphan>,
    /// Places of files that are below, while somebody may still store there who stood still when they went.
    left: Vec<Left>,
    /// When these were looked at, on the monotonic clock, in nanoseconds.
    looked_ns: u64,
}

/// Where a home was.
#[derive(Debug, Clone, Copy)]
struct Left {
    entry: EntryIndex,
    slot: SlotNumber,
    place: HomePlace,
}

/// A home of an earlier daemon whose program has its file open still, and brings it below as soon as it does anything with it.
#[derive(Debug, Clone)]
struct Orphan {
    slot: SlotNumber,
    was: Assignment,
    /// The file below has all of it, though its program does not know.
    is_below: bool,
}

/// What became of a home of an earlier daemon.
enum Settled {
    /// Its place is free.
    Over(PathBuf, Outcome),
    /// Its program has it open still; whether the file below has all of it.
    Open { is_below: bool },
}

/// Who brings a file home.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) program: i32,
    pub(crate) boot: BootId,
    pub(crate) reign: u32,
}

impl Homes {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are at home.
    pub(crate) fn all(&self) -> Vec<Arc<HousedFile>> {
        self.listed().housed.clone()
    }

    /// One of them, by its entry.
    pub(crate) fn of(&self, entry: EntryIndex) -> Option<Arc<HousedFile>> {
        self.listed().housed.iter().find(|housed| housed.entry == entry).map(Arc::clone)
    }
}

impl Estate {
    /// Brings a file home that its program handed over; why not, if it is not.
    pub(crate) fn house<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        handed: &OwnedFd,
        asker: Asker,
    ) -> Result<(), Why> {
        let entry = self.board.entry(index).ok_or(Why::Unknown)?;
        match self.homes.of(index) {
            Some(housed) if housed.is_home(entry) => return Ok(()),
            // Its lease is the open file's, and would be given back behind the one that is taken now.
            Some(housed) => self.dismiss(table, &housed),
            None => {}
        }
        let came = self.may_come(entry, handed).and_then(|(key, flags)| {
            if let Some(held) = self.held(index) {
                self.let_go(table, &held, entry, Why::LevelIsHome).map_err(|_| Why::SyncFailed)?;
                wait_until_closed(held)?;
            }
            self.take_home(table, (entry, handed), (key, flags), asker)
        });
        self.judge().answered(self.now_ns(), &entry, Level::Dax, came);
        came
    }

    fn may_come(&self, entry: Entry<'_>, handed: &OwnedFd) -> Result<(FileKey, OFlags), Why> {
        let key = self.may_be_absorbed(entry, handed.as_fd())?;
        let flags = rustix::fs::fcntl_getfl(handed).map_err(|_| Why::Unknown)?;
        if let Some(why) = entry.housed().excluded() {
            return Err(why);
        }
        if flags.contains(OFlags::APPEND) && !can_overwrite() {
            return Err(Why::CannotOverwrite);
        }
        Ok((key, flags))
    }

    fn take_home<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (entry, handed): (Entry<'_>, &OwnedFd),
        (key, flags): (FileKey, OFlags),
        asker: Asker,
    ) -> Result<(), Why> {
        let ahead_bytes = self.homes.listed().growing.remove(&entry.index()).unwrap_or(0);
        let take = |ahead_bytes| self.take_place(table, (entry, handed), (key, flags), ahead_bytes, asker);
        match take(ahead_bytes) {
            Err(Why::NoRoom) if ahead_bytes > 0 => take(0),
            taken => taken,
        }
    }

    fn take_place<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (entry, handed): (Entry<'_>, &OwnedFd),
        (key, flags): (FileKey, OFlags),
        ahead_bytes: u64,
        asker: Asker,
    ) -> Result<(), Why> {
        let (slot, assignment) = self.assign(table, (key, handed), ahead_bytes, asker.boot)?;
        let place = assignment.ring;
        let coming =
            Coming { board: &self.board, entry, handed: handed.as_fd(), place, flags, reign: asker.reign };
        let may_return = self.judge().may_return(entry.index(), place.len_bytes);
        let came = if may_return {
            self.bring_home(&coming, (slot, assignment.path), asker)
        } else {
            Err(Why::NoRoom)
        };
        if came.is_err() && table.free(slot).is_ok() {
            self.files().give_back(place);
        }
        came
    }

    fn bring_home(
        &self,
        coming: &Coming<'_>,
        (slot, path): (SlotNumber, PathBuf),
        asker: Asker,
    ) -> Result<(), Why> {
        self.board.open_house();
        let housed = HousedFile::new(coming, slot, path, asker.program).map_err(|_| Why::Closed)?;
        // Watched from before it counts.
        let housed = Arc::new(housed);
        coming.bring(self.slice.as_ref())?;
        self.homes.listed().housed.push(housed);
        Ok(())
    }

    /// A slot of the table and a place for a file: the home that is there does not count yet.
    fn assign<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (key, handed): (FileKey, &OwnedFd),
        ahead_bytes: u64,
        boot: BootId,
    ) -> Result<(SlotNumber, Assignment), Why> {
        let lower = Lower::again(handed.as_fd()).map_err(|_| Why::OtherOwner)?;
        let path = lower.path().map_err(|_| Why::Unlinked)?;
        let size_bytes = lower.size_bytes().map_err(|_| Why::Unlinked)?;
        let identity = getrandom::u64().map_err(|_| Why::NoRoom)?;
        let mut files = self.files();
        let least = size_bytes + byway_tdm_engine::resident::FRONT_BYTES;
        let ring = files.take_home(self.slice.as_ref(), (least, ahead_bytes), identity)?;
        let assignment = Assignment { key, ring, uid: self.uid, path, boot, kind: Kind::Home };
        match take_slot(table, &assignment, users()) {
            Some(slot) => Ok((slot, assignment)),
            None => {
                files.give_back(ring);
                Err(Why::NoRoom)
            }
        }
    }

    /// Brings a file below if it is at home, and has its place back.
    ///
    /// # Errors
    /// What the system says: it is at home still.
    pub(crate) fn unhouse<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        why: Why,
    ) -> io::Result<()> {
        match (self.homes.of(index), self.board.entry(index)) {
            (Some(housed), Some(entry)) => self.send_below(table, (&housed, entry), why),
            _ => Ok(()),
        }
    }

    fn send_below<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (housed, entry): (&Arc<HousedFile>, Entry<'_>),
        why: Why,
    ) -> io::Result<()> {
        housed.go_below(entry, self.slice.window(), why)?;
        self.dismiss(table, housed);
        Ok(())
    }

    /// One look at each file that is at home.
    pub(crate) fn watch_homes<M: Memory>(&self, table: &Table<'_, M>) {
        for housed in self.homes.all() {
            let Some(entry) = self.board.entry(housed.entry) else { continue };
            if !housed.is_home(entry) {
                self.dismiss(table, &housed);
            } else if let Some(why) = housed.must_leave(entry) {
                // What fails is tried again with the next look; who waits to open it waits. Its program may have it in another home by now,
                // which is not this one's to leave.
                let _ = self.send_below(table, (&housed, entry), why);
            }
        }
        self.vacate_left(table);
        self.look_after_orphans(table);
    }

    /// A file that is not at home any more.
    fn dismiss<M: Memory>(&self, table: &Table<'_, M>, housed: &Arc<HousedFile>) {
        let mut listed = self.homes.listed();
        let before = listed.housed.len();
        listed.housed.retain(|other| !Arc::ptr_eq(other, housed));
        if listed.housed.len() == before {
            return;
        }
        housed.let_in();
        if let Some(entry) =
            self.board.entry(housed.entry).filter(|entry| entry.standing().why == Why::Outgrown)
        {
            let ahead_bytes = housed.growth_in(AHEAD_NS, entry.home_words().size_bytes());
            listed.growing.insert(housed.entry, ahead_bytes);
        }
        drop(listed);
        self.tell_of_leaving(housed.entry);
        self.vacate(table, Left { entry: housed.entry, slot: housed.slot, place: housed.place });
    }

    /// Has a home's place back, once nobody stores there any more: whoever has the file's lock from when it was at home.
    fn vacate<M: Memory>(&self, table: &Table<'_, M>, left: Left) {
        if self.board.entry(left.entry).is_some_and(is_inside) {
            self.homes.listed().left.push(left);
        } else if table.free(left.slot).is_ok() {
            self.files().give_back(left.place);
        }
    }

    fn vacate_left<M: Memory>(&self, table: &Table<'_, M>) {
        let left = std::mem::take(&mut self.homes.listed().left);
        left.into_iter().for_each(|left| self.vacate(table, left));
    }

    fn tell_of_leaving(&self, index: EntryIndex) {
        let Some(entry) = self.board.entry(index) else { return };
        let standing = entry.standing();
        let mut judge = self.judge();
        if standing.level != Level::Dax && judge.is_home_by_merit(index) {
            judge.left(self.now_ns(), &entry, standing.why);
        }
    }

    /// Takes over a home of an earlier daemon, or of an earlier boot.
    pub(crate) fn recover_home<M: Memory>(
        &self,
        place: Slot<'_, M>,
        was: &Assignment,
        terms: Terms,
    ) -> (PathBuf, Outcome) {
        let slot = place.number;
        let settled = match was.boot == terms.boot {
            true => self.settle_orphan(was, false),
            false => self.write_home_back(place, was, terms),
        };
        match settled {
            Ok(Settled::Over(path, outcome)) => (path, outcome),
            Ok(Settled::Open { is_below }) => {
                self.homes.listed().orphans.push(Orphan { slot, was: was.clone(), is_below });
                (was.path.clone(), Outcome::Adopted)
            }
            Err(error) => (was.path.clone(), Outcome::Failed { why: error.to_string() }),
        }
    }

    fn look_after_orphans<M: Memory>(&self, table: &Table<'_, M>) {
        const EVERY_NS: u64 = 100_000_000;
        let now_ns = monotonic_ns();
        let mut listed = self.homes.listed();
        if listed.orphans.is_empty() || now_ns < listed.looked_ns + EVERY_NS {
            return;
        }
        listed.looked_ns = now_ns;
        let orphans = std::mem::take(&mut listed.orphans);
        drop(listed);
        for mut orphan in orphans {
            match self.settle_orphan(&orphan.was, orphan.is_below) {
                Ok(Settled::Over(_, outcome)) if outcome.is_done() => {
                    if table.free(orphan.slot).is_ok() {
                        self.files().give_back(orphan.was.ring);
                    }
                    continue;
                }
                Ok(Settled::Open { is_below }) => orphan.is_below = is_below,
                _ => {}
            }
            self.homes.listed().orphans.push(orphan);
        }
    }

    /// Brings a file below that came home to an earlier daemon of this boot. If its program has it open still, its home goes on to count,
    /// as only the program can set the position of its open file.
    fn settle_orphan(&self, was: &Assignment, is_below: bool) -> io::Result<Settled> {
        let over = |outcome| Ok(Settled::Over(was.path.clone(), outcome));
        let home = Home::new(self.slice.window(), was.ring).map_err(io::Error::other)?;
        let entry = self.board.find(was.key);
        if entry.is_some_and(is_inside) {
            // He has seen no other daemon yet, or the file went below past him.
            return Ok(Settled::Open { is_below });
        }
        let entry = entry.filter(|entry| is_at(*entry, was));
        if entry.is_none() && !home.is_live().map_err(io::Error::other)? {
            return over(Outcome::Synced);
        }
        let lower =
            match Lower::find(&was.path, Sought { key: was.key, is_renumbered: false, is_written: true }) {
                Ok(Some((_, lower))) => lower,
                Ok(None) => return over(Outcome::Missing),
                // The lease of the earlier daemon holds us up.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Settled::Open { is_below });
                }
                Err(error) => return Err(error),
            };
        let Some(entry) = entry else {
            if lease::take(&lower).is_err() {
                return Ok(Settled::Open { is_below });
            }
            home.announce(file_time_ms()).map_err(io_error)?;
            recover(home, &lower).map_err(io_error)?;
            return over(Outcome::Synced);
        };
        let _held = entry.lock_to_leave(PATIENCE)?;
        if !is_at(entry, was) {
            return over(Outcome::Synced);
        }
        if entry.housed().terms().is_some() && !is_below {
            // Nothing was lost with its program: what was not synced is there as well.
            home.announce(file_time_ms()).map_err(io_error)?;
            write_back(home, entry.home_words().size_bytes(), &lower).map_err(io_error)?;
        }
        if lease::take(&lower).is_err() {
            return Ok(Settled::Open { is_below: true });
        }
        leave(self.slice.window(), entry, Why::Closed)?;
        over(Outcome::Synced)
    }

    /// Writes back what a home had when the power went.
    fn write_home_back<M: Memory>(
        &self,
        place: Slot<'_, M>,
        was: &Assignment,
        terms: Terms,
    ) -> io::Result<Settled> {
        let over = |path, outcome| Ok(Settled::Over(path, outcome));
        let home = Home::new(self.slice.window(), was.ring).map_err(io::Error::other)?;
        if !home.is_live().map_err(io::Error::other)? {
            return over(was.path.clone(), Outcome::Synced);
        }
        let until_ms = home.written_until_ms().map_err(io_error)?;
        let (path, attempt) = match Attempt::at(place, was, terms, until_ms) {
            Ok(attempt) => attempt,
            Err((path, outcome)) => return over(path, outcome),
        };
        match recover(home, &attempt).map_err(io_error)? {
            WrittenBack::Nothing => over(path, Outcome::Synced),
            WrittenBack::All { size_bytes } => over(path, Outcome::Returned { data_bytes: size_bytes }),
        }
    }
}

/// Whoever still retires a file that was let go has it open, which is one time too many.
fn wait_until_closed(held: Arc<HeldFile>) -> Result<(), Why> {
    const TRIES: u32 = 100;
    const BETWEEN: Duration = Duration::from_millis(2);
    for _ in 0..TRIES {
        if Arc::strong_count(&held) == 1 {
            return Ok(());
        }
        std::thread::sleep(BETWEEN);
    }
    Err(Why::Busy)
}

/// Whether somebody has the file's lock: who comes to it from here on sees what the board says now.
fn is_inside(entry: Entry<'_>) -> bool {
    entry.lock_within(Duration::ZERO).is_err()
}

fn is_at(entry: Entry<'_>, was: &Assignment) -> bool {
    entry.standing().level == Level::Dax && entry.ring() == was.ring
}

fn io_error(error: HomeError) -> io::Error {
    match error {
        HomeError::Lower(error) => error,
        other => io::Error::other(other),
    }
}
