//! The two ends of a connection.

use std::net::SocketAddr;

use byway_controller::PortId;

/// Where a connection is from and to.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints {
    /// The host's address.
    pub from: SocketAddr,
    /// The target's address.
    pub to: SocketAddr,
    /// The port that accepted it; `None` for the discovery-only address.
    pub port: Option<PortId>,
}
