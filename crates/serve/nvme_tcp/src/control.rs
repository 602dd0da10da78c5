//! Configuration of a running target: ports, subsystems, access lists, keys and ANA states. Connected discovery clients get an
//! event.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use byway_controller::PortId;
use byway_executor::Capsules;
use byway_fabrics::Nqn;
use byway_tls::TlsUnavailable;

use crate::acceptor::{ListenError, Listener};
use crate::directory::{Listing, TargetPort};
use crate::keys::Keys;
use crate::options::{AnaSetting, SubsystemTerms};
use crate::paths::{self, PathError};
use crate::pool::ThreadPool;
use crate::subsystem::Subsystem;

/// How long connections and threads may take to release a removed subsystem; each needs one iteration of its loop.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Changes the configuration of a target. It does not keep the target alive.
#[derive(Debug, Clone)]
pub struct TargetControl(Weak<ThreadPool>);

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The subsystem does not exist.
    #[error("no subsystem {0} is served")]
    NoSubsystem(Nqn),
    /// A subsystem of that name exists.
    #[error("subsystem {0} is served already")]
    Taken(Nqn),
    /// The port does not exist.
    #[error("there is no port {}", .0.0)]
    NoPort(PortId),
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The ANA state cannot be set.
    #[error(transparent)]
    Path(#[from] PathError),
    /// TLS keys without OpenSSL.
    #[error(transparent)]
    Tls(#[from] TlsUnavailable),
    /// The target has ended.
    #[error("the target is not running any more")]
    Gone,
}

/// Changes ANA states of a subsystem. It does not keep the target alive.
#[derive(Debug, Clone)]
pub struct TargetPaths {
    control: TargetControl,
    subsystem: Nqn,
}

impl TargetPaths {
    /// Changes a state and sends an ANA change event to the hosts of that port. It holds for commands that start from then on;
    /// commands already in an external engine finish under the old state.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn set(&self, setting: AnaSetting) -> Result<(), PathError> {
        self.control.set_path(&self.subsystem, setting).map_err(|error| match error {
            ControlError::Path(error) => error,
            _ => PathError::Gone,
        })
    }
}

/// A bound listening socket that is not yet a port.
#[derive(Debug)]
pub struct BoundListener(Listener);

impl BoundListener {
    /// Binds and listens. Connections wait in the backlog.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(address: SocketAddr) -> Result<Self, ListenError> {
        Listener::open(address, None).map(Self)
    }
}

impl TargetControl {
    pub(crate) fn of(pool: &Arc<ThreadPool>) -> Self {
        Self(Arc::downgrade(pool))
    }

    fn pool(&self) -> Result<Arc<ThreadPool>, ControlError> {
        self.0.upgrade().ok_or(ControlError::Gone)
    }

    fn listing(&self) -> Result<Arc<Listing>, ControlError> {
        Ok(self.pool()?.target().directory.listing())
    }

    fn subsystem(&self, nqn: &Nqn) -> Result<Arc<Subsystem>, ControlError> {
        self.listing()?.subsystem(nqn).cloned().ok_or_else(|| ControlError::NoSubsystem(nqn.clone()))
    }

    /// The ports.
    ///
    /// # Errors
    /// The target has ended.
    pub fn ports(&self) -> Result<Vec<TargetPort>, ControlError> {
        Ok(self.listing()?.ports.clone())
    }

    /// Opens a port at `address`, with the lowest free identifier.
    ///
    /// # Errors
    /// The system's error; too many ports.
    pub fn open_port(&self, address: SocketAddr) -> Result<TargetPort, ControlError> {
        self.open_bound_port(BoundListener::open(address)?)
    }

