//! The kernel's structures and numbers (`linux/nvme_ioctl.h`, Linux 5.18 and 6.0).

use libc::c_ulong;

/// `struct nvme_passthru_cmd64`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passthrough {
    pub opcode: u8,
    pub flags: u8,
    pub reserved_1: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    pub metadata: u64,
    pub addr: u64,
    pub metadata_len: u32,
    /// Bytes of data; of a vectored command, the number of its pieces.
    pub data_len: u32,
    pub cdw10_15: [u32; 6],
    pub timeout_ms: u32,
    pub reserved_2: u32,
    pub result: u64,
}

/// `struct nvme_uring_cmd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UringPassthrough {
    pub opcode: u8,
    pub flags: u8,
    pub reserved_1: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    pub metadata: u64,
    pub addr: u64,
    pub metadata_len: u32,
    /// Bytes of data; of a vectored command, the number of its pieces.
    pub data_len: u32,
    pub cdw10_15: [u32; 6],
    pub timeout_ms: u32,
    pub reserved_2: u32,
}

const _: () = assert!(size_of::<Passthrough>() == 80 && size_of::<UringPassthrough>() == 72);
const _: () = assert!(std::mem::offset_of!(Passthrough, addr) == 24);
const _: () = assert!(std::mem::offset_of!(Passthrough, cdw10_15) == 40);
const _: () = assert!(std::mem::offset_of!(Passthrough, result) == 72);
const _: () = assert!(std::mem::offset_of!(UringPassthrough, data_len) == 36);
const _: () = assert!(std::mem::offset_of!(UringPassthrough, timeout_ms) == 64);

/// Numbers of `ioctl` requests.
pub(super) mod request {
    use super::{Passthrough, c_ulong, none, read_write};

    pub const ID: c_ulong = none(0x40);
    pub const RESET: c_ulong = none(0x44);
    pub const SUBSYSTEM_RESET: c_ulong = none(0x45);
    pub const RESCAN: c_ulong = none(0x46);
    pub const ADMIN: c_ulong = read_write(0x47, size_of::<Passthrough>()) as c_ulong;
    pub const IO: c_ulong = read_write(0x48, size_of::<Passthrough>()) as c_ulong;
    pub const IO_VECTORED: c_ulong = read_write(0x49, size_of::<Passthrough>()) as c_ulong;
}

/// Numbers of commands to an io_uring.
pub(crate) mod uring {
    use super::{UringPassthrough, read_write};

    pub(crate) const IO: u32 = read_write(0x80, size_of::<UringPassthrough>());
    pub(crate) const IO_VECTORED: u32 = read_write(0x81, size_of::<UringPassthrough>());
    pub(crate) const ADMIN: u32 = read_write(0x82, size_of::<UringPassthrough>());
    pub(crate) const ADMIN_VECTORED: u32 = read_write(0x83, size_of::<UringPassthrough>());
}

/// `_IO('N', number)`.
const fn none(number: u32) -> c_ulong {
    ((b'N' as u32) << 8 | number) as c_ulong
}

/// `_IOWR('N', number, …)` of a structure of so many bytes.
const fn read_write(number: u32, bytes: usize) -> u32 {
    3 << 30 | (bytes as u32) << 16 | (b'N' as u32) << 8 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!((request::ID, request::RESET), (0x4e40, 0x4e44));
        assert_eq!(
            (request::ADMIN, request::IO, request::IO_VECTORED),
            (0xc050_4e47, 0xc050_4e48, 0xc050_4e49)
        );
        assert_eq!((uring::IO, uring::IO_VECTORED), (0xc048_4e80, 0xc048_4e81));
        assert_eq!((uring::ADMIN, uring::ADMIN_VECTORED), (0xc048_4e82, 0xc048_4e83));
    }
}
