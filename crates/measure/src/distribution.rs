//! How often a random load touches each place: fio's `random_distribution`, in fio's grammar.
//!
//! Ranks of Zipf and Pareto, whose first are the hottest, are scattered over the range one to one, so that hot places are no
//! neighbours. Of normal and zoned distributions the place itself says how hot it is, as in fio.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use crate::random::Random;
use crate::zipfian::Zipfian;

/// A distribution as it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Every place as often.
    #[default]
    Uniform,
    /// `zipf:THETA`: the place of rank k is drawn in proportion to `k^-theta`.
    Zipf(f64),
    /// `pareto:H`: the share H of places gets the share 1 − H of draws, at every scale (self-similar: Gray and others, 1994).
    Pareto(f64),
    /// `normal:DEV`: around the middle, with a standard deviation of so many percent of the range.
    Normal(f64),
    /// `zoned:A/S:A/S…`: A percent of draws go to the next S percent of the range.
    Zoned(Vec<Zone>),
}

/// A part of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Percent of draws.
    pub draws_percent: f64,
    /// Percent of places.
    pub places_percent: f64,
}

impl Distribution {
    /// Whether every place is drawn as often.
    pub fn is_uniform(&self) -> bool {
        *self == Self::Uniform
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        let number = |is_within: fn(f64) -> bool, range: &str| {
            let number = parameter.parse().ok().filter(|&number| is_within(number));
            number.ok_or_else(|| format!("{text:?}: expected is {name}: and a number {range}"))
        };
        match name {
            "random" if parameter.is_empty() => Ok(Self::Uniform),
            // fio's defaults.
            "zipf" if parameter.is_empty() => Ok(Self::Zipf(1.1)),
            "pareto" if parameter.is_empty() => Ok(Self::Pareto(0.2)),
            // At 1 the formula has no value, and far above all draws are of a few places.
            "zipf" => number(
                |theta| theta > 0.0 && theta < 10.0 && theta != 1.0,
                "above 0 and below 10 that is not 1",
            )
            .map(Self::Zipf),
            "pareto" => number(|h| h > 0.0 && h < 1.0, "above 0 and below 1").map(Self::Pareto),
            "normal" => {
                number(|dev| dev > 0.0 && dev <= 100.0, "of percent above 0 and up to 100").map(Self::Normal)
            }
            "zoned" => zones(parameter).map(Self::Zoned).ok_or_else(|| {
                format!(
                    "{text:?}: expected are DRAWS/PLACES in percent, each 100 in sum, as zoned:60/10:40/90"
                )
            }),
            _ => Err(format!(
                "{text:?} is no distribution: expected is random, zipf:THETA, pareto:H, normal:DEV or zoned:DRAWS/PLACES:…"
            )),
        }
    }
}

fn zones(text: &str) -> Option<Vec<Zone>> {
    let percent = |text: &str| text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let zone = |text: &str| {
        let (draws, places) = text.split_once('/')?;
        let zone = Zone { draws_percent: percent(draws)?, places_percent: percent(places)? };
        (zone.places_percent > 0.0).then_some(zone)
    };
    let zones: Vec<Zone> = text.split(':').map(zone).collect::<Option<_>>()?;
    let is_whole = |of: fn(&Zone) -> f64| (zones.iter().map(of).sum::<f64>() - 100.0).abs() < 0.001;
    (is_whole(|zone| zone.draws_percent) && is_whole(|zone| zone.places_percent)).then_some(zones)
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("random"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Pareto(h) => write!(f, "pareto:{h}"),
            Self::Normal(dev) => write!(f, "normal:{dev}"),
            Self::Zoned(zones) => {
                f.write_str("zoned")?;
                let mut each = zones.iter();
                each.try_for_each(|zone| write!(f, ":{}/{}", zone.draws_percent, zone.places_percent))
            }
        }
    }
}

/// A distribution over places from 0 on.
#[derive(Clone, Debug)]
pub struct Places {
    count: u64,
    draw: Draw,
}

#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    Zipf(Zipfian, Scatter),
    /// The power of a uniform number that gives the rank's share of the range.
    Pareto(f64, Scatter),
    /// The standard deviation in places.
    Normal(f64),
    Zoned(Vec<Part>),
}

/// A zone in places.
#[derive(Clone, Debug)]
struct Part {
    /// Draws of it and of zones before it, as a share of all.
    draws_until: f64,
    first: u64,
    count: u64,
}

