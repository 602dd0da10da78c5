//! What a ring does with operations: moves, goes on, gives up, and keeps their memory meanwhile.

#![allow(clippy::unwrap_used)]
#![expect(unsafe_code, reason = "vouches for the memory that operations hold")]

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use byway_sys::uring::{
    Completed, Deadline, Ending, Operation, RegisteredBuffer, Sqpoll, Uring, UringOptions,
};
use byway_sys::{KernelMemory, Mapping, NvmeCommand, RangeChange, Transfer, wait_readable};

const LONG: Duration = Duration::from_secs(20);

const READ: Operation = Operation::Transfer(Transfer::Read { at: 0 });

/// Boxes of bytes that count when they are freed.
struct Boxes(Vec<Box<[u8]>>, Arc<AtomicU32>);

// SAFETY: the boxes stay where they are wherever their owner goes.
unsafe impl KernelMemory for Boxes {
    fn segments(&self) -> usize {
        self.0.len()
    }

    fn segment(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
        let piece = self.0.get(index)?;
        Some((NonNull::from(&**piece).cast(), piece.len()))
    }
}

impl Drop for Boxes {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

impl Boxes {
    fn new(lens: &[usize]) -> Self {
        Self(lens.iter().map(|len| vec![0; *len].into()).collect(), Arc::default())
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.concat()
    }
}

fn file(bytes: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

/// A ring over the end of an empty pipe that is read, and the other end.
fn pipe(options: UringOptions) -> (Uring<Boxes, u32>, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let reader: OwnedFd = reader.into();
    (Uring::new(Arc::new(reader), options).unwrap(), File::from(OwnedFd::from(writer)))
}

#[track_caller]
fn completed<H: KernelMemory>(ring: &mut Uring<H, u32>) -> Completed<H, u32> {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if let Some(completed) = ring.next_completed().unwrap() {
            return completed;
        }
        ring.sleep(1, Some(LONG)).unwrap();
    }
    panic!("nothing completed")
}

#[track_caller]
fn push(ring: &mut Uring<Boxes, u32>, memory: Boxes, ticket: u32, operation: Operation) {
    ring.push(memory, ticket, operation, None, None).ok().unwrap();
}

#[test]
fn vectored_write_is_read_back_by_other_vectors() {
    for registered_file in [true, false] {
        let mut ring =
            Uring::new(file(&[1; 100]), UringOptions::new(4).registered_file(registered_file)).unwrap();
        let data = Boxes(vec![[2; 7].into(), [3; 20].into()], Arc::default());
        push(&mut ring, data, 1, Operation::Transfer(Transfer::Write { at: 10, durable: true }));
        assert!(matches!(completed(&mut ring).ending, Ending::Done(27)));
        push(&mut ring, Boxes::new(&[]), 2, Operation::Transfer(Transfer::Sync));
        assert!(matches!(completed(&mut ring).ending, Ending::Done(0)));
        let change = Operation::Change { at: 30, len_bytes: 5, change: RangeChange::ZeroAndFree };
        push(&mut ring, Boxes::new(&[]), 3, change);
        assert_eq!(completed(&mut ring).ticket, 3);
        push(&mut ring, Boxes::new(&[15, 0, 20, 80]), 4, READ);
        let read = completed(&mut ring);
        assert!(matches!(read.ending, Ending::Done(100)), "all there is: {:?}", read.ending);
        let parts = [(1, 10), (2, 7), (3, 13), (0, 5), (3, 2), (1, 63), (0, 15)];
        let wanted = parts.into_iter().flat_map(|(byte, times)| std::iter::repeat_n(byte, times));
        assert_eq!(read.held.bytes(), wanted.collect::<Vec<u8>>());
    }
}

#[test]
fn a_transfer_that_ends_early_is_gone_on_with() {
    let (mut ring, mut writer) = pipe(UringOptions::new(2));
    push(&mut ring, Boxes::new(&[3, 4, 5]), 1, READ);
    for part in [&b"ab"[..], b"cde", b"f", b"ghijk"] {
        assert!(ring.next_completed().unwrap().is_none());
        writer.write_all(part).unwrap();
        ring.sleep(1, Some(LONG)).unwrap();
    }
    assert!(ring.next_completed().unwrap().is_none());
    writer.write_all(b"l").unwrap();
    let read = completed(&mut ring);
    assert!(matches!(read.ending, Ending::Done(12)));
    assert_eq!(read.held.bytes(), b"abcdefghijkl");
}

#[test]
fn pending_read_is_cancelled_and_returns_its_memory() {
    let (mut ring, _writer) = pipe(UringOptions::new(4));
    (0..3).for_each(|ticket| push(&mut ring, Boxes::new(&[10]), ticket, READ));
    assert!(ring.next_completed().unwrap().is_none());
    assert!(!ring.cancel(|ticket| *ticket == 7).unwrap());
    assert!(ring.cancel(|ticket| *ticket == 1).unwrap());
    let given_up = completed(&mut ring);
    assert_eq!((given_up.ticket, given_up.held.bytes().len()), (1, 10));
    assert!(matches!(given_up.ending, Ending::Cancelled));
    assert_eq!(ring.len(), 2);
}

#[test]
fn operation_past_its_deadline_times_out() {
    let (mut ring, mut writer) = pipe(UringOptions::new(4));
    ring.push(Boxes::new(&[10]), 1, READ, None, Some(Deadline::after(Duration::from_millis(1))))
        .ok()
        .unwrap();
    let given_up = completed(&mut ring);
    assert!(matches!(given_up.ending, Ending::TimedOut), "{:?}", given_up.ending);
    ring.push(Boxes::new(&[4]), 2, READ, None, Some(Deadline::after(LONG))).ok().unwrap();
    writer.write_all(b"here").unwrap();
    assert!(matches!(completed(&mut ring).ending, Ending::Done(4)));
}

#[test]
fn memory_is_kept_until_the_kernel_is_done_after_its_waiter_left() {
    for one_thread in [false, true] {
        let freed = Arc::new(AtomicU32::new(0));
        let (mut ring, _writer) = pipe(UringOptions::new(4).one_thread(one_thread));
        for ticket in 0..4 {
            push(&mut ring, Boxes(vec![[0; 64].into()], Arc::clone(&freed)), ticket, READ);
        }
        ring.start().unwrap();
        ring.sleep(1, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(freed.load(Ordering::Relaxed), 0);
        drop(ring);
        assert_eq!(freed.load(Ordering::Relaxed), 4, "freed once each, when the kernel had given them up");
    }
}

#[test]
fn an_event_is_readable_until_no_completion_is_left() {
    for one_thread in [false, true] {
        let (mut ring, mut writer) = pipe(UringOptions::new(4).one_thread(one_thread));
        let readable =
            |ring: &mut Uring<Boxes, u32>, timeout| wait_readable(ring.event().unwrap(), timeout).unwrap();
        for round in 0..20 {
            push(&mut ring, Boxes::new(&[1]), round, READ);
            assert!(ring.next_completed().unwrap().is_none());
            assert!(round == 0 || !readable(&mut ring, Duration::ZERO));
            writer.write_all(b"x").unwrap();
            let mut done = None;
            while done.is_none() {
                assert!(readable(&mut ring, LONG), "round {round}");
                done = ring.next_completed().unwrap();
            }
            assert!(ring.next_completed().unwrap().is_none());
        }
    }
}

#[test]
fn more_operations_than_the_submission_ring_has_entries_are_all_done() {
    for sqpoll in [None, Some(Sqpoll { idle: Duration::from_millis(5), cpu: None })] {
        let depth = 3000;
        let mut ring = Uring::new(file(&[5; 4096]), UringOptions::new(depth).sqpoll(sqpoll)).unwrap();
        (0..depth).for_each(|ticket| push(&mut ring, Boxes::new(&[9]), ticket, READ));
        let back = ring.push(Boxes::new(&[77]), 0, READ, None, None).err().unwrap();
        assert_eq!(back.bytes().len(), 77);
        let mut seen = vec![false; depth as usize];
        for _ in 0..depth {
            let done = completed(&mut ring);
            assert!(!std::mem::replace(&mut seen[done.ticket as usize], true), "completed twice");
            assert_eq!(done.held.bytes(), [5; 9]);
        }
        assert!(ring.is_empty());
    }
}

#[test]
fn a_ring_goes_from_thread_to_thread_with_operations_under_way() {
    let (mut ring, mut writer) = pipe(UringOptions::new(4));
    let begin = move || {
        push(&mut ring, Boxes::new(&[6]), 1, READ);
        ring.start().unwrap();
        ring
    };
    // The thread that began the operation ends.
    let mut ring = std::thread::spawn(begin).join().unwrap();
    writer.write_all(b"moved!").unwrap();
    let read = completed(&mut ring);
    assert_eq!(read.held.bytes(), b"moved!", "{:?}", read.ending);
}

#[test]
fn a_ring_of_one_thread_is_the_first_ones_that_uses_it() {
    let mut ring = Uring::new(file(b"bytes"), UringOptions::new(4).one_thread(true)).unwrap();
    let mut ring = std::thread::spawn(move || {
        push(&mut ring, Boxes::new(&[5]), 1, READ);
        assert_eq!(completed(&mut ring).held.bytes(), b"bytes");
        ring
    })
    .join()
    .unwrap();
    push(&mut ring, Boxes::new(&[5]), 2, READ);
    let refused = ring.start().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists, "{refused}");
}

#[test]
fn registered_memory_is_used_and_registered_anew_when_its_place_has_another() {
    let options = UringOptions::new(4).registered_buffers(8);
    let mut ring = Uring::new(file(&[7; 8192]), options).unwrap();
    for serial in 1..4 {
        let memory = Mapped(Mapping::anonymous(8192).unwrap());
        let buffer = RegisteredBuffer::new(&memory.0, 3, serial);
        let buffer = ring.register(buffer).unwrap();
        assert!(buffer.is_some());
        ring.push(memory, 1, READ, buffer, None).ok().unwrap();
        let done = completed(&mut ring);
        assert!(matches!(done.ending, Ending::Done(8192)), "{:?}", done.ending);
        let mut byte = [0];
        done.held.0.read_at(8191, &mut byte).unwrap();
        assert_eq!(byte, [7]);
    }
}

struct Mapped(Mapping);

// SAFETY: a mapping stays where it is, and this is its one owner.
unsafe impl KernelMemory for Mapped {
    fn segments(&self) -> usize {
        1
    }

