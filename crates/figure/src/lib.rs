//! Figures that go into a paper: a typed chart in, SVG, CSV and PDF out, each with where its numbers come from.
//!
//! A [`Figure`] is a [`Plot`] with a title, a caption and a [`Source`]. One layout makes a list of shapes from it, which the
//! writers of SVG and PDF print; so both show the same. The palette gives a method or an engine one colour, mark and dash in
//! every figure.
//!
//! ```
//! use byway_figure::{Axis, Figure, Lines, Quantity, Series, Source};
//!
//! let plot = Lines::new(Axis::log2(Quantity::new("value size", "bytes")), Axis::log10(Quantity::new("latency", "µs")))
//!     .with(Series::measured("prp", [(32.0, 8.1), (4096.0, 9.4)]))
//!     .with(Series::measured("inline", [(32.0, 5.2), (4096.0, 61.0)]));
//! let figure = Figure::new("latency", "Latency by value size", plot, Source::of_this_machine("byway bench transfer"));
//! let svg = figure.svg()?;
//! assert!(svg.starts_with("<svg") && svg.contains("latency, µs"));
//! # Ok::<(), byway_figure::FigureError>(())
//! ```

#![forbid(unsafe_code)]

mod axis;
mod csv;
mod draw;
mod figure;
mod files;
mod page;
mod palette;
mod pdf;
mod plot;
mod scene;
mod source;
mod svg;
mod text;

pub use axis::{Axis, Quantity, Scale};
pub use figure::{Figure, FigureError, FigureFile};
pub use page::{Page, STYLE, escape};
pub use palette::{Colour, Dash, Look, Mark, MarkShape, Role, look};
pub use plot::{Bars, Dots, GroupSeries, LinePanels, Lines, Panel, Plot, Point, Series, Stacks, Value};
pub use source::{Paper, Source, commit, version_with_commit};
