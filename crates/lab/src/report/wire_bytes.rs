//! The figure of the README: wire bytes of a put by value size, for rows of `byway bench transfer --json`.
//!
//! Read on light and dark pages and on paper, so lines differ by mark and dash as well as by colour.

use byway_measure::rows::TransferRow;
use plotters::prelude::*;

use super::colour;
use super::plot::{self, Area, Drawn, FONT, GRID, TEXT};

const SIZE: (u32, u32) = (760, 400);
const SIZES_BYTES: std::ops::Range<f64> = 7.0..4700.0;
const WIRE_BYTES: std::ops::Range<f64> = 180.0..24_000.0;
/// Pixels around a point that its mark fills.
const MARK: i32 = 4;
/// Where the legend begins, and the distance of its rows.
const LEGEND: (i32, i32) = (92, 22);
const LEGEND_ROW: i32 = 19;
/// What the legend covers of the grid.
const LEGEND_BOX: [(i32, i32); 2] = [(88, 12), (474, 89)];
/// Colours of a dark page, for those that plotters wrote. A page that knows no schemes shows the light ones.
const DARK: [(&str, &str); 6] = [
    ("#FFFFFF", "#161B22"),
    ("#333333", "#DDDDDD"),
    ("#E4E4E4", "#363C44"),
    ("#9A9A9A", "#A8A8A8"),
    ("#0072B2", "#56B4E9"),
    ("#D55E00", "#FF9C5A"),
];

/// One line: the method, how it moves a value, its dash and its mark.
struct Line {
    method: &'static str,
    what: &'static str,
    dash: Option<(u32, u32)>,
    mark: Mark,
}

#[derive(Clone, Copy)]
enum Mark {
    Square,
    Ring,
    Triangle,
    Cross,
}

const LINES: [Line; 4] = [
    Line { method: "prp", what: "whole pages, by PRP pointers", dash: None, mark: Mark::Square },
    Line { method: "sgl", what: "the exact bytes, by descriptor", dash: Some((2, 3)), mark: Mark::Ring },
    Line {
        method: "inline",
        what: "in queue slots behind the command (ByteExpress)",
        dash: None,
        mark: Mark::Triangle,
    },
    Line {
        method: "piggyback",
        what: "in unused fields of commands (BandSlim)",
        dash: Some((7, 4)),
        mark: Mark::Cross,
    },
];

/// The rows of a file of results, behind its line about the run.
///
/// # Errors
/// When a line is no row.
pub fn rows(results: &str) -> serde_json::Result<Vec<TransferRow>> {
    results.lines().skip(1).map(serde_json::from_str).collect()
}

/// Draws the rows.
///
/// # Errors
/// When a method of the figure has no rows, or the drawing fails.
pub fn svg(rows: &[TransferRow]) -> Drawn<String> {
    let drawn = plot::draw(SIZE, |area| {
        area.fill(&WHITE).map_err(plot::failed)?;
        axes_and_lines(area, rows)?;
        area.draw(&Rectangle::new(LEGEND_BOX, WHITE.filled())).map_err(plot::failed)?;
        LINES.iter().zip(0..).try_for_each(|(line, row)| legend(area, line, row))
    })?;
    Ok(with_dark_colours(&drawn))
}

fn axes_and_lines(area: &Area, rows: &[TransferRow]) -> Drawn<()> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(SIZES_BYTES.log_scale().base(2.0), WIRE_BYTES.log_scale().base(2.0))
        .map_err(plot::failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(TEXT)
        .label_style((FONT, 14, &TEXT))
        .axis_desc_style((FONT, 14, &TEXT))
        .x_desc("value size, bytes")
        .y_desc("bytes on the link, a put")
        .x_label_formatter(&|bytes| plot::size_label(*bytes))
        .y_label_formatter(&|bytes| plot::size_label(*bytes))
        .x_labels(12)
        .y_labels(8)
        .draw()
        .map_err(plot::failed)?;
    for line in &LINES {
        let points = points_of(line.method, rows)?;
        let style = colour::of(line.method, 0).stroke_width(2);
        match line.dash {
            Some((dash, gap)) => {
                chart.draw_series(DashedLineSeries::new(points.iter().copied(), dash, gap, style))
            }
            None => chart.draw_series(LineSeries::new(points.iter().copied(), style)),
        }
        .map_err(plot::failed)?;
        let pixels: Vec<(i32, i32)> = points.iter().map(|point| chart.backend_coord(point)).collect();
        pixels.into_iter().try_for_each(|at| draw_mark(area, line, at))?;
    }
    Ok(())
}

fn points_of(method: &str, rows: &[TransferRow]) -> Drawn<Vec<(f64, f64)>> {
    let rows = rows.iter().filter(|row| row.method == method);
    let points: Vec<(f64, f64)> = rows.map(|row| (row.size, row.wire_bytes)).collect();
    if points.is_empty() { Err(plot::missing(method)) } else { Ok(points) }
}

fn draw_mark(area: &Area, line: &Line, at: (i32, i32)) -> Drawn<()> {
    let colour = colour::of(line.method, 0);
    let corners = [(at.0 - MARK, at.1 - MARK), (at.0 + MARK, at.1 + MARK)];
    match line.mark {
        Mark::Square => area.draw(&Rectangle::new(corners, colour.filled())),
        Mark::Ring => area.draw(&Circle::new(at, MARK + 1, colour.stroke_width(2))),
        Mark::Triangle => area.draw(&TriangleMarker::new(at, MARK + 2, colour.filled())),
        Mark::Cross => area.draw(&Cross::new(at, MARK, colour.stroke_width(2))),
    }
    .map_err(plot::failed)
}

/// One row of the legend: a stretch of the line with its mark, and its name.
fn legend(area: &Area, line: &Line, row: i32) -> Drawn<()> {
    let (x, y) = (LEGEND.0, LEGEND.1 + row * LEGEND_ROW);
    let style = colour::of(line.method, 0).stroke_width(2);
    let ends = [(x, y), (x + 44, y)];
    match line.dash {
        Some((dash, gap)) => area.draw(&plotters::element::DashedPathElement::new(ends, dash, gap, style)),
        None => area.draw(&PathElement::new(ends, style)),
    }
    .map_err(plot::failed)?;
    draw_mark(area, line, (x + 22, y))?;
    let text = format!("{}: {}", line.method, line.what);
    area.draw(&Text::new(text, (x + 54, y - 7), TextStyle::from((FONT, 14).into_font()).color(&TEXT)))
        .map_err(plot::failed)
}

/// The drawing with a style sheet that exchanges its colours where the reader's page is dark.
fn with_dark_colours(drawn: &str) -> String {
    let rules: String = DARK
        .iter()
        .map(|(light, dark)| {
            format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
        })
        .collect();
    let style = format!("<style>@media(prefers-color-scheme:dark){{{rules}}}</style>");
    drawn.replacen(">\n", &format!(">\n{style}\n"), 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_method_without_rows_is_an_error() {
        assert!(svg(&[]).unwrap_err().to_string().contains("prp is missing"));
    }
}
