//! Events of the libraries on standard error, as `BYWAY_LOG` asks for: `debug`, or `warn,byway_tcp_target=debug`.
//!
//! A subscriber of the `tracing` crate. Without `BYWAY_LOG` none is installed, and an event costs one load.

use std::fmt::{self, Debug, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const VARIABLE: &str = "BYWAY_LOG";

/// Installs the subscriber that `BYWAY_LOG` asks for, if it is set.
///
/// # Errors
/// `BYWAY_LOG` is not understood.
pub fn install() -> anyhow::Result<()> {
    let Some(asked) = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty()) else { return Ok(()) };
    let filter =
        asked.to_string_lossy().parse().with_context(|| format!("{VARIABLE}={}", asked.display()))?;
    let subscriber = StandardError { filter, spans: AtomicU64::new(1) };
    Ok(tracing::subscriber::set_global_default(subscriber)?)
}

/// Least severe level of each target.
#[derive(Debug, PartialEq, Eq)]
struct Filter {
    /// Of targets that no entry of `targets` begins.
    others: LevelFilter,
    /// Longest first: the first that begins a target holds.
    targets: Vec<(String, LevelFilter)>,
}

impl Filter {
    fn level_of(&self, target: &str) -> LevelFilter {
        let begins = |module: &str| {
            target.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.targets.iter().find(|(module, _)| begins(module)).map_or(self.others, |(_, level)| *level)
    }

    fn most(&self) -> LevelFilter {
        self.targets.iter().map(|(_, level)| *level).fold(self.others, LevelFilter::max)
    }
}

impl FromStr for Filter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut filter = Self { others: LevelFilter::OFF, targets: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                None => filter.others = level(part)?,
                Some((target, asked)) => filter.targets.push((target.to_owned(), level(asked)?)),
            }
        }
        filter.targets.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(filter)
    }
}

fn level(text: &str) -> anyhow::Result<LevelFilter> {
    let levels = "off, error, warn, info, debug or trace";
    text.parse().map_err(|_| anyhow!("{text:?} is no level: LEVEL or TARGET=LEVEL, where LEVEL is {levels}"))
}

/// Writes each event as one line. Spans are not shown.
struct StandardError {
    filter: Filter,
    /// Number of the next span.
    spans: AtomicU64,
}

impl Subscriber for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.filter.level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} ", Time(SystemTime::now()));
        let _ = write!(line, "{:5} {}:", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        note!("{line}");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Appends the fields of an event: the message alone, others as `name=value`.
struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// A time of day in UTC (RFC 3339), to the microsecond.
struct Time(SystemTime);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let second = utc(since.as_secs());
        write!(f, "{}.{:06}Z", second.trim_end_matches('Z'), since.subsec_micros())
    }
}

/// A time in UTC (RFC 3339), to the second, by seconds since 1970.
pub fn utc(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
const fn date_of(days: u64) -> (u64, u64, u64) {
    // Eras of 400 years of 146,097 days, years from 1 March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn longest_target_decides_the_level() {
        let filter: Filter = "warn,byway_tcp_target=debug,byway_tcp_target::site=off".parse().unwrap();
        assert_eq!(filter.level_of("byway_tcp_target::worker"), LevelFilter::DEBUG);
        assert_eq!(filter.level_of("byway_tcp_target::site"), LevelFilter::OFF);
        assert_eq!(filter.level_of("byway_tcp_targets"), LevelFilter::WARN);
        assert_eq!(filter.most(), LevelFilter::DEBUG);
    }

    #[test]
    fn text_that_is_no_level_is_refused() {
        for text in ["loud", "byway_flash=loud", "a=debug=info"] {
            let said = text.parse::<Filter>().unwrap_err().to_string();
            assert!(said.contains("is no level: LEVEL or TARGET=LEVEL"), "{said}");
        }
    }

    #[test]
    fn dates_are_gregorian() {
        let dates =
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (11_017, (2000, 3, 1)), (20_783, (2026, 11, 26))];
        for (days, date) in dates {
            assert_eq!(date_of(days), date);
        }
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_500_000_000_000_001);
        assert_eq!(Time(time).to_string(), "2017-07-14T02:40:00.000001Z");
    }
}
