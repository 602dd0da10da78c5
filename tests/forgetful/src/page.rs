//! Pages and their sectors after a power cut.

use std::sync::Arc;

use byway_kit::Random;

pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const SECTOR_BYTES: usize = 512;
pub(crate) const ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

pub(crate) type Page = Arc<[u8]>;

/// A sector that changed since the last sync.
#[derive(Debug, Clone, Copy)]
pub struct Sector<'a> {
    /// Its first byte in the file.
    pub at: u64,
    /// Content at the last sync.
    pub synced: &'a [u8],
    /// Content stored last.
    pub stored: &'a [u8],
}

/// A page of which only some sectors reached the medium.
pub(crate) fn chosen(
    page: u64,
    versions: &[Page],
    reached: impl Fn(&Sector<'_>) -> bool,
) -> [u8; PAGE_BYTES] {
    let mut kept = ZEROES;
    let (Some(synced), Some(stored)) = (versions.first(), versions.last()) else { return kept };
    let sectors = synced.chunks(SECTOR_BYTES).zip(stored.chunks(SECTOR_BYTES));
    for ((synced, stored), within) in sectors.zip((0..).step_by(SECTOR_BYTES)) {
        let sector = Sector { at: page * PAGE_BYTES as u64 + within as u64, synced, stored };
        let is_new = synced != stored && reached(&sector);
        kept[within..within + SECTOR_BYTES].copy_from_slice(if is_new { stored } else { synced });
    }
    kept
}

/// How a cut treats what changed: pieces of that size are old, new or something between, with these odds in 16.
pub(crate) struct Fate {
    piece_bytes: usize,
    old: u64,
    new: u64,
}

impl Fate {
    pub(crate) fn any(random: &mut Random) -> Self {
        let piece_bytes = if random.one_in(2) { PAGE_BYTES } else { SECTOR_BYTES };
        let (old, new) = [(15, 1), (8, 8), (6, 6), (1, 15), (2, 2)][random.below(5) as usize];
        Self { piece_bytes, old, new }
    }

    pub(crate) fn choose(&self, versions: &[Page], random: &mut Random) -> [u8; PAGE_BYTES] {
        let mut kept = ZEROES;
        for at in (0..PAGE_BYTES).step_by(self.piece_bytes) {
            let last = versions.len() - 1;
            let version = match random.below(16) {
                odds if odds < self.old => 0,
                odds if odds < self.old + self.new => last,
                _ => random.below(versions.len() as u64) as usize,
            };
            let piece = at..at + self.piece_bytes;
            kept[piece.clone()].copy_from_slice(&versions[version][piece]);
        }
        kept
    }
}
