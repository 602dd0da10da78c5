//! The real records by every transfer method: written, closed, reopened, read back, compared.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use byway::Method;
use byway::uri::{of_image, with_options};
use byway_console::records::{Format, Record, Records};
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::experiment::{self, Run};
use byway_measure::setting::{Setting, profile};
use byway_measure::subject::Subject;

use super::measured::{COSMOS, ImportPoint};

/// Identifier of the image of a report (RFC 9562, version 8), and the serial number that follows from it.
const UUID: [u8; 16] = *b"byway \x80repo\x80rt 1";
const SERIAL: &str = "62797761792080726570";

/// Imports the records of a file by each method into a namespace of its own in one image, `records.img` in `dir`.
///
/// # Errors
/// When the file is no Unicode Character Database, a put fails, or the image cannot be made anew.
pub fn run(dir: &Path, file: &Path, interrupt: &Interrupt) -> Result<Vec<ImportPoint>> {
    let records = read(file)?;
    let image = dir.join("records.img");
    remove_earlier(&image)?;
    let profile = profile(COSMOS)?;
    Subject::create_image(&image, &profile, Method::ALL.len(), UUID)?;
    let progress = Progress::new("records", 2 * (Method::ALL.len() * records.len()) as u64);
    let run = Run { count: records.len() as u64, seed: 0, interrupt, progress: &progress };
    let mut points = Vec::new();
    for (nsid, method) in (1..).zip(Method::ALL) {
        progress.say(&format!("write records by {method}"));
        let mut subject = Subject::image(&image, nsid, &Setting::of(&profile, method))?;
        points.push(ImportPoint { stored: experiment::store(&mut subject, &records, &run)?, same: 0 });
    }
    for (nsid, point) in (1..).zip(&mut points) {
        progress.say(&format!("compare {}", point.stored.row.method));
        // The device was closed after writing: what is read here was found again in the file.
        let mut subject = Subject::image(&image, nsid, &Setting::of(&profile, Method::Prp))?;
        point.same = compare(&mut subject, &records, &run)?;
        ensure!(
            point.same == records.len() as u64,
            "{} of {} records by {} came back changed or not at all",
            records.len() as u64 - point.same,
            records.len(),
            point.stored.row.method
        );
    }
    Ok(points)
}

/// Removes the image of an earlier report, and no other file.
fn remove_earlier(image: &Path) -> Result<()> {
    if image.symlink_metadata().is_err() {
        return Ok(());
    }
    let opened = byway::embedded::open(&with_options(&of_image(image), "readonly=1"));
    let is_ours = opened.is_ok_and(|device| device.identity().serial == SERIAL);
    ensure!(
        is_ours,
        "{} is no image of an earlier report and is left as it is: move it first",
        image.display()
    );
    std::fs::remove_file(image).with_context(|| format!("make {} anew", image.display()))
}

fn read(file: &Path) -> Result<Vec<Record>> {
    let open = File::open(file).with_context(|| format!("open {}", file.display()))?;
    let records: Result<Vec<Record>, _> = Records::new(BufReader::new(open), Format::Unicode).collect();
    let records = records.with_context(|| format!("read {}", file.display()))?;
    ensure!(!records.is_empty(), "{} holds no record", file.display());
    Ok(records)
}

fn compare(subject: &mut Subject, records: &[Record], run: &Run) -> Result<u64> {
    let mut same = 0;
    for (index, record) in records.iter().enumerate() {
        let value = subject.get(&record.key)?;
        same += u64::from(value.as_deref() == Some(record.value.as_slice()));
        run.tick(index, records.len())?;
    }
    Ok(same)
}
