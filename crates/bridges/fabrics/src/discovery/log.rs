//! The log as a controller keeps it.

use byway_spec::fabrics::{DISCOVERY_RECORD_BYTES, DiscoveryHeader};

use crate::Entry;

/// The discovery log that one host may see, with the count of its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryLog {
    generation: u64,
    entries: Vec<Entry>,
}

impl DiscoveryLog {
    /// Has these entries from now on; says whether that is a change, which hosts that wait for one are to be told of.
    pub fn set(&mut self, entries: Vec<Entry>) -> bool {
        if self.entries == entries {
            return false;
        }
        self.entries = entries;
        self.generation = self.generation.wrapping_add(1);
        true
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// GENCTR: how often they changed.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of the log.
    pub fn bytes(&self) -> u64 {
        (self.entries.len() as u64 + 1) * DISCOVERY_RECORD_BYTES as u64
    }

    /// What Get Log Page gives for `bytes` at `offset`: zeroes behind the end. Only the records it touches are made.
    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes);
        let record_bytes = DISCOVERY_RECORD_BYTES as u64;
        let (mut index, mut skip) = (offset / record_bytes, (offset % record_bytes) as usize);
        while out.len() < bytes {
            let Some(record) = self.record(index) else { break };
            let part = record.get(skip..).unwrap_or_default();
            out.extend_from_slice(part.get(..bytes - out.len()).unwrap_or(part));
            (index, skip) = (index + 1, 0);
        }
        out.resize(bytes, 0);
        out
    }

    /// The header, then the entries.
    fn record(&self, index: u64) -> Option<[u8; DISCOVERY_RECORD_BYTES]> {
        let Some(entry) = index.checked_sub(1) else { return Some(self.header()) };
        self.entries.get(usize::try_from(entry).ok()?).map(Entry::encode)
    }

    fn header(&self) -> [u8; DISCOVERY_RECORD_BYTES] {
        zerocopy::transmute!(DiscoveryHeader {
            genctr: self.generation,
            numrec: self.entries.len() as u64,
            recfmt: 0,
            reserved_18: [0; 1006],
        })
    }
}
