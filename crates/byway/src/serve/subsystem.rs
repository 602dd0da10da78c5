//! A subsystem that is served: what it is made of, opened, and kept for as long as hosts find it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_controller::SubsystemOptions;
use byway_core::{Error, ErrorKind, Result};
use byway_link::ClockMode;
use byway_local::{Embedded, Hosts, WatchedBy};
use byway_tcp_target::{AnaSetting, Dhchap, Nqn, PortId, SubsystemTerms};

use crate::embedded::control;
use crate::embedded::control_folder::{ControlSocket, OpenImage};
use crate::embedded::open::subsystem_of;
use crate::serve::exports::{self, Exported, Exporter};
use crate::serve::tcp::{self, TcpOptions, TlsKeys};
use crate::serve::{check_options, from_start};
use crate::uri::Uri;

/// A subsystem that a server is to have: what it is made of, and which NVMe/TCP hosts find it.
#[derive(Debug, Clone, Default)]
pub struct SubsystemSpec {
    /// Its name, unless the image's own, or what follows from what is exported.
    pub nqn: Option<String>,
    /// The device: what [`serve`](super::serve) takes. Without it there is nothing but what is exported.
    pub device: Option<String>,
    /// What is exported as namespaces, behind those of the device, as in [`ServeOptions::exports`](super::ServeOptions::exports).
    pub exports: Vec<String>,
    /// Names of the hosts that may connect; all where there are none.
    pub hosts: Vec<String>,
    /// Ports by which it is found; every one where nothing is said.
    pub ports: Option<Vec<PortId>>,
    /// What hosts show who they are by, where they must.
    pub dhchap: Option<Dhchap>,
    /// How namespaces are reached by ports, where not all are optimized at each (ANA).
    pub ana: Vec<AnaSetting>,
    /// What TLS connections are made by, where there are any.
    pub tls: Option<TlsKeys>,
}

impl SubsystemSpec {
    /// What is said of one subsystem with all else that is said of NVMe/TCP.
    pub(super) fn of(device: Option<&str>, exports: &[String], tcp: Option<&TcpOptions>) -> Self {
        let own = Self { device: device.map(str::to_owned), exports: exports.to_vec(), ..Self::default() };
        let Some(TcpOptions { nqn, hosts, dhchap, ana, tls, .. }) = tcp.cloned() else { return own };
        Self { nqn, hosts, dhchap, ana, tls, ..own }
    }

    /// What its hosts find, under the name that it has.
    pub(super) fn terms(&self, nqn: &str) -> Result<SubsystemTerms> {
        let hosts = self.hosts.iter().map(|host| tcp::name(host)).collect::<Result<Vec<_>>>()?;
        let (nqn, dhchap, ana) = (tcp::name(nqn)?, self.dhchap.clone(), self.ana.clone());
        let tls = self.tls.as_ref().map(|keys| tcp::tls_of(&nqn, keys)).transpose()?;
        Ok(SubsystemTerms { nqn, hosts, ports: self.ports.clone(), dhchap, ana, tls })
    }
}

/// How a server opens its subsystems, whichever.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    /// What controllers announce.
    pub announced: SubsystemOptions,
    /// Whether they announce SGLs, where it is said.
    pub sgls: Option<bool>,
    /// Whether commands are counted.
    pub counts_commands: bool,
    /// Who sleeps until exported devices have done something.
    pub watched_by: WatchedBy,
}

/// A subsystem that is served. Dropping it closes its device, once its hosts are gone.
#[derive(Debug)]
pub(super) struct Housed {
    pub nqn: String,
    /// What its device was said to be.
    pub said: Option<String>,
    pub image: Option<OpenImage>,
    /// Where it is asked for copies of its image.
    pub control: ControlSocket,
    pub device: Embedded,
    /// What was exported when it began.
    pub exported: Vec<Exported>,
    /// What is exported, where anything can be.
    pub exporter: Option<Exporter>,
}

