//! The font of figures: a subset of Arimo (SIL Open Font License 1.1), as wide as Arial and Helvetica letter by letter.
//!
//! PDF files have it within. SVG files name it and those two, so that the layout holds for whichever a reader has.

use std::sync::OnceLock;

use ttf_parser::{Face, GlyphId};

/// The font's file.
pub(crate) const FONT: &[u8] = include_bytes!("../fonts/Arimo-subset.ttf");
/// The name that SVG files ask for, and what stands in for it.
pub(crate) const FAMILY: &str = "Arimo, Arial, Helvetica, 'Liberation Sans', sans-serif";
/// Width of a letter where the font could not be read, in ems.
const USUAL_EM: f64 = 0.55;

/// The font, parsed once.
pub(crate) fn face() -> Option<&'static Face<'static>> {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    FACE.get_or_init(|| Face::parse(FONT, 0).ok()).as_ref()
}

/// The glyph of a letter; that of `?` for one that the font does not have.
pub(crate) fn glyph(letter: char) -> GlyphId {
    let of = |letter| face().and_then(|face| face.glyph_index(letter));
    of(letter).or_else(|| of('?')).unwrap_or_default()
}

/// Width of a glyph, in ems.
pub(crate) fn glyph_width(glyph: GlyphId) -> f64 {
    face()
        .and_then(|face| Some(f64::from(face.glyph_hor_advance(glyph)?) / f64::from(face.units_per_em())))
        .unwrap_or(USUAL_EM)
}

/// Width of a text in letters of `pixels`.
pub(crate) fn width(text: &str, pixels: f64) -> f64 {
    text.chars().map(|letter| glyph_width(glyph(letter))).sum::<f64>() * pixels
}

/// The text, cut with an ellipsis where it is wider than `most` pixels.
pub(crate) fn fitted(text: &str, pixels: f64, most: f64) -> String {
    if width(text, pixels) <= most {
        return text.to_owned();
    }
    let mut cut = text.to_owned();
    while !cut.is_empty() && width(&cut, pixels) + width("…", pixels) > most {
        cut.pop();
    }
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_what_labels_need() {
        let letters = "aZ09 µ×÷≥≤→·–…é²Ωπ\u{a0}";
        assert!(letters.chars().all(|letter| face().is_some_and(|face| face.glyph_index(letter).is_some())));
        assert_eq!(glyph('\u{1f600}'), glyph('?'));
    }

    #[test]
    fn widths_are_those_of_arial() {
        // Arial's digits are 1139 of 2048 units wide.
        assert!((width("0123", 10.0) - 4.0 * 5.561).abs() < 0.01);
        assert!(width(&fitted("a long name of a series", 12.0, 60.0), 12.0) <= 60.0);
    }
}
