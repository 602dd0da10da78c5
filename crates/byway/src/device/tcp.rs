//! Controllers at TCP addresses: NVMe over Fabrics by this library's own initiator.

use std::borrow::Cow;

use byway_core::{Error, ErrorKind, Result};
use byway_spec::fabrics::{SubsystemType, TransportType};
use byway_tcp_initiator::{DISCOVERY_PORT, Discovered, Entry, Nqn, NvmeTcp, NvmeTcpPaths, PORT, TcpPlace};

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

/// The URI with the name of the only subsystem that discovery knows at `tcp://HOST[:PORT]`. Every other URI stays as it is.
///
/// # Errors
/// Discovery does not answer, or knows of several subsystems, which the message names, or of none.
pub(crate) fn with_subsystem(uri: &str) -> Result<Cow<'_, str>> {
    let Some(services) = TcpUri::services_of_nameless(uri) else { return Ok(uri.into()) };
    let (address, query) = uri.split_once('?').map_or((uri, None), |(address, query)| (address, Some(query)));
    let mut found: Vec<(Nqn, String)> = Vec::new();
    for (entry, uri) in
        asked(address, &services)?.entries.iter().filter_map(|entry| Some((entry, uri_of(entry)?)))
    {
        if !found.iter().any(|(known, _)| *known == entry.subsystem) {
            found.push((entry.subsystem.clone(), uri));
        }
    }
    match found.as_slice() {
        [(_, only)] => Ok(query.map_or_else(|| only.clone(), |query| format!("{only}?{query}")).into()),
        [] => Err(invalid(format!("{address}: discovery there knows of no subsystem over TCP"))),
        several => {
            let uris: Vec<&str> = several.iter().map(|(_, uri)| uri.as_str()).collect();
            let (count, uris) = (uris.len(), uris.join(" or "));
            Err(invalid(format!("{address} has {count} subsystems: name one of them, {uris}")))
        }
    }
}

/// What the first discovery service that answers knows; the error of the last where none does.
fn asked(address: &str, services: &[String]) -> Result<Discovered> {
    let mut unanswered = None;
    for service in services {
        match discover(service) {
            Ok(found) => return Ok(found),
            Err(error) => unanswered = Some(error),
        }
    }
    let error = unanswered.unwrap_or_else(|| invalid("no discovery service"));
    Err(error.doing(format!(
        "{address} names no subsystem, as tcp://HOST:4420/NQN does, and discovery finds none"
    )))
}

/// The URI of a subsystem over TCP. `None` for other entries, and for an address that would say more than where it is.
fn uri_of(entry: &Entry) -> Option<String> {
    if entry.transport != TransportType::TCP || entry.kind != SubsystemType::NVM {
        return None;
    }
    let Entry { address, service, subsystem, .. } = entry;
    let uri = match address.contains(':') {
        true => format!("tcp://[{address}]:{service}/{subsystem}"),
        false => format!("tcp://{address}:{service}/{subsystem}"),
    };
    let place = TcpPlace { host: address.clone(), port: service.parse().ok()?, subsystem: subsystem.clone() };
    let parsed: TcpUri = uri.parse().ok()?;
    (parsed.places == [place]).then_some(uri)
}

/// Asks the discovery service at `tcp://HOST[:PORT]` what it knows.
///
/// # Errors
/// A text that is no such address, a service that cannot be reached, a log that cannot be read: one sentence says which.
pub fn discover(uri: &str) -> Result<Discovered> {
    let TcpUri { places, options, .. } = TcpUri::of_discovery(uri)?;
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
