//! Peers that break rules, are slow, read nothing, or go in the middle: their connection ends at most, and others go on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use byway_nvme_tcp::{CommandId, H2cData, IcReq, TransferTag};
use byway_spec::Status;
use byway_spec::nvm::NvmOpcode;
use byway_spec::tcp::FatalStatus;

use crate::host::{By, End, Host, Proposal, blocks, pattern};
use crate::served::{Served, TIMEOUT};

/// A served device, and a host of it that must not notice anything.
struct Scene {
    served: Served,
    _admin: Host,
    witness: Host,
}

impl Scene {
    fn new() -> Self {
        let served = Served::with(|options| options.target.threads = 2.try_into().unwrap());
        let (admin, mut witness) = served.host(Proposal::DIGESTS);
        let data = pattern(77, 4096);
        assert!(
            witness.write(blocks(NvmOpcode::WRITE, 60_000, 4096), By::Capsule, &data).status().is_success()
        );
        Self { served, _admin: admin, witness }
    }

    fn check(&mut self) {
        assert!(self.witness.read(blocks(NvmOpcode::READ, 60_000, 4096), 4096).1 == pattern(77, 4096));
    }
}

fn fatal(host: &mut Host) -> FatalStatus {
    match host.wait_for_end() {
        End::Terminated(request) => request.status,
        End::Closed => panic!("closed without a word"),
    }
}

#[test]
fn bytes_that_are_no_pdu_end_their_connection_alone() {
    let mut scene = Scene::new();
    let mut request = IcReq::default().encode();
    request[8] = 1;
    let get = b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n".to_vec();
    let version = request.to_vec();
    let long = [vec![4, 0, 72, 0], u32::MAX.to_le_bytes().to_vec()].concat();
    for bytes in [get, version, long, vec![0xff; 4096], vec![0; 300]] {
        let mut stream = TcpStream::connect(scene.served.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        // What was not read by then may have the connection reset.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || [1, 3].contains(&answer[0]), "{answer:?}");
        scene.check();
    }
}

#[test]
fn second_icreq_stray_data_and_oversized_data_are_terminated() {
    let mut scene = Scene::new();
    let mut host = scene.served.greet(Proposal::default());
    host.stream.write_all(&IcReq::default().encode()).unwrap();
    assert_eq!(fatal(&mut host), FatalStatus::SEQUENCE_ERROR);
    scene.check();

    for tag in [0, 7, u16::MAX] {
        let (_admin, mut io) = scene.served.host(Proposal::default());
        let at = H2cData { command: CommandId(1), tag: TransferTag(tag), offset_bytes: 0, last: true };
        let mut wire = Vec::new();
        io.writer.data(&at, &[&[0; 512]]).append_to(&mut wire);
        io.stream.write_all(&wire).unwrap();
        assert_eq!(fatal(&mut io), FatalStatus::INVALID_HEADER_FIELD);
        scene.check();
    }

    let (_admin, mut io) = scene.served.host(Proposal::default());
    io.start(blocks(NvmOpcode::WRITE, 0, 16896), By::Capsule, &pattern(1, 16896));
    assert_eq!(fatal(&mut io), FatalStatus::INVALID_HEADER_FIELD);
    scene.check();
}

#[test]
fn data_out_of_order_and_past_its_end_is_out_of_range() {
    let mut scene = Scene::new();
    for (offset_bytes, bytes) in [(512, 512), (0, 8192), (u32::MAX - 3, 512)] {
        let (_admin, mut io) = scene.served.host(Proposal::default());
        let mut command = blocks(NvmOpcode::WRITE, 0, 4096);
        command.cdw0.set_cid(9);
        let descriptor = byway_spec::base::sgl::SglKind::TRANSPORT_DATA_BLOCK;
        command.set_sgl1(byway_spec::base::sgl::SglDescriptor::new(descriptor, 0, 4096));
        let mut wire = Vec::new();
        io.writer.command(&command, &[]).append_to(&mut wire);
        let at = H2cData { command: CommandId(9), tag: TransferTag(0), offset_bytes, last: false };
        io.writer.data(&at, &[&vec![0; bytes]]).append_to(&mut wire);
        io.stream.write_all(&wire).unwrap();
        // The R2T comes first; the host of these tests has no such command, so that its bytes are looked at here.
        let mut answer = Vec::new();
        let _ = io.stream.read_to_end(&mut answer);
        let request = answer.windows(3).position(|head| head == [3, 0, 24]).expect("a termination request");
        assert_eq!(answer[request + 8], FatalStatus::OUT_OF_RANGE.0 as u8);
        scene.check();
    }
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_a_wrong_data_digest_the_command() {
    let mut scene = Scene::new();
    let (_admin, mut io) = scene.served.host(Proposal::DIGESTS);
    let before = pattern(8, 4096);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &before).status().is_success());
    let wire = |io: &mut Host, cid: u16| {
        let mut command = blocks(NvmOpcode::WRITE, 0, 4096);
        command.cdw0.set_cid(cid);
        command.set_sgl1(byway_spec::base::sgl::SglDescriptor::inline(4096));
        let mut wire = Vec::new();
        io.writer.command(&command, &[&pattern(9, 4096)]).append_to(&mut wire);
        wire
    };
    // Known to the host as a command with that number, so that it takes the answer.
    let cid = io.start(blocks(NvmOpcode::WRITE, 64, 4096), By::Capsule, &before);
    assert!(io.wait(cid).0.status().is_success());
    let mut corrupt = wire(&mut io, 500);
    *corrupt.last_mut().unwrap() ^= 1;
    io.stream.write_all(&corrupt).unwrap();
    let mut answer = [0; 28];
    io.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 5, "a response");
    let status = Status(u16::from_le_bytes([answer[22], answer[23]]) >> 1);
    assert!(status.is(Status::TRANSIENT_TRANSPORT_ERROR), "{status:?}");
    assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == before, "nothing was written");
    let mut corrupt = wire(&mut io, 501);
    corrupt[72] ^= 1;
    io.stream.write_all(&corrupt).unwrap();
    assert_eq!(fatal(&mut io), FatalStatus::HEADER_DIGEST_ERROR);
    scene.check();
}

