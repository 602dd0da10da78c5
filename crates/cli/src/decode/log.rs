//! Log pages: health, errors, firmware, what commands do, what became of a sanitize operation.

use byway::spec::Status;
use byway::spec::base::admin::AdminOpcode;
use byway::spec::base::ana::{AnaGroup, AnaHeader, AnaLog, AnaState};
use byway::spec::base::feature::FeatureId;
use byway::spec::base::identify::Csi;
use byway::spec::base::log::{
    ChangedNamespaces, Effects, EffectsLog, ErrorEntry, FeaturesLog, FirmwareSlots, LogPage, SanitizeLog,
    SmartLog, SupportedPages,
};
use byway::spec::base::telemetry::TelemetryHeader;
use byway::spec::fabrics::{DISCOVERY_RECORD_BYTES, DiscoveryEntry, DiscoveryHeader};
use byway::spec::kv::KvOpcode;
use byway::spec::nvm::NvmOpcode;
use byway::spec::programs::{ProgramDescriptor, ProgramListHeader, ProgramState, ProgramType};

use super::controller::temperature;
use super::{Decoded, Fields, read, read_each, vendor};

/// Bytes of a unit in which a device counts the data that it read and wrote.
const DATA_UNIT_BYTES: u128 = 512_000;

const WARNINGS: &[&str] =
    &["spare", "temperature", "reliability", "read only", "volatile memory backup", "persistent memory"];

/// Bytes of the list of programs that are asked for: a head and 63 programs.
const PROGRAM_LIST_BYTES: usize = 4096;

/// Bytes of a page with a fixed length; `None` where its header has the length.
pub fn bytes(page: LogPage) -> Option<usize> {
    Some(match page {
        LogPage::SUPPORTED_PAGES => size_of::<SupportedPages>(),
        LogPage::CHANGED_NAMESPACES => size_of::<ChangedNamespaces>(),
        LogPage::EFFECTS | LogPage::MANAGEMENT => size_of::<EffectsLog>(),
        LogPage::FEATURES => size_of::<FeaturesLog>(),
        LogPage::PROGRAM_LIST => PROGRAM_LIST_BYTES,
        LogPage::ERROR | LogPage::ERROR_TEXTS | LogPage::LEDGER | LogPage::STALLS => return None,
        LogPage::ANA | LogPage::DISCOVERY => return None,
        _ => size_of::<SmartLog>(),
    })
}

/// Length of the ANA log page of a controller with these maximum numbers of groups and namespaces, limited to one answer.
pub fn ana_bytes(groups_max: u32, namespaces_max: u32) -> usize {
    const BYTES_MAX: usize = 1 << 20;
    let groups_bytes = (groups_max as usize).saturating_mul(size_of::<AnaGroup>());
    let nsids_bytes = (namespaces_max as usize).saturating_mul(size_of::<u32>());
    groups_bytes.saturating_add(nsids_bytes).saturating_add(size_of::<AnaHeader>()).min(BYTES_MAX)
}

/// Bytes of a discovery log that begins with `head`, as far as one answer has them.
pub fn discovery_bytes(head: &[u8]) -> usize {
    const ENTRIES_MAX: u64 = 1023;
    let entries = read::<DiscoveryHeader>(head).map_or(0, |header| header.numrec.min(ENTRIES_MAX));
    (entries as usize + 1) * DISCOVERY_RECORD_BYTES
}

/// A log page of command set `csi`, decoded; `None` for an unknown one.
pub fn log(page: LogPage, csi: Csi, bytes: &[u8]) -> Option<Decoded> {
    Some(match page {
        LogPage::SMART => Decoded::Fields(smart(&*read(bytes)?)),
        LogPage::FIRMWARE_SLOT => Decoded::Fields(firmware(&*read(bytes)?)),
        LogPage::SANITIZE => Decoded::Fields(sanitize(&*read(bytes)?)),
        LogPage::TELEMETRY_HOST | LogPage::TELEMETRY_CONTROLLER => Decoded::Fields(telemetry(&*read(bytes)?)),
        LogPage::SUPPORTED_PAGES => Decoded::Entries(supported(&*read(bytes)?)),
        LogPage::ERROR => Decoded::Entries(errors(bytes)),
        LogPage::CHANGED_NAMESPACES => Decoded::Entries(changed(&*read(bytes)?)),
        LogPage::EFFECTS => Decoded::Entries(effects(&*read(bytes)?, csi)),
        LogPage::PROGRAM_LIST => Decoded::Entries(programs(bytes)?),
        LogPage::FEATURES => Decoded::Entries(features(&*read(bytes)?)),
        LogPage::ANA => Decoded::Entries(ana(bytes)?),
        LogPage::DISCOVERY => Decoded::Entries(discovery(bytes)?),
        LogPage::ERROR_TEXTS => Decoded::Entries(vendor::error_texts(bytes)),
        LogPage::LEDGER => Decoded::Entries(vendor::ledger(bytes)?),
        LogPage::STALLS => Decoded::Entries(vendor::stalls(bytes)?),
        _ => return None,
    })
}

