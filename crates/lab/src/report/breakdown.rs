//! Where the time of a put goes: its parts are taken out of the profile one after another.
//!
//! Each part's share is what the put takes less without it, so shares add up to the whole. Work that ran beside a
//! part already taken out shows as its own; on an idle device almost all of it stands in one line.

use byway_link::profile::{Firmware, LinkTimes};
use byway_link::{Method, Profile, cost};

/// A part of a put's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The host builds the command, copies or maps the payload.
    Submit,
    /// The host stores into device memory, fences and reads back.
    Store,
    /// The host writes doorbells.
    Doorbell,
    /// The controller's firmware.
    Firmware,
    /// The way of packets, the host's memory, gaps between requests.
    Latency,
    /// The host is woken and takes the completion.
    Complete,
    /// Bytes on the wire.
    Wire,
}

impl Part {
    /// Every part, in the order of their taking out.
    pub const ALL: [Self; 7] = [
        Self::Submit,
        Self::Store,
        Self::Doorbell,
        Self::Firmware,
        Self::Latency,
        Self::Complete,
        Self::Wire,
    ];

    /// How it is named in legends.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "host: build and submit",
            Self::Store => "host: stores to device memory",
            Self::Doorbell => "host: doorbells",
            Self::Firmware => "controller: firmware",
            Self::Latency => "link: latency",
            Self::Complete => "host: wake-up and completion",
            Self::Wire => "link: bytes on the wire",
        }
    }

    fn take_out_of(self, profile: &mut Profile) {
        match self {
            Self::Submit => {
                profile.host.submit_ps = 0;
                profile.host.chunk_ps = 0;
                profile.host.map_page_ps = 0;
            }
            Self::Store => {
                profile.host.cxl_line_ps = 0;
                profile.host.cxl_read_back_ps = 0;
                profile.host.byte_store_line_ps = 0;
            }
            Self::Doorbell => profile.host.doorbell_ps = 0,
            Self::Firmware => profile.firmware = NO_FIRMWARE,
            Self::Latency => profile.times = NO_LATENCY,
            Self::Complete => {
                profile.host.wake_ps = 0;
                profile.host.completion_ps = 0;
            }
            // The last: what is left is the wire.
            Self::Wire => {}
        }
    }
}

const NO_FIRMWARE: Firmware = Firmware {
    command_ps: 0,
    chunk_ps: 0,
    prp_page_ps: 0,
    sgl_descriptor_ps: 0,
    completion_ps: 0,
    copy_line_ps: 0,
    index_probe_ps: 0,
};

const NO_LATENCY: LinkTimes = LinkTimes { propagation_ps: 0, read_latency_ps: 0, read_gap_ps: 0 };

/// The parts of one put's time, in picoseconds, in the order of [`Part::ALL`].
pub fn of_put(method: Method, value_bytes: u64, profile: &Profile) -> [u64; Part::ALL.len()] {
    let mut without = profile.clone();
    let mut left_ps = cost::of_put(method, value_bytes, &without).ps;
    Part::ALL.map(|part| {
        if part == Part::Wire {
            return left_ps;
        }
        part.take_out_of(&mut without);
        let ps = cost::of_put(method, value_bytes, &without).ps;
        let share_ps = left_ps.saturating_sub(ps);
        left_ps -= share_ps;
        share_ps
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        for name in Profile::names() {
            let profile = Profile::by_name(name).unwrap();
            for method in Method::CONCRETE {
                for size in [0, 32, 64, 4096] {
                    let parts = of_put(method, size, &profile);
                    let whole = cost::of_put(method, size, &profile).ps;
                    assert_eq!(parts.iter().sum::<u64>(), whole, "{name} {method} {size}");
                }
            }
        }
    }

    #[test]
    fn only_cxl_stores_into_device_memory() {
        let profile = Profile::by_name("gen5x8-cxl").unwrap();
        let stores = |method| of_put(method, 32, &profile)[1];
        assert!(stores(Method::Cxl) > 0);
        assert_eq!((stores(Method::Prp), stores(Method::Inline)), (0, 0));
    }

    #[test]
    fn a_faster_link_takes_time_off_the_wire_alone() {
        let slow = Profile::by_name("cosmos").unwrap();
        let fast = slow.clone().with_link("gen5x8").unwrap();
        let (slow, fast) = (of_put(Method::Prp, 32, &slow), of_put(Method::Prp, 32, &fast));
        assert_eq!(slow[..6], fast[..6]);
        assert!(fast[6] * 7 < slow[6]);
    }
}
