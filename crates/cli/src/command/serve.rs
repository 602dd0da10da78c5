//! `byway serve`: a device for hosts in other processes.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use byway::ControlSocket;
use byway::serve::{
    Exported, HostKeys, ServeEvent, ServeOptions, Served, TcpDigests, TcpOptions, export, serve, serve_all,
};
use byway_console::terminal::{INTERRUPTED, on_hangup, on_signal, print_done, print_json};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::args::{Digest, Idle, Serve, ServeDhchap, ServeTls, Sgl};
use crate::command::serve_config::Config;
use crate::command::{dhchap, tls};
use crate::target::Target;

/// Serves until a signal comes.
///
/// # Errors
/// When the device cannot be opened, the socket is taken, or the device fails.
pub fn run(args: &Serve, out: &mut impl Write) -> Result<()> {
    let config = args.config.as_deref().map(Config::read).transpose()?;
    let tcp = match &config {
        Some(config) => Some(tcp_at(args, config.addresses(&args.tcp)?)),
        None => tcp_of(args)?,
    };
    let options = ServeOptions::new()
        .vfio_user(args.vfio_user.clone())
        .tcp(tcp)
        .sgls(args.sgl.map(|sgl| sgl == Sgl::On))
        .idle(match args.idle {
            Idle::Adaptive => byway::serve::Idle::Adaptive,
            Idle::Sleep => byway::serve::Idle::Sleep,
            Idle::Poll => byway::serve::Idle::Poll,
        })
        .exports(args.exports.iter().map(ToString::to_string).collect::<Vec<_>>())
        .threads(NonZeroU16::new(args.threads).unwrap_or(NonZeroU16::MIN))
        .metrics(args.metrics)
        .control(args.control.clone());
    if options.tcp.is_some() {
        take_descriptors();
    }
    let served = match (&args.device, &config) {
        (Some(device), _) => serve(&uri_of(device.given())?, &options)?,
        (None, Some(config)) => serve_all(&config.subsystems(args.tcp.len())?, &options)?,
        (None, None) => export(&options)?,
    };
    let stopper = served.stopper();
    let is_stopping = AtomicBool::new(false);
    on_signal(move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            // As after a kill: everything acknowledged is in the image.
            std::process::exit(INTERRUPTED.into());
        }
        stopper.stop();
    })?;
    renew_at_hangup(args, &served)?;
    let device = name_of(args);
    let unreachable = unreachable(args, &served);
    print_done(out, args.json, &listening(args, &served, &unreachable))?;
    out.flush()?;
    if !args.json {
        unreachable.iter().for_each(|why| note!("byway: no control socket: {why}"));
    }
    served.run(|event| report(event, args.json, out))?;
    print_done(out, args.json, &Event::Closed { device })?;
    Ok(())
}

/// Each connection has a descriptor, and a cluster has thousands: as many as the system lets this process have.
fn take_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Without a higher limit the server takes fewer hosts.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Has the file of what is served, or files of keys and secrets, read anew at each SIGHUP, where there are any.
fn renew_at_hangup(args: &Serve, served: &Served) -> Result<()> {
    if let (Some(path), Some(keys)) = (args.config.clone(), served.keys()) {
        let (control, more) = (served.control(), args.tcp.clone());
        let apply = move || {
            let config = Config::read(&path)?;
            Ok::<_, anyhow::Error>(control.apply(&config.subsystems(more.len())?, &config.addresses(&more)?)?)
        };
        return Ok(on_hangup(move || keys.change(&apply))?);
    }
    let (dhchap, tls) = (args.dhchap.clone(), args.tls.clone());
    let has_files = dhchap.dhchap_secrets.is_some() || tls.tls_keys.is_some();
    if let Some(keys) = served.keys().filter(|_| has_files) {
        on_hangup(move || keys.renew(|| keys_of(&dhchap, &tls)))?;
    }
    Ok(())
}

/// Secrets and keys of hosts.
fn keys_of(dhchap: &ServeDhchap, tls: &ServeTls) -> Result<HostKeys> {
    let dhchap = dhchap::of_serve(dhchap)?;
    let tls = tls::of_serve(tls, dhchap.is_some())?;
    Ok(HostKeys { dhchap, tls })
}

/// The options of NVMe/TCP.
fn tcp_of(args: &Serve) -> Result<Option<TcpOptions>> {
    if args.tcp.is_empty() {
        return Ok(None);
    }
    let (nqn, hosts) = (args.nqn.clone(), args.allow_host.clone());
    let HostKeys { dhchap, tls } = keys_of(&args.dhchap, &args.tls)?;
    let ana = args.ana.clone();
    Ok(Some(tcp_at(args, args.tcp.clone()).nqn(nqn).hosts(hosts).dhchap(dhchap).ana(ana).tls(tls)))
}

/// The options of NVMe/TCP that are not a subsystem's.
fn tcp_at(args: &Serve, addresses: Vec<SocketAddr>) -> TcpOptions {
    let digests = match args.digest {
        Digest::None => TcpDigests::None,
        Digest::Header => TcpDigests::Header,
        Digest::Data => TcpDigests::Data,
        Digest::Both => TcpDigests::Both,
    };
    TcpOptions::at_each(addresses).discovery(args.discovery).digests(digests)
}

