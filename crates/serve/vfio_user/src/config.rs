//! Configuration space of the PCI function: what it says it is, and the few bits that a host may change.
//!
//! A table of 32-bit words, each with the value that it has after power-on and the bits that can be written. What is not
//! in the table reads 0 and cannot be written. Layout: PCI Local Bus 3.0 chapter 6, PCI Express Base chapter 7, NVMe over
//! PCIe Transport 1.1 section 2.1.

use crate::bar::{BAR0_BYTES, PENDING_AT, TABLE_AT, VECTORS};

/// Bytes of configuration space, with the extended part of PCI Express.
pub const CONFIG_BYTES: usize = 4096;

/// "BW" as it stands in memory. Not one of the PCI-SIG's: the function is never seen on a real bus, and a vendor's own
/// number would have drivers apply that vendor's quirks.
const VENDOR_ID: u32 = 0x5742;
const DEVICE_ID: u32 = 0x0001;
/// Mass storage, non-volatile memory, NVM Express I/O controller; revision 1.
const CLASS_AND_REVISION: u32 = 0x0108_0201;

const POWER_AT: u16 = 0x40;
const MSIX_AT: u16 = 0x50;
const EXPRESS_AT: u16 = 0x60;

const POWER_ID: u32 = 0x01;
const MSIX_ID: u32 = 0x11;
const EXPRESS_ID: u32 = 0x10;

/// Memory space, bus master, parity error response, SERR#, interrupt disable.
const COMMAND_BITS: u32 = 0x0546;
const BUS_MASTER: u32 = 1 << 2;
/// Status: there is a list of capabilities.
const STATUS_CAPABILITIES: u32 = 1 << 20;

/// A 64-bit memory BAR.
const BAR_64: u32 = 0b100;
/// One that may be read ahead and written together.
const PREFETCHABLE: u32 = 0b1000;

const BAR2_AT: u16 = 0x18;

/// Power management: version 3, no D1, no D2, no PME; a return from D3hot resets nothing.
const POWER_CAPABILITIES: u32 = 0x0003;
const NO_SOFT_RESET: u32 = 1 << 3;
const POWER_STATE: u32 = 0b11;

const MSIX_MASK_ALL: u32 = 1 << 30;
const MSIX_ENABLE: u32 = 1 << 31;

/// Version 2, endpoint.
const EXPRESS_CAPABILITIES: u32 = 0x0002;
/// Payloads up to 256 bytes, role-based errors, function level reset.
const DEVICE_CAPABILITIES: u32 = 1 | 1 << 15 | 1 << 28;
/// All but the reset bit, which reads 0.
const DEVICE_CONTROL: u32 = 0x7fff;
/// 16 GT/s, width x4.
const LINK: u32 = 4 | 4 << 4;
/// Speeds up to 16 GT/s.
const LINK_CAPABILITIES_2: u32 = 0b1111 << 1;

/// The byte of Device Control with the reset bit.
const RESET_BYTE: u64 = EXPRESS_AT as u64 + 9;
const RESET_BIT: u8 = 1 << 7;

/// A word: where, what it is after power-on, which bits can be written.
struct Word(u16, u32, u32);

const WORDS: &[Word] = &[
    Word(0x00, VENDOR_ID | DEVICE_ID << 16, 0),
    Word(0x04, STATUS_CAPABILITIES, COMMAND_BITS),
    Word(0x08, CLASS_AND_REVISION, 0),
    // Cache channel size.
    Word(0x0c, 0, 0xff),
    Word(0x10, BAR_64, !(BAR0_BYTES as u32 - 1)),
    Word(0x14, 0, !0),
    Word(0x2c, VENDOR_ID | DEVICE_ID << 16, 0),
    Word(0x34, POWER_AT as u32, 0),
    // Interrupt channel; no pin: there are message-signalled interrupts alone.
    Word(0x3c, 0, 0xff),
    Word(POWER_AT, POWER_ID | (MSIX_AT as u32) << 8 | POWER_CAPABILITIES << 16, 0),
    Word(POWER_AT + 4, NO_SOFT_RESET, POWER_STATE),
    Word(
        MSIX_AT,
        MSIX_ID | (EXPRESS_AT as u32) << 8 | (VECTORS as u32 - 1) << 16,
        MSIX_MASK_ALL | MSIX_ENABLE,
    ),
    Word(MSIX_AT + 4, TABLE_AT as u32, 0),
    Word(MSIX_AT + 8, PENDING_AT as u32, 0),
    Word(EXPRESS_AT, EXPRESS_ID | EXPRESS_CAPABILITIES << 16, 0),
    Word(EXPRESS_AT + 4, DEVICE_CAPABILITIES, 0),
    Word(EXPRESS_AT + 8, 0, DEVICE_CONTROL),
    Word(EXPRESS_AT + 12, LINK, 0),
    // Link control: ASPM, read completion boundary, common clock, extended synch; link status: as the capabilities.
    Word(EXPRESS_AT + 16, LINK << 16, 0x00cb),
    // Completion timeout value.
    Word(EXPRESS_AT + 40, 0, 0x1f),
    Word(EXPRESS_AT + 44, LINK_CAPABILITIES_2, 0),
    Word(EXPRESS_AT + 48, 4, 0),
];

