//! The record that an import stored last before its point. It shows that a device was rolled back, formatted or changed since.

use anyhow::{Context, Result, bail};
use byway::{Key, Kv};
use byway_console::records::{parse_hex, to_hex};
use byway_console::terminal::Interrupt;
use byway_records::{Source, SourceError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A key, and the digest of its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastStored {
    key_hex: String,
    value_sha256: String,
}

impl LastStored {
    /// The digest of a record.
    pub fn of(key: &[u8], value: &[u8]) -> Self {
        Self { key_hex: to_hex(key), value_sha256: sha256(value) }
    }

    /// Whether the device has the record, or a later value of its key: a run that was killed may have stored records after its
    /// point too. The first `later_max` records after the point, of the file that `open` opens there, are looked at for one.
    ///
    /// # Errors
    /// What the device or the file says; an interruption.
    pub fn is_on(
        &self,
        kv: &mut Kv,
        open: impl FnOnce() -> Result<Box<dyn Source>>,
        later_max: u64,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let key = parse_hex(&self.key_hex).ok().and_then(|key| Key::new(&key).ok());
        let key = key.with_context(|| format!("{:?} of the point is no key", self.key_hex))?;
        let Some(there) = kv.get(key.as_bytes())?.map(|value| sha256(&value)) else { return Ok(false) };
        if there == self.value_sha256 {
            return Ok(true);
        }
        let mut source = open()?;
        for _ in 0..later_max {
            interrupt.check()?;
            match source.next_record() {
                Some(Ok(record)) if record.key == key.as_bytes() && sha256(&record.value) == there => {
                    return Ok(true);
                }
                Some(Ok(_) | Err(SourceError::Record { .. })) => {}
                Some(Err(error)) => bail!(error),
                None => break,
            }
        }
        Ok(false)
    }

    /// The key, in hexadecimal digits.
    pub fn key_hex(&self) -> &str {
        &self.key_hex
    }
}

fn sha256(value: &[u8]) -> String {
    to_hex(Sha256::digest(value).as_slice())
}
