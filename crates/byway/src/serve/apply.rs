//! Applying a new configuration to a running server: subsystems, exports, ports, hosts, keys and ANA states.
//!
//! A change that cannot be made is refused before anything is changed, and what is new is opened before anything is removed: a port
//! or a device that cannot be opened leaves the server as it was, and no host notices.

use std::net::SocketAddr;

use byway_core::{Error, ErrorKind, Result};
use byway_tcp_target::{AnaSetting, AnaState, BoundListener, Keys, PortId, SubsystemTerms};

use crate::serve::live::{PathState, ServeControl};
use crate::serve::subsystem::SubsystemSpec;
use crate::serve::tcp::{self, from_control};

/// What was added, to be removed again if a later step fails.
#[derive(Debug, Default)]
struct Added {
    subsystems: Vec<String>,
    namespaces: Vec<(String, u32)>,
}

/// Ports to close, and ports to open in the order of their numbers. A new port listens already, unless its address is still taken by one
/// to close.
#[derive(Debug)]
struct Ports {
    going: Vec<(PortId, SocketAddr)>,
    coming: Vec<(SocketAddr, Option<BoundListener>)>,
}

impl ServeControl {
    /// Serves `specs` at `addresses` from here on, and nothing else. What is the same goes on; hosts get events for the rest. Ports are
    /// numbered by their places, from 1: one whose number gets another address is closed with its connections.
    ///
    /// # Errors
    /// What cannot be changed, by its name: the device of a subsystem that is served, and what a subsystem exports that can export
    /// nothing. As [`Self::add_subsystem`] and [`Self::open_port`] have them. Then all is as it was.
    pub fn apply(&self, specs: &[SubsystemSpec], addresses: &[SocketAddr]) -> Result<()> {
        self.check_change(specs, addresses)?;
        let ports = self.plan_ports(addresses)?;
        let mut added = Added::default();
        let opened = self.add_new(specs, &mut added).and_then(|()| self.move_ports(ports));
        if opened.is_err() {
            self.take_away(added);
            return opened;
        }
        self.remove_others(specs)?;
        specs.iter().try_for_each(|spec| self.set_terms(spec))
    }

    fn check_change(&self, specs: &[SubsystemSpec], addresses: &[SocketAddr]) -> Result<()> {
        for (at, spec) in specs.iter().enumerate() {
            let nqn = name_of(spec)?;
            if specs.iter().take(at).any(|other| other.nqn == spec.nqn) {
                return Err(refused(format!("two subsystems are called {nqn}")));
            }
            spec.terms(nqn)?;
            let is_there =
                |setting: &AnaSetting| (1..=addresses.len()).contains(&usize::from(setting.port.0));
            if let Some(setting) = spec.ana.iter().find(|setting| !is_there(setting)) {
                return Err(refused(format!("{nqn}: there is no port {}", setting.port.0)));
            }
            let missing = |port: &&PortId| !(1..=addresses.len()).contains(&usize::from(port.0));
            if let Some(port) = spec.ports.iter().flatten().find(missing) {
                return Err(refused(format!("{nqn}: there is no port {}", port.0)));
            }
            if self.is_served(nqn)? {
                self.check_served(nqn, spec, addresses)?;
            }
        }
        Ok(())
    }

    /// Refuses a change of a served subsystem that cannot be made.
    fn check_served(&self, nqn: &str, spec: &SubsystemSpec, addresses: &[SocketAddr]) -> Result<()> {
        let device = self.device_of(nqn)?;
        if device != spec.device {
            let said = |device: &Option<String>| device.clone().unwrap_or_else(|| "none".to_owned());
            let (is, was) = (said(&spec.device), said(&device));
            return Err(refused(format!(
                "{nqn}: its device cannot be changed from {was} to {is} while it is served"
            )));
        }
        let (new, gone) = self.differences(nqn, spec)?;
        if !new.is_empty() || !gone.is_empty() {
            self.exporter(Some(nqn))?;
        }
        if !spec.ana.is_empty() && addresses.len() < 2 && self.paths(Some(nqn))?.is_empty() {
            return Err(refused(format!("{nqn}: its hosts learned of no ANA states when they connected")));
        }
        Ok(())
    }

    fn is_served(&self, nqn: &str) -> Result<bool> {
        Ok(self.subsystems()?.iter().any(|served| served.nqn == nqn))
    }

    /// What a subsystem is to export and does not, and which of its namespaces are to be exported no more.
    fn differences(&self, nqn: &str, spec: &SubsystemSpec) -> Result<(Vec<String>, Vec<u32>)> {
        let mut new = spec.exports.clone();
        let mut gone = Vec::new();
        let subsystems = self.subsystems()?;
        let served = subsystems.into_iter().find(|served| served.nqn == nqn);
        let exported = served.into_iter().flat_map(|served| served.namespaces).filter_map(|of| of.exported);
        for exported in exported {
            match new.iter().position(|uri| *uri == exported.uri) {
                Some(at) => drop(new.remove(at)),
                None => gone.push(exported.nsid),
            }
        }
        Ok((new, gone))
    }

