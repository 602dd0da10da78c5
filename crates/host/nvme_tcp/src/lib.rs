//! The host's side of NVMe/TCP: a backend over the network.
//!
//! | file | noun |
//! |---|---|
//! | `connection/` | one queue on one connection, sans-I/O |
//! | `stream.rs`, `channel.rs`, `line.rs` | a socket, TLS over it where there is any, and a connection with both |
//! | `attach.rs` | from no connection to a controller that takes commands |
//! | `facts.rs` | properties that a controller reports |
//! | `authenticate.rs` | authentication of host and controller |
//! | `association/`, `admin_thread/` | what queues share; the thread that owns the admin queue and reconnects |
//! | `backoff.rs`, `event_set.rs` | pauses between attempts; an epoll set and a deadline as one descriptor |
//! | `device.rs`, `owner.rs` | the `Backend`; the shared owner of its association and admin thread |
//! | `queue/`, `io_queue/` | the `BackendQueue`, and what carries its commands over one connection |
//! | `ana.rs`, `paths/` | ANA states of namespaces; multipath |
//! | `abort.rs` | an Abort on its way from a queue to the controller |
//! | `order.rs` | encoding of commands as `Order`s: submission queue entry, data direction, tag and resend flag |
//! | `discover.rs` | reading a discovery log |
#![forbid(unsafe_code)]

mod abort;
mod admin_thread;
mod ana;
mod association;
mod attach;
mod authenticate;
mod backoff;
mod channel;
pub mod connection;
mod device;
mod discover;
mod event_set;
mod facts;
mod io_queue;
mod line;
mod order;
mod owner;
mod paths;
mod peer;
mod queue;
mod result;
mod stream;

pub use byway_fabrics::authentication::{AuthSecrets, DhchapSecret, SecretError};
pub use byway_fabrics::tls::{PskForm, PskFormError, TlsKey, TlsKeyError};
pub use byway_fabrics::{Entry, EntryError, HostId, Nqn, SecureChannel, TcpSecurity};
pub use byway_nvme_tcp::Digests;
pub use byway_spec::base::ana::AnaState;
pub use byway_sys::Idle;
pub use device::{NvmeTcp, TcpQueue};
pub use discover::{Discovered, discover};
pub use paths::{NvmeTcpPaths, PathStatus, TcpPathsQueue};
pub use peer::{DISCOVERY_PORT, PORT, TcpOptions, TcpPlace, TlsWith, default_host};

/// The former name of [`PathStatus`].
#[deprecated(note = "renamed to PathStatus")]
pub type PathTold = PathStatus;
