//! TLS 1.3 with pre-shared keys between a host and a subsystem, sans-I/O: bytes of a socket in, bytes of NVMe/TCP out, and back.
//!
//! OpenSSL does the cryptography and the protocol. It is loaded when the first key is used, so programs without TLS
//! do not need it ([decision 31](../../../../docs/decisions/0031-tls-1-3-with-pre-shared-keys.md)). Supported is
//! only what the NVMe/TCP Transport Specification 1.1, section 3.6.1, has: TLS 1.3, a pre-shared key with a
//! Diffie-Hellman exchange (psk_dhe_ke), no certificates, no resumption, no early data.
//!
//! | file | content |
//! |---|---|
//! | `library/` | OpenSSL's functions, contexts and sessions, and what is unsafe about them |
//! | `endpoint.rs` | [`TlsHost`] and [`TlsSubsystem`]: the two endpoints and their keys |
//! | `session.rs` | [`TlsSession`]: one connection |
//! | `hello.rs` | identities in a ClientHello |
//! | `error.rs` | errors |

mod endpoint;
mod error;
pub mod hello;
mod library;
mod session;

pub use endpoint::{TlsHost, TlsSubsystem};
pub use error::{TlsError, TlsUnavailable};
pub use session::TlsSession;

/// The first byte of a TLS connection, a handshake record's type; that of an NVMe/TCP connection is 0.
pub const FIRST_BYTE: u8 = 0x16;
