//! `tcp://HOST[:PORT]`: discovery gives the subsystem that such an address does not name.

use std::borrow::Cow;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use byway_core::Result;
use byway_spec::fabrics::{SubsystemType, TransportType};
use byway_tcp_initiator::{Discovered, Entry, TcpPlace};

use crate::device::tcp::discover_within;
use crate::uri::{NamelessUri, TcpUri, invalid, service_of};

/// Connect timeout of a discovery service behind which another is asked: firewalls drop packets to ports that are not open.
const FIRST_SERVICE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most portals of a device.
const PORTALS_MAX: usize = 8;

/// The URI with the name of the only subsystem that discovery finds at `tcp://HOST[:PORT]`. Every other URI stays as it is.
///
/// # Errors
/// Discovery does not answer, or finds several subsystems, which the message names, or none.
pub(super) fn with_subsystem(uri: &str) -> Result<Cow<'_, str>> {
    let Some(nameless) = NamelessUri::of(uri) else { return Ok(uri.into()) };
    let (address, query) = uri.split_once('?').map_or((uri, None), |(address, query)| (address, Some(query)));
    let entries = ask(address, &nameless.services)?.entries;
    let asked = Asked::new(&nameless);
    let found: Vec<String> = subsystems_of(&entries).iter().map(|portals| asked.uri_of(portals)).collect();
    match found.as_slice() {
        [only] => Ok(query.map_or_else(|| only.clone(), |query| format!("{only}?{query}")).into()),
        [] => Err(invalid(format!("{address}: discovery finds no subsystem over TCP there"))),
        several => {
            let (count, uris) = (several.len(), several.join(" or "));
            Err(invalid(format!("{address} has {count} subsystems: name one of them, {uris}")))
        }
    }
}

/// The log of the first discovery service that answers; the error of the last if none does.
fn ask(address: &str, services: &[String]) -> Result<Discovered> {
    let mut last_error = None;
    for (at, service) in services.iter().enumerate() {
        let is_last = at + 1 == services.len();
        match discover_within(service, if is_last { Duration::MAX } else { FIRST_SERVICE_TIMEOUT }) {
            Ok(found) => return Ok(found),
            Err(error) => last_error = Some(error),
        }
    }
    let error = last_error.unwrap_or_else(|| invalid("no discovery service"));
    Err(error.doing(format!(
        "{address} names no subsystem, as tcp://HOST:4420/NQN does, and discovery finds none"
    )))
}

/// The portals of each subsystem, in the order of the log.
fn subsystems_of(entries: &[Entry]) -> Vec<Vec<TcpPlace>> {
    let mut found: Vec<Vec<TcpPlace>> = Vec::new();
    for portal in entries.iter().filter_map(portal_of) {
        match found.iter_mut().find(|portals| portals[0].subsystem == portal.subsystem) {
            Some(portals) if portals.contains(&portal) => {}
            Some(portals) => portals.push(portal),
            None => found.push(vec![portal]),
        }
    }
    found
}

/// The portal of an entry. `None` for entries that are not NVM subsystems over TCP, and for addresses that do not parse back to exactly this
/// host, port and NQN, so that a discovery log entry cannot inject URI options.
fn portal_of(entry: &Entry) -> Option<TcpPlace> {
    if entry.transport != TransportType::TCP || entry.kind != SubsystemType::NVM {
        return None;
    }
    let Entry { address, service, subsystem, .. } = entry;
    let portal =
        TcpPlace { host: address.clone(), port: service.parse().ok()?, subsystem: subsystem.clone() };
    let parsed: TcpUri = uri_of(std::slice::from_ref(&portal)).parse().ok()?;
    (parsed.places == [portal.clone()]).then_some(portal)
}

/// `tcp://HOST:PORT,HOST:PORT/NQN`.
fn uri_of(portals: &[TcpPlace]) -> String {
    let services = portals.iter().map(|portal| service_of(&(portal.host.clone(), Some(portal.port))));
    let services: Vec<String> =
        services.map(|service| service.trim_start_matches("tcp://").to_owned()).collect();
    let name = portals.first().map(|portal| portal.subsystem.to_string()).unwrap_or_default();
    format!("tcp://{}/{name}", services.join(","))
}

/// The portal that the user named.
struct Asked<'a> {
    host: &'a str,
    port: Option<u16>,
    /// Addresses of the host, as discovery logs have them.
    addresses: Vec<IpAddr>,
}

