//! The figures of a report: which measurements are drawn how, and what is said beside them.

use byway_figure::{
    Axis, Dots, Figure, FigureError, GroupSeries, Lines, Panel, Paper, Quantity, Role, Series, Source, Stacks,
};
use byway_link::{Method, Profile};
use byway_measure::rows::TransferRow;

use super::breakdown::{self, Part};
use super::claims::Topic;
use super::compute;
use super::generations;
use super::measured::{COSMOS, COSMOS_FITTED, COSMOS_GEN5, Measured, NATIVE_CXL};
use super::reads;
use crate::fit::{self, Fit};

/// Links that a 32-byte put is shown over.
pub const LINKS: [&str; 7] = ["gen2x8", "gen3x4", "gen3x8", "gen4x4", "gen5x4", "gen5x8", "gen6x4"];
/// Methods whose breakdown is shown over links.
const BROKEN_DOWN: [Method; 4] = [Method::Prp, Method::Piggyback, Method::Inline, Method::Cxl];
/// What BandSlim divides payload times by.
const GEN5_OVER_GEN2: f64 = 6.4;
/// The put that is broken down.
const SMALL_BYTES: u64 = 32;

/// Why figures of a report cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Undrawn {
    /// A setting that the link's model does not have.
    #[error("figures: {0}")]
    Setting(String),
    /// Measurements are missing.
    #[error(transparent)]
    Figure(#[from] FigureError),
}

/// Figures that answer one question, with the claims that stand beside them.
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Plain text between the heading and the figures.
    pub intro: &'static str,
    /// Topic of the claims listed in it; `None` for a section without claims.
    pub topic: Option<Topic>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// Every section of the report. `source` says where its numbers come from.
///
/// # Errors
/// When a figure cannot be drawn: measurements it needs are missing.
pub fn sections(measured: &Measured, fit: &Fit, source: &Source) -> Result<Vec<Section>, Undrawn> {
    let sections = vec![
        traffic_section(measured, source),
        latency_section(measured, source),
        reads::section(source)?,
        fitted_section(measured, fit, source)?,
        parts_section(source)?,
        links_section(measured, source)?,
        generations::section(source)?,
        workloads_section(measured, source),
        packing_section(measured, source),
        compute::shown::section(&measured.computed, source),
    ];
    for figure in sections.iter().flat_map(|section| &section.figures) {
        figure.svg()?;
    }
    Ok(sections)
}

/// The source with the papers whose figures stand beside ours.
fn beside(source: &Source, papers: &[Paper]) -> Source {
    papers.iter().fold(source.clone(), |source, &paper| source.with_paper(paper))
}

const BOTH: [Paper; 2] = [Paper::BYTE_EXPRESS, Paper::BAND_SLIM];

fn traffic_section(measured: &Measured, source: &Source) -> Section {
    let source = beside(source, &BOTH);
    let bytes = |name: &str| Axis::log2(Quantity::new(name, "bytes"));
    let of = |id: &'static str, setting: &str, axis: Axis, of: fn(&TransferRow) -> Option<f64>| {
        by_size(id, (measured, setting), &source, axis, of)
    };
    Section {
        title: "Traffic by value size",
        intro: "One put at a time: a put stores one value under a key. Payload bytes are what the papers counted: command, chunks, \
                data, completion and both doorbells (the registers that announce a command and an emptied completion), without the \
                interrupt. Wire bytes have packet headers, framing, check sums and the interrupt too.",
        topic: Some(Topic::Traffic),
        figures: vec![
            of("traffic-payload", COSMOS, bytes("payload of a put"), |row| Some(row.payload_bytes)),
            of("traffic-wire", COSMOS, bytes("wire bytes of a put"), |row| Some(row.wire_bytes)),
            of("traffic-wire-gen4x4", "gen4x4", bytes("wire bytes of a put"), |row| Some(row.wire_bytes)),
        ],
    }
}

