//! Changing what a server serves while it does: subsystems, their namespaces and states, the hosts that may connect, ports.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use byway_controller::{Namespace, Subsystem};
use byway_core::{Error, ErrorKind, Result};
use byway_local::WatchedBy;
use byway_tcp_target::{AnaSetting, AnaState, Keys, Nqn, PortId, TargetControl, TargetPort};

use crate::embedded::control_folder::OpenImage;
use crate::serve::exports::{Exported, Exporter};
use crate::serve::from_start;
use crate::serve::subsystem::{OpenSubsystem, SubsystemSpec, SubsystemTable, hosts_of_fabrics};
use crate::serve::tcp::{self, HostKeys, from_control};

/// Opens and closes control sockets as subsystems are added and removed.
pub(super) trait ImageSockets: std::fmt::Debug + Send + Sync {
    /// Opens the control socket for a subsystem's image; puts the event `NoControlSocket` if that fails.
    fn add(&self, nqn: &str, image: &OpenImage, control: &ServeControl);

    /// Closes the socket of a subsystem, without waiting for the answer to its last request: the caller may be its thread.
    fn remove(&self, nqn: &str);
}

/// A handle to change what a server serves, from any thread. It does not keep the server alive. Hosts get events for changed
/// namespaces and ANA states, discovery clients for the rest.
///
/// `None` for a subsystem's name means the only one.
#[derive(Debug, Clone)]
pub struct ServeControl {
    table: Weak<SubsystemTable>,
    target: Option<TargetControl>,
    sockets: Weak<dyn ImageSockets>,
}

