//! A snapshot as Prometheus reads it. Times are in seconds, sizes in bytes, parts of a whole between 0 and 1.

use std::collections::BTreeMap;

use byway_controller::{CommandType, Histogram};
use byway_flash::CauseCounters;
use byway_local::DeviceSnapshot;
use byway_spec::base::command::Direction;
use byway_tcp_target::TargetSnapshot;

use super::exposition::{Exposition, Kind};
use super::{ClientFigures, ProcessFigures, Snapshot};

const NS_PER_S: f64 = 1e9;

/// Kelvins at 0 °C, as NVMe reckons.
const ZERO_CELSIUS_K: i32 = 273;

/// Status code types, in their order.
const STATUS_TYPES: [&str; 8] =
    ["generic", "command_specific", "media", "path", "reserved_4", "reserved_5", "reserved_6", "vendor"];

/// Critical warnings, in the order of their bits.
const WARNINGS: [&str; 6] =
    ["spare", "temperature", "reliability", "read_only", "volatile_memory_backup", "persistent_memory"];

/// All of it.
pub(super) fn of(snapshot: &Snapshot) -> String {
    let mut text = Exposition::default();
    for (nqn, _) in &snapshot.devices {
        let info = [("version", env!("CARGO_PKG_VERSION")), ("subsystem", nqn)];
        text.family("byway_info", Kind::Gauge, "The server, with each of its subsystems.").sample(&info, 1);
    }
    snapshot.tcp.iter().for_each(|tcp| target(&mut text, tcp));
    snapshot.clients.iter().for_each(|figures| clients(&mut text, figures));
    for (nqn, figures) in &snapshot.devices {
        text.set_subsystem((snapshot.devices.len() > 1).then_some(nqn));
        device(&mut text, figures);
    }
    text.set_subsystem(None);
    process(&mut text, &snapshot.process);
    text.finish()
}

fn device(text: &mut Exposition, device: &DeviceSnapshot) {
    commands(text, device);
    durations(text, &device.commands.types);
    link(text, device);
    flash(text, device);
    wear(text, device);
    health(text, device);
}

fn target(text: &mut Exposition, tcp: &TargetSnapshot) {
    let mut family =
        text.family("byway_connections", Kind::Gauge, "NVMe/TCP connections, by what they are now.");
    tcp.connections.iter().for_each(|(state, count)| family.sample(&[("state", state.name())], count));
    text.counter("byway_connections_accepted_total", "NVMe/TCP connections that came.", tcp.accepted);
    let help = "Connections that were not accepted, and hosts that were refused at Connect.";
    let mut family = text.family("byway_connections_refused_total", Kind::Counter, help);
    tcp.refused.iter().for_each(|(reason, count)| family.sample(&[("reason", reason)], count));
    let mut family =
        text.family("byway_connections_ended_total", Kind::Counter, "NVMe/TCP connections that ended.");
    tcp.ended.iter().for_each(|(reason, count)| family.sample(&[("reason", reason)], count));
    let received = "Bytes that came over NVMe/TCP connections.";
    text.counter("byway_network_receive_bytes_total", received, tcp.received_bytes);
    let sent = "Bytes that went over NVMe/TCP connections.";
    text.counter("byway_network_transmit_bytes_total", sent, tcp.sent_bytes);
    text.gauge("byway_hosts", "Hosts that have a controller over NVMe/TCP.", tcp.hosts.len());
    let mut family =
        text.family("byway_host_controllers", Kind::Gauge, "Controllers of each host over NVMe/TCP.");
    tcp.hosts.iter().for_each(|(host, count)| family.sample(&[("host", host)], count));
}

fn clients(text: &mut Exposition, figures: &ClientFigures) {
    let ClientFigures { came, left, sent_away, refused } = *figures;
    let now = came.saturating_sub(left + sent_away);
    text.gauge("byway_vfio_user_clients", "vfio-user clients that are served now.", now);
    let mut family =
        text.family("byway_vfio_user_clients_total", Kind::Counter, "vfio-user clients, by what they did.");
    let counts = [("came", came), ("left", left), ("sent_away", sent_away), ("refused", refused)];
    counts.iter().for_each(|(event, count)| family.sample(&[("event", event)], count));
}

