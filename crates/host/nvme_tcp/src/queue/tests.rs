#![allow(clippy::unwrap_used)]
use std::io;

use byway_core::{Memory, Nsid, NvmCommand};
use byway_spec::{Command as Entry, Completion, Status};

use super::*;
use crate::order::plain;

/// A transport that answers nothing by itself, and whose `park` fails.
#[derive(Default)]
struct Unanswering {
    begun: Vec<Order>,
    ended: VecDeque<Ended>,
}

impl Unanswering {
    /// Ends the command that was begun first.
    fn answer(&mut self) {
        let Order { tag, is_call, .. } = self.begun.remove(0);
        let result = Ok(Completion::new(0, 0, 0, Status::SUCCESS));
        self.ended.push_back(Ended { tag, is_call, memory: Memory::Empty, result, lost: None, commands: 1 });
    }
}

impl Transport for Unanswering {
    fn order(&self, _: &Command, tag: u64, is_call: bool, _: &mut CachedLayout) -> Result<Order> {
        Ok(Order { tag, is_call, ..plain(Entry::new(0, 0, 0)) })
    }

    fn has_room(&self, _: &Order) -> bool {
        true
    }

    fn begin(&mut self, order: Order, _: Command, _: Option<Instant>) {
        self.begun.push(order);
    }

    fn lost(&self) -> Option<Error> {
        None
    }

    fn held(&self) -> u32 {
        self.outstanding()
    }

    fn outstanding(&self) -> u32 {
        (self.begun.len() + self.ended.len()) as u32
    }

    fn flush(&mut self) {}

    fn poll(&mut self) -> bool {
        false
    }

    fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn has_ended_with(&self, tag: u64) -> bool {
        self.ended.iter().any(|ended| ended.tag == tag && !ended.is_call)
    }

    fn give_up(&mut self, tag: u64, is_call: bool, _: ErrorKind) -> bool {
        self.begun.iter().any(|order| order.tag == tag && order.is_call == is_call)
    }

    fn park(&mut self, _: Duration) -> Result<()> {
        Err(Error::host(ErrorKind::System, "park fails"))
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn open_event(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn clear_notifier(&self) {}

    fn arm(&mut self, _: bool) {}
}

#[test]
fn call_whose_wait_fails_keeps_its_slot_until_it_ends() {
    let flush = || Command::from(NvmCommand::Flush { nsid: Nsid::FIRST });
    let mut queue = Queue::new(Unanswering::default(), Idle::Sleep, &QueueOptions::default().depth(1));
    let error = queue.execute(flush()).unwrap_err();
    assert_eq!(error.to_string(), "park fails");
    assert_eq!(queue.outstanding(), 0, "no caller waits for it");
    assert_eq!(queue.submit(flush(), 1).unwrap_err().error.kind(), ErrorKind::QueueFull);
    queue.transport.answer();
    queue.submit(flush(), 2).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    assert_eq!(queue.outstanding(), 1);
    queue.transport.answer();
    assert_eq!(queue.next_finished().unwrap().unwrap().tag, 2);
    assert_eq!(queue.outstanding(), 0);
}
