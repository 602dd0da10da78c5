//! The commands that change what a running server serves.

use std::net::SocketAddr;
use std::path::PathBuf;

use byway::serve::AnaSetting;
use byway_console::number;
use clap::{Args, Subcommand};

use super::serve::{ana_setting, io_address};
use crate::target::Target;

/// The server that is asked, and how its answer is printed.
#[derive(Debug, Args)]
pub struct Asked {
    /// The server: the socket of its --control, or an image that it serves.
    #[arg(value_name = "SERVER")]
    pub server: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The same of one subsystem.
#[derive(Debug, Args)]
pub struct AskedOfOne {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// The subsystem, where the server has several.
    #[arg(long, value_name = "NQN")]
    pub subsystem: Option<String>,
}

/// `byway subsystem`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway subsystem list /run/byway.sock
  byway subsystem add /run/byway.sock nqn.2026-11.example:scratch --ns ramdisk:1G
  byway subsystem remove /run/byway.sock nqn.2026-11.example:scratch")]
pub struct Subsystems {
    /// What is done.
    #[command(subcommand)]
    pub command: SubsystemCommand,
}

/// What is done with subsystems.
#[derive(Debug, Subcommand)]
pub enum SubsystemCommand {
    /// List the subsystems of a running server, with their namespaces and the hosts that may connect.
    #[command(after_help = "\
Examples:
  byway subsystem list /run/byway.sock
  byway subsystem list disk.img --json | jq -r '.[].nqn'")]
    List(Asked),
    /// Serve one more; discovery clients get an event.
    #[command(after_help = "\
Examples:
  byway subsystem add /run/byway.sock nqn.2026-11.example:scratch --ns ramdisk:1G
  byway subsystem add disk.img nqn.2026-11.example:disks --ns /dev/nvme1n1 --allow-host nqn.host --port 2")]
    Add(AddSubsystem),
    /// Offer a subsystem at these ports alone, or at all without --port; hosts that are connected by others are disconnected.
    #[command(after_help = "\
Examples:
  byway subsystem ports /run/byway.sock nqn.2026-11.example:disks --port 1 --port 2
  byway subsystem ports /run/byway.sock nqn.2026-11.example:disks")]
    Ports(SubsystemPorts),
    /// Remove a subsystem: disconnect its hosts and close its devices.
    #[command(after_help = "Examples:\n  byway subsystem remove /run/byway.sock nqn.2026-11.example:scratch")]
    Remove(RemoveSubsystem),
}

/// `byway subsystem add`.
#[derive(Debug, Args)]
pub struct AddSubsystem {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// Its name.
    #[arg(value_name = "NQN")]
    pub nqn: String,
    /// Export this device as a namespace, as with `byway serve`. Once for each; namespaces may come later too.
    #[arg(long = "ns", value_name = "DEVICE")]
    pub exports: Vec<Target>,
    /// Let this host connect, and no other that is not named so too.
    #[arg(long, value_name = "NQN")]
    pub allow_host: Vec<String>,
    /// Secrets of the hosts that may connect (DH-HMAC-CHAP), of each: HOSTNQN SECRET a line, and the controller's behind it where there is one.
    #[arg(long, value_name = "FILE", requires = "allow_host")]
    pub dhchap_secrets: Option<PathBuf>,
    /// Keys of TLS of the hosts that may connect, of each: HOSTNQN KEY a line.
    #[arg(long, value_name = "FILE", requires = "allow_host")]
    pub tls_keys: Option<PathBuf>,
    /// Have it be found by this port, by its number, and by no other that is not named so too.
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<u16>,
}

/// `byway subsystem ports`.
#[derive(Debug, Args)]
pub struct SubsystemPorts {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// Its name.
    #[arg(value_name = "NQN")]
    pub nqn: String,
    /// The number of a port. Once for each.
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<u16>,
}

/// `byway subsystem remove`.
#[derive(Debug, Args)]
pub struct RemoveSubsystem {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// Its name.
    #[arg(value_name = "NQN")]
    pub nqn: String,
}

/// `byway ns`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway ns list disk.img
  byway ns add /run/byway.sock /dev/nvme1n1
  byway ns remove /run/byway.sock --ns 2")]
pub struct Namespaces {
    /// What is done.
    #[command(subcommand)]
    pub command: NamespaceCommand,
}

/// What is done with namespaces.
#[derive(Debug, Subcommand)]
pub enum NamespaceCommand {
    /// List the namespaces that a running server serves.
    #[command(after_help = "\
Examples:
  byway ns list disk.img
  byway ns list disk.img --json | jq -r '.[].nsid'")]
    List(AskedOfOne),
    /// Export one more device as a namespace; hosts get an event.
    #[command(after_help = "\
Examples:
  byway ns add disk.img ramdisk:1G
  byway ns add /run/byway.sock '/dev/nvme1n1?direct=1' --subsystem nqn.2026-11.example:disks")]
    Add(AddNamespace),
    /// Stop exporting a namespace; hosts get an event, and commands under way there fail.
    #[command(after_help = "Examples:\n  byway ns remove disk.img --ns 2")]
    Remove(RemoveNamespace),
}

/// `byway ns add`.
#[derive(Debug, Args)]
pub struct AddNamespace {
    /// The server.
    #[command(flatten)]
    pub of: AskedOfOne,
    /// What is exported, as with `byway serve --ns`. A path is this command's, not the server's.
    #[arg(value_name = "DEVICE")]
    pub device: Target,
}

/// `byway ns remove`.
#[derive(Debug, Args)]
pub struct RemoveNamespace {
    /// The server.
    #[command(flatten)]
    pub of: AskedOfOne,
    /// The namespace.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: u32,
}

/// `byway ana`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway ana list /run/byway.sock
  byway ana set /run/byway.sock 2=inaccessible
  byway ana set disk.img 1:3=non-optimized")]
pub struct Ana {
    /// What is done.
    #[command(subcommand)]
    pub command: AnaCommand,
}

/// What is done with states.
#[derive(Debug, Subcommand)]
pub enum AnaCommand {
    /// List how well each port of a running server serves each namespace; empty where hosts get no ANA states.
    #[command(after_help = "Examples:\n  byway ana list /run/byway.sock --json")]
    List(AskedOfOne),
    /// Change the ANA state of a namespace, or of each, at a port; hosts get an event, and choose their path.
    #[command(after_help = "\
Examples:
  byway ana set /run/byway.sock 2=inaccessible
  byway ana set disk.img 1:3=non-optimized
  byway ana set /run/byway.sock 2=optimized --subsystem nqn.2026-11.example:disks")]
    Set(SetAna),
}

/// `byway ana set`.
#[derive(Debug, Args)]
pub struct SetAna {
    /// The server.
    #[command(flatten)]
    pub of: AskedOfOne,
    /// The state, as with `byway serve --ana`.
    #[arg(value_name = "PORT[:NSID]=STATE", value_parser = ana_setting)]
    pub setting: AnaSetting,
}

/// `byway port`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway port list /run/byway.sock
  byway port add /run/byway.sock 10.0.1.1
  byway port remove /run/byway.sock 2")]
pub struct Ports {
    /// What is done.
    #[command(subcommand)]
    pub command: PortCommand,
}

/// What is done with ports.
#[derive(Debug, Subcommand)]
pub enum PortCommand {
    /// List where NVMe/TCP hosts connect to a running server.
    #[command(after_help = "Examples:\n  byway port list /run/byway.sock --json | jq -r '.[].address'")]
    List(Asked),
    /// Open a port for NVMe/TCP hosts at one more address; discovery clients get an event.
    #[command(after_help = "\
Examples:
  byway port add /run/byway.sock 10.0.1.1
  byway port add disk.img [::]:4421 --json")]
    Add(AddPort),
    /// Close a port, and disconnect the hosts that are connected by it.
    #[command(after_help = "Examples:\n  byway port remove /run/byway.sock 2")]
    Remove(RemovePort),
}

/// `byway port add`.
#[derive(Debug, Args)]
pub struct AddPort {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// Where (port 4420 unless one is given, 0 for any that is free).
    #[arg(value_name = "ADDRESS[:PORT]", value_parser = io_address)]
    pub address: SocketAddr,
}

/// `byway port remove`.
#[derive(Debug, Args)]
pub struct RemovePort {
    /// The server.
    #[command(flatten)]
    pub asked: Asked,
    /// Its number.
    #[arg(value_name = "PORT")]
    pub port: u16,
}

/// `byway host`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway host list /run/byway.sock
  byway host allow /run/byway.sock nqn.2026-11.example:host
  byway host disallow /run/byway.sock nqn.2026-11.example:host
  byway host allow-all /run/byway.sock")]
pub struct Hosts {
    /// What is done.
    #[command(subcommand)]
    pub command: HostCommand,
}

/// What is done with hosts.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// List the NVMe/TCP hosts that may connect to a running server, each by its name; nothing where every one may.
    #[command(after_help = "Examples:\n  byway host list /run/byway.sock --json")]
    List(AskedOfOne),
    /// Allow a host to connect. Where all hosts were allowed, it alone is allowed then, and others are disconnected.
    #[command(after_help = "\
Examples:
  byway host allow /run/byway.sock nqn.2026-11.example:host
  byway host allow /run/byway.sock nqn.2026-11.example:host --dhchap-secret-file secret --tls-key-file key")]
    Allow(AllowHost),
    /// Let a host connect no more, and send it away.
    #[command(after_help = "Examples:\n  byway host disallow /run/byway.sock nqn.2026-11.example:host")]
    Disallow(OneHost),
    /// Let every host connect.
    #[command(after_help = "Examples:\n  byway host allow-all /run/byway.sock")]
    AllowAll(AskedOfOne),
}

/// `byway host allow`.
#[derive(Debug, Args)]
pub struct AllowHost {
    /// The host.
    #[command(flatten)]
    pub host: OneHost,
    /// A file with the host's secret for DH-HMAC-CHAP, and the controller's behind it if there is one. Where one
    /// allowed host has a secret, all must have one.
    #[arg(long, value_name = "FILE")]
    pub dhchap_secret_file: Option<PathBuf>,
    /// A file with the host's key of TLS. Where one allowed host has a key, all must have one.
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,
}

/// A host of a subsystem.
#[derive(Debug, Args)]
pub struct OneHost {
    /// The server.
    #[command(flatten)]
    pub of: AskedOfOne,
    /// Its name.
    #[arg(value_name = "NQN")]
    pub host: String,
}
