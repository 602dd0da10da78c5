//! `byway info` of a device that is not in this process: what it is, which backend serves it and why, what that can do.

use std::fmt;

use anyhow::Result;
use byway::tcp::{AnaState, PathStatus};
use byway::{Backend, Device, Method, Nsid, NvmCommands};
use byway_console::size;
use byway_console::table::time;
use serde::Serialize;

use super::info::{DescribedLimits, DescribedNamespace, pair_operations};
use super::info_pairs::PairOperations;
use crate::watch::{self, Figure};

/// A device behind a backend.
#[derive(Debug, Serialize)]
pub struct Blocks {
    model: String,
    serial: String,
    namespaces: Vec<DescribedNamespace>,
    backend: &'static str,
    backend_because: String,
    passed_over: Vec<PassedOver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<DescribedPath>>,
    transfer_bytes: u64,
    queue_depth_max: u32,
    memory_align_bytes: u32,
    overlaps: bool,
    event: bool,
    cancel: bool,
    /// Commands on blocks; none where every namespace holds keys and values.
    commands: Vec<&'static str>,
    methods: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pair_operations: Option<PairOperations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    announced: Option<DescribedLimits>,
    /// With `--verbose`: what commands waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stalls: Vec<DescribedStall>,
}

/// Waits of commands for one cause.
#[derive(Debug, Serialize)]
struct DescribedStall {
    of: String,
    cause: String,
    count: f64,
    total_s: f64,
    longest_s: f64,
}

impl DescribedStall {
    /// Waits of the commands of a device since it was opened; none of a device that keeps no such log.
    fn all(device: &Device) -> Vec<Self> {
        let figures = watch::stalls(device);
        let of = |figure: &Figure, name: &str| {
            figures.sum_where(name, |one| one.has_labels_of(figure)).unwrap_or(0.0)
        };
        let described = |figure: &Figure| Self {
            of: format!("{} {}", figure.label("scope"), figure.label("id")).trim_end().to_owned(),
            cause: figure.label("cause").to_owned(),
            count: figure.value,
            total_s: of(figure, "byway_stall_seconds_total"),
            longest_s: of(figure, "byway_stall_longest_seconds"),
        };
        let waits = figures.of("byway_stalls_total").iter().filter(|figure| figure.value > 0.0);
        waits.map(described).collect()
    }
}

impl fmt::Display for DescribedStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, cause, count, total_s, longest_s } = self;
        let [total, longest] = [total_s, longest_s].map(|time_s| time(Some(time_s * 1e9)));
        write!(
            f,
            "stalls of {of}: {} {count:.0} times, {total} in all, longest {longest}",
            cause.replace('_', " ")
        )
    }
}

#[derive(Debug, Serialize)]
struct PassedOver {
    backend: &'static str,
    because: String,
}

/// One way to the device.
#[derive(Debug, Serialize)]
struct DescribedPath {
    portal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    namespaces: Vec<ReachedNamespace>,
}

/// How a namespace is reached.
#[derive(Debug, Serialize)]
struct ReachedNamespace {
    nsid: u32,
    state: String,
}

impl From<PathStatus> for DescribedPath {
    fn from(PathStatus { portal, lost, states }: PathStatus) -> Self {
        let reached =
            |(nsid, state): (Nsid, AnaState)| ReachedNamespace { nsid: nsid.get(), state: state.to_string() };
        Self { portal, lost, namespaces: states.into_iter().map(reached).collect() }
    }
}

impl fmt::Display for DescribedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}: ", self.portal)?;
        if let Some(why) = &self.lost {
            return write!(f, "lost: {why}");
        }
        let states: Vec<String> =
            self.namespaces.iter().map(|one| format!("namespace {} {}", one.nsid, one.state)).collect();
        f.write_str(&if states.is_empty() { "stands".to_owned() } else { states.join(", ") })
    }
}

