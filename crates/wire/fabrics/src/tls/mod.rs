//! Keys of TLS 1.3 (NVMe/TCP Transport Specification 1.1, section 3.6.1): a key that an administrator gives to both sides, and
//! the pre-shared keys that TLS is begun with.
//!
//! | step | made of | by |
//! |---|---|---|
//! | configured key | | [`TlsKey`], as text `NVMeTLSkey-1:…:` |
//! | retained key | the configured key, the host's name | HKDF, or as it is |
//! | digest (version 1) | the retained key, both names | HMAC |
//! | TLS PSK and its identity: [`TlsPsk`] | the retained key, both names, the digest | HKDF |
//!
//! One key yields a PSK for each subsystem and each version of identities. The identity, sent unencrypted, names the
//! PSK; the handshake proves that the host has it.

mod key;
mod psk;

pub use key::{TlsKey, TlsKeyError};
pub use psk::{PskDerivation, PskForm, PskFormError, PskHash, PskVersion, TlsPsk};
