//! Aligned text tables: words to the left, numbers to the right.

use std::borrow::Cow;
use std::fmt;

use crate::visible;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[&str]) -> Self {
        Self { headings: headings.iter().map(|&heading| heading.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the headings are not shown.
    pub fn push(&mut self, mut cells: Vec<String>) {
        cells.resize(self.headings.len(), String::new());
        for cell in &mut cells {
            if let Cow::Owned(shown) = visible::line(cell) {
                *cell = shown;
            }
        }
        self.rows.push(cells);
    }

    /// The headings.
    pub fn headings(&self) -> &[String] {
        &self.headings
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.headings.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.headings.len()).map(width).collect()
    }

    /// Whether every cell of a column that says something is a number, perhaps with a unit.
    fn is_numeric(&self, column: usize) -> bool {
        let number =
            |cell: &String| cell.is_empty() || cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
        self.rows.iter().filter_map(|row| row.get(column)).all(number)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let numeric: Vec<bool> = (0..widths.len()).map(|column| self.is_numeric(column)).collect();
        for row in std::iter::once(&self.headings).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, &width), &numeric) in row.iter().zip(&widths).zip(&numeric) {
                let cell = if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A mean for people: whole numbers plain, others with one decimal.
pub fn mean(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// A time in nanoseconds for people.
pub fn time(ns: Option<f64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        Some(ns) if ns >= 1e3 => format!("{:.2} µs", ns / 1e3),
        Some(ns) => format!("{ns:.0} ns"),
    }
}

/// A rate for people.
pub fn rate(per_second: f64) -> String {
    if per_second >= 1e6 {
        format!("{:.2} M/s", per_second / 1e6)
    } else if per_second >= 1e4 {
        format!("{:.0} k/s", per_second / 1e3)
    } else {
        format!("{per_second:.0} /s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_aligns_words_left_and_numbers_right() {
        let mut table = Table::new(&["method", "bytes"]);
        table.push(vec!["prp".to_owned(), "4184".to_owned()]);
        table.push(vec!["piggyback".to_owned(), "88".to_owned()]);
        assert_eq!(table.to_string(), "method     bytes\nprp         4184\npiggyback     88\n");
    }

    #[test]
    fn times_and_means_have_fitting_units() {
        assert_eq!(time(Some(350.0)), "350 ns");
        assert_eq!(time(Some(12_345.0)), "12.35 µs");
        assert_eq!(time(None), "-");
        assert_eq!((mean(152.0), mean(1.25)), ("152".to_owned(), "1.2".to_owned()));
    }
}
