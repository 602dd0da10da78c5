//! The figures of a report: which measurements are drawn how, and what is said beside them.

use byway_measure::rows::TransferRow;

use byway_link::{Method, Profile};

use super::breakdown::{self, Part};
use super::claims::Topic;
use super::measured::{COSMOS, COSMOS_GEN5, Measured, NATIVE_CXL};
use super::plot::{self, Axes, Bars, Panel, PlotError, Series};

/// Links that a 32-byte put is shown over.
pub const LINKS: [&str; 7] = ["gen2x8", "gen3x4", "gen3x8", "gen4x4", "gen5x4", "gen5x8", "gen6x4"];
/// Methods whose breakdown is shown over links.
const BROKEN_DOWN: [Method; 4] = [Method::Prp, Method::Piggyback, Method::Inline, Method::Cxl];
/// What BandSlim divides payload times by.
const GEN5_OVER_GEN2: f64 = 6.4;
/// The put that is broken down.
const SMALL_BYTES: u64 = 32;

/// One plot with its words.
pub struct Figure {
    /// A short name that stays.
    pub id: &'static str,
    /// Above it.
    pub title: String,
    /// Below it.
    pub caption: String,
    /// Names in the legend.
    pub legend: Vec<String>,
    /// The plot.
    pub svg: String,
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

/// Every section of the report.
///
/// # Errors
/// When a plot cannot be drawn: measurements it needs are missing.
pub fn sections(measured: &Measured) -> Result<Vec<Section>, PlotError> {
    Ok(vec![
        traffic_section(measured)?,
        latency_section(measured)?,
        parts_section()?,
        links_section(measured)?,
        workloads_section(measured)?,
        packing_section(measured)?,
    ])
}

fn traffic_section(measured: &Measured) -> Result<Section, PlotError> {
    let wire_bytes = |row: &TransferRow| Some(row.wire_bytes);
    Ok(Section {
        title: "Traffic by value size",
        intro: "One put at a time. Payload bytes are what the papers counted: command, chunks, data, \
                completion and both doorbells, without the interrupt. Wire bytes have packet headers, framing, \
                check sums and the interrupt.",
        topic: Some(Topic::Traffic),
        figures: vec![
            by_size("traffic-payload", measured, COSMOS, "payload bytes a put", |row| {
                Some(row.payload_bytes)
            })?,
            by_size("traffic-wire", measured, COSMOS, "wire bytes a put", wire_bytes)?,
            by_size("traffic-wire-gen4x4", measured, "gen4x4", "wire bytes a put", wire_bytes)?,
        ],
    })
}

fn latency_section(measured: &Measured) -> Result<Section, PlotError> {
    let settings = [COSMOS, COSMOS_GEN5, "gen4x4", NATIVE_CXL];
    let ids = ["latency-cosmos", "latency-cosmos-gen5", "latency-gen4x4", "latency-gen5x8-cxl"];
    let figures = settings.into_iter().zip(ids);
    let figures = figures
        .map(|(setting, id)| by_size(id, measured, setting, "modelled ns a put", |row| row.model_ns_mean));
    Ok(Section {
        title: "Latency by value size",
        intro: "Modelled time from the program's call to the end of its work on the completion, NAND off, on an \
                idle device. Step times come from sources or are marked as assumed in the profile; none is \
                fitted to a figure of the papers.",
        topic: Some(Topic::Latency),
        figures: figures.collect::<Result<_, _>>()?,
    })
}

fn parts_section() -> Result<Section, PlotError> {
    Ok(Section {
        title: "Where the time of a 32-byte put goes",
        intro: "Each part is what the put takes less once the part's costs are taken out of the profile. The \
                wire is the last and the least: fixed costs dominate small puts on every link.",
        topic: None,
        figures: vec![
            parts_by_method(COSMOS, "breakdown-cosmos")?,
            parts_by_method("gen4x4", "breakdown-gen4x4")?,
        ],
    })
}

fn links_section(measured: &Measured) -> Result<Section, PlotError> {
    Ok(Section {
        title: "Link speeds, and the factor 6.4",
        intro: "The link alone is exchanged; host, firmware and latencies stay. BandSlim estimated Gen5 by \
                dividing all payload time by 6.4; the model scales the bytes on the wire by the usable rate and \
                nothing else.",
        topic: Some(Topic::Links),
        figures: vec![
            parts_by_link(COSMOS, "links-cosmos")?,
            parts_by_link("gen4x4", "links-gen4x4")?,
            scaling(measured)?,
        ],
    })
}

fn workloads_section(measured: &Measured) -> Result<Section, PlotError> {
    Ok(Section {
        title: "Workloads B, C, D and M",
        intro: "B: 8 bytes and 2 KiB at 9:1. C: at 1:9. D: 8 bytes to 2 KiB in equal parts. M: mixgraph, \
                generalised Pareto, mean 35 bytes. Adaptive-p and adaptive-c choose by BandSlim's threshold, over \
                piggyback and over cxl.",
        topic: Some(Topic::Workloads),
        figures: workload_figures(measured)?,
    })
}

fn packing_section(measured: &Measured) -> Result<Section, PlotError> {
    Ok(Section {
        title: "Packing against NAND page writes",
        intro: "All packing copies every value to the write pointer. Selective packing places values that came \
                by DMA on 4 KiB boundaries. Backfilling fills the gaps this leaves. The baseline stores one value \
                in each 4 KiB, as the papers' does.",
        topic: Some(Topic::Packing),
        figures: vec![packing(measured)?],
    })
}

fn by_size(
    id: &'static str,
    measured: &Measured,
    setting: &str,
    y: &str,
    of: fn(&TransferRow) -> Option<f64>,
) -> Result<Figure, PlotError> {
    let series: Vec<Series> = measured
        .methods(setting)
        .into_iter()
        .map(|method| Series {
            name: method.to_owned(),
            points: measured.of(setting, method).filter_map(|row| Some((row.size, of(row)?))).collect(),
            dashed: matches!(
                method,
                "sgl" | "hybrid" | "cxl+piggyback" | "piggyback-pt" | "prp+tail" | "adaptive"
            ),
        })
        .collect();
    Ok(Figure {
        id,
        title: format!("{y}, {setting}"),
        caption: "Both axes are logarithmic. Broken lines are variants of the line before them.".to_owned(),
        legend: series.iter().map(|line| line.name.clone()).collect(),
        svg: plot::lines(Axes { x: "value size, bytes", y }, &series)?,
    })
}

fn profile(setting: &str) -> Result<Profile, PlotError> {
    Profile::by_name(setting).ok_or_else(|| plot::missing(setting))
}

fn part_names() -> Vec<&'static str> {
    Part::ALL.iter().map(|part| part.name()).collect()
}

