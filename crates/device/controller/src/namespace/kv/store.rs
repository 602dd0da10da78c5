//! Storing values, whichever way they come.

use byway_flash::Flash;
use byway_kv::{Change, Key, KvError, Placement, StoreHow, WindowId};
use byway_link::Work;
use byway_spec::vendor::StoreManyCdw12;
use byway_spec::{Command, Status};

use super::KvNamespace;
use super::bulk::BulkPairs;
use super::command::StoreIf;
use crate::data_pointer;
use crate::error::CommandError;
use crate::limits::BULK_MAX_BYTES;
use crate::namespace::media::{midway, timed};
use crate::namespace::{Execution, Outcome, sized};
use crate::payload::{HostData, Stage};
use crate::port::Port;

/// A value that comes by byte-exact DMA is worth an aligned place of its own from this length on. Where the
/// controller moves whole pages, its DMA can go nowhere else.
const ALIGNED_FROM_BYTES: usize = data_pointer::PAGE_BYTES;

/// A value that the host has, and memory to transfer it by.
struct Payload<'a> {
    data: HostData<'a>,
    stage: &'a mut Stage,
    len_bytes: u64,
}

/// Why a put by DMA failed.
pub(super) enum PutError {
    Engine(KvError),
    Transfer(CommandError),
}

impl From<KvError> for PutError {
    fn from(error: KvError) -> Self {
        Self::Engine(error)
    }
}

impl KvNamespace {
    /// Store: the payload is wherever the command's data pointer says.
    #[inline]
    pub(super) fn store_payload(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        key: Key,
        value_bytes: usize,
        when: StoreIf,
    ) -> Result<Outcome, CommandError> {
        check_length(value_bytes, self.value_max_bytes())?;
        let Execution { flash, port, room, carried, whole_pages, window, .. } = execution;
        let data = data_pointer::map(port, &mut room.mapped, command, value_bytes, *carried, *whole_pages)?;
        let mapped = match data {
            HostData::Carried(value) => return self.put(flash, port, key, value, when),
            HostData::None => return self.put(flash, port, key, &[], when),
            HostData::Mapped(mapped) => mapped,
        };
        let aligned = mapped.whole_pages || value_bytes >= ALIGNED_FROM_BYTES;
        if !aligned {
            let mut source = data.source(&mut room.stage);
            let value = sized(&mut room.bytes, value_bytes);
            source.fill(port, value)?;
            return self.put(flash, port, key, value, when);
        }
        let before = self.engine.packing_counters().copied_bytes;
        let (how, mut now_ps) = (how(when, Placement::Dma), port.meter.cursor_ps());
        let window = window.filter(|window| self.is_bound(*window)).map(|window| WindowId(window.index));
        let payload = Payload { data, stage: &mut room.stage, len_bytes: value_bytes as u64 };
        let outcome = self.put_payload(flash, port, payload, (window, key, how), &mut now_ps)?;
        port.meter.advance_to(now_ps);
        // The policy that packs everything copies a value that came by DMA to its packed position.
        let copied = self.engine.packing_counters().copied_bytes - before;
        port.meter.work(Work::MemCopy { bytes: copied as u32 });
        Ok(outcome)
    }

    /// Stores a value from where the host has it, in one copy. On a full host disk it is transferred again after a reclaim.
    #[inline]
    fn put_payload(
        &mut self,
        flash: &mut Flash,
        port: &mut Port<'_>,
        payload: Payload<'_>,
        (window, key, how): (Option<WindowId>, Key, StoreHow),
        now_ps: &mut u64,
    ) -> Result<Outcome, CommandError> {
        loop {
            let mut source = payload.data.source(payload.stage);
            let fill = |into: &mut [u8], at_ps: &mut u64| {
                midway(port, at_ps, |port| source.fill(port, into)).map_err(PutError::Transfer)
            };
            let put = match window {
                Some(window) => {
                    self.place_in_window(flash, (window, key, how), payload.len_bytes, fill, now_ps)
                }
                None => {
                    let put = self.engine.put_with(flash, &key, payload.len_bytes, how, fill, now_ps);
                    put.map(|()| Outcome::OK)
                }
            };
            match put {
                Err(PutError::Engine(error)) if self.reclaims(flash, &error) => {}
                Err(PutError::Engine(error)) => return Err(error.into()),
                Err(PutError::Transfer(error)) => return Err(error),
                Ok(outcome) => return Ok(outcome),
            }
        }
    }

    /// Stores a value that was put together from pieces.
    pub fn store(
        &mut self,
        execution: &mut Execution<'_, '_>,
        key: Key,
        value: &[u8],
    ) -> Result<Outcome, CommandError> {
        self.put(execution.flash, execution.port, key, value, StoreIf::Any)
    }

    #[inline]
    fn put(
        &mut self,
        flash: &mut Flash,
        port: &mut Port<'_>,
        key: Key,
        value: &[u8],
        when: StoreIf,
    ) -> Result<Outcome, CommandError> {
        timed(port, |now_ps| self.put_at(flash, &key, value, when, now_ps))?;
        Ok(Outcome::OK)
    }

    /// Store Many (Bulk Store): many pairs in one payload of CDW10 bytes. A payload that is not sound stores nothing; DW0 is the
    /// number of pairs stored, also where a later one failed. If CDW12 asks for it, and the host enabled that, all are stored or none.
    pub fn bulk_store(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        may_be_atomic: bool,
    ) -> Result<Outcome, CommandError> {
        let len = command.cdw10 as usize;
        if len > BULK_MAX_BYTES {
            return Err(CommandError::invalid_field("the payload of Store Many is over the announced limit"));
        }
        let options = StoreManyCdw12::from_bits(command.cdw12);
        if options != StoreManyCdw12::new().with_atomic(options.atomic()) {
            return Err(UNKNOWN_OPTIONS);
        }
        if options.atomic() && !may_be_atomic {
            return Err(NOT_ATOMIC);
        }
        let mut payload = std::mem::take(&mut execution.room.bytes);
        let result = self.bulk_payload(execution, command, options, sized(&mut payload, len));
        execution.room.bytes = payload;
        result
    }

    fn bulk_payload(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        options: StoreManyCdw12,
        payload: &mut [u8],
    ) -> Result<Outcome, CommandError> {
        execution.receive(command, payload)?;
        let pairs = BulkPairs::new(payload)?;
        if options.atomic() {
            return self.store_atomically(execution, pairs.with_deletions());
        }
        pairs.clone().check()?;
        let mut stored = 0;
        for pair in pairs {
            let Change { key, value } = pair?;
            self.store(execution, key, value.unwrap_or_default())
                .map_err(|error| CommandError { dw0: stored, ..error })?;
            stored += 1;
        }
        Ok(Outcome::with(stored))
    }
}

const NOT_ATOMIC: CommandError =
    CommandError::invalid_field("the host did not enable atomic Store Many").at_byte(48);
/// A host that sets reserved bits asks for what is not done: it must not get a success.
const UNKNOWN_OPTIONS: CommandError =
    CommandError::invalid_field("CDW12 has reserved bits set: only bit 0 (atomic) is defined").at_byte(48);

fn check_length(value_bytes: usize, limit_bytes: u32) -> Result<(), CommandError> {
    if value_bytes > limit_bytes as usize {
        return Err(CommandError::new(
            Status::INVALID_VALUE_SIZE,
            "the value is longer than the namespace takes",
        ));
    }
    Ok(())
}

pub(super) fn how(when: StoreIf, placement: Placement) -> StoreHow {
    StoreHow { must_exist: when == StoreIf::Exists, must_not_exist: when == StoreIf::Absent, placement }
}
