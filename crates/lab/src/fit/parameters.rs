//! What `cosmos` does not know of the papers' card and host: each such time, its bounds, and the reason for them.
//!
//! The counts are known: how many register accesses a step takes, which packets a transfer has, how fast the link is
//! (docs/reference/link-model.md). Where no source bounds a time from above, its bound is wide on purpose: a
//! contradiction that is found within wide bounds holds within narrow ones too.

use byway_link::Profile;

/// Number of parameters.
pub const COUNT: usize = 17;

/// Place of what a command takes beside its register accesses.
pub const COMMAND: usize = 3;
/// The same of a chunk.
pub const CHUNK: usize = 4;
/// The same of a page.
pub const PAGE: usize = 5;

/// A place of a profile that holds a time, in picoseconds.
type Field = fn(&mut Profile) -> &mut u64;

/// A time that no source gives.
pub struct Parameter {
    /// What takes it.
    pub name: &'static str,
    /// Under `cosmos`, in nanoseconds.
    pub cosmos_ns: f64,
    /// Lower bound, in nanoseconds.
    pub least_ns: f64,
    /// Upper bound, in nanoseconds.
    pub most_ns: f64,
    /// Why the bounds are these.
    pub why: &'static str,
    /// Steps that take it, and how often.
    fields: &'static [(Field, u64)],
}

/// Every parameter.
pub const PARAMETERS: [Parameter; COUNT] = [
    Parameter {
        name: "firmware: register read",
        cosmos_ns: 160.0,
        least_ns: 160.0,
        most_ns: 320.0,
        why: "Zynq-7000's manual gives programmed I/O less than 25 MB/s, so 160 ns or more for 4 bytes; twice that is assumed to \
              be the most",
        fields: &[
            (|profile| &mut profile.firmware.command_ps, 17),
            (|profile| &mut profile.firmware.chunk_ps, 17),
            (|profile| &mut profile.firmware.prp_page_ps, 1),
            (|profile| &mut profile.firmware.sgl_descriptor_ps, 1),
        ],
    },
    Parameter {
        name: "firmware: register write",
        cosmos_ns: 80.0,
        least_ns: 4.0,
        most_ns: 160.0,
        why: "posted: from a cycle of the 250 MHz core to the shortest read",
        fields: &[
            (|profile| &mut profile.firmware.command_ps, 2),
            (|profile| &mut profile.firmware.chunk_ps, 1),
            (|profile| &mut profile.firmware.prp_page_ps, 3),
            (|profile| &mut profile.firmware.sgl_descriptor_ps, 3),
            (|profile| &mut profile.firmware.completion_ps, 3),
        ],
    },
    Parameter {
        name: "firmware: 4-byte store",
        cosmos_ns: 3.0,
        least_ns: 1.5,
        most_ns: 100.0,
        why: "from a cycle of the 667 MHz processor to an uncached access to DDR3",
        fields: &[(|profile| &mut profile.firmware.chunk_ps, 16)],
    },
    Parameter {
        name: "firmware: rest of a command",
        cosmos_ns: 0.0,
        least_ns: 0.0,
        most_ns: 20_000.0,
        why: "instructions beside the register accesses that were counted; no source: wide",
        fields: &[(|profile| &mut profile.firmware.command_ps, 1)],
    },
    Parameter {
        name: "firmware: rest of a chunk",
        cosmos_ns: 0.0,
        least_ns: 0.0,
        most_ns: 20_000.0,
        why: "instructions beside the register accesses that were counted; no source: wide",
        fields: &[(|profile| &mut profile.firmware.chunk_ps, 1)],
    },
    Parameter {
        name: "firmware: rest of a page",
        cosmos_ns: 0.0,
        least_ns: 0.0,
        most_ns: 40_000.0,
        why: "polls beyond the first, and what the DMA engine takes beside round trip and wire; no source: wide",
        fields: &[(|profile| &mut profile.firmware.prp_page_ps, 1)],
    },
    Parameter {
        name: "firmware: copy of 64 bytes",
        cosmos_ns: 96.0,
        least_ns: 48.0,
        most_ns: 3_200.0,
        why: "32 accesses, each from a cycle of the 667 MHz processor to an uncached access to DDR3",
        fields: &[(|profile| &mut profile.firmware.copy_line_ps, 1)],
    },
    Parameter {
        name: "link: way of a write",
        cosmos_ns: 280.0,
        least_ns: 100.0,
        most_ns: 1_000.0,
        why: "less than a round trip; no source: wide",
        fields: &[(|profile| &mut profile.times.propagation_ps, 1)],
    },
    Parameter {
        name: "link: round trip of a read",
        cosmos_ns: 850.0,
        least_ns: 550.0,
        most_ns: 1_700.0,
        why: "from that of a Xeon's own NIC (Neugebauer et al.) to twice that of an FPGA of the same family",
        fields: &[(|profile| &mut profile.times.read_latency_ps, 1)],
    },
    Parameter {
        name: "host: submit",
        cosmos_ns: 750.0,
        least_ns: 375.0,
        most_ns: 3_000.0,
        why: "half of the block stack's 1.5 µs (xNVMe); pass-through from half to four times of that is assumed",
        fields: &[(|profile| &mut profile.host.submit_ps, 1)],
    },
    Parameter {
        name: "host: take a completion",
        cosmos_ns: 750.0,
        least_ns: 375.0,
        most_ns: 3_000.0,
        why: "the other half, alike",
        fields: &[(|profile| &mut profile.host.completion_ps, 1)],
    },
    Parameter {
        name: "host: interrupt and wake-up",
        cosmos_ns: 2_000.0,
        least_ns: 500.0,
        most_ns: 20_000.0,
        why: "depends on idle states of the processor, which the papers do not give: wide",
        fields: &[(|profile| &mut profile.host.wake_ps, 1)],
    },
    Parameter {
        name: "host: pin and map a page",
        cosmos_ns: 250.0,
        least_ns: 50.0,
        most_ns: 3_000.0,
        why: "no source: wide",
        fields: &[(|profile| &mut profile.host.map_page_ps, 1)],
    },
    Parameter {
        name: "host: copy of a chunk",
        cosmos_ns: 10.0,
        least_ns: 2.0,
        most_ns: 100.0,
        why: "from a copy within the cache to one miss",
        fields: &[(|profile| &mut profile.host.chunk_ps, 1)],
    },
    Parameter {
        name: "host: doorbell",
        cosmos_ns: 100.0,
        least_ns: 20.0,
        most_ns: 500.0,
        why: "an uncached store that leaves the core; no source: wide",
        fields: &[(|profile| &mut profile.host.doorbell_ps, 1)],
    },
    Parameter {
        name: "CXL: flushed line",
        cosmos_ns: 30.0,
        least_ns: 1.0,
        most_ns: 1_200.0,
        why: "of the authors' second machine: up to three times a flushed and fenced line of local memory (400 ns)",
        fields: &[(|profile| &mut profile.host.cxl_line_ps, 1)],
    },
    Parameter {
        name: "CXL: fence and read back",
        cosmos_ns: 400.0,
        least_ns: 100.0,
        most_ns: 1_000.0,
        why: "of the authors' second machine: from a load of local memory to a loaded expander",
        fields: &[(|profile| &mut profile.host.cxl_read_back_ps, 1)],
    },
];

