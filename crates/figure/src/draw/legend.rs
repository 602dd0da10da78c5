//! The legend: above the plot, in as many rows as it takes.

use super::{MARGIN, SMALL, WIDTH};
use crate::palette::{Look, Role};
use crate::scene::{Anchor, Layer, Stroke};
use crate::text;

/// Height of a row.
const ROW: f64 = 18.0;
/// Width of a sample of a line, and of a bar.
const LINE_SAMPLE: f64 = 30.0;
const BAR_SAMPLE: f64 = 12.0;
/// Between a sample and its text, and between a text and the next sample.
const GAP: f64 = 5.0;
const NEXT: f64 = 14.0;

/// What stands beside a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A stretch of the line with its mark.
    Line,
    /// The mark alone.
    Mark,
    /// A filled square.
    Bar,
}

/// One name of a legend.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub look: Look,
    pub role: Role,
    pub sample: Sample,
}

impl Entry {
    fn sample_width(&self) -> f64 {
        if self.sample == Sample::Line || self.role == Role::Target { LINE_SAMPLE } else { BAR_SAMPLE }
    }

    fn draw(&self, layer: &mut Layer, (x, y): (f64, f64)) {
        let middle = y - 4.0;
        let width = self.sample_width();
        let centre = (x + width / 2.0, middle);
        let stroke = Stroke { colour: self.look.colour, width: 2.0, dash: self.look.dash };
        match (self.role, self.sample) {
            (Role::Target, _) => layer.line(vec![(x, middle), (x + width, middle)], stroke),
            (_, Sample::Line) => {
                layer.line(vec![(x, middle), (x + width, middle)], stroke);
                layer.mark(self.look, centre, 3.6);
            }
            (_, Sample::Mark) => layer.mark(self.look, centre, 4.0),
            (_, Sample::Bar) => {
                layer.rectangle((x, middle - 5.0), (x + width, middle + 5.0), self.look.colour)
            }
        }
        layer.text((x + width + GAP, y), Anchor::Start, SMALL, self.name.clone());
    }
}

/// Draws the entries and returns how far down they reach.
pub(crate) fn draw(layer: &mut Layer, entries: &[Entry]) -> f64 {
    let (mut x, mut y) = (MARGIN, MARGIN + SMALL);
    let right = WIDTH - MARGIN;
    for entry in entries {
        let room = right - MARGIN - entry.sample_width() - GAP;
        let name = text::fitted(&entry.name, SMALL, room);
        let width = entry.sample_width() + GAP + text::width(&name, SMALL);
        if x > MARGIN && x + width > right {
            (x, y) = (MARGIN, y + ROW);
        }
        Entry { name, ..entry.clone() }.draw(layer, (x, y));
        x += width + NEXT;
    }
    if entries.is_empty() { MARGIN } else { y + 12.0 }
}
