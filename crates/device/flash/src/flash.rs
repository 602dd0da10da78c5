//! The face of the flash: devices made and opened, namespaces, and access to their extents.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_link::FlashProfile;
use byway_sys::{ImageFile, Mapping};

use crate::areas::{AreaId, AreaRef, AreaTable};
use crate::blocks::BlockTable;
use crate::counters::{Cause, FlashCounters};
use crate::error::{FlashError, ImageError};
use crate::ftl::Ftl;
use crate::geometry::{Geometry, UNIT_BYTES};
use crate::image::layout::Layout;
use crate::image::namespaces::{
    Entry, ExtentId, NamespaceKind, NamespaceRecord, NamespaceSpec, NamespaceTable, OWNER_STATE_BYTES,
};
use crate::image::superblock::{Superblock, damaged};
use crate::media::{FileMedia, Media, MediaKind, NullMedia, RamMedia};
use crate::protected::Backing;
use crate::read::ReadError;
use crate::spare::PageKind;
use crate::state::PowerHistory;
use crate::timing::FlashTiming;

/// A device to be made.
#[derive(Debug, Clone)]
pub struct FlashOptions {
    /// Bytes that its namespaces may hold, all together.
    pub size_bytes: u64,
    /// The array it models.
    pub profile: FlashProfile,
    /// Name of the profile, at most 32 bytes; kept with the image.
    pub profile_name: String,
    /// What its pages are kept on.
    pub media: MediaKind,
    /// Whether operations take modelled time. They are done and counted either way.
    pub timing: bool,
    /// Identifier of the device; identifiers of namespaces follow from it. The caller is the source of randomness.
    pub uuid: [u8; 16],
}

impl FlashOptions {
    /// A device of `size_bytes` with timing on, no profile name and a zero identifier.
    #[must_use]
    pub const fn new(size_bytes: u64, profile: FlashProfile, media: MediaKind) -> Self {
        Self { size_bytes, profile, profile_name: String::new(), media, timing: true, uuid: [0; 16] }
    }
}

/// How an image is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Leave the file as it is; writing answers [`FlashError::ReadOnly`].
    pub read_only: bool,
    /// Whether operations take modelled time.
    pub timing: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { read_only: false, timing: true }
    }
}

/// What opening an image found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The image had not been closed.
    pub unclean: bool,
    /// Blocks whose live data was counted anew.
    pub recounted_blocks: u32,
    /// Namespaces whose removal was finished.
    pub removed_namespaces: u32,
}

/// One flash device: NAND array, translation layer, protected state.
///
/// Whoever runs the device owns it; it has no thread, clock or randomness of its own. Times are a cursor in modelled
/// picoseconds that the caller passes in: a read moves it to when the bytes are there, a write to when the page
/// buffer has taken the data. Dropping it without [`close`](Self::close) is a power cut of a device with capacitors:
/// everything acknowledged is there when the image is opened again.
pub struct Flash {
    ftl: Ftl,
    namespaces: NamespaceTable,
    areas: AreaTable,
    /// Mapped entries of each extent, once someone asked.
    mapped: Vec<Option<u64>>,
    superblock: Superblock,
    layout: Layout,
    backing: Backing,
    recovery: Recovery,
}

impl Flash {
    /// Makes a device with `namespaces`. On a file medium the file must not exist; when making fails it is removed.
    ///
    /// # Errors
    /// [`ImageError`] for the size, the profile and the file; [`FlashError::NoCapacity`] when the namespaces do not
    /// fit.
    pub fn create(options: FlashOptions, namespaces: &[NamespaceSpec]) -> Result<Self, FlashError> {
        let superblock = Superblock {
            geometry: Geometry::for_capacity(options.size_bytes, &options.profile)?,
            profile: options.profile,
            profile_name: options.profile_name,
            uuid: options.uuid,
        };
        let timing = options.timing;
        match options.media {
            MediaKind::File(path) => Self::create_file(&path, superblock, timing, namespaces),
            MediaKind::Ram => {
                let media = RamMedia::new(superblock.geometry, &Layout::of(&superblock.geometry))?;
                Self::create_on(Backing::Memory, Box::new(media), superblock, timing, namespaces)
            }
            MediaKind::Null => {
                Self::create_on(Backing::Memory, Box::new(NullMedia), superblock, timing, namespaces)
            }
        }
    }

