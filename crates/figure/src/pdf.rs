//! Drawings as PDF 1.7: one page of the drawing's size, vectors alone, the font within.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, LineCapStyle, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use crate::figure::Figure;
use crate::palette::Colour;
use crate::scene::{Anchor, At, Scene, Shape, Stroke, Text};
use crate::text;

/// Points of a pixel: letters of 12 pixels are 9 points high.
const POINTS: f32 = 0.75;
/// How far the handles of a quarter of a circle reach, by its radius.
const QUARTER: f64 = 0.552_285;
/// Name of the font within the page, and of the subset.
const FONT: Name = Name(b"F1");
const BASE_FONT: Name = Name(b"ARFIGR+Arimo");
/// Of zlib, as good as it gets: files are written once.
const COMPRESSION: u8 = 9;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const TYPE0: Ref = Ref::new(5);
const CID: Ref = Ref::new(6);
const DESCRIPTOR: Ref = Ref::new(7);
const UNICODE: Ref = Ref::new(8);
const FILE: Ref = Ref::new(9);
const INFO: Ref = Ref::new(10);

pub(crate) fn write(figure: &Figure, scene: &Scene) -> Vec<u8> {
    let mut pdf = Pdf::new();
    let size = Rect::new(0.0, 0.0, scene.width as f32 * POINTS, scene.height as f32 * POINTS);
    pdf.catalog(CATALOG).pages(PAGES).lang(TextStr("en")).viewer_preferences().display_doc_title(true);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(size).parent(PAGES).contents(CONTENT);
    page.resources().fonts().pair(FONT, TYPE0);
    page.finish();
    let mut glyphs = BTreeMap::new();
    let content = deflated(&content(scene, &mut glyphs));
    pdf.stream(CONTENT, &content).filter(Filter::FlateDecode);
    push_font(&mut pdf, &glyphs);
    push_info(&mut pdf, figure);
    pdf.finish()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, COMPRESSION)
}

fn push_info(pdf: &mut Pdf, figure: &Figure) {
    let origin = figure.source().line();
    let mut info = pdf.document_info(INFO);
    info.title(TextStr(figure.title())).producer(TextStr("byway-figure")).keywords(TextStr(&origin));
    if !figure.caption().is_empty() {
        info.subject(TextStr(figure.caption()));
    }
}

/// The page's operators; collects the glyphs that it shows.
fn content(scene: &Scene, glyphs: &mut BTreeMap<u16, char>) -> Vec<u8> {
    let mut content = Content::new();
    // Pixels from the upper left corner.
    content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, scene.height as f32 * POINTS]);
    content.set_line_join(LineJoinStyle::RoundJoin).set_line_cap(LineCapStyle::ButtCap);
    for shape in scene.layers.iter().flat_map(|layer| &layer.shapes) {
        match shape {
            Shape::Path { points, closed, fill, stroke } => {
                set_paint(&mut content, *fill, *stroke);
                push_outline(&mut content, points, *closed);
                paint(&mut content, *fill, *stroke);
            }
            Shape::Circle { centre, radius, fill, stroke } => {
                set_paint(&mut content, *fill, *stroke);
                push_circle(&mut content, *centre, *radius);
                paint(&mut content, *fill, *stroke);
            }
            Shape::Text(text) => push_text(&mut content, text, glyphs),
        }
    }
    content.finish().to_vec()
}

fn push_outline(content: &mut Content, points: &[At], closed: bool) {
    for (place, &(x, y)) in points.iter().enumerate() {
        let (x, y) = (x as f32, y as f32);
        if place == 0 {
            content.move_to(x, y)
        } else {
            content.line_to(x, y)
        };
    }
    if closed {
        content.close_path();
    }
}

fn push_circle(content: &mut Content, (x, y): At, radius: f64) {
    let at = |dx: f64, dy: f64| ((x + dx * radius) as f32, (y + dy * radius) as f32);
    let start = at(1.0, 0.0);
    content.move_to(start.0, start.1);
    for (from, to) in [
        ((1.0, 0.0), (0.0, 1.0)),
        ((0.0, 1.0), (-1.0, 0.0)),
        ((-1.0, 0.0), (0.0, -1.0)),
        ((0.0, -1.0), (1.0, 0.0)),
    ] {
        let first = at(from.0 + to.0 * QUARTER, from.1 + to.1 * QUARTER);
        let second = at(to.0 + from.0 * QUARTER, to.1 + from.1 * QUARTER);
        let end = at(to.0, to.1);
        content.cubic_to(first.0, first.1, second.0, second.1, end.0, end.1);
    }
    content.close_path();
}

