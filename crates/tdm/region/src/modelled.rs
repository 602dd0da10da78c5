//! An emulated device with a modelled cache and drive behind its memory.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use byway_link::HybridProfile;
use byway_sys::time::monotonic_ns;

use crate::access::Access;
use crate::cache::Cache;
use crate::description::Description;
use crate::drive::Drive;
use crate::error::{RegionError, Unsupported};
use crate::export::Export;
use crate::latency::LatencyModel;
use crate::mapped::{Kind, Mapped};
use crate::model::{Model, ModelTerms};
use crate::opening::Opening;
use crate::page_table::PageTable;
use crate::partition::PartitionName;
use crate::region::{DeviceRegion, Pin, Ticket, check};
use crate::stats::{RegionStats, Residency};
use crate::window::Window;

/// A modelled device, or a partition of one.
#[derive(Debug)]
pub(crate) struct Modelled {
    memory: Mapped,
    device: Device,
}

/// State shared by a device and its partitions.
#[derive(Debug, Clone)]
struct Device {
    cache: Arc<Cache>,
    page_table: Arc<PageTable>,
    table_file: Arc<File>,
    terms: ModelTerms,
    can_pin: bool,
}

impl Modelled {
    /// Opens the memory and models a device with an empty cache and its contents on the drive.
    pub(crate) fn open(
        path: &Path,
        profile: &str,
        described: &Description,
        how: &Opening,
    ) -> Result<Self, RegionError> {
        let profile = profile_of(profile, described)?;
        let is_full = path.metadata().is_ok_and(|file| file.len() > 0);
        let memory = Mapped::open(Kind::Emu, path, described.size_bytes, how, None)?;
        let device = Device::new(path, &profile, described, memory.len_bytes(), is_full)?;
        Ok(Self::with(memory, device))
    }

    fn with(memory: Mapped, device: Device) -> Self {
        let model = Model::new(device.terms, Arc::clone(&device.page_table), Some(Arc::clone(&device.cache)));
        Self { memory: memory.with_model(model), device }
    }

    fn model(&self) -> Result<&Model, RegionError> {
        let why = "its memory is not modelled";
        self.memory.window().model().ok_or_else(|| Unsupported { what: "a model", why }.into())
    }

    fn now_ps(&self) -> u64 {
        self.memory.window().model().map_or(0, Model::now_ps)
    }

    /// The device's bytes of a range.
    fn of_device(&self, range: &Range<u64>) -> Range<u64> {
        let at = self.device.terms.device_at;
        at + range.start..at + range.end
    }
}

fn profile_of(name: &str, described: &Description) -> Result<HybridProfile, RegionError> {
    let names = HybridProfile::names().join(", ");
    let profile = HybridProfile::by_name(name)
        .ok_or_else(|| RegionError::option(format!("profile={name}"), format!("expected {names}")))?;
    let mut profile = match described.hit_ns {
        Some(hit_ns) => profile.with_hit_ps(u64::from(hit_ns) * 1000),
        None => profile,
    };
    profile.cache.bytes = described.cache_bytes.unwrap_or(profile.cache.bytes);
    profile.cache.pins = described.pins.unwrap_or(profile.cache.pins);
    Ok(profile)
}

impl Device {
    fn new(
        path: &Path,
        profile: &HybridProfile,
        described: &Description,
        len_bytes: u64,
        is_full: bool,
    ) -> Result<Self, RegionError> {
        let page_bytes = profile.cache.page_bytes;
        let pages = len_bytes.div_ceil(u64::from(page_bytes));
        let made = PageTable::new(pages, monotonic_ns());
        let (page_table, table_file) =
            made.map_err(RegionError::system(path, "make room for its pages' states"))?;
        let page_table = Arc::new(page_table);
        let drive = Drive::new(profile, len_bytes, described.clock.models_time(), is_full)?;
        let capacity_bytes = profile.cache.bytes.min(len_bytes);
        let cache = Cache::new(Arc::clone(&page_table), drive, pages, u64::from(page_bytes), capacity_bytes);
        let terms = ModelTerms {
            clock: described.clock,
            latency: LatencyModel::of(&profile.cache),
            page_bytes,
            miss_ns: profile.typical_miss_ns(),
            device_at: 0,
        };
        let table_file = Arc::new(table_file);
        Ok(Self { cache: Arc::new(cache), page_table, table_file, terms, can_pin: profile.cache.pins })
    }
}

