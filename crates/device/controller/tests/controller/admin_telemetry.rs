//! Telemetry: what a host captures and reads in parts, and the page of what the controller captured by itself.

use crate::common::{TestHost, get_log, kv, number, nvm};
use crate::io::{DATA, Io, keyed};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId, TemperatureThreshold};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::base::register::{NSSR_MAGIC, Register};
use byway_spec::base::telemetry::TelemetryLsp;
use byway_spec::kv::KvOpcode;
use byway_spec::{Command, Status};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const BLOCK: usize = 512;
const HOST: LogPage = LogPage::TELEMETRY_HOST;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)])
}

/// A part of the host-initiated page; `creates` has the controller capture first.
fn part(host: &mut TestHost, creates: bool, offset: usize, len: usize) -> Result<Vec<u8>, Status> {
    let mut command = get_log(HOST, Csi::NVM, offset as u64, len);
    let lsp = TelemetryLsp::new().with_create(creates).into_bits();
    command.cdw10 = LogCdw10::from_bits(command.cdw10).with_lsp(lsp).into_bits();
    let (done, bytes) = host.admin_read(command, len);
    if done.status().is_success() { Ok(bytes) } else { Err(done.status()) }
}

/// Captures anew; the header.
fn capture(host: &mut TestHost) -> Vec<u8> {
    part(host, true, 0, BLOCK).unwrap()
}

/// The header as it is.
fn header(host: &mut TestHost) -> Vec<u8> {
    part(host, false, 0, BLOCK).unwrap()
}

/// Generation of the host-initiated page.
fn generation(header: &[u8]) -> u8 {
    header[381]
}

fn last_block(header: &[u8]) -> usize {
    number(header, 8, 2) as usize
}

/// The data of the last capture, by one command.
fn data(host: &mut TestHost) -> Vec<u8> {
    let blocks = last_block(&header(host));
    part(host, false, BLOCK, blocks * BLOCK).unwrap()
}

fn report(host: &mut TestHost) -> Value {
    serde_json::from_slice(&data(host)).unwrap()
}

#[test]
fn header_without_a_capture_says_that_there_is_no_data() {
    let mut host = host();
    let header = header(&mut host);
    assert_eq!((header[0], header[380], generation(&header)), (7, 1, 0), "of the controller");
    assert!(header[1..380].iter().all(|byte| *byte == 0), "no OUI, no data in any area");
    assert!(header[382..].iter().all(|byte| *byte == 0));
}

#[test]
fn captured_header_has_the_last_blocks_scope_generation_and_reason() {
    let mut host = host();
    let header = capture(&mut host);
    assert_eq!((header[0], header[380], generation(&header)), (7, 1, 1));
    let last = last_block(&header);
    assert!(last >= 1);
    assert_eq!((number(&header, 10, 2), number(&header, 12, 2)), (last as u64, last as u64));
    assert_eq!(number(&header, 16, 4), 0, "no area 4");
    assert_eq!(header[382..384], [0, 0], "nothing of the controller's own");
    assert!(header[384..].starts_with(b"healthy\0"));
    assert_eq!(data(&mut host).len(), last * BLOCK);
}

#[test]
fn report_is_one_json_text_with_health_counters_and_namespaces() {
    let mut host = host();
    assert!(host.admin(Command::new(0x7e, 0, 0)).status().is(Status::INVALID_OPCODE));
    capture(&mut host);
    let report = report(&mut host);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&report["profile"], &report["serial"]), (&"gen4x4".into(), &"TEST0001".into()));
    assert_eq!((&report["commands_in"], &report["modelled_ns"]), (&"rings".into(), &0.into()));
    assert_eq!(report["health"]["power_cycles"], 1);
    assert_eq!(report["media"]["worn_out"], false);
    assert_eq!(report["ledger"]["command_fetch"]["count"], 2, "{report}");
    assert_eq!(report["counters"]["program.gc"], 0, "{report}");
    assert_eq!(report["commands"], Value::Null, "they are not counted");
    let sets: Vec<&Value> =
        report["namespaces"].as_array().unwrap().iter().map(|one| &one["command_set"]).collect();
    assert_eq!(sets, ["nvm", "kv"]);
    let error = &report["errors"][0];
    assert_eq!((&error["error_count"], &error["text"]), (&1.into(), &"no such admin command".into()));
    assert_eq!(error["status"], "Invalid Command Opcode (0h/01h)");
}

#[test]
fn report_has_commands_by_type_and_status_where_they_are_counted() {
    let mut host = host();
    host.subsystem.count_commands();
    host.admin(Command::new(0x7e, 0, 0));
    host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    capture(&mut host);
    let commands = report(&mut host)["commands"].clone();
    let identified = commands["types"].as_array().unwrap().iter().find(|one| one["name"] == "Identify");
    assert_eq!(identified.unwrap()["succeeded"], 1, "{commands}");
    assert_eq!(commands["statuses"][0]["status"], "Invalid Command Opcode (0h/01h)");
}

