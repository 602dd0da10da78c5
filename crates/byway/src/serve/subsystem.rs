//! The subsystems of a server: what each is made of, and the open devices behind them.

use std::sync::Arc;

use byway_controller::SubsystemOptions;
use byway_core::{Error, ErrorKind, Result};
use byway_link::ClockMode;
use byway_local::{Embedded, Hosts, UpkeepBy, WatchedBy};
use byway_tcp_target::{AnaSetting, Dhchap, Nqn, PortId, SubsystemTerms};
use parking_lot::{Mutex, MutexGuard};

use crate::embedded::control;
use crate::embedded::control_folder::{ControlSocket, OpenImage};
use crate::embedded::open::subsystem_of;
use crate::embedded::queries;
use crate::serve::damage::DamagedSubsystem;
use crate::serve::exports::{self, Exported, Exporter};
use crate::serve::tcp::{self, TcpOptions, TlsKeys};
use crate::serve::{check_options, from_start};
use crate::uri::Uri;

/// A subsystem to serve: its device, its exports, and the NVMe/TCP hosts that may connect.
#[derive(Debug, Clone, Default)]
pub struct SubsystemSpec {
    /// Its NQN; `None` for the image's own, or one derived from the exports.
    pub nqn: Option<String>,
    /// URI of the device, as for [`serve`](super::serve); `None` for exports alone.
    pub device: Option<String>,
    /// What is exported as namespaces, behind those of the device, as in [`ServeOptions::exports`](super::ServeOptions::exports).
    pub exports: Vec<String>,
    /// Names of the hosts that may connect; all where there are none.
    pub hosts: Vec<String>,
    /// Ports by which it is found; `None` for all.
    pub ports: Option<Vec<PortId>>,
    /// Secrets for DH-HMAC-CHAP, if hosts must authenticate.
    pub dhchap: Option<Dhchap>,
    /// How namespaces are reached by ports, where not all are optimized at each (ANA).
    pub ana: Vec<AnaSetting>,
    /// Keys of TLS, if there are any.
    pub tls: Option<TlsKeys>,
}

impl SubsystemSpec {
    /// The subsystem of a server that has one: the device, the exports, and what the NVMe/TCP options say of it.
    pub(super) fn of(device: Option<&str>, exports: &[String], tcp: Option<&TcpOptions>) -> Self {
        let own = Self { device: device.map(str::to_owned), exports: exports.to_vec(), ..Self::default() };
        let Some(TcpOptions { nqn, hosts, dhchap, ana, tls, .. }) = tcp.cloned() else { return own };
        Self { nqn, hosts, dhchap, ana, tls, ..own }
    }

    /// The terms on which hosts find it, under its name.
    pub(super) fn terms(&self, nqn: &str) -> Result<SubsystemTerms> {
        let hosts = self.hosts.iter().map(|host| tcp::name(host)).collect::<Result<Vec<_>>>()?;
        let (nqn, dhchap, ana) = (tcp::name(nqn)?, self.dhchap.clone(), self.ana.clone());
        let tls = self.tls.as_ref().map(|keys| tcp::tls_of(&nqn, keys)).transpose()?;
        Ok(SubsystemTerms { nqn, hosts, ports: self.ports.clone(), dhchap, ana, tls })
    }
}

/// What holds for every subsystem of a server.
#[derive(Debug, Clone)]
pub(super) struct ServerSettings {
    /// What controllers announce.
    pub announced: SubsystemOptions,
    /// Whether controllers announce SGLs; `None` for what the URI says.
    pub sgls: Option<bool>,
    /// Whether commands are counted.
    pub counts_commands: bool,
    /// Which threads wait for completions of exported devices.
    pub watched_by: WatchedBy,
}

/// A subsystem that is served. Dropping it closes its device, once its hosts are gone.
#[derive(Debug)]
pub(super) struct OpenSubsystem {
    pub nqn: String,
    /// URI of its device.
    pub device_uri: Option<String>,
    pub image: Option<OpenImage>,
    /// The control socket for copies of its image.
    pub control: ControlSocket,
    pub device: Embedded,
    /// Its exports when the service began.
    pub exported: Vec<Exported>,
    /// Its exports, to be changed; `None` where nothing can be exported.
    pub exporter: Option<Exporter>,
}

