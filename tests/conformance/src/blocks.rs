//! Commands of the NVM command set, and what they leave in the namespace.

use std::ops::Range;
use std::time::Duration;

use byway_core::{
    Backend, BackendQueue, Buffer, Command, CopyRanges, ErrorKind, LbaRange, LbaRanges, Nsid, NvmCommand,
    PAGE_BYTES, Payload, RawCommand, RawData, encode,
};

use crate::subject::{Subject, assert_same, drained};

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(60);

pub fn what_is_written_at_every_offset_and_size_reads_back<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    for blocks in [1, 2, 3, 7, 8, 9, 16, 63, 64, 128] {
        for slba in [0, 1, 5, 7, 8, 100] {
            let data = subject.filled(slba, blocks, blocks as u8);
            let wanted = data.as_slice().to_vec();
            queue.execute(subject.write(slba, data)).unwrap();
            subject.expect(&mut queue, slba, &wanted);
        }
    }
    let last = subject.blocks - 1;
    let data = subject.filled(last, 1, 99);
    let wanted = data.as_slice().to_vec();
    queue.execute(subject.write(last, data)).unwrap();
    subject.expect(&mut queue, last, &wanted);
}

pub fn what_several_buffers_send_several_others_receive<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    for count in [1, 2, 3, 17, 40] {
        let parts: Vec<Buffer> = (0..count).map(|n| subject.filled(n, 1 + n as u32 % 3, 5)).collect();
        let wanted: Vec<u8> = parts.iter().flat_map(|part| part.as_slice().to_vec()).collect();
        let blocks = wanted.len() as u32 / subject.lba_bytes;
        let data = Payload::from(parts);
        let write = NvmCommand::Write { nsid: Nsid::FIRST, slba: 3, blocks, data };
        assert_eq!(queue.execute(write.into()).unwrap().vector.len(), count as usize);
        subject.expect(&mut queue, 3, &wanted);
        let into = (0..count).rev().map(|n| subject.empty(1 + n as u32 % 3)).collect();
        let read = NvmCommand::ReadVectored { nsid: Nsid::FIRST, slba: 3, blocks, into };
        let read = queue.execute(read.into()).unwrap();
        assert_eq!((read.vector.len(), read.buffer.is_some()), (count as usize, false));
        if subject.keeps {
            assert_same(
                &read.vector.iter().flat_map(|part| part.as_slice().to_vec()).collect::<Vec<_>>(),
                &wanted,
            );
        }
    }
}

pub fn memory_that_a_program_brought_is_as_good_as_any<B: Backend>(subject: &Subject<'_, B>) {
    if subject.backend.capabilities().memory_align_bytes > 1 {
        return;
    }
    let mut queue = subject.queue(4);
    let bytes = subject.lba_bytes as usize;
    let mut data = Buffer::from_bytes((0..2 * bytes + 1).map(|n| n as u8).collect());
    let odd = data.split_off(1);
    let wanted = odd.as_slice().to_vec();
    let back = queue.execute(subject.write(9, odd)).unwrap().buffer.unwrap();
    assert_same(back.as_slice(), &wanted);
    let into = Buffer::from_bytes(vec![0; 2 * bytes].into());
    let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 9, blocks: 2, into };
    let read = queue.execute(read.into()).unwrap().buffer.unwrap();
    if subject.keeps {
        assert_same(read.as_slice(), &wanted);
    }
}

pub fn memory_that_a_program_prepares_is_cut_for_commands<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    let bytes = subject.lba_bytes as usize;
    let counts = [1, 9, 2, 33];
    let total: usize = counts.iter().map(|blocks| blocks * bytes).sum();
    for prepares in [true, false] {
        let mut whole = match prepares {
            true => subject.backend.prepare(Buffer::zeroed(total).unwrap()).unwrap(),
            false => subject.backend.buffer(total).unwrap(),
        };
        for (index, blocks) in counts.into_iter().enumerate() {
            let rest = whole.split_off(blocks * bytes);
            let (mut part, slba) = (std::mem::replace(&mut whole, rest), 40 * index as u64);
            subject.fill(&mut part, slba, 7);
            let wanted = part.as_slice().to_vec();
            let mut part = queue.execute(subject.write(slba, part)).unwrap().buffer.unwrap();
            part.as_mut_slice().fill(0xee);
            let read = NvmCommand::Read { nsid: Nsid::FIRST, slba, blocks: blocks as u32, into: part };
            let read = queue.execute(read.into()).unwrap().buffer.unwrap();
            if subject.keeps {
                assert_same(read.as_slice(), &wanted);
            }
        }
    }
}

