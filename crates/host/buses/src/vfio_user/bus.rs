//! The bus of a device that another process serves.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_dma::{BusAddr, DmaMemory};
use byway_driver::{Bus, BusError, Event};
use byway_queue::DoorbellIndex;
use byway_spec::base::register::{Cap, DOORBELL_BASE, Register};
use byway_sys::map::Mapping;
use byway_vfio_user_wire::RegionIndex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::DeviceMemoryBar;
use super::connection::{Connection, Fault};
use super::function::Function;
use super::memory::{HostMemory, Link};
use super::twin::Twin;
use crate::interrupts::Vectors;

/// How long a server may take to see that its last client has left.
const LEAVING: Duration = Duration::from_millis(500);

/// A bus to a device that another process serves at a Unix socket. Cheap to clone; the connection ends with the last clone.
#[derive(Clone, Debug)]
pub struct VfioUserBus {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    /// Doorbells that are mapped, and the offset in BAR 0 that the mapping begins with.
    doorbells: Option<(Mapping, u64)>,
    device_memory: Option<DeviceMemoryBar>,
    vectors: Arc<Vectors<Arc<Link>>>,
    registers_bytes: u64,
    /// Bytes from one doorbell to the next.
    stride_bytes: u64,
    _twin: Option<Twin>,
}

impl VfioUserBus {
    /// Connects to the server that listens at `path`, and resets the device behind it.
    ///
    /// # Errors
    /// [`BusError::Gone`] when no server listens there; [`BusError::Busy`] when another client is served; [`BusError::Protocol`] when the server is no PCI device of this protocol.
    pub fn open(path: &Path) -> Result<Self, BusError> {
        let mut connection = connect(path)?;
        let twin = connection.take_twin();
        let link = Arc::new(Link { connection, host: HostMemory::default() });
        let twin = twin.map(|socket| Twin::answer(socket, &link)).transpose()?;
        let mut function = Function::open(&link)?;
        let stride_bytes = stride_bytes(&link)?;
        let shared = Shared {
            device_memory: function.take_device_memory(&link),
            doorbells: function.doorbells,
            vectors: Arc::new(Vectors::new(Arc::clone(&link), function.vectors)),
            registers_bytes: function.registers.bytes,
            stride_bytes,
            _twin: twin,
            link,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether doorbells are stores into a page that the server shares, and not messages.
    #[must_use]
    pub fn has_mapped_doorbells(&self) -> bool {
        self.shared.doorbells.is_some()
    }

    fn check_register(&self, offset: u32, bytes: u32) -> Result<(), BusError> {
        let sized = matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes);
        if sized && u64::from(offset) + u64::from(bytes) <= self.shared.registers_bytes {
            return Ok(());
        }
        Err(BusError::NoRegister { offset, bytes })
    }
}

impl Bus for VfioUserBus {
    type Memory = DeviceMemoryBar;

    const MAPS_ANY_MEMORY: bool = false;
    const REPORTS_HEADS_LATE: bool = true;

    fn name(&self) -> &'static str {
        "vfio-user"
    }

    /// Polls the socket, which shows at once that the server has ended, in whichever way.
    fn check(&self) -> Result<(), BusError> {
        let connection = &self.shared.link.connection;
        connection.serve(&self.shared.link.host)?;
        let socket = connection.socket();
        let mut end = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        match poll(&mut end, Some(&Timespec::default())) {
            Ok(ready) if ready > 0 => Err(connection.lose("the server has closed the connection").into()),
            _ => Ok(()),
        }
    }

    fn vectors(&self) -> u16 {
        self.shared.vectors.count()
    }

    fn read_register(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        self.check_register(offset, bytes)?;
        let mut value = [0; 8];
        let into = value.get_mut(..bytes as usize).unwrap_or_default();
        let read = self.shared.link.read_region(RegionIndex::BAR0, u64::from(offset), into);
        read.map_err(|fault| register_fault(fault, offset, bytes))?;
        Ok(u64::from_le_bytes(value))
    }

    fn write_register(&self, offset: u32, bytes: u32, value: u64) -> Result<(), BusError> {
        self.check_register(offset, bytes)?;
        let value = value.to_le_bytes();
        let from = value.get(..bytes as usize).unwrap_or_default();
        let written = self.shared.link.write_region(RegionIndex::BAR0, u64::from(offset), from);
        written.map_err(|fault| register_fault(fault, offset, bytes))
    }

    #[inline]
    fn ring(&self, doorbell: DoorbellIndex, value: u32) {
        let offset = u64::from(DOORBELL_BASE) + self.shared.stride_bytes * u64::from(doorbell.place());
        if let Some((mapping, begin)) = &self.shared.doorbells
            && mapping.store_u32((offset - begin) as usize, value).is_ok()
        {
            return;
        }
        // A device that is gone takes no notice.
        let _ = self.shared.link.post_region(RegionIndex::BAR0, offset, &value.to_le_bytes());
    }

    fn memory(&self, len_bytes: usize) -> Result<DmaMemory, BusError> {
        self.shared.link.host.lend(&self.shared.link.connection, len_bytes)
    }

    fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        self.shared.link.host.find(memory)
    }

    fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        self.shared.link.host.take_back(at)
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
        Ok(self.shared.vectors.listen(vector)?)
    }

    fn clear(&self, vector: u16) {
        self.shared.vectors.clear(vector);
    }

    fn call(&self, vector: u16) {
        self.shared.vectors.raise(vector);
    }

    fn device_memory(&self) -> Option<DeviceMemoryBar> {
        self.shared.device_memory.clone()
    }
}

/// What CAP.DSTRD says.
fn stride_bytes(link: &Link) -> Result<u64, BusError> {
    let mut cap = [0; 8];
    let at = Register::CAP.0;
    let read = link.read_region(RegionIndex::BAR0, u64::from(at), &mut cap);
    read.map_err(|fault| register_fault(fault, at, 8))?;
    Ok(4 << Cap::from_bits(u64::from_le_bytes(cap)).dstrd())
}

/// Connects. A client that has just left may still be the server's: for a little while that is waited for.
fn connect(path: &Path) -> Result<Connection, BusError> {
    let since = Instant::now();
    loop {
        match Connection::open(path) {
            Err(BusError::Busy(_)) if since.elapsed() < LEAVING => std::thread::sleep(LEAVING / 100),
            opened => return opened,
        }
    }
}

fn register_fault(fault: Fault, offset: u32, bytes: u32) -> BusError {
    match fault {
        Fault::Refused(_) => BusError::NoRegister { offset, bytes },
        other => other.into(),
    }
}
