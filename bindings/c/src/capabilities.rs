//! What a backend and its device can do.

use std::ffi::{CStr, c_char, c_int};

use byway::{Backend, Capabilities, Limits, NvmCommands};

use crate::device::byway_device;
use crate::error::border;
use crate::sized::{self, crossing};

/// What a backend and its device can do. 0 stands for "not at all", except where a field says otherwise.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_capabilities {
    /// sizeof(byway_capabilities).
    pub size: usize,
    /// Most bytes of one command's data; UINT64_MAX if the device sets no limit.
    pub transfer_bytes: u64,
    /// What a command's memory must begin and end on, in bytes: 1 where any memory will do.
    pub memory_align_bytes: u32,
    /// Most queues that can be open at once.
    pub queues: u32,
    /// Most entries of one queue's ring.
    pub ring_entries: u32,
    /// Longest payload of transfer method "inline", in bytes.
    pub inline_bytes: u32,
    /// Raw I/O commands can be passed through.
    pub raw_commands: u8,
    /// Admin commands can be sent.
    pub admin_commands: u8,
    /// A command that was sent can be cancelled.
    pub cancel: u8,
    /// A queue has a descriptor that becomes readable when completions arrive.
    pub event: u8,
    /// Commands go on while the program does something else.
    pub overlaps: u8,
    /// Flush is there.
    pub flush: u8,
    /// Write Zeroes is there.
    pub write_zeroes: u8,
    /// Dataset Management (trim) is there.
    pub trim: u8,
    /// Compare is there.
    pub compare: u8,
    /// Verify is there.
    pub verify: u8,
    /// Copy is there.
    pub copy: u8,
    /// Many pairs can be stored by one command.
    pub bulk_store: u8,
    /// BYWAY_OPCODE_COMPARE_AND_WRITE is there.
    pub compare_and_write: u8,
    /// 0.
    pub reserved: [u8; 3],
    /// Transfer methods that the device announced and the backend can carry: "prp, inline". It lives until the device is
    /// closed.
    pub methods: *const c_char,
    /// Bytes of device memory that can be stored into as a byte interface (byway_kv_put_by_bytes()).
    pub byte_memory_bytes: u64,
    /// Longest payload of transfer method "piggyback" and of the tails of "prp+tail", in bytes.
    pub piggyback_bytes: u32,
    /// Most unfinished payloads of transfer method "piggyback-pt".
    pub piggyback_pt_unfinished: u32,
    /// Bytes of one queue's window in device memory, for transfer method "cxl".
    pub window_bytes: u32,
    /// Longest payload of BYWAY_OPCODE_BULK_STORE, in bytes.
    pub bulk_bytes: u32,
}
crossing!(byway_capabilities of 48);

/// Gets the capabilities of the backend and the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_get_capabilities(
    device: *const byway_device,
    capabilities: *mut byway_capabilities,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (device, methods) = unsafe { byway_device::with_methods(device) }?;
        let all = capabilities_of(device.capabilities(), methods);
        // SAFETY: by the contract.
        unsafe { sized::write(capabilities, &all) }?;
        Ok(0)
    })
}

fn capabilities_of(can: &Capabilities, methods: &CStr) -> byway_capabilities {
    let Limits { transfer_bytes, queues, ring_entries, inline_bytes, .. } = can.limits;
    let NvmCommands { flush, write_zeroes, deallocate, compare, verify, copy, compare_and_write } = can.nvm;
    byway_capabilities {
        size: size_of::<byway_capabilities>(),
        transfer_bytes,
        memory_align_bytes: can.memory_align_bytes,
        queues: queues.into(),
        ring_entries,
        inline_bytes,
        raw_commands: can.raw_commands.into(),
        admin_commands: can.admin_commands.into(),
        cancel: can.cancel.into(),
        event: can.event.into(),
        overlaps: can.overlaps.into(),
        flush: flush.into(),
        write_zeroes: write_zeroes.into(),
        trim: deallocate.into(),
        compare: compare.into(),
        verify: verify.into(),
        copy: copy.into(),
        bulk_store: can.bulk_store.into(),
        compare_and_write: compare_and_write.into(),
        reserved: [0; 3],
        methods: methods.as_ptr(),
        byte_memory_bytes: can.limits.byte_memory_bytes,
        piggyback_bytes: can.limits.piggyback_bytes,
        piggyback_pt_unfinished: can.limits.piggyback_pt_unfinished.into(),
        window_bytes: can.limits.window_bytes,
        bulk_bytes: can.limits.bulk_bytes,
    }
}
