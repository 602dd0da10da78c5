//! Admin commands that go on by themselves, by a thread over any backend and by a backend's own.

use std::time::Duration;

use byway_core::{AdminCommand, AdminQueue, Backend, Buffer, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::subject::Subject;

fn identify() -> AdminCommand {
    let into = Buffer::zeroed(4096).unwrap();
    AdminCommand::Identify { cns: 1, csi: 0, nsid: None, selector: 0, into }
}

/// Every one finishes once, with its tag, and what it received is what a synchronous call receives.
pub fn several_go_on_at_once<B: Backend>(subject: &Subject<'_, B>, queue: &mut impl AdminQueue) {
    let wanted = subject.backend.admin(identify()).unwrap().buffer.unwrap().as_slice().to_vec();
    for tag in 0..20 {
        queue.submit(identify(), tag).unwrap();
    }
    assert_eq!(queue.outstanding(), 20);
    let mut tags = Vec::new();
    let taken = queue.drain(&mut |finished| {
        assert!(finished.result.unwrap().buffer.unwrap().as_slice() == wanted);
        tags.push(finished.tag);
    });
    assert_eq!(taken.unwrap(), 20);
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..20));
    assert_eq!(queue.cancel(7).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!queue.sleep(Duration::from_secs(60)).unwrap(), "nothing is under way");
}

/// As many as fit are taken, and one more comes back as it was.
pub fn too_many_come_back(queue: &mut impl AdminQueue) {
    let refused = (0..1000).find_map(|tag| queue.submit(identify(), tag).err()).unwrap();
    assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
    assert_eq!(refused.command.into_buffer().unwrap().len(), 4096);
    queue.drain(&mut |finished| assert!(finished.result.is_ok())).unwrap();
}

/// A program that sleeps on the descriptor alone takes all of them.
pub fn an_event_loop_is_woken(queue: &mut impl AdminQueue) {
    for tag in 0..10 {
        queue.submit(identify(), tag).unwrap();
        let mut taken = 0;
        while taken == 0 {
            let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
            let event = queue.event().unwrap();
            let woken = poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&timeout)).unwrap();
            assert_eq!(woken, 1, "command {tag} woke no waiter");
            while let Some(finished) = queue.next_finished().unwrap() {
                finished.result.unwrap();
                taken += 1;
            }
        }
    }
}
