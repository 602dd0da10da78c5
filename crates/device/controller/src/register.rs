//! The controller's registers: what the host reads and writes at the start of BAR 0.
//!
//! This file only holds the register rules (NVMe Base 2.1, section 3.1.4); a write that asks for more than a
//! changed register returns an [`Event`] for the controller to act on.

use byway_spec::base::register::{Aqa, Cap, Cc, Cmbmsc, Cmbsz, Crto, Csts, NSSR_MAGIC, Register, Vs};

/// Entries a queue may have; CAP.MQES is this less one.
pub const MAX_QUEUE_ENTRIES: u32 = 65_536;

/// CAP.TO and CRTO.CRWMT, in units of 500 ms: enabling is immediate, but a paced device may be busy.
const READY_TIMEOUT_500MS: u8 = 20;

/// The action that a register write asks the controller for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Nothing beyond the register's own change.
    None,
    /// CC.EN went from 0 to 1.
    Enable,
    /// CC.EN went from 1 to 0: controller reset.
    Reset,
    /// CC.SHN asks for a shutdown.
    Shutdown,
    /// NSSR received its magic: reset the whole subsystem.
    SubsystemReset,
}

/// The controller memory buffer that a device offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CmbRegisters {
    /// CMBLOC as reported.
    pub location: u32,
    /// CMBSZ as reported; 0 where there is no controller memory buffer.
    pub size: u32,
}

/// The register file.
#[derive(Debug, Clone)]
pub struct Registers {
    cap: Cap,
    cc: Cc,
    csts: Csts,
    interrupt_mask: u32,
    aqa: Aqa,
    asq: u64,
    acq: u64,
    cmb: CmbRegisters,
    cmbmsc: Cmbmsc,
}

impl Registers {
    /// Registers as after power-on, of a device with this controller memory buffer.
    pub fn new(cmb: CmbRegisters) -> Self {
        let cap = Cap::new()
            .with_mqes_z((MAX_QUEUE_ENTRIES - 1) as u16)
            .with_cqr(true)
            .with_to(READY_TIMEOUT_500MS)
            .with_nssrs(true)
            .with_css(Cap::CSS_NVM | Cap::CSS_IO_SETS)
            .with_crms(1)
            .with_cmbs(cmb.size != 0);
        Self {
            cap,
            cc: Cc::new(),
            csts: Csts::new(),
            interrupt_mask: 0,
            aqa: Aqa::new(),
            asq: 0,
            acq: 0,
            cmb,
            cmbmsc: Cmbmsc::new(),
        }
    }

    /// Registers of a controller over a fabric, with queues of at most `queue_entries`. Its host cannot reset the subsystem,
    /// which other hosts use.
    pub fn over_fabric(queue_entries: u16) -> Self {
        let mut registers = Self::new(CmbRegisters::default());
        registers.cap = registers.cap.with_mqes_z(queue_entries - 1).with_nssrs(false);
        registers
    }

    /// Whether CC has the sizes of queue entries.
    pub fn has_entry_sizes(&self) -> bool {
        self.cc.iosqes() == Cc::IOSQES_64 && self.cc.iocqes() == Cc::IOCQES_16
    }

    /// Controller Configuration as last written.
    pub fn cc(&self) -> Cc {
        self.cc
    }

    /// Whether the host chose to do without I/O command sets (CC.CSS 111b).
    #[inline]
    pub fn is_admin_only(&self) -> bool {
        self.cc.css() == Cc::CSS_ADMIN_ONLY
    }

    /// Whether the host chose every I/O command set there is (CC.CSS 110b).
    #[inline]
    pub fn serves_all_sets(&self) -> bool {
        self.cc.css() == Cc::CSS_IO_SETS
    }

    /// Whether the host chose the NVM command set alone (CC.CSS 000b).
    pub fn serves_nvm_only(&self) -> bool {
        self.cc.css() == Cc::CSS_NVM
    }

