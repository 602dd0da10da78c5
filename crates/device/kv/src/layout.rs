//! Layout of a namespace: segments in its extent, structures in its protected area.
//!
//! ```text
//! state area:  header 4 KiB | roots 4 KiB | stream blocks 4 KiB each | segment table 16 B each | manifest A | manifest B | rings
//! window area: one ring for each window
//! extent:      segments, each free, of a log stream or of the index
//! ```

use crate::error::KvError;
use crate::features::Features;
use crate::reserve::Reserve;
use crate::value_log::record::VALUE_MAX_BYTES;

/// Version of the on-image format.
pub const FORMAT_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"BYWAYKV\0";
pub(crate) const HEADER_BYTES: usize = 4096;
/// Bytes of the header that the checksum covers.
pub(crate) const HEADER_USED_BYTES: usize = 56;
/// Offset of the word that says which manifest counts.
pub(crate) const ROOT_AT: usize = HEADER_BYTES;
/// Offset of the word that says how many losses of power the engine recovered from.
pub(crate) const LOSSES_AT: usize = ROOT_AT + 8;
const STREAMS_AT: usize = HEADER_BYTES + 4096;
/// Bytes of one stream's control block.
pub(crate) const STREAM_BLOCK_BYTES: usize = 4096;
/// Bytes of one segment's row.
pub(crate) const SEGMENT_ROW_BYTES: usize = 16;
/// Streams before the windows: the shared one, and the one compaction writes to.
pub(crate) const FIRST_WINDOW: usize = 2;
/// Most windows a namespace can have.
pub const WINDOWS_MAX: u16 = 128;
const RING_PAGES_MAX: usize = 256;
const SEGMENTS_MIN: usize = 8;
/// Pages of the shortest segments.
const SEGMENT_PAGES_MIN: u64 = 2;
/// Of the reserve, the share that a namespace holds at least.
const ROOM_SHARE: u64 = 4;
/// Segments of a namespace per window that has a segment of its own.
const WINDOW_SHARE: usize = 32;
/// Of a segment, the share that a record has at most which never spans two.
const WHOLE_SHARE: u64 = 32;
/// Values of that length are taken, where they are not more than a sixteenth of the extent.
const SHORT_VALUE_BYTES: u64 = 128 << 10;
/// Bytes of a manifest before its table of live bytes.
pub(crate) const MANIFEST_FIXED_BYTES: usize = 16384;

/// Below this number of segments, space goes to safety before flash-friendliness.
const FEW_SEGMENTS: usize = 512;

/// What is chosen when a namespace is made, and never after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvFormat {
    /// Pages in the open run of the shared stream: a power of two, 4 to 256.
    pub ring_pages: u16,
    /// In-place windows, at most [`WINDOWS_MAX`].
    pub windows: u16,
    /// Bytes of a window: a power of two, at least four pages. A record stored in place has at most half of them.
    pub window_bytes: u32,
}

impl Default for KvFormat {
    fn default() -> Self {
        Self { ring_pages: 8, windows: 16, window_bytes: 128 << 10 }
    }
}

/// Sizes and places, all derived from the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) page_bytes: usize,
    pub(crate) segment_shift: u32,
    pub(crate) segments: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) windows: usize,
    pub(crate) window_bytes: usize,
}

impl Layout {
    /// Plans a namespace of `extent_bytes`.
    pub(crate) fn plan(page_bytes: usize, extent_bytes: u64, format: &KvFormat) -> Result<Self, KvError> {
        let ring_bytes =
            page_bytes * usize::from(format.ring_pages).clamp(4, RING_PAGES_MAX).next_power_of_two();
        let window_bytes = (format.window_bytes as usize)
            .clamp(4 * page_bytes, RING_PAGES_MAX * page_bytes)
            .next_power_of_two();
        let least_bytes = ring_bytes.max(window_bytes) as u64;
        let usual_bytes =
            (extent_bytes / 2048).next_power_of_two().clamp(least_bytes, (256 << 20).max(least_bytes));
        // In a small extent, what each stream and each run leaves empty of its last segment must not be much of it all.
        let small_bytes = (extent_bytes / FEW_SEGMENTS as u64)
            .next_power_of_two()
            .max(SEGMENT_PAGES_MIN * page_bytes as u64);
        let segment_bytes = usual_bytes.min(small_bytes);
        let planned = Self {
            page_bytes,
            segment_shift: segment_bytes.trailing_zeros(),
            segments: (extent_bytes / segment_bytes) as usize,
            ring_bytes,
            windows: usize::from(format.windows.min(WINDOWS_MAX)),
            window_bytes,
        };
        if planned.has_room() {
            return Ok(planned);
        }
        let asked_bytes = extent_bytes;
        Err(KvError::TooSmall { asked_bytes, least_bytes: planned.least_extent_bytes() })
    }

