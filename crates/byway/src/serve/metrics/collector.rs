//! A snapshot as metrics for Prometheus. Times are in seconds, sizes in bytes, parts of a whole between 0 and 1.

use std::collections::BTreeMap;
use std::fmt;

use byway_controller::{CommandType, Histogram, NamespaceSpace, StallSnapshot};
use byway_flash::{CauseCounters, Stall, Stalls};
use byway_spec::base::command::Direction;
use byway_spec::base::identify::Csi;
use byway_tcp_target::TargetSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::MetricType::{Counter, Gauge, Histogram as Buckets};

use super::families::{Families, Samples};
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

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder, &self.devices);
        families.gauge("byway_info", "The server, with each of its subsystems.", |samples| {
            let mut info = |nqn: &str| {
                samples.value(&[("version", env!("CARGO_PKG_VERSION")), ("subsystem", nqn)], 1_u64)
            };
            self.devices.iter().try_for_each(|(nqn, _)| info(nqn))
        })?;
        self.tcp.iter().try_for_each(|tcp| target(&mut families, tcp))?;
        self.clients.iter().try_for_each(|figures| clients(&mut families, figures))?;
        commands(&mut families)?;
        durations(&mut families)?;
        link(&mut families)?;
        flash(&mut families)?;
        stalls(&mut families)?;
        wear(&mut families)?;
        health(&mut families)?;
        process(&mut families, &self.process)
    }
}

fn target(families: &mut Families<'_, '_>, tcp: &TargetSnapshot) -> fmt::Result {
    families.gauge("byway_connections", "NVMe/TCP connections by their state.", |samples| {
        tcp.connections
            .iter()
            .try_for_each(|(state, count)| samples.value(&[("state", state.name())], *count))
    })?;
    let help = "NVMe/TCP connections that were accepted.";
    families.counter("byway_connections_accepted", help, |samples| samples.count(&[], tcp.accepted))?;
    let help = "Connections that were not accepted, and hosts that were refused at Connect.";
    families.counter("byway_connections_refused", help, |samples| {
        tcp.refused.iter().try_for_each(|(reason, count)| samples.count(&[("reason", reason)], *count))
    })?;
    families.counter("byway_connections_ended", "NVMe/TCP connections that ended.", |samples| {
        tcp.ended.iter().try_for_each(|(reason, count)| samples.count(&[("reason", reason)], *count))
    })?;
    let help = "Bytes received over NVMe/TCP connections.";
    families
        .counter("byway_network_receive_bytes", help, |samples| samples.count(&[], tcp.received_bytes))?;
    let help = "Bytes sent over NVMe/TCP connections.";
    families.counter("byway_network_transmit_bytes", help, |samples| samples.count(&[], tcp.sent_bytes))?;
    let help = "Hosts that have a controller over NVMe/TCP.";
    families.gauge("byway_hosts", help, |samples| samples.value(&[], tcp.hosts.len()))?;
    families.gauge("byway_host_controllers", "Controllers of each host over NVMe/TCP.", |samples| {
        tcp.hosts.iter().try_for_each(|(host, count)| samples.value(&[("host", host)], *count))
    })
}

fn clients(families: &mut Families<'_, '_>, figures: &ClientFigures) -> fmt::Result {
    let ClientFigures { connected, disconnected, dropped, refused } = *figures;
    let now = connected.saturating_sub(disconnected + dropped);
    let help = "vfio-user clients that are served now.";
    families.gauge("byway_vfio_user_clients", help, |samples| samples.value(&[], now))?;
    let counts = [("came", connected), ("left", disconnected), ("sent_away", dropped), ("refused", refused)];
    families.counter("byway_vfio_user_clients", "vfio-user clients, by what they did.", |samples| {
        counts.iter().try_for_each(|(event, count)| samples.count(&[("event", event)], *count))
    })
}

