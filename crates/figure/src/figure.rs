//! A figure: a plot, its words, and the files it becomes.

use crate::plot::Plot;
use crate::source::Source;

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// Its axes have no value to show.
    #[error("figure {0}: it has no value that its axes can show")]
    Empty(String),
}

/// A file that a figure becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureFile {
    /// `ID.svg`, `ID.csv` or `ID.pdf`.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A plot with a title, a caption and where its numbers come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    id: String,
    title: String,
    caption: String,
    plot: Plot,
    source: Source,
    dark: bool,
}

impl Figure {
    /// A figure without a caption. `id` names its files: letters, digits, `-`.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        plot: impl Into<Plot>,
        source: Source,
    ) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, caption: String::new(), plot: plot.into(), source, dark: false }
    }

    /// Sets the text below it.
    pub fn with_caption(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// Makes its SVG take dark colours where the reader's page is dark: for files shown as images, since the style of an SVG
    /// within a page applies to the whole page.
    pub fn with_dark_colours(self) -> Self {
        Self { dark: true, ..self }
    }

    /// Names its files and its place in a page.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it shows, in a line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What a reader must know to read it.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// What is drawn.
    pub fn plot(&self) -> &Plot {
        &self.plot
    }

    /// Where its numbers come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn has_dark_colours(&self) -> bool {
        self.dark
    }
}
