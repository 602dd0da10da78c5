//! What a put costs by each method, against the table of docs/reference/link-model.md and against formulas written
//! independently of the code under test.
#![allow(clippy::unwrap_used)]

use byway_link::cost::{self, Goal, PutCost};
use byway_link::{Class, Method, Profile};
use proptest::prelude::*;

fn cosmos() -> Profile {
    Profile::by_name("cosmos").unwrap()
}

fn bursting(mut profile: Profile) -> Profile {
    profile.habits.chunk_burst = true;
    profile
}

/// Payload bytes without the interrupt, wire bytes with it.
fn both(method: Method, value_bytes: u64, profile: &Profile) -> (u64, u64) {
    let ledger = cost::of_put(method, value_bytes, profile).ledger;
    (ledger.payload_bytes(), ledger.wire_bytes())
}

#[test]
fn bytes_a_put_are_those_of_the_table() {
    let one_by_one = cosmos();
    let burst = bursting(cosmos());
    // Value size; payload and wire by whole-page prp, piggyback, inline chunk by chunk, inline in bursts, exact.
    let table = [
        (32, (88, 228), (152, 336), (152, 336), (120, 304)),
        (64, (176, 456), (152, 336), (152, 336), (152, 336)),
        (128, (264, 684), (216, 444), (216, 400), (216, 400)),
        (256, (440, 1140), (344, 660), (344, 528), (344, 528)),
        (1024, (1672, 4332), (1112, 1956), (1112, 1380), (1112, 1380)),
        (2048, (3256, 8436), (2136, 3684), (2136, 2532), (2136, 2532)),
        (4096, (6512, 16_872), (4184, 7140), (4184, 4836), (4184, 4836)),
    ];
    for (size, piggyback, inline, inline_burst, exact) in table {
        assert_eq!(both(Method::Prp, size, &one_by_one), (4184, 4836), "prp {size}");
        assert_eq!(both(Method::Piggyback, size, &one_by_one), piggyback, "piggyback {size}");
        assert_eq!(both(Method::Inline, size, &one_by_one), inline, "inline {size}");
        assert_eq!(both(Method::Inline, size, &burst), inline_burst, "inline in bursts {size}");
        assert_eq!(both(Method::Sgl, size, &one_by_one), exact, "sgl {size}");
    }
}

#[test]
fn packet_sizes_change_what_a_page_costs() {
    let wire = |profile: Profile| both(Method::Prp, 32, &profile).1;
    assert_eq!(wire(cosmos().with_mps(128).unwrap()), 5156);
    assert_eq!(wire(cosmos().with_mps(512).unwrap()), 4676);
    assert_eq!(wire(cosmos().with_mrrs(128).unwrap()), 5732);
    assert_eq!(wire(cosmos().configured(256, 4096).unwrap()), 5732);
}

