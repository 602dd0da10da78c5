//! Controller properties: memory-mapped registers (Base 2.1, section 3.1.4).

use bitfield_struct::bitfield;

open_enum! {
    /// Offset of a register in BAR 0.
    pub struct Register(u32) {
        CAP = 0x00 "Controller Capabilities",
        VS = 0x08 "Version",
        INTMS = 0x0c "Interrupt Mask Set",
        INTMC = 0x10 "Interrupt Mask Clear",
        CC = 0x14 "Controller Configuration",
        CSTS = 0x1c "Controller Status",
        NSSR = 0x20 "NVM Subsystem Reset",
        AQA = 0x24 "Admin Queue Attributes",
        ASQ = 0x28 "Admin Submission Queue Base Address",
        ACQ = 0x30 "Admin Completion Queue Base Address",
        CMBLOC = 0x38 "Controller Memory Buffer Location",
        CMBSZ = 0x3c "Controller Memory Buffer Size",
        BPINFO = 0x40 "Boot Partition Information",
        BPRSEL = 0x44 "Boot Partition Read Select",
        BPMBL = 0x48 "Boot Partition Memory Buffer Location",
        CMBMSC = 0x50 "Controller Memory Buffer Memory Space Control",
        CMBSTS = 0x58 "Controller Memory Buffer Status",
        CMBEBS = 0x5c "Controller Memory Buffer Elasticity Buffer Size",
        CMBSWTP = 0x60 "Controller Memory Buffer Sustained Write Throughput",
        NSSD = 0x64 "NVM Subsystem Shutdown",
        CRTO = 0x68 "Controller Ready Timeouts",
        PMRCAP = 0xe00 "Persistent Memory Region Capabilities",
        PMRCTL = 0xe04 "Persistent Memory Region Control",
        PMRSTS = 0xe08 "Persistent Memory Region Status",
        PMREBS = 0xe0c "Persistent Memory Region Elasticity Buffer Size",
        PMRSWTP = 0xe10 "Persistent Memory Region Sustained Write Throughput",
        PMRMSCL = 0xe14 "Persistent Memory Region Memory Space Control Lower",
        PMRMSCU = 0xe18 "Persistent Memory Region Memory Space Control Upper",
    }
}

/// Offset of the first doorbell, the admin submission queue's tail.
pub const DOORBELL_BASE: u32 = 0x1000;

/// Value that starts an NVM subsystem reset when written to NSSR ("NVMe").
pub const NSSR_MAGIC: u32 = 0x4e56_4d65;

/// Offset of the tail doorbell of submission queue `qid` with stride CAP.DSTRD.
pub const fn sq_doorbell(qid: u16, dstrd: u8) -> u32 {
    DOORBELL_BASE + (2 * qid as u32) * (4 << dstrd)
}

/// Offset of the head doorbell of completion queue `qid` with stride CAP.DSTRD.
pub const fn cq_doorbell(qid: u16, dstrd: u8) -> u32 {
    DOORBELL_BASE + (2 * qid as u32 + 1) * (4 << dstrd)
}

/// Controller Capabilities.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cap {
    /// Maximum queue entries supported, zero-based.
    pub mqes_z: u16,
    /// Contiguous queues required.
    pub cqr: bool,
    /// Arbitration mechanisms besides round robin.
    #[bits(2)]
    pub ams: u8,
    #[bits(5)]
    __: u8,
    /// Worst wait for CSTS.RDY, in units of 500 ms.
    pub to: u8,
    /// Doorbell stride: 2^(2 + dstrd) bytes.
    #[bits(4)]
    pub dstrd: u8,
    /// NVM subsystem reset supported.
    pub nssrs: bool,
    /// Command sets supported: see [`Cap::CSS_NVM`] and its neighbours.
    pub css: u8,
    /// Boot partition support.
    pub bps: bool,
    /// Controller power scope.
    #[bits(2)]
    pub cps: u8,
    /// Smallest memory page: 2^(12 + mpsmin).
    #[bits(4)]
    pub mpsmin: u8,
    /// Largest memory page: 2^(12 + mpsmax).
    #[bits(4)]
    pub mpsmax: u8,
    /// Persistent memory region supported.
    pub pmrs: bool,
    /// Controller memory buffer supported.
    pub cmbs: bool,
    /// NVM subsystem shutdown supported.
    pub nsss: bool,
    /// Controller ready modes: bit 0 with media, bit 1 independent of media.
    #[bits(2)]
    pub crms: u8,
    /// NVM subsystem shutdown enhancements supported.
    pub nsses: bool,
    #[bits(2)]
    __: u8,
}

impl Cap {
    /// CSS bit 0: NVM command set.
    pub const CSS_NVM: u8 = 1 << 0;
    /// CSS bit 6 (register bit 43): one or more I/O command sets, listed by Identify CNS 1Ch.
    pub const CSS_IO_SETS: u8 = 1 << 6;
    /// CSS bit 7: no I/O command set.
    pub const CSS_ADMIN_ONLY: u8 = 1 << 7;
}

/// Version.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Vs {
    /// Tertiary version.
    pub ter: u8,
    /// Minor version.
    pub mnr: u8,
    /// Major version.
    pub mjr: u16,
}

impl Vs {
    /// NVM Express 2.1.
    pub const V2_1: Self = Self::new().with_mjr(2).with_mnr(1);
}

