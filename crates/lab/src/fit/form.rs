//! Modelled times as linear forms of the parameters.
//!
//! The model is the device's own: `byway_link::cost::of_put`, whose times the tests of `byway` hold to those of a device. Each
//! factor of a form is read off it, as the difference that a nanosecond more of one parameter makes.

use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Mul};

use anyhow::Result;
use byway::Method;
use byway_link::{Profile, cost};
use byway_measure::workload::Workload;

use super::parameters::{CHUNK, COMMAND, COUNT, PAGE, PARAMETERS, Values};
use crate::report::claims::times::{By, Link, Load, Time};
use crate::report::run::profile_of;

/// Puts that a workload's mean is over.
const DRAWN: usize = 100_000;
/// The step that factors are read off by, in picoseconds.
const STEP_PS: i64 = 1000;

/// A time: a constant, and a factor of each parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Of what is known: bytes on the wire, gaps between reads; in nanoseconds.
    pub constant_ns: f64,
    /// How often each parameter is in it.
    pub factors: [f64; COUNT],
}

impl Form {
    const ZERO: Self = Self { constant_ns: 0.0, factors: [0.0; COUNT] };

    /// The form of one put under a profile with `cosmos`' times.
    fn of_put(method: Method, size: u32, profile: &Profile) -> Self {
        let ps = |profile: &Profile| cost::of_put(method, size.into(), profile).ps as i64;
        let base_ps = ps(profile);
        let factors = PARAMETERS.each_ref().map(|parameter| {
            let mut longer = profile.clone();
            parameter.add_ps(&mut longer, STEP_PS);
            (ps(&longer) - base_ps) as f64 / STEP_PS as f64
        });
        let mut form = Self { constant_ns: base_ps as f64 / 1000.0, factors };
        form.constant_ns -= form.variable_ns(&Values::cosmos());
        form
    }

    fn variable_ns(&self, values: &Values) -> f64 {
        self.factors.iter().zip(values.0).map(|(factor, value)| factor * value).sum()
    }

    /// What of a put there is in it.
    pub fn counts(&self) -> Counts {
        Counts { commands: self.factors[COMMAND], pages: self.factors[PAGE], chunks: self.factors[CHUNK] }
    }

    /// The time, in nanoseconds.
    pub fn at(&self, values: &Values) -> f64 {
        self.constant_ns + self.variable_ns(values)
    }
}

/// How many commands, pages and chunks there are in a put; a mean in workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Commands.
    pub commands: f64,
    /// Pages that PRPs move.
    pub pages: f64,
    /// Chunks behind commands.
    pub chunks: f64,
}

impl Counts {
    /// These less so many times others.
    pub fn less(self, other: Self, times: f64) -> Self {
        Self {
            commands: self.commands - times * other.commands,
            pages: self.pages - times * other.pages,
            chunks: self.chunks - times * other.chunks,
        }
    }
}

impl AddAssign for Form {
    fn add_assign(&mut self, other: Self) {
        self.constant_ns += other.constant_ns;
        self.factors.iter_mut().zip(other.factors).for_each(|(factor, more)| *factor += more);
    }
}

impl Mul<f64> for Form {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { constant_ns: self.constant_ns * times, factors: self.factors.map(|factor| factor * times) }
    }
}

/// Forms of times, each put's reckoned once.
pub struct Forms {
    gen2: Profile,
    gen5: Profile,
    puts: HashMap<(Link, Method, u32), Form>,
}

impl Forms {
    /// No forms yet.
    ///
    /// # Errors
    /// When the model has not the links of the papers.
    pub fn new() -> Result<Self> {
        let of = |link: Link| profile_of(link.setting());
        Ok(Self { gen2: of(Link::Gen2)?, gen5: of(Link::Gen5)?, puts: HashMap::new() })
    }

    /// The profile of a link, with the times of `cosmos`.
    pub fn profile(&self, link: Link) -> &Profile {
        match link {
            Link::Gen2 => &self.gen2,
            Link::Gen5 => &self.gen5,
        }
    }

    /// The form of a time.
    pub fn of(&mut self, time: Time) -> Form {
        match time.load {
            Load::Size(size) => self.put(time.link, time.by, size),
            Load::Workload(workload) => {
                let mut mean = Form::ZERO;
                for (size, share) in shares(workload) {
                    mean += self.put(time.link, time.by, size) * share;
                }
                mean
            }
        }
    }

    fn put(&mut self, link: Link, by: By, size: u32) -> Form {
        let method = by.method(size);
        if let Some(known) = self.puts.get(&(link, method, size)) {
            return *known;
        }
        let form = Form::of_put(method, size, self.profile(link));
        self.puts.insert((link, method, size), form);
        form
    }
}

/// The sizes of a workload and the share of the puts that each has.
fn shares(workload: Workload) -> BTreeMap<u32, f64> {
    let mut shares = BTreeMap::new();
    for size in workload.sizes(DRAWN, 0) {
        *shares.entry(size).or_insert(0.0) += 1.0 / DRAWN as f64;
    }
    shares
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::report::claims::Claim;
    use byway_measure::random::Random;

    /// Values within the bounds, from a seed.
    fn any_values(random: &mut Random) -> Values {
        Values(PARAMETERS.each_ref().map(|parameter| {
            let (least_ns, most_ns) = (parameter.least_ns, parameter.most_ns);
            (least_ns + (most_ns - least_ns) * random.open_unit()).round()
        }))
    }

    /// Every single put that a claim is about.
    fn puts() -> Vec<(Link, By, u32)> {
        let statements = Claim::all().flat_map(|claim| claim.times);
        let times = statements.flat_map(|statement| [statement.over, statement.under]);
        let of_size = times.filter_map(|time| match time.load {
            Load::Size(size) => Some((time.link, time.by, size)),
            Load::Workload(_) => None,
        });
        of_size.collect()
    }

    #[test]
    fn form_of_each_put_is_the_models_time_wherever_the_parameters_are() {
        let mut forms = Forms::new().unwrap();
        let mut random = Random::new(7);
        for _ in 0..20 {
            let values = any_values(&mut random);
            for (link, by, size) in puts() {
                let profile = values.in_place_of_cosmos(forms.profile(link));
                let model_ns = cost::of_put(by.method(size), size.into(), &profile).ps as f64 / 1000.0;
                let form_ns = forms.put(link, by, size).at(&values);
                assert!(
                    (model_ns - form_ns).abs() < 0.01,
                    "{by:?} {size} {link:?}: {model_ns} {form_ns} at {values:?}"
                );
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_encodings() {
        let mut forms = Forms::new().unwrap();
        let mut counts = |method, size| forms.of(Time::put(method, size)).counts();
        let of = |commands, pages, chunks| Counts { commands, pages, chunks };
        assert_eq!(counts(Method::Prp, 32), of(1.0, 1.0, 0.0));
        assert_eq!(counts(Method::Inline, 128), of(1.0, 0.0, 2.0));
        assert_eq!(counts(Method::Piggyback, 128), of(3.0, 0.0, 0.0));
    }

    #[test]
    fn shares_of_a_workload_are_the_papers() {
        let shares = shares(Workload::C);
        assert_eq!(shares.len(), 2);
        assert!((shares[&2048] - 0.9).abs() < 1e-9);
        assert!((super::shares(Workload::M).values().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
