//! Memory without a cache in front of it: a file or a device node, mapped whole.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use byway_sys::map::Sharing;
use byway_sys::names::{is_at, remove_if_at};
use byway_sys::{Mapping, dax};

use crate::access::Access;
use crate::error::RegionError;
use crate::export::{Export, ExportDescription};
use crate::model::Model;
use crate::opening::Opening;
use crate::partition::{self, PartitionName};
use crate::region::{DeviceRegion, Pin, Ticket, check};
use crate::stats::{RegionStats, Residency};
use crate::terms::Terms;
use crate::window::Window;
use crate::{devdax, emu, fsdax};

/// Kind of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Emu,
    FsDax,
    DevDax,
}

/// A mapped file as a region.
#[derive(Debug)]
pub(crate) struct Mapped {
    kind: Kind,
    path: PathBuf,
    /// Locked, so never exported.
    file: File,
    /// Offset of the region in the file.
    file_at: u64,
    window: Window,
    align_bytes: u64,
    is_synchronous: bool,
    why: String,
    /// How its partitions are opened.
    how: Opening,
}

impl Mapped {
    /// Opens a region, or a partition of `user`, who has descriptors of its file and may truncate it.
    pub(crate) fn open(
        kind: Kind,
        path: &Path,
        size_bytes: Option<u64>,
        how: &Opening,
        user: Option<u32>,
    ) -> Result<Self, RegionError> {
        let (file, is_new) = open_locked(kind, path, user)?;
        let made = file.try_clone().map_err(RegionError::system(path, "open it"))?;
        let opened = Self::open_file(kind, path, file, size_bytes, how, user);
        if is_new && opened.is_err() {
            // Report the first error; the file is new, empty and locked until here.
            let _ = remove_if_at(&made, path);
        }
        opened
    }

    fn open_file(
        kind: Kind,
        path: &Path,
        file: File,
        size_bytes: Option<u64>,
        how: &Opening,
        user: Option<u32>,
    ) -> Result<Self, RegionError> {
        let terms = match kind {
            Kind::Emu => emu::terms(path, &file, size_bytes, how)?,
            Kind::FsDax => fsdax::terms(path, &file, size_bytes, how)?,
            Kind::DevDax => devdax::terms(path, &file, size_bytes, how)?,
        };
        let map = terms.map(path, &file, 0, user.is_some())?;
        Ok(Self::with(kind, path, file, &terms, how, map))
    }

    fn with(kind: Kind, path: &Path, file: File, terms: &Terms, how: &Opening, map: Mapping) -> Self {
        Self {
            kind,
            path: path.to_path_buf(),
            file,
            file_at: 0,
            window: Window::new(map, terms.domain()),
            align_bytes: terms.align_bytes(),
            is_synchronous: terms.is_synchronous(),
            why: terms.why().to_owned(),
            how: how.clone(),
        }
    }

    /// The file or device node.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a model of a device.
    pub(crate) fn with_model(mut self, model: Model) -> Self {
        self.window = self.window.with_model(model);
        self
    }

    /// Refuses a range that overlaps another partition.
    fn check_disjoint(&self, wanted: &PartitionName) -> Result<(), RegionError> {
        let taken =
            self.partitions()?.into_iter().find(|other| other != wanted && other.overlaps(&wanted.range));
        match taken {
            None => Ok(()),
            Some(other) => {
                let why = format!("{:?} of it belong to the partition of user {}", other.range, other.uid);
                Err(RegionError::refused(&self.path, why))
            }
        }
    }

    /// Opens a partition, also without a cache.
    pub(crate) fn open_partition(&self, range: Range<u64>, uid: u32) -> Result<Self, RegionError> {
        check(self, &range)?;
        if self.kind == Kind::DevDax {
            return self.partition_of_node(range, uid);
        }
        let name = PartitionName { range, uid };
        self.check_disjoint(&name)?;
        let (path, len_bytes) = (name.path_beside(&self.path), name.range.end - name.range.start);
        let partition = Self::open(self.kind, &path, Some(len_bytes), &self.how, Some(uid))?;
        dax::belong_to(&partition.file, uid).map_err(RegionError::system(&path, "give it to its user"))?;
        Ok(partition)
    }

