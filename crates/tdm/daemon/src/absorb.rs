//! A file taken into absorption.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use byway_tdm_engine::log::{Position, Ring};
use byway_tdm_engine::table::{Entry, EntryIndex, FUSE_MAGIC, FileKey, Level, Why};
use byway_tdm_region::Memory;
use rustix::fs::OFlags;

use crate::estate::Estate;
use crate::held::{HeldFile, locked};
use crate::lower::{Lower, Sought};
use crate::shares::{free_slot, users};
use crate::table::{Assignment, BootId, Kind, SlotNumber, Table};

/// Where syncs cost nothing: there is no use in sparing them.
const TMPFS_MAGIC: i64 = 0x0102_1994;

impl Estate {
    /// Absorbs a file that its user handed over, open for writing; why not, if it is not.
    pub(crate) fn absorb<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        handed: &OwnedFd,
        boot: BootId,
    ) -> Result<(), Why> {
        let entry = self.board.entry(index).ok_or(Why::Unknown)?;
        if self.held(index).is_some() {
            return Ok(());
        }
        if entry.standing().level == Level::Dax {
            // It would go below by being opened here.
            return Err(Why::LevelIsHome);
        }
        let found = self.may_be_absorbed(entry, handed.as_fd());
        let found = found.and_then(|key| Ok((key, lower_of(handed, key)?)));
        let result = found.and_then(|(key, (path, lower))| {
            self.judged(table, entry, &path)?;
            self.take_in(table, (entry, key), (path, lower), boot)
        });
        self.judge().answered(self.now_ns(), &entry, Level::Absorb, result);
        if result.is_ok() && self.judge().is_home_ordered(index) {
            // Where it cannot have one it stays absorbed, and the board says why.
            let _ = self.wish_home(entry);
        }
        result
    }

    /// Asks whether it is to be absorbed. Where others are to leave for it they do, as its program waits and its burst may be over soon.
    fn judged<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>, path: &Path) -> Result<(), Why> {
        let ask = || self.judge().asked(self.now_ns(), &self.board, &entry, path);
        let asked = ask();
        if asked != Err(Why::NoRoom) {
            return asked;
        }
        let leaving = self.judge().begin_decided(self.now_ns(), &self.board);
        if leaving.is_empty() {
            return asked;
        }
        self.all_leave(table, leaving);
        ask()
    }

    fn take_in<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (entry, key): (Entry<'_>, FileKey),
        (path, lower): (PathBuf, Lower),
        boot: BootId,
    ) -> Result<(), Why> {
        let mut files = self.files();
        let index = entry.index();
        if files.held.iter().any(|held| held.entry == index) {
            return Ok(());
        }
        let identity = getrandom::u64().map_err(|_| Why::NoRoom)?;
        let place = files.take_ring(self.slice.as_ref(), identity)?;
        let ring = Ring::new(self.slice.window(), place).map_err(|_| Why::NoRoom)?;
        let assignment =
            Assignment { key, ring: place, uid: self.uid, path: path.clone(), boot, kind: Kind::Ring };
        // The ring is empty before the table says whose it is, and the table says so before a record can be acknowledged.
        let slot = ring.format(Position(0)).ok().and_then(|()| take_slot(table, &assignment, users()));
        let Some(slot) = slot else {
            files.give_back(place);
            return Err(Why::NoRoom);
        };
        let held = HeldFile::new(index, slot, place, (path, lower));
        if !begin(entry, &held) {
            // A slot that cannot be freed keeps its ring.
            if table.free(slot).is_ok() {
                files.give_back(place);
            }
            return Err(entry.standing().why);
        }
        files.held.push(Arc::new(held));
        Ok(())
    }

    pub(crate) fn may_be_absorbed(&self, entry: Entry<'_>, handed: BorrowedFd<'_>) -> Result<FileKey, Why> {
        let magic = rustix::fs::fstatfs(handed).map_err(|_| Why::Unknown)?.f_type;
        if magic == FUSE_MAGIC {
            return Err(Why::Mounted);
        }
        let file = FileKey::of(handed).ok().flatten().ok_or(Why::NoBirthTime)?;
        let standing = entry.standing();
        let flags = rustix::fs::fcntl_getfl(handed).map_err(|_| Why::Unknown)?;
        let refusals = [
            (entry.key() != Some(file.key), Why::Unknown),
            (standing.is_barred, standing.why),
            (!self.slice.domain().is_persistent(), Why::VolatileMemory),
            (file.owner_uid != self.uid, Why::OtherOwner),
            (flags & OFlags::RWMODE == OFlags::RDONLY, Why::OtherOwner),
            (file.links == 0, Why::Unlinked),
            (flags.contains(OFlags::DIRECT), Why::Direct),
            (flags.intersects(OFlags::DSYNC | OFlags::SYNC), Why::SyncOnWrite),
            (magic == TMPFS_MAGIC, Why::SyncIsCheap),
            (self.board.is_left_out(file.key), Why::BoardFull),
        ];
        match refusals.into_iter().find(|(is_so, _)| *is_so) {
            Some((_, why)) => Err(why),
            None => Ok(file.key),
        }
    }
}

fn lower_of(handed: &OwnedFd, key: FileKey) -> Result<(PathBuf, Lower), Why> {
    let lower = Lower::again(handed.as_fd()).map_err(|_| Why::OtherOwner)?;
    let path = lower.path().map_err(|_| Why::Unlinked)?;
    match Lower::at(&path, Sought::to_sync(key)) {
        Ok(Some(_)) => Ok((path, lower)),
        _ => Err(Why::OtherPaths),
    }
}

/// From here on its writers log, after the next real sync; not if somebody who may write it unseen said so meanwhile.
fn begin(entry: Entry<'_>, held: &HeldFile) -> bool {
    let Ok(_held) = locked(entry) else { return false };
    if entry.standing().level == Level::Dax {
        // It came home meanwhile.
        return false;
    }
    entry.begin_log(held.ring, Why::Earned)
}

/// Puts a file into a slot that its user may take, who is one of so many. Users have their files by themselves and the table together: one looks and takes at a time.
pub(crate) fn take_slot<M: Memory>(
    table: &Table<'_, M>,
    what: &Assignment,
    users: u32,
) -> Option<SlotNumber> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = free_slot(&table.slots().ok()?, what.uid, users)?;
    match table.put(slot, what) {
        Ok(()) => Some(slot),
        Err(_) => {
            let _ = table.free(slot);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use byway_sys::Mapping;
    use byway_tdm_engine::log::RingPlace;
    use byway_tdm_region::{Domain, Window};

    use super::*;
    use crate::table::{SLOTS, TABLE_BYTES};

    #[test]
    fn users_who_take_slots_at_once_have_one_each() {
        let memory = Window::new(Mapping::anonymous(TABLE_BYTES as usize).unwrap(), Domain::CpuCache);
        let taken = Mutex::new(BTreeSet::new());
        let take_some = |uid: u32| {
            for inode in 0..u64::from(SLOTS / 4) {
                let key = FileKey { device: uid.into(), inode, born_ns: 1 };
                let ring = RingPlace { at: 0, len_bytes: 4096, identity: 1 };
                let what = Assignment { key, ring, uid, path: "/a".into(), boot: [0; 16], kind: Kind::Ring };
                let slot = take_slot(&Table::new(&memory), &what, 4).unwrap();
                assert!(taken.lock().unwrap().insert(slot), "{slot:?} is taken twice");
            }
        };
        std::thread::scope(|threads| {
            (0..4).for_each(|uid| {
                drop(threads.spawn({
                    let take_some = &take_some;
                    move || take_some(uid)
                }))
            });
        });
    }
}
