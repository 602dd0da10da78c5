//! Plots as SVG: lines over sizes, bars side by side, bars in layers.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use super::colour;

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("plot: {0}")]
pub struct PlotError(String);

/// What was drawn, or why not.
pub type Drawn<T> = Result<T, PlotError>;
/// Where a plot is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Of all labels.
pub const FONT: &str = "sans-serif";
/// Of axes and labels.
pub const TEXT: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Of lines across the plot.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Pixels of one plot.
const WIDTH: u32 = 760;
/// Pixels of one plot.
const HEIGHT: u32 = 420;

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name: decides its colour, and stands in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Whether it is drawn broken.
    pub dashed: bool,
}

/// Names on the axes.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// Across.
    pub x: &'a str,
    /// Up.
    pub y: &'a str,
}

/// Lines over two logarithmic axes, with a point at each measurement.
///
/// # Errors
/// When there is nothing to draw, or the drawing fails.
pub fn lines(axes: Axes, series: &[Series]) -> Drawn<String> {
    let points = || series.iter().flat_map(|line| &line.points);
    let (x, y) = (logarithmic(points().map(|point| point.0))?, logarithmic(points().map(|point| point.1))?);
    draw((WIDTH, HEIGHT), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d((x.0..x.1).log_scale().base(2.0), (y.0..y.1).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(TEXT)
            .label_style((FONT, 14, &TEXT))
            .axis_desc_style((FONT, 14, &TEXT))
            .x_desc(axes.x)
            .y_desc(axes.y)
            .x_label_formatter(&|bytes| size_label(*bytes))
            .y_label_formatter(&|number| number_label(*number))
            .x_labels(14)
            .draw()
            .map_err(failed)?;
        for (place, line) in series.iter().enumerate() {
            let colour = colour::of(&line.name, place);
            let points = || line.points.iter().copied();
            if line.dashed {
                chart
                    .draw_series(DashedLineSeries::new(points(), 6, 4, colour.stroke_width(2)))
                    .map_err(failed)?;
            } else {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2))).map_err(failed)?;
            }
            chart
                .draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))
                .map_err(failed)?;
        }
        Ok(())
    })
}

/// Groups of bars beside one another. Values are `values[series][group]`; one that is not there leaves a gap.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// The name of each group, under it.
    pub groups: Vec<String>,
    /// The name and the values of each series.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// What the values are.
    pub y: &'a str,
    /// Whether they stand on a logarithmic axis.
    pub logarithmic: bool,
}

/// Draws bars beside one another.
///
/// # Errors
/// When there is nothing to draw, or the drawing fails.
pub fn bars(bars: &Bars) -> Drawn<String> {
    let values = || bars.series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let width = bars.groups.len() as f64;
    if values().next().is_none() {
        return Err(PlotError("no value to draw".to_owned()));
    }
    draw((WIDTH, HEIGHT), |area| {
        if bars.logarithmic {
            let (low, high) = logarithmic(values())?;
            let mut chart =
                frame(area).build_cartesian_2d(0.0..width, (low..high).log_scale()).map_err(failed)?;
            mesh(&mut chart, &bars.groups, bars.y)?;
            chart.draw_series(rectangles(bars, low)).map_err(failed)?;
        } else {
            let high = values().fold(0.0, f64::max) * 1.08;
            let mut chart = frame(area).build_cartesian_2d(0.0..width, 0.0..high).map_err(failed)?;
            mesh(&mut chart, &bars.groups, bars.y)?;
            chart.draw_series(rectangles(bars, 0.0)).map_err(failed)?;
        }
        Ok(())
    })
}

/// Layers of a panel: `layers[part][bar]`.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What the panel shows.
    pub title: String,
    /// The name of each bar.
    pub bars: Vec<String>,
    /// The values of each part, from the bottom.
    pub layers: Vec<Vec<f64>>,
}

/// Panels of layered bars, two in a row, on one scale. The names of parts give the colours.
///
/// # Errors
/// When there is nothing to draw, or the drawing fails.
pub fn layered(panels: &[Panel], parts: &[&str], y: &str) -> Drawn<String> {
    let tops = panels.iter().flat_map(|panel| {
        (0..panel.bars.len()).map(|bar| panel.layers.iter().filter_map(|layer| layer.get(bar)).sum::<f64>())
    });
    let high = tops.fold(0.0, f64::max) * 1.05;
    if high <= 0.0 {
        return Err(PlotError("no value to draw".to_owned()));
    }
    let columns = panels.len().min(2);
    let rows = panels.len().div_ceil(2);
    let height = if rows == 1 { HEIGHT } else { 300 * rows as u32 };
    draw((WIDTH, height), |area| {
        for (panel, area) in panels.iter().zip(area.split_evenly((rows, columns))) {
            draw_panel(&area, panel, parts, (y, high))?;
        }
        Ok(())
    })
}

fn draw_panel(area: &Area, panel: &Panel, parts: &[&str], (y, high): (&str, f64)) -> Drawn<()> {
    let mut chart = frame(area)
        .caption(&panel.title, (FONT, 15, &TEXT))
        .build_cartesian_2d(0.0..panel.bars.len() as f64, 0.0..high)
        .map_err(failed)?;
    mesh(&mut chart, &panel.bars, y)?;
    for bar in 0..panel.bars.len() {
        let mut from = 0.0;
        for (place, (layer, part)) in panel.layers.iter().zip(parts).enumerate() {
            let to = from + layer.get(bar).copied().unwrap_or(0.0);
            let corners = [(bar as f64 + 0.15, from), (bar as f64 + 0.85, to)];
            let rectangle = Rectangle::new(corners, colour::of(part, place).filled());
            chart.draw_series([rectangle]).map_err(failed)?;
            from = to;
        }
    }
    Ok(())
}

