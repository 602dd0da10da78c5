//! The numbers of a figure as comma-separated values (RFC 4180) behind comment lines of `#`.

use std::fmt::Write;

use crate::figure::Figure;
use crate::plot::{GroupSeries, LinePanels, Lines, Plot, Series, Stacks, Value};

pub(crate) fn write(figure: &Figure) -> String {
    let mut out = String::new();
    push_comment(&mut out, "figure", figure.title());
    if !figure.caption().is_empty() {
        push_comment(&mut out, "caption", figure.caption());
    }
    for (name, fact) in figure.source().facts() {
        push_comment(&mut out, name, &fact);
    }
    match figure.plot() {
        Plot::Lines(plot) => push_lines(&mut out, plot),
        Plot::LinePanels(plot) => push_panels(&mut out, plot),
        Plot::Dots(plot) => {
            push_groups(&mut out, &plot.groups, &plot.value.quantity().heading(), &plot.series)
        }
        Plot::Bars(plot) => push_groups(&mut out, &plot.groups, &plot.value.heading(), &plot.series),
        Plot::Stacks(plot) => push_stacks(&mut out, plot),
    }
    out
}

fn push_comment(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "# {name}: {}", text.replace(['\n', '\r'], " "));
}

fn push_row(out: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
    let _ = writeln!(out, "{}", cells.join(","));
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) || cell.starts_with('#') {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn push_head(out: &mut String, names: &[&str], value: &str) {
    let mut cells: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    cells.extend([value.to_owned(), format!("low {value}"), format!("high {value}")]);
    push_row(out, &cells);
}

/// The value and its spread; empty cells where there is none.
fn cells_of(value: Value) -> [String; 3] {
    let (low, high) = match value.spread {
        Some((low, high)) => (low.to_string(), high.to_string()),
        None => (String::new(), String::new()),
    };
    [value.middle.to_string(), low, high]
}

fn push_lines(out: &mut String, plot: &Lines) {
    push_head(out, &["series", "role", &plot.x.quantity().heading()], &plot.y.quantity().heading());
    plot.series.iter().for_each(|series| push_series(out, &[], series));
}

fn push_panels(out: &mut String, plot: &LinePanels) {
    let heads = ["panel", "series", "role", &plot.x.quantity().heading()];
    push_head(out, &heads, &plot.y.quantity().heading());
    for (title, panel) in &plot.panels {
        panel.iter().for_each(|series| push_series(out, std::slice::from_ref(title), series));
    }
}

/// A row for each point, behind the cells of all of them.
fn push_series(out: &mut String, before: &[String], series: &Series) {
    for point in &series.points {
        let mut cells = before.to_vec();
        cells.extend([series.name.clone(), series.role.name().to_owned(), point.x.to_string()]);
        cells.extend(cells_of(point.y));
        push_row(out, &cells);
    }
}

fn push_groups(out: &mut String, groups: &[String], value: &str, all: &[GroupSeries]) {
    push_head(out, &["series", "role", "group"], value);
    for series in all {
        for (group, value) in groups.iter().zip(&series.values) {
            let Some(value) = value else { continue };
            let mut cells = vec![series.name.clone(), series.role.name().to_owned(), group.clone()];
            cells.extend(cells_of(*value));
            push_row(out, &cells);
        }
    }
}

fn push_stacks(out: &mut String, plot: &Stacks) {
    push_row(out, &["panel".to_owned(), "bar".to_owned(), "part".to_owned(), plot.value.heading()]);
    for panel in &plot.panels {
        for (place, bar) in panel.bars.iter().enumerate() {
            for (part, layer) in plot.parts.iter().zip(&panel.layers) {
                let value = layer.get(place).copied().unwrap_or(0.0);
                push_row(out, &[panel.title.clone(), bar.clone(), part.clone(), value.to_string()]);
            }
        }
    }
}
