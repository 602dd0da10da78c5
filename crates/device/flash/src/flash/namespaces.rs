//! Namespaces made, changed and removed.

use crate::durability::SyncPoint;
use crate::error::FlashError;
use crate::flash::Flash;
use crate::geometry::Promises;
use crate::image::namespaces::{
    ACCESS_STATE_BYTES, Chosen, Entry, ExtentId, NamespaceKind, NamespaceRecord, NamespaceSpec,
    OWNER_STATE_BYTES,
};
use crate::image::superblock::Features;
use crate::injection::splitmix;
use crate::spare::PageKind;

impl Flash {
    /// Bytes that belong to no namespace.
    #[must_use]
    pub fn unallocated_bytes(&self) -> u64 {
        let allocated: u64 =
            self.namespaces.iter().fold(0, |sum: u64, entry| sum.saturating_add(self.allocated_bytes(entry)));
        self.total_bytes().saturating_sub(allocated)
    }

    /// What a namespace takes of the bytes there are: its size, rounded to what is mapped at once.
    fn allocated_bytes(&self, entry: &Entry) -> u64 {
        let entry_bytes = self.entry_bytes(entry.record.kind.page_kind());
        entry.record.size_bytes.div_ceil(entry_bytes).saturating_mul(entry_bytes)
    }

    /// Pages of a KV extent beyond the namespace's size: its share of the over-provisioning. Log compaction makes better
    /// use of it than garbage collection, which has next to nothing to move where pages that die together share blocks.
    fn spare_entries(&self, spec: &NamespaceSpec) -> u64 {
        let spare_bytes = match spec.kind {
            NamespaceKind::Kv => {
                self.ftl.geometry().spare_bytes_for_pages(spec.size_bytes, self.ftl.blocks.good_count())
            }
            NamespaceKind::Nvm { .. } => 0,
        };
        spare_bytes / self.entry_bytes(spec.kind.page_kind())
    }

    /// What the namespaces that are written by whole pages were promised.
    pub(crate) fn promises(&self) -> Promises {
        let of_pages = self.namespaces.iter().filter(|entry| entry.record.kind == NamespaceKind::Kv);
        of_pages.fold(Promises::default(), |sum, entry| {
            let extent_bytes = entry.entries.saturating_mul(self.entry_bytes(PageKind::Page));
            Promises {
                size_bytes: sum.size_bytes.saturating_add(entry.record.size_bytes),
                extent_bytes: sum.extent_bytes.saturating_add(extent_bytes),
            }
        })
    }

