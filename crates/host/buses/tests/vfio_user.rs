//! The bus to a device in another process, against a server that tests have do what they want.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use byway_buses::VfioUserBus;
use byway_driver::{Bus, BusError, DeviceMemory};
use byway_queue::DoorbellIndex;
use byway_sys::wait_readable;
use byway_vfio_user_wire::*;
use common::{BAR2_BYTES, Instead, Server};

const LONG: Duration = Duration::from_secs(60);

fn opened(server: &Server) -> VfioUserBus {
    VfioUserBus::open(&server.path).unwrap()
}

#[test]
fn registers_are_read_and_written_by_messages() {
    let server = Server::honest();
    let bus = opened(&server);
    bus.write_register(0x14, 4, 0x46_0001).unwrap();
    bus.write_register(0x28, 8, 0x1234_5678_9abc_d000).unwrap();
    assert_eq!(bus.read_register(0x14, 4).unwrap(), 0x46_0001);
    assert_eq!(bus.read_register(0x28, 8).unwrap(), 0x1234_5678_9abc_d000);
    assert_eq!(bus.read_register(0x14, 2), Err(BusError::NoRegister { offset: 0x14, bytes: 2 }));
    assert_eq!(bus.read_register(0x4000, 4), Err(BusError::NoRegister { offset: 0x4000, bytes: 4 }));
}

#[test]
fn the_function_is_reset_and_let_touch_memory_before_it_is_used() {
    let server = Server::honest();
    let _bus = opened(&server);
    let state = server.state();
    assert!(state.seen.contains(&Command::DEVICE_RESET));
    assert_eq!(state.words.get(&(RegionIndex::CONFIG.0, 4)), Some(&0b110));
}

#[test]
fn doorbells_are_stores_into_a_page_that_stays() {
    let server = Server::honest();
    let bus = opened(&server);
    assert!(bus.has_mapped_doorbells());
    bus.ring(DoorbellIndex::completion(3), 0x1234);
    let mut word = [0; 4];
    server.doorbells.read_exact_at(&mut word, 0x1000 + 7 * 4).unwrap();
    assert_eq!(u32::from_le_bytes(word), 0x1234);
}

#[test]
fn doorbells_are_messages_where_the_page_could_be_taken_away() {
    let server = Server::tricky(false, Box::new(|_, _, _| None));
    let bus = opened(&server);
    assert!(!bus.has_mapped_doorbells());
    bus.ring(DoorbellIndex::submission(2), 5);
    // Messages are taken in their order.
    bus.read_register(0, 4).unwrap();
    assert_eq!(server.state().words.get(&(0, 0x1000 + 4 * 4)), Some(&5));
}

#[test]
fn memory_is_mapped_at_the_server_once_and_shared_with_it() {
    let server = Server::honest();
    let bus = opened(&server);
    let pieces: Vec<_> = (1..40_usize).map(|pages| Arc::new(bus.memory(pages * 4096 - 9).unwrap())).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let at = bus.map(piece).unwrap();
        piece.write_at(10, &[index as u8; 3]).unwrap();
        let state = server.state();
        let [(map, file)] = state.maps.as_slice() else { panic!("{:?}", state.maps.len()) };
        let mut bytes = [0; 3];
        file.as_ref().unwrap().read_exact_at(&mut bytes, at.0 - map.range.first() + 10).unwrap();
        assert_eq!(bytes, [index as u8; 3]);
        assert!(map.readable && map.writable && at.0 != 0);
    }
}

