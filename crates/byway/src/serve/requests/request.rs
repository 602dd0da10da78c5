//! What a server can be asked.

use std::net::SocketAddr;

use byway_admin::{Fields, Text};
use byway_core::Result;
use byway_tcp_target::{AnaSetting, AnaState, PortId};

use super::ports::{read_ports, with_ports};
use super::reply::Reply;
use super::secrets::{HostSecrets, keys_of};
use crate::serve::live::ServeControl;
use crate::serve::subsystem::SubsystemSpec;
use crate::serve::tcp::HostKeys;

/// A request to a server. `None` for a subsystem means the only one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Which subsystems there are, with their hosts and namespaces.
    Subsystems,
    /// Another subsystem, of what is exported: its name, and URIs.
    AddSubsystem {
        /// Its name.
        nqn: String,
        /// URIs of the devices that it exports.
        exports: Vec<String>,
        /// The hosts that may connect, each with its secret and key; empty for all.
        hosts: Vec<HostSecrets>,
        /// The ports by which it is found; `None` for all.
        ports: Option<Vec<PortId>>,
    },
    /// A subsystem is to be found by other ports.
    SetPorts {
        /// The subsystem.
        subsystem: Option<String>,
        /// These ports; `None` for all.
        ports: Option<Vec<PortId>>,
    },
    /// A subsystem is to go.
    RemoveSubsystem {
        /// Its name.
        nqn: String,
    },
    /// Another namespace: what a URI names.
    AddNamespace {
        /// Of this subsystem.
        subsystem: Option<String>,
        /// URI of the device to export.
        uri: String,
    },
    /// A namespace that is exported is to go.
    RemoveNamespace {
        /// Of this subsystem.
        subsystem: Option<String>,
        /// Its identifier.
        nsid: u32,
    },
    /// Which ports there are.
    Ports,
    /// Another port.
    AddPort {
        /// Where.
        address: SocketAddr,
    },
    /// A port is to go.
    RemovePort {
        /// Its number.
        port: u16,
    },
    /// One more host may connect.
    AllowHost {
        /// To this subsystem.
        subsystem: Option<String>,
        /// Its name, and its secret and key if they are new.
        host: HostSecrets,
    },
    /// A host may connect no more.
    DisallowHost {
        /// To this subsystem.
        subsystem: Option<String>,
        /// Its name.
        host: String,
    },
    /// Every host may connect.
    AllowAll {
        /// To this subsystem.
        subsystem: Option<String>,
    },
    /// How namespaces are reached by ports.
    Paths {
        /// Of this subsystem.
        subsystem: Option<String>,
    },
    /// How namespaces are reached by a port is to change.
    SetPath {
        /// Of this subsystem.
        subsystem: Option<String>,
        /// The state.
        setting: AnaSetting,
    },
}

impl Request {
    pub(super) fn to_text(&self) -> Text {
        match self {
            Self::Subsystems => Text::of("subsystems"),
            Self::AddSubsystem { nqn, exports, hosts, ports } => {
                let text = with_ports(Text::of("add-subsystem").with(nqn), ports.as_deref());
                let text = text.with(exports.len()).with_all(exports);
                hosts.iter().fold(text, |text, host| host.add_to(text))
            }
            Self::SetPorts { subsystem, ports } => {
                with_ports(Text::of("set-ports").with_option(subsystem.as_ref()), ports.as_deref())
            }
            Self::RemoveSubsystem { nqn } => Text::of("remove-subsystem").with(nqn),
            Self::AddNamespace { subsystem, uri } => {
                Text::of("add-namespace").with_option(subsystem.as_ref()).with(uri)
            }
            Self::RemoveNamespace { subsystem, nsid } => {
                Text::of("remove-namespace").with_option(subsystem.as_ref()).with(nsid)
            }
            Self::Ports => Text::of("ports"),
            Self::AddPort { address } => Text::of("add-port").with(address),
            Self::RemovePort { port } => Text::of("remove-port").with(port),
            Self::AllowHost { subsystem, host } => {
                host.add_to(Text::of("allow-host").with_option(subsystem.as_ref()))
            }
            Self::DisallowHost { subsystem, host } => {
                Text::of("disallow-host").with_option(subsystem.as_ref()).with(host)
            }
            Self::AllowAll { subsystem } => Text::of("allow-all").with_option(subsystem.as_ref()),
            Self::Paths { subsystem } => Text::of("paths").with_option(subsystem.as_ref()),
            Self::SetPath { subsystem, setting: AnaSetting { port, nsid, state } } => Text::of("set-path")
                .with_option(subsystem.as_ref())
                .with(port.0)
                .with_option(*nsid)
                .with(state.0),
        }
    }

