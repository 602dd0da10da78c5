//! A drawing as a list of shapes, in pixels from the upper left corner: what the layout makes, and the writers print.

use crate::palette::{Colour, Dash, Look, MarkShape};

/// Across and down.
pub(crate) type At = (f64, f64);

/// A line's paint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub colour: Colour,
    pub width: f64,
    pub dash: Dash,
}

impl Stroke {
    pub fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: Dash::Solid }
    }
}

/// Where a text stands by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Letters, their place being at the base line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub at: At,
    pub anchor: Anchor,
    pub pixels: f64,
    pub colour: Colour,
    /// Whether it runs upwards.
    pub upwards: bool,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Path { points: Vec<At>, closed: bool, fill: Option<Colour>, stroke: Option<Stroke> },
    Circle { centre: At, radius: f64, fill: Option<Colour>, stroke: Option<Stroke> },
    Text(Text),
}

/// Shapes that belong together, with a name where they are a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layer {
    pub name: Option<String>,
    pub shapes: Vec<Shape>,
}

impl Layer {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), shapes: Vec::new() }
    }

    pub fn line(&mut self, points: Vec<At>, stroke: Stroke) {
        self.shapes.push(Shape::Path { points, closed: false, fill: None, stroke: Some(stroke) });
    }

    pub fn rectangle(&mut self, (left, top): At, (right, bottom): At, fill: Colour) {
        let points = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
        self.shapes.push(Shape::Path { points, closed: true, fill: Some(fill), stroke: None });
    }

    pub fn text(&mut self, at: At, anchor: Anchor, pixels: f64, content: impl Into<String>) {
        let content = content.into();
        self.shapes.push(Shape::Text(Text {
            at,
            anchor,
            pixels,
            colour: Colour::INK,
            upwards: false,
            content,
        }));
    }

    /// A mark of a look, `radius` pixels from its middle to its side.
    pub fn mark(&mut self, look: Look, (x, y): At, radius: f64) {
        let stroke = Some(Stroke::solid(look.colour, 1.6));
        let fill = Some(if look.mark.hollow { Colour::PAPER } else { look.colour });
        let r = radius;
        let points = match look.mark.shape {
            MarkShape::Circle => {
                return self.shapes.push(Shape::Circle { centre: (x, y), radius: r, fill, stroke });
            }
            MarkShape::Cross => return self.strokes((x, y), [(r, r), (r, -r)], stroke),
            MarkShape::Plus => return self.strokes((x, y), [(r * 1.2, 0.0), (0.0, r * 1.2)], stroke),
            MarkShape::Square => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
            MarkShape::Up => {
                vec![(x, y - r * 1.25), (x + r * 1.15, y + r * 0.9), (x - r * 1.15, y + r * 0.9)]
            }
            MarkShape::Down => {
                vec![(x, y + r * 1.25), (x + r * 1.15, y - r * 0.9), (x - r * 1.15, y - r * 0.9)]
            }
            MarkShape::Diamond => {
                let r = r * 1.3;
                vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
            }
        };
        self.shapes.push(Shape::Path { points, closed: true, fill, stroke });
    }

    /// Strokes through a place, each from one end to the opposite one.
    fn strokes(&mut self, (x, y): At, ends: [At; 2], stroke: Option<Stroke>) {
        let Some(stroke) = stroke else { return };
        for (dx, dy) in ends {
            self.line(vec![(x - dx, y - dy), (x + dx, y + dy)], Stroke { width: 2.0, ..stroke });
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scene {
    pub width: f64,
    pub height: f64,
    pub layers: Vec<Layer>,
}
