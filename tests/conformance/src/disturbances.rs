//! Disturbances during commands: truncated files, resource limits, child processes, expired deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::{Duration, Instant};

use byway_core::{
    Backend, BackendQueue, Buffer, ErrorKind, Finished, Nsid, NvmCommand, Origin, Payload, QueueOptions,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::alone::alone;
use crate::subject::{Subject, assert_same, drained};

pub fn a_file_truncated_under_reads_is_an_error_that_names_its_last_byte<B: Backend>(
    subject: &Subject<'_, B>,
) {
    if !subject.in_a_file() {
        return;
    }
    let mut queue = subject.queue(8);
    let block = u64::from(subject.lba_bytes);
    for end in [3 * block, 2 * block + 100, 0] {
        cut(&subject.scratch.path, end);
        for slba in 0..3 {
            queue.submit(subject.read(slba, 8), slba).unwrap();
        }
        let mut failures = 0;
        queue
            .drain(&mut |Finished { result, .. }| {
                let failed = result.unwrap_err();
                let wanted = format!("ends at byte {end}:");
                assert!(failed.error.to_string().contains(&wanted), "{}, not {wanted}", failed.error);
                assert_eq!(failed.buffer.unwrap().len() as u64, 8 * block);
                failures += 1;
            })
            .unwrap();
        assert_eq!(failures, 3);
        assert!(queue.execute(subject.read(0, 8)).unwrap_err().to_string().contains("ends at byte"));
    }
    queue.execute(subject.write(0, subject.filled(0, 8, 1))).unwrap();
    subject.expect(&mut queue, 0, subject.filled(0, 8, 1).as_slice());
}

fn cut(path: &Path, end: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(end).unwrap();
}

pub fn a_write_that_the_system_cuts_short_does_not_pass_for_a_whole_one<B: Backend>(
    subject: &Subject<'_, B>,
) {
    if !subject.in_a_file() {
        return;
    }
    alone(|| {
        let mut queue = subject.queue(4);
        let block = u64::from(subject.lba_bytes);
        let before = limited(Resource::Fsize, 5 * block);
        queue.submit(subject.write(0, subject.filled(0, 8, 1)), 0).unwrap();
        let parts = (0..8).map(|slba| subject.filled(slba, 1, 2)).collect::<Vec<_>>();
        let data = Payload::from(parts);
        queue.submit(NvmCommand::Write { nsid: Nsid::FIRST, slba: 0, blocks: 8, data }.into(), 1).unwrap();
        let mut failures = 0;
        queue
            .drain(&mut |Finished { result, .. }| {
                let failed = result.unwrap_err();
                assert_eq!(failed.error.origin(), Origin::Kernel, "{}", failed.error);
                assert_eq!(usize::from(failed.buffer.is_some()) + failed.vector.len(), 1 + 7 * failures);
                failures += 1;
            })
            .unwrap();
        assert_eq!(failures, 2);
        setrlimit(Resource::Fsize, before).unwrap();
        queue.execute(subject.write(0, subject.filled(0, 8, 3))).unwrap();
        subject.expect(&mut queue, 0, subject.filled(0, 8, 3).as_slice());
    });
}

/// Sets a limit of the process; returns what it was.
fn limited(resource: Resource, current: u64) -> Rlimit {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(current), maximum: before.maximum }).unwrap();
    before
}

pub fn a_queue_for_which_no_descriptor_is_left_is_refused_and_nothing_leaks<B: Backend>(
    subject: &Subject<'_, B>,
) {
    // A server of this process that is at the limit itself accepts no connection, which to a host looks like a slow server.
    if subject.backend.name() == "tcp" {
        return;
    }
    alone(|| {
        // Resources made once per device, for example by the first waiter, exist after a round or two.
        open_queues_with_few_descriptors(subject);
        let leaves_nothing = (0..4).any(|_| {
            let open = descriptors();
            open_queues_with_few_descriptors(subject);
            comes_down_to(&open)
        });
        assert!(leaves_nothing, "each time more are open: {:?}", descriptors());
        subject.queue(4).execute(subject.read(0, 1)).unwrap();
    });
}

