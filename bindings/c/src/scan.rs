//! What devices there are.

use std::ffi::{CString, c_char, c_int, c_void};

use byway::{Found, FoundKind};

use crate::arg::invalid;
use crate::error::{border, c_text, count};

/// What a device that was found is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_place {
    /// A block device.
    Block = 0,
    /// A part of a block device.
    Partition = 1,
    /// A namespace of an NVMe controller, as a character device that takes any command.
    Generic = 2,
    /// An NVMe controller.
    Controller = 3,
    /// An NVMe controller that vfio-pci has, for drivers in user space.
    Function = 4,
}

/// A device that the kernel knows. It and its texts live until the callback returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_found {
    /// Bytes of this structure: fields behind it are not there.
    pub size: usize,
    /// What byway_open() takes.
    pub uri: *const c_char,
    /// Its model, or NULL where the kernel reports none.
    pub model: *const c_char,
    /// Its size in bytes, 0 where the kernel reports none.
    pub size_bytes: u64,
    /// What it is: a byway_place.
    pub place: u32,
    /// Not 0 if it can only be read.
    pub read_only: u32,
}

/// What byway_scan() calls for each device; anything but 0 ends the scan.
pub type byway_found_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, found: *const byway_found) -> c_int>;

/// Lists the devices that the kernel knows, by name. None is opened for it. Returns how many were reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_scan(on: byway_found_callback, context: *mut c_void) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        let mut reported = 0;
        for found in byway::scan()? {
            reported += 1;
            let words = (c_text(&found.uri), found.model.as_deref().map(c_text));
            // SAFETY: the program's own function, called as it is declared.
            if unsafe { on(context, &to_found(&found, &words)) } != 0 {
                break;
            }
        }
        Ok(count(reported))
    })
}

fn to_found(found: &Found, (uri, model): &(CString, Option<CString>)) -> byway_found {
    let place = match found.kind {
        FoundKind::Block => byway_place::Block,
        FoundKind::Partition => byway_place::Partition,
        FoundKind::Generic => byway_place::Generic,
        FoundKind::Controller => byway_place::Controller,
        FoundKind::Function => byway_place::Function,
    };
    byway_found {
        size: size_of::<byway_found>(),
        uri: uri.as_ptr(),
        model: model.as_ref().map_or(std::ptr::null(), |model| model.as_ptr()),
        size_bytes: found.size_bytes.unwrap_or(0),
        place: place as u32,
        read_only: found.read_only.into(),
    }
}
