//! The rectangle that values stand in, with its grid, ticks and titles.

use super::{LETTERS, MARGIN, SMALL, WIDTH};
use crate::axis::Range;
use crate::palette::Colour;
use crate::scene::{Anchor, Layer, Shape, Stroke, Text};
use crate::text;

/// Between ticks' labels and what they label.
const GAP: f64 = 6.0;
/// The same left of an axis upwards, where marks of the first points reach over it: the largest of three lines on each other.
const GAP_UP: f64 = 10.0;

/// A plot's rectangle, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Frame {
    /// Where a value of the axis across stands.
    pub fn across(&self, range: &Range, value: f64) -> Option<f64> {
        Some(self.left + range.fraction(value)? * (self.right - self.left))
    }

    /// Where a value of the axis upwards stands.
    pub fn up(&self, range: &Range, value: f64) -> Option<f64> {
        Some(self.bottom - range.fraction(value)? * (self.bottom - self.top))
    }

    /// Grid, ticks and title of the axis across, below the frame. Returns how far down they reach.
    pub fn draw_across(&self, layer: &mut Layer, range: &Range, title: &str) -> f64 {
        self.draw_grid_across(layer, range, true);
        self.draw_title_across(layer, title)
    }

    /// Grid and line of the axis across, with ticks below the frame where it is `labelled`.
    pub fn draw_grid_across(&self, layer: &mut Layer, range: &Range, labelled: bool) {
        let widest = range.ticks(9).iter().map(|tick| text::width(&tick.label, SMALL)).fold(1.0, f64::max);
        let wanted = ((self.right - self.left) / (widest + 14.0)).clamp(2.0, 9.0);
        let mut free_from = f64::NEG_INFINITY;
        for tick in range.ticks(wanted as usize) {
            let Some(x) = self.across(range, tick.value) else { continue };
            layer.line(vec![(x, self.top), (x, self.bottom)], Stroke::solid(Colour::GRID, 1.0));
            let half = text::width(&tick.label, SMALL) / 2.0;
            if labelled && x - half >= free_from {
                layer.text((x, self.bottom + GAP + SMALL * 0.8), Anchor::Middle, SMALL, tick.label);
                free_from = x + half + 5.0;
            }
        }
        layer
            .line(vec![(self.left, self.bottom), (self.right, self.bottom)], Stroke::solid(Colour::INK, 1.0));
    }

    /// Title of the axis across, below its ticks. Returns how far down it reaches.
    pub fn draw_title_across(&self, layer: &mut Layer, title: &str) -> f64 {
        let base = self.bottom + GAP + SMALL + GAP + LETTERS * 0.8;
        let middle = f64::midpoint(self.left, self.right).max(MARGIN + text::width(title, LETTERS) / 2.0);
        layer.text(
            (middle, base),
            Anchor::Middle,
            LETTERS,
            text::fitted(title, LETTERS, WIDTH - 2.0 * MARGIN),
        );
        base + LETTERS * 0.3 + MARGIN
    }

    /// Grid, ticks and title of the axis upwards, left of the frame.
    pub fn draw_up(&self, layer: &mut Layer, range: &Range, title: &str) {
        self.draw_grid_up(layer, range, true);
        self.draw_title_up(layer, title);
    }

    /// Grid and line of the axis upwards, with ticks left of the frame where it is `labelled`.
    pub fn draw_grid_up(&self, layer: &mut Layer, range: &Range, labelled: bool) {
        for tick in range.ticks(6) {
            let Some(y) = self.up(range, tick.value) else { continue };
            layer.line(vec![(self.left, y), (self.right, y)], Stroke::solid(Colour::GRID, 1.0));
            if labelled {
                layer.text((self.left - GAP_UP, y + SMALL * 0.35), Anchor::End, SMALL, tick.label);
            }
        }
        layer.line(vec![(self.left, self.top), (self.left, self.bottom)], Stroke::solid(Colour::INK, 1.0));
    }

    /// Title of the axis upwards, at the left edge.
    pub fn draw_title_up(&self, layer: &mut Layer, title: &str) {
        layer.shapes.push(Shape::Text(Text {
            at: (MARGIN + LETTERS * 0.8, f64::midpoint(self.top, self.bottom)),
            anchor: Anchor::Middle,
            pixels: LETTERS,
            colour: Colour::INK,
            upwards: true,
            content: text::fitted(title, LETTERS, self.bottom - self.top + 40.0),
        }));
    }

    /// Room for the ticks and the title of an axis upwards.
    pub fn left_of(range: &Range) -> f64 {
        let widest = range.ticks(6).iter().map(|tick| text::width(&tick.label, SMALL)).fold(0.0, f64::max);
        MARGIN + LETTERS + GAP + widest + GAP_UP
    }
}
