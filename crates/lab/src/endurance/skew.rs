//! Where overwrites go: everywhere alike, or more often to some places than to others.

use std::str::FromStr;

use byway_measure::random::Random;

/// So many percent of the writes go to so many percent of the places, as `80/20`; within each part all are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    writes_percent: u32,
    places_percent: u32,
}

impl Skew {
    /// Every place as often as any other.
    pub const NONE: Self = Self { writes_percent: 100, places_percent: 100 };

    /// The next write's place, below `places`.
    pub fn place(self, random: &mut Random, places: u64) -> u64 {
        let hot = places * u64::from(self.places_percent) / 100;
        if hot == 0 || hot == places {
            return random.below(places);
        }
        if random.below(100) < u64::from(self.writes_percent) {
            return random.below(hot);
        }
        hot + random.below(places - hot)
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected WRITES/PLACES in percent, from 1 to 99 each, as 80/20");
        let percent = |text: &str| text.parse().ok().filter(|percent| (1..100).contains(percent));
        let (writes, places) = text.split_once('/').ok_or_else(wrong)?;
        let (writes_percent, places_percent) = percent(writes).zip(percent(places)).ok_or_else(wrong)?;
        Ok(Self { writes_percent, places_percent })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn skew_80_20_sends_80_percent_of_writes_to_20_percent() {
        let (skew, mut random) = ("80/20".parse::<Skew>().unwrap(), Random::new(3));
        let places: Vec<u64> = (0..100_000).map(|_| skew.place(&mut random, 1000)).collect();
        let hot = places.iter().filter(|place| **place < 200).count();
        assert!((79_000..81_000).contains(&hot), "{hot}");
        assert!((0..1000).all(|place| places.contains(&place)));
    }

    #[test]
    fn without_skew_the_places_are_those_of_the_generator() {
        let (mut random, mut other) = (Random::new(3), Random::new(3));
        assert!((0..1000).all(|_| Skew::NONE.place(&mut random, 77) == other.below(77)));
    }

    #[test]
    fn a_text_that_is_no_skew_is_refused() {
        for text in ["", "80", "80/0", "100/20", "80/20/1", "a/b"] {
            assert!(text.parse::<Skew>().is_err(), "{text}");
        }
    }
}
