//! One colour for each name, the same in every plot.

use plotters::style::RGBColor;

/// Methods and adaptive labels. Neighbours in a plot differ in lightness as well as in hue.
const NAMED: [(&str, RGBColor); 14] = [
    ("prp", RGBColor(0x33, 0x33, 0x33)),
    ("sgl", RGBColor(0x9a, 0x9a, 0x9a)),
    ("piggyback", RGBColor(0xd5, 0x5e, 0x00)),
    ("piggyback-pt", RGBColor(0xe6, 0x9f, 0x60)),
    ("prp+tail", RGBColor(0x8c, 0x5a, 0x2b)),
    ("inline", RGBColor(0x00, 0x72, 0xb2)),
    ("hybrid", RGBColor(0x56, 0xb4, 0xe9)),
    ("cxl", RGBColor(0x00, 0x7a, 0x5a)),
    ("cxl+piggyback", RGBColor(0x5c, 0xc0, 0x8f)),
    ("adaptive", RGBColor(0xaa, 0x33, 0x77)),
    ("adaptive-p", RGBColor(0xaa, 0x33, 0x77)),
    ("adaptive-c", RGBColor(0xd9, 0x8c, 0xb8)),
    ("bulk", RGBColor(0xb8, 0x9b, 0x00)),
    ("byte-store", RGBColor(0x6a, 0x51, 0xa3)),
];

/// For what has no colour of its own: parts of a time, packing policies.
const OTHERS: [RGBColor; 8] = [
    RGBColor(0x4c, 0x6f, 0xb0),
    RGBColor(0x5f, 0xb3, 0x9b),
    RGBColor(0xe0, 0xa4, 0x3b),
    RGBColor(0xc4, 0x4e, 0x52),
    RGBColor(0x93, 0x7a, 0xb8),
    RGBColor(0x8c, 0x8c, 0x8c),
    RGBColor(0x2f, 0x8f, 0xb5),
    RGBColor(0x7a, 0x5a, 0x44),
];

/// The colour of a name, or the one at a place in a list of others.
pub fn of(name: &str, place: usize) -> RGBColor {
    let named = NAMED.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
    named.unwrap_or(OTHERS[place % OTHERS.len()])
}

/// The colour as CSS has it.
pub fn css(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