    fn create_file(
        path: &Path,
        superblock: Superblock,
        timing: bool,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let file = Arc::new(ImageFile::create(path).map_err(ImageError::from)?);
        let made = Self::fill_file(&file, superblock, timing, namespaces);
        if made.is_err() {
            // The file is ours and new. What made this fail is the better error.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn fill_file(
        file: &Arc<ImageFile>,
        superblock: Superblock,
        timing: bool,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        file.set_len(layout.total_bytes())?;
        let backing = Backing::File(Arc::clone(file));
        backing.allocate(layout.fixed())?;
        let media = FileMedia::open(Arc::clone(file), superblock.geometry, &layout)?;
        let flash = Self::create_on(backing, Box::new(media), superblock, timing, namespaces)?;
        flash.superblock.write(file)?;
        flash.backing.sync()?;
        Ok(flash)
    }

    fn create_on(
        backing: Backing,
        media: Box<dyn Media>,
        superblock: Superblock,
        timing: bool,
        namespaces: &[NamespaceSpec],
    ) -> Result<Self, FlashError> {
        let layout = Layout::of(&superblock.geometry);
        let blocks = BlockTable::create(&backing, &layout, &superblock.geometry)?;
        let mut flash = Self::assemble(backing, media, superblock, timing, blocks, Path::new(""))?;
        flash.ftl.state.begin_power_cycle(true);
        for spec in namespaces {
            flash.add_namespace(*spec)?;
        }
        Ok(flash)
    }

    /// Opens an image. One that is refused is left as it is.
    ///
    /// # Errors
    /// [`FlashError::Image`]: what is wrong with it, in one sentence.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Self, FlashError> {
        let opened = if options.read_only { ImageFile::open_read_only(path) } else { ImageFile::open(path) };
        let file = Arc::new(opened.map_err(ImageError::from)?);
        let superblock = Superblock::read(&file)?;
        let layout = Layout::of(&superblock.geometry);
        let media = FileMedia::open(Arc::clone(&file), superblock.geometry, &layout)?;
        let backing = Backing::File(file);
        let blocks = BlockTable::open(&backing, &layout, &superblock.geometry)?;
        let mut flash = Self::assemble(backing, Box::new(media), superblock, options.timing, blocks, path)?;
        flash.recover(path)?;
        Ok(flash)
    }

    fn assemble(
        backing: Backing,
        media: Box<dyn Media>,
        superblock: Superblock,
        timing: bool,
        blocks: BlockTable,
        path: &Path,
    ) -> Result<Self, FlashError> {
        let geometry = superblock.geometry;
        let layout = Layout::of(&geometry);
        let timing = FlashTiming::new(&geometry, &superblock.profile, timing);
        let namespaces = NamespaceTable::open(&backing, &layout)?.map_err(|what| damaged(path, &what))?;
        let areas = AreaTable::open(&backing, &layout)?.map_err(|what| damaged(path, &what))?;
        let ftl = Ftl::open(geometry, &layout, &backing, media, timing, blocks)?;
        let mapped = Vec::new();
        let recovery = Recovery::default();
        Ok(Self { ftl, namespaces, areas, mapped, superblock, layout, backing, recovery })
    }

