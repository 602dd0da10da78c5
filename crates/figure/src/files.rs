//! The files that a figure becomes.

use crate::figure::{Figure, FigureError, FigureFile};
use crate::{csv, draw, pdf, svg};

impl Figure {
    /// The drawing as SVG: text is text, title and description are for readers that do not see it.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn svg(&self) -> Result<String, FigureError> {
        Ok(svg::write(self, &draw::scene(self)?))
    }

    /// The drawing as a page of PDF of its own size: vectors, and the font within.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn pdf(&self) -> Result<Vec<u8>, FigureError> {
        Ok(pdf::write(self, &draw::scene(self)?))
    }

    /// The numbers as one table, a row for each value, behind lines of `#` that say where they come from.
    pub fn csv(&self) -> String {
        csv::write(self)
    }

    /// The three files.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn files(&self) -> Result<[FigureFile; 3], FigureError> {
        let file = |ending, bytes| FigureFile { name: format!("{}.{ending}", self.id()), bytes };
        Ok([
            file("svg", self.svg()?.into_bytes()),
            file("csv", self.csv().into_bytes()),
            file("pdf", self.pdf()?),
        ])
    }
}