impl Places {
    /// Over `count` places, at least one. The seed decides which places are hot.
    pub fn new(distribution: &Distribution, count: u64, seed: u64) -> Self {
        let count = count.max(1);
        let draw = match distribution {
            Distribution::Uniform => Draw::Uniform,
            Distribution::Zipf(theta) => Draw::Zipf(Zipfian::new(count, *theta), Scatter::new(count, seed)),
            Distribution::Pareto(h) => Draw::Pareto(h.ln() / (1.0 - h).ln(), Scatter::new(count, seed)),
            Distribution::Normal(percent) => Draw::Normal(count as f64 * percent / 100.0),
            Distribution::Zoned(zones) => Draw::Zoned(parts(zones, count)),
        };
        Self { count, draw }
    }

    /// The next place.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.draw {
            Draw::Uniform => random.below(self.count),
            Draw::Zipf(zipfian, scatter) => scatter.place(zipfian.rank(random)),
            Draw::Pareto(power, scatter) => {
                let rank = (self.count as f64 * random.open_unit().powf(*power)) as u64;
                scatter.place(rank.min(self.count - 1))
            }
            Draw::Normal(deviation) => self.normal(*deviation, random),
            Draw::Zoned(parts) => of_parts(parts, random),
        }
    }

    /// Box and Muller's transform; what falls outside the range is drawn again.
    fn normal(&self, deviation: f64, random: &mut Random) -> u64 {
        loop {
            let radius = (-2.0 * random.open_unit().ln()).sqrt();
            let at = self.count as f64 / 2.0 + deviation * radius * (TAU * random.open_unit()).cos();
            if at >= 0.0 && at < self.count as f64 {
                return at as u64;
            }
        }
    }
}

fn parts(zones: &[Zone], count: u64) -> Vec<Part> {
    let (mut draws, mut places) = (0.0, 0.0);
    let at = |percent: f64| ((count as f64 * percent / 100.0).round() as u64).min(count);
    let part = |zone: &Zone| {
        let first = at(places);
        draws += zone.draws_percent / 100.0;
        places += zone.places_percent;
        // A zone narrower than a place is one place.
        Part {
            draws_until: draws,
            first: first.min(count - 1),
            count: at(places).saturating_sub(first).max(1),
        }
    };
    zones.iter().map(part).collect()
}

fn of_parts(parts: &[Part], random: &mut Random) -> u64 {
    let share = random.open_unit();
    let part = parts.iter().find(|part| share < part.draws_until).or(parts.last());
    part.map_or(0, |part| part.first + random.below(part.count))
}

/// Ranks as places, one to one: a multiplication by a number without a common divisor, modulo the count. The multiplier is near the
/// golden section of the count, which keeps the hottest places far from each other.
#[derive(Clone, Debug)]
struct Scatter {
    count: u64,
    multiplier: u64,
    first: u64,
}

impl Scatter {
    fn new(count: u64, seed: u64) -> Self {
        let golden = ((u128::from(count) * 0x9e37_79b9_7f4a_7c15) >> 64) as u64;
        let multiplier = (golden.max(1)..).find(|&number| are_coprime(number, count)).unwrap_or(1);
        Self { count, multiplier, first: Random::new(seed).below(count) }
    }

    #[inline]
    fn place(&self, rank: u64) -> u64 {
        if self.count <= 1 << 31 {
            return (rank * self.multiplier + self.first) % self.count;
        }
        let place = u128::from(rank) * u128::from(self.multiplier) + u128::from(self.first);
        (place % u128::from(self.count)) as u64
    }
}

