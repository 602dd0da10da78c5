//! Running everything that a report shows.

use anyhow::{Context, Result};
use byway::{AdaptivePolicy, Method, Packing, Profile};
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::experiment::{self, Run};
use byway_measure::setting::{Setting, profile};
use byway_measure::workload::Workload;

use super::measured::{
    COSMOS, COSMOS_FITTED, COSMOS_GEN5, Measured, NATIVE_CXL, PackingPoint, Point, WorkloadPoint,
};

/// Value sizes of the plots over sizes.
const SIZES: [u32; 12] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Settings of the plots over sizes.
const SETTINGS: [&str; 5] = [COSMOS, COSMOS_FITTED, COSMOS_GEN5, "gen4x4", NATIVE_CXL];
/// Settings of the plots of workloads, with BandSlim's threshold there.
const WORKLOAD_SETTINGS: [(&str, u32); 2] = [(COSMOS, 128), (COSMOS_GEN5, 64)];
/// Puts of each size that thresholds are found by.
const CALIBRATED: u64 = 10;
/// A page, and what the papers' baseline stores one value in.
const BASELINE_UNIT_BYTES: u64 = 4096;

/// How a workload is run.
#[derive(Clone, Copy)]
enum Label {
    Method(Method),
    /// BandSlim's threshold over a fine-grained method.
    Threshold(&'static str, Method),
}

const LABELS: [Label; 8] = [
    Label::Method(Method::Prp),
    Label::Method(Method::Piggyback),
    Label::Method(Method::Inline),
    Label::Method(Method::Hybrid),
    Label::Method(Method::Cxl),
    Label::Method(Method::CxlPiggyback),
    Label::Threshold("adaptive-p", Method::Piggyback),
    Label::Threshold("adaptive-c", Method::Cxl),
];

impl Label {
    fn name(self) -> &'static str {
        match self {
            Self::Method(method) => method.name(),
            Self::Threshold(name, _) => name,
        }
    }

    fn setting(self, profile: &Profile, tau_bytes: u32) -> Setting {
        match self {
            Self::Method(method) => Setting::of(profile, method),
            Self::Threshold(_, below) => {
                let mut setting = Setting::of(profile, Method::Adaptive);
                setting.policy = AdaptivePolicy::Threshold { tau_bytes, alpha: 1.0, below };
                setting
            }
        }
    }
}

/// Size, seed and interruption of a run.
pub struct Plan<'a> {
    /// Puts of each workload; sizes take a hundredth.
    pub puts: u64,
    /// Decides keys, sizes and values.
    pub seed: u64,
    /// Ends the work.
    pub interrupt: &'a Interrupt,
}

impl Plan<'_> {
    fn size_puts(&self) -> u64 {
        (self.puts / 100).clamp(10, 1000)
    }

    /// All puts of a report, for its progress bar.
    fn total(&self) -> u64 {
        let settings = WORKLOAD_SETTINGS.len() as u64;
        SETTINGS.len() as u64 * self.puts_of_sizes()
            + settings * (experiment::calibration_puts(CALIBRATED) + self.puts_of_workloads(LABELS.len()))
            + Packing::ALL.len() as u64 * self.puts_of_workloads(1)
    }

    /// Puts of one setting over all sizes.
    fn puts_of_sizes(&self) -> u64 {
        (Method::ALL.len() * SIZES.len()) as u64 * self.size_puts()
    }

    /// Puts of all workloads by so many methods.
    fn puts_of_workloads(&self, methods: usize) -> u64 {
        (methods * Workload::MIXED.len()) as u64 * self.puts
    }

    /// Runs everything but the real records.
    ///
    /// # Errors
    /// When a device refuses a setting or a put, or the run is interrupted.
    pub fn run(&self) -> Result<Measured> {
        let progress = Progress::of_phases("report", self.total());
        self.run_with(&progress)
    }

    fn run_with(&self, progress: &Progress) -> Result<Measured> {
        let mut measured = Measured { puts: self.puts, seed: self.seed, ..Measured::default() };
        let run = |count| Run { count, seed: self.seed, interrupt: self.interrupt, progress };
        for setting in SETTINGS {
            progress.begin(&format!("sizes, {setting}"), self.puts_of_sizes());
            sizes(&mut measured, setting, &run(self.size_puts()))?;
        }
        for (setting, tau_bytes) in WORKLOAD_SETTINGS {
            let puts = experiment::calibration_puts(CALIBRATED);
            progress.begin(&format!("thresholds, {setting}"), puts);
            let found = experiment::calibrate(&profile_of(setting)?, setting, &run(CALIBRATED))?;
            measured.thresholds.extend(found);
            progress.begin(&format!("workloads, {setting}"), self.puts_of_workloads(LABELS.len()));
            workloads(&mut measured, (setting, tau_bytes), &run(self.puts))?;
        }
        for packing in Packing::ALL {
            progress.begin(&format!("packing, {}", packing.name()), self.puts_of_workloads(1));
            pack(&mut measured, packing, &run(self.puts))?;
        }
        Ok(measured)
    }
}

