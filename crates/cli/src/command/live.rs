//! What a running server serves, looked at and changed: `byway subsystem`, `ns`, `ana`, `port`, `host`.

use std::fmt;
use std::io::Write;

use anyhow::{Result, anyhow};
use byway::serve::requests::{Reply, Request, ask};
use byway::serve::{AnaSetting, PathState, PortId, ServedNamespace, ServedSubsystem};
use byway_console::table::Table;
use byway_console::terminal::{print_done, print_json};
use serde::Serialize;

use crate::args::{
    AnaCommand, Asked, AskedOfOne, HostCommand, NamespaceCommand, OneHost, PortCommand, SubsystemCommand,
    SubsystemPorts,
};
use crate::command::secrets;
use crate::target::Target;

/// `byway subsystem`.
///
/// # Errors
/// No server listens, or it refuses.
pub fn subsystem(command: &SubsystemCommand, out: &mut impl Write) -> Result<()> {
    match command {
        SubsystemCommand::List(asked) => list_subsystems(asked, out),
        SubsystemCommand::Add(args) => {
            let exports = args.exports.iter().map(for_server).collect::<Result<_>>()?;
            let (nqn, hosts, ports) = (args.nqn.clone(), secrets::of_hosts(args)?, listed(&args.ports));
            request(&args.asked, Request::AddSubsystem { nqn: nqn.clone(), exports, hosts, ports })?;
            done(&args.asked, Done::SubsystemAdded { nqn }, out)
        }
        SubsystemCommand::Ports(SubsystemPorts { asked, nqn, ports }) => {
            let subsystem = Some(nqn.clone());
            request(asked, Request::SetPorts { subsystem, ports: listed(ports) })?;
            done(asked, Done::PortsSet { nqn: nqn.clone(), ports: some_of(ports) }, out)
        }
        SubsystemCommand::Remove(args) => {
            let nqn = args.nqn.clone();
            request(&args.asked, Request::RemoveSubsystem { nqn: nqn.clone() })?;
            done(&args.asked, Done::SubsystemRemoved { nqn }, out)
        }
    }
}

/// Ports that are named; every one where none is.
fn listed(ports: &[u16]) -> Option<Vec<PortId>> {
    some_of(ports).map(|ports| ports.into_iter().map(PortId).collect())
}

fn some_of(ports: &[u16]) -> Option<Vec<u16>> {
    (!ports.is_empty()).then(|| ports.to_vec())
}

/// `byway ns`.
///
/// # Errors
/// No server listens, or it refuses.
pub fn namespace(command: &NamespaceCommand, out: &mut impl Write) -> Result<()> {
    match command {
        NamespaceCommand::List(of) => list_namespaces(of, out),
        NamespaceCommand::Add(args) => {
            let (subsystem, uri) = (args.of.subsystem.clone(), for_server(&args.device)?);
            let reply = request(&args.of.asked, Request::AddNamespace { subsystem, uri })?;
            let added = reply.exported.ok_or_else(|| anyhow!("the server does not say what it added"))?;
            let (nsid, uri, backend) = (added.nsid, added.uri, added.backend);
            done(&args.of.asked, Done::NamespaceAdded { nsid, uri, backend }, out)
        }
        NamespaceCommand::Remove(args) => {
            let (subsystem, nsid) = (args.of.subsystem.clone(), args.ns);
            request(&args.of.asked, Request::RemoveNamespace { subsystem, nsid })?;
            done(&args.of.asked, Done::NamespaceRemoved { nsid }, out)
        }
    }
}

/// `byway ana`.
///
/// # Errors
/// No server listens, or it refuses.
pub fn ana(command: &AnaCommand, out: &mut impl Write) -> Result<()> {
    match command {
        AnaCommand::List(of) => list_paths(of, out),
        AnaCommand::Set(args) => {
            let setting = args.setting;
            let subsystem = args.of.subsystem.clone();
            request(&args.of.asked, Request::SetPath { subsystem, setting })?;
            let AnaSetting { port, nsid, state } = setting;
            let state = state.name().unwrap_or_default();
            done(&args.of.asked, Done::PathSet { port: port.0, nsid, state }, out)
        }
    }
}

/// `byway port`.
///
/// # Errors
/// No server listens, or it refuses.
pub fn port(command: &PortCommand, out: &mut impl Write) -> Result<()> {
    match command {
        PortCommand::List(asked) => list_ports(asked, out),
        PortCommand::Add(args) => {
            let reply = request(&args.asked, Request::AddPort { address: args.address })?;
            let added =
                reply.ports.first().ok_or_else(|| anyhow!("the server does not say what it added"))?;
            done(&args.asked, Done::PortAdded { port: added.0.0, address: added.1.to_string() }, out)
        }
        PortCommand::Remove(args) => {
            request(&args.asked, Request::RemovePort { port: args.port })?;
            done(&args.asked, Done::PortRemoved { port: args.port }, out)
        }
    }
}

