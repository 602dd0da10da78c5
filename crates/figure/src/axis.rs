//! Axes: what is measured, in which unit, on which scale, and where the ticks are.

/// What an axis shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    name: String,
    unit: String,
}

impl Quantity {
    /// A name and a unit; an empty unit is a number without one, such as a ratio.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into() }
    }

    /// A time whose values are in nanoseconds, and what they are divided by: µs from 1 µs on, ms from 10 ms on.
    pub fn time(name: impl Into<String>, largest_ns: f64) -> (Self, f64) {
        let (unit, divisor) = match largest_ns {
            ns if ns >= 1e7 => ("ms", 1e6),
            ns if ns >= 1e3 => ("µs", 1e3),
            _ => ("ns", 1.0),
        };
        (Self::new(name, unit), divisor)
    }

    /// As an axis is titled: `latency, µs`.
    pub fn label(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{}, {}", self.name, self.unit) }
    }

    /// As a column is headed: `latency [µs]`.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} [{}]", self.name, self.unit) }
    }
}

/// How values become places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scale {
    /// From zero, equal steps.
    Linear,
    /// Powers of two: sizes in bytes.
    Log2,
    /// Powers of ten.
    Log10,
    /// Percentiles: 90, 99, 99.9 at equal distances. Values are per cent below 100.
    Percentile,
}

/// A quantity on a scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    quantity: Quantity,
    scale: Scale,
}

impl Axis {
    /// A quantity on a scale.
    pub fn new(quantity: Quantity, scale: Scale) -> Self {
        Self { quantity, scale }
    }

    /// On a linear scale.
    pub fn linear(quantity: Quantity) -> Self {
        Self::new(quantity, Scale::Linear)
    }

    /// On a scale of powers of two.
    pub fn log2(quantity: Quantity) -> Self {
        Self::new(quantity, Scale::Log2)
    }

    /// On a scale of powers of ten.
    pub fn log10(quantity: Quantity) -> Self {
        Self::new(quantity, Scale::Log10)
    }

    /// Percentiles of a distribution, in per cent.
    pub fn percentile() -> Self {
        Self::new(Quantity::new("percentile", "%"), Scale::Percentile)
    }

    /// What it shows.
    pub fn quantity(&self) -> &Quantity {
        &self.quantity
    }

    /// Its scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// The stretch of a scale that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Range {
    /// The range that shows all values that the scale can show; `None` if there are none.
    pub fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let shown = values.filter(|&value| is_shown(scale, value));
        let (low, high) = shown.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })?;
        let (low, high) = match scale {
            Scale::Linear => {
                let high = if high == low && high <= 0.0 { 1.0 } else { high.max(0.0) * 1.06 };
                (low.min(0.0) * 1.06, high)
            }
            Scale::Log2 | Scale::Log10 => log_ends(scale, low, high),
            Scale::Percentile => (low.min(50.0), high),
        };
        Some(Self { scale, low, high })
    }

    /// The same range without the room from zero to the least value: for times and counts across.
    pub fn tight(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let range = Self::over(scale, values.clone())?;
        if scale != Scale::Linear {
            return Some(range);
        }
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        Some(if high > low { Self { low, high, ..range } } else { range })
    }

    /// Where a value stands, 0 at the low end and 1 at the high one; `None` for one that the scale cannot show.
    pub fn fraction(&self, value: f64) -> Option<f64> {
        if !is_shown(self.scale, value) {
            return None;
        }
        let (low, high) = (self.place(self.low), self.place(self.high));
        Some(if high > low { (self.place(value) - low) / (high - low) } else { 0.5 })
    }

    fn is_log(&self) -> bool {
        matches!(self.scale, Scale::Log2 | Scale::Log10)
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log2 | Scale::Log10 => value.ln(),
            Scale::Percentile => -(1.0 - value / 100.0).ln(),
        }
    }

    /// About `wanted` ticks, at round values within the range.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let wanted = wanted.max(2);
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high, wanted),
            Scale::Log2 => powers(2.0, self.low, self.high, wanted),
            Scale::Log10 => decimal_ticks(self.low, self.high, wanted),
            Scale::Percentile => percentile_ticks(self.low, self.high),
        };
        let values = if self.is_log() { with_ends(values, self.low, self.high) } else { values };
        let label = |value| match self.scale {
            Scale::Log2 => binary_label(value),
            Scale::Percentile => trimmed(value, 5),
            Scale::Linear | Scale::Log10 => number_label(value),
        };
        values.into_iter().map(|value| Tick { value, label: label(value) }).collect()
    }
}