    /// Controller Status.
    pub fn csts(&self) -> Csts {
        self.csts
    }

    /// Entries of the admin submission and completion queue.
    pub fn admin_entries(&self) -> (u32, u32) {
        (u32::from(self.aqa.asqs_z()) + 1, u32::from(self.aqa.acqs_z()) + 1)
    }

    /// Bus addresses of the admin submission and completion queue.
    pub fn admin_bases(&self) -> (u64, u64) {
        (self.asq, self.acq)
    }

    /// Whether pin-based or MSI vector `vector` is masked by INTMS.
    pub fn is_masked(&self, vector: u16) -> bool {
        vector < 32 && self.interrupt_mask & (1 << vector) != 0
    }

    /// Where the host placed the controller memory buffer, if it enabled its memory space (CMBMSC).
    pub fn cmb_base(&self) -> Option<u64> {
        self.cmbmsc.cmse().then(|| self.cmbmsc.cba() << 12)
    }

    /// Bytes of the controller memory buffer, 0 where there is none.
    pub fn cmb_bytes(&self) -> u64 {
        Cmbsz::from_bits(self.cmb.size).size_bytes()
    }

    /// Sets CSTS.RDY.
    pub fn set_ready(&mut self, ready: bool) {
        self.csts.set_rdy(ready);
    }

    /// Sets CSTS.CFS: only a reset helps.
    pub fn set_fatal(&mut self) {
        self.csts.set_cfs(true);
    }

    /// Sets CSTS.SHST.
    pub fn set_shutdown_status(&mut self, shst: u8) {
        self.csts.set_shst(shst);
    }

    /// Clears what a controller reset clears: everything but the admin queue registers (section 3.7.2).
    pub fn reset(&mut self) {
        self.cc = Cc::new();
        self.csts = Csts::new().with_nssro(self.csts.nssro());
        self.interrupt_mask = 0;
    }

    /// Function level reset: all registers get their power-on values, the admin queue registers too.
    pub fn power_on(&mut self) {
        *self = Self { cap: self.cap, ..Self::new(self.cmb) };
    }

    /// NVM subsystem reset: power-on values, and CSTS.NSSRO is set.
    pub fn subsystem_reset(&mut self) {
        self.power_on();
        self.csts.set_nssro(true);
    }

    /// Reads the aligned 32-bit word at `offset`. Reserved registers read 0.
    pub fn read32(&self, offset: u32) -> u32 {
        match Register(offset & !7) {
            Register::CAP => half(self.cap.into_bits(), offset),
            Register::ASQ => half(self.asq, offset),
            Register::ACQ => half(self.acq, offset),
            Register::CMBMSC => half(self.cmbmsc.into_bits(), offset),
            _ => self.read_word(Register(offset)),
        }
    }

    fn read_word(&self, register: Register) -> u32 {
        match register {
            Register::VS => Vs::V2_1.into_bits(),
            Register::INTMS | Register::INTMC => self.interrupt_mask,
            Register::CC => self.cc.into_bits(),
            Register::CSTS => self.csts.into_bits(),
            Register::AQA => self.aqa.into_bits(),
            // The capability registers of the buffer read 0 until CMBMSC.CRE is set.
            Register::CMBLOC if self.cmbmsc.cre() => self.cmb.location,
            Register::CMBSZ if self.cmbmsc.cre() => self.cmb.size,
            Register::CRTO => Crto::new().with_crwmt(u16::from(READY_TIMEOUT_500MS)).into_bits(),
            _ => 0,
        }
    }

    /// Writes the aligned 32-bit word at `offset`. Read-only and reserved registers ignore it.
    pub fn write32(&mut self, offset: u32, value: u32) -> Event {
        match Register(offset & !7) {
            Register::ASQ if !self.cc.en() => set_half(&mut self.asq, offset, value, !0xfff),
            Register::ACQ if !self.cc.en() => set_half(&mut self.acq, offset, value, !0xfff),
            Register::CMBMSC => self.write_cmbmsc(offset, value),
            _ => return self.write_word(Register(offset), value),
        }
        Event::None
    }

