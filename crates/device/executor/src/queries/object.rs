//! Objects of queries, read in slices: no slice keeps the run lock longer than it takes to copy [`SLICE_BYTES`].

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use byway_controller::{BlockObjectReader, CommandError, QueryObject, Subsystem, ValueVersion};
use byway_spec::{Key, Status};

use super::read_time::ReadTime;
use super::runner::{ObjectRead, ObjectReadError};
use crate::executor::Executor;

/// Most bytes that are read under the run lock at once.
pub(super) const SLICE_BYTES: usize = 64 << 10;

/// Copies of a value that was moved or overwritten meanwhile before the query gives up.
const COPIES_MAX: u32 = 16;

/// The object of a query, for its threads. Nothing more is copied once the query is cancelled.
pub(super) fn open(
    executor: &Weak<Executor>,
    object: QueryObject,
    cancelled: &AtomicBool,
    read_time: &ReadTime,
) -> Result<Box<dyn ObjectRead>, ObjectReadError> {
    let device = Device { executor: executor.clone(), read_time: read_time.clone() };
    match object {
        QueryObject::Value { nsid, key, .. } => {
            let source = ValueSource { device: &device, nsid, key, cancelled };
            source.copy().map(|value| Box::new(value) as _)
        }
        QueryObject::Copied(value) => Ok(Box::new(Value(value))),
        QueryObject::Blocks(reader) => Ok(Box::new(Blocks { device, reader })),
        _ => Err(ObjectReadError::Unreadable("the device has no such object")),
    }
}

/// A value, copied.
#[derive(Debug)]
struct Value(Vec<u8>);

impl ObjectRead for Value {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ObjectReadError> {
        let at = at as usize;
        let bytes = self.0.get(at..at + into.len()).ok_or(OUTSIDE)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// A value that is to be copied as it was at one moment.
struct ValueSource<'a> {
    device: &'a Device,
    nsid: u32,
    key: Key,
    cancelled: &'a AtomicBool,
}

impl ValueSource<'_> {
    fn copy(&self) -> Result<Value, ObjectReadError> {
        for _ in 0..COPIES_MAX {
            if let Some(value) = self.try_copy()? {
                return Ok(value);
            }
        }
        Err(ObjectReadError::Changed)
    }

    /// A copy; `None` if the value was moved or overwritten meanwhile.
    fn try_copy(&self) -> Result<Option<Value>, ObjectReadError> {
        // As of a Retrieve, all reads of flash begin when the first one does.
        let begun_ps = self.device.begin_read()?;
        let version = self.read(None, 0, &mut [], begun_ps)?;
        let mut value = vec![0; version.len_bytes() as usize];
        let mut at = 0;
        while at < value.len() {
            let end = version.part_end(at, SLICE_BYTES);
            if self.read(Some(&version), at, &mut value[at..end], begun_ps)? != version {
                return Ok(None);
            }
            at = end;
        }
        Ok(Some(Value(value)))
    }

    fn read(
        &self,
        known: Option<&ValueVersion>,
        at: usize,
        into: &mut [u8],
        begun_ps: u64,
    ) -> Result<ValueVersion, ObjectReadError> {
        if self.cancelled.load(Relaxed) {
            return Err(CANCELLED);
        }
        self.device.read(begun_ps, |subsystem, at_ps| {
            subsystem.read_value_of(self.nsid, &self.key, known, at as u64, into, at_ps)
        })
    }
}

/// A range of blocks.
#[derive(Debug)]
struct Blocks {
    device: Device,
    reader: Box<BlockObjectReader>,
}

impl ObjectRead for Blocks {
    fn len_bytes(&self) -> u64 {
        self.reader.len_bytes()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ObjectReadError> {
        let begun_ps = self.device.begin_read()?;
        let mut at = at;
        for slice in into.chunks_mut(SLICE_BYTES) {
            // Where time is modelled, no thread reads without the run lock.
            if !self.reader.read(at, slice) {
                let locked = |subsystem: &mut Subsystem, at_ps: &mut u64| {
                    subsystem.read_blocks_of(&self.reader, at, slice, at_ps)
                };
                self.device.read(begun_ps, locked)?;
            }
            at += slice.len() as u64;
        }
        if self.reader.has_changed() { Err(ObjectReadError::Changed) } else { Ok(()) }
    }
}

/// The device, as the threads of one query read it.
#[derive(Debug)]
struct Device {
    executor: Weak<Executor>,
    read_time: ReadTime,
}

impl Device {
    /// Modelled time at which the next read begins.
    fn begin_read(&self) -> Result<u64, ObjectReadError> {
        let executor = self.executor.upgrade().ok_or(CLOSED)?;
        Ok(self.read_time.begin(executor.clock().now_ps()))
    }

    /// Runs `read` under the run lock, from modelled time `begun_ps` on.
    fn read<R>(
        &self,
        begun_ps: u64,
        read: impl FnOnce(&mut Subsystem, &mut u64) -> Result<R, CommandError>,
    ) -> Result<R, ObjectReadError> {
        let executor = self.executor.upgrade().ok_or(CLOSED)?;
        let mut at_ps = begun_ps;
        let done =
            executor.with_core_only(|core| read(&mut core.subsystem, &mut at_ps)).map_err(|_| CLOSED)?;
        self.read_time.note_end(at_ps);
        // It may have run the controller for another thread, and left a deadline.
        executor.notify_front();
        done.map_err(|error| unreadable(&error))
    }
}

fn unreadable(error: &CommandError) -> ObjectReadError {
    const GONE: [Status; 3] =
        [Status::KEY_DOES_NOT_EXIST, Status::INVALID_NAMESPACE, Status::QUERY_OBJECT_CHANGED];
    match GONE.iter().any(|status| error.status.is(*status)) {
        true => ObjectReadError::Changed,
        false => ObjectReadError::Unreadable(error.cause),
    }
}

const OUTSIDE: ObjectReadError = ObjectReadError::Unreadable("outside the object");
const CANCELLED: ObjectReadError = ObjectReadError::Unreadable("the query was cancelled");
const CLOSED: ObjectReadError = ObjectReadError::Unreadable("the device is closed");
