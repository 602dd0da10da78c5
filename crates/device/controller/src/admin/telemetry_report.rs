//! The state of a controller and its device as one JSON text, for who debugs it: the data of telemetry.
//!
//! Nothing is counted for it: it has what the vendor logs, SMART, the error log and the metrics have. It has no keys, values, blocks,
//! addresses or names of hosts.

use std::borrow::Cow;

use byway_flash::FlashHealth;
use byway_link::Ledger;
use byway_spec::Status;
use byway_spec::base::identify::Csi;
use byway_spec::vendor::{Counter, StallRow, StallScope, name_text};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::context::Context;
use super::error_log::{ErrorLog, Noted};
use super::{ledger_log, stall_log};
use crate::counting::{CommandSnapshot, CommandType};
use crate::limits::FIRMWARE;
use crate::subsystem::{Health, NamespaceSpace, Subsystem};

/// Most bytes of a report. A host reads it by blocks of 512 bytes, whose number is a 16-bit field.
const REPORT_MAX_BYTES: usize = 1 << 20;

/// Sections that grow with what the device has, in the order in which a report that is too long leaves them out.
const SECTIONS: [&str; 5] = ["errors", "stalls", "commands", "counters", "namespaces"];

/// The report. Names with a unit have it at their end.
#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    model: &'a str,
    serial: &'a str,
    profile: &'static str,
    controller: u16,
    /// Where commands come from: `rings` in host memory, or `capsules` over a fabric.
    commands_in: &'static str,
    io_queues: usize,
    /// Modelled time; 0 with the clock off.
    modelled_ns: u64,
    read_only: bool,
    sanitizing: bool,
    health: Health,
    media: Media,
    /// Transactions on the link by class, where they are counted.
    ledger: &'a Ledger,
    #[serde(serialize_with = "by_name")]
    counters: Vec<Counter>,
    stalls: Vec<StallEntry>,
    /// Commands by type and by status, where they are counted: by a server with metrics.
    commands: Option<Commands>,
    namespaces: Vec<NamespaceEntry>,
    /// The error log, newest first.
    errors: Vec<ErrorRow>,
}

/// Blocks of the flash.
#[derive(Serialize)]
struct Media {
    spare_blocks: u32,
    spare_blocks_left: u32,
    factory_bad_blocks: u32,
    grown_bad_blocks: u32,
    retired_blocks: u32,
    free_blocks: u32,
    erases_min: u32,
    erases_mean: f64,
    erases_max: u32,
    corrected_reads: u64,
    worn_out: bool,
}

