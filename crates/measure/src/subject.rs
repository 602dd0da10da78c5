//! The device under measurement: open, with one namespace, and what it has counted.

use std::path::Path;

use anyhow::Result;
use byway::embedded::EmbeddedDevice;
use byway::uri::{Options, Place};
use byway::{CreateOptions, Key, Kv, Ledger, Method, NewNamespace, Nsid, Profile, Uri};

use crate::puts::{Named, Target};
use crate::setting::{MemoryMedia, Setting};
use crate::way::Way;

/// Entries of the ring that is measured with.
const RING_ENTRIES: u32 = 256;
/// Pairs that bulk puts gather into one command.
const BULK_PAIRS: usize = 64;
/// Bytes that bulk puts gather at most.
const BULK_BYTES: usize = 64 << 10;
/// What a record may take beside its key and value: header, index entries, its place on a 4 KiB boundary.
const RECORD_ROOM_BYTES: u64 = 4096 + 512;
/// Room for a device's own state, and so that nothing is compacted within a measurement.
const SPARE_BYTES: u64 = 256 << 20;
/// Capacity for the records of one namespace of an image.
const IMAGE_NAMESPACE_BYTES: u64 = 256 << 20;

/// What the flash has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// Pages programmed, for whatever cause.
    pub programs: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// An open device that takes puts by one way.
pub struct Subject {
    kv: Kv,
    device: EmbeddedDevice,
    way: Way,
    models_time: bool,
    held: Vec<(Key, Vec<u8>)>,
    held_bytes: usize,
}

impl Subject {
    /// Opens the device that a URI names, as it is asked for there.
    ///
    /// # Errors
    /// A URI that is none, or a device that cannot be opened.
    pub fn open(uri: &str) -> Result<Self> {
        let parsed: Uri = uri.parse()?;
        Self::start(byway::embedded::open(uri)?, Way::Method(parsed.options.transfer), &parsed.options)
    }

    /// A new device in memory that `count` values of `value_bytes` together surely fit.
    ///
    /// # Errors
    /// When it cannot be as the setting says.
    pub fn in_memory(setting: &Setting, count: u64, value_bytes: u64) -> Result<Self> {
        // Half of a device in memory is for blocks.
        let size_bytes = 2 * (SPARE_BYTES + 2 * (value_bytes + count * RECORD_ROOM_BYTES));
        let place = match setting.media {
            MemoryMedia::Ram => Place::Ram(size_bytes),
            MemoryMedia::Null => Place::Null(size_bytes),
        };
        Self::open_as(place, setting, None)
    }

    /// Makes an image with `namespaces` key-value namespaces.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create_image(path: &Path, profile: &Profile, namespaces: usize, uuid: [u8; 16]) -> Result<()> {
        let namespace = NewNamespace { size_bytes: Some(IMAGE_NAMESPACE_BYTES), ..NewNamespace::KV };
        let options = CreateOptions::new(IMAGE_NAMESPACE_BYTES * (namespaces as u64 + 1))
            .profile(profile.name.to_owned())
            .namespaces(vec![namespace; namespaces])
            .uuid(uuid);
        Ok(byway::create(byway::uri::of_image(path), &options)?)
    }

    /// Opens a namespace of an image.
    ///
    /// # Errors
    /// When the image cannot be opened, or not as the setting says.
    pub fn image(path: &Path, nsid: u32, setting: &Setting) -> Result<Self> {
        Self::open_as(Place::Image(path.to_owned()), setting, Some(Nsid::new(nsid)?))
    }

    fn open_as(place: Place, setting: &Setting, ns: Option<Nsid>) -> Result<Self> {
        let link = &setting.profile.link;
        let options = Options::default()
            .transfer(if let Way::Method(method) = setting.way { method } else { Method::Prp })
            .policy(setting.policy)
            .profile(setting.profile.name.to_owned())
            .link(link.to_string())
            .mps_bytes(link.mps_bytes())
            .mrrs_bytes(link.mrrs_bytes())
            .clock(setting.clock)
            .ns(ns)
            .flash_timing(setting.flash)
            .packing(setting.packing)
            .ring_entries(RING_ENTRIES);
        let uri = Uri { place, options };
        Self::start(byway::embedded::open_uri(&uri)?, setting.way, &uri.options)
    }

    fn start(device: EmbeddedDevice, way: Way, options: &Options) -> Result<Self> {
        let kv = device.kv(None)?;
        let models_time = options.clock.models_time();
        Ok(Self { kv, device, way, models_time, held: Vec::new(), held_bytes: 0 })
    }

    /// What the flash has done since the device was made.
    pub fn flash(&self) -> Flash {
        let report = self.device.flash();
        Flash { programs: report.counters.total().programs, page_bytes: report.page_bytes.into() }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// What the device says.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.kv.get(key)?)
    }

    /// The setting as rows name it.
    pub fn named(&self) -> Named<'_> {
        let profile = self.device.profile();
        let (mps, mrrs) = (profile.link.mps_bytes(), profile.link.mrrs_bytes());
        Named { profile: profile.name, method: self.way.name(), mps, mrrs }
    }

    fn hold(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.held.push((Key::new(key)?, value.to_vec()));
        self.held_bytes += value.len();
        if self.held.len() >= BULK_PAIRS || self.held_bytes >= BULK_BYTES { self.finish() } else { Ok(()) }
    }
}

impl Target for Subject {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.way {
            Way::Method(_) => Ok(self.kv.put(key, value)?),
            Way::ByteStore => Ok(self.kv.put_by_bytes(key, value)?),
            Way::Bulk => self.hold(key, value),
        }
    }

    fn finish(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let pairs: Vec<(Key, &[u8])> =
            self.held.iter().map(|(key, value)| (*key, value.as_slice())).collect();
        self.kv.put_bulk(&pairs)?;
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }

    fn ledger(&self) -> Ledger {
        self.device.ledger()
    }

    fn now_ns(&self) -> Option<u64> {
        self.models_time.then(|| self.device.now_ns())
    }
}
