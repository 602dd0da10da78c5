//! The tenants of a region. A user's partition is opened for the first program, and reclaimed when another user needs one and its
//! owner does not use it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_sys::time::monotonic_ns;
use byway_tdm_engine::control::Request;
use byway_tdm_engine::table::Reason;
use byway_tdm_region::{DeviceRegion, PartitionName, Window};
use parking_lot::Mutex;

use crate::cache_pins::CacheRoom;
use crate::clients::Clients;
use crate::error::DaemonError;
use crate::open_files::OpenFiles;
use crate::options::Options;
use crate::outcome::{RecoveredFile, Terms};
use crate::quotas::users;
use crate::recovery::left_by_all;
use crate::sweep_schedule::SweepSchedule;
use crate::table::{BootId, Found, TABLE_BYTES, Table};
use crate::tenant::{Tenant, file_table_path};

/// Least bytes of a partition: eight short logs.
pub(crate) const PARTITION_MIN_BYTES: u64 = 2 << 20;

/// The tenants of a region, and its partitions.
#[derive(Debug)]
pub(crate) struct Tenants {
    options: Options,
    region: Box<dyn DeviceRegion>,
    /// The region's file or node, resolved.
    place: PathBuf,
    cache_room: CacheRoom,
    boot: BootId,
    /// Epoch of this daemon, stored in the terms of files that it promotes.
    daemon_epoch: u32,
    clients: Arc<Clients>,
    opened: Mutex<Vec<Arc<Tenant>>>,
    /// For each user, held while the partition is opened or reclaimed, so that a slow one delays its own user only.
    openings: Mutex<BTreeMap<u32, Arc<Mutex<()>>>>,
    /// Rate limit for reclaiming partitions.
    reclaims: Mutex<SweepSchedule>,
}

impl Tenants {
    /// No tenants of an open region, whose file or node is `place`.
    pub(crate) fn new(
        options: Options,
        region: Box<dyn DeviceRegion>,
        place: PathBuf,
        clients: Arc<Clients>,
    ) -> Result<Self, DaemonError> {
        Ok(Self {
            options,
            cache_room: CacheRoom::of(region.as_ref()),
            region,
            place,
            boot: byway_sys::boot::boot_id().ok_or(DaemonError::NoBoot)?,
            daemon_epoch: getrandom::u32().unwrap_or_default() | 1,
            clients,
            opened: Mutex::default(),
            openings: Mutex::default(),
            reclaims: Mutex::default(),
        })
    }

    pub(crate) fn region(&self) -> &dyn DeviceRegion {
        self.region.as_ref()
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) const fn boot(&self) -> BootId {
        self.boot
    }

    pub(crate) const fn daemon_epoch(&self) -> u32 {
        self.daemon_epoch
    }

    /// The daemon's table in the region.
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

    /// A user's tenant, opened at the user's first request.
    pub(crate) fn tenant(&self, uid: u32) -> Result<Arc<Tenant>, DaemonError> {
        if let Some(tenant) = self.opened(uid) {
            return Ok(tenant);
        }
        let opening = Arc::clone(self.openings.lock().entry(uid).or_default());
        let _alone = opening.lock();
        if let Some(tenant) = self.opened(uid) {
            return Ok(tenant);
        }
        let tenant = Arc::new(self.open_tenant(uid)?);
        // Also recovers a user who could not be served when the daemon began.
        let terms = Terms { boot: self.boot, is_forced: false, forgets: false };
        tenant.recover(&self.table(), terms)?;
        self.opened.lock().push(Arc::clone(&tenant));
        Ok(tenant)
    }

    pub(crate) fn opened(&self, uid: u32) -> Option<Arc<Tenant>> {
        self.opened.lock().iter().find(|tenant| tenant.uid() == uid).map(Arc::clone)
    }