/// What the server is called: its image, or what it does.
fn name_of(args: &Serve) -> &str {
    let several = args.config.as_ref().map(|_| "subsystems");
    args.device.as_ref().map(Target::given).or(several).unwrap_or("exports")
}

/// Reasons why commands such as `byway host` and `byway snapshot` cannot reach this server.
fn unreachable(args: &Serve, served: &Served) -> Vec<String> {
    if served.control_sockets().is_empty() {
        let why = "has no image by which it could be found; --control PATH makes one";
        return vec![format!("{} {why}", name_of(args))];
    }
    let sockets = served.control_sockets().iter().chain(served.snapshot_sockets());
    let mut why: Vec<String> = sockets.filter_map(ControlSocket::missing).map(str::to_owned).collect();
    why.dedup();
    why
}

/// Where requests are taken.
fn control_of(served: &Served) -> Vec<String> {
    let sockets = served.control_sockets().iter().filter(|socket| socket.missing().is_none());
    sockets.map(ToString::to_string).collect()
}

fn listening<'a>(args: &'a Serve, served: &'a Served, unreachable: &'a [String]) -> Event<'a> {
    let tcp = served.tcp_address();
    Event::Listening {
        device: name_of(args),
        namespaces: served.exported().iter().map(NamespaceLine::of).collect(),
        socket: args.vfio_user.as_ref().map(|path| path.display().to_string()),
        tcp: tcp.map(|address| address.to_string()),
        more_ports: served.tcp_addresses().iter().skip(1).map(ToString::to_string).collect(),
        nqn: tcp.filter(|_| args.config.is_none()).map(|_| served.nqn()),
        subsystems: if args.config.is_some() { names_of(served) } else { Vec::new() },
        discovery: served.discovery_address().map(|address| address.to_string()),
        metrics: served.metrics_address().map(|address| address.to_string()),
        control: control_of(served),
        no_control: unreachable,
    }
}

/// The names of the subsystems that are served.
fn names_of(served: &Served) -> Vec<String> {
    let subsystems = served.control().subsystems().unwrap_or_default();
    subsystems.into_iter().map(|subsystem| subsystem.nqn).collect()
}

/// A namespace that is exported.
#[derive(Serialize)]
struct NamespaceLine<'a> {
    nsid: u32,
    uri: &'a str,
    backend: &'a str,
}

impl<'a> NamespaceLine<'a> {
    fn of(exported: &'a Exported) -> Self {
        Self { nsid: exported.nsid, uri: &exported.uri, backend: &exported.backend }
    }
}

/// What happens to a server, in words or as a line of JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Listening {
        device: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        namespaces: Vec<NamespaceLine<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        socket: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tcp: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        more_ports: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        nqn: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        subsystems: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        discovery: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metrics: Option<String>,
        /// Sockets at which requests are taken.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control: Vec<String>,
        /// Why there is no such socket, where one is missing.
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        no_control: &'a [String],
    },
    ClientConnected,
    ClientLeft,
    ClientDropped {
        why: String,
    },
    ClientRefused,
    HostConnected {
        host: String,
        subsystem: String,
        controller: u16,
        from: String,
    },
    HostRefused {
        host: String,
        subsystem: String,
        from: String,
        why: &'static str,
    },
    HostIdDiffers {
        host: String,
        subsystem: String,
        controller: u16,
        from: String,
    },
    HostLeft {
        host: String,
        subsystem: String,
        controller: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    ConnectionEnded {
        from: String,
        why: String,
    },
    KeysRenewed,
    KeysKept {
        why: String,
    },
    SubsystemFailed {
        subsystem: String,
    },
    ImageDamaged {
        subsystem: String,
        image: String,
    },
    NoControlSocket {
        subsystem: String,
        why: String,
    },
    Closed {
        device: &'a str,
    },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening {
                device,
                namespaces,
                socket,
                tcp,
                more_ports,
                nqn,
                subsystems,
                discovery,
                metrics,
                ..
            } => {
                let ports = tcp.iter().chain(more_ports).map(String::as_str).collect::<Vec<_>>().join(",");
                let nqn = nqn.map(|nqn| format!("/{nqn}")).unwrap_or_default();
                let tcp = tcp.as_ref().map(|_| format!("tcp://{ports}{nqn}"));
                let discovery = discovery.as_ref().map(|at| format!("tcp://{at} for discovery"));
                let metrics = metrics
                    .as_ref()
                    .map(|at| format!("http://{at}/ for a browser, http://{at}/metrics for Prometheus"));
                let places: Vec<&str> =
                    [socket, &tcp, &discovery, &metrics].into_iter().flatten().map(String::as_str).collect();
                write!(f, "{device}: listening at {}", places.join(", "))?;
                subsystems.iter().try_for_each(|nqn| write!(f, "; {nqn}"))?;
                namespaces.iter().try_for_each(|namespace| {
                    write!(f, "; namespace {} is {} by {}", namespace.nsid, namespace.uri, namespace.backend)
                })
            }
            Self::ClientConnected => f.write_str("a client connected"),
            Self::ClientLeft => f.write_str("the client left"),
            Self::ClientDropped { why } => write!(f, "the client was disconnected: {why}"),
            Self::ClientRefused => {
                f.write_str("another client connected and was refused: one is served at a time")
            }
            Self::HostConnected { host, subsystem, controller, from } => {
                write!(f, "{host} connected from {from} and has controller {controller} of {subsystem}")
            }
            Self::HostRefused { host, subsystem, from, why } => {
                let host = if host.is_empty() { "a host without a name" } else { host };
                write!(f, "{host} connected from {from} to {subsystem} and was refused: {why}")
            }
            Self::HostIdDiffers { host, subsystem, controller, from } => write!(
                f,
                "{host} connected an I/O queue from {from} to controller {controller} of {subsystem} with another HOSTID than its admin queue: it is served"
            ),
            Self::HostLeft { host, subsystem, controller, why: None } => {
                write!(f, "{host} left: controller {controller} of {subsystem} is gone")
            }
            Self::HostLeft { host, subsystem, controller, why: Some(why) } => {
                write!(f, "{host} lost controller {controller} of {subsystem}: {why}")
            }
            Self::ConnectionEnded { from, why } => write!(f, "the connection from {from} was ended: {why}"),
            Self::KeysRenewed => f.write_str("what the files say was read anew, and holds"),
            Self::KeysKept { why } => write!(f, "what is served stays as it is: {why}"),
            Self::SubsystemFailed { subsystem } => {
                write!(f, "{subsystem} failed: its code panicked; it is served no more")
            }
            Self::ImageDamaged { subsystem, image } => {
                write!(
                    f,
                    "{subsystem} is served no more: another program has cut short or overwritten {image}"
                )
            }
            Self::NoControlSocket { subsystem, why } => write!(f, "no control socket for {subsystem}: {why}"),
            Self::Closed { device } => write!(f, "{device}: closed"),
        }
    }
}

