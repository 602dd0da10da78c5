//! Opening devices, and what they say of themselves.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Arc;

use byway::{Backend, Device, Error, ErrorKind, Namespace, NamespaceKind, Result, embedded};

use crate::arg::{invalid, put, shared, text, text_or_none, want};
use crate::error::{border, c_text, count};
use crate::nvm::nsid_or_first;
use crate::sized::{self, crossing};

/// An open device. Any number of threads may use it at once, until it is closed.
pub struct byway_device {
    device: Arc<Device>,
    words: Words,
    passed_over: Vec<(CString, CString)>,
}

/// Texts of `byway_device_info`, kept for as long as the device is open.
struct Words {
    backend: CString,
    why: CString,
    model: CString,
    serial: CString,
    firmware: CString,
    subsystem: CString,
    methods: CString,
}

/// How a device shall be opened. NULL in place of it, or zeroes in it, stand for the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_open_options {
    /// sizeof(byway_open_options).
    pub size: usize,
    /// Options beside those of the URI, written as there: "backend=psync&depth=32". NULL for none.
    pub options: *const c_char,
    /// Not 0: to read it alone. What may not be written can be opened so.
    pub read_only: u32,
    /// 0.
    pub reserved: u32,
}
crossing!(byway_open_options of 24);

/// Who a device says it is, and how it is reached. Texts live until the device is closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_device_info {
    /// sizeof(byway_device_info).
    pub size: usize,
    /// The interface by which commands reach it: "io_uring", "embedded".
    pub backend: *const c_char,
    /// Why that one.
    pub why: *const c_char,
    /// Model.
    pub model: *const c_char,
    /// Serial number.
    pub serial: *const c_char,
    /// Firmware revision.
    pub firmware: *const c_char,
    /// Subsystem's qualified name (NQN).
    pub subsystem: *const c_char,
    /// How many faster backends could not serve it: byway_device_passed_over() names each.
    pub passed_over: u32,
    /// The controller's number in its subsystem.
    pub controller: u16,
    /// PCI vendor.
    pub vendor: u16,
    /// Specification version: major in bits 31:16, minor in bits 15:8, tertiary in bits 7:0.
    pub version: u32,
    /// 1 for a Byway device: one that has transfer methods of its own.
    pub is_byway: u32,
}
crossing!(byway_device_info of 72);

/// The command set of a namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum byway_kind {
    /// One that this library has no typed commands for.
    Other = 0,
    /// Logical blocks.
    Nvm = 1,
    /// Keys and values.
    Kv = 2,
}

/// A namespace and its geometry.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_namespace {
    /// sizeof(byway_namespace).
    pub size: usize,
    /// Its identifier.
    pub nsid: u32,
    /// Its command set: a byway_kind.
    pub kind: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes in use, where the device reports them.
    pub used_bytes: u64,
    /// BYWAY_KIND_NVM: number of blocks.
    pub blocks: u64,
    /// BYWAY_KIND_NVM: size of a block in bytes.
    pub lba_bytes: u32,
    /// BYWAY_KIND_KV: longest key in bytes.
    pub key_max_bytes: u32,
    /// BYWAY_KIND_KV: longest value in bytes.
    pub value_max_bytes: u32,
    /// BYWAY_KIND_KV: most keys, 0 if only the size limits them.
    pub keys_max: u32,
    /// Globally unique identifier (NGUID), zeroes if it has none.
    pub nguid: [u8; 16],
}
crossing!(byway_namespace of 72);

/// Opens the device that `uri` names: "/dev/nvme0n1", "./blocks", "file:PATH" for a block device or a file,
/// "embedded:PATH", "embedded-ram:SIZE", "embedded-null:SIZE" for a device in this process, "null-backend:SIZE" for none; options behind a question
/// mark ("./blocks?direct=1"). On failure the message says what was tried, and why each failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_open(
    uri: *const c_char,
    options: *const byway_open_options,
    device: *mut *mut byway_device,
) -> c_int {
    border(|| {
        want(device, "device")?;
        // SAFETY: by the contract.
        let opened = unsafe { open(uri, options) }?;
        // SAFETY: by the contract.
        unsafe { put(device, Box::into_raw(Box::new(byway_device::new(opened))), "device") }?;
        Ok(0)
    })
}

