//! What is said of NVMe/TCP, and what the target makes of it.

use std::net::SocketAddr;

use byway_core::{Error, ErrorKind, Result};
use byway_tcp_target::{Dhchap, Digests, Doors, ListenError, Nqn, TargetOptions};

use crate::serve::ServeOptions;

/// Where NVMe/TCP hosts connect, and what they find.
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// Where they connect: to the subsystem, and to the discovery service as well.
    pub address: SocketAddr,
    /// Where the discovery service answers alone.
    pub discovery: Option<SocketAddr>,
    /// Name of the subsystem, unless the image's own.
    pub nqn: Option<String>,
    /// Digests that hosts may ask for.
    pub digests: TcpDigests,
    /// Names of the hosts that may connect; all where there are none.
    pub hosts: Vec<String>,
    /// What hosts show who they are by, where they must.
    pub dhchap: Option<Dhchap>,
}

/// Digests that hosts may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TcpDigests {
    /// None: a host that asks for one is answered that it gets none.
    None,
    /// Of headers.
    Header,
    /// Of data.
    Data,
    /// Either.
    #[default]
    Both,
}

impl TcpOptions {
    /// At an address, and everything else as it is unless something is said.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        let (digests, hosts) = (TcpDigests::default(), Vec::new());
        Self { address, discovery: None, nqn: None, digests, hosts, dhchap: None }
    }
}

/// Listens.
pub(super) fn open_doors(options: &TcpOptions) -> Result<Doors> {
    Doors::open(options.address, options.discovery).map_err(from_listen)
}

/// What a target is told.
pub(super) fn target_options(
    options: &TcpOptions,
    nqn: &str,
    served: &ServeOptions,
) -> Result<TargetOptions> {
    let hosts = options.hosts.iter().map(|host| name(host)).collect::<Result<Vec<_>>>()?;
    let digests = match options.digests {
        TcpDigests::None => Digests::NONE,
        TcpDigests::Header => Digests { header: true, data: false },
        TcpDigests::Data => Digests { header: false, data: true },
        TcpDigests::Both => Digests::BOTH,
    };
    let ServeOptions { threads, idle, .. } = *served;
    let dhchap = options.dhchap.clone();
    Ok(TargetOptions { digests, threads, idle, hosts, dhchap, ..TargetOptions::of(name(nqn)?) })
}

fn name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|error| Error::host(ErrorKind::InvalidArgument, format!("{text:?}: {error}")))
}

pub(super) fn from_listen(error: ListenError) -> Error {
    let doing = format!("listen at {}", error.address);
    Error::kernel(doing, error.source)
}
