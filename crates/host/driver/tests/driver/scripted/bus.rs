//! The bus to a scripted device.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use byway_dma::{Access, BusAddr, DmaMemory};
use byway_driver::{Bus, BusError, DeviceMemory, Event, LinkModel};
use byway_link::{HostStep, Profile};
use byway_queue::DoorbellIndex;
use byway_spec::base::register::{Aqa, Cap, Cc, Csts, Register};
use byway_sys::Wakeup;

use super::{Ring, ScriptedBus};

/// The device's memory, for windows and byte stores.
pub struct ScriptedMemory(Arc<DmaMemory>, BusAddr);

impl DeviceMemory for ScriptedMemory {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        Some(self.1)
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        self.0.write_at(offset as usize, bytes).map_err(|fault| BusError::Mapping(fault.to_string()))
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        let mut byte = [0];
        self.0.read_at(last as usize, &mut byte).map_err(|fault| BusError::Mapping(fault.to_string()))
    }
}

impl Bus for ScriptedBus {
    type Memory = ScriptedMemory;

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn read_register(&self, offset: u32, _: u32) -> Result<u64, BusError> {
        let state = self.state();
        Ok(match Register(offset) {
            Register::CAP => Cap::new()
                .with_mqes_z(self.script.mqes_z)
                .with_css(Cap::CSS_NVM | Cap::CSS_IO_SETS)
                .with_to(1)
                .into_bits(),
            Register::CSTS => {
                let cc = Cc::from_bits(state.registers.get(&Register::CC.0).copied().unwrap_or(0) as u32);
                let shst = if cc.shn() == Cc::SHN_NONE { Csts::SHST_NORMAL } else { Csts::SHST_COMPLETE };
                u64::from(Csts::new().with_rdy(cc.en()).with_shst(shst).with_cfs(state.fatal).into_bits())
            }
            _ => state.registers.get(&offset).copied().unwrap_or(0),
        })
    }

    fn write_register(&self, offset: u32, _: u32, value: u64) -> Result<(), BusError> {
        let mut state = self.state();
        state.registers.insert(offset, value);
        if offset == Register::CC.0 && Cc::from_bits(value as u32).en() {
            let register = |name: Register| state.registers.get(&name.0).copied().unwrap();
            let entries = u32::from(Aqa::from_bits(register(Register::AQA) as u32).asqs_z()) + 1;
            let (submission, completion) = (register(Register::ASQ), register(Register::ACQ));
            state.rings.insert(0, Ring { submission, completion, entries, phase: true, ..Ring::default() });
        }
        Ok(())
    }

    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let mut state = self.state();
        if doorbell.queue() != 0 {
            state.rung.push((doorbell, value));
        }
        if !doorbell.is_completion() {
            self.run(&mut state, doorbell.queue(), value);
        }
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        let at = self.next_address.fetch_add(memory.len() as u64 + 4096, Ordering::Relaxed);
        let mapped = self.space.map(Arc::clone(memory), BusAddr(at), Access::ReadWrite);
        mapped.map(|()| BusAddr(at)).map_err(|refusal| BusError::Mapping(refusal.to_string()))
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.space.unmap(at).map(drop).map_err(|refusal| BusError::Mapping(refusal.to_string()))
    }

    fn has_events(&self) -> bool {
        true
    }

    /// One that nothing raises: what wakes is the driver's own.
    fn listen(&self, _: u16) -> Result<Arc<dyn Event>, BusError> {
        Ok(Arc::new(Wakeup::new().unwrap()))
    }

    fn poll(&self) {}

    /// Arms the interrupt, and takes one that was raised since it was armed.
    fn wait(&self, vector: u16, _: Duration) -> Result<bool, BusError> {
        let mut state = self.state();
        if state.armed.insert(vector) {
            return Ok(false);
        }
        let raised = state.raised.get(&vector).copied().unwrap_or(0);
        Ok(state.waited_for.insert(vector, raised).unwrap_or(0) != raised)
    }

    fn disarm(&self, vector: u16) {
        self.state().armed.remove(&vector);
    }

    fn device_memory(&self) -> Option<ScriptedMemory> {
        Some(ScriptedMemory(Arc::clone(&self.memory), BusAddr(1 << 40)))
    }

    fn byte_memory(&self) -> Option<ScriptedMemory> {
        self.device_memory()
    }

    fn model(&self) -> Option<&impl LinkModel> {
        self.script.profile.is_some().then_some(self)
    }
}

impl LinkModel for ScriptedBus {
    fn charge(&self, step: HostStep, times: u32) {
        self.state().charges.push((step, times));
    }

    fn profile(&self) -> &Profile {
        self.script.profile.as_ref().unwrap()
    }
}
