//! What both ends of NVMe/TCP send, read by Wireshark's dissector, which is independent of this project.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use byway::serve::{ServeOptions, TcpOptions};
use byway::{CreateOptions, NewNamespace};
use byway_conformance::keys::every_call;
use byway_conformance::recording::Recording;
use byway_conformance::scratch::Scratch;
use byway_conformance::served::Serving;
use byway_conformance::subject::Subject;
use byway_conformance::{blocks, skips};

/// ICReq, ICResp, C2HTermReq, command and response capsules, data either way, R2T: all but H2CTermReq.
const TYPES: [u64; 8] = [0, 1, 3, 4, 5, 6, 7, 9];

/// A digest that is what the dissector computes.
const GOOD: u64 = 1;

/// What the dissector makes of a file.
#[derive(Debug, Default)]
struct Dissected {
    pdu_bytes: u64,
    types: BTreeSet<u64>,
    /// Verdicts on digests, and how many there are.
    header_digests: BTreeMap<u64, u64>,
    data_digests: BTreeMap<u64, u64>,
    complaints: Vec<String>,
}

fn serving(scratch: &Scratch) -> Serving {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM, NewNamespace::KV];
    byway::create(&scratch.path, &CreateOptions::new(64 << 20).namespaces(namespaces)).unwrap();
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    Serving::start_with(&format!("embedded:{}", scratch.path.display()), &options)
}

/// Discovery, blocks in capsules and asked for, keys and values, and a host that cannot be understood.
fn talk(address: SocketAddr, nqn: &str, digests: &str) {
    byway::discover(&format!("tcp://{address}")).unwrap();
    let device = byway::open(&format!("tcp://{address}/{nqn}?digests={digests}")).unwrap();
    let scratch = Scratch::new();
    let subject = Subject::new(&scratch, &device);
    blocks::what_is_written_at_every_offset_and_size_reads_back(&subject);
    blocks::what_several_buffers_send_several_others_receive(&subject);
    blocks::zeroed_and_deallocated_blocks_read_as_zeroes_and_their_neighbours_stay(&subject);
    blocks::a_comparison_finds_equal_and_different(&subject);
    let mut kv = device.kv(None).unwrap();
    every_call(&mut kv);
    let large: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    kv.put(b"large", &large).unwrap();
    assert_eq!(kv.get(b"large").unwrap().as_deref(), Some(&large[..]));
    gets_an_error_that_names_the_fault(address);
}

/// An ICReq of a version that there is not.
fn gets_an_error_that_names_the_fault(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request = [0; 128];
    request[2] = 128;
    request[4] = 128;
    request[8] = 0xFF;
    stream.write_all(&request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.first(), Some(&3), "a C2HTermReq");
}

fn dissect(path: &Path) -> Dissected {
    let mut dissected = Dissected::default();
    let fields = ["type", "plen", "hdgst.status", "ddgst.status"].map(|name| format!("nvme-tcp.{name}"));
    for row in tshark(path, "nvme-tcp", &fields) {
        let mut columns = row.split('\t').map(numbers);
        let mut column = || columns.next().unwrap();
        dissected.types.extend(column());
        dissected.pdu_bytes += column().iter().sum::<u64>();
        count(&mut dissected.header_digests, column());
        count(&mut dissected.data_digests, column());
    }
    let wrong = "_ws.malformed || nvme-tcp.unknown_data || _ws.expert.severity >= 0x600000";
    dissected.complaints = tshark(path, wrong, &["frame.number".to_owned(), "_ws.col.Info".to_owned()]);
    dissected
}

/// The values of a field in one frame, as some versions of the dissector write them and as others do.
fn numbers(column: &str) -> Vec<u64> {
    let values = column.split(',').filter(|value| !value.is_empty());
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    values.map(|value| number(value).unwrap()).collect()
}

fn count(counts: &mut BTreeMap<u64, u64>, verdicts: Vec<u64>) {
    verdicts.into_iter().for_each(|verdict| *counts.entry(verdict).or_default() += 1);
}

/// A line for each frame that `filter` lets through.
fn tshark(path: &Path, filter: &str, fields: &[String]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-Y", filter, "-T", "fields"]);
    command.args(["-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_dissects_host_and_target_pdus_without_errors() {
    if !skips::has("tshark", "tshark_dissects_host_and_target_pdus_without_errors") {
        return;
    }
    for (digests, of_header, of_data) in
        [("none", false, false), ("header", true, false), ("data", false, true), ("both", true, true)]
    {
        let scratch = Scratch::new();
        let serving = serving(&scratch);
        let kept = Scratch::new();
        let recording = Recording::start(serving.tcp_address(), &kept.path);
        let nqn = serving.tcp_uri();
        talk(recording.address(), nqn.rsplit_once('/').unwrap().1, digests);
        let bytes = recording.finish();
        let found = dissect(&kept.path);
        assert!(found.complaints.is_empty(), "digests {digests}: {:#?}", found.complaints);
        assert_eq!(found.pdu_bytes, bytes, "digests {digests}: every byte is of a PDU");
        assert_eq!(found.types, TYPES.into(), "digests {digests}");
        for (verdicts, wanted) in [(&found.header_digests, of_header), (&found.data_digests, of_data)] {
            let right = verdicts.get(&GOOD).copied().unwrap_or_default();
            assert_eq!(right > 0, wanted, "digests {digests}: {found:?}");
            assert_eq!(right, verdicts.values().sum::<u64>(), "digests {digests}: {found:?}");
        }
    }
}
