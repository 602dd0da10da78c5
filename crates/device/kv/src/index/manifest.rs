//! The manifest: which runs there are, from where the logs are replayed, and what is alive in each segment.
//!
//! Two slots in the state area, written in turn. One sealed word, the root, says which generation counts; storing it
//! is the commit of everything in the manifest. Layout of a slot, little-endian:
//!
//! ```text
//! 0 magic (8) | 8 crc (4) | 12 streams (4) | 16 generation | 24 next run | 32 sequence | 40 runs (8)
//! 48 keys | 56 longest record that spans segments
//! 64 replay position of each stream (8 each; bit 63: its segment was taken)
//! 2032 bytes lost of the log before those | 2040 may count too much (8)
//! 2048 runs (128 each) | 16384 live bytes of each segment (4 each)
//! ```

use byway_flash::SyncPoint;

use crate::error::KvError;
use crate::index::entry::ENTRY_BYTES;
use crate::index::run::Run;
use crate::layout::{Layout, MANIFEST_FIXED_BYTES, ROOT_AT};
use crate::sealed;
use crate::store::PageStore;
use crate::value_log::record::{PREAMBLE_MAX_BYTES, SEQ_END, VALUE_MAX_BYTES};
use crate::value_log::segment::{RUN_END, ReplayFrom, Segments};
use crate::value_log::{Stream, ValueLog};
use byway_spec::Key;
use byway_sys::checksum::flipped_bit;

const MAGIC: [u8; 8] = *b"BYKVMANI";
const KEYS_AT: usize = 48;
const LONGEST_AT: usize = 56;
const POSITIONS_AT: usize = 64;
/// Set in a replay position if its segment is allocated.
const BEGUN_BIT: u32 = 63;
const LOST_AT: usize = 2032;
/// 1 where some of what is counted as alive may be dead.
const OVERCOUNTED_AT: usize = 2040;
const RUNS_AT: usize = 2048;
/// Bound of a number that only grows, so that there is a next one.
const GENERATION_END: u64 = 1 << 55;
/// Pages and entries of a run have numbers that fit an index entry's address.
const PAGE_END: u64 = 1 << 48;
/// The longest record there can be.
const RECORD_MAX_BYTES: u64 = PREAMBLE_MAX_BYTES as u64 + VALUE_MAX_BYTES as u64;
const RUN_BYTES: usize = 128;
/// Most runs a manifest can list.
pub(crate) const RUNS_MAX: usize = (MANIFEST_FIXED_BYTES - RUNS_AT) / RUN_BYTES;

/// What an engine must know when it opens, besides the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generation: u64,
    pub(crate) next_run: u64,
    /// No record before the replay positions has a higher sequence number.
    pub(crate) seq: u64,
    /// Newest first.
    pub(crate) runs: Vec<Run>,
    pub(crate) replay_from: Vec<ReplayFrom>,
    /// An index that could not be read left unknown what some entries replaced: that still counts as alive.
    pub(crate) is_overcounted: bool,
    /// Bytes of the logs before the replay positions that could not be read when they were replayed. They are reported
    /// until a repair has dealt with them.
    pub(crate) lost_log_bytes: u64,
}

impl Manifest {
    /// Writes the slot of this generation and makes it the one that counts.
    pub(crate) fn commit<S: PageStore>(&self, store: &mut S, log: &ValueLog) -> Result<(), KvError> {
        let (home, layout, segments) = (log.home(), log.layout(), log.segments());
        store.order_since(SyncPoint::ManifestSlot, segments.manifest_in())?;
        let at = layout.manifest_at((self.generation & 1) as usize);
        let state = store.state(home);
        let slot =
            state.get_mut(at..at + layout.manifest_bytes()).ok_or(KvError::DamagedState("its size"))?;
        self.encode(slot, layout, segments);
        store.order(SyncPoint::ManifestRoot)?;
        store.commit_u64(home, ROOT_AT, sealed::seal(self.generation, ROOT_AT));
        Ok(())
    }

    /// Reads the manifest that counts, and gives `segments` their live bytes.
    pub(crate) fn load(state: &[u8], layout: &Layout, segments: &mut Segments) -> Result<Self, KvError> {
        let generation = sealed::read(state, ROOT_AT).ok_or(KvError::DamagedState("the root word"))?;
        let at = layout.manifest_at((generation & 1) as usize);
        let slot = state.get(at..at + layout.manifest_bytes()).ok_or(KvError::DamagedState("its size"))?;
        let manifest = Self::decode(slot, layout)?;
        if manifest.generation != generation {
            return Err(KvError::DamagedState("the manifest is of another generation"));
        }
        manifest.check()?;
        for segment in 0..layout.segments {
            // One that was freed since, and perhaps used again, has nothing of the checkpoint.
            if segments.is_of_checkpoint((segment as u64) << layout.segment_shift, &manifest.replay_from) {
                segments.set_checkpoint_bytes(segment, word(slot, MANIFEST_FIXED_BYTES + 4 * segment).into());
            }
        }
        segments.set_checkpoint_keys(long(slot, KEYS_AT).min(PAGE_END));
        segments.note_longest(long(slot, LONGEST_AT).min(RECORD_MAX_BYTES));
        Ok(manifest)
    }