#[test]
fn memory_that_comes_back_is_zeroes_when_it_is_lent_again() {
    let server = Server::honest();
    let bus = opened(&server);
    let first = Arc::new(bus.memory(8192).unwrap());
    let at = bus.map(&first).unwrap();
    first.write_at(0, &[7; 8192]).unwrap();
    bus.unmap(at).unwrap();
    assert!(bus.unmap(at).is_err());
    drop(first);
    let again = Arc::new(bus.memory(8192).unwrap());
    assert_eq!(bus.map(&again).unwrap(), at);
    let mut bytes = [1; 8192];
    again.read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn memory_of_another_s_making_is_refused() {
    let server = Server::honest();
    let other = Arc::new(byway_dma::DmaMemory::new(4096).unwrap());
    assert!(matches!(opened(&server).map(&other), Err(BusError::Mapping(_))));
}

#[test]
fn more_memory_than_one_file_holds_is_mapped_by_more() {
    let server = Server::honest();
    let bus = opened(&server);
    let large: Vec<_> = (0..3).map(|_| bus.memory(40 << 20).unwrap()).collect();
    let huge = bus.memory(100 << 20).unwrap();
    let state = server.state();
    assert_eq!((large.len(), huge.len(), state.maps.len()), (3, 100 << 20, 4));
    for (one, other) in state.maps.iter().zip(state.maps.iter().skip(1)) {
        assert!(one.0.range.last() + 1 < other.0.range.first(), "they touch");
    }
}

#[test]
fn a_server_may_ask_for_memory_by_messages() {
    let server = Server::honest();
    let bus = opened(&server);
    let memory = Arc::new(bus.memory(4096).unwrap());
    let at = bus.map(&memory).unwrap().0;
    memory.write_at(100, b"hello").unwrap();
    server.ask(&Request::DmaRead { address: at + 100, bytes: 5 });
    server.ask(&Request::DmaWrite { address: at + 200, data: b"world" });
    server.ask(&Request::DmaRead { address: at.wrapping_sub(4096), bytes: 5 });
    // They are answered on the way of any question.
    bus.read_register(0, 4).unwrap();
    bus.read_register(0, 4).unwrap();
    let mut bytes = [0; 5];
    memory.read_at(200, &mut bytes).unwrap();
    assert_eq!(&bytes, b"world");
    let state = server.state();
    assert!(
        state
            .replies
            .iter()
            .any(|(command, payload)| { *command == Command::DMA_READ && payload.ends_with(b"hello") })
    );
    assert!(
        state.replies.iter().any(|(command, payload)| *command == Command::DMA_READ && payload.is_empty())
    );
}

#[test]
fn device_memory_that_is_not_shared_is_stored_into_by_messages() {
    let server = Server::honest();
    let memory = opened(&server).device_memory().unwrap();
    assert_eq!(memory.len_bytes(), BAR2_BYTES);
    memory.store(0x100, b"12345678").unwrap();
    memory.settle(0x107).unwrap();
    let stored = server.state().words.get(&(2, 0x100)).copied();
    assert_eq!(stored, Some(u64::from_le_bytes(*b"12345678")));
    assert!(matches!(memory.store(BAR2_BYTES - 3, b"1234"), Err(BusError::OutsideMemory { .. })));
    assert!(matches!(memory.settle(BAR2_BYTES), Err(BusError::OutsideMemory { .. })));
}

#[test]
fn an_interrupt_wakes_its_sleeper_and_none_is_armed_before_a_thread_sleeps() {
    let server = Server::honest();
    let bus = opened(&server);
    assert_eq!(bus.vectors(), 9);
    assert!(server.state().eventfds.is_empty());
    assert!(!bus.wait(3, LONG).unwrap(), "it may have come before it was armed");
    let raise = || {
        let state = server.state();
        rustix::io::write(state.eventfds.get(&3).unwrap(), &1_u64.to_ne_bytes()).unwrap();
    };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| bus.wait(3, LONG));
        raise();
        assert!(sleeper.join().unwrap().unwrap());
    });
    assert!(!bus.wait(3, Duration::ZERO).unwrap());
    assert!(matches!(bus.wait(9, LONG), Err(BusError::NoEvent { .. })));
    let event = bus.listen(3).unwrap();
    bus.clear(3);
    assert!(!wait_readable(event.as_fd(), Duration::ZERO).unwrap());
    raise();
    assert!(wait_readable(event.as_fd(), LONG).unwrap());
}

