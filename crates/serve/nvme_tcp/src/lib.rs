//! The NVMe/TCP target: hosts connect to subsystems over TCP, each with a controller of its own.
//!
//! | a | has |
//! |---|---|
//! | [`Target`] | listeners and threads |
//! | thread | connections, and waits for their sockets |
//! | connection | a socket and a session |
//! | session | bytes in, commands executed, bytes out; its queue is a device's or a discovery controller's |
//! | subsystem | a device, its access list, and the hosts connected to it |
//! | association | what the connections of one host share |
//!
//! A connection belongs to a subsystem from its Connect on and reaches no other device. The thread that received a command
//! also executes and answers it. It acquires the run lock once for everything that one read of the socket returned.
#![forbid(unsafe_code)]

mod acceptor;
mod association;
mod channel;
mod close_reason;
mod control;
mod counters;
mod data;
mod directory;
mod discovery;
mod endpoints;
mod established;
mod fused_pairs;
pub mod fuzz;
mod half_open;
mod keys;
mod lock;
mod options;
mod outbox;
mod paths;
mod pending;
mod pool;
mod queue;
mod responder;
mod session;
mod share;
mod socket;
mod subsystem;
mod target;
mod target_state;
mod tls_identity;
mod wire;
mod worker;

pub use acceptor::ListenError;
pub use control::{BoundListener, ControlError, TargetControl, TargetPaths};
pub use counters::{ConnectionState, TargetSnapshot};
pub use directory::TargetPort;
pub use keys::Keys;
pub use options::{
    AnaSetting, Dhchap, EventHandler, SubsystemTerms, TargetEvent, TargetOptions, Tls, TlsPolicy,
};
pub use paths::PathError;
pub use target::{Listeners, StartError, Target, TargetWatch};

pub use byway_controller::PortId;

pub use byway_fabrics::Nqn;
pub use byway_fabrics::authentication::{
    AuthHash, AuthSecrets, AuthSuites, DhGroup, DhchapSecret, Parties, SecretError,
};
pub use byway_fabrics::tls::{PskForm, PskHash, TlsKey, TlsKeyError, TlsPsk};
pub use byway_nvme_tcp::Digests;
pub use byway_spec::base::ana::AnaState;
pub use byway_sys::Idle;
pub use byway_tls::TlsUnavailable;
