//! `byway check`: whether an image is sound, and making it so.

use std::io::Write;

use anyhow::Result;
use byway::{Checked, Finding, Hit, Remedy};
use byway_console::failure::{No, Unusable};
use byway_console::size;
use byway_console::terminal::{Interrupt, Progress, print_json};
use serde::Serialize;

use crate::args::Check;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    image: String,
    clean: bool,
    usable: bool,
    repaired: bool,
    namespaces: u64,
    keys: u64,
    live_bytes: u64,
    known_lost: u64,
    findings: Vec<ReportedFinding>,
}

#[derive(Debug, Serialize)]
struct ReportedFinding {
    structure: &'static str,
    place: String,
    what: String,
    remedy: &'static str,
    hits: Vec<ReportedHit>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ReportedHit {
    Blocks { nsid: u32, first_lba: u64, count: u64 },
    Pages { nsid: u32, first: u64, count: u64 },
    Key { nsid: u32, hex: String },
    Namespace { nsid: u32 },
}

/// Checks an image, or repairs it.
///
/// # Errors
/// When it is no image, when something was found, when it cannot be used: the exit code says which.
pub fn run(args: &Check, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    interrupt.ends_at_once(match args.repair {
        true => "a repair that is run again goes on with what is left",
        false => "the image is as it was",
    })?;
    let progress = Progress::new("check", 0);
    let mut watch = |what: &'static str, done, total| progress.set(what, done, total);
    let checked = match args.repair {
        true => byway::repair(&args.image, &mut watch),
        false => byway::check(&args.image, &mut watch),
    };
    drop(progress);
    let checked = checked?;
    if args.json {
        print_json(out, &report(args, &checked))?;
    } else {
        print(out, args, &checked)?;
    }
    out.flush()?;
    verdict(args, &checked)
}

fn verdict(args: &Check, checked: &Checked) -> Result<()> {
    let image = args.image.display();
    let count = size::counted(checked.findings.len() as u64, "finding");
    match (checked.is_clean(), checked.is_usable(), args.repair) {
        (true, ..) => Ok(()),
        (false, false, _) => Err(Unusable(format!("{image} cannot be used as it is: {count}")).into()),
        (false, true, true) => Err(No(format!("{image} was repaired: {count}")).into()),
        (false, true, false) if checked.loses() => {
            Err(No(format!("{image} has lost data: {count}; --repair drops it and restores the rest")).into())
        }
        (false, true, false) => Err(No(format!("{image}: {count}; --repair restores all of it")).into()),
    }
}

fn print(out: &mut impl Write, args: &Check, checked: &Checked) -> Result<()> {
    for finding in &checked.findings {
        put!(out, "{:9} {finding}\n", done(finding.remedy, args.repair))?;
    }
    if checked.is_clean() {
        put!(out, "clean: ")?;
    }
    let live = size::human(checked.live_bytes);
    let namespaces = size::counted(checked.namespaces, "namespace");
    let keys = size::counted(checked.keys, "key");
    put!(out, "{namespaces}, {keys}, {live} of live data read\n")?;
    if checked.known_lost > 0 {
        let (units, are, they) = match checked.known_lost {
            1 => ("unit", "is", "it is"),
            _ => ("units", "are", "they are"),
        };
        let lost = checked.known_lost;
        put!(out, "{lost} {units} {are} known as lost: reads say so until {they} written\n")?;
    }
    Ok(())
}

/// What becomes, or became, of a finding.
fn done(remedy: Remedy, repair: bool) -> &'static str {
    match (remedy, repair) {
        (Remedy::Restore, true) => "restored",
        (Remedy::Restore, false) => "damaged",
        (Remedy::Drop, true) => "dropped",
        (Remedy::Drop, false) => "lost",
        (Remedy::None, _) => "unusable",
    }
}

fn report(args: &Check, checked: &Checked) -> Report {
    Report {
        image: args.image.display().to_string(),
        clean: checked.is_clean(),
        usable: checked.is_usable(),
        repaired: args.repair && checked.is_usable() && !checked.is_clean(),
        namespaces: checked.namespaces,
        keys: checked.keys,
        live_bytes: checked.live_bytes,
        known_lost: checked.known_lost,
        findings: checked.findings.iter().map(reported).collect(),
    }
}

fn reported(finding: &Finding) -> ReportedFinding {
    ReportedFinding {
        structure: finding.structure,
        place: finding.place.clone(),
        what: finding.what.clone(),
        remedy: finding.remedy.name(),
        hits: finding.hits.iter().map(reported_hit).collect(),
    }
}

fn reported_hit(hit: &Hit) -> ReportedHit {
    match hit {
        Hit::Blocks { nsid, first_lba, count } => {
            ReportedHit::Blocks { nsid: *nsid, first_lba: *first_lba, count: *count }
        }
        Hit::Pages { nsid, first, count } => ReportedHit::Pages { nsid: *nsid, first: *first, count: *count },
        Hit::Key { nsid, key } => {
            ReportedHit::Key { nsid: *nsid, hex: key.iter().map(|byte| format!("{byte:02x}")).collect() }
        }
        Hit::Namespace { nsid } => ReportedHit::Namespace { nsid: *nsid },
    }
}