/// Prints an event: on standard error for people, with `--json` on standard output for scripts.
fn report(event: ServeEvent, json: bool, out: &mut impl Write) {
    let event = match event {
        ServeEvent::ClientConnected => Event::ClientConnected,
        ServeEvent::ClientLeft => Event::ClientLeft,
        ServeEvent::ClientDropped(why) => Event::ClientDropped { why },
        ServeEvent::ClientRefused => Event::ClientRefused,
        ServeEvent::HostConnected { host, subsystem, controller, from } => {
            Event::HostConnected { host, subsystem, controller, from: from.to_string() }
        }
        ServeEvent::HostRefused { host, subsystem, from, why } => {
            Event::HostRefused { host, subsystem, from: from.to_string(), why }
        }
        ServeEvent::HostIdDiffers { host, subsystem, controller, from } => {
            Event::HostIdDiffers { host, subsystem, controller, from: from.to_string() }
        }
        ServeEvent::HostLeft { host, subsystem, controller, why } => {
            Event::HostLeft { host, subsystem, controller, why }
        }
        ServeEvent::ConnectionEnded { from, why } => Event::ConnectionEnded { from: from.to_string(), why },
        ServeEvent::SubsystemFailed { subsystem } => Event::SubsystemFailed { subsystem },
        ServeEvent::ImageDamaged { subsystem, image } => {
            Event::ImageDamaged { subsystem, image: image.display().to_string() }
        }
        ServeEvent::NoControlSocket { subsystem, why } => Event::NoControlSocket { subsystem, why },
        ServeEvent::KeysRenewed => Event::KeysRenewed,
        ServeEvent::KeysKept(why) => Event::KeysKept { why },
        _ => return,
    };
    // A closed output does not end the service.
    let _ = match json {
        true => print_json(out, &event).and_then(|()| out.flush()),
        false => {
            note!("byway: {event}");
            Ok(())
        }
    };
}

/// A path alone means an image.
fn uri_of(device: &str) -> Result<String> {
    match byway::uri::scheme_of(device) {
        None => Ok(byway::uri::of_image_text(device)),
        Some(("embedded" | "embedded-ram" | "embedded-null" | "ram" | "null", _)) => Ok(device.to_owned()),
        Some(_) => bail!(
            "{device} has no controller that could be served: expected an image's path, embedded:PATH, embedded-ram:SIZE or embedded-null:SIZE; --ns exports it as a namespace"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn uri_of_a_plain_path_leads_to_the_file_of_that_name() {
        assert_eq!(uri_of("a%41.img?ns=2").unwrap(), "embedded:a%2541.img?ns=2");
        for uri in
            ["embedded:a%41.img", "embedded-ram:64M?depth=4", "embedded-null:64M", "ram:64M", "null:64M"]
        {
            assert_eq!(uri_of(uri).unwrap(), uri);
        }
        for other in [
            "null-backend:1M",
            "ramdisk:1M",
            "nil:1M",
            "blocks:1M",
            "file:a",
            "tcp://a/nqn",
            "vfio-user:a",
            "pci:0000:01:00.0",
        ] {
            assert!(uri_of(other).unwrap_err().to_string().contains("no controller"), "{other}");
        }
    }
}
