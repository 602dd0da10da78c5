//! Hosts that use the function as a driver does, through a socket and memory that they share.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::register::{Cc, Register};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_vfio_user_wire::{
    Access, DmaMap, DmaRange, DmaUnmap, Errno, IrqAction, IrqData, IrqIndex, RegionIndex, Request, SetIrqs,
    SmallWrite,
};
use common::host::{DATA, MEMORY_AT, blocks, fd, mapping};
use common::{Host, Served};

const FLR: [u8; 2] = 0x8000u16.to_le_bytes();
const DEVICE_CONTROL: u64 = 0x68;

#[test]
fn blocks_come_back_as_they_went_and_each_completion_interrupts() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let data: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
    host.write_blocks(8, &data);
    assert!(host.interrupt.wait(Duration::from_secs(20)).unwrap());
    host.interrupt.lower();
    assert_eq!(host.read_blocks(8, 4096), data);
    assert!(host.interrupt.wait(Duration::from_secs(20)).unwrap());
}

#[test]
fn next_client_finds_the_data_and_a_reset_controller() {
    let served = Served::new();
    let mut first = Host::new(&served);
    first.write_blocks(0, &[0x5a; 512]);
    drop(first);
    let mut client = served.client();
    assert_eq!(client.register(u64::from(Register::CC.0)), 0);
    assert_eq!(client.register(u64::from(Register::ASQ.0)), 0);
    drop(client);
    let mut second = Host::new(&served);
    assert_eq!(second.read_blocks(0, 512), [0x5a; 512]);
}

#[test]
fn vector_raised_while_disarmed_is_signalled_when_armed() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let one = |data| SetIrqs { index: IrqIndex::MSIX, start: 1, count: 1, action: IrqAction::Trigger, data };
    host.client.ask(&Request::SetIrqs(one(IrqData::EventFds))).unwrap();
    host.write_blocks(0, &[1; 512]);
    assert!(!host.interrupt.wait(Duration::ZERO).unwrap());
    let pending = host.client.register(0x3000);
    assert_eq!(pending & 2, 2);
    let event = std::os::fd::AsFd::as_fd(&host.interrupt).try_clone_to_owned().unwrap();
    host.client.ask_with(&Request::SetIrqs(one(IrqData::EventFds)), &[&event]).unwrap();
    assert!(host.interrupt.wait(Duration::ZERO).unwrap());
}

#[test]
fn both_resets_stop_the_controller_and_a_new_start_finds_the_data() {
    let served = Served::new();
    for by_message in [true, false] {
        let mut host = Host::new(&served);
        host.write_blocks(3, &[7; 512]);
        if by_message {
            host.client.ask(&Request::DeviceReset).unwrap();
        } else {
            host.client.write(RegionIndex::CONFIG, DEVICE_CONTROL, &FLR).unwrap();
        }
        assert!(!host.status().rdy());
        assert_eq!(host.client.register(u64::from(Register::AQA.0)), 0);
        drop(host);
        assert_eq!(Host::new(&served).read_blocks(3, 512), [7; 512]);
    }
}

#[test]
fn a_command_that_points_outside_of_every_map_fails_and_the_next_does_not() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let unreached = DmaMap { range: DmaRange::new(0x5000, 0x1000).unwrap(), ..mapping() };
    host.client.ask(&Request::DmaMap(unreached)).unwrap();
    for address in [0x5000, 0x9000, MEMORY_AT - 4096, u64::MAX - 4095] {
        let completion = host.execute(1, blocks(NvmOpcode::READ, 0, 512, address));
        assert_eq!(completion.status().to_string(), Status::DATA_TRANSFER_ERROR.to_string(), "{address:#x}");
    }
    host.write_blocks(0, &[9; 512]);
}

#[test]
fn a_guest_s_memory_is_out_of_reach_while_it_has_bus_mastering_off() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let command = |host: &mut Host, bits: u16| {
        host.client.write(RegionIndex::CONFIG, 4, &bits.to_le_bytes()).unwrap();
    };
    command(&mut host, 0b110);
    host.write_blocks(0, &[1; 512]);
    command(&mut host, 0b010);
    host.submit(1, &blocks(NvmOpcode::READ, 0, 512, MEMORY_AT + DATA));
    host.ring(1);
    // The ring cannot be read.
    host.await_status(|status| status.cfs());
    command(&mut host, 0b110);
    host.restart();
    assert_eq!(host.read_blocks(0, 512), [1; 512]);
}