#[test]
fn a_wrong_digest_of_data_that_was_asked_for_fails_its_command_alone() {
    let mut scene = Scene::new();
    let (_admin, mut io) = scene.served.host(Proposal::DIGESTS);
    let before = pattern(8, 64 << 10);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, before.len()), By::R2t, &before).status().is_success());
    // In data that comes with its header, that comes where it belongs, at its end, and in the digest.
    for corrupt_at in [100, 40_000, 28 + before.len() - 1, 28 + before.len() + 2] {
        let mut command = blocks(NvmOpcode::WRITE, 0, before.len());
        command.cdw0.set_cid(500);
        let descriptor = byway_spec::base::sgl::SglKind::TRANSPORT_DATA_BLOCK;
        command.set_sgl1(byway_spec::base::sgl::SglDescriptor::new(descriptor, 0, before.len() as u32));
        let mut wire = Vec::new();
        io.writer.command(&command, &[]).append_to(&mut wire);
        io.stream.write_all(&wire).unwrap();
        let mut asked = [0; 28];
        io.stream.read_exact(&mut asked).unwrap();
        let tag = TransferTag(u16::from_le_bytes([asked[10], asked[11]]));
        let at = H2cData { command: CommandId(500), tag, offset_bytes: 0, last: true };
        let mut wire = Vec::new();
        io.writer.data(&at, &[&pattern(9, before.len())]).append_to(&mut wire);
        wire[corrupt_at] ^= 1;
        wire.chunks(7001).for_each(|piece| io.stream.write_all(piece).unwrap());
        let mut answer = [0; 28];
        io.stream.read_exact(&mut answer).unwrap();
        let status = Status(u16::from_le_bytes([answer[22], answer[23]]) >> 1);
        assert!(status.is(Status::TRANSIENT_TRANSPORT_ERROR), "{corrupt_at}: {status:?}");
        assert!(io.read(blocks(NvmOpcode::READ, 0, before.len()), before.len()).1 == before);
    }
    scene.check();
}

