//! Secrets of DH-HMAC-CHAP and keys of TLS: new ones, and what a key is called.

use std::io::Write;

use anyhow::{Context, Result, bail};
use byway::serve::{AuthHash, DhchapSecret, Parties, PskHash, TlsKey, TlsPsk};
use byway_console::files;

use crate::args::{KeyCommand, KeyHash, KeyIdentity, NewKey};

/// Makes a secret or a key, or says what a key is called.
///
/// # Errors
/// When the system has no random bytes; a file without a key.
pub fn run(command: &KeyCommand, out: &mut impl Write) -> Result<()> {
    match command {
        KeyCommand::New(NewKey { tls: false, hash }) => {
            writeln!(out, "{}", DhchapSecret::generate(hash_of_secret(*hash))?.reveal())?;
        }
        KeyCommand::New(NewKey { tls: true, hash }) => {
            writeln!(out, "{}", TlsKey::generate(hash_of_key(*hash)?)?.reveal())?;
        }
        KeyCommand::Identity(asked) => identify(asked, out)?,
    }
    Ok(())
}

fn hash_of_secret(hash: KeyHash) -> Option<AuthHash> {
    match hash {
        KeyHash::None => None,
        KeyHash::Sha256 => Some(AuthHash::Sha256),
        KeyHash::Sha384 => Some(AuthHash::Sha384),
        KeyHash::Sha512 => Some(AuthHash::Sha512),
    }
}

fn hash_of_key(hash: KeyHash) -> Result<Option<PskHash>> {
    match hash {
        KeyHash::None => Ok(None),
        KeyHash::Sha256 => Ok(Some(PskHash::Sha256)),
        KeyHash::Sha384 => Ok(Some(PskHash::Sha384)),
        KeyHash::Sha512 => bail!("--hash sha512: a key for TLS has none, sha256 or sha384"),
    }
}

fn identify(asked: &KeyIdentity, out: &mut impl Write) -> Result<()> {
    let text = files::read_settings(&asked.file)?;
    let key: TlsKey =
        String::from_utf8_lossy(&text).trim().parse().with_context(|| asked.file.display().to_string())?;
    let parties = Parties { host: asked.host.clone(), subsystem: asked.subsystem.clone() };
    let psk = TlsPsk::of(&key, &parties, asked.identity);
    writeln!(out, "{}", psk.identity())?;
    if asked.psk {
        let digits: String = psk.reveal().iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "{digits}")?;
    }
    Ok(())
}
