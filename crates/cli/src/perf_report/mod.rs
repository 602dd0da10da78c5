//! Reports of `byway perf`: what was measured as JSON, as figures, and as a page; one run, or several beside each other.

mod data;
mod figures;
mod labels;
mod options;
mod page;
mod ratios;
mod side;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use byway_console::files;
use byway_console::terminal::Interrupt;

pub use data::{Measurement, Run};
pub use ratios::{differing_settings, ratios};

/// The name of a report's data in its folder.
const DATA: &str = "report.json";

/// The name of its page.
const PAGE: &str = "report.html";

/// A report under the name that figures and tables have for it.
#[derive(Debug)]
pub struct Named {
    /// The name of its folder, or `this run` where a run is printed.
    pub name: String,
    /// What was measured.
    pub measurement: Measurement,
}

/// The name of a run at one depth of several.
pub fn name_of_depth(depth: u32) -> String {
    format!("depth {depth}")
}

impl Named {
    /// Whether its loads are one load at several depths.
    fn is_by_depth(&self) -> bool {
        let runs = &self.measurement.runs;
        runs.len() > 1 && runs.iter().all(|run| run.job == name_of_depth(run.depth))
    }
}

/// Reads the report of a folder, or of its file of data.
///
/// # Errors
/// When there is none, or it is none of ours.
pub fn read(path: &Path, interrupt: &Interrupt) -> Result<Named> {
    let file = if path.is_dir() { path.join(DATA) } else { path.to_owned() };
    let bytes = files::read(&file, interrupt)?;
    let measurement: Measurement = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is no report of byway perf --report", file.display()))?;
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let is_data = file.file_name() == Some(DATA.as_ref()) && !folder.is_empty();
    let name = if is_data { folder } else { file.file_stem().unwrap_or_default() };
    Ok(Named { name: name.to_string_lossy().into_owned(), measurement })
}

/// Makes the folder of a report, before anything is measured for it.
///
/// # Errors
/// What the file system says; a report that is there already, which is left as it is.
pub fn make_folder(folder: &Path) -> Result<()> {
    for name in [DATA, PAGE] {
        let is_free = !folder.join(name).exists();
        ensure!(
            is_free,
            "{} has a report already, which is left as it is: name another folder",
            folder.display()
        );
    }
    std::fs::create_dir_all(folder.join("figures"))
        .with_context(|| format!("make the folder {}", folder.display()))
}

/// Writes the report of the first of these, beside the others, into a folder: `report.html`, `report.json` and `figures/`. Gives the
/// page's path. [`make_folder`] made the folder.
///
/// # Errors
/// What the file system says; measurements without a command that succeeded.
pub fn write(folder: &Path, of: &mut [Named]) -> Result<PathBuf> {
    number_same_names(of);
    let first = of.first().context("there is nothing to report")?;
    let has_commands = first.measurement.runs.iter().any(|run| !run.sides.is_empty());
    ensure!(has_commands, "no command succeeded, so there is nothing to report");
    let (page, figures) = page::page(of)?.finish();
    for file in figures {
        files::replace(&folder.join(&file.name), &file.bytes)?;
    }
    files::replace(&folder.join(DATA), &serde_json::to_vec_pretty(&first.measurement)?)?;
    let path = folder.join(PAGE);
    files::replace(&path, page.as_bytes())?;
    Ok(path)
}

/// Gives reports of one name numbers, so that a legend distinguishes them.
fn number_same_names(of: &mut [Named]) {
    for index in 1..of.len() {
        let (before, from) = of.split_at_mut(index);
        if let Some(named) =
            from.first_mut().filter(|named| before.iter().any(|other| other.name == named.name))
        {
            named.name = format!("{} ({})", named.name, index + 1);
        }
    }
}
