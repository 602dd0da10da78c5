//! The PCI function: region accesses, interrupts and memory of a host, without a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use byway_controller::Interrupts;
use byway_executor::{Failed, RemoteFront};
use byway_vfio_user_wire::{
    Access, Area, DeviceInfo, DmaMap, DmaUnmap, Errno, IrqAction, IrqData, IrqFlags, IrqIndex, IrqInfo,
    RegionFlags, RegionIndex, RegionInfo, SetIrqs,
};

use crate::bar::{BAR0_BYTES, DOORBELLS_AT, DOORBELLS_BYTES, Place, VECTORS};
use crate::config::{CONFIG_BYTES, ConfigEvent, ConfigSpace};
use crate::device_memory::DeviceMemoryBar;
use crate::interrupts::{NoEventFd, Vectors};
use crate::memory::{HostRanges, MemoryError};
use crate::message_dma::MessageRanges;
use crate::page::DoorbellPage;

const WORD_BYTES: usize = 4;

/// Why the function refuses a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Past the end of the region, or of one that is not there.
    #[error("{bytes} bytes at {offset:#x} of region {region}")]
    OutsideRegion {
        /// The region.
        region: RegionIndex,
        /// The offset.
        offset: u64,
        /// The length.
        bytes: u32,
    },
    /// Registers, doorbells and tables are written by whole words.
    #[error("a write of {bytes} bytes at {offset:#x} is not of whole 32-bit words")]
    NotWords {
        /// The offset.
        offset: u64,
        /// The length.
        bytes: usize,
    },
    /// An interrupt, or an action on it, that is not there.
    #[error("{count} interrupts from {start} of kind {index}, with {fds} descriptors")]
    NoInterrupt {
        /// The kind.
        index: IrqIndex,
        /// The first.
        start: u32,
        /// The length.
        count: u32,
        /// The number of descriptors.
        fds: usize,
    },
    /// A descriptor that is not an eventfd.
    #[error(transparent)]
    NoEventFd(#[from] NoEventFd),
    /// A DMA range.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No client is connected, so there is no device memory.
    #[error("device memory is not shared: no client is connected")]
    NoDeviceMemory,
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] Failed),
}

impl Refusal {
    /// The error number of the reply.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Memory(error) => error.errno(),
            Self::Failed(_) => Errno::EIO,
            _ => Errno::EINVAL,
        }
    }
}

/// One PCI function with an NVMe controller in it, for one host after the other.
#[derive(Debug)]
pub struct Function {
    front: RemoteFront,
    config: ConfigSpace,
    vectors: Arc<Vectors>,
    ranges: HostRanges,
    page: Option<DoorbellPage>,
    /// Bus mastering is on: the device may access host memory.
    reaches_memory: bool,
    bar2_bytes: u64,
    /// The connected client's device memory.
    device_memory: Option<DeviceMemoryBar>,
    /// Client memory accessed by DMA messages, if the client supports them.
    message_ranges: Option<Arc<MessageRanges>>,
}

impl Function {
    /// A function of the device behind `front`, with interrupts `vectors` and mappable doorbells `page`.
    #[must_use]
    pub fn new(front: RemoteFront, vectors: Arc<Vectors>, page: Option<DoorbellPage>) -> Self {
        let ranges = HostRanges::new(front.space().clone());
        let bar2_bytes = match front.device_memory_bytes() {
            0 => 0,
            bytes => bytes.next_power_of_two(),
        };
        let config = ConfigSpace::new(bar2_bytes);
        Self {
            front,
            config,
            vectors,
            ranges,
            page,
            reaches_memory: true,
            bar2_bytes,
            device_memory: None,
            message_ranges: None,
        }
    }

    /// Prepares doorbells and device memory for a new client.
    ///
    /// # Errors
    /// The system's error; a device that failed.
    pub fn begin(&mut self) -> io::Result<()> {
        self.page.as_mut().map_or(Ok(()), DoorbellPage::renew)?;
        if self.bar2_bytes == 0 {
            return Ok(());
        }
        let bar = DeviceMemoryBar::new(self.bar2_bytes)?;
        self.front.share_device_memory(Some(bar.memory().clone())).map_err(io::Error::other)?;
        self.device_memory = Some(bar);
        Ok(())
    }

