//! The parts of a region that users have: each is opened when its user comes, and given back when another one finds no room and nobody uses it.

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use byway_sys::time::monotonic_ns;
use byway_tdm_engine::control::Request;
use byway_tdm_engine::table::Why;
use byway_tdm_region::{DeviceRegion, SliceName, Window};

use crate::error::DaemonError;
use crate::estate::{Estate, board_path};
use crate::open_files::OpenFiles;
use crate::recovery::{RecoveredFile, Terms, left_by_all};
use crate::serve::{Shared, locked};
use crate::shares::users;
use crate::table::{Found, TABLE_BYTES, Table};

/// The shortest slice: eight short logs.
pub(crate) const SLICE_MIN_BYTES: u64 = 2 << 20;

impl Shared {
    pub(crate) fn table(&self) -> Table<'_, Window> {
        Table::new(self.region.window())
    }

    pub(crate) fn users_of_table(&self) -> Result<Vec<u32>, DaemonError> {
        let mut users: Vec<u32> = self
            .table()
            .slots()?
            .into_iter()
            .filter_map(|(_, found)| match found {
                Found::Used(was) => Some(was.uid),
                _ => None,
            })
            .collect();
        users.sort_unstable();
        users.dedup();
        Ok(users)
    }

    /// A user's part, made when he comes for the first time.
    pub(crate) fn estate(&self, uid: u32) -> Result<Arc<Estate>, DaemonError> {
        if let Some(estate) = self.opened(uid) {
            return Ok(estate);
        }
        let opening = Arc::clone(locked(&self.openings).entry(uid).or_default());
        let _alone = locked(&opening);
        if let Some(estate) = self.opened(uid) {
            return Ok(estate);
        }
        let estate = Arc::new(self.open_estate(uid)?);
        // There is something to recover where he could not be served when all others were.
        let terms = Terms { boot: self.boot, is_forced: false, forgets: false };
        estate.recover(&self.table(), terms)?;
        locked(&self.estates).push(Arc::clone(&estate));
        Ok(estate)
    }

    pub(crate) fn opened(&self, uid: u32) -> Option<Arc<Estate>> {
        locked(&self.estates).iter().find(|estate| estate.uid == uid).map(Arc::clone)
    }

    fn open_estate(&self, uid: u32) -> Result<Estate, DaemonError> {
        let slice = self.slice_of(uid)?;
        let board = board_path(&self.options.boards, &self.place, uid);
        let is_logged =
            |found: &Found| matches!(found, Found::Used(was) if was.uid == uid && was.boot == self.boot);
        let has_logs = self.table().slots()?.iter().any(|(_, found)| is_logged(found));
        let estate = Estate::open((uid, has_logs), slice, &board, &self.options, &self.cache_room)?;
        estate.board.set_reign(self.reign);
        estate.board.set_seen(monotonic_ns());
        Ok(estate)
    }

    /// The part that a request is about: root has orders for any user's files. An order makes nobody a part, as it is about files of a board; a
    /// program that was served by a daemon before this one asks without a Hello.
    ///
    /// # Errors
    /// There is none, or none that has the file.
    pub(crate) fn estate_for(&self, uid: u32, request: Request) -> Result<Arc<Estate>, Why> {
        let Request::Order(_, key) = request else { return self.estate(uid).map_err(|_| Why::NoRoom) };
        let has_it = |estate: &Arc<Estate>| estate.board.find(key).is_some();
        if let Some(mine) = self.estate_before(uid).filter(has_it) {
            return Ok(mine);
        }
        match self.all_estates().into_iter().find(has_it) {
            Some(estate) if uid == 0 => Ok(estate),
            Some(_) => Err(Why::OtherOwner),
            None => Err(Why::Unknown),
        }
    }

    /// A user's part, if he had one before.
    fn estate_before(&self, uid: u32) -> Option<Arc<Estate>> {
        self.opened(uid).or_else(|| {
            let had_one = self.region.slices().ok()?.iter().any(|slice| slice.uid == uid);
            had_one.then(|| self.estate(uid).ok()).flatten()
        })
    }

    pub(crate) fn recover_user(&self, uid: u32, terms: Terms) -> Result<Vec<RecoveredFile>, DaemonError> {
        let estate = match self.open_estate(uid) {
            Ok(estate) => estate,
            // Others are served: his logs stay as they are, with the programs that use them.
            Err(error @ DaemonError::OtherBoard { .. }) => return left_by_all(&self.table(), uid, &error),
            Err(error) => return Err(error),
        };
        let recovered = estate.recover(&self.table(), terms)?;
        locked(&self.estates).push(Arc::new(estate));
        Ok(recovered)
    }

    pub(crate) fn all_estates(&self) -> Vec<Arc<Estate>> {
        locked(&self.estates).clone()
    }

    /// The slice that a user had, or the next one that is free: all of the region where only one user is served.
    fn slice_of(&self, uid: u32) -> Result<Box<dyn DeviceRegion>, DaemonError> {
        // Two users who come at once do not have the same one.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = locked(&ONE_AT_A_TIME);
        let taken = self.region.slices()?;
        if let Some(mine) = taken.iter().find(|slice| slice.uid == uid) {
            return Ok(self.region.slice(mine.range.clone(), uid)?);
        }
        if self.free_range(&taken).is_none() {
            self.give_back_unused(&taken);
        }
        let free = self.free_range(&self.region.slices()?).ok_or(DaemonError::NoSlice(taken.len()))?;
        Ok(self.region.slice(free, uid)?)
    }

    /// The first range for one more user that no slice has any byte of. They are by their place.
    fn free_range(&self, taken: &[SliceName]) -> Option<Range<u64>> {
        let (align, end) = (self.region.align_bytes().max(4096), self.region.len_bytes());
        let first = TABLE_BYTES.next_multiple_of(align);
        let len = ((end - first) / u64::from(users()) / align * align).max(SLICE_MIN_BYTES);
        let behind = |start: u64, slice: &SliceName| match start + len <= slice.range.start {
            true => Err(start),
            false => Ok(slice.range.end.max(start)),
        };
        let start = taken.iter().try_fold(first, behind).unwrap_or_else(|start| start);
        (start + len <= end).then_some(start..start + len)
    }

    /// Gives back one slice of those that nobody uses. Who comes again and again where there is none has it looked no more often than that.
    fn give_back_unused(&self, taken: &[SliceName]) {
        let mut looks = locked(&self.looks);
        if looks.are_due() {
            looks.look(|| {
                // Of one that cannot be told of, or not taken away, the next may be.
                taken.iter().any(|slice| self.give_back(slice).unwrap_or(false));
            });
        }
    }

    /// Gives a slice back, with its user's board, if nobody uses it; says whether it did.
    fn give_back(&self, slice: &SliceName) -> Result<bool, DaemonError> {
        let opening = Arc::clone(locked(&self.openings).entry(slice.uid).or_default());
        // Whoever opens it may wait for us: he comes just now.
        let Ok(_alone) = opening.try_lock() else { return Ok(false) };
        if self.has_logs(slice.uid)? {
            return Ok(false);
        }
        // Who comes from here on waits for what becomes of it.
        let closed = self.close(slice.uid);
        if self.is_used(slice.uid).unwrap_or(true) {
            locked(&self.estates).extend(closed);
            return Ok(false);
        }
        let board = board_path(&self.options.boards, &self.place, slice.uid);
        match fs::remove_file(&board) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                locked(&self.estates).extend(closed);
                return Err(DaemonError::system(board, "take it away")(error));
            }
            _ => {}
        }
        self.region.give_back(slice)?;
        Ok(true)
    }

    fn close(&self, uid: u32) -> Option<Arc<Estate>> {
        let mut estates = locked(&self.estates);
        let at = estates.iter().position(|estate| estate.uid == uid)?;
        Some(estates.swap_remove(at))
    }

    fn has_logs(&self, uid: u32) -> Result<bool, DaemonError> {
        Ok(self.users_of_table()?.contains(&uid))
    }

    /// Whether a user has files in his part, or programs that have his board or are about to.
    fn is_used(&self, uid: u32) -> Result<bool, DaemonError> {
        // In this order: who has no connection any more maps what he was given.
        if self.is_connected(uid) || self.has_logs(uid)? {
            return Ok(true);
        }
        let open = OpenFiles::of_user(uid).map_err(DaemonError::system("/proc", "see what is open"))?;
        let board = board_path(&self.options.boards, &self.place, uid);
        let is_mapped = match fs::metadata(&board) {
            Ok(about) => open.is_mapped_elsewhere(about.ino()),
            Err(error) => error.kind() != ErrorKind::NotFound,
        };
        Ok(open.is_partial() || is_mapped)
    }
}
