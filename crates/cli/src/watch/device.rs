//! Figures of a device from its logs, under the names of a server's metrics.

use anyhow::{Context, Result};
use byway::spec::base::log::{LogPage, SmartLog};
use byway::spec::vendor::{Counter, LedgerLog, LedgerRow, MAGIC, StallLog, StallScope, name_text};
use byway::{AdminCommand, Backend, Device};
use zerocopy::FromBytes;

use super::figures::Figures;
use crate::decode;

/// Critical warnings, in the order of their bits.
const WARNINGS: [&str; 6] =
    ["spare", "temperature", "reliability", "read_only", "volatile_memory_backup", "persistent_memory"];

const NS_PER_S: f64 = 1e9;

/// Data units of the health log.
const DATA_UNIT_BYTES: f64 = 512_000.0;

/// What the flash does, as the vendor log and as a server's figures name it.
const FLASH: [(&str, &str); 5] = [
    ("read.", "byway_flash_reads_total"),
    ("read_bytes.", "byway_flash_read_bytes_total"),
    ("program.", "byway_flash_programs_total"),
    ("program_bytes.", "byway_flash_program_bytes_total"),
    ("erase.", "byway_flash_erases_total"),
];

/// The figures in the logs of `device`.
///
/// # Errors
/// A device without a health log.
pub fn read(device: &Device) -> Result<Figures> {
    let mut figures = Figures::default();
    let health = log(device, LogPage::SMART, size_of::<SmartLog>())?;
    let (smart, _) = SmartLog::read_from_prefix(&health).ok().context("the health log is too short")?;
    add_health(&mut figures, &smart);
    if let Some(page) = ledger_of(device) {
        add_ledger(&mut figures, &page);
    }
    if let Some(page) = stalls_of(device) {
        add_stalls(&mut figures, &page);
    }
    Ok(figures)
}

/// What commands of `device` waited for, by cause; nothing of a device that keeps no such log.
pub fn stalls(device: &Device) -> Figures {
    let mut figures = Figures::default();
    if let Some(page) = stalls_of(device) {
        add_stalls(&mut figures, &page);
    }
    figures
}

fn log(device: &Device, log: LogPage, len: usize) -> Result<Vec<u8>> {
    let into = device.buffer(len)?;
    let command =
        AdminCommand::GetLog { log: log.0, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
    let answered = device.admin(command)?;
    Ok(answered.buffer.context("the device gave no page back")?.as_slice().to_vec())
}

/// The vendor log of a Byway device. Another vendor's log of this number may do anything when it is read.
fn ledger_of(device: &Device) -> Option<Vec<u8>> {
    device.identity().byway.then_some(())?;
    let head = log(device, LogPage::LEDGER, size_of::<LedgerLog>()).ok()?;
    let (parsed, _) = LedgerLog::read_from_prefix(&head).ok()?;
    (parsed.magic == MAGIC).then_some(())?;
    log(device, LogPage::LEDGER, decode::ledger_bytes(&head)).ok()
}

/// The log of stalls of a Byway device.
fn stalls_of(device: &Device) -> Option<Vec<u8>> {
    device.identity().byway.then_some(())?;
    let head = log(device, LogPage::STALLS, size_of::<StallLog>()).ok()?;
    let (parsed, _) = StallLog::read_from_prefix(&head).ok()?;
    (parsed.magic == MAGIC).then_some(())?;
    log(device, LogPage::STALLS, decode::stall_bytes(&head)).ok()
}

fn add_stalls(figures: &mut Figures, page: &[u8]) {
    let Some(rows) = decode::stall_rows(page) else { return };
    for row in rows.filter(|row| !matches!(name_text(&row.cause), "command" | "quantum")) {
        let id = match StallScope(row.scope) {
            StallScope::DEVICE | StallScope::UPKEEP => String::new(),
            StallScope::QUEUE => format!("{}/{}", row.cntlid, row.id),
            _ => row.id.to_string(),
        };
        let scope = StallScope(row.scope).name().unwrap_or("unknown");
        let labels = [("scope", scope), ("id", id.as_str()), ("cause", name_text(&row.cause))];
        figures.add("byway_stalls_total", &labels, row.count as f64);
        figures.add("byway_stall_seconds_total", &labels, row.total_ns as f64 / NS_PER_S);
        figures.add("byway_stall_longest_seconds", &labels, row.longest_ns as f64 / NS_PER_S);
    }
}

fn add_health(figures: &mut Figures, smart: &SmartLog) {
    for (bit, warning) in WARNINGS.iter().enumerate() {
        let stands = smart.critical_warning >> bit & 1;
        figures.add("byway_health_critical_warning", &[("warning", warning)], stands.into());
    }
    let mut add = |name: &str, value: f64| figures.add(name, &[], value);
    add("byway_health_temperature_celsius", f64::from(smart.temperature_k.get()) - 273.0);
    add("byway_health_available_spare_ratio", f64::from(smart.spare_percent) / 100.0);
    add("byway_health_used_ratio", f64::from(smart.used_percent) / 100.0);
    add("byway_health_unsafe_shutdowns_total", smart.unsafe_shutdowns.get() as f64);
    add("byway_health_power_cycles_total", smart.power_cycles.get() as f64);
    add("byway_flash_media_errors_total", smart.media_errors.get() as f64);
    let commands = [
        ("read", "out", smart.host_reads.get(), smart.data_units_read.get()),
        ("write", "in", smart.host_writes.get(), smart.data_units_written.get()),
    ];
    for (command, direction, count, units) in commands {
        let labels = [("queue", "io"), ("command", command), ("status", "success")];
        figures.add("byway_commands_total", &labels, count as f64);
        let labels = [("queue", "io"), ("command", command), ("direction", direction)];
        figures.add("byway_command_bytes_total", &labels, units as f64 * DATA_UNIT_BYTES);
    }
}

fn add_ledger(figures: &mut Figures, page: &[u8]) {
    let Ok((head, rest)) = LedgerLog::read_from_prefix(page) else { return };
    let (rows, counters) = rest.split_at((head.rows as usize * size_of::<LedgerRow>()).min(rest.len()));
    for row in
        rows.chunks_exact(size_of::<LedgerRow>()).filter_map(|row| LedgerRow::read_from_bytes(row).ok())
    {
        let class = ("class", name_text(&row.class));
        figures.add("byway_link_transactions_total", &[class], row.count as f64);
        figures.add("byway_link_payload_bytes_total", &[class], row.payload_bytes as f64);
        let wire = "byway_link_wire_bytes_total";
        figures.add(wire, &[class, ("direction", "down")], row.down_bytes as f64);
        figures.add(wire, &[class, ("direction", "up")], row.up_bytes as f64);
    }
    let mut programmed = 0.0;
    let mut accepted = 0.0;
    for counter in
        counters.chunks_exact(size_of::<Counter>()).filter_map(|one| Counter::read_from_bytes(one).ok())
    {
        let (name, value) = (name_text(&counter.name), counter.value as f64);
        if name == "accepted_bytes" {
            accepted = value;
        }
        for (prefix, figure) in FLASH {
            if let Some(cause) = name.strip_prefix(prefix) {
                figures.add(figure, &[("cause", cause)], value);
                programmed += if prefix == "program_bytes." { value } else { 0.0 };
            }
        }
    }
    figures.add("byway_flash_write_amplification", &[], programmed / accepted);
}