impl OpenSubsystem {
    /// Opens a subsystem with its exports beside its own namespaces. `hosts` gets the interrupts.
    pub fn open(spec: &SubsystemSpec, settings: &ServerSettings, hosts: Hosts) -> Result<Self> {
        let uri = spec.device.as_deref().map(|device| device_of(device, settings)).transpose()?;
        let opened = exports::open_all(&spec.exports)?;
        let (clock, ledger) =
            uri.as_ref().map_or((ClockMode::Off, false), |uri| (uri.options.clock, uri.options.ledger));
        let check = || uri.as_ref().map_or(Ok(()), |uri| exports::check_beside(&uri.options));
        // Connections' threads poll exports anyway; a device's own thread is started only for exports that there are.
        let watches = match settings.watched_by {
            WatchedBy::Connections => check().is_ok(),
            WatchedBy::Device => false,
        };
        if !opened.is_empty() {
            check()?;
        }
        let watched_by = (watches || !opened.is_empty()).then_some(settings.watched_by);
        let mut subsystem = match &uri {
            // Hosts identify devices by name, and take two of one name for two paths to one.
            Some(uri) => subsystem_of(uri, None, None, settings.announced.clone())?,
            None => {
                let sgls = settings.sgls.unwrap_or(true);
                let announced = settings.announced.clone().sgls(sgls);
                exports::bare_subsystem(&opened, spec.nqn.as_deref(), announced)?
            }
        };
        if let Some(nqn) = &spec.nqn {
            subsystem.set_nqn(nqn);
        }
        if settings.counts_commands {
            subsystem.count_commands();
        }
        let (exported, engines) = exports::attach(&mut subsystem, opened, watched_by)?;
        let (image, nqn) = (OpenImage::of(subsystem.flash()), subsystem.identity().nqn.clone());
        let may_export = engines.is_some();
        let upkeep_by = uri.as_ref().map_or(hosts.upkeep_by, |uri| uri.options.upkeep_by);
        let device = Embedded::serve(subsystem, clock, ledger, Hosts { engines, upkeep_by, ..hosts });
        let mut device = device.map_err(from_start)?;
        uri.iter().try_for_each(|uri| queries::start(&device, &uri.options))?;
        let control = control::start(image.as_ref(), &mut device);
        let exporter = may_export.then(|| Exporter::new(device.handle(), exported.clone()));
        Ok(Self { nqn, device_uri: spec.device.clone(), image, control, device, exported, exporter })
    }
}

/// The parsed URI of a subsystem's device, with the server's choice of SGLs.
fn device_of(device: &str, settings: &ServerSettings) -> Result<Uri> {
    let mut uri: Uri = device.parse()?;
    uri.options.sgls = settings.sgls.unwrap_or(uri.options.sgls);
    check_options(&uri.options)?;
    Ok(uri)
}

/// The subsystems of a server.
#[derive(Debug)]
pub(super) struct SubsystemTable {
    pub settings: ServerSettings,
    list: Mutex<Vec<OpenSubsystem>>,
}

impl SubsystemTable {
    /// A table of these subsystems.
    pub fn new(settings: ServerSettings, open: Vec<OpenSubsystem>) -> Self {
        Self { settings, list: Mutex::new(open) }
    }

    /// All of them, in the order in which they were added.
    pub fn list(&self) -> MutexGuard<'_, Vec<OpenSubsystem>> {
        self.list.lock()
    }

    /// Subsystems whose image another program has cut short or overwritten. Does not wait: none while the table is in use.
    pub fn damaged(&self) -> Vec<DamagedSubsystem> {
        // Upgrade image handles under the lock only: the image of a removed subsystem must be closed when the removal returns.
        let Some(list) = self.list.try_lock() else { return Vec::new() };
        let damaged = |open: &OpenSubsystem| {
            let image = open.image.as_ref()?.damaged()?;
            Some(DamagedSubsystem { nqn: open.nqn.clone(), image })
        };
        list.iter().filter_map(damaged).collect()
    }

    /// Number of subsystems beside the one of this name; `None` if that one is not served.
    pub fn others(&self, nqn: &str) -> Option<usize> {
        let list = self.list();
        list.iter().any(|open| open.nqn == nqn).then(|| list.len() - 1)
    }

    /// Calls `work` with the subsystem of this name, or with the only one.
    ///
    /// # Errors
    /// There is none of this name; there are several, and none is named.
    pub fn with<R>(&self, nqn: Option<&str>, work: impl FnOnce(&OpenSubsystem) -> R) -> Result<R> {
        let list = self.list();
        let found = match (nqn, &list[..]) {
            (Some(nqn), all) => all.iter().find(|open| open.nqn == nqn),
            (None, [only]) => Some(only),
            (None, all) => {
                let names: Vec<&str> = all.iter().map(|open| &*open.nqn).collect();
                let said = format!("say which subsystem is meant, of {}", names.join(", "));
                return Err(Error::host(ErrorKind::InvalidArgument, said));
            }
        };
        let missing = || {
            let said = format!("no subsystem {} is served", nqn.unwrap_or_default());
            Error::host(ErrorKind::NotFound, said)
        };
        found.map(work).ok_or_else(missing)
    }

    /// The name of a subsystem, as [`Self::with`] finds it.
    pub fn name(&self, nqn: Option<&str>) -> Result<Nqn> {
        self.with(nqn, |open| tcp::name(&open.nqn))?
    }
}

/// Hosts over fabrics: no interrupts, no doorbells.
pub(super) fn hosts_of_fabrics() -> Hosts {
    Hosts {
        interrupts: Arc::new(byway_controller::NoInterrupts),
        doorbells: None,
        threads: std::num::NonZeroU16::MIN,
        engines: None,
        upkeep_by: UpkeepBy::default(),
    }
}
