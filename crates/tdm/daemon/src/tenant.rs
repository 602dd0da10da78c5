//! A tenant: one user's partition, shared file table and files.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_tdm_engine::table::{EntryIndex, FileTable};
use byway_tdm_region::{Access, DeviceRegion, Export};
use parking_lot::{Mutex, MutexGuard};

use crate::absorbed::AbsorbedFile;
use crate::cache_pins::CacheRoom;
use crate::clock::Clock;
use crate::error::DaemonError;
use crate::evaluator::{Evaluator, Rooms};
use crate::files::Files;
use crate::options::Options;
use crate::promoted_files::PromotedFiles;
use crate::sweep_schedule::SweepSchedule;
use crate::table_file;

/// One user's tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    uid: u32,
    /// The partition, which the user's programs map.
    partition: Box<dyn DeviceRegion>,
    file_table: FileTable,
    table_file: File,
    files: Mutex<Files>,
    promoted_files: PromotedFiles,
    evaluator: Mutex<Evaluator>,
    clock: Clock,
    sweep_schedule: Mutex<SweepSchedule>,
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
        let files = Files::new(partition.as_ref(), room, options.ring_bytes);
        let rooms = Rooms::new(files.logs_bytes(), files.rings().ring_bytes(), options.promotion);
        let is_persistent = partition.domain().is_persistent();
        let evaluator = Evaluator::new(rooms, options.rules.clone(), is_persistent);
        let (evaluator, clock) = (Mutex::new(evaluator), options.clock.clone());
        Ok(Self {
            uid,
            partition,
            file_table,
            table_file,
            files: Mutex::new(files),
            promoted_files: PromotedFiles::default(),
            evaluator,
            clock,
            sweep_schedule: Mutex::default(),
        })
    }

    /// The user.
    pub(crate) const fn uid(&self) -> u32 {
        self.uid
    }

    /// The partition.
    pub(crate) fn partition(&self) -> &dyn DeviceRegion {
        self.partition.as_ref()
    }

    /// The shared file table.
    pub(crate) const fn file_table(&self) -> &FileTable {
        &self.file_table
    }

    /// Files resident in the partition.
    pub(crate) const fn promoted_files(&self) -> &PromotedFiles {
        &self.promoted_files
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

    /// Absorbed files and places.
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
        self.files().absorbed(entry).map(Arc::clone)
    }

    /// All absorbed files.
    pub(crate) fn all_absorbed(&self) -> Vec<Arc<AbsorbedFile>> {
        self.files().all_absorbed()
    }
}

/// Path of a user's shared file table. It follows from the region, so that a restarted daemon finds it.
pub(crate) fn file_table_path(file_tables: &Path, region: &Path, uid: u32) -> PathBuf {
    let sum = byway_sys::checksum::crc32c(region.as_os_str().as_bytes());
    let me = rustix::process::geteuid().as_raw();
    file_tables.join(format!("byway-tdm-{me}-{sum:08x}-{uid}.board"))
}
