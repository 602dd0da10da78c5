//! Panels of lines, two beside each other, on one pair of axes.

use super::frame::Frame;
use super::legend::{self, Entry};
use super::lines::{self, Line};
use super::{LETTERS, MARGIN, WIDTH};
use crate::axis::Range;
use crate::plot::LinePanels;
use crate::scene::{Anchor, Layer, Scene};

/// Panels beside each other, and the room between them.
const COLUMNS: usize = 2;
const BETWEEN: f64 = 24.0;
/// Heights of a panel's title and of its rectangle.
const TITLE: f64 = 20.0;
const HEIGHT: f64 = 130.0;

/// Where panels are.
struct Grid {
    left: f64,
    top: f64,
    panels: usize,
}

impl Grid {
    /// The rectangle of a panel.
    fn frame(&self, place: usize) -> Frame {
        let right = WIDTH - MARGIN - 8.0;
        let width = (right - self.left - BETWEEN * (COLUMNS - 1) as f64) / COLUMNS as f64;
        let left = self.left + (place % COLUMNS) as f64 * (width + BETWEEN);
        let top = self.top + (place / COLUMNS) as f64 * (TITLE + HEIGHT) + TITLE;
        Frame { left, top, right: left + width, bottom: top + HEIGHT }
    }

    /// The rectangle of all panels.
    fn whole(&self) -> Frame {
        let last = self.frame(self.panels.saturating_sub(1));
        Frame { left: self.left, top: self.top, right: WIDTH - MARGIN - 8.0, bottom: last.bottom }
    }

    /// Whether no panel is below one.
    fn is_lowest(&self, place: usize) -> bool {
        place + COLUMNS >= self.panels
    }
}

pub(crate) fn scene(plot: &LinePanels) -> Option<Scene> {
    let all = plot.panels.iter().flat_map(|(_, series)| series);
    let (x, y) = lines::ranges((&plot.x, &plot.y), all)?;
    let mut grid = Grid { left: Frame::left_of(&y), top: 0.0, panels: plot.panels.len() };
    let mut key = Layer::default();
    grid.top = legend::draw(&mut key, &entries(&lay_out(plot, &grid, (&x, &y))));
    let mut ground = Layer::default();
    let height = draw_ground(&mut ground, plot, &grid, (&x, &y));
    let mut layers = vec![key, ground];
    for (place, lines) in lay_out(plot, &grid, (&x, &y)).iter().enumerate() {
        let frame = grid.frame(place);
        layers.extend(lines.iter().map(|line| lines::layer(line, &frame, (&x, &y))));
    }
    Some(Scene { width: WIDTH, height, layers })
}

/// The lines of each panel.
fn lay_out<'a>(plot: &'a LinePanels, grid: &Grid, ranges: (&Range, &Range)) -> Vec<Vec<Line<'a>>> {
    let panels = plot.panels.iter().enumerate();
    panels.map(|(place, (_, series))| lines::lay_out(series, &grid.frame(place), ranges)).collect()
}

/// Grids, ticks and titles. Returns how far down they reach.
fn draw_ground(ground: &mut Layer, plot: &LinePanels, grid: &Grid, (x, y): (&Range, &Range)) -> f64 {
    for (place, (title, _)) in plot.panels.iter().enumerate() {
        let frame = grid.frame(place);
        ground.text((frame.left + 2.0, frame.top - 6.0), Anchor::Start, LETTERS, title.clone());
        frame.draw_grid_across(ground, x, grid.is_lowest(place));
        frame.draw_grid_up(ground, y, place % COLUMNS == 0);
    }
    let whole = grid.whole();
    whole.draw_title_up(ground, &plot.y.quantity().label());
    whole.draw_title_across(ground, &plot.x.quantity().label())
}

/// The names of the first panel; a line on another is said to be so where it is in every panel.
fn entries(panels: &[Vec<Line>]) -> Vec<Entry> {
    let Some(first) = panels.first() else { return Vec::new() };
    let entry = |(place, line): (usize, &Line)| {
        let is_everywhere =
            panels.iter().all(|lines| lines.get(place).is_some_and(|other| other.covers == line.covers));
        lines::entry(line, line.covers.filter(|_| is_everywhere))
    };
    first.iter().enumerate().map(entry).collect()
}