/// A name of the specification as a label: `Write Zeroes` is `write_zeroes`.
fn label_of(name: Option<&str>) -> String {
    let Some(name) = name else { return "unknown".to_owned() };
    let letters = name.chars().filter(|letter| *letter != ',');
    letters
        .map(|letter| if letter == ' ' || letter == '-' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

fn nsid_of(kind: &CommandType) -> String {
    kind.nsid.map(|nsid| nsid.to_string()).unwrap_or_default()
}

fn commands(text: &mut Exposition, device: &DeviceSnapshot) {
    text.gauge("byway_namespaces", "Namespaces.", device.namespaces);
    text.gauge("byway_io_queues", "I/O queues of all controllers.", device.io_queues);
    let types = &device.commands.types;
    let help = "Commands that were completed, by status code type; `success` are those that did not fail.";
    let mut family = text.family("byway_commands_total", Kind::Counter, help);
    for kind in types {
        let (command, nsid) = (label_of(kind.name), nsid_of(kind));
        let labels = |status| {
            [("queue", kind.queue.name()), ("command", &*command), ("nsid", &*nsid), ("status", status)]
        };
        family.sample(&labels("success"), kind.succeeded);
        let failed = STATUS_TYPES.iter().zip(kind.failed).filter(|(_, count)| *count > 0);
        failed.for_each(|(status, count)| family.sample(&labels(status), count));
    }
    let help = "Data that commands moved which succeeded: `in` came from hosts, `out` went to them.";
    let mut family = text.family("byway_command_bytes_total", Kind::Counter, help);
    for kind in types {
        let direction = match kind.direction {
            Direction::HostToDevice => "in",
            Direction::DeviceToHost => "out",
            Direction::None | Direction::Both => continue,
        };
        let (command, nsid) = (label_of(kind.name), nsid_of(kind));
        let queue = ("queue", kind.queue.name());
        family.sample(&[queue, ("command", &command), ("nsid", &nsid), ("direction", direction)], kind.bytes);
    }
    let help = "Commands that failed, by status: status code type and status code.";
    let mut family = text.family("byway_command_errors_total", Kind::Counter, help);
    for (status, count) in &device.commands.statuses {
        let code = format!("{:x}h/{:02x}h", status.sct(), status.sc());
        let name = label_of(status.name());
        family.sample(&[("status", &name), ("code", &code)], count);
    }
    let help = "Commands that were begun and wait: for the engine of an exported namespace, or for a sync of the image.";
    let mut family = text.family("byway_commands_waiting", Kind::Gauge, help);
    family.sample(&[("for", "engine")], device.commands.in_engines);
    family.sample(&[("for", "sync")], device.commands.awaiting_sync);
}

/// By type, of all namespaces together: each has dozens of lines.
fn durations(text: &mut Exposition, types: &[CommandType]) {
    let mut sums: BTreeMap<(&str, String), Histogram> = BTreeMap::new();
    for kind in types {
        sums.entry((kind.queue.name(), label_of(kind.name))).or_default().add(&kind.duration);
    }
    let help = "How long commands took in the device, from when it was asked for until they were answered.";
    let mut family = text.family("byway_command_duration_seconds", Kind::Histogram, help);
    for ((queue, command), histogram) in &sums {
        let buckets = histogram.cumulative().map(|(bound_ns, count)| (bound_ns as f64 / NS_PER_S, count));
        let whole = (histogram.sum_ns() as f64 / NS_PER_S, histogram.count());
        family.histogram(&[("queue", queue), ("command", command)], buckets, whole);
    }
}

fn link(text: &mut Exposition, device: &DeviceSnapshot) {
    let help = "Transactions of the device's link, by class; a fabric's are none.";
    let mut family = text.family("byway_link_transactions_total", Kind::Counter, help);
    device.ledger.rows().for_each(|(class, row)| family.sample(&[("class", class.name())], row.count));
    let mut family = text.family("byway_link_payload_bytes_total", Kind::Counter, "Bytes of their payloads.");
    device.ledger.rows().for_each(|(class, row)| {
        family.sample(&[("class", class.name())], row.cost.payload_bytes);
    });
    let help = "Bytes on the wire, towards the device (`down`) and away from it (`up`).";
    let mut family = text.family("byway_link_wire_bytes_total", Kind::Counter, help);
    for (class, row) in device.ledger.rows() {
        family.sample(&[("class", class.name()), ("direction", "down")], row.cost.down_bytes);
        family.sample(&[("class", class.name()), ("direction", "up")], row.cost.up_bytes);
    }
}

fn flash(text: &mut Exposition, device: &DeviceSnapshot) {
    type Of = fn(&CauseCounters) -> u64;
    let counters: [(&'static str, &str, Of); 5] = [
        ("byway_flash_reads_total", "Flash pages read, by cause.", |cause| cause.reads),
        ("byway_flash_read_bytes_total", "Bytes read from flash.", |cause| cause.read_bytes),
        ("byway_flash_programs_total", "Flash pages programmed.", |cause| cause.programs),
        ("byway_flash_program_bytes_total", "Bytes programmed.", |cause| cause.program_bytes),
        ("byway_flash_erases_total", "Flash blocks erased.", |cause| cause.erases),
    ];
    for (name, help, of) in counters {
        let mut family = text.family(name, Kind::Counter, help);
        device.flash.rows().for_each(|(cause, row)| family.sample(&[("cause", cause.name())], of(row)));
    }
    let help = "Bytes that hosts handed in to be kept.";
    text.counter("byway_flash_accepted_bytes_total", help, device.flash.accepted_bytes);
    let help = "Bytes programmed for each byte that was handed in, so far; NaN where none was.";
    let amplification = device.flash.write_amplification().unwrap_or(f64::NAN);
    text.gauge("byway_flash_write_amplification", help, amplification);
    let help = "Units of flash that could not be read back as they were written.";
    text.counter("byway_flash_media_errors_total", help, device.flash.media_errors);
}

fn wear(text: &mut Exposition, device: &DeviceSnapshot) {
    let wear = &device.wear;
    let mut family = text.family("byway_flash_block_erases", Kind::Gauge, "Erases of the blocks in use.");
    let erases = [("min", wear.wear.min.into()), ("mean", wear.wear.mean), ("max", wear.wear.max.into())];
    erases.iter().for_each(|(of, erases)| family.sample(&[("of", of)], erases));
    text.gauge("byway_flash_spare_blocks", "Blocks that may go bad.", wear.spare_blocks);
    text.gauge("byway_flash_spare_blocks_left", "Of these, those that did not.", wear.spare_blocks_left);
    let mut family = text.family("byway_flash_bad_blocks", Kind::Gauge, "Blocks that are not used.");
    let bad = [
        ("factory", wear.factory_bad_blocks),
        ("grown", wear.grown_bad_blocks),
        ("retired", wear.retired_blocks),
    ];
    bad.iter().for_each(|(kind, blocks)| family.sample(&[("kind", kind)], blocks));
    text.counter(
        "byway_flash_corrected_reads_total",
        "Reads with bits that were corrected.",
        wear.corrected_reads,
    );
}

fn health(text: &mut Exposition, device: &DeviceSnapshot) {
    let health = &device.health;
    let help = "Critical warnings of the SMART log that stand: 1 where one does.";
    let mut family = text.family("byway_health_critical_warning", Kind::Gauge, help);
    for (bit, warning) in WARNINGS.iter().enumerate() {
        family.sample(&[("warning", warning)], health.critical_warning >> bit & 1);
    }
    let celsius = i32::from(health.temperature_k) - ZERO_CELSIUS_K;
    text.gauge("byway_health_temperature_celsius", "Composite temperature.", celsius);
    let ratio = |percent: u8| f64::from(percent) / 100.0;
    let spare = ratio(health.available_spare_percent);
    text.gauge("byway_health_available_spare_ratio", "Spare that is left.", spare);
    let used = ratio(health.percentage_used);
    text.gauge("byway_health_used_ratio", "Life that is used; more than 1 beyond what is rated.", used);
    text.counter("byway_health_power_cycles_total", "Openings of the device.", health.power_cycles);
    let help = "Of these, those before which it was not closed in order.";
    text.counter("byway_health_unsafe_shutdowns_total", help, health.unsafe_shutdowns);
}

fn process(text: &mut Exposition, process: &ProcessFigures) {
    let ProcessFigures { resident_bytes, virtual_bytes, cpu_s } = *process;
    text.gauge("process_resident_memory_bytes", "Memory of the server in RAM.", resident_bytes);
    text.gauge("process_virtual_memory_bytes", "Address space of the server.", virtual_bytes);
    let mut family = text.family("process_cpu_seconds_total", Kind::Counter, "Processor time of the server.");
    family.sample(&[], cpu_s);
}
