//! Exec: programs over values of keys, which ones may run, and what ends them.

mod inline_reads;
mod lasting;
mod refusals;
mod timing;

use std::collections::BTreeMap;

use byway_controller::{AllowList, Allowed, SubsystemOptions};
use byway_link::Class;
use byway_programs::{BuiltIn, Program};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::vendor::{ExecFields, VendorArea};
use zerocopy::FromBytes;

use super::*;
use crate::common::TestHost;

/// The key-value namespace.
const KV: u32 = 4;

/// The operation of programs that are loaded here.
const OPERATION: u32 = 77;

/// Bytes of the buffer that the device has left alone.
const UNTOUCHED: u8 = 0xee;

/// The output is the value: six instructions a byte.
const COPY: [[u8; 8]; 12] = [
    [0x79, 0x16, 0, 0, 0, 0, 0, 0],             // r6 = the value
    [0x79, 0x17, 8, 0, 0, 0, 0, 0],             // r7 = its length
    [0x79, 0x18, 32, 0, 0, 0, 0, 0],            // r8 = room for the output
    [0xbf, 0x70, 0, 0, 0, 0, 0, 0],             // r0 = r7
    [0x15, 0x07, 6, 0, 0, 0, 0, 0],             // if r7 == 0 goto exit
    [0x71, 0x62, 0, 0, 0, 0, 0, 0],             // r2 = *(u8 *)r6
    [0x73, 0x28, 0, 0, 0, 0, 0, 0],             // *(u8 *)r8 = r2
    [0x07, 0x06, 0, 0, 1, 0, 0, 0],             // r6 += 1
    [0x07, 0x08, 0, 0, 1, 0, 0, 0],             // r8 += 1
    [0x07, 0x07, 0, 0, 0xff, 0xff, 0xff, 0xff], // r7 -= 1
    [0x55, 0x07, 0xfa, 0xff, 0, 0, 0, 0],       // if r7 != 0 goto -6
    [0x95, 0, 0, 0, 0, 0, 0, 0],
];

/// What `sha256sum` says of [`COPY`].
const COPY_SHA256: &str = "af1c459f7c1ecd5ee82e68eb651b51a6165731f69847e613622a02e70588f92b";

/// `output[0] = value[1]; output[1] = input[0]; return 2`.
const MIX: [[u8; 8]; 9] = [
    [0x79, 0x16, 0, 0, 0, 0, 0, 0],
    [0x71, 0x67, 1, 0, 0, 0, 0, 0],
    [0x79, 0x18, 32, 0, 0, 0, 0, 0],
    [0x73, 0x78, 0, 0, 0, 0, 0, 0],
    [0x79, 0x16, 16, 0, 0, 0, 0, 0],
    [0x71, 0x67, 0, 0, 0, 0, 0, 0],
    [0x73, 0x78, 1, 0, 0, 0, 0, 0],
    [0xb7, 0, 0, 0, 2, 0, 0, 0],
    [0x95, 0, 0, 0, 0, 0, 0, 0],
];

/// `goto -1`.
const FOREVER: [[u8; 8]; 1] = [[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]];

fn allowed(program: &[[u8; 8]]) -> Allowed {
    let loaded = Program::load(ProgramType::EBPF, None, program.as_flattened()).unwrap();
    Allowed::Sha256(*loaded.sha256().unwrap())
}

/// A device that allows these programs over values.
fn allowing(list: impl IntoIterator<Item = Allowed>) -> TestHost {
    let lists = BTreeMap::from([(KV, AllowList::from_iter(list))]);
    with_options(SubsystemOptions::default().exec_allowed(lists))
}

fn with_options(options: SubsystemOptions) -> TestHost {
    let mut host = TestHost::with_options(160 * MIB, &[nvm(8 * MIB, 512)], options);
    add_namespaces(&mut host);
    assert_eq!(create(&mut host, Csi::KV, 96 * MIB).dw0, KV);
    attach(&mut host, KV);
    store(&mut host, b"key", b"value");
    host
}

/// A device that allows one program, which is loaded and activated.
fn running(program: &[[u8; 8]]) -> TestHost {
    let mut host = allowing([allowed(program)]);
    install(&mut host, FREE, program);
    host
}

