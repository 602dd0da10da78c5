//! Words of protected state that belong to the whole device: counters, sequence, the intent of the map, shutdown.

use byway_sys::MappingReader;

use crate::bit_repair::repair_bit;
use crate::counters::{Cause, CauseCounters, FlashCounters, HostCounters, HostIo};
use crate::error::FlashError;
use crate::finding::{Finding, Remedy};
use crate::geometry::PageId;
use crate::host_tallies::{HostTally, TallyLines};
use crate::image::layout::{Layout, Range};
use crate::location::{EntryIndex, Location};
use crate::protected::{Backing, Protected};
use crate::sanitize::{Sanitize, SanitizeState};
use crate::word;

const CLEAN: usize = 0;
const POWER_CYCLES: usize = 8;
const UNSAFE_SHUTDOWNS: usize = 16;
const NEXT_SEQ: usize = 24;
const INTENT_ENTRY: usize = 32;
const INTENT_OLD: usize = 40;
const MEDIA_ERRORS: usize = 48;
const ACCEPTED_BYTES: usize = 56;
const CHECKSUM: usize = 64;
const SYNCED_SEQ: usize = 72;
const BOOT_ID: usize = 80;
const POWER_LOSSES: usize = 96;
const LAST_PROGRAM: usize = 104;
/// Changes of the device as a whole, in a cache line that no command stores to: readers beside the writer poll it.
const VERSION: usize = 128;
/// The sanitize operation: a self-checking word, its pattern, and bytes accepted when it was done.
const SANITIZE: usize = 512;
const SANITIZE_PATTERN: usize = 520;
const SANITIZED_AT: usize = 528;
const SANITIZE_PLACE: u64 = 5 << 60;
/// Counters of hosts' commands that a close is about to set, behind a word that says so.
const FOLD: usize = 576;
const COUNTERS: usize = 1024;

/// Words for each cause, some of them for counters to come.
const CAUSE_BYTES: usize = 64;

/// Counters of hosts' commands, behind those of all causes. The checksum of a closed state covers them, and did while they were
/// zero.
const HOST: usize = COUNTERS + Cause::ALL.len() * CAUSE_BYTES;
/// Entries of the error log, behind those. Zero in an image that was made before they were counted.
const ERRORS: usize = HOST + HostCounters::WORDS * 8;
/// All of them. Lines of [threads](crate::host_tallies) begin in the next page.
const WORDS_BYTES: u64 = 4096;
const _: () = assert!(ERRORS + 8 <= 2 * COUNTERS, "what the checksum covers");

/// Salt of the synced word's check, so that a word of another table never passes as it.
const PLACE: u64 = 4 << 60;

/// The boot identifier where the system reports none: never equal to another.
const UNKNOWN_BOOT: [u64; 2] = [0; 2];

/// Value of the clean word after an orderly close.
const IS_CLEAN: u64 = u64::from_le_bytes(*b"BYWCLEAN");

/// What opening found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PowerHistory {
    /// Times the device was opened for writing.
    pub power_cycles: u64,
    /// Of these, times that the one before had not been closed.
    pub unsafe_shutdowns: u64,
    /// Of those, times that real power may have been lost, with what was not synced.
    pub power_losses: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    words: Protected,
    counters: FlashCounters,
    /// Commands of hosts that threads count by themselves.
    lines: TallyLines,
    /// What the counters contain of them: it is no part of the words.
    tallied: HostCounters,
}

impl State {
    /// Place in the state of the count of power cycles, which is fixed from the beginning of a cycle to the next.
    pub(crate) const POWER_CYCLES_AT: u64 = POWER_CYCLES as u64;

    pub(crate) fn open(backing: &Backing, layout: &Layout) -> Result<Self, FlashError> {
        let words = backing.map(Range { len: WORDS_BYTES, ..layout.state })?;
        let lines = TallyLines::open(backing, layout.state)?;
        let mut counters = FlashCounters::default();
        counters.accepted_bytes = words.word(ACCEPTED_BYTES);
        counters.media_errors = words.word(MEDIA_ERRORS);
        for cause in Cause::ALL {
            let word = |i| words.word(counter_at(cause, i));
            counters[cause] = CauseCounters::from_words(std::array::from_fn(word));
        }
        counters.error_entries = words.word(ERRORS);
        let mut state = Self { words, counters, lines, tallied: HostCounters::default() };
        // In a closed image they are zero, whatever a damaged one says.
        if !state.is_clean() {
            state.tallied = state.lines.sum();
        }
        state.counters.host = state.host_words(HOST).plus(state.tallied);
        if state.is_folding() {
            state.counters.host = state.host_words(FOLD + 8);
        }
        Ok(state)
    }

    fn host_words(&self, at: usize) -> HostCounters {
        HostCounters::from_words(std::array::from_fn(|i| self.words.word(at + i * 8)))
    }

