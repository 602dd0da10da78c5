//! Fused commands of a connection (Base 2.1, section 3.4.2): two capsules one behind the other, executed as one when both have
//! their data.
//!
//! What comes over an I/O queue behind a first command decides what becomes of it: its second, or it is aborted. Pairs are told
//! by the order of their capsules alone, whichever data comes first.

use std::collections::VecDeque;

use byway_controller::{CAPSULE_DATA_BYTES, FusedCommand};
use byway_spec::{Cdw0, Command, Status};

use crate::data::{Data, data_of};
use crate::ended::Ended;
use crate::outbox::Outbox;
use crate::pending::Whole;
use crate::queue::{DeviceQueue, Queue};
use crate::session::{Hand, Open};

/// Data of pairs whose other half's data is still to come, from which on there are too many.
const HELD_BYTES_MAX: usize = 2 << 20;

/// Fused commands of one connection that are not executed yet, in the order they came. The newest may be without its second.
#[derive(Debug, Default)]
pub struct FusedPairs(VecDeque<Pair>);

#[derive(Debug)]
struct Pair {
    first: Half,
    second: Second,
}

#[derive(Debug)]
enum Second {
    /// The next capsule may be it.
    Awaited,
    /// Another command was the next.
    Missing,
    /// This one.
    Came(Half),
}

#[derive(Debug)]
struct Half {
    command: Command,
    data: Arrival,
}

/// Where the data of a fused command is.
#[derive(Debug, PartialEq, Eq)]
enum Arrival {
    /// At the host, who is asked for it.
    Coming,
    /// Here, all that there is.
    Here(Option<Vec<u8>>),
    /// It cannot be had.
    Failed(Status),
    /// It does not matter: the command was aborted.
    Aborted,
}

impl Half {
    fn has_arrived(&self) -> bool {
        self.data != Arrival::Coming
    }

    /// Takes the data that was asked for, if it is this command's.
    fn take(&mut self, whole: &Whole) -> bool {
        let is_mine = !self.has_arrived() && self.command.cid() == whole.command.cid();
        if is_mine {
            self.data = match whole.is_corrupt {
                true => Arrival::Failed(Status::TRANSIENT_TRANSPORT_ERROR),
                false => Arrival::Here(Some(whole.data().to_vec())),
            };
        }
        is_mine
    }

    fn as_fused(&self) -> Result<FusedCommand<'_>, Status> {
        match &self.data {
            Arrival::Here(data) => Ok(FusedCommand { command: &self.command, carried: data.as_deref() }),
            Arrival::Failed(status) => Err(*status),
            // Nobody asks before it has arrived, or once it was answered.
            Arrival::Coming | Arrival::Aborted => Err(Status::TRANSIENT_TRANSPORT_ERROR),
        }
    }
}

impl Pair {
    fn halves(&self) -> impl Iterator<Item = &Half> {
        let second = if let Second::Came(second) = &self.second { Some(second) } else { None };
        std::iter::once(&self.first).chain(second)
    }

    /// Whether there is nothing to wait for.
    fn is_settled(&self) -> bool {
        !matches!(self.second, Second::Awaited) && self.halves().all(Half::has_arrived)
    }

    fn take(&mut self, whole: &Whole) -> bool {
        if self.first.take(whole) {
            return true;
        }
        match &mut self.second {
            Second::Came(second) => second.take(whole),
            Second::Awaited | Second::Missing => false,
        }
    }
}

impl FusedPairs {
    /// Commands that have their data and are not executed yet.
    pub fn held(&self) -> usize {
        let is_held = |half: &&Half| !matches!(half.data, Arrival::Coming | Arrival::Aborted);
        self.0.iter().flat_map(Pair::halves).filter(is_held).count()
    }

    /// Bytes of their data.
    pub fn held_bytes(&self) -> usize {
        let of_half = |half: &Half| if let Arrival::Here(Some(data)) = &half.data { data.len() } else { 0 };
        self.0.iter().flat_map(Pair::halves).map(of_half).sum()
    }

    /// Whether the next capsule decides what becomes of a first command.
    #[inline]
    fn awaits_second(&self) -> bool {
        self.0.back().is_some_and(|pair| matches!(pair.second, Second::Awaited))
    }

    /// Takes data that was asked for; whether it is a fused command's.
    pub fn take_data(&mut self, whole: &Whole) -> bool {
        self.0.iter_mut().any(|pair| pair.take(whole))
    }

    fn abandon_first(&mut self) {
        if self.awaits_second() && !self.take_aborted_first() {
            self.0.back_mut().into_iter().for_each(|pair| pair.second = Second::Missing);
        }
    }

    /// Forgets a first command that was aborted before its second came; whether there was one.
    fn take_aborted_first(&mut self) -> bool {
        let is_aborted = self.0.back().is_some_and(|pair| pair.first.data == Arrival::Aborted);
        is_aborted && self.0.pop_back().is_some()
    }

