//! Exec: programs over values of keys, whatever carries the commands. The device is opened with [`OPTION`].

use std::time::Duration;

use byway::compute::Programs;
use byway::spec::programs::ProgramType;
use byway::spec::vendor::{ExecFields, VendorOpcode};
use byway::spec::{Command as Entry, Status};
use byway::{
    Backend, BackendQueue, Command, Device, ErrorKind, Finished, Key, Kv, KvCommand, Nsid, Queue, RawCommand,
    RawData, Result,
};

/// Allows CRC-32C, [`COPY`] and [`ENDLESS`] over values of namespace 1: what `sha256sum` says of them.
pub const OPTION: &str = "exec=1:crc32c,\
    1:af1c459f7c1ecd5ee82e68eb651b51a6165731f69847e613622a02e70588f92b,\
    1:d463823c627479cd6d4413ef615d0dfe0bae188ccc726967e72462561b969188";

/// Far longer than anything here takes: a hang fails the test.
const LONG: Duration = Duration::from_secs(60);

/// The first index that takes programs of hosts, and the operation that their programs are.
const FREE: u16 = 5;
const OPERATION: u32 = 77;
const CRC32C: u32 = 3;

/// The output is the value: a loop of six instructions a byte.
const COPY: [u8; 96] = [
    0x79, 0x16, 0, 0, 0, 0, 0, 0, 0x79, 0x17, 8, 0, 0, 0, 0, 0, 0x79, 0x18, 32, 0, 0, 0, 0, 0, 0xbf, 0x70, 0,
    0, 0, 0, 0, 0, 0x15, 0x07, 6, 0, 0, 0, 0, 0, 0x71, 0x62, 0, 0, 0, 0, 0, 0, 0x73, 0x28, 0, 0, 0, 0, 0, 0,
    0x07, 0x06, 0, 0, 1, 0, 0, 0, 0x07, 0x08, 0, 0, 1, 0, 0, 0, 0x07, 0x07, 0, 0, 0xff, 0xff, 0xff, 0xff,
    0x55, 0x07, 0xfa, 0xff, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0,
];

/// `goto -1`.
const ENDLESS: [u8; 8] = [0x05, 0, 0xff, 0xff, 0, 0, 0, 0];

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A device's values, and a namespace of programs with one that is activated.
fn made(device: &Device, program: &[u8]) -> (Kv, Programs) {
    let mut programs = device.programs(device.create_programs().unwrap()).unwrap();
    programs.load(FREE, ProgramType::EBPF, Some(OPERATION.into()), program).unwrap();
    programs.activate(FREE).unwrap();
    (device.kv(None).unwrap(), programs)
}

fn unmade(device: &Device, programs: Programs) {
    let nsid = programs.nsid();
    drop(programs);
    device.delete_namespace(nsid).unwrap();
}

/// The status of a refused call.
#[track_caller]
fn refusal<R>(result: Result<R>) -> Status {
    let error = result.err().expect("it is refused");
    error.nvme_status().unwrap_or_else(|| panic!("the host refused it: {error}")).code()
}

/// Programs of the device and of hosts, over short and long values: the output as far as it is taken, and its whole length.
pub fn exec_gives_the_output_of_a_program_over_a_value(device: &Device) {
    let (mut kv, programs) = made(device, &COPY);
    kv.put(b"key", b"123456789").unwrap();
    let mut crc = [0; 8];
    assert_eq!(kv.exec(b"key", CRC32C, b"", &mut crc).unwrap(), 8);
    assert_eq!(u64::from_le_bytes(crc), 0xe306_9283);
    for len in [0, 1, 15, 16, 225, 226, 5000, 200_000] {
        let value = pattern(len);
        kv.put(b"key", &value).unwrap();
        for room in [0, 1, len, len + 1000] {
            let mut into = vec![0xee; room];
            assert_eq!(kv.exec(b"key", OPERATION, b"some input", &mut into).unwrap(), len);
            let taken = room.min(len);
            assert!(into[..taken] == value[..taken], "{len} bytes into {room}");
            assert!(into[taken..].iter().all(|byte| *byte == 0xee), "what is behind the output stays");
        }
    }
    // A request longer than any capsule, and than the output.
    kv.put(b"key", b"value").unwrap();
    let mut into = [0; 8];
    assert_eq!(kv.exec(b"key", OPERATION, &pattern(300_000), &mut into).unwrap(), 5);
    assert_eq!(&into, b"value\0\0\0");
    unmade(device, programs);
}