    fn set_host_words(&mut self, at: usize, counters: HostCounters) {
        for (i, word) in counters.words().into_iter().enumerate() {
            self.words.set_word(at + i * 8, word);
        }
    }

    /// Whether a kill interrupted a [fold](Self::fold).
    fn is_folding(&self) -> bool {
        !self.is_clean() && self.words.word(FOLD) != 0
    }

    /// Adds what threads counted to the words, so that any version of the program finds it there. A kill leaves all of it or none.
    fn fold(&mut self) {
        if !self.is_folding() {
            let tallied = self.lines.sum();
            if tallied == HostCounters::default() {
                return;
            }
            self.set_host_words(FOLD + 8, self.host_words(HOST).plus(tallied));
            self.words.set_word(FOLD, 1);
        }
        let all = self.host_words(FOLD + 8);
        self.set_host_words(HOST, all);
        self.lines.clear();
        (self.counters.host, self.tallied) = (all, HostCounters::default());
        self.words.set_word(FOLD, 0);
    }

    /// The line of a thread that counts commands of hosts by itself.
    pub(crate) fn tally(&self, thread: usize) -> HostTally {
        self.lines.tally(thread)
    }

    /// Counts what came to the lines.
    pub(crate) fn count_tallied(&mut self, more: HostCounters) {
        self.tallied = self.tallied.plus(more);
        self.counters.host = self.counters.host.plus(more);
    }

    /// A reader of the [version](Self::note_change) that the writer of the image has.
    pub(crate) fn version_in(state: &MappingReader) -> u64 {
        state.load_u64(VERSION).unwrap_or(0)
    }

    /// Has readers beside this writer look at everything anew: a power cycle began or ended, a namespace or the operation of a
    /// sanitize changed. Stored after the change, and before what it held is used for something else.
    pub(crate) fn note_change(&mut self) {
        let version = self.words.word(VERSION).wrapping_add(1);
        self.words.set_word(VERSION, version);
    }

    /// Whether the last writer closed the device.
    pub(crate) fn is_clean(&self) -> bool {
        self.words.word(CLEAN) == IS_CLEAN
    }

    /// Whether a closed state is as it was closed.
    pub(crate) fn checksum_holds(&self) -> bool {
        self.words.word(CHECKSUM) == self.checksum()
    }

    /// Repairs the damaged state of a closed image: a flipped bit by the checksum, else the checksum itself. Counters cannot be
    /// verified then.
    pub(crate) fn repair(&mut self) -> Option<Finding> {
        let clean = self.words.word(CLEAN);
        if clean != IS_CLEAN && (clean ^ IS_CLEAN).count_ones() == 1 {
            self.words.set_word(CLEAN, IS_CLEAN);
            return Some(Finding::new("device state", "", "its closing mark was flipped", Remedy::Restore));
        }
        if !self.is_clean() || self.checksum_holds() {
            return None;
        }
        let good = |words: &[u8]| is_sum_of(words, checksum_of(words));
        if repair_bit(&mut self.words[..2 * COUNTERS], good) {
            let what = "a bit of it was flipped";
            return Some(Finding::new("device state", "", what, Remedy::Restore));
        }
        let sum = self.checksum();
        self.words.set_word(CHECKSUM, sum);
        let what = "it does not match its checksum: its counters cannot be relied on";
        Some(Finding::new("device state", "", what, Remedy::Restore))
    }

    /// The recorded sanitize operation; none if its word is damaged: nothing can be resumed then.
    pub(crate) fn sanitize(&self) -> Sanitize {
        let value = word::unseal(self.words.word(SANITIZE), SANITIZE_PLACE).unwrap_or(0);
        Sanitize::from_value(value, self.words.word(SANITIZE_PATTERN) as u32)
    }

    pub(crate) fn set_sanitize(&mut self, sanitize: Sanitize) {
        self.words.set_word(SANITIZE_PATTERN, sanitize.pattern.into());
        self.words.set_word(SANITIZED_AT, self.counters.accepted_bytes);
        self.words.set_word(SANITIZE, word::seal(sanitize.to_value(), SANITIZE_PLACE));
        self.note_change();
    }

    /// Whether nothing was accepted since the last sanitize operation was done.
    pub(crate) fn is_all_erased(&self) -> bool {
        let is_done = self.sanitize().state == SanitizeState::Done;
        is_done && self.words.word(SANITIZED_AT) == self.counters.accepted_bytes
    }

    /// Takes over what another device counted and went through: this one goes on in its place.
    pub(crate) fn take_over(&mut self, from: &Self) {
        for at in [POWER_CYCLES, UNSAFE_SHUTDOWNS, MEDIA_ERRORS, ACCEPTED_BYTES] {
            self.words.set_word(at, from.words.word(at));
        }
        self.counters = from.counters;
        Cause::ALL.into_iter().for_each(|cause| self.keep(cause));
        self.set_host_words(HOST, self.counters.host);
        self.words.set_word(ERRORS, self.counters.error_entries);
    }

