//! Changing what a server serves while it does: subsystems, their namespaces and states, the hosts that may connect, ports.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use byway_controller::{Namespace, Subsystem};
use byway_core::{Error, ErrorKind, Result};
use byway_local::WatchedBy;
use byway_tcp_target::{AnaSetting, AnaState, Keys, Nqn, Port, PortId, TargetControl};

use crate::serve::exports::{Exported, Exporter};
use crate::serve::from_start;
use crate::serve::subsystem::{House, Housed, SubsystemSpec, hosts_of_fabrics};
use crate::serve::tcp::{self, HostKeys, from_control};

/// A way to change what a server serves, from any thread. It does not keep the server. Hosts are told of namespaces and states
/// that change, and those that stay at discovery of the rest.
///
/// Where a subsystem may be named and is not, the only one is meant.
#[derive(Debug, Clone)]
pub struct ServeControl {
    house: Weak<House>,
    target: Option<TargetControl>,
}

/// A subsystem as it is served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSubsystem {
    /// Its name.
    pub nqn: String,
    /// The NVMe/TCP hosts that may connect; all where there is nothing.
    pub hosts: Option<Vec<String>>,
    /// The ports by which NVMe/TCP hosts find it; every one where there is nothing.
    pub ports: Option<Vec<PortId>>,
    /// Its namespaces, in order of identifiers.
    pub namespaces: Vec<ServedNamespace>,
}

/// A namespace as it is served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedNamespace {
    /// Its identifier.
    pub nsid: u32,
    /// `blocks` or `keys`.
    pub kind: String,
    /// Bytes it can hold.
    pub size_bytes: u64,
    /// What is exported there, unless it is the device's own.
    pub exported: Option<Exported>,
}

/// How a namespace is reached by a port (ANA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathState {
    /// The port.
    pub port: PortId,
    /// The namespace.
    pub nsid: u32,
    /// The state.
    pub state: AnaState,
}

impl ServeControl {
    pub(super) fn new(house: &Arc<House>, target: Option<TargetControl>) -> Self {
        Self { house: Arc::downgrade(house), target }
    }

    fn house(&self) -> Result<Arc<House>> {
        self.house.upgrade().ok_or_else(gone)
    }

    pub(super) fn target(&self) -> Result<&TargetControl> {
        let missing = || Error::host(ErrorKind::Unsupported, "nothing is served over NVMe/TCP");
        self.target.as_ref().ok_or_else(missing)
    }

    /// The subsystems that are served, in the order in which they came.
    ///
    /// # Errors
    /// The server has ended.
    pub fn subsystems(&self) -> Result<Vec<ServedSubsystem>> {
        self.house()?.housed().iter().map(|housed| self.describe(housed)).collect()
    }

    fn describe(&self, housed: &Housed) -> Result<ServedSubsystem> {
        let allowed = |target: &TargetControl| target.allowed(&tcp::name(&housed.nqn)?).map_err(from_control);
        let hosts = self.target.as_ref().map(allowed).transpose()?.flatten();
        let hosts = hosts.map(|hosts| hosts.iter().map(Nqn::to_string).collect());
        let found_by =
            |target: &TargetControl| target.ports_of(&tcp::name(&housed.nqn)?).map_err(from_control);
        let ports = self.target.as_ref().map(found_by).transpose()?.flatten();
        let exported = housed.exporter.as_ref().map(Exporter::exported).unwrap_or_default();
        let namespaces = housed.device.try_with_subsystem(|subsystem| namespaces_of(subsystem, &exported));
        let namespaces = namespaces.map_err(|_| gone())?;
        Ok(ServedSubsystem { nqn: housed.nqn.clone(), hosts, ports, namespaces })
    }

    /// Serves another subsystem; its name.
    ///
    /// # Errors
    /// As [`serve`](super::serve) has them; one of this name is served; nothing is served over NVMe/TCP.
    pub fn add_subsystem(&self, spec: &SubsystemSpec) -> Result<String> {
        let (house, target) = (self.house()?, self.target()?);
        let housed = Housed::open(spec, &house.manner, hosts_of_fabrics())?;
        let nqn = housed.nqn.clone();
        let terms = spec.terms(&nqn)?;
        let capsules = housed.device.capsules().map_err(from_start)?;
        target.add_subsystem(terms, capsules).map_err(from_control)?;
        house.housed().push(housed);
        Ok(nqn)
    }