    /// Whether the numbers leave room to go on from: a checksum finds damage, not nonsense.
    fn check(&self) -> Result<(), KvError> {
        let room = self.generation < GENERATION_END && self.next_run < RUN_END && self.seq < SEQ_END;
        room.then_some(()).ok_or(KvError::DamagedState("the manifest's numbers are at their end"))
    }

    /// Whether each replay begins behind its stream's write pointer, by no more than the extent holds and the rest
    /// of a segment that was skipped.
    pub(crate) fn check_replay(&self, log: &ValueLog) -> Result<(), KvError> {
        let most_bytes = (log.layout().segments as u64 + 1) * log.layout().segment_bytes();
        let sound = |(stream, from): (&Stream, &ReplayFrom)| {
            stream.wp().checked_sub(from.position).is_some_and(|bytes| bytes <= most_bytes)
        };
        let sound = log.streams().iter().zip(&self.replay_from).all(sound);
        sound.then_some(()).ok_or(KvError::DamagedState("a replay position"))
    }

    fn encode(&self, slot: &mut [u8], layout: &Layout, segments: &Segments) {
        slot[..MANIFEST_FIXED_BYTES].fill(0);
        slot[0..8].copy_from_slice(&MAGIC);
        slot[12..16].copy_from_slice(&(self.replay_from.len() as u32).to_le_bytes());
        for (i, field) in
            [self.generation, self.next_run, self.seq, self.runs.len() as u64].iter().enumerate()
        {
            slot[16 + 8 * i..24 + 8 * i].copy_from_slice(&field.to_le_bytes());
        }
        slot[KEYS_AT..KEYS_AT + 8].copy_from_slice(&segments.checkpoint_keys().to_le_bytes());
        slot[LONGEST_AT..LONGEST_AT + 8].copy_from_slice(&segments.longest_bytes().to_le_bytes());
        for (i, from) in self.replay_from.iter().enumerate() {
            let at = POSITIONS_AT + 8 * i;
            slot[at..at + 8]
                .copy_from_slice(&(from.position | u64::from(from.is_begun) << BEGUN_BIT).to_le_bytes());
        }
        slot[LOST_AT..LOST_AT + 8].copy_from_slice(&self.lost_log_bytes.to_le_bytes());
        slot[OVERCOUNTED_AT] = u8::from(self.is_overcounted);
        for (i, run) in self.runs.iter().enumerate() {
            let at = RUNS_AT + RUN_BYTES * i;
            slot[at..at + RUN_BYTES].copy_from_slice(&encode_run(run));
        }
        for segment in 0..layout.segments {
            let at = MANIFEST_FIXED_BYTES + 4 * segment;
            slot[at..at + 4].copy_from_slice(&segments.checkpoint_bytes(segment).to_le_bytes());
        }
        let crc = crc32c::crc32c(&slot[12..]);
        slot[8..12].copy_from_slice(&crc.to_le_bytes());
    }

    fn decode(slot: &[u8], layout: &Layout) -> Result<Self, KvError> {
        if slot[0..8] != MAGIC || word(slot, 8) != crc32c::crc32c(&slot[12..]) {
            return Err(KvError::DamagedState("the manifest does not match its checksum"));
        }
        let (streams, runs) = (word(slot, 12) as usize, long(slot, 40) as usize);
        if streams != layout.streams() || runs > RUNS_MAX {
            return Err(KvError::DamagedState("the manifest counts wrong"));
        }
        // What a repair does is measured by the entries, so a run cannot claim more than there is room for.
        let entries_max = layout.extent_bytes() / ENTRY_BYTES as u64;
        let run = |i| decode_run(&slot[RUNS_AT + RUN_BYTES * i..][..RUN_BYTES]);
        let runs = (0..runs).map(|i| run(i).filter(|run| run.entries <= entries_max));
        Ok(Self {
            generation: long(slot, 16),
            next_run: long(slot, 24),
            seq: long(slot, 32),
            runs: runs.collect::<Option<_>>().ok_or(KvError::DamagedState("a run in the manifest"))?,
            replay_from: (0..streams).map(|i| decode_replay(long(slot, POSITIONS_AT + 8 * i))).collect(),
            is_overcounted: long(slot, OVERCOUNTED_AT) != 0,
            lost_log_bytes: long(slot, LOST_AT),
        })
    }
}

fn decode_replay(word: u64) -> ReplayFrom {
    ReplayFrom { position: word & !(1 << BEGUN_BIT), is_begun: word >> BEGUN_BIT == 1 }
}

/// `id, root, entries, tombstones (8 each) | tier, height, first key length, last key length | 40 first key | 56 last key`.
fn encode_run(run: &Run) -> [u8; RUN_BYTES] {
    let mut bytes = [0; RUN_BYTES];
    for (i, field) in [run.id, run.root, run.entries, run.tombstones].iter().enumerate() {
        bytes[8 * i..8 * i + 8].copy_from_slice(&field.to_le_bytes());
    }
    bytes[32..36].copy_from_slice(&[run.tier, run.height, run.first.len() as u8, run.last.len() as u8]);
    bytes[40..56].copy_from_slice(run.first.padded());
    bytes[56..72].copy_from_slice(run.last.padded());
    bytes
}

