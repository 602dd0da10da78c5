//! What another process needs to map a region.

use std::fs::File;
use std::io;
use std::sync::Arc;

use byway_link::ClockMode;
use byway_sys::Mapping;
use byway_sys::map::Sharing;

use crate::access::Access;
use crate::domain::Domain;
use crate::latency::LatencyModel;
use crate::model::{Model, ModelTerms};
use crate::page_table::PageTable;
use crate::window::Window;

/// A descriptor of a region's memory, and what has to be known to use it.
#[derive(Debug)]
pub struct Export {
    /// What is mapped. It was opened for what [`ExportDescription::access`] says and no more.
    pub file: File,
    /// The page table of a modelled device.
    pub page_table: Option<File>,
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
    /// How it is modelled; the export has a page table then.
    pub model: Option<ModelTerms>,
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
        let flags = u64::from(u32::from_le_bytes(flags));
        let model = self.model.map_or([0; 4], model_words);
        let words = [MAGIC, self.at, self.len_bytes, flags, model[0], model[1], model[2], model[3]];
        let mut bytes = [0; EXPORT_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// What was sent along; `None` for bytes of another version, or that say nothing.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; EXPORT_BYTES]) -> Option<Self> {
        let mut words = [0; EXPORT_BYTES / 8];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [magic, at, len_bytes, flags, model @ ..] = words;
        if magic != MAGIC {
            return None;
        }
        let [domain, writes, is_synchronous, is_emulated, ..] = flags.to_le_bytes();
        Some(Self {
            at,
            len_bytes,
            domain: Domain::ALL.into_iter().find(|known| *known as u8 == domain)?,
            access: if writes == 1 { Access::ReadWrite } else { Access::ReadOnly },
            is_synchronous: is_synchronous == 1,
            is_emulated: is_emulated == 1,
            model: model_of(model)?,
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

/// Every clock by its place, from 1 on: 0 is no model.
const CLOCKS: [ClockMode; 3] = [ClockMode::Off, ClockMode::Virtual, ClockMode::Paced];

fn model_words(terms: ModelTerms) -> [u64; 4] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let clock = CLOCKS.iter().position(|clock| *clock == terms.clock).map_or(0, |place| place as u32 + 1);
    [
        pair(clock, terms.page_bytes),
        pair(terms.latency.line_read_ns, terms.latency.persist_ns),
        pair(terms.latency.stream_mb_s, terms.miss_ns),
        terms.device_at,
    ]
}

/// The model that words describe, if any; the outer `None` is for words that say nothing.
fn model_of([first, costs, rates, device_at]: [u64; 4]) -> Option<Option<ModelTerms>> {
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let (clock, page_bytes) = halves(first);
    let Some(place) = clock.checked_sub(1) else { return Some(None) };
    let clock = *CLOCKS.get(place as usize)?;
    if page_bytes == 0 {
        return None;
    }
    let (line_read_ns, persist_ns) = halves(costs);
    let (stream_mb_s, miss_ns) = halves(rates);
    let latency = LatencyModel { line_read_ns, persist_ns, stream_mb_s };
    Some(Some(ModelTerms { clock, latency, page_bytes, miss_ns, device_at }))
}

impl Window {
    /// Maps what another process exported: its file, and its page table where the device is modelled.
    ///
    /// # Errors
    /// The system's answer; `InvalidInput` for a length that no address can represent, or a model without a page table.
    pub fn of_export(
        file: &File,
        page_table: Option<&File>,
        description: &ExportDescription,
    ) -> io::Result<Self> {
        let len_bytes = usize::try_from(description.len_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = Mapping::file(file, description.at, len_bytes, description.sharing())?;
        let window = Self::new(map, description.domain).with_access(description.access);
        let Some(terms) = description.model else { return Ok(window) };
        let page_table = PageTable::map(page_table.ok_or(io::ErrorKind::InvalidInput)?)?;
        Ok(window.with_model(Model::new(terms, Arc::new(page_table), None)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TERMS: ModelTerms = ModelTerms {
        clock: ClockMode::Paced,
        latency: LatencyModel { line_read_ns: 1, persist_ns: 2, stream_mb_s: 3 },
        page_bytes: 4096,
        miss_ns: 5,
        device_at: 6 << 40,
    };

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
                    model: is_synchronous.then_some(TERMS),
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
