//! Data in every form that it can take on the wire.

use byway_core::BackendQueue;
use byway_tcp_initiator::{Digests, TcpOptions};

use super::*;

/// Block counts around every limit: in-capsule data, copies, R2Ts, data PDUs.
const BLOCKS: [u32; 8] = [1, 2, 15, 16, 17, 33, 256, 600];

fn round_trips(habits: Habits, digests: Digests) {
    let controller = TestController::start(habits);
    let device = open(&controller, TcpOptions::default().digests(digests));
    let mut queue = queue(&device, 32);
    for (index, blocks) in BLOCKS.into_iter().enumerate() {
        let data = pattern(index as u64, blocks as usize * LBA_BYTES);
        let slba = 3 * index as u64;
        queue.execute(write(slba, Buffer::copy_of(&data).unwrap())).unwrap();
        let outcome = queue.execute(read(slba, blocks)).unwrap();
        assert!(outcome.buffer.unwrap().as_slice() == data, "{blocks} blocks");
    }
}

#[test]
fn data_of_every_length_arrives_in_one_piece_or_in_many_with_digests_or_without() {
    for digests in [Digests::NONE, Digests::BOTH, Digests { header: true, data: false }] {
        round_trips(Habits::default(), digests);
        let in_pieces = Habits { r2t_bytes: 1536, data_bytes: 1000, capsule_bytes: 512, ..Habits::default() };
        round_trips(in_pieces, digests);
        let answers = Habits { success: false, data_bytes: 4096, capsule_bytes: 16384, ..Habits::default() };
        round_trips(answers, digests);
    }
}

#[test]
fn several_buffers_are_sent_and_received_as_one() {
    let habits = Habits { data_bytes: 700, ..Habits::default() };
    let controller = TestController::start(habits);
    let digests = Digests::BOTH;
    let device = open(&controller, TcpOptions::default().digests(digests));
    let mut queue = queue(&device, 4);
    for blocks in [4, 40] {
        let data = pattern(9, blocks * LBA_BYTES);
        let cut = |sizes: &[usize]| {
            let mut rest = &data[..];
            let part = |size: &usize| {
                let (part, behind) = rest.split_at(*size);
                rest = behind;
                Buffer::copy_of(part).unwrap()
            };
            sizes.iter().map(part).collect::<Vec<_>>()
        };
        let sent = cut(&[100, 1, 1000, blocks * LBA_BYTES - 1101]);
        queue.execute(write(0, sent)).unwrap();
        let into: Vec<Buffer> = cut(&[3, 1500, 45, blocks * LBA_BYTES - 1548]);
        let into = into.into_iter().map(|part| Buffer::zeroed(part.len()).unwrap()).collect();
        let command = NvmCommand::ReadVectored { nsid: Nsid::FIRST, slba: 0, blocks: blocks as u32, into };
        let outcome = queue.execute(command.into()).unwrap();
        let received: Vec<u8> = outcome.vector.iter().flat_map(|part| part.as_slice().to_vec()).collect();
        assert!(received == data);
    }
}

#[test]
fn a_full_queue_of_reads_and_writes_finishes_each_once() {
    let (_controller, device) = opened(Habits { r2t_bytes: 5000, ..Habits::default() });
    let mut queue = queue(&device, 64);
    for round in 0..10 {
        for tag in 0..64 {
            let data = pattern(tag ^ round, (1 + tag as usize % 30) * LBA_BYTES);
            queue.submit(write(tag * 32, Buffer::copy_of(&data).unwrap()), tag).unwrap();
        }
        let refused = queue.submit(read(0, 1), 99).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        assert_eq!(drain(&mut queue).len(), 64);
        for tag in 0..64 {
            queue.submit(read(tag * 32, 1 + tag as u32 % 30), tag).unwrap();
        }
        let mut finished = drain(&mut queue);
        finished.sort_by_key(|finished| finished.tag);
        assert!(finished.iter().map(|finished| finished.tag).eq(0..64));
        for Finished { tag, result } in finished {
            let wanted = pattern(tag ^ round, (1 + tag as usize % 30) * LBA_BYTES);
            assert!(result.unwrap().buffer.unwrap().as_slice() == wanted, "{tag}");
        }
    }
}

#[test]
fn a_program_that_waits_by_the_descriptor_is_woken_for_large_writes_too() {
    let (_controller, device) = opened(Habits { r2t_bytes: 64 << 10, ..Habits::default() });
    let mut queue = queue(&device, 8);
    for tag in 0..8 {
        let data = pattern(tag, 1 << 20);
        queue.submit(write(0, Buffer::copy_of(&data).unwrap()), tag).unwrap();
    }
    queue.start().unwrap();
    let mut finished = 0;
    while finished < 8 {
        let event = queue.event().unwrap();
        assert!(byway_sys::wait_readable(event, LONG).unwrap(), "no event");
        while let Some(one) = queue.next_finished().unwrap() {
            one.result.unwrap();
            finished += 1;
        }
    }
}
