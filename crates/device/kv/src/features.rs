//! Incompatible features of a namespace: bits of its header that an older version refuses.

use crate::error::KvError;
use crate::layout::HEADER_USED_BYTES;
use crate::store::{Home, PageStore};

/// Offset of the word of feature bits in the header.
const FEATURES_AT: usize = 16;

/// Records behind a write pointer may count ([`crate::engine::lease`]): set while threads hold leases, and after a kill.
const LEASES: u64 = 1;
/// The log to replay may hold atomic batches ([`crate::engine::batch`]): set before the first batch, cleared by a flush or an orderly
/// close.
const BATCHES: u64 = 2;
const KNOWN: u64 = LEASES | BATCHES;

/// Incompatible features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// The features of a header that was [checked](crate::layout::Layout::read_header).
    pub(crate) fn of(header: &[u8]) -> Self {
        Self::covered_by_checksum(header).unwrap_or_default()
    }

    /// The features that the header's checksum covers. A kill between the two stores of [`store`](Self::store) leaves the features
    /// stored and the checksum of those before, which count. `None` where the checksum fits no known features.
    pub(crate) fn covered_by_checksum(header: &[u8]) -> Option<Self> {
        let mut header: [u8; HEADER_USED_BYTES + 4] = *header.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let stored = u64::from(word(FEATURES_AT)) | u64::from(word(FEATURES_AT + 4)) << 32;
        let crc = word(HEADER_USED_BYTES);
        (0..=KNOWN).filter(|changed| changed & !KNOWN == 0).map(|changed| stored ^ changed).find_map(|bits| {
            header[FEATURES_AT..FEATURES_AT + 8].copy_from_slice(&bits.to_le_bytes());
            (crc32c::crc32c(&header[..HEADER_USED_BYTES]) == crc).then_some(Self(bits))
        })
    }

    /// Refuses features that this version does not know.
    pub(crate) fn check_known(self) -> Result<(), KvError> {
        match self.0 & !KNOWN {
            0 => Ok(()),
            _ => Err(KvError::UnknownFeatures { bits: self.0 }),
        }
    }

    /// Whether records behind a write pointer may count.
    pub(crate) fn has_leases(self) -> bool {
        self.0 & LEASES != 0
    }

    /// The same, with or without leases.
    pub(crate) fn with_leases(self, has_leases: bool) -> Self {
        Self(if has_leases { self.0 | LEASES } else { self.0 & !LEASES })
    }

    /// Whether the log to replay may hold atomic batches.
    pub(crate) fn has_unflushed_batches(self) -> bool {
        self.0 & BATCHES != 0
    }

    /// The same, with or without atomic batches in the log to replay.
    pub(crate) fn with_unflushed_batches(self, has_batches: bool) -> Self {
        Self(if has_batches { self.0 | BATCHES } else { self.0 & !BATCHES })
    }

    /// Stores the features and then the header's checksum, each by one 8-byte write. Until the second, those before count. Nothing is
    /// written where both are there.
    pub(crate) fn store<S: PageStore>(self, store: &mut S, home: &Home) {
        if self.is_stored(store.state(home)) {
            return;
        }
        store.commit_u64(home, FEATURES_AT, self.0);
        let crc = crc32c::crc32c(&store.state(home)[..HEADER_USED_BYTES]);
        store.commit_u64(home, HEADER_USED_BYTES, crc.into());
    }

    /// Whether a header holds these features, and a checksum that covers them: a kill between two writes leaves others.
    fn is_stored(self, header: &[u8]) -> bool {
        let stored = header.get(FEATURES_AT..).and_then(|word| word.first_chunk());
        stored.is_some_and(|word| u64::from_le_bytes(*word) == self.0)
            && Self::covered_by_checksum(header) == Some(self)
    }
}