/// `byway host`.
///
/// # Errors
/// No server listens, or it refuses.
pub fn host(command: &HostCommand, out: &mut impl Write) -> Result<()> {
    match command {
        HostCommand::List(of) => list_hosts(of, out),
        HostCommand::Allow(args) => {
            let OneHost { of, host } = &args.host;
            let subsystem = of.subsystem.clone();
            request(&of.asked, Request::AllowHost { subsystem, host: secrets::of_host(args)? })?;
            done(&of.asked, Done::HostAllowed { host: host.clone() }, out)
        }
        HostCommand::Disallow(args) => {
            let (subsystem, host) = (args.of.subsystem.clone(), args.host.clone());
            request(&args.of.asked, Request::DisallowHost { subsystem, host: host.clone() })?;
            done(&args.of.asked, Done::HostDisallowed { host }, out)
        }
        HostCommand::AllowAll(of) => {
            request(&of.asked, Request::AllowAll { subsystem: of.subsystem.clone() })?;
            done(&of.asked, Done::AllAllowed, out)
        }
    }
}

fn request(asked: &Asked, request: Request) -> Result<Reply> {
    Ok(ask(&asked.server, &request)?)
}

fn done(asked: &Asked, what: Done, out: &mut impl Write) -> Result<()> {
    Ok(print_done(out, asked.json, &what)?)
}

/// The URI with an absolute path, as the server runs in another folder.
fn for_server(device: &Target) -> Result<String> {
    Ok(byway::serve::requests::absolute(device.uri(), &std::env::current_dir()?))
}

/// A completed request, to print.
#[derive(Serialize)]
#[serde(tag = "done", rename_all = "snake_case")]
enum Done {
    SubsystemAdded {
        nqn: String,
    },
    SubsystemRemoved {
        nqn: String,
    },
    PortsSet {
        nqn: String,
        /// Every one where there is nothing.
        ports: Option<Vec<u16>>,
    },
    NamespaceAdded {
        nsid: u32,
        uri: String,
        backend: String,
    },
    NamespaceRemoved {
        nsid: u32,
    },
    PathSet {
        port: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        nsid: Option<u32>,
        state: &'static str,
    },
    PortAdded {
        port: u16,
        address: String,
    },
    PortRemoved {
        port: u16,
    },
    HostAllowed {
        host: String,
    },
    HostDisallowed {
        host: String,
    },
    AllAllowed,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubsystemAdded { nqn } => write!(f, "{nqn} is served"),
            Self::SubsystemRemoved { nqn } => write!(f, "{nqn} is served no more"),
            Self::PortsSet { nqn, ports } => match ports {
                Some(ports) => write!(f, "{nqn} is found by {}", in_words(ports)),
                None => write!(f, "{nqn} is found by every port"),
            },
            Self::NamespaceAdded { nsid, uri, backend } => {
                write!(f, "namespace {nsid} is {uri} by {backend}")
            }
            Self::NamespaceRemoved { nsid } => write!(f, "namespace {nsid} is exported no more"),
            Self::PathSet { port, nsid: Some(nsid), state } => {
                write!(f, "namespace {nsid} is {state} at port {port}")
            }
            Self::PathSet { port, nsid: None, state } => {
                write!(f, "every namespace is {state} at port {port}")
            }
            Self::PortAdded { port, address } => write!(f, "port {port} is at {address}"),
            Self::PortRemoved { port } => write!(f, "port {port} is closed"),
            Self::HostAllowed { host } => write!(f, "{host} may connect"),
            Self::HostDisallowed { host } => write!(f, "{host} may not connect"),
            Self::AllAllowed => f.write_str("every host may connect"),
        }
    }
}

