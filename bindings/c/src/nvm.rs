//! Synchronous calls to a namespace of blocks, on memory of the program's own.

use std::ffi::{c_int, c_void};

use byway::{Nsid, Nvm, Result};

use crate::arg::{bytes, bytes_mut, handle, put, shared, want};
use crate::device::byway_device;
use crate::error::border;

/// A namespace of blocks with a queue of its own, for synchronous calls. One thread at a time uses it.
pub struct byway_nvm {
    pub(crate) nvm: Nvm,
}

/// A namespace that may be any: 0 is the URI's, or the first of its kind.
pub(crate) fn nsid_or_first(nsid: u32) -> Result<Option<Nsid>> {
    if nsid == 0 { Ok(None) } else { Nsid::new(nsid).map(Some) }
}

/// Opens a namespace of blocks for synchronous calls: `nsid`, or for 0 the URI's, or the device's first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_open(
    device: *const byway_device,
    nsid: u32,
    nvm: *mut *mut byway_nvm,
) -> c_int {
    border(|| {
        want(nvm, "nvm")?;
        // SAFETY: by the contract.
        let opened = unsafe { byway_device::shared(device) }?.nvm(nsid_or_first(nsid)?)?;
        // SAFETY: by the contract.
        unsafe { put(nvm, Box::into_raw(Box::new(byway_nvm { nvm: opened })), "nvm") }?;
        Ok(0)
    })
}

/// Closes it; NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_close(nvm: *mut byway_nvm) {
    crate::error::border_quiet(|| {
        if !nvm.is_null() {
            // SAFETY: `byway_nvm_open` made it, and the program does not use it again.
            drop(unsafe { Box::from_raw(nvm) });
        }
    });
}

/// Size of a block in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_lba_bytes(nvm: *const byway_nvm) -> u32 {
    // SAFETY: by the contract.
    unsafe { shared(nvm, "nvm") }.map_or(0, |nvm| nvm.nvm.lba_bytes())
}

/// Number of blocks; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_blocks(nvm: *const byway_nvm) -> u64 {
    // SAFETY: by the contract.
    unsafe { shared(nvm, "nvm") }.map_or(0, |nvm| nvm.nvm.blocks())
}

/// The namespace's identifier; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_nsid(nvm: *const byway_nvm) -> u32 {
    // SAFETY: by the contract.
    unsafe { shared(nvm, "nvm") }.map_or(0, |nvm| nvm.nvm.nsid().get())
}

/// Reads `bytes` bytes, whole blocks, from block `slba` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_read(
    nvm: *mut byway_nvm,
    slba: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (nvm, into) = unsafe { (handle(nvm, "nvm")?, bytes_mut(into, bytes, "into")?) };
        nvm.nvm.read(slba, into).map(|()| 0)
    })
}

/// Writes `bytes` bytes, whole blocks, from block `slba` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_write(
    nvm: *mut byway_nvm,
    slba: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (nvm, from) = unsafe { (handle(nvm, "nvm")?, self::bytes(from, bytes, "from")?) };
        nvm.nvm.write(slba, from).map(|()| 0)
    })
}

/// Writes `bytes` bytes of `new_data`, whole blocks, from block `slba` on if the blocks equal `expected`, of the same length:
/// atomically against other writers. 1 if it did, 0 if they differ.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_compare_and_write(
    nvm: *mut byway_nvm,
    slba: u64,
    expected: *const c_void,
    new_data: *const c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (nvm, expected) = unsafe { (handle(nvm, "nvm")?, self::bytes(expected, bytes, "expected")?) };
        // SAFETY: as above.
        let new = unsafe { self::bytes(new_data, bytes, "new_data") }?;
        nvm.nvm.compare_and_write(slba, expected, new).map(c_int::from)
    })
}

/// Makes completed writes durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_flush(nvm: *mut byway_nvm) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { handle(nvm, "nvm") }?.nvm.flush().map(|()| 0)
    })
}

/// Deallocates blocks that are no longer needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_trim(nvm: *mut byway_nvm, slba: u64, blocks: u32) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { handle(nvm, "nvm") }?.nvm.trim(slba, blocks).map(|()| 0)
    })
}

/// Makes blocks read as zeroes; the device may forget them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_write_zeroes(nvm: *mut byway_nvm, slba: u64, blocks: u32) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { handle(nvm, "nvm") }?.nvm.write_zeroes(slba, blocks).map(|()| 0)
    })
}