pub fn memory_that_cannot_be_prepared_comes_back<B: Backend>(subject: &Subject<'_, B>) {
    let mut odd = Buffer::zeroed(3 * PAGE_BYTES).unwrap();
    odd.as_mut_slice().fill(7);
    let odd = odd.split_off(100);
    let back = match subject.backend.prepare(odd) {
        // There is nothing to prepare over this backend.
        Ok(same) => same,
        Err(unprepared) => {
            assert_eq!(unprepared.error.kind(), ErrorKind::InvalidArgument);
            unprepared.buffer
        }
    };
    assert!(back.len() == 3 * PAGE_BYTES - 100 && back.as_slice().iter().all(|byte| *byte == 7));
}

pub fn zeroed_and_deallocated_blocks_read_as_zeroes_and_their_neighbours_stay<B: Backend>(
    subject: &Subject<'_, B>,
) {
    let mut queue = subject.queue(4);
    let can = subject.backend.capabilities().nvm;
    let nsid = Nsid::FIRST;
    let zeroes = |deallocate| NvmCommand::WriteZeroes { nsid, slba: 17, blocks: 30, deallocate };
    let ranges =
        || LbaRanges::new(&[LbaRange { slba: 17, blocks: 14 }, LbaRange { slba: 31, blocks: 16 }]).unwrap();
    let commands = [
        (can.write_zeroes, true, Command::from(zeroes(false))),
        (can.write_zeroes, true, zeroes(true).into()),
        (can.deallocate, subject.forgets(), NvmCommand::Deallocate { nsid, ranges: ranges() }.into()),
    ];
    for (_, zeroes, command) in commands.into_iter().filter(|(can, ..)| *can) {
        let data = subject.filled(0, 64, 0x40);
        let before = data.as_slice().to_vec();
        queue.execute(subject.write(0, data)).unwrap();
        queue.execute(command).unwrap();
        let after = queue.execute(subject.read(0, 64)).unwrap().buffer.unwrap();
        if subject.keeps {
            assert_zeroed(subject, after.as_slice(), &before, 17..47, zeroes);
        }
    }
}

/// The blocks of a range are zeroes, or, unless they must be, what they were; others are what they were.
fn assert_zeroed<B: Backend>(
    subject: &Subject<'_, B>,
    after: &[u8],
    before: &[u8],
    range: Range<usize>,
    must: bool,
) {
    let bytes = subject.lba_bytes as usize;
    for (index, (is, was)) in after.chunks(bytes).zip(before.chunks(bytes)).enumerate() {
        let kept = !range.contains(&index) || (!must && is.iter().any(|byte| *byte != 0));
        assert_same(is, if kept { was.to_vec() } else { vec![0; bytes] }.as_slice());
    }
}

pub fn a_flush_succeeds_after_writes_and_with_nothing_to_flush<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(8);
    let flush = || Command::from(NvmCommand::Flush { nsid: Nsid::FIRST });
    queue.execute(flush()).unwrap();
    for slba in 0..4 {
        queue.submit(subject.write(slba, subject.filled(slba, 1, 1)), slba).unwrap();
    }
    queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
    queue.submit(flush(), 9).unwrap();
    queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
}