/// A value of each parameter, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values(pub [f64; COUNT]);

impl Values {
    /// Those of `cosmos`.
    pub fn cosmos() -> Self {
        Self(PARAMETERS.each_ref().map(|parameter| parameter.cosmos_ns))
    }

    /// The same, each to a whole nanosecond.
    pub fn rounded(self) -> Self {
        Self(self.0.map(f64::round))
    }

    /// A profile that has `cosmos`' values, with these in their place.
    #[cfg(test)]
    pub fn in_place_of_cosmos(&self, profile: &Profile) -> Profile {
        let mut changed = profile.clone();
        for (parameter, value_ns) in PARAMETERS.iter().zip(self.0) {
            parameter.add_ps(&mut changed, ((value_ns - parameter.cosmos_ns) * 1000.0).round() as i64);
        }
        changed
    }
}

impl Parameter {
    /// How little is known of it: from its lower bound to its upper, in nanoseconds.
    pub fn width_ns(&self) -> f64 {
        self.most_ns - self.least_ns
    }

    /// Makes it longer in every step that takes it.
    pub fn add_ps(&self, profile: &mut Profile, ps: i64) {
        for &(field, times) in self.fields {
            let place = field(profile);
            *place = place.saturating_add_signed(ps * times as i64);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cosmos_lies_within_all_bounds() {
        for parameter in &PARAMETERS {
            let bounds = parameter.least_ns..=parameter.most_ns;
            assert!(bounds.contains(&parameter.cosmos_ns), "{}", parameter.name);
        }
    }

    #[test]
    fn places_are_those_of_the_names() {
        let names = [COMMAND, CHUNK, PAGE].map(|place| PARAMETERS[place].name);
        assert_eq!(
            names,
            ["firmware: rest of a command", "firmware: rest of a chunk", "firmware: rest of a page"]
        );
    }

    #[test]
    fn cosmos_is_made_of_its_parameters() {
        let cosmos = Profile::by_name("cosmos").unwrap();
        let mut made = cosmos.clone();
        for parameter in &PARAMETERS {
            for &(field, _) in parameter.fields {
                *field(&mut made) = 0;
            }
        }
        for parameter in &PARAMETERS {
            parameter.add_ps(&mut made, (parameter.cosmos_ns * 1000.0) as i64);
        }
        assert_eq!(made, cosmos);
        assert_eq!(Values::cosmos().in_place_of_cosmos(&cosmos), cosmos);
    }
}