    fn open_tenant(&self, uid: u32) -> Result<Tenant, DaemonError> {
        let partition = self.partition_of(uid)?;
        let file_table = file_table_path(&self.options.file_tables, &self.place, uid);
        let is_logged =
            |found: &Found| matches!(found, Found::Used(was) if was.uid == uid && was.boot == self.boot);
        let has_logs = self.table().slots()?.iter().any(|(_, found)| is_logged(found));
        let tenant = Tenant::open((uid, has_logs), partition, &file_table, &self.options, &self.cache_room)?;
        tenant.file_table().set_daemon_epoch(self.daemon_epoch);
        tenant.file_table().set_seen(monotonic_ns());
        Ok(tenant)
    }

    /// The tenant that a request is about. Root may give orders for any user's files. An order opens no partition; other requests may, as a program
    /// of an earlier daemon asks without a Hello.
    ///
    /// # Errors
    /// The user has no tenant, or none has the file.
    pub(crate) fn tenant_for(&self, uid: u32, request: Request) -> Result<Arc<Tenant>, Reason> {
        let Request::Order(_, key) = request else { return self.tenant(uid).map_err(|_| Reason::NoRoom) };
        let has_it = |tenant: &Arc<Tenant>| tenant.file_table().find(key).is_some();
        if let Some(mine) = self.tenant_before(uid).filter(has_it) {
            return Ok(mine);
        }
        match self.all().into_iter().find(has_it) {
            Some(tenant) if uid == 0 => Ok(tenant),
            Some(_) => Err(Reason::OtherOwner),
            None => Err(Reason::Unknown),
        }
    }

    /// A user's tenant, if there is a partition already.
    fn tenant_before(&self, uid: u32) -> Option<Arc<Tenant>> {
        self.opened(uid).or_else(|| {
            let had_one = self.region.partitions().ok()?.iter().any(|partition| partition.uid == uid);
            had_one.then(|| self.tenant(uid).ok()).flatten()
        })
    }

