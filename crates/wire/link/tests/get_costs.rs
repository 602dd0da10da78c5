//! What a get costs by each way of its value, against the table of docs/explanation/transfer-methods.md and against formulas written
//! independently of the code under test.
#![allow(clippy::unwrap_used)]

use byway_link::cost::{self, ReadMethod};
use byway_link::{Class, Profile};
use proptest::prelude::*;

fn gen4x4() -> Profile {
    Profile::by_name("gen4x4").unwrap()
}

/// Payload bytes without the interrupt, wire bytes with it.
fn both(method: ReadMethod, value_bytes: u64, profile: &Profile) -> (u64, u64) {
    let ledger = cost::of_get(method, value_bytes, profile).ledger;
    (ledger.payload_bytes(), ledger.wire_bytes())
}

#[test]
fn bytes_a_get_are_those_of_the_table() {
    // Value size; payload and wire to its buffer, and by inline-read.
    let table = [
        (8, (96, 260), (104, 244)),
        (32, (120, 284), (136, 276)),
        (64, (152, 316), (168, 308)),
        (128, (216, 380), (232, 372)),
        (225, (313, 480), (328, 468)),
        (512, (600, 788), (600, 788)),
    ];
    for (size, by_buffer, inline) in table {
        assert_eq!(both(ReadMethod::Prp, size, &gen4x4()), by_buffer, "prp {size}");
        assert_eq!(both(ReadMethod::Sgl, size, &gen4x4()), by_buffer, "sgl {size}");
        assert_eq!(both(ReadMethod::InlineRead, size, &gen4x4()), inline, "inline-read {size}");
    }
}

#[test]
fn get_is_one_command_with_one_completion_and_one_interrupt() {
    for method in ReadMethod::ALL {
        for size in [0, 1, 225, 226, 4096, 5000] {
            let ledger = cost::of_get(method, size, &gen4x4()).ledger;
            let counts = [Class::CommandFetch, Class::Completion, Class::Interrupt, Class::Doorbell]
                .map(|class| ledger.row(class).count);
            assert_eq!(counts, [1, 1, 1, 2], "{method:?} {size}");
            assert_eq!(ledger.row(Class::DataRead).count, 0);
        }
    }
}

/// A profile, and MPS and MRRS of its link.
fn profiles() -> impl Strategy<Value = (Profile, u64, u64)> {
    let name = prop::sample::select(Profile::names());
    (name, 7u32..=12, 7u32..=12).prop_map(|(name, mps, mrrs)| {
        let (mps, mrrs) = (1 << mps, 1 << mrrs);
        let profile = Profile::by_name(name).unwrap().with_mps(mps).unwrap().with_mrrs(mrrs).unwrap();
        (profile, mps.into(), mrrs.into())
    })
}

/// 24 for each packet of at most MPS, and whole 4-byte words.
fn write(n: u64, mps: u64) -> u64 {
    24 * n.div_ceil(mps) + n.next_multiple_of(4)
}

proptest! {
    #[test]
    fn wire_bytes_of_gets_follow_formulas_of_their_own((profile, mps, mrrs) in profiles(), n in 0u64..9000) {
        let fetch = 24 + 20 * 64u64.div_ceil(mps.min(mrrs)) + 64;
        let command = 2 * 28 + fetch + 24;
        let pages: u64 = (0..n.div_ceil(4096)).map(|page| write((n - page * 4096).min(4096), mps)).sum();
        let by_buffer = command + pages + write(16, mps);
        prop_assert_eq!(both(ReadMethod::Prp, n, &profile).1, by_buffer);
        prop_assert_eq!(both(ReadMethod::Sgl, n, &profile).1, by_buffer);

        let entries = 1 + n.div_ceil(15);
        let is_short = 16 * entries <= mps && entries <= 16;
        let inline = if is_short { command + write(16 * entries, mps) } else { by_buffer };
        prop_assert_eq!(both(ReadMethod::InlineRead, n, &profile).1, inline);
    }

    #[test]
    fn a_wider_link_never_makes_a_get_slower((profile, ..) in profiles(), n in 0u64..20_000) {
        let narrow = profile.clone().with_link("gen1x1").unwrap();
        let wide = profile.with_link("gen6x16").unwrap();
        for method in ReadMethod::ALL {
            let (fast, slow) = (cost::of_get(method, n, &wide).ps, cost::of_get(method, n, &narrow).ps);
            prop_assert!(fast <= slow, "{method:?}: {fast} {slow}");
        }
    }
}