/// Controller Configuration.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cc {
    /// Enable.
    pub en: bool,
    #[bits(3)]
    __: u8,
    /// Command sets selected: see [`Cc::CSS_NVM`] and its neighbours.
    #[bits(3)]
    pub css: u8,
    /// Memory page: 2^(12 + mps).
    #[bits(4)]
    pub mps: u8,
    /// Arbitration mechanism: 0 is round robin.
    #[bits(3)]
    pub ams: u8,
    /// Shutdown notification.
    #[bits(2)]
    pub shn: u8,
    /// Submission entry: 2^iosqes bytes.
    #[bits(4)]
    pub iosqes: u8,
    /// Completion entry: 2^iocqes bytes.
    #[bits(4)]
    pub iocqes: u8,
    /// Controller ready independent of media enabled.
    pub crime: bool,
    #[bits(7)]
    __: u8,
}

impl Cc {
    /// CSS: NVM command set.
    pub const CSS_NVM: u8 = 0b000;
    /// CSS: all supported I/O command sets.
    pub const CSS_IO_SETS: u8 = 0b110;
    /// CSS: admin command set only.
    pub const CSS_ADMIN_ONLY: u8 = 0b111;
    /// SHN: no notification.
    pub const SHN_NONE: u8 = 0b00;
    /// SHN: normal shutdown.
    pub const SHN_NORMAL: u8 = 0b01;
    /// SHN: abrupt shutdown.
    pub const SHN_ABRUPT: u8 = 0b10;
    /// IOSQES of 64-byte entries.
    pub const IOSQES_64: u8 = 6;
    /// IOCQES of 16-byte entries.
    pub const IOCQES_16: u8 = 4;
}

/// Controller Status.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Csts {
    /// Ready.
    pub rdy: bool,
    /// Controller fatal status.
    pub cfs: bool,
    /// Shutdown status.
    #[bits(2)]
    pub shst: u8,
    /// NVM subsystem reset occurred; write 1 to clear.
    pub nssro: bool,
    /// Processing paused.
    pub pp: bool,
    /// Shutdown type: 1 for the whole subsystem.
    pub st: bool,
    #[bits(25)]
    __: u32,
}

impl Csts {
    /// SHST: normal operation.
    pub const SHST_NORMAL: u8 = 0b00;
    /// SHST: shutdown processing occurring.
    pub const SHST_OCCURRING: u8 = 0b01;
    /// SHST: shutdown processing complete.
    pub const SHST_COMPLETE: u8 = 0b10;
}

/// Admin Queue Attributes.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Aqa {
    /// Admin submission queue entries, zero-based.
    #[bits(12)]
    pub asqs_z: u16,
    #[bits(4)]
    __: u8,
    /// Admin completion queue entries, zero-based.
    #[bits(12)]
    pub acqs_z: u16,
    #[bits(4)]
    __: u8,
}

/// Controller Memory Buffer Location.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cmbloc {
    /// BAR that contains the buffer.
    #[bits(3)]
    pub bir: u8,
    /// Queues may mix CMB and host memory.
    pub cqmms: bool,
    /// A queue need not be physically contiguous in the buffer.
    pub cqpds: bool,
    /// Data pointers may mix locations with their lists.
    pub cdpmls: bool,
    /// Data pointers and their commands may be in different locations.
    pub cdpcils: bool,
    /// Data and metadata may mix locations.
    pub cdmmms: bool,
    /// Queue memory need not be dword aligned only.
    pub cqda: bool,
    #[bits(3)]
    __: u8,
    /// Offset in the BAR, in units of CMBSZ.SZU.
    #[bits(20)]
    pub ofst: u32,
}

/// Controller Memory Buffer Size.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cmbsz {
    /// Submission queues supported in the buffer.
    pub sqs: bool,
    /// Completion queues supported.
    pub cqs: bool,
    /// PRP and SGL lists supported.
    pub lists: bool,
    /// Data of reads supported.
    pub rds: bool,
    /// Data of writes supported.
    pub wds: bool,
    #[bits(3)]
    __: u8,
    /// Size unit: 4 KiB · 16^szu.
    #[bits(4)]
    pub szu: u8,
    /// Size in units of `szu`.
    #[bits(20)]
    pub sz: u32,
}

impl Cmbsz {
    /// Size of the buffer in bytes.
    pub const fn size_bytes(&self) -> u64 {
        (self.sz() as u64) << (12 + 4 * self.szu() as u32)
    }
}

/// Controller Memory Buffer Memory Space Control.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cmbmsc {
    /// Capability registers are shown.
    pub cre: bool,
    /// Memory space is enabled at `cba`.
    pub cmse: bool,
    #[bits(10)]
    __: u16,
    /// Controller base address, in pages of 4 KiB.
    #[bits(52)]
    pub cba: u64,
}

/// Controller Ready Timeouts, in units of 500 ms.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Crto {
    /// Ready with media.
    pub crwmt: u16,
    /// Ready independent of media.
    pub crimt: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_43_of_cap_announces_io_command_sets() {
        assert_eq!(Cap::new().with_css(Cap::CSS_IO_SETS).into_bits(), 1 << 43);
        assert_eq!(Cap::new().with_mpsmax(0xf).into_bits(), 0xf << 52);
        assert_eq!(Cap::new().with_cmbs(true).into_bits(), 1 << 57);
    }

    #[test]
    fn cc_fields_stand_where_linux_writes_them() {
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).with_css(Cc::CSS_IO_SETS);
        assert_eq!(cc.into_bits(), 0x0046_0061);
        assert_eq!(Cc::new().with_shn(Cc::SHN_NORMAL).into_bits(), 1 << 14);
    }

    #[test]
    fn doorbells_follow_the_stride() {
        assert_eq!(sq_doorbell(0, 0), 0x1000);
        assert_eq!(cq_doorbell(1, 0), 0x100c);
        assert_eq!(sq_doorbell(3, 4), 0x1000 + 6 * 64);
    }

    #[test]
    fn a_memory_buffer_size_scales_by_its_unit() {
        assert_eq!(Cmbsz::new().with_sz(3).with_szu(1).size_bytes(), 3 * 65536);
    }
}
