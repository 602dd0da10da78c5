//! Queues whose commands come in capsules, one by one and with their data: those of fabrics.

use std::collections::VecDeque;

use byway_spec::{Command, Completion};

use crate::counting::Typed;
use crate::error::CommandError;
use crate::outcome::ExternalCommand;
use crate::reservation::Host;

/// A completion, and what goes to the host with it.
#[derive(Debug)]
pub struct Posted {
    /// The completion.
    pub completion: Completion,
    /// Size in bytes of the host's buffer for a command of an external engine, whether or not it succeeded.
    pub room_bytes: u32,
    /// Data in the memory of the external engine that read it, to be [taken](crate::Subsystem::take_data).
    pub data: Option<ExternalCommand>,
}

/// Why a queue cannot be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There is no such queue identifier, or it is in use.
    #[error("the queue identifier is out of range or in use")]
    QueueId,
    /// A queue has 2 to [`CAPSULE_QUEUE_ENTRIES`](crate::CAPSULE_QUEUE_ENTRIES) entries.
    #[error("a queue cannot have so many entries")]
    Entries,
    /// I/O queues are for a controller that is ready and knows the size of entries.
    #[error("the controller is not ready")]
    NotReady,
}

/// More commands came over a queue than it has entries for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more commands are outstanding than the queue has entries for")]
pub struct Overrun;

/// The queues of a controller over a fabric, in place of rings and doorbells.
#[derive(Debug)]
pub(crate) struct CapsuleQueues {
    /// The connected host. A reset does not change it.
    host: Host,
    /// Entries of the admin queue, which outlives a reset.
    admin_entries: u32,
    queues: Vec<CapsuleQueue>,
}

/// One queue.
#[derive(Debug, Default)]
struct CapsuleQueue {
    /// Completions that the connection has not taken.
    posted: VecDeque<Posted>,
    /// Commands that await data.
    awaiting_data: VecDeque<AwaitingData>,
}

/// A command whose data, or the command that it is fused with, is still to come.
#[derive(Debug)]
struct AwaitingData {
    cid: u16,
    typed: Typed,
}

impl CapsuleQueues {
    /// No queues yet, for `host`.
    pub fn new(host: Host) -> Self {
        Self { host, admin_entries: 0, queues: Vec::new() }
    }

    /// The connected host.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Entries of the admin queue; 0 before it is connected.
    pub fn admin_entries(&self) -> u32 {
        self.admin_entries
    }

    /// Queue `qid` was connected.
    pub fn connect(&mut self, qid: u16, entries: u32) {
        if qid == 0 {
            self.admin_entries = entries;
        }
        let queues = self.queues.len().max(usize::from(qid) + 1);
        self.queues.resize_with(queues, CapsuleQueue::default);
    }

    /// Drops the commands and completions of queue `qid`; the data of the completions.
    pub fn drop_queued(&mut self, qid: u16) -> Vec<ExternalCommand> {
        let Some(queue) = self.queues.get_mut(usize::from(qid)) else { return Vec::new() };
        queue.awaiting_data.clear();
        queue.posted.drain(..).filter_map(|posted| posted.data).collect()
    }

    /// A command of queue `qid` came whose data is still to come.
    pub fn await_data(&mut self, qid: u16, command: &Command) {
        if let Some(queue) = self.queues.get_mut(usize::from(qid)) {
            queue
                .awaiting_data
                .push_back(AwaitingData { cid: command.cid(), typed: Typed::of(qid, command) });
        }
    }

    /// Takes the command `cid` of queue `qid` that awaits data. The oldest, where a host uses one identifier for several
    /// commands at once.
    pub fn take_awaiting_data(&mut self, qid: u16, cid: u16) -> Option<Typed> {
        let commands = &mut self.queues.get_mut(usize::from(qid))?.awaiting_data;
        let at = commands.iter().position(|command| command.cid == cid)?;
        commands.remove(at).map(|command| command.typed)
    }

    /// Takes a completion of queue `qid`, the oldest first.
    #[inline]
    pub fn take_posted(&mut self, qid: u16) -> Option<Posted> {
        self.queues.get_mut(usize::from(qid))?.posted.pop_front()
    }

    /// Keeps a completion of queue `qid` until the connection takes it.
    #[inline]
    pub fn post(&mut self, qid: u16, entry: Completion) {
        if let Some(queue) = self.queues.get_mut(usize::from(qid)) {
            // The field is reserved: a connection has one queue.
            let completion = Completion { sqid: 0, ..entry };
            queue.posted.push_back(Posted { completion, room_bytes: 0, data: None });
        }
    }

    /// Notes which external command the newest completion of queue `qid` answers, and whether data goes with it; whether
    /// that is so.
    pub fn note_reply(&mut self, qid: u16, at: ExternalCommand, has_data: bool) -> bool {
        let newest = self.queues.get_mut(usize::from(qid)).and_then(|queue| queue.posted.back_mut());
        let Some(posted) = newest else { return false };
        posted.room_bytes = at.reply.room_bytes;
        posted.data = has_data.then_some(at);
        has_data
    }

    /// Completions with data of namespace `nsid`, which is gone, fail with `error` instead.
    pub fn fail_data_of(&mut self, nsid: u32, error: &CommandError) {
        let posted = self.queues.iter_mut().flat_map(|queue| &mut queue.posted);
        for posted in posted.filter(|posted| posted.data.is_some_and(|at| at.work.is_in_engine_of(nsid))) {
            let Completion { sqid, sqhd, cid, .. } = posted.completion;
            posted.completion = Completion::new(sqid, sqhd, cid, error.status);
            posted.data = None;
        }
    }
}