    /// Brings an opened image into order. Read-only, this happens in private copies of the mapped regions.
    fn recover(&mut self, path: &Path) -> Result<(), FlashError> {
        let clean = self.ftl.state.is_clean();
        if clean && !self.ftl.state.checksum_holds() {
            return Err(damaged(path, "the device state").into());
        }
        if let Some(entry) = self.namespaces.iter().find(|entry| !self.fits(entry)) {
            let what = format!("the extent of namespace {}", entry.record.nsid);
            return Err(damaged(path, &what).into());
        }
        self.recovery = Recovery { unclean: !clean, ..Recovery::default() };
        self.ftl.state.begin_power_cycle(clean);
        self.recovery.recounted_blocks = self.ftl.finish_intent();
        if !self.is_read_only() {
            self.recovery.removed_namespaces = self.finish_removals()?;
        }
        Ok(())
    }

    fn fits(&self, entry: &Entry) -> bool {
        entry.first.checked_add(entry.entries).is_some_and(|end| end <= self.ftl.map.len())
    }

    fn finish_removals(&mut self) -> Result<u32, FlashError> {
        let leaving: Vec<ExtentId> =
            self.namespaces.iter().filter(|entry| entry.leaving).map(|entry| entry.record.extent).collect();
        for extent in &leaving {
            self.finish_removal(*extent)?;
        }
        Ok(leaving.len() as u32)
    }

    /// Ends the use of the device in order. Without it the next opener counts an unsafe shutdown.
    ///
    /// # Errors
    /// What syncing the file says.
    pub fn close(&mut self) -> Result<(), FlashError> {
        if !self.is_read_only() {
            self.backing.sync()?;
            self.ftl.state.close();
        }
        self.backing.sync()
    }

    /// Waits until everything is on the image's disk: what survives real power loss.
    ///
    /// # Errors
    /// What syncing the file says.
    pub fn sync(&mut self) -> Result<(), FlashError> {
        self.backing.sync()
    }

    /// What opening found and did.
    #[must_use]
    pub const fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Times the device was opened, and how often without a close before.
    #[must_use]
    pub fn power_history(&self) -> PowerHistory {
        self.ftl.state.power_history()
    }

