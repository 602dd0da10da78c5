//! The report of a contest: rates, percentiles and rounds by engine and kind of work, beside an earlier run where there is one.

use byway_figure::{
    Axis, Dots, Figure, FigureError, FigureFile, GroupSeries, Lines, Page, Quantity, Role, Series, Source,
    Value,
};

use super::score::KvRow;

/// Words of the page, in the order that they come up in.
const TERMS: [(&str, &str); 6] = [
    (
        "put, get",
        "one value of 16-byte key stored, or read; put_qd32, get_qd32: 32 at a time; put_batch32: 32 that are stored together or not at all",
    ),
    ("list, list_get, scan", "keys in order; keys with values; 100 pairs from a key on"),
    ("put_flush", "a put that survives the loss of power; other puts survive the end of the process"),
    (
        "mixgraph, ycsb",
        "the mixture of a social network's store (Cao et al., FAST 2020), and the core workloads A to F of YCSB (Cooper et al., SoCC 2010)",
    ),
    (
        "round",
        "a twentieth of a pass; engines take turns by rounds, so that what else the machine does meets all of them",
    ),
    ("99th percentile", "99 of 100 operations took at most this time"),
];

/// The page, and the files beside it. `before` are rows of an earlier run.
///
/// # Errors
/// When there are no rows.
pub fn page(
    rows: &[KvRow],
    before: &[KvRow],
    source: &Source,
) -> Result<(String, Vec<FigureFile>), FigureError> {
    let mut page = Page::new("Byway beside embedded key-value stores");
    page.paragraph(
        "One process, the engines by turns in short rounds, at the same guarantee. Rates are medians of passes; whiskers reach from the \
         slowest round to the quickest.",
    );
    page.terms(&TERMS);
    if !before.is_empty() {
        page.heading("Beside the earlier run");
        match compared(rows, before) {
            none if none.is_empty() => {
                page.paragraph("The earlier run has none of the kinds of work of this one.")
            }
            both => page.table(&["work", "now", "earlier", "now / earlier"], &both),
        }
    }
    for value_bytes in distinct(rows.iter().map(|row| row.value_size)) {
        let of: Vec<&KvRow> = rows.iter().filter(|row| row.value_size == value_bytes).collect();
        let earlier: Vec<&KvRow> = before.iter().filter(|row| row.value_size == value_bytes).collect();
        page.heading(&format!("Values of {value_bytes} bytes"));
        page.figures(&[rates(value_bytes, &of, &earlier, source)])?;
        let ops = distinct(of.iter().map(|row| row.op.as_str()));
        let figures = ops.iter().flat_map(|op| {
            let of = of.iter().copied().filter(|row| row.op == *op).collect::<Vec<_>>();
            let earlier = earlier.iter().copied().filter(|row| row.op == *op).collect::<Vec<_>>();
            [Some(percentiles(&of, &earlier, source)), rounds(&of, source)]
        });
        page.figures(&figures.flatten().collect::<Vec<_>>())?;
    }
    Ok(page.finish())
}

/// Each item once, in the order of its first place.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

fn same<'a>(row: &KvRow, others: &'a [KvRow]) -> Option<&'a KvRow> {
    let is_same = |other: &&KvRow| {
        (&other.engine, &other.op, other.value_size, other.threads)
            == (&row.engine, &row.op, row.value_size, row.threads)
    };
    others.iter().find(is_same)
}

/// A row for each that both runs have.
fn compared(rows: &[KvRow], before: &[KvRow]) -> Vec<Vec<String>> {
    let cells = |row: &KvRow| {
        let earlier = same(row, before)?;
        Some(vec![
            format!("{} of {} bytes, {}", row.op, row.value_size, row.engine),
            byway_console::table::rate(row.ops_per_s),
            byway_console::table::rate(earlier.ops_per_s),
            format!("{:.2}", row.ops_per_s / earlier.ops_per_s),
        ])
    };
    rows.iter().filter_map(cells).collect()
}

/// The median with the slowest and the quickest round.
fn rate(row: &KvRow) -> Value {
    let rounds = row.rounds_per_s.iter().copied();
    match (rounds.clone().reduce(f64::min), rounds.reduce(f64::max)) {
        (Some(low), Some(high)) => {
            Value::spread(row.ops_per_s, low.min(row.ops_per_s), high.max(row.ops_per_s))
        }
        _ => row.ops_per_s.into(),
    }
}

fn rates(value_bytes: u32, rows: &[&KvRow], before: &[&KvRow], source: &Source) -> Figure {
    let ops = distinct(rows.iter().map(|row| row.op.as_str()));
    let values = |of: &[&KvRow], engine: &str| -> Vec<Option<Value>> {
        let find =
            |op: &&str| of.iter().find(|row| row.engine == engine && row.op == **op).map(|row| rate(row));
        ops.iter().map(find).collect()
    };
    let mut plot = Dots::new(ops.iter().copied(), Axis::log10(Quantity::new("operations", "1/s")));
    for engine in distinct(rows.iter().map(|row| row.engine.as_str())) {
        plot = plot.with(GroupSeries::measured(engine, values(rows, engine)));
        let earlier = values(before, engine);
        if earlier.iter().any(Option::is_some) {
            plot = plot.with(GroupSeries::new(format!("{engine}: earlier run"), Role::Earlier, earlier));
        }
    }
    let title = format!("Operations a second, values of {value_bytes} bytes");
    let source = source.clone().with_spread("slowest and quickest round");
    Figure::new(format!("rates-{value_bytes}"), title, plot, source)
        .with_caption("Logarithmic axis. Lists count pairs or keys, scans count scans of 100 pairs.")
}