    /// Serves a subsystem no more: its hosts are sent away, its device is closed.
    ///
    /// # Errors
    /// There is no such subsystem; vfio-user clients are served it too.
    pub fn remove_subsystem(&self, nqn: &str) -> Result<()> {
        let house = self.house()?;
        if house.manner.watched_by == WatchedBy::Device {
            let said = format!("{nqn} is served to vfio-user clients too, for as long as the server runs");
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        self.target()?.remove_subsystem(&house.name(Some(nqn))?).map_err(from_control)?;
        let mut housed = house.housed();
        let gone = housed.iter().position(|housed| housed.nqn == nqn).map(|at| housed.remove(at));
        // Closed with nobody waiting for the others.
        drop(housed);
        drop(gone);
        Ok(())
    }

    /// What a served subsystem's device was said to be; none where there is nothing but what is exported.
    pub(super) fn device_of(&self, nqn: &str) -> Result<Option<String>> {
        self.house()?.with(Some(nqn), |housed| housed.said.clone())
    }

    /// What a subsystem exports, to be changed.
    ///
    /// # Errors
    /// There is no such subsystem, or it takes no namespaces of other devices.
    pub fn exporter(&self, nqn: Option<&str>) -> Result<Exporter> {
        let refused = "this server began with nothing exported to vfio-user clients, or with a modelled clock or \
                       flush=media, under which nothing can be";
        let exporter = self.house()?.with(nqn, |housed| housed.exporter.clone())?;
        exporter.ok_or_else(|| Error::host(ErrorKind::Unsupported, refused))
    }

    /// Where NVMe/TCP hosts connect now, by the numbers of the ports.
    ///
    /// # Errors
    /// Nothing is served over NVMe/TCP.
    pub fn ports(&self) -> Result<Vec<(PortId, SocketAddr)>> {
        let ports = self.target()?.ports().map_err(from_control)?;
        Ok(ports.into_iter().map(|Port { id, address, .. }| (id, address)).collect())
    }

    /// Has NVMe/TCP hosts connect at `address` too; the port's number, and where it is.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn open_port(&self, address: SocketAddr) -> Result<(PortId, SocketAddr)> {
        let Port { id, address, .. } = self.target()?.open_port(address).map_err(from_control)?;
        Ok((id, address))
    }

    /// Has nobody connect by a port any more, and sends those away who came by it.
    ///
    /// # Errors
    /// There is no such port.
    pub fn close_port(&self, port: PortId) -> Result<()> {
        self.target()?.close_port(port).map_err(from_control)
    }

