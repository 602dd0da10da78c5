//! What was done between two looks, and how a device is at the second.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Reading;
use super::figures::{Figure, Figures};
use super::quantile::Growth;

/// What was done in an interval.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How long it was.
    pub interval_s: f64,
    /// The subsystem; `None` for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// All commands together.
    pub total: Total,
    /// Commands by type, those of I/O queues first.
    pub commands: Vec<Command>,
    /// Connections now, by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub connections: BTreeMap<String, f64>,
    /// Figures of the moment: hosts, clients, memory, health.
    pub now: BTreeMap<&'static str, f64>,
    /// The device's link, by class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkClass>,
    /// The flash, by cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flash: Vec<FlashCause>,
    /// What commands waited for, by cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<StallCause>,
    /// Current critical warnings.
    pub warnings: Vec<String>,
}

/// All commands of I/O queues.
#[derive(Clone, Debug, Serialize)]
pub struct Total {
    pub per_s: f64,
    pub bytes_in_per_s: f64,
    pub bytes_out_per_s: f64,
    pub errors_per_s: f64,
    /// Commands in the device at a time, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_a_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_in_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_out_per_s: Option<f64>,
}

/// Commands of one type.
#[derive(Clone, Debug, Serialize)]
pub struct Command {
    pub queue: String,
    pub command: String,
    pub total: f64,
    pub per_s: f64,
    pub bytes_per_s: f64,
    pub errors_per_s: f64,
    pub p50_s: Option<f64>,
    pub p99_s: Option<f64>,
    pub p999_s: Option<f64>,
}

/// One class of transactions.
#[derive(Clone, Debug, Serialize)]
pub struct LinkClass {
    pub class: String,
    pub total: f64,
    pub per_s: f64,
    pub payload_bytes_per_s: f64,
    pub wire_bytes_per_s: f64,
}

/// One cause of flash operations.
#[derive(Clone, Debug, Serialize)]
pub struct FlashCause {
    pub cause: String,
    pub programmed: f64,
    pub reads_per_s: f64,
    pub programs_per_s: f64,
    pub erases_per_s: f64,
    pub program_bytes_per_s: f64,
}

/// One cause of waits.
#[derive(Clone, Debug, Serialize)]
pub struct StallCause {
    /// `device`, or the namespace or queue whose commands waited.
    pub of: String,
    pub cause: String,
    pub total: f64,
    pub per_s: f64,
    /// Seconds waited in a second, of all commands together.
    pub share: f64,
    pub longest_s: f64,
}

/// Gauges, each with its name in the report.
const NOW: [(&str, &str, OfAll); 11] = [
    ("byway_hosts", "hosts", OfAll::Sum),
    ("byway_io_queues", "io_queues", OfAll::Sum),
    ("byway_vfio_user_clients", "vfio_user_clients", OfAll::Sum),
    ("byway_commands_waiting", "waiting", OfAll::Sum),
    ("byway_flash_write_amplification", "write_amplification", OfAll::Most),
    ("byway_flash_media_errors_total", "media_errors", OfAll::Sum),
    ("byway_health_available_spare_ratio", "available_spare_ratio", OfAll::Least),
    ("byway_health_used_ratio", "used_ratio", OfAll::Most),
    ("byway_health_temperature_celsius", "temperature_celsius", OfAll::Most),
    ("byway_health_unsafe_shutdowns_total", "unsafe_shutdowns", OfAll::Sum),
    ("process_resident_memory_bytes", "resident_bytes", OfAll::Sum),
];

/// What is shown of figures of one name where there are several, of several subsystems: all together, or the worst.
#[derive(Clone, Copy)]
enum OfAll {
    Sum,
    Most,
    Least,
}

impl OfAll {
    fn value(self, of: &[Figure]) -> Option<f64> {
        let values = of.iter().map(|figure| figure.value).filter(|value| value.is_finite());
        values.reduce(match self {
            Self::Sum => |one, other| one + other,
            Self::Most => f64::max,
            Self::Least => f64::min,
        })
    }
}

/// Two looks, and what grew between them.
struct Between<'a> {
    old: &'a Figures,
    new: &'a Figures,
    interval_s: f64,
}

