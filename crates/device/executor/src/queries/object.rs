//! Objects of queries, read in slices: no slice keeps the run lock longer than it takes to copy [`SLICE_BYTES`].

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use byway_controller::{BlockObjectReader, CommandError, QueryObject, ValuePlace};
use byway_spec::{Key, Status};

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
) -> Result<Box<dyn ObjectRead>, ObjectReadError> {
    match object {
        QueryObject::Value { nsid, key, .. } => {
            let source = ValueSource { executor, nsid, key, cancelled };
            source.copy().map(|value| Box::new(value) as _)
        }
        QueryObject::Blocks(reader) => Ok(Box::new(Blocks { executor: executor.clone(), reader })),
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
    executor: &'a Weak<Executor>,
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
        let place = self.read(0, &mut [])?;
        let mut value = vec![0; place.len_bytes() as usize];
        for (slice, into) in value.chunks_mut(SLICE_BYTES).enumerate() {
            if self.read(slice * SLICE_BYTES, into)? != place {
                return Ok(None);
            }
        }
        Ok(Some(Value(value)))
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Result<ValuePlace, ObjectReadError> {
        if self.cancelled.load(Relaxed) {
            return Err(CANCELLED);
        }
        with_subsystem(self.executor, |subsystem| {
            subsystem.read_value_of(self.nsid, &self.key, at as u64, into)
        })
    }
}

/// A range of blocks.
#[derive(Debug)]
struct Blocks {
    executor: Weak<Executor>,
    reader: Box<BlockObjectReader>,
}

impl ObjectRead for Blocks {
    fn len_bytes(&self) -> u64 {
        self.reader.len_bytes()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ObjectReadError> {
        let mut at = at;
        for slice in into.chunks_mut(SLICE_BYTES) {
            if !self.reader.read(at, slice) {
                let locked = |subsystem: &mut byway_controller::Subsystem| {
                    subsystem.read_blocks_of(&self.reader, at, slice)
                };
                with_subsystem(&self.executor, locked)?;
            }
            at += slice.len() as u64;
        }
        if self.reader.has_changed() { Err(ObjectReadError::Changed) } else { Ok(()) }
    }
}

/// Runs `read` under the run lock.
fn with_subsystem<R>(
    executor: &Weak<Executor>,
    read: impl FnOnce(&mut byway_controller::Subsystem) -> Result<R, CommandError>,
) -> Result<R, ObjectReadError> {
    let executor = executor.upgrade().ok_or(CLOSED)?;
    let done = executor.with_core_only(|core| read(&mut core.subsystem)).map_err(|_| CLOSED)?;
    // It may have run the controller for another thread, and left a deadline.
    executor.notify_front();
    done.map_err(|error| unreadable(&error))
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