    /// Sequence number that the next program gets.
    pub(crate) fn next_seq(&self) -> u64 {
        self.words.word(NEXT_SEQ)
    }

    /// From here on the device counts as in use, until [`State::close`].
    pub(crate) fn begin_power_cycle(&mut self, was_clean: bool) {
        if self.is_clean() {
            self.lines.clear();
            self.words.set_word(FOLD, 0);
        } else if self.is_folding() {
            self.fold();
        }
        self.words.set_word(CLEAN, 0);
        self.add(POWER_CYCLES, 1);
        self.add(UNSAFE_SHUTDOWNS, u64::from(!was_clean));
        let [low, high] = this_boot();
        self.words.set_word(BOOT_ID, low);
        self.words.set_word(BOOT_ID + 8, high);
        self.note_change();
    }

    /// Whether the kernel that the last opener ran on still runs, so that everything stored is there.
    pub(crate) fn is_same_boot(&self) -> bool {
        let kept = [self.words.word(BOOT_ID), self.words.word(BOOT_ID + 8)];
        kept == this_boot() && kept != UNKNOWN_BOOT
    }

    /// Counts a loss of real power that was recovered from. An engine detects the loss by a number other than the one it kept.
    /// So the count goes on from whatever a damaged state says, and fits a self-checking word.
    pub(crate) fn count_power_loss(&mut self) {
        self.words.set_word(POWER_LOSSES, self.power_losses().wrapping_add(1) & word::MAX_VALUE);
    }

    fn power_losses(&self) -> u64 {
        self.words.word(POWER_LOSSES) & word::MAX_VALUE
    }

    /// Marks an orderly close.
    pub(crate) fn close(&mut self) {
        self.fold();
        let sum = self.checksum();
        self.words.set_word(CHECKSUM, sum);
        self.words.set_word(CLEAN, IS_CLEAN);
        self.note_change();
    }

    fn checksum(&self) -> u64 {
        checksum_of(&self.words)
    }

    pub(crate) fn power_history(&self) -> PowerHistory {
        PowerHistory {
            power_cycles: self.words.word(POWER_CYCLES),
            unsafe_shutdowns: self.words.word(UNSAFE_SHUTDOWNS),
            power_losses: self.power_losses(),
        }
    }

    /// The number of the next program; each is given once, ascending.
    pub(crate) fn take_seq(&mut self) -> u64 {
        let seq = self.words.word(NEXT_SEQ);
        self.words.set_word(NEXT_SEQ, seq.saturating_add(1));
        seq
    }

    /// Notes that programs below this number are on the medium.
    pub(crate) fn note_synced(&mut self, programs: u64) {
        let seq = programs.max(self.synced_seq()).min(word::MAX_VALUE);
        self.words.set_word(SYNCED_SEQ, word::seal(seq, PLACE));
    }

    /// Programs below this number were on the medium at the last sync. Where that is not known, none was.
    #[inline]
    pub(crate) fn synced_seq(&self) -> u64 {
        word::unseal(self.words.word(SYNCED_SEQ), PLACE).unwrap_or(0)
    }

    /// Notes the page that is about to be programmed: a kill may leave it without anything that points to it.
    #[inline]
    pub(crate) fn set_last_program(&mut self, page: PageId) {
        self.words.set_word(LAST_PROGRAM, page.0 + 1);
    }

    /// The page that was programmed last, or was about to be.
    pub(crate) fn last_program(&self) -> Option<PageId> {
        self.words.word(LAST_PROGRAM).checked_sub(1).map(PageId)
    }

    /// Makes numbers of programs go on from `seq` at least.
    pub(crate) fn raise_next_seq(&mut self, seq: u64) {
        let next = self.words.word(NEXT_SEQ).max(seq);
        self.words.set_word(NEXT_SEQ, next);
    }

    /// Notes that `entry` is about to leave `old`, so that a kill between the flip and the block counts is repaired.
    #[inline]
    pub(crate) fn set_intent(&mut self, entry: EntryIndex, old: Location) {
        self.words.set_word(INTENT_OLD, old.to_raw());
        self.words.set_word(INTENT_ENTRY, entry + 1);
    }

    #[inline]
    pub(crate) fn clear_intent(&mut self) {
        self.words.set_word(INTENT_ENTRY, 0);
    }

    /// The flip that was under way, and where its data was before.
    pub(crate) fn intent(&self) -> Option<(EntryIndex, Option<Location>)> {
        let entry = self.words.word(INTENT_ENTRY).checked_sub(1)?;
        Some((entry, Location::from_raw(self.words.word(INTENT_OLD))))
    }