/// What Exec refuses says why, and the namespace goes on.
pub fn exec_refuses_what_it_may_not_run(device: &Device) {
    let (mut kv, mut programs) = made(device, &COPY);
    kv.put(b"key", b"value").unwrap();
    let mut into = [0; 8];
    assert_eq!(refusal(kv.exec(b"key", 4, b"", &mut into)), Status::OPERATION_DENIED);
    assert_eq!(refusal(kv.exec(b"key", 99, b"", &mut into)), Status::NO_PROGRAM);
    assert_eq!(kv.exec(b"none", CRC32C, b"", &mut into).unwrap_err().kind(), ErrorKind::KeyNotFound);
    assert_eq!(refusal(kv.exec(b"key", CRC32C, b"odd", &mut into)), Status::INVALID_FIELD);
    assert!(kv.exec(b"", CRC32C, b"", &mut into).is_err());
    let mut other = COPY;
    // r0 = 0 in place of the length.
    other[24..32].copy_from_slice(&[0xb7, 0, 0, 0, 0, 0, 0, 0]);
    programs.load(FREE + 1, ProgramType::EBPF, Some(78), &other).unwrap();
    programs.activate(FREE + 1).unwrap();
    assert_eq!(refusal(kv.exec(b"key", 78, b"", &mut into)), Status::OPERATION_DENIED);
    assert_eq!(kv.exec(b"key", OPERATION, b"", &mut into).unwrap(), 5);
    unmade(device, programs);
}

fn next(queue: &mut Queue) -> Finished {
    queue.next_within(LONG).unwrap().expect("a command is lost")
}

/// A program that loops keeps no other command waiting, and Abort ends it.
pub fn exec_that_loops_goes_on_beside_other_commands_until_it_is_aborted(device: &Device) {
    let (mut kv, mut programs) = made(device, &ENDLESS);
    kv.put(b"key", b"value").unwrap();
    let mut other = device.kv(None).unwrap();
    let (nsid, queue) = (other.nsid(), other.queue());
    queue.submit(endless(device, nsid), 7).unwrap();
    // Behind it in its queue: once this one is done, the program runs.
    queue.submit(KvCommand::Exist { nsid, key: Key::new(b"key").unwrap() }.into(), 8).unwrap();
    queue.start().unwrap();
    let done = next(queue);
    assert_eq!((done.tag, done.result.is_ok()), (8, true));
    for number in 0..100_u32 {
        kv.put(&number.to_be_bytes(), &pattern(100)).unwrap();
        assert_eq!(kv.get(&number.to_be_bytes()).unwrap().unwrap(), pattern(100));
    }
    assert_eq!(refusal(programs.deactivate(FREE)), Status::PROGRAM_IN_USE);
    queue.cancel(7).unwrap();
    let finished = next(queue);
    assert_eq!(finished.tag, 7);
    assert_eq!(finished.result.unwrap_err().error.kind(), ErrorKind::Cancelled);
    programs.deactivate(FREE).unwrap();
    unmade(device, programs);
}

fn endless(device: &Device, nsid: Nsid) -> Command {
    let mut buffer = device.buffer(64).unwrap();
    buffer.as_mut_slice()[..5].copy_from_slice(b"\x03\0key");
    let mut entry = Entry::new(VendorOpcode::KV_EXEC.0, 0, nsid.get());
    ExecFields { request_bytes: 5, output_max_bytes: 64, operation: OPERATION }.write_to(&mut entry);
    RawCommand { entry, data: RawData::Both { buffer, sent_bytes: 5 } }.into()
}
