//! NVMe over Fabrics, as every transport has it: the fabrics commands, the data of Connect, names, properties, the
//! discovery log, [`authentication`] and the keys of [`tls`], for a controller and for a host. Nothing here sends, waits or keeps a connection.
//!
//! A controller parses commands with opcode 7Fh by [`FabricsCommand::parse`], and answers with the result or with the
//! status of a [`CommandError`]. A host makes the same commands with [`FabricsCommand::encode`]. Both share a
//! discovery log format:
//!
//! ```
//! use byway_fabrics::{DiscoveryLog, Entry, LogReading, Nqn, Step};
//!
//! let mut log = DiscoveryLog::default();
//! log.set(1, vec![Entry::tcp(Nqn::new("nqn.2026-11.example:disk")?, "192.0.2.1".parse()?, 4420)]);
//!
//! // A host reads it in parts, and again if it changed meanwhile.
//! let mut reading = LogReading::new(4096);
//! let entries = loop {
//!     match reading.step() {
//!         Step::Read { offset, bytes } => {
//!             let part = log.read(offset, bytes as usize);
//!             reading.take(&part)?;
//!         }
//!         Step::Done(entries) => break entries,
//!     }
//! };
//! assert_eq!(entries, log.entries());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: NVM Express Base Specification 2.1.
#![forbid(unsafe_code)]

pub mod authentication;
mod checked;
mod command;
mod connect;
mod discovery;
mod nqn;
mod property;
pub mod tls;

pub use command::{Authentication, CommandError, Connect, FabricsCommand};
pub use connect::{
    Accepted, ConnectData, ConnectRefusal, ControllerChoice, ControllerId, Parameter, RefusalKind,
};
pub use discovery::{
    DiscoveryLog, Entry, EntryError, LogError, LogReading, MAX_LOG_ENTRIES, SecureChannel, Step, TcpSecurity,
};
pub use nqn::{HostId, HostIdError, Nqn, NqnError, NqnForm};
pub use property::{Change, Properties, Property, PropertyAccess, PropertyError};