fn smart(log: &SmartLog) -> Fields {
    let units = |fields: Fields, name: &'static str, units: u128, about: &'static str| {
        fields.bytes(name, units.saturating_mul(DATA_UNIT_BYTES), about)
    };
    let fields = Fields::default()
        .bits("critical_warning", log.critical_warning, WARNINGS, "what is in danger")
        .with("temperature_k", log.temperature_k.get(), temperature(log.temperature_k.get()), "temperature")
        .number("spare_percent", log.spare_percent, "spare left, in percent")
        .number("spare_threshold_percent", log.spare_threshold_percent, "warned below, in percent")
        .number("used_percent", log.used_percent, "of its life, in percent; may pass 100")
        .hex("group_warning", log.group_warning, "endurance groups in danger");
    let fields = units(fields, "read_bytes", log.data_units_read.get(), "read, to 512,000 bytes");
    let fields = units(fields, "written_bytes", log.data_units_written.get(), "written, to 512,000 bytes")
        .number("host_reads", log.host_reads.get(), "read commands")
        .number("host_writes", log.host_writes.get(), "write commands")
        .number("busy_minutes", log.busy_minutes.get(), "busy, in minutes")
        .number("power_cycles", log.power_cycles.get(), "power cycles")
        .number("power_on_hours", log.power_on_hours.get(), "with power, in hours")
        .number("unsafe_shutdowns", log.unsafe_shutdowns.get(), "losses of power without notice")
        .number("media_errors", log.media_errors.get(), "data that could not be corrected")
        .number("error_entries", log.error_entries.get(), "entries of the error log")
        .number("warning_minutes", log.warning_minutes, "above the warning temperature, in minutes")
        .number("critical_minutes", log.critical_minutes, "above the critical temperature, in minutes");
    let sensors = (1..).zip(log.sensors_k).filter(|(_, kelvins)| kelvins.get() != 0);
    sensors.fold(fields, |fields, (number, kelvins)| {
        let name = format!("sensor{number}_k");
        fields.with(name, kelvins.get(), temperature(kelvins.get()), format!("sensor {number}"))
    })
}

fn firmware(log: &FirmwareSlots) -> Fields {
    let fields = Fields::default().number("active", log.afi & 7, "slot in use").number(
        "next",
        log.afi >> 4 & 7,
        "slot after the next reset; 0 for the same",
    );
    let slots = (1..).zip(log.frs).filter(|(_, revision)| *revision != [0; 8]);
    slots.fold(fields, |fields, (number, revision)| {
        fields.text(format!("slot{number}"), &revision, format!("revision in slot {number}"))
    })
}

fn sanitize(log: &SanitizeLog) -> Fields {
    let status = log.status.get();
    let word = match status & 7 {
        0 => "never sanitized",
        1 => "done",
        2 => "going on",
        3 => "failed",
        4 => "done, nothing deallocated",
        _ => "reserved",
    };
    let progress = f64::from(log.progress.get()) / 65536.0 * 100.0;
    let progress = if status & 7 == 2 { format!("{progress:.1} %") } else { "-".into() };
    let estimates = ["overwrite", "block_erase", "crypto_erase"];
    let names = estimates
        .iter()
        .flat_map(|name| [format!("{name}_s")])
        .chain(estimates.iter().map(|name| format!("{name}_kept_s")));
    let fields = Fields::default()
        .with("status", word, word, "the last sanitize operation")
        .with("progress", log.progress.get(), progress, "how far it is, of 65,536")
        .number("passes", status >> 3 & 0x1f, "passes done")
        .flag("untouched", status >> 8 & 1 == 1, "nothing was written since")
        .hex("cdw10", log.cdw10.get(), "the command that asked for it");
    names.zip(log.estimates_s).fold(fields, |fields, (name, seconds)| match seconds.get() {
        u32::MAX => fields.with(name, serde_json::Value::Null, "not reported", "how long it takes"),
        seconds => fields.with(name, seconds, format!("{seconds} s"), "how long it takes"),
    })
}

