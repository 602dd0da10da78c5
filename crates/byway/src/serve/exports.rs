//! Devices that are exported as namespaces: what a URI names, opened, and what hosts know it by.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use byway_controller::{BlockEngine, Identity, Subsystem, SubsystemOptions};
use byway_core::{Error, ErrorKind, Result};
use byway_external::{Export, ExportAs};
use byway_flash::{Flash, FlashOptions, MIN_SIZE_BYTES, MediaKind};
use byway_link::ClockMode;
use byway_local::{EngineEvents, ExportError, Handle, WatchedBy};
use parking_lot::Mutex;

use crate::device::{open_address, resolved};
use crate::embedded::create::{DEFAULT_PROFILE, identity_of, profile_named, random_uuid};
use crate::embedded::errors::{from_flash, from_subsystem};
use crate::uri::{Address, BlockPlace, FlushMode, Options, Place};

/// A device that is exported, before it has a namespace.
pub(super) struct Opened {
    uri: String,
    backend: &'static str,
    engine: Box<dyn BlockEngine>,
    event: Option<OwnedFd>,
    identifier: [u8; 16],
}

/// A namespace that is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its identifier.
    pub nsid: u32,
    /// URI of the exported device, as the server was given it.
    pub uri: String,
    /// The backend that serves it.
    pub backend: String,
}

/// The namespaces that a server exports, to be changed while it serves. Hosts get an event for each that is added or removed.
#[derive(Debug, Clone)]
pub struct Exporter {
    handle: Handle,
    exported: Arc<Mutex<Vec<Exported>>>,
}

impl Exporter {
    pub(super) fn new(handle: Handle, exported: Vec<Exported>) -> Self {
        Self { handle, exported: Arc::new(Mutex::new(exported)) }
    }

    /// What is exported now, in order of its identifiers.
    #[must_use]
    pub fn exported(&self) -> Vec<Exported> {
        self.exported.lock().clone()
    }

    /// Exports the device that `uri` names too, as the lowest namespace that is free.
    ///
    /// # Errors
    /// As [`crate::open`]; a device that cannot keep what the controllers announced to hosts, of the largest transfer and of a
    /// volatile cache; a server that has ended.
    pub fn add(&self, uri: &str) -> Result<Exported> {
        let doing = |error: Error| error.doing(format!("export {uri}"));
        let mut list = self.exported.lock();
        let alike = list.iter().filter(|other| other.uri == uri).count();
        let Opened { uri: name, backend, engine, event, .. } = open_one(uri, alike).map_err(doing)?;
        let added = self.handle.export(engine, event.as_ref().map(AsFd::as_fd));
        let nsid = added.map_err(|error| doing(from_export(error)))?;
        let exported = Exported { nsid, uri: name, backend: backend.to_owned() };
        list.push(exported.clone());
        list.sort_by_key(|exported| exported.nsid);
        Ok(exported)
    }

    /// Exports a namespace no more: commands that are under way there fail.
    ///
    /// # Errors
    /// When it is not one that is exported.
    pub fn remove(&self, nsid: u32) -> Result<()> {
        if !self.exported.lock().iter().any(|exported| exported.nsid == nsid) || !self.handle.withdraw(nsid) {
            let said = format!("namespace {nsid} is not exported");
            return Err(Error::host(ErrorKind::NotFound, said));
        }
        self.exported.lock().retain(|exported| exported.nsid != nsid);
        Ok(())
    }
}

fn from_export(error: ExportError) -> Error {
    match error {
        ExportError::System(error) => Error::kernel("wait for what is exported", error),
        ExportError::Refused(refused) => Error::host(ErrorKind::Unsupported, refused.cause),
        ExportError::Closed => Error::host(ErrorKind::DeviceLost, error.to_string()),
    }
}

/// Opens the devices that `uris` name.
///
/// # Errors
/// As [`crate::open`]; a device without blocks.
pub(super) fn open_all(uris: &[String]) -> Result<Vec<Opened>> {
    let open = |(at, uri): (usize, &String)| {
        let alike = uris.iter().take(at).filter(|other| *other == uri).count();
        open_one(uri, alike).map_err(|error| error.doing(format!("export {uri}")))
    };
    uris.iter().enumerate().map(open).collect()
}

/// Opens the device that `uri` names, which `alike` others before it named too.
fn open_one(uri: &str, alike: usize) -> Result<Opened> {
    let in_full = resolved(uri)?;
    let address: Address = in_full.parse()?;
    let named = match &in_full {
        Cow::Borrowed(uri) => identifier_of(&address, uri, alike),
        // Differs from the identifier of the URI with the name, which may be exported as well.
        Cow::Owned(in_full) => identifier_of(&address, &format!("{uri} {in_full}"), alike),
    };
    let identifier = named?;
    let is_read_only = is_read_only(&address);
    let device = open_address(&address)?;
    let nsid = device.nvm_namespace(None)?.nsid;
    let (backend, queue) = (device.chosen().backend, device.queue_options());
    let mut export = Export::new(device, &ExportAs { nsid, is_read_only, identifier, queue })?;
    let duplicate = |event: std::os::fd::BorrowedFd<'_>| {
        event.try_clone_to_owned().map_err(|error| Error::kernel("no descriptor for completions", error))
    };
    let event = export.event()?.map(duplicate).transpose()?;
    Ok(Opened { uri: uri.to_owned(), backend, engine: Box::new(export), event, identifier })
}