impl Housed {
    /// Opens a subsystem with what is exported beside its own namespaces. `hosts` is told of interrupts.
    pub fn open(spec: &SubsystemSpec, manner: &Manner, hosts: Hosts) -> Result<Self> {
        let uri = spec.device.as_deref().map(|device| device_of(device, manner)).transpose()?;
        let opened = exports::open_all(&spec.exports)?;
        let (clock, ledger) =
            uri.as_ref().map_or((ClockMode::Off, false), |uri| (uri.options.clock, uri.options.ledger));
        let check = || uri.as_ref().map_or(Ok(()), |uri| exports::check_beside(&uri.options));
        // A thread that looks after what is exported is started for what there is; connections' threads look anyway.
        let watches = match manner.watched_by {
            WatchedBy::Connections => check().is_ok(),
            WatchedBy::Device => false,
        };
        if !opened.is_empty() {
            check()?;
        }
        let watched_by = (watches || !opened.is_empty()).then_some(manner.watched_by);
        let mut subsystem = match &uri {
            // Hosts tell devices apart by their names, and take two of one name for one.
            Some(uri) => subsystem_of(uri, None, None, manner.announced.clone())?,
            None => {
                let sgls = manner.sgls.unwrap_or(true);
                let announced = SubsystemOptions { sgls, ..manner.announced.clone() };
                exports::bare_subsystem(&opened, spec.nqn.as_deref(), announced)?
            }
        };
        if let Some(nqn) = &spec.nqn {
            subsystem.identity.nqn.clone_from(nqn);
        }
        if manner.counts_commands {
            subsystem.count_commands();
        }
        let (exported, engines) = exports::attach(&mut subsystem, opened, watched_by)?;
        let (image, nqn) = (OpenImage::of(&subsystem.flash), subsystem.identity.nqn.clone());
        let may_export = engines.is_some();
        let device = Embedded::serve(subsystem, clock, ledger, Hosts { engines, ..hosts });
        let mut device = device.map_err(from_start)?;
        let control = control::start(image.as_ref(), &mut device);
        let exporter = may_export.then(|| Exporter::new(device.handle(), exported.clone()));
        Ok(Self { nqn, said: spec.device.clone(), image, control, device, exported, exporter })
    }
}

/// The device of a server, as its hosts are to find it.
fn device_of(device: &str, manner: &Manner) -> Result<Uri> {
    let mut uri: Uri = device.parse()?;
    uri.options.sgls = manner.sgls.unwrap_or(uri.options.sgls);
    check_options(&uri.options)?;
    Ok(uri)
}

/// The subsystems of a server.
#[derive(Debug)]
pub(super) struct House {
    pub manner: Manner,
    housed: Mutex<Vec<Housed>>,
}

impl House {
    /// One with these.
    pub fn new(manner: Manner, housed: Vec<Housed>) -> Self {
        Self { manner, housed: Mutex::new(housed) }
    }

    /// All of them, in the order in which they came.
    pub fn housed(&self) -> MutexGuard<'_, Vec<Housed>> {
        self.housed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` with one of them: that of a name, or the only one.
    ///
    /// # Errors
    /// There is none of this name; there are several, and none is named.
    pub fn with<R>(&self, nqn: Option<&str>, work: impl FnOnce(&Housed) -> R) -> Result<R> {
        let housed = self.housed();
        let found = match (nqn, &housed[..]) {
            (Some(nqn), all) => all.iter().find(|housed| housed.nqn == nqn),
            (None, [only]) => Some(only),
            (None, all) => {
                let names: Vec<&str> = all.iter().map(|housed| &*housed.nqn).collect();
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

    /// The name of one of them, as [`Self::with`] finds it.
    pub fn name(&self, nqn: Option<&str>) -> Result<Nqn> {
        self.with(nqn, |housed| tcp::name(&housed.nqn))?
    }
}

/// Hosts who wait for no interrupt.
pub(super) fn hosts_of_fabrics() -> Hosts {
    Hosts {
        interrupts: Arc::new(byway_controller::NoInterrupts),
        doorbells: None,
        threads: std::num::NonZeroU16::MIN,
        engines: None,
    }
}
