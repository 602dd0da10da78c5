//! Drawings as SVG.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::figure::Figure;
use crate::page::escape;
use crate::palette::{Colour, Dash};
use crate::scene::{Anchor, At, Layer, Scene, Shape, Stroke, Text};
use crate::text::FAMILY;

pub(crate) fn write(figure: &Figure, scene: &Scene) -> String {
    let mut out = String::with_capacity(16 << 10);
    let (width, height) = (scene.width, scene.height.ceil());
    let id = escape(figure.id());
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" font-family=\"{FAMILY}\">\n<title id=\"{id}-title\">{}</title>\n\
         <desc id=\"{id}-desc\">{}</desc>\n",
        escape(figure.title()),
        escape(&description(figure)),
    );
    if figure.has_dark_colours() {
        push_dark_style(&mut out, scene);
    }
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>", Colour::PAPER.css());
    scene.layers.iter().for_each(|layer| push_layer(&mut out, layer));
    out.push_str("</svg>\n");
    out
}

/// Caption, names and origin in one text.
fn description(figure: &Figure) -> String {
    let names = figure.plot().names().join(", ");
    let parts = [figure.caption().to_owned(), format!("Shows {names}."), figure.source().line()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn push_dark_style(out: &mut String, scene: &Scene) {
    let mut colours = BTreeSet::from([Colour::PAPER]);
    for shape in scene.layers.iter().flat_map(|layer| &layer.shapes) {
        match shape {
            Shape::Path { fill, stroke, .. } | Shape::Circle { fill, stroke, .. } => {
                colours.extend(fill.iter().copied().chain(stroke.map(|stroke| stroke.colour)));
            }
            Shape::Text(text) => _ = colours.insert(text.colour),
        }
    }
    out.push_str("<style>@media(prefers-color-scheme:dark){");
    for colour in colours.into_iter().filter(|colour| colour.on_dark() != *colour) {
        let (light, dark) = (colour.css(), colour.on_dark().css());
        let _ = write!(out, "[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    out.push_str("}</style>\n");
}

fn push_layer(out: &mut String, layer: &Layer) {
    if layer.shapes.is_empty() {
        return;
    }
    out.push_str("<g>");
    if let Some(name) = &layer.name {
        let _ = write!(out, "<title>{}</title>", escape(name));
    }
    out.push('\n');
    for shape in &layer.shapes {
        match shape {
            Shape::Path { points, closed, fill, stroke } => push_path(out, points, *closed, (*fill, *stroke)),
            Shape::Circle { centre, radius, fill, stroke } => {
                let _ =
                    write!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"", centre.0, centre.1);
                push_paint(out, (*fill, *stroke));
            }
            Shape::Text(text) => push_text(out, text),
        }
    }
    out.push_str("</g>\n");
}

fn push_path(out: &mut String, points: &[At], closed: bool, paint: (Option<Colour>, Option<Stroke>)) {
    out.push_str("<path d=\"");
    for (place, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
    }
    out.push_str(if closed { "Z\"" } else { "\"" });
    push_paint(out, paint);
}

fn push_paint(out: &mut String, (fill, stroke): (Option<Colour>, Option<Stroke>)) {
    let _ = write!(out, " fill=\"{}\"", fill.map_or_else(|| "none".to_owned(), Colour::css));
    if let Some(Stroke { colour, width, dash }) = stroke {
        let _ = write!(out, " stroke=\"{}\" stroke-width=\"{width:.1}\"", colour.css());
        if dash != Dash::Solid {
            let lengths: Vec<String> = dash.lengths().iter().map(f32::to_string).collect();
            let _ = write!(out, " stroke-dasharray=\"{}\"", lengths.join(" "));
        }
    }
    out.push_str("/>\n");
}

fn push_text(out: &mut String, text: &Text) {
    let (x, y) = text.at;
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let turn = if text.upwards { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{}\" fill=\"{}\"{turn}>{}</text>",
        text.pixels,
        text.colour.css(),
        escape(&text.content),
    );
}
