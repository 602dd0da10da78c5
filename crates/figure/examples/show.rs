//! Draws a figure of each kind into a folder, to be looked at: `cargo run -p byway-figure --example show -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

use byway_figure::{
    Axis, Bars, Dots, Figure, GroupSeries, Lines, Page, Panel, Quantity, Role, Series, Source, Stacks, Value,
};

const SIZES: [f64; 8] = [8.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];

fn by_size() -> Lines {
    let x = Axis::log2(Quantity::new("value size", "bytes"));
    let line = |name: &str, of: fn(f64) -> f64| Series::measured(name, SIZES.map(|size| (size, of(size))));
    Lines::new(x, Axis::log10(Quantity::new("latency of a put", "µs")))
        .with(line("prp", |size| 9.0 + (size / 4096.0).ceil()))
        .with(line("sgl", |size| 9.0 + (size / 4096.0).ceil()))
        .with(line("inline", |size| 5.0 + size / 64.0))
        .with(line("piggyback", |size| 4.0 + size / 20.0))
        .with(line("hybrid", |size| (5.0 + size / 64.0).min(10.1)))
        .with(Series::new("target", Role::Target, [(8.0, 4.5), (4096.0, 4.5)]))
}

fn percentiles() -> Lines {
    let points = |factor: f64| {
        [50.0, 75.0, 90.0, 99.0, 99.9, 99.99].map(|percent: f64| {
            let at = factor * (1.0 - percent / 100.0).powf(-0.4);
            (percent, Value::spread(at, at * 0.9, at * 1.2))
        })
    };
    Lines::new(Axis::percentile(), Axis::log10(Quantity::new("latency", "µs")))
        .with(Series::measured("byway", points(2.0)))
        .with(Series::measured("lmdb", points(2.6)))
        .with(Series::measured("rocksdb", points(6.0)))
        .with(Series::new("byway", Role::Earlier, points(2.9)))
}

fn over_time() -> Lines {
    let points = (0..120).map(|tenth| {
        let seconds = f64::from(tenth) / 10.0;
        (seconds, 1.2e6 + 2e5 * (seconds * 3.0).sin())
    });
    Lines::new(
        Axis::linear(Quantity::new("time", "s")),
        Axis::linear(Quantity::new("throughput", "operations/s")),
    )
    .with(Series::measured("put", points))
}

fn engines() -> Dots {
    let values = |factor: f64| {
        [3e6, 1.5e6, 8e4, 900.0]
            .map(|rate: f64| Some(Value::spread(rate * factor, rate * factor * 0.8, rate * factor * 1.1)))
    };
    Dots::new(
        ["get", "put", "list, 32 in flight", "put with a sync"],
        Axis::log10(Quantity::new("operations", "1/s")),
    )
    .with(GroupSeries::measured("byway", values(1.0)))
    .with(GroupSeries::measured("fjall", values(0.3)))
    .with(GroupSeries::measured("lmdb", values(0.5)))
    .with(GroupSeries::measured("rocksdb", values(0.12)))
    .with(GroupSeries::new("target", Role::Target, [Some(4e6.into()), Some(1e6.into()), None, None]))
}

fn ratios() -> Bars {
    let value = |middle: f64| Some(Value::spread(middle, middle * 0.95, middle * 1.04));
    Bars::new(["get", "put", "block read", "block write"], Quantity::new("two threads against one", ""))
        .with(GroupSeries::measured("one in flight", [1.94, 1.36, 1.98, 1.35].map(value)))
        .with(GroupSeries::measured("32 in flight", [1.99, 1.33, 1.97, 1.2].map(value)))
        .with(GroupSeries::new(
            "target",
            Role::Target,
            [1.9, 1.6, 1.9, 1.5].map(|target| Some(Value::from(target))),
        ))
}

fn parts() -> Stacks {
    let panel = |title: &str, factor: f64| Panel {
        title: title.to_owned(),
        bars: ["prp", "piggyback", "inline", "cxl"].map(str::to_owned).to_vec(),
        layers: [900.0, 300.0, 1200.0, 500.0, 250.0, 140.0, 90.0]
            .iter()
            .enumerate()
            .map(|(part, ns)| {
                (0..4).map(|bar| ns * factor * (1.0 - 0.12 * (bar * part % 5) as f64)).collect()
            })
            .collect(),
    };
    let names = ["host", "stores", "doorbells", "fetch", "firmware", "completion", "wire"];
    Stacks::new(names, Quantity::new("modelled time", "ns"))
        .with(panel("Gen2 x8", 1.0))
        .with(panel("Gen5 x8", 0.6))
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("say which folder to draw into")?);
    let source = || Source::of_this_machine("cargo run -p byway-figure --example show").with_seed(42);
    let figures = [
        Figure::new("lines", "Latency by value size", by_size(), source()),
        Figure::new("percentiles", "Latency percentiles", percentiles(), source()),
        Figure::new("time", "Throughput over time", over_time(), source()),
        Figure::new("dots", "Operations a second", engines(), source()),
        Figure::new("bars", "Two threads", ratios(), source()),
        Figure::new("stacks", "Parts of a put", parts(), source()),
    ];
    let figures = figures.map(|figure| figure.with_caption("Invented numbers, to look at the drawing."));
    let mut page = Page::new("A figure of each kind");
    page.figures(&figures)?;
    let (html, files) = page.finish();
    std::fs::create_dir_all(folder.join("figures"))?;
    std::fs::write(folder.join("show.html"), html)?;
    files.iter().try_for_each(|file| std::fs::write(folder.join(&file.name), &file.bytes))?;
    Ok(())
}