/// Closes a device; NULL is none. What an image holds is synced and marked as closed; the handle is gone even if that
/// fails. Close its queues first: of a device in this process, the image stays in use until its last queue is closed.
/// While a byway_admin of it is open it is refused, and stays open. In a forked child of the process that opened it the
/// handle goes, the device stays as it is, and the call is refused with BYWAY_ERROR_KIND_DENIED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_close(device: *mut byway_device) -> c_int {
    border(|| {
        if device.is_null() {
            return Ok(0);
        }
        // SAFETY: by the contract.
        let is_here = unsafe { &(*device).device }.check_owner().is_ok();
        // SAFETY: by the contract.
        if is_here && Arc::strong_count(unsafe { &(*device).device }) > 1 {
            return Err(Error::host(ErrorKind::Busy, "admin commands of the device are open"));
        }
        // SAFETY: `byway_open` made it, and the program does not use it again.
        let closed = unsafe { Box::from_raw(device) };
        closed.device.check_owner()?;
        Arc::into_inner(closed.device).map_or(Ok(0), |device| device.close().map(|()| 0))
    })
}

/// Gets a device's identity, the backend that serves it, and why that backend was chosen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_get_info(
    device: *const byway_device,
    info: *mut byway_device_info,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { device_of(device) }?;
        // SAFETY: by the contract.
        unsafe { sized::write(info, &device.info()) }?;
        Ok(0)
    })
}

/// Gets a faster backend that could not serve the device, and why: `index` counts from 0 up to `passed_over` of
/// byway_device_info. The texts live until the device is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_passed_over(
    device: *const byway_device,
    index: u32,
    backend: *mut *const c_char,
    why: *mut *const c_char,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { device_of(device) }?;
        let all = device.passed_over.len();
        let one = device.passed_over.get(index as usize);
        let (name, reason) = one.ok_or_else(|| invalid(format!("{index} of {all} backends passed over")))?;
        // SAFETY: by the contract.
        unsafe {
            put(backend, name.as_ptr(), "backend")?;
            put(why, reason.as_ptr(), "why")?;
        }
        Ok(0)
    })
}

/// Lists the attached namespaces, read anew from the device: at most `max`, of which the first has its `size` set.
/// Returns how many there are, which may be more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_namespaces(
    device: *const byway_device,
    namespaces: *mut byway_namespace,
    max: u32,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let all = unsafe { byway_device::shared(device) }?.namespaces()?;
        // SAFETY: by the contract.
        unsafe { sized::fill(namespaces, max as usize, all.iter().map(namespace_of)) }?;
        Ok(count(all.len()))
    })
}

/// Gets the namespace that calls use: `nsid`, or for 0 the URI's, or the device's first of kind `kind`. Of kind
/// BYWAY_KIND_OTHER, `nsid` or that of the URI, whatever it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_namespace(
    device: *const byway_device,
    nsid: u32,
    kind: u32,
    namespace: *mut byway_namespace,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let device = unsafe { byway_device::shared(device) }?;
        let nsid = nsid_or_first(nsid)?;
        let found = if kind == byway_kind::Nvm as u32 {
            device.nvm_namespace(nsid)?
        } else if kind == byway_kind::Kv as u32 {
            device.kv_namespace(nsid)?
        } else if kind == byway_kind::Other as u32 {
            let none = || invalid("neither nsid nor the URI names a namespace");
            device.namespace(nsid.or(device.default_namespace()).ok_or_else(none)?)?
        } else {
            return Err(invalid(format!("there is no kind {kind} of namespaces")));
        };
        // SAFETY: by the contract.
        unsafe { sized::write(namespace, &namespace_of(&found)) }?;
        Ok(0)
    })
}

/// # Safety
/// As of [`byway_open`].
unsafe fn open(uri: *const c_char, options: *const byway_open_options) -> Result<Device> {
    // SAFETY: by the contract.
    let uri = unsafe { text(uri, "uri") }?;
    if options.is_null() {
        return byway::open(uri);
    }
    // SAFETY: by the contract.
    let options = unsafe { sized::read(options) }?;
    if options.reserved != 0 {
        return Err(invalid("byway_open_options.reserved is not 0"));
    }
    // SAFETY: by the contract.
    let more = unsafe { text_or_none(options.options, "byway_open_options.options") }?;
    let uri = byway::uri::with_options(uri, more.unwrap_or_default());
    if options.read_only != 0 { byway::open_to_read(&uri) } else { byway::open(&uri) }
}