    /// A range of a device node, for its one trusted user.
    fn partition_of_node(&self, range: Range<u64>, uid: u32) -> Result<Self, RegionError> {
        let trusted = self.how.user.unwrap_or_else(dax::own_user);
        if uid != trusted {
            let why = format!(
                "a device node cannot be parted among users, and user {trusted} is the one who is trusted with it \
                 (user=): fsdax gives each a file of his own"
            );
            return Err(RegionError::refused(&self.path, why));
        }
        let reopened = dax::reopen(&self.file, true);
        let file = reopened.map_err(RegionError::system(&self.path, "open it once more"))?;
        let len_bytes = range.end - range.start;
        let domain = self.window.domain();
        let terms = Terms::new((len_bytes, self.align_bytes), Sharing::Shared, domain, self.why.as_str());
        let file_at = self.file_at + range.start;
        let map = terms.map(&self.path, &file, file_at, false)?;
        Ok(Self { file_at, ..Self::with(self.kind, &self.path, file, &terms, &self.how, map) })
    }
}

/// Opens the file at a path and locks it; whether it was made. The file may be removed or replaced before it is locked: then the
/// one that is there now is opened.
fn open_locked(kind: Kind, path: &Path, user: Option<u32>) -> Result<(File, bool), RegionError> {
    loop {
        let opened = match kind {
            Kind::DevDax => File::options().read(true).write(true).open(path).map(|file| (file, false)),
            Kind::Emu | Kind::FsDax => dax::open_or_make(path),
        };
        let (file, is_new) = opened.map_err(RegionError::system(path, "open it"))?;
        let is_ours = dax::is_ours_or(&file, user).map_err(RegionError::system(path, "ask whose it is"))?;
        if kind != Kind::DevDax && !is_ours {
            return Err(RegionError::refused(path, "it belongs to another user, who may have it open"));
        }
        if !dax::try_lock(&file).map_err(RegionError::system(path, "lock it"))? {
            let who = dax::who_locked(&file);
            let who = who.map_or("another process".to_owned(), |it| format!("process {it}"));
            return Err(RegionError::refused(path, format!("{who} owns it")));
        }
        if is_at(&file, path).map_err(RegionError::system(path, "look for it"))? {
            return Ok((file, is_new));
        }
    }
}

impl DeviceRegion for Mapped {
    fn window(&self) -> &Window {
        &self.window
    }

    fn align_bytes(&self) -> u64 {
        self.align_bytes
    }

    fn why(&self) -> &str {
        &self.why
    }

    fn is_emulated(&self) -> bool {
        self.kind == Kind::Emu
    }

    fn residency(&self, range: Range<u64>) -> Result<Residency, RegionError> {
        check(self, &range)?;
        Ok(Residency { resident_bytes: range.end - range.start, ..Residency::default() })
    }

    fn prefetch(&self, range: Range<u64>) -> Result<Ticket, RegionError> {
        check(self, &range)?;
        Ok(Ticket::NOW)
    }

    fn has_come(&self, _ticket: Ticket) -> bool {
        true
    }

    fn wait_for(&self, _ticket: Ticket) {}

    fn evict(&self, range: Range<u64>) -> Result<(), RegionError> {
        check(self, &range)
    }

    fn pin(&self, range: Range<u64>) -> Result<Pin, RegionError> {
        check(self, &range)?;
        Ok(Pin::ALWAYS)
    }

    fn export(&self, range: Range<u64>, access: Access) -> Result<Export, RegionError> {
        check(self, &range)?;
        let file = dax::reopen(&self.file, access == Access::ReadWrite);
        let description = ExportDescription {
            at: self.file_at + range.start,
            len_bytes: range.end - range.start,
            domain: self.window.domain(),
            access,
            is_synchronous: self.is_synchronous,
            is_emulated: self.is_emulated(),
            model: None,
        };
        let file = file.map_err(RegionError::system(&self.path, "open it for another"))?;
        Ok(Export { file, page_table: None, description })
    }

    fn partition(&self, range: Range<u64>, uid: u32) -> Result<Box<dyn DeviceRegion>, RegionError> {
        Ok(Box::new(self.open_partition(range, uid)?))
    }

    fn partitions(&self) -> Result<Vec<PartitionName>, RegionError> {
        if self.kind == Kind::DevDax {
            return Ok(Vec::new());
        }
        partition::beside(&self.path).map_err(RegionError::system(&self.path, "look for its partitions"))
    }

    fn give_back(&self, partition: &PartitionName) -> Result<(), RegionError> {
        let path = partition.path_beside(&self.path);
        std::fs::remove_file(&path).map_err(RegionError::system(&path, "remove it"))
    }

    fn stats(&self) -> RegionStats {
        RegionStats { resident_bytes: self.len_bytes(), ..RegionStats::default() }
    }
}
