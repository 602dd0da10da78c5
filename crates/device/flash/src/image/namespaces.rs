//! The namespace table: each namespace's extent of the logical space, and its protected data areas.
//!
//! A slot is a selector word and two copies of the record. A change writes the copy that is not selected and then
//! selects it by one store, so a record is the old or the new one and a damaged one is known as such.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bit_repair::{RepairLog, repair_bit};
use crate::durability::Epoch;
use crate::error::FlashError;
use crate::finding::{Finding, Remedy};
use crate::image::layout::{Layout, NAMESPACE_SLOT_BYTES, NAMESPACE_SLOTS};
use crate::location::EntryIndex;
use crate::protected::{Backing, Protected};
use crate::spare::PageKind;
use crate::word;

/// Bytes that the owner of a namespace may keep in its record.
pub const OWNER_STATE_BYTES: usize = 256;

/// Bytes of a record for reservations.
pub const ACCESS_STATE_BYTES: usize = 384;

const COPY_BYTES: usize = 768;
const COPY_AT: usize = 512;
const PLACE: u64 = 2 << 60;

/// What a namespace is for, which decides how it is mapped. Not `non_exhaustive`: the controller has a command set for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Logical blocks of `lba_bytes`, mapped by 4 KiB units.
    Nvm {
        /// Bytes in a logical block.
        lba_bytes: u32,
    },
    /// Key-value pairs, kept in logs of whole NAND pages and mapped by page.
    Kv,
}

impl NamespaceKind {
    /// What an entry of the map points to for it.
    pub(crate) const fn page_kind(self) -> PageKind {
        match self {
            Self::Nvm { .. } => PageKind::Units,
            Self::Kv => PageKind::Page,
        }
    }
}

/// A namespace to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceSpec {
    /// Its number; `None` takes the lowest free one, from 1.
    pub nsid: Option<u32>,
    /// Command set and format.
    pub kind: NamespaceKind,
    /// Its size. A last unit or page that it fills in part is its own.
    pub size_bytes: u64,
}

/// The part of the logical space that belongs to a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentId(pub u16);

/// A namespace of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Its number.
    pub nsid: u32,
    /// Command set and format.
    pub kind: NamespaceKind,
    /// Its size.
    pub size_bytes: u64,
    /// Where its data is addressed.
    pub extent: ExtentId,
    /// Namespace globally unique identifier.
    pub nguid: [u8; 16],
    /// Universally unique identifier.
    pub uuid: [u8; 16],
    /// What its owner keeps here; zeroes at first. Changed by one atomic step.
    pub owner_state: [u8; OWNER_STATE_BYTES],
    /// Which hosts may use it, in the controller's encoding; zeroes at first. Changed by one atomic step.
    pub access_state: [u8; ACCESS_STATE_BYTES],
}

/// A record as the table holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) record: NamespaceRecord,
    pub(crate) first: EntryIndex,
    pub(crate) entries: u64,
    /// Being removed: what is left of it goes when the image is opened.
    pub(crate) leaving: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stored {
    crc: U32,
    leaving: U32,
    nsid: U32,
    kind: U32,
    lba_bytes: U32,
    reserved: U32,
    size_bytes: U64,
    first: U64,
    entries: U64,
    /// Further runs of the logical space, for namespaces that grow.
    more_runs: [U64; 6],
    nguid: [u8; 16],
    uuid: [u8; 16],
    owner_state: [u8; OWNER_STATE_BYTES],
    access_state: [u8; ACCESS_STATE_BYTES],
}

const _: () = assert!(size_of::<Stored>() == COPY_BYTES && COPY_AT + 2 * COPY_BYTES == NAMESPACE_SLOT_BYTES);

const KIND_NVM: u32 = 1;
const KIND_KV: u32 = 2;

/// Which copy of a slot counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Neither: the slot is free.
    None,
    First,
    Second,
}

#[derive(Debug)]
pub(crate) struct NamespaceTable {
    memory: Protected,
    entries: Vec<Option<Entry>>,
    changed_in: Vec<Epoch>,
}