impl<'a> Asked<'a> {
    fn new(uri: &'a NamelessUri) -> Self {
        let NamelessUri { host, port, .. } = uri;
        let addresses = (host.as_str(), port.unwrap_or_default()).to_socket_addrs();
        let addresses = addresses.map(|found| found.map(|address| address.ip().to_canonical()).collect());
        Self { host, port: *port, addresses: addresses.unwrap_or_default() }
    }

    /// The URI of a subsystem with these portals: by the one that was asked, or by all if the log does not list that one (multipath).
    fn uri_of(&self, portals: &[TcpPlace]) -> String {
        let here: Vec<&TcpPlace> = portals.iter().filter(|portal| self.is_host_of(portal)).collect();
        let at_port = here.iter().find(|portal| Some(portal.port) == self.port);
        match at_port.or_else(|| here.first()) {
            Some(portal) => uri_of(std::slice::from_ref(*portal)),
            None => uri_of(&portals[..portals.len().min(PORTALS_MAX)]),
        }
    }

    fn is_host_of(&self, portal: &TcpPlace) -> bool {
        let address = portal.host.parse().map(|address: IpAddr| address.to_canonical());
        portal.host == self.host || address.is_ok_and(|address| self.addresses.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_tcp_initiator::Nqn;

    use super::*;

    const NAME: &str = "nqn.2026-01.org.example:disk";

    fn listed(address: &str, port: u16, name: &str) -> Entry {
        let subsystem: Nqn = name.parse().unwrap();
        Entry { address: address.to_owned(), ..Entry::tcp(subsystem, [127, 0, 0, 1].into(), port) }
    }

    /// The URI of the only subsystem of `entries`, for a user who named `uri`.
    fn chosen(uri: &str, entries: &[Entry]) -> String {
        let uri = NamelessUri::of(uri).unwrap();
        let found = subsystems_of(entries);
        assert_eq!(found.len(), 1);
        Asked::new(&uri).uri_of(&found[0])
    }

    #[test]
    fn portal_that_the_user_named_is_preferred() {
        let entries =
            [("10.0.0.1", 4420), ("127.0.0.1", 4421), ("127.0.0.1", 4420), ("::1", 4420), ("10.0.0.1", 4420)]
                .map(|(address, port)| listed(address, port, NAME));
        for (uri, expected) in [
            ("tcp://127.0.0.1:4420", "127.0.0.1:4420"),
            ("tcp://127.0.0.1:4421", "127.0.0.1:4421"),
            ("tcp://127.0.0.1:8009", "127.0.0.1:4421"),
            ("tcp://127.0.0.1", "127.0.0.1:4421"),
            ("tcp://[::ffff:127.0.0.1]:4420", "127.0.0.1:4420"),
            ("tcp://[0::1]", "[::1]:4420"),
            ("tcp://10.0.0.1", "10.0.0.1:4420"),
        ] {
            assert_eq!(chosen(uri, &entries), format!("tcp://{expected}/{NAME}"), "{uri}");
        }
    }

    #[test]
    fn all_portals_are_joined_if_the_named_one_is_not_listed() {
        let entries = [("10.0.0.1", 4420), ("fd00::2", 4421), ("10.0.0.1", 4420)]
            .map(|(address, port)| listed(address, port, NAME));
        let uri = chosen("tcp://127.0.0.1", &entries);
        assert_eq!(uri, format!("tcp://10.0.0.1:4420,[fd00::2]:4421/{NAME}"));
        assert_eq!(uri.parse::<TcpUri>().unwrap().places.len(), 2);
        let many: Vec<Entry> = (0..99).map(|last| listed(&format!("10.0.0.{last}"), 4420, NAME)).collect();
        let uri = chosen("tcp://127.0.0.1", &many);
        assert_eq!(uri.parse::<TcpUri>().unwrap().places.len(), PORTALS_MAX);
    }

    #[test]
    fn entry_that_would_inject_options_or_portals_is_left_out() {
        for address in ["10.0.0.1/x?ns=2#", "10.0.0.1,10.0.0.2", "a?b", ""] {
            assert_eq!(portal_of(&listed(address, 4420, NAME)), None, "{address}");
        }
        assert_eq!(portal_of(&listed("10.0.0.1", 4420, "nqn.2026-01.org.example:a?ns=2")), None);
        let mut discovery = listed("10.0.0.1", 4420, NAME);
        discovery.kind = SubsystemType::CURRENT_DISCOVERY;
        assert_eq!(portal_of(&discovery), None);
    }
}