impl Report {
    /// Between two readings, of which the older comes first.
    pub fn between(old: &Reading, new: &Reading) -> Self {
        let interval_s = new.at.duration_since(old.at).as_secs_f64().max(1e-3);
        let between = Between { old: &old.figures, new: &new.figures, interval_s };
        let figures = &new.figures;
        let subsystems: Vec<&str> =
            figures.of("byway_info").iter().map(|info| info.label("subsystem")).collect();
        let subsystem = (!subsystems.is_empty()).then(|| subsystems.join(", "));
        let now = NOW.iter().filter_map(|(name, short, all)| Some((*short, all.value(figures.of(name))?)));
        let connections = figures.of("byway_connections").iter();
        let stands = |figure: &&Figure| figure.value > 0.0;
        let warnings = figures.of("byway_health_critical_warning").iter().filter(stands);
        Self {
            interval_s,
            subsystem,
            total: between.total(),
            commands: between.commands(),
            connections: connections.map(|one| (one.label("state").to_owned(), one.value)).collect(),
            now: now.collect(),
            link: between.link(),
            flash: between.flash(),
            stalls: between.stalls(),
            warnings: warnings.map(|one| one.label("warning").to_owned()).collect(),
        }
    }
}

impl Between<'_> {
    /// What grew in a second, of those figures of a name that are wanted. A server that was started anew began at 0.
    fn rate(&self, name: &str, wanted: impl Fn(&Figure) -> bool) -> Option<f64> {
        let new = self.new.sum_where(name, &wanted)?;
        let old = self.old.sum_where(name, &wanted).unwrap_or(0.0);
        Some(if new >= old { new - old } else { new } / self.interval_s)
    }

    /// Values of a label, whatever grew or not.
    fn values(&self, name: &str, label: &str) -> BTreeSet<String> {
        self.new.of(name).iter().map(|figure| figure.label(label).to_owned()).collect()
    }

    fn total(&self) -> Total {
        let rate = |name: &str, label: &str, value: &str| {
            self.rate(name, |one| one.label("queue") == "io" && one.label(label) == value).unwrap_or(0.0)
        };
        let all = |name: &str| self.rate(name, |one| one.label("queue") == "io");
        let per_s = all("byway_commands_total").unwrap_or(0.0);
        Total {
            per_s,
            bytes_in_per_s: rate("byway_command_bytes_total", "direction", "in"),
            bytes_out_per_s: rate("byway_command_bytes_total", "direction", "out"),
            errors_per_s: per_s - rate("byway_commands_total", "status", "success"),
            at_a_time: all("byway_command_duration_seconds_sum"),
            network_in_per_s: self.rate("byway_network_receive_bytes_total", |_| true),
            network_out_per_s: self.rate("byway_network_transmit_bytes_total", |_| true),
        }
    }

    fn commands(&self) -> Vec<Command> {
        let figures = self.new.of("byway_commands_total").iter();
        let types: BTreeSet<(bool, String, String)> = figures
            .map(|one| {
                let queue = one.label("queue").to_owned();
                (queue != "io", queue, one.label("command").to_owned())
            })
            .collect();
        types.into_iter().map(|(_, queue, command)| self.command(queue, command)).collect()
    }

    fn command(&self, queue: String, command: String) -> Command {
        let mine = |one: &Figure| one.label("queue") == queue && one.label("command") == command;
        let rate = |name: &str| self.rate(name, mine).unwrap_or(0.0);
        let failed = |one: &Figure| mine(one) && one.label("status") != "success";
        let took = self.growth("byway_command_duration_seconds_bucket", &mine);
        Command {
            total: self.new.sum_where("byway_commands_total", mine).unwrap_or(0.0),
            per_s: rate("byway_commands_total"),
            bytes_per_s: rate("byway_command_bytes_total"),
            errors_per_s: self.rate("byway_commands_total", failed).unwrap_or(0.0),
            p50_s: took.quantile(0.5),
            p99_s: took.quantile(0.99),
            p999_s: took.quantile(0.999),
            queue,
            command,
        }
    }

    fn growth(&self, name: &str, wanted: &impl Fn(&Figure) -> bool) -> Growth {
        let mut growth = Growth::default();
        for bucket in self.new.of(name).iter().filter(|one| wanted(one)) {
            let bound = bucket.label("le");
            let old = self.old.sum_where(name, |one| wanted(one) && one.label("le") == bound).unwrap_or(0.0);
            let grown = if bucket.value >= old { bucket.value - old } else { bucket.value };
            growth.add(bound.parse().unwrap_or(f64::INFINITY), grown);
        }
        growth
    }

    fn link(&self) -> Vec<LinkClass> {
        let name = "byway_link_transactions_total";
        let class = |class: String| {
            let mine = |one: &Figure| one.label("class") == class;
            LinkClass {
                total: self.new.sum_where(name, mine).unwrap_or(0.0),
                per_s: self.rate(name, mine).unwrap_or(0.0),
                payload_bytes_per_s: self.rate("byway_link_payload_bytes_total", mine).unwrap_or(0.0),
                wire_bytes_per_s: self.rate("byway_link_wire_bytes_total", mine).unwrap_or(0.0),
                class,
            }
        };
        self.values(name, "class").into_iter().map(class).filter(|class| class.total > 0.0).collect()
    }

    fn flash(&self) -> Vec<FlashCause> {
        let name = "byway_flash_programs_total";
        let cause = |cause: String| {
            let mine = |one: &Figure| one.label("cause") == cause;
            let rate = |name: &str| self.rate(name, mine).unwrap_or(0.0);
            FlashCause {
                programmed: self.new.sum_where(name, mine).unwrap_or(0.0),
                reads_per_s: rate("byway_flash_reads_total"),
                programs_per_s: rate(name),
                erases_per_s: rate("byway_flash_erases_total"),
                program_bytes_per_s: rate("byway_flash_program_bytes_total"),
                cause,
            }
        };
        let is_used = |one: &FlashCause| one.programmed > 0.0 || one.reads_per_s > 0.0;
        self.values(name, "cause").into_iter().map(cause).filter(is_used).collect()
    }

    /// Causes that any command waited for.
    fn stalls(&self) -> Vec<StallCause> {
        let figures = self.new.of("byway_stalls_total").iter().filter(|figure| figure.value > 0.0);
        let causes: BTreeSet<[String; 3]> =
            figures.map(|one| ["scope", "id", "cause"].map(|label| one.label(label).to_owned())).collect();
        causes.into_iter().map(|cause| self.stall(cause)).collect()
    }

    fn stall(&self, [scope, id, cause]: [String; 3]) -> StallCause {
        let mine = |one: &Figure| {
            one.label("scope") == scope && one.label("id") == id && one.label("cause") == cause
        };
        let rate = |name: &str| self.rate(name, mine).unwrap_or(0.0);
        let longest = self
            .new
            .of("byway_stall_longest_seconds")
            .iter()
            .filter(|figure| mine(figure))
            .map(|one| one.value);
        StallCause {
            total: self.new.sum_where("byway_stalls_total", mine).unwrap_or(0.0),
            per_s: rate("byway_stalls_total"),
            share: rate("byway_stall_seconds_total"),
            longest_s: longest.fold(0.0, f64::max),
            of: if id.is_empty() { scope.clone() } else { format!("{scope} {id}") },
            cause,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn reading(text: &str, at: Instant) -> Reading {
        Reading { figures: Figures::parse(text).unwrap(), at }
    }

    #[test]
    fn rates_and_quantiles_cover_the_interval_between_two_samples() {
        let text = |reads: u32, quick: u32, all: u32| {
            format!(
                "byway_commands_total{{queue=\"io\",command=\"read\",nsid=\"1\",status=\"success\"}} {reads}\n\
                 byway_commands_total{{queue=\"io\",command=\"read\",nsid=\"1\",status=\"media\"}} 4\n\
                 byway_command_bytes_total{{queue=\"io\",command=\"read\",nsid=\"1\",direction=\"out\"}} {}\n\
                 byway_command_duration_seconds_bucket{{queue=\"io\",command=\"read\",le=\"0.001\"}} {quick}\n\
                 byway_command_duration_seconds_bucket{{queue=\"io\",command=\"read\",le=\"+Inf\"}} {all}\n",
                reads * 512
            )
        };
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(2));
        let report =
            Report::between(&reading(&text(100, 50, 104), start), &reading(&text(300, 250, 304), later));
        let read = &report.commands[0];
        assert_eq!((read.command.as_str(), read.total), ("read", 304.0));
        assert!((read.per_s - 100.0).abs() < 1.0 && (read.bytes_per_s - 51_200.0).abs() < 500.0);
        assert_eq!((read.p50_s, read.errors_per_s), (Some(0.0005), 0.0));
        let again =
            Report::between(&reading(&text(300, 250, 304), start), &reading(&text(10, 10, 10), later));
        assert!((again.commands[0].per_s - 7.0).abs() < 0.5, "a server that began anew");
    }
}