    /// Reckons anew how many blocks may go bad.
    pub(crate) fn note_promises(&mut self) {
        let needed = self.ftl.geometry().needed_blocks(self.promises());
        self.ftl.blocks.need(needed);
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
        let entry_bytes = self.entry_bytes(spec.kind.page_kind());
        let entries = spec.size_bytes.div_ceil(entry_bytes);
        let free_bytes = self.unallocated_bytes();
        if spec.size_bytes == 0 {
            return Err(FlashError::Misuse("a namespace has at least one byte"));
        }
        let refused = FlashError::NoCapacity { asked_bytes: spec.size_bytes, free_bytes };
        if spec.size_bytes > free_bytes || entries * entry_bytes > free_bytes {
            return Err(refused);
        }
        let entries = entries + self.spare_entries(&spec);
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
            access_state: [0; ACCESS_STATE_BYTES],
        };
        let entry = Entry { record: record.clone(), first, entries, leaving: false };
        self.set_namespace(extent, Some(entry))?;
        self.mapped.set(extent, 0);
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
    pub(crate) fn place_for(&self, entries: u64) -> Option<u64> {
        let mut taken: Vec<(u64, u64)> =
            self.namespaces.iter().map(|entry| (entry.first, entry.first + entry.entries)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (first, end) in taken {
            // Extents may overlap in a forged image.
            if first.saturating_sub(at) >= entries {
                break;
            }
            at = at.max(end);
        }
        (self.ftl.map.len().saturating_sub(at) >= entries).then_some(at)
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
        self.set_namespace(extent, Some(entry))?;
        self.order(SyncPoint::NamespaceLeave)?;
        self.finish_removal(extent)
    }

    fn finish_removal(&mut self, extent: ExtentId) -> Result<(), FlashError> {
        let entry = self.entry(extent)?;
        let (nsid, entries) = (entry.record.nsid, entry.entries);
        self.trim(extent, 0..entries)?;
        self.areas.remove_all(nsid)?;
        self.ftl.reclaim_empty_blocks(0)?;
        // What of this is not on the medium when the slot is free belongs to no namespace: recovery from a loss of power forgets that, and
        // a namespace that takes the place is not selected before a sync.
        self.set_namespace(extent, None)
    }

    /// Sets or frees a slot of the namespace table, by one step.
    pub(crate) fn set_namespace(&mut self, extent: ExtentId, entry: Option<Entry>) -> Result<(), FlashError> {
        if let Some(entry) = entry {
            if entry.record.access_state != [0; ACCESS_STATE_BYTES] {
                self.use_features(Features::ACCESS_STATE)?;
            }
            self.order_since(SyncPoint::NamespaceCopy, self.namespaces.changed_in(extent))?;
            let chosen = self.namespaces.prepare(extent, &entry);
            self.order(SyncPoint::NamespaceSelect)?;
            self.namespaces.choose(extent, chosen, Some(entry));
        } else {
            self.namespaces.choose(extent, Chosen::None, None);
        }
        self.ftl.state.note_change();
        self.namespaces.note_change(extent, self.epoch());
        self.note_promises();
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
        self.set_namespace(entry.record.extent, Some(entry))
    }

    /// Replaces what the record of a namespace says of who may use it, by one atomic step. Shorter is filled with zeroes.
    /// A program that does not know of it can only read the image from then on.
    ///
    /// # Errors
    /// As [`Flash::set_owner_state`], for more than 384 bytes.
    pub fn set_access_state(&mut self, nsid: u32, state: &[u8]) -> Result<(), FlashError> {
        self.writable()?;
        let mut entry = self.namespaces.find(nsid).ok_or(FlashError::NoNamespace(nsid))?.clone();
        let mut access_state = [0; ACCESS_STATE_BYTES];
        let place = access_state
            .get_mut(..state.len())
            .ok_or(FlashError::Misuse("access state has at most 384 bytes"))?;
        place.copy_from_slice(state);
        entry.record.access_state = access_state;
        self.set_namespace(entry.record.extent, Some(entry))
    }

    /// Marks the image as one that uses features of the format, before it does.
    fn use_features(&mut self, features: Features) -> Result<(), FlashError> {
        if self.superblock.features.contains(features) {
            return Ok(());
        }
        let mut marked = self.superblock.clone();
        marked.features.insert(features);
        if let Some(file) = self.image_file() {
            marked.write(&file)?;
        }
        self.superblock = marked;
        Ok(())
    }

    /// Finishes removals that were cut short; says how many.
    pub(crate) fn finish_removals(&mut self) -> Result<u32, FlashError> {
        let leaving: Vec<ExtentId> =
            self.namespaces.iter().filter(|entry| entry.leaving).map(|entry| entry.record.extent).collect();
        for extent in &leaving {
            self.finish_removal(*extent)?;
        }
        Ok(leaving.len() as u32)
    }
}

/// An identifier that follows from the device's, so that the same device is made twice from the same seed.
fn derive_id(device: [u8; 16], nsid: u32, first: u64, what: u64) -> [u8; 16] {
    let (low, high) = device.split_at(8);
    let mut state = u64::from(nsid) ^ first.rotate_left(32) ^ what.rotate_left(56);
    let mut id = [0; 16];
    for (place, half) in id.chunks_exact_mut(8).zip([low, high]) {
        let half = half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        state = splitmix(&mut (state ^ half));
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
