//! Ports of a subsystem as a field of a request or a reply.

use byway_admin::{Fields, Text};
use byway_tcp_target::PortId;

/// Value of the ports field that means all ports.
const EVERY_PORT: &str = "all";

/// Adds a field of ports; `None` for all.
pub(super) fn with_ports(text: Text, ports: Option<&[PortId]>) -> Text {
    let numbers = |ports: &[PortId]| ports.iter().map(|port| port.0.to_string()).collect::<Vec<_>>();
    text.with(ports.map_or_else(|| EVERY_PORT.to_owned(), |ports| numbers(ports).join(",")))
}

/// The next field, as ports; `None` for all.
pub(super) fn read_ports(fields: &mut Fields<'_>) -> Option<Option<Vec<PortId>>> {
    let text = fields.text()?;
    if text == EVERY_PORT {
        return Some(None);
    }
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().ok().map(PortId)).collect::<Option<_>>().map(Some)
}
