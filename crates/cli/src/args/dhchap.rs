//! Authentication of hosts by DH-HMAC-CHAP: what `byway serve` takes of it, and the command that makes secrets.

use std::path::PathBuf;

use byway::serve::{AuthHash, DhGroup};
use clap::{Args, Subcommand, ValueEnum};

/// What `byway serve` takes.
#[derive(Debug, Args)]
pub struct ServeDhchap {
    /// Have NVMe/TCP hosts show who they are (DH-HMAC-CHAP) on every queue: this one by this secret, as `byway key new` and
    /// `nvme gen-dhchap-key` make them. Hosts without a secret are not let in. Discovery needs none.
    #[arg(long, value_name = "HOSTNQN=SECRET", requires = "tcp")]
    pub dhchap_secret: Vec<String>,
    /// Show this host, or every one, who we are, by this secret, if it asks.
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

/// `byway key`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  byway key new")]
pub struct AuthKey {
    /// What is done.
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// What is done with secrets.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a secret for a host or for a controller, at random, and print it.
    New(NewKey),
}

/// `byway key new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway key new
  byway key new --hash sha512
  (umask 077; echo \"nqn.2026-11.example:host $(byway key new)\" > secrets)
  byway serve disk.img --tcp 127.0.0.1 --dhchap-secrets secrets

The secret is what `nvme connect --dhchap-secret` and `nvme gen-dhchap-key` call one, and as good with any name.")]
pub struct NewKey {
    /// How the secret is made the key of its owner; it has as many bytes as the hash makes, 32 with none.
    #[arg(long, default_value = "sha256")]
    pub hash: KeyHash,
}

/// How a secret is made a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyHash {
    /// It is the key.
    None,
    /// By SHA-256 and the owner's name.
    Sha256,
    /// By SHA-384.
    Sha384,
    /// By SHA-512.
    Sha512,
}
