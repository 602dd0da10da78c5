//! Bars that are made of parts, in panels on one scale.

use super::frame::Frame;
use super::legend::{self, Entry, Sample};
use super::{LETTERS, MARGIN, SMALL, WIDTH};
use crate::axis::{Range, Scale};
use crate::palette::{self, Colour, Role};
use crate::plot::{Panel, Stacks};
use crate::scene::{Anchor, Layer, Scene, Stroke};
use crate::text;

/// Height of a bar with the room below it, of a bar, and of a panel's title.
const ROW: f64 = 20.0;
const BAR: f64 = 14.0;
const TITLE: f64 = 24.0;
/// Most of the width that names take.
const NAMES: f64 = 150.0;

pub(crate) fn scene(plot: &Stacks) -> Option<Scene> {
    let totals = plot.panels.iter().flat_map(|panel| {
        (0..panel.bars.len()).map(|bar| panel.layers.iter().filter_map(|layer| layer.get(bar)).sum::<f64>())
    });
    let range = Range::over(Scale::Linear, totals)?;
    let names = plot.panels.iter().flat_map(|panel| &panel.bars);
    let widest = names.map(|name| text::width(name, SMALL)).fold(0.0, f64::max).min(NAMES);
    let mut key = Layer::default();
    let top = legend::draw(&mut key, &entries(plot));
    let titled = plot.panels.len() > 1;
    let rows: f64 = plot.panels.iter().map(|panel| panel_height(panel, titled)).sum();
    let frame =
        Frame { left: MARGIN + widest + 8.0, top, right: WIDTH - MARGIN - 12.0, bottom: top + rows + 4.0 };
    let mut ground = Layer::default();
    let height = frame.draw_across(&mut ground, &range, &plot.value.label());
    let mut parts: Vec<Layer> = plot.parts.iter().map(Layer::named).collect();
    let mut y = top;
    for panel in &plot.panels {
        draw_panel(&mut ground, &mut parts, panel, (&frame, &range), (y, titled));
        y += panel_height(panel, titled);
    }
    ground.line(vec![(frame.left, top), (frame.left, frame.bottom)], Stroke::solid(Colour::INK, 1.0));
    let mut layers = vec![key, ground];
    layers.append(&mut parts);
    Some(Scene { width: WIDTH, height, layers })
}

fn panel_height(panel: &Panel, titled: bool) -> f64 {
    ROW * panel.bars.len() as f64 + if titled { TITLE } else { 4.0 }
}

fn entries(plot: &Stacks) -> Vec<Entry> {
    let entry = |(place, name): (usize, &String)| Entry {
        name: name.clone(),
        look: palette::look(name, place),
        role: Role::Measured,
        sample: Sample::Bar,
    };
    plot.parts.iter().enumerate().map(entry).collect()
}

fn draw_panel(
    ground: &mut Layer,
    parts: &mut [Layer],
    panel: &Panel,
    (frame, range): (&Frame, &Range),
    (top, titled): (f64, bool),
) {
    if titled {
        ground.text((frame.left + 6.0, top + TITLE - 7.0), Anchor::Start, LETTERS, panel.title.clone());
    }
    let first = top + if titled { TITLE } else { 4.0 };
    for (place, name) in panel.bars.iter().enumerate() {
        let middle = first + ROW * place as f64 + BAR / 2.0;
        let fitted = text::fitted(name, SMALL, NAMES);
        ground.text((frame.left - 8.0, middle + SMALL * 0.35), Anchor::End, SMALL, fitted);
        let mut from = 0.0;
        for (part, (layer, values)) in parts.iter_mut().zip(&panel.layers).enumerate() {
            let to = from + values.get(place).copied().unwrap_or(0.0);
            let colour = palette::look(layer.name.as_deref().unwrap_or(""), part).colour;
            if let (Some(left), Some(right)) = (frame.across(range, from), frame.across(range, to)) {
                draw_part(layer, (left, right), middle, colour);
            }
            from = to;
        }
    }
}

/// A part, with a line of paper where the next one begins.
fn draw_part(layer: &mut Layer, (left, right): (f64, f64), middle: f64, colour: Colour) {
    if right - left < 0.05 {
        return;
    }
    let end = if right - left > 2.0 { right - 0.7 } else { right };
    layer.rectangle((left, middle - BAR / 2.0), (end, middle + BAR / 2.0), colour);
}
