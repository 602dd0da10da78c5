//! The page of a report: settings, figures, tables, the machine.

use anyhow::Result;
use byway_console::table;
use byway_figure::Page;

use super::Named;
use super::data::Run;
use super::figures::figures;
use super::options;
use super::ratios::{differing_settings, ratios};
use super::side::{Figures, SideOfRun};

/// Words of the page, where a reader meets them first.
const TERMS: [(&str, &str); 4] = [
    ("latency", "time from the submission of a command to its completion, as the program sees it"),
    ("p99", "99th percentile: 99 of 100 commands took no longer"),
    ("depth", "commands that each thread keeps outstanding"),
    ("CPU", "processor time of the whole process for each command, threads of the device's included"),
];

/// What stands below a table of several runs.
const SPREAD: &str = "Median, min and max are of each figure by itself, over all runs; CPU is the median. Figures over time are of the run \
                      whose rate is the median.";

/// The page of these reports, of which the first is the one that was measured.
///
/// # Errors
/// A figure without a value.
pub fn page(of: &[Named]) -> Result<Page> {
    let mut page = Page::new(title(of));
    page.heading("Results");
    for named in of {
        if of.len() > 1 {
            page.html(&format!("<h3>{}</h3>\n", byway_figure::escape(&heading(named))));
        }
        results(&mut page, &named.measurement.runs);
        if named.measurement.runs.iter().any(|run| run.repeat > 1) {
            page.paragraph(SPREAD);
        }
    }
    if let [first, others @ ..] = of {
        others.iter().for_each(|other| comparison(&mut page, first, other));
    }
    page.terms(&TERMS);
    page.heading("Figures");
    page.figures(&figures(of))?;
    page.heading("Settings");
    of.iter().for_each(|named| settings(&mut page, named));
    page.paragraph("The same numbers are in report.json, which byway perf --compare reads.");
    Ok(page)
}

/// The report's name, and its load if there is one.
fn heading(of: &Named) -> String {
    match &of.measurement.runs[..] {
        [run] => format!("{}: {}", of.name, run.named()),
        _ => of.name.clone(),
    }
}

fn title(of: &[Named]) -> String {
    let loads = |named: &Named| {
        let runs = &named.measurement.runs;
        match &runs[..] {
            [run] => format!("{} on {}", run.named(), run.uri),
            [run, ..] if named.is_by_depth() => {
                format!("{} at {} depths on {}", run.rw, runs.len(), run.uri)
            }
            runs => byway_console::size::counted(runs.len() as u64, "job"),
        }
    };
    match of {
        [one] => format!("byway perf: {}", loads(one)),
        several => {
            let names = several.iter().map(|named| named.name.as_str()).collect::<Vec<_>>();
            format!("byway perf: {} compared", names.join(", "))
        }
    }
}

fn us(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e3))
}

fn results(page: &mut Page, runs: &[Run]) {
    let rows: Vec<Vec<String>> = runs.iter().flat_map(rows_of).collect();
    let headings = [
        "",
        "commands",
        "rate",
        "MiB/s",
        "mean, µs",
        "stdev, µs",
        "p50, µs",
        "p99, µs",
        "p99.9, µs",
        "max, µs",
        "CPU, µs",
    ];
    page.table(&headings, &rows);
}

fn rows_of(run: &Run) -> impl Iterator<Item = Vec<String>> {
    run.sides
        .iter()
        .flat_map(move |side| side.rows().into_iter().map(move |(of, row)| row_of(run, side, of, &row)))
}

fn row_of(run: &Run, side: &SideOfRun, of: &str, row: &Figures) -> Vec<String> {
    let name = format!("{} {} {of}", run.job, side.side);
    vec![
        name.trim().to_owned(),
        row.ops.to_string(),
        table::rate(row.iops),
        format!("{:.1}", row.mib_per_s),
        format!("{:.2}", row.mean_ns / 1e3),
        format!("{:.2}", row.stdev_ns / 1e3),
        us(row.at(50.0)),
        us(row.at(99.0)),
        us(row.at(99.9)),
        us(Some(row.max_ns)),
        format!("{:.3}", run.cpu_us_per_op),
    ]
}

/// Figures of two reports, and their ratios.
fn comparison(page: &mut Page, first: &Named, other: &Named) {
    let rows = ratios(first, other);
    if rows.is_empty() {
        return page.paragraph(&format!("{} has no load of the same job and direction.", other.name));
    }
    page.html(&format!(
        "<h3>{} beside {}</h3>\n",
        byway_figure::escape(&first.name),
        byway_figure::escape(&other.name)
    ));
    let ratio = format!("{} / {}", first.name, other.name);
    page.table(&["", first.name.as_str(), other.name.as_str(), &ratio], &rows);
    if let Some(differing) = differing_settings(first, other) {
        page.paragraph(&differing);
    }
}

fn settings(page: &mut Page, named: &Named) {
    let origin = &named.measurement.origin;
    let unknown = || "not recorded".to_owned();
    let facts = [
        ("report", named.name.clone()),
        ("command", origin.command.clone()),
        ("machine", origin.machine.clone().unwrap_or_else(unknown)),
        ("version", named.measurement.version.clone()),
        ("commit", origin.commit.clone().unwrap_or_else(unknown)),
        ("date", origin.date.clone().unwrap_or_else(unknown)),
    ];
    page.terms(&facts.each_ref().map(|(name, fact)| (*name, fact.as_str())));
    let runs = &named.measurement.runs;
    let headings = runs.iter().map(|run| format!("{} {}", run.job, run.named()).trim().to_owned());
    let headings: Vec<String> = std::iter::once(String::new()).chain(headings).collect();
    page.table(&headings, &settings_of(runs));
}

/// A row for each setting that any of the runs has.
fn settings_of(runs: &[Run]) -> Vec<Vec<String>> {
    let of_run = |run: &Run| {
        let mut all = options::settings(run);
        all.push(("seconds that were measured", Some(format!("{:.2}", run.seconds))));
        let end = if run.interrupted { "Ctrl-C" } else { "time or count" };
        all.push(("ended by", Some(end.to_owned())));
        all.retain(|(name, _)| *name != "seconds");
        all
    };
    let columns: Vec<Vec<options::Setting>> = runs.iter().map(of_run).collect();
    let names = columns.first().into_iter().flatten().map(|(name, _)| *name).enumerate();
    let row = |(place, name): (usize, &str)| {
        let values: Vec<_> =
            columns.iter().map(|column| column.get(place).and_then(|(_, value)| value.clone())).collect();
        let is_set = values.iter().any(Option::is_some);
        let cells = values.into_iter().map(|value| value.unwrap_or_else(|| "–".to_owned()));
        is_set.then(|| std::iter::once(name.to_owned()).chain(cells).collect())
    };
    names.filter_map(row).collect()
}
