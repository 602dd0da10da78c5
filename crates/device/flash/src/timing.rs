//! When flash operations finish, in modelled picoseconds.
//!
//! A read waits for its plane, then for its channel. A program waits for a free slot of the page buffer (that is the
//! back-pressure a host feels), then crosses the channel and keeps its plane and slot busy; its command does not wait for its end.
//! Planes of one die are taken as busy on their own. Deterministic: the same operations give the same times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byway_link::FlashProfile;

use crate::geometry::{BlockId, Geometry};

const PS_PER_NS: u64 = 1_000;

/// Bytes at one MB/s take this long each.
const PS_PER_BYTE_AT_1_MB_S: u64 = 1_000_000;

/// Most pages of the page buffer that are kept account of.
const BUFFER_PAGES_MAX: u64 = 1 << 16;

/// Next-free times of planes, channels and buffer slots.
#[derive(Debug)]
pub(crate) struct FlashTiming {
    on: bool,
    read_ps: u64,
    program_ps: u64,
    erase_ps: u64,
    bus_ps_per_byte: u64,
    plane_free_ps: Vec<u64>,
    channel_free_ps: Vec<u64>,
    slot_free_ps: BinaryHeap<Reverse<u64>>,
}

/// A time of a profile: at most an hour, so that times can be added.
fn picoseconds(nanoseconds: u64) -> u64 {
    nanoseconds.min(3_600_000_000_000) * PS_PER_NS
}

impl FlashTiming {
    pub(crate) fn new(geometry: &Geometry, profile: &FlashProfile, on: bool) -> Self {
        let slots = u64::from(profile.buffer_pages).clamp(1, BUFFER_PAGES_MAX);
        Self {
            on,
            read_ps: picoseconds(profile.read_ns),
            program_ps: picoseconds(profile.program_ns),
            erase_ps: picoseconds(profile.erase_ns),
            bus_ps_per_byte: PS_PER_BYTE_AT_1_MB_S / u64::from(profile.bus_mb_s).max(1),
            plane_free_ps: vec![0; geometry.plane_count() as usize],
            channel_free_ps: vec![0; geometry.channels as usize],
            slot_free_ps: (0..slots).map(|_| Reverse(0)).collect(),
        }
    }

    pub(crate) fn set(&mut self, on: bool) {
        self.on = on;
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// When a read that starts at `at_ps` has its bytes in the controller.
    #[inline]
    pub(crate) fn read(&mut self, geometry: &Geometry, block: BlockId, bytes: u64, at_ps: u64) -> u64 {
        if !self.on {
            return at_ps;
        }
        let plane = &mut self.plane_free_ps[geometry.plane_of(block) as usize];
        let channel = &mut self.channel_free_ps[geometry.channel_of(block) as usize];
        let sensed_ps = at_ps.max(*plane) + self.read_ps;
        let done_ps = sensed_ps.max(*channel) + bytes * self.bus_ps_per_byte;
        *plane = done_ps;
        *channel = done_ps;
        done_ps
    }

    /// When a program asked for at `at_ps` is taken over by a buffer slot: the caller goes on from there.
    #[inline]
    pub(crate) fn program(&mut self, geometry: &Geometry, block: BlockId, bytes: u64, at_ps: u64) -> u64 {
        if !self.on {
            return at_ps;
        }
        let slot_ps = self.slot_free_ps.pop().map_or(0, |Reverse(free_ps)| free_ps);
        let taken_ps = at_ps.max(slot_ps);
        let plane = &mut self.plane_free_ps[geometry.plane_of(block) as usize];
        let channel = &mut self.channel_free_ps[geometry.channel_of(block) as usize];
        let loaded_ps = taken_ps.max(*plane).max(*channel) + bytes * self.bus_ps_per_byte;
        *channel = loaded_ps;
        *plane = loaded_ps + self.program_ps;
        self.slot_free_ps.push(Reverse(*plane));
        taken_ps
    }

    /// Charges an erase to its plane.
    pub(crate) fn erase(&mut self, geometry: &Geometry, block: BlockId, at_ps: u64) {
        if self.on {
            let plane = &mut self.plane_free_ps[geometry.plane_of(block) as usize];
            *plane = at_ps.max(*plane) + self.erase_ps;
        }
    }
}
