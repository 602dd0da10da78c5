//! Authentication of hosts by DH-HMAC-CHAP: what `byway serve` takes of it.

use std::path::PathBuf;

use byway::serve::{AuthHash, DhGroup};
use clap::Args;

/// What `byway serve` takes.
#[derive(Debug, Clone, Args)]
pub struct ServeDhchap {
    /// Authenticate NVMe/TCP hosts (DH-HMAC-CHAP) on every queue: this host by this secret, as `byway key new` and
    /// `nvme gen-dhchap-key` make them. Hosts without a secret are refused. Discovery needs none.
    #[arg(long, value_name = "HOSTNQN=SECRET", requires = "tcp")]
    pub dhchap_secret: Vec<String>,
    /// The controller's secret, by which it authenticates to this host, or to every host, if it asks.
    #[arg(long, value_name = "[HOSTNQN=]SECRET", requires = "tcp")]
    pub dhchap_ctrl_secret: Vec<String>,
    /// Secrets of hosts in a file, which others need not be able to read: HOSTNQN SECRET a line, and the controller's secret for
    /// that host behind it where there is one. Lines that begin with `#` say nothing.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub dhchap_secrets: Option<PathBuf>,
    /// Hashes that are used, the preferred first [sha512,sha384,sha256].
    #[arg(long, value_name = "HASH", value_delimiter = ',', requires = "tcp")]
    pub dhchap_hash: Vec<AuthHash>,
    /// Groups that are used, the preferred first [ffdhe3072,ffdhe4096,ffdhe2048,ffdhe6144,ffdhe8192,null].
    #[arg(long, value_name = "GROUP", value_delimiter = ',', requires = "tcp")]
    pub dhchap_group: Vec<DhGroup>,
}
