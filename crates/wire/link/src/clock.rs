//! Clock modes: how a device models time.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How modelled time affects completions. Not `non_exhaustive`: the executor and modelled regions keep time in each mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// As fast as the code runs; no time is modelled.
    #[default]
    Off,
    /// Time is modelled and reported; completions are not delayed. Deterministic.
    Virtual,
    /// Completions are held back until the modelled time has passed.
    Paced,
}

impl ClockMode {
    /// Whether the device must keep a timeline.
    pub const fn models_time(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// The name as it is written in URIs and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Virtual => "virtual",
            Self::Paced => "paced",
        }
    }
}

impl fmt::Display for ClockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A clock name that is none of `off`, `virtual`, `paced`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown clock {0:?}: expected off, virtual or paced")]
pub struct UnknownClock(pub String);

impl FromStr for ClockMode {
    type Err = UnknownClock;

    fn from_str(text: &str) -> Result<Self, UnknownClock> {
        [Self::Off, Self::Virtual, Self::Paced]
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| UnknownClock(text.to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_parses_from_the_name_it_prints() {
        for mode in [ClockMode::Off, ClockMode::Virtual, ClockMode::Paced] {
            assert_eq!(mode.to_string().parse::<ClockMode>().unwrap(), mode);
        }
        assert!("Virtual".parse::<ClockMode>().unwrap_err().to_string().contains("paced"));
    }
}
