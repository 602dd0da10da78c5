//! What io_uring alone has: threads, several ranges, files that change under way, options that cannot be had.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_backends::{IoUring, IoUringOptions, Target, TargetOptions};
use byway_core::{
    Backend, BackendQueue, Buffer, ErrorKind, Finished, LbaRange, LbaRanges, Nsid, NvmCommand, Origin,
    PAGE_BYTES, QueueOptions,
};

const LONG: Duration = Duration::from_secs(20);

struct Scratch {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        std::fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }

    fn backend(&self, target: TargetOptions, options: IoUringOptions) -> byway_core::Result<IoUring> {
        IoUring::new(Arc::new(Target::open(&self.path, target).unwrap()), options)
    }

    fn open(&self, options: IoUringOptions) -> IoUring {
        self.backend(TargetOptions::default(), options).unwrap()
    }
}

fn read(slba: u64) -> byway_core::Command {
    NvmCommand::Read { nsid: Nsid::FIRST, slba, blocks: 1, into: Buffer::zeroed(512).unwrap() }.into()
}

fn finished(queue: &mut impl BackendQueue) -> Finished {
    let mut all = Vec::new();
    queue.wait(1, LONG, &mut |finished| all.push(finished)).unwrap();
    all.pop().unwrap()
}

/// The memory that rings of this process have registered, as the kernel reports it: addresses and bytes.
fn registered() -> Vec<(usize, usize)> {
    let info = |fd: std::fs::DirEntry| {
        let is_ring = std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("io_uring"));
        let info =
            is_ring.then(|| std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(fd.file_name())));
        info.and_then(Result::ok).unwrap_or_default()
    };
    let all: Vec<String> = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(info).collect();
    all.iter().flat_map(|info| info.lines()).filter_map(range).collect()
}

/// A line of the kernel's such as `0: 0x7f3a5c000000/12288`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (at, bytes) = line.split_once(": 0x")?.1.split_once('/')?;
    Some((usize::from_str_radix(at, 16).ok()?, bytes.trim().parse().ok()?))
}

