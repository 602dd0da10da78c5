//! The discovery log: a controller's entries, and a host's reading of them (Base 2.1, sections 3.1.3.3 and
//! 5.1.12.3.1).

mod entry;
mod log;
mod reading;

pub use entry::{Entry, EntryError, SecureChannel, TcpSecurity};
pub use log::DiscoveryLog;
pub use reading::{LogError, LogReading, MAX_LOG_ENTRIES, Step};
