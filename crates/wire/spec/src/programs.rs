//! Computational Programs Command Set (command set identifier 4, TP 4091).
//!
//! The published text was not read: opcodes, command dwords and structures are those of public implementations of version 1.1.
//! What only one of them has is marked "to confirm".

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Opcode of an I/O command to a namespace of programs.
    pub struct ProgramOpcode(u8) {
        EXECUTE = 0x01 "Execute Program",
    }
}

open_enum! {
    /// What a program is written for. The numbers are ours, from the range of the vendor: the standard's are to confirm.
    pub struct ProgramType(u8) {
        EBPF = 0xc0 "eBPF",
        WASM = 0xc1 "WebAssembly",
        BUILT_IN = 0xc2 "Built in",
    }
}

/// CDW2 of Execute Program. CDW3 is the number of memory ranges in the data, CDW4 the bytes of data; CDW10 (low) to CDW13 are two
/// parameters of 64 bits. The completion's DW0 (low) and DW1 are what the program returns.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ExecuteCdw2 {
    /// Program index.
    pub pind: u16,
    /// Memory range set, 0 for none. With one, the data may hold no ranges.
    pub rsid: u16,
}

/// CDW10 of Load Program (admin 85h). CDW11 is the size of the program in bytes, CDW12 (low) and CDW13 its identifier, CDW14 the
/// bytes of this command's data, CDW15 their offset in the program.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LoadProgramCdw10 {
    /// Program index.
    pub pind: u16,
    /// Program type: [`ProgramType`].
    pub ptype: u8,
    /// What to do: see the constants (to confirm which is which).
    pub sel: bool,
    /// Identifier type: see the constants.
    #[bits(3)]
    pub pit: u8,
    #[bits(4)]
    __: u8,
}

impl LoadProgramCdw10 {
    /// SEL: load the program, or a piece of it.
    pub const LOAD: bool = false;
    /// SEL: unload the program.
    pub const UNLOAD: bool = true;
    /// PIT: the program has no identifier.
    pub const NO_IDENTIFIER: u8 = 0;
    /// PIT: a unique identifier of 64 bits.
    pub const UNIQUE_IDENTIFIER: u8 = 1;
}

/// CDW10 of Program Activation Management (admin 88h).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ProgramActivationCdw10 {
    /// Program index.
    pub pind: u16,
    /// What to do: see the constants (place of the field to confirm).
    #[bits(4)]
    pub sel: u8,
    #[bits(12)]
    __: u16,
}

impl ProgramActivationCdw10 {
    /// SEL: deactivate the program.
    pub const DEACTIVATE: u8 = 0;
    /// SEL: activate the program.
    pub const ACTIVATE: u8 = 1;
}

/// CDW10 of Memory Range Set Management (admin 89h). CDW11 is the number of ranges. The completion's DW0 is the identifier of a
/// set that was created.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct RangeSetCdw10 {
    /// What to do: see the constants.
    #[bits(4)]
    pub sel: u8,
    #[bits(12)]
    __: u16,
    /// The set to delete.
    pub rsid: u16,
}

impl RangeSetCdw10 {
    /// SEL: create a set of the ranges in the data.
    pub const CREATE: u8 = 0;
    /// SEL: delete a set.
    pub const DELETE: u8 = 1;
}

/// A memory range (data of Execute Program and of Memory Range Set Management).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct MemoryRangeDescriptor {
    /// Memory namespace.
    pub nsid: u32,
    /// Bytes.
    pub length_bytes: u32,
    /// First byte.
    pub start: u64,
    /// Reserved.
    pub reserved_16: [u8; 16],
}

/// First byte of a [`ProgramDescriptor`] (order of the fields to confirm).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ProgramState {
    /// Whether there is a program: see the constants.
    #[bits(2)]
    pub occupied: u8,
    /// The program is activated.
    pub active: bool,
    /// Identifier type, as in [`LoadProgramCdw10`].
    #[bits(3)]
    pub pit: u8,
    #[bits(2)]
    __: u8,
}

impl ProgramState {
    /// No program.
    pub const EMPTY: u8 = 0;
    /// A program that was loaded.
    pub const LOADED: u8 = 1;
    /// A program that the device has by itself.
    pub const BUILT_IN: u8 = 2;
}

/// One program of the list of programs.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ProgramDescriptor {
    /// State.
    pub state: ProgramState,
    /// Program type: [`ProgramType`].
    pub ptype: u8,
    /// Reserved.
    pub reserved_2: [u8; 6],
    /// Program identifier.
    pub pid: u64,
    /// Reserved.
    pub reserved_16: [u8; 48],
}

/// Head of the Program List (log page 82h), which is of a namespace. A [`ProgramDescriptor`] for each index is behind it. The number of the
/// page is that of the Base specification; the head is to confirm.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ProgramListHeader {
    /// Number of descriptors.
    pub programs: u16,
    /// Reserved.
    pub reserved_2: [u8; 62],
}

/// Identify Namespace, CNS 05h with command set identifier 4. Offsets to confirm.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ProgramNamespace {
    /// Most programs activated at a time.
    pub maxact: u16,
    /// Most memory range sets.
    pub maxmemrs: u16,
    /// Granularity of memory ranges in bytes.
    pub mrsg_bytes: u16,
    /// Most memory ranges of a set or an Execute Program command.
    pub maxmemr: u8,
    /// Reserved.
    pub reserved_7: u8,
    /// Most bytes of all programs, in MiB.
    pub maxpb_mib: u64,
    /// Granularity of the pieces of Load Program, as a power of two in bytes.
    pub lpg: u8,
    /// Reserved.
    pub reserved_17: [u8; 4079],
}

assert_size! {
    MemoryRangeDescriptor = 32;
    ProgramDescriptor = 64;
    ProgramListHeader = 64;
    ProgramNamespace = 4096;
}
assert_offset! { MemoryRangeDescriptor { length_bytes = 4, start = 8, } }
assert_offset! { ProgramDescriptor { ptype = 1, pid = 8, } }
assert_offset! { ProgramNamespace { maxmemrs = 2, mrsg_bytes = 4, maxmemr = 6, maxpb_mib = 8, lpg = 16, } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_selects_above_the_type_of_the_program() {
        let cdw10 = LoadProgramCdw10::new().with_pind(5).with_ptype(2).with_sel(true).with_pit(1);
        assert_eq!(cdw10.into_bits(), 1 << 25 | 1 << 24 | 2 << 16 | 5);
    }

    #[test]
    fn a_range_set_is_named_in_the_upper_half() {
        assert_eq!(
            RangeSetCdw10::new().with_sel(RangeSetCdw10::DELETE).with_rsid(7).into_bits(),
            7 << 16 | 1
        );
        assert_eq!(ExecuteCdw2::new().with_pind(3).with_rsid(7).into_bits(), 7 << 16 | 3);
        assert_eq!(ProgramActivationCdw10::new().with_pind(3).with_sel(1).into_bits(), 1 << 16 | 3);
    }
}
