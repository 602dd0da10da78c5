//! Waiting for completions: by count, by time, by an event loop; giving up.

use std::time::{Duration, Instant};

use byway_core::{Backend, BackendQueue, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::subject::{Subject, drained};

const LONG: Duration = Duration::from_secs(20);

pub fn waiting_for_some_returns_when_they_are_there<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(32);
    for tag in 0..32 {
        queue.submit(subject.read(tag, 1), tag).unwrap();
    }
    let mut taken = queue.wait(5, LONG, &mut |finished| drop(finished.result.unwrap())).unwrap();
    assert!((5..=32).contains(&taken), "{taken}");
    while queue.outstanding() > 0 {
        taken += queue.wait(1, LONG, &mut |finished| drop(finished.result.unwrap())).unwrap();
    }
    assert_eq!(taken, 32);
}

pub fn draining_ends_with_nothing_outstanding<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(100);
    for round in 0..5 {
        for tag in 0..100 {
            queue.submit(subject.write(tag, subject.filled(tag, 1, round)), tag).unwrap();
        }
        assert_eq!(queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap(), 100);
        assert_eq!(queue.outstanding(), 0);
    }
}

pub fn waiting_on_an_empty_queue_returns_at_once<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    let begun = Instant::now();
    assert_eq!(queue.wait(1, LONG, &mut |_| panic!("nothing was submitted")).unwrap(), 0);
    assert_eq!(queue.drain(&mut |_| panic!("nothing was submitted")).unwrap(), 0);
    assert!(queue.next_within(LONG).unwrap().is_none());
    assert!(queue.next_finished().unwrap().is_none());
    assert!(begun.elapsed() < LONG, "an empty queue is not waited for");
}

pub fn what_is_waited_for_one_by_one_is_handed_over<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(8);
    assert!(queue.next_within(LONG).unwrap().is_none(), "an empty queue is not waited for");
    for round in 0..20 {
        for tag in 0..8 {
            queue.submit(subject.read(tag, 1), round * 8 + tag).unwrap();
        }
        let mut taken: Vec<u64> = (0..8)
            .map(|_| {
                let finished = queue.next_within(Duration::MAX).unwrap().unwrap();
                assert_eq!(finished.result.unwrap().buffer.unwrap().len(), subject.lba_bytes as usize);
                finished.tag
            })
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, (round * 8..round * 8 + 8).collect::<Vec<_>>());
        assert!(queue.next_within(LONG).unwrap().is_none());
    }
}

pub fn a_wait_without_end_ends_with_what_it_waits_for<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    for tag in 0..3 {
        let limit = subject.gives_up.then_some(Duration::MAX);
        let submitted = queue.submit_within(subject.read(tag, 1), tag, limit);
        submitted.map_err(|refused| refused.error).unwrap();
    }
    let mut taken = queue.wait(1, Duration::MAX, &mut |finished| drop(finished.result.unwrap())).unwrap();
    while taken < 3 {
        drop(queue.next_within(Duration::MAX).unwrap().unwrap().result.unwrap());
        taken += 1 + queue.poll(usize::MAX, &mut |finished| drop(finished.result.unwrap())).unwrap();
    }
    assert_eq!((taken, queue.outstanding()), (3, 0));
}

pub fn an_event_loop_is_woken_for_every_completion<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.backend.capabilities().event {
        assert_eq!(subject.queue(4).event().unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let mut queue = subject.queue(16);
    for round in 0..50u64 {
        let many = 1 + round % 16;
        for tag in 0..many {
            queue.submit(subject.read(tag, 1), tag).unwrap();
        }
        queue.start().unwrap();
        let mut taken = 0;
        while taken < many {
            let event = queue.event().unwrap();
            let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
            let woken = poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&timeout)).unwrap();
            assert_eq!(woken, 1, "completion {taken} of {many} woke no waiter in round {round}");
            while let Some(finished) = queue.next_finished().unwrap() {
                finished.result.unwrap();
                taken += 1;
            }
        }
        assert_eq!(queue.outstanding(), 0);
    }
}

pub fn a_command_with_time_enough_succeeds<B: Backend>(subject: &Subject<'_, B>) {
    if !subject.gives_up {
        return;
    }
    let mut queue = subject.queue(8);
    for tag in 0..8 {
        queue.submit_within(subject.read(tag, 1), tag, Some(LONG)).unwrap();
    }
    assert_eq!(drained(&mut queue).len(), 8);
    queue.submit(subject.read(0, 1), 1).unwrap();
    assert_eq!(drained(&mut queue).len(), 1, "a place is as good after a time as before");
}

pub fn cancelling_what_is_not_there_is_refused_by_its_tag<B: Backend>(subject: &Subject<'_, B>) {
    let mut queue = subject.queue(4);
    let refused = queue.cancel(77).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NotFound | ErrorKind::Unsupported), "{refused}");
    assert!(refused.to_string().contains("77"), "{refused}");
    queue.submit(subject.read(0, 1), 78).unwrap();
    // Finished, cancelled or neither yet: it finishes once.
    let _ = queue.cancel(78);
    let mut finished = 0;
    queue.drain(&mut |_| finished += 1).unwrap();
    assert_eq!(finished, 1);
}