/// A profile, or `profile@link`.
///
/// # Errors
/// A profile or a link that does not exist.
pub fn profile_of(setting: &str) -> Result<Profile> {
    match setting.split_once('@') {
        Some((name, link)) => Ok(profile(name)?.with_link(link)?),
        None => profile(setting),
    }
}

fn sizes(measured: &mut Measured, setting: &str, run: &Run) -> Result<()> {
    let profile = profile_of(setting)?;
    for method in Method::ALL {
        for size_bytes in SIZES {
            let row = experiment::transfer(&Setting::of(&profile, method), size_bytes, run)
                .with_context(|| format!("{size_bytes} bytes by {method} under {setting}"))?;
            measured.points.push(Point { setting: setting.to_owned(), row });
        }
    }
    Ok(())
}

fn workloads(measured: &mut Measured, (setting, tau_bytes): (&str, u32), run: &Run) -> Result<()> {
    let profile = profile_of(setting)?;
    for label in LABELS {
        for workload in Workload::MIXED {
            let row = experiment::workload(&label.setting(&profile, tau_bytes), workload, run)
                .with_context(|| format!("workload {workload} by {} under {setting}", label.name()))?;
            let (setting, label) = (setting.to_owned(), label.name().to_owned());
            measured.workloads.push(WorkloadPoint { setting, label, row });
        }
    }
    Ok(())
}

fn pack(measured: &mut Measured, packing: Packing, run: &Run) -> Result<()> {
    let profile = profile(COSMOS)?;
    let page_bytes = u64::from(profile.flash.page_bytes);
    for workload in Workload::MIXED {
        let mut setting = Label::Threshold("adaptive-p", Method::Piggyback).setting(&profile, 128);
        setting.packing = packing;
        setting.flash = true;
        let row = experiment::workload(&setting, workload, run)
            .with_context(|| format!("workload {workload} with packing {}", packing.name()))?;
        let unit = |&size: &u32| u64::from(size.max(1)).next_multiple_of(BASELINE_UNIT_BYTES);
        let baseline: u64 = workload.sizes(run.count as usize, run.seed).iter().map(unit).sum();
        measured.packing.push(PackingPoint {
            packing: packing.name().to_owned(),
            workload: workload.name().to_owned(),
            nand_pages: row.nand_pages,
            baseline_pages: baseline.div_ceil(page_bytes),
            model_ns_mean: row.put.model_ns_mean.unwrap_or(0.0),
        });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_put_of_a_report_is_counted_in_its_phase() {
        let interrupt = Interrupt::listen().unwrap();
        let plan = Plan { puts: 20, seed: 1, interrupt: &interrupt };
        let progress = Progress::of_phases("report", plan.total());
        plan.run_with(&progress).unwrap();
        assert_eq!(progress.counts(), (plan.total(), plan.total()));
    }
}