#[test]
fn memory_that_is_unmapped_is_not_written_any_more() {
    let served = Served::new();
    let mut host = Host::new(&served);
    host.write_blocks(0, &[9; 512]);
    let range = DmaRange::new(0x2000_0000, 0x1000).unwrap();
    let map = DmaMap { range, file_offset: DATA, ..mapping() };
    host.client.ask_with(&Request::DmaMap(map), &[&fd(&host.memory)]).unwrap();
    let read = blocks(NvmOpcode::READ, 0, 512, range.first());
    assert!(host.execute(1, read).status().is_success());
    host.client.ask(&Request::DmaUnmap(DmaUnmap::Range(range))).unwrap();
    assert!(!host.execute(1, read).status().is_success());
}

#[test]
fn a_ring_that_is_unmapped_stops_the_controller_until_it_is_reset() {
    let served = Served::new();
    let mut host = Host::new(&served);
    host.client.ask(&Request::DmaUnmap(DmaUnmap::All)).unwrap();
    host.ring(1);
    let (at, tail) = host.doorbell(1);
    host.client.set_register(at, (tail + 1) % 16);
    while !host.status().cfs() {
        std::thread::yield_now();
    }
    drop(host);
    Host::new(&served).write_blocks(0, &[1; 512]);
}

#[test]
fn several_writes_in_one_message_are_made_in_order() {
    let served = Served::new();
    let mut host = Host::new(&served);
    host.submit(1, &blocks(NvmOpcode::READ, 0, 512, MEMORY_AT + DATA));
    let (at, tail) = host.doorbell(1);
    let write = |tail: u32| SmallWrite {
        to: Access { region: RegionIndex::BAR0, offset: at, bytes: 4 },
        data: u64::from(tail).to_le_bytes(),
    };
    let (mut bytes, id) = (Vec::new(), host.client.id());
    Request::encode_writes(&[write(0), write(tail)], id, false, &mut bytes);
    host.client.send(&bytes, &[]);
    let (header, payload) = host.client.receive().unwrap();
    assert_eq!((header.id, header.error, payload), (id, None, 2u64.to_le_bytes().to_vec()));
    assert!(host.reap(1).status().is_success());
}

#[test]
fn doorbells_that_are_mapped_are_seen_without_a_message() {
    let served = Served::polling();
    let mut host = Host::new(&served);
    host.doorbells = Some(host.client.map_doorbells());
    // Around both rings, several times.
    for lba in 0..40 {
        host.write_blocks(lba, &[lba as u8; 512]);
    }
    assert_eq!(host.read_blocks(39, 512), [39; 512]);
    // A message still rings.
    host.doorbells = None;
    assert_eq!(host.read_blocks(7, 512), [7; 512]);
}

#[test]
fn the_first_value_of_a_new_queue_s_doorbell_counts_though_an_older_queue_left_the_same() {
    let served = Served::polling();
    let mut host = Host::new(&served);
    host.doorbells = Some(host.client.map_doorbells());
    for round in 0..20 {
        // Both tails end where they ended in the round before.
        host.write_blocks(round, &[1; 512]);
        host.restart();
    }
    drop(host);
    let mut next = Host::new(&served);
    next.doorbells = Some(next.client.map_doorbells());
    assert_eq!(next.read_blocks(3, 512), [1; 512]);
}

#[test]
fn any_value_in_any_mapped_doorbell_is_harmless() {
    let served = Served::polling();
    let mut host = Host::new(&served);
    let doorbells = host.client.map_doorbells();
    for value in [1, u32::MAX, 0, 17, 0x8000_0000] {
        (0..1024).for_each(|place| doorbells.store_u32(place * 4, value).unwrap());
        host.client.register(0);
    }
    drop(host);
    Host::new(&served).write_blocks(0, &[1; 512]);
}

#[test]
fn stopping_does_what_was_rung_and_removes_the_socket() {
    let mut served = Served::new();
    let mut host = Host::new(&served);
    for _ in 0..5 {
        host.submit(1, &blocks(NvmOpcode::READ, 0, 512, MEMORY_AT + DATA));
    }
    host.ring(1);
    assert!(served.stop());
    assert!(host.peek(1).is_some());
    assert!(!served.socket.exists());
    assert!(host.client.receive().is_none());
}

#[test]
fn a_host_may_enable_and_disable_a_thousand_times() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let enabled = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
    for _ in 0..1000 {
        host.client.set_register(u64::from(Register::CC.0), 0);
        host.client.set_register(u64::from(Register::CC.0), enabled);
    }
    assert!(host.status().rdy());
}

