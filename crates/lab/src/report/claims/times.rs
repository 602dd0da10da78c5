//! What claims of time say: ratios of modelled times, each with the range that the printed words leave.

use std::fmt;

use byway::Method;
use byway_measure::workload::Workload;

use super::super::measured::{COSMOS, COSMOS_GEN5};

/// The link that a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// The card's own, Gen2 x8: measured by the authors.
    Gen2,
    /// Gen5 x8: estimated by the authors.
    Gen5,
}

impl Link {
    /// The setting that the report measures it in.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Gen2 => COSMOS,
            Self::Gen5 => COSMOS_GEN5,
        }
    }
}

/// How values are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// All by one method.
    Method(Method),
    /// BandSlim's rule: a fine-grained method below a number of bytes, `prp` from there on.
    Threshold(Method, u32),
}

impl By {
    /// The method of a value of `size` bytes.
    pub fn method(self, size: u32) -> Method {
        match self {
            Self::Method(method) => method,
            Self::Threshold(below, tau_bytes) if size < tau_bytes => below,
            Self::Threshold(..) => Method::Prp,
        }
    }
}

/// Sizes of the values that are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One size, in bytes.
    Size(u32),
    /// Those of a workload, as a mean.
    Workload(Workload),
}

/// The modelled time of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Over which link.
    pub link: Link,
    /// By which method.
    pub by: By,
    /// Of which sizes.
    pub load: Load,
}

impl Time {
    /// A put of one size on the card's own link.
    pub const fn put(method: Method, size: u32) -> Self {
        Self { link: Link::Gen2, by: By::Method(method), load: Load::Size(size) }
    }

    /// A put of a workload's sizes on the card's own link.
    pub const fn workload(by: By, workload: Workload) -> Self {
        Self { link: Link::Gen2, by, load: Load::Workload(workload) }
    }

    /// The same on Gen5 x8.
    pub const fn on_gen5(self) -> Self {
        Self { link: Link::Gen5, ..self }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            By::Method(method) => f.write_str(method.name())?,
            By::Threshold(below, tau_bytes) => write!(f, "{} below {tau_bytes} B", below.name())?,
        }
        match self.load {
            Load::Size(bytes) => write!(f, " {bytes} B"),
            Load::Workload(workload) => write!(f, " W({workload})"),
        }
    }
}

/// The ratios that a claim leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The most; infinite where the claim has no upper end.
    pub most: f64,
    /// The ratio that is printed, if one is.
    pub printed: Option<f64>,
}

impl Range {
    /// A printed ratio and what it may be off by.
    pub const fn around(printed: f64, off: f64) -> Self {
        Self { least: printed - off, most: printed + off, printed: Some(printed) }
    }

    /// From one ratio to another: a figure that was rounded from one printed elsewhere.
    pub const fn between(least: f64, most: f64) -> Self {
        Self { least, most, printed: None }
    }

    /// So many percent less, within half a point: the precision that [`Figure::agrees`](super::Figure::agrees) has.
    pub const fn percent_less(percent: f64) -> Self {
        Self::around(1.0 - percent / 100.0, 0.005)
    }

    /// So many times, within 5 percent, as there.
    pub const fn times(times: f64) -> Self {
        Self::around(times, times * 0.05)
    }

    /// No longer than the other, or than `most` of it.
    pub const fn at_most(most: f64) -> Self {
        Self { least: 0.0, most, printed: None }
    }

    /// No shorter than the other, or than `least` of it.
    pub const fn at_least(least: f64) -> Self {
        Self { least, most: f64::INFINITY, printed: None }
    }

    /// The factor by which a ratio is outside; 1 within.
    pub fn miss(&self, ratio: f64) -> f64 {
        (ratio / self.most).max(self.least / ratio).max(1.0)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (Ratio(self.least), Ratio(self.most));
        match (self.least > 0.0, self.most.is_finite()) {
            (true, true) => write!(f, "{least} to {most}"),
            (true, false) => write!(f, "from {least}"),
            _ => write!(f, "to {most}"),
        }
    }
}

/// A ratio for people: three decimals below 10.
#[derive(Clone, Copy, Debug)]
pub struct Ratio(pub f64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10.0 { write!(f, "{:.3}", self.0) } else { write!(f, "{:.1}", self.0) }
    }
}

/// One time over another, and what the claim leaves open for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statement {
    /// Above the line.
    pub over: Time,
    /// Below it.
    pub under: Time,
    /// Their ratio.
    pub range: Range,
}

impl Statement {
    /// Puts of one size by two methods on the card's own link.
    pub const fn puts(over: Method, under: Method, size: u32, range: Range) -> Self {
        Self { over: Time::put(over, size), under: Time::put(under, size), range }
    }

    /// The same on Gen5 x8.
    pub const fn on_gen5(self) -> Self {
        Self { over: self.over.on_gen5(), under: self.under.on_gen5(), range: self.range }
    }

    /// The same of each of some sizes, on Gen5 x8.
    pub const fn each_on_gen5<const N: usize>(
        sizes: [u32; N],
        over: Method,
        under: Method,
        range: Range,
    ) -> [Self; N] {
        let mut all = [Self::puts(over, under, 0, range).on_gen5(); N];
        let mut place = 0;
        while place < N {
            all[place] = Self::puts(over, under, sizes[place], range).on_gen5();
            place += 1;
        }
        all
    }

    /// The mixed workloads put in two ways, on Gen5 x8.
    pub const fn workloads_on_gen5(over: By, under: By, range: Range) -> [Self; 4] {
        let mut all = [Self::puts(Method::Prp, Method::Prp, 0, range).on_gen5(); 4];
        let mut place = 0;
        while place < 4 {
            let workload = Workload::MIXED[place];
            all[place] = Self {
                over: Time::workload(over, workload).on_gen5(),
                under: Time::workload(under, workload).on_gen5(),
                range,
            };
            place += 1;
        }
        all
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.over, self.under)?;
        if self.over.link == Link::Gen5 { f.write_str(", Gen5") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miss_of_a_ratio_is_the_factor_to_the_nearer_end() {
        let range = Range::around(0.5, 0.1);
        assert_eq!((range.miss(0.5), range.miss(0.4)), (1.0, 1.0));
        assert!((range.miss(1.2) - 2.0).abs() < 1e-12 && (range.miss(0.2) - 2.0).abs() < 1e-12);
        assert_eq!(Range::at_most(1.0).miss(0.01), 1.0);
        assert_eq!(Range::at_least(1.0).miss(0.5), 2.0);
    }

    #[test]
    fn a_statement_names_its_times_and_its_range() {
        let statement = Statement::puts(Method::Inline, Method::Prp, 32, Range::percent_less(40.4)).on_gen5();
        assert_eq!(statement.to_string(), "inline 32 B / prp 32 B, Gen5");
        assert_eq!(statement.range.to_string(), "0.591 to 0.601");
        assert_eq!(Range::at_least(1.0).to_string(), "from 1.000");
        assert_eq!(Range::times(13.0).to_string(), "12.3 to 13.7");
    }

    #[test]
    fn threshold_uses_prp_from_its_size_on() {
        let by = By::Threshold(Method::Piggyback, 128);
        assert_eq!((by.method(127), by.method(128)), (Method::Piggyback, Method::Prp));
    }
}