    pub(crate) fn recover_user(&self, uid: u32, terms: Terms) -> Result<Vec<RecoveredFile>, DaemonError> {
        let tenant = match self.open_tenant(uid) {
            Ok(tenant) => tenant,
            // Serve the other users: this one's logs stay for the programs that use them.
            Err(error @ DaemonError::OtherFileTable { .. }) => {
                return left_by_all(&self.table(), uid, &error);
            }
            Err(error) => return Err(error),
        };
        let recovered = tenant.recover(&self.table(), terms)?;
        self.opened.lock().push(Arc::new(tenant));
        Ok(recovered)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tenant>> {
        self.opened.lock().clone()
    }

    /// The user's partition, or a free one. A daemon of a single user has one partition of the whole region.
    fn partition_of(&self, uid: u32) -> Result<Box<dyn DeviceRegion>, DaemonError> {
        // Two users must not get the same range.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock();
        let taken = self.region.partitions()?;
        if let Some(mine) = taken.iter().find(|partition| partition.uid == uid) {
            return Ok(self.region.partition(mine.range.clone(), uid)?);
        }
        if self.free_range(&taken).is_none() {
            self.give_back_unused(&taken);
        }
        let free =
            self.free_range(&self.region.partitions()?).ok_or(DaemonError::NoPartition(taken.len()))?;
        Ok(self.region.partition(free, uid)?)
    }

    /// The first free range of a partition's length. `taken` is sorted by place.
    fn free_range(&self, taken: &[PartitionName]) -> Option<Range<u64>> {
        let (align, end) = (self.region.align_bytes().max(4096), self.region.len_bytes());
        let first = TABLE_BYTES.next_multiple_of(align);
        let len = ((end - first) / u64::from(users()) / align * align).max(PARTITION_MIN_BYTES);
        let behind = |start: u64, partition: &PartitionName| match start + len <= partition.range.start {
            true => Err(start),
            false => Ok(partition.range.end.max(start)),
        };
        let start = taken.iter().try_fold(first, behind).unwrap_or_else(|start| start);
        (start + len <= end).then_some(start..start + len)
    }

    /// Reclaims one unused partition. Rate-limited, as a user without one may ask again and again.
    fn give_back_unused(&self, taken: &[PartitionName]) {
        let mut schedule = self.reclaims.lock();
        if schedule.is_due() {
            schedule.run(|| {
                // Skips partitions that cannot be checked or reclaimed.
                taken.iter().any(|partition| self.give_back(partition).unwrap_or(false));
            });
        }
    }

    /// Reclaims a partition and its user's shared file table. `false` if it is in use.
    fn give_back(&self, partition: &PartitionName) -> Result<bool, DaemonError> {
        let opening = Arc::clone(self.openings.lock().entry(partition.uid).or_default());
        // The user's request is opening it now, and may wait for this thread.
        let Some(_alone) = opening.try_lock() else { return Ok(false) };
        if self.has_logs(partition.uid)? {
            return Ok(false);
        }
        // Later requests of the user wait for the result.
        let closed = self.close(partition.uid);
        if self.is_used(partition.uid).unwrap_or(true) {
            self.opened.lock().extend(closed);
            return Ok(false);
        }
        self.remove_partition(partition).inspect_err(|_| self.opened.lock().extend(closed))?;
        Ok(true)
    }

    /// Removes a partition and its user's shared file table.
    fn remove_partition(&self, partition: &PartitionName) -> Result<(), DaemonError> {
        let file_table = file_table_path(&self.options.file_tables, &self.place, partition.uid);
        match fs::remove_file(&file_table) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(DaemonError::system(file_table, "remove it")(error))
            }
            _ => Ok(self.region.give_back(partition)?),
        }
    }

    /// Removes the region's file, every partition and every user's shared file table.
    ///
    /// # Errors
    /// [`DaemonError::Used`] if a log is left, or programs have a shared file table.
    pub(crate) fn remove(&self) -> Result<(), DaemonError> {
        let partitions = self.region.partitions()?;
        // Check all before the first is removed, so that a refusal has removed nothing.
        for PartitionName { uid, .. } in &partitions {
            self.check_unused(*uid)?;
        }
        for partition in &partitions {
            self.close(partition.uid);
            self.remove_partition(partition)?;
        }
        fs::remove_file(&self.place).map_err(DaemonError::system(&self.place, "remove it"))
    }

    /// Refuses if a user has logs, or programs that map the shared file table.
    fn check_unused(&self, uid: u32) -> Result<(), DaemonError> {
        // Ignore processes whose /proc entry is unreadable (a container's init): no log is left, so nothing is lost.
        match self.has_logs(uid)? || self.is_file_table_mapped(uid, &open_files_of(uid)?) {
            true => Err(DaemonError::Used { path: self.place.clone(), uid }),
            false => Ok(()),
        }
    }

    fn close(&self, uid: u32) -> Option<Arc<Tenant>> {
        let mut tenants = self.opened.lock();
        let at = tenants.iter().position(|tenant| tenant.uid() == uid)?;
        Some(tenants.swap_remove(at))
    }

    fn has_logs(&self, uid: u32) -> Result<bool, DaemonError> {
        Ok(self.users_of_table()?.contains(&uid))
    }

    /// Whether a user has files in the partition, or programs with the shared file table or about to get it.
    fn is_used(&self, uid: u32) -> Result<bool, DaemonError> {
        // In this order: a program that has disconnected maps the table.
        if self.clients.is_connected(uid) || self.has_logs(uid)? {
            return Ok(true);
        }
        let open = open_files_of(uid)?;
        Ok(open.is_partial() || self.is_file_table_mapped(uid, &open))
    }

    /// Whether another process has the user's shared file table.
    fn is_file_table_mapped(&self, uid: u32, open: &OpenFiles) -> bool {
        match fs::metadata(file_table_path(&self.options.file_tables, &self.place, uid)) {
            Ok(about) => open.is_mapped_elsewhere(about.ino()),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }
}

fn open_files_of(uid: u32) -> Result<OpenFiles, DaemonError> {
    OpenFiles::of_user(uid).map_err(DaemonError::system("/proc", "see what is open"))
}