/// What a write to configuration space asks for beyond changed bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigEvent {
    /// Function level reset.
    Reset,
}

/// The configuration space of the function.
#[derive(Debug, Clone)]
pub struct ConfigSpace {
    values: Box<[u8; CONFIG_BYTES]>,
    writable: Box<[u8; CONFIG_BYTES]>,
    /// The host has set Bus Master Enable once.
    knows_bus_master: bool,
}

impl ConfigSpace {
    /// The space after power-on, of a function with `bar2_bytes` of device memory: a power of two, or 0 for no BAR 2.
    #[must_use]
    pub fn new(bar2_bytes: u64) -> Self {
        let mut space = Self {
            values: Box::new([0; CONFIG_BYTES]),
            writable: Box::new([0; CONFIG_BYTES]),
            knows_bus_master: false,
        };
        for &Word(at, value, writable) in WORDS {
            put(&mut space.values, at, value);
            put(&mut space.writable, at, writable);
        }
        if bar2_bytes > 0 {
            let address_bits = !(bar2_bytes - 1);
            put(&mut space.values, BAR2_AT, BAR_64 | PREFETCHABLE);
            put(&mut space.writable, BAR2_AT, address_bits as u32);
            put(&mut space.writable, BAR2_AT + 4, (address_bits >> 32) as u32);
        }
        space
    }

    /// Copies out of the space; `None` where some byte is outside of it.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        into.copy_from_slice(self.values.get(range(at, into.len())?)?);
        Some(())
    }

    /// Writes what can be written; `None` where some byte is outside of the space.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Option<Option<ConfigEvent>> {
        let range = range(at, bytes.len())?;
        let power = self.power_state();
        let (values, writable) = (self.values.get_mut(range.clone())?, self.writable.get(range)?);
        for ((value, writable), byte) in values.iter_mut().zip(writable).zip(bytes) {
            *value = *value & !writable | byte & writable;
        }
        self.keep_power_state(power);
        self.knows_bus_master |= self.is_bus_master();
        let reset = RESET_BYTE.checked_sub(at).and_then(|index| bytes.get(usize::try_from(index).ok()?));
        Some(reset.is_some_and(|byte| byte & RESET_BIT != 0).then_some(ConfigEvent::Reset))
    }

    /// Whether the host masked all interrupts at once.
    #[must_use]
    pub fn masks_interrupts(&self) -> bool {
        word(&self.values, MSIX_AT) & MSIX_MASK_ALL != 0
    }

    /// Whether the function may reach the host's memory: not while Bus Master Enable is clear, once the host has set it.
    /// Hosts that are no guests map memory for the function alone and never look at the bit.
    #[must_use]
    pub fn may_reach_memory(&self) -> bool {
        self.is_bus_master() || !self.knows_bus_master
    }

    fn is_bus_master(&self) -> bool {
        word(&self.values, 0x04) & BUS_MASTER != 0
    }

    fn power_state(&self) -> u32 {
        word(&self.values, POWER_AT + 4) & POWER_STATE
    }

    /// A write of a state that the function does not have (D1, D2) changes nothing.
    fn keep_power_state(&mut self, old: u32) {
        if matches!(self.power_state(), 1 | 2) {
            put(&mut self.values, POWER_AT + 4, NO_SOFT_RESET | old);
        }
    }
}

fn range(at: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(at).ok()?;
    Some(at..at.checked_add(len)?)
}