/// Waits of commands for one cause.
#[derive(Serialize)]
struct StallEntry {
    scope: &'static str,
    id: u32,
    cause: String,
    count: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// Commands since counting began.
#[derive(Serialize)]
struct Commands {
    types: Vec<TypeEntry>,
    statuses: Vec<StatusEntry>,
    in_engines: usize,
    awaiting_sync: usize,
}

/// Commands of one type.
#[derive(Serialize)]
struct TypeEntry {
    queue: &'static str,
    nsid: Option<u32>,
    name: Option<&'static str>,
    succeeded: u64,
    failed: u64,
    bytes: u64,
}

/// Commands that failed with one status.
#[derive(Serialize)]
struct StatusEntry {
    status: String,
    count: u64,
}

/// A namespace, without what is in it.
#[derive(Serialize)]
struct NamespaceEntry {
    nsid: u32,
    command_set: &'static str,
    capacity_bytes: u64,
    used_bytes: Option<u64>,
    pairs: Option<u64>,
}

/// An entry of the error log.
#[derive(Serialize)]
struct ErrorRow {
    error_count: u64,
    sqid: u16,
    cid: u16,
    status: String,
    text: &'static str,
}

/// The report, as JSON.
pub(super) fn report(cx: &Context<'_, '_>, errors: &ErrorLog, now_ps: u64) -> Vec<u8> {
    let subsystem = &*cx.subsystem;
    let identity = subsystem.identity();
    let stalls = stall_log::rows(&subsystem.stall_snapshot());
    let report = Report {
        version: FIRMWARE,
        model: &identity.model,
        serial: &identity.serial,
        profile: subsystem.profile().name,
        controller: cx.id.0,
        commands_in: if cx.is_fabric { "capsules" } else { "rings" },
        io_queues: cx.queues.io_queues(),
        modelled_ns: now_ps / 1000,
        read_only: subsystem.flash().is_read_only(),
        sanitizing: subsystem.is_sanitizing(),
        health: subsystem.health(),
        media: Media::of(&subsystem.flash().health()),
        ledger: cx.port.meter.ledger(),
        counters: ledger_log::counters(subsystem),
        stalls: stalls.iter().filter(|row| is_mine(row, cx.id.0)).map(StallEntry::of).collect(),
        commands: commands(subsystem),
        namespaces: subsystem.space_snapshot().iter().map(NamespaceEntry::of).collect(),
        errors: errors.entries().map(ErrorRow::of).collect(),
    };
    bounded(&report, REPORT_MAX_BYTES)
}

/// A report of at most `max_bytes`: one that is longer goes without whole sections, and `left_out` names them.
fn bounded(report: &impl Serialize, max_bytes: usize) -> Vec<u8> {
    // Numbers and text cannot fail to be written.
    let whole = serde_json::to_vec(report).unwrap_or_default();
    if whole.len() <= max_bytes {
        return whole;
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(&whole).unwrap_or_default();
    for (index, section) in SECTIONS.into_iter().enumerate() {
        fields.remove(section);
        fields.insert("left_out".to_owned(), SECTIONS.iter().take(index + 1).copied().collect());
        let text = serde_json::to_vec(&fields).unwrap_or_default();
        if text.len() <= max_bytes {
            return text;
        }
    }
    br#"{"left_out":["everything"]}"#.to_vec()
}

/// A map of counters by their names.
fn by_name<S: Serializer>(counters: &[Counter], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.iter().map(|counter| (name_text(&counter.name), counter.value)))
}

/// Whether a row is of the device, a namespace or a queue of controller `cntlid`: other controllers' queues may be thousands.
fn is_mine(row: &StallRow, cntlid: u16) -> bool {
    row.scope != StallScope::QUEUE.0 || row.cntlid == cntlid
}

fn commands(subsystem: &Subsystem) -> Option<Commands> {
    subsystem.counts_commands().then(|| Commands::of(&subsystem.command_snapshot()))
}

impl Media {
    fn of(health: &FlashHealth) -> Self {
        Self {
            spare_blocks: health.spare_blocks,
            spare_blocks_left: health.spare_blocks_left,
            factory_bad_blocks: health.factory_bad_blocks,
            grown_bad_blocks: health.grown_bad_blocks,
            retired_blocks: health.retired_blocks,
            free_blocks: health.free_blocks,
            erases_min: health.wear.min,
            erases_mean: health.wear.mean,
            erases_max: health.wear.max,
            corrected_reads: health.corrected_reads,
            worn_out: health.worn_out,
        }
    }
}

impl StallEntry {
    fn of(row: &StallRow) -> Self {
        Self {
            scope: StallScope(row.scope).name().unwrap_or_default(),
            id: row.id,
            cause: name_text(&row.cause).to_owned(),
            count: row.count,
            total_ns: row.total_ns,
            longest_ns: row.longest_ns,
        }
    }
}

impl Commands {
    fn of(snapshot: &CommandSnapshot) -> Self {
        let status =
            |(status, count): &(Status, u64)| StatusEntry { status: status.to_string(), count: *count };
        Self {
            types: snapshot.types.iter().map(TypeEntry::of).collect(),
            statuses: snapshot.statuses.iter().map(status).collect(),
            in_engines: snapshot.in_engines,
            awaiting_sync: snapshot.awaiting_sync,
        }
    }
}

impl TypeEntry {
    fn of(one: &CommandType) -> Self {
        Self {
            queue: one.queue.name(),
            nsid: one.nsid,
            name: one.name,
            succeeded: one.succeeded,
            failed: one.failed.iter().sum(),
            bytes: one.bytes,
        }
    }
}

impl NamespaceEntry {
    fn of(space: &NamespaceSpace) -> Self {
        let NamespaceSpace { nsid, csi, capacity_bytes, used_bytes, pairs } = *space;
        let command_set = if csi == Csi::KV { "kv" } else { "nvm" };
        Self { nsid, command_set, capacity_bytes, used_bytes, pairs }
    }
}

/// The text of an error; that of a query may quote the query, and is left out.
fn text_of(noted: &Noted) -> &'static str {
    match noted.words {
        Cow::Borrowed(words) => words,
        Cow::Owned(_) => "a query failed",
    }
}

impl ErrorRow {
    fn of(noted: &Noted) -> Self {
        let entry = &noted.entry;
        Self {
            error_count: entry.error_count,
            sqid: entry.sqid,
            cid: entry.cid,
            status: Status(entry.phase_and_status >> 1).code().to_string(),
            text: text_of(noted),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A report with sections of so many bytes.
    fn sections(errors: usize, namespaces: usize) -> Value {
        serde_json::json!({ "version": "1", "errors": "e".repeat(errors), "namespaces": "n".repeat(namespaces) })
    }

    fn shown(report: &Value, max_bytes: usize) -> Value {
        let text = bounded(report, max_bytes);
        assert!(text.len() <= max_bytes, "{}", text.len());
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn report_of_the_bound_is_whole() {
        let report = sections(100, 100);
        let len = serde_json::to_vec(&report).unwrap().len();
        assert_eq!(shown(&report, len), report);
    }

    #[test]
    fn report_over_the_bound_leaves_whole_sections_out_and_names_them() {
        let short = shown(&sections(2000, 100), 1000);
        assert_eq!((short.get("errors"), short["version"].as_str()), (None, Some("1")));
        assert_eq!(short["left_out"], serde_json::json!(["errors"]));
        assert_eq!(short["namespaces"].as_str().unwrap().len(), 100);
    }

    #[test]
    fn report_that_is_too_long_without_sections_says_so() {
        let report = serde_json::json!({ "version": "1".repeat(500), "errors": "e" });
        assert_eq!(shown(&report, 400)["left_out"][0], "everything");
        assert_eq!(shown(&sections(2000, 2000), 1000)["left_out"].as_array().unwrap().len(), SECTIONS.len());
    }
}