/// Either the queue finds none left, or a server in this process that it sends one to.
fn open_queues_with_few_descriptors<B: Backend>(subject: &Subject<'_, B>) {
    (1..=6).for_each(|spare| open_queues_until_refused(subject, limit_that_leaves(spare)));
}

/// The limit below which `spare` descriptors are free. The parent process may have left it one of a high number.
fn limit_that_leaves(spare: usize) -> u64 {
    let open = descriptors();
    let last = (0..).filter(|number| !open.contains_key(number)).nth(spare - 1);
    last.unwrap() + 1
}

/// Makes queues until `limit` descriptors are too few for one more; those that were had work.
fn open_queues_until_refused<B: Backend>(subject: &Subject<'_, B>, limit: u64) {
    let before = limited(Resource::Nofile, limit);
    let mut queues = Vec::new();
    let mut refused = Vec::new();
    let options = QueueOptions::default().depth(4);
    while queues.len() < 10 && refused.is_empty() {
        match subject.backend.queue(options) {
            Ok(queue) => queues.push(queue),
            Err(error) => refused.push(error),
        }
    }
    refused.extend(queues.iter_mut().filter_map(|queue| queue.event().err()));
    setrlimit(Resource::Nofile, before).unwrap();
    for error in refused {
        assert!(error.to_string().contains(' ') && error.origin() != Origin::Device, "{error}");
    }
    for queue in &mut queues {
        queue.submit(subject.read(0, 1), 0).unwrap();
        assert_eq!(drained(queue).len(), 1);
    }
}

/// Whether no more of each kind are open than these, before long: a server in a thread of this process closes those it was
/// sent some time later, which may be after the queue's owner has been answered.
fn comes_down_to(open: &Descriptors) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !has_no_more(&descriptors(), open) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Numbers may differ: one that is kept for when there is no other may have been used and opened again.
fn has_no_more(now: &Descriptors, before: &Descriptors) -> bool {
    let count = |of: &Descriptors, kind: &Path| of.values().filter(|other| *other == kind).count();
    now.values().all(|kind| count(now, kind) <= count(before, kind))
}

/// The process's descriptors: what each is open to.
fn descriptors() -> Descriptors {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let number = |entry: &DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    let open = entries.filter_map(|entry| Some((number(&entry), entry.path().read_link().ok()?)));
    open.filter(|(_, to)| !to.ends_with("fd")).collect()
}

type Descriptors = BTreeMap<u64, PathBuf>;

pub fn a_child_that_begins_and_ends_disturbs_no_command<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(32);
    // One that becomes another program, and one that cannot and ends.
    for (round, program) in [(1, "/bin/true"), (2, "/nothing/is/here"), (3, "/bin/true")] {
        for slba in 0..32 {
            queue.submit(subject.write(slba, subject.filled(slba, 1, round)), slba).unwrap();
        }
        queue.start().unwrap();
        // Asked to be a user, even the same, the child is a real copy of this process.
        let child = Program::new(program).uid(rustix::process::getuid().as_raw()).status();
        assert_eq!(child.is_ok_and(|status| status.success()), program == "/bin/true");
        assert_eq!(drained(&mut queue).len(), 32);
        for slba in 0..32 {
            subject.expect(&mut queue, slba, subject.filled(slba, 1, round).as_slice());
        }
    }
}

pub fn commands_whose_time_is_over_finish_once_and_give_their_memory_back<B: Backend>(
    subject: &Subject<'_, B>,
) {
    if !subject.gives_up {
        return;
    }
    let mut queue = subject.queue(16);
    for nanos in [0, 1, 1000, 100_000, 0] {
        for tag in 0..16 {
            let write = subject.write(tag, subject.filled(tag, 1, 3));
            queue.submit_within(write, tag, Some(Duration::from_nanos(nanos))).unwrap();
        }
        each_finishes_once(subject, &mut queue, ErrorKind::TimedOut);
        let alone =
            queue.alone_within(subject.write(0, subject.filled(0, 1, 3)), Some(Duration::from_nanos(nanos)));
        let buffer = alone.map(|done| done.buffer).unwrap_or_else(|late| {
            assert_eq!(late.error.kind(), ErrorKind::TimedOut);
            late.buffer
        });
        assert_eq!(buffer.unwrap().len(), subject.lba_bytes as usize);
    }
    queue.execute(subject.write(0, subject.filled(0, 1, 4))).unwrap();
    subject.expect(&mut queue, 0, subject.filled(0, 1, 4).as_slice());
}

