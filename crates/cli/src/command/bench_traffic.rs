//! `byway bench traffic`: what puts cost on the link of a device wherever it is, by the device's own ledger.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use byway::{Backend, Class, Device, Kv, Ledger, Method};
use byway_console::table::{self, Table};
use byway_console::terminal::{Interrupt, Progress, print_json};
use byway_measure::puts::SLOT_BYTES;
use byway_measure::rows::percentiles;
use byway_measure::workload::Values;
use serde::Serialize;

use crate::args::Traffic;
use crate::ledger_page::LedgerPage;

/// Keys that are put, by turns: overwritten, so that a small device is never full.
const KEYS: u64 = 64;

/// What puts of one size by one method cost, as means over them.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TrafficRow {
    /// Backend that reaches the device.
    backend: &'static str,
    method: &'static str,
    size: u32,
    count: u64,
    /// Descriptors of the payloads, as the device counted them.
    descriptors: String,
    /// Without interrupts and doorbells.
    payload_bytes: f64,
    /// With interrupts, without doorbells.
    wire_bytes: f64,
    /// Looks at shadow doorbells, which are in no other sum.
    shadow_wire_bytes: f64,
    commands: f64,
    slots: f64,
    p50_ns: f64,
    p99_ns: f64,
}

/// Runs the bench.
///
/// # Errors
/// A device without keys or without a ledger, a method that it does not have, or an interruption.
pub fn run(args: &Traffic, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    ensure!(args.count > 0, "a bench of 0 puts measures nothing");
    let device = byway::open(&args.device.uri())?;
    let largest = args.sizes.iter().copied().max().unwrap_or(0);
    let values = Values::new(largest, args.seed);
    let rows = args.sizes.len() as u64 * args.methods.len() as u64;
    let progress = Progress::new("traffic", rows * args.count);
    let mut table = Table::new(&HEADINGS);
    for &size in &args.sizes {
        for &method in &args.methods {
            progress.say(&format!("{method} {size} B"));
            let value = |index: u64| values.value(index as usize, size);
            let row = measure(&device, method, size, args.count, value, interrupt)
                .with_context(|| format!("{size} bytes by {method}"))?;
            progress.advance(args.count);
            if args.json {
                print_json(out, &row)?;
            } else {
                table.push(cells(&row));
            }
        }
    }
    drop(progress);
    if !args.json {
        write!(out, "{table}")?;
    }
    Ok(())
}

fn measure<'v>(
    device: &Device,
    method: Method,
    size: u32,
    count: u64,
    value: impl Fn(u64) -> &'v [u8],
    interrupt: &Interrupt,
) -> Result<TrafficRow> {
    let options = device.queue_options().transfer(method);
    let namespace = device.kv_namespace(None)?;
    let mut kv = Kv::new(Backend::queue(device, options)?, &namespace)?;
    // The first put also looks up what later ones have cached.
    kv.put(&key(0), value(0))?;
    // The traffic of reading the log page is subtracted.
    let asked = LedgerPage::ask(device)?;
    let before = LedgerPage::ask(device)?;
    let asking = before.since(&asked);
    let mut times_ns = Vec::with_capacity(count as usize);
    for index in 0..count {
        let begun = Instant::now();
        kv.put(&key(index), value(index))?;
        times_ns.push(begun.elapsed().as_nanos() as f64);
        interrupt.check()?;
    }
    let counted = LedgerPage::ask(device)?.since(&before);
    let ledger = counted.ledger.since(&asking.ledger);
    let puts = count as f64;
    let (payload_bytes, wire_bytes) = crossed(&ledger);
    let (p50_ns, p99_ns) = percentiles(&mut times_ns).unwrap_or_default();
    let commands = ledger.row(Class::CommandFetch).count;
    let chunks = ledger.row(Class::ChunkFetch).cost.payload_bytes / SLOT_BYTES;
    Ok(TrafficRow {
        backend: device.name(),
        method: method.name(),
        size,
        count,
        descriptors: counted.descriptors(),
        payload_bytes: payload_bytes as f64 / puts,
        wire_bytes: wire_bytes as f64 / puts,
        shadow_wire_bytes: ledger.row(Class::Shadow).cost.wire_bytes() as f64 / puts,
        commands: commands as f64 / puts,
        slots: (commands + chunks) as f64 / puts,
        p50_ns,
        p99_ns,
    })
}

/// Payload and wire bytes of the puts themselves. How often a device looks at shadow doorbells follows the time that it has, and
/// not what is put.
fn crossed(ledger: &Ledger) -> (u64, u64) {
    let shadow = ledger.row(Class::Shadow).cost;
    (ledger.payload_bytes() - shadow.payload_bytes, ledger.wire_bytes() - shadow.wire_bytes())
}

fn key(index: u64) -> [u8; 8] {
    (index % KEYS).to_be_bytes()
}

const HEADINGS: [&str; 9] =
    ["method", "size", "descriptors", "payload B", "wire B", "commands", "slots", "p50", "p99"];

fn cells(row: &TrafficRow) -> Vec<String> {
    vec![
        row.method.to_owned(),
        row.size.to_string(),
        row.descriptors.clone(),
        table::mean(row.payload_bytes),
        table::mean(row.wire_bytes),
        table::mean(row.commands),
        table::mean(row.slots),
        table::time(Some(row.p50_ns)),
        table::time(Some(row.p99_ns)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway::Cost;

    #[test]
    fn shadow_doorbell_reads_are_not_counted_in_the_cost_of_a_put() {
        let mut ledger = Ledger::default();
        ledger.record(Class::CommandFetch, Cost { payload_bytes: 64, down_bytes: 84, up_bytes: 24 });
        ledger.record(Class::Interrupt, Cost { payload_bytes: 4, down_bytes: 0, up_bytes: 24 });
        let without = crossed(&ledger);
        ledger.record_many(Class::Shadow, 3, Cost { payload_bytes: 12, down_bytes: 72, up_bytes: 72 });
        assert_eq!(without, (64, 132));
        assert_eq!(crossed(&ledger), without);
    }
}
