//! The fit, the claims that it keeps, and the shipped profile, beside a device.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use byway::AdaptivePolicy;
use byway_console::terminal::{Interrupt, Progress};
use byway_link::Profile;
use byway_measure::experiment::{self, Run};
use byway_measure::setting::Setting;
use byway_measure::workload::Workload;

use super::*;
use crate::report::claims::times::{By, Load};
use crate::report::measured::COSMOS_FITTED;

static FIT: LazyLock<Fit> = LazyLock::new(|| fit().unwrap());

fn outcome(id: &str) -> &'static Outcome {
    FIT.outcomes.iter().find(|outcome| outcome.claim.id == id).unwrap()
}

fn ids(claims: &[&Claim]) -> Vec<&'static str> {
    claims.iter().map(|claim| claim.id).collect()
}

#[test]
fn shipped_profile_is_what_the_solver_gives() {
    let cosmos = Profile::by_name("cosmos").unwrap();
    let shipped = Profile::by_name(COSMOS_FITTED).unwrap();
    let given = FIT.values.rounded().in_place_of_cosmos(&cosmos);
    assert_eq!(Profile { name: shipped.name, ..given }, shipped, "{:?}", FIT.values);
}

#[test]
fn fitted_claims_hold_under_the_shipped_numbers() {
    let values = FIT.values.rounded();
    for point in points(&mut Forms::new().unwrap()) {
        let is_fitted = outcome(point.claim.id).is_fitted;
        let misses = point.rows.iter().map(|row| row.range.miss(row.ratio(&values)));
        assert_eq!(misses.fold(1.0, f64::max) <= 1.0 + 1e-4, is_fitted, "{}", point.claim.id);
    }
}

#[test]
fn claims_that_hold_together_are_these_and_no_others() {
    let left_out = FIT.outcomes.iter().filter(|outcome| !outcome.is_fitted);
    assert_eq!(
        left_out.map(|outcome| outcome.claim.id).collect::<Vec<_>>(),
        ["be-latency-bandslim", "bs-cxl-prp", "bs-m-throughput", "bs-c-throughput", "bs-adaptive-p-best"]
    );
    assert_eq!(FIT.ways, 1);
}

#[test]
fn claims_left_out_name_what_contradicts_them() {
    let against = |id| outcome(id).against.iter().map(|claims| ids(claims)).collect::<Vec<Vec<&str>>>();
    // Three commands against one: no more than two thirds can be saved, whatever a chunk takes.
    assert_eq!(against("be-latency-bandslim"), [Vec::<&str>::new()]);
    assert_eq!(against("bs-m-throughput"), [Vec::<&str>::new()]);
    assert!(against("bs-c-throughput").contains(&vec!["bs-halved"]));
    assert!(against("bs-cxl-prp").contains(&vec!["be-latency-prp"]));
    assert!(against("be-latency-prp").is_empty());
}

#[test]
fn claim_left_out_is_predicted_by_the_others() {
    for outcome in FIT.outcomes.iter().filter(|outcome| outcome.is_fitted) {
        for fared in &outcome.statements {
            let Predicted { near, least, most } = fared.left_out;
            let range = fared.statement.range;
            assert!(
                least <= near + 1e-6 && near <= most + 1e-6,
                "{}: {:?}",
                outcome.claim.id,
                fared.left_out
            );
            // What all claims allow together, the others alone allow too.
            assert!(least <= range.most && range.least <= most, "{}: {:?}", outcome.claim.id, fared.left_out);
        }
    }
    let halved = outcome("bs-halved").statements[0].left_out;
    assert!((0.47..0.51).contains(&halved.near), "{halved:?}");
}

#[test]
fn page_of_1_17_and_chunk_of_0_29_commands_are_what_comes_out() {
    // "40.4 % at one chunk" and "up to 256 B" hold together at a page of 1.17 commands and a chunk of 0.29.
    let (chunk, page) = FIT.place(&FIT.values);
    assert!((page - 1.17).abs() < 0.01 && (chunk - 0.29).abs() < 0.01, "{page} {chunk}");
}