fn frame<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(10).x_label_area_size(38).y_label_area_size(76);
    builder
}

/// Grid and labels of bars: one label under the middle of each group.
fn mesh<Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>,
    groups: &[String],
    y: &str,
) -> Drawn<()>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(TEXT)
        .label_style((FONT, 14, &TEXT))
        .axis_desc_style((FONT, 14, &TEXT))
        .x_labels(0)
        .y_desc(y)
        .y_label_formatter(&|number| number_label(*number))
        .draw()
        .map_err(failed)?;
    let (across, up) =
        (chart.plotting_area().get_x_axis_pixel_range(), chart.plotting_area().get_y_axis_pixel_range());
    let area = chart.plotting_area().strip_coord_spec();
    let (left, top) = (across.start, up.start.min(up.end));
    let step = f64::from(across.end - across.start) / groups.len() as f64;
    let centred = TextStyle::from((FONT, label_pixels(groups, step)).into_font()).color(&TEXT).pos(
        plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Top,
        ),
    );
    let below = (up.end - up.start).abs() + 23;
    for (place, group) in groups.iter().enumerate() {
        let middle = (step * (place as f64 + 0.5)) as i32;
        let (base_x, base_y) = area.get_base_pixel();
        let at = (middle + left - base_x, below + top - base_y);
        area.draw(&Text::new(group.clone(), at, centred.clone())).map_err(failed)?;
    }
    Ok(())
}

/// Letters small enough that the longest label keeps to its group.
fn label_pixels(groups: &[String], step: f64) -> u32 {
    let longest = groups.iter().map(String::len).max().unwrap_or(1).max(1) as f64;
    (step / (longest * 0.56)).clamp(8.0, 13.0) as u32
}

fn rectangles<'a>(bars: &'a Bars, floor: f64) -> impl Iterator<Item = Rectangle<(f64, f64)>> + 'a {
    let step = 0.84 / bars.series.len() as f64;
    bars.series.iter().enumerate().flat_map(move |(place, (name, values))| {
        let colour = colour::of(name, place);
        values.iter().enumerate().filter_map(move |(group, value)| {
            let left = group as f64 + 0.08 + step * place as f64;
            let corners = [(left, floor), (left + step * 0.92, (*value)?)];
            Some(Rectangle::new(corners, colour.filled()))
        })
    })
}

/// The drawing that `paint` makes, as SVG.
///
/// # Errors
/// Those of `paint`.
pub fn draw(size: (u32, u32), paint: impl FnOnce(&Area) -> Drawn<()>) -> Drawn<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// The range of a logarithmic axis: the values with a little room, never empty.
fn logarithmic(values: impl Iterator<Item = f64>) -> Drawn<(f64, f64)> {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    let range = positive.fold(None, |range: Option<(f64, f64)>, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    let (low, high) = range.ok_or_else(|| PlotError("no value to draw".to_owned()))?;
    Ok((low / 1.25, high * 1.25))
}

/// Bytes on an axis: KiB from 1024 on.
pub fn size_label(bytes: f64) -> String {
    if bytes >= 1024.0 { format!("{:.0}K", bytes / 1024.0) } else { format!("{bytes:.0}") }
}

fn number_label(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude >= 1e6 {
        format!("{} M", trimmed(number / 1e6))
    } else if magnitude >= 1e4 {
        format!("{} k", trimmed(number / 1e3))
    } else {
        trimmed(number)
    }
}

/// At most two decimals, and none that are zero.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A plot that cannot be drawn for want of something.
pub fn missing(what: &str) -> PlotError {
    PlotError(format!("{what} is missing"))
}

/// A plot that cannot be drawn because something before it failed.
pub fn failed(error: impl std::fmt::Display) -> PlotError {
    PlotError(error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_series_and_a_circle_for_each_point() {
        let line = |name: &str, dashed| Series {
            name: name.to_owned(),
            points: vec![(4.0, 100.0), (64.0, 300.0), (1024.0, 9000.0)],
            dashed,
        };
        let svg = lines(Axes { x: "bytes", y: "ns" }, &[line("prp", false), line("inline", true)]).unwrap();
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.starts_with("<svg") && svg.contains("#0072B2"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_bar_for_each_value_on_either_axis() {
        for logarithmic in [false, true] {
            let groups = vec!["B".to_owned(), "C".to_owned()];
            let series = vec![
                ("prp".to_owned(), vec![Some(5.0), Some(900.0)]),
                ("inline".to_owned(), vec![None, Some(3.0)]),
            ];
            let svg = bars(&Bars { groups, series, y: "bytes", logarithmic }).unwrap();
            let bars = svg.matches("stroke=\"none\"").count();
            assert!(bars >= 3 && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn panels_of_layers_stand_on_one_scale() {
        let panel = |title: &str| Panel {
            title: title.to_owned(),
            bars: vec!["a".to_owned(), "b".to_owned()],
            layers: vec![vec![1.0, 2.0], vec![3.0, 4.0]],
        };
        let svg = layered(&[panel("one"), panel("two"), panel("three")], &["p", "q"], "ns").unwrap();
        assert!(svg.contains("one") && svg.contains("three"));
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(lines(Axes { x: "", y: "" }, &[]).is_err());
        let empty = Bars { groups: vec!["B".to_owned()], series: vec![], y: "", logarithmic: true };
        assert!(bars(&empty).is_err());
        assert!(layered(&[], &[], "").is_err());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(number_label(1_250_000.0), "1.25 M");
        assert_eq!(number_label(20_000.0), "20 k");
        assert_eq!(number_label(0.5), "0.5");
        assert_eq!((size_label(512.0), size_label(4096.0)), ("512".to_owned(), "4K".to_owned()));
    }
}
