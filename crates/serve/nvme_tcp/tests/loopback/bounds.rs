//! What hosts can make a target hold, one and all together, and for how long. Time is made up where it matters.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use byway_fabrics::ControllerChoice;
use byway_nvme_tcp::{CommandId, H2cData, IcReq, ReadyToTransfer, TransferTag};
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};
use byway_tcp_target::TargetEvent;

use crate::caller::{Caller, DISCOVERY, NS_PER_S, connected};
use crate::host::{By, Proposal, blocks, pattern};
use crate::served::{Served, TIMEOUT};

fn write_when_asked(cid: u16, bytes: usize) -> Command {
    let mut command = blocks(NvmOpcode::WRITE, 0, bytes);
    command.cdw0.set_cid(cid);
    command.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes as u32));
    command
}

#[test]
fn a_host_that_is_connected_to_no_device_is_asked_for_no_data() {
    let served = Served::new();
    let mut host = served.greet(Proposal::default());
    let write = |host: &mut crate::host::Host| {
        host.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &pattern(1, 4096)).status()
    };
    for _ in 0..300 {
        assert!(write(&mut host).is(Status::SGL_TYPE_INVALID));
    }
    host.connect(0, ControllerChoice::Dynamic, DISCOVERY, 0).unwrap();
    assert!(write(&mut host).is(Status::SGL_TYPE_INVALID));
    served.admin(Proposal::default());
}

#[test]
fn half_open_connections_at_the_limit_evict_the_oldest() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(served.address()).unwrap()).collect();
    let (_second, mut other) = served.host(Proposal::default());
    for io in [&mut io, &mut other] {
        assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    }
    let oldest = silent[0].local_addr().unwrap();
    let is_crowded = |event: &TargetEvent| matches!(event, TargetEvent::ConnectionEnded { from, why } if *from == oldest && why.contains("too many came after it"));
    served.await_event(is_crowded);
    assert_eq!((&silent[0]).read(&mut [0]).unwrap(), 0);
    let newest = silent.last().unwrap();
    newest.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let kind = (&*newest).read(&mut [0]).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
}

#[test]
fn the_discovery_service_is_full_before_the_target_is() {
    let served = Served::new();
    let socketless = served.socketless();
    let ask = || {
        let mut caller = Caller::new(&socketless);
        let refused = caller.connect(0, ControllerChoice::Dynamic, DISCOVERY).err();
        (caller, refused)
    };
    let mut callers: Vec<Caller> = Vec::new();
    let refused = loop {
        let (caller, refused) = ask();
        if let Some(refused) = refused {
            break refused;
        }
        callers.push(caller);
    };
    assert_eq!(callers.len(), 1024);
    assert!(refused.is(byway_spec::fabrics::status::CONTROLLER_BUSY) && !refused.dnr(), "{refused:?}");
    // A subsystem is another matter, and so is one place less.
    connected(&socketless);
    callers.pop();
    assert!(ask().1.is_none());
}

#[test]
fn slow_first_bytes_do_not_extend_the_connect_timeout() {
    let served = Served::new();
    let mut connection = served.socketless().connect(false, 0);
    for second in 0..10 {
        connection.put(&IcReq::default().encode()[second..=second]);
        connection.run(second as u64 * NS_PER_S);
        connection.check_time(second as u64 * NS_PER_S);
        assert!(!connection.is_over());
    }
    connection.check_time(10 * NS_PER_S + 1);
    assert!(connection.is_over());
}

#[test]
fn host_owing_data_for_a_minute_is_disconnected() {
    let served = Served::new();
    let (_admin, mut io) = connected(&served.socketless());
    // An idle host owes nothing.
    io.pass(1000);
    let asked = io.say(&write_when_asked(7, 8192), &[]);
    assert_eq!(asked.first(), Some(&9), "R2T");
    let (command, tag) = (CommandId(7), TransferTag(u16::from_le_bytes([asked[10], asked[11]])));
    let ReadyToTransfer { offset_bytes, .. } = ReadyToTransfer { command, tag, offset_bytes: 0, bytes: 8192 };
    io.pass(59);
    let mut wire = Vec::new();
    let at = H2cData { command, tag, offset_bytes, last: false };
    io.writer.data(&at, &[&[1; 4096]]).append_to(&mut wire);
    io.connection.put(&wire);
    io.connection.run(io.now_ns);
    io.pass(59);
    assert!(!io.connection.is_over());
    io.pass(2);
    assert!(io.connection.is_over());
}

#[test]
fn halves_of_fused_pairs_that_wait_are_held_up_to_a_measure() {
    let served = Served::new();
    let (_admin, mut io) = connected(&served.socketless());
    let mut most = 0;
    for pair in 0..400u16 {
        let mut compare = blocks(NvmOpcode::COMPARE, 0, 16384);
        compare.cdw0.set_cid(2 * pair);
        compare.cdw0.set_fuse(Cdw0::FUSE_FIRST);
        compare.set_sgl1(SglDescriptor::inline(16384));
        io.say(&compare, &[0; 16384]);
        let mut write = write_when_asked(2 * pair + 1, 16384);
        write.cdw0.set_fuse(Cdw0::FUSE_SECOND);
        io.say(&write, &[]);
        most = most.max(io.connection.held_bytes());
    }
    assert!(io.connection.is_over());
    assert!(most < 16 << 20, "{most} bytes were held");
}

