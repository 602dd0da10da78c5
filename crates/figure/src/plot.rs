//! What can be drawn: lines over a quantity, alone and in panels, dots, bars and stacks by group.
//!
//! Bars begin at zero, which a logarithmic axis does not have: [`Bars`] and [`Stacks`] have a [`Quantity`] and no scale, and what
//! needs a logarithmic scale is drawn as [`Dots`].

use crate::axis::{Axis, Quantity};
use crate::palette::Role;

/// A measured value, with the range of its repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The median, or the only measurement.
    pub middle: f64,
    /// The least and the most of its repetitions.
    pub spread: Option<(f64, f64)>,
}

impl Value {
    /// With the range of repetitions.
    pub fn spread(middle: f64, low: f64, high: f64) -> Self {
        Self { middle, spread: Some((low, high)) }
    }

    pub(crate) fn ends(self) -> impl Iterator<Item = f64> + Clone {
        let (low, high) = self.spread.unwrap_or((self.middle, self.middle));
        [self.middle, low, high].into_iter()
    }
}

impl From<f64> for Value {
    fn from(middle: f64) -> Self {
        Self { middle, spread: None }
    }
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: Value,
}

impl<Y: Into<Value>> From<(f64, Y)> for Point {
    fn from((x, y): (f64, Y)) -> Self {
        Self { x, y: y.into() }
    }
}

/// One line: its name decides colour and mark, its role the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// A method, an engine, or another name for the legend.
    pub name: String,
    /// What its points are.
    pub role: Role,
    /// In the order that they are joined in.
    pub points: Vec<Point>,
}

impl Series {
    /// Points in a role.
    pub fn new<P: Into<Point>>(
        name: impl Into<String>,
        role: Role,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self { name: name.into(), role, points: points.into_iter().map(Into::into).collect() }
    }

    /// Measured points.
    pub fn measured<P: Into<Point>>(name: impl Into<String>, points: impl IntoIterator<Item = P>) -> Self {
        Self::new(name, Role::Measured, points)
    }
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Lines {
    /// No lines yet.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, series: Vec::new() }
    }

    /// One line more.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}

/// Panels of lines over the same two axes, each with the same names: small multiples.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePanels {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Title and lines of each.
    pub(crate) panels: Vec<(String, Vec<Series>)>,
}

impl LinePanels {
    /// No panels yet.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, panels: Vec::new() }
    }

    /// One panel more.
    pub fn with(mut self, title: impl Into<String>, series: impl IntoIterator<Item = Series>) -> Self {
        self.panels.push((title.into(), series.into_iter().collect()));
        self
    }
}

/// Values of one name, one for each group; a group without one stays empty.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSeries {
    /// As of [`Series`].
    pub name: String,
    /// What its values are.
    pub role: Role,
    /// In the order of the groups.
    pub values: Vec<Option<Value>>,
}

impl GroupSeries {
    /// Values in a role.
    pub fn new(name: impl Into<String>, role: Role, values: impl IntoIterator<Item = Option<Value>>) -> Self {
        Self { name: name.into(), role, values: values.into_iter().collect() }
    }

    /// Measured values.
    pub fn measured(name: impl Into<String>, values: impl IntoIterator<Item = Option<Value>>) -> Self {
        Self::new(name, Role::Measured, values)
    }
}

/// Dots beside the name of each group, on any scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Dots {
    pub(crate) groups: Vec<String>,
    pub(crate) value: Axis,
    pub(crate) series: Vec<GroupSeries>,
}

impl Dots {
    /// Groups without values yet.
    pub fn new(groups: impl IntoIterator<Item = impl Into<String>>, value: Axis) -> Self {
        Self { groups: groups.into_iter().map(Into::into).collect(), value, series: Vec::new() }
    }

    /// Values of one name more.
    pub fn with(mut self, series: GroupSeries) -> Self {
        self.series.push(series);
        self
    }
}

/// Bars from zero beside the name of each group, on a linear scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub(crate) groups: Vec<String>,
    pub(crate) value: Quantity,
    pub(crate) series: Vec<GroupSeries>,
}

impl Bars {
    /// Groups without values yet.
    pub fn new(groups: impl IntoIterator<Item = impl Into<String>>, value: Quantity) -> Self {
        Self { groups: groups.into_iter().map(Into::into).collect(), value, series: Vec::new() }
    }

    /// Values of one name more.
    pub fn with(mut self, series: GroupSeries) -> Self {
        self.series.push(series);
        self
    }
}

/// Bars of one panel: `layers[part][bar]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What the panel shows.
    pub title: String,
    /// The name of each bar.
    pub bars: Vec<String>,
    /// The values of each part, from zero on.
    pub layers: Vec<Vec<f64>>,
}

/// Panels of bars that are made of parts, on one linear scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacks {
    pub(crate) value: Quantity,
    pub(crate) parts: Vec<String>,
    pub(crate) panels: Vec<Panel>,
}

impl Stacks {
    /// Parts without panels yet.
    pub fn new(parts: impl IntoIterator<Item = impl Into<String>>, value: Quantity) -> Self {
        Self { value, parts: parts.into_iter().map(Into::into).collect(), panels: Vec::new() }
    }

    /// One panel more.
    pub fn with(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }
}

/// What a figure shows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Plot {
    /// Lines over two axes.
    Lines(Lines),
    /// Panels of lines.
    LinePanels(LinePanels),
    /// Dots by group.
    Dots(Dots),
    /// Bars by group.
    Bars(Bars),
    /// Bars that are made of parts.
    Stacks(Stacks),
}

impl Plot {
    /// Names of the legend, in their order.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Lines(plot) => plot.series.iter().map(|series| series.name.as_str()).collect(),
            Self::LinePanels(plot) => {
                let first = plot.panels.first().into_iter().flat_map(|(_, series)| series);
                first.map(|series| series.name.as_str()).collect()
            }
            Self::Dots(plot) => plot.series.iter().map(|series| series.name.as_str()).collect(),
            Self::Bars(plot) => plot.series.iter().map(|series| series.name.as_str()).collect(),
            Self::Stacks(plot) => plot.parts.iter().map(String::as_str).collect(),
        }
    }
}

macro_rules! plots {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Plot {
            fn from(plot: $kind) -> Self {
                Self::$kind(plot)
            }
        }
    )*};
}
plots!(Lines, LinePanels, Dots, Bars, Stacks);
