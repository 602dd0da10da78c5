//! Experiments: a fresh device in memory, puts one at a time, one row.

use std::fmt;

use anyhow::{Context, Result};
use byway::{Method, Profile};
use byway_console::records::Record;
use byway_console::terminal::{Interrupt, Progress};

use crate::puts::{self, Put, Tally, Target};
use crate::rows::{Stored, TransferRow, WorkloadRow};
use crate::setting::Setting;
use crate::subject::Subject;
use crate::thresholds::Threshold;
use crate::workload::{Values, Workload};

/// Sizes that calibration tries before it looks closer.
const CALIBRATED_BYTES: [u32; 12] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Fine-grained methods that `prp` is compared with.
const FINE_GRAINED: [Method; 2] = [Method::Piggyback, Method::Cxl];
/// Key of the put that is not measured, of a length that no workload has.
const FIRST_KEY: &[u8] = b"first";
/// Puts between two steps of the progress bar.
const STEP: usize = 256;

/// Size, seed, interruption and progress bar of a measurement.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Puts.
    pub count: u64,
    /// Decides keys, sizes and values.
    pub seed: u64,
    /// Ends the work.
    pub interrupt: &'a Interrupt,
    /// Shows the work.
    pub progress: &'a Progress,
}

impl Run<'_> {
    /// What runs after number `index` of `count` puts.
    pub fn tick(&self, index: usize, count: usize) -> Result<()> {
        let done = index + 1;
        if done.is_multiple_of(STEP) {
            self.progress.advance(STEP as u64);
        } else if done == count {
            self.progress.advance((count % STEP) as u64);
        }
        Ok(self.interrupt.check()?)
    }
}

/// Puts of one size.
///
/// # Errors
/// When the device refuses the setting or a put, or the run is interrupted.
pub fn transfer(setting: &Setting, size_bytes: u32, run: &Run) -> Result<TransferRow> {
    let (tally, subject) = measure_workload(setting, Workload::A { size_bytes }, run)?;
    Ok(tally.row(subject.named()))
}

/// Puts of one workload.
///
/// # Errors
/// As [`transfer`].
pub fn workload(setting: &Setting, workload: Workload, run: &Run) -> Result<WorkloadRow> {
    let (tally, subject) = measure_workload(setting, workload, run)?;
    let flash = subject.flash();
    let user_bytes = tally.value_bytes + tally.count * 4;
    let put = tally.row(subject.named());
    Ok(WorkloadRow {
        workload: workload.to_string(),
        ops_per_s_model: put.model_ns_mean.map(|ns| 1e9 / ns),
        put,
        nand_pages: flash.programs,
        waf: (flash.programs * flash.page_bytes) as f64 / user_bytes as f64,
    })
}

fn measure_workload(setting: &Setting, workload: Workload, run: &Run) -> Result<(Tally, Subject)> {
    let sizes = workload.sizes(run.count as usize, run.seed);
    let values = Values::new(sizes.iter().copied().max().unwrap_or(0), run.seed);
    let bytes = sizes.iter().map(|&size| u64::from(size)).sum();
    let mut subject = Subject::in_memory(setting, run.count, bytes)?;
    // What only the first put of a queue costs (binding its window of device memory) is not the method's.
    subject.put(FIRST_KEY, values.value(0, sizes.first().copied().unwrap_or(0)))?;
    subject.finish()?;
    let tally = puts::puts(
        &mut subject,
        sizes.len(),
        |index, put| {
            let key = workload.key(index as u32, run.seed);
            put(Put { key: &key, value: values.value(index, sizes[index]) })
        },
        |index| run.tick(index, sizes.len()),
    )?;
    Ok((tally, subject))
}

/// Puts records one after another.
///
/// # Errors
/// When the device refuses one, which is named by its number, or the run is interrupted.
pub fn store(subject: &mut Subject, records: &[Record], run: &Run) -> Result<Stored> {
    let before = subject.flash();
    let tally = puts::puts(
        subject,
        records.len(),
        |index, put| {
            let Record { key, value } = &records[index];
            put(Put { key, value }).context(OfRecord(index))
        },
        |index| run.tick(index, records.len()),
    )?;
    let nand_pages = subject.flash().programs - before.programs;
    Ok(Stored { row: tally.row(subject.named()), nand_pages })
}

/// Error context: index of the record that failed, from 0.
#[derive(Debug)]
pub struct OfRecord(pub usize);

impl fmt::Display for OfRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}", self.0 + 1)
    }
}

/// Most puts that calibrating one profile takes.
pub fn calibration_puts(count: u64) -> u64 {
    // For each fine-grained method each size by it and by prp, then a bisection between two powers of two, of 12 steps at most.
    count * FINE_GRAINED.len() as u64 * 2 * (CALIBRATED_BYTES.len() as u64 + 12)
}

/// Finds the sizes from which on `prp` is as quick as each fine-grained method.
///
/// Sizes are tried by powers of two, as the paper did, and then to the byte between the last two.
///
/// # Errors
/// As [`transfer`].
pub fn calibrate(profile: &Profile, setting: &str, run: &Run) -> Result<Vec<Threshold>> {
    FINE_GRAINED.into_iter().map(|below| threshold(profile, setting, below, run)).collect()
}

fn threshold(profile: &Profile, setting: &str, below: Method, run: &Run) -> Result<Threshold> {
    let time = |method: Method, size_bytes: u32| -> Result<f64> {
        let row = transfer(&Setting::of(profile, method), size_bytes, run)?;
        row.model_ns_mean.context("the virtual clock models time")
    };
    let prp_is_as_quick =
        |size_bytes: u32| Ok::<_, anyhow::Error>(time(Method::Prp, size_bytes)? <= time(below, size_bytes)?);
    let mut found = Threshold {
        setting: setting.to_owned(),
        below: below.name().to_owned(),
        tau_bytes: None,
        tried_bytes: None,
    };
    let mut slower = 0;
    for size_bytes in CALIBRATED_BYTES {
        if prp_is_as_quick(size_bytes)? {
            found.tried_bytes = Some(size_bytes);
            found.tau_bytes = Some(bisect(slower, size_bytes, prp_is_as_quick)?);
            break;
        }
        slower = size_bytes;
    }
    Ok(found)
}

/// The least number above `no` and up to `yes` for which `holds`.
fn bisect(mut no: u32, mut yes: u32, holds: impl Fn(u32) -> Result<bool>) -> Result<u32> {
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Ok(yes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_bisection_finds_the_first_number_that_holds() {
        for first in 5..=64 {
            assert_eq!(bisect(4, 64, |number| Ok(number >= first)).unwrap(), first);
        }
    }
}