#[test]
fn tcp_keepalive_is_set_on_accepted_connections() {
    let served = Served::new();
    let host = served.greet(Proposal::default());
    let port = |address: std::net::SocketAddr| format!("{:04X}", address.port());
    let (target, from) = (port(served.address()), port(host.stream.local_addr().unwrap()));
    // The fields of its row of the kernel's table, which may leave one out while others change.
    let row = || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let mut rows = sockets.lines().map(|row| row.split_whitespace().map(str::to_owned).collect());
        rows.find(|row: &Vec<String>| row[1].ends_with(&target) && row[2].ends_with(&from))
    };
    // What was sent to the host is acknowledged first: the table shows one timer at a time.
    let end = Instant::now() + TIMEOUT;
    while !row().is_some_and(|row| row[5].starts_with("02:")) {
        assert!(Instant::now() < end, "no timer for keep alive: {:?}", row());
        std::thread::yield_now();
    }
}

#[test]
fn data_of_all_hosts_is_bounded_with_a_reserve_for_others() {
    const MOST: usize = 2 << 20;
    let served = Served::with(|asked| asked.target.data_bytes_max = MOST);
    let (_admin, mut greedy) = served.host(Proposal::default());
    let (_other, mut io) = served.host(Proposal::default());
    greedy.start(blocks(NvmOpcode::WRITE, 0, MOST), By::R2t, &pattern(1, MOST));
    // It is asked for all of it, and sends nothing.
    assert_eq!(greedy.stream.peek(&mut [0]).unwrap(), 1);
    let large = pattern(2, 1 << 20);
    let waiting = io.start(blocks(NvmOpcode::WRITE, 8192, large.len()), By::R2t, &large);
    let read = io.read(blocks(NvmOpcode::READ, 0, large.len()), large.len()).0.status();
    assert!(read.is(Status::COMMAND_INTERRUPTED) && !read.dnr(), "{read:?}");
    assert!(io.read(blocks(NvmOpcode::READ, 0, 65536), 65536).0.status().is_success());
    assert!(!io.is_done(waiting));
    let (_third, mut small) = served.host(Proposal::default());
    let little = pattern(3, 65536);
    assert!(small.write(blocks(NvmOpcode::WRITE, 0, 65536), By::R2t, &little).status().is_success());
    // What it does not hold any more, others may.
    drop(greedy);
    assert!(io.wait(waiting).0.status().is_success());
    let (done, got) = io.read(blocks(NvmOpcode::READ, 8192, large.len()), large.len());
    assert!(done.status().is_success() && got == large);
}

#[test]
fn data_that_is_taken_bit_by_bit_is_given_back_bit_by_bit() {
    // Of one large answer there is room, and of the next as soon as some of it is taken.
    let served = Served::with(|asked| asked.target.data_bytes_max = 3 << 20);
    let (_admin, mut io) = served.host(Proposal::default());
    for _ in 0..3 {
        let reads: Vec<u16> =
            (0..32).map(|_| io.start_read(blocks(NvmOpcode::READ, 0, 1 << 20), 1 << 20)).collect();
        for cid in reads {
            assert!(io.wait(cid).0.status().is_success());
        }
    }
}

#[test]
fn r2t_during_the_last_data_of_another_command_mixes_no_data() {
    const BYTES: usize = 1 << 20;
    let served = Served::with(|asked| asked.target.data_bytes_max = 2 * BYTES);
    let (_greedy, mut greedy) = served.host(Proposal::default());
    let (_admin, mut io) = served.host(Proposal::default());
    greedy.start(blocks(NvmOpcode::WRITE, 0, BYTES), By::R2t, &pattern(1, BYTES));
    assert_eq!(greedy.stream.peek(&mut [0]).unwrap(), 1);
    let (one, other) = (pattern(2, BYTES), pattern(3, BYTES));
    let mut write = write_when_asked(100, BYTES);
    let mut wire = Vec::new();
    io.writer.command(&write, &[]).append_to(&mut wire);
    write.cdw0.set_cid(101);
    write.set_cdw10_11(4096);
    io.writer.command(&write, &[]).append_to(&mut wire);
    io.stream.write_all(&wire).unwrap();
    let mut asked = [0; 24];
    io.stream.read_exact(&mut asked).unwrap();
    let sent_data = |command: u16, asked: &[u8; 24], data: &[u8]| {
        let (command, tag) = (CommandId(command), TransferTag(u16::from_le_bytes([asked[10], asked[11]])));
        let mut wire = Vec::new();
        let header = H2cData { command, tag, offset_bytes: 0, last: true };
        io.writer.data(&header, &[data]).append_to(&mut wire);
        wire
    };
    let wire = sent_data(100, &asked, &one);
    let received = || served.target.watch().snapshot().unwrap().received_bytes;
    let before = received();
    io.stream.write_all(&wire[..BYTES / 2]).unwrap();
    // The target has the header by then; its counter may show it late.
    let end = Instant::now() + TIMEOUT;
    while received() < before + BYTES as u64 / 4 {
        assert!(Instant::now() < end, "the data is not received");
        std::thread::yield_now();
    }
    // This host's end frees room for the other's data; the next request notices it.
    drop((greedy, _greedy));
    for _ in 0..8 {
        served.host(Proposal::default());
    }
    io.stream.write_all(&wire[BYTES / 2..]).unwrap();
    let mut sent = [0; 48];
    io.stream.read_exact(&mut sent).unwrap();
    assert_eq!((sent[0], sent[24]), (5, 9), "an answer, and an R2T");
    asked.copy_from_slice(&sent[24..]);
    io.stream.write_all(&sent_data(101, &asked, &other)).unwrap();
    io.stream.read_exact(&mut sent[..24]).unwrap();
    assert_eq!((sent[0], sent[20]), (5, 101));
    for (lba, data) in [(0, one), (4096, other)] {
        assert!(io.read(blocks(NvmOpcode::READ, lba, BYTES), BYTES).1 == data);
    }
}
