//! What another process is given to map a region by.

use std::fs::File;
use std::io;

use byway_sys::Mapping;
use byway_sys::map::Sharing;

use crate::domain::Domain;
use crate::window::Window;

/// What may be done with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads alone.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// A descriptor of a region's memory, and what has to be known to use it.
#[derive(Debug)]
pub struct Export {
    /// What is mapped. It was opened for what [`ExportDescription::access`] says and no more.
    pub file: File,
    /// What its receiver has to know.
    pub description: ExportDescription,
}

/// Bytes of a description as it is sent along.
pub const EXPORT_BYTES: usize = 64;

/// First word of a description: its version is part of it.
const MAGIC: u64 = u64::from_le_bytes(*b"BYTDMEX1");

/// What the receiver of an exported descriptor has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportDescription {
    /// Where in the file the range begins.
    pub at: u64,
    /// Its length.
    pub len_bytes: u64,
    /// From where on stores are kept.
    pub domain: Domain,
    /// What the descriptor was opened for.
    pub access: Access,
    /// Whether it is to be mapped with `MAP_SYNC`.
    pub is_synchronous: bool,
    /// Whether the device is emulated.
    pub is_emulated: bool,
}

impl ExportDescription {
    /// As it is sent along.
    #[must_use]
    pub fn to_bytes(self) -> [u8; EXPORT_BYTES] {
        let flags = [
            self.domain as u8,
            u8::from(self.access == Access::ReadWrite),
            u8::from(self.is_synchronous),
            u8::from(self.is_emulated),
        ];
        let words = [MAGIC, self.at, self.len_bytes, u64::from(u32::from_le_bytes(flags)), 0, 0, 0, 0];
        let mut bytes = [0; EXPORT_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// What was sent along; `None` for bytes of another version, or that say nothing.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; EXPORT_BYTES]) -> Option<Self> {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next();
        if word()? != MAGIC {
            return None;
        }
        let (at, len_bytes) = (word()?, word()?);
        let [domain, writes, is_synchronous, is_emulated, ..] = word()?.to_le_bytes();
        Some(Self {
            at,
            len_bytes,
            domain: Domain::ALL.into_iter().find(|known| *known as u8 == domain)?,
            access: if writes == 1 { Access::ReadWrite } else { Access::ReadOnly },
            is_synchronous: is_synchronous == 1,
            is_emulated: is_emulated == 1,
        })
    }

    const fn sharing(&self) -> Sharing {
        match (self.access, self.is_synchronous) {
            (Access::ReadOnly, _) => Sharing::ReadOnly,
            (Access::ReadWrite, true) => Sharing::Synchronous,
            (Access::ReadWrite, false) => Sharing::Shared,
        }
    }
}

impl Window {
    /// Maps what another process exported. Nothing is allocated but the mapping.
    ///
    /// # Errors
    /// The system's answer; `InvalidInput` for a length that no address can tell.
    pub fn of_export(file: &File, description: &ExportDescription) -> io::Result<Self> {
        let len_bytes = usize::try_from(description.len_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = Mapping::file(file, description.at, len_bytes, description.sharing())?;
        Ok(Self::new(map, description.domain).with_access(description.access))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_description_arrives_as_it_was_sent() {
        for domain in Domain::ALL {
            for (access, is_synchronous) in [(Access::ReadOnly, false), (Access::ReadWrite, true)] {
                let sent = ExportDescription {
                    at: 4096,
                    len_bytes: 1 << 40,
                    domain,
                    access,
                    is_synchronous,
                    is_emulated: true,
                };
                assert_eq!(ExportDescription::from_bytes(&sent.to_bytes()), Some(sent));
            }
        }
    }

    #[test]
    fn bytes_of_another_version_are_no_description() {
        assert_eq!(ExportDescription::from_bytes(&[0; EXPORT_BYTES]), None);
    }
}