    /// Whether the image was opened read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.backing.is_read_only()
    }

    /// Turns modelled time of flash operations on or off.
    pub fn set_timing(&mut self, on: bool) {
        self.ftl.timing.set(on);
    }

    /// What was done, by cause, since the image was made.
    #[must_use]
    pub const fn counters(&self) -> &FlashCounters {
        self.ftl.state.counters()
    }

    /// The shape of the array.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.ftl.geometry
    }

    /// The array's profile as given when the image was made.
    #[must_use]
    pub const fn profile(&self) -> &FlashProfile {
        &self.superblock.profile
    }

    /// Name of that profile.
    #[must_use]
    pub fn profile_name(&self) -> &str {
        &self.superblock.profile_name
    }

    /// Identifier of the device.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.superblock.uuid
    }

    /// The image file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.backing {
            Backing::File(file) => Some(file.path().to_path_buf()),
            Backing::Memory => None,
        }
    }

    /// Bytes namespaces may hold, all together.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.ftl.geometry.usable_bytes
    }

    /// Bytes that belong to no namespace.
    #[must_use]
    pub fn unallocated_bytes(&self) -> u64 {
        let allocated: u64 = self.namespaces.iter().map(|entry| self.extent_bytes(entry)).sum();
        self.total_bytes().saturating_sub(allocated)
    }

    /// Bytes of flash that hold live data, all namespaces together.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let units: u64 = self.ftl.blocks.iter().map(|(_, block)| u64::from(block.live)).sum();
        units * UNIT_BYTES as u64
    }

    /// The namespaces, in the order of their slots.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceRecord> {
        self.namespaces.iter().map(|entry| &entry.record)
    }

    /// Namespace `nsid`.
    #[must_use]
    pub fn namespace(&self, nsid: u32) -> Option<&NamespaceRecord> {
        self.namespaces.find(nsid).map(|entry| &entry.record)
    }

    /// Makes a namespace, by one atomic step.
    ///
    /// # Errors
    /// [`FlashError::NoCapacity`], [`FlashError::NamespaceExists`], [`FlashError::TableFull`],
    /// [`FlashError::ReadOnly`].
    pub fn add_namespace(&mut self, spec: NamespaceSpec) -> Result<NamespaceRecord, FlashError> {
        self.writable()?;
        let nsid = self.choose_nsid(spec.nsid)?;
        let entry_bytes = self.entry_bytes(kind_of(spec.kind));
        let entries = spec.size_bytes.div_ceil(entry_bytes);
        let free_bytes = self.unallocated_bytes();
        if spec.size_bytes == 0 {
            return Err(FlashError::Misuse("a namespace has at least one byte"));
        }
        let refused = FlashError::NoCapacity { asked_bytes: spec.size_bytes, free_bytes };
        if spec.size_bytes > free_bytes || entries * entry_bytes > free_bytes {
            return Err(refused);
        }
        let first = self.place_for(entries).ok_or(refused)?;
        let extent = self.namespaces.free_slot().ok_or(FlashError::TableFull("namespaces"))?;
        let record = NamespaceRecord {
            nsid,
            kind: spec.kind,
            size_bytes: spec.size_bytes,
            extent,
            nguid: derive_id(self.superblock.uuid, nsid, first, 1),
            uuid: derive_uuid(self.superblock.uuid, nsid, first),
            owner_state: [0; OWNER_STATE_BYTES],
        };
        let entry = Entry { record: record.clone(), first, entries, leaving: false };
        self.namespaces.set(extent, Some(entry));
        self.set_mapped(extent, Some(0));
        Ok(record)
    }

    fn choose_nsid(&self, asked: Option<u32>) -> Result<u32, FlashError> {
        match asked {
            Some(0 | u32::MAX) => Err(FlashError::Misuse("namespaces are numbered from 1 to FFFFFFFEh")),
            Some(nsid) if self.namespaces.find(nsid).is_some() => Err(FlashError::NamespaceExists(nsid)),
            Some(nsid) => Ok(nsid),
            None => (1..)
                .find(|nsid| self.namespaces.find(*nsid).is_none())
                .ok_or(FlashError::TableFull("namespaces")),
        }
    }

    /// First place between the extents there are that is long enough.
    fn place_for(&self, entries: u64) -> Option<u64> {
        let mut taken: Vec<(u64, u64)> =
            self.namespaces.iter().map(|entry| (entry.first, entry.first + entry.entries)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (first, end) in taken {
            if first - at >= entries {
                break;
            }
            at = end;
        }
        (self.ftl.map.len() - at >= entries).then_some(at)
    }

    /// Removes a namespace, its protected areas and its data. Once begun, it is finished by the next opener at the
    /// latest. Blocks that hold nothing else are erased and their disk room is given back.
    ///
    /// # Errors
    /// [`FlashError::NoNamespace`], [`FlashError::ReadOnly`], and [`FlashError::Misuse`] while memory of one of its
    /// areas is held.
    pub fn remove_namespace(&mut self, nsid: u32) -> Result<(), FlashError> {
        self.writable()?;
        let mut entry = self.namespaces.find(nsid).ok_or(FlashError::NoNamespace(nsid))?.clone();
        if self.areas.is_shared(nsid) {
            return Err(FlashError::Misuse("device memory of the namespace is still mapped"));
        }
        let extent = entry.record.extent;
        entry.leaving = true;
        self.namespaces.set(extent, Some(entry));
        self.finish_removal(extent)
    }

    fn finish_removal(&mut self, extent: ExtentId) -> Result<(), FlashError> {
        let entry = self.entry(extent)?;
        let (nsid, entries) = (entry.record.nsid, entry.entries);
        self.trim(extent, 0..entries)?;
        self.areas.remove_all(nsid)?;
        self.ftl.forget_empty_blocks(0)?;
        self.namespaces.set(extent, None);
        Ok(())
    }

    /// Replaces what the owner of a namespace keeps in its record, by one atomic step. Shorter is filled with zeroes.
    ///
    /// # Errors
    /// [`FlashError::NoNamespace`], [`FlashError::ReadOnly`], [`FlashError::Misuse`] for more than 256 bytes.
    pub fn set_owner_state(&mut self, nsid: u32, state: &[u8]) -> Result<(), FlashError> {
        self.writable()?;
        let mut entry = self.namespaces.find(nsid).ok_or(FlashError::NoNamespace(nsid))?.clone();
        let mut owner_state = [0; OWNER_STATE_BYTES];
        let place = owner_state
            .get_mut(..state.len())
            .ok_or(FlashError::Misuse("owner state has at most 256 bytes"))?;
        place.copy_from_slice(state);
        entry.record.owner_state = owner_state;
        self.namespaces.set(entry.record.extent, Some(entry));
        Ok(())
    }

    /// Fills `into` from byte `at_bytes` of an extent; what was never written or was trimmed reads as zeroes.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::Media`], [`FlashError::Lost`], [`FlashError::File`].
    pub fn read(
        &mut self,
        extent: ExtentId,
        at_bytes: u64,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let (first, kind) = self.range(extent, at_bytes, into.len() as u64)?;
        let entry_bytes = self.entry_bytes(kind);
        let (index, within) = (at_bytes / entry_bytes, (at_bytes % entry_bytes) as usize);
        self.ftl
            .read(kind, first + index, within, into, cause, at_ps)
            .map_err(|error| self.read_error(extent, error))
    }

    fn read_error(&self, extent: ExtentId, error: ReadError) -> FlashError {
        match error {
            ReadError::Flash(error) => error,
            ReadError::Lost { entry, why } => {
                let (nsid, first) =
                    self.namespaces.get(extent).map_or((0, 0), |found| (found.record.nsid, found.first));
                FlashError::Lost { nsid, index: entry - first, why }
            }
        }
    }

    /// Writes whole 4 KiB units of an NVM extent, from unit `first` on. Each unit is written wholly or not at all.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::Misuse`] for other lengths or extents, [`FlashError::Full`],
    /// [`FlashError::File`] when the image's disk is full, [`FlashError::ReadOnly`].
    pub fn write_units(
        &mut self,
        extent: ExtentId,
        first: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let at_bytes = first.saturating_mul(UNIT_BYTES as u64);
        if !data.len().is_multiple_of(UNIT_BYTES) {
            return Err(FlashError::Misuse("units are written whole"));
        }
        let base = self.writable_units(extent, at_bytes, data.len() as u64)?;
        self.ftl.state.count_accepted(data.len() as u64);
        let newly = self.ftl.write_units(base + first, data, cause, at_ps)?;
        self.add_mapped(extent, newly);
        Ok(())
    }

    /// Writes any bytes of an NVM extent: units that are covered in part are read, changed and written anew.
    ///
    /// # Errors
    /// As [`Flash::write_units`] and [`Flash::read`].
    pub fn write_bytes(
        &mut self,
        extent: ExtentId,
        at_bytes: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        self.writable_units(extent, at_bytes, data.len() as u64)?;
        let unit = UNIT_BYTES as u64;
        let lead = (at_bytes.next_multiple_of(unit) - at_bytes).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(lead);
        let (body, tail) = rest.split_at(rest.len() / UNIT_BYTES * UNIT_BYTES);
        self.write_part(extent, at_bytes, head, cause, at_ps)?;
        let at_bytes = at_bytes + lead as u64;
        if !body.is_empty() {
            self.write_units(extent, at_bytes / unit, body, cause, at_ps)?;
        }
        self.write_part(extent, at_bytes + body.len() as u64, tail, cause, at_ps)
    }

    /// Writes bytes inside one unit.
    fn write_part(
        &mut self,
        extent: ExtentId,
        at_bytes: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        if data.is_empty() {
            return Ok(());
        }
        let first = at_bytes / UNIT_BYTES as u64;
        let within = (at_bytes % UNIT_BYTES as u64) as usize;
        let mut unit = [0; UNIT_BYTES];
        self.read(extent, first * UNIT_BYTES as u64, &mut unit, cause, at_ps)?;
        unit[within..within + data.len()].copy_from_slice(data);
        let base = self.entry(extent)?.first;
        self.ftl.state.count_accepted(data.len() as u64);
        let newly = self.ftl.write_units(base + first, &unit, cause, at_ps)?;
        self.add_mapped(extent, newly);
        Ok(())
    }

    /// Writes one whole page of a KV extent, straight to flash.
    ///
    /// # Errors
    /// As [`Flash::write_units`].
    pub fn write_page(
        &mut self,
        extent: ExtentId,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let entry = self.writable_page(extent, page, data.len())?;
        let newly = self.ftl.write_page(entry, data, cause, at_ps)?;
        self.ftl.state.count_accepted(data.len() as u64);
        self.add_mapped(extent, u64::from(newly));
        Ok(())
    }

    /// As [`Flash::write_page`], from a protected area: the page-sized piece that starts at byte `at` of it.
    ///
    /// # Errors
    /// As [`Flash::write_units`]; [`FlashError::Misuse`] when the area has no such piece.
    pub fn write_page_from(
        &mut self,
        extent: ExtentId,
        page: u64,
        (area, at): (AreaRef, usize),
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let page_bytes = self.ftl.geometry.page_bytes as usize;
        let entry = self.writable_page(extent, page, page_bytes)?;
        let piece = self.areas.bytes(area).get(at..).and_then(|rest| rest.get(..page_bytes));
        let data = piece.ok_or(FlashError::Misuse("the protected area ends before the page"))?;
        let newly = self.ftl.write_page(entry, data, cause, at_ps)?;
        self.ftl.state.count_accepted(page_bytes as u64);
        self.add_mapped(extent, u64::from(newly));
        Ok(())
    }

    /// Forgets entries of an extent (units of an NVM extent, pages of a KV extent): they read as zeroes and take no
    /// flash.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::ReadOnly`].
    pub fn trim(&mut self, extent: ExtentId, entries: Range<u64>) -> Result<(), FlashError> {
        self.writable()?;
        let found = self.entry(extent)?;
        let (kind, base) = (kind_of(found.record.kind), found.first);
        if entries.start > entries.end || entries.end > found.entries {
            return Err(self.out_of_range(extent, entries.start, entries.end.saturating_sub(entries.start)));
        }
        let (mut index, end) = (base + entries.start, base + entries.end);
        let mut gone = 0;
        while index < end {
            let absent = self.ftl.map.absent_run(index);
            if absent > 0 {
                index += absent;
                continue;
            }
            gone += u64::from(self.ftl.trim(index, kind));
            index += 1;
        }
        self.remove_mapped(extent, gone);
        Ok(())
    }

    /// Forgets everything in an extent and gives the disk room of blocks that held nothing else back.
    ///
    /// # Errors
    /// As [`Flash::trim`].
    pub fn forget(&mut self, extent: ExtentId) -> Result<(), FlashError> {
        let entries = self.entry(extent)?.entries;
        self.trim(extent, 0..entries)?;
        self.ftl.forget_empty_blocks(0)
    }

    /// Whether entry `index` (unit or page) of an extent holds data.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`].
    pub fn is_mapped(&self, extent: ExtentId, index: u64) -> Result<bool, FlashError> {
        let found = self.entry(extent)?;
        if index >= found.entries {
            return Err(self.out_of_range(extent, index, 1));
        }
        Ok(self.ftl.is_mapped(found.first + index))
    }

    /// Bytes of an extent that hold data. The first call after opening walks the extent's map.
    ///
    /// # Errors
    /// [`FlashError::NoNamespace`].
    pub fn mapped_bytes(&mut self, extent: ExtentId) -> Result<u64, FlashError> {
        let found = self.entry(extent)?;
        let (kind, first, entries) = (kind_of(found.record.kind), found.first, found.entries);
        let known = self.mapped.get(usize::from(extent.0)).copied().flatten();
        let mapped = known.unwrap_or_else(|| self.ftl.count_mapped(first, entries));
        self.set_mapped(extent, Some(mapped));
        Ok(mapped * self.entry_bytes(kind))
    }

    /// Adds a protected area of zeroes to a namespace, or to the device as number 0. Its disk room is taken now.
    ///
    /// # Errors
    /// [`FlashError::AreaExists`], [`FlashError::TableFull`], [`FlashError::File`] when the disk is full,
    /// [`FlashError::ReadOnly`].
    pub fn add_area(&mut self, nsid: u32, id: AreaId, len_bytes: usize) -> Result<AreaRef, FlashError> {
        self.writable()?;
        if nsid != 0 && self.namespaces.find(nsid).is_none() {
            return Err(FlashError::NoNamespace(nsid));
        }
        self.areas.add(nsid, id, len_bytes)
    }

    /// The area of that name.
    #[must_use]
    pub fn find_area(&self, nsid: u32, id: AreaId) -> Option<AreaRef> {
        self.areas.find(nsid, id)
    }

    /// The bytes of an area, for reading.
    ///
    /// # Panics
    /// When the area was removed with its namespace or its memory was given out by [`Flash::area_memory`].
    #[must_use]
    #[inline]
    pub fn area(&self, area: AreaRef) -> &[u8] {
        self.areas.bytes(area)
    }

    /// The bytes of an area. What is stored here survives the process; stores that belong together are made one by
    /// [`Flash::commit_u64`].
    ///
    /// # Panics
    /// As [`Flash::area`].
    #[inline]
    pub fn protected(&mut self, area: AreaRef) -> &mut [u8] {
        self.areas.bytes_mut(area)
    }

    /// Stores a little-endian word at byte `at` of an area, a multiple of 8, by one instruction, after every store
    /// made before: the commit of what was stored.
    ///
    /// # Panics
    /// As [`Flash::area`], and when the word is not inside the area.
    #[inline]
    pub fn commit_u64(&mut self, area: AreaRef, at: usize, value: u64) {
        self.areas.commit(area, at, value);
    }

    /// The little-endian word at byte `at` of an area, a multiple of 8.
    ///
    /// # Panics
    /// As [`Flash::commit_u64`].
    #[must_use]
    #[inline]
    pub fn load_u64(&self, area: AreaRef, at: usize) -> u64 {
        self.areas.word(area, at)
    }

    /// The memory of an area, to be mapped as device memory that hosts store into. From now on it is reached through
    /// this handle alone, which copies and never hands out references: [`Flash::protected`] refuses it.
    ///
    /// # Panics
    /// When the area was removed with its namespace.
    #[must_use]
    pub fn area_memory(&mut self, area: AreaRef) -> Arc<Mapping> {
        self.areas.share(area)
    }

    /// Bytes the image takes on its disk; nothing for other media.
    ///
    /// # Errors
    /// What the system says.
    pub fn disk_bytes(&self) -> Result<u64, FlashError> {
        match &self.backing {
            Backing::File(file) => Ok(file.allocated_bytes()?),
            Backing::Memory => Ok(0),
        }
    }

    /// Length of the image file, holes included.
    #[must_use]
    pub const fn image_bytes(&self) -> u64 {
        self.layout.total_bytes()
    }

    fn writable(&self) -> Result<(), FlashError> {
        if self.is_read_only() { Err(FlashError::ReadOnly) } else { Ok(()) }
    }

    #[inline]
    fn entry(&self, extent: ExtentId) -> Result<&Entry, FlashError> {
        self.namespaces.get(extent).ok_or(FlashError::Misuse("there is no such extent"))
    }

    /// First entry and mapping of an extent that has the range.
    #[inline]
    fn range(&self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> Result<(u64, PageKind), FlashError> {
        let entry = self.entry(extent)?;
        let inside = at_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.extent_bytes(entry));
        if !inside {
            return Err(self.out_of_range(extent, at_bytes, len_bytes));
        }
        Ok((entry.first, kind_of(entry.record.kind)))
    }

    #[cold]
    fn out_of_range(&self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> FlashError {
        let extent_bytes = self.namespaces.get(extent).map_or(0, |entry| self.extent_bytes(entry));
        FlashError::OutOfRange { at_bytes, len_bytes, extent_bytes }
    }

    #[inline]
    fn writable_units(&self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> Result<u64, FlashError> {
        self.writable()?;
        match self.range(extent, at_bytes, len_bytes)? {
            (first, PageKind::Units) => Ok(first),
            (_, PageKind::Page) => Err(FlashError::Misuse("a KV extent is written by whole pages")),
        }
    }

    #[inline]
    fn writable_page(&self, extent: ExtentId, page: u64, len: usize) -> Result<u64, FlashError> {
        self.writable()?;
        let page_bytes = self.ftl.geometry.page_bytes;
        if len != page_bytes as usize {
            return Err(FlashError::Misuse("a page is written whole"));
        }
        match self.range(extent, page.saturating_mul(u64::from(page_bytes)), u64::from(page_bytes))? {
            (first, PageKind::Page) => Ok(first + page),
            (_, PageKind::Units) => Err(FlashError::Misuse("an NVM extent is written by units")),
        }
    }

    #[inline]
    const fn entry_bytes(&self, kind: PageKind) -> u64 {
        match kind {
            PageKind::Page => self.ftl.geometry.page_bytes as u64,
            PageKind::Units => UNIT_BYTES as u64,
        }
    }

    #[inline]
    const fn extent_bytes(&self, entry: &Entry) -> u64 {
        entry.entries * self.entry_bytes(kind_of(entry.record.kind))
    }

    fn set_mapped(&mut self, extent: ExtentId, mapped: Option<u64>) {
        let slot = usize::from(extent.0);
        if self.mapped.len() <= slot {
            self.mapped.resize(slot + 1, None);
        }
        self.mapped[slot] = mapped;
    }

    #[inline]
    fn add_mapped(&mut self, extent: ExtentId, newly: u64) {
        if let Some(Some(mapped)) = self.mapped.get_mut(usize::from(extent.0)) {
            *mapped += newly;
        }
    }

    fn remove_mapped(&mut self, extent: ExtentId, gone: u64) {
        if let Some(Some(mapped)) = self.mapped.get_mut(usize::from(extent.0)) {
            *mapped -= gone.min(*mapped);
        }
    }
}

const fn kind_of(kind: NamespaceKind) -> PageKind {
    match kind {
        NamespaceKind::Nvm { .. } => PageKind::Units,
        NamespaceKind::Kv => PageKind::Page,
    }
}

/// An identifier that follows from the device's, so that the same device is made twice from the same seed.
fn derive_id(device: [u8; 16], nsid: u32, first: u64, what: u64) -> [u8; 16] {
    let (low, high) = device.split_at(8);
    let mut state = u64::from(nsid) ^ first.rotate_left(32) ^ what.rotate_left(56);
    let mut id = [0; 16];
    for (place, half) in id.chunks_exact_mut(8).zip([low, high]) {
        let half = half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        state = splitmix(state ^ half);
        place.copy_from_slice(&state.to_be_bytes());
    }
    id
}

/// As [`derive_id`], with the version and variant bits of a name-based UUID (RFC 9562, version 8).
fn derive_uuid(device: [u8; 16], nsid: u32, first: u64) -> [u8; 16] {
    let mut id = derive_id(device, nsid, first, 2);
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

fn splitmix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
