//! Opening devices by URI.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use byway_controller::{Subsystem, SubsystemError, SubsystemOptions};
use byway_core::{Error, ErrorKind, Result};
use byway_driver::{AttachOptions, Driver};
use byway_flash::{
    Durability, FileError, FileEvents, Flash, FlashError, ImageError, MediaKind, NamespaceKind, OpenOptions,
};
use byway_kv::KvOptions;
use byway_link::Profile;
use byway_local::{Embedded, InProcessBus, RunOptions, StartError};
use byway_sys::{Shortage, check_headroom, check_machine};

use crate::control;
use crate::control_folder::OpenImage;
use crate::create::{CreateOptions, DEFAULT_PROFILE, Media, NewNamespace, identity_of, make, profile_named};
use crate::device::Device;
use crate::uri::{FlushMode, Options, Place, Uri};

/// Opens the device that `uri` names.
///
/// # Errors
/// A text that is no URI, an option that is not known, an image that cannot be used: one sentence says which and why.
pub fn open(uri: &str) -> Result<Device> {
    let parsed: Uri = uri.parse()?;
    open_uri(&parsed).map_err(|error| error.doing(format!("open {uri}")))
}

/// Opens the device that `uri` names, and has `events` told of every operation on its image's file, and able to make it
/// fail: for programs that try what becomes of a device whose file system fails.
///
/// # Errors
/// As [`open`].
pub fn open_watched(uri: &str, events: Arc<dyn FileEvents>) -> Result<Device> {
    let parsed: Uri = uri.parse()?;
    open_with(&parsed, Some(events)).map_err(|error| error.doing(format!("open {uri}")))
}

/// Opens the device of a URI that is parsed already.
///
/// # Errors
/// As [`open`].
pub fn open_uri(uri: &Uri) -> Result<Device> {
    open_with(uri, None)
}

/// Opens the device that `uri` names to read it: an image that may not be written as with `readonly=1`.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(uri: &str) -> Result<Device> {
    let mut parsed: Uri = uri.parse()?;
    let opened = match open_uri(&parsed) {
        Err(error) if error.kind() == ErrorKind::Denied && !parsed.options.read_only => {
            parsed.options.read_only = true;
            open_uri(&parsed)
        }
        opened => opened,
    };
    opened.map_err(|error| error.doing(format!("open {uri}")))
}

fn open_with(uri: &Uri, events: Option<Arc<dyn FileEvents>>) -> Result<Device> {
    let begun = Instant::now();
    let subsystem = subsystem_of(uri, Some(RAM_UUID), events, SubsystemOptions::default())?;
    start(subsystem, &uri.options, begun)
}

/// What a device in memory that only this process knows is known by: one run is as the next.
const RAM_UUID: [u8; 16] = [0x42; 16];

/// The subsystem that `uri` names, without a controller; its engine is as the URI says. One in memory is known by `ram_uuid`, or
/// by one that no other has.
pub(crate) fn subsystem_of(
    uri: &Uri,
    ram_uuid: Option<[u8; 16]>,
    events: Option<Arc<dyn FileEvents>>,
    announced: SubsystemOptions,
) -> Result<Subsystem> {
    let options = &uri.options;
    let kv = KvOptions {
        packing: options.packing,
        memtable_bytes: options.memtable_bytes,
        cache_bytes: options.cache_bytes,
        ..KvOptions::default()
    };
    // How many namespaces there are is known once the image is open.
    check_memory(&kv, 0, MemoryUser::Opening)?;
    let mut flash = match &uri.place {
        Place::Image(path) => open_image(path, options, events)?,
        Place::Ram(size_bytes) => make_in_memory(MediaKind::Ram, *size_bytes, ram_uuid, options)?,
        Place::Null(size_bytes) => make_in_memory(MediaKind::Null, *size_bytes, ram_uuid, options)?,
    };
    flash.set_gc_policy(options.gc);
    let profile = profile_of(&flash, options)?;
    let identity = identity_of(&flash);
    check_memory(&kv, engines_of(&flash), MemoryUser::Opening)?;
    let subsystem_options = SubsystemOptions { kv, sgls: options.sgls, ..announced };
    Subsystem::new(identity, profile, flash, subsystem_options).map_err(from_subsystem)
}

/// What opening takes beside what options say: tables of blocks, rings, buffers, stacks.
const OPENING_BYTES: u64 = 64 << 20;

