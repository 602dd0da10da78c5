//! The NVMe/TCP target: hosts connect to subsystems over TCP, each with a controller of its own.
//!
//! | a | has |
//! |---|---|
//! | [`Target`] | listeners and threads |
//! | thread | connections, and waits for their sockets |
//! | connection | a socket and a session |
//! | session | bytes in, commands executed, bytes out; what is behind it: a queue of a device, or a discovery controller |
//! | site | a subsystem: its device, who may connect, and who is here |
//! | association | what the connections of one host share |
//!
//! A connection has a site from its Connect on, and reaches no device but that one's. A command is parsed, executed and answered by the thread that received it, with the device in hand for all that was
//! received at once.
#![forbid(unsafe_code)]

mod aborting;
mod association;
mod authentication;
mod channel;
mod connect;
mod control;
mod counters;
mod crew;
mod data;
mod directory;
mod discovery;
mod ended;
mod entrance;
mod execute;
mod fabrics;
mod fused;
pub mod fuzz;
mod keys;
mod options;
mod outbox;
mod paths;
mod pending;
mod premises;
mod queue;
mod receive;
mod session;
mod share;
mod site;
mod socket;
mod strangers;
mod target;
mod wire;
mod worker;

pub use control::{ControlError, Door, TargetControl};
pub use counters::{ConnectionState, TargetSnapshot};
pub use directory::Port;
pub use entrance::ListenError;
pub use keys::Keys;
pub use options::{AnaSetting, Dhchap, SubsystemTerms, TargetOptions, Tell, Tls, TlsPolicy, Told};
pub use paths::{PathError, TargetPaths};
pub use target::{Doors, StartError, Target, TargetWatch};

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
