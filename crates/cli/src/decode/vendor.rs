//! What Byway devices say in vendor fields: their transfer methods and limits, their ledger and counters.

use byway::spec::vendor::{
    Counter, ErrorText, LedgerLog, LedgerRow, StallLog, StallRow, StallScope, VendorArea, name_text,
};
use zerocopy::FromBytes;

use super::Fields;

const METHODS: &[&str] = &[
    "piggyback",
    "piggyback-pt",
    "prp+tail",
    "inline",
    "cxl",
    "cxl+piggyback",
    "bulk store",
    "byte stores",
    "scan",
    "retrieve many",
    "store many",
    "delete range",
    "inline read",
];

/// The vendor area of Identify Controller.
pub fn area(fields: Fields, area: &VendorArea) -> Fields {
    fields
        .number("byway_version", area.version, "version of the vendor area")
        .bits("byway_methods", area.methods.into_bits(), METHODS, "transfer methods of its own")
        .bytes("byway_inline_max_bytes", area.inline_max_bytes, "longest inline payload")
        .bytes("byway_piggyback_max_bytes", area.piggyback_max_bytes, "longest piggybacked payload")
        .bytes(
            "byway_inline_read_max_bytes",
            area.inline_read_max_bytes,
            "longest result behind its completion",
        )
        .number("byway_pt_payloads_max", area.pt_payloads_max, "unfinished pass-through payloads")
        .number("byway_pt_expiry_ms", area.pt_expiry_ms, "their time, in ms")
        .bytes("byway_value_max_bytes", area.value_max_bytes, "longest value")
        .bytes("byway_bulk_max_bytes", area.bulk_max_bytes, "longest bulk store")
        .bytes("byway_device_memory_bytes", area.device_memory_bytes, "device memory")
        .bytes("byway_cxl_window_bytes", area.cxl_window_bytes, "window of a queue")
        .number("byway_cxl_windows", area.cxl_windows, "queues that have a window")
        .bytes("byway_byte_region_bytes", area.byte_region_bytes, "region for byte stores")
}

/// The ledger and the counters: a line each.
pub fn ledger(page: &[u8]) -> Option<Vec<Fields>> {
    let (head, rest) = LedgerLog::read_from_prefix(page).ok()?;
    let row_bytes = (head.rows as usize).checked_mul(size_of::<LedgerRow>())?;
    let counter_bytes = (head.counters as usize).checked_mul(size_of::<Counter>())?;
    let rows = super::read_each::<LedgerRow>(rest.get(..row_bytes)?);
    let counters = super::read_each::<Counter>(rest.get(row_bytes..)?.get(..counter_bytes)?);
    let none = |fields: Fields, name: &'static str| fields.with(name, serde_json::Value::Null, "-", "");
    let row = |row: LedgerRow| {
        Fields::default()
            .text("name", name_text(&row.class).as_bytes(), "")
            .number("count", row.count, "")
            .number("payload_bytes", row.payload_bytes, "")
            .number("down_bytes", row.down_bytes, "")
            .number("up_bytes", row.up_bytes, "")
    };
    let counter = |counter: Counter| {
        let named = Fields::default().text("name", name_text(&counter.name).as_bytes(), "");
        ["payload_bytes", "down_bytes", "up_bytes"]
            .into_iter()
            .fold(named.number("count", counter.value, ""), none)
    };
    Some(rows.map(row).chain(counters.map(counter)).collect())
}

/// Bytes of the ledger's page by its header, bounded: a device may send any length.
pub fn ledger_bytes(head: &[u8]) -> usize {
    const MOST_ENTRIES: u32 = 4096;
    let Ok((head, _)) = LedgerLog::read_from_prefix(head) else { return size_of::<LedgerLog>() };
    let rows = head.rows.min(MOST_ENTRIES) as usize * size_of::<LedgerRow>();
    size_of::<LedgerLog>() + rows + head.counters.min(MOST_ENTRIES) as usize * size_of::<Counter>()
}

/// The rows of the page of stalls.
pub fn stall_rows(page: &[u8]) -> Option<impl Iterator<Item = StallRow>> {
    let (head, rest) = StallLog::read_from_prefix(page).ok()?;
    let bytes = (head.rows as usize).checked_mul(size_of::<StallRow>())?;
    Some(super::read_each::<StallRow>(rest.get(..bytes)?))
}

/// What commands waited for: a line for each cause of the device, of each namespace and of each queue.
pub fn stalls(page: &[u8]) -> Option<Vec<Fields>> {
    let row = |row: StallRow| {
        let scope = StallScope(row.scope).name().unwrap_or("unknown");
        Fields::default()
            .text("scope", scope.as_bytes(), "")
            .number("controller", row.cntlid, "")
            .number("id", row.id, "")
            .text("cause", name_text(&row.cause).as_bytes(), "")
            .number("count", row.count, "")
            .number("total_ns", row.total_ns, "")
            .number("longest_ns", row.longest_ns, "")
    };
    Some(stall_rows(page)?.map(row).collect())
}

/// Bytes of the page of stalls by its header, bounded: a device may send any length.
pub fn stall_bytes(head: &[u8]) -> usize {
    const MOST_ROWS: u32 = 65_536;
    let rows = StallLog::read_from_prefix(head).map_or(0, |(head, _)| head.rows.min(MOST_ROWS));
    size_of::<StallLog>() + rows as usize * size_of::<StallRow>()
}

/// Errors in words, newest first.
pub fn error_texts(page: &[u8]) -> Vec<Fields> {
    let entries = super::read_each::<ErrorText>(page).filter(|entry| entry.error_count != 0);
    let text = |entry: ErrorText| {
        Fields::default().number("error_count", entry.error_count, "").text(
            "text",
            entry.words().unwrap_or_default().as_bytes(),
            "",
        )
    };
    entries.map(text).collect()
}
