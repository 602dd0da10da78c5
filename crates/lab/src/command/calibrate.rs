//! `byway-lab calibrate`: the sizes from which on `prp` is as fast as a fine-grained method, kept for the adaptive one.

use std::io::Write;

use anyhow::Result;
use byway::Profile;
use byway_console::table::Table;
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_measure::experiment::{self, Run};
use byway_measure::setting::profile;
use byway_measure::thresholds::Thresholds;

use crate::args::Calibrate;

/// Runs the calibration.
///
/// # Errors
/// A profile that does not exist, a put that fails, a file that cannot be written, or an interruption.
pub fn run(args: &Calibrate, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let names: Vec<String> = match args.profile.as_slice() {
        [] => Profile::names().into_iter().map(str::to_owned).collect(),
        asked => asked.to_vec(),
    };
    let profiles = names.iter().map(|name| profile(name)).collect::<Result<Vec<_>>>()?;
    let puts = experiment::calibration_puts(args.count);
    let progress = Progress::of_phases("calibrate", profiles.len() as u64 * puts);
    let run = Run { count: args.count, seed: args.seed, interrupt, progress: &progress };
    let mut kept = Thresholds::load()?;
    let mut table = Table::new(&["profile", "below", "tau"]);
    for profile in &profiles {
        progress.begin(&format!("calibrate {}", profile.name), puts);
        for threshold in experiment::calibrate(profile, profile.name, &run)? {
            kept.keep(threshold.clone());
            if args.json {
                print_json(out, &threshold)?;
            }
            let tau = threshold.tau_bytes.map_or("over 8 KiB".to_owned(), |bytes| format!("{bytes} B"));
            table.push(vec![threshold.setting, threshold.below, tau]);
        }
    }
    drop(progress);
    let path = kept.save()?;
    if !args.json {
        put!(out, "{table}kept in {}\n", path.display())?;
    }
    Ok(())
}
