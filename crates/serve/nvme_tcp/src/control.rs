//! Changing what a target serves while it does: ports, subsystems, and who may connect. Hosts that stay at a discovery controller
//! are told.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use byway_controller::PortId;
use byway_fabrics::Nqn;
use byway_local::Capsules;
use byway_tls::TlsUnavailable;

use crate::crew::Crew;
use crate::directory::{Listing, Port};
use crate::entrance::{ListenError, Listener};
use crate::keys::Keys;
use crate::options::{AnaSetting, SubsystemTerms};
use crate::paths::{self, PathError, TargetPaths};
use crate::site::Site;

/// How long connections and threads are given to let go of a subsystem that is served no more: a turn of each is enough.
const LET_GO: Duration = Duration::from_secs(5);

/// A way to change what a target serves. It does not keep the target.
#[derive(Debug, Clone)]
pub struct TargetControl(Weak<Crew>);

/// Why nothing changes.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no such subsystem.
    #[error("no subsystem {0} is served")]
    NoSubsystem(Nqn),
    /// There is one already.
    #[error("subsystem {0} is served already")]
    Taken(Nqn),
    /// There is no such port.
    #[error("there is no port {}", .0.0)]
    NoPort(PortId),
    /// It cannot be listened there.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A state cannot be set.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Keys of hosts are of no use.
    #[error(transparent)]
    Tls(#[from] TlsUnavailable),
    /// The target has ended.
    #[error("nobody is served any more")]
    Gone,
}

/// An address that is listened at, where nobody is let in yet.
#[derive(Debug)]
pub struct Door(Listener);

impl Door {
    /// Listens. Who comes waits.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn open(address: SocketAddr) -> Result<Self, ListenError> {
        Listener::open(address, None).map(Self)
    }
}

impl TargetControl {
    pub(crate) fn of(crew: &Arc<Crew>) -> Self {
        Self(Arc::downgrade(crew))
    }

    fn crew(&self) -> Result<Arc<Crew>, ControlError> {
        self.0.upgrade().ok_or(ControlError::Gone)
    }

    fn listing(&self) -> Result<Arc<Listing>, ControlError> {
        Ok(self.crew()?.premises.directory.listing())
    }

    fn site(&self, nqn: &Nqn) -> Result<Arc<Site>, ControlError> {
        self.listing()?.site(nqn).cloned().ok_or_else(|| ControlError::NoSubsystem(nqn.clone()))
    }

    /// Where hosts connect now.
    ///
    /// # Errors
    /// The target has ended.
    pub fn ports(&self) -> Result<Vec<Port>, ControlError> {
        Ok(self.listing()?.ports.clone())
    }

    /// Has hosts connect at `address` too: the port gets the lowest number that is free.
    ///
    /// # Errors
    /// What the system says of the address; more ports than there may be.
    pub fn open_port(&self, address: SocketAddr) -> Result<Port, ControlError> {
        self.open_port_by(Door::open(address)?)
    }