/// What memory is wanted for: it decides what an error advises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryUser {
    /// Opening by a URI, whose options set how much is wanted.
    Opening,
    /// A call that takes no such options, as `check` and `create`.
    WithoutOptions,
}

/// Checks that there is memory for `engines` key-value engines before the image is touched: a later failed allocation would
/// abort the process.
pub(crate) fn check_memory(kv: &KvOptions, engines: u64, user: MemoryUser) -> Result<()> {
    let refused = |shortage| from_shortage(shortage, user);
    // A small machine may open a device by default: what is not used is not taken.
    if kv.most_bytes() > KvOptions::default().most_bytes() {
        check_machine(kv.most_bytes()).map_err(refused)?;
    }
    let wanted_bytes = kv.most_bytes().saturating_mul(engines).saturating_add(OPENING_BYTES);
    check_headroom(wanted_bytes).map_err(refused)
}

fn engines_of(flash: &Flash) -> u64 {
    flash.namespaces().filter(|record| record.kind == NamespaceKind::Kv).count() as u64
}

fn from_shortage(shortage: Shortage, user: MemoryUser) -> Error {
    let gib = |bytes: u64| bytes as f64 / (1 << 30) as f64;
    let said = match shortage {
        Shortage::Machine { wanted_bytes, total_bytes } if user == MemoryUser::Opening => format!(
            "cache= and memtable= want {:.1} GiB of memory, and this machine has {:.1} GiB",
            gib(wanted_bytes),
            gib(total_bytes)
        ),
        shortage => match user {
            MemoryUser::Opening => format!("{shortage}; a smaller cache= and memtable= need less"),
            MemoryUser::WithoutOptions => {
                format!("{shortage}; end other programs, or raise the memory limit of this one")
            }
        },
    };
    Error::host(ErrorKind::CapacityExceeded, said)
}

fn open_image(path: &Path, options: &Options, events: Option<Arc<dyn FileEvents>>) -> Result<Flash> {
    let run = byway_flash::RunOptions { events, ..run_options(options) };
    let how = OpenOptions { read_only: options.read_only, timing: options.flash_timing, run };
    Flash::open(path, how).map_err(from_flash)
}

/// What its completions promise, and what of its medium fails.
fn run_options(options: &Options) -> byway_flash::RunOptions {
    let durability = match options.flush {
        FlushMode::Process => Durability::Process,
        FlushMode::Command => Durability::Volatile,
        FlushMode::Media => Durability::Media,
    };
    let injection = options.inject.clone();
    byway_flash::RunOptions {
        durability,
        reads: options.reads,
        prefault: options.prefault,
        injection,
        retention: options.fading,
        ..byway_flash::RunOptions::default()
    }
}

/// A device in memory has a key-value namespace, number 1, and one of blocks, number 2.
fn in_memory(size_bytes: u64, uuid: Option<[u8; 16]>, options: &Options) -> CreateOptions {
    CreateOptions {
        profile: options.profile.clone().unwrap_or_else(|| DEFAULT_PROFILE.into()),
        namespaces: vec![NewNamespace::KV, NewNamespace::NVM],
        media: Media::Ram,
        uuid,
        ..CreateOptions::new(size_bytes)
    }
}

fn make_in_memory(
    media: MediaKind,
    size_bytes: u64,
    uuid: Option<[u8; 16]>,
    options: &Options,
) -> Result<Flash> {
    check_media_memory(&media, size_bytes, options.prefault)?;
    make(media, &in_memory(size_bytes, uuid, options), options.flash_timing, run_options(options))
}

/// Bytes of a device in memory for which its tables have one byte at most.
const BYTES_PER_TABLE_BYTE: u64 = 256 << 10;

/// Checks that there is memory for the tables of a device in memory and, if it is taken at once, for its data.
fn check_media_memory(media: &MediaKind, size_bytes: u64, prefault: bool) -> Result<()> {
    let refused = |shortage| {
        let said = format!("a device of {size_bytes} bytes in memory: {shortage}");
        Error::host(ErrorKind::CapacityExceeded, said)
    };
    let tables_bytes = size_bytes / BYTES_PER_TABLE_BYTE;
    let data_bytes = if prefault && matches!(media, MediaKind::Ram) { size_bytes } else { 0 };
    check_machine(tables_bytes.saturating_add(data_bytes)).map_err(refused)?;
    check_headroom(tables_bytes).map_err(refused)
}