/// Whether the kernel reports this memory within a while: it reports nothing while it is busy with a ring.
fn comes_to_be_registered(memory: (usize, usize)) -> bool {
    let end = Instant::now() + LONG;
    while !registered().contains(&memory) {
        if Instant::now() > end {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn the_kernel_registers_prepared_memory_where_the_program_has_it_whichever_part_a_command_names() {
    let options = IoUringOptions::default().registered_buffers(4);
    let scratch = Scratch::new(&[3; 65_536]);
    let backend = scratch.open(options);
    let mut queue = backend.queue(QueueOptions::default()).unwrap();
    let brought = Buffer::zeroed(3 * PAGE_BYTES).unwrap();
    let memory = (brought.as_ptr().addr().get(), 3 * PAGE_BYTES);
    let mut whole = backend.prepare(brought).unwrap();
    let mut part = whole.split_off(PAGE_BYTES + 512);
    let rest = part.split_off(512);
    let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 1, into: part };
    let part = queue.execute(read.into()).unwrap().buffer.unwrap();
    assert_eq!(part.as_slice(), [3; 512]);
    assert!(comes_to_be_registered(memory), "{memory:x?} is none of {:x?}", registered());
    assert!(whole.as_slice().iter().chain(rest.as_slice()).all(|byte| *byte == 0), "its neighbours stay");
}

#[test]
fn a_queue_goes_to_another_thread_with_commands_under_way() {
    let backend = Scratch::new(&[3; 65_536]).open(IoUringOptions::default());
    let mut queue = backend.queue(QueueOptions::default()).unwrap();
    let begin = move || {
        for tag in 0..100 {
            queue.submit(read(tag), tag).unwrap();
        }
        queue.start().unwrap();
        queue
    };
    let mut queue = std::thread::spawn(begin).join().unwrap();
    let mut tags = 0;
    let on = &mut |finished: Finished| {
        assert_eq!(finished.result.unwrap().buffer.unwrap().as_slice(), [3; 512]);
        tags += finished.tag;
    };
    assert_eq!(queue.drain(on).unwrap(), 100);
    assert_eq!(tags, (0..100).sum());
}

#[test]
fn a_queue_of_one_thread_refuses_another_with_the_reason() {
    let options = IoUringOptions::default().one_thread(true);
    let backend = Scratch::new(&[3; 4096]).open(options);
    let mut queue = backend.queue(QueueOptions::default()).unwrap();
    let first = move || {
        queue.execute(read(0)).unwrap();
        queue
    };
    let mut queue = std::thread::spawn(first).join().unwrap();
    let refused = queue.execute(read(0)).unwrap_err().to_string();
    assert!(refused.starts_with("the queue was opened for one thread, and another uses it"), "{refused}");
}

#[test]
fn every_range_of_a_deallocation_is_zeroed_and_nothing_else() {
    let scratch = Scratch::new(&[9; 64 * 512]);
    let mut queue = scratch.open(IoUringOptions::default()).queue(QueueOptions::default()).unwrap();
    let ranges = [(2, 3), (10, 0), (20, 1), (63, 1)].map(|(slba, blocks)| LbaRange { slba, blocks });
    let ranges = LbaRanges::new(&ranges).unwrap();
    queue.submit(NvmCommand::Deallocate { nsid: Nsid::FIRST, ranges }.into(), 5).unwrap();
    assert_eq!(finished(&mut queue).tag, 5);
    let blocks = std::fs::read(&scratch.path).unwrap();
    let zeroed = (0..64).filter(|block| blocks[block * 512..][..512].iter().all(|byte| *byte == 0));
    assert_eq!(zeroed.collect::<Vec<_>>(), [2, 3, 4, 20, 63]);
}

#[test]
fn a_file_that_was_cut_ends_with_the_byte_and_gives_the_buffer_back() {
    let scratch = Scratch::new(&[1; 8192]);
    let mut queue = scratch.open(IoUringOptions::default()).queue(QueueOptions::default()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&scratch.path).unwrap().set_len(4096 + 100).unwrap();
    queue.submit(read(8), 1).unwrap();
    let failed = finished(&mut queue).result.unwrap_err();
    assert_eq!((failed.error.kind(), failed.error.origin()), (ErrorKind::Media, Origin::Device));
    assert!(failed.error.to_string().contains("ends at byte 4196"), "{}", failed.error);
    assert_eq!(failed.buffer.unwrap().len(), 512);
}

#[test]
fn more_buffers_than_the_kernel_registers_are_as_good() {
    let options = IoUringOptions::default().registered_buffers(2);
    let backend = Scratch::new(&[6; 8192]).open(options);
    let mut queues = [(); 2].map(|()| backend.queue(QueueOptions::default()).unwrap());
    for _ in 0..3 {
        let buffers: Vec<Buffer> = (0..5).map(|_| backend.buffer(4096).unwrap()).collect();
        assert!(
            buffers.iter().all(|buffer| buffer.as_slice() == [0; 4096]),
            "zeroed, whatever was there before"
        );
        for (n, into) in buffers.into_iter().enumerate() {
            let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 8, blocks: 8, into };
            let outcome = queues[n % 2].execute(read.into()).unwrap();
            assert_eq!(outcome.buffer.unwrap().as_slice(), [6; 4096]);
        }
    }
}

#[test]
fn polling_for_completions_is_refused_where_a_device_has_nothing_to_be_polled() {
    let scratch = Scratch::new(&[0; 65_536]);
    let target = TargetOptions::default().direct(true);
    let options = IoUringOptions::default().iopoll(true);
    // Where it has, reading is tried and works.
    match scratch.backend(target, options) {
        Ok(backend) => {
            assert!(!backend.capabilities().cancel);
            let mut queue = backend.queue(QueueOptions::default()).unwrap();
            let said = queue.cancel(4).unwrap_err().to_string();
            assert!(said.contains("polled for"), "{said}");
            assert_eq!(queue.event().unwrap_err().kind(), ErrorKind::Unsupported);
        }
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert!(refused.to_string().contains("no queues for that"), "{refused}");
        }
    }
}
