//! A table for eyes.

use crate::Row;

/// Prints the rows of one program.
pub fn show(rows: &[Row]) {
    for row in rows {
        let ratio =
            |of: Option<f64>, what: &str| of.map_or(String::new(), |ratio| format!("  {ratio:6.2} × {what}"));
        println!(
            "  {:16} {:26} {:>12.0}/s  ({:.0} to {:.0}){}{}",
            row.case,
            row.setting,
            row.median,
            row.worst,
            row.best,
            ratio(row.beside_file_system, "the file system alone"),
            ratio(row.beside_most, "the most"),
        );
    }
}