fn latency_section(measured: &Measured, source: &Source) -> Section {
    let settings = [COSMOS, COSMOS_GEN5, "gen4x4", NATIVE_CXL];
    let ids = ["latency-cosmos", "latency-cosmos-gen5", "latency-gen4x4", "latency-gen5x8-cxl"];
    let axis = || Axis::log10(Quantity::new("modelled time of a put", "µs"));
    let source = beside(source, &BOTH);
    let figure = |(setting, id)| by_size(id, (measured, setting), &source, axis(), model_us);
    Section {
        title: "Latency by value size",
        intro: "Modelled time from the program's call to the end of its work on the completion, NAND off, on an \
                idle device. Step times come from sources or are marked as assumed in the profile; none of them is \
                fitted to a figure of the papers (those of the next section are).",
        topic: Some(Topic::Latency),
        figures: settings.into_iter().zip(ids).map(figure).collect(),
    }
}

/// What the claims of time say together, and the profile that is fitted to them.
fn fitted_section(measured: &Measured, fit: &Fit, source: &Source) -> Result<Section, Undrawn> {
    let axis = Axis::log10(Quantity::new("modelled time of a put", "µs"));
    let beside = beside(source, &BOTH);
    let mut figures =
        vec![by_size("latency-cosmos-fitted", (measured, COSMOS_FITTED), &beside, axis, model_us)];
    figures.extend(fit::figures::all(fit, &source.clone().with_spread(fit::figures::SPREAD))?);
    Ok(Section {
        title: "The fitted profile, and which claims hold together",
        intro: "cosmos-fitted is cosmos with times that no source gives fitted to what the papers publish of times, so what it \
                reproduces is no finding. What it says of the papers is: which of their claims can hold on one card at once, \
                what each says of the others, and how long a page, a chunk and a command then take. byway-lab fit prints it in \
                numbers.",
        topic: None,
        figures,
    })
}

/// Modelled time of a put, in microseconds.
fn model_us(row: &TransferRow) -> Option<f64> {
    Some(row.model_ns_mean? / 1e3)
}

fn parts_section(source: &Source) -> Result<Section, Undrawn> {
    Ok(Section {
        title: "Where the time of a 32-byte put goes",
        intro: "Each part is what the put takes less once the part's costs are taken out of the profile. The \
                wire is the last and the least: fixed costs dominate small puts on every link.",
        topic: None,
        figures: vec![
            parts_by_method(COSMOS, "breakdown-cosmos", source)?,
            parts_by_method("gen4x4", "breakdown-gen4x4", source)?,
        ],
    })
}

fn links_section(measured: &Measured, source: &Source) -> Result<Section, Undrawn> {
    let source = beside(source, &[Paper::BAND_SLIM]);
    Ok(Section {
        title: "Link speeds, and the factor 6.4",
        intro: "The link alone is exchanged; host, firmware and latencies stay. BandSlim estimated Gen5 by \
                dividing all payload time by 6.4; the model scales the bytes on the wire by the usable rate and \
                nothing else.",
        topic: Some(Topic::Links),
        figures: vec![
            parts_by_link(COSMOS, "links-cosmos", &source)?,
            parts_by_link("gen4x4", "links-gen4x4", &source)?,
            scaling(measured, Method::Prp, "scaling-prp", &source)?,
            scaling(measured, Method::Piggyback, "scaling-piggyback", &source)?,
        ],
    })
}

fn workloads_section(measured: &Measured, source: &Source) -> Section {
    Section {
        title: "Workloads B, C, D and M",
        intro: "B: 8 bytes and 2 KiB at 9:1. C: at 1:9. D: 8 bytes to 2 KiB in equal parts. M: mixgraph, \
                generalised Pareto, mean 35 bytes. Adaptive-p and adaptive-c choose by BandSlim's threshold, over \
                piggyback and over cxl.",
        topic: Some(Topic::Workloads),
        figures: workload_figures(measured, &beside(source, &BOTH)),
    }
}

fn packing_section(measured: &Measured, source: &Source) -> Section {
    Section {
        title: "Packing against NAND page writes",
        intro: "Packing says where values lie within the pages of flash. All packing copies every value to the write pointer. Selective \
                packing places values that came by DMA on 4 KiB boundaries. Backfilling fills the gaps this leaves. The baseline stores \
                one value in each 4 KiB, as the papers' does.",
        topic: Some(Topic::Packing),
        figures: vec![packing(measured, &beside(source, &[Paper::BAND_SLIM]))],
    }
}

