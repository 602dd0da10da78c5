//! The command that makes secrets of hosts and keys of TLS, and says what a key is called.

use std::path::PathBuf;

use byway::serve::{Nqn, PskForm};
use clap::{Args, Subcommand, ValueEnum};

/// `byway key`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway key new
  byway key new --tls
  byway key identity tls-key --host nqn.2026-11.example:host --subsystem nqn.2026-11.example:disk")]
pub struct AuthKey {
    /// What is done.
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// What is done with secrets and keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a secret for a host or for a controller, or a key for TLS between them, at random, and print it.
    New(NewKey),
    /// Print what the pre-shared key that TLS makes of a key is called in the clear, and the pre-shared key if it is asked for.
    Identity(KeyIdentity),
}

/// `byway key new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway key new
  byway key new --hash sha512
  (umask 077; echo \"nqn.2026-11.example:host $(byway key new)\" > secrets)
  byway serve disk.img --tcp 127.0.0.1 --dhchap-secrets secrets
  byway key new --tls --hash sha384

The secret is what `nvme connect --dhchap-secret` and `nvme gen-dhchap-key` call one, and as good with any name. A key for TLS is \
what `nvme gen-tls-key` makes and `nvme check-tls-key` takes.")]
pub struct NewKey {
    /// A key for TLS (NVMeTLSkey-1), not a secret of DH-HMAC-CHAP (DHHC-1).
    #[arg(long)]
    pub tls: bool,
    /// How the secret is made the key of its owner; it has as many bytes as the hash makes, 32 with none. Of a key for TLS also
    /// the hash of the cipher suite; there is no sha512.
    #[arg(long, default_value = "sha256")]
    pub hash: KeyHash,
}

/// `byway key identity`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway key identity tls-key --host nqn.2026-11.example:host --subsystem nqn.2026-11.example:disk
  byway key identity tls-key --host nqn.2026-11.example:host --subsystem nqn.2026-11.example:disk --identity 0 --psk

What Linux needs is in its keyring under that identity: `nvme check-tls-key --identity 1 --insert` puts it there. Versions of nvme-cli \
before the summer of 2025 derive another pre-shared key, which is the one of --identity 1-compat.")]
pub struct KeyIdentity {
    /// A file with the key, `-` for standard input.
    pub file: PathBuf,
    /// Name of the host.
    #[arg(long, value_name = "NQN")]
    pub host: Nqn,
    /// Name of the subsystem.
    #[arg(long, value_name = "NQN")]
    pub subsystem: Nqn,
    /// Version of the identity: 0 or 1; 0-compat or 1-compat for keys as libnvme derived them until 2025.
    #[arg(long, value_name = "VERSION", default_value = "1")]
    pub identity: PskForm,
    /// Print the pre-shared key as well, in hexadecimal, in a line of its own.
    #[arg(long)]
    pub psk: bool,
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