/// Times of parts turned so that each part is a layer, in nanoseconds.
fn layers(bars: &[[u64; Part::ALL.len()]]) -> Vec<Vec<f64>> {
    (0..Part::ALL.len()).map(|part| bars.iter().map(|bar| bar[part] as f64 / 1000.0).collect()).collect()
}

fn parts_by_method(setting: &'static str, id: &'static str) -> Result<Figure, PlotError> {
    let profile = profile(setting)?;
    let parts: Vec<_> =
        Method::CONCRETE.iter().map(|&method| breakdown::of_put(method, SMALL_BYTES, &profile)).collect();
    let panel = Panel {
        title: format!("32-byte put, {setting}"),
        bars: Method::CONCRETE.iter().map(|method| method.name().to_owned()).collect(),
        layers: layers(&parts),
    };
    Ok(Figure {
        id,
        title: format!("Parts of a 32-byte put, {setting}"),
        caption:
            "From the link's closed form; the engine's index and packing come on top of it for every method."
                .to_owned(),
        legend: part_names().into_iter().map(str::to_owned).collect(),
        svg: plot::layered(&[panel], &part_names(), "modelled ns")?,
    })
}

fn parts_by_link(setting: &'static str, id: &'static str) -> Result<Figure, PlotError> {
    let profile = profile(setting)?;
    let mut panels = Vec::new();
    for method in BROKEN_DOWN {
        let mut parts = Vec::new();
        for link in LINKS {
            let profile = profile.clone().with_link(link).map_err(plot::failed)?;
            parts.push(breakdown::of_put(method, SMALL_BYTES, &profile));
        }
        let bars = LINKS.map(str::to_owned).to_vec();
        panels.push(Panel { title: method.name().to_owned(), bars, layers: layers(&parts) });
    }
    Ok(Figure {
        id,
        title: format!("A 32-byte put over link speeds, {setting}"),
        caption:
            "One scale for all panels. CXL stores travel over the device memory's own link and do not change."
                .to_owned(),
        legend: part_names().into_iter().map(str::to_owned).collect(),
        svg: plot::layered(&panels, &part_names(), "modelled ns")?,
    })
}