#[test]
fn a_map_over_another_and_a_descriptor_that_lies_are_refused() {
    let served = Served::new();
    let mut host = Host::new(&served);
    let again = host.client.ask_with(&Request::DmaMap(mapping()), &[&fd(&host.memory)]);
    assert_eq!(again, Err(Errno::EEXIST));
    let long = DmaMap { range: DmaRange::new(0, 2 << 20).unwrap(), ..mapping() };
    assert_eq!(host.client.ask_with(&Request::DmaMap(long), &[&fd(&host.memory)]), Err(Errno::EINVAL));
    let two = [&fd(&host.memory), &fd(&host.memory)];
    let short = DmaMap { range: DmaRange::new(0, 4096).unwrap(), ..mapping() };
    assert_eq!(host.client.ask_with(&Request::DmaMap(short), &two), Err(Errno::EINVAL));
    host.write_blocks(0, &[1; 512]);
}

#[test]
fn device_memory_is_the_same_by_mapping_and_by_messages() {
    let served = Served::new();
    let mut client = served.client();
    let memory = client.map_device_memory();
    memory.write_at(0x1_2345, b"mapped").unwrap();
    assert_eq!(client.read(RegionIndex::BAR2, 0x1_2345, 6).unwrap(), b"mapped");
    let last = memory.len() as u64 - 7;
    client.write(RegionIndex::BAR2, last, b"message").unwrap();
    let mut bytes = [0; 7];
    memory.read_at(last as usize, &mut bytes).unwrap();
    assert_eq!(&bytes, b"message");
    for (offset, len) in [(last + 1, 7), (memory.len() as u64, 1), (u64::MAX - 1, 1)] {
        assert_eq!(client.read(RegionIndex::BAR2, offset, len), Err(Errno::EINVAL));
    }
    assert_eq!(client.write(RegionIndex::BAR2, last + 1, b"message"), Err(Errno::EINVAL));
}

#[test]
fn bar_2_is_sized_as_its_region_is_and_may_be_read_ahead() {
    let served = Served::new();
    let mut client = served.client();
    let (info, _) = client.region(RegionIndex::BAR2);
    let word = |client: &mut common::Client, at| {
        u32::from_le_bytes(client.read(RegionIndex::CONFIG, at, 4).unwrap().try_into().unwrap())
    };
    assert_eq!(word(&mut client, 0x18), 0b1100);
    client.write(RegionIndex::CONFIG, 0x18, &[0xff; 8]).unwrap();
    let low = word(&mut client, 0x18);
    assert_eq!(low & 0xf, 0b1100);
    let sized = u64::from(low & !0xf) | u64::from(word(&mut client, 0x1c)) << 32;
    assert_eq!(sized.wrapping_neg(), info.bytes);
}

#[test]
fn device_memory_of_a_client_that_has_gone_is_not_the_next_one_s() {
    let served = Served::new();
    let mut client = served.client();
    let old = client.map_device_memory();
    old.write_at(0, b"secret").unwrap();
    drop(client);
    let mut client = served.client();
    let new = client.map_device_memory();
    old.write_at(100, b"late").unwrap();
    let mut bytes = [1; 128];
    new.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 128]);
    assert_eq!(client.read(RegionIndex::BAR2, 0, 128).unwrap(), [0; 128]);
}

#[test]
fn doorbells_of_a_client_that_has_gone_are_not_the_next_one_s() {
    let served = Served::polling();
    let mut host = Host::new(&served);
    let old = host.client.map_doorbells();
    host.write_blocks(0, &[1; 512]);
    drop(host);
    let mut host = Host::new(&served);
    host.doorbells = Some(host.client.map_doorbells());
    // The old client rings for a command of the new one that the new one has not rung for.
    host.submit(1, &blocks(NvmOpcode::READ, 0, 512, MEMORY_AT + DATA));
    let (at, tail) = host.doorbell(1);
    old.store_u32(at as usize - 0x1000, tail).unwrap();
    // The server looks at every doorbell meanwhile.
    for _ in 0..20 {
        assert!(host.execute(0, Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0)).status().is_success());
    }
    assert!(host.peek(1).is_none());
    host.ring(1);
    assert!(host.reap(1).status().is_success());
    assert_eq!(
        old.load_u32(at as usize - 0x1000).unwrap(),
        tail,
        "nor does the new one ring in the old one's"
    );
}
