//! Buffers that the kernel knows beforehand: an index for each, by which the rings of all queues register it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway_core::{Buffer, BufferPool, PreparedRange, Registrar, Result, Unprepared};
use byway_dma::DmaMemory;
use byway_sys::uring::RegisteredBuffer;
use parking_lot::Mutex;

/// Bytes of unused memory that are kept.
const KEEP_BYTES: usize = 64 << 20;

/// Most bytes of one registered buffer, by the kernel's limit.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// The token of memory that there was no index for.
const UNREGISTERED: u64 = u64::MAX;

/// Bits of a token that are the index; those above are the serial number.
const INDEX_BITS: u32 = 16;

/// Hands out indices. A ring registers memory when it first sees it, in its own thread.
#[derive(Debug)]
struct Indices {
    free: Mutex<Vec<u16>>,
    serial: AtomicU64,
}

/// A pool whose buffers the rings of `count` entries can register.
pub(crate) fn pool(count: u16) -> BufferPool {
    let free = Mutex::new((0..count).rev().collect());
    BufferPool::new(Indices { free, serial: AtomicU64::new(1) }, KEEP_BYTES)
}

/// A buffer of `len` zeroes, of `pool` if there is one.
pub(crate) fn zeroed(pool: Option<&BufferPool>, len: usize) -> Result<Buffer> {
    let Some(pool) = pool else { return Buffer::zeroed(len) };
    let mut buffer = pool.take(len)?;
    buffer.as_mut_slice().fill(0);
    Ok(buffer)
}

/// A program's memory, for `pool` if there is one.
pub(crate) fn prepared(pool: Option<&BufferPool>, brought: Buffer) -> Result<Buffer, Unprepared> {
    match pool {
        Some(pool) => pool.prepare(brought),
        None => Ok(brought),
    }
}

/// What a ring registers of a buffer of `pool`.
#[inline]
pub(crate) fn registered(buffer: &Buffer, pool: &BufferPool) -> Option<RegisteredBuffer> {
    let PreparedRange { memory, token, .. } = buffer.prepared(pool).filter(|at| at.token != UNREGISTERED)?;
    Some(RegisteredBuffer::new(memory.mapping(), token as u16, token >> INDEX_BITS))
}

impl Registrar for Indices {
    fn register(&self, memory: &Arc<DmaMemory>) -> Result<u64> {
        if memory.len() > REGISTERED_BYTES_MAX {
            return Ok(UNREGISTERED);
        }
        let index = self.free.lock().pop();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        Ok(index.map_or(UNREGISTERED, |index| serial << INDEX_BITS | u64::from(index)))
    }

    fn unregister(&self, _: &Arc<DmaMemory>, token: u64) {
        if token != UNREGISTERED {
            self.free.lock().push(token as u16);
        }
    }
}
