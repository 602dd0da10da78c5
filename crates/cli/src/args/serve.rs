//! The command that serves a device to hosts elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::args::{ServeDhchap, ServeTls};
use crate::target::Target;
use byway::serve::{AnaSetting, AnaState, PortId};
use clap::{ArgGroup, Args, ValueEnum, value_parser};

/// Ports of NVMe/TCP.
const IO_PORT: u16 = 4420;
const DISCOVERY_PORT: u16 = 8009;

/// Port of the Prometheus endpoint, unless one is given.
const METRICS_PORT: u16 = 9899;

/// `byway serve`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("network").multiple(true).args(["tcp", "config"]))]
#[command(group = ArgGroup::new("front").required(true).multiple(true).args(["vfio_user", "tcp", "config"]))]
#[command(after_help = "\
Examples:
  byway serve disk.img --vfio-user /run/disk.sock
  byway serve 'embedded:disk.img?flush=command' --vfio-user /run/disk.sock --sgl off
  byway serve embedded-ram:1G --vfio-user /run/ram.sock --idle poll
  byway serve disk.img --vfio-user /run/disk.sock --threads 4
  byway serve disk.img --vfio-user /run/disk.sock --json | jq -r .event
  byway serve disk.img --tcp 127.0.0.1
  byway serve disk.img --tcp 0.0.0.0:4420 --nqn nqn.2026-11.example:disk --discovery 0.0.0.0:8009
  byway serve disk.img --tcp [::]:4420 --allow-host nqn.2026-11.example:host
  byway serve disk.img --tcp 10.0.0.1 --idle poll --threads 2
  byway serve disk.img --tcp [::]:4420 --dhchap-secrets /etc/byway/secrets
  byway serve disk.img --tcp 10.0.0.1 --tcp 10.0.1.1 --ana 2=non-optimized
  byway serve disk.img --tcp [::]:4420 --tls-keys /etc/byway/tls-keys --discovery [::]
  byway serve disk.img --tcp 127.0.0.1 --vfio-user /run/disk.sock --threads 2
  byway serve disk.img --tcp 127.0.0.1 --metrics 127.0.0.1:9899
  byway serve --ns '/dev/nvme0n1?direct=1' --ns ramdisk:1G --tcp 127.0.0.1:4420
  byway serve --ns ramdisk:1G --tcp 127.0.0.1 --control /run/byway.sock
  byway serve --config /etc/byway/serve.json --control /run/byway.sock

QEMU takes the socket as -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/run/disk.sock\"}}', and \
needs the guest's memory in a file that it shares: -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m.

