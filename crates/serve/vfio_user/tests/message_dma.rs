//! Hosts that map memory without a descriptor: the server asks them for its bytes.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byway_flash::{Durability, RunOptions};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_vfio_user::DMA_REPLY_TIMEOUT;
use byway_vfio_user_wire::{
    Capabilities, DmaMap, DmaRange, DmaUnmap, Errno, HEADER_BYTES, Header, Kind, RegionIndex, Reply, Request,
    TwinSocket, Version, encode_error,
};
use common::host::{blocks, fd, mapping};
use common::{Host, Served};
use parking_lot::Mutex;

/// Where memory without a descriptor is mapped.
const FAR_AT: u64 = 0x40_0000_0000;
const FAR_BYTES: u64 = 1 << 16;

/// How a host answers what it is asked.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Honest,
    Refusing,
    Silent,
    Lying,
    Slow,
    /// Replies on request of the test.
    Held,
}

/// How long a slow host takes for each answer.
const SLOWNESS: Duration = Duration::from_millis(1500);

/// A client whose DMA messages a thread answers.
struct FarHost {
    host: Host,
    memory: Arc<Mutex<Vec<u8>>>,
    asked: Arc<Mutex<u32>>,
    /// Has the thread answer that holds its answers back.
    answer: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: UnixStream,
}

impl FarHost {
    fn new(served: &Served, manner: Manner) -> Self {
        let capabilities = Capabilities {
            twin_socket: Some(TwinSocket { supported: true, fd_index: None }),
            max_data_xfer_size: Some(1024),
            ..Capabilities::default()
        };
        let version = Version { major: 0, minor: 0, capabilities };
        let (client, twin) = served.client_with_twin(&Request::Version(version));
        let mut host = Host::over(client);
        let range = DmaRange::new(FAR_AT, FAR_BYTES).unwrap();
        let map = DmaMap { range, file_offset: 0, readable: true, writable: true };
        host.client.ask(&Request::DmaMap(map)).unwrap();
        let memory = Arc::new(Mutex::new(vec![0; FAR_BYTES as usize]));
        let asked = Arc::new(Mutex::new(0));
        let socket = UnixStream::from(twin);
        let (theirs, bytes, count) = (socket.try_clone().unwrap(), Arc::clone(&memory), Arc::clone(&asked));
        let (answer, held) = channel();
        let thread = std::thread::spawn(move || answer_all(theirs, &bytes, &count, manner, &held));
        Self { host, memory, asked, answer: Some(answer), thread: Some(thread), socket }
    }

    fn write(&mut self, lba: u64, data: &[u8]) -> Status {
        self.memory.lock()[..data.len()].copy_from_slice(data);
        let command = blocks(NvmOpcode::WRITE, lba, data.len(), FAR_AT);
        self.host.execute(1, command).status()
    }

    /// Waits until the host has been asked so often.
    fn await_asked(&self, times: u32) {
        let until = Instant::now() + 4 * DMA_REPLY_TIMEOUT;
        while *self.asked.lock() < times {
            assert!(Instant::now() < until, "the host was not asked");
            std::thread::yield_now();
        }
    }

    fn read(&mut self, lba: u64, bytes: usize) -> Vec<u8> {
        let command = blocks(NvmOpcode::READ, lba, bytes, FAR_AT + 0x8000);
        assert!(self.host.execute(1, command).status().is_success());
        self.memory.lock()[0x8000..0x8000 + bytes].to_vec()
    }
}