    /// What a text asks, if it asks anything.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let (word, mut fields) = Fields::of(text);
        Some(match word {
            "subsystems" => Self::Subsystems,
            "add-subsystem" => {
                let (nqn, ports, count) =
                    (fields.text()?, read_ports(&mut fields)?, fields.parsed::<usize>()?);
                let exports = (0..count).map(|_| fields.text()).collect::<Option<_>>()?;
                let hosts = std::iter::from_fn(|| HostSecrets::read(&mut fields)).collect();
                Self::AddSubsystem { nqn, exports, hosts, ports }
            }
            "set-ports" => Self::SetPorts { subsystem: fields.option()?, ports: read_ports(&mut fields)? },
            "remove-subsystem" => Self::RemoveSubsystem { nqn: fields.text()? },
            "add-namespace" => Self::AddNamespace { subsystem: fields.option()?, uri: fields.text()? },
            "remove-namespace" => {
                Self::RemoveNamespace { subsystem: fields.option()?, nsid: fields.parsed()? }
            }
            "ports" => Self::Ports,
            "add-port" => Self::AddPort { address: fields.parsed()? },
            "remove-port" => Self::RemovePort { port: fields.parsed()? },
            "allow-host" => {
                let subsystem = fields.option()?;
                Self::AllowHost { subsystem, host: HostSecrets::read(&mut fields)? }
            }
            "disallow-host" => Self::DisallowHost { subsystem: fields.option()?, host: fields.text()? },
            "allow-all" => Self::AllowAll { subsystem: fields.option()? },
            "paths" => Self::Paths { subsystem: fields.option()? },
            "set-path" => {
                let subsystem = fields.option()?;
                let port = PortId(fields.parsed()?);
                let nsid = fields.option()?.map(|nsid| nsid.parse()).transpose().ok()?;
                let state = AnaState(fields.parsed()?);
                Self::SetPath { subsystem, setting: AnaSetting { port, nsid, state } }
            }
            _ => return None,
        })
    }

    /// Does it.
    pub(super) fn carry_out(self, control: &ServeControl) -> Result<Reply> {
        let mut reply = Reply::default();
        match self {
            Self::Subsystems => reply.subsystems = control.subsystems()?,
            Self::AddSubsystem { nqn, exports, hosts, ports } => {
                let HostKeys { dhchap, tls } = keys_of(&hosts)?;
                let hosts = hosts.into_iter().map(|host| host.host).collect();
                let own = SubsystemSpec { nqn: Some(nqn), exports, ports, ..SubsystemSpec::default() };
                control.add_subsystem(&SubsystemSpec { hosts, dhchap, tls, ..own })?;
            }
            Self::SetPorts { subsystem, ports } => control.set_ports(subsystem.as_deref(), ports)?,
            Self::RemoveSubsystem { nqn } => control.remove_subsystem(&nqn)?,
            Self::AddNamespace { subsystem, uri } => {
                reply.exported = Some(control.exporter(subsystem.as_deref())?.add(&uri)?);
            }
            Self::RemoveNamespace { subsystem, nsid } => {
                control.exporter(subsystem.as_deref())?.remove(nsid)?;
            }
            Self::Ports => reply.ports = control.ports()?,
            Self::AddPort { address } => reply.ports.push(control.open_port(address)?),
            Self::RemovePort { port } => control.close_port(PortId(port))?,
            Self::AllowHost { subsystem, host } => {
                let keys = keys_of(std::slice::from_ref(&host))?;
                control.allow_host(subsystem.as_deref(), &host.host, keys)?;
            }
            Self::DisallowHost { subsystem, host } => {
                control.disallow_host(subsystem.as_deref(), &host)?;
            }
            Self::AllowAll { subsystem } => control.set_hosts(subsystem.as_deref(), None)?,
            Self::Paths { subsystem } => reply.paths = control.paths(subsystem.as_deref())?,
            Self::SetPath { subsystem, setting } => control.set_path(subsystem.as_deref(), setting)?,
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let subsystem = Some("nqn.2026-01.example:a".to_owned());
        let setting = AnaSetting { port: PortId(2), nsid: Some(7), state: AnaState::INACCESSIBLE };
        let text = str::to_owned;
        let (dhchap, tls) = (Some(text("a secret")), Some(text("a key")));
        let secrets = HostSecrets { dhchap, tls, ..HostSecrets::of("i") };
        assert!(!format!("{secrets:?}").contains("secret\""), "it is not shown");
        let requests = [
            Request::Subsystems,
            Request::AddSubsystem {
                nqn: text("n"),
                exports: vec![text("a\tb"), text("c")],
                hosts: vec![],
                ports: None,
            },
            Request::AddSubsystem {
                nqn: text("n"),
                exports: vec![],
                hosts: vec![HostSecrets::of("h"), secrets.clone()],
                ports: Some(vec![PortId(1), PortId(2)]),
            },
            Request::SetPorts { subsystem: None, ports: Some(vec![]) },
            Request::SetPorts { subsystem: subsystem.clone(), ports: None },
            Request::RemoveSubsystem { nqn: text("n") },
            Request::AddNamespace { subsystem: None, uri: text("file:a b?x=1") },
            Request::RemoveNamespace { subsystem: subsystem.clone(), nsid: 3 },
            Request::Ports,
            Request::AddPort { address: "[::1]:4420".parse().unwrap() },
            Request::RemovePort { port: 2 },
            Request::AllowHost { subsystem: None, host: HostSecrets::of("h") },
            Request::AllowHost { subsystem: subsystem.clone(), host: secrets },
            Request::DisallowHost { subsystem: None, host: text("h") },
            Request::AllowAll { subsystem: subsystem.clone() },
            Request::Paths { subsystem: None },
            Request::SetPath { subsystem: None, setting },
            Request::SetPath { subsystem, setting: AnaSetting { nsid: None, ..setting } },
        ];
        for request in requests {
            assert_eq!(Request::of_text(&request.to_text().finish()), Some(request));
        }
    }

    #[test]
    fn malformed_request_line_is_rejected() {
        for text in [
            "",
            "begone",
            "remove-port\tmany",
            "set-ports\t\t1,x",
            "allow-host\t\thost\tsecret",
            "remove-namespace\t\t-1",
            "add-namespace\t",
            "set-path\t\t1\t2",
        ] {
            assert_eq!(Request::of_text(text), None, "{text}");
        }
    }
}