fn is_read_only(address: &Address) -> bool {
    match address {
        Address::Embedded(uri) => uri.options.read_only || uri.options.follow,
        Address::Blocks(uri) => uri.options.read_only,
        _ => false,
    }
}

/// What a namespace is known by whenever it is exported from this machine: a file by its path, a device elsewhere by its
/// address. What ends with the process has a name of its own each time.
fn identifier_of(address: &Address, uri: &str, alike: usize) -> Result<[u8; 16]> {
    let by_path = |path: &Path| {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(hashed(&format!("{}\n{}\n{alike}", machine(), path.display())))
    };
    match address {
        Address::Blocks(blocks) => match &blocks.place {
            BlockPlace::Path(path) | BlockPlace::File(path) => by_path(path),
            BlockPlace::Memory(_) | BlockPlace::Nil(_) => random_uuid(),
        },
        Address::Embedded(embedded) => match &embedded.place {
            Place::Image(path) => by_path(path),
            Place::Ram(_) | Place::Null(_) => random_uuid(),
        },
        _ => Ok(hashed(&format!("{}\n{uri}\n{alike}", machine()))),
    }
}

/// What this machine is called, so that two that export a path of one name do not seem to export one thing.
fn machine() -> String {
    let named = byway_sys::text::read_settings(Path::new("/etc/machine-id"));
    named.or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname")).unwrap_or_default()
}

/// 128 bits of a text (FNV-1a): the same wherever and whenever it is asked for.
fn hashed(text: &str) -> [u8; 16] {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = text.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    hash.to_be_bytes()
}

/// A subsystem with nothing in it, for `exports` alone. Its name follows from theirs; where there are none yet it has one.
pub(super) fn bare_subsystem(
    exports: &[Opened],
    nqn: Option<&str>,
    announced: SubsystemOptions,
) -> Result<Subsystem> {
    let mut all: String =
        exports.iter().flat_map(|export| export.identifier).map(|byte| format!("{byte:02x}")).collect();
    if exports.is_empty() {
        let nameless =
            || Error::host(ErrorKind::InvalidArgument, "a subsystem that exports nothing yet needs a name");
        all = format!("{}\n{}", machine(), nqn.ok_or_else(nameless)?);
    }
    let profile = profile_named(DEFAULT_PROFILE)?;
    let options = FlashOptions::new(MIN_SIZE_BYTES, profile.flash, MediaKind::Null).uuid(hashed(&all));
    let flash = Flash::create(options, &[]).map_err(from_flash)?;
    let identity = Identity { model: "Byway export".into(), ..identity_of(&flash) };
    let announced = announced.namespace_management(false);
    Subsystem::new(identity, profile, flash, announced).map_err(from_subsystem)
}

/// Gives each a namespace of `subsystem`, behind those that it has. Without `watched_by` nothing can be exported later.
///
/// # Errors
/// More than there are identifiers for; the system's answer.
pub(super) fn attach(
    subsystem: &mut Subsystem,
    exports: Vec<Opened>,
    watched_by: Option<WatchedBy>,
) -> Result<(Vec<Exported>, Option<Arc<EngineEvents>>)> {
    let Some(watched_by) = watched_by else { return Ok((Vec::new(), None)) };
    let no_descriptor = |error| Error::kernel("wait for what is exported", error);
    let events = EngineEvents::new(watched_by).map_err(no_descriptor)?;
    let mut exported = Vec::with_capacity(exports.len());
    for Opened { uri, backend, engine, event, .. } in exports {
        let full = |error: byway_controller::CommandError| {
            Error::host(ErrorKind::CapacityExceeded, format!("export {uri}: {}", error.cause))
        };
        let nsid = subsystem.export(engine).map_err(full)?;
        events.add(nsid, event.as_ref().map(AsFd::as_fd)).map_err(no_descriptor)?;
        exported.push(Exported { nsid, uri, backend: backend.to_owned() });
    }
    Ok((exported, Some(Arc::new(events))))
}

/// Refuses what is modelled or synced where commands are another's: neither would be true of them.
pub(super) fn check_beside(options: &Options) -> Result<()> {
    let said = match (options.clock, options.flush) {
        (ClockMode::Off, FlushMode::Media) => {
            "flush=media holds for an image, not for what is exported beside it"
        }
        (ClockMode::Off, _) => return Ok(()),
        _ => "what is exported takes the time that it takes: it is for clock=off",
    };
    Err(Error::host(ErrorKind::Unsupported, said))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn identifier(uri: &str, alike: usize) -> [u8; 16] {
        identifier_of(&uri.parse().unwrap(), uri, alike).unwrap()
    }

    #[test]
    fn a_file_is_known_by_its_path_and_memory_by_a_name_of_its_own() {
        assert_eq!(identifier("/no/such/disk", 0), identifier("file:/no/such/disk?direct=1", 0));
        assert_ne!(identifier("/no/such/disk", 0), identifier("/no/such/disk", 1));
        assert_ne!(identifier("/no/such/disk", 0), identifier("/no/such/other", 0));
        assert_ne!(identifier("blocks:1M", 0), identifier("blocks:1M", 0));
    }

    #[test]
    fn hash_matches_a_published_value() {
        assert_eq!(hashed("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964_u128.to_be_bytes());
    }
}