fn install(host: &mut TestHost, index: u16, program: &[[u8; 8]]) {
    let bytes = program.as_flattened();
    assert!(load(host, index, bytes.len() as u32, 0, bytes).is_success());
    assert!(activate(host, index).is_success());
}

fn store(host: &mut TestHost, key: &[u8], value: &[u8]) {
    let mut command = Command::new(KvOpcode::STORE.0, 0, KV);
    command.set_key(key);
    command.cdw10 = value.len() as u32;
    command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
    assert!(send(host, command, value).status().is_success());
}

fn remove(host: &mut TestHost, key: &[u8]) {
    let mut command = Command::new(KvOpcode::DELETE.0, 0, KV);
    command.set_key(key);
    command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
    assert!(host.execute(1, command).status().is_success());
}

fn request(key: &[u8], input: &[u8]) -> Vec<u8> {
    [&(key.len() as u16).to_le_bytes()[..], key, input].concat()
}

fn exec_command(operation: u32, request: &[u8], output_max_bytes: u32) -> Command {
    let mut command = Command::new(0x83, 0, KV);
    let request_bytes = request.len() as u32;
    ExecFields { request_bytes, output_max_bytes, operation }.write_to(&mut command);
    command
}

/// Executes an Exec whose buffer is of so many bytes, and gives the buffer afterwards.
fn exec_in(
    host: &mut TestHost,
    mut command: Command,
    request: &[u8],
    buffer: usize,
) -> (Completion, Vec<u8>) {
    let at = host.alloc(buffer);
    host.write(at, &vec![UNTOUCHED; buffer]);
    host.write(at, request);
    host.point_prps(&mut command, at, buffer);
    (host.execute(1, command), host.read(at, buffer))
}

/// The output of a program as far as it was taken, and its whole length.
fn exec(
    host: &mut TestHost,
    (operation, key, input): (u32, &[u8], &[u8]),
    output_max_bytes: u32,
) -> Result<(Vec<u8>, u32), Status> {
    let request = request(key, input);
    let buffer = request.len().max(output_max_bytes as usize) + 8;
    let command = exec_command(operation, &request, output_max_bytes);
    let (done, mut buffer) = exec_in(host, command, &request, buffer);
    if !done.status().is_success() {
        return Err(done.status().code());
    }
    let taken = done.dw0.min(output_max_bytes) as usize;
    let behind = buffer.split_off(taken.max(request.len()));
    assert!(behind.iter().all(|byte| *byte == UNTOUCHED), "bytes behind the output are left alone");
    buffer.truncate(taken);
    assert_eq!(done.dw1, 0);
    Ok((buffer, done.dw0))
}

#[test]
fn exec_of_hand_written_bytes_gives_the_output_and_its_length() {
    let mut host = allowing([COPY_SHA256.parse().unwrap()]);
    install(&mut host, FREE, &COPY);
    let at = host.alloc(4096);
    host.write(at, b"\x03\0keyinput");
    let mut bytes = [0; 64];
    bytes[0] = 0x83;
    bytes[4] = 4; // namespace
    bytes[24..32].copy_from_slice(&at.0.to_le_bytes());
    bytes[40] = 10; // bytes of the request
    bytes[48..50].copy_from_slice(&[0, 8]); // 2,048 bytes for the output
    bytes[52] = 77; // operation
    let done = host.execute(1, Command::read_from_bytes(&bytes).unwrap());
    assert_eq!((done.status(), done.dw0, done.dw1), (Status::SUCCESS, 5, 0));
    assert_eq!(host.read(at, 10), *b"valueinput");
}

#[test]
fn program_sees_value_and_input() {
    let mut host = running(&MIX);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b"input"), 8), Ok((b"ai".to_vec(), 2)));
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::INVALID_PROGRAM_DATA));
    store(&mut host, b"0123456789abcdef", b"xyz");
    assert_eq!(exec(&mut host, (OPERATION, b"0123456789abcdef", b"!"), 8), Ok((b"y!".to_vec(), 2)));
}