impl NamespaceTable {
    /// Reads the table; the error names the slot that is damaged. With a repair log, what can be set right is, and a slot
    /// that cannot is left out.
    pub(crate) fn open(
        backing: &Backing,
        layout: &Layout,
        mut repair_log: RepairLog<'_>,
    ) -> Result<Result<Self, String>, FlashError> {
        let mut memory = backing.map(layout.namespaces)?;
        let mut entries = Vec::with_capacity(NAMESPACE_SLOTS);
        for slot in 0..NAMESPACE_SLOTS {
            if let Some(findings) = &mut repair_log {
                findings.extend(repair(&mut memory, slot));
            }
            match load(&memory, slot) {
                Some(entry) => entries.push(entry),
                None if repair_log.is_some() => entries.push(None),
                None => return Ok(Err(format!("slot {slot} of the namespace table"))),
            }
        }
        Ok(Ok(Self { memory, entries, changed_in: vec![Epoch::default(); NAMESPACE_SLOTS] }))
    }

    /// Leaves a record out of what is in use, without a change to the table.
    pub(crate) fn leave_out(&mut self, extent: ExtentId) {
        self.entries[usize::from(extent.0)] = None;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    #[inline]
    pub(crate) fn get(&self, extent: ExtentId) -> Option<&Entry> {
        self.entries.get(usize::from(extent.0))?.as_ref()
    }

    pub(crate) fn find(&self, nsid: u32) -> Option<&Entry> {
        self.iter().find(|entry| entry.record.nsid == nsid)
    }

    pub(crate) fn free_slot(&self) -> Option<ExtentId> {
        self.entries.iter().position(Option::is_none).map(|slot| ExtentId(slot as u16))
    }

    /// The epoch in which a slot changed last.
    pub(crate) fn changed_in(&self, extent: ExtentId) -> Epoch {
        self.changed_in.get(usize::from(extent.0)).copied().unwrap_or_default()
    }

    pub(crate) fn note_change(&mut self, extent: ExtentId, now: Epoch) {
        self.changed_in[usize::from(extent.0)] = now;
    }

    /// Writes a record to the copy that is not selected.
    pub(crate) fn prepare(&mut self, extent: ExtentId, entry: &Entry) -> Chosen {
        let slot = usize::from(extent.0);
        let copy = match self.selected(slot) {
            1 => Chosen::Second,
            _ => Chosen::First,
        };
        let at = copy_at(slot, copy as u64);
        self.memory[at..][..COPY_BYTES].copy_from_slice(Stored::of(entry).as_bytes());
        copy
    }

    /// Selects a copy, which is what makes the change.
    pub(crate) fn choose(&mut self, extent: ExtentId, copy: Chosen, entry: Option<Entry>) {
        let slot = usize::from(extent.0);
        self.memory.set_word(slot * NAMESPACE_SLOT_BYTES, word::seal(copy as u64, PLACE | slot as u64));
        self.entries[slot] = entry;
    }

    fn selected(&self, slot: usize) -> u64 {
        word::unseal(self.memory.word(slot * NAMESPACE_SLOT_BYTES), PLACE | slot as u64).unwrap_or(0)
    }
}

/// `None` when the slot is damaged; `Some(None)` when it is free.
fn load(memory: &Protected, slot: usize) -> Option<Option<Entry>> {
    let selector = memory.word(slot * NAMESPACE_SLOT_BYTES);
    if selector == 0 {
        return Some(None);
    }
    match word::unseal(selector, PLACE | slot as u64)? {
        0 => Some(None),
        copy @ (1 | 2) => {
            let bytes = memory.get(copy_at(slot, copy)..)?.get(..COPY_BYTES)?;
            Stored::read_from_bytes(bytes).ok()?.get(slot).map(Some)
        }
        _ => None,
    }
}

/// Sets a damaged slot right: the selector by the copies there are, a copy by its checksum or by the other one.
fn repair(memory: &mut Protected, slot: usize) -> Option<Finding> {
    let (at, place) = (slot * NAMESPACE_SLOT_BYTES, PLACE | slot as u64);
    let finding = |what: &str, remedy| {
        Some(Finding::new("namespace record", format!("slot {slot}"), what.to_owned(), remedy))
    };
    let selector = memory.word(at);
    let good = |memory: &Protected, copy: u64| {
        let bytes = memory.get(copy_at(slot, copy)..)?.get(..COPY_BYTES)?;
        Stored::read_from_bytes(bytes).ok()?.get(slot)
    };
    if word::unseal(selector, place).is_none_or(|copy| copy > 2) {
        let repaired = word::repaired(selector, place).filter(|word| word & word::MAX_VALUE <= 2);
        // A copy that the owner marked is the later one of two.
        let later =
            |copy: &u64| good(memory, *copy).map(|entry| entry.record.owner_state != [0; OWNER_STATE_BYTES]);
        let by_copies = [1, 2].into_iter().filter(|copy| later(copy).is_some()).max_by_key(later);
        let by_copies = by_copies.map(|copy| word::seal(copy, place));
        if selector == 0 && by_copies.is_none() {
            return None;
        }
        let Some(found) = repaired.filter(|_| selector != 0).or(by_copies) else {
            return finding("neither its selector nor a copy matches its checksum", Remedy::None);
        };
        memory.set_word(at, found);
        return finding("its selector does not match its checksum", Remedy::Restore);
    }
    let copy @ (1 | 2) = word::unseal(selector, place)? else { return None };
    if good(memory, copy).is_some() {
        return None;
    }
    let bytes = memory.get_mut(copy_at(slot, copy)..)?.get_mut(..COPY_BYTES)?;
    if repair_bit(bytes, |bytes| crc32c::crc32c(&bytes[4..]).to_le_bytes() == bytes[..4]) {
        return finding("a bit of it was flipped", Remedy::Restore);
    }
    if good(memory, 3 - copy).is_some() {
        memory.set_word(at, word::seal(3 - copy, place));
        return finding(
            "it does not match its checksum; its copy from before the last change does",
            Remedy::Restore,
        );
    }
    finding(
        "neither of its copies matches its checksum: which namespace it described is unknown",
        Remedy::None,
    )
}

/// Makes the checksums of selectors and records fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    for (slot, bytes) in region.chunks_exact_mut(NAMESPACE_SLOT_BYTES).enumerate() {
        word::reseal(&mut bytes[..8], PLACE | slot as u64);
        for copy in bytes[COPY_AT..].chunks_exact_mut(COPY_BYTES) {
            let crc = crc32c::crc32c(&copy[4..]);
            copy[..4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

const fn copy_at(slot: usize, copy: u64) -> usize {
    slot * NAMESPACE_SLOT_BYTES + COPY_AT + (copy as usize - 1) * COPY_BYTES
}

impl Stored {
    fn of(entry: &Entry) -> Self {
        let mut stored = Self::new_zeroed();
        let record = &entry.record;
        let (kind, lba_bytes) = match record.kind {
            NamespaceKind::Nvm { lba_bytes } => (KIND_NVM, lba_bytes),
            NamespaceKind::Kv => (KIND_KV, 0),
        };
        stored.leaving = u32::from(entry.leaving).into();
        stored.nsid = record.nsid.into();
        stored.kind = kind.into();
        stored.lba_bytes = lba_bytes.into();
        stored.size_bytes = record.size_bytes.into();
        stored.first = entry.first.into();
        stored.entries = entry.entries.into();
        stored.nguid = record.nguid;
        stored.uuid = record.uuid;
        stored.owner_state = record.owner_state;
        stored.access_state = record.access_state;
        stored.crc = crc32c::crc32c(&stored.as_bytes()[4..]).into();
        stored
    }

    fn get(&self, slot: usize) -> Option<Entry> {
        if self.crc.get() != crc32c::crc32c(&self.as_bytes()[4..]) {
            return None;
        }
        let kind = match self.kind.get() {
            KIND_NVM => NamespaceKind::Nvm { lba_bytes: self.lba_bytes.get() },
            KIND_KV => NamespaceKind::Kv,
            _ => return None,
        };
        let record = NamespaceRecord {
            nsid: self.nsid.get(),
            kind,
            size_bytes: self.size_bytes.get(),
            extent: ExtentId(slot as u16),
            nguid: self.nguid,
            uuid: self.uuid,
            owner_state: self.owner_state,
            access_state: self.access_state,
        };
        let (first, entries) = (self.first.get(), self.entries.get());
        Some(Entry { record, first, entries, leaving: self.leaving.get() != 0 })
    }
}