    pub(crate) const fn counters(&self) -> &FlashCounters {
        &self.counters
    }

    /// Pages programmed since the device was made: the clock of ages.
    pub(crate) fn programs(&self) -> u64 {
        self.counters.total().programs
    }

    #[inline]
    pub(crate) fn count_read(&mut self, cause: Cause, bytes: u64) {
        self.count_reads(cause, 1, bytes);
    }

    #[inline]
    pub(crate) fn count_reads(&mut self, cause: Cause, pages: u64, bytes: u64) {
        let counters = &mut self.counters[cause];
        add(&mut counters.reads, pages);
        add(&mut counters.read_bytes, bytes);
        let [reads, read_bytes, ..] = counters.words();
        self.words.set_word(counter_at(cause, 0), reads);
        self.words.set_word(counter_at(cause, 1), read_bytes);
    }

    #[inline]
    pub(crate) fn count_programs(&mut self, cause: Cause, pages: u64, bytes: u64) {
        add(&mut self.counters[cause].programs, pages);
        add(&mut self.counters[cause].program_bytes, bytes);
        self.keep(cause);
    }

    /// Charges programmed bytes to another cause; the sum stays.
    pub(crate) fn charge(&mut self, from: Cause, to: Cause, bytes: u64) {
        let bytes = bytes.min(self.counters[from].program_bytes);
        self.counters[from].program_bytes -= bytes;
        add(&mut self.counters[to].program_bytes, bytes);
        self.keep(from);
        self.keep(to);
    }

    pub(crate) fn count_erase(&mut self, cause: Cause) {
        add(&mut self.counters[cause].erases, 1);
        self.keep(cause);
    }

    #[inline]
    pub(crate) fn count_accepted(&mut self, bytes: u64) {
        add(&mut self.counters.accepted_bytes, bytes);
        self.words.set_word(ACCEPTED_BYTES, self.counters.accepted_bytes);
    }

    /// At most two words a command, which a kill leaves as they are.
    #[inline]
    pub(crate) fn count_host(&mut self, io: HostIo, commands: u64, bytes: u64) {
        let (host, tallied) = (&mut self.counters.host, &self.tallied);
        let (first, count, sum, tallied, tallied_sum) = match io {
            HostIo::Read => (HOST, &mut host.reads, &mut host.read_bytes, tallied.reads, tallied.read_bytes),
            HostIo::Write => {
                (HOST + 16, &mut host.writes, &mut host.written_bytes, tallied.writes, tallied.written_bytes)
            }
        };
        add(count, commands);
        add(sum, bytes);
        let (count, sum) = (count.saturating_sub(tallied), sum.saturating_sub(tallied_sum));
        if commands > 0 {
            self.words.set_word(first, count);
        }
        if bytes > 0 {
            self.words.set_word(first + 8, sum);
        }
    }

    /// Counts entries of the error log. Only in RAM where the state is not `kept`.
    pub(crate) fn count_errors(&mut self, entries: u64, is_kept: bool) -> u64 {
        add(&mut self.counters.error_entries, entries);
        if is_kept {
            self.words.set_word(ERRORS, self.counters.error_entries);
        }
        self.counters.error_entries
    }

    pub(crate) fn count_media_error(&mut self) {
        add(&mut self.counters.media_errors, 1);
        self.words.set_word(MEDIA_ERRORS, self.counters.media_errors);
    }

    #[inline]
    fn keep(&mut self, cause: Cause) {
        for (i, word) in self.counters[cause].words().into_iter().enumerate() {
            self.words.set_word(counter_at(cause, i), word);
        }
    }

    fn add(&mut self, at: usize, more: u64) {
        let sum = self.words.word(at).saturating_add(more);
        self.words.set_word(at, sum);
    }
}

/// Counts on. An image may have been made with counters at their end.
#[inline]
fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

/// What a closed state is vouched for by.
fn checksum_of(words: &[u8]) -> u64 {
    let sum = crc32c::crc32c(&words[POWER_CYCLES..CHECKSUM]);
    u64::from(crc32c::crc32c_append(sum, &words[COUNTERS..2 * COUNTERS]))
}

fn is_sum_of(words: &[u8], sum: u64) -> bool {
    words[CHECKSUM..CHECKSUM + 8] == sum.to_le_bytes()
}

/// Makes the checksum of a closed state fit, for fuzzers.
pub(crate) fn reseal(region: &mut [u8]) {
    let sum = checksum_of(region);
    region[CHECKSUM..CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
}

/// This boot, as two words.
fn this_boot() -> [u64; 2] {
    let Some(id) = byway_sys::boot::boot_id() else { return UNKNOWN_BOOT };
    let (low, high) = id.split_at(8);
    [low, high].map(|half| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

const fn counter_at(cause: Cause, word: usize) -> usize {
    COUNTERS + cause as usize * CAUSE_BYTES + word * 8
}
