//! Making devices: image files, and devices in memory.

use std::path::Path;
use std::str::FromStr;

use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_core::{Error, ErrorKind, Result};
use byway_flash::{
    DEFAULT_OVER_PROVISIONING_PERCENT, Flash, FlashOptions, ImageError, MIN_SIZE_BYTES, MediaKind,
    NamespaceKind, NamespaceSpec, RunOptions,
};
use byway_kv::KvOptions;
use byway_link::Profile;
use byway_sys::Bytes;

use crate::embedded::errors::{from_flash, from_subsystem};
use crate::embedded::memory::{MemoryUser, check_memory};
use crate::uri::of_new_image;
use crate::uri::{invalid, parse_size};

/// A namespace to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewNamespace {
    /// Blocks or key-value pairs.
    pub kind: NamespaceKind,
    /// Size in bytes; `None` takes an equal share of what the others leave.
    pub size_bytes: Option<u64>,
}

impl NewNamespace {
    /// A key-value namespace that takes what is left.
    pub const KV: Self = Self { kind: NamespaceKind::Kv, size_bytes: None };

    /// A namespace of 512-byte blocks that takes what is left.
    pub const NVM: Self = Self { kind: NamespaceKind::Nvm { lba_bytes: 512 }, size_bytes: None };
}

/// A namespace as text: its kind, and perhaps its size after a colon, as `kv`, `nvm:2G`.
impl FromStr for NewNamespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, size) = match text.split_once(':') {
            Some((kind, size)) => (kind, Some(size)),
            None => (text, None),
        };
        let namespace = match kind {
            "kv" => Self::KV,
            "nvm" => Self::NVM,
            _ => {
                return Err(invalid(format!(
                    "{text:?} is no namespace: expected kv or nvm, or one with a size, as nvm:2G"
                )));
            }
        };
        let size_bytes = size.map(parse_size).transpose()?;
        if size_bytes == Some(0) {
            return Err(invalid(format!("{text}: a namespace of 0 bytes holds nothing")));
        }
        Ok(Self { size_bytes, ..namespace })
    }
}

/// Options of a new device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Capacity of all namespaces together, in bytes.
    pub size_bytes: u64,
    /// Name of its profile.
    pub profile: String,
    /// Its namespaces, numbered from 1.
    pub namespaces: Vec<NewNamespace>,
    /// Where its pages are kept.
    pub media: Media,
    /// Its identity; random if not given. Two devices made with one identity and treated alike are alike.
    pub uuid: Option<[u8; 16]>,
    /// Flash beyond its size, in percent of it, that garbage collection has to work with.
    pub over_provisioning_percent: u32,
}

impl CreateOptions {
    /// A device of `size_bytes` with one key-value namespace, of the profile `gen4x4`.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            profile: DEFAULT_PROFILE.into(),
            namespaces: vec![NewNamespace::KV],
            media: Media::File,
            uuid: None,
            over_provisioning_percent: DEFAULT_OVER_PROVISIONING_PERCENT,
        }
    }

    byway_sys::setters! {
        /// Name of its profile, one of [`Profile::names`]. Default: [`DEFAULT_PROFILE`].
        profile: impl Into<String>;
        /// Its namespaces, numbered from 1. Default: one key-value namespace.
        namespaces: impl Into<Vec<NewNamespace>>;
        /// Where its pages are kept. Default: [`Media::File`].
        media: Media;
        /// Its identity. Default: `None`, random. Two devices made with one identity and treated alike are alike.
        uuid: impl Into<Option<[u8; 16]>>;
        /// Flash beyond its size, in percent of it; less than 5 counts as 5. Default: [`DEFAULT_OVER_PROVISIONING_PERCENT`].
        over_provisioning_percent: u32;
    }
}

/// Where the pages of an image's device are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Media {
    /// In the image: what was acknowledged is there at the next opening.
    #[default]
    File,
    /// In memory: the image describes a device that is empty at every opening.
    Ram,
    /// Nowhere: pages are accepted and forgotten.
    Null,
}

/// Profile of a device that names none.
pub const DEFAULT_PROFILE: &str = "gen4x4";

/// Makes an image at `path`, which must not exist. `embedded:PATH` is understood too.
///
/// # Errors
/// A profile that is unknown, namespaces that do not fit, or what the file system says; URIs of what is no image, and a
/// path that would be read as another in a URI (`x?y=1.img`: the error has its URI). Nothing is left behind.
pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<()> {
    let path = of_new_image(path.as_ref())?;
    let doing = format!("create {}", path.display());
    let media = match options.media {
        Media::File => MediaKind::File(path),
        Media::Ram => MediaKind::DescribedRam(path),
        Media::Null => MediaKind::DescribedNull(path),
    };
    // Before there is an image.
    let engines = options.namespaces.iter().filter(|namespace| namespace.kind == NamespaceKind::Kv).count();
    check_memory(&empty_engine(), engines as u64, MemoryUser::WithoutOptions)
        .map_err(|error| error.doing(doing.clone()))?;
    make(media, options, true, RunOptions::default())
        .and_then(|mut flash| flash.close().map_err(from_flash))
        .map_err(|error| error.doing(doing))
}

/// Engine options while an empty image is made: 1 MiB of cache and memtable. The image does not store them.
fn empty_engine() -> KvOptions {
    KvOptions::default().memtable_bytes(1 << 20).cache_bytes(1 << 20)
}

