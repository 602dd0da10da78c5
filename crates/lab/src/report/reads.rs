//! The section about gets: how a short value crosses the link to the host, by the link's closed form.

use byway_figure::{Axis, Figure, Lines, Quantity, Role, Series, Source};
use byway_link::Profile;
use byway_link::cost::{self, GetCost, ReadMethod};

use super::figures::{Section, Undrawn, profile};

/// Largest value of the figures, in bytes, and their step.
const SIZES: (u64, usize) = (512, 8);

/// Every figure about gets.
///
/// # Errors
/// Where a profile does not exist.
pub fn section(source: &Source) -> Result<Section, Undrawn> {
    let wire = |get: &GetCost| get.ledger.wire_bytes() as f64;
    let time = |get: &GetCost| get.ps as f64 / 1e6;
    let (bytes, us) =
        (|| Quantity::new("wire bytes of a get", "bytes"), || Quantity::new("modelled time of a get", "µs"));
    Ok(Section {
        title: "Reads as small as writes",
        intro: "A get of one value on an idle device. By prp and sgl the device writes the value to its buffer and then the \
                completion; by inline-read a short value stands in the completion queue behind its completion, and both are one \
                write. From the limit on it goes to its buffer there too.",
        topic: None,
        figures: vec![
            figure("reads-wire-gen4x4", "gen4x4", bytes(), source, wire)?,
            figure("reads-time-gen4x4", "gen4x4", us(), source, time)?,
            figure("reads-time-cosmos", "cosmos", us(), source, time)?,
        ],
    })
}

fn figure(
    id: &'static str,
    setting: &str,
    y: Quantity,
    source: &Source,
    of: fn(&GetCost) -> f64,
) -> Result<Figure, Undrawn> {
    let profile = profile(setting)?;
    let title = format!("{}, {setting}", y.label());
    let empty = Lines::new(Axis::linear(Quantity::new("value size", "bytes")), Axis::linear(y));
    let lines = ReadMethod::ALL.map(|method| {
        Series::new(
            method.name(),
            Role::Modelled,
            sizes().map(|size| (size as f64, of(&get(method, size, &profile)))),
        )
    });
    let plot = lines.into_iter().fold(empty, Lines::with);
    Ok(Figure::new(id, title, plot, source.clone()).with_caption(
        "From the link's closed form. A line that lies on another is drawn thinner on top of it.",
    ))
}

fn sizes() -> impl Iterator<Item = u64> {
    (SIZES.1 as u64..=SIZES.0).step_by(SIZES.1)
}

fn get(method: ReadMethod, size: u64, profile: &Profile) -> GetCost {
    cost::of_get(method, size, profile)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_line_for_each_way_of_a_value() {
        let section = section(&Source::new("test")).unwrap();
        for figure in &section.figures {
            assert_eq!(figure.plot().names(), ["prp", "sgl", "inline-read"], "{}", figure.id());
            assert_eq!(figure.csv().matches("\ninline-read").count(), 64, "{}", figure.csv());
        }
    }
}