impl DeviceRegion for Modelled {
    fn window(&self) -> &Window {
        self.memory.window()
    }

    fn align_bytes(&self) -> u64 {
        self.memory.align_bytes()
    }

    fn why(&self) -> &str {
        self.memory.why()
    }

    fn is_emulated(&self) -> bool {
        true
    }

    fn residency(&self, range: Range<u64>) -> Result<Residency, RegionError> {
        check(self, &range)?;
        Ok(self.device.cache.residency(&self.of_device(&range), self.now_ps())?)
    }

    fn prefetch(&self, range: Range<u64>) -> Result<Ticket, RegionError> {
        check(self, &range)?;
        let ready_ps = self.device.cache.prefetch(&self.of_device(&range), self.now_ps())?;
        Ok(Ticket { ready_ps })
    }

    fn has_come(&self, ticket: Ticket) -> bool {
        ticket.ready_ps <= self.now_ps()
    }

    fn wait_for(&self, ticket: Ticket) {
        if let Ok(model) = self.model() {
            model.wait_until(ticket.ready_ps);
        }
        self.device.cache.settle(self.now_ps());
    }

    fn evict(&self, range: Range<u64>) -> Result<(), RegionError> {
        check(self, &range)?;
        Ok(self.device.cache.evict(&self.of_device(&range), self.now_ps())?)
    }

    fn pin(&self, range: Range<u64>) -> Result<Pin, RegionError> {
        check(self, &range)?;
        if !self.device.can_pin {
            let why = "the cache of this device goes by what was used last and by nothing else";
            return Err(Unsupported { what: "pinning", why }.into());
        }
        let of_device = self.of_device(&range);
        if !self.device.cache.pin(&of_device, self.now_ps())? {
            let why = "with this range, all but a sixteenth of the cache would be pinned";
            return Err(Unsupported { what: "pinning more", why }.into());
        }
        let held = Held { cache: Arc::clone(&self.device.cache), range: of_device };
        let ticket = self.prefetch(range)?;
        self.wait_for(ticket);
        Ok(Pin { holder: Some(Box::new(held)) })
    }

    fn export(&self, range: Range<u64>, access: Access) -> Result<Export, RegionError> {
        let device_at = self.device.terms.device_at + range.start;
        let mut export = self.memory.export(range, access)?;
        export.description.model = Some(ModelTerms { device_at, ..self.device.terms });
        let page_table = self.device.table_file.try_clone();
        export.page_table =
            Some(page_table.map_err(RegionError::system(self.memory.path(), "hand out its page table"))?);
        Ok(export)
    }

    fn partition(&self, range: Range<u64>, uid: u32) -> Result<Box<dyn DeviceRegion>, RegionError> {
        let device_at = self.device.terms.device_at + range.start;
        let memory = self.memory.open_partition(range, uid)?;
        let device = Device { terms: ModelTerms { device_at, ..self.device.terms }, ..self.device.clone() };
        Ok(Box::new(Self::with(memory, device)))
    }

    fn partitions(&self) -> Result<Vec<PartitionName>, RegionError> {
        self.memory.partitions()
    }

    fn give_back(&self, partition: &PartitionName) -> Result<(), RegionError> {
        self.memory.give_back(partition)
    }

    fn stats(&self) -> RegionStats {
        self.device.cache.stats(self.now_ps())
    }
}

/// A pinned range.
#[derive(Debug)]
struct Held {
    cache: Arc<Cache>,
    range: Range<u64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.cache.unpin(&self.range);
    }
}
