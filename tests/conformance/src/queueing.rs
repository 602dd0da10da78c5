//! Queues: how deep they are, what they give back, who may use them from where.

use std::collections::BTreeSet;
use std::time::Duration;

use byway_core::{Backend, BackendQueue, ErrorKind};

use crate::subject::{Subject, assert_same, drained};

pub fn every_depth_takes_as_many_commands_as_it_says_and_refuses_one_more<B: Backend>(
    subject: &Subject<'_, B>,
) {
    // Some controllers have queues of 1,024 entries, one of which stays free.
    let deep = subject.backend.capabilities().limits.ring_entries.saturating_sub(1).min(1024);
    for depth in [1, 2, 3, 32, 100, deep] {
        let mut queue = subject.queue(depth);
        assert_eq!((queue.depth(), queue.outstanding()), (depth, 0));
        for tag in 0..u64::from(depth) {
            queue.submit(subject.write(tag, subject.filled(tag, 1, 7)), tag).unwrap();
        }
        let refused = queue.submit(subject.read(1, 1), 0).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        assert_eq!(refused.command.into_buffer().unwrap().len(), subject.lba_bytes as usize);
        assert_eq!(queue.outstanding(), depth);
        assert_eq!(drained(&mut queue).len(), depth as usize);
        assert_eq!(queue.outstanding(), 0);
    }
}

pub fn a_queue_as_deep_as_is_promised_is_had_and_works<B: Backend>(subject: &Subject<'_, B>) {
    let depth = match subject.backend.name() {
        // All processes of the system together have 65,536: this one leaves the others theirs.
        "libaio" => 4096,
        _ => subject.backend.capabilities().limits.depth_max(),
    };
    let mut queue = subject.queue(depth);
    assert_eq!(queue.depth(), depth);
    let many = u64::from(depth).min(3000);
    for tag in 0..many {
        queue.submit(subject.read(tag % subject.blocks, 1), tag).unwrap();
    }
    assert!(drained(&mut queue).iter().map(|(tag, _)| *tag).eq(0..many));
}

pub fn every_command_finishes_once_with_its_tag_and_its_buffer<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(64);
    for round in 0..20u64 {
        for n in 0..64 {
            let slba = (round * 64 + n) % (subject.blocks - 1);
            queue.submit(subject.write(slba, subject.filled(slba, 1, round as u8)), n).unwrap();
        }
        let outcomes = drained(&mut queue);
        assert!(outcomes.iter().map(|(tag, _)| *tag).eq(0..64), "every tag once");
        for (tag, outcome) in outcomes {
            let slba = (round * 64 + tag) % (subject.blocks - 1);
            let wanted = subject.filled(slba, 1, round as u8);
            assert_eq!(outcome.buffer.unwrap().as_slice(), wanted.as_slice());
        }
    }
}

pub fn a_command_can_be_submitted_from_where_another_finishes_at_full_depth<B: Backend>(
    subject: &Subject<'_, B>,
) {
    let mut queue = subject.queue(16);
    for tag in 0..16 {
        queue.submit(subject.read(tag, 1), tag).unwrap();
    }
    let mut seen = BTreeSet::new();
    while queue.outstanding() > 0 {
        let next = queue.next_finished().unwrap();
        let Some(finished) = next.or_else(|| queue.next_within(Duration::from_secs(10)).unwrap()) else {
            continue;
        };
        assert!(seen.insert(finished.tag), "tag {} finished twice", finished.tag);
        if finished.tag < 2000 {
            let next = finished.tag + 16;
            queue.submit(subject.read(next % subject.blocks, 1), next).unwrap();
        }
        finished.result.unwrap();
    }
    assert!(seen.into_iter().eq(0..2016), "every command that followed another");
}

pub fn a_synchronous_call_leaves_the_completions_of_others<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(8);
    for tag in 0..4 {
        queue.submit(subject.write(tag, subject.filled(tag, 1, 9)), tag).unwrap();
    }
    queue.execute(subject.read(100, 1)).unwrap();
    assert_eq!(queue.outstanding(), 4);
    assert!(drained(&mut queue).iter().map(|(tag, _)| *tag).eq(0..4));
}

pub fn a_call_alone_returns_its_memory_and_takes_no_other_completion<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(2);
    let data = subject.filled(7, 3, 9);
    let wanted = data.as_slice().to_vec();
    assert!(queue.alone(subject.write(7, data)).unwrap().buffer.is_some());
    let read = queue.alone(subject.read(7, 3)).unwrap().buffer.unwrap();
    if subject.keeps {
        assert_same(read.as_slice(), &wanted);
    }
    let in_time = queue.alone_within(subject.read(7, 3), Some(Duration::from_secs(60)));
    let memory = in_time.map(|done| done.buffer).unwrap_or_else(|refused| {
        assert_eq!(
            refused.error.kind(),
            ErrorKind::Unsupported,
            "only an interface that gives nothing up refuses"
        );
        refused.buffer
    });
    assert_eq!(memory.unwrap().len(), read.len());
    let failed = queue.alone(subject.read(subject.blocks, 1)).unwrap_err();
    assert_eq!(failed.buffer.unwrap().len(), subject.lba_bytes as usize);
    queue.submit(subject.read(0, 1), 5).unwrap();
    let late = queue.alone_within(subject.read(0, 1), Some(Duration::from_secs(60))).unwrap_err();
    for busy in [queue.alone(subject.read(0, 1)).unwrap_err(), late] {
        assert_eq!((busy.error.kind(), busy.buffer.is_some()), (ErrorKind::Busy, true));
    }
    assert_eq!(drained(&mut queue).len(), 1);
}

pub fn commands_submitted_together_all_finish<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(32);
    let mut commands = (0..40).map(|tag| (subject.read(tag, 1), tag));
    let refused = queue.submit_all(&mut commands).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
    assert_eq!(commands.count(), 7, "those behind the refused one stay where they are");
    assert!(drained(&mut queue).iter().map(|(tag, _)| *tag).eq(0..32));
}

pub fn several_queues_on_several_threads_do_not_disturb_each_other<B: Backend>(subject: &Subject<'_, B>) {
    let share = subject.blocks / 4;
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                let mut queue = subject.queue(8);
                let first = u64::from(thread) * share;
                for n in 0..200 {
                    let slba = first + n % share;
                    queue.submit(subject.write(slba, subject.filled(slba, 1, thread)), n).unwrap();
                    if queue.outstanding() == 8 {
                        drained(&mut queue);
                    }
                }
                drained(&mut queue);
                for n in 0..200 {
                    let slba = first + n % share;
                    subject.expect(&mut queue, slba, subject.filled(slba, 1, thread).as_slice());
                }
            });
        }
    });
}

pub fn a_queue_dropped_with_commands_outstanding_harms_no_other<B: Backend>(subject: &Subject<'_, B>) {
    for depth in [1, 7, 64] {
        let mut queue = subject.queue(depth);
        for tag in 0..u64::from(depth) {
            queue.submit(subject.read(tag, 8), tag).unwrap();
        }
        drop(queue);
    }
    let mut queue = subject.queue(2);
    queue.execute(subject.write(0, subject.filled(0, 1, 1))).unwrap();
    subject.expect(&mut queue, 0, subject.filled(0, 1, 1).as_slice());
}
