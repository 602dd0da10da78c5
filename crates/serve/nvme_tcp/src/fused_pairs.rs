//! Fused commands of a connection that are not executed yet (Base 2.1, section 3.4.2).
//!
//! The capsule after a first command decides: it is the second, or the first is aborted. Pairs are formed by the order of capsules
//! alone, whichever data arrives first.

use std::collections::VecDeque;

use byway_controller::FusedCommand;
use byway_spec::{Cdw0, Command, Status};

use crate::pending::Whole;

/// Fused commands in the order of their capsules. The newest may lack its second.
#[derive(Debug, Default)]
pub struct FusedPairs(VecDeque<Pair>);

/// A first command, and what is known of its second.
#[derive(Debug)]
pub struct Pair {
    pub first: Half,
    pub second: Second,
}

/// The second command of a pair.
#[derive(Debug)]
pub enum Second {
    /// The next capsule decides.
    Awaited,
    /// The next capsule was another command.
    Missing,
    /// The second command.
    Arrived(Half),
}

/// A fused command and its data.
#[derive(Debug)]
pub struct Half {
    pub command: Command,
    pub data: Arrival,
}

/// Where the data of a fused command is.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Solicited from the host.
    Solicited,
    /// Complete.
    Complete(Option<Vec<u8>>),
    /// Lost, with the status of the command.
    Failed(Status),
    /// Not needed: the command was aborted.
    Aborted,
}

impl Half {
    fn has_arrived(&self) -> bool {
        self.data != Arrival::Solicited
    }

    /// Takes solicited data if it is this command's.
    fn take(&mut self, whole: &Whole) -> bool {
        let is_mine = !self.has_arrived() && self.command.cid() == whole.command.cid();
        if is_mine {
            self.data = match whole.is_corrupt {
                true => Arrival::Failed(Status::TRANSIENT_TRANSPORT_ERROR),
                false => Arrival::Complete(Some(whole.data().to_vec())),
            };
        }
        is_mine
    }

    /// The command as the device takes it.
    ///
    /// # Errors
    /// The status of a command whose data was lost.
    pub fn as_fused(&self) -> Result<FusedCommand<'_>, Status> {
        match &self.data {
            Arrival::Complete(data) => Ok(FusedCommand { command: &self.command, carried: data.as_deref() }),
            Arrival::Failed(status) => Err(*status),
            // Not reached: a pair is executed only after all data has arrived.
            Arrival::Solicited | Arrival::Aborted => Err(Status::TRANSIENT_TRANSPORT_ERROR),
        }
    }
}

impl Pair {
    fn halves(&self) -> impl Iterator<Item = &Half> {
        let second = if let Second::Arrived(second) = &self.second { Some(second) } else { None };
        std::iter::once(&self.first).chain(second)
    }

    /// Whether it waits for neither a capsule nor data.
    fn is_settled(&self) -> bool {
        !matches!(self.second, Second::Awaited) && self.halves().all(Half::has_arrived)
    }

    fn take(&mut self, whole: &Whole) -> bool {
        if self.first.take(whole) {
            return true;
        }
        match &mut self.second {
            Second::Arrived(second) => second.take(whole),
            Second::Awaited | Second::Missing => false,
        }
    }
}

impl FusedPairs {
    /// Commands with complete data that are not executed yet.
    pub fn waiting(&self) -> usize {
        let is_waiting = |half: &&Half| !matches!(half.data, Arrival::Solicited | Arrival::Aborted);
        self.0.iter().flat_map(Pair::halves).filter(is_waiting).count()
    }

    /// Bytes of their data.
    pub fn held_bytes(&self) -> usize {
        let of_half =
            |half: &Half| if let Arrival::Complete(Some(data)) = &half.data { data.len() } else { 0 };
        self.0.iter().flat_map(Pair::halves).map(of_half).sum()
    }

    /// Whether a first command awaits its second.
    #[inline]
    pub fn awaits_second(&self) -> bool {
        self.0.back().is_some_and(|pair| matches!(pair.second, Second::Awaited))
    }

    /// Takes solicited data; whether it is a fused command's.
    pub fn take_data(&mut self, whole: &Whole) -> bool {
        self.0.iter_mut().any(|pair| pair.take(whole))
    }

    /// Another command arrived where a second was expected.
    pub fn abandon_first(&mut self) {
        if self.awaits_second() && !self.take_aborted_first() {
            self.0.back_mut().into_iter().for_each(|pair| pair.second = Second::Missing);
        }
    }

    /// Removes a first command that was aborted before its second arrived; whether there was one.
    pub fn take_aborted_first(&mut self) -> bool {
        let is_aborted = self.0.back().is_some_and(|pair| pair.first.data == Arrival::Aborted);
        is_aborted && self.0.pop_back().is_some()
    }

    /// Removes an aborted command. Returns whether it was one of these, and its other half, which fails too. A second that is still
    /// to come finds its first aborted.
    pub fn withdraw(&mut self, cid: u16) -> (bool, Option<Command>) {
        let is_its = |half: &Half| half.command.cid() == cid && half.data != Arrival::Aborted;
        let Some(at) = self.0.iter().position(|pair| pair.halves().any(is_its)) else { return (false, None) };
        if let Some(Pair { first, second: Second::Awaited }) = self.0.get_mut(at) {
            first.data = Arrival::Aborted;
            return (true, None);
        }
        let other = self
            .0
            .remove(at)
            .and_then(|pair| pair.halves().find(|half| !is_its(half)).map(|half| half.command));
        (true, other)
    }

    /// Adds a command to the newest pair or to a new one.
    pub fn add(&mut self, half: Half) {
        match self.0.back_mut() {
            Some(pair) if half.command.cdw0.fuse() == Cdw0::FUSE_SECOND => {
                pair.second = Second::Arrived(half)
            }
            _ => self.0.push_back(Pair { first: half, second: Second::Awaited }),
        }
    }

    /// Takes the oldest pair that is ready to be executed or aborted.
    pub fn next_settled(&mut self) -> Option<Pair> {
        let at = self.0.iter().position(Pair::is_settled)?;
        self.0.remove(at)
    }
}
