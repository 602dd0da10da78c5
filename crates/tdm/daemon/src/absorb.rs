//! Absorbing a file: slot, ring and level.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use byway_tdm_engine::log::{Position, Ring};
use byway_tdm_engine::table::{Entry, EntryIndex, FUSE_MAGIC, FileKey, Level, Reason};
use byway_tdm_policy::Order;
use byway_tdm_region::Memory;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use tracing::debug;

use crate::absorbed::AbsorbedFile;
use crate::lower::{Lower, Sought};
use crate::quotas::{free_slot, users};
use crate::table::{Assignment, BootId, Kind, SlotNumber, Table};
use crate::tenant::Tenant;

/// tmpfs: syncs cost nothing there.
const TMPFS_MAGIC: i64 = 0x0102_1994;

impl Tenant {
    /// Absorbs a file that a program handed over open for writing. The reason if it is not absorbed.
    pub(crate) fn absorb<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        handed: &OwnedFd,
        boot: BootId,
    ) -> Result<(), Reason> {
        let entry = self.file_table().entry(index).ok_or(Reason::Unknown)?;
        if self.absorbed(index).is_some() {
            return Ok(());
        }
        if entry.level() == Level::Dax {
            // Opening the file here would demote it.
            return Err(Reason::InDeviceMemory);
        }
        let found = self.may_be_absorbed(entry, handed.as_fd());
        let found = found.and_then(|key| Ok((key, lower_of(handed, key)?)));
        let result = found.and_then(|(key, (path, lower))| {
            self.judged(table, entry, &path)?;
            self.take_in(table, (entry, key), (path, lower), boot)
        });
        let is_barred = entry.level_state().is_barred;
        match result {
            Ok(()) => debug!(uid = self.uid(), file = ?entry.key(), "file absorbed"),
            Err(why) => {
                debug!(uid = self.uid(), file = ?entry.key(), why = why.sentence(), is_barred, "file not absorbed");
            }
        }
        self.evaluator().answered(self.now_ns(), &entry, Level::Absorb, result);
        if result.is_ok() && self.evaluator().ordered(index) == Some(Order::Pin(Level::Dax)) {
            // If the promotion is refused the file stays absorbed, and the table has the reason.
            let _ = self.request_promotion(entry);
        }
        result
    }

    /// Asks the evaluator whether to absorb the file. Files displaced by it are demoted at once, as its program waits.
    fn judged<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>, path: &Path) -> Result<(), Reason> {
        let ask = || self.evaluator().asked(self.now_ns(), self.file_table(), &entry, path);
        let asked = ask();
        if asked != Err(Reason::NoRoom) {
            return asked;
        }
        let leaving = self.evaluator().begin_decided(self.now_ns(), self.file_table());
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
    ) -> Result<(), Reason> {
        let mut files = self.files();
        let index = entry.index();
        if files.absorbed(index).is_some() {
            return Ok(());
        }
        let identity = getrandom::u64().map_err(|_| Reason::NoRoom)?;
        let place = files.take_ring(self.partition(), identity)?;
        let ring = Ring::new(self.partition().window(), place).map_err(|_| Reason::NoRoom)?;
        let assignment =
            Assignment { key, ring: place, uid: self.uid(), path: path.clone(), boot, kind: Kind::Ring };
        // In this order: format the ring, store the slot, begin the log. Each step is durable before the next.
        let slot = ring.format(Position(0)).ok().and_then(|()| take_slot(table, &assignment, users()));
        let Some(slot) = slot else {
            files.give_back(place);
            return Err(Reason::NoRoom);
        };
        let absorbed = AbsorbedFile::new(index, slot, place, (path, lower));
        if !absorbed.begin(entry) {
            files.free(table, (slot, place));
            return Err(entry.level_state().why);
        }
        files.add(absorbed);
        Ok(())
    }

    pub(crate) fn may_be_absorbed(
        &self,
        entry: Entry<'_>,
        handed: BorrowedFd<'_>,
    ) -> Result<FileKey, Reason> {
        let magic = rustix::fs::fstatfs(handed).map_err(|_| Reason::Unknown)?.f_type;
        if magic == FUSE_MAGIC {
            return Err(Reason::Mounted);
        }
        let file = FileKey::of(handed).ok().flatten().ok_or(Reason::NoBirthTime)?;
        let level_state = entry.level_state();
        let flags = rustix::fs::fcntl_getfl(handed).map_err(|_| Reason::Unknown)?;
        let refusals = [
            (entry.key() != Some(file.key), Reason::Unknown),
            (level_state.is_barred, level_state.why),
            (!self.partition().domain().is_persistent(), Reason::VolatileMemory),
            (file.owner_uid != self.uid(), Reason::OtherOwner),
            (flags & OFlags::RWMODE == OFlags::RDONLY, Reason::OtherOwner),
            (file.links == 0, Reason::Unlinked),
            (flags.contains(OFlags::DIRECT), Reason::Direct),
            (flags.intersects(OFlags::DSYNC | OFlags::SYNC), Reason::SyncOnWrite),
            (magic == TMPFS_MAGIC, Reason::SyncIsCheap),
            (self.file_table().is_left_out(file.key), Reason::TableFull),
        ];
        match refusals.into_iter().find(|(is_so, _)| *is_so) {
            Some((_, why)) => Err(why),
            None => Ok(file.key),
        }
    }
}

fn lower_of(handed: &OwnedFd, key: FileKey) -> Result<(PathBuf, Lower), Reason> {
    let lower = Lower::again(handed.as_fd()).map_err(|_| Reason::OtherOwner)?;
    let path = lower.path().map_err(|_| Reason::Unlinked)?;
    match Lower::at(&path, Sought::to_sync(key)) {
        Ok(Some(_)) => Ok((path, lower)),
        _ => Err(Reason::OtherPaths),
    }
}

/// Stores an assignment in a slot within the user's quota. Serialised: the table belongs to all users.
pub(crate) fn take_slot<M: Memory>(
    table: &Table<'_, M>,
    what: &Assignment,
    users: u32,
) -> Option<SlotNumber> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
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
    fn slots_taken_concurrently_by_users_are_distinct() {
        let memory = Window::new(Mapping::anonymous(TABLE_BYTES as usize).unwrap(), Domain::CpuCache);
        let taken = Mutex::new(BTreeSet::new());
        let take_some = |uid: u32| {
            for inode in 0..u64::from(SLOTS / 4) {
                let key = FileKey { device: uid.into(), inode, born_ns: 1 };
                let ring = RingPlace { at: 0, len_bytes: 4096, identity: 1 };
                let what = Assignment { key, ring, uid, path: "/a".into(), boot: [0; 16], kind: Kind::Ring };
                let slot = take_slot(&Table::new(&memory), &what, 4).unwrap();
                assert!(taken.lock().insert(slot), "{slot:?} is taken twice");
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
