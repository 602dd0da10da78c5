//! The figure of the README: bytes of a put by value size, for rows of `byway bench transfer --json`.

use byway_figure::{Axis, Figure, Lines, Paper, Quantity, Series, Source};
use byway_measure::rows::TransferRow;
use serde::Deserialize;

use super::account::Account;

/// Methods that are drawn first, in this order, and how each moves a value; other methods follow by their names alone.
const NAMED: [(&str, &str); 4] = [
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
    /// `cpu` in files of earlier versions.
    #[serde(alias = "cpu")]
    machine: Option<String>,
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
    /// Parses rows as `byway bench transfer --json` prints them, behind a line about the run; or such rows alone.
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

    /// Every method that has rows, with the name of its line.
    fn lines(&self) -> Vec<(String, String)> {
        let has_rows = |method: &str| self.rows.iter().any(|row| row.method == method);
        let named = NAMED.iter().filter(|(method, _)| has_rows(method));
        let mut lines: Vec<(String, String)> =
            named.map(|&(method, name)| (method.to_owned(), name.to_owned())).collect();
        for TransferRow { method, .. } in &self.rows {
            if !lines.iter().any(|(known, _)| known == method) {
                lines.push((method.clone(), method.clone()));
            }
        }
        lines
    }

    /// The figure of the bytes of an account, with a line for each method; `None` if there are no rows.
    pub fn figure(self, account: Account) -> Option<Figure> {
        let lines = self.lines();
        let Self { run, rows } = self;
        if rows.is_empty() {
            return None;
        }
        let source = Source::new(run.command).with_origin(run.machine, run.commit, run.date);
        let source = source.with_paper(Paper::BYTE_EXPRESS).with_paper(Paper::BAND_SLIM);
        let bytes = |name: &str| Axis::log2(Quantity::new(name, "bytes"));
        let (name, title) = match account {
            Account::Wire => ("wire-bytes", "Wire bytes of one put by value size"),
            Account::Payload => ("payload-bytes", "Payload bytes of one put by value size"),
            Account::Interrupt => ("interrupt-bytes", "Payload and interrupt bytes of one put by value size"),
            Account::Pointer => {
                ("pointer-bytes", "Payload, interrupt and pointer bytes of one put by value size")
            }
        };
        let is_wire = account == Account::Wire;
        let drawn = if is_wire { "traffic of a put on the link" } else { "bytes of a put, without headers" };
        let mut plot = Lines::new(bytes("value size"), bytes(drawn));
        for (method, name) in lines {
            let of = rows.iter().filter(|row| row.method == method);
            let points: Vec<(f64, f64)> = of.map(|row| (row.size, account.bytes(row))).collect();
            plot = plot.with(Series::measured(name, points));
        }
        let figure = Figure::new(name, title, plot, source);
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
        let csv = Results::parse(&raw()).unwrap().figure(Account::Wire).unwrap().csv();
        assert_eq!(csv.matches("\n\"prp: ").count(), 2, "{csv}");
    }

    #[test]
    fn a_line_about_the_run_says_where_the_figure_comes_from() {
        for machine in ["machine", "cpu"] {
            let run =
                format!("{{\"command\":\"byway bench\",\"{machine}\":\"a card\",\"commit\":\"3f06a98b\"}}");
            let results = Results::parse(&format!("{run}\n{}", raw())).unwrap();
            let csv = results.figure(Account::Wire).unwrap().csv();
            assert!(csv.contains("# command: byway bench\n# machine: a card\n# commit: 3f06a98b\n"), "{csv}");
            assert_eq!(csv.matches("\n\"prp: ").count(), 2, "{csv}");
        }
    }

    #[test]
    fn any_methods_make_a_figure() {
        let profile = Profile::by_name("cosmos").unwrap();
        let row = |method| serde_json::to_string(&modelled(&profile, method, 8)).unwrap() + "\n";
        let text = row(Method::Hybrid) + &row(Method::Prp);
        let csv = Results::parse(&text).unwrap().figure(Account::Wire).unwrap().csv();
        let place = |line: &str| csv.find(line).unwrap_or_else(|| panic!("{line}: {csv}"));
        assert!(place("\n\"prp: ") < place("\nhybrid"), "{csv}");
    }

    #[test]
    fn a_file_without_rows_makes_no_figure() {
        assert!(Results::parse("").unwrap().figure(Account::Wire).is_none());
        assert!(Results::parse("no json\n").is_err());
    }
}
