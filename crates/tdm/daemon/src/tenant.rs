//! A tenant: one user's partition, shared file table and files.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_tdm_engine::log::RingPlace;
use byway_tdm_engine::table::{EntryIndex, FileTable, Reason};
use byway_tdm_region::{Access, DeviceRegion, Export};
use parking_lot::{Mutex, MutexGuard};

use crate::absorbed::AbsorbedFile;
use crate::cache_pins::{CachePins, CacheRoom};
use crate::clock::Clock;
use crate::error::DaemonError;
use crate::evaluator::{Evaluator, Rooms};
use crate::options::{Options, Promotion};
use crate::promoted_files::PromotedFiles;
use crate::rings::Rings;
use crate::sweep_schedule::SweepSchedule;
use crate::table_file;

/// One user's tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) uid: u32,
    /// The partition, which the user's programs map.
    pub(crate) partition: Box<dyn DeviceRegion>,
    pub(crate) file_table: FileTable,
    table_file: File,
    pub(crate) files: Mutex<Files>,
    pub(crate) promoted_files: PromotedFiles,
    evaluator: Mutex<Evaluator>,
    clock: Clock,
    sweep_schedule: Mutex<SweepSchedule>,
}

/// Absorbed files, and places for more.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) absorbed: Vec<Arc<AbsorbedFile>>,
    pub(crate) rings: Rings,
    pub(crate) pins: CachePins,
}

impl Tenant {
    /// Opens a tenant with the user's shared file table of this boot, or a new one. `has_logs`: the daemon's table has logs of the user and this boot.
    pub(crate) fn open(
        (uid, has_logs): (u32, bool),
        partition: Box<dyn DeviceRegion>,
        file_table: &Path,
        options: &Options,
        room: &CacheRoom,
    ) -> Result<Self, DaemonError> {
        let memory = partition.export(0..partition.len_bytes(), Access::ReadWrite)?;
        let (file_table, table_file) = table_file::open(file_table, uid, has_logs.then_some(&memory.file))?;
        file_table.recover_entry_being_reclaimed();
        let pins = CachePins::of(partition.as_ref(), room);
        let rings = Rings::new(partition.len_bytes(), options.ring_bytes.min(pins.log_most_bytes()));
        let (places, _) = rings.places();
        let logs_bytes = pins.room_bytes(places as u64 * rings.ring_bytes());
        let is_persistent = partition.domain().is_persistent();
        let resident_bytes = match options.promotion {
            Promotion::ByOrder => 0,
            Promotion::ByBenefit => logs_bytes / 2,
        };
        let rooms = Rooms { logs_bytes, log_bytes: rings.ring_bytes(), resident_bytes };
        let evaluator = Evaluator::new(rooms, options.rules.clone(), is_persistent);
        let files = Mutex::new(Files { absorbed: Vec::new(), rings, pins });
        let (evaluator, clock) = (Mutex::new(evaluator), options.clock.clone());
        Ok(Self {
            uid,
            partition,
            file_table,
            table_file,
            files,
            promoted_files: PromotedFiles::default(),
            evaluator,
            clock,
            sweep_schedule: Mutex::default(),
        })
    }

    /// The evaluator. Do not lock it while holding [`Tenant::files`].
    pub(crate) fn evaluator(&self) -> MutexGuard<'_, Evaluator> {
        self.evaluator.lock()
    }

    /// File of the shared file table.
    pub(crate) const fn table_file(&self) -> &File {
        &self.table_file
    }

    /// Schedule of sweeps.
    pub(crate) fn sweep_schedule(&self) -> MutexGuard<'_, SweepSchedule> {
        self.sweep_schedule.lock()
    }

    /// Time by the policy's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    /// The memory and table that programs are given.
    pub(crate) fn export(&self) -> Result<(Export, File), DaemonError> {
        let export = self.partition.export(0..self.partition.len_bytes(), Access::ReadWrite)?;
        let file_table = self.table_file.as_fd().try_clone_to_owned();
        let file_table = file_table.map_err(DaemonError::system("the shared file table", "hand it out"))?;
        Ok((export, file_table.into()))
    }

    /// The absorbed file of an entry.
    pub(crate) fn absorbed(&self, entry: EntryIndex) -> Option<Arc<AbsorbedFile>> {
        self.files().absorbed.iter().find(|absorbed| absorbed.entry == entry).map(Arc::clone)
    }

    /// All absorbed files.
    pub(crate) fn all_absorbed(&self) -> Vec<Arc<AbsorbedFile>> {
        self.files().absorbed.clone()
    }
}

impl Files {
    /// Takes a place for a log, pinned in the device's cache if it has one.
    pub(crate) fn take_ring(
        &mut self,
        partition: &dyn DeviceRegion,
        identity: u64,
    ) -> Result<RingPlace, Reason> {
        let ring = self.rings.take(identity).ok_or(Reason::NoRoom)?;
        self.pins.admit(partition, ring).inspect_err(|_| self.rings.give_back(ring))?;
        Ok(ring)
    }

    /// Takes a place for a resident file of `least_bytes` that may soon grow by `ahead_bytes`, pinned as well.
    pub(crate) fn take_resident_place(
        &mut self,
        partition: &dyn DeviceRegion,
        (least_bytes, ahead_bytes): (u64, u64),
        identity: u64,
    ) -> Result<RingPlace, Reason> {
        let place = self.rings.take_run(least_bytes, ahead_bytes, identity).ok_or(Reason::NoRoom)?;
        self.pins.admit(partition, place).inspect_err(|_| self.rings.give_back(place))?;
        Ok(place)
    }

    /// Frees a place.
    pub(crate) fn give_back(&mut self, ring: RingPlace) {
        self.pins.release(ring);
        self.rings.give_back(ring);
    }
}

/// Path of a user's shared file table. It follows from the region, so that a restarted daemon finds it.
pub(crate) fn file_table_path(file_tables: &Path, region: &Path, uid: u32) -> PathBuf {
    let sum = byway_sys::checksum::crc32c(region.as_os_str().as_bytes());
    let me = rustix::process::geteuid().as_raw();
    file_tables.join(format!("byway-tdm-{me}-{sum:08x}-{uid}.board"))
}
