//! TLS of hosts: what `byway serve` takes of it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

/// What `byway serve` takes.
#[derive(Debug, Clone, Args)]
pub struct ServeTls {
    /// Have this NVMe/TCP host connect by TLS 1.3, by this key, as `byway key new --tls` and `nvme gen-tls-key` make them. Needs OpenSSL 3 on
    /// this machine.
    #[arg(long, value_name = "HOSTNQN=KEY", requires = "tcp")]
    pub tls_key: Vec<String>,
    /// Keys of hosts in a file, which others need not be able to read: HOSTNQN KEY a line. Lines that begin with `#` say nothing.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub tls_keys: Option<PathBuf>,
    /// Whether hosts may connect in the clear where there are keys.
    #[arg(long, value_name = "POLICY", default_value = "required", requires = "tcp")]
    pub tls: TlsIs,
}

/// Whether hosts may connect in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsIs {
    /// Hosts connect by TLS alone, each with a key; the discovery service at --discovery also answers in the clear.
    Required,
    /// Hosts may also connect in the clear, by any name that is allowed. Those that have secrets may derive a key by their
    /// authentication (secure channel concatenation).
    Allowed,
    /// Hosts that have secrets may authenticate in the clear, and do nothing else: that derives the key of their TLS connections (secure
    /// channel concatenation). No other host connects without TLS.
    Concat,
}