pub fn commands_that_are_taken_back_finish_once_and_give_their_memory_back<B: Backend>(
    subject: &Subject<'_, B>,
) {
    let mut queue = subject.queue(16);
    for begun in [false, true, false, true] {
        for tag in 0..16 {
            queue.submit(subject.read(tag, 1), tag).unwrap();
        }
        if begun {
            queue.start().unwrap();
        }
        for tag in (0..16).rev() {
            if let Err(refused) = queue.cancel(tag) {
                assert!(matches!(refused.kind(), ErrorKind::NotFound | ErrorKind::Unsupported), "{refused}");
            }
        }
        each_finishes_once(subject, &mut queue, ErrorKind::Cancelled);
    }
    queue.execute(subject.read(0, 1)).unwrap();
}

/// Takes sixteen commands of a block each, done or failed in this way.
#[track_caller]
fn each_finishes_once<B: Backend>(subject: &Subject<'_, B>, queue: &mut B::Queue, kind: ErrorKind) {
    let mut seen = BTreeSet::new();
    queue
        .drain(&mut |Finished { tag, result }| {
            let buffer = match result {
                Ok(outcome) => outcome.buffer,
                Err(failed) => {
                    assert_eq!(failed.error.kind(), kind, "{}", failed.error);
                    failed.buffer
                }
            };
            assert_eq!(buffer.unwrap().len(), subject.lba_bytes as usize, "tag {tag}");
            assert!(seen.insert(tag), "tag {tag} finished twice");
        })
        .unwrap();
    assert!(seen.into_iter().eq(0..16));
}

pub fn more_buffers_than_one_system_call_takes_are_sent_and_received<B: Backend>(subject: &Subject<'_, B>) {
    let blocks = 1500;
    let bytes = blocks * subject.lba_bytes as usize;
    let capabilities = subject.backend.capabilities();
    if capabilities.limits.transfer_bytes < bytes as u64 || subject.blocks < blocks as u64 {
        return;
    }
    let mut queue = subject.queue(2);
    let data = subject.filled(0, blocks as u32, 6);
    let wanted = data.as_slice().to_vec();
    let data = Payload::from(in_blocks(data, subject.lba_bytes as usize));
    let write = NvmCommand::Write { nsid: Nsid::FIRST, slba: 0, blocks: blocks as u32, data };
    queue.submit(write.into(), 0).unwrap();
    assert_eq!(drained(&mut queue)[0].1.vector.len(), blocks);
    let into = in_blocks(subject.empty(blocks as u32), subject.lba_bytes as usize);
    let read =
        NvmCommand::ReadVectored { nsid: Nsid::FIRST, slba: 0, blocks: blocks as u32, into: into.into() };
    queue.submit(read.into(), 1).unwrap();
    let (_, read) = drained(&mut queue).remove(0);
    if subject.keeps {
        let read: Vec<u8> = read.vector.iter().flat_map(|part| part.as_slice().to_vec()).collect();
        assert_same(&read, &wanted);
    }
}

/// A buffer cut into pieces of `piece` bytes.
fn in_blocks(mut whole: Buffer, piece: usize) -> Vec<Buffer> {
    let count = whole.len() / piece;
    let mut parts = Vec::with_capacity(count);
    for _ in 1..count {
        let rest = whole.split_off(piece);
        parts.push(std::mem::replace(&mut whole, rest));
    }
    whole.set_len(piece);
    parts.push(whole);
    parts
}
