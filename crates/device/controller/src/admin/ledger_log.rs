//! The vendor log (C0h): the device's ledger, the flash's counters by cause, and what packing cost.
//!
//! Counters are named, so that new ones need no new version.

use byway_flash::Cause;
use byway_kv::PackingCounters;
use byway_link::Ledger;
use byway_spec::vendor::{Counter, LedgerLog, LedgerRow, MAGIC, VERSION, name_field};
use zerocopy::IntoBytes;

use crate::namespace::Namespace;
use crate::subsystem::Subsystem;

/// The log page.
pub(super) fn page(ledger: &Ledger, subsystem: &Subsystem) -> Vec<u8> {
    let rows: Vec<LedgerRow> = ledger.rows().map(|(class, row)| ledger_row(class.name(), row)).collect();
    let counters = counters(subsystem);
    let head = LedgerLog {
        magic: MAGIC,
        version: VERSION,
        rows: rows.len() as u32,
        counters: counters.len() as u32,
        reserved: 0,
    };
    [head.as_bytes(), rows.as_bytes(), counters.as_bytes()].concat()
}

fn ledger_row(class: &str, row: byway_link::Row) -> LedgerRow {
    LedgerRow {
        class: name_field(class),
        count: row.count,
        payload_bytes: row.cost.payload_bytes,
        down_bytes: row.cost.down_bytes,
        up_bytes: row.cost.up_bytes,
    }
}

/// The counters of the flash, of payloads and of packing.
pub(super) fn counters(subsystem: &Subsystem) -> Vec<Counter> {
    let flash = subsystem.flash().counters();
    let mut counters = vec![
        counter("accepted_bytes", flash.accepted_bytes),
        counter("media_errors", flash.media_errors),
        counter("host_reads", flash.host.reads),
        counter("host_writes", flash.host.writes),
    ];
    let payloads = subsystem.io().payloads();
    counters.extend(payloads.map(|(name, commands)| counter(&format!("payload.{name}"), commands)));
    let packing = packing(subsystem);
    counters.extend([
        counter("packing.copied_bytes", packing.copied_bytes),
        counter("packing.placed_bytes", packing.placed_bytes),
        counter("packing.wasted_bytes", packing.wasted_bytes),
        counter("packing.filled_bytes", packing.backfilled_bytes),
    ]);
    for (cause, one) in flash.rows() {
        let name = short_name(cause);
        counters.extend([
            counter(&format!("read.{name}"), one.reads),
            counter(&format!("read_bytes.{name}"), one.read_bytes),
            counter(&format!("program.{name}"), one.programs),
            counter(&format!("program_bytes.{name}"), one.program_bytes),
            counter(&format!("erase.{name}"), one.erases),
        ]);
    }
    counters
}

/// Packing counters of all key-value namespaces, since they were opened.
fn packing(subsystem: &Subsystem) -> PackingCounters {
    let mut sum = PackingCounters::default();
    for (_, namespace) in subsystem.namespaces() {
        if let Namespace::Kv(kv) = namespace {
            let one = kv.stats().packing;
            sum.copied_bytes += one.copied_bytes;
            sum.placed_bytes += one.placed_bytes;
            sum.wasted_bytes += one.wasted_bytes;
            sum.backfilled_bytes += one.backfilled_bytes;
        }
    }
    sum
}

fn counter(name: &str, value: u64) -> Counter {
    Counter { name: name_field(name), value }
}

/// A cause in the ten letters that a counter's name leaves it.
fn short_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Host => "host",
        Cause::Packing => "packing",
        Cause::LogCompaction => "compaction",
        Cause::Gc => "gc",
        Cause::WearLevelling => "wear",
        Cause::Index => "index",
        Cause::Metadata => "metadata",
        Cause::Refresh => "refresh",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::IoCounters;

    #[test]
    fn every_counter_name_fits_its_field_whole() {
        for cause in Cause::ALL {
            assert!("program_bytes.".len() + short_name(cause).len() <= 24);
        }
        for (name, _) in IoCounters::default().payloads() {
            assert!("payload.".len() + name.len() <= 24);
        }
    }
}