fn is_shown(scale: Scale, value: f64) -> bool {
    value.is_finite()
        && match scale {
            Scale::Linear => true,
            Scale::Log2 | Scale::Log10 => value > 0.0,
            Scale::Percentile => (0.0..100.0).contains(&value),
        }
}

/// Decades from which an axis has powers of ten alone.
const DECADES: f64 = 2.5;

/// The ends of a logarithmic axis: the ticks next to the least and the greatest value, so that both stand between labels.
fn log_ends(scale: Scale, low: f64, high: f64) -> (f64, f64) {
    // One value stands in the middle.
    let (low, high) = if high > low { (low, high) } else { (low / 2.0, high * 2.0) };
    if scale == Scale::Log2 {
        return between(2.0, &[1.0], low, high);
    }
    let ends = between(10.0, &[1.0, 2.0, 5.0], low, high);
    if (ends.1 / ends.0).log10() > DECADES { between(10.0, &[1.0], low, high) } else { ends }
}

/// The greatest multiple of a power of a base that is not above `low`, and the least that is not below `high`.
fn between(base: f64, multiples: &[f64], low: f64, high: f64) -> (f64, f64) {
    let power = |value: f64| (value.ln() / base.ln()).floor() as i32;
    let ticks = |value: f64| {
        let exponents = power(value) - 1..=power(value) + 1;
        exponents.flat_map(|exponent| multiples.iter().map(move |multiple| multiple * base.powi(exponent)))
    };
    let below = ticks(low).filter(|tick| *tick <= low * (1.0 + 1e-9)).fold(0.0, f64::max);
    let above = ticks(high).filter(|tick| *tick >= high * (1.0 - 1e-9)).fold(f64::INFINITY, f64::min);
    // Beyond the least and the greatest number there is no tick.
    (if below > 0.0 { below } else { low }, if above.is_finite() { above } else { high })
}

/// Ticks with one at each end of the axis.
fn with_ends(mut ticks: Vec<f64>, low: f64, high: f64) -> Vec<f64> {
    let is_near = |tick: Option<&f64>, end: f64| tick.is_some_and(|tick| (tick / end - 1.0).abs() < 1e-9);
    if !is_near(ticks.first(), low) {
        ticks.insert(0, low);
    }
    if !is_near(ticks.last(), high) {
        ticks.push(high);
    }
    ticks
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0) * power;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|place| place as f64 * step).collect()
}

/// Every power of a base, or every second, third … one where they would be too many.
fn powers(base: f64, low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let first = (low.ln() / base.ln() - 1e-9).ceil() as i32;
    let last = (high.ln() / base.ln() + 1e-9).floor() as i32;
    let step = usize::try_from(last - first + 1).unwrap_or(0).div_ceil(wanted).max(1);
    (first..=last).step_by(step).map(|exponent| base.powi(exponent)).collect()
}

/// Powers of ten; with their doubles and quintuples where there are few, and equal steps within one decade.
fn decimal_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let decades = (high / low).log10();
    if decades < 0.9 {
        return linear_ticks(low, high, wanted).into_iter().filter(|&value| value > 0.0).collect();
    }
    if decades * 1.2 > wanted as f64 / 2.0 {
        return powers(10.0, low, high, wanted);
    }
    let decade = powers(10.0, low / 10.0, high, usize::MAX);
    let multiples = decade.into_iter().flat_map(|power| [1.0, 2.0, 5.0].map(|multiple| multiple * power));
    multiples.filter(|value| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value)).collect()
}

fn percentile_ticks(low: f64, high: f64) -> Vec<f64> {
    let all = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
    all.into_iter().filter(|value| (low..=high + 1e-9).contains(value)).collect()
}

