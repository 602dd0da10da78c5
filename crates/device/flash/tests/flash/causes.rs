//! Every byte that is programmed has one cause, and the parts add up.

use crate::common::{MIB, extent, kv, nvm, page_of, small_profile, write_unit};
use byway_flash::{Cause, Flash, FlashCounters, FlashOptions, MediaKind, RunOptions};
use proptest::prelude::*;

const SIZE: u64 = 12 * MIB;
const UNITS: u64 = SIZE / 2 / 4096;
const PAGES: u64 = SIZE / 2 / 16384;

#[derive(Debug, Clone)]
enum Step {
    Unit(u64),
    Page(u64, Cause, u64),
    Trim(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cause = prop_oneof![Just(Cause::Host), Just(Cause::Index), Just(Cause::LogCompaction)];
    let step = prop_oneof![
        6 => (0..UNITS).prop_map(Step::Unit),
        3 => (0..PAGES, cause, 0..16384_u64).prop_map(|(page, cause, waste)| Step::Page(page, cause, waste)),
        1 => (0..UNITS).prop_map(Step::Trim),
    ];
    proptest::collection::vec(step, 2000..6000)
}

/// Does a step; says the payload that a host handed in with it.
fn apply(flash: &mut Flash, step: &Step) -> u64 {
    let (blocks, pairs) = (extent(flash, 1), extent(flash, 2));
    match *step {
        Step::Unit(unit) => {
            write_unit(flash, blocks, unit, unit).unwrap();
            4096
        }
        Step::Page(page, cause, waste) => {
            let data = page_of(flash, page);
            flash.write_page(pairs, page, &data, cause, &mut 0).unwrap();
            flash.charge_packing(cause, waste);
            let payload = if cause == Cause::Host { 16384 - waste } else { 0 };
            flash.count_payload(payload);
            payload
        }
        Step::Trim(unit) => {
            flash.trim(blocks, unit..unit + 1).unwrap();
            0
        }
    }
}

/// Bytes of pages: the medium takes nothing else.
fn programmed_bytes(counters: &FlashCounters) -> u64 {
    counters.total().programs * 16384
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_of_all_causes_are_the_bytes_programmed(steps in steps(), ppm in 0..2000_u32) {
        let inject = format!("program:ppm={ppm},erase:ppm={ppm}").parse().unwrap();
        let run = RunOptions::default().injection(Some(inject));
        let options = FlashOptions::new(SIZE, small_profile(), MediaKind::Ram).run(run);
        let mut flash = Flash::create(options, &[nvm(SIZE / 2), kv(SIZE / 2)]).unwrap();
        let mut payload = 0;
        for step in &steps {
            payload += apply(&mut flash, step);
        }
        let counters = flash.counters();
        prop_assert_eq!(counters.total().program_bytes, programmed_bytes(counters));
        prop_assert_eq!(counters.accepted_bytes, payload);
        let parts: f64 = Cause::ALL.iter().filter_map(|cause| counters.write_amplification_of(*cause)).sum();
        prop_assert!((parts - counters.write_amplification().unwrap()).abs() < 1e-9);
    }
}