    fn add_new(&self, specs: &[SubsystemSpec], added: &mut Added) -> Result<()> {
        let ports: Vec<PortId> = self.ports()?.into_iter().map(|(port, _)| port).collect();
        for spec in specs {
            let nqn = name_of(spec)?;
            if !self.is_served(nqn)? {
                let mut spec = spec.clone();
                // ANA states at ports that are not open yet are set with all others later, and so are its ports.
                spec.ana.retain(|setting| ports.contains(&setting.port));
                spec.ports = Some(Vec::new());
                added.subsystems.push(self.add_subsystem(&spec)?);
                continue;
            }
            for uri in self.differences(nqn, spec)?.0 {
                let nsid = self.exporter(Some(nqn))?.add(&uri)?.nsid;
                added.namespaces.push((nqn.to_owned(), nsid));
            }
        }
        Ok(())
    }

    /// Removes what was added; what is gone already is skipped.
    fn take_away(&self, added: Added) {
        for nqn in added.subsystems {
            let _ = self.remove_subsystem(&nqn);
        }
        for (nqn, nsid) in added.namespaces {
            let _ = self.exporter(Some(&nqn)).and_then(|exporter| exporter.remove(nsid));
        }
    }

    /// Which ports to close and which to open; new ports whose address is free listen at once.
    fn plan_ports(&self, addresses: &[SocketAddr]) -> Result<Ports> {
        let there = self.ports()?;
        let stays = |(port, at): &(PortId, SocketAddr)| {
            let asked = addresses.get(usize::from(port.0).wrapping_sub(1));
            asked.is_some_and(|asked| asked == at || (asked.port() == 0 && asked.ip() == at.ip()))
        };
        let (staying, going): (Vec<_>, Vec<_>) = there.into_iter().partition(stays);
        let places = (1..).map(PortId).zip(addresses);
        let coming = places.filter(|(place, _)| staying.iter().all(|(port, _)| port != place));
        let coming = coming.map(|(_, address)| match going.iter().any(|(_, at)| overlap(at, address)) {
            true => Ok((*address, None)),
            false => BoundListener::open(*address)
                .map(|listener| (*address, Some(listener)))
                .map_err(tcp::from_listen),
        });
        Ok(Ports { coming: coming.collect::<Result<_>>()?, going })
    }

    fn move_ports(&self, Ports { going, coming }: Ports) -> Result<()> {
        let found_by = self.subsystems()?.into_iter().map(|served| (served.nqn, served.ports));
        let found_by: Vec<_> = found_by.collect();
        for (port, _) in &going {
            self.close_port(*port)?;
        }
        let mut opened = Vec::new();
        for (address, listener) in coming {
            let port = match listener {
                Some(listener) => {
                    self.target()?.open_bound_port(listener).map_err(from_control).map(|port| port.id)
                }
                None => self.open_port(address).map(|(port, _)| port),
            };
            match port {
                Ok(port) => opened.push(port),
                Err(error) => {
                    self.put_back(&opened, &going, found_by);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Restores the ports and the subsystems at them. Each port gets the lowest free number again, as before.
    fn put_back(
        &self,
        opened: &[PortId],
        gone: &[(PortId, SocketAddr)],
        found_by: Vec<(String, Option<Vec<PortId>>)>,
    ) {
        for port in opened {
            let _ = self.close_port(*port);
        }
        for (_, address) in gone {
            let _ = self.open_port(*address);
        }
        for (nqn, ports) in found_by {
            let _ = self.set_ports(Some(&nqn), ports);
        }
    }

    fn remove_others(&self, specs: &[SubsystemSpec]) -> Result<()> {
        for served in self.subsystems()? {
            let Some(spec) = specs.iter().find(|spec| spec.nqn.as_ref() == Some(&served.nqn)) else {
                self.remove_subsystem(&served.nqn)?;
                continue;
            };
            for nsid in self.differences(&served.nqn, spec)?.1 {
                self.exporter(Some(&served.nqn))?.remove(nsid)?;
            }
        }
        Ok(())
    }

    /// Sets allowed hosts, their keys, and ANA states.
    fn set_terms(&self, spec: &SubsystemSpec) -> Result<()> {
        let SubsystemTerms { nqn, hosts, ports, dhchap, tls, .. } = spec.terms(name_of(spec)?)?;
        let target = self.target()?;
        target.set_keys(&nqn, Keys { dhchap, tls }).map_err(from_control)?;
        target.set_allowed(&nqn, (!hosts.is_empty()).then_some(hosts)).map_err(from_control)?;
        target.set_ports_of(&nqn, ports).map_err(from_control)?;
        let nqn = Some(nqn.as_str());
        for PathState { port, nsid, state } in self.paths(nqn)? {
            let is_of =
                |setting: &&AnaSetting| setting.port == port && setting.nsid.is_none_or(|of| of == nsid);
            let wanted = spec.ana.iter().rfind(is_of).map_or(AnaState::OPTIMIZED, |setting| setting.state);
            if wanted != state {
                self.set_path(nqn, AnaSetting { port, nsid: Some(nsid), state: wanted })?;
            }
        }
        Ok(())
    }
}

/// Whether two addresses exclude each other.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (is_any || one.ip() == other.ip())
}

fn name_of(spec: &SubsystemSpec) -> Result<&str> {
    spec.nqn.as_deref().ok_or_else(|| refused("a subsystem has no name".to_owned()))
}

fn refused(said: String) -> Error {
    Error::host(ErrorKind::InvalidArgument, said)
}