fn put(space: &mut [u8; CONFIG_BYTES], at: u16, value: u32) {
    let at = usize::from(at);
    if let Some(word) = space.get_mut(at..at + 4) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

fn word(space: &[u8; CONFIG_BYTES], at: u16) -> u32 {
    let at = usize::from(at);
    let bytes = space.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(space: &ConfigSpace, at: u64) -> u32 {
        let mut bytes = [0; 4];
        space.read(at, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn class_code_is_nvme_controller() {
        assert_eq!(read(&ConfigSpace::new(1 << 27), 8) >> 8, 0x01_0802);
    }

    #[test]
    fn its_capabilities_are_power_msix_and_express_and_end() {
        let space = ConfigSpace::new(1 << 27);
        let (mut at, mut ids) = (read(&space, 0x34) & 0xff, Vec::new());
        while at != 0 {
            let word = read(&space, u64::from(at));
            ids.push(word & 0xff);
            at = word >> 8 & 0xff;
        }
        assert_eq!(ids, [POWER_ID, MSIX_ID, EXPRESS_ID]);
    }

    #[test]
    fn bar_reports_its_size_and_takes_an_address() {
        let mut space = ConfigSpace::new(1 << 27);
        space.write(0x10, &[0xff; 8]).unwrap();
        assert_eq!(read(&space, 0x10), !(BAR0_BYTES as u32 - 1) | BAR_64);
        assert_eq!(read(&space, 0x14), !0);
        space.write(0x10, &0xfebf_0000u32.to_le_bytes()).unwrap();
        assert_eq!(read(&space, 0x10), 0xfebf_0000 | BAR_64);
    }

    #[test]
    fn the_reset_bit_asks_for_a_reset_and_reads_zero() {
        let mut space = ConfigSpace::new(1 << 27);
        let control = u64::from(EXPRESS_AT) + 8;
        assert_eq!(space.write(control, &0x2810u16.to_le_bytes()), Some(None));
        assert_eq!(space.write(control, &0xa810u16.to_le_bytes()), Some(Some(ConfigEvent::Reset)));
        assert_eq!(read(&space, control), 0x2810);
        assert_eq!(space.write(control + 1, &[0x80]), Some(Some(ConfigEvent::Reset)));
    }

    #[test]
    fn a_power_state_that_is_not_there_is_not_taken() {
        let mut space = ConfigSpace::new(1 << 27);
        let control = u64::from(POWER_AT) + 4;
        for (written, taken) in [(3, 3), (1, 3), (2, 3), (0, 0), (1, 0)] {
            space.write(control, &[written]).unwrap();
            assert_eq!(read(&space, control) & 3, taken);
        }
    }

    #[test]
    fn memory_is_out_of_reach_while_a_host_that_knows_bus_mastering_has_it_off() {
        let mut space = ConfigSpace::new(1 << 27);
        assert!(space.may_reach_memory(), "this host may never set it");
        for (command, may) in [(2, true), (6, true), (2, false), (0, false), (4, true)] {
            space.write(4, &[command]).unwrap();
            assert_eq!(space.may_reach_memory(), may, "{command}");
        }
    }

    #[test]
    fn the_mask_of_all_interrupts_is_seen() {
        let mut space = ConfigSpace::new(1 << 27);
        assert!(!space.masks_interrupts());
        space.write(u64::from(MSIX_AT) + 2, &0xc000u16.to_le_bytes()).unwrap();
        assert!(space.masks_interrupts());
        assert_eq!(read(&space, u64::from(MSIX_AT)) >> 16, 0xc000 | (VECTORS as u32 - 1));
    }

    proptest! {
        #[test]
        fn only_writable_bits_change_and_nothing_outside_is_reached(
            writes in prop::collection::vec((0u64..5000, prop::collection::vec(any::<u8>(), 0..12)), 0..20),
        ) {
            let fresh = ConfigSpace::new(1 << 27);
            let mut space = fresh.clone();
            for (at, bytes) in &writes {
                let inside = at + bytes.len() as u64 <= CONFIG_BYTES as u64;
                prop_assert_eq!(space.write(*at, bytes).is_some(), inside);
                let mut back = vec![0; bytes.len()];
                prop_assert_eq!(space.read(*at, &mut back).is_some(), inside);
            }
            let read_only = |space: &ConfigSpace| -> Vec<u8> {
                space.values.iter().zip(space.writable.iter()).map(|(value, writable)| value & !writable).collect()
            };
            prop_assert_eq!(read_only(&space), read_only(&fresh));
            prop_assert!(space.write(u64::MAX, &[0]).is_none() && space.read(u64::MAX, &mut [0; 2]).is_none());
        }
    }
}