    fn segment(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
        (index == 0).then_some((NonNull::new(self.0.as_mut_ptr())?, self.0.len()))
    }
}

/// A ring of commands over a file.
fn commands(file: File, options: UringOptions) -> Uring<Boxes, u64, NvmeCommand> {
    Uring::new(Arc::new(OwnedFd::from(file)), options).unwrap()
}

#[test]
fn commands_go_through_entries_of_twice_the_size_and_each_comes_back_once() {
    // It takes every command and does nothing.
    let null = File::open("/dev/null").unwrap();
    let mut ring = commands(null, UringOptions::new(64));
    let command = NvmeCommand { opcode: 2, nsid: 1, ..NvmeCommand::default() };
    for round in 0..5 {
        for tag in 0..64 {
            let memory = if tag % 3 == 0 { Boxes::new(&[512, 512]) } else { Boxes::new(&[512]) };
            ring.push(memory, round * 64 + tag, command, None, None).map_err(drop).unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < 64 {
            let Some(Completed { held, ticket, ending, .. }) = ring.next_completed().unwrap() else {
                ring.sleep(1, Some(LONG)).unwrap();
                continue;
            };
            assert!(matches!(ending, Ending::Done(0)), "{ending:?}");
            assert!(!held.bytes().is_empty());
            seen.push(ticket);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(round * 64..(round + 1) * 64));
    }
    assert!(ring.is_empty());
}

#[test]
fn a_file_that_takes_no_commands_fails_each_with_the_kernels_word() {
    let file = tempfile::tempfile().unwrap();
    let mut ring = commands(file, UringOptions::new(4));
    ring.push(Boxes::new(&[512]), 9, NvmeCommand::default(), None, None).map_err(drop).unwrap();
    ring.sleep(1, Some(LONG)).unwrap();
    let completed = ring.next_completed().unwrap().unwrap();
    let Ending::Failed(cause) = completed.ending else { panic!("{:?}", completed.ending) };
    assert_eq!((completed.ticket, cause.kind()), (9, std::io::ErrorKind::Unsupported));
}

#[test]
fn a_ring_that_sleeps_burns_no_core_however_eager_it_was_before() {
    let cpu = || Duration::from_nanos(byway_sys::time::thread_ns());
    let (mut ring, mut writer) = pipe(UringOptions::new(8));
    // What is there at once makes it eager.
    for tag in 0..200 {
        writer.write_all(&[1]).unwrap();
        push(&mut ring, Boxes::new(&[1]), tag, READ);
        ring.sleep(1, Some(LONG)).unwrap();
        assert_eq!(completed(&mut ring).ticket, tag);
    }
    push(&mut ring, Boxes::new(&[1]), 1000, READ);
    let (wall, burnt) = (Instant::now(), cpu());
    for _ in 0..10 {
        ring.sleep(1, Some(Duration::from_millis(40))).unwrap();
    }
    let (wall, burnt) = (wall.elapsed(), cpu() - burnt);
    assert!(burnt < wall / 10, "{burnt:?} of a processor in {wall:?} of sleep");
    writer.write_all(&[1]).unwrap();
    assert_eq!(completed(&mut ring).ticket, 1000);
}