/// The header of a telemetry page: its data is the vendor's.
fn telemetry(header: &TelemetryHeader) -> Fields {
    let scope = header.scope().to_string();
    let areas = (1..).zip(header.last_blocks.map(u32::from)).chain([(4, header.area4_last_block)]);
    let fields = Fields::default().with("scope", scope.clone(), scope, "what it is of");
    let fields = areas.fold(fields, |fields, (area, last): (u8, u32)| {
        fields.number(format!("area{area}_last_block"), last, "last block of 512 bytes; 0 for no data")
    });
    let fields = match header.lid {
        LogPage::TELEMETRY_CONTROLLER => fields,
        _ => fields.number(
            "host_generation",
            header.host_generation,
            "captures that hosts asked for, modulo 256",
        ),
    };
    fields
        .flag("controller_data", header.controller_data == 1, "the controller captured by itself")
        .number("controller_generation", header.controller_generation, "its captures, modulo 256")
        .text("reason", &header.reason, "what the controller was in")
}

fn supported(log: &SupportedPages) -> Vec<Fields> {
    let pages = (0..=255).map(LogPage).zip(log.pages).filter(|(_, page)| page.lsupp());
    let row = |(page, support): (LogPage, byway::spec::base::log::PageSupport)| {
        let name = page.name().unwrap_or("vendor specific");
        Fields::default()
            .with("lid", page.0, format!("{:02x}h", page.0), "")
            .with("name", name, name, "")
            .flag("index_offsets", support.ios(), "")
    };
    pages.map(row).collect()
}

fn errors(bytes: &[u8]) -> Vec<Fields> {
    read_each::<ErrorEntry>(bytes).filter(|entry| entry.error_count != 0).map(error).collect()
}

fn error(entry: ErrorEntry) -> Fields {
    const NONE: u16 = 0xffff;
    let place = |fields: Fields, name: &'static str, place: u16| match place {
        NONE => fields.with(name, serde_json::Value::Null, "-", ""),
        place => fields.number(name, place, ""),
    };
    let status = Status(entry.phase_and_status >> 1).to_string();
    let fields = Fields::default().number("error_count", entry.error_count, "");
    let fields = place(place(fields, "sqid", entry.sqid), "cid", entry.cid);
    let byte = if entry.parameter == NONE { NONE } else { entry.parameter & 0xff };
    place(fields, "byte", byte)
        .number("nsid", entry.nsid, "")
        .number("lba", entry.lba, "")
        .with("opcode", entry.opcode, format!("{:02x}h", entry.opcode), "")
        .with("status", status.clone(), status, "")
}

fn changed(log: &ChangedNamespaces) -> Vec<Fields> {
    let nsids = log.nsids.iter().take_while(|nsid| **nsid != 0);
    nsids.map(|nsid| Fields::default().number("nsid", *nsid, "")).collect()
}

/// A line for each index that holds a program.
fn programs(page: &[u8]) -> Option<Vec<Fields>> {
    let head: Box<ProgramListHeader> = read(page)?;
    let descriptors = read_each::<ProgramDescriptor>(page.get(size_of::<ProgramListHeader>()..)?);
    let all = (0_u16..).zip(descriptors).take(usize::from(head.programs));
    let there = all.filter(|(_, program)| program.state.occupied() != ProgramState::EMPTY);
    Some(there.map(|(index, program)| program_row(index, &program)).collect())
}

fn program_row(index: u16, program: &ProgramDescriptor) -> Fields {
    let name = ProgramType(program.ptype).name().unwrap_or("unknown");
    Fields::default()
        .number("index", index, "")
        .with("type", name, name, "")
        .flag("built_in", program.state.occupied() == ProgramState::BUILT_IN, "")
        .flag("activated", program.state.active(), "")
        .number("identifier", program.pid, "")
}

/// A line for each namespace: its state is its group's.
fn ana(page: &[u8]) -> Option<Vec<Fields>> {
    let row = |state: AnaState, nsid: u32| {
        let name = state.to_string();
        Fields::default().number("nsid", nsid, "").with("state", name.clone(), name, "")
    };
    Some(AnaLog::of(page)?.flat_map(|(state, nsids)| nsids.map(move |nsid| row(state, nsid))).collect())
}

fn discovery(page: &[u8]) -> Option<Vec<Fields>> {
    let header = read::<DiscoveryHeader>(page)?;
    let entries = page.get(DISCOVERY_RECORD_BYTES..).unwrap_or_default();
    let row = |entry: DiscoveryEntry| {
        let (kind, transport) = (entry.subtype.to_string(), entry.trtype.to_string());
        Fields::default()
            .with("kind", kind.clone(), kind, "")
            .with("transport", transport.clone(), transport, "")
            .text("address", &entry.traddr, "")
            .text("service", &entry.trsvcid, "")
            .number("port_id", entry.portid, "")
            .text("subsystem", &entry.subnqn, "")
    };
    let records = usize::try_from(header.numrec).unwrap_or(usize::MAX);
    Some(read_each::<DiscoveryEntry>(entries).take(records).map(row).collect())
}