fn are_coprime(mut a: u64, mut b: u64) -> bool {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const COUNT: u64 = 1000;
    const DRAWS: u64 = 1_000_000;

    fn counts(text: &str) -> Vec<u64> {
        let (places, mut random) = (Places::new(&text.parse().unwrap(), COUNT, 5), Random::new(3));
        let mut counts = vec![0; COUNT as usize];
        (0..DRAWS).for_each(|_| counts[places.draw(&mut random) as usize] += 1);
        counts
    }

    /// Pearson's statistic for classes of draws, each with its probability.
    fn chi_square(classes: &[(u64, f64)]) -> f64 {
        let distance = |&(came, probability): &(u64, f64)| {
            let expected = DRAWS as f64 * probability;
            (came as f64 - expected).powi(2) / expected
        };
        classes.iter().map(distance).sum()
    }

    /// Draws of each rank, of a distribution that scatters ranks.
    fn counts_by_rank(text: &str) -> Vec<u64> {
        let (counts, scatter) = (counts(text), Scatter::new(COUNT, 5));
        (0..COUNT).map(|rank| counts[scatter.place(rank) as usize]).collect()
    }

    #[test]
    fn uniform_draws_pass_a_chi_square_test() {
        let classes: Vec<(u64, f64)> = counts("random").into_iter().map(|came| (came, 0.001)).collect();
        // 999 degrees of freedom: 1143 is the 99.9th percentile.
        assert!(chi_square(&classes) < 1143.0, "{}", chi_square(&classes));
    }

    #[test]
    fn zipf_heads_have_the_mass_of_the_formula() {
        for theta in [0.8, 0.99, 1.2] {
            let counts = counts_by_rank(&format!("zipf:{theta}"));
            let zipfian = Zipfian::new(COUNT, theta);
            for number in [1, 10, 100, 500] {
                let wanted: f64 = (0..number as u64).map(|rank| zipfian.share(rank)).sum();
                let came = counts[..number].iter().sum::<u64>() as f64 / DRAWS as f64;
                // Gray's formula is exact for two ranks, and a continuous law behind them.
                assert!((came - wanted).abs() < 0.025, "{theta}, first {number}: {came} of {wanted}");
            }
        }
    }

    #[test]
    fn pareto_shares_pass_a_chi_square_test_at_every_scale() {
        let (h, counts) = (0.2f64, counts_by_rank("pareto:0.2"));
        // The first 20 % have 80 %, and of these again the first 20 %: 8, 40, 200 and 1000 places.
        let until = |number: usize| counts[..number].iter().sum::<u64>();
        let share = |number: f64| (number / COUNT as f64).powf((1.0 - h).ln() / h.ln());
        let edges = [0usize, 8, 40, 200, 1000];
        let classes: Vec<(u64, f64)> = edges
            .windows(2)
            .map(|pair| (until(pair[1]) - until(pair[0]), share(pair[1] as f64) - share(pair[0] as f64)))
            .collect();
        // 3 degrees of freedom: 16.3 is the 99.9th percentile.
        assert!(chi_square(&classes) < 16.3, "{classes:?}");
    }

    #[test]
    fn normal_draws_pass_a_chi_square_test() {
        let counts = counts("normal:10");
        // Probabilities of half a deviation each, from the middle on (tables of the normal distribution).
        let halves = [0.191_462, 0.149_882, 0.091_848, 0.044_057, 0.016_540, 0.004_860];
        let of = |from: usize, to: usize| counts[from..to].iter().sum::<u64>();
        let right = halves.iter().enumerate().map(|(at, &p)| (of(500 + at * 50, 550 + at * 50), p));
        let left = halves.iter().enumerate().map(|(at, &p)| (of(450 - at * 50, 500 - at * 50), p));
        let classes: Vec<(u64, f64)> = right.chain(left).collect();
        // 11 degrees of freedom: 31.3 is the 99.9th percentile.
        assert!(chi_square(&classes) < 31.3, "{classes:?}");
    }

    #[test]
    fn zones_get_their_draws() {
        let counts = counts("zoned:60/10:30/20:8/30:2/40");
        let of = |from: usize, to: usize| counts[from..to].iter().sum::<u64>();
        let classes = [(of(0, 100), 0.6), (of(100, 300), 0.3), (of(300, 600), 0.08), (of(600, 1000), 0.02)];
        // 3 degrees of freedom: 16.3 is the 99.9th percentile.
        assert!(chi_square(&classes) < 16.3, "{classes:?}");
    }

    #[test]
    fn hot_places_are_no_neighbours_and_every_rank_has_its_place() {
        for count in [1, 2, 7, 1000, 1 << 20, (1 << 20) + 1] {
            let scatter = Scatter::new(count, 9);
            let mut places: Vec<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
            if count > 100 {
                assert!((1..10).all(|rank| places[rank].abs_diff(places[0]) > count / 100), "{count}");
            }
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn distributions_are_printed_as_they_are_asked_for() {
        for text in ["random", "zipf:0.99", "pareto:0.2", "normal:10", "zoned:60/10:40/90"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        assert_eq!("zipf".parse(), Ok(Distribution::Zipf(1.1)));
        assert_eq!("pareto".parse(), Ok(Distribution::Pareto(0.2)));
        for wrong in
            ["", "zipf:1", "zipf:0", "pareto:1", "normal:0", "zoned:60/10", "zoned:a", "random:1", "zipf:NaN"]
        {
            assert!(wrong.parse::<Distribution>().is_err(), "{wrong}");
        }
    }
}