/// Makes the flash of a device, and the state of its namespaces.
pub(crate) fn make(
    media: MediaKind,
    options: &CreateOptions,
    timing: bool,
    run: RunOptions,
) -> Result<Flash> {
    let profile = profile_named(&options.profile)?;
    let flash_options = FlashOptions::new(options.size_bytes, profile.flash, media)
        .profile_name(&options.profile)
        .timing(timing)
        .run(run)
        .over_provisioning_percent(options.over_provisioning_percent)
        .uuid(options.uuid.map_or_else(random_uuid, Ok)?);
    let specs = sizes(&options.namespaces, options.size_bytes)?;
    let flash = Flash::create(flash_options, &specs).map_err(from_flash)?;
    let file = flash.image_file();
    let settled = settle(flash, profile);
    if let (Err(_), Some(file)) = (&settled, file) {
        // It is new, and locked until here.
        file.remove_name();
    }
    settled
}

/// Opens the subsystem once, which gives each namespace what its kind keeps on the image.
fn settle(flash: Flash, profile: Profile) -> Result<Flash> {
    let identity = identity_of(&flash);
    let options = SubsystemOptions::default().kv(empty_engine());
    let subsystem = Subsystem::new(identity, profile, flash, options);
    subsystem.map(Subsystem::into_flash).map_err(from_subsystem)
}

/// Refuses sizes below any block and any index: most often ones whose unit is missing. What a format needs beyond that is checked
/// once the device's geometry is known.
fn check_least(namespace: &NewNamespace) -> Result<()> {
    let (name, least_bytes) =
        if namespace.kind == NamespaceKind::Kv { ("kv", 1 << 20) } else { ("nvm", 512) };
    let Some(bytes) = namespace.size_bytes.filter(|bytes| *bytes < least_bytes) else { return Ok(()) };
    let meant = match bytes.is_multiple_of(1 << 10) {
        true => String::new(),
        false => format!(": a size without a unit is in bytes; is {name}:{bytes}M meant?"),
    };
    Err(invalid(format!("{} are too small for a namespace{meant}", Bytes(bytes))))
}

fn sizes(namespaces: &[NewNamespace], total_bytes: u64) -> Result<Vec<NamespaceSpec>> {
    const GRAIN: u64 = 1 << 20;
    if namespaces.is_empty() {
        return Err(Error::host(ErrorKind::InvalidArgument, "a device has at least one namespace"));
    }
    if total_bytes < MIN_SIZE_BYTES {
        let too_small = ImageError::TooSmall { asked_bytes: total_bytes, least_bytes: MIN_SIZE_BYTES };
        return Err(from_flash(too_small.into()));
    }
    namespaces.iter().try_for_each(check_least)?;
    let given: u64 = namespaces.iter().filter_map(|n| n.size_bytes).sum();
    let open = namespaces.iter().filter(|n| n.size_bytes.is_none()).count() as u64;
    let share = (total_bytes.saturating_sub(given) / open.max(1)) / GRAIN * GRAIN;
    if given > total_bytes || (open > 0 && share == 0) {
        let said = format!("namespaces of {} do not fit a device of {}", Bytes(given), Bytes(total_bytes));
        return Err(Error::host(ErrorKind::CapacityExceeded, said));
    }
    let spec = |n: &NewNamespace| NamespaceSpec {
        nsid: None,
        kind: n.kind,
        size_bytes: n.size_bytes.unwrap_or(share),
    };
    Ok(namespaces.iter().map(spec).collect())
}

pub(crate) fn profile_named(name: &str) -> Result<Profile> {
    let unknown = || format!("unknown profile {name:?}; known are {}", Profile::names().join(", "));
    Profile::by_name(name).ok_or_else(|| Error::host(ErrorKind::InvalidArgument, unknown()))
}

/// NQN, serial number and model of a device, from its UUID.
pub(crate) fn identity_of(flash: &Flash) -> Identity {
    let hex: String = flash.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
    let group = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default().to_owned();
    let groups = [group(0..8), group(8..12), group(12..16), group(16..20), group(20..32)];
    Identity {
        nqn: format!("nqn.2014-08.org.nvmexpress:uuid:{}", groups.join("-")),
        serial: group(0..20).to_uppercase(),
        model: "Byway software SSD".into(),
    }
}

pub(crate) fn random_uuid() -> Result<[u8; 16]> {
    use std::io::Read;
    let mut uuid = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut uuid));
    read.map_err(|e| Error::kernel("no randomness for the device's identity", e))?;
    // RFC 9562, section 5.4: version 4, variant 10b.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn namespaces_without_a_size_share_what_is_left() {
        let nvm = NewNamespace { size_bytes: Some(2 << 30), ..NewNamespace::NVM };
        let specs = sizes(&[NewNamespace::KV, nvm, NewNamespace::KV], 8 << 30).unwrap();
        assert_eq!(specs.iter().map(|s| s.size_bytes >> 30).collect::<Vec<_>>(), [3, 2, 3]);
        assert!(sizes(&[nvm], 1 << 30).is_err());
        assert!(sizes(&[], 1 << 30).is_err());
    }

    #[test]
    fn namespace_of_a_size_without_unit_is_refused_with_the_one_that_is_meant() {
        let said = |text: &str| sizes(&[text.parse().unwrap()], 64 << 20).map_err(|error| error.to_string());
        for text in ["kv:64", "nvm:64", "kv:1023"] {
            let said = said(text).unwrap_err();
            assert!(said.contains(&format!("is {text}M meant?")), "{said}");
        }
        let unit = said("kv:64K").unwrap_err();
        assert!(unit.contains("64 KiB are too small") && !unit.contains("meant"), "{unit}");
        assert!(said("nvm:512").is_ok());
    }

    #[test]
    fn an_unknown_profile_is_refused_by_naming_those_there_are() {
        let said = profile_named("optane").unwrap_err().to_string();
        assert!(said.contains("cosmos") && said.contains("optane"), "{said}");
    }
}
