//! Dots and bars by group: a row for each group, its name on the left, values across.

use super::frame::Frame;
use super::legend::{self, Entry, Sample};
use super::{MARGIN, SMALL, WIDTH};
use crate::axis::{Quantity, Range, Scale};
use crate::palette::{self, Colour, Look, Role};
use crate::plot::{Bars, Dots, GroupSeries, Value};
use crate::scene::{Anchor, Layer, Scene, Stroke};
use crate::text;

/// Height of what one series takes of a row, and of the room between rows.
const DOT: f64 = 11.0;
const BAR: f64 = 11.0;
const BETWEEN: f64 = 10.0;
/// Most of the width that names take.
const NAMES: f64 = 170.0;

/// Everything that rows are laid out by.
struct Rows<'a> {
    groups: &'a [String],
    series: &'a [GroupSeries],
    range: Range,
    title: String,
    sample: Sample,
}

pub(crate) fn dots(plot: &Dots) -> Option<Scene> {
    let range = range(plot.value.scale(), &plot.series)?;
    let title = plot.value.quantity().label();
    Some(scene(&Rows { groups: &plot.groups, series: &plot.series, range, title, sample: Sample::Mark }))
}

pub(crate) fn bars(plot: &Bars) -> Option<Scene> {
    let range = range(Scale::Linear, &plot.series)?;
    let title = Quantity::label(&plot.value);
    Some(scene(&Rows { groups: &plot.groups, series: &plot.series, range, title, sample: Sample::Bar }))
}

fn range(scale: Scale, series: &[GroupSeries]) -> Option<Range> {
    let values = series.iter().flat_map(|series| series.values.iter().flatten());
    Range::over(scale, values.flat_map(|value| value.ends()))
}

fn scene(rows: &Rows) -> Scene {
    let step = if rows.sample == Sample::Bar { BAR } else { DOT };
    let shown = rows.series.iter().filter(|series| series.role != Role::Target).count().max(1);
    let row = (step * shown as f64).max(SMALL + 2.0) + BETWEEN;
    let widest = rows.groups.iter().map(|name| text::width(name, SMALL)).fold(0.0, f64::max);
    let mut key = Layer::default();
    let top = legend::draw(&mut key, &entries(rows));
    let left = MARGIN + widest.min(NAMES) + 8.0;
    let bottom = top + row * rows.groups.len() as f64;
    let frame = Frame { left, top, right: WIDTH - MARGIN - 12.0, bottom };
    let mut ground = Layer::default();
    draw_names(&mut ground, rows, &frame, row);
    let height = frame.draw_across(&mut ground, &rows.range, &rows.title);
    let mut layers = vec![key, ground];
    let mut slot = 0;
    for (place, series) in rows.series.iter().enumerate() {
        let look = palette::look_in(series.role, &series.name, place);
        // The middle of its slot in the first row; a target takes the row's whole height.
        let from =
            top + BETWEEN / 2.0 + (row - BETWEEN - step * shown as f64) / 2.0 + step * (slot as f64 + 0.5);
        layers.push(layer(rows, series, look, &frame, (from, row)));
        slot += usize::from(series.role != Role::Target);
    }
    Scene { width: WIDTH, height, layers }
}

fn entries(rows: &Rows) -> Vec<Entry> {
    let entry = |(place, series): (usize, &GroupSeries)| Entry {
        name: series.name.clone(),
        look: palette::look_in(series.role, &series.name, place),
        role: series.role,
        sample: rows.sample,
    };
    rows.series.iter().enumerate().map(entry).collect()
}

fn draw_names(ground: &mut Layer, rows: &Rows, frame: &Frame, row: f64) {
    for (place, name) in rows.groups.iter().enumerate() {
        let top = frame.top + row * place as f64;
        let base = top + row / 2.0 + SMALL * 0.35;
        ground.text((frame.left - 8.0, base), Anchor::End, SMALL, text::fitted(name, SMALL, NAMES));
        if place > 0 {
            ground.line(vec![(frame.left, top), (frame.right, top)], Stroke::solid(Colour::GRID, 1.0));
        }
    }
    ground.line(vec![(frame.left, frame.top), (frame.left, frame.bottom)], Stroke::solid(Colour::INK, 1.0));
}

fn layer(rows: &Rows, series: &GroupSeries, look: Look, frame: &Frame, (from, row): (f64, f64)) -> Layer {
    let mut layer = Layer::named(&series.name);
    for (place, value) in series.values.iter().enumerate().take(rows.groups.len()) {
        let Some(value) = value else { continue };
        let Some(x) = frame.across(&rows.range, value.middle) else { continue };
        let y = from + row * place as f64;
        match (series.role, rows.sample) {
            (Role::Target, _) => draw_target(&mut layer, look, x, (frame.top + row * place as f64, row)),
            (_, Sample::Bar) => {
                let zero = frame.across(&rows.range, 0.0).unwrap_or(frame.left);
                let half = BAR / 2.0 - 1.0;
                layer.rectangle((zero.min(x), y - half), (zero.max(x), y + half), look.colour);
                draw_spread(&mut layer, Colour::INK, rows, frame, (*value, y));
            }
            _ => {
                draw_spread(&mut layer, look.colour, rows, frame, (*value, y));
                layer.mark(look, (x, y), 3.8);
            }
        }
    }
    layer
}

fn draw_target(layer: &mut Layer, look: Look, x: f64, (top, row): (f64, f64)) {
    let stroke = Stroke { colour: look.colour, width: 2.0, dash: look.dash };
    layer.line(vec![(x, top + 2.0), (x, top + row - 2.0)], stroke);
}

fn draw_spread(layer: &mut Layer, colour: Colour, rows: &Rows, frame: &Frame, (value, y): (Value, f64)) {
    let Some((low, high)) = value.spread else { return };
    let (Some(low), Some(high)) = (frame.across(&rows.range, low), frame.across(&rows.range, high)) else {
        return;
    };
    let stroke = Stroke::solid(colour, 1.2);
    layer.line(vec![(low, y), (high, y)], stroke);
    for end in [low, high] {
        layer.line(vec![(end, y - 3.0), (end, y + 3.0)], stroke);
    }
}
