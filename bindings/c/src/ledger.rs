//! What a device in this process counts: bytes that crossed its link, its time, its engines' keys.

use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

use byway::{Class, Device, Error, ErrorKind};

use crate::arg::put;
use crate::device::byway_device;
use crate::error::{border, c_text, count};
use crate::nvm::nsid_or_first;
use crate::sized::{self, crossing};

/// Everything that crossed a device's link so far.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_ledger {
    /// sizeof(byway_ledger).
    pub size: usize,
    /// Payload bytes of all classes of transactions but interrupts.
    pub payload_bytes: u64,
    /// Bytes on the wire of all classes, interrupts too.
    pub wire_bytes: u64,
    /// Payload bytes of interrupts.
    pub interrupt_bytes: u64,
}
crossing!(byway_ledger of 32);

/// What one class of transactions amounts to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_ledger_row {
    /// sizeof(byway_ledger_row).
    pub size: usize,
    /// The class: "doorbell", "data_read". It lives for ever.
    pub name: *const c_char,
    /// How many there were.
    pub count: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// Bytes on the wire from host to device.
    pub down_bytes: u64,
    /// Bytes on the wire from device to host.
    pub up_bytes: u64,
}
crossing!(byway_ledger_row of 48);

/// Counts of the engine of a namespace of keys and values.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_kv_stats {
    /// sizeof(byway_kv_stats).
    pub size: usize,
    /// Keys; `unsettled_entries` of them may be counted twice.
    pub keys: u64,
    /// Entries of which it is not known yet whether they replace older ones.
    pub unsettled_entries: u64,
    /// Bytes of live records and their index entries that the namespace can hold.
    pub capacity_bytes: u64,
    /// Memory that the engine takes, in bytes.
    pub ram_bytes: u64,
}
crossing!(byway_kv_stats of 40);

/// Gets what crossed the link so far, of a device in this process. The difference of two is what crossed in between.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_get_ledger(
    device: *const byway_device,
    ledger: *mut byway_ledger,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let now = unsafe { byway_device::embedded(device) }?.ledger();
        let totals = byway_ledger {
            size: size_of::<byway_ledger>(),
            payload_bytes: now.payload_bytes(),
            wire_bytes: now.wire_bytes(),
            interrupt_bytes: now.interrupt_bytes(),
        };
        // SAFETY: by the contract.
        unsafe { sized::write(ledger, &totals) }?;
        Ok(0)
    })
}

/// Gets what crossed the link so far, class by class: at most `max` rows, of which the first has its `size` set. Returns how
/// many classes there are; their order stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_ledger_rows(
    device: *const byway_device,
    rows: *mut byway_ledger_row,
    max: u32,
) -> c_int {
    static NAMES: LazyLock<[CString; Class::COUNT]> =
        LazyLock::new(|| Class::ALL.map(|class| c_text(class.name())));
    border(|| {
        // SAFETY: by the contract.
        let now = unsafe { byway_device::embedded(device) }?.ledger();
        let named = now.rows().zip(NAMES.iter()).map(|((_, row), name)| byway_ledger_row {
            size: size_of::<byway_ledger_row>(),
            name: name.as_ptr(),
            count: row.count,
            payload_bytes: row.cost.payload_bytes,
            down_bytes: row.cost.down_bytes,
            up_bytes: row.cost.up_bytes,
        });
        // SAFETY: by the contract.
        unsafe { sized::fill(rows, max as usize, named) }?;
        Ok(count(Class::COUNT))
    })
}

/// Turns counting on or off, of a device in this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_set_ledger(device: *const byway_device, on: c_int) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { byway_device::embedded(device) }?.set_ledger(on != 0);
        Ok(0)
    })
}

/// Gets the time of a device in this process, in nanoseconds: modelled under a virtual or paced clock, else the machine's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_now(device: *const byway_device, now_ns: *mut u64) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        unsafe { put(now_ns, byway_device::embedded(device)?.now_ns(), "now_ns") }?;
        Ok(0)
    })
}

/// Gets the counters of a key-value namespace's engine, of a device in this process: `nsid`, or for 0 the URI's, or
/// the device's first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_kv_stats(
    device: *const byway_device,
    nsid: u32,
    stats: *mut byway_kv_stats,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { byway_device::shared(device) }?;
        let counted = kv_stats(device, nsid)?;
        // SAFETY: by the contract.
        unsafe { sized::write(stats, &counted) }?;
        Ok(0)
    })
}

fn kv_stats(device: &Device, nsid: u32) -> byway::Result<byway_kv_stats> {
    let nsid = device.kv_namespace(nsid_or_first(nsid)?)?.nsid;
    let stats = device.as_embedded().and_then(|embedded| embedded.kv_stats(nsid));
    let none = || Error::host(ErrorKind::Unsupported, format!("namespace {nsid} counts nothing"));
    let stats = stats.ok_or_else(none)?;
    Ok(byway_kv_stats {
        size: size_of::<byway_kv_stats>(),
        keys: stats.keys,
        unsettled_entries: stats.unsettled_entries,
        capacity_bytes: stats.capacity_bytes,
        ram_bytes: stats.ram_bytes,
    })
}
