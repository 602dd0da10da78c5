//! The bus of a PCIe device of this machine.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use byway_dma::{BusAddr, DmaMemory};
use byway_driver::{Bus, BusError, Event};
use byway_queue::DoorbellIndex;
use byway_spec::base::register::{Cap, DOORBELL_BASE, Register};
use byway_sys::OwnerProcess;
use byway_sys::map::Mapping;
use byway_sys::vfio::{VfioDevice, VfioInterface, VfioRegion};

use super::function::{PciAddress, group_of, in_words};
use super::memory::HostMemory;
use crate::interrupts::Vectors;
use crate::mapped::{MAPPED_BYTES_MAX, MappedBar};

/// VFIO's numbers of BAR 0, of BAR 2 and of configuration space.
const BAR0: u32 = 0;
const BAR2: u32 = 2;
const CONFIG: u32 = 7;

/// Offset of the command register in configuration space, and its bits for memory accesses and for DMA (PCI 3.0, 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 0b110;

/// A bus to a PCIe device of this machine. Cheap to clone; the device is reset and given back with the last clone.
#[derive(Clone, Debug)]
pub struct VfioBus {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    owner: OwnerProcess,
    registers: Mapping,
    /// Bytes from one doorbell to the next.
    stride_bytes: usize,
    device_memory: Option<MappedBar>,
    vectors: Arc<Vectors<Arc<VfioDevice>>>,
    memory: HostMemory,
    device: Arc<VfioDevice>,
    address: PciAddress,
}

impl VfioBus {
    /// Takes the device at `address`, resets it, and lets it touch memory.
    ///
    /// # Errors
    /// [`BusError::Unready`], with what is missing and how to bring it about; [`BusError::Busy`].
    pub fn open(address: PciAddress) -> Result<Self, BusError> {
        let group = group_of(address)?;
        let device = VfioDevice::open(&address.to_string(), group);
        let device = Arc::new(device.map_err(|cause| in_words(address, group, &cause))?);
        let step = |what: &'static str| {
            move |cause: io::Error| BusError::Unready(format!("{address}: {what}: {cause}"))
        };
        device.reset().map_err(step("it cannot be reset"))?;
        enable(&device).map_err(step("its configuration space cannot be used"))?;
        let region = device.region(BAR0).map_err(step("its BAR 0 cannot be found"))?;
        let registers = map_registers(&device, &region).map_err(step("its BAR 0 cannot be mapped"))?;
        let stride_bytes = stride_bytes(&registers).ok_or(BusError::NoRegister { offset: 0, bytes: 8 })?;
        let shared = Shared {
            owner: OwnerProcess::current(),
            registers,
            stride_bytes,
            device_memory: map_device_memory(&device),
            vectors: Arc::new(Vectors::of(Arc::clone(&device))?),
            memory: HostMemory::new(Arc::clone(&device))?,
            device,
            address,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// By which interface of the kernel's the device was taken.
    #[must_use]
    pub fn interface(&self) -> VfioInterface {
        self.shared.device.interface()
    }
}

/// Lets the function answer to memory accesses, and make its own.
fn enable(device: &VfioDevice) -> io::Result<()> {
    let config = device.region(CONFIG)?;
    let mut command = [0; 2];
    device.read_region(&config, COMMAND, &mut command)?;
    let command = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
    device.write_region(&config, COMMAND, &command.to_le_bytes())
}

/// The stretch of BAR 0 from its beginning that can be mapped, with registers and doorbells.
fn map_registers(device: &VfioDevice, region: &VfioRegion) -> io::Result<Mapping> {
    let whole = region.mappable.iter().find(|(at, bytes)| *at == 0 && *bytes > u64::from(DOORBELL_BASE));
    let (at, bytes) = whole.ok_or_else(|| {
        io::Error::other(format!(
            "of {} bytes the kernel lets {:x?} be mapped",
            region.bytes, region.mappable
        ))
    })?;
    device.map_region(region, *at, *bytes)
}

/// BAR 2, where there is one that can be mapped whole. Whether it is device memory is for the device to announce.
fn map_device_memory(device: &VfioDevice) -> Option<MappedBar> {
    let region = device.region(BAR2).ok()?;
    let whole = region.mappable == [(0, region.bytes)] && (1..=MAPPED_BYTES_MAX).contains(&region.bytes);
    let mapping = whole.then(|| device.map_region(&region, 0, region.bytes).ok())?;
    mapping.map(MappedBar::new)
}

fn stride_bytes(registers: &Mapping) -> Option<usize> {
    let cap = read(registers, Register::CAP.0, 8)?;
    Some(4 << Cap::from_bits(cap).dstrd())
}

/// Two words for 8 bytes: not every device takes wider accesses.
fn read(registers: &Mapping, offset: u32, bytes: u32) -> Option<u64> {
    let low = registers.load_u32(offset as usize).ok()?;
    let high = if bytes == 8 { registers.load_u32(offset as usize + 4).ok()? } else { 0 };
    Some(u64::from(low) | u64::from(high) << 32)
}

fn is_register(offset: u32, bytes: u32) -> bool {
    matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes)
}

impl Bus for VfioBus {
    type Memory = MappedBar;

    fn name(&self) -> &'static str {
        "vfio"
    }

    fn vectors(&self) -> u16 {
        self.shared.vectors.count()
    }

    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        let none = BusError::NoRegister { offset, bytes };
        let value = is_register(offset, bytes).then(|| read(&self.shared.registers, offset, bytes));
        let value = value.flatten().ok_or(none)?;
        // A device that was pulled out reads as all ones, which its status never is.
        if offset == Register::CSTS.0 && value == u64::from(u32::MAX) {
            return Err(BusError::Gone(format!("{} does not answer", self.shared.address)));
        }
        Ok(value)
    }

    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError> {
        let none = BusError::NoRegister { offset, bytes };
        if !is_register(offset, bytes) {
            return Err(none);
        }
        let write = |at: u32, word: u64| self.shared.registers.store_u32(at as usize, word as u32);
        let wrote = write(offset, value).and_then(|()| match bytes {
            8 => write(offset + 4, value >> 32),
            _ => Ok(()),
        });
        wrote.map_err(|_| none)
    }

    #[inline]
    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let shared = &*self.shared;
        let at = DOORBELL_BASE as usize + doorbell.place() as usize * shared.stride_bytes;
        // The device has granted the queue, so its doorbell is there.
        let _ = shared.registers.store_u32(at, value);
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        self.shared.memory.map(memory)
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.shared.memory.unmap(at)
    }

    #[inline]
    fn poll(&self) {
        std::hint::spin_loop();
    }

    fn wait(&self, vector: u16, timeout: Duration) -> Result<bool, BusError> {
        self.shared.vectors.wait(vector, timeout)
    }

    fn disarm(&self, vector: u16) {
        self.shared.vectors.disarm(vector);
    }

    fn has_events(&self) -> bool {
        true
    }

    fn listen(&self, vector: u16) -> Result<Arc<dyn Event>, BusError> {
        Ok(Arc::new(self.shared.vectors.listen_to(vector)?))
    }

    fn clear(&self, vector: u16) {
        self.shared.vectors.lower(vector);
    }

    fn call(&self, vector: u16) {
        self.shared.vectors.raise(vector);
    }

    fn device_memory(&self) -> Option<MappedBar> {
        self.shared.device_memory.clone()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        // Nothing of the process is touched any more, whatever the driver has left.
        let _ = self.device.reset();
    }
}
