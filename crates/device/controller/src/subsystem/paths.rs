//! Ports of the subsystem, and the ANA state of each namespace at them (Base 2.1, section 8.1.1).
//!
//! Each namespace is an ANA group of its own, with its own number, so each fails over independently.

use byway_spec::base::ana::{AnaGroup, AnaHeader, AnaState};
use zerocopy::IntoBytes;

use super::{ControllerSet, NO_NAMESPACE, PerController, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;

/// A port of the subsystem, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// The ports, and which controller is reached by which.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Without ports no ANA state is reported, and every controller serves every namespace.
    ports: Vec<OfPort>,
    /// None for a controller without a port.
    port_of: PerController<Option<PortId>>,
    /// Controllers with a change of state that no event has reported.
    news: ControllerSet,
}

/// ANA states at a port.
#[derive(Debug, Clone)]
struct OfPort {
    groups: [Group; MAX_NAMESPACES as usize],
    changes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    state: AnaState,
    changes: u64,
}

impl OfPort {
    const OPTIMIZED: Self = Self {
        groups: [Group { state: AnaState::OPTIMIZED, changes: 0 }; MAX_NAMESPACES as usize],
        changes: 0,
    };

    fn group(&self, nsid: u32) -> Option<&Group> {
        self.groups.get((nsid as usize).checked_sub(1)?)
    }

    /// A group to change; its change is counted.
    fn change(&mut self, nsid: u32) -> Option<&mut Group> {
        let group = self.groups.get_mut((nsid as usize).checked_sub(1)?)?;
        self.changes += 1;
        group.changes += 1;
        Some(group)
    }
}

impl Paths {
    fn port(&self, id: ControllerId) -> Option<&OfPort> {
        let port = (*self.port_of.get(id)?)?;
        self.ports.get(usize::from(port.0).checked_sub(1)?)
    }

    /// Whether controller `id` reports ANA states to its host.
    pub fn are_reported(&self, id: ControllerId) -> bool {
        self.port(id).is_some()
    }

    /// Whether there are several ports.
    pub fn are_several(&self) -> bool {
        self.ports.len() > 1
    }

    /// The state of namespace `nsid` as controller `id` has it.
    pub fn state(&self, id: ControllerId, nsid: u32) -> AnaState {
        let group = self.port(id).and_then(|port| port.group(nsid));
        group.map_or(AnaState::OPTIMIZED, |group| group.state)
    }

    /// Whether controller `id` serves namespace `nsid`.
    ///
    /// # Errors
    /// The path related status of its state.
    pub fn check(&self, id: ControllerId, nsid: u32) -> Result<(), CommandError> {
        let refusal = self.state(id, nsid).refusal();
        refusal
            .map_or(Ok(()), |status| Err(CommandError::new(status, "the namespace is not served here now")))
    }

    /// Controllers that do not serve namespace `nsid`.
    pub fn closed(&self, nsid: u32) -> impl Iterator<Item = ControllerId> {
        let placed = self.port_of.iter().filter(|(_, port)| port.is_some());
        placed.map(|(id, _)| id).filter(move |id| self.check(*id, nsid).is_err())
    }

    /// A namespace was created, deleted, attached or detached: its group has changed.
    pub fn note_members(&mut self, nsid: u32) {
        for port in &mut self.ports {
            port.change(nsid);
        }
    }

    /// Whether a state changed for controller `id` since this was last asked.
    #[inline]
    pub fn take_news(&mut self, id: ControllerId) -> bool {
        self.news.remove(id)
    }
}

impl Subsystem {
    /// Sets the number of ports that are reported to hosts. Every namespace is optimized at each.
    pub fn set_ports(&mut self, ports: u16) {
        self.paths.ports = vec![OfPort::OPTIMIZED; usize::from(ports)];
        self.note_paths();
    }

    /// Adds a port, at which every namespace is optimized.
    pub fn open_port(&mut self, port: PortId) {
        let Some(at) = usize::from(port.0).checked_sub(1) else { return };
        let ports = &mut self.paths.ports;
        ports.resize(ports.len().max(at + 1), OfPort::OPTIMIZED);
        ports.get_mut(at).into_iter().for_each(|port| *port = OfPort::OPTIMIZED);
        self.note_paths();
    }

    /// Ports that are reported to hosts; 0 where ANA is not reported.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.paths.ports.len()
    }

    /// Sets the port of controller `id`. Its host has read no state yet, so none counts as changed.
    pub(crate) fn place(&mut self, id: ControllerId, port: Option<PortId>) {
        if let Some(place) = self.paths.port_of.entry(id) {
            *place = port;
        }
        self.paths.take_news(id);
        self.note_paths();
    }

    /// The state of a namespace at a port; none where there is no such port.
    #[must_use]
    pub fn ana_state(&self, port: PortId, nsid: u32) -> Option<AnaState> {
        let port = self.paths.ports.get(usize::from(port.0).checked_sub(1)?)?;
        port.group(nsid).map(|group| group.state)
    }

    /// Sets the ANA state of a namespace at a port, and notifies the port's hosts. The namespace may not exist yet. The state
    /// applies to commands executed from here on, not to those that an external engine executes.
    ///
    /// # Errors
    /// Invalid Field where there is no such port or state, Invalid Namespace where there can be no such namespace.
    pub fn set_ana_state(&mut self, port: PortId, nsid: u32, state: AnaState) -> Result<(), CommandError> {
        if !AnaState::ALL.contains(&state) {
            return Err(NO_STATE);
        }
        if self.ana_state(port, nsid) == Some(state) {
            return Ok(());
        }
        let of_port = usize::from(port.0).checked_sub(1).and_then(|at| self.paths.ports.get_mut(at));
        of_port.ok_or(NO_PORT)?.change(nsid).ok_or(NO_NAMESPACE)?.state = state;
        let Paths { port_of, news, .. } = &mut self.paths;
        port_of.iter().filter(|(_, of)| **of == Some(port)).for_each(|(id, _)| news.insert(id));
        self.note_paths();
        Ok(())
    }

    /// Updates the controllers whose commands need no check of the path.
    fn note_paths(&mut self) {
        let Self { slots, hosts, paths, .. } = self;
        slots.iter_mut().flatten().for_each(|slot| slot.note_access(hosts, paths));
    }

    /// The ANA log page (0Ch) of controller `id`: the groups of namespaces that are attached to it; with `groups_only` no more
    /// than that.
    pub(crate) fn ana_page(&self, id: ControllerId, groups_only: bool) -> Vec<u8> {
        let port = self.paths.port(id);
        let mut header =
            AnaHeader { change_count: port.map_or(0, |port| port.changes), ..AnaHeader::default() };
        let mut page = header.as_bytes().to_vec();
        let mine = (1..=MAX_NAMESPACES).filter(|nsid| self.is_attached(*nsid, id));
        for (nsid, group) in mine.filter_map(|nsid| Some((nsid, port?.group(nsid)?))) {
            header.groups += 1;
            let Group { state, changes } = *group;
            let nsids = u32::from(!groups_only);
            let group = AnaGroup { group: nsid, nsids, change_count: changes, state, ..AnaGroup::default() };
            page.extend_from_slice(group.as_bytes());
            page.extend_from_slice(if groups_only { &[] } else { nsid.as_bytes() });
        }
        page[..size_of::<AnaHeader>()].copy_from_slice(header.as_bytes());
        page
    }
}

const NO_STATE: CommandError = CommandError::invalid_field("no such ANA state");
const NO_PORT: CommandError = CommandError::invalid_field("no such port");