    fn write_word(&mut self, register: Register, value: u32) -> Event {
        match register {
            Register::INTMS => self.interrupt_mask |= value,
            Register::INTMC => self.interrupt_mask &= !value,
            Register::AQA if !self.cc.en() => self.aqa = Aqa::from_bits(value),
            Register::CC => return self.write_cc(Cc::from_bits(value)),
            Register::CSTS if Csts::from_bits(value).nssro() => self.csts.set_nssro(false),
            Register::NSSR if value == NSSR_MAGIC && self.cap.nssrs() => return Event::SubsystemReset,
            _ => {}
        }
        Event::None
    }

    fn write_cc(&mut self, new: Cc) -> Event {
        let old = std::mem::replace(&mut self.cc, new);
        match (old.en(), new.en()) {
            (false, true) => Event::Enable,
            (true, false) => Event::Reset,
            _ if new.shn() != Cc::SHN_NONE && old.shn() == Cc::SHN_NONE => Event::Shutdown,
            _ => Event::None,
        }
    }

    fn write_cmbmsc(&mut self, offset: u32, value: u32) {
        if self.cmb.size == 0 {
            return;
        }
        let mut bits = self.cmbmsc.into_bits();
        set_half(&mut bits, offset, value, !0);
        self.cmbmsc = Cmbmsc::from_bits(bits);
    }
}

fn half(value: u64, offset: u32) -> u32 {
    if offset & 4 == 0 { value as u32 } else { (value >> 32) as u32 }
}

fn set_half(target: &mut u64, offset: u32, value: u32, mask: u64) {
    let shift = (offset & 4) * 8;
    *target = ((*target & !(0xffff_ffff << shift)) | u64::from(value) << shift) & mask;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        Registers::new(CmbRegisters::default())
    }

    #[test]
    fn cap_announces_io_command_sets_and_64k_entries() {
        let r = registers();
        let cap = u64::from(r.read32(0)) | u64::from(r.read32(4)) << 32;
        assert_ne!(cap & (1 << 43), 0);
        assert_eq!(cap & 0xffff, 0xffff);
    }

    #[test]
    fn queue_registers_do_not_change_while_enabled() {
        let mut r = registers();
        r.write32(Register::ASQ.0, 0x1234_5678);
        r.write32(Register::ASQ.0 + 4, 0x9);
        assert_eq!(r.admin_bases().0, 0x9_1234_5000);
        assert_eq!(r.write32(Register::CC.0, 1), Event::Enable);
        r.write32(Register::ASQ.0, 0);
        assert_eq!(r.admin_bases().0, 0x9_1234_5000);
    }

    #[test]
    fn clearing_enable_is_a_reset_and_shutdown_is_reported_once() {
        let mut r = registers();
        let enabled = Cc::new().with_en(true);
        r.write32(Register::CC.0, enabled.into_bits());
        let shut = enabled.with_shn(Cc::SHN_NORMAL).into_bits();
        assert_eq!(r.write32(Register::CC.0, shut), Event::Shutdown);
        assert_eq!(r.write32(Register::CC.0, shut), Event::None);
        assert_eq!(r.write32(Register::CC.0, 0), Event::Reset);
    }

    #[test]
    fn only_the_magic_resets_the_subsystem() {
        let mut r = registers();
        assert_eq!(r.write32(Register::NSSR.0, 1), Event::None);
        assert_eq!(r.write32(Register::NSSR.0, NSSR_MAGIC), Event::SubsystemReset);
        r.subsystem_reset();
        assert!(r.csts().nssro());
        r.write32(Register::CSTS.0, Csts::new().with_nssro(true).into_bits());
        assert!(!r.csts().nssro());
    }
}
