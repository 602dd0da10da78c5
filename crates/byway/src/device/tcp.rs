//! Controllers at TCP addresses: NVMe over Fabrics by this library's own initiator.

use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_tcp_initiator::{DISCOVERY_PORT, Discovered, NvmeTcp, NvmeTcpPaths, PORT};

use crate::device::chosen::Chosen;
use crate::device::kind::DeviceKind;
use crate::uri::{TcpUri, invalid, shown};

/// Connects to the subsystem.
pub(crate) fn reach(uri: &TcpUri) -> Result<(DeviceKind, Chosen)> {
    let (reached, what) = match uri.places.as_slice() {
        [place] => (DeviceKind::Tcp(NvmeTcp::open(place.clone(), uri.options.clone())?), "a controller"),
        places => (DeviceKind::TcpPaths(NvmeTcpPaths::open(places, &uri.options)?), "controllers"),
    };
    let why = format!("{what} of another machine or process, by this library's own NVMe/TCP initiator");
    Ok((reached, Chosen { backend: NvmeTcp::NAME, why, passed_over: Vec::new() }))
}

/// Asks the discovery service at `tcp://HOST[:PORT]` what it knows.
///
/// # Errors
/// A text that is no such address, a service that cannot be reached, a log that cannot be read: one sentence says which.
pub fn discover(uri: &str) -> Result<Discovered> {
    discover_within(uri, Duration::MAX)
}

/// As [`discover`], with a connect timeout of at most `timeout_max`.
pub(crate) fn discover_within(uri: &str, timeout_max: Duration) -> Result<Discovered> {
    let TcpUri { places, mut options, .. } = TcpUri::of_discovery(uri)?;
    options.connect_timeout = options.connect_timeout.min(timeout_max);
    let place = places.into_iter().next().ok_or_else(|| invalid("no address"))?;
    let at_default = place.port == DISCOVERY_PORT;
    byway_tcp_initiator::discover(place, options).map_err(|error| {
        let error =
            if at_default && error.kind() == ErrorKind::NotFound { with_io_port(&error) } else { error };
        error.doing(format!("discover {}", shown(uri)))
    })
}

/// An error of the default port, with the other port that may answer.
fn with_io_port(error: &Error) -> Error {
    Error::host(
        ErrorKind::NotFound,
        format!(
            "{error}; try port {PORT}: a target that serves no discovery port, such as `byway serve --tcp`, answers discovery there"
        ),
    )
}