    /// Opens the channel for DMA messages; returns the client's end.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_dma_channel(&mut self, host_max_bytes: u64) -> io::Result<OwnedFd> {
        let (ranges, theirs) = MessageRanges::new(host_max_bytes)?;
        let ranges = Arc::new(ranges);
        self.front.space().set_message_dma(Some(ranges.clone()));
        self.message_ranges = Some(ranges);
        Ok(theirs)
    }

    /// The client's messages were polled: the time limit of its DMA replies starts again.
    pub fn note_poll(&self) {
        self.message_ranges.iter().for_each(|ranges| ranges.note_poll());
    }

    /// Whether doorbells are mapped by clients and must be polled.
    #[must_use]
    pub fn is_polled(&self) -> bool {
        self.page.is_some()
    }

    /// The device.
    #[must_use]
    pub fn front(&self) -> &RemoteFront {
        &self.front
    }

    /// The reply to DEVICE_GET_INFO.
    #[must_use]
    pub fn info() -> DeviceInfo {
        DeviceInfo { has_reset: true, is_pci: true, regions: RegionIndex::COUNT, irqs: IrqIndex::COUNT }
    }

    /// The reply to DEVICE_GET_REGION_INFO; absent regions have no bytes.
    ///
    /// # Errors
    /// An index that VFIO does not number.
    pub fn region(&self, index: RegionIndex) -> Result<RegionInfo, Refusal> {
        if index.0 >= RegionIndex::COUNT {
            return Err(Refusal::OutsideRegion { region: index, offset: 0, bytes: 0 });
        }
        let bytes = self.region_bytes(index);
        let mappable = self.region_file(index).is_some();
        let flags = RegionFlags { readable: bytes > 0, writable: bytes > 0, mappable };
        let doorbells = Area { offset: DOORBELLS_AT, bytes: DOORBELLS_BYTES };
        let areas = if mappable && index == RegionIndex::BAR0 { vec![doorbells] } else { Vec::new() };
        Ok(RegionInfo { index, flags, bytes, file_offset: 0, areas, full_bytes: None })
    }

    /// The file of a mappable region.
    #[must_use]
    pub fn region_file(&self, index: RegionIndex) -> Option<&Arc<OwnedFd>> {
        match index {
            RegionIndex::BAR0 => self.page.as_ref().map(DoorbellPage::file),
            RegionIndex::BAR2 => self.device_memory.as_ref().map(DeviceMemoryBar::file),
            _ => None,
        }
    }

    /// The reply to DEVICE_GET_IRQ_INFO.
    ///
    /// # Errors
    /// An index that VFIO does not number.
    pub fn irq(index: IrqIndex) -> Result<IrqInfo, Refusal> {
        match index {
            IrqIndex::MSIX => {
                let flags = IrqFlags { eventfd: true, maskable: true, ..IrqFlags::default() };
                Ok(IrqInfo { index, flags, count: u32::from(VECTORS) })
            }
            _ if index.0 < IrqIndex::COUNT => Ok(IrqInfo { index, flags: IrqFlags::default(), count: 0 }),
            _ => Err(Refusal::NoInterrupt { index, start: 0, count: 0, fds: 0 }),
        }
    }

    /// Reads a region into `into`, replacing its contents.
    ///
    /// # Errors
    /// Outside the region; a device that failed.
    pub fn read(&self, from: &Access, into: &mut Vec<u8>) -> Result<(), Refusal> {
        into.clear();
        self.check_inside(from)?;
        into.resize(from.bytes as usize, 0);
        match from.region {
            RegionIndex::CONFIG => self.config.read(from.offset, into).ok_or_else(|| outside(from)),
            RegionIndex::BAR2 => self.bar2()?.read(from.offset, into).map_err(|_| outside(from)),
            _ => self.read_bar(from.offset, into),
        }
    }

    /// Writes a region. Doorbells are served when the device is run next.
    ///
    /// # Errors
    /// Outside the region; parts of words; a device that failed.
    pub fn write(&mut self, to: &Access, data: &[u8]) -> Result<(), Refusal> {
        self.check_inside(to)?;
        match to.region {
            RegionIndex::CONFIG => self.write_config(to, data),
            RegionIndex::BAR2 => self.bar2()?.write(to.offset, data).map_err(|_| outside(to)),
            _ => self.write_bar(to.offset, data),
        }
    }

    fn region_bytes(&self, index: RegionIndex) -> u64 {
        match index {
            RegionIndex::BAR0 => BAR0_BYTES,
            RegionIndex::BAR2 => self.bar2_bytes,
            RegionIndex::CONFIG => CONFIG_BYTES as u64,
            _ => 0,
        }
    }

    /// Only configuration space and the BARs have an inside.
    fn check_inside(&self, access: &Access) -> Result<(), Refusal> {
        let end = access.offset.checked_add(u64::from(access.bytes));
        let bytes = self.region_bytes(access.region);
        if bytes == 0 || end.is_none_or(|end| end > bytes) {
            return Err(outside(access));
        }
        Ok(())
    }

    fn bar2(&self) -> Result<&DeviceMemoryBar, Refusal> {
        self.device_memory.as_ref().ok_or(Refusal::NoDeviceMemory)
    }

    fn write_config(&mut self, to: &Access, data: &[u8]) -> Result<(), Refusal> {
        let event = self.config.write(to.offset, data).ok_or_else(|| outside(to))?;
        if event == Some(ConfigEvent::Reset) {
            return self.reset();
        }
        self.vectors.mask_all(self.config.masks_interrupts());
        self.follow_bus_master()
    }

    /// Applies Bus Master Enable. When it returns with the bit clear, the device accesses no host memory.
    fn follow_bus_master(&mut self) -> Result<(), Refusal> {
        let may_reach = self.config.may_reach_memory();
        if std::mem::replace(&mut self.reaches_memory, may_reach) != may_reach {
            self.front.space().hide(!may_reach);
            self.front.quiesce_dma()?;
        }
        Ok(())
    }

    /// Reads any bytes, by whole words.
    fn read_bar(&self, mut at: u64, mut into: &mut [u8]) -> Result<(), Refusal> {
        while !into.is_empty() {
            let skip = (at % WORD_BYTES as u64) as usize;
            let word = self.read_word(Place::at(at - skip as u64))?.to_le_bytes();
            let (piece, rest) = into.split_at_mut((WORD_BYTES - skip).min(into.len()));
            piece.iter_mut().zip(word.iter().skip(skip)).for_each(|(to, from)| *to = *from);
            at += piece.len() as u64;
            into = rest;
        }
        Ok(())
    }

    fn read_word(&self, place: Place) -> Result<u32, Failed> {
        match place {
            Place::Register(offset) => self.front.read_register(offset),
            Place::Table { vector, word } => Ok(self.vectors.read_table(vector, word)),
            Place::Pending(first) => Ok(self.vectors.pending(first)),
            Place::Doorbell(_) | Place::Reserved => Ok(0),
        }
    }

    fn write_bar(&self, at: u64, data: &[u8]) -> Result<(), Refusal> {
        let (words, rest) = data.as_chunks::<WORD_BYTES>();
        if !rest.is_empty() || !at.is_multiple_of(WORD_BYTES as u64) {
            return Err(Refusal::NotWords { offset: at, bytes: data.len() });
        }
        for (at, word) in (at..).step_by(WORD_BYTES).zip(words) {
            self.write_word(Place::at(at), u32::from_le_bytes(*word))?;
        }
        Ok(())
    }

    fn write_word(&self, place: Place, value: u32) -> Result<(), Failed> {
        match place {
            Place::Register(offset) => self.front.write_register(offset, value)?,
            Place::Doorbell(index) => self.front.ring(index, value),
            Place::Table { vector, word } => self.vectors.write_table(vector, word, value),
            Place::Pending(_) | Place::Reserved => {}
        }
        Ok(())
    }

    /// Arms, disarms, masks or raises interrupts.
    ///
    /// # Errors
    /// Invalid interrupts; a wrong number of descriptors, or not eventfds.
    pub fn set_irqs(&self, set: &SetIrqs<'_>, fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let refusal =
            || Refusal::NoInterrupt { index: set.index, start: set.start, count: set.count, fds: fds.len() };
        let count = Self::irq(set.index)?.count;
        if set.disarms_all() {
            self.vectors.disarm(0..count as u16);
            return Ok(());
        }
        let end = set.start.checked_add(set.count).filter(|end| *end <= count).ok_or_else(refusal)?;
        let vectors = set.start as u16..end as u16;
        match (set.action, set.data) {
            (IrqAction::Trigger, IrqData::EventFds) if fds.is_empty() => self.vectors.disarm(vectors),
            (IrqAction::Trigger, IrqData::EventFds) if fds.len() == vectors.len() => {
                self.vectors.arm(vectors.start, fds)?;
            }
            (_, IrqData::EventFds) => return Err(refusal()),
            (action, IrqData::Now) => vectors.for_each(|vector| self.act(action, vector)),
            (action, IrqData::Where(chosen)) => {
                let chosen = vectors.zip(chosen).filter(|(_, chosen)| **chosen != 0);
                chosen.for_each(|(vector, _)| self.act(action, vector));
            }
        }
        Ok(())
    }

    fn act(&self, action: IrqAction, vector: u16) {
        match action {
            IrqAction::Mask => self.vectors.mask(vector, true),
            IrqAction::Unmask => self.vectors.mask(vector, false),
            IrqAction::Trigger => self.vectors.raise(vector),
        }
    }

    /// Maps host memory for the device.
    ///
    /// # Errors
    /// Those of [`HostRanges::map`].
    pub fn map(&mut self, map: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Refusal> {
        let has_no_fd = fd.is_none();
        self.ranges.map(map, fd)?;
        self.message_ranges.iter().filter(|_| has_no_fd).for_each(|ranges| ranges.map(map));
        Ok(())
    }

    /// Unmaps host memory; the device does not access it any more when this returns.
    ///
    /// # Errors
    /// Those of [`HostRanges::unmap`]; a device that failed.
    pub fn unmap(&mut self, unmap: &DmaUnmap) -> Result<(), Refusal> {
        self.ranges.unmap(unmap)?;
        self.message_ranges.iter().for_each(|ranges| ranges.unmap(unmap));
        Ok(self.front.quiesce_dma()?)
    }

    /// Whether the client truncated a mapped file, so that accesses found zeroes.
    #[must_use]
    pub fn has_lost_memory(&self) -> bool {
        self.ranges.is_lost()
    }

    /// Function level reset. Memory stays mapped, and vectors keep their eventfds.
    ///
    /// # Errors
    /// A device that failed.
    pub fn reset(&mut self) -> Result<(), Refusal> {
        tracing::info!("function level reset");
        self.front.reset()?;
        self.config = ConfigSpace::new(self.bar2_bytes);
        self.vectors.reset();
        self.follow_bus_master()
    }

    /// The client has disconnected: resets the function to power-on state and unmaps its memory.
    ///
    /// # Errors
    /// A device that failed.
    pub fn leave(&mut self) -> Result<(), Refusal> {
        self.vectors.forget();
        self.reset()?;
        self.message_ranges = None;
        self.front.space().set_message_dma(None);
        self.device_memory = None;
        self.front.share_device_memory(None)?;
        self.unmap(&DmaUnmap::All)
    }
}

fn outside(access: &Access) -> Refusal {
    Refusal::OutsideRegion { region: access.region, offset: access.offset, bytes: access.bytes }
}