fn by_size(
    id: &'static str,
    (measured, setting): (&Measured, &str),
    source: &Source,
    y: Axis,
    of: fn(&TransferRow) -> Option<f64>,
) -> Figure {
    let title = format!("{}, {setting}", y.quantity().label());
    let lines = measured.methods(setting).into_iter().map(|method| {
        let points = measured.of(setting, method).filter_map(|row| Some((row.size, of(row)?)));
        Series::measured(method, points)
    });
    let empty = Lines::new(Axis::log2(Quantity::new("value size", "bytes")), y);
    Figure::new(id, title, lines.fold(empty, Lines::with), source.clone()).with_caption(
        "Both axes are logarithmic. Variants of a method have its hue and a broken line. A line that lies on another is \
         drawn thinner on top of it, and the legend says which.",
    )
}

/// The profile of a setting.
///
/// # Errors
/// Where there is none of that name.
pub(super) fn profile(setting: &str) -> Result<Profile, Undrawn> {
    Profile::by_name(setting).ok_or_else(|| Undrawn::Setting(format!("no profile is called {setting}")))
}

fn part_names() -> Vec<&'static str> {
    Part::ALL.iter().map(|part| part.name()).collect()
}

/// Times of parts turned so that each part is a layer, in microseconds.
fn layers(bars: &[[u64; Part::ALL.len()]]) -> Vec<Vec<f64>> {
    (0..Part::ALL.len()).map(|part| bars.iter().map(|bar| bar[part] as f64 / 1e6).collect()).collect()
}

fn empty_stacks() -> Stacks {
    Stacks::new(part_names(), Quantity::new("modelled time", "µs"))
}

fn parts_by_method(setting: &'static str, id: &'static str, source: &Source) -> Result<Figure, Undrawn> {
    let profile = profile(setting)?;
    let parts: Vec<_> =
        Method::CONCRETE.iter().map(|&method| breakdown::of_put(method, SMALL_BYTES, &profile)).collect();
    let panel = Panel {
        title: format!("32-byte put, {setting}"),
        bars: Method::CONCRETE.iter().map(|method| method.name().to_owned()).collect(),
        layers: layers(&parts),
    };
    let title = format!("Parts of a 32-byte put, {setting}");
    let figure = Figure::new(id, title, empty_stacks().with(panel), source.clone());
    Ok(figure.with_caption(
        "From the link's closed form; the engine's index and packing come on top of it for every method. Parts of a bar stand in the \
         legend's order.",
    ))
}

fn parts_by_link(setting: &'static str, id: &'static str, source: &Source) -> Result<Figure, Undrawn> {
    let profile = profile(setting)?;
    let mut plot = empty_stacks();
    for method in BROKEN_DOWN {
        let mut parts = Vec::new();
        for link in LINKS {
            let profile =
                profile.clone().with_link(link).map_err(|error| Undrawn::Setting(error.to_string()))?;
            parts.push(breakdown::of_put(method, SMALL_BYTES, &profile));
        }
        let bars = LINKS.map(str::to_owned).to_vec();
        plot = plot.with(Panel { title: method.name().to_owned(), bars, layers: layers(&parts) });
    }
    let title = format!("A 32-byte put over link speeds, {setting}");
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "A panel for each method, on one scale; parts of a bar stand in the legend's order. CXL stores travel over the device memory's own link and do not change.",
    ))
}

/// The drive measured on Gen2, scaled as BandSlim does, and modelled on Gen5.
fn scaling(
    measured: &Measured,
    method: Method,
    id: &'static str,
    source: &Source,
) -> Result<Figure, Undrawn> {
    let name = method.name();
    let points = |setting| -> Vec<(f64, f64)> {
        measured.of(setting, name).filter_map(|row| Some((row.size, model_us(row)?))).collect()
    };
    let slow = points(COSMOS);
    // The command's own cost is that of a put that brings (almost) no payload.
    let overhead_us = byway_link::cost::of_put(method, 0, &profile(COSMOS)?).ps as f64 / 1e6;
    let scaled =
        |&(size, us): &(f64, f64)| (size, overhead_us + (us - overhead_us).max(0.0) / GEN5_OVER_GEN2);
    let paper: Vec<(f64, f64)> = slow.iter().map(scaled).collect();
    let (x, y) = (Quantity::new("value size", "bytes"), Quantity::new("modelled time of a put", "µs"));
    let plot = Lines::new(Axis::log2(x), Axis::log10(y))
        .with(Series::measured("Gen2 x8", slow))
        .with(Series::new("payload ÷ 6.4, as BandSlim reckons", Role::Modelled, paper))
        .with(Series::measured("Gen5 x8 by the model", points(COSMOS_GEN5)));
    let title = format!("Gen5 by BandSlim's factor and by the model, {name}");
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "What is not wire time (set-up, round trips, further commands) does not become 6.4 times as quick: the model's line \
         lies where the fixed costs hold it.",
    ))
}