    /// A command was aborted: whether it is one of these, and the one that it is fused with, which ends for that. A second
    /// that is still to come finds that its first was aborted.
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

    fn add(&mut self, half: Half) {
        match self.0.back_mut() {
            Some(pair) if half.command.cdw0.fuse() == Cdw0::FUSE_SECOND => pair.second = Second::Came(half),
            _ => self.0.push_back(Pair { first: half, second: Second::Awaited }),
        }
    }

    fn next_settled(&mut self) -> Option<Pair> {
        let at = self.0.iter().position(Pair::is_settled)?;
        self.0.remove(at)
    }
}

impl Open {
    /// Whether a command that comes is one of two, or decides about one.
    #[inline]
    pub(crate) fn is_fused(&self, command: &Command) -> bool {
        self.fused.awaits_second()
            || (command.cdw0.fuse() == Cdw0::FUSE_FIRST
                && matches!(&self.queue, Queue::Device(queue) if queue.qid > 0))
    }

    /// A command that is [fused](Self::is_fused), with what its capsule brought.
    #[cold]
    pub(crate) fn arrive_fused(
        &mut self,
        command: &Command,
        data: Result<Option<&[u8]>, Status>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        let fuse = command.cdw0.fuse();
        if fuse != Cdw0::FUSE_SECOND {
            self.fused.abandon_first();
            self.settle_fused(hand)?;
        }
        if !matches!(fuse, Cdw0::FUSE_FIRST | Cdw0::FUSE_SECOND) {
            return match data {
                Ok(data) => self.arrive_single(command, data, hand),
                Err(status) => {
                    self.fail(command, status, hand.out);
                    Ok(())
                }
            };
        }
        if fuse == Cdw0::FUSE_SECOND && self.fused.take_aborted_first() {
            self.fail(command, Status::ABORTED_FAILED_FUSED, hand.out);
            return Ok(());
        }
        if self.fused.held_bytes() > HELD_BYTES_MAX {
            return Err(Ended::Overrun);
        }
        let data = data.and_then(|data| arrival_of(command, data)).unwrap_or_else(Arrival::Failed);
        let is_coming = data == Arrival::Coming;
        self.expect(command, hand);
        self.fused.add(Half { command: *command, data });
        if is_coming {
            self.pending.wait(*command);
            self.ask(hand.out);
        }
        self.settle_fused(hand)
    }

    /// Executes or aborts what has nothing to wait for.
    pub(crate) fn settle_fused(&mut self, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        let Queue::Device(queue) = &self.queue else { return Ok(()) };
        let at = queue.at();
        while let Some(Pair { first, second }) = self.fused.next_settled() {
            match second {
                Second::Came(second) => self.end_pair(at, &first, &second, hand)?,
                Second::Awaited | Second::Missing => self.end_alone(at, &first, hand)?,
            }
        }
        Ok(())
    }

    fn end_pair(
        &mut self,
        at: DeviceQueue,
        first: &Half,
        second: &Half,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        // Both are claimed, whatever became of one.
        let claimed = [first, second].map(|half| self.claim(&half.command, hand));
        match (first.as_fused(), second.as_fused()) {
            (Ok(first), Ok(second)) if claimed == [true; 2] => {
                return self.execute_fused(at, [first, second], hand);
            }
            (compared, written) => {
                let halves = [(first, compared.err()), (second, written.err())];
                for (half, status) in
                    halves.into_iter().zip(claimed).filter_map(|(half, mine)| mine.then_some(half))
                {
                    self.end_without_data(half, status, hand.out);
                }
            }
        }
        Ok(())
    }

    /// Ends one of two commands one of which has no data: this one by `status`, or the other.
    fn end_without_data(&self, half: &Half, status: Option<Status>, out: &mut Outbox) {
        self.fail(&half.command, status.unwrap_or(Status::ABORTED_FAILED_FUSED), out);
    }

    /// The device refuses a first command without its second, and logs it.
    fn end_alone(&mut self, at: DeviceQueue, first: &Half, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        if !self.claim(&first.command, hand) {
            return Ok(());
        }
        match first.as_fused() {
            Ok(FusedCommand { command, carried }) => self.execute_at(at, command, carried, 0, hand),
            Err(status) => {
                self.fail(&first.command, status, hand.out);
                Ok(())
            }
        }
    }
}

/// Where a fused command's data is. More than a capsule may bring is no data of one that is executed, and is not asked for.
fn arrival_of(command: &Command, data: Option<&[u8]>) -> Result<Arrival, Status> {
    Ok(match data_of(command, data.map(<[u8]>::len))? {
        Data::InCapsule => Arrival::Here(Some(data.unwrap_or_default().to_vec())),
        Data::AtHost if command.sgl1().length_bytes <= CAPSULE_DATA_BYTES => Arrival::Coming,
        Data::AtHost => Arrival::Here(Some(Vec::new())),
        Data::None | Data::ToHost(_) => Arrival::Here(None),
    })
}
