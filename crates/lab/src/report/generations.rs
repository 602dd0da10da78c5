//! The section about generations of PCI Express: a put and a get of each value size over links of Gen1 to Gen6, by the link's closed form.

use byway_figure::{Axis, Figure, LinePanels, Lines, Quantity, Role, Series, Source};
use byway_link::cost::{self, ReadMethod};
use byway_link::{Ledger, Method, Profile};

use super::figures::{Section, Undrawn, profile};
use super::measured::COSMOS;

/// The generations, at a width of 4.
pub const LINKS: [&str; 6] = ["gen1x4", "gen2x4", "gen3x4", "gen4x4", "gen5x4", "gen6x4"];
/// How a put's value crosses.
const PUTS: [Method; 4] = [Method::Prp, Method::Sgl, Method::Inline, Method::Piggyback];
/// Value sizes, in bytes.
const SIZES: [u64; 10] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Largest value of the figures about what a get saves, in bytes, and their step: some beyond the longest that stands behind a completion.
const SHORT: (u64, usize) = (256, 8);
/// The profile of an SSD of today.
const SSD: &str = "gen4x4";

/// What one command costs: its transactions, and its time in picoseconds.
type Cost = (Ledger, u64);

/// What is drawn: a put or a get.
#[derive(Clone, Copy)]
enum Command {
    Put,
    Get,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }

    /// Each way of the value, with the cost of every size that it admits.
    fn lines(self, profile: &Profile) -> Vec<(&'static str, Vec<(u64, Cost)>)> {
        match self {
            Self::Put => PUTS.map(|method| (method.name(), puts(method, profile))).into(),
            Self::Get => ReadMethod::ALL.map(|method| (method.name(), gets(method, profile))).into(),
        }
    }
}

fn puts(method: Method, profile: &Profile) -> Vec<(u64, Cost)> {
    let admitted = SIZES.into_iter().filter(|size| cost::admits(method, *size, profile));
    let put = |size| {
        let put = cost::of_put(method, size, profile);
        (size, (put.ledger, put.ps))
    };
    admitted.map(put).collect()
}

fn gets(method: ReadMethod, profile: &Profile) -> Vec<(u64, Cost)> {
    let get = |size| {
        let get = cost::of_get(method, size, profile);
        (size, (get.ledger, get.ps))
    };
    SIZES.map(get).into()
}

/// Every figure about generations.
///
/// # Errors
/// Where a profile or a link does not exist.
pub fn section(source: &Source) -> Result<Section, Undrawn> {
    Ok(Section {
        title: "PCI Express Gen1 to Gen6",
        intro: "One put or get on an idle device, over a link of each generation, ×4: the link alone is exchanged, and host, firmware and \
                latencies stay. Bytes are the same on every generation, so wire bytes are shown once. A put's value is read by the \
                device where PRPs or an SGL point to, or comes in the queue (inline) or in commands (piggyback). A get's value is \
                written to the place that PRPs or an SGL name, or behind the completion (inline-read, up to 225 bytes). The SSD of the \
                profile gen4x4 moves exact bytes by PRPs too, so prp and sgl differ by little there; the papers' card (cosmos) moves whole \
                pages by PRPs for puts, and has no SGLs: sgl is what it would take with them.",
        topic: None,
        figures: vec![
            wire("generations-put-wire-gen4x4", Command::Put, SSD, source)?,
            wire("generations-put-wire-cosmos", Command::Put, COSMOS, source)?,
            wire("generations-get-wire-gen4x4", Command::Get, SSD, source)?,
            time("generations-put-time-gen4x4", Command::Put, SSD, source)?,
            time("generations-put-time-cosmos", Command::Put, COSMOS, source)?,
            time("generations-get-time-gen4x4", Command::Get, SSD, source)?,
            time("generations-get-time-cosmos", Command::Get, COSMOS, source)?,
            saved("generations-get-saved-gen4x4", SSD, source)?,
            saved("generations-get-saved-cosmos", COSMOS, source)?,
        ],
    })
}

fn wire(id: &'static str, command: Command, setting: &str, source: &Source) -> Result<Figure, Undrawn> {
    let y = Quantity::new(format!("wire bytes of a {}", command.name()), "bytes");
    let title = format!("Wire bytes of a {} on any generation, {setting}", command.name());
    let empty = Lines::new(Axis::log2(value_size()), Axis::log2(y));
    let lines = series(command, &profile(setting)?, |(ledger, _)| ledger.wire_bytes() as f64);
    let plot = lines.into_iter().fold(empty, Lines::with);
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "From the link's closed form, to which the ledger of the device is held. Both axes are logarithmic. A line that lies on another is \
         drawn thinner on top of it.",
    ))
}

