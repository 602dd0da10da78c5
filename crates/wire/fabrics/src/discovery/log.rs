//! The log as a controller keeps it.

use byway_spec::fabrics::{DISCOVERY_RECORD_BYTES, DiscoveryHeader};

use crate::Entry;

/// The discovery log visible to one host, with its generation counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryLog {
    generation: u64,
    entries: Vec<Entry>,
}

impl DiscoveryLog {
    /// Sets the entries as of `generation`, which the service counts for all hosts. Returns whether this host's view
    /// changed: then it gets an event if it has requested one.
    pub fn set(&mut self, generation: u64, entries: Vec<Entry>) -> bool {
        self.generation = generation;
        let has_changed = self.entries != entries;
        self.entries = entries;
        has_changed
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// GENCTR: the generation that they are of.
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
