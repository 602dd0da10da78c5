//! The figure of the README: wire bytes of a put by value size, for rows of `byway bench transfer --json`.

use byway_figure::{Axis, Figure, Lines, Paper, Quantity, Series, Source};
use byway_measure::rows::TransferRow;
use serde::Deserialize;

/// A method, and how it moves a value.
const LINES: [(&str, &str); 4] = [
    ("prp", "prp: whole pages, by PRP pointers"),
    ("sgl", "sgl: the exact bytes, by descriptor"),
    ("inline", "inline: in queue slots behind the command (ByteExpress)"),
    ("piggyback", "piggyback: in unused fields of commands (BandSlim)"),
];

/// What the line about a run says, each part where it is known.
#[derive(Debug, Default, Deserialize)]
struct Run {
    #[serde(default)]
    command: String,
    cpu: Option<String>,
    commit: Option<String>,
    date: Option<String>,
}

/// Rows, with the line about their run where the file has one.
#[derive(Debug)]
pub struct Results {
    run: Run,
    rows: Vec<TransferRow>,
}

impl Results {
    /// Parses rows as `byway bench transfer --json` prints them, or such rows behind a line about the run.
    ///
    /// # Errors
    /// When a line is neither.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
        let is_run = |line: &&str| serde_json::from_str::<TransferRow>(line).is_err();
        let run = match lines.next_if(is_run) {
            Some(line) => serde_json::from_str(line)?,
            None => Run::default(),
        };
        Ok(Self { run, rows: lines.map(serde_json::from_str).collect::<Result<_, _>>()? })
    }

    /// The figure; `None` if a method of it has no rows.
    pub fn figure(self) -> Option<Figure> {
        let Self { run, rows } = self;
        let source = Source::new(run.command).with_origin(run.cpu, run.commit, run.date);
        let source = source.with_paper(Paper::BYTE_EXPRESS).with_paper(Paper::BAND_SLIM);
        let bytes = |name: &str| Axis::log2(Quantity::new(name, "bytes"));
        let mut plot = Lines::new(bytes("value size"), bytes("traffic of a put on the link"));
        for (method, name) in LINES {
            let of = rows.iter().filter(|row| row.method == method);
            let points: Vec<(f64, f64)> = of.map(|row| (row.size, row.wire_bytes)).collect();
            if points.is_empty() {
                return None;
            }
            plot = plot.with(Series::measured(name, points));
        }
        let figure = Figure::new("wire-bytes", "Wire bytes of one put by value size", plot, source);
        Some(figure.with_caption("Both axes are logarithmic.").with_dark_colours())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::measured::tests::modelled;
    use super::*;
    use byway_link::{Method, Profile};

    fn raw() -> String {
        let profile = Profile::by_name("cosmos").unwrap();
        let methods = [Method::Prp, Method::Sgl, Method::Inline, Method::Piggyback];
        let rows = methods.iter().flat_map(|&method| [8, 64].map(|size| modelled(&profile, method, size)));
        rows.map(|row| serde_json::to_string(&row).unwrap() + "\n").collect()
    }

    #[test]
    fn raw_rows_without_a_line_about_the_run_keep_their_first() {
        let csv = Results::parse(&raw()).unwrap().figure().unwrap().csv();
        assert_eq!(csv.matches("\n\"prp: ").count(), 2, "{csv}");
    }

    #[test]
    fn a_line_about_the_run_says_where_the_figure_comes_from() {
        let text = format!("{{\"command\":\"byway bench\",\"commit\":\"3f06a98b\"}}\n{}", raw());
        let csv = Results::parse(&text).unwrap().figure().unwrap().csv();
        assert!(csv.contains("# command: byway bench\n# commit: 3f06a98b\n"), "{csv}");
        assert_eq!(csv.matches("\n\"prp: ").count(), 2, "{csv}");
    }

    #[test]
    fn a_method_without_rows_makes_no_figure() {
        assert!(Results::parse("").unwrap().figure().is_none());
        assert!(Results::parse("no json\n").is_err());
    }
}