/// Name of a figure of one kind of work; rows of one kind are never none.
fn named(what: &str, rows: &[&KvRow]) -> String {
    rows.first().map_or_else(
        || what.to_owned(),
        |row| format!("{what}-{}-{}", row.op.replace('_', "-"), row.value_size),
    )
}

fn percentiles(rows: &[&KvRow], before: &[&KvRow], source: &Source) -> Figure {
    let points = |row: &KvRow| [(50.0, row.p50_us), (99.0, row.p99_us), (99.9, row.p999_us)];
    let mut plot = Lines::new(Axis::percentile(), Axis::log10(Quantity::new("time of an operation", "µs")));
    for row in rows {
        plot = plot.with(Series::measured(row.engine.as_str(), points(row)));
        if let Some(earlier) = before.iter().find(|other| other.engine == row.engine) {
            plot = plot.with(Series::new(
                format!("{}: earlier run", row.engine),
                Role::Earlier,
                points(earlier),
            ));
        }
    }
    let op = rows.first().map_or("", |row| row.op.as_str());
    Figure::new(named("percentiles", rows), format!("{op}: latency percentiles"), plot, source.clone())
        .with_caption("Percentiles at equal distances by nines; time on a logarithmic axis. Lists are timed by 1,000 keys.")
}

/// Rates round by round; `None` for rows of files that did not keep them.
fn rounds(rows: &[&KvRow], source: &Source) -> Option<Figure> {
    let (x, y) = (Quantity::new("round", ""), Quantity::new("operations", "1/s"));
    let mut plot = Lines::new(Axis::linear(x), Axis::linear(y));
    rows.iter().find(|row| row.rounds_per_s.len() > 1)?;
    for row in rows {
        let points = row.rounds_per_s.iter().enumerate().map(|(place, &rate)| ((place + 1) as f64, rate));
        plot = plot.with(Series::measured(row.engine.as_str(), points));
    }
    let op = rows.first()?.op.as_str();
    let figure =
        Figure::new(named("rounds", rows), format!("{op}: throughput over time"), plot, source.clone());
    Some(
        figure.with_caption(
            "Round by round, pass after pass; rounds whose single steps were timed are left out.",
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn row(engine: &str, op: &str, ops_per_s: f64) -> KvRow {
        let text = format!(
            r#"{{"engine":"{engine}","op":"{op}","value_size":32,"count":10,"ops_per_s":{ops_per_s},"cpu_us_per_op":1.0,
            "p50_us":0.5,"p99_us":1.0,"p999_us":9.0,"guarantee":"process","acknowledged_together":1,"threads":1,"passes":1}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_page_has_rates_percentiles_and_rounds_for_each_kind_of_work() {
        let mut rows = vec![row("byway", "get", 3e6), row("lmdb", "get", 1e6), row("byway", "put", 2e6)];
        rows.iter_mut().for_each(|row| row.rounds_per_s = vec![row.ops_per_s * 0.9, row.ops_per_s * 1.1]);
        let (page, files) = page(&rows, &[], &Source::new("byway-lab kv")).unwrap();
        for id in ["rates-32", "percentiles-get-32", "rounds-get-32", "percentiles-put-32", "rounds-put-32"] {
            assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id}");
        }
        assert_eq!(files.len(), 15);
        let csv = files.iter().find(|file| file.name == "figures/rates-32.csv").unwrap();
        assert!(String::from_utf8_lossy(&csv.bytes).contains("byway,measured,get,3000000,2700000,3300000"));
    }

    #[test]
    fn an_earlier_run_stands_beside_the_rows_that_it_has() {
        let (page, _) =
            page(&[row("byway", "get", 3e6)], &[row("byway", "get", 2e6)], &Source::new("c")).unwrap();
        assert!(page.contains("byway: earlier run") && page.contains("<td>1.50</td>"), "{page}");
    }

    #[test]
    fn an_earlier_run_of_other_work_is_said_to_have_none_of_this() {
        let (page, _) =
            page(&[row("byway", "get", 3e6)], &[row("byway", "put", 2e6)], &Source::new("c")).unwrap();
        assert!(page.contains("has none of the kinds of work") && !page.contains("now / earlier"), "{page}");
        assert!(!page.contains("byway: earlier run"), "{page}");
    }

    #[test]
    fn rows_of_files_without_rounds_have_no_figure_of_them() {
        assert!(rounds(&[&row("byway", "get", 3e6)], &Source::new("c")).is_none());
    }
}