/// The drive measured on Gen2, scaled as BandSlim does, and modelled on Gen5.
fn scaling(measured: &Measured) -> Result<Figure, PlotError> {
    let mut series = Vec::new();
    for method in ["prp", "piggyback"] {
        let points = |setting| -> Vec<(f64, f64)> {
            measured.of(setting, method).filter_map(|row| Some((row.size, row.model_ns_mean?))).collect()
        };
        let slow = points(COSMOS);
        // The command's own cost is that of a put that brings (almost) no payload.
        let overhead_ns = overhead_ns(method)?;
        let scaled =
            |&(size, ns): &(f64, f64)| (size, overhead_ns + (ns - overhead_ns).max(0.0) / GEN5_OVER_GEN2);
        let paper = slow.iter().map(scaled).collect();
        series.push(Series { name: format!("{method}: Gen2 x8"), points: slow, dashed: false });
        series.push(Series { name: format!("{method}: payload ÷ 6.4"), points: paper, dashed: true });
        series.push(Series {
            name: format!("{method}: model, Gen5 x8"),
            points: points(COSMOS_GEN5),
            dashed: false,
        });
    }
    Ok(Figure {
        id: "scaling",
        title: "Gen5 by BandSlim's factor and by the model".to_owned(),
        caption: "What is not wire time (set-up, round trips, further commands) does not become 6.4 times as quick: \
                  the model's lines lie where the fixed costs hold them."
            .to_owned(),
        legend: series.iter().map(|line| line.name.clone()).collect(),
        svg: plot::lines(Axes { x: "value size, bytes", y: "modelled ns a put" }, &series)?,
    })
}

fn overhead_ns(method: &str) -> Result<f64, PlotError> {
    let method: Method = method.parse().map_err(plot::failed)?;
    Ok(byway_link::cost::of_put(method, 0, &profile(COSMOS)?).ps as f64 / 1000.0)
}

fn workload_figures(measured: &Measured) -> Result<Vec<Figure>, PlotError> {
    let mut figures = Vec::new();
    for (setting, traffic, throughput) in [
        (COSMOS, "workload-traffic", "workload-throughput"),
        (COSMOS_GEN5, "workload-traffic-gen5", "workload-throughput-gen5"),
    ] {
        figures.push(workload_bars(traffic, measured, setting, "payload bytes a put", |put, _| {
            Some(put.payload_bytes)
        })?);
        figures.push(workload_bars(throughput, measured, setting, "modelled puts a second", |_, ops| ops)?);
    }
    Ok(figures)
}

fn workload_bars(
    id: &'static str,
    measured: &Measured,
    setting: &str,
    y: &str,
    of: fn(&TransferRow, Option<f64>) -> Option<f64>,
) -> Result<Figure, PlotError> {
    let workloads = measured.workload_names();
    let value = |label: &str, workload: &str| {
        measured.workload(setting, label, workload).and_then(|row| of(&row.put, row.ops_per_s_model))
    };
    let series: Vec<(String, Vec<Option<f64>>)> = measured
        .labels(setting)
        .into_iter()
        .map(|label| (label.to_owned(), workloads.iter().map(|workload| value(label, workload)).collect()))
        .collect();
    Ok(Figure {
        id,
        title: format!("{y}, {setting}"),
        caption: format!("{} puts of each workload, logarithmic axis.", measured.puts),
        legend: series.iter().map(|(name, _)| name.clone()).collect(),
        svg: plot::bars(&Bars {
            groups: workloads.iter().map(|&name| name.to_owned()).collect(),
            series,
            y,
            logarithmic: true,
        })?,
    })
}

fn packing(measured: &Measured) -> Result<Figure, PlotError> {
    let of = |what: fn(&super::measured::PackingPoint) -> &str| {
        super::measured::distinct(measured.packing.iter().map(what))
    };
    let (policies, workloads) = (of(|point| &point.packing), of(|point| &point.workload));
    let find = |policy: &str, workload: &str| {
        measured.packing.iter().find(|point| point.packing == policy && point.workload == workload)
    };
    let baseline = workloads
        .iter()
        .map(|workload| Some(find(policies.first()?, workload)?.baseline_pages as f64))
        .collect();
    let mut series = vec![("one value in 4 KiB".to_owned(), baseline)];
    for policy in &policies {
        let pages = workloads.iter().map(|workload| Some(find(policy, workload)?.nand_pages as f64));
        series.push(((*policy).to_owned(), pages.collect()));
    }
    Ok(Figure {
        id: "packing",
        title: "NAND pages programmed".to_owned(),
        caption: format!("{} puts of each workload by adaptive transfer, logarithmic axis.", measured.puts),
        legend: series.iter().map(|(name, _)| name.clone()).collect(),
        svg: plot::bars(&Bars {
            groups: workloads.iter().map(|&name| name.to_owned()).collect(),
            series,
            y: "NAND pages",
            logarithmic: true,
        })?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::measured::tests::modelled_all;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_figure_is_drawn_and_has_its_own_name() {
        let sections = sections(&modelled_all()).unwrap();
        let figures: Vec<&Figure> = sections.iter().flat_map(|section| &section.figures).collect();
        let ids: HashSet<&str> = figures.iter().map(|figure| figure.id).collect();
        assert_eq!(ids.len(), figures.len());
        for figure in figures {
            assert!(figure.svg.contains("<text") && !figure.svg.contains("NaN"), "{}", figure.id);
            assert!(!figure.legend.is_empty(), "{}", figure.id);
        }
    }

    #[test]
    fn a_report_without_measurements_is_refused() {
        assert!(sections(&Measured::default()).is_err());
    }
}