fn decode_run(bytes: &[u8]) -> Option<Run> {
    let key = |at: usize, len: u8| Key::new(bytes.get(at..at + usize::from(len).min(16))?).ok();
    Some(Run {
        id: long(bytes, 0),
        root: long(bytes, 8),
        entries: long(bytes, 16),
        tombstones: long(bytes, 24),
        tier: bytes[32],
        height: bytes[33],
        first: key(40, bytes[34])?,
        last: key(56, bytes[35])?,
    })
    .filter(|run| {
        let counts = run.entries < PAGE_END && run.tombstones <= run.entries;
        (1..=16).contains(&run.height) && run.id < RUN_END && run.root < PAGE_END && counts
    })
}

/// The generation of the manifest in a slot, if that is whole.
pub(crate) fn generation(state: &[u8], layout: &Layout, slot: usize) -> Option<u64> {
    let at = layout.manifest_at(slot);
    let manifest = Manifest::decode(state.get(at..at + layout.manifest_bytes())?, layout).ok()?;
    (manifest.generation & 1 == slot as u64).then_some(manifest.generation)
}

/// Sets a flipped bit of a slot right; whether one was.
pub(crate) fn repair(slot: &mut [u8], layout: &Layout) -> bool {
    if Manifest::decode(slot, layout).is_ok() || slot[0..8] != MAGIC {
        return false;
    }
    let stored = word(slot, 8);
    if let Some(bit) = flipped_bit(slot.len() - 12, stored ^ crc32c::crc32c(&slot[12..])) {
        slot[12 + bit / 8] ^= 1 << (bit % 8);
    } else if (stored ^ crc32c::crc32c(&slot[12..])).is_power_of_two() {
        reseal(slot);
    }
    Manifest::decode(slot, layout).is_ok()
}

/// Makes the checksum of a slot fit, for fuzzers.
pub(crate) fn reseal(slot: &mut [u8]) {
    let crc = crc32c::crc32c(&slot[12..]);
    slot[8..12].copy_from_slice(&crc.to_le_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::layout::KvFormat;

    #[test]
    fn a_manifest_is_read_back_and_a_damaged_one_refused() {
        let layout = Layout::plan(16384, 1 << 30, &KvFormat::default()).unwrap();
        let mut segments = Segments::load(&layout, &vec![0; layout.state_bytes()]).unwrap();
        segments.set_checkpoint_bytes(3, 77);
        let key = |n: u8| Key::new(&[n]).unwrap();
        let run = Run {
            id: 5,
            tier: 1,
            height: 2,
            root: 9,
            entries: 10,
            tombstones: 1,
            first: key(1),
            last: key(2),
        };
        let from = |position| ReplayFrom { position, is_begun: position % 3 == 0 };
        let replay_from = (0..layout.streams() as u64).map(from).collect();
        let manifest = Manifest {
            generation: 4,
            next_run: 6,
            seq: 1000,
            runs: vec![run; RUNS_MAX],
            replay_from,
            is_overcounted: true,
            lost_log_bytes: 99,
        };
        let mut slot = vec![0xff; layout.manifest_bytes()];
        manifest.encode(&mut slot, &layout, &segments);
        assert_eq!(Manifest::decode(&slot, &layout).unwrap(), manifest);
        assert_eq!(word(&slot, MANIFEST_FIXED_BYTES + 12), 77);
        for at in [0, 9, 13, 16, 100, 2100, 16384, slot.len() - 1] {
            slot[at] ^= 1;
            assert!(Manifest::decode(&slot, &layout).is_err(), "byte {at}");
            slot[at] ^= 1;
        }
    }

    #[test]
    fn a_run_of_more_entries_than_an_extent_holds_is_refused() {
        let layout = Layout::plan(16384, 1 << 30, &KvFormat::default()).unwrap();
        let segments = Segments::load(&layout, &vec![0; layout.state_bytes()]).unwrap();
        let key = Key::new(&[1]).unwrap();
        let most = layout.extent_bytes() / ENTRY_BYTES as u64;
        for (entries, is_refused) in [(most, false), (most + 1, true), (PAGE_END - 1, true)] {
            let run =
                Run { id: 5, tier: 1, height: 2, root: 9, entries, tombstones: 0, first: key, last: key };
            let replay_from = vec![ReplayFrom { position: 0, is_begun: true }; layout.streams()];
            let manifest = Manifest {
                generation: 4,
                next_run: 6,
                seq: 1000,
                runs: vec![run],
                replay_from,
                is_overcounted: false,
                lost_log_bytes: 0,
            };
            let mut slot = vec![0; layout.manifest_bytes()];
            manifest.encode(&mut slot, &layout, &segments);
            assert_eq!(Manifest::decode(&slot, &layout).is_err(), is_refused, "{entries} entries");
        }
    }
}
