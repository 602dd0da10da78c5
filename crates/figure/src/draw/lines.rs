//! Lines over two axes.

use super::frame::Frame;
use super::legend::{self, Entry, Sample};
use super::{MARGIN, WIDTH};
use crate::axis::{Axis, Range};
use crate::palette::{self, Look, Role};
use crate::plot::{Lines, Series};
use crate::scene::{At, Layer, Scene, Stroke};

/// Height of the plot's rectangle.
const HEIGHT: f64 = 270.0;
/// Radius of marks, and by how much they grow under each line that coincides.
const MARK: f64 = 3.4;
const MARK_GROWS: f64 = 2.2;
/// Lines this near at every common point coincide to a reader.
const NEAR: f64 = 2.0;
/// Each point has a mark, unless points are nearer than this on average.
const MARK_DISTANCE: f64 = 7.0;
/// Then marks are at least this far from each other.
const SPARSE_DISTANCE: f64 = 36.0;

/// A series, laid out.
pub(super) struct Line<'a> {
    series: &'a Series,
    look: Look,
    points: Vec<At>,
    /// How many later lines coincide with it.
    covered: usize,
    /// The line that it coincides with.
    pub covers: Option<&'a str>,
}

pub(crate) fn scene(plot: &Lines) -> Option<Scene> {
    let (x, y) = ranges((&plot.x, &plot.y), plot.series.iter())?;
    let placed = |frame: &Frame| lay_out(&plot.series, frame, (&x, &y));
    let (left, right) = (Frame::left_of(&y), WIDTH - MARGIN - 8.0);
    let measure = Frame { left, top: 0.0, right, bottom: HEIGHT };
    let mut key = Layer::default();
    let top = legend::draw(&mut key, &entries(&placed(&measure)));
    let frame = Frame { left, top, right, bottom: top + HEIGHT };
    let mut ground = Layer::default();
    let height = frame.draw_across(&mut ground, &x, &plot.x.quantity().label());
    frame.draw_up(&mut ground, &y, &plot.y.quantity().label());
    let mut layers = vec![key, ground];
    layers.extend(placed(&frame).iter().map(|line| layer(line, &frame, (&x, &y))));
    Some(Scene { width: WIDTH, height, layers })
}

/// What the axes of lines show; `None` where they have no value that can be shown.
pub(super) fn ranges<'a>(
    (x, y): (&Axis, &Axis),
    series: impl Iterator<Item = &'a Series> + Clone,
) -> Option<(Range, Range)> {
    let values = || series.clone().flat_map(|series| &series.points);
    let across = values().map(|point| point.x).collect::<Vec<_>>();
    let x = Range::tight(x.scale(), across.iter().copied())?;
    let y = Range::over(y.scale(), values().flat_map(|point| point.y.ends()))?;
    Some((x, y))
}

pub(super) fn lay_out<'a>(all: &'a [Series], frame: &Frame, (x, y): (&Range, &Range)) -> Vec<Line<'a>> {
    let mut lines: Vec<Line> = Vec::new();
    for (place, series) in all.iter().enumerate() {
        let at = |point: &crate::Point| Some((frame.across(x, point.x)?, frame.up(y, point.y.middle)?));
        let points: Vec<At> = series.points.iter().filter_map(at).collect();
        let look = palette::look_in(series.role, &series.name, place);
        let below = lines.iter_mut().filter(|line| coincide(&line.points, &points));
        let mut covers = None;
        for line in below {
            line.covered += 1;
            covers = covers.or(Some(line.series.name.as_str()));
        }
        lines.push(Line { series, look, points, covered: 0, covers });
    }
    lines
}

/// Whether two lines have at least two places in common, and lie on each other at every one of them.
fn coincide(one: &[At], two: &[At]) -> bool {
    let mut common = 0;
    for (x, y) in one {
        for (_, other) in two.iter().filter(|(at, _)| (at - x).abs() < 0.5) {
            if (other - y).abs() > NEAR {
                return false;
            }
            common += 1;
        }
    }
    common >= 2
}

fn entries(lines: &[Line]) -> Vec<Entry> {
    lines.iter().map(|line| entry(line, line.covers)).collect()
}

/// An entry of the legend, with the line that it lies on.
pub(super) fn entry(line: &Line, covers: Option<&str>) -> Entry {
    let name = match covers {
        Some(other) => format!("{} (on {other})", line.series.name),
        None => line.series.name.clone(),
    };
    Entry { name, look: line.look, role: line.series.role, sample: Sample::Line }
}

/// The line with its spread and marks. Where others lie on it, it is wider and its marks larger, so that they show around those.
pub(super) fn layer(line: &Line, frame: &Frame, ranges: (&Range, &Range)) -> Layer {
    let mut layer = Layer::named(&line.series.name);
    let width = 2.0 + 2.4 * line.covered as f64;
    layer.line(line.points.clone(), Stroke { colour: line.look.colour, width, dash: dash(line) });
    draw_spread(&mut layer, line, frame, ranges);
    if line.series.role != Role::Target {
        let radius = MARK + MARK_GROWS * line.covered as f64;
        marked(&line.points).into_iter().for_each(|at| layer.mark(line.look, at, radius));
    }
    layer
}

/// A covered line is whole, so that it shows in the gaps of those above.
fn dash(line: &Line) -> palette::Dash {
    if line.covered > 0 && line.series.role == Role::Measured { palette::Dash::Solid } else { line.look.dash }
}

/// Points with a mark: all of them, or some at a distance where they are many, so that the line shows the mark of its legend.
fn marked(points: &[At]) -> Vec<At> {
    if leave_room_for_marks(points) {
        return points.to_vec();
    }
    let mut marked: Vec<At> = Vec::new();
    for &at in points {
        if marked.last().is_none_or(|last| (at.0 - last.0).abs() >= SPARSE_DISTANCE) {
            marked.push(at);
        }
    }
    marked
}

fn leave_room_for_marks(points: &[At]) -> bool {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
    points.len() < 4 || (last.0 - first.0).abs() / (points.len() - 1) as f64 >= MARK_DISTANCE
}

fn draw_spread(layer: &mut Layer, line: &Line, frame: &Frame, (x, y): (&Range, &Range)) {
    let stroke = Stroke::solid(line.look.colour, 1.2);
    for point in &line.series.points {
        let Some((low, high)) = point.y.spread else { continue };
        let (Some(at), Some(low), Some(high)) =
            (frame.across(x, point.x), frame.up(y, low), frame.up(y, high))
        else {
            continue;
        };
        layer.line(vec![(at, low), (at, high)], stroke);
        for end in [low, high] {
            layer.line(vec![(at - 3.0, end), (at + 3.0, end)], stroke);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_line_has_marks_at_a_distance() {
        let line = |step: f64| (0..100).map(|at| (f64::from(at) * step, 1.0)).collect::<Vec<At>>();
        assert_eq!(marked(&line(8.0)).len(), 100);
        let sparse = marked(&line(3.0));
        assert_eq!((sparse.len(), sparse.first(), sparse.get(1)), (9, Some(&(0.0, 1.0)), Some(&(36.0, 1.0))));
        assert!(marked(&[]).is_empty());
    }

    #[test]
    fn lines_coincide_where_every_common_point_does() {
        let line = [(0.0, 10.0), (50.0, 20.0), (100.0, 30.0)];
        let above = line.map(|(x, y)| (x, y + 1.0));
        assert!(coincide(&line, &above));
        assert!(!coincide(&line, &[(0.0, 10.0), (50.0, 28.0)]));
        assert!(!coincide(&line, &[(7.0, 10.0)]));
    }
}