/// Sets what the next path is painted with: no operator may stand between a path and its painting.
fn set_paint(content: &mut Content, fill: Option<Colour>, stroke: Option<Stroke>) {
    if let Some([red, green, blue]) = fill.map(Colour::parts) {
        content.set_fill_rgb(red, green, blue);
    }
    if let Some(Stroke { colour, width, dash }) = stroke {
        let [red, green, blue] = colour.parts();
        content.set_stroke_rgb(red, green, blue).set_line_width(width as f32);
        content.set_dash_pattern(dash.lengths().iter().copied(), 0.0);
    }
}

/// Fills and strokes the path that was just drawn.
fn paint(content: &mut Content, fill: Option<Colour>, stroke: Option<Stroke>) {
    match (fill, stroke) {
        (Some(_), Some(_)) => content.fill_nonzero_and_stroke(),
        (Some(_), None) => content.fill_nonzero(),
        (None, Some(_)) => content.stroke(),
        (None, None) => content.end_path(),
    };
}

fn push_text(content: &mut Content, text: &Text, glyphs: &mut BTreeMap<u16, char>) {
    let mut codes = Vec::with_capacity(2 * text.content.len());
    for letter in text.content.chars() {
        let glyph = text::glyph(letter);
        glyphs.entry(glyph.0).or_insert(letter);
        codes.extend(glyph.0.to_be_bytes());
    }
    let width = text::width(&text.content, text.pixels);
    let back = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let (x, y) = text.at;
    // Letters stand upright in a page whose second axis points down.
    let matrix = if text.upwards {
        [0.0, -1.0, -1.0, 0.0, x as f32, (y + back) as f32]
    } else {
        [1.0, 0.0, 0.0, -1.0, (x - back) as f32, y as f32]
    };
    let [red, green, blue] = text.colour.parts();
    content.begin_text().set_fill_rgb(red, green, blue).set_font(FONT, text.pixels as f32);
    content.set_text_matrix(matrix).show(Str(&codes)).end_text();
}

/// The font as a composite one whose codes are glyphs, with what each glyph means for search and copy.
fn push_font(pdf: &mut Pdf, glyphs: &BTreeMap<u16, char>) {
    let system = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
    let mut font = pdf.type0_font(TYPE0);
    font.base_font(BASE_FONT)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(CID)
        .to_unicode(UNICODE);
    font.finish();
    let mut cid = pdf.cid_font(CID);
    cid.subtype(CidFontType::Type2).base_font(BASE_FONT).system_info(system).font_descriptor(DESCRIPTOR);
    cid.cid_to_gid_map_predefined(Name(b"Identity")).default_width(0.0);
    let mut widths = cid.widths();
    for &glyph in glyphs.keys() {
        let width = text::glyph_width(ttf_parser::GlyphId(glyph)) * 1000.0;
        widths.consecutive(glyph, [width as f32]);
    }
    widths.finish();
    cid.finish();
    push_descriptor(pdf);
    let mut map = UnicodeCmap::new(Name(b"Byway"), system);
    glyphs.iter().for_each(|(&glyph, &letter)| map.pair(glyph, letter));
    let map = deflated(&map.finish());
    pdf.stream(UNICODE, &map).filter(Filter::FlateDecode);
    let file = deflated(text::FONT);
    let mut stream = pdf.stream(FILE, &file);
    stream.filter(Filter::FlateDecode).pair(Name(b"Length1"), text::FONT.len() as i32);
}

fn push_descriptor(pdf: &mut Pdf) {
    let mut descriptor = pdf.font_descriptor(DESCRIPTOR);
    descriptor.name(BASE_FONT).flags(FontFlags::NON_SYMBOLIC).italic_angle(0.0).stem_v(80.0).font_file2(FILE);
    let Some(face) = text::face() else { return };
    let thousandths = 1000.0 / f32::from(face.units_per_em());
    let of = |units: i16| f32::from(units) * thousandths;
    let bounds = face.global_bounding_box();
    descriptor
        .bbox(Rect::new(of(bounds.x_min), of(bounds.y_min), of(bounds.x_max), of(bounds.y_max)))
        .ascent(of(face.ascender()))
        .descent(of(face.descender()))
        .cap_height(of(face.capital_height().unwrap_or(1409)));
}