#[test]
fn the_papers_mixed_workloads_cost_what_the_notes_say() {
    let profile = cosmos();
    // Sizes and their weights; payload and wire by piggyback and by inline, rounded to bytes a put.
    type Mix = (&'static [(u64, f64)], (f64, f64), (f64, f64));
    let mixes: [Mix; 3] = [
        (&[(8, 0.9), (2048, 0.1)], (405., 1049.), (350., 671.)),
        (&[(8, 0.1), (2048, 0.9)], (2939., 7615.), (1938., 3349.)),
        (
            &[(8, 1.), (16, 1.), (32, 1.), (64, 1.), (128, 1.), (256, 1.), (512, 1.), (1024, 1.), (2048, 1.)],
            (772., 2001.),
            (557., 1020.),
        ),
    ];
    for (sizes, piggyback, inline) in mixes {
        let weight: f64 = sizes.iter().map(|(_, weight)| weight).sum();
        let mean = |method| {
            let cost = |&(size, weight): &(u64, f64)| {
                let (payload, wire) = both(method, size, &profile);
                (payload as f64 * weight, wire as f64 * weight)
            };
            let sum = sizes.iter().map(cost).fold((0., 0.), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
            ((sum.0 / weight).round(), (sum.1 / weight).round())
        };
        assert_eq!(mean(Method::Piggyback), piggyback);
        assert_eq!(mean(Method::Inline), inline);
    }
}

#[test]
fn commands_and_slots_are_as_the_encodings_say() {
    let shape = |method, size| {
        let PutCost { commands, slots, .. } = cost::of_put(method, size, &cosmos());
        (commands, slots)
    };
    for (size, commands) in [(0, 1), (35, 1), (36, 2), (91, 2), (92, 3), (256, 5), (1024, 19), (4096, 74)] {
        assert_eq!(shape(Method::Piggyback, size), (commands, commands), "piggyback {size}");
    }
    for (size, slots) in [(0, 1), (1, 2), (64, 2), (65, 3), (4096, 65)] {
        assert_eq!(shape(Method::Inline, size), (1, slots), "inline {size}");
    }
    assert_eq!(shape(Method::PiggybackPt, 11), (1, 1));
    assert_eq!(shape(Method::PiggybackPt, 40), (3, 3));
    assert_eq!(shape(Method::Hybrid, 35), (1, 1));
    assert_eq!(shape(Method::Hybrid, 36), (1, 2));
    assert_eq!(shape(Method::PrpTail, 100), shape(Method::Piggyback, 100));
    assert_eq!(shape(Method::PrpTail, 8192), (1, 1));
    assert_eq!(shape(Method::PrpTail, 8192 + 57), (3, 3));
}

#[test]
fn fragments_that_ring_once_share_doorbells_and_the_interrupt_but_not_completions() {
    let ledger = cost::of_put(Method::Piggyback, 256, &Profile::by_name("gen4x4").unwrap()).ledger;
    assert_eq!(ledger.row(Class::Doorbell).count, 2);
    assert_eq!(ledger.row(Class::Interrupt).count, 1);
    assert_eq!(ledger.row(Class::Completion).count, 5);
    assert_eq!(ledger.payload_bytes(), 8 + 5 * (64 + 16));
}

#[test]
fn a_value_in_device_memory_costs_its_lines_and_the_read_back() {
    let profile = Profile::by_name("gen5x8-cxl").unwrap();
    let ledger = cost::of_put(Method::Cxl, 128, &profile).ledger;
    assert_eq!(ledger.row(Class::CxlStore).cost.payload_bytes, 136);
    assert_eq!(ledger.row(Class::CxlStore).cost.down_bytes, 3 * 68);
    assert_eq!(ledger.row(Class::CxlLoad).count, 1);
    assert_eq!(ledger.row(Class::DataRead).count, 0);
    let with_first = cost::of_put(Method::CxlPiggyback, 35, &profile).ledger;
    assert_eq!(with_first, cost::of_put(Method::Piggyback, 35, &profile).ledger);
}

#[test]
fn a_list_is_fetched_from_the_third_page_on_and_chains_past_one_page() {
    let list = |pages: u64| cost::of_put(Method::Prp, pages * 4096, &cosmos()).ledger.row(Class::ListFetch);
    assert_eq!(list(2).count, 0);
    assert_eq!((list(3).count, list(3).cost.payload_bytes), (1, 16));
    assert_eq!((list(513).count, list(513).cost.payload_bytes), (1, 4096));
    assert_eq!((list(514).count, list(514).cost.payload_bytes), (2, 4096 + 16));
    assert_eq!(list(4096).cost.payload_bytes, 8 * (4095 + 8));
}

#[test]
fn time_is_made_of_fixed_costs_more_than_of_the_wire() {
    // docs/reference/link-model.md: a faster link alone saves little of a 32-byte put.
    let slow = cost::of_put(Method::Prp, 32, &cosmos()).ps;
    let fast = cost::of_put(Method::Prp, 32, &cosmos().with_link("gen5x8").unwrap()).ps;
    assert!(fast < slow && slow - fast < slow / 4, "{fast} {slow}");
}

#[test]
fn adaptive_costs_as_much_as_the_cheapest_method_of_the_device() {
    for name in Profile::names() {
        let profile = Profile::by_name(name).unwrap();
        let is_there = |method: &Method| profile.cxl_native || !method.needs_device_memory();
        for size in [0, 8, 35, 36, 128, 1000, 5000, 100_000] {
            let admitted =
                Method::CONCRETE.into_iter().filter(|&method| cost::admits(method, size, &profile));
            let times = admitted.filter(is_there).map(|method| cost::of_put(method, size, &profile).ps);
            assert_eq!(
                cost::of_put(Method::Adaptive, size, &profile).ps,
                times.min().unwrap(),
                "{name} {size}"
            );
        }
    }
}

#[test]
fn a_method_whose_limit_a_value_exceeds_is_never_the_cheapest() {
    let profile = cosmos();
    let over = u64::from(profile.limits.inline_max_bytes) + 1;
    let among = [Method::Inline, Method::Hybrid, Method::Adaptive];
    assert_eq!(cost::cheapest(over, &profile, Goal::Bytes, &among), None);
    assert_eq!(cost::cheapest(over - 1, &profile, Goal::Bytes, &among), Some(Method::Inline));
}

/// A link's packet sizes, for formulas written without the crate's own.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    mps: u64,
    mrrs: u64,
}

impl Sizes {
    fn read(self, n: u64) -> u64 {
        24 * n.div_ceil(self.mrrs) + 20 * n.div_ceil(self.mps.min(self.mrrs)) + n.next_multiple_of(4)
    }

    /// Fetch, completion, and the share of doorbells and interrupts.
    fn commands(self, commands: u64, rings: u64) -> u64 {
        commands * (self.read(64) + 40) + rings * (2 * 28 + 24)
    }
}

fn profiles() -> impl Strategy<Value = (Profile, Sizes)> {
    let name = prop::sample::select(Profile::names());
    (name, 7u32..=12, 7u32..=12).prop_map(|(name, mps, mrrs)| {
        let (mps, mrrs) = (1 << mps, 1 << mrrs);
        let profile = Profile::by_name(name).unwrap().with_mps(mps).unwrap().with_mrrs(mrrs).unwrap();
        (profile, Sizes { mps: mps.into(), mrrs: mrrs.into() })
    })
}

proptest! {
    #[test]
    fn wire_bytes_follow_formulas_of_their_own((profile, sizes) in profiles(), n in 0u64..9000) {
        let wire = |method| both(method, n, &profile).1;
        let one = sizes.commands(1, 1);
        let pages = n.div_ceil(4096);
        let list = if pages > 2 { sizes.read(8 * (pages - 1)) } else { 0 };
        let moved = if profile.habits.whole_page_prp { pages * sizes.read(4096) } else { sizes.read(n) };
        prop_assert_eq!(wire(Method::Prp), one + list + moved);
        prop_assert_eq!(wire(Method::Sgl), one + sizes.read(n));

        let chunks = n.div_ceil(64);
        let fetched = if profile.habits.chunk_burst { sizes.read(64 * chunks) } else { chunks * sizes.read(64) };
        prop_assert_eq!(wire(Method::Inline), one + fetched);
        prop_assert_eq!(wire(Method::Hybrid), if n <= 35 { one } else { one + fetched });

        let commands = 1 + n.saturating_sub(35).div_ceil(56);
        let rings = if profile.habits.fragments_one_by_one { commands } else { 1 };
        prop_assert_eq!(wire(Method::Piggyback), sizes.commands(commands, rings));
        let transfers = n.saturating_sub(11).div_ceil(28);
        let rings = if profile.habits.fragments_one_by_one { transfers } else { u64::from(transfers > 0) };
        prop_assert_eq!(wire(Method::PiggybackPt), one + sizes.commands(transfers, rings));
    }

    #[test]
    fn hybrid_never_costs_more_bytes_than_either_of_its_parts_under_cosmos(n in 0u64..8192) {
        let profile = cosmos();
        let wire = |method| both(method, n, &profile).1;
        prop_assert!(wire(Method::Hybrid) <= wire(Method::Inline).min(wire(Method::Piggyback)));
    }

    #[test]
    fn a_wider_link_never_makes_a_put_slower((profile, _) in profiles(), n in 0u64..20_000) {
        let narrow = profile.clone().with_link("gen2x1").unwrap();
        let wide = profile.with_link("gen6x16").unwrap();
        for method in Method::CONCRETE {
            prop_assert!(cost::of_put(method, n, &wide).ps <= cost::of_put(method, n, &narrow).ps, "{}", method);
        }
    }
}