/// The device, in the process that opened it.
///
/// # Safety
/// As [`shared`].
unsafe fn device_of<'a>(device: *const byway_device) -> Result<&'a byway_device> {
    // SAFETY: the caller's word.
    let device = unsafe { shared(device, "device") }?;
    device.device.check_owner()?;
    Ok(device)
}

impl byway_device {
    fn new(device: Device) -> Self {
        let (chosen, identity) = (device.chosen(), device.identity());
        let words = Words {
            backend: c_text(chosen.backend),
            why: c_text(&chosen.why),
            model: c_text(&identity.model),
            serial: c_text(&identity.serial),
            firmware: c_text(&identity.firmware),
            subsystem: c_text(&identity.subsystem),
            methods: c_text(&device.capabilities().methods.to_string()),
        };
        let passed_over = chosen.passed_over.iter();
        let passed_over = passed_over.map(|one| (c_text(one.backend), c_text(&one.why))).collect();
        Self { device: Arc::new(device), words, passed_over }
    }

    /// The device behind a handle.
    ///
    /// # Safety
    /// NULL, or a handle that is not closed for as long as `'a`.
    pub(crate) unsafe fn shared<'a>(device: *const Self) -> Result<&'a Device> {
        // SAFETY: the caller's word.
        unsafe { device_of(device) }.map(|device| &*device.device)
    }

    /// The device behind a handle, and the names of its transfer methods.
    ///
    /// # Safety
    /// As [`byway_device::shared`].
    pub(crate) unsafe fn with_methods<'a>(device: *const Self) -> Result<(&'a Device, &'a CStr)> {
        // SAFETY: the caller's word.
        unsafe { device_of(device) }.map(|device| (&*device.device, &*device.words.methods))
    }

    /// The device behind a handle, if it is one in this process.
    ///
    /// # Safety
    /// As [`byway_device::shared`].
    pub(crate) unsafe fn embedded<'a>(device: *const Self) -> Result<&'a embedded::EmbeddedDevice> {
        let said =
            "only a device in this process (embedded:, embedded-ram:, embedded-null:) has this information";
        let none = || Error::host(ErrorKind::Unsupported, said);
        // SAFETY: the caller's word.
        unsafe { Self::shared(device) }?.as_embedded().ok_or_else(none)
    }

    /// The device behind a handle, for a caller that keeps it open.
    ///
    /// # Safety
    /// NULL, or a handle that is not closed meanwhile.
    pub(crate) unsafe fn kept(device: *const Self) -> Result<Arc<Device>> {
        // SAFETY: the caller's word.
        unsafe { device_of(device) }.map(|device| Arc::clone(&device.device))
    }

    fn info(&self) -> byway_device_info {
        let identity = self.device.identity();
        let (major, minor, tertiary) = identity.version;
        byway_device_info {
            size: size_of::<byway_device_info>(),
            backend: self.words.backend.as_ptr(),
            why: self.words.why.as_ptr(),
            model: self.words.model.as_ptr(),
            serial: self.words.serial.as_ptr(),
            firmware: self.words.firmware.as_ptr(),
            subsystem: self.words.subsystem.as_ptr(),
            passed_over: self.passed_over.len() as u32,
            controller: identity.controller,
            vendor: identity.vendor,
            version: u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(tertiary),
            is_byway: u32::from(identity.byway),
        }
    }
}

fn namespace_of(namespace: &Namespace) -> byway_namespace {
    let mut seen = byway_namespace {
        size: size_of::<byway_namespace>(),
        nsid: namespace.nsid.get(),
        kind: byway_kind::Other as u32,
        size_bytes: namespace.size_bytes,
        used_bytes: namespace.used_bytes,
        blocks: 0,
        lba_bytes: 0,
        key_max_bytes: 0,
        value_max_bytes: 0,
        keys_max: 0,
        nguid: namespace.nguid,
    };
    match namespace.kind {
        NamespaceKind::Nvm { lba_bytes, blocks } => {
            (seen.kind, seen.lba_bytes, seen.blocks) = (byway_kind::Nvm as u32, lba_bytes, blocks);
        }
        NamespaceKind::Kv { key_max_bytes, value_max_bytes, keys_max } => {
            seen.kind = byway_kind::Kv as u32;
            seen.key_max_bytes = key_max_bytes.into();
            (seen.value_max_bytes, seen.keys_max) = (value_max_bytes, keys_max);
        }
        _ => {}
    }
    seen
}
