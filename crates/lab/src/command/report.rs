//! `byway-lab report`: everything measured, the page, and one table.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use byway_console::files;
use byway_console::table::{self, Table};
use byway_console::terminal::Interrupt;
use byway_figure::{FigureFile, Source};
use byway_measure::rows::{Stored, TransferRow};

use crate::args::Report;
use crate::fit::fit;
use crate::report::claims::{Claim, Verdict};
use crate::report::compute::{both_ways, shown, texts};
use crate::report::figures;
use crate::report::html;
use crate::report::import;
use crate::report::measured::{COSMOS, Measured};
use crate::report::run::Plan;

/// Puts of each workload, as usual and as the papers had.
const PUTS: (u64, u64) = (100_000, 1_000_000);

/// Measures, writes `report.html`, `report.json` and the figures of the folder `figures`, and prints the table of methods.
///
/// # Errors
/// When something cannot be measured or written, or the work is interrupted.
pub fn run(args: &Report, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let puts = args.count.unwrap_or(if args.full { PUTS.1 } else { PUTS.0 });
    ensure!(puts > 0, "a report of 0 puts shows nothing");
    fs::create_dir_all(&args.dir).with_context(|| format!("make {}", args.dir.display()))?;
    let imports = match &args.records {
        Some(records) => import::run(&args.dir, records, interrupt)?,
        None => Vec::new(),
    };
    let plan = Plan { puts, seed: args.seed, interrupt };
    let mut computed = both_ways::run(&args.dir, &plan)?;
    computed.texts = texts::run(&plan)?;
    let mut measured = plan.run()?;
    measured.imports = imports;
    measured.computed = computed;
    let tables = tables(&measured);
    let command = format!("byway-lab report DIR --count {puts} --seed {}", args.seed);
    let source = Source::of_this_machine(command)
        .with_seed(args.seed)
        .with_spread("none: counts and modelled times are the same in every run");
    let (page, downloads) = html::page(&measured, &figures::sections(&measured, &fit()?, &source)?, &tables)?;
    files::replace(&args.dir.join("report.html"), page.as_bytes())?;
    files::replace(&args.dir.join("report.json"), &serde_json::to_vec(&measured)?)?;
    write_downloads(&args.dir, &downloads)?;
    for (title, table) in &tables {
        put!(out, "\n{title}\n\n{table}")?;
    }
    write_verdicts(&measured, out)?;
    put!(out, "\nwritten: {}\n", args.dir.join("report.html").display())?;
    Ok(())
}

/// Writes the files that a page links to into the folder of its page.
///
/// # Errors
/// When one cannot be written.
pub fn write_downloads(dir: &Path, downloads: &[FigureFile]) -> Result<()> {
    for file in downloads {
        let path = dir.join(&file.name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        files::replace(&path, &file.bytes)?;
    }
    Ok(())
}

const HEADINGS: [&str; 6] = ["method", "payload B", "wire B", "flash pages", "model latency", "wall puts"];

/// The tables of a report: the real records, if there were any, the mixed workload M, and queries.
fn tables(measured: &Measured) -> Vec<(String, Table)> {
    let mut tables = Vec::new();
    if let Some(first) = measured.imports.first() {
        let mut table = Table::new(&HEADINGS);
        for point in &measured.imports {
            let Stored { row, nand_pages } = &point.stored;
            table.push(cells(&row.method, row, *nand_pages));
        }
        let title = format!(
            "{} Unicode records of {:.0} bytes, by every method; reopened, read back, the same: {}",
            first.stored.row.count,
            first.stored.row.size,
            if measured.imports.iter().all(|point| point.same == point.stored.row.count) {
                "all"
            } else {
                "NOT ALL"
            },
        );
        tables.push((title, table));
    }
    let mut table = Table::new(&HEADINGS);
    for label in measured.labels(COSMOS) {
        if let Some(row) = measured.workload(COSMOS, label, "M") {
            table.push(cells(label, &row.put, row.nand_pages));
        }
    }
    tables.push((format!("Workload M, {} puts, {COSMOS}", measured.puts), table));
    tables.extend(shown::tables(&measured.computed));
    tables
}

fn cells(label: &str, row: &TransferRow, nand_pages: u64) -> Vec<String> {
    vec![
        label.to_owned(),
        table::mean(row.payload_bytes),
        table::mean(row.wire_bytes),
        nand_pages.to_string(),
        table::time(row.model_ns_mean),
        table::rate(1e9 / row.wall_ns_mean),
    ]
}

/// The papers' claims, one line each.
fn write_verdicts(measured: &Measured, out: &mut impl Write) -> Result<()> {
    let mut table = Table::new(&["claim", "paper", "ours", "residual", "verdict", "what the paper says"]);
    for claim in Claim::all() {
        let all = claim.ours(measured);
        let best = all.iter().find(|ours| claim.figure.agrees(ours.figure)).or(all.first());
        let (ours, residual) = match best {
            Some(ours) => (ours.figure.text(), claim.figure.residual(ours.figure)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let verdict = match claim.verdict(measured) {
            Verdict::Reproduced(by) => format!("reproduced: {by}"),
            Verdict::Residual => "residual".to_owned(),
            Verdict::NotMeasured => "not measured".to_owned(),
        };
        table.push(vec![
            claim.id.to_owned(),
            claim.figure.text(),
            ours,
            residual,
            verdict,
            claim.says.to_owned(),
        ]);
    }
    put!(out, "\nThe papers' claims\n\n{table}")?;
    Ok(())
}
