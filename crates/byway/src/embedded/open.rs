//! Opening devices by URI.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_controller::{Subsystem, SubsystemOptions};
use byway_core::{Error, ErrorKind, Result};
use byway_driver::{AttachOptions, Driver};
use byway_flash::{Durability, FileEvents, Flash, MediaKind, NamespaceKind, OpenOptions, Recovery};
use byway_kv::KvOptions;
use byway_link::Profile;
use byway_local::{Embedded, InProcessBus, RunOptions};
use byway_sys::{check_headroom, check_machine};
use tracing::{debug, info, warn};

use crate::embedded::control;
use crate::embedded::control_folder::OpenImage;
use crate::embedded::create::{
    CreateOptions, DEFAULT_PROFILE, Media, NewNamespace, identity_of, make, profile_named,
};
use crate::embedded::device::EmbeddedDevice;
use crate::embedded::errors::{from_flash, from_start, from_subsystem};
use crate::embedded::memory::{MemoryUser, check_memory};
use crate::embedded::queries;
use crate::uri::{FlushMode, Options, Place, Uri};

/// Opens the device that `uri` names.
///
/// # Errors
/// A text that is no URI, an option that is not known, an image that cannot be used: one sentence says which and why.
pub fn open(uri: &str) -> Result<EmbeddedDevice> {
    let parsed: Uri = uri.parse()?;
    open_uri(&parsed).map_err(|error| error.doing(format!("open {uri}")))
}

/// Opens the device that `uri` names, and calls `events` before every operation on its image's file, which it can make
/// fail: for programs that test a device on a failing file system.
///
/// # Errors
/// As [`open`].
pub fn open_watched(uri: &str, events: Arc<dyn FileEvents>) -> Result<EmbeddedDevice> {
    let parsed: Uri = uri.parse()?;
    open_with(&parsed, Some(events)).map_err(|error| error.doing(format!("open {uri}")))
}

/// Opens the device of a URI that is parsed already.
///
/// # Errors
/// As [`open`].
pub fn open_uri(uri: &Uri) -> Result<EmbeddedDevice> {
    open_with(uri, None)
}

/// Opens the device that `uri` names to read it: an image that may not be written as with `readonly=1`, one that another process has
/// open as with `follow=1`.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(uri: &str) -> Result<EmbeddedDevice> {
    let mut parsed: Uri = uri.parse()?;
    let opened = match open_uri(&parsed) {
        Err(error) if error.kind() == ErrorKind::Denied && !parsed.options.read_only => {
            parsed.options.read_only = true;
            open_uri(&parsed)
        }
        Err(error) if error.kind() == ErrorKind::Busy && !parsed.options.follow => {
            parsed.options.follow = true;
            open_uri(&parsed)
        }
        opened => opened,
    };
    opened.map_err(|error| error.doing(format!("open {uri}")))
}

fn open_with(uri: &Uri, events: Option<Arc<dyn FileEvents>>) -> Result<EmbeddedDevice> {
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
    let kv = KvOptions::default()
        .packing(options.packing)
        .memtable_bytes(options.memtable_bytes)
        .cache_bytes(options.cache_bytes);
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
    let subsystem_options = announced
        .kv(kv)
        .sgls(options.sgls)
        .exec_allowed(options.exec_allowed.clone())
        .program_time_max(options.program_time_max);
    Subsystem::new(identity, profile, flash, subsystem_options).map_err(from_subsystem)
}

fn engines_of(flash: &Flash) -> u64 {
    flash.namespaces().filter(|record| record.kind == NamespaceKind::Kv).count() as u64
}

fn open_image(path: &Path, options: &Options, events: Option<Arc<dyn FileEvents>>) -> Result<Flash> {
    let run = run_options(options).events(events);
    let how = OpenOptions::default().read_only(options.read_only).follow(options.follow);
    let how = how.timing(options.flash_timing).run(run);
    debug!(?path, read_only = options.read_only, follow = options.follow, "opening the image");
    let begun = Instant::now();
    match Flash::open(path, how) {
        Ok(flash) => {
            log_opened(path, flash.recovery(), begun.elapsed());
            Ok(flash)
        }
        Err(error) => {
            warn!(?path, %error, "image refused");
            Err(from_flash(error))
        }
    }
}

fn log_opened(path: &Path, recovery: Recovery, took: Duration) {
    let Recovery { power_lost, recounted_blocks, removed_namespaces, reverted, lost, .. } = recovery;
    if recovery.unclean {
        let counts = format_args!("{recounted_blocks} recounted, {reverted} reverted, {lost} lost");
        info!(?path, power_lost, %counts, removed_namespaces, ?took, "image recovered: it was not closed");
    } else {
        debug!(?path, removed_namespaces, ?took, "image opened");
    }
}

/// What its completions promise, and what of its medium fails.
fn run_options(options: &Options) -> byway_flash::RunOptions {
    let durability = match options.flush {
        FlushMode::Process => Durability::Process,
        FlushMode::Command => Durability::Volatile,
        FlushMode::Media => Durability::Media,
    };
    let injection = options.inject.clone();
    byway_flash::RunOptions::default()
        .durability(durability)
        .reads(options.reads)
        .prefault(options.prefault)
        .injection(injection)
        .retention(options.retention)
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

fn start(subsystem: Subsystem, options: &Options, begun: Instant) -> Result<EmbeddedDevice> {
    let run = RunOptions::default().run_by(options.run_by).clock(options.clock).ledger(options.ledger);
    let run = run.upkeep_by(options.upkeep_by);
    let image = OpenImage::of(subsystem.flash());
    let embedded = Embedded::start(subsystem, run);
    let mut embedded = embedded.map_err(from_start)?;
    queries::start(&embedded, options)?;
    let control = control::start(image.as_ref(), &mut embedded);
    let driver = Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default())?;
    EmbeddedDevice::new(embedded, driver, options, (begun, control))
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