    /// Whether enough is left beside the reserve.
    fn has_room(&self) -> bool {
        let reserve = Reserve::of(self).segments();
        self.segments as u64 >= reserve + reserve / ROOM_SHARE
    }

    /// The shortest extent with room, by these segments or longer.
    fn least_extent_bytes(mut self) -> u64 {
        while !self.has_room() {
            self.segments += 1;
        }
        self.extent_bytes()
    }

    /// Longest value, in bytes: a record that is on its way and the one that it replaces must not be much of the extent.
    pub(crate) fn value_max_bytes(&self) -> u32 {
        let extent_bytes = self.extent_bytes();
        let share_bytes = (extent_bytes / 32).max(SHORT_VALUE_BYTES.min(extent_bytes / 16));
        share_bytes.min(u64::from(VALUE_MAX_BYTES)) as u32
    }

    /// Windows that may have a segment of their own at one time.
    pub(crate) fn windows_in_segments(&self) -> usize {
        self.windows.min(self.segments / WINDOW_SHARE)
    }

    /// Streams that may have a segment at one time: the shared one, compaction's, and those of windows with segments of their own.
    pub(crate) fn streams_in_segments(&self) -> usize {
        FIRST_WINDOW + self.windows_in_segments()
    }

    /// Longest record that is kept whole in a segment.
    #[inline]
    pub(crate) fn whole_bytes(&self, ring_bytes: u64) -> u64 {
        (ring_bytes / 8).min(self.segment_bytes() / WHOLE_SHARE)
    }

    /// How much of a segment is filled by records that are packed, at least. One that is kept whole leaves out less than
    /// its length, one that is longer than the ring a page at its end.
    pub(crate) fn dense_percent(&self) -> u64 {
        let ring_pages = (self.ring_bytes / self.page_bytes) as u64;
        (100 * ring_pages / (ring_pages + 1)).min(100 - 100 / WHOLE_SHARE)
    }

    /// Whether each segment is so large a share of the namespace that there is none to spare.
    pub(crate) fn has_few_segments(&self) -> bool {
        self.segments < FEW_SEGMENTS
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        1 << self.segment_shift
    }

    /// Bytes of all segments: addresses are below.
    pub(crate) fn extent_bytes(&self) -> u64 {
        self.segments as u64 * self.segment_bytes()
    }

    pub(crate) fn pages_per_segment(&self) -> u64 {
        1 << (self.segment_shift - self.page_bytes.trailing_zeros())
    }

    pub(crate) fn streams(&self) -> usize {
        FIRST_WINDOW + self.windows
    }

    pub(crate) fn stream_block_at(&self, stream: usize) -> usize {
        STREAMS_AT + stream * STREAM_BLOCK_BYTES
    }

    pub(crate) fn segment_row_at(&self, segment: usize) -> usize {
        self.stream_block_at(self.streams()) + segment * SEGMENT_ROW_BYTES
    }

    pub(crate) fn manifest_bytes(&self) -> usize {
        (MANIFEST_FIXED_BYTES + self.segments * 4).next_multiple_of(4096)
    }

    /// Place of manifest 0 or 1.
    pub(crate) fn manifest_at(&self, slot: usize) -> usize {
        self.segment_row_at(self.segments).next_multiple_of(4096) + slot * self.manifest_bytes()
    }

    /// Place of the ring of the shared stream (0) or of compaction (1), in the state area.
    pub(crate) fn ring_at(&self, stream: usize) -> usize {
        self.manifest_at(2).next_multiple_of(self.page_bytes) + stream * self.ring_bytes
    }

    /// Bytes of the state area.
    pub(crate) fn state_bytes(&self) -> usize {
        self.ring_at(FIRST_WINDOW)
    }

    /// What the state area holds, by name, in its order.
    pub(crate) fn parts(&self) -> Vec<(&'static str, std::ops::Range<usize>)> {
        let ends = [
            ("key-value header", ROOT_AT),
            ("manifest root", STREAMS_AT),
            ("streams", self.segment_row_at(0)),
            ("segment table", self.manifest_at(0)),
            ("manifests", self.ring_at(0)),
            ("ring of the log", self.ring_at(1)),
            ("ring of compaction", self.state_bytes()),
        ];
        let mut start = 0;
        ends.map(|(name, end)| (name, std::mem::replace(&mut start, end)..end)).into()
    }