    /// The NVMe/TCP hosts that may connect to a subsystem; all where there is nothing.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn hosts(&self, nqn: Option<&str>) -> Result<Option<Vec<String>>> {
        let nqn = self.house()?.name(nqn)?;
        let hosts = self.target()?.allowed(&nqn).map_err(from_control)?;
        Ok(hosts.map(|hosts| hosts.iter().map(Nqn::to_string).collect()))
    }

    /// Has these hosts connect to a subsystem, or all where there is nothing, and sends others away.
    ///
    /// # Errors
    /// There is no such subsystem; a name that is none.
    pub fn set_hosts(&self, nqn: Option<&str>, hosts: Option<&[String]>) -> Result<()> {
        let named = |hosts: &[String]| hosts.iter().map(|host| tcp::name(host)).collect::<Result<_>>();
        let (nqn, hosts) = (self.house()?.name(nqn)?, hosts.map(named).transpose()?);
        self.target()?.set_allowed(&nqn, hosts).map_err(from_control)
    }

    /// Has one more host connect to a subsystem, by what `keys` say of it, beside those that may; where all might, it alone.
    ///
    /// # Errors
    /// There is no such subsystem; a name that is none; hosts that may connect and have nothing to show who they are by, where others have.
    pub fn allow_host(&self, nqn: Option<&str>, host: &str, keys: HostKeys) -> Result<()> {
        let (nqn, host, target) = (self.house()?.name(nqn)?, tcp::name(host)?, self.target()?);
        let mut hosts = target.allowed(&nqn).map_err(from_control)?.unwrap_or_default();
        hosts.retain(|other| *other != host);
        hosts.push(host);
        hosts.sort();
        if keys.dhchap.is_some() || keys.tls.is_some() {
            let tls = keys.tls.map(|keys| tcp::tls_of(&nqn, &keys)).transpose()?;
            let more = Keys { dhchap: keys.dhchap, tls };
            let keys = target.keys(&nqn).map_err(from_control)?.with(more);
            if let Some(without) = hosts.iter().find(|host| !keys.admit(host)) {
                let said =
                    format!("{without} may connect, and has not all that hosts are to show who they are by");
                return Err(Error::host(ErrorKind::InvalidArgument, said));
            }
            // Before the host is let in, who could come by its name without.
            target.set_keys(&nqn, keys).map_err(from_control)?;
        }
        target.set_allowed(&nqn, Some(hosts)).map_err(from_control)
    }

    /// Has a host connect to a subsystem no more, sends it away, and forgets what it showed who it is by: let in again, it comes by what
    /// is said then.
    ///
    /// # Errors
    /// There is no such subsystem; a name that is none; every host may connect.
    pub fn disallow_host(&self, nqn: Option<&str>, host: &str) -> Result<()> {
        let (nqn, host, target) = (self.house()?.name(nqn)?, tcp::name(host)?, self.target()?);
        let Some(mut hosts) = target.allowed(&nqn).map_err(from_control)? else {
            let said = "every host may connect: allow those that are to go on, and no other may";
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        };
        hosts.retain(|other| *other != host);
        target.set_allowed(&nqn, Some(hosts)).map_err(from_control)?;
        target.forget_keys(&nqn, &host).map_err(from_control)
    }

    /// Has a subsystem be found by these ports, or by every one where there is nothing, and sends those away who came by others.
    ///
    /// # Errors
    /// There is no such subsystem, or no such port.
    pub fn set_ports(&self, nqn: Option<&str>, ports: Option<Vec<PortId>>) -> Result<()> {
        let nqn = self.house()?.name(nqn)?;
        self.target()?.set_ports_of(&nqn, ports).map_err(from_control)
    }

    /// How a subsystem's namespaces are reached by each port; nothing where hosts are told of no states.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn paths(&self, nqn: Option<&str>) -> Result<Vec<PathState>> {
        let ports = self.ports()?;
        let states = |subsystem: &mut Subsystem| {
            let state =
                |port: PortId, nsid| Some(PathState { port, nsid, state: subsystem.ana_state(port, nsid)? });
            let nsids = subsystem.namespaces().map(|(nsid, _)| nsid);
            nsids.flat_map(|nsid| ports.iter().filter_map(move |(port, _)| state(*port, nsid))).collect()
        };
        let found = self.house()?.with(nqn, |housed| housed.device.try_with_subsystem(states))?;
        found.map_err(|_| gone())
    }

    /// Changes how a subsystem's namespaces are reached by a port, and has the hosts there told.
    ///
    /// # Errors
    /// There is no such subsystem, port, namespace or state; hosts are told of no states.
    pub fn set_path(&self, nqn: Option<&str>, setting: AnaSetting) -> Result<()> {
        let nqn = self.house()?.name(nqn)?;
        self.target()?.set_path(&nqn, setting).map_err(from_control)
    }
}

fn namespaces_of(subsystem: &mut Subsystem, exported: &[Exported]) -> Vec<ServedNamespace> {
    let describe = |(nsid, namespace): (u32, &Namespace)| ServedNamespace {
        nsid,
        kind: if matches!(namespace, Namespace::Kv(_)) { "keys" } else { "blocks" }.to_owned(),
        size_bytes: namespace.record().size_bytes,
        exported: exported.iter().find(|exported| exported.nsid == nsid).cloned(),
    };
    subsystem.namespaces().map(describe).collect()
}

fn gone() -> Error {
    Error::host(ErrorKind::DeviceLost, "nobody is served any more")
}