fn effects(log: &EffectsLog, csi: Csi) -> Vec<Fields> {
    let io_name = |opcode: u8| match csi {
        Csi::KV => KvOpcode(opcode).name(),
        _ => NvmOpcode(opcode).name(),
    };
    let admin = (0..=255)
        .zip(log.admin)
        .map(|(opcode, effects)| ("admin", opcode, AdminOpcode(opcode).name(), effects));
    let io = (0..=255).zip(log.io).map(|(opcode, effects)| ("io", opcode, io_name(opcode), effects));
    let row = |(queue, opcode, name, effects): (&'static str, u8, Option<&'static str>, Effects)| {
        let name = name.unwrap_or("vendor specific");
        let named = Fields::default()
            .with("queue", queue, queue, "")
            .with("opcode", opcode, format!("{opcode:02x}h"), "")
            .with("name", name, name, "");
        effects_of(named, effects)
    };
    admin.chain(io).filter(|(_, _, _, effects)| effects.csupp()).map(row).collect()
}

fn features(log: &FeaturesLog) -> Vec<Fields> {
    let row = |(fid, effects): (u8, Effects)| {
        let name = FeatureId(fid).name().unwrap_or("vendor specific");
        let named =
            Fields::default().with("fid", fid, format!("{fid:02x}h"), "").with("name", name, name, "");
        effects_of(named, effects)
    };
    (0..=255).zip(log.features).filter(|(_, effects)| effects.csupp()).map(row).collect()
}

fn effects_of(fields: Fields, effects: Effects) -> Fields {
    let alone = match effects.cse() {
        0 => "no",
        1 => "in the namespace",
        2 => "in the controller",
        _ => "reserved",
    };
    let changes = ["", "content", "namespaces", "inventory", "controller"];
    fields.bits("changes", effects.into_bits() & 0b1_1110, &changes, "").with("alone", alone, alone, "")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_device_answers_is_printed() {
        for pattern in [0x00, 0xff, 0x5a] {
            for len in [0, 1, 63, 512, 4096] {
                for page in (0..=255).map(LogPage) {
                    if let Some(decoded) = log(page, Csi::NVM, &vec![pattern; len]) {
                        decoded.write(&mut Vec::new()).unwrap();
                        serde_json::to_string(&decoded).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn ana_states_and_discovery_entries_are_decoded_to_a_row_each() {
        let mut page = vec![0; 16 + 32 + 8];
        (page[8], page[16], page[20], page[32]) = (1, 1, 2, AnaState::INACCESSIBLE.0);
        (page[48], page[52]) = (3, 7);
        let states = log(LogPage::ANA, Csi::NVM, &page).unwrap();
        let wanted = r#"[{"nsid":3,"state":"inaccessible"},{"nsid":7,"state":"inaccessible"}]"#;
        assert_eq!(serde_json::to_string(&states).unwrap(), wanted);
        let mut page = vec![0; 3 * DISCOVERY_RECORD_BYTES];
        page[8] = 1;
        (page[1024], page[1026], page[1028]) = (3, 2, 5);
        page[1024 + 512..][..9].copy_from_slice(b"192.0.2.1");
        let Some(Decoded::Entries(entries)) = log(LogPage::DISCOVERY, Csi::NVM, &page) else { panic!() };
        assert_eq!(entries.len(), 1);
        let entry = serde_json::to_value(&entries[0]).unwrap();
        assert_eq!((&entry["address"], &entry["port_id"]), (&"192.0.2.1".into(), &5.into()));
        assert_eq!(discovery_bytes(&page), 2048);
    }

    #[test]
    fn health_is_decoded_to_celsius_percent_and_hours() {
        let mut bytes = [0; 512];
        bytes[0] = 0b10;
        bytes[1..3].copy_from_slice(&313u16.to_le_bytes());
        bytes[32] = 3;
        let Some(Decoded::Fields(fields)) = log(LogPage::SMART, Csi::NVM, &bytes) else { panic!() };
        let text = fields.to_string();
        assert!(text.contains("40 °C") && text.contains("1.5 MiB"), "{text}");
        assert_eq!(serde_json::to_value(&fields).unwrap()["critical_warning"][0], "temperature");
    }
}