impl Drop for FarHost {
    fn drop(&mut self) {
        self.answer = None;
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer_all(
    mut socket: UnixStream,
    memory: &Mutex<Vec<u8>>,
    asked: &Mutex<u32>,
    manner: Manner,
    held: &Receiver<()>,
) {
    let mut header = [0; HEADER_BYTES];
    while socket.read_exact(&mut header).is_ok() {
        let header = Header::parse(&header);
        assert!(header.kind == Kind::Command);
        let mut payload = vec![0; header.size_bytes as usize - HEADER_BYTES];
        socket.read_exact(&mut payload).unwrap();
        *asked.lock() += 1;
        let mut out = Vec::new();
        let request = Request::parse(header.command, &payload).unwrap();
        match manner {
            Manner::Silent => continue,
            Manner::Refusing => encode_error(&header, Errno::EFAULT, &mut out),
            Manner::Lying => Reply::DmaRead { address: 1, data: &[0; 1024] }.encode(&header, &mut out),
            Manner::Slow | Manner::Honest | Manner::Held => {
                honest(&header, &request, &mut memory.lock(), &mut out)
            }
        }
        if manner == Manner::Held {
            // Until it may answer, or the connection ends.
            let _ = held.recv();
        }
        if manner == Manner::Slow {
            std::thread::sleep(SLOWNESS);
        }
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

fn honest(header: &Header, request: &Request<'_>, memory: &mut [u8], out: &mut Vec<u8>) {
    match *request {
        Request::DmaRead { address, bytes } => {
            assert!(bytes <= 1024, "more than the host takes with one message");
            let from = (address - FAR_AT) as usize;
            Reply::DmaRead { address, data: &memory[from..from + bytes as usize] }.encode(header, out);
        }
        Request::DmaWrite { address, data } => {
            let to = (address - FAR_AT) as usize;
            memory[to..to + data.len()].copy_from_slice(data);
            Reply::DmaWritten { address, bytes: data.len() as u32 }.encode(header, out);
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn data_travels_by_messages_where_memory_came_without_a_descriptor() {
    let served = Served::new();
    let mut far = FarHost::new(&served, Manner::Honest);
    let data: Vec<u8> = (0..4096).map(|at| (at % 253) as u8).collect();
    assert!(far.write(8, &data).is_success());
    assert!(*far.asked.lock() >= 4);
    assert_eq!(far.read(8, 4096), data);
}

#[test]
fn commands_fail_if_the_host_refuses_or_corrupts_dma_messages() {
    for manner in [Manner::Refusing, Manner::Lying] {
        let served = Served::new();
        let mut far = FarHost::new(&served, manner);
        assert!(far.write(0, &[1; 512]).is(Status::DATA_TRANSFER_ERROR));
        // Memory that it shares is reached as before.
        far.host.write_blocks(0, &[2; 512]);
        assert_eq!(far.host.read_blocks(0, 512), [2; 512]);
    }
}

#[test]
fn dma_message_to_a_silent_host_times_out_once() {
    let served = Served::new();
    let mut far = FarHost::new(&served, Manner::Silent);
    let since = Instant::now();
    assert!(far.write(0, &[1; 512]).is(Status::DATA_TRANSFER_ERROR));
    assert!(since.elapsed() >= DMA_REPLY_TIMEOUT && since.elapsed() < 3 * DMA_REPLY_TIMEOUT);
    for _ in 0..50 {
        assert!(far.write(0, &[1; 512]).is(Status::DATA_TRANSFER_ERROR));
    }
    assert_eq!(*far.asked.lock(), 1);
    drop(far);
    let mut next = FarHost::new(&served, Manner::Honest);
    assert!(next.write(0, &[3; 512]).is_success());
}

#[test]
fn a_host_that_answers_each_time_and_late_is_waited_for_no_longer_than_one_that_does_not() {
    let served = Served::new();
    let mut far = FarHost::new(&served, Manner::Slow);
    // As many questions as a page takes.
    assert!(far.write(0, &[1; 4096]).is(Status::DATA_TRANSFER_ERROR));
    let asked = *far.asked.lock();
    assert!(
        u128::from(asked) <= DMA_REPLY_TIMEOUT.as_millis() / SLOWNESS.as_millis() + 1,
        "{asked} questions"
    );
    assert!(far.write(0, &[1; 512]).is(Status::DATA_TRANSFER_ERROR));
    assert_eq!(*far.asked.lock(), asked);
    // Memory that it shares is reached as before.
    far.host.write_blocks(0, &[2; 512]);
}

#[test]
fn a_host_s_time_begins_anew_with_each_of_its_messages() {
    let served = Served::new();
    let mut far = FarHost::new(&served, Manner::Slow);
    for lba in 0..4 {
        assert!(far.write(lba, &[1; 512]).is_success());
    }
}

#[test]
fn a_range_that_was_unmapped_is_not_asked_for() {
    let served = Served::new();
    let mut far = FarHost::new(&served, Manner::Honest);
    assert!(far.write(0, &[1; 512]).is_success());
    let asked = *far.asked.lock();
    let range = DmaRange::new(FAR_AT, FAR_BYTES).unwrap();
    far.host.client.ask(&Request::DmaUnmap(DmaUnmap::Range(range))).unwrap();
    assert!(far.write(0, &[1; 512]).is(Status::DATA_TRANSFER_ERROR));
    assert_eq!(*far.asked.lock(), asked);
}

#[test]
fn unmap_during_a_dma_message_returns_at_once_and_no_message_follows() {
    const BUS_MASTER: (u64, u16) = (4, 4);
    type Way = fn(&mut Host);
    let ways: [Way; 3] = [
        |host| drop(host.client.ask(&Request::DeviceReset).unwrap()),
        |host| drop(host.client.ask(&Request::DmaUnmap(DmaUnmap::All)).unwrap()),
        |host| {
            for command in [BUS_MASTER.1, 0] {
                host.client.write(RegionIndex::CONFIG, BUS_MASTER.0, &command.to_le_bytes()).unwrap();
            }
        },
    ];
    // A page, of which the host gives or takes a quarter at a time.
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    identify.cdw10 = 1;
    identify.set_prps(FAR_AT, 0);
    for (qid, command) in [(0, identify), (1, blocks(NvmOpcode::WRITE, 0, 4096, FAR_AT))] {
        for (number, take_away) in ways.iter().enumerate() {
            // A thread of the device waits for the client; the message thread does not.
            let served = Served::watched(RunOptions::default().durability(Durability::Media));
            let mut far = FarHost::new(&served, Manner::Held);
            far.host.submit(qid, &command);
            far.host.ring(qid);
            far.await_asked(1);
            take_away(&mut far.host);
            far.answer.take();
            begin_anew(&mut far.host);
            assert_eq!(*far.asked.lock(), 1, "queue {qid}, way {number}");
        }
    }
}

/// The controller is ready once what was under way has ended.
fn begin_anew(host: &mut Host) {
    host.client.ask(&Request::DeviceReset).unwrap();
    host.client.ask(&Request::DmaUnmap(DmaUnmap::All)).unwrap();
    let memory = fd(&host.memory);
    host.client.ask_with(&Request::DmaMap(mapping()), &[&memory]).unwrap();
    host.forget_queues();
    host.enable();
    host.make_queues();
    host.write_blocks(0, &[2; 512]);
}

#[test]
fn a_host_without_a_second_socket_is_not_asked() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let range = DmaRange::new(FAR_AT, FAR_BYTES).unwrap();
    let map = DmaMap { range, file_offset: 0, readable: true, writable: true };
    host.client.ask(&Request::DmaMap(map)).unwrap();
    let command = blocks(NvmOpcode::WRITE, 0, 512, FAR_AT);
    assert!(host.execute(1, command).status().is(Status::DATA_TRANSFER_ERROR));
}