#[test]
fn a_server_that_dies_wakes_sleepers_and_fails_every_later_call() {
    let server = Server::honest();
    let bus = opened(&server);
    bus.wait(1, Duration::ZERO).unwrap();
    let event = bus.listen(1).unwrap();
    bus.clear(1);
    bus.check().unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| bus.wait(1, LONG));
        server.die();
        assert!(matches!(sleeper.join().unwrap(), Err(BusError::Gone(_))));
    });
    assert!(wait_readable(event.as_fd(), LONG).unwrap());
    assert!(matches!(bus.check(), Err(BusError::Gone(_))));
    assert!(matches!(bus.read_register(0, 4), Err(BusError::Gone(_))));
    assert!(matches!(bus.write_register(0x14, 4, 0), Err(BusError::Gone(_))));
    assert!(matches!(bus.memory(4096), Err(BusError::Gone(_))));
    assert!(matches!(bus.wait(1, LONG), Err(BusError::Gone(_))));
    bus.ring(DoorbellIndex::submission(1), 1);
}

#[test]
fn server_hanging_up_at_any_message_is_gone() {
    for last in 0..9 {
        let trick = move |count, _: &Header, _: &Request<'_>| (count == last).then_some(Instead::Hang);
        let server = Server::tricky(true, Box::new(trick));
        match VfioUserBus::open(&server.path) {
            Err(BusError::Gone(_)) => {}
            Err(other) => panic!("{other:?} at message {last}"),
            Ok(bus) => {
                let found = bus.memory(4096).and_then(|_| bus.read_register(0, 4));
                assert!(matches!(found, Err(BusError::Gone(_))), "{found:?} at message {last}");
            }
        }
    }
}

/// What opening says of a server that answers a command by a reply of its own making.
fn lied(about: Command, reply: Reply<'static>) -> BusError {
    let trick = move |_, header: &Header, request: &Request<'_>| {
        if request.command() != about {
            return None;
        }
        let mut bytes = Vec::new();
        reply.encode(header, &mut bytes);
        Some(Instead::Send(bytes))
    };
    VfioUserBus::open(&Server::tricky(true, Box::new(trick)).path).unwrap_err()
}

#[test]
fn a_server_that_lies_is_answered_in_words() {
    let version = Version { major: 1, ..Version::default() };
    let said = lied(Command::VERSION, Reply::Version(version)).to_string();
    assert!(said.contains("it speaks version 1.0"), "{said}");
    let no_pci = DeviceInfo { has_reset: true, is_pci: false, regions: 9, irqs: 5 };
    let said = lied(Command::DEVICE_GET_INFO, Reply::DeviceInfo(no_pci)).to_string();
    assert!(said.contains("is no PCI device"), "{said}");
    let other = common::region(RegionIndex::BAR4);
    let said = lied(Command::DEVICE_GET_REGION_INFO, Reply::RegionInfo(other)).to_string();
    assert!(said.contains("the server's answer cannot be"), "{said}");
    let none = IrqInfo { index: IrqIndex::MSIX, flags: IrqFlags::default(), count: 0 };
    let said = lied(Command::DEVICE_GET_IRQ_INFO, Reply::IrqInfo(none)).to_string();
    assert!(said.contains("is not 2 to 2048 MSI-X interrupts"), "{said}");
    let elsewhere = Access { region: RegionIndex::CONFIG, offset: 8, bytes: 2 };
    let said = lied(Command::REGION_READ, Reply::RegionRead { from: elsewhere, data: &[0; 2] }).to_string();
    assert!(said.contains("configuration space") && said.contains("cannot be"), "{said}");
}

/// What opening says of a server that sends these bytes for an answer.
fn sends(bytes: Vec<u8>) -> BusError {
    let trick = move |_, _: &Header, _: &Request<'_>| Some(Instead::Send(bytes.clone()));
    VfioUserBus::open(&Server::tricky(true, Box::new(trick)).path).unwrap_err()
}

#[test]
fn bytes_that_are_no_messages_end_the_connection_in_words() {
    let said = sends(vec![0; 16]);
    assert!(matches!(&said, BusError::Gone(why) if why.contains("shorter than its header")), "{said:?}");
    let mut long = Vec::new();
    let reply = Header {
        id: MessageId(0),
        command: Command::VERSION,
        size_bytes: 1 << 20,
        kind: Kind::Reply,
        no_reply: false,
        error: None,
    };
    reply.encode(&mut long);
    long.resize(1 << 20, 0);
    let said = sends(long);
    assert!(matches!(&said, BusError::Gone(why) if why.contains("is longer than")), "{said:?}");
}

