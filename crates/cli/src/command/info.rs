//! `byway info`: what a device is.

use std::fmt;
use std::io::Write;

use anyhow::Result;
use byway::embedded::EmbeddedDevice;
use byway::{Capabilities, Limits, Namespace, NamespaceKind, Profile};
use byway_console::size;
use byway_console::terminal::print_json;
use serde::Serialize;

use super::info_blocks::Blocks;
use super::info_pairs::PairOperations;
use super::inside::Inside;
use crate::args::Info;
use crate::target::Target;

/// What a device is.
#[derive(Debug, Serialize)]
pub struct Described {
    model: String,
    serial: String,
    firmware: String,
    profile: String,
    link: String,
    mps: u32,
    mrrs: u32,
    /// Its namespaces.
    pub namespaces: Vec<DescribedNamespace>,
    methods: Vec<&'static str>,
    /// Where there are namespaces of keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pair_operations: Option<PairOperations>,
    limits: DescribedLimits,
    flash: DescribedFlash,
    acknowledged_means: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<Inside>,
}

/// One namespace.
#[derive(Debug, Serialize)]
pub struct DescribedNamespace {
    pub(super) nsid: u32,
    pub(super) kind: &'static str,
    pub(super) size_bytes: u64,
    pub(super) used_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block_bytes: Option<u32>,
    /// What a namespace of keys and values holds of them.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pairs: Option<DescribedPairs>,
}

/// What a namespace of keys and values holds, and can hold.
#[derive(Debug, Serialize)]
struct DescribedPairs {
    keys: u64,
    /// Entries that may replace others which are counted still.
    unsettled_entries: u64,
    /// Bytes of records and their index entries at which it is full: what `used_bytes` can reach.
    capacity_bytes: u64,
    key_max_bytes: u16,
    value_max_bytes: u32,
}

impl fmt::Display for DescribedNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {} {} {}", self.nsid, self.kind, size::human(self.size_bytes))
    }
}

impl DescribedNamespace {
    pub(super) fn fmt_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = size::human(self.used_bytes);
        match (self.block_bytes, &self.pairs) {
            (Some(bytes), _) => writeln!(f, "{self}, {used} used, blocks of {bytes} bytes"),
            (None, Some(pairs)) => writeln!(f, "{self}, {}{used} of {pairs}", pairs.at_most()),
            (None, None) => writeln!(f, "{self}, {used} used"),
        }
    }
}

/// What a device announced.
#[derive(Debug, Serialize)]
pub(super) struct DescribedLimits {
    transfer_bytes: u64,
    queues: u16,
    ring_entries: u32,
    queue_depth: u32,
    inline_bytes: u32,
    piggyback_bytes: u32,
    piggyback_pt_unfinished: u16,
    bulk_bytes: u32,
    window_bytes: u32,
}

#[derive(Debug, Serialize)]
struct DescribedFlash {
    total_bytes: u64,
    used_bytes: u64,
    page_bytes: u32,
    causes: Vec<DescribedCause>,
}

#[derive(Debug, Serialize)]
struct DescribedCause {
    cause: &'static str,
    reads: u64,
    programs: u64,
    erases: u64,
}

/// Prints what a device is.
///
/// # Errors
/// When it cannot be opened or does not answer.
pub fn run(args: &Info, verbose: bool, out: &mut impl Write) -> Result<()> {
    let target = &args.device.target;
    let device = byway::open_to_read(target.uri())?;
    let Some(embedded) = device.as_embedded() else {
        return print(target, &Blocks::of(&device, verbose)?, args.json, out);
    };
    let mut described = describe_open(embedded)?;
    if verbose {
        described.inside = Some(Inside::of(&embedded.details()));
    }
    drop(device);
    print(target, &described, args.json, out)
}

/// What is said of a device, behind what its name is taken for.
#[derive(Serialize)]
struct Taken<'a, T> {
    uri: &'a str,
    taken_as: &'static str,
    #[serde(flatten)]
    described: &'a T,
}

fn print<T: Serialize + fmt::Display>(
    target: &Target,
    described: &T,
    json: bool,
    out: &mut impl Write,
) -> Result<()> {
    let (uri, taken_as) = (target.uri(), target.kind().unwrap_or_default());
    if json {
        return Ok(print_json(out, &Taken { uri, taken_as, described })?);
    }
    put!(out, "{uri}: {taken_as}\n{described}")?;
    Ok(())
}

/// What the device of a URI is.
///
/// # Errors
/// When it cannot be opened or does not answer.
pub fn describe(uri: &str) -> Result<Described> {
    describe_open(&byway::embedded::open(uri)?)
}

fn describe_open(device: &EmbeddedDevice) -> Result<Described> {
    let (identity, profile) = (device.identity(), device.profile());
    let namespaces = namespaces(device)?;
    Ok(Described {
        model: identity.model.clone(),
        serial: identity.serial.clone(),
        firmware: identity.firmware.clone(),
        profile: profile.name.to_owned(),
        link: profile.link.to_string(),
        mps: profile.link.mps_bytes(),
        mrrs: profile.link.mrrs_bytes(),
        pair_operations: pair_operations(device.capabilities(), &namespaces),
        namespaces,
        methods: device.capabilities().methods.iter().map(byway::Method::name).collect(),
        limits: DescribedLimits::of(&device.capabilities().limits),
        flash: flash(device),
        acknowledged_means: device.flush_mode().meaning(),
        inside: None,
    })
}

