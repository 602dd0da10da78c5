//! How a host reaches the device: in this process, or as one in another process does.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Release, Ordering::SeqCst};

use byway_controller::{Interrupts, Subsystem};
use byway_dma::{Access, BusAddr, DmaMemory};
use byway_executor::{Embedded, Hosts, LocalHost, RemoteFront, UpkeepBy};
use byway_link::ClockMode;
use byway_queue::DoorbellIndex;
use byway_sys::Mapping;

use crate::memory::PAGE;

/// Threads that share the queues of a served device.
const QUEUE_THREADS: NonZeroU16 = NonZeroU16::new(3).unwrap();

/// How a host reaches the device.
pub enum Host {
    /// By calls.
    Local(LocalHost),
    /// By register messages, and doorbells in shared memory.
    Served(Served),
}

/// A host of a served device.
pub struct Served {
    front: RemoteFront,
    doorbells: Arc<Mapping>,
    next_at: AtomicU64,
}

#[derive(Debug)]
struct NoInterrupts;

impl Interrupts for NoInterrupts {
    fn raise(&self, _: u16) {}
}

impl Host {
    /// The host of a device in this process.
    pub fn of(embedded: &Embedded) -> Self {
        Self::Local(embedded.host())
    }

    /// Serves a device, and the host that it serves.
    pub fn serve(subsystem: Subsystem) -> (Embedded, Self) {
        let doorbells = Arc::new(Mapping::anonymous(PAGE).unwrap());
        let (interrupts, shared) = (Arc::new(NoInterrupts), Some(doorbells.clone()));
        let (threads, upkeep_by) = (QUEUE_THREADS, UpkeepBy::Thread);
        let hosts = Hosts { interrupts, doorbells: shared, threads, engines: None, upkeep_by };
        let embedded = Embedded::serve(subsystem, ClockMode::Off, true, hosts).unwrap();
        let front = embedded.front();
        (embedded, Self::Served(Served { front, doorbells, next_at: AtomicU64::new(1 << 32) }))
    }

    /// Whether messages reach the device.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Served(_))
    }

    /// Reads 4 bytes of the registers.
    pub fn read_register(&self, offset: u32) -> u32 {
        match self {
            Self::Local(host) => host.read_register(offset, 4).unwrap() as u32,
            Self::Served(Served { front, .. }) => front.read_register(offset).unwrap(),
        }
    }

    /// Writes 4 bytes of the registers.
    pub fn write_register(&self, offset: u32, value: u32) {
        match self {
            Self::Local(host) => host.write_register(offset, 4, value.into()).unwrap(),
            Self::Served(Served { front, .. }) => front.write_register(offset, value).unwrap(),
        }
    }

    /// Function level reset of a served device.
    pub fn reset_function(&self) {
        if let Self::Served(Served { front, .. }) = self {
            front.reset().unwrap();
        }
    }

    /// Writes a doorbell.
    pub fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        match self {
            Self::Local(host) => host.ring(doorbell, value),
            Self::Served(Served { doorbells, .. }) => {
                doorbells.words()[doorbell.place() as usize].store(value, Release);
                self.poll();
            }
        }
    }

    /// Lets the device run.
    pub fn poll(&self) {
        match self {
            Self::Local(host) => host.poll(),
            Self::Served(Served { front, .. }) => drop(front.poll(&mut { usize::MAX })),
        }
    }

    /// Waits for commands of a queue: a host in this process syncs the image for them.
    pub fn idle(&self, qid: u16) {
        if let Self::Local(host) = self {
            host.idle(qid);
        }
    }

    /// Maps memory.
    pub fn map(&self, memory: &Arc<DmaMemory>) -> BusAddr {
        match self {
            Self::Local(host) => host.map(memory).unwrap(),
            Self::Served(Served { front, next_at, .. }) => {
                // A hole behind each mapping: an access past an end is a fault.
                let at = BusAddr(next_at.fetch_add((memory.len() + PAGE) as u64, SeqCst));
                front.space().map(memory.clone(), at, Access::ReadWrite).unwrap();
                at
            }
        }
    }

    /// Unmaps memory; the device does not access it any more.
    pub fn unmap(&self, at: BusAddr) {
        match self {
            Self::Local(host) => host.unmap(at).unwrap(),
            Self::Served(Served { front, .. }) => {
                front.space().unmap(at).unwrap();
                front.quiesce_dma().unwrap();
            }
        }
    }
}