pub fn a_comparison_finds_equal_and_different<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.backend.capabilities().nvm.compare || !subject.keeps {
        return;
    }
    let mut queue = subject.queue(2);
    queue.execute(subject.write(4, subject.filled(4, 8, 2))).unwrap();
    let compare = |data: Buffer| {
        Command::from(NvmCommand::Compare { nsid: Nsid::FIRST, slba: 4, blocks: 8, data: data.into() })
    };
    queue.execute(compare(subject.filled(4, 8, 2))).unwrap();
    let mut other = subject.filled(4, 8, 2);
    *other.as_mut_slice().last_mut().unwrap() ^= 1;
    assert_eq!(queue.execute(compare(other)).unwrap_err().kind(), ErrorKind::Mismatch);
}

/// A command that writes the second of two buffers where the first is.
fn swap<B: Backend>(subject: &Subject<'_, B>, slba: u64, [expected, new]: [Buffer; 2]) -> Command {
    let blocks = new.len() as u32 / subject.lba_bytes;
    let data = Payload::from(vec![expected, new]);
    NvmCommand::CompareAndWrite { nsid: Nsid::FIRST, slba, blocks, data }.into()
}

pub fn what_is_compared_and_written_as_one_is_done_or_left<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(8);
    let filled = |salt| subject.filled(4, 1, salt);
    if !subject.backend.capabilities().nvm.compare_and_write {
        let error = queue.execute(swap(subject, 4, [filled(1), filled(2)])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument), "{error}");
        return;
    }
    queue.execute(subject.write(4, filled(0))).unwrap();
    for salt in 0..4 {
        let done = queue.execute(swap(subject, 4, [filled(salt), filled(salt + 1)])).unwrap();
        assert_eq!((done.answer.commands, done.vector.len()), (2, 2));
        let error = queue.execute(swap(subject, 4, [filled(salt), filled(99)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        subject.expect(&mut queue, 4, filled(salt + 1).as_slice());
    }
    // One buffer with both, beside other commands.
    let bytes = subject.lba_bytes as usize;
    let mut both = subject.empty(2);
    both.as_mut_slice()[..bytes].copy_from_slice(filled(4).as_slice());
    both.as_mut_slice()[bytes..].copy_from_slice(filled(5).as_slice());
    let pair = NvmCommand::CompareAndWrite { nsid: Nsid::FIRST, slba: 4, blocks: 1, data: both.into() };
    let mut commands: Vec<_> = (0..3).map(|tag| (subject.read(8 * tag, 1), tag)).collect();
    commands.insert(1, (pair.into(), 77));
    queue.submit_all(&mut commands.into_iter()).unwrap();
    assert_eq!(queue.outstanding(), 4, "a pair is one of the program's commands");
    let outcomes = drained(&mut queue);
    assert_eq!(outcomes.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [0, 1, 2, 77]);
    assert_eq!(outcomes[3].1.buffer.as_ref().unwrap().len(), 2 * bytes);
    subject.expect(&mut queue, 4, filled(5).as_slice());
    a_queue_full_of_pairs_takes_the_next_when_one_is_done(subject, &mut queue);
    let one_too_many = swap(subject, subject.blocks, [filled(1), filled(2)]);
    assert_eq!(queue.execute(one_too_many).unwrap_err().kind(), ErrorKind::OutOfRange);
    let odd = NvmCommand::CompareAndWrite { nsid: Nsid::FIRST, slba: 4, blocks: 1, data: filled(5).into() };
    assert_eq!(queue.execute(odd.into()).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// As many as there is room for; none is lost, and each gives its room back.
fn a_queue_full_of_pairs_takes_the_next_when_one_is_done<B: Backend>(
    subject: &Subject<'_, B>,
    queue: &mut B::Queue,
) {
    let (mut tag, mut finished) = (0, 0);
    while finished < 40 {
        let same = [subject.filled(4, 1, 5), subject.filled(4, 1, 5)];
        match queue.submit(swap(subject, 4, same), tag) {
            Ok(()) => tag += 1,
            Err(refused) => {
                assert_eq!(refused.error.kind(), ErrorKind::QueueFull, "{}", refused.error);
                assert!(queue.outstanding() > 0);
                finished += queue.wait(1, LONG, &mut |done| drop(done.result.unwrap())).unwrap();
            }
        }
    }
    drained(queue);
    assert_eq!(queue.outstanding(), 0);
}

/// Raises the number at the beginning of a block, however often others do.
fn raise<B: Backend>(subject: &Subject<'_, B>, queue: &mut B::Queue, times: u32) {
    let mut seen = queue.execute(subject.read(9, 1)).unwrap().buffer.unwrap();
    for _ in 0..times {
        loop {
            let count = u32::from_le_bytes(seen.as_slice()[..4].try_into().unwrap());
            let (mut expected, mut new) = (subject.empty(1), subject.empty(1));
            expected.as_mut_slice().copy_from_slice(seen.as_slice());
            new.as_mut_slice().copy_from_slice(seen.as_slice());
            new.as_mut_slice()[..4].copy_from_slice(&(count + 1).to_le_bytes());
            match queue.execute(swap(subject, 9, [expected, new])) {
                Ok(done) => {
                    seen = done.vector.into_iter().nth(1).unwrap();
                    break;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}"),
            }
            seen = queue.execute(subject.read(9, 1)).unwrap().buffer.unwrap();
        }
    }
}

pub fn queues_that_race_on_one_block_lose_no_increment<B: Backend>(subject: &Subject<'_, B>) {
    const QUEUES: u32 = 3;
    const TIMES: u32 = 60;
    if !subject.backend.capabilities().nvm.compare_and_write {
        return;
    }
    let mut zeroes = subject.empty(1);
    zeroes.as_mut_slice().fill(0);
    subject.queue(2).execute(subject.write(9, zeroes)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..QUEUES {
            let mut queue = subject.queue(2);
            scope.spawn(move || raise(subject, &mut queue, TIMES));
        }
    });
    let last = subject.queue(2).execute(subject.read(9, 1)).unwrap().buffer.unwrap();
    assert_eq!(last.as_slice()[..4], (QUEUES * TIMES).to_le_bytes());
}

pub fn a_copy_moves_blocks_within_the_namespace<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.backend.capabilities().nvm.copy {
        return;
    }
    let mut queue = subject.queue(2);
    let data = subject.filled(10, 8, 3);
    let wanted = data.as_slice().to_vec();
    queue.execute(subject.write(10, data)).unwrap();
    let from =
        CopyRanges::new(&[LbaRange { slba: 10, blocks: 3 }, LbaRange { slba: 13, blocks: 5 }]).unwrap();
    queue.execute(NvmCommand::Copy { nsid: Nsid::FIRST, to: 200, from }.into()).unwrap();
    subject.expect(&mut queue, 200, &wanted);
}

pub fn a_verify_reads_without_data<B: Backend>(subject: &Subject<'_, B>) {
    if subject.backend.capabilities().nvm.verify {
        let mut queue = subject.queue(2);
        queue.execute(NvmCommand::Verify { nsid: Nsid::FIRST, slba: 0, blocks: 600 }.into()).unwrap();
    }
}

pub fn a_raw_command_does_what_the_typed_one_does<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.backend.capabilities().raw_commands {
        return;
    }
    let mut queue = subject.queue(2);
    let data = subject.filled(21, 4, 4);
    let wanted = data.as_slice().to_vec();
    let typed = subject.write(21, Buffer::zeroed(data.len()).unwrap());
    let entry = encode::encode(&typed).entry;
    let raw = RawCommand { entry, data: RawData::ToDevice(data.into()) };
    assert!(queue.execute(Command::Raw(raw)).unwrap().buffer.is_some());
    let entry = encode::encode(&subject.read(21, 4)).entry;
    let raw = RawCommand {
        entry,
        data: RawData::FromDeviceVectored(vec![subject.empty(1), subject.empty(3)].into()),
    };
    let read = queue.execute(Command::Raw(raw)).unwrap();
    if subject.keeps {
        assert_same(read.vector[1].as_slice(), &wanted[subject.lba_bytes as usize..]);
    }
}