fn time(id: &'static str, command: Command, setting: &str, source: &Source) -> Result<Figure, Undrawn> {
    let y = Quantity::new(format!("modelled time of a {}", command.name()), "µs");
    let mut plot = LinePanels::new(Axis::log2(value_size()), Axis::log10(y));
    for link in LINKS {
        plot = plot.with(link, series(command, &over(setting, link)?, |(_, ps)| *ps as f64 / 1e6));
    }
    let title = format!("A {} from Gen1 to Gen6, {setting}", command.name());
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "From the link's closed form, a panel for each generation, on one pair of logarithmic axes. A line that lies on another is drawn \
         thinner on top of it.",
    ))
}

/// By how much inline-read is quicker than prp: too little to be seen beside the whole.
fn saved(id: &'static str, setting: &str, source: &Source) -> Result<Figure, Undrawn> {
    let y = Quantity::new("time less than by prp", "ns");
    let mut plot = Lines::new(Axis::linear(value_size()), Axis::linear(y));
    for link in LINKS {
        let profile = over(setting, link)?;
        let sizes = (SHORT.1 as u64..=SHORT.0).step_by(SHORT.1);
        let points = sizes.map(|size| (size as f64, saved_ns(size, &profile)));
        plot = plot.with(Series::new(link, Role::Modelled, points));
    }
    let title = format!("What inline-read saves of a get, {setting}");
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "From the link's closed form: a get by prp less one by inline-read. Below zero inline-read is slower. Values beyond 225 bytes go to \
         the buffer either way.",
    ))
}

fn saved_ns(size: u64, profile: &Profile) -> f64 {
    let ns = |method| cost::of_get(method, size, profile).ps as f64 / 1e3;
    ns(ReadMethod::Prp) - ns(ReadMethod::InlineRead)
}

/// A profile with another link.
fn over(setting: &str, link: &str) -> Result<Profile, Undrawn> {
    profile(setting)?.with_link(link).map_err(|error| Undrawn::Setting(error.to_string()))
}

fn value_size() -> Quantity {
    Quantity::new("value size", "bytes")
}

fn series(command: Command, profile: &Profile, of: fn(&Cost) -> f64) -> Vec<Series> {
    let line = |(name, points): (&'static str, Vec<(u64, Cost)>)| {
        Series::new(name, Role::Modelled, points.iter().map(|(size, cost)| (*size as f64, of(cost))))
    };
    command.lines(profile).into_iter().map(line).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn made() -> Vec<Figure> {
        section(&Source::new("test")).unwrap().figures
    }

    #[test]
    fn puts_and_gets_have_a_line_for_each_way_of_a_value() {
        for figure in made() {
            let names = figure.plot().names();
            let of_puts = ["prp", "sgl", "inline", "piggyback"];
            let expected = match figure.id() {
                id if id.contains("-saved-") => &LINKS[..],
                id if id.contains("-put-") => &of_puts,
                _ => &["prp", "sgl", "inline-read"],
            };
            assert_eq!(names, expected, "{}", figure.id());
        }
    }

    #[test]
    fn times_have_a_panel_for_each_generation_with_every_size() {
        for figure in made().iter().filter(|figure| figure.id().contains("-time-")) {
            let csv = figure.csv();
            for link in LINKS {
                let points = csv.matches(&format!("\n{link},sgl,modelled,")).count();
                assert_eq!(points, SIZES.len(), "{} {link}: {csv}", figure.id());
            }
        }
    }

    #[test]
    fn values_beyond_the_limit_take_the_same_time_either_way() {
        for link in LINKS {
            let profile = over(SSD, link).unwrap();
            assert!(saved_ns(8, &profile) > 0.0, "{link}");
            assert_eq!(saved_ns(226, &profile), 0.0, "{link}");
        }
    }

    #[test]
    fn wire_bytes_are_the_same_on_every_generation() {
        let bytes = |link: &str, command: Command| -> Vec<u64> {
            let lines = command.lines(&over(SSD, link).unwrap());
            lines.iter().flat_map(|(_, points)| points).map(|(_, (ledger, _))| ledger.wire_bytes()).collect()
        };
        for command in [Command::Put, Command::Get] {
            assert!(LINKS.iter().all(|link| bytes(link, command) == bytes(LINKS[0], command)));
        }
    }
}