/// Bytes and other counts by powers of two: `4Ki` is 4,096.
fn binary_label(value: f64) -> String {
    for (unit, factor) in [("Gi", 2f64.powi(30)), ("Mi", 2f64.powi(20)), ("Ki", 1024.0)] {
        if value >= factor {
            return format!("{}{unit}", trimmed(value / factor, 2));
        }
    }
    trimmed(value, 3)
}

/// A number with `k`, `M` or `G` where it is long.
pub(crate) fn number_label(value: f64) -> String {
    let magnitude = value.abs();
    for (unit, factor) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if magnitude >= factor * 10.0 || (magnitude >= factor && factor > 1e3) {
            return format!("{}\u{a0}{unit}", trimmed(value / factor, 2));
        }
    }
    trimmed(value, 4)
}

/// At most so many decimals, and none that are zero.
pub(crate) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let range = Range::over(scale, values.iter().copied()).unwrap();
        range.ticks(7).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_on_every_scale() {
        assert_eq!(
            labels(Scale::Linear, &[0.0, 1_900_000.0]),
            ["0", "500\u{a0}k", "1\u{a0}M", "1.5\u{a0}M", "2\u{a0}M"]
        );
        assert_eq!(labels(Scale::Log2, &[8.0, 4096.0]), ["8", "32", "128", "512", "2Ki", "4Ki"]);
        assert_eq!(labels(Scale::Log10, &[4.0, 70.0]), ["2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(Scale::Percentile, &[50.0, 99.99]), ["50", "90", "99", "99.9", "99.99"]);
    }

    #[test]
    fn logarithmic_axis_that_ends_between_ticks_goes_on_to_the_next() {
        let wide = ["1", "10", "100", "1000", "10\u{a0}k", "100\u{a0}k"];
        assert_eq!(labels(Scale::Log10, &[3.0, 40_000.0]), wide);
        assert_eq!(labels(Scale::Log10, &[1.0, 100_000.0]), wide);
        assert_eq!(labels(Scale::Log10, &[3.1, 3.9]).first().unwrap(), "2");
        assert_eq!(labels(Scale::Log10, &[3.1, 3.9]).last().unwrap(), "5");
        assert_eq!(labels(Scale::Log2, &[9.0, 100.0]), ["8", "16", "32", "64", "128"]);
        for values in [[7.0, 7.0], [1e-300, 1e300], [f64::MIN_POSITIVE, f64::MAX], [0.3, 0.30001]] {
            for scale in [Scale::Log2, Scale::Log10] {
                let range = Range::over(scale, values.into_iter()).unwrap();
                let ticks = range.ticks(6);
                let (first, last) = (ticks.first().unwrap(), ticks.last().unwrap());
                assert!(
                    first.value <= values[0] * 1.001 && last.value >= values[1] * 0.999,
                    "{values:?}: {ticks:?}"
                );
                assert!((2..=14).contains(&ticks.len()), "{values:?}: {ticks:?}");
            }
        }
    }

    #[test]
    fn percentiles_are_spaced_by_nines() {
        let range = Range::over(Scale::Percentile, [0.0, 99.9].into_iter()).unwrap();
        let at = |value| range.fraction(value).unwrap();
        assert!((at(99.0) - at(90.0) - (at(99.9) - at(99.0))).abs() < 1e-9);
    }

    #[test]
    fn values_that_a_scale_cannot_show_have_no_place() {
        let range = Range::over(Scale::Log10, [1.0, 10.0].into_iter()).unwrap();
        assert!(range.fraction(0.0).is_none() && range.fraction(f64::NAN).is_none());
        assert!(Range::over(Scale::Log10, [0.0, -1.0].into_iter()).is_none());
    }

    #[test]
    fn times_are_read_in_microseconds_from_one_on() {
        assert_eq!(Quantity::time("latency", 999.0), (Quantity::new("latency", "ns"), 1.0));
        assert_eq!(Quantity::time("latency", 4e5), (Quantity::new("latency", "µs"), 1e3));
        assert_eq!(Quantity::time("latency", 4e7), (Quantity::new("latency", "ms"), 1e6));
    }
}