fn start(subsystem: Subsystem, options: &Options, begun: Instant) -> Result<Device> {
    let run = RunOptions { run_by: options.run_by, clock: options.clock, ledger: options.ledger };
    let image = OpenImage::of(&subsystem.flash);
    let embedded = Embedded::start(subsystem, run);
    let mut embedded = embedded.map_err(from_start)?;
    let control = control::start(image.as_ref(), &mut embedded);
    let driver = Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default())?;
    Device::new(embedded, driver, options, (begun, control))
}

/// The profile the device runs by: the one asked for, or the image's own, with the link as asked for.
fn profile_of(flash: &Flash, options: &Options) -> Result<Profile> {
    let invalid = |e: byway_link::LinkError| Error::host(ErrorKind::InvalidArgument, e.to_string());
    let name = options.profile.as_deref().unwrap_or_else(|| flash.profile_name());
    let mut profile = profile_named(name)?;
    if let Some(link) = &options.link {
        profile = profile.with_link(link).map_err(invalid)?;
    }
    if let Some(mps_bytes) = options.mps_bytes {
        profile = profile.with_mps(mps_bytes).map_err(invalid)?;
    }
    if let Some(mrrs_bytes) = options.mrrs_bytes {
        profile = profile.with_mrrs(mrrs_bytes).map_err(invalid)?;
    }
    Ok(profile)
}

/// The flash's own sentence, and the kind of failure it is.
pub(crate) fn from_flash(error: FlashError) -> Error {
    let kind = match &error {
        FlashError::Full | FlashError::NoCapacity { .. } => ErrorKind::CapacityExceeded,
        FlashError::TooSmall { .. } => ErrorKind::InvalidArgument,
        FlashError::Ended => ErrorKind::Cancelled,
        FlashError::Media { .. } | FlashError::Lost { .. } | FlashError::CutShort => ErrorKind::Media,
        FlashError::ReadOnly
        | FlashError::Unsynced
        | FlashError::Stopped { .. }
        | FlashError::Image(ImageError::ReadOnlyFile { .. } | ImageError::ReadableOnly { .. }) => {
            ErrorKind::Denied
        }
        FlashError::Image(ImageError::InUse { .. }) => ErrorKind::Busy,
        FlashError::Image(ImageError::TooSmall { .. } | ImageError::TooLarge { .. }) => {
            ErrorKind::InvalidArgument
        }
        FlashError::Image(ImageError::File(error)) | FlashError::File(error) => kind_of(error),
        FlashError::Image(_) => ErrorKind::System,
        _ => ErrorKind::Device,
    };
    Error::host(kind, error.to_string()).with_source(error).covering_source()
}

pub(crate) fn from_file(error: FileError) -> Error {
    from_flash(ImageError::from(error).into())
}

fn kind_of(error: &FileError) -> ErrorKind {
    match error {
        FileError::Missing { .. } => ErrorKind::NotFound,
        FileError::DiskFull { .. } => ErrorKind::CapacityExceeded,
        FileError::ReadOnly { .. }
        | FileError::Denied { .. }
        | FileError::OwnerNotKept { .. }
        | FileError::OtherProcess { .. }
        | FileError::Stopped { .. } => ErrorKind::Denied,
        FileError::HardLinked { .. } => ErrorKind::InvalidArgument,
        FileError::InUse { .. } => ErrorKind::Busy,
        FileError::CutShort { .. } => ErrorKind::Media,
        _ => ErrorKind::System,
    }
}

pub(crate) fn from_subsystem(error: SubsystemError) -> Error {
    match error {
        SubsystemError::Flash(error) => from_flash(error),
        other => Error::host(ErrorKind::Media, other.to_string()),
    }
}

pub(crate) fn from_start(error: StartError) -> Error {
    Error::host(ErrorKind::Unsupported, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_of_memory_advises_options_only_to_callers_that_take_them() {
        let message = |user| {
            let cause = std::io::Error::from_raw_os_error(rustix::io::Errno::NOMEM.raw_os_error());
            from_shortage(Shortage::Process { wanted_bytes: 1 << 30, cause }, user).to_string()
        };
        assert!(message(MemoryUser::Opening).contains("a smaller cache= and memtable="));
        let without_options = message(MemoryUser::WithoutOptions);
        assert!(!without_options.contains("cache="), "{without_options}");
        assert!(without_options.contains("raise the memory limit"), "{without_options}");
    }
}
