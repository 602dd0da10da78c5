//! What namespaces of memory and of programs share: they are not in the image, and are gone when the device is closed.

use byway_flash::{ACCESS_STATE_BYTES, ExtentId, NamespaceKind, NamespaceRecord, OWNER_STATE_BYTES};
use byway_programs::{Fault, Refusal};

use super::memory::MemoryCopy;
use super::programs::Prepared;
use crate::error::CommandError;
use crate::outcome::Outcome;

/// A namespace that is made when the host asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolatileKind {
    /// Memory of this many bytes.
    Memory {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// Programs.
    Programs,
}

/// What is left to do of a command.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing.
    Done(Outcome),
    /// Bytes of other namespaces are to be copied.
    Copy(MemoryCopy),
    /// A program is to be run over memory namespaces.
    Run(Prepared),
}

/// Device and number of a namespace: what its identifiers are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Identifier of the device.
    pub device: [u8; 16],
    /// Volatile namespaces that were made before, since the device was opened.
    pub number: u32,
}

/// A record with identifiers that no other namespace of the device has while it is open.
pub(super) fn record(nsid: u32, size_bytes: u64, origin: Origin) -> NamespaceRecord {
    let (nguid, mut uuid) = (origin.identifier(0), origin.identifier(1));
    // Version 8 of RFC 9562.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    NamespaceRecord {
        nsid,
        // It has no flash, and nothing asks for the extent or the blocks of such a namespace.
        kind: NamespaceKind::Nvm { lba_bytes: 512 },
        size_bytes,
        extent: ExtentId(u16::MAX),
        nguid,
        uuid,
        owner_state: [0; OWNER_STATE_BYTES],
        access_state: [0; ACCESS_STATE_BYTES],
    }
}

impl Origin {
    /// The device's identifier with its end mixed with the number, and with what the identifier is for.
    fn identifier(self, of: u64) -> [u8; 16] {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self { mut device, number } = self;
        let mixed = (u64::from(number) << 1 | of).wrapping_add(1).wrapping_mul(ODD);
        device[8..].iter_mut().zip(mixed.to_be_bytes()).for_each(|(byte, mixed)| *byte ^= mixed);
        device
    }
}

/// The error of a refused command.
pub(crate) fn refused(refusal: Refusal) -> CommandError {
    CommandError::new(refusal.status(), refusal.cause())
}

/// The error of a program that was stopped.
pub(crate) fn stopped(fault: Fault) -> CommandError {
    CommandError::new(fault.status(), fault.cause())
}