#[test]
fn capture_is_the_same_in_all_parts_until_the_next() {
    let mut host = host();
    capture(&mut host);
    let whole = data(&mut host);
    // Each command is counted: a report made anew would differ.
    let parts =
        (0..whole.len()).step_by(BLOCK).flat_map(|at| part(&mut host, false, BLOCK + at, BLOCK).unwrap());
    assert_eq!(parts.collect::<Vec<u8>>(), whole);
    assert_eq!(generation(&header(&mut host)), 1);
    assert_eq!(generation(&capture(&mut host)), 2);
    assert_ne!(data(&mut host), whole);
}

#[test]
fn generation_goes_from_255_to_0() {
    let mut host = host();
    for round in 1..=257_u32 {
        assert_eq!(generation(&capture(&mut host)), round as u8);
    }
}

#[test]
fn blocks_behind_the_capture_are_left_alone_and_offsets_behind_it_refused() {
    let mut host = host();
    let end = (last_block(&capture(&mut host)) + 1) * BLOCK;
    let whole = part(&mut host, false, 0, end + BLOCK).unwrap();
    assert_eq!(whole[end..], [0; BLOCK]);
    assert!(part(&mut host, false, end + BLOCK, BLOCK).unwrap_err().is(Status::INVALID_FIELD));
}

#[test]
fn parts_that_are_no_whole_blocks_are_refused_and_nothing_is_captured() {
    let mut host = host();
    capture(&mut host);
    for (offset, len, byte) in [(4, BLOCK, 48), (256, BLOCK, 48), (0, 64, 42), (BLOCK, BLOCK + 4, 42)] {
        let refused = part(&mut host, true, offset, len).unwrap_err();
        assert!(refused.is(Status::INVALID_FIELD), "{offset} {len}");
        let log = host.log(LogPage::ERROR, Csi::NVM, 64).unwrap();
        assert_eq!(number(&log, 14, 2), byte, "{offset} {len}");
    }
    let own = LogPage::TELEMETRY_CONTROLLER;
    for (offset, len) in [(4, BLOCK), (0, 64)] {
        assert!(host.admin(get_log(own, Csi::NVM, offset, len)).status().is(Status::INVALID_FIELD));
    }
    assert_eq!(generation(&header(&mut host)), 1);
}

#[test]
fn resets_keep_the_capture() {
    let mut host = host();
    capture(&mut host);
    let (head, whole) = (header(&mut host), data(&mut host));
    host.reset();
    host.enable();
    assert!(header(&mut host) == head && data(&mut host) == whole, "controller reset");
    host.write_register(Register::NSSR, NSSR_MAGIC);
    host.reset();
    host.enable();
    assert!(header(&mut host) == head && data(&mut host) == whole, "subsystem reset");
}

#[test]
fn reason_names_the_critical_warnings() {
    let mut host = host();
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    command.cdw10 = FeatureCdw10::new().with_fid(FeatureId::TEMPERATURE_THRESHOLD).into_bits();
    command.cdw11 = TemperatureThreshold::new().with_tmpth_k(300).into_bits();
    assert!(host.admin(command).status().is_success());
    assert!(capture(&mut host)[384..].starts_with(b"temperature\0"));
}

#[test]
fn controller_initiated_page_is_a_header_without_data() {
    let mut host = host();
    capture(&mut host);
    let page = host.log(LogPage::TELEMETRY_CONTROLLER, Csi::NVM, 2 * BLOCK).unwrap();
    assert_eq!((page[0], page[381]), (8, 1), "of the controller");
    let rest = page.iter().enumerate().filter(|(at, _)| ![0, 381].contains(at));
    assert!(rest.into_iter().all(|(_, byte)| *byte == 0), "no data, none available, generation 0");
}

#[test]
fn telemetry_is_announced_with_both_pages_and_no_choice_of_areas() {
    let mut host = host();
    let identified = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(identified[261] & (1 << 3 | 1 << 6), 1 << 3, "LPA: telemetry, without area 4");
    let pages = host.log(LogPage::SUPPORTED_PAGES, Csi::NVM, 1024).unwrap();
    for page in [HOST, LogPage::TELEMETRY_CONTROLLER] {
        assert_eq!(number(&pages, usize::from(page.0) * 4, 4), 1, "supported, and no MCDA");
    }
}

#[test]
fn report_has_no_keys_values_or_blocks() {
    let mut io = Io::new();
    let (key, value) = (b"key-of-telemetry", [b'Z'; 600]);
    let mut command = keyed(KvOpcode::STORE.0, key, value.len());
    io.put(DATA, &value);
    io.point_prps(&mut command, DATA, value.len());
    assert!(io.run(command).status().is_success());
    let mut unknown = keyed(KvOpcode::RETRIEVE.0, b"key-without-one", 64);
    io.point_prps(&mut unknown, DATA, 64);
    assert!(io.run(unknown).status().is(Status::KEY_DOES_NOT_EXIST));
    capture(&mut io.host);
    let text = String::from_utf8(data(&mut io.host)).unwrap();
    assert!(text.contains("\"pairs\":1"), "{text}");
    assert!(!text.contains("key-") && !text.contains("ZZZZ"), "{text}");
}
