//! Figures of a device from its logs, under the names of a server's metrics.

use anyhow::{Context, Result};
use byway::spec::base::log::{LogPage, SmartLog};
use byway::spec::vendor::{Counter, LedgerLog, LedgerRow, MAGIC, name_text};
use byway::{AdminCommand, Backend, Device};
use zerocopy::FromBytes;

use super::figures::Figures;
use crate::decode;

/// Critical warnings, in the order of their bits.
const WARNINGS: [&str; 6] =
    ["spare", "temperature", "reliability", "read_only", "volatile_memory_backup", "persistent_memory"];

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
    Ok(figures)
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