#[test]
fn output_is_cut_where_its_host_says_and_its_true_length_reported() {
    let mut host = running(&COPY);
    let value: Vec<u8> = (0..2000).map(|n| n as u8).collect();
    store(&mut host, b"key", &value);
    for taken in [0, 1, 1999, 2000, 2001, 9000] {
        let cut = value[..2000.min(taken as usize)].to_vec();
        assert_eq!(exec(&mut host, (OPERATION, b"key", &[5; 300]), taken), Ok((cut, 2000)), "{taken}");
    }
    store(&mut host, b"key", b"");
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 100), Ok((vec![], 0)));
}

#[test]
fn request_alone_is_read_from_a_buffer_that_is_longer() {
    let mut host = running(&COPY);
    for input in [&b""[..], &[5; 4091], &[5; 4092], &[5; 9000]] {
        let request = request(b"key", input);
        let before = *host.meter.ledger();
        let (done, _) = exec_in(&mut host, exec_command(OPERATION, &request, 20_000), &request, 20_000);
        assert!(done.status().is_success(), "{}", done.status());
        let read = host.meter.ledger().since(&before).row(Class::DataRead).cost;
        assert_eq!(read.payload_bytes, request.len() as u64);
    }
}

#[test]
fn exec_by_sgl_gives_what_it_gives_by_prp() {
    let mut host = running(&COPY);
    let request = request(b"key", b"");
    let at = host.alloc(100);
    for (bytes, status) in
        [(100, Status::SUCCESS), (99, Status::DATA_SGL_LENGTH_INVALID), (0, Status::DATA_SGL_LENGTH_INVALID)]
    {
        host.write(at, &request);
        let mut command = exec_command(OPERATION, &request, 100);
        command.set_sgl1(SglDescriptor::data_block(at.0, bytes));
        assert_eq!(host.execute(1, command).status().code(), status, "{bytes}");
    }
    host.write(at, &request);
    let mut command = exec_command(OPERATION, &request, 2);
    command.set_sgl1(SglDescriptor::data_block(at.0, 5));
    assert_eq!(host.execute(1, command).dw0, 5, "the buffer is as long as the longer of request and output");
    assert_eq!(host.read(at, 5), *b"vakey");
}

#[test]
fn programs_of_the_device_run_over_values_without_a_namespace_of_programs() {
    let mut host = allowing([Allowed::BuiltIn(BuiltIn::Crc32c)]);
    store(&mut host, b"key", b"123456789");
    assert!(delete(&mut host, PROGRAMS).is_success());
    // CRC-32C of "123456789", of the catalogue of parametrised CRC algorithms.
    let crc = 0xe306_9283_u64.to_le_bytes().to_vec();
    assert_eq!(exec(&mut host, (3, b"key", b""), 8), Ok((crc, 8)));
    assert_eq!(exec(&mut host, (4, b"key", b""), 8), Err(Status::OPERATION_DENIED));
    assert_eq!(exec(&mut host, (3, b"key", b"one"), 8), Err(Status::INVALID_FIELD), "no two parameters");
}

#[test]
fn of_programs_with_one_operation_the_first_allowed_one_runs() {
    let mut host = allowing([allowed(&COPY)]);
    install(&mut host, FREE, &MIX);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::OPERATION_DENIED));
    install(&mut host, FREE + 1, &COPY);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Ok((b"value".to_vec(), 5)));
}

#[test]
fn exec_is_announced_where_a_program_is_allowed() {
    let announced = |host: &mut TestHost| {
        let effects = |host: &mut TestHost, csi: Csi| {
            let page = host.log(LogPage::EFFECTS, csi, 4096).unwrap();
            number(&page, 1024 + 4 * 0x83, 4) & 1
        };
        (effects(host, Csi::KV), effects(host, Csi::NVM), vendor_area(host).exec_max_bytes)
    };
    assert_eq!(announced(&mut running(&COPY)), (1, 0, 1 << 20));
    assert_eq!(announced(&mut allowing([])), (0, 0, 0));
    assert_eq!(announced(&mut host()), (0, 0, 0));
}

fn vendor_area(host: &mut TestHost) -> VendorArea {
    let page = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    VendorArea::read_from_bytes(&page[3072..]).unwrap()
}
