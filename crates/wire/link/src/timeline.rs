//! End times of transactions: the link and the firmware core as resources that are busy until a time.
//!
//! All times are picoseconds since power-on. The model is deterministic and has no events: a transaction starts when
//! its cause has happened and its resource is free, and moves the cursor to its end.

use crate::cost::Cost;
use crate::profile::{Firmware, LinkTimes, Profile, Work};

/// Wire bytes of the first read request of a transfer, sent up before any data comes down.
const FIRST_REQUEST_BYTES: u64 = 24;
/// The most submission queue entries any profile fetches ahead.
const AHEAD_MAX: usize = 16;

/// The modelled link and firmware core of one device.
#[derive(Clone, Debug)]
pub struct Timeline {
    firmware: Firmware,
    times: LinkTimes,
    femtoseconds_per_byte: u64,
    firmware_waits: bool,
    chunk_burst: bool,
    cursor_ps: u64,
    arrived_ps: u64,
    up_free_ps: u64,
    down_free_ps: u64,
    firmware_free_ps: u64,
    /// Earliest request time of the payload reads that end at the cursor, and the cursor they have moved.
    data_from_ps: u64,
    data_end_ps: u64,
    ahead: FetchAhead,
}

/// Reads of submission queue entries that the hardware issues before the firmware asks for them.
#[derive(Clone, Debug)]
struct FetchAhead {
    depth: usize,
    /// Time of the doorbell that made the entries known.
    since_ps: u64,
    /// End time of each of the last `depth` reads; the next may start once the oldest has ended.
    ended_ps: [u64; AHEAD_MAX],
    next: usize,
}

impl FetchAhead {
    fn earliest_ps(&self) -> u64 {
        let oldest = self.ended_ps.get(self.next).copied().unwrap_or(0);
        self.since_ps.max(oldest)
    }

    fn note_end(&mut self, at_ps: u64) {
        if let Some(slot) = self.ended_ps.get_mut(self.next) {
            *slot = at_ps;
        }
        self.next = if self.next + 1 < self.depth { self.next + 1 } else { 0 };
    }
}

impl Timeline {
    /// An idle timeline.
    pub fn new(profile: &Profile) -> Self {
        Self {
            firmware: profile.firmware,
            times: profile.times,
            femtoseconds_per_byte: profile.link.femtoseconds_per_byte(),
            firmware_waits: profile.habits.firmware_waits,
            chunk_burst: profile.habits.chunk_burst,
            cursor_ps: 0,
            arrived_ps: 0,
            up_free_ps: 0,
            down_free_ps: 0,
            firmware_free_ps: 0,
            data_from_ps: 0,
            data_end_ps: 0,
            ahead: FetchAhead {
                depth: usize::from(profile.habits.fetch_ahead).min(AHEAD_MAX),
                since_ps: 0,
                ended_ps: [0; AHEAD_MAX],
                next: 0,
            },
        }
    }

    /// Starts work on a command that became known to the device at `at_ps`, such as by its doorbell.
    pub fn begin(&mut self, at_ps: u64) {
        self.cursor_ps = at_ps;
        self.data_end_ps = 0;
        self.ahead.since_ps = at_ps;
    }

    /// End of the work so far.
    pub fn cursor_ps(&self) -> u64 {
        self.cursor_ps
    }

    /// Time at which the last write to the host took effect.
    pub fn arrived_ps(&self) -> u64 {
        self.arrived_ps
    }

    /// Moves the cursor on, such as to the end of a flash operation. Never moves it back.
    pub fn advance_to(&mut self, at_ps: u64) {
        self.cursor_ps = self.cursor_ps.max(at_ps);
    }

    /// The device reads payload or lists from host memory and waits for it.
    pub fn read(&mut self, cost: Cost) {
        self.cursor_ps = self.schedule_read(self.cursor_ps, cost);
        if self.firmware_waits {
            self.firmware_free_ps = self.firmware_free_ps.max(self.cursor_ps);
        }
    }

    /// The device reads payload. Unless the firmware waits for each transfer, consecutive reads are requested
    /// together: none waits for the data of the last.
    pub fn read_data(&mut self, cost: Cost) {
        if self.firmware_waits {
            return self.read(cost);
        }
        if self.cursor_ps != self.data_end_ps {
            self.data_from_ps = self.cursor_ps;
        }
        self.cursor_ps = self.schedule_read(self.data_from_ps, cost).max(self.cursor_ps);
        self.data_end_ps = self.cursor_ps;
    }

    /// The device reads slots with chunks. A burst waits for the command before it, which holds its length; slots
    /// fetched like any other entry do not.
    pub fn fetch_chunks(&mut self, cost: Cost) {
        if self.chunk_burst { self.read(cost) } else { self.fetch(cost) }
    }

    /// The device reads one submission queue entry, perhaps already fetched ahead.
    pub fn fetch(&mut self, cost: Cost) {
        if self.ahead.depth == 0 {
            return self.read(cost);
        }
        let ended_ps = self.schedule_read(self.ahead.earliest_ps(), cost);
        self.ahead.note_end(ended_ps);
        self.advance_to(ended_ps);
    }