/// What serves operations on several pairs, where there is a namespace that holds pairs.
pub(super) fn pair_operations(can: &Capabilities, of: &[DescribedNamespace]) -> Option<PairOperations> {
    of.iter().any(|namespace| namespace.kind == "kv").then(|| can.kv.into())
}

fn namespaces(device: &EmbeddedDevice) -> Result<Vec<DescribedNamespace>> {
    let namespaces = device.namespaces()?.into_iter();
    Ok(namespaces.map(|one| DescribedNamespace { pairs: pairs(device, &one), ..one.into() }).collect())
}

impl From<Namespace> for DescribedNamespace {
    fn from(namespace: Namespace) -> Self {
        Self {
            nsid: namespace.nsid.get(),
            kind: namespace.kind.name(),
            size_bytes: namespace.size_bytes,
            used_bytes: namespace.used_bytes,
            block_bytes: match namespace.kind {
                NamespaceKind::Nvm { lba_bytes, .. } => Some(lba_bytes),
                _ => None,
            },
            pairs: None,
        }
    }
}

fn pairs(device: &EmbeddedDevice, namespace: &Namespace) -> Option<DescribedPairs> {
    let NamespaceKind::Kv { key_max_bytes, value_max_bytes, .. } = namespace.kind else { return None };
    let stats = device.kv_stats(namespace.nsid)?;
    let (keys, capacity_bytes) = (stats.keys, stats.capacity_bytes);
    let unsettled_entries = stats.unsettled_entries;
    Some(DescribedPairs { keys, unsettled_entries, capacity_bytes, key_max_bytes, value_max_bytes })
}

fn flash(device: &EmbeddedDevice) -> DescribedFlash {
    let report = device.flash();
    let causes = report.counters.rows().map(|(cause, row)| DescribedCause {
        cause: cause.name(),
        reads: row.reads,
        programs: row.programs,
        erases: row.erases,
    });
    DescribedFlash {
        total_bytes: report.total_bytes,
        used_bytes: report.used_bytes,
        page_bytes: report.page_bytes,
        causes: causes.collect(),
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, serial {}, firmware {}", self.model, self.serial, self.firmware)?;
        let native = Profile::by_name(&self.profile).is_some_and(|profile| profile.cxl_native);
        let memory = if native { ", CXL device memory" } else { "" };
        writeln!(
            f,
            "profile {}: link {}, MPS {}, MRRS {}{memory}",
            self.profile, self.link, self.mps, self.mrrs
        )?;
        for namespace in &self.namespaces {
            namespace.fmt_line(f)?;
        }
        writeln!(f, "transfer methods: {}", self.methods.join(", "))?;
        self.pair_operations.iter().try_for_each(|operations| writeln!(f, "{operations}"))?;
        self.limits.fmt_lines(f)?;
        self.flash.fmt_lines(f)?;
        if let Some(inside) = &self.inside {
            write!(f, "{inside}")?;
        }
        writeln!(f, "acknowledged means: {}", self.acknowledged_means)
    }
}

impl DescribedPairs {
    /// Prefix of numbers that may be too high.
    fn at_most(&self) -> &'static str {
        if self.unsettled_entries > 0 { "at most " } else { "" }
    }
}

impl fmt::Display for DescribedPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (capacity, longest) =
            (size::human(self.capacity_bytes), size::human(self.value_max_bytes.into()));
        let (keys, key_max_bytes) = (size::counted(self.keys, "key"), self.key_max_bytes);
        let at_most = self.at_most();
        write!(
            f,
            "{capacity} used by {at_most}{keys}; keys of 1 to {key_max_bytes} bytes, values of up to {longest}"
        )
    }
}

impl DescribedLimits {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            transfer_bytes: limits.transfer_bytes,
            queues: limits.queues,
            ring_entries: limits.ring_entries,
            queue_depth: limits.queue_depth,
            inline_bytes: limits.inline_bytes,
            piggyback_bytes: limits.piggyback_bytes,
            piggyback_pt_unfinished: limits.piggyback_pt_unfinished,
            bulk_bytes: limits.bulk_bytes,
            window_bytes: limits.window_bytes,
        }
    }

    pub(super) fn fmt_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "limits: {} a command, inline {}, piggyback {}, window {}; {} queues of {} entries",
            size::human(self.transfer_bytes),
            size::human(self.inline_bytes.into()),
            size::human(self.piggyback_bytes.into()),
            size::human(self.window_bytes.into()),
            self.queues,
            self.ring_entries,
        )
    }
}

impl DescribedFlash {
    fn fmt_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, total) = (size::human(self.used_bytes), size::human(self.total_bytes));
        write!(f, "flash: {used} of {total} used, pages of {}", size::human(self.page_bytes.into()))?;
        for cause in self.causes.iter().filter(|cause| cause.programs + cause.reads + cause.erases > 0) {
            let DescribedCause { cause, reads, programs, erases } = cause;
            write!(f, "; {cause} {programs} programs, {reads} reads, {erases} erases")?;
        }
        writeln!(f)
    }
}
