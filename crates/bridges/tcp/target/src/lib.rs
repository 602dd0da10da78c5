//! The NVMe/TCP target: hosts connect to a device over TCP, each with a controller of its own.
//!
//! | a | has |
//! |---|---|
//! | [`Target`] | listeners and threads |
//! | thread | connections, and waits for their sockets |
//! | connection | a socket and a session |
//! | session | bytes in, commands executed, bytes out; what is behind it: a queue of the device, or a discovery controller |
//! | association | what the connections of one host share |
//!
//! A command is parsed, executed and answered by the thread that received it, with the device in hand for all that was
//! received at once.
#![forbid(unsafe_code)]

mod association;
mod authentication;
mod data;
mod discovery;
mod execute;
mod fabrics;
mod fused;
mod options;
mod outbox;
mod pending;
mod premises;
mod queue;
mod session;
mod socket;
mod target;
mod worker;

pub use options::{Dhchap, TargetOptions, Tell, Told};
pub use target::{Doors, ListenError, Target};

pub use byway_fabrics::Nqn;
pub use byway_fabrics::authentication::{
    AuthHash, AuthSecrets, AuthSuites, DhGroup, DhchapSecret, SecretError,
};
pub use byway_sys::Idle;
pub use byway_tcp_codec::Digests;