#[test]
fn a_server_that_does_not_answer_for_a_while_is_silent_and_not_gone() {
    let trick = |_, _: &Header, _: &Request<'_>| Some(Instead::Silence);
    let server = Server::tricky(true, Box::new(trick));
    let said = VfioUserBus::open(&server.path).unwrap_err();
    assert!(
        matches!(&said, BusError::Silent(why) if why.contains("did not answer VERSION within 5s")),
        "{said:?}"
    );
}

#[test]
fn server_slow_once_is_used_when_it_answers_again() {
    let mut reads = 0;
    let trick = move |_, _: &Header, request: &Request<'_>| {
        let Request::RegionRead(Access { region: RegionIndex::BAR0, offset: 0x14, .. }) = request else {
            return None;
        };
        reads += 1;
        (reads == 1).then_some(Instead::Silence)
    };
    let server = Server::tricky(true, Box::new(trick));
    let bus = opened(&server);
    assert!(matches!(bus.read_register(0x14, 4), Err(BusError::Silent(_))));
    bus.check().unwrap();
    bus.write_register(0x14, 4, 7).unwrap();
    assert_eq!(bus.read_register(0x14, 4).unwrap(), 7);
}

#[test]
fn server_sending_only_replies_to_other_messages_is_silent() {
    let trick = |_, _: &Header, request: &Request<'_>| {
        let Request::RegionRead(Access { region: RegionIndex::BAR0, offset: 0x14, .. }) = request else {
            return None;
        };
        Some(Instead::Flood)
    };
    let server = Server::tricky(true, Box::new(trick));
    let bus = opened(&server);
    let since = std::time::Instant::now();
    assert!(matches!(bus.read_register(0x14, 4), Err(BusError::Silent(_))));
    assert!(since.elapsed() < LONG);
    // A poll meanwhile does not block either.
    assert!(!bus.wait(3, Duration::ZERO).unwrap_or(false));
}

#[test]
fn dma_map_refused_with_ebusy_is_busy() {
    let trick = |_, header: &Header, request: &Request<'_>| {
        let mut bytes = Vec::new();
        encode_error(header, Errno::EBUSY, &mut bytes);
        (request.command() == Command::DMA_MAP).then_some(Instead::Send(bytes))
    };
    let server = Server::tricky(true, Box::new(trick));
    let refused = opened(&server).memory(4096).err().unwrap();
    assert!(matches!(refused, BusError::Busy(_)), "{refused:?}");
}

#[test]
fn doorbells_have_the_stride_that_the_device_announces() {
    let cap = |state: &mut common::State| {
        state.words.insert((RegionIndex::BAR0.0, 0), 2_u64 << 32);
    };
    let server = Server::honest();
    cap(&mut server.state());
    let bus = opened(&server);
    bus.ring(DoorbellIndex::completion(3), 0x4321);
    let mut word = [0; 4];
    server.doorbells.read_exact_at(&mut word, 0x1000 + 7 * 16).unwrap();
    assert_eq!(u32::from_le_bytes(word), 0x4321);
}

#[test]
fn memory_of_a_server_that_is_gone_is_not_lent_again() {
    let server = Server::honest();
    let bus = opened(&server);
    let memory = Arc::new(bus.memory(4096).unwrap());
    let at = bus.map(&memory).unwrap();
    server.die();
    while bus.check().is_ok() {
        std::thread::yield_now();
    }
    bus.unmap(at).unwrap();
    assert!(matches!(bus.memory(4096), Err(BusError::Gone(_))));
}

#[test]
fn a_socket_without_a_server_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let said = VfioUserBus::open(&folder.path().join("none")).unwrap_err().to_string();
    assert!(said.contains("is the server started?"), "{said}");
    let path = folder.path().join("dead");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let said = VfioUserBus::open(&path).unwrap_err().to_string();
    assert!(said.contains("no server listens at"), "{said}");
    let path = folder.path().join("file");
    std::fs::write(&path, "no socket").unwrap();
    for (path, what) in [(path.as_path(), "file is a regular file"), (folder.path(), "is a directory")] {
        let said = VfioUserBus::open(path).unwrap_err().to_string();
        assert!(said.contains(what) && said.contains("expected is the socket of a server"), "{said}");
    }
}
