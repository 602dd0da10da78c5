//! The record that an import stored last, by which it knows a device again that went back or was changed.

use anyhow::{Result, bail};
use byway::{Key, Kv};
use byway_console::records::{parse_hex, to_hex};
use byway_records::Source;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The key and the value of a record, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastStored {
    key_hex: String,
    value_sha256: String,
}

impl LastStored {
    /// Of a record.
    pub fn of(key: &[u8], value: &[u8]) -> Self {
        Self { key_hex: to_hex(key), value_sha256: to_hex(Sha256::digest(value).as_slice()) }
    }

    /// Whether the device has the record still. A run that was killed has stored records behind its last point too, `behind` at most,
    /// and so perhaps another value of the key.
    ///
    /// # Errors
    /// What the device or the file says; a device that has neither value.
    pub fn ensure_on(
        &self,
        kv: &mut Kv,
        mut source: impl FnMut() -> Result<Box<dyn Source>>,
        behind: u64,
    ) -> Result<()> {
        let Ok(key) = parse_hex(&self.key_hex).and_then(|key| Key::new(&key).map_err(|why| why.to_string()))
        else {
            bail!("the point has no key");
        };
        let there = kv.get(key.as_bytes())?.map(|value| Self::of(key.as_bytes(), &value));
        if there.as_ref() == Some(self) {
            return Ok(());
        }
        let mut source = source()?;
        for _ in 0..behind {
            let Some(record) = source.next_record() else { break };
            if record.is_ok_and(|record| there == Some(Self::of(&record.key, &record.value))) {
                return Ok(());
            }
        }
        let has = if there.is_some() { "another value of" } else { "no" };
        bail!(
            "the device has {has} key {key}, which this import stored last: it was formatted, restored or written to since"
        )
    }
}