/// A name of the specification as a label: `Write Zeroes` is `write_zeroes`.
fn label_of(name: Option<&str>) -> String {
    let Some(name) = name else { return "unknown".to_owned() };
    let letters = name.chars().filter(|letter| *letter != ',');
    letters
        .map(|letter| if letter == ' ' || letter == '-' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

/// The labels of a type of commands: its queue, its command and its namespace.
fn labels_of(kind: &CommandType) -> [(&'static str, String); 3] {
    let nsid = kind.nsid.map(|nsid| nsid.to_string()).unwrap_or_default();
    [("queue", kind.queue.name().to_owned()), ("command", label_of(kind.name)), ("nsid", nsid)]
}

/// `labels` and one more.
fn and<'a>(labels: &'a [(&'static str, String)], other: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    labels.iter().map(|(name, value)| (*name, value.as_str())).chain([other]).collect()
}

fn commands(families: &mut Families<'_, '_>) -> fmt::Result {
    families.of_devices(Gauge, "byway_namespaces", "Namespaces.", |samples, device| {
        samples.value(&[], device.space.len())
    })?;
    space(families)?;
    families.of_devices(Gauge, "byway_io_queues", "I/O queues of all controllers.", |samples, device| {
        samples.value(&[], device.io_queues)
    })?;
    let help = "Commands that were completed, by status code type; `success` are those that did not fail.";
    families.of_devices(Counter, "byway_commands", help, |samples, device| {
        device.commands.types.iter().try_for_each(|kind| completed(samples, kind))
    })?;
    let help = "Data of commands that succeeded: `in` was received from hosts, `out` was sent to them.";
    families.of_devices(Counter, "byway_command_bytes", help, |samples, device| {
        device.commands.types.iter().try_for_each(|kind| moved(samples, kind))
    })?;
    let help = "Commands that failed, by status: status code type and status code.";
    families.of_devices(Counter, "byway_command_errors", help, |samples, device| {
        device.commands.statuses.iter().try_for_each(|(status, count)| {
            let code = format!("{:x}h/{:02x}h", status.sct(), status.sc());
            samples.count(&[("status", &label_of(status.name())), ("code", &code)], *count)
        })
    })?;
    let help = "Commands that were begun and wait: for the engine of an exported namespace, or for a sync of the image.";
    families.of_devices(Gauge, "byway_commands_waiting", help, |samples, device| {
        samples.value(&[("for", "engine")], device.commands.in_engines)?;
        samples.value(&[("for", "sync")], device.commands.awaiting_sync)
    })
}

/// Room of each namespace.
fn space(families: &mut Families<'_, '_>) -> fmt::Result {
    type Of = fn(&NamespaceSpace) -> Option<u64>;
    let gauges: [(&str, &str, Of); 3] = [
        (
            "byway_namespace_capacity_bytes",
            "Bytes that a namespace can hold: blocks, or live records of pairs with their index entries.",
            |space| Some(space.capacity_bytes),
        ),
        (
            "byway_namespace_used_bytes",
            "Of these, bytes in use; of blocks, once a host has sent Identify Namespace.",
            |space| space.used_bytes,
        ),
        (
            "byway_namespace_pairs",
            "Key-value pairs; a key that was overwritten may count twice until the index is written out.",
            |space| space.pairs,
        ),
    ];
    for (name, help, of) in gauges {
        families.of_devices(Gauge, name, help, |samples, device| {
            device.space.iter().try_for_each(|space| {
                let (nsid, csi) = (space.nsid.to_string(), if space.csi == Csi::KV { "kv" } else { "nvm" });
                let labels = [("nsid", nsid.as_str()), ("command_set", csi)];
                of(space).map_or(Ok(()), |value| samples.value(&labels, value))
            })
        })?;
    }
    Ok(())
}

fn completed(samples: &mut Samples<'_>, kind: &CommandType) -> fmt::Result {
    let labels = labels_of(kind);
    samples.count(&and(&labels, ("status", "success")), kind.succeeded)?;
    let mut failed = STATUS_TYPES.iter().zip(kind.failed).filter(|(_, count)| *count > 0);
    failed.try_for_each(|(status, count)| samples.count(&and(&labels, ("status", status)), count))
}

fn moved(samples: &mut Samples<'_>, kind: &CommandType) -> fmt::Result {
    let direction = match kind.direction {
        Direction::HostToDevice => "in",
        Direction::DeviceToHost => "out",
        Direction::None | Direction::Both => return Ok(()),
    };
    samples.count(&and(&labels_of(kind), ("direction", direction)), kind.bytes)
}

/// By type, of all namespaces together: each has dozens of lines.
fn durations(families: &mut Families<'_, '_>) -> fmt::Result {
    let help =
        "How long commands took in the device, from when it was notified of them until they were completed.";
    families.of_devices(Buckets, "byway_command_duration_seconds", help, |samples, device| {
        let mut sums: BTreeMap<(&str, String), Histogram> = BTreeMap::new();
        for kind in &device.commands.types {
            sums.entry((kind.queue.name(), label_of(kind.name))).or_default().add(&kind.duration);
        }
        sums.iter().try_for_each(|((queue, command), histogram)| {
            let buckets = histogram.buckets().map(|(bound_ns, count)| (bound_ns as f64 / NS_PER_S, count));
            let sum_s = histogram.sum_ns() as f64 / NS_PER_S;
            let labels = [("queue", *queue), ("command", command.as_str())];
            samples.histogram(&labels, sum_s, histogram.count(), &buckets.collect::<Vec<_>>())
        })
    })
}

fn link(families: &mut Families<'_, '_>) -> fmt::Result {
    let help = "Transactions of the device's link, by class; a fabric's are none.";
    families.of_devices(Counter, "byway_link_transactions", help, |samples, device| {
        let mut rows = device.ledger.rows();
        rows.try_for_each(|(class, row)| samples.count(&[("class", class.name())], row.count))
    })?;
    families.of_devices(
        Counter,
        "byway_link_payload_bytes",
        "Bytes of their payloads.",
        |samples, device| {
            let mut rows = device.ledger.rows();
            rows.try_for_each(|(class, row)| {
                samples.count(&[("class", class.name())], row.cost.payload_bytes)
            })
        },
    )?;
    let help = "Bytes on the wire, towards the device (`down`) and away from it (`up`).";
    families.of_devices(Counter, "byway_link_wire_bytes", help, |samples, device| {
        device.ledger.rows().try_for_each(|(class, row)| {
            samples.count(&[("class", class.name()), ("direction", "down")], row.cost.down_bytes)?;
            samples.count(&[("class", class.name()), ("direction", "up")], row.cost.up_bytes)
        })
    })
}

fn flash(families: &mut Families<'_, '_>) -> fmt::Result {
    type Of = fn(&CauseCounters) -> u64;
    let counters: [(&str, &str, Of); 5] = [
        ("byway_flash_reads", "Flash pages read, by cause.", |cause| cause.reads),
        ("byway_flash_read_bytes", "Bytes read from flash.", |cause| cause.read_bytes),
        ("byway_flash_programs", "Flash pages programmed.", |cause| cause.programs),
        ("byway_flash_program_bytes", "Bytes programmed.", |cause| cause.program_bytes),
        ("byway_flash_erases", "Flash blocks erased.", |cause| cause.erases),
    ];
    for (name, help, of) in counters {
        families.of_devices(Counter, name, help, |samples, device| {
            let mut rows = device.flash.rows();
            rows.try_for_each(|(cause, row)| samples.count(&[("cause", cause.name())], of(row)))
        })?;
    }
    let help = "Bytes that hosts handed in to be kept.";
    families.of_devices(Counter, "byway_flash_accepted_bytes", help, |samples, device| {
        samples.count(&[], device.flash.accepted_bytes)
    })?;
    let help = "Bytes programmed for each byte that was handed in, so far; NaN where none was.";
    families.of_devices(Gauge, "byway_flash_write_amplification", help, |samples, device| {
        samples.value(&[], device.flash.write_amplification().unwrap_or(f64::NAN))
    })?;
    let help = "Units of flash that could not be read back as they were written.";
    families.of_devices(Counter, "byway_flash_media_errors", help, |samples, device| {
        samples.count(&[], device.flash.media_errors)
    })
}

/// A figure of a wait, by the scope, the identifier and the cause that are its labels.
type StallFigure = fn(&Stall) -> f64;

fn stalls(families: &mut Families<'_, '_>) -> fmt::Result {
    let help = "Waits of commands for work beside their own, of a microsecond and more; scope=\"upkeep\" delayed no command.";
    families.of_devices(Counter, "byway_stalls", help, |samples, device| {
        each_stall(&device.stalls, |labels, stall| samples.count(labels, stall.count))
    })?;
    let figures: [(MetricType, &str, &str, StallFigure); 2] = [
        (Counter, "byway_stall_seconds", "Time of these waits.", |stall| stall.total_ns as f64 / NS_PER_S),
        (Gauge, "byway_stall_longest_seconds", "The longest of them.", |stall| {
            stall.longest_ns as f64 / NS_PER_S
        }),
    ];
    for (kind, name, help, of) in figures {
        families.of_devices(kind, name, help, |samples, device| {
            each_stall(&device.stalls, |labels, stall| match kind {
                Counter => samples.count(labels, of(stall)),
                _ => samples.value(labels, of(stall)),
            })
        })?;
    }
    Ok(())
}

/// Calls `sample` for each cause of the device, of each namespace and of each queue.
fn each_stall(
    stalls: &StallSnapshot,
    mut sample: impl FnMut(&[(&str, &str)], &Stall) -> fmt::Result,
) -> fmt::Result {
    let mut of = |scope: &str, id: &str, stalls: &Stalls| {
        let mut waits = stalls.rows().filter(|(_, stall)| scope == "device" || stall.count > 0);
        waits.try_for_each(|(cause, stall)| {
            sample(&[("scope", scope), ("id", id), ("cause", cause.name())], stall)
        })
    };
    of("device", "", &stalls.device)?;
    of("upkeep", "", &stalls.upkeep.by_cause)?;
    stalls
        .namespaces
        .iter()
        .try_for_each(|(nsid, of_one)| of("namespace", &nsid.to_string(), &of_one.by_cause))?;
    stalls.queues.iter().try_for_each(|(queue, of_one)| {
        of("queue", &format!("{}/{}", queue.controller.0, queue.qid), &of_one.by_cause)
    })
}

fn wear(families: &mut Families<'_, '_>) -> fmt::Result {
    let help = "Erases of the blocks in use.";
    families.of_devices(Gauge, "byway_flash_block_erases", help, |samples, device| {
        let wear = &device.wear.wear;
        let erases = [("min", f64::from(wear.min)), ("mean", wear.mean), ("max", f64::from(wear.max))];
        erases.iter().try_for_each(|(of, erases)| samples.value(&[("of", of)], *erases))
    })?;
    families.of_devices(
        Gauge,
        "byway_flash_free_blocks",
        "Blocks that can be opened and hold nothing.",
        |samples, device| samples.value(&[], device.wear.free_blocks),
    )?;
    families.of_devices(
        Gauge,
        "byway_flash_spare_blocks",
        "Blocks that may go bad.",
        |samples, device| samples.value(&[], device.wear.spare_blocks),
    )?;
    let help = "Of these, those that did not.";
    families.of_devices(Gauge, "byway_flash_spare_blocks_left", help, |samples, device| {
        samples.value(&[], device.wear.spare_blocks_left)
    })?;
    families.of_devices(
        Gauge,
        "byway_flash_bad_blocks",
        "Blocks that are not used.",
        |samples, device| {
            let wear = &device.wear;
            samples.value(&[("kind", "factory")], wear.factory_bad_blocks)?;
            samples.value(&[("kind", "grown")], wear.grown_bad_blocks)?;
            samples.value(&[("kind", "retired")], wear.retired_blocks)
        },
    )?;
    let help = "Reads with bits that were corrected.";
    families.of_devices(Counter, "byway_flash_corrected_reads", help, |samples, device| {
        samples.count(&[], device.wear.corrected_reads)
    })
}

fn health(families: &mut Families<'_, '_>) -> fmt::Result {
    let help = "Critical warnings of the SMART log that stand: 1 where one does.";
    families.of_devices(Gauge, "byway_health_critical_warning", help, |samples, device| {
        let warnings = u32::from(device.health.critical_warning);
        let mut named = WARNINGS.iter().enumerate();
        named.try_for_each(|(bit, warning)| samples.value(&[("warning", warning)], warnings >> bit & 1))
    })?;
    families.of_devices(
        Gauge,
        "byway_health_temperature_celsius",
        "Composite temperature.",
        |samples, device| samples.value(&[], i32::from(device.health.temperature_k) - ZERO_CELSIUS_K),
    )?;
    let ratio = |percent: u8| f64::from(percent) / 100.0;
    let help = "Spare that is left.";
    families.of_devices(Gauge, "byway_health_available_spare_ratio", help, |samples, device| {
        samples.value(&[], ratio(device.health.available_spare_percent))
    })?;
    let help = "Life that is used; more than 1 beyond what is rated.";
    families.of_devices(Gauge, "byway_health_used_ratio", help, |samples, device| {
        samples.value(&[], ratio(device.health.percentage_used))
    })?;
    families.of_devices(
        Counter,
        "byway_health_power_cycles",
        "Openings of the device.",
        |samples, device| samples.count(&[], device.health.power_cycles),
    )?;
    let help = "Of these, those before which it was not closed in order.";
    families.of_devices(Counter, "byway_health_unsafe_shutdowns", help, |samples, device| {
        samples.count(&[], device.health.unsafe_shutdowns)
    })
}

fn process(families: &mut Families<'_, '_>, process: &ProcessFigures) -> fmt::Result {
    let ProcessFigures { resident_bytes, virtual_bytes, cpu_s, started_s } = *process;
    let help = "Memory of the server in RAM.";
    families.gauge("process_resident_memory_bytes", help, |samples| samples.value(&[], resident_bytes))?;
    let help = "Address space of the server.";
    families.gauge("process_virtual_memory_bytes", help, |samples| samples.value(&[], virtual_bytes))?;
    let help = "Processor time of the server.";
    families.counter("process_cpu_seconds", help, |samples| samples.count(&[], cpu_s))?;
    let help = "When the server was started, in seconds since 1970.";
    families.gauge("process_start_time_seconds", help, |samples| samples.value(&[], started_s))
}