#[test]
fn more_commands_than_a_queue_has_entries_end_it() {
    let mut scene = Scene::new();
    let admin = scene.served.admin(Proposal::default());
    let shallow = Proposal { entries: Some(2), ..Proposal::default() };
    let mut io = scene.served.queue(&admin, 1, shallow);
    for _ in 0..3 {
        // None of them gets its data: the host does not look for what it is asked.
        io.start(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &pattern(1, 4096));
    }
    let mut rest = Vec::new();
    let _ = io.stream.read_to_end(&mut rest);
    scene.check();
    until_connected(&scene.served, &admin);
}

fn until_connected(served: &Served, admin: &Host) {
    let end = std::time::Instant::now() + TIMEOUT;
    while served.greet(Proposal::default()).connect_io(1, admin.controller()).is_err() {
        assert!(std::time::Instant::now() < end);
    }
}

#[test]
fn disconnect_in_the_middle_of_data_leaves_other_hosts_served() {
    let mut scene = Scene::new();
    for bytes in [0, 1, 100, 4096, 60_000] {
        let (admin, mut io) = scene.served.host(Proposal::default());
        let data = pattern(1, 65536);
        io.start(blocks(NvmOpcode::WRITE, 0, 65536), By::R2t, &data);
        let at = H2cData { command: CommandId(2), tag: TransferTag(0), offset_bytes: 0, last: true };
        let mut wire = Vec::new();
        io.writer.data(&at, &[&data]).append_to(&mut wire);
        io.stream.write_all(&wire[..bytes]).unwrap();
        drop((admin, io));
        scene.check();
    }
}

#[test]
fn a_host_that_says_one_byte_after_the_other_is_served() {
    let mut scene = Scene::new();
    let (_admin, mut io) = scene.served.host(Proposal::DIGESTS);
    let data = pattern(6, 512);
    let mut command = blocks(NvmOpcode::WRITE, 0, 512);
    command.cdw0.set_cid(700);
    command.set_sgl1(byway_spec::base::sgl::SglDescriptor::inline(512));
    let mut wire = Vec::new();
    io.writer.command(&command, &[&data]).append_to(&mut wire);
    for byte in wire.chunks(1) {
        io.stream.write_all(byte).unwrap();
    }
    let mut answer = [0; 28];
    // With flow control off a write is answered by a response all the same: it has no data.
    io.stream.read_exact(&mut answer).unwrap();
    assert_eq!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).1, data);
    scene.check();
}

#[test]
fn a_host_that_reads_nothing_gets_everything_once_it_does_and_others_do_not_wait() {
    let mut scene = Scene::new();
    let (_admin, mut io) = scene.served.host(Proposal::default());
    let data = pattern(2, 1 << 20);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, 1 << 20), By::R2t, &data).status().is_success());
    let reads: Vec<u16> =
        (0..100).map(|_| io.start_read(blocks(NvmOpcode::READ, 0, 1 << 20), 1 << 20)).collect();
    for _ in 0..50 {
        scene.check();
    }
    for cid in reads {
        let (done, got) = io.wait(cid);
        assert!(done.status().is_success());
        assert!(got == data);
    }
}

#[test]
fn connections_closed_before_connect_leak_nothing() {
    let mut scene = Scene::new();
    for round in 0..1000 {
        let stream = TcpStream::connect(scene.served.address()).unwrap();
        match round % 3 {
            0 => drop(stream),
            1 => drop((&stream).write_all(&IcReq::default().encode())),
            _ => drop(stream.shutdown(Shutdown::Both)),
        }
    }
    scene.check();
    scene.served.admin(Proposal::default());
}
