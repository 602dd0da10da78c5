//! What only the thread that has the turn may touch, and a run of the controller.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use byway_controller::{
    Controller, DeviceMemory, FinishedSync, Interrupts, Next, PendingSync, Port, Subsystem,
};
use byway_dma::DmaView;
use byway_link::Meter;
use byway_queue::DoorbellIndex;
use byway_sys::Mapping;
use byway_sys::time::monotonic_ns;

use crate::capsules::CapsuleSide;
use crate::device::RunBy;
use crate::memory::own_memory;
use crate::shared::{NEVER, Shared};

/// Commands served in one run before doorbells are looked at again.
const BUDGET: u32 = 1024;

/// What only the thread that has the turn may touch.
#[derive(Debug)]
pub(crate) struct Core {
    pub subsystem: Subsystem,
    pub controller: Controller,
    pub memory: DmaView,
    pub meter: Meter,
    /// What the host stores into, where it is elsewhere.
    pub device_memory: Option<Arc<Mapping>>,
    /// Controllers of hosts whose commands come in capsules.
    pub capsules: CapsuleSide,
}

impl Core {
    /// Runs the controller at modelled time `now_ps` until it has nothing left to do now.
    #[inline]
    pub fn run(&mut self, shared: &Shared, mut rung: Option<DoorbellIndex>, now_ps: u64) {
        let next = match &shared.served {
            Some(served) if self.subsystem.has_engines() => self.run_with_engines(shared, served, now_ps),
            Some(served) => self.run_served(shared, served, now_ps),
            None => loop {
                match self.run_controller(shared, rung.take(), now_ps, BUDGET) {
                    Next::Now => {}
                    _ if self.has_lanes_for_admin(shared) => {}
                    next => break next,
                }
            },
        };
        let due_ps = if let Next::At(due_ps) = next { due_ps } else { NEVER };
        shared.due_ps.store(due_ps, Relaxed);
        if due_ps != NEVER && shared.run_by == RunBy::Caller {
            shared.vectors.call_all(|_| true);
        }
        shared.blocked.store(self.controller.is_blocked(), Relaxed);
        self.note_elsewhere(shared);
        let wants_sync = self.wants_sync();
        shared.wants_sync.store(wants_sync, Relaxed);
        if wants_sync {
            shared.sync_bed.wake();
            self.call_those_who_wait(shared);
        }
    }

    /// Whether admin commands waited for queues on leave, which are all in now.
    #[inline]
    pub fn has_lanes_for_admin(&mut self, shared: &Shared) -> bool {
        self.controller.waits_for_delegated() && shared.recall(self)
    }

    /// Runs the controller once.
    #[inline]
    pub fn run_controller(
        &mut self,
        shared: &Shared,
        rung: Option<DoorbellIndex>,
        now_ps: u64,
        budget: u32,
    ) -> Next {
        let since_ns = shared.counting_since_ns();
        self.counting(shared, since_ns, |core| {
            let device_memory = shared.device_memory(core.device_memory.as_deref());
            let mut port = Port { device_memory, ..port(&core.memory, &mut core.meter, shared) };
            core.controller.run(&mut core.subsystem, &mut port, &shared.doorbells, rung, now_ps, budget)
        })
    }

    /// Hosts that wait by a descriptor for commands which another has executed here come back to sync the image for them.
    #[cold]
    fn call_those_who_wait(&self, shared: &Shared) {
        if shared.run_by == RunBy::Caller {
            shared.vectors.call_all(|vector| self.controller.waits_for_sync(vector));
        }
    }

    /// Runs the controller for what others left word of.
    pub fn run_now(&mut self, shared: &Shared) {
        self.run(shared, None, shared.clock.now_ps());
    }

    /// Whether commands of any controller wait for a sync that nobody has begun.
    #[inline]
    pub fn wants_sync(&self) -> bool {
        self.controller.wants_sync() || self.capsules.wants_sync()
    }

    /// Begins a sync for every command that waits for one.
    pub fn begin_sync(&mut self) -> Option<PendingSync> {
        let mine = self.controller.cover();
        let any = self.capsules.cover() || mine;
        any.then(|| self.subsystem.begin_sync())
    }

    /// Completes the commands that a sync covers, and whatever has become possible by that.
    pub fn end_sync(&mut self, shared: &Shared, sync: FinishedSync) {
        let now_ps = shared.clock.now_ps();
        let synced = self.subsystem.end_sync(sync);
        self.subsystem.end_commands(monotonic_ns);
        let mut port = port(&self.memory, &mut self.meter, shared);
        self.controller.end_cover(&mut port, &synced, now_ps);
        self.capsules.end_cover(&synced);
        self.run(shared, None, now_ps);
    }
}

/// The device's end of the link.
#[inline]
pub(crate) fn port<'a>(memory: &'a DmaView, meter: &'a mut Meter, shared: &'a Shared) -> Port<'a> {
    let interrupts: &dyn Interrupts = match &shared.served {
        Some(served) => &*served.interrupts,
        None => &shared.vectors,
    };
    Port {
        memory,
        meter,
        interrupts,
        own_memory: own_memory(),
        device_memory: DeviceMemory::Windows,
        capsule: None,
    }
}