/// Numbers of ports, in a sentence.
fn in_words(ports: &[u16]) -> String {
    match ports {
        [] => "no port".to_owned(),
        [port] => format!("port {port}"),
        ports => format!("ports {}", ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// A subsystem, for JSON.
#[derive(Serialize)]
struct SubsystemRow<'a> {
    nqn: &'a str,
    /// All may connect where there is nothing.
    hosts: Option<&'a [String]>,
    /// It is found by every one where there is nothing.
    ports: Option<Vec<u16>>,
    namespaces: Vec<NamespaceRow<'a>>,
}

impl<'a> SubsystemRow<'a> {
    fn of(ServedSubsystem { nqn, hosts, ports, namespaces }: &'a ServedSubsystem) -> Self {
        let namespaces = namespaces.iter().map(NamespaceRow::of).collect();
        Self { nqn, hosts: hosts.as_deref(), ports: numbers(ports.as_deref()), namespaces }
    }
}

fn numbers(ports: Option<&[PortId]>) -> Option<Vec<u16>> {
    ports.map(|ports| ports.iter().map(|port| port.0).collect())
}

/// A namespace, for JSON.
#[derive(Serialize)]
struct NamespaceRow<'a> {
    nsid: u32,
    kind: &'a str,
    size_bytes: u64,
    /// `None` for a namespace of the device itself.
    uri: Option<&'a str>,
    backend: Option<&'a str>,
}

impl<'a> NamespaceRow<'a> {
    fn of(namespace: &'a ServedNamespace) -> Self {
        let ServedNamespace { nsid, kind, size_bytes, exported } = namespace;
        let exported = exported.as_ref().map(|exported| (&*exported.uri, &*exported.backend));
        let (uri, backend) = exported.unzip();
        Self { nsid: *nsid, kind, size_bytes: *size_bytes, uri, backend }
    }

    fn cells(&self) -> Vec<String> {
        let of = |text: Option<&str>| text.unwrap_or("the device's own").to_owned();
        let backend = self.backend.unwrap_or_default().to_owned();
        vec![self.nsid.to_string(), self.kind.to_owned(), self.size_bytes.to_string(), of(self.uri), backend]
    }
}

fn list_subsystems(asked: &Asked, out: &mut impl Write) -> Result<()> {
    let Reply { subsystems, .. } = request(asked, Request::Subsystems)?;
    if asked.json {
        return Ok(print_json(out, &subsystems.iter().map(SubsystemRow::of).collect::<Vec<_>>())?);
    }
    let mut table = Table::new(&["subsystem", "hosts", "ports", "namespaces"]);
    for ServedSubsystem { nqn, hosts, ports, namespaces } in &subsystems {
        let hosts = hosts.as_ref().map_or_else(|| "all".to_owned(), |hosts| hosts.len().to_string());
        let ports =
            numbers(ports.as_deref()).map(|ports| ports.iter().map(u16::to_string).collect::<Vec<_>>());
        let ports = ports.map_or_else(|| "all".to_owned(), |ports| ports.join(","));
        table.push(vec![nqn.clone(), hosts, ports, namespaces.len().to_string()]);
    }
    Ok(put!(out, "{table}")?)
}

/// The named subsystem, or the only one of a server.
fn one_of(of: &AskedOfOne) -> Result<ServedSubsystem> {
    let Reply { mut subsystems, .. } = request(&of.asked, Request::Subsystems)?;
    let names: Vec<String> = subsystems.iter().map(|subsystem| subsystem.nqn.clone()).collect();
    match (&of.subsystem, names.len()) {
        (Some(nqn), _) => subsystems.retain(|subsystem| subsystem.nqn == *nqn),
        (None, 1) => {}
        (None, _) => {
            return Err(anyhow!("say which subsystem is meant by --subsystem, of {}", names.join(", ")));
        }
    }
    let missing = || anyhow!("no subsystem {} is served", of.subsystem.as_deref().unwrap_or_default());
    subsystems.pop().ok_or_else(missing)
}

fn list_namespaces(of: &AskedOfOne, out: &mut impl Write) -> Result<()> {
    let subsystem = one_of(of)?;
    let rows: Vec<_> = subsystem.namespaces.iter().map(NamespaceRow::of).collect();
    if of.asked.json {
        return Ok(print_json(out, &rows)?);
    }
    let mut table = Table::new(&["nsid", "kind", "bytes", "what", "backend"]);
    rows.iter().for_each(|row| table.push(row.cells()));
    Ok(put!(out, "{table}")?)
}

fn list_hosts(of: &AskedOfOne, out: &mut impl Write) -> Result<()> {
    let subsystem = one_of(of)?;
    if of.asked.json {
        return Ok(print_json(out, &subsystem.hosts)?);
    }
    match subsystem.hosts {
        None => note!("every host may connect to {}", subsystem.nqn),
        Some(hosts) if hosts.is_empty() => note!("no host may connect to {}", subsystem.nqn),
        Some(hosts) => hosts.iter().try_for_each(|host| put!(out, "{host}\n"))?,
    }
    Ok(())
}

fn list_ports(asked: &Asked, out: &mut impl Write) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        port: u16,
        address: String,
    }
    let reply = request(asked, Request::Ports)?;
    let row =
        |(port, address): &(PortId, std::net::SocketAddr)| Row { port: port.0, address: address.to_string() };
    let rows: Vec<Row> = reply.ports.iter().map(row).collect();
    if asked.json {
        return Ok(print_json(out, &rows)?);
    }
    let mut table = Table::new(&["port", "address"]);
    rows.into_iter().for_each(|Row { port, address }| table.push(vec![port.to_string(), address]));
    Ok(put!(out, "{table}")?)
}

fn list_paths(of: &AskedOfOne, out: &mut impl Write) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        port: u16,
        nsid: u32,
        state: String,
    }
    let reply = request(&of.asked, Request::Paths { subsystem: of.subsystem.clone() })?;
    let row = |PathState { port, nsid, state }: &PathState| Row {
        port: port.0,
        nsid: *nsid,
        state: state.to_string(),
    };
    let rows: Vec<Row> = reply.paths.iter().map(row).collect();
    if of.asked.json {
        return Ok(print_json(out, &rows)?);
    }
    if rows.is_empty() {
        note!("hosts get no ANA states: the server has one port, and began without --ana");
    }
    let mut table = Table::new(&["port", "nsid", "state"]);
    rows.into_iter().for_each(|row| {
        table.push(vec![row.port.to_string(), row.nsid.to_string(), row.state]);
    });
    Ok(put!(out, "{table}")?)
}