    /// Opens a port with a bound listener.
    ///
    /// # Errors
    /// Too many ports.
    pub fn open_bound_port(
        &self,
        BoundListener(listener): BoundListener,
    ) -> Result<TargetPort, ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        let listing = pool.target().directory.listing();
        let is_free = |id: &PortId| !listing.has_port(*id);
        let id = (1..=u16::MAX).map(PortId).find(is_free).ok_or(ControlError::Gone)?;
        let address = listener.address;
        let port = TargetPort { id, address };
        for subsystem in &listing.subsystems {
            paths::open_port(subsystem.device(), id, listing.ports.len())?;
        }
        pool.acceptor().open(listener.with_port(id)).map_err(|source| ListenError { address, source })?;
        pool.change(|listing| {
            listing.ports.push(port);
            listing.ports.sort_by_key(|port| port.id.0);
            Ok::<_, ControlError>(())
        })?;
        Ok(port)
    }

    /// Closes a port and disconnects its hosts.
    ///
    /// # Errors
    /// The port does not exist.
    pub fn close_port(&self, id: PortId) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        pool.change(|listing| {
            let is_there = listing.has_port(id);
            listing.ports.retain(|port| port.id != id);
            is_there.then_some(()).ok_or(ControlError::NoPort(id))
        })?;
        pool.acceptor().close(id);
        pool.target().directory.listing().subsystems.iter().for_each(|subsystem| subsystem.dismiss_port(id));
        Ok(())
    }

    /// The NQNs of the served subsystems.
    ///
    /// # Errors
    /// The target has ended.
    pub fn subsystems(&self) -> Result<Vec<Nqn>, ControlError> {
        Ok(self.listing()?.subsystems.iter().map(|subsystem| subsystem.nqn().clone()).collect())
    }

    /// Adds a subsystem with its device.
    ///
    /// # Errors
    /// The name is taken; an ANA setting or port is invalid.
    pub fn add_subsystem(&self, terms: SubsystemTerms, device: Capsules) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        self.check_ports(terms.ports.as_deref())?;
        paths::begin(&device, &self.ports()?, &terms.ana)?;
        let subsystem = Arc::new(Subsystem::new(terms, device));
        pool.change(|listing| {
            if listing.subsystem(subsystem.nqn()).is_some() {
                return Err(ControlError::Taken(subsystem.nqn().clone()));
            }
            pool.add_notifiers(&subsystem);
            listing.subsystems.push(subsystem.clone());
            Ok(listing.gather_keys()?)
        })
    }

    /// Removes a subsystem and disconnects its hosts. The caller then has the only handle of its device.
    ///
    /// # Errors
    /// The subsystem does not exist.
    pub fn remove_subsystem(&self, nqn: &Nqn) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        let subsystem = self.subsystem(nqn)?;
        pool.change(|listing| {
            subsystem.close();
            listing.subsystems.retain(|other| !Arc::ptr_eq(other, &subsystem));
            listing.gather_keys()
        })?;
        subsystem.dismiss_unlisted();
        // The last handle closes the device, which is slow: wait, so that it is not a serving thread's.
        let end = Instant::now() + RELEASE_TIMEOUT;
        while Arc::strong_count(&subsystem) > 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        subsystem.device().finish();
        Ok(())
    }

    /// The hosts that may connect to a subsystem; `None` admits all.
    ///
    /// # Errors
    /// The subsystem does not exist.
    pub fn allowed(&self, nqn: &Nqn) -> Result<Option<Vec<Nqn>>, ControlError> {
        Ok(self.subsystem(nqn)?.allowed())
    }

    /// Sets the hosts that may connect to a subsystem (`None` admits all), and disconnects others.
    ///
    /// # Errors
    /// The subsystem does not exist.
    pub fn set_allowed(&self, nqn: &Nqn, hosts: Option<Vec<Nqn>>) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        let subsystem = self.subsystem(nqn)?;
        pool.change(|_| {
            subsystem.set_allowed(hosts);
            Ok::<_, ControlError>(())
        })?;
        subsystem.dismiss_unlisted();
        Ok(())
    }

    /// The ports that export a subsystem; `None` is every port.
    ///
    /// # Errors
    /// The subsystem does not exist.
    pub fn ports_of(&self, nqn: &Nqn) -> Result<Option<Vec<PortId>>, ControlError> {
        Ok(self.subsystem(nqn)?.ports())
    }

    /// Sets the ports that export a subsystem (`None` is every port), and disconnects hosts of other ports.
    ///
    /// # Errors
    /// The subsystem or a port does not exist.
    pub fn set_ports_of(&self, nqn: &Nqn, ports: Option<Vec<PortId>>) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        let subsystem = self.subsystem(nqn)?;
        self.check_ports(ports.as_deref())?;
        if subsystem.ports() == ports {
            return Ok(());
        }
        pool.change(|_| {
            subsystem.set_ports(ports);
            Ok::<_, ControlError>(())
        })?;
        subsystem.dismiss_unlisted();
        Ok(())
    }

    fn check_ports(&self, ports: Option<&[PortId]>) -> Result<(), ControlError> {
        let listing = self.listing()?;
        let missing = ports.unwrap_or_default().iter().find(|port| !listing.has_port(**port));
        missing.map_or(Ok(()), |port| Err(ControlError::NoPort(*port)))
    }

    /// Secrets and TLS keys of a subsystem's hosts.
    ///
    /// # Errors
    /// The subsystem does not exist.
    pub fn keys(&self, nqn: &Nqn) -> Result<Keys, ControlError> {
        Ok(Keys::clone(&*self.subsystem(nqn)?.keys()))
    }

    /// Replaces secrets and keys for new connections; existing ones continue.
    ///
    /// # Errors
    /// The subsystem does not exist; OpenSSL is missing.
    pub fn set_keys(&self, nqn: &Nqn, keys: Keys) -> Result<(), ControlError> {
        self.change_keys(nqn, |subsystem| subsystem.set_keys(keys))
    }

    /// Removes the secret and keys of a host. The requirement stays.
    ///
    /// # Errors
    /// Those of [`Self::set_keys`].
    pub fn forget_keys(&self, nqn: &Nqn, host: &Nqn) -> Result<(), ControlError> {
        self.change_keys(nqn, |subsystem| subsystem.forget(host))
    }

    fn change_keys(&self, nqn: &Nqn, change: impl FnOnce(&Subsystem)) -> Result<(), ControlError> {
        let pool = self.pool()?;
        let _alone = pool.changing();
        let subsystem = self.subsystem(nqn)?;
        Ok(pool.change(|listing| {
            change(&subsystem);
            listing.gather_keys()
        })?)
    }

    /// Changes an ANA state.
    ///
    /// # Errors
    /// The subsystem does not exist; see [`PathError`].
    pub fn set_path(&self, nqn: &Nqn, setting: AnaSetting) -> Result<(), ControlError> {
        Ok(paths::change(self.subsystem(nqn)?.device(), setting)?)
    }

    /// A handle for a subsystem's ANA states.
    #[must_use]
    pub fn paths(&self, nqn: Nqn) -> TargetPaths {
        TargetPaths { control: self.clone(), subsystem: nqn }
    }
}
