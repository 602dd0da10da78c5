//! Where the numbers of a figure come from.

use std::time::{SystemTime, UNIX_EPOCH};

/// A publication that a figure reproduces or compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// What it is called in the text.
    pub name: &'static str,
    /// Authors, title, venue and year.
    pub reference: &'static str,
    /// Its digital object identifier.
    pub doi: &'static str,
}

impl Paper {
    /// Inline transfer in slots of the submission queue.
    pub const BYTE_EXPRESS: Self = Self {
        name: "ByteExpress",
        reference: "J. Park, J. Lee, Y. Kim. ByteExpress: A High-Performance and Traffic-Efficient Inline Transfer of Small \
                    Payloads over NVMe. HotStorage 2025",
        doi: "10.1145/3736548.3737837",
    };
    /// Values in unused fields of commands.
    pub const BAND_SLIM: Self = Self {
        name: "BandSlim",
        reference: "J. Park, C.-G. Lee, S. Hwang, S.-J. Cha, W. Chung, Y. Kim. Maximizing Interconnect Bandwidth and Efficiency in \
                    Nonvolatile Memory Express-Based Key-Value Solid-State Devices With Fine-Grained Value Transfer. IEEE Micro, \
                    2025",
        doi: "10.1109/MM.2025.3572475",
    };
    /// Files of unmodified programs in the memory of a CXL SSD.
    pub const DAX_MAPPINGS: Self = Self {
        name: "Transparent DAX Mappings",
        reference: "Y. Khalil, D. Habicht, P. Ellinger, F. Bellosa, J. González, A. Manzanares, V. Shah. Transparent DAX Mappings: \
                    Towards Automatic Kernel Bypass with CXL-Based Hybrid SSDs. DIMES 2025",
        doi: "10.1145/3764862.3768178",
    };

    /// The address that its identifier resolves at.
    pub fn url(&self) -> String {
        format!("https://doi.org/{}", self.doi)
    }
}

/// What a reader needs to assess and to repeat a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The command that measured it.
    pub command: String,
    /// Processor, their number, kernel.
    pub machine: Option<String>,
    /// The commit of what was measured.
    pub commit: Option<String>,
    /// The day, as `2026-11-29`.
    pub date: Option<String>,
    /// What random numbers began with.
    pub seed: Option<u64>,
    /// What the spread of a point is, such as `least and most of 5 rounds`.
    pub spread: Option<String>,
    /// Publications beside it.
    pub papers: Vec<Paper>,
}

impl Source {
    /// A measurement of which the command alone is known.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }

    /// A measurement made by this process, today, on this machine. The commit is that of `BYWAY_COMMIT` at build time.
    pub fn of_this_machine(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            machine: Some(this_machine()),
            commit: Some(this_commit()),
            date: Some(today()),
            ..Self::default()
        }
    }

    /// Sets the seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Says what the spread of a point is.
    pub fn with_spread(self, spread: impl Into<String>) -> Self {
        Self { spread: Some(spread.into()), ..self }
    }

    /// Adds a publication.
    pub fn with_paper(mut self, paper: Paper) -> Self {
        self.papers.push(paper);
        self
    }

    /// Sets machine, commit and date, each where it is known.
    pub fn with_origin(self, machine: Option<String>, commit: Option<String>, date: Option<String>) -> Self {
        Self { machine, commit, date, ..self }
    }

    /// Everything that is known, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let optional = [
            ("machine", self.machine.clone()),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("spread", self.spread.clone()),
        ];
        let command = (!self.command.is_empty()).then(|| ("command", self.command.clone()));
        let known = optional.into_iter().filter_map(|(name, fact)| Some((name, fact?)));
        let papers =
            self.papers.iter().map(|paper| ("paper", format!("{}. {}", paper.reference, paper.url())));
        command.into_iter().chain(known).chain(papers).collect()
    }

    /// The same in one line, without the publications.
    pub fn line(&self) -> String {
        let facts = self.facts().into_iter().filter(|(name, _)| *name != "paper");
        facts.map(|(name, fact)| format!("{name}: {fact}")).collect::<Vec<_>>().join("; ")
    }
}

/// The processor's name, how many there are, and the kernel.
fn this_machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find_map(|line| line.strip_prefix("model name"));
    let cpu =
        named.and_then(|line| line.split_once(':')).map_or("unknown processor", |(_, name)| name.trim());
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cpu}, {cpus} processors, Linux {}", kernel.trim())
}

/// The commit that the program was built from: `BYWAY_COMMIT` at build time, where that was set.
pub fn commit() -> Option<&'static str> {
    option_env!("BYWAY_COMMIT").filter(|commit| !commit.is_empty())
}

/// A package's version, with the commit where the build knows it: `0.1.0 (3f06a98b)`.
pub fn version_with_commit(version: &str) -> String {
    commit().map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
}

fn this_commit() -> String {
    commit().map_or_else(|| format!("not recorded (version {})", env!("CARGO_PKG_VERSION")), str::to_owned)
}

/// The day of the clock, in universal time.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(i64::try_from(since / 86_400).unwrap_or(0));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_786), (2026, 11, 29));
    }

    #[test]
    fn only_what_is_known_is_said() {
        let source = Source::new("byway perf").with_seed(7).with_paper(Paper::BAND_SLIM);
        assert_eq!(source.line(), "command: byway perf; seed: 7");
        assert!(source.facts()[2].1.ends_with("https://doi.org/10.1109/MM.2025.3572475"));
    }
}