#[test]
fn regions_lie_within_bounds_and_hold_the_fitted_values() {
    for ((parameter, region), value) in PARAMETERS.iter().zip(&FIT.regions).zip(FIT.values.0) {
        let Region { least_ns, most_ns } = *region;
        assert!(
            parameter.least_ns <= least_ns + 1e-3 && most_ns <= parameter.most_ns + 1e-3,
            "{}",
            parameter.name
        );
        assert!(
            least_ns <= value + 1e-3 && value <= most_ns + 1e-3,
            "{}: {region:?} {value}",
            parameter.name
        );
    }
    let page = PARAMETERS.iter().position(|parameter| parameter.name == "firmware: rest of a page").unwrap();
    assert!(FIT.regions[page].least_ns > 5_000.0, "the claims do not need a page of that length");
}

#[test]
fn a_device_takes_the_mean_times_of_workloads_that_the_fit_supposes() {
    let (interrupt, progress) = (Interrupt::listen().unwrap(), Progress::of_phases("fit", 1));
    // So many puts have the shares of B, C and D exactly.
    let run = Run { count: 90, seed: 1, interrupt: &interrupt, progress: &progress };
    let mut forms = Forms::new().unwrap();
    let shipped = Profile::by_name(COSMOS_FITTED).unwrap();
    for workload in [Workload::B, Workload::C, Workload::D] {
        for by in [By::Method(Method::Piggyback), By::Threshold(Method::Piggyback, 128)] {
            let mut setting = Setting::of(&shipped, by.method(0));
            if let By::Threshold(below, tau_bytes) = by {
                setting = Setting::of(&shipped, Method::Adaptive);
                setting.policy = AdaptivePolicy::Threshold { tau_bytes, alpha: 1.0, below };
            }
            let row = experiment::workload(&setting, workload, &run).unwrap();
            let form_ns = forms.of(Time::workload(by, workload)).at(&FIT.values.rounded());
            let off = row.put.model_ns_mean.unwrap() / form_ns - 1.0;
            assert!(off.abs() < 1e-3, "{workload} {by:?}: {off}");
        }
    }
}

#[test]
fn each_paper_alone_loses_fewer_claims_than_both() {
    let [byteexpress, bandslim] = FIT.alone.as_slice() else { panic!("two papers") };
    assert_eq!(
        byteexpress.left_out.iter().map(|way| ids(way)).collect::<Vec<_>>(),
        [["be-latency-bandslim"]]
    );
    assert!(bandslim.left_out.iter().all(|way| ids(way).contains(&"bs-m-throughput")));
    assert_eq!(byteexpress.claims + bandslim.claims, FIT.outcomes.len());
}

#[test]
fn a_device_takes_the_times_that_the_fit_supposes() {
    let (interrupt, progress) = (Interrupt::listen().unwrap(), Progress::of_phases("fit", 1));
    let run = Run { count: 3, seed: 1, interrupt: &interrupt, progress: &progress };
    let mut forms = Forms::new().unwrap();
    let times = FIT.outcomes.iter().flat_map(|outcome| &outcome.statements);
    for time in times.flat_map(|fared| [fared.statement.over, fared.statement.under]) {
        let Load::Size(size) = time.load else { continue };
        let profile = FIT.values.rounded().in_place_of_cosmos(forms.profile(time.link));
        let shipped = Profile { name: COSMOS_FITTED, ..profile };
        let setting = Setting::of(&shipped, time.by.method(size));
        let device_ns = experiment::transfer(&setting, size, &run).unwrap().model_ns_mean.unwrap();
        let form = forms.of(time);
        // The model has an interrupt's 24 bytes ahead of its command's end, the device behind it: 6 ns a command. A value
        // may begin within a cache line, which is one line more.
        let line_ns = shipped.host.cxl_line_ps / 1000 * u64::from(time.by.method(size) == Method::Cxl);
        let within_ns = 1.0 + 6.0 * form.counts().commands + line_ns as f64;
        let form_ns = form.at(&FIT.values.rounded());
        assert!((device_ns - form_ns).abs() <= within_ns, "{time}: {device_ns} ns, {form_ns} ns");
    }
}