impl Blocks {
    /// What an open device is, with what it announced where `verbose`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn of(device: &Device, verbose: bool) -> Result<Self> {
        let (identity, can, chosen) = (device.identity(), device.capabilities(), device.chosen());
        let passed_over = chosen
            .passed_over
            .iter()
            .map(|one| PassedOver { backend: one.backend, because: one.why.clone() });
        let namespaces: Vec<_> = device.namespaces()?.into_iter().map(DescribedNamespace::from).collect();
        Ok(Self {
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            pair_operations: pair_operations(can, &namespaces),
            commands: commands(can.nvm, &namespaces),
            namespaces,
            backend: chosen.backend,
            backend_because: chosen.why.clone(),
            passed_over: passed_over.collect(),
            paths: device.paths().map(|paths| paths.into_iter().map(DescribedPath::from).collect()),
            transfer_bytes: can.limits.transfer_bytes,
            queue_depth_max: can.limits.queue_depth,
            memory_align_bytes: can.memory_align_bytes,
            overlaps: can.overlaps,
            event: can.event,
            cancel: can.cancel,
            methods: can.methods.iter().map(Method::name).collect(),
            stalls: if verbose { DescribedStall::all(device) } else { Vec::new() },
            announced: (verbose && can.methods.iter().count() > 1).then(|| DescribedLimits::of(&can.limits)),
        })
    }
}

/// What can be done with blocks. A controller announces optional commands (ONCS) for all its namespaces alike, those of keys and
/// values included, where none of them is meant.
fn commands(can: NvmCommands, of: &[DescribedNamespace]) -> Vec<&'static str> {
    if !of.is_empty() && of.iter().all(|namespace| namespace.kind == "kv") {
        return Vec::new();
    }
    let optional = [
        (can.flush, "flush"),
        (can.write_zeroes, "write zeroes"),
        (can.deallocate, "deallocate"),
        (can.compare, "compare"),
        (can.verify, "verify"),
        (can.copy, "copy"),
    ];
    let optional = optional.into_iter().filter(|(can, _)| *can).map(|(_, name)| name);
    ["read", "write"].into_iter().chain(optional).collect()
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.serial.as_str() {
            "" => writeln!(f, "{}", self.model)?,
            serial => writeln!(f, "{} {serial}", self.model)?,
        }
        for namespace in &self.namespaces {
            namespace.fmt_line(f)?;
        }
        writeln!(f, "backend {}: {}", self.backend, self.backend_because)?;
        for one in &self.passed_over {
            writeln!(f, "  not {}: {}", one.backend, one.because)?;
        }
        for path in self.paths.iter().flatten() {
            writeln!(f, "{path}")?;
        }
        let begins = match self.overlaps {
            true => "commands go on by themselves",
            false => "submitting a command does it",
        };
        let cancelled = if self.cancel { "can be cancelled" } else { "cannot be cancelled" };
        writeln!(f, "{begins}, and {cancelled}; a descriptor signals completions: {}", yes(self.event))?;
        let transfer = match self.transfer_bytes {
            u64::MAX => "any length".to_owned(),
            bytes => size::human(bytes),
        };
        let memory = match self.memory_align_bytes {
            1 => "anywhere".to_owned(),
            bytes => format!("on multiples of {}", size::human(bytes.into())),
        };
        let depth = self.queue_depth_max;
        writeln!(f, "limits: {transfer} a command, its memory {memory}; queues up to {depth} deep")?;
        if !self.commands.is_empty() {
            writeln!(f, "commands on blocks: {}", self.commands.join(", "))?;
        }
        // What has but one is no device that announces any.
        if self.methods.len() > 1 {
            writeln!(f, "transfer methods: {}", self.methods.join(", "))?;
        }
        self.pair_operations.iter().try_for_each(|operations| writeln!(f, "{operations}"))?;
        self.stalls.iter().try_for_each(|stall| writeln!(f, "{stall}"))?;
        self.announced.as_ref().map_or(Ok(()), |limits| limits.fmt_lines(f))
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
