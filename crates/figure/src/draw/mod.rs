//! The layout of figures: sizes that are read at 400 pixels of width, and in a column of a paper.

mod frame;
mod groups;
mod legend;
mod lines;
mod panels;
mod stacks;

use crate::figure::{Figure, FigureError};
use crate::plot::Plot;
use crate::scene::Scene;

/// Width of every figure. Shown at 400 pixels, its smallest letters are 10 pixels high.
pub(crate) const WIDTH: f64 = 480.0;
/// Letters of ticks and legends.
pub(crate) const SMALL: f64 = 12.0;
/// Letters of axis titles.
pub(crate) const LETTERS: f64 = 13.0;
/// From the edges to anything.
pub(crate) const MARGIN: f64 = 8.0;

/// Lays a figure out.
pub(crate) fn scene(figure: &Figure) -> Result<Scene, FigureError> {
    let scene = match figure.plot() {
        Plot::Lines(plot) => lines::scene(plot),
        Plot::LinePanels(plot) => panels::scene(plot),
        Plot::Dots(plot) => groups::dots(plot),
        Plot::Bars(plot) => groups::bars(plot),
        Plot::Stacks(plot) => stacks::scene(plot),
    };
    scene.ok_or_else(|| FigureError::Empty(figure.id().to_owned()))
}
