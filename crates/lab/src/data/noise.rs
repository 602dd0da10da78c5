//! Seeded numbers by index, and waves of exact arithmetic.
//!
//! Nothing here calls the system's mathematical library: additions, multiplications and conversions are those of IEEE 754, so a
//! seed gives the same bytes on every machine.

use byway_measure::random::Random;

/// The step of SplitMix64 from one number to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers that are addressed by their index.
#[derive(Clone, Copy, Debug)]
pub struct Noise(u64);

impl Noise {
    /// The stream `number` of a seed; streams of one seed have nothing in common.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed);
        let base = random.next_u64();
        Self(Random::new(base ^ number).next_u64())
    }

    /// The 64 bits at an index.
    pub fn bits(self, index: u64) -> u64 {
        Random::new(self.0.wrapping_add(index.wrapping_mul(STEP))).next_u64()
    }

    /// The number in [0, 1) at an index.
    pub fn unit(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The number in [-1, 1) at an index.
    pub fn signed(self, index: u64) -> f64 {
        2.0 * self.unit(index) - 1.0
    }
}

/// A sine of period 1 made of two parabolas.
pub fn wave(turns: f64) -> f64 {
    let part = turns - turns.floor();
    if part < 0.5 { 16.0 * part * (0.5 - part) } else { -16.0 * (part - 0.5) * (1.0 - part) }
}

/// A power with a whole exponent. The standard library's may differ between machines.
pub fn power(base: f64, exponent: u32) -> f64 {
    let square = || power(base * base, exponent / 2);
    match exponent {
        0 => 1.0,
        odd if odd % 2 == 1 => base * square(),
        _ => square(),
    }
}

/// The nearest number of eight significant decimal digits, as programs that write text leave it.
pub fn eight_digits(number: f64) -> f64 {
    if number == 0.0 {
        return 0.0;
    }
    format!("{number:.7e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_of_an_index_is_the_same_whatever_came_before() {
        let noise = Noise::new(7, 1);
        let mut random = Random::new(noise.0);
        for index in 0..100 {
            assert_eq!(noise.bits(index), random.next_u64());
        }
        assert_ne!(Noise::new(7, 1).bits(0), Noise::new(7, 2).bits(0));
        assert_ne!(Noise::new(7, 1).bits(0), Noise::new(8, 1).bits(0));
    }

    #[test]
    fn wave_is_a_sine_within_six_percent() {
        for part in 0..1000 {
            let turns = f64::from(part) / 100.0 - 5.0;
            assert!((wave(turns) - (turns * std::f64::consts::TAU).sin()).abs() < 0.06, "{turns}");
        }
    }

    #[test]
    fn power_multiplies_as_often_as_the_exponent_says() {
        assert_eq!([0, 1, 2, 5, 10].map(|exponent| power(2.0, exponent)), [1.0, 2.0, 4.0, 32.0, 1024.0]);
    }

    #[test]
    fn eight_digits_are_those_of_the_decimal_text() {
        assert_eq!(eight_digits(0.046_874_999_4), 0.046_874_999);
        assert_eq!(eight_digits(1.999_999_97), 2.0);
        assert_eq!(eight_digits(-1.234_567_891e-7), -1.234_567_9e-7);
        assert!(eight_digits(-0.0).is_sign_positive());
    }
}