fn workload_figures(measured: &Measured, source: &Source) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (setting, traffic, throughput) in [
        (COSMOS, "workload-traffic", "workload-throughput"),
        (COSMOS_GEN5, "workload-traffic-gen5", "workload-throughput-gen5"),
    ] {
        let payload = Quantity::new("payload of a put", "bytes");
        let of = (measured, setting);
        figures.push(workload_dots(traffic, of, source, payload, |put, _| Some(put.payload_bytes)));
        let rate = Quantity::new("modelled puts", "1/s");
        figures.push(workload_dots(throughput, of, source, rate, |_, ops| ops));
    }
    figures
}

fn workload_dots(
    id: &'static str,
    (measured, setting): (&Measured, &str),
    source: &Source,
    quantity: Quantity,
    of: fn(&TransferRow, Option<f64>) -> Option<f64>,
) -> Figure {
    let workloads = measured.workload_names();
    let value = |label: &str, workload: &str| {
        measured.workload(setting, label, workload).and_then(|row| of(&row.put, row.ops_per_s_model))
    };
    let title = format!("{}, {setting}", quantity.label());
    let plot = measured.labels(setting).into_iter().fold(
        Dots::new(workloads.iter().map(|&name| format!("workload {name}")), Axis::log10(quantity)),
        |plot, label| {
            let values = workloads.iter().map(|workload| value(label, workload).map(Into::into));
            plot.with(GroupSeries::measured(label, values))
        },
    );
    Figure::new(id, title, plot, source.clone())
        .with_caption(format!("{} puts of each workload; logarithmic axis.", measured.puts))
}

fn packing(measured: &Measured, source: &Source) -> Figure {
    let of = |what: fn(&super::measured::PackingPoint) -> &str| {
        super::measured::distinct(measured.packing.iter().map(what))
    };
    let (policies, workloads) = (of(|point| &point.packing), of(|point| &point.workload));
    let find = |policy: &str, workload: &str| {
        measured.packing.iter().find(|point| point.packing == policy && point.workload == workload)
    };
    let baseline = workloads
        .iter()
        .map(|workload| Some((find(policies.first()?, workload)?.baseline_pages as f64).into()));
    let names = workloads.iter().map(|name| format!("workload {name}"));
    let mut plot = Dots::new(names, Axis::log10(Quantity::new("NAND pages programmed", "")))
        .with(GroupSeries::measured("one value in 4 KiB", baseline));
    for policy in &policies {
        let pages = workloads.iter().map(|workload| Some((find(policy, workload)?.nand_pages as f64).into()));
        plot = plot.with(GroupSeries::measured(*policy, pages));
    }
    Figure::new("packing", "NAND pages programmed", plot, source.clone()).with_caption(format!(
        "{} puts of each workload by adaptive transfer; logarithmic axis.",
        measured.puts
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::measured::tests::modelled_all;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_figure_is_drawn_and_has_its_own_name() {
        let sections = sections(&modelled_all(), &fit::fit().unwrap(), &Source::new("test")).unwrap();
        let figures: Vec<&Figure> = sections.iter().flat_map(|section| &section.figures).collect();
        let ids: HashSet<&str> = figures.iter().map(|figure| figure.id()).collect();
        assert_eq!(ids.len(), figures.len());
        for figure in figures {
            let svg = figure.svg().unwrap();
            assert!(svg.contains("<text") && !svg.contains("NaN"), "{}", figure.id());
            assert!(!figure.plot().names().is_empty() && !figure.caption().is_empty(), "{}", figure.id());
        }
    }

    #[test]
    fn a_report_without_measurements_is_refused() {
        assert!(sections(&Measured::default(), &fit::fit().unwrap(), &Source::new("test")).is_err());
    }
}
