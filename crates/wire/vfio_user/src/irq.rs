//! DEVICE_GET_IRQ_INFO and DEVICE_SET_IRQS: which interrupts there are, and what happens to them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::WireError;
use crate::layout::{data, put, take};

open_enum! {
    /// A kind of interrupt of a PCI device, numbered as VFIO does.
    pub struct IrqIndex(u32) {
        /// The pin.
        INTX = 0,
        /// Message-signalled.
        MSI = 1,
        /// Message-signalled, with a table.
        MSIX = 2,
        /// Errors of the device.
        ERR = 3,
        /// The device is asked back.
        REQ = 4,
    }
}

impl IrqIndex {
    /// Kinds that VFIO numbers.
    pub const COUNT: u32 = 5;
}

/// What can be done with interrupts of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IrqFlags {
    /// They can be signalled by eventfds.
    pub eventfd: bool,
    /// They can be masked.
    pub maskable: bool,
    /// The interrupts are masked automatically when they fire.
    pub automasked: bool,
    /// They are armed as a set: more of them only after all are disarmed.
    pub noresize: bool,
}

/// How many interrupts of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqInfo {
    /// Which kind.
    pub index: IrqIndex,
    /// What can be done with them.
    pub flags: IrqFlags,
    /// Number of interrupts.
    pub count: u32,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqAction {
    /// Mask now, or set the eventfd that signals masking.
    Mask,
    /// Unmask now, or set the eventfd that signals unmasking.
    Unmask,
    /// Raise now, or set the eventfd of a vector.
    Trigger,
}

/// To which of the interrupts, by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqData<'a> {
    /// To all of them, now.
    Now,
    /// Act now on each interrupt whose byte is not 0.
    Where(&'a [u8]),
    /// Set the eventfds that come with the message, one per interrupt; without descriptors, disarm them.
    EventFds,
}

/// An action on `count` interrupts of a kind from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIrqs<'a> {
    /// Which kind.
    pub index: IrqIndex,
    /// The first.
    pub start: u32,
    /// How many: `start + count` does not overflow, and is not more than a PCI device can have.
    pub count: u32,
    /// What to do.
    pub action: IrqAction,
    /// To which of them.
    pub data: IrqData<'a>,
}

impl SetIrqs<'_> {
    /// Whether it disarms every interrupt of the kind: none from 0 is triggered now.
    pub fn disarms_all(&self) -> bool {
        self.data == IrqData::Now && self.count == 0 && self.action == IrqAction::Trigger
    }
}

/// The vectors that an MSI-X table may have (PCI Express Base, 7.7.2).
const MAX_VECTORS: u32 = 2048;

const DATA_NONE: u32 = 1 << 0;
const DATA_BOOL: u32 = 1 << 1;
const DATA_EVENTFD: u32 = 1 << 2;
const ACTION_MASK: u32 = 1 << 3;
const ACTION_UNMASK: u32 = 1 << 4;
const ACTION_TRIGGER: u32 = 1 << 5;
const DATA: u32 = DATA_NONE | DATA_BOOL | DATA_EVENTFD;

/// As a request, all is 0 but `argsz` and `index`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Default)]
#[repr(C)]
pub(crate) struct RawInfo {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) count: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawSet {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
}

impl IrqInfo {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, _) = take::<RawInfo>(payload)?;
        Ok(Self { index: IrqIndex(raw.index), flags: IrqFlags::from_bits(raw.flags), count: raw.count })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(
            out,
            &RawInfo {
                argsz: size_of::<RawInfo>() as u32,
                flags: self.flags.bits(),
                index: self.index.0,
                count: self.count,
            },
        );
    }
}

impl IrqFlags {
    fn from_bits(bits: u32) -> Self {
        Self {
            eventfd: bits & 1 != 0,
            maskable: bits & 2 != 0,
            automasked: bits & 4 != 0,
            noresize: bits & 8 != 0,
        }
    }

    fn bits(self) -> u32 {
        u32::from(self.eventfd)
            | u32::from(self.maskable) << 1
            | u32::from(self.automasked) << 2
            | u32::from(self.noresize) << 3
    }
}

impl<'a> SetIrqs<'a> {
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let (raw, rest) = take::<RawSet>(payload)?;
        let bad = || WireError::BadFlags { what: "interrupt", flags: raw.flags };
        let ends = raw.start.checked_add(raw.count);
        if ends.is_none_or(|end| end > MAX_VECTORS) {
            return Err(WireError::BadRange {
                of: "interrupts",
                start: u64::from(raw.start),
                count: u64::from(raw.count),
            });
        }
        let action = match raw.flags & !DATA {
            ACTION_MASK => IrqAction::Mask,
            ACTION_UNMASK => IrqAction::Unmask,
            ACTION_TRIGGER => IrqAction::Trigger,
            _ => return Err(bad()),
        };
        let data = match raw.flags & DATA {
            DATA_NONE => IrqData::Now,
            DATA_BOOL => IrqData::Where(data(rest, u64::from(raw.count))?),
            DATA_EVENTFD => IrqData::EventFds,
            _ => return Err(bad()),
        };
        Ok(Self { index: IrqIndex(raw.index), start: raw.start, count: raw.count, action, data })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, booleans): (u32, &[u8]) = match self.data {
            IrqData::Now => (DATA_NONE, &[]),
            IrqData::Where(booleans) => (DATA_BOOL, booleans),
            IrqData::EventFds => (DATA_EVENTFD, &[]),
        };
        let action = match self.action {
            IrqAction::Mask => ACTION_MASK,
            IrqAction::Unmask => ACTION_UNMASK,
            IrqAction::Trigger => ACTION_TRIGGER,
        };
        put(
            out,
            &RawSet {
                argsz: (size_of::<RawSet>() + booleans.len()) as u32,
                flags: kind | action,
                index: self.index.0,
                start: self.start,
                count: self.count,
            },
        );
        out.extend_from_slice(booleans);
    }
}