SIGINT and SIGTERM end the service in order: what was asked for is done, the image is closed, the socket removed. A second one ends it at once, as SIGKILL does: nothing acknowledged is lost. \
SIGHUP reads --config anew and applies it; or --tls-keys and --dhchap-secrets, where there is either, for hosts that connect from then on: open connections go on. Files that cannot be used change nothing, and are reported.")]
pub struct Serve {
    /// The device: the path of an image, or embedded:PATH or embedded-ram:SIZE (`byway help uri`). May be left out where --ns
    /// says what to serve.
    #[arg(value_name = "DEVICE", required_unless_present_any = ["exports", "config"])]
    pub device: Option<Target>,
    /// Export this device as a namespace, behind those of the image: a file, a block device, another NVMe device (`tcp://` too),
    /// blocks in memory (`ramdisk:1G`); of a device with several namespaces the first of blocks, or `ns=`. Its own commands
    /// carry out what hosts ask for, at once and many at a time. With `readonly=1` it is write protected. Once for each.
    #[arg(long = "ns", value_name = "DEVICE")]
    pub exports: Vec<Target>,
    /// Serve a PCIe NVMe controller to vfio-user clients at this socket, one after the other: QEMU guests, or Byway's
    /// own driver. A socket that a dead server left is replaced.
    #[arg(long, value_name = "PATH")]
    pub vfio_user: Option<PathBuf>,
    /// Serve NVMe/TCP hosts at this address (port 4420 unless one is given, 0 for any that is free), each with a controller
    /// of its own: Linux (`nvme connect -t tcp`), SPDK. Beside vfio-user or instead. Not under clock=paced. Once for each
    /// port of the subsystem.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = io_address)]
    pub tcp: Vec<SocketAddr>,
    /// ANA state of a namespace, or of each, at a port: optimized (the default), non-optimized, inaccessible,
    /// persistent-loss or change. Ports are numbered from 1 in the order of --tcp. Hosts get the states (ANA), and choose.
    #[arg(long, value_name = "PORT[:NSID]=STATE", value_parser = ana_setting, requires = "tcp")]
    pub ana: Vec<AnaSetting>,
    /// Name that NVMe/TCP hosts know the subsystem by; the image's own unless one is given.
    #[arg(long, value_name = "NQN", requires = "tcp")]
    pub nqn: Option<String>,
    /// Answer discovery at this address as well (port 8009 unless one is given): `nvme discover`, `nvme connect-all`. It is
    /// answered at the address of --tcp in any case.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = discovery_address, requires = "network")]
    pub discovery: Option<SocketAddr>,
    /// Digests that NVMe/TCP hosts may ask for.
    #[arg(long, default_value = "both", requires = "network")]
    pub digest: Digest,
    /// Let this NVMe/TCP host connect, by its name, and no other that is not named so too. Names are proven by secrets (--dhchap-secret) and keys (--tls-key) alone.
    #[arg(long, value_name = "NQN", requires = "tcp")]
    pub allow_host: Vec<String>,
    /// Authentication.
    #[command(flatten)]
    pub dhchap: ServeDhchap,
    /// TLS.
    #[command(flatten)]
    pub tls: ServeTls,
    /// Serve what a file says: several subsystems, each with its namespaces, the hosts that may connect with their keys, and
    /// states of paths; and ports, beside those of --tcp. JSON, with the names that nvmetcli has; a regular file of at most 1 MiB.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "device", "exports", "vfio_user", "nqn", "allow_host", "ana", "dhchap_secret", "dhchap_ctrl_secret", "dhchap_secrets",
        "dhchap_hash", "dhchap_group", "tls_key", "tls_keys",
    ])]
    pub config: Option<PathBuf>,
    /// Take requests of this user and of root at this socket: `byway subsystem`, `ns`, `ana`, `port` and `host` change what is served
    /// while hosts are there. The server of an image takes them by the image as well. A socket that a dead server left is replaced. Where there is neither, standard
    /// error says why.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// What the server does while no command comes.
    #[arg(long, default_value = "adaptive")]
    pub idle: Idle,
    /// Threads that share the queues of the client: one answers messages as well, and each queue pair that is busy goes to
    /// the one that its number says. They fetch commands, move data and complete beside each other; the
    /// device itself is one thread's at a time. Not under clock=paced and flush=media, which want one. So many threads
    /// share the connections of NVMe/TCP hosts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Count commands, and serve metrics at this address (port 9899 unless one is given, 0 for any that is free) as Prometheus
    /// reads them, at /metrics: connections, commands by type with how long they took, bytes, errors, the device's link, flash and
    /// health, memory. A browser shows them live at /, and `byway top http://ADDRESS:PORT` in a terminal. Every client that reaches the
    /// address may read them.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = metrics_address)]
    pub metrics: Option<SocketAddr>,
    /// Whether the controller announces SGLs: `sgl=` of a URI, which an image's path alone has no place for.
    #[arg(long)]
    pub sgl: Option<Sgl>,
    /// Print one JSON object a line for whatever happens: `event` is listening (with the namespaces that are exported),
    /// client_connected, client_left, client_dropped (with why), client_refused, host_connected, host_refused, host_id_differs, host_left,
    /// connection_ended, subsystem_failed, keys_renewed, keys_kept (with why) (NVMe/TCP), image_damaged, no_control_socket or closed.
    #[arg(long)]
    pub json: bool,
}

/// What a server does while no command comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// It looks for 50 to 400 µs, as long as that spares sleeps, then sleeps. vfio-user: each doorbell is a message, but for those
    /// that doorbell buffers save a driver that knows them.
    Adaptive,
    /// NVMe/TCP: it sleeps at once. vfio-user: as adaptive.
    Sleep,
    /// It polls without end: a processor is kept busy as long as a client or an I/O queue is there. vfio-user: clients map
    /// doorbells and write them without a message.
    Poll,
}

/// Whether a controller announces SGLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sgl {
    /// It does; recent drivers use them for whatever programs pass through.
    On,
    /// It does not: everything comes by PRPs.
    Off,
}

/// Digests that hosts may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Digest {
    /// None.
    None,
    /// Of headers.
    Header,
    /// Of data.
    Data,
    /// Of both, or of either.
    Both,
}

pub(super) fn io_address(text: &str) -> Result<SocketAddr, String> {
    address(text, IO_PORT)
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    address(text, METRICS_PORT)
}

fn discovery_address(text: &str) -> Result<SocketAddr, String> {
    address(text, DISCOVERY_PORT)
}

/// An address with a port, or without.
fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match (text.parse::<SocketAddr>(), bare.parse::<IpAddr>()) {
        (Ok(address), _) => Ok(address),
        (_, Ok(address)) => Ok(SocketAddr::new(address, port)),
        _ => {
            Err("expected an IP address, with a port or without: 127.0.0.1, 0.0.0.0:4420, [::]:4420"
                .to_owned())
        }
    }
}

/// A port, a namespace or every one, and a state.
pub(super) fn ana_setting(text: &str) -> Result<AnaSetting, String> {
    let states = || AnaState::ALL.iter().filter_map(|state| Some((*state, state.name()?)));
    let parsed = text.split_once('=').and_then(|(place, said)| {
        let (port, nsid) = match place.split_once(':') {
            Some((port, nsid)) => (port, Some(nsid.parse().ok()?)),
            None => (place, None),
        };
        let (state, _) = states().find(|(_, name)| *name == said)?;
        Some(AnaSetting { port: PortId(port.parse().ok()?), nsid, state })
    });
    parsed.ok_or_else(|| {
        let known: Vec<&str> = states().map(|(_, name)| name).collect();
        format!("expected PORT=STATE or PORT:NSID=STATE, of the states {}", known.join(", "))
    })
}