    /// Bytes of the window area.
    pub(crate) fn windows_bytes(&self) -> usize {
        self.windows * self.window_bytes
    }

    /// Writes the header. Its last bytes, the checksum, make it one.
    pub(crate) fn write_header(&self, state: &mut [u8]) {
        let Some(header) = state.get_mut(..HEADER_BYTES) else { return };
        header.fill(0);
        header[0..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let fields = [
            self.page_bytes as u32,
            self.segment_shift,
            self.segments as u32,
            self.ring_bytes as u32,
            self.windows as u32,
            self.window_bytes as u32,
        ];
        for (i, field) in fields.into_iter().enumerate() {
            header[32 + 4 * i..36 + 4 * i].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&header[..HEADER_USED_BYTES]);
        header[HEADER_USED_BYTES..HEADER_USED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the header. Bytes 16–31 are feature bits: [incompatible](Features), then compatible, of which none is known yet.
    pub(crate) fn read_header(state: &[u8]) -> Result<Self, KvError> {
        Self::read_header_of(state, state.len())
    }

    /// The same for the header alone, of a state area of `state_bytes`.
    pub(crate) fn read_header_of(header: &[u8], state_bytes: usize) -> Result<Self, KvError> {
        let header =
            header.get(..HEADER_BYTES).ok_or(KvError::DamagedState("the state area is too short"))?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if header[0..8] != MAGIC {
            return Err(KvError::DamagedState("there is no key-value header"));
        }
        let features = Features::covered_by_checksum(header)
            .ok_or(KvError::DamagedState("the header does not match its checksum"))?;
        if word(8) != FORMAT_VERSION {
            return Err(KvError::OtherVersion { found: word(8), known: FORMAT_VERSION });
        }
        features.check_known()?;
        let layout = Self {
            page_bytes: word(32) as usize,
            segment_shift: word(36),
            segments: word(40) as usize,
            ring_bytes: word(44) as usize,
            windows: word(48) as usize,
            window_bytes: word(52) as usize,
        };
        layout.check(state_bytes)?;
        Ok(layout)
    }

    /// Whether the sizes can be worked with: a checksum finds damage, not nonsense.
    fn check(&self, state_bytes: usize) -> Result<(), KvError> {
        let ring_is_sound = |bytes: usize| {
            bytes.is_power_of_two()
                && bytes >= 4 * self.page_bytes
                && bytes <= RING_PAGES_MAX * self.page_bytes
        };
        let sound = self.page_bytes.is_power_of_two()
            && (4096..=1 << 20).contains(&self.page_bytes)
            && (12..=40).contains(&self.segment_shift)
            && ring_is_sound(self.ring_bytes)
            && ring_is_sound(self.window_bytes)
            && self.segment_bytes() >= self.page_bytes as u64
            && (SEGMENTS_MIN..=1 << 24).contains(&self.segments)
            && self.windows <= usize::from(WINDOWS_MAX);
        if sound && self.state_bytes() <= state_bytes {
            return Ok(());
        }
        Err(KvError::DamagedState("the header gives impossible sizes"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read_back_and_every_flipped_bit_of_it_is_noticed() {
        let layout = Layout::plan(16384, 1 << 30, &KvFormat::default()).unwrap();
        let mut state = vec![0; layout.state_bytes()];
        layout.write_header(&mut state);
        assert_eq!(Layout::read_header(&state).unwrap(), layout);
        for bit in 0..60 * 8 {
            state[bit / 8] ^= 1 << (bit % 8);
            // The checksum says what a known feature bit was.
            let is_known_feature = [16 * 8, 16 * 8 + 1].contains(&bit);
            assert_eq!(Layout::read_header(&state).is_err(), !is_known_feature, "bit {bit}");
            assert_eq!(Features::of(&state), Features::default(), "bit {bit}");
            state[bit / 8] ^= 1 << (bit % 8);
        }
    }

    proptest! {
        #[test]
        fn structures_never_overlap(extent in (4u64 << 20)..(1 << 44), windows in 0u16..200) {
            let format = KvFormat { windows, ..KvFormat::default() };
            let layout = Layout::plan(16384, extent, &format).unwrap();
            prop_assert!(layout.segments as u64 * layout.segment_bytes() <= extent);
            prop_assert!(layout.manifest_at(0) >= layout.segment_row_at(layout.segments));
            prop_assert!(layout.ring_at(0) >= layout.manifest_at(2));
            prop_assert!(layout.check(layout.state_bytes()).is_ok());
        }
    }
}