/// A subsystem as it is served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSubsystem {
    /// Its name.
    pub nqn: String,
    /// The NVMe/TCP hosts that may connect; `None` for all.
    pub hosts: Option<Vec<String>>,
    /// The ports by which NVMe/TCP hosts find it; `None` for all.
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
    pub(super) fn new(
        table: &Arc<SubsystemTable>,
        target: Option<TargetControl>,
        sockets: Weak<dyn ImageSockets>,
    ) -> Self {
        Self { table: Arc::downgrade(table), target, sockets }
    }

    fn table(&self) -> Result<Arc<SubsystemTable>> {
        self.table.upgrade().ok_or_else(gone)
    }

    pub(super) fn target(&self) -> Result<&TargetControl> {
        let missing = || Error::host(ErrorKind::Unsupported, "nothing is served over NVMe/TCP");
        self.target.as_ref().ok_or_else(missing)
    }

    /// The subsystems that are served, in the order in which they were added.
    ///
    /// # Errors
    /// The server has ended.
    pub fn subsystems(&self) -> Result<Vec<ServedSubsystem>> {
        self.table()?.list().iter().map(|open| self.describe(open)).collect()
    }

    fn describe(&self, open: &OpenSubsystem) -> Result<ServedSubsystem> {
        let allowed = |target: &TargetControl| target.allowed(&tcp::name(&open.nqn)?).map_err(from_control);
        let hosts = self.target.as_ref().map(allowed).transpose()?.flatten();
        let hosts = hosts.map(|hosts| hosts.iter().map(Nqn::to_string).collect());
        let found_by = |target: &TargetControl| target.ports_of(&tcp::name(&open.nqn)?).map_err(from_control);
        let ports = self.target.as_ref().map(found_by).transpose()?.flatten();
        let exported = open.exporter.as_ref().map(Exporter::exported).unwrap_or_default();
        let namespaces = open.device.try_with_subsystem(|subsystem| namespaces_of(subsystem, &exported));
        let namespaces = namespaces.map_err(|_| gone())?;
        Ok(ServedSubsystem { nqn: open.nqn.clone(), hosts, ports, namespaces })
    }

    /// Serves another subsystem; returns its name. Its image gets a control socket, or [`ServeEvent::NoControlSocket`](super::ServeEvent::NoControlSocket)
    /// has the reason.
    ///
    /// # Errors
    /// As [`serve`](super::serve) has them; one of this name is served; nothing is served over NVMe/TCP.
    pub fn add_subsystem(&self, spec: &SubsystemSpec) -> Result<String> {
        let (table, target) = (self.table()?, self.target()?);
        let open = OpenSubsystem::open(spec, &table.settings, hosts_of_fabrics())?;
        let (nqn, image) = (open.nqn.clone(), open.image.clone());
        let terms = spec.terms(&nqn)?;
        let capsules = open.device.capsules().map_err(from_start)?;
        target.add_subsystem(terms, capsules).map_err(from_control)?;
        table.list().push(open);
        if let (Some(image), Some(sockets)) = (image, self.sockets.upgrade()) {
            sockets.add(&nqn, &image, self);
            // A request may have removed the subsystem before its socket was there. Hold the lock: the subsystem may be added again.
            let list = table.list();
            if list.iter().all(|open| open.nqn != nqn) {
                sockets.remove(&nqn);
            }
        }
        Ok(nqn)
    }

    /// Removes a subsystem: disconnects its hosts and closes its device.
    ///
    /// # Errors
    /// There is no such subsystem; it is served to vfio-user clients too.
    pub fn remove_subsystem(&self, nqn: &str) -> Result<()> {
        let table = self.table()?;
        if table.settings.watched_by == WatchedBy::Device {
            let said = format!("{nqn} is served to vfio-user clients too, for as long as the server runs");
            return Err(Error::host(ErrorKind::Unsupported, said));
        }
        self.target()?.remove_subsystem(&table.name(Some(nqn))?).map_err(from_control)?;
        self.sockets.upgrade().into_iter().for_each(|sockets| sockets.remove(nqn));
        let mut list = table.list();
        let removed = list.iter().position(|open| open.nqn == nqn).map(|at| list.remove(at));
        // Close the device without the lock of the table.
        drop(list);
        drop(removed);
        Ok(())
    }

    /// The device URI of a subsystem; `None` where it has exports alone.
    pub(super) fn device_of(&self, nqn: &str) -> Result<Option<String>> {
        self.table()?.with(Some(nqn), |open| open.device_uri.clone())
    }

    /// The exports of a subsystem, to be changed.
    ///
    /// # Errors
    /// There is no such subsystem, or it takes no namespaces of other devices.
    pub fn exporter(&self, nqn: Option<&str>) -> Result<Exporter> {
        let refused = "this server began with nothing exported to vfio-user clients, or with a modelled clock or \
                       flush=media, under which nothing can be";
        let exporter = self.table()?.with(nqn, |open| open.exporter.clone())?;
        exporter.ok_or_else(|| Error::host(ErrorKind::Unsupported, refused))
    }

    /// Where NVMe/TCP hosts connect now, by the numbers of the ports.
    ///
    /// # Errors
    /// Nothing is served over NVMe/TCP.
    pub fn ports(&self) -> Result<Vec<(PortId, SocketAddr)>> {
        let ports = self.target()?.ports().map_err(from_control)?;
        Ok(ports.into_iter().map(|TargetPort { id, address, .. }| (id, address)).collect())
    }

    /// Opens a port at `address` for NVMe/TCP hosts; returns its number and its address.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn open_port(&self, address: SocketAddr) -> Result<(PortId, SocketAddr)> {
        let TargetPort { id, address, .. } = self.target()?.open_port(address).map_err(from_control)?;
        Ok((id, address))
    }

    /// Closes a port, and disconnects the hosts that are connected by it.
    ///
    /// # Errors
    /// There is no such port.
    pub fn close_port(&self, port: PortId) -> Result<()> {
        self.target()?.close_port(port).map_err(from_control)
    }

    /// The NVMe/TCP hosts that may connect to a subsystem; `None` for all.
    ///
    /// # Errors
    /// There is no such subsystem.
    pub fn hosts(&self, nqn: Option<&str>) -> Result<Option<Vec<String>>> {
        let nqn = self.table()?.name(nqn)?;
        let hosts = self.target()?.allowed(&nqn).map_err(from_control)?;
        Ok(hosts.map(|hosts| hosts.iter().map(Nqn::to_string).collect()))
    }

    /// Allows these hosts to connect to a subsystem, or all with `None`, and disconnects others.
    ///
    /// # Errors
    /// There is no such subsystem; a wrong name.
    pub fn set_hosts(&self, nqn: Option<&str>, hosts: Option<&[String]>) -> Result<()> {
        let named = |hosts: &[String]| hosts.iter().map(|host| tcp::name(host)).collect::<Result<_>>();
        let (nqn, hosts) = (self.table()?.name(nqn)?, hosts.map(named).transpose()?);
        self.target()?.set_allowed(&nqn, hosts).map_err(from_control)
    }

    /// Allows one more host to connect to a subsystem, with its keys in `keys`. Where all hosts were allowed, it alone is allowed then.
    ///
    /// # Errors
    /// There is no such subsystem; a wrong name; an allowed host without keys or secrets where others must have them.
    pub fn allow_host(&self, nqn: Option<&str>, host: &str, keys: HostKeys) -> Result<()> {
        let (nqn, host, target) = (self.table()?.name(nqn)?, tcp::name(host)?, self.target()?);
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
            // Set the keys first: else a host could connect by this name without.
            target.set_keys(&nqn, keys).map_err(from_control)?;
        }
        target.set_allowed(&nqn, Some(hosts)).map_err(from_control)
    }

    /// Allows a host to connect to a subsystem no more, disconnects it, and drops its keys and secrets: it gets new ones when it is
    /// allowed again.
    ///
    /// # Errors
    /// There is no such subsystem; a wrong name; every host may connect.
    pub fn disallow_host(&self, nqn: Option<&str>, host: &str) -> Result<()> {
        let (nqn, host, target) = (self.table()?.name(nqn)?, tcp::name(host)?, self.target()?);
        let Some(mut hosts) = target.allowed(&nqn).map_err(from_control)? else {
            let said = "every host may connect: allow those that are to go on, and no other may";
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        };
        hosts.retain(|other| *other != host);
        target.set_allowed(&nqn, Some(hosts)).map_err(from_control)?;
        target.forget_keys(&nqn, &host).map_err(from_control)
    }

    /// Offers a subsystem at these ports, or at all with `None`, and disconnects hosts that are connected by others.
    ///
    /// # Errors
    /// There is no such subsystem, or no such port.
    pub fn set_ports(&self, nqn: Option<&str>, ports: Option<Vec<PortId>>) -> Result<()> {
        let nqn = self.table()?.name(nqn)?;
        self.target()?.set_ports_of(&nqn, ports).map_err(from_control)
    }

    /// The ANA state of each namespace of a subsystem at each port; empty where hosts get no states.
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
        let found = self.table()?.with(nqn, |open| open.device.try_with_subsystem(states))?;
        found.map_err(|_| gone())
    }

    /// Changes the ANA state of a subsystem's namespaces at a port; hosts there get an event.
    ///
    /// # Errors
    /// There is no such subsystem, port, namespace or state; hosts get no states.
    pub fn set_path(&self, nqn: Option<&str>, setting: AnaSetting) -> Result<()> {
        let nqn = self.table()?.name(nqn)?;
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
    Error::host(ErrorKind::DeviceLost, "the server has ended")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::embedded::create::{CreateOptions, create};
    use crate::serve::{ServeOptions, TcpOptions, serve};

    /// Sockets whose subsystem another thread removes just before the socket is there.
    #[derive(Debug, Default)]
    struct RemovedMeanwhile(Mutex<Vec<String>>);

    impl ImageSockets for RemovedMeanwhile {
        fn add(&self, nqn: &str, _: &OpenImage, control: &ServeControl) {
            control.remove_subsystem(nqn).unwrap();
            self.0.lock().push(nqn.to_owned());
        }

        fn remove(&self, nqn: &str) {
            self.0.lock().retain(|open| open != nqn);
        }
    }

    #[test]
    fn subsystem_removed_while_it_is_added_leaves_no_control_socket() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        create(&image, &CreateOptions::new(32 << 20)).unwrap();
        let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
        let served = serve("ram:64M", &options).unwrap();
        let sockets = Arc::new(RemovedMeanwhile::default());
        let weak: Weak<dyn ImageSockets> = Arc::<RemovedMeanwhile>::downgrade(&sockets);
        let control = ServeControl { sockets: weak, ..served.control() };
        let device = Some(format!("embedded:{}", image.display()));
        control.add_subsystem(&SubsystemSpec { device, ..SubsystemSpec::default() }).unwrap();
        assert_eq!(served.control().subsystems().unwrap().len(), 1);
        assert!(sockets.0.lock().is_empty());
    }
}
