//! Serving an embedded device to hosts in other processes.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_controller::SubsystemOptions;
use byway_core::{Error, ErrorKind, Result};
use byway_in_process::{Embedded, Hosts, StartError};
use byway_sys::Wakeup;
use byway_vfio_user::{Door, DoorError, DoorbellPage, Function, ServeError, Server, Vectors};

use crate::control::Control;
use crate::open::subsystem_of;
use crate::uri::{Options, Uri};

pub use byway_vfio_user::Told;

/// Where a device is served, and what its controllers announce.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The socket for vfio-user clients: QEMU's `vfio-user-pci` device among them.
    pub vfio_user: PathBuf,
    /// Whether controllers announce SGLs, where it is to be said apart from the URI.
    pub sgls: Option<bool>,
    /// What the server does while no command comes.
    pub idle: Idle,
    /// How many threads share the queues.
    pub threads: NonZeroU16,
}

impl ServeOptions {
    /// At a socket, and everything else as it is unless something is said.
    #[must_use]
    pub fn at(vfio_user: impl Into<PathBuf>) -> Self {
        Self { vfio_user: vfio_user.into(), sgls: None, idle: Idle::default(), threads: NonZeroU16::MIN }
    }
}

/// What a server does while no command comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// It sleeps: each doorbell is a message, but for those that doorbell buffers save.
    #[default]
    Sleep,
    /// It looks for doorbells, which clients map and write without a message, and keeps a processor busy for as long as
    /// a client is there.
    Poll,
}

/// A device that is being served. Dropping it closes the device.
#[derive(Debug)]
pub struct Served {
    // Declared before the device, whose image is closed with the last of both.
    server: Server,
    _device: Embedded,
}

/// Ends a [`Served`] device's service, from any thread.
#[derive(Debug, Clone)]
pub struct StopServing(Arc<Wakeup>);

impl StopServing {
    /// [`Served::run`] returns once what clients have asked for so far is done.
    pub fn stop(&self) {
        self.0.raise();
    }
}

/// Opens the device that `uri` names and listens for hosts elsewhere, who find it as a PCIe NVMe controller.
///
/// # Errors
/// As [`crate::embedded::open`]; options that are a host's to choose; a socket at which another server listens.
pub fn serve(uri: &str, options: &ServeOptions) -> Result<Served> {
    let mut parsed: Uri = uri.parse()?;
    parsed.options.sgls = options.sgls.unwrap_or(parsed.options.sgls);
    serve_uri(&parsed, options).map_err(|error| error.doing(format!("serve {uri}")))
}

fn serve_uri(uri: &Uri, options: &ServeOptions) -> Result<Served> {
    check_options(&uri.options)?;
    // Before the image: what cannot be served is not opened.
    Door::check(&options.vfio_user).map_err(|error| from_door(&options.vfio_user, error))?;
    let polls = options.idle == Idle::Poll;
    let announced = SubsystemOptions { doorbell_buffers: !polls, ..SubsystemOptions::default() };
    let subsystem = subsystem_of(uri, None, announced)?;
    let path = subsystem.flash.path();
    let vectors = Arc::new(Vectors::default());
    let no_memory = |error| Error::kernel("share doorbells", error);
    let page = if polls { Some(DoorbellPage::new().map_err(no_memory)?) } else { None };
    let hosts = Hosts {
        interrupts: vectors.clone(),
        doorbells: page.as_ref().map(|page| page.memory().clone()),
        threads: options.threads,
    };
    let device = Embedded::serve(subsystem, uri.options.clock, uri.options.ledger, hosts);
    let mut device = device.map_err(from_start)?;
    if let Some(control) = path.and_then(|path| Control::start(&path, device.handle())) {
        device.keep(control);
    }
    // After the image: who comes is answered.
    let door = Door::open(&options.vfio_user).map_err(|error| from_door(&options.vfio_user, error))?;
    let server = Server::new(door, Function::new(device.front(), vectors, page));
    let server = server.map_err(|error| Error::kernel("serve by vfio-user", error))?;
    Ok(Served { server, _device: device })
}

/// How a device is driven is for its hosts to say: an option that would be left unread is refused.
fn check_options(options: &Options) -> Result<()> {
    let default = Options::default();
    let of_hosts = [
        ("transfer", options.transfer != default.transfer),
        ("policy", options.policy != default.policy),
        ("ns", options.ns != default.ns),
        ("run", options.run_by != default.run_by),
        ("depth", options.depth != default.depth),
        ("ring", options.ring_entries != default.ring_entries),
    ];
    match of_hosts.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            let said = format!("{name}= is for the hosts of a served device to choose");
            Err(Error::host(ErrorKind::InvalidArgument, said))
        }
        None => Ok(()),
    }
}

fn from_door(path: &Path, error: DoorError) -> Error {
    match error {
        DoorError::System { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let said = format!("there is no folder for the socket {}: make it first", path.display());
            Error::host(ErrorKind::NotFound, said)
        }
        DoorError::System { source, .. } => Error::kernel(format!("listen at {}", path.display()), source),
        DoorError::Live(_) => Error::host(ErrorKind::Busy, error.to_string()),
        _ => Error::host(ErrorKind::InvalidArgument, error.to_string()),
    }
}

pub(crate) fn from_start(error: StartError) -> Error {
    Error::host(ErrorKind::Unsupported, error.to_string())
}

impl Served {
    /// Ends the service, from any thread.
    #[must_use]
    pub fn stopper(&self) -> StopServing {
        StopServing(self.server.stop())
    }

    /// Serves one client after the other until it is stopped, then closes the device. `tell` is told of clients that come
    /// and go.
    ///
    /// # Errors
    /// When the device has failed, or the system refuses.
    pub fn run(mut self, tell: impl FnMut(Told<'_>)) -> Result<()> {
        self.server.serve(tell).map_err(|error| match error {
            ServeError::System(error) => Error::kernel("serve by vfio-user", error),
            other => Error::host(ErrorKind::Device, other.to_string()),
        })
    }
}
