//! What a daemon has of one user: a slice of the region, a board, and the files that are absorbed.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_tdm_engine::log::RingPlace;
use byway_tdm_engine::table::{Board, EntryIndex, Why};
use byway_tdm_region::{Access, DeviceRegion, Export};

use crate::board_file;
use crate::clock::Clock;
use crate::error::DaemonError;
use crate::held::HeldFile;
use crate::homes::Homes;
use crate::judge::{Judge, Rooms};
use crate::options::{Homing, Options};
use crate::resident::{CacheRoom, Resident};
use crate::rings::Rings;
use crate::sweep::Looks;

/// One user's part.
#[derive(Debug)]
pub(crate) struct Estate {
    pub(crate) uid: u32,
    /// A region of its own, which the user's programs map.
    pub(crate) slice: Box<dyn DeviceRegion>,
    pub(crate) board: Board,
    board_file: File,
    pub(crate) files: Mutex<Files>,
    pub(crate) homes: Homes,
    judge: Mutex<Judge>,
    clock: Clock,
    looks: Mutex<Looks>,
}

/// The files that are absorbed, and the places for more.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) held: Vec<Arc<HeldFile>>,
    pub(crate) rings: Rings,
    pub(crate) resident: Resident,
}

impl Estate {
    /// A user's part in `slice`, with the board that is there from this boot, or a new one; whether the table has logs of his and of this boot.
    pub(crate) fn open(
        (uid, has_logs): (u32, bool),
        slice: Box<dyn DeviceRegion>,
        board: &Path,
        options: &Options,
        room: &CacheRoom,
    ) -> Result<Self, DaemonError> {
        let memory = slice.export(0..slice.len_bytes(), Access::ReadWrite)?;
        let (board, board_file) = board_file::open(board, uid, has_logs.then_some(&memory.file))?;
        board.see_what_was_left();
        let resident = Resident::of(slice.as_ref(), room);
        let rings = Rings::new(slice.len_bytes(), options.ring_bytes.min(resident.log_most_bytes()));
        let (places, _) = rings.places();
        let logs_bytes = resident.room_bytes(places as u64 * rings.ring_bytes());
        let is_persistent = slice.domain().is_persistent();
        let homes_bytes = match options.homing {
            Homing::ByOrder => 0,
            Homing::ByMerit => logs_bytes / 2,
        };
        let rooms = Rooms { logs_bytes, log_bytes: rings.ring_bytes(), homes_bytes };
        let judge = Judge::new(rooms, options.rules.clone(), is_persistent);
        let files = Mutex::new(Files { held: Vec::new(), rings, resident });
        let (judge, clock) = (Mutex::new(judge), options.clock.clone());
        Ok(Self {
            uid,
            slice,
            board,
            board_file,
            files,
            homes: Homes::default(),
            judge,
            clock,
            looks: Mutex::default(),
        })
    }

    /// Who decides which files are absorbed. Not asked with [`Estate::files`] held.
    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of the board.
    pub(crate) const fn board_file(&self) -> &File {
        &self.board_file
    }

    /// When it is looked again which entries can be given back.
    pub(crate) fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that files are judged by.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a program is given.
    pub(crate) fn export(&self) -> Result<(Export, File), DaemonError> {
        let export = self.slice.export(0..self.slice.len_bytes(), Access::ReadWrite)?;
        let board = self.board_file.as_fd().try_clone_to_owned();
        let board = board.map_err(DaemonError::system("the board", "hand it out"))?;
        Ok((export, board.into()))
    }

    /// A file that is absorbed, by its entry.
    pub(crate) fn held(&self, entry: EntryIndex) -> Option<Arc<HeldFile>> {
        self.files().held.iter().find(|held| held.entry == entry).map(Arc::clone)
    }

    /// All that are.
    pub(crate) fn all_held(&self) -> Vec<Arc<HeldFile>> {
        self.files().held.clone()
    }
}

impl Files {
    /// A place for a log, in the device's cache where it has one.
    pub(crate) fn take_ring(&mut self, slice: &dyn DeviceRegion, identity: u64) -> Result<RingPlace, Why> {
        let ring = self.rings.take(identity).ok_or(Why::NoRoom)?;
        self.resident.admit(slice, ring).inspect_err(|_| self.rings.give_back(ring))?;
        Ok(ring)
    }

    /// A place for a file of so many bytes, that soon has so many more, in the cache as well.
    pub(crate) fn take_home(
        &mut self,
        slice: &dyn DeviceRegion,
        (least_bytes, ahead_bytes): (u64, u64),
        identity: u64,
    ) -> Result<RingPlace, Why> {
        let place = self.rings.take_run(least_bytes, ahead_bytes, identity).ok_or(Why::NoRoom)?;
        self.resident.admit(slice, place).inspect_err(|_| self.rings.give_back(place))?;
        Ok(place)
    }

    /// A log's place is free again.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        self.resident.release(ring);
        self.rings.give_back(ring);
    }
}

/// Where a user's board is. Its name follows from the region, so that a daemon that is started again finds it.
pub(crate) fn board_path(boards: &Path, region: &Path, uid: u32) -> PathBuf {
    let sum = byway_sys::checksum::crc32c(region.as_os_str().as_bytes());
    let me = rustix::process::geteuid().as_raw();
    boards.join(format!("byway-tdm-{me}-{sum:08x}-{uid}.board"))
}
