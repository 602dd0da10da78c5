//! Figures and tables of queries in the device.

use byway_console::table::{self, Table};
use byway_figure::{Axis, Dots, Figure, GroupSeries, Paper, Quantity, Source};
use byway_measure::rows::TransferRow;

use super::texts::{METHODS, SETTINGS};
use super::{Computed, QueryPoint, TextPoint, both_ways};
use crate::data::{LAGHOS_QUERY, TEXTS, Text};
use crate::report::figures::Section;
use crate::report::measured::{COSMOS, distinct};

/// The section of the report.
pub fn section(computed: &Computed, source: &Source) -> Section {
    let source = source.clone().with_paper(Paper::BYTE_EXPRESS).with_paper(Paper::BAND_SLIM);
    let texts = ["compute-texts-cosmos", "compute-texts-gen4x4"];
    let mut figures: Vec<Figure> = SETTINGS
        .into_iter()
        .zip(texts)
        .map(|(setting, id)| texts_figure(computed, setting, id, &source))
        .collect();
    figures.push(query_figure(
        computed,
        ("compute-query-bytes", "Bytes on the link for the Laghos query"),
        Quantity::new("wire bytes of a query", "bytes"),
        &source,
        |point| point.wire_bytes as f64,
    ));
    figures.push(query_figure(
        computed,
        ("compute-query-time", "Link time of the Laghos query"),
        Quantity::new("modelled time of commands and data", "µs"),
        &source,
        |point| point.model_ns as f64 / 1e3,
    ));
    Section {
        title: "Queries in the device",
        intro: "A device that stores a Parquet file can execute SQL over it: the text of a query goes down, its result comes back, and \
                the columns stay where they are. Texts have tens to hundreds of bytes, for which NVMe moves a page on the papers' card. \
                The Laghos query is the one that Los Alamos National Laboratory publishes with its data set: eight rows of 4,194,304. Times \
                are those of commands and data alone, on every side without the scan.",
        topic: None,
        figures,
    }
}

/// The tables of the report.
pub fn tables(computed: &Computed) -> Vec<(String, Table)> {
    let texts = format!("Texts of queries and predicates, {COSMOS}: wire bytes of one payload");
    let query = format!(
        "The Laghos query, {} rows in {} bytes: {} bytes of text, {} bytes of result",
        computed.rows,
        computed.object_bytes,
        LAGHOS_QUERY.len(),
        computed.result_bytes,
    );
    vec![(texts, texts_table(computed)), (query, query_table(computed))]
}

fn texts_of<'a>(computed: &'a Computed, setting: &str, method: &str) -> Vec<&'a TextPoint> {
    let is_its = |row: &TransferRow| row.profile == setting && row.method == method;
    computed.texts.iter().filter(|point| is_its(&point.row)).collect()
}

fn texts_figure(computed: &Computed, setting: &str, id: &'static str, source: &Source) -> Figure {
    let label = |text: Text| format!("{}: {}, {} B", text.set, text.asks, text.sql.len());
    let axis = Axis::log2(Quantity::new("wire bytes of the text", "bytes"));
    let plot = METHODS.iter().fold(Dots::new(TEXTS.map(label), axis), |plot, method| {
        let points = texts_of(computed, setting, method.name());
        let values = points.iter().map(|point| Some(point.row.wire_bytes.into()));
        plot.with(GroupSeries::measured(method.name(), values))
    });
    Figure::new(id, format!("Texts of queries on the link, {setting}"), plot, source.clone()).with_caption(
        "The text of a query or a predicate as the payload of one command: the command, its payload, completion, interrupt and \
         doorbells. A payload costs what it costs whichever command it goes with; a Query itself takes it by prp, sgl and inline. Logarithmic \
         axis.",
    )
}

fn query_figure(
    computed: &Computed,
    (id, title): (&'static str, &'static str),
    quantity: Quantity,
    source: &Source,
    of: fn(&QueryPoint) -> f64,
) -> Figure {
    let settings = distinct(computed.queries.iter().map(|point| point.setting.as_str()));
    let plot = both_ways::WAYS.iter().map(|way| way.name()).fold(
        Dots::new(settings.iter().copied(), Axis::log10(quantity)),
        |plot, way| {
            let values = settings.iter().map(|setting| Some(of(computed.query(setting, &way)?).into()));
            plot.with(GroupSeries::measured(way.clone(), values))
        },
    );
    Figure::new(id, title, plot, source.clone()).with_caption(format!(
        "{} rows. The device executes the query and sends the result; or the host executes it, and reads the pages of the columns in \
         which rows are left, or the five columns from end to end. The results are the same. Logarithmic axis.",
        computed.rows
    ))
}

fn texts_table(computed: &Computed) -> Table {
    let headings: Vec<&str> = ["text", "bytes"]
        .into_iter()
        .chain(METHODS.iter().map(|method| method.name()))
        .chain(["words"])
        .collect();
    let mut table = Table::new(&headings);
    for (place, Text { set, asks, sql }) in TEXTS.iter().enumerate() {
        let mut cells = vec![format!("{set}: {asks}"), sql.len().to_string()];
        for method in METHODS {
            let point = texts_of(computed, COSMOS, method.name()).get(place).copied();
            cells.push(point.map_or_else(String::new, |point| table::mean(point.row.wire_bytes)));
        }
        cells.push((*sql).to_owned());
        table.push(cells);
    }
    table
}

fn query_table(computed: &Computed) -> Table {
    let mut table = Table::new(&["by", "setting", "commands", "payload B", "wire B", "modelled time"]);
    for way in both_ways::WAYS.map(both_ways::Way::name) {
        for point in computed.queries.iter().filter(|point| point.way == way) {
            table.push(vec![
                way.clone(),
                point.setting.clone(),
                point.commands.to_string(),
                point.payload_bytes.to_string(),
                point.wire_bytes.to_string(),
                table::time(Some(point.model_ns as f64)),
            ]);
        }
    }
    table
}