    /// The same at a door that is there.
    ///
    /// # Errors
    /// More ports than there may be.
    pub fn open_port_by(&self, Door(listener): Door) -> Result<Port, ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        let listing = crew.premises.directory.listing();
        let is_free = |id: &PortId| !listing.has_port(*id);
        let id = (1..=u16::MAX).map(PortId).find(is_free).ok_or(ControlError::Gone)?;
        let address = listener.address;
        let port = Port { id, address };
        for site in &listing.sites {
            paths::open_port(&site.device, id, listing.ports.len())?;
        }
        crew.entrance
            .open(Listener { port: Some(id), ..listener })
            .map_err(|source| ListenError { address, source })?;
        crew.change(|listing| {
            listing.ports.push(port);
            listing.ports.sort_by_key(|port| port.id.0);
            Ok(())
        })?;
        Ok(port)
    }

    /// Has nobody connect by a port any more, and sends those away who came by it.
    ///
    /// # Errors
    /// There is no such port.
    pub fn close_port(&self, id: PortId) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        crew.change(|listing| {
            let is_there = listing.has_port(id);
            listing.ports.retain(|port| port.id != id);
            is_there.then_some(()).ok_or(ControlError::NoPort(id))
        })?;
        crew.entrance.close(id);
        crew.premises.directory.listing().sites.iter().for_each(|site| site.dismiss_port(id));
        Ok(())
    }

    /// The names of the subsystems that are served.
    ///
    /// # Errors
    /// The target has ended.
    pub fn subsystems(&self) -> Result<Vec<Nqn>, ControlError> {
        Ok(self.listing()?.sites.iter().map(|site| site.nqn.clone()).collect())
    }

    /// Serves another subsystem by its device.
    ///
    /// # Errors
    /// One of this name is served; what is said of paths makes no sense.
    pub fn add_subsystem(&self, terms: SubsystemTerms, device: Capsules) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        self.check_ports(terms.ports.as_deref())?;
        paths::begin(&device, &self.ports()?, &terms.ana)?;
        let site = Arc::new(Site::new(terms, device));
        crew.change(|listing| {
            if listing.site(&site.nqn).is_some() {
                return Err(ControlError::Taken(site.nqn.clone()));
            }
            crew.hear_of(&site);
            listing.sites.push(site.clone());
            Ok(listing.gather_keys()?)
        })
    }

    /// Serves a subsystem no more, and sends its hosts away. Its device is nobody's then but the caller's.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn remove_subsystem(&self, nqn: &Nqn) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        let site = self.site(nqn)?;
        crew.change(|listing| {
            site.close();
            listing.sites.retain(|other| !Arc::ptr_eq(other, &site));
            Ok(listing.gather_keys()?)
        })?;
        site.dismiss_strangers();
        // Whoever lets go last closes the device, which takes its time: not one of the threads that serve others.
        let end = Instant::now() + LET_GO;
        while Arc::strong_count(&site) > 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        site.device.finish();
        Ok(())
    }

    /// The hosts that may connect to a subsystem; all where there is nothing.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn allowed(&self, nqn: &Nqn) -> Result<Option<Vec<Nqn>>, ControlError> {
        Ok(self.site(nqn)?.allowed())
    }

    /// Has these hosts connect to a subsystem, or all where there is nothing, and sends others away.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn set_allowed(&self, nqn: &Nqn, hosts: Option<Vec<Nqn>>) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        let site = self.site(nqn)?;
        crew.change(|_| {
            site.set_allowed(hosts);
            Ok(())
        })?;
        site.dismiss_strangers();
        Ok(())
    }

    /// The ports by which a subsystem is found; every one where there is nothing.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn ports_of(&self, nqn: &Nqn) -> Result<Option<Vec<PortId>>, ControlError> {
        Ok(self.site(nqn)?.ports())
    }

    /// Has a subsystem be found by these ports, or by every one where there is nothing, and sends those away who came by others.
    ///
    /// # Errors
    /// There is no such subsystem, or no such port.
    pub fn set_ports_of(&self, nqn: &Nqn, ports: Option<Vec<PortId>>) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        let site = self.site(nqn)?;
        self.check_ports(ports.as_deref())?;
        if site.ports() == ports {
            return Ok(());
        }
        crew.change(|_| {
            site.set_ports(ports);
            Ok(())
        })?;
        site.dismiss_strangers();
        Ok(())
    }

    fn check_ports(&self, ports: Option<&[PortId]>) -> Result<(), ControlError> {
        let listing = self.listing()?;
        let missing = ports.unwrap_or_default().iter().find(|port| !listing.has_port(**port));
        missing.map_or(Ok(()), |port| Err(ControlError::NoPort(*port)))
    }

    /// By what hosts that come to a subsystem show who they are.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn keys(&self, nqn: &Nqn) -> Result<Keys, ControlError> {
        Ok(Keys::clone(&*self.site(nqn)?.keys()))
    }

    /// Has hosts that come to a subsystem go by `keys`. Those that are here go on.
    ///
    /// # Errors
    /// There is no such subsystem; there is no OpenSSL.
    pub fn set_keys(&self, nqn: &Nqn, keys: Keys) -> Result<(), ControlError> {
        self.change_keys(nqn, |site| site.set_keys(keys))
    }

    /// Has a host show who it is by nothing that it was given before. What is asked of hosts stays.
    ///
    /// # Errors
    /// As [`Self::set_keys`].
    pub fn forget_keys(&self, nqn: &Nqn, host: &Nqn) -> Result<(), ControlError> {
        self.change_keys(nqn, |site| site.forget(host))
    }

    fn change_keys(&self, nqn: &Nqn, change: impl FnOnce(&Site)) -> Result<(), ControlError> {
        let crew = self.crew()?;
        let _alone = crew.changing();
        let site = self.site(nqn)?;
        crew.change(|listing| {
            change(&site);
            Ok(listing.gather_keys()?)
        })
    }

    /// Changes how a subsystem's namespaces are reached by a port.
    ///
    /// # Errors
    /// There is no such subsystem; as [`PathError`] has them.
    pub fn set_path(&self, nqn: &Nqn, setting: AnaSetting) -> Result<(), ControlError> {
        Ok(paths::change(&self.site(nqn)?.device, setting)?)
    }

    /// How a subsystem's namespaces are reached, to be changed.
    #[must_use]
    pub fn paths(&self, nqn: Nqn) -> TargetPaths {
        TargetPaths::of(self.clone(), nqn)
    }
}