    /// The device writes to host memory and waits until it has left.
    pub fn write(&mut self, cost: Cost) {
        self.posted_write(cost);
        self.advance_to(self.up_free_ps);
        if self.firmware_waits {
            self.firmware_free_ps = self.firmware_free_ps.max(self.cursor_ps);
        }
    }

    /// The device writes to host memory and goes on.
    pub fn posted_write(&mut self, cost: Cost) {
        self.up_free_ps = self.cursor_ps.max(self.up_free_ps) + self.serialise_ps(cost.up_bytes);
        self.arrived_ps = self.up_free_ps + self.times.propagation_ps;
    }

    /// The firmware core takes a step.
    pub fn work(&mut self, work: Work) {
        self.cursor_ps = self.cursor_ps.max(self.firmware_free_ps) + self.firmware.ps(work);
        self.firmware_free_ps = self.cursor_ps;
    }

    /// Time that bytes take on the wire in one direction.
    pub fn serialise_ps(&self, bytes: u64) -> u64 {
        bytes * self.femtoseconds_per_byte / 1000
    }

    /// Requests go up back to back; data comes down after the first is answered.
    fn schedule_read(&mut self, from_ps: u64, cost: Cost) -> u64 {
        let start_ps = from_ps.max(self.up_free_ps);
        let first_ps = start_ps + self.serialise_ps(cost.up_bytes.min(FIRST_REQUEST_BYTES));
        let sent_ps = start_ps + self.serialise_ps(cost.up_bytes);
        self.up_free_ps = sent_ps.max(start_ps + self.times.read_gap_ps);
        let data_ps = (first_ps + self.times.read_latency_ps).max(self.down_free_ps);
        self.down_free_ps = data_ps + self.serialise_ps(cost.down_bytes);
        self.down_free_ps
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cosmos() -> Profile {
        Profile::by_name("cosmos").unwrap()
    }

    fn fetch_after_fetch(depth: u8) -> u64 {
        let mut profile = cosmos();
        profile.habits.fetch_ahead = depth;
        let mut timeline = Timeline::new(&profile);
        timeline.begin(1_000_000);
        for _ in 0..4 {
            timeline.fetch(profile.link.read(64));
        }
        timeline.cursor_ps() - 1_000_000
    }

    #[test]
    fn a_read_takes_its_latency_and_its_bytes() {
        let profile = cosmos();
        let mut timeline = Timeline::new(&profile);
        timeline.begin(0);
        timeline.read(profile.link.read(4096));
        // 24 bytes up, the round trip, then 16 × 276 bytes down at 250 ps each.
        assert_eq!(timeline.cursor_ps(), 24 * 250 + 850_000 + 16 * 276 * 250);
    }

    #[test]
    fn pages_of_one_payload_share_one_round_trip_unless_the_firmware_waits() {
        let took = |name: &str| {
            let profile = Profile::by_name(name).unwrap();
            let mut timeline = Timeline::new(&profile);
            timeline.begin(7);
            (0..4).for_each(|_| timeline.read_data(profile.link.read(4096)));
            let bytes_ps = timeline.serialise_ps(profile.link.read(4096).down_bytes);
            (timeline.cursor_ps() - 7 - 4 * bytes_ps, profile.times.read_latency_ps)
        };
        let (together_ps, latency_ps) = took("gen4x4");
        assert!((latency_ps..latency_ps * 11 / 10).contains(&together_ps));
        let (one_by_one_ps, latency_ps) = took("cosmos");
        assert!(one_by_one_ps >= 4 * latency_ps);
    }

    #[test]
    fn entries_fetched_ahead_share_one_round_trip() {
        let alone = fetch_after_fetch(0);
        let ahead = fetch_after_fetch(8);
        assert_eq!(alone, 4 * (24 * 250 + 850_000 + 84 * 250));
        assert!(ahead < alone / 3, "{ahead} {alone}");
    }

    #[test]
    fn no_more_entries_are_in_flight_than_the_hardware_has_tags() {
        assert!(fetch_after_fetch(1) > 3 * 850_000);
        assert!(fetch_after_fetch(2) > 850_000 && fetch_after_fetch(2) < fetch_after_fetch(1));
    }

    #[test]
    fn firmware_core_serves_one_command_at_a_time() {
        let mut timeline = Timeline::new(&cosmos());
        timeline.begin(0);
        timeline.work(Work::Command);
        let first_ps = timeline.cursor_ps();
        timeline.begin(0);
        timeline.work(Work::Command);
        assert_eq!(timeline.cursor_ps(), 2 * first_ps);
    }

    #[test]
    fn a_posted_write_arrives_later_than_the_cursor_goes_on() {
        let profile = cosmos();
        let mut timeline = Timeline::new(&profile);
        timeline.begin(5_000);
        timeline.posted_write(profile.link.write(16));
        assert_eq!(timeline.cursor_ps(), 5_000);
        assert_eq!(timeline.arrived_ps(), 5_000 + 40 * 250 + 280_000);
        timeline.write(profile.link.write(16));
        assert_eq!(timeline.cursor_ps(), 5_000 + 80 * 250);
    }
}
